//! Answers on the tunnel's control socket ([`lasthop_daemon::control`]): its status, and a report on the gain of repair
//! if some flows are left unrepaired.

use std::path::Path;

pub use lasthop_daemon::control::{ControlError, Request};
use lasthop_settings::tunnel::{Mode, Peer};
use serde_json::{Value, json};

use crate::WHO;
use crate::daemon::state::State;

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

/// Returns state and statistics.
pub(super) fn status(state: &State) -> Value {
    let mut status = state.status(json!({ "device": state.configuration.device }));
    let (mode, key, value) = match &state.configuration.mode {
        Mode::Tun { listen, .. } => ("tun", "listen", listen.to_string()),
        Mode::Bridge { interface } => ("bridge", "interface", interface.clone()),
    };
    (status["mode"], status[key]) = (mode.into(), value.into());
    if let (Value::Object(all), Ok(Value::Object(snapshot))) = (&mut status, serde_json::to_value(&state.snapshot)) {
        all.extend(snapshot);
    }
    status
}

/// Combines each peer's configuration with the results of its comparison.
pub(super) fn report(state: &State) -> Value {
    let peer = |peer: &Peer| {
        let mut value = json!({ "name": peer.name, "ab": peer.ab.get() });
        let found = state.snapshot.peers.iter().find(|snapshot| snapshot.name == peer.name);
        let found = found.and_then(|snapshot| snapshot.comparison).map(|comparison| json!(comparison));
        if let (Value::Object(all), Some(Value::Object(more))) = (&mut value, found) {
            all.extend(more);
        }
        value
    };
    json!({ "peers": state.configuration.peers.iter().map(peer).collect::<Vec<_>>() })
}
