//! What the tunnel answers on its control socket ([`lasthop_daemon::control`]): its status, and what repair gains where some flows go
//! without.

use std::path::Path;

pub use lasthop_daemon::control::{ControlError, Request};
use lasthop_daemon::wishes::Wishes;
use lasthop_scenario::tunnel::{Mode, Peer};
use serde_json::{Value, json};

use crate::WHO;
use crate::daemon::supervisor::{SharedState, State};

/// Asks the tunnel whose control socket is `path`.
///
/// # Errors
///
/// When nobody answers, or the answer is no.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    lasthop_daemon::control::ask(path, WHO, request)
}

/// Removes the socket that a dead tunnel left: whether there was one.
///
/// # Errors
///
/// When a tunnel answers on it, or it is none.
pub fn remove_stale(path: &Path) -> Result<bool, ControlError> {
    let there = path.symlink_metadata().is_ok();
    lasthop_daemon::control::remove_stale(path, WHO).map(|()| there)
}

/// What is told of a request.
pub(super) fn answer(line: &[u8], state: &SharedState, wishes: &Wishes) -> Result<Value, String> {
    lasthop_daemon::control::answer(line, || status(&state.lock()), || report(&state.lock()), wishes)
}

fn status(state: &State) -> Value {
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": state.started.elapsed().as_secs_f64(),
        "worker": { "pid": state.worker, "restarts": state.restarts },
        "reloads": state.reloads,
        "device": state.tunnel.device,
    });
    let (mode, key, value) = match &state.tunnel.mode {
        Mode::Tun { listen, .. } => ("tun", "listen", listen.to_string()),
        Mode::Bridge { interface } => ("bridge", "interface", interface.clone()),
    };
    (status["mode"], status[key]) = (mode.into(), value.into());
    if let (Value::Object(all), Ok(Value::Object(snapshot))) = (&mut status, serde_json::to_value(&state.snapshot)) {
        all.extend(snapshot);
    }
    status
}

/// What the configuration says about each peer, and what its flows came to.
fn report(state: &State) -> Value {
    let peer = |peer: &Peer| {
        let mut value = json!({ "name": peer.name, "ab": peer.ab.get() });
        let found = state.snapshot.peers.iter().find(|snapshot| snapshot.name == peer.name);
        let found = found.and_then(|snapshot| snapshot.comparison).map(|comparison| json!(comparison));
        if let (Value::Object(all), Some(Value::Object(more))) = (&mut value, found) {
            all.extend(more);
        }
        value
    };
    json!({ "peers": state.tunnel.peers.iter().map(peer).collect::<Vec<_>>() })
}
