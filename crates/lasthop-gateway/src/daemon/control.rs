//! The control socket: one JSON request a line, one JSON answer a line.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | what runs, and what it has done |
//! | `{"request":"report"}` | what the treatment gains |
//! | `{"request":"reload"}` | after the configuration file was read again |
//!
//! An answer is `{"ok":true,"result":...}` or `{"ok":false,"error":"..."}`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::configuration::{Bridge, Group, Rule};
use crate::daemon::clients::{self, Client, PATIENCE};
use crate::daemon::groups::{self, GroupError};
use crate::daemon::snapshot::RuleSnapshot;
use crate::daemon::state::{SharedState, State, Wishes};

/// Most bytes of a request.
const LONGEST_REQUEST: usize = 4096;
/// Most bytes of an answer.
const LONGEST_ANSWER: u64 = 4 << 20;
/// Most requests on one connection.
const MOST_REQUESTS: usize = 64;
/// How long a reload may take: programs that change rules may wait for each other.
const RELOAD_PATIENCE: Duration = Duration::from_secs(20);

/// What is asked on the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What runs, and what it has done.
    Status,
    /// What the treatment gains.
    Report,
    /// Read the configuration file again.
    Reload,
}

/// Why the socket cannot be had, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A gateway has it.
    #[error("{}: a gateway runs already", path.display())]
    Busy {
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{}: is no socket; give another path as `control`", path.display())]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("{}: cannot make the control socket: {error}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It cannot be given to its group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// Nobody answers.
    #[error("{}: {}: {error}", path.display(), why_unanswered(.error))]
    Ask {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The gateway says no.
    #[error("{0}")]
    Refused(String),
}

/// What an error in asking means.
fn why_unanswered(error: &io::Error) -> &'static str {
    match error.kind() {
        // It may run all the same.
        io::ErrorKind::PermissionDenied => "only the socket's owner and group may ask: use sudo, or join its group",
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no gateway answers",
        _ => "the gateway has not answered",
    }
}

/// Asks the gateway whose control socket is `path`.
pub fn ask(path: &Path, request: Request) -> Result<Value, ControlError> {
    let fail = |error| ControlError::Ask { path: path.to_owned(), error };
    let answer = exchange(path, request).map_err(fail)?;
    match (answer.get("ok"), answer.get("error").and_then(Value::as_str)) {
        (Some(Value::Bool(true)), _) => Ok(answer.get("result").cloned().unwrap_or(Value::Null)),
        (_, Some(error)) => Err(ControlError::Refused(error.to_owned())),
        _ => Err(fail(io::ErrorKind::InvalidData.into())),
    }
}

fn exchange(path: &Path, request: Request) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(RELOAD_PATIENCE + PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// The socket, before anybody is answered. Its file goes away with it.
#[derive(Debug)]
pub(super) struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the socket's file at the end.
#[derive(Debug)]
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have been quicker.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes the socket that a dead gateway left. Fails when a gateway answers on it, or it is none.
pub fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let fail = |error| ControlError::Bind { path: path.to_owned(), error };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fail(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(ControlError::NoSocket { path: path.to_owned() }),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Err(ControlError::Busy { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(fail),
            Err(error) => Err(fail(error)),
        },
    }
}

impl Listener {
    /// Makes the socket, for its owner and group only; the group is this process's, or the one given.
    pub fn bind(path: &Path, group: Option<&Group>) -> Result<Self, ControlError> {
        remove_stale(path)?;
        let fail = |error| ControlError::Bind { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fail)?;
        }
        // Nobody can connect between its making and the permissions: it is made with none for others.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(mask);
        let listener = listener.map_err(fail)?;
        let file = SocketFile(path.to_owned());
        group.map_or(Ok(()), |group| groups::give(path, group))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(fail)?;
        Ok(Self { listener, file })
    }

    /// Answers in threads of its own.
    pub fn serve(self, state: SharedState, wishes: Wishes) -> io::Result<SocketFile> {
        const BUSY: &[u8] = b"{\"ok\":false,\"error\":\"too many requests at once; try again\"}\n";
        let Self { listener, file } = self;
        clients::serve("control", listener, BUSY, move |client| answer_all(client, &state, &wishes))?;
        Ok(file)
    }
}

fn answer_all(client: &mut Client, state: &SharedState, wishes: &Wishes) -> io::Result<()> {
    let line_end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    for _ in 0..MOST_REQUESTS {
        let mut ends = true;
        let heard = client.hear(LONGEST_REQUEST, line_end, |line| {
            ends = line.last() != Some(&b'\n');
            let answer = match serde_json::from_slice::<Request>(line) {
                Ok(request) => answer(request, state, wishes),
                Err(_) => Err("expected {\"request\":\"status\"}, \"report\" or \"reload\", on one line".to_owned()),
            };
            let answer = match answer {
                Ok(result) => json!({ "ok": true, "result": result }),
                Err(error) => json!({ "ok": false, "error": error }),
            };
            let mut bytes = serde_json::to_vec(&answer)?;
            bytes.push(b'\n');
            Ok(bytes)
        })?;
        if !heard || ends {
            break;
        }
    }
    Ok(())
}

fn answer(request: Request, state: &SharedState, wishes: &Wishes) -> Result<Value, String> {
    match request {
        Request::Status => Ok(status(&state.lock())),
        Request::Report => Ok(report(&state.lock())),
        Request::Reload => wishes.reload(RELOAD_PATIENCE).map(|()| Value::Null),
    }
}

fn status(state: &State) -> Value {
    let bridge = state.gateway.bridge.as_ref();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": state.started.elapsed().as_secs_f64(),
        "worker": { "pid": state.worker, "restarts": state.restarts },
        "reloads": state.reloads,
        "firewall": bridge.is_none().then(|| json!({
            "in_place": state.rules.in_place, "restored": state.rules.restored, "problem": state.rules.problem,
        })),
        "bridge": bridge.map(|Bridge { wired, wireless }| json!({ "wired": wired, "wireless": wireless })),
        "limits": { "cache_bytes": state.gateway.limits.cache, "flows": state.gateway.limits.flows },
        "flows": state.snapshot.flows,
        "cached_bytes": state.snapshot.cached_bytes,
        "unread": state.snapshot.unread,
        "damaged": state.snapshot.damaged,
        "out_of_window": state.snapshot.out_of_window,
        "unmatched": state.snapshot.unmatched,
        "packets": state.snapshot.packets,
        "rules": rules(state, |snapshot| json!(snapshot)),
        "split": state.snapshot.split,
    })
}

fn report(state: &State) -> Value {
    let report = |rule: &RuleSnapshot| {
        json!({
            "treated": rule.treated,
            "untreated": rule.untreated,
            "gain": rule.gain,
            "wireless_losses": rule.wireless_losses,
            "wired_losses": rule.wired_losses,
            "repairs": rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer,
            "rtt_wired": rule.rtt_wired,
            "rtt_wireless": rule.rtt_wireless,
        })
    };
    json!({ "rules": rules(state, report), "split": state.snapshot.split })
}

/// What the configuration says about each rule, and what the worker does.
fn rules(state: &State, describe: impl Fn(&RuleSnapshot) -> Value) -> Vec<Value> {
    let rule = |rule: &Rule| {
        let mut value = json!({
            "name": rule.name, "mode": rule.mode.name(), "interface": rule.interface, "ab": rule.ab.get(),
        });
        let found = state.snapshot.rules.iter().find(|snapshot| snapshot.name == rule.name);
        if let (Value::Object(all), Some(Value::Object(more))) = (&mut value, found.map(&describe)) {
            all.extend(more);
        }
        value
    };
    state.gateway.rules.iter().map(rule).collect()
}
