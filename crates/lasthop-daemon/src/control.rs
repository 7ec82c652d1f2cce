//! A control socket: one JSON request a line, one JSON answer a line: `{"ok":true,"result":...}` or
//! `{"ok":false,"error":"..."}`.
//!
//! | request | answer |
//! |---|---|
//! | `{"request":"status"}` | what runs, and what it has done |
//! | `{"request":"report"}` | what the daemon's work gains |
//! | `{"request":"reload"}` | after the configuration file was read again |

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lasthop_scenario::reading::Group;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clients::{self, Client, PATIENCE};
use crate::groups::{self, GroupError};
use crate::wishes::Wishes;

/// Most bytes of a request.
const LONGEST_REQUEST: usize = 4096;
/// Most bytes of an answer.
const LONGEST_ANSWER: u64 = 4 << 20;
/// Most requests on one connection.
const MOST_REQUESTS: usize = 64;
/// How long a reload may take: programs that change rules may wait for each other, and names of hosts are resolved.
const RELOAD_PATIENCE: Duration = Duration::from_secs(20);

/// What is asked on the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What runs, and what it has done.
    Status,
    /// What the daemon's work gains.
    Report,
    /// Read the configuration file again.
    Reload,
}

/// Why the socket cannot be had, or does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A daemon has it.
    #[error("{}: a {who} runs already", path.display())]
    Busy {
        /// What kind.
        who: &'static str,
        /// The socket.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{}: is no socket; give another path as `control`", path.display())]
    NoSocket {
        /// What is there.
        path: PathBuf,
    },
    /// It cannot be seen what is there.
    #[error("{}: cannot see whether a {who} answers there: {error}", path.display())]
    Look {
        /// What kind.
        who: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// One that nobody answers on cannot be removed.
    #[error("{}: cannot remove the socket that a dead {who} left: {error}", path.display())]
    Remove {
        /// What kind.
        who: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
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
    #[error("{}: {}: {error}", path.display(), why_unanswered(who, .error))]
    Ask {
        /// Whoever does not.
        who: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The daemon says no.
    #[error("{0}")]
    Refused(String),
}

/// What an error in asking means.
fn why_unanswered(who: &str, error: &io::Error) -> String {
    match error.kind() {
        // It may run all the same.
        io::ErrorKind::PermissionDenied => {
            "only the socket's owner and group may ask: use sudo, or join its group".to_owned()
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!("no {who} answers"),
        _ => format!("the {who} has not answered"),
    }
}

/// Asks the daemon whose control socket is `path` and that messages call `who`.
///
/// # Errors
///
/// When nobody answers, or the answer is no.
pub fn ask(path: &Path, who: &'static str, request: Request) -> Result<Value, ControlError> {
    let fail = |error| ControlError::Ask { path: path.to_owned(), who, error };
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

/// What is told of a request: what `status` or `report` say, or that `wishes` had the configuration read again.
///
/// # Errors
///
/// When it is no request, or the configuration was not taken.
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
        Err(_) => Err("expected {\"request\":\"status\"}, \"report\" or \"reload\", on one line".to_owned()),
    }
}

/// The socket, before anybody is answered. Its file goes away with it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the socket's file at the end.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have been quicker.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What is where a control socket is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nothing.
    Free,
    /// The socket of a daemon that is dead.
    Stale,
    /// The socket of one that runs.
    Taken,
}

/// What is at `path`; messages call the daemon `who`.
///
/// # Errors
///
/// When it is no socket, or cannot be seen.
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

/// Removes the socket that a dead daemon left, which messages call `who`. Fails when one answers on it, or it is none.
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
    /// Makes the socket, for its owner and group only; the group is this process's, or the one given.
    pub fn bind(path: &Path, who: &'static str, group: Option<&Group>) -> Result<Self, ControlError> {
        remove_stale(path, who)?;
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

    /// Answers in threads of its own: `answer` says what is told of a request.
    ///
    /// # Errors
    ///
    /// When there can be no thread.
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
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let found = |name: &str| place(&path(name), "tunnel").map_err(|error| error.to_string());
        assert_eq!(found("none"), Ok(Place::Free));
        std::fs::write(path("file"), "text").unwrap();
        assert!(found("file").unwrap_err().ends_with("file: is no socket; give another path as `control`"));
        // Nothing was to be made.
        let error = found("file/below").unwrap_err();
        assert!(error.contains("cannot see whether a tunnel answers there: "), "{error}");
        let listener = UnixListener::bind(path("socket")).unwrap();
        assert_eq!(found("socket"), Ok(Place::Taken));
        assert!(matches!(remove_stale(&path("socket"), "tunnel"), Err(ControlError::Busy { .. })));
        drop(listener);
        assert_eq!(found("socket"), Ok(Place::Stale));
        remove_stale(&path("socket"), "tunnel").unwrap();
        assert_eq!(found("socket"), Ok(Place::Free));
    }
}
