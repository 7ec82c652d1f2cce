//! What the supervisor and its worker say to each other: one JSON value a message, over a pair of sockets that keeps
//! messages apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of one message: a configuration, quoted, or a snapshot.
const LARGEST: usize = 512 << 10;

/// To the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Work by this configuration from now on.
    Configure {
        /// The file's name, for messages.
        file: String,
        /// Its text, checked already.
        text: String,
    },
}

/// From the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// The packet loop turns.
    Beat,
    /// The configuration holds; packets are taken.
    Configured,
    /// It cannot go on.
    Failed {
        /// Why, in one line.
        message: String,
    },
    /// What it has done until now.
    Snapshot(Box<Snapshot>),
}

/// What a worker has done since it was started.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Packets and what became of them.
    pub packets: PacketCounters,
    /// Connections with state.
    pub flows: u64,
    /// Bytes of packets in caches.
    pub cached_bytes: u64,
}

/// Packets that went through the queue, since the worker was started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct PacketCounters {
    /// Packets towards the lossy hop; a super-segment is one.
    pub towards_wireless: u64,
    /// Their bytes, from their IP headers on.
    pub towards_wireless_bytes: u64,
    /// Packets from the lossy hop.
    pub from_wireless: u64,
    /// Their bytes.
    pub from_wireless_bytes: u64,
    /// Packets that went on as they were.
    pub accepted: u64,
    /// Packets that ended here.
    pub dropped: u64,
    /// Packets that went on changed.
    pub replaced: u64,
    /// Packets sent over the lossy hop by the gateway itself.
    pub injected_wireless: u64,
    /// Packets sent the other way by the gateway itself.
    pub injected_wired: u64,
    /// Packets that could not be sent.
    pub injection_failures: u64,
    /// Packets of which the queue showed only a part; passed on.
    pub truncated: u64,
    /// Packets of interfaces that no rule names (any more); passed on.
    pub strangers: u64,
    /// Times that the queue had no room, and let packets pass by.
    pub overflows: u64,
    /// Verdicts that the kernel did not take.
    pub verdict_failures: u64,
}

/// One end.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What came of reading.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming<T> {
    /// A message.
    Message(T),
    /// None waits.
    Nothing,
    /// The other end is gone.
    End,
}

impl Channel {
    /// Two ends; the second is to become the worker's standard input.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&ours, &theirs] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, LARGEST)?;
        }
        Ok((Self::new(ours), theirs))
    }

    /// The end that is `socket`.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; LARGEST] }
    }

    /// Sends a message. Fails when there is no room for it, rather than wait.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        rustix::net::send(&self.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message, if one waits.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Incoming<T>> {
        match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => Ok(Incoming::End),
            Ok((len, _)) => Ok(Incoming::Message(serde_json::from_slice(&self.buffer[..len])?)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Incoming::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
