//! Interfaces whose frames a daemon takes from the kernel, and BPF programs there.
//!
//! | module | contents |
//! |---|---|
//! | [`programs`] | common parts of the programs |
//! | [`check`] | checks of the machine |

pub mod check;
pub mod programs;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use lasthop_sys::bpf::Program;
use lasthop_sys::packet_socket::frame::Outgoing;
use lasthop_sys::packet_socket::{Arrival, PacketSocket};

use crate::heartbeat::hint;
use crate::interfaces;

/// The kernel refused an operation.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}{}", hint(.error))]
pub struct KernelError {
    what: &'static str,
    error: io::Error,
}

/// Returns a closure for `map_err` that adds the operation.
pub fn kernel(what: &'static str) -> impl FnOnce(io::Error) -> KernelError {
    move |error| KernelError { what, error }
}

/// Interface from which frames are taken, and through which frames are sent.
pub struct Port {
    name: String,
    index: u32,
    socket: PacketSocket,
}

/// Outcome of a receive call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// There may be more frames.
    More,
    /// No more frames wait.
    All,
    /// The kernel discarded a frame that no offload header can describe. There may be more.
    Discarded,
}

impl Port {
    /// Opens the interface with this name and index. The socket receives the frames that `filter` accepts.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open(name: &str, index: u32, filter: &Program) -> Result<Self, KernelError> {
        let mut port = Self::unbound(name, filter)?;
        port.bind(index)?;
        Ok(port)
    }

    /// Opens a socket for an interface with this name that may not exist yet. It receives nothing before
    /// [`Port::bind`].
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn unbound(name: &str, filter: &Program) -> Result<Self, KernelError> {
        let socket = PacketSocket::offloaded(filter.as_fd()).map_err(kernel("packet socket"))?;
        Ok(Self { name: name.to_owned(), index: 0, socket })
    }

    /// Uses the interface with this index from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn bind(&mut self, index: u32) -> Result<(), KernelError> {
        self.socket.bind(index).map_err(kernel("packet socket"))?;
        self.index = index;
        Ok(())
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the interface's index.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Sets the mark of frames sent from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn set_mark(&self, mark: u32) -> Result<(), KernelError> {
        self.socket.set_mark(mark).map_err(kernel("mark"))
    }

    /// Passes one batch of frames to `take`. An interface that is down receives none until it comes up, or the daemon
    /// detects its replacement.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn receive<'b>(&'b mut self, take: impl FnMut(Arrival<'b>)) -> io::Result<Received> {
        match self.socket.receive(take) {
            Ok(true) => Ok(Received::More),
            Ok(false) => Ok(Received::All),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENETDOWN) => Ok(Received::All),
                Some(libc::EINVAL) => Ok(Received::Discarded),
                _ => Err(error),
            },
        }
    }

    /// Sends frames. Returns the number of frames that the kernel refused.
    pub fn send(&self, frames: &[Outgoing<'_>]) -> u64 {
        let (refused, problem) = self.socket.send_offloaded(frames);
        if let Some(error) = problem {
            tracing::debug!(%error, refused, interface = self.name, "cannot send frames");
        }
        refused as u64
    }

    /// Returns the number of frames that the kernel has dropped since the last call because they were not received in
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails, or another interface has the name: the socket is bound to the index and
    /// cannot follow the name. A new worker can.
    pub fn overruns(&self) -> io::Result<u32> {
        if interfaces::index(&self.name).is_some_and(|index| index != self.index) {
            return Err(io::Error::other(format!("interface {} was replaced by another one", self.name)));
        }
        self.socket.overruns()
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
