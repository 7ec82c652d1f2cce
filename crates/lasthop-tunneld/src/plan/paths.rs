//! Paths to a peer.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid;
use lasthop_settings::tunnel::{Mode, Peer, PeerPath};
use lasthop_tunnel::{Mac, PathConfig, SocketId};
use serde::{Deserialize, Serialize};

use super::{PlanError, resolve};

/// [`hybrid::Multipath`], as plans contain it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Multipath {
    /// Packets are spread over all paths.
    #[default]
    Bond,
    /// Each packet is sent on two paths.
    Redundant,
    /// Packets are sent on the first path that works.
    Failover,
}

impl From<hybrid::Multipath> for Multipath {
    fn from(multipath: hybrid::Multipath) -> Self {
        match multipath {
            hybrid::Multipath::Bond => Self::Bond,
            hybrid::Multipath::Redundant => Self::Redundant,
            hybrid::Multipath::Failover => Self::Failover,
        }
    }
}

impl From<Multipath> for hybrid::Multipath {
    fn from(multipath: Multipath) -> Self {
        match multipath {
            Multipath::Bond => Self::Bond,
            Multipath::Redundant => Self::Redundant,
            Multipath::Failover => Self::Failover,
        }
    }
}

/// Path to a peer.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathPlan {
    /// Name; empty for a peer's only path.
    pub name: String,
    /// Number of the socket from which to send.
    pub socket: u8,
    /// Address at which the peer is called.
    pub endpoint: Option<SocketAddr>,
    /// Last address known to a previous worker, at which the peer is called if it has no endpoint.
    pub last: Option<SocketAddr>,
    /// Rate at which this end sends on the path, in bits per second; `None` to find it automatically.
    pub rate: Option<u64>,
}

impl PathPlan {
    pub(super) fn config(&self) -> PathConfig {
        PathConfig { endpoint: self.endpoint.or(self.last), socket: SocketId(self.socket) }
    }
}

/// Returns the interfaces of all paths, each once.
pub(super) fn interfaces_of(peers: &[Peer]) -> Vec<String> {
    let mut interfaces: Vec<String> = Vec::new();
    for interface in peers.iter().flat_map(|peer| &peer.paths).filter_map(|path| path.interface.as_ref()) {
        if !interfaces.contains(interface) {
            interfaces.push(interface.clone());
        }
    }
    interfaces
}

pub(super) fn path_plan(
    peer: &Peer,
    path: &PeerPath,
    mode: &Mode,
    interfaces: &[String],
) -> Result<PathPlan, PlanError> {
    let endpoint = match (mode, &path.endpoint) {
        (Mode::Bridge { .. }, _) => Some(Mac::BROADCAST.address()),
        (Mode::Tun { .. }, None) => None,
        (Mode::Tun { listen, .. }, Some(endpoint)) => {
            let failed = |detail| PlanError::Endpoint { peer: peer.name.clone(), detail };
            Some(resolve(&endpoint.to_string(), *listen).map_err(failed)?)
        }
    };
    let place = interfaces.iter().position(|interface| Some(interface) == path.interface.as_ref());
    let socket = place.map_or(0, |place| place as u8 + 1);
    Ok(PathPlan { name: path.name.clone().unwrap_or_default(), socket, endpoint, last: None, rate: path.rate })
}
