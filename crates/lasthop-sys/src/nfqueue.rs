//! Netfilter queue over netlink: packets from the kernel and verdicts back, in batches.
//!
//! While a queue is bound, packets wait for a verdict. If its program dies, the kernel closes the queue, and the rule's
//! `--queue-bypass` lets packets pass. If the queue is full, further packets pass as well, ahead of the waiting ones.

mod cause;
pub mod message;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

pub use cause::BindError;
use message::{Message, Verdicts};

use crate::poll::wait;

/// Maximum number of datagrams per system call.
pub const BATCH: usize = 64;
/// Maximum number of packets that wait in a queue.
pub const LENGTH: u32 = 4096;
/// Size of a message, in bytes: the largest packet that a queue copies, and its metadata.
const SLOT: usize = 65_536 + 512;
/// Size of the socket's receive buffer, in bytes: a few thousand packets by the kernel's accounting.
const RECEIVE_BUFFER: usize = 32 << 20;
/// Timeout for the kernel's answer to a bind request, which is immediate.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bound queue.
#[derive(Debug)]
pub struct Queue {
    socket: OwnedFd,
    number: u16,
}

/// Result of a receive call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Number of datagrams in the buffer.
    Messages(usize),
    /// No packets wait.
    Nothing,
    /// The socket's buffer was full: some packets passed untreated.
    Overflow,
}

impl Queue {
    /// Binds the queue with this number. Fails if another program uses it, or without `CAP_NET_ADMIN`.
    pub fn bind(number: u16, buffer: &mut Buffer) -> Result<Self, BindError> {
        Self::try_bind(number, buffer).map_err(|error| BindError::of(number, error))
    }

    fn try_bind(number: u16, buffer: &mut Buffer) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        // Exceed the system's limit if permitted; otherwise use what it allows.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
        }
        let queue = Self { socket, number };
        queue.request(&message::bind(number, LENGTH, 1), 1, buffer)?;
        Ok(queue)
    }

    /// Returns the process that uses a queue, if the kernel reports it: the port number of its socket, which is its
    /// process id unless it has several such sockets.
    pub fn owner(number: u16) -> Option<u32> {
        cause::owner(number)
    }

    /// Returns the queue's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends a request and waits for its answer. Packets that arrive in the meantime pass untreated.
    fn request(&self, request: &[u8], number: u32, buffer: &mut Buffer) -> io::Result<()> {
        let mut verdicts = Verdicts::new(self.number);
        rustix::net::send(&self.socket, request, SendFlags::empty())?;
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel did not answer"));
            }
            wait(&mut [PollFd::new(&self.socket, PollFlags::IN)], left)?;
            let Received::Messages(count) = self.receive(buffer)? else { continue };
            let mut answer = None;
            for message in (0..count).flat_map(|index| buffer.messages(index)) {
                match message {
                    Message::Queued(packet) => verdicts.accept(packet.id),
                    Message::Answer { sequence, errno } if sequence == number => answer = Some(errno),
                    _ => {}
                }
            }
            self.send(&mut verdicts)?;
            match answer {
                Some(0) => return Ok(()),
                Some(errno) => return Err(io::Error::from_raw_os_error(errno)),
                None => {}
            }
        }
    }

    /// Receives waiting messages, at most [`BATCH`] datagrams, into `buffer`.
    pub fn receive(&self, buffer: &mut Buffer) -> io::Result<Received> {
        match buffer.fill(self.socket.as_fd()) {
            Ok(count) => Ok(Received::Messages(count)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(Received::Nothing),
                Some(libc::ENOBUFS) => Ok(Received::Overflow),
                _ => Err(error),
            },
        }
    }

    /// Sends the verdicts and clears them.
    pub fn send(&self, verdicts: &mut Verdicts) -> io::Result<()> {
        if verdicts.is_empty() {
            return Ok(());
        }
        let sent = rustix::net::send(&self.socket, verdicts.bytes(), SendFlags::empty());
        verdicts.clear();
        sent.map(drop).map_err(io::Error::from)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Buffer for one batch of messages.
pub struct Buffer {
    bytes: Vec<u8>,
    lengths: [usize; BATCH],
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: vec![0; BATCH * SLOT], lengths: [0; BATCH] }
    }
}

impl Buffer {
    /// Returns the messages of one datagram of the last batch.
    pub fn messages(&self, index: usize) -> impl Iterator<Item = Message<'_>> {
        let len = self.lengths.get(index).copied().unwrap_or(0);
        message::messages(self.bytes.get(index * SLOT..index * SLOT + len).unwrap_or_default())
    }

    fn fill(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: both are plain data of the C interface, for which all zeros is a valid value.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for ((slot, vector), header) in self.bytes.chunks_exact_mut(SLOT).zip(&mut vectors).zip(&mut headers) {
            *vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header points to one vector, and each vector to a slot of `bytes` of its own with `SLOT` bytes;
        // all of them outlive the call, and nothing else refers to them during it.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (length, header) in self.lengths.iter_mut().zip(&headers).take(count) {
            *length = (header.msg_len as usize).min(SLOT);
        }
        Ok(count)
    }
}
