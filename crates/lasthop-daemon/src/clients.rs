//! Clients of a daemon's socket, each in its own thread. A new client is served at once, regardless of the number and
//! speed of others: a client that has sent no request yet is disconnected to free its place.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

/// Maximum number of clients.
pub const MOST: usize = 32;
/// Maximum time for a client to send a request, and to receive its answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time for which a new client waits for a place while all others wait for answers.
const BUSY: Duration = Duration::from_millis(200);

/// Serves clients that connect to `listener`, in threads named `name`. `answer` handles a client with [`Client::hear`].
/// A client beyond the limit, while all others wait for their answers, receives `busy`.
pub fn serve(
    name: &'static str,
    listener: impl Into<Socket>,
    busy: &'static [u8],
    answer: impl Fn(&mut Client) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let (listener, answer) = (listener.into(), Arc::new(answer));
    let clients = Arc::new(Clients::default());
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        loop {
            let begun = listener.accept().and_then(|(socket, _)| begin(name, socket, busy, &clients, &answer));
            if let Err(error) = begun {
                tracing::debug!(%error, "{name}: cannot serve a client");
                // Without free descriptors or threads it would fail again at once.
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    })?;
    Ok(())
}

fn begin(
    name: &'static str,
    socket: Socket,
    busy: &[u8],
    clients: &Arc<Clients>,
    answer: &Arc<impl Fn(&mut Client) -> io::Result<()> + Send + Sync + 'static>,
) -> io::Result<()> {
    let Some(place) = clients.admit(socket.try_clone()?) else {
        // The answer fits in the socket's buffer and is sent at once.
        socket.set_nonblocking(true)?;
        return (&socket).write_all(busy);
    };
    let mut client = Client { socket, place, heard: Vec::new() };
    let answer = Arc::clone(answer);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(error) = answer(&mut client) {
            tracing::debug!(%error, "{name}: client disconnected");
        }
    })?;
    Ok(())
}

/// Connected clients.
#[derive(Default, Debug)]
struct Clients {
    connected: Mutex<Connected>,
    /// Signalled when a client has been answered or has left.
    answered: Condvar,
}

#[derive(Default, Debug)]
struct Connected {
    last: u64,
    /// Clients in the order of their connection.
    clients: BTreeMap<u64, (Socket, Phase)>,
}

/// State of a client. Clients in earlier states are disconnected first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    /// The client has not sent a request yet.
    Silent,
    /// The answer is being sent.
    Reading,
    /// The client waits for its answer, and is not disconnected.
    Waiting,
}

impl Clients {
    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for the client at the other end of `socket`; `None` if all clients wait for answers for the
    /// whole timeout.
    fn admit(self: &Arc<Self>, socket: Socket) -> Option<Place> {
        let waits = |connected: &mut Connected| {
            connected.clients.len() >= MOST && connected.clients.values().all(|(_, phase)| *phase == Phase::Waiting)
        };
        let held = self.answered.wait_timeout_while(self.connected(), BUSY, waits);
        let (mut connected, timeout) = held.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        if connected.clients.len() >= MOST {
            let (&oldest, _) = connected.clients.iter().min_by_key(|(number, (_, phase))| (*phase, **number))?;
            let (socket, _) = connected.clients.remove(&oldest)?;
            // Its thread reads the end of the stream, and ends.
            let _ = socket.shutdown(Shutdown::Both);
        }
        connected.last += 1;
        let number = connected.last;
        connected.clients.insert(number, (socket, Phase::Silent));
        Some(Place { clients: Arc::clone(self), number })
    }
}

/// Place of a client until it is dropped.
#[derive(Debug)]
struct Place {
    clients: Arc<Clients>,
    number: u64,
}

impl Place {
    /// Changes the client's state. Returns `false` if it was disconnected.
    fn enter(&self, now: Phase) -> bool {
        let known = self.clients.connected().clients.get_mut(&self.number).map(|(_, phase)| *phase = now).is_some();
        self.clients.answered.notify_one();
        known
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.connected().clients.remove(&self.number);
        self.clients.answered.notify_one();
    }
}

/// A client.
pub struct Client {
    socket: Socket,
    place: Place,
    /// Data received after the last request.
    heard: Vec<u8>,
}

impl Client {
    /// Receives the next request and sends the result of `answer`. `end` finds the end of a request, which has at most
    /// `longest` bytes. Returns `false` if the client has left or ended within a request. Takes at most twice
    /// [`PATIENCE`] and the time of `answer`.
    pub fn hear(
        &mut self,
        longest: usize,
        end: impl Fn(&[u8]) -> Option<usize>,
        answer: impl FnOnce(&[u8]) -> io::Result<Vec<u8>>,
    ) -> io::Result<bool> {
        let Some(request) = self.request(longest, end)? else { return Ok(false) };
        if !self.place.enter(Phase::Waiting) {
            return Ok(false);
        }
        let bytes = answer(&request)?;
        self.place.enter(Phase::Reading);
        self.send(&bytes)?;
        Ok(self.place.enter(Phase::Silent))
    }

    fn request(&mut self, longest: usize, end: impl Fn(&[u8]) -> Option<usize>) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = end(&self.heard) {
                let rest = self.heard.split_off(end);
                return Ok(Some(std::mem::replace(&mut self.heard, rest)));
            }
            if self.heard.len() >= longest {
                // A request without an end is answered, and the client is then disconnected.
                return Ok(Some(std::mem::take(&mut self.heard)));
            }
            self.socket.set_read_timeout(Some(left(deadline)?))?;
            let mut chunk = [0; 1024];
            let room = chunk.len().min(longest - self.heard.len());
            match self.socket.read(&mut chunk[..room])? {
                0 => return Ok(None),
                len => self.heard.extend_from_slice(&chunk[..len]),
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            self.socket.set_write_timeout(Some(left(deadline)?))?;
            let sent = self.socket.send_with_flags(bytes, libc::MSG_NOSIGNAL)?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }
}

/// Returns the time until the deadline, or an error if it has passed: a timeout of zero would mean no timeout.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn line_end(bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
    }

    /// Answers each line with itself, `large` with more than any buffer holds, and `wait` after a delay; counts the
    /// latter.
    fn start(path: &Path) -> Arc<AtomicUsize> {
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let listener = UnixListener::bind(path).unwrap();
        serve("test", listener, b"busy\n", move |client| {
            while client.hear(64, line_end, |line| {
                Ok(match line {
                    b"large\n" => vec![b'x'; 1 << 20],
                    b"wait\n" => {
                        count.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_secs(3600));
                        Vec::new()
                    }
                    line => line.to_vec(),
                })
            })? {}
            Ok(())
        })
        .unwrap();
        waiting
    }

    fn connect(path: &Path, request: &str) -> UnixStream {
        let mut stream = UnixStream::connect(path).unwrap();
        // The server may have closed the connection.
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    fn ask(path: &Path, request: &str) -> String {
        let stream = connect(path, request);
        // Less time than a client may take.
        stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_thousand_silent_clients_and_those_that_read_nothing_keep_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        start(&path);
        let mut held = Vec::new();
        for (round, request) in ["", "half a requ", "large\n", ""].into_iter().enumerate() {
            for _ in 0..1000 {
                held.push(connect(&path, request));
                // Stay below this process's limit on open files, which is not under test.
                if held.len() > 500 {
                    held.remove(0);
                }
            }
            assert_eq!(ask(&path, "hello\n"), "hello\n", "round {round}");
        }
    }

    #[test]
    fn who_waits_for_an_answer_is_not_sent_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let count = start(&path);
        let mut waiting = Vec::new();
        for number in 1..=MOST {
            waiting.push(connect(&path, "wait\n"));
            while count.load(Ordering::Relaxed) < number {
                std::thread::yield_now();
            }
        }
        assert_eq!(ask(&path, "hello\n"), "busy\n");
        for stream in waiting {
            stream.set_nonblocking(true).unwrap();
            assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_request_takes_so_long_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        start(&path);
        let mut slow = connect(&path, "");
        let begun = Instant::now();
        // A byte now and then, without end.
        while slow.write_all(b"x").is_ok() {
            assert!(begun.elapsed() < PATIENCE * 5);
            std::thread::sleep(PATIENCE / 10);
        }
        assert_eq!(ask(&path, "hello\n"), "hello\n");
        // Several requests on one connection; and a request without an end is answered in part.
        let stream = connect(&path, "one\ntwo\n");
        let mut lines = BufReader::new(stream).lines();
        assert_eq!((lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()), ("one".into(), "two".into()));
        let mut answer = [0; 64];
        connect(&path, &"x".repeat(100)).read_exact(&mut answer).unwrap();
        assert_eq!(answer, [b'x'; 64]);
    }
}
