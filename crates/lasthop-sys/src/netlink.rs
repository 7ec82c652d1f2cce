//! Requests to the kernel over netlink, and their answers: built and parsed as bytes, with all lengths checked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkBuffer,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::poll::wait;

/// Length of `nlmsghdr`, in bytes.
pub const HEADER: usize = 16;
/// Maximum size of a message, in bytes: the kernel sends no longer ones.
pub const LARGEST: usize = 32 << 10;
/// Type of the message at the end of a list.
pub const DONE: u16 = libc::NLMSG_DONE as u16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Flag of an attribute that contains attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;
/// Maximum number of datagrams per answer; longer answers time out.
const MOST: usize = 4096;

/// Returns the messages in received data, each with its type; ends at the first one with an invalid length.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    numbered(bytes).map(|(kind, _, body)| (kind, body))
}

/// Returns the messages like [`messages`], with the sequence number of the request that each answers.
fn numbered(mut bytes: &[u8]) -> impl Iterator<Item = (u16, u32, &[u8])> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(bytes).ok()?;
        let (kind, number, len) = (message.message_type(), message.sequence_number(), message.length() as usize);
        let body = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, number, body))
    })
}

/// Returns the attributes in a message, each with its type; ends at the first one with an invalid length.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let number = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let (len, kind) = (usize::from(number(0)?), number(2)?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        // The two highest bits are flags.
        Some((kind & 0x3fff, value))
    })
}

/// A request.
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Creates a request for one object; `header` is the header of the message family.
    pub fn one(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, NLM_F_REQUEST | NLM_F_ACK, header)
    }

    /// Creates a request to add an object, which must not exist.
    pub fn create(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, header)
    }

    /// Creates a request to add or replace an object.
    pub fn put(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, header)
    }

    /// Creates a request for a list.
    pub fn list(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, NLM_F_REQUEST | NLM_F_DUMP, header)
    }

    fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut buffer = NetlinkBuffer::new(vec![0; HEADER]);
        buffer.set_message_type(kind);
        buffer.set_flags(flags);
        let mut bytes = buffer.into_inner();
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&attribute(kind, value));
        self
    }

    /// Adds an attribute that contains attributes.
    pub fn with_nested(self, kind: u16, attributes: &[Vec<u8>]) -> Self {
        self.with(kind | NESTED, &attributes.concat())
    }
}

/// Returns an attribute.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns an attribute that contains attributes.
pub fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &attributes.concat())
}

/// Socket for requests and for notifications of the kernel.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    number: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket for routes, links and rules (`None`), or for another protocol.
    pub fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { fd, number: 0, buffer: vec![0; LARGEST] })
    }

    /// Makes the kernel filter lists by the request (Linux 4.20); before, they contain more.
    pub fn choose_strictly(&self) {
        /// Socket option `NETLINK_GET_STRICT_CHK`.
        const STRICT: libc::c_int = 12;
        // Callers filter lists anyway.
        let _ = crate::option::set(&self.fd, libc::SOL_NETLINK, STRICT, 1);
    }

    /// Sends a request and passes each message of the answer to `take`, until it is complete.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, such as `ENOENT` for a missing object, or [`io::ErrorKind::TimedOut`].
    pub fn ask(
        &mut self,
        mut request: Request,
        patience: Duration,
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.number = self.number.wrapping_add(1);
        let len = request.bytes.len() as u32;
        request.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        request.bytes[8..12].copy_from_slice(&self.number.to_ne_bytes());
        rustix::net::send(&self.fd, &request.bytes, SendFlags::empty())?;
        let end = Instant::now() + patience;
        for _ in 0..MOST {
            match rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => {
                    // Skip late answers to requests that timed out.
                    let answers = numbered(&self.buffer[..len]).filter(|(_, number, _)| *number == self.number);
                    for (kind, _, body) in answers {
                        match kind {
                            DONE => return Ok(()),
                            ERROR => {
                                let errno = body.get(..4).and_then(|bytes| bytes.try_into().ok());
                                return match errno.map_or(-libc::EPROTO, i32::from_ne_bytes) {
                                    0 => Ok(()),
                                    errno => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
                                };
                            }
                            _ => take(kind, body),
                        }
                    }
                }
                Err(Errno::AGAIN) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    wait(&mut [PollFd::new(&self.fd, PollFlags::IN)], left)?;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
