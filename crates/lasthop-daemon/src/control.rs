//! Control socket with one JSON request per line and one JSON answer per line: `{"ok":true,"result":...}` or
//! `{"ok":false,"error":"..."}`.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | state and statistics |
//! | `{"request":"report"}` | effect of the daemon's work |
//! | `{"request":"reload"}` | sent after the configuration file was read again |

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lasthop_settings::reading::Group;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clients::{self, Client, PATIENCE};
use crate::groups::{self, GroupError};
use crate::wishes::Wishes;

/// Maximum size of a request, in bytes.
const LONGEST_REQUEST: usize = 4096;
/// Maximum size of an answer, in bytes.
const LONGEST_ANSWER: u64 = 4 << 20;
/// Maximum number of requests on one connection.
const MOST_REQUESTS: usize = 64;
/// Maximum time of a reload: programs that change rules may wait for each other, and host names are resolved.
const RELOAD_PATIENCE: Duration = Duration::from_secs(20);

/// Request on the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Return state and statistics.
    Status,
    /// Return the effect of the daemon's work.
    Report,
    /// Read the configuration file again.
    Reload,
}

/// Reason why the socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A running daemon uses the socket.
    #[error("{}: a {who} is already running", path.display())]
    Busy {
        /// Kind of daemon.
        who: &'static str,
        /// Path of the socket.
        path: PathBuf,
    },
    /// The path exists and is not a socket.
    #[error("{}: not a socket; set `control` to another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The state of the path cannot be determined.
    #[error("{}: cannot determine whether a {who} is running: {error}", path.display())]
    Look {
        /// Kind of daemon.
        who: &'static str,
        /// Path of the socket.
        path: PathBuf,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// A stale socket cannot be removed.
    #[error("{}: cannot remove the stale socket of a {who}: {error}", path.display())]
    Remove {
        /// Kind of daemon.
        who: &'static str,
        /// Path of the socket.
        path: PathBuf,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// The socket cannot be created.
    #[error("{}: cannot create the control socket: {error}", path.display())]
    Bind {
        /// Path of the socket.
        path: PathBuf,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// The group of the socket cannot be set.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// No daemon answers.
    #[error("{}: {}: {error}", path.display(), why_unanswered(who, .error))]
    Ask {
        /// Kind of daemon.
        who: &'static str,
        /// Path of the socket.
        path: PathBuf,
        /// Error returned by the operating system.
        error: io::Error,
    },
    /// The daemon returned an error.
    #[error("{0}")]
    Refused(String),
}

/// Describes the meaning of an error of a request.
fn why_unanswered(who: &str, error: &io::Error) -> String {
    match error.kind() {
        // The daemon may be running nevertheless.
        io::ErrorKind::PermissionDenied => {
            "only the socket's owner and group have access: use sudo, or join its group, which `control_group` in the \
             daemon's configuration names"
                .to_owned()
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!("no {who} is running"),
        _ => format!("no answer from the {who}"),
    }
}

impl ControlError {
    /// Returns whether no daemon is running.
    pub fn is_absence(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(self, Self::Ask { error, .. } if matches!(error.kind(), NotFound | ConnectionRefused))
    }
}

/// Sends a request to the daemon whose control socket is `path`; `who` identifies it in messages.
///
/// # Errors
///
/// Returns an error if no daemon answers, or it returns an error.
pub fn ask(path: &Path, who: &'static str, request: Request) -> Result<Value, ControlError> {
    ask_within(path, who, request, RELOAD_PATIENCE + PATIENCE)
}

/// Sends a request like [`ask`], and waits for the answer for at most `patience`.
///
/// # Errors
///
/// Returns an error if no daemon answers in time, or it returns an error.
pub fn ask_within(path: &Path, who: &'static str, request: Request, patience: Duration) -> Result<Value, ControlError> {
    let fail = |error| ControlError::Ask { path: path.to_owned(), who, error };
    let answer = exchange(path, request, patience).map_err(fail)?;
    match (answer.get("ok"), answer.get("error").and_then(Value::as_str)) {
        (Some(Value::Bool(true)), _) => Ok(answer.get("result").cloned().unwrap_or(Value::Null)),
        (_, Some(error)) => Err(ControlError::Refused(error.to_owned())),
        _ => Err(fail(io::ErrorKind::InvalidData.into())),
    }
}

fn exchange(path: &Path, request: Request, patience: Duration) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST_ANSWER)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

/// Returns the answer to a request: the result of `status` or `report`, or the outcome of a reload through `wishes`.
///
/// # Errors
///
/// Returns an error if the request is invalid, or the configuration was refused.
pub fn answer(
    line: &[u8],
    status: impl FnOnce() -> Value,
    report: impl FnOnce() -> Value,
    wishes: &Wishes,
) -> Result<Value, String> {
    match serde_json::from_slice(line) {
        Ok(Request::Status) => Ok(status()),
        Ok(Request::Report) => Ok(report()),
        Ok(Request::Reload) => wishes.reload(RELOAD_PATIENCE).map(|()| Value::Null),
        Err(_) => Err("expected {\"request\":\"status\"}, \"report\" or \"reload\" on one line".to_owned()),
    }
}

/// The socket before requests are served. Dropping it removes its file.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the socket's file when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// State of a control socket's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The path does not exist.
    Free,
    /// The socket of a daemon that no longer runs.
    Stale,
    /// The socket of a running daemon.
    Taken,
}

/// Returns the state of `path`; `who` identifies the daemon in messages.
///
/// # Errors
///
/// Returns an error if `path` is not a socket, or its state cannot be determined.
pub fn place(path: &Path, who: &'static str) -> Result<Place, ControlError> {
    let fail = |error| ControlError::Look { who, path: path.to_owned(), error };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Place::Free),
        Err(error) => Err(fail(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => Err(ControlError::NoSocket { path: path.to_owned() }),
        Ok(_) => match UnixStream::connect(path) {
            Ok(_) => Ok(Place::Taken),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Place::Stale),
            Err(error) => Err(fail(error)),
        },
    }
}

/// Removes a stale socket; `who` identifies the daemon in messages. Fails if a daemon answers on it, or if it is not a
/// socket.
pub fn remove_stale(path: &Path, who: &'static str) -> Result<(), ControlError> {
    match place(path, who)? {
        Place::Free => Ok(()),
        Place::Taken => Err(ControlError::Busy { path: path.to_owned(), who }),
        Place::Stale => {
            std::fs::remove_file(path).map_err(|error| ControlError::Remove { who, path: path.to_owned(), error })
        }
    }
}

impl Listener {
    /// Creates the socket for its owner and group only. The group is this process's unless one is given.
    pub fn bind(path: &Path, who: &'static str, group: Option<&Group>) -> Result<Self, ControlError> {
        remove_stale(path, who)?;
        let fail = |error| ControlError::Bind { path: path.to_owned(), error };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fail)?;
        }
        // The socket is created without permissions for others, so that no client can connect before they are set.
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        rustix::process::umask(mask);
        let listener = listener.map_err(fail)?;
        let file = SocketFile(path.to_owned());
        group.map_or(Ok(()), |group| groups::give(path, group))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(fail)?;
        Ok(Self { listener, file })
    }

    /// Serves requests in threads of its own; `answer` returns the answer to a request.
    ///
    /// # Errors
    ///
    /// Returns an error if no thread can be started.
    pub fn serve(
        self,
        answer: impl Fn(&[u8]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> io::Result<SocketFile> {
        const BUSY: &[u8] = b"{\"ok\":false,\"error\":\"too many requests at once; try again\"}\n";
        let Self { listener, file } = self;
        clients::serve("control", listener, BUSY, move |client| answer_all(client, &answer))?;
        Ok(file)
    }
}

fn answer_all(client: &mut Client, answer: impl Fn(&[u8]) -> Result<Value, String>) -> io::Result<()> {
    let line_end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    for _ in 0..MOST_REQUESTS {
        let mut ends = true;
        let heard = client.hear(LONGEST_REQUEST, line_end, |line| {
            ends = line.last() != Some(&b'\n');
            let answer = match answer(line) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_told_from_a_missing_daemon() {
        let error = |kind: io::ErrorKind| ControlError::Ask {
            who: "tunnel",
            path: "/run/lasthop/tunnel.sock".into(),
            error: kind.into(),
        };
        let denied = error(io::ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("`control_group`") && !denied.is_absence(), "{denied}");
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused] {
            assert!(error(kind).to_string().contains("no tunnel is running") && error(kind).is_absence());
        }
        assert!(!error(io::ErrorKind::TimedOut).is_absence());
    }

    /// A daemon that is stopped accepts connections, but does not answer.
    #[test]
    fn a_daemon_that_hangs_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let error = ask_within(&path, "tunnel", Request::Status, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("no answer from the tunnel") && !error.is_absence(), "{error}");
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let found = |name: &str| place(&path(name), "tunnel").map_err(|error| error.to_string());
        assert_eq!(found("none"), Ok(Place::Free));
        std::fs::write(path("file"), "text").unwrap();
        assert!(found("file").unwrap_err().ends_with("file: not a socket; set `control` to another path"));
        // The check must not create anything.
        let error = found("file/below").unwrap_err();
        assert!(error.contains("cannot determine whether a tunnel is running: "), "{error}");
        let listener = UnixListener::bind(path("socket")).unwrap();
        assert_eq!(found("socket"), Ok(Place::Taken));
        assert!(matches!(remove_stale(&path("socket"), "tunnel"), Err(ControlError::Busy { .. })));
        drop(listener);
        assert_eq!(found("socket"), Ok(Place::Stale));
        remove_stale(&path("socket"), "tunnel").unwrap();
        assert_eq!(found("socket"), Ok(Place::Free));
    }
}
