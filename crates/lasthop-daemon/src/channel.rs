//! Channel between a supervisor and its worker: one JSON value per message, over a socket pair that preserves messages.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of a message, in bytes: a quoted configuration, or a snapshot.
const LARGEST: usize = 1 << 20;

/// Message from the worker, whose report on itself has type `S`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Notice<S> {
    /// The loop is running.
    Beat,
    /// The last order was executed.
    Configured,
    /// The last order was refused, without effect.
    Refused {
        /// Reason, in one line.
        message: String,
    },
    /// The worker cannot continue.
    Failed {
        /// Reason, in one line.
        message: String,
    },
    /// Statistics of the worker so far.
    Snapshot(Box<S>),
}

/// One end of the channel.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// Result of a receive call.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming<T> {
    /// A message.
    Message(T),
    /// No message waits.
    Nothing,
    /// The other end is closed.
    End,
}

impl Channel {
    /// Creates both ends; the second is to become the worker's standard input.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&ours, &theirs] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, LARGEST)?;
        }
        Ok((Self::new(ours), theirs))
    }

    /// Returns the end with this socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; LARGEST] }
    }

    /// Returns another handle of this end that can only send.
    pub fn speaker(&self) -> io::Result<Speaker> {
        Ok(Speaker { socket: self.socket.try_clone()? })
    }

    /// Sends a message. Fails instead of blocking if the buffer is full.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        send(self.socket.as_fd(), message)
    }

    /// Receives the next message, if one waits.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Incoming<T>> {
        match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => Ok(Incoming::End),
            Ok((len, _)) => Ok(Incoming::Message(serde_json::from_slice(&self.buffer[..len])?)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Incoming::Nothing),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sending half of an end.
#[derive(Debug)]
pub struct Speaker {
    socket: OwnedFd,
}

impl Speaker {
    /// Sends a message like [`Channel::send`].
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
