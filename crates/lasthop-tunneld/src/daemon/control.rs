//! What is answered on the control socket.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | what runs, and what it has done |
//! | `{"request":"report"}` | what repair gains, where some flows go without |
//! | `{"request":"reload"}` | after the configuration file was read again |

use std::path::Path;
use std::time::Duration;

use lasthop_daemon::control::ControlError;
use lasthop_daemon::wishes::Wishes;
use lasthop_scenario::tunnel::Peer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::daemon::supervisor::{SharedState, State};

/// What messages call the daemon.
pub const WHO: &str = "tunnel";

/// How long a reload may take: names of hosts are resolved.
const RELOAD_PATIENCE: Duration = Duration::from_secs(20);

/// What is asked on the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What runs, and what it has done.
    Status,
    /// What repair gains.
    Report,
    /// Read the configuration file again.
    Reload,
}

/// Asks the tunnel whose control socket is `path`.
///
/// # Errors
///
/// When nobody answers, or the answer is no.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    lasthop_daemon::control::ask(path, WHO, &request, RELOAD_PATIENCE)
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
    match serde_json::from_slice::<Request>(line) {
        Ok(Request::Status) => Ok(status(&state.lock())),
        Ok(Request::Report) => Ok(report(&state.lock())),
        Ok(Request::Reload) => wishes.reload(RELOAD_PATIENCE).map(|()| Value::Null),
        Err(_) => Err("expected {\"request\":\"status\"}, \"report\" or \"reload\", on one line".to_owned()),
    }
}

fn status(state: &State) -> Value {
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": state.started.elapsed().as_secs_f64(),
        "worker": { "pid": state.worker, "restarts": state.restarts },
        "reloads": state.reloads,
        "device": state.tunnel.device,
        "listen": state.tunnel.listen.to_string(),
    });
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
