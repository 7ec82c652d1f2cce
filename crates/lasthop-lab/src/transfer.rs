//! The two ends of a transfer over kernel TCP: threads that write, read and check.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lasthop_proto::tcp::info::Fields;
use lasthop_proto::time::Instant;
use lasthop_sim::apps::CallReport;
use lasthop_sim::network::{App, FlowSpec};
use lasthop_sys::clock::Clock;
use lasthop_sys::tcp::{TcpInfo, fields, unacknowledged};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockAddr, Socket};

use crate::host::pattern;

/// Interval of checks whether the run has ended.
pub const STEP: Duration = Duration::from_millis(20);
/// Number of bytes written or read at once.
const CHUNK: usize = 64 * 1024;

/// State shared by all threads of a run.
pub struct Run {
    /// Clock that starts with the run.
    pub clock: Clock,
    /// Set to end all threads.
    pub over: AtomicBool,
    /// Time at which the last flow ended, in nanoseconds; `u64::MAX` before.
    ended: AtomicU64,
    /// Bytes that receivers have so far.
    pub received: Arc<AtomicU64>,
}

/// The transfer of a flow.
#[derive(Clone, Copy)]
pub struct Transfer {
    /// Number of bytes.
    pub bytes: u64,
    /// Condition for the end of the transfer.
    pub end: End,
    /// Start time.
    pub start: Instant,
}

impl Transfer {
    /// Returns the transfer of a flow.
    pub fn of(spec: &FlowSpec) -> Self {
        // Datagrams have no number of bytes. The plan rejects the others.
        let (bytes, end) = match spec.app {
            App::Transfer { bytes, close } if close.is_on() => (bytes, End::Close),
            App::Transfer { bytes, .. } => (bytes, End::Acknowledged),
            App::Quic(quic) => (quic.bytes(), End::Close),
            App::Idle | App::OnOff(_) | App::Call(_) | App::Web => (0, End::Close),
        };
        Self { bytes, end, start: spec.start }
    }
}

/// End of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A FIN in each direction.
    Close,
    /// Acknowledgment of all bytes.
    Acknowledged,
}

/// Result at the sending end.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Start time.
    pub start: Instant,
    /// Number of retransmitted segments.
    pub retransmissions: u64,
    /// Number of retransmission timeouts; `None` if not counted.
    pub timeouts: Option<u64>,
    /// Number of loss recoveries without a timeout; `None` if the kernel only counts them per host.
    pub recoveries: Option<u64>,
    /// Indicates whether all data was acknowledged.
    pub complete: bool,
    /// Indicates whether the connection failed.
    pub aborted: bool,
    /// Data that this end received, if the flow delivers data here.
    pub received: Option<Received>,
    /// State of the TCP connection at the end; `None` without one.
    pub tcp_info: Option<Box<Fields>>,
}

/// Result at the receiving end.
#[derive(Clone, Default, Debug)]
pub struct Received {
    /// Number of bytes in order.
    pub bytes: u64,
    /// Time of the last byte.
    pub end: Instant,
    /// Indicates whether all data and the end of the transfer arrived.
    pub complete: bool,
    /// Indicates whether the connection failed.
    pub aborted: bool,
    /// Offset of the first byte that differs from the data sent.
    pub altered: Option<u64>,
    /// Result of a call.
    pub call: Option<Box<CallReport>>,
}

/// Data that an accepting host received, by flow index.
pub type Accepted = Vec<(usize, Received)>;

/// Sending end of a flow, ready to open it.
pub trait Initiator: Send {
    /// Transfers the data. Blocks until all of it is acknowledged, the connection has failed, or the run has ended.
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent;
}

/// A listening host.
pub trait Acceptor: Send {
    /// Accepts a connection for each of `flows` (index, remote port, transfer) and receives its data. Blocks until all
    /// have ended or the run has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot accept connections.
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted>;
}

impl Run {
    /// Creates a run that begins now.
    pub fn begin() -> Self {
        let (over, ended) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Self { clock: Clock::start(), over, ended, received: Arc::default() }
    }

    /// Records that all flows that end have ended.
    pub fn end(&self) {
        self.ended.store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    /// Returns the time of [`Self::end`], or the current time before it.
    pub fn ended(&self) -> Instant {
        self.clock.now().min(Instant::from_nanos(self.ended.load(Ordering::Relaxed)))
    }

    /// Waits until `socket` is ready. Returns false if the run ends first.
    fn wait(&self, socket: &impl AsFd, flags: PollFlags) -> io::Result<bool> {
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

    /// Retries until the attempt succeeds or the run ends.
    pub(super) fn retry<T>(
        &self,
        socket: &impl AsFd,
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

    /// Waits until `at`, or until the run ends.
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
        // The information may be unavailable after a failure.
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
            tcp_info: fields(socket).ok().map(Box::new),
        }
    }

    /// Returns whether everything was sent and acknowledged; false if the run ended first.
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
                // The peer sends only its FIN.
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

    /// Accepts the next connection at `listener`. Returns it with its remote port; `None` if the run ends first.
    ///
    /// # Errors
    ///
    /// Returns errors of the kernel.
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
