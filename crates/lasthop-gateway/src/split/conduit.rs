//! One direction of a connection: bytes from one socket to the other, through a pipe or a buffer that exists only while
//! something is in it.

use std::net::Shutdown;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

use super::{Side, Transfer};

/// One of the two sockets of a connection, with what the kernel last said of it.
pub(super) struct Leg {
    pub socket: Socket,
    pub side: Side,
    pub readable: bool,
    pub writable: bool,
}

/// What is between the two sockets.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// Bytes in a pipe, at least one.
    Pipe(Pipe, usize),
    /// A buffer, how many of its bytes are in use, how many of those have been written.
    Buffer(Box<[u8]>, usize, usize),
}

/// A pipe for [`splice`], empty while in a [`Pool`].
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// What conduits borrow while they need it: as many pipes and buffers exist as directions are blocked, and a few more.
pub(super) struct Pool {
    capacity: usize,
    transfer: Transfer,
    pipes: Vec<Pipe>,
    buffers: Vec<Box<[u8]>>,
}

/// Idle pipes and buffers that are kept.
const KEPT: usize = 8;
/// Bytes moved for one connection before others have their turn.
const TURN: usize = 1 << 20;

/// How far a call got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// As far as the sockets let it.
    Blocked,
    /// Only as far as its turn; call again.
    Turn,
    /// The end of the stream has been passed on.
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
    /// Of pipes of `capacity` bytes.
    pub fn new(capacity: usize, transfer: Transfer) -> Self {
        Self { capacity, transfer, pipes: Vec::new(), buffers: Vec::new() }
    }

    fn pipe(&mut self) -> Option<Pipe> {
        self.pipes.pop().or_else(|| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
            // Refused beyond the user's share of pipe memory; the default serves.
            let _ = fcntl_setpipe_size(&write, self.capacity);
            (fcntl_getpipe_size(&write).ok()? <= self.capacity.max(4096)).then_some(Pipe { read, write })
        })
    }

    fn buffer(&mut self) -> Box<[u8]> {
        self.buffers.pop().unwrap_or_else(|| vec![0; self.capacity].into_boxed_slice())
    }

    /// Takes back what is empty.
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

    /// Copies from now on. `splice` stops at an urgent mark as if nothing had arrived, or as if the stream had ended.
    pub fn copy(&mut self) {
        self.transfer = Transfer::Copy;
    }

    /// Moves what can be moved from one socket to the other, and adds the bytes that it wrote to `moved`.
    ///
    /// # Errors
    ///
    /// Either socket's connection is dead.
    pub fn pump(&mut self, from: &mut Leg, to: &mut Leg, pool: &mut Pool, moved: &mut u64) -> Result<Progress, Errno> {
        let mut turn = 0;
        while !self.finished {
            if !matches!(self.held, Held::Nothing) {
                if !to.writable {
                    return Ok(Progress::Blocked);
                }
                match self.drain(to, pool) {
                    // Neither call says so of a connection that lives; a loop must not depend on that.
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
                // What can't be written isn't read: the receive window tells the sender.
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
                // Either the end of the stream, or an urgent mark behind which more is to come: the kernel says 0 to both
                // once the FIN has arrived. Only `recv` tells which.
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
