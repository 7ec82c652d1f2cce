//! Clients of a socket of a daemon's, each in a thread of its own. However many there are and however slow, a new one is
//! heard at once: one that has asked nothing yet makes room for it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

/// Most clients at once.
pub const MOST: usize = 32;
/// How long a client may take to send a request, and to take its answer.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long a new one waits for a place while all others wait for their answers.
const BUSY: Duration = Duration::from_millis(200);

/// Takes in whoever connects to `listener`, in threads that bear `name`. `answer` says what to tell a client, after
/// [`Client::hear`]; a client that is too many while all others wait for their answers is told `busy`.
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
                tracing::debug!(%error, "a client of {name} cannot be heard");
                // Out of file descriptors or threads, it would fail again at once.
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
        // What a socket's buffer holds is sent at once.
        socket.set_nonblocking(true)?;
        return (&socket).write_all(busy);
    };
    let mut client = Client { socket, place, heard: Vec::new() };
    let answer = Arc::clone(answer);
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(error) = answer(&mut client) {
            tracing::debug!(%error, "a client of {name} is gone");
        }
    })?;
    Ok(())
}

/// All that are connected.
#[derive(Default, Debug)]
struct Clients {
    connected: Mutex<Connected>,
    /// Somebody was answered, or is gone.
    answered: Condvar,
}

#[derive(Default, Debug)]
struct Connected {
    last: u64,
    /// By the order in which they came.
    clients: BTreeMap<u64, (Socket, Phase)>,
}

/// How far a client is, in the order in which they must go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    /// It has asked nothing yet.
    Silent,
    /// It is sent its answer.
    Reading,
    /// It waits for its answer, and is not sent away.
    Waiting,
}

impl Clients {
    fn connected(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for the client at the other end of `socket`. There is none when all wait for their answers, and go on to do so.
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
            // Its thread finds the end of the stream now, and ends.
            let _ = socket.shutdown(Shutdown::Both);
        }
        connected.last += 1;
        let number = connected.last;
        connected.clients.insert(number, (socket, Phase::Silent));
        Some(Place { clients: Arc::clone(self), number })
    }
}

/// The place of a client, until this is dropped.
#[derive(Debug)]
struct Place {
    clients: Arc<Clients>,
    number: u64,
}

impl Place {
    /// Its client is in another phase now; `false` when it was sent away.
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

/// One client.
pub struct Client {
    socket: Socket,
    place: Place,
    /// What came behind the last request.
    heard: Vec<u8>,
}

impl Client {
    /// The next request, which ends where `end` finds its end, and is at most `longest` bytes long; and what `answer` makes of
    /// it is sent. `false` when the client is gone, or ended in the midst of one. Both together take [`PATIENCE`] and
    /// what `answer` takes.
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
                // Whoever does not come to an end is told so, and heard no more.
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

/// How long it is until then; an error when it is over. A timeout of nothing would be none at all.
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

    /// Answers each line with itself, `large` with more than any buffer holds, and `wait` after a while; counts these.
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
        // It may be gone already.
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    fn ask(path: &Path, request: &str) -> String {
        let stream = connect(path, request);
        // Less than a client may take.
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
                // The files of this process are not what is tested.
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
        // A byte now and then, for ever.
        while slow.write_all(b"x").is_ok() {
            assert!(begun.elapsed() < PATIENCE * 5);
            std::thread::sleep(PATIENCE / 10);
        }
        assert_eq!(ask(&path, "hello\n"), "hello\n");
        // Several on one connection; and what has no end is heard in part.
        let stream = connect(&path, "one\ntwo\n");
        let mut lines = BufReader::new(stream).lines();
        assert_eq!((lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()), ("one".into(), "two".into()));
        let mut answer = [0; 64];
        connect(&path, &"x".repeat(100)).read_exact(&mut answer).unwrap();
        assert_eq!(answer, [b'x'; 64]);
    }
}
