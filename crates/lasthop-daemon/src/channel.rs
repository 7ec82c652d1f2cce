//! What a supervisor and its worker say to each other: one JSON value a message, over a pair of sockets that keeps
//! messages apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Most bytes of one message: a configuration, quoted, or a snapshot.
const LARGEST: usize = 1 << 20;

/// From the worker, whose account of itself is an `S`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Notice<S> {
    /// Its loop turns.
    Beat,
    /// The last order is carried out.
    Configured,
    /// The last order is refused, and all is as before.
    Refused {
        /// Why, in one line.
        message: String,
    },
    /// It cannot go on.
    Failed {
        /// Why, in one line.
        message: String,
    },
    /// What it has done until now.
    Snapshot(Box<S>),
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

    /// Another handle of this end, which only sends.
    pub fn speaker(&self) -> io::Result<Speaker> {
        Ok(Speaker { socket: self.socket.try_clone()? })
    }

    /// Sends a message. Fails when there is no room for it, rather than wait.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        send(self.socket.as_fd(), message)
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

/// What sends by an end that is read elsewhere.
#[derive(Debug)]
pub struct Speaker {
    socket: OwnedFd,
}

impl Speaker {
    /// [`Channel::send`]
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        send(self.socket.as_fd(), message)
    }
}

fn send(socket: BorrowedFd<'_>, message: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    rustix::net::send(socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
