//! Contract of media that schedule frames themselves: several lines share a medium, and the medium decides which line
//! sends, how many frames at once, and which of them fail and are retransmitted.
//!
//! A *line* is one direction of a link. Its frames wait in a queue of the driver; the medium takes them when it sends
//! them. Errors and retransmissions happen inside the medium, so a frame leaves it once: received, or given up.

use crate::time::{Duration, Instant};

/// Number of a line on its medium, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineId(pub usize);

/// Queues of a medium's lines, as the driver implements them.
pub trait Source<T> {
    /// Takes the next frame of a line from its queue, with its size in bytes. `None` if the queue is empty.
    fn take(&mut self, now: Instant, line: LineId) -> Option<(T, u32)>;
}

impl<T, F: FnMut(Instant, LineId) -> Option<(T, u32)>> Source<T> for F {
    fn take(&mut self, now: Instant, line: LineId) -> Option<(T, u32)> {
        self(now, line)
    }
}

/// A frame that leaves a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossed<T> {
    /// Line that sent the frame.
    pub line: LineId,
    /// The frame.
    pub item: T,
    /// Start of the frame's first transmission.
    pub start: Instant,
    /// Time at which the receiver passes the frame on, without propagation, or at which the sender gives it up. May lie
    /// in the future.
    pub end: Instant,
    /// Result.
    pub fate: Fate,
}

/// Result of a frame on a medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Received.
    Received,
    /// Given up after too many attempts.
    GivenUp,
}

/// A medium that schedules the frames of its lines.
///
/// A driver calls [`handle_frame`](Self::handle_frame) when a frame enters a queue, and
/// [`handle_timeout`](Self::handle_timeout) at [`poll_deadline`](Self::poll_deadline); after each it takes all frames
/// from [`poll_crossed`](Self::poll_crossed). Frames of a line leave in the order in which they were taken, at times that do not
/// decrease.
pub trait AccessMedium<T>: Send {
    /// Processes the arrival of a frame in the queue of a line.
    fn handle_frame(&mut self, now: Instant, line: LineId);

    /// Returns the time of the next event; `None` if nothing happens without a new frame.
    fn poll_deadline(&self) -> Option<Instant>;

    /// Processes the events due at `now`. Takes frames from `source` for transmissions that begin.
    fn handle_timeout(&mut self, now: Instant, source: &mut dyn Source<T>);

    /// Returns a frame whose result is decided.
    fn poll_crossed(&mut self) -> Option<Crossed<T>>;

    /// Returns the number of frames of a line that were taken and have not been sent successfully yet.
    fn held(&self, line: LineId) -> usize;

    /// Returns the time for which a line has occupied the medium by `now`.
    fn busy(&self, now: Instant, line: LineId) -> Duration;
}
