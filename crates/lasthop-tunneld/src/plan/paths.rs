//! Paths to a peer.

use std::net::SocketAddr;

use lasthop_proto::link::hybrid::Terms;
use lasthop_settings::tunnel::{Mode, Peer, PeerPath};
use lasthop_tunnel::{Mac, PathConfig, SocketId};
use serde::{Deserialize, Serialize};

use super::{HopInterface, PlanError, resolve};

/// Serialises the use of several paths by its name.
pub(super) mod multipath_name {
    use lasthop_proto::link::hybrid::Multipath;
    use lasthop_settings::values::Choice;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Error as _, Serializer};

    pub fn serialize<S: Serializer>(multipath: &Multipath, to: S) -> Result<S::Ok, S::Error> {
        let name = multipath.name().ok_or_else(|| S::Error::custom("a use of paths without a name"))?;
        to.serialize_str(name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Multipath, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Multipath::named(&name).ok_or_else(|| D::Error::unknown_variant(&name, &[]))
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
    /// Terms on which this end uses the path.
    #[serde(with = "super::terms")]
    pub terms: Terms,
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

/// Fails if the interface of a path on a bridge exists and cannot be used. `hop` is the interface towards the hop.
pub(super) fn check_lines(peers: &[Peer], hop: &str) -> Result<(), PlanError> {
    for (peer, path) in peers.iter().flat_map(|peer| peer.paths.iter().map(move |path| (peer, path))) {
        let found = path.interface.as_ref().map(|interface| HopInterface::find_line(interface, hop));
        if let Some(Err(detail)) = found {
            let (peer, line) = (peer.name.clone(), path.interface_line);
            return Err(PlanError::Line { peer, path: path.name.clone().unwrap_or_default(), line, detail });
        }
    }
    Ok(())
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
    let (name, rate, terms) = (path.name.clone().unwrap_or_default(), path.rate, path.terms);
    Ok(PathPlan { name, socket, endpoint, last: None, rate, terms })
}
