//! The two ends of a transfer over kernel TCP: threads that write, read and check.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lasthop_proto::time::Instant;
use lasthop_sim::network::{App, FlowSpec};
use lasthop_sys::clock::Clock;
use lasthop_sys::tcp::{TcpInfo, unacknowledged};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockAddr, Socket};

use crate::host::pattern;

/// How soon the end is noticed.
pub const STEP: Duration = Duration::from_millis(20);
/// What is written and read at once.
const CHUNK: usize = 64 * 1024;

/// What all threads of a run share.
pub struct Run {
    /// Starts with the run.
    pub clock: Clock,
    /// Everyone is to come to an end.
    pub over: AtomicBool,
    /// Bytes that receivers have so far.
    pub received: Arc<AtomicU64>,
}

/// One flow.
#[derive(Clone, Copy)]
pub struct Transfer {
    /// Bytes.
    pub bytes: u64,
    /// How it ends.
    pub end: End,
    /// When it begins.
    pub start: Instant,
}

impl Transfer {
    /// What a flow transfers.
    pub fn of(spec: &FlowSpec) -> Self {
        // The plan let nothing else pass.
        let (bytes, end) = match spec.app {
            App::Transfer { bytes, close } if close.is_on() => (bytes, End::Close),
            App::Transfer { bytes, .. } => (bytes, End::Acknowledged),
            App::Quic(quic) => (quic.bytes(), End::Close),
            App::Idle | App::OnOff(_) | App::Call(_) | App::Web => (0, End::Close),
        };
        Self { bytes, end, start: spec.start }
    }
}

/// How a transfer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With a FIN each way.
    Close,
    /// When all bytes are acknowledged.
    Acknowledged,
}

/// What the sending end saw.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it began.
    pub start: Instant,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timers that expired; `None` where nobody counts them.
    pub timeouts: Option<u64>,
    /// Loss recoveries without a timeout; `None` where only the kernel of the whole host counts them.
    pub recoveries: Option<u64>,
    /// Whether all was acknowledged.
    pub complete: bool,
    /// Whether the connection broke.
    pub aborted: bool,
    /// What it received itself, where that is what the flow is for.
    pub received: Option<Received>,
}

/// What the receiving end saw.
#[derive(Clone, Copy, Default, Debug)]
pub struct Received {
    /// Bytes in order.
    pub bytes: u64,
    /// When the last of them came.
    pub end: Instant,
    /// Whether all came, and the end of the transfer.
    pub complete: bool,
    /// Whether the connection broke.
    pub aborted: bool,
    /// Offset of the first byte that is not the one sent.
    pub altered: Option<u64>,
}

/// What an accepting host received: flows by index.
pub type Accepted = Vec<(usize, Received)>;

/// The end of a flow that sends, ready to open it.
pub trait Initiator: Send {
    /// Transfers; comes back when all is acknowledged, the connection broke, or the run is over.
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent;
}

/// A host that listens.
pub trait Acceptor: Send {
    /// Takes a connection for each of `flows` (its index, the port that it comes from, what it is to bring) and receives
    /// what it brings; comes back when all have ended or the run is over.
    ///
    /// # Errors
    ///
    /// When it cannot take connections.
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted>;
}

impl Run {
    /// A run that begins now.
    pub fn begin() -> Self {
        Self { clock: Clock::start(), over: AtomicBool::new(false), received: Arc::default() }
    }

    /// Waits until `socket` is ready; false when the run is over first.
    fn wait(&self, socket: &Socket, flags: PollFlags) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(STEP.subsec_nanos()) };
        while !self.over.load(Ordering::Relaxed) {
            match poll(&mut [PollFd::new(socket, flags)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Tries until it works or the run is over.
    fn retry<T>(
        &self,
        socket: &Socket,
        flags: PollFlags,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        loop {
            match attempt() {
                Ok(done) => return Ok(Some(done)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.wait(socket, flags)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until `at`, or until the run is over.
    pub fn wait_until(&self, at: Instant) {
        while self.clock.now() < at && !self.over.load(Ordering::Relaxed) {
            thread::sleep(self.clock.until(at).min(STEP));
        }
    }

    /// Sends a transfer over `socket` to `peer`.
    pub fn send(&self, socket: &Socket, peer: &SockAddr, transfer: Transfer) -> Sent {
        self.wait_until(transfer.start);
        let start = self.clock.now();
        let outcome = self.send_all(socket, peer, transfer);
        // A connection that broke may have nothing to tell any more.
        let TcpInfo { retransmissions, timeouts, .. } = TcpInfo::of(socket).unwrap_or_default();
        let (complete, aborted) = (matches!(outcome, Ok(true)), outcome.is_err());
        Sent {
            start: start.max(transfer.start),
            retransmissions,
            timeouts,
            recoveries: None,
            complete,
            aborted,
            received: None,
        }
    }

    /// Whether everything was sent and acknowledged; false when the run was over first.
    fn send_all(&self, mut socket: &Socket, peer: &SockAddr, transfer: Transfer) -> io::Result<bool> {
        match socket.connect(peer) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {
                if !self.wait(socket, PollFlags::OUT)? {
                    return Ok(false);
                }
                if let Some(error) = socket.take_error()? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        let mut chunk = vec![0; CHUNK];
        let mut sent = 0;
        while sent < transfer.bytes {
            let len = usize::try_from(transfer.bytes - sent).unwrap_or(CHUNK).min(CHUNK);
            pattern::fill(sent, &mut chunk[..len]);
            let chunk = &chunk[..len];
            match self.retry(socket, PollFlags::OUT, || socket.write(chunk))? {
                Some(written) => sent += written as u64,
                None => return Ok(false),
            }
        }
        match transfer.end {
            End::Close => {
                socket.shutdown(std::net::Shutdown::Write)?;
                let mut rest = [0; 64];
                // Nothing comes but the other end's FIN.
                let end = self.retry(socket, PollFlags::IN, || socket.read(&mut rest))?;
                Ok(end.is_some() && unacknowledged(socket)? == 0)
            }
            End::Acknowledged => {
                while unacknowledged(socket)? > 0 {
                    if self.over.load(Ordering::Relaxed) {
                        return Ok(false);
                    }
                    thread::sleep(STEP);
                }
                Ok(true)
            }
        }
    }

    /// Takes the next connection at `listener`, with the port that it comes from; `None` when the run is over first.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn accept(&self, listener: &Socket) -> io::Result<Option<(Socket, u16)>> {
        let Some((socket, peer)) = self.retry(listener, PollFlags::IN, || listener.accept())? else { return Ok(None) };
        socket.set_nonblocking(true)?;
        Ok(Some((socket, peer.as_socket().map_or(0, |address| address.port()))))
    }

    /// Receives a transfer.
    pub fn receive(&self, socket: &Socket, transfer: Transfer) -> Received {
        let mut received = Received { end: transfer.start, ..Received::default() };
        received.aborted = self.receive_all(socket, transfer, &mut received).is_err();
        received
    }

    fn receive_all(&self, mut socket: &Socket, transfer: Transfer, received: &mut Received) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let Some(count) = self.retry(socket, PollFlags::IN, || socket.read(&mut buffer))? else { return Ok(()) };
            if count == 0 {
                received.complete = received.bytes == transfer.bytes;
                return Ok(());
            }
            if received.altered.is_none() {
                received.altered = pattern::mismatch(received.bytes, &buffer[..count]);
            }
            received.bytes += count as u64;
            received.end = self.clock.now();
            self.received.fetch_add(count as u64, Ordering::Relaxed);
            if transfer.end == End::Acknowledged && received.bytes >= transfer.bytes {
                received.complete = received.bytes == transfer.bytes;
                return Ok(());
            }
        }
    }
}
