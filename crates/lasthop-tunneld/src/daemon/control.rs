//! Answers on the tunnel's control socket ([`lasthop_daemon::control`]): its status, and a report on the gain of repair
//! if some flows are left unrepaired.

use std::path::Path;

pub use lasthop_daemon::control::{ControlError, Request};
use lasthop_settings::tunnel::{Mode, Peer, Tunnel};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::WHO;
use crate::daemon::snapshot::{ComparisonSnapshot, PathSnapshot, Snapshot};
use crate::daemon::state::State;
use crate::daemon::usage;

/// Sends a request to the tunnel whose control socket is `path`.
///
/// # Errors
///
/// Returns an error if no tunnel answers, or it returns an error.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    lasthop_daemon::control::ask(path, WHO, request)
}

/// Removes the socket of a tunnel that no longer runs. Returns whether there was one.
///
/// # Errors
///
/// Returns an error if a tunnel answers on it, or it is not a socket.
pub fn remove_stale(path: &Path) -> Result<bool, ControlError> {
    let there = path.symlink_metadata().is_ok();
    lasthop_daemon::control::remove_stale(path, WHO).map(|()| there)
}

/// Answer to a status request.
pub type Status = lasthop_daemon::status::Status<TunnelStatus>;

/// State and statistics of a tunnel.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct TunnelStatus {
    /// Name of the device.
    pub device: String,
    /// `tun` or `bridge`.
    pub mode: String,
    /// Address of the socket, in mode `tun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Interface towards the hop, in mode `bridge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Latest report of the worker.
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// Answer to a request for a report.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Peers, in the order of the configuration.
    pub peers: Vec<PeerReport>,
}

/// Effect of repair on the packets to a peer.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerReport {
    /// Name of the peer.
    pub name: String,
    /// Share of flows that are left unrepaired.
    pub ab: f64,
    /// Comparison with unrepaired flows, if enabled.
    #[serde(flatten)]
    pub comparison: Option<ComparisonSnapshot>,
    /// Statistics of each path, of a peer with several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathSnapshot>,
}

/// Returns state and statistics.
pub(super) fn status(state: &State) -> Value {
    let Tunnel { device, mode, .. } = &state.configuration;
    let (mode, listen, interface) = match mode {
        Mode::Tun { listen, .. } => ("tun", Some(listen.to_string()), None),
        Mode::Bridge { interface } => ("bridge", None, Some(interface.clone())),
    };
    let (device, mode, snapshot) = (device.clone(), mode.to_owned(), usage::add_to(state.snapshot.clone(), &state.own));
    state.status(TunnelStatus { device, mode, listen, interface, snapshot })
}

/// Combines each peer's configuration with the results of its comparison, and the statistics of its paths.
pub(super) fn report(state: &State) -> Value {
    let snapshot = usage::add_to(state.snapshot.clone(), &state.own);
    let peer = |peer: &Peer| {
        let found = snapshot.peers.iter().find(|snapshot| snapshot.name == peer.name);
        let comparison = found.and_then(|snapshot| snapshot.comparison);
        let paths = found.map_or(&[][..], |snapshot| &snapshot.paths);
        let paths = if paths.len() < 2 { Vec::new() } else { paths.to_vec() };
        PeerReport { name: peer.name.clone(), ab: peer.ab.get(), comparison, paths }
    };
    json!(Report { peers: state.configuration.peers.iter().map(peer).collect() })
}
