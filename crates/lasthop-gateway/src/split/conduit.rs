//! One direction of a connection: moves bytes from one socket to the other, through a pipe or buffer that is borrowed
//! only while it contains data.

use std::net::Shutdown;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

use super::{Side, Transfer};

/// One of the two sockets of a connection, with its readiness as last reported by the kernel.
pub(super) struct Leg {
    pub socket: Socket,
    pub side: Side,
    pub readable: bool,
    pub writable: bool,
}

/// Data between the two sockets.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// A pipe and the number of bytes in it, at least one.
    Pipe(Pipe, usize),
    /// A buffer, the number of its bytes in use, and the number of those that have been written.
    Buffer(Box<[u8]>, usize, usize),
}

/// Pipe for [`splice`], empty while in a [`Pool`].
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Pipes and buffers that conduits borrow: about as many exist as directions are blocked.
pub(super) struct Pool {
    capacity: usize,
    transfer: Transfer,
    pipes: Vec<Pipe>,
    buffers: Vec<Box<[u8]>>,
}

/// Maximum number of idle pipes, and of idle buffers, to keep.
const KEPT: usize = 8;
/// Bytes moved for one connection before others get their turn.
const TURN: usize = 1 << 20;

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// The sockets accept or provide no more.
    Blocked,
    /// The turn has ended; call again.
    Turn,
    /// The end of the stream has been forwarded.
    Finished,
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Conduit {
    held: Held,
    end_of_stream: bool,
    finished: bool,
    transfer: Transfer,
}

impl Pool {
    /// Creates an empty pool for pipes of `capacity` bytes.
    pub fn new(capacity: usize, transfer: Transfer) -> Self {
        Self { capacity, transfer, pipes: Vec::new(), buffers: Vec::new() }
    }

    fn pipe(&mut self) -> Option<Pipe> {
        self.pipes.pop().or_else(|| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            // Fails beyond the user's limit on pipe memory; the default size works too.
            let _ = fcntl_setpipe_size(&write, self.capacity);
            (fcntl_getpipe_size(&write).ok()? <= self.capacity.max(4096)).then_some(Pipe { read, write })
        })
    }

    fn buffer(&mut self) -> Box<[u8]> {
        self.buffers.pop().unwrap_or_else(|| vec![0; self.capacity].into_boxed_slice())
    }

    /// Takes back an empty pipe or buffer.
    fn give(&mut self, held: Held) {
        match held {
            Held::Pipe(pipe, 0) if self.pipes.len() < KEPT => self.pipes.push(pipe),
            Held::Buffer(buffer, ..) if self.buffers.len() < KEPT => self.buffers.push(buffer),
            _ => {}
        }
    }
}

impl Conduit {
    pub fn new(pool: &Pool) -> Self {
        Self { transfer: pool.transfer, ..Self::default() }
    }

    /// Switches to copying. `splice` stops at an urgent mark as if no data had arrived, or as if the stream had ended.
    pub fn copy(&mut self) {
        self.transfer = Transfer::Copy;
    }

    /// Moves as much as possible from one socket to the other, and adds the number of bytes written to `moved`.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection of either socket is dead.
    pub fn pump(&mut self, from: &mut Leg, to: &mut Leg, pool: &mut Pool, moved: &mut u64) -> Result<Progress, Errno> {
        let mut turn = 0;
        while !self.finished {
            if !matches!(self.held, Held::Nothing) {
                if !to.writable {
                    return Ok(Progress::Blocked);
                }
                match self.drain(to, pool) {
                    // Neither call returns 0 for a live connection, but the loop must not depend on that.
                    Ok(0) => return Err(Errno::PIPE),
                    Ok(bytes) => {
                        *moved += bytes as u64;
                        turn += bytes;
                    }
                    Err(Errno::AGAIN) => to.writable = false,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            } else if self.end_of_stream {
                to.socket
                    .shutdown(Shutdown::Write)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                self.finished = true;
            } else if turn >= TURN {
                return Ok(Progress::Turn);
            } else if !from.readable || !to.writable {
                // Data that cannot be written is not read, so that the receive window throttles the sender.
                return Ok(Progress::Blocked);
            } else {
                match self.fill(from, pool) {
                    Ok(0) => self.end_of_stream = true,
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => from.readable = false,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Progress::Finished)
    }

    fn fill(&mut self, from: &Leg, pool: &mut Pool) -> Result<usize, Errno> {
        if self.transfer == Transfer::Splice {
            let Some(pipe) = pool.pipe() else {
                self.copy();
                return Err(Errno::INTR);
            };
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let result = splice(&from.socket, None, &pipe.write, None, pool.capacity, flags);
            match result {
                Ok(bytes) if bytes > 0 => self.held = Held::Pipe(pipe, bytes),
                _ => pool.give(Held::Pipe(pipe, 0)),
            }
            match result {
                // The end of the stream, or an urgent mark before more data: the kernel returns 0 for both once the FIN
                // has arrived, and only `recv` can distinguish them.
                Ok(0) => self.copy(),
                Err(Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::NOMEM) => self.copy(),
                other => return other,
            }
        }
        let mut buffer = pool.buffer();
        let result = recv(&from.socket, &mut *buffer, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes);
        match result {
            Ok(bytes) if bytes > 0 => self.held = Held::Buffer(buffer, bytes, 0),
            _ => pool.give(Held::Buffer(buffer, 0, 0)),
        }
        result
    }

    fn drain(&mut self, to: &Leg, pool: &mut Pool) -> Result<usize, Errno> {
        let (bytes, empty) = match &mut self.held {
            Held::Nothing => return Ok(0),
            Held::Pipe(pipe, left) => {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                let bytes = splice(&pipe.read, None, &to.socket, None, *left, flags)?;
                *left = left.saturating_sub(bytes);
                (bytes, *left == 0)
            }
            Held::Buffer(buffer, used, written) => {
                let bytes = send(&to.socket, &buffer[*written..*used], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
                *written += bytes;
                (bytes, written == used)
            }
        };
        if empty {
            pool.give(std::mem::take(&mut self.held));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "conduit_tests.rs"]
mod tests;
