//! Aggregation of frames that share an access to the medium: several are sent as one aggregate, each is acknowledged
//! separately, and failed ones are resent with the next aggregate, as in IEEE 802.11n and later (A-MPDU and block
//! acknowledgment).
//!
//! One end of a link, without I/O. Its driver supplies frames and the number of bytes that fit. It returns the frames
//! that the receiver has in order, and those given up. The receiver holds frames behind a hole until that is filled or
//! given up, so losses turn into delay.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::random::Stream;
use crate::time::Duration;

/// Parameters of aggregation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AggregationSpec {
    /// Maximum number of frames in an aggregate.
    pub frames: u32,
    /// Maximum airtime of an aggregate, without access. A frame that takes longer is sent alone.
    pub time: Duration,
    /// Time on the medium that each aggregate takes besides its frames: interframe spaces, preamble, acknowledgment.
    pub access: Duration,
    /// Maximum random backoff before each aggregate, uniform from zero.
    pub backoff: Duration,
    /// Probability that an attempt of a frame fails, 0 to 1.
    pub frame_loss: f64,
    /// Number of attempts after the first before a frame is given up.
    pub retries: u32,
}

/// Window of a block acknowledgment: number of frames from the first unacknowledged one, itself included, that may be
/// sent. Larger if an aggregate is.
const WINDOW: u32 = 64;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Waiting, after this number of failed attempts.
    Waits(u32),
    Received,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    item: T,
    bytes: u32,
    state: State,
}

/// The sending end, with its knowledge of the other end.
#[derive(Clone, Debug)]
pub struct Aggregator<T> {
    spec: AggregationSpec,
    stream: Stream,
    /// Frames from the first that is neither delivered nor given up, in order.
    window: VecDeque<Entry<T>>,
    /// A frame that did not fit into the last aggregate.
    next: Option<(T, u32)>,
}

/// An aggregate that is sent.
#[derive(Clone, Debug)]
pub struct Aggregate<T> {
    /// Bytes of its frames.
    pub bytes: u32,
    /// Additional time on the medium: access and backoff.
    pub access: Duration,
    /// Number of its frames, resent ones included.
    pub frames: u32,
    /// Number of resent frames.
    pub again: u32,
    /// Frames that the receiver passes on when it is complete, in order.
    pub delivered: Vec<T>,
    /// Frames given up with it, in order.
    pub given_up: Vec<T>,
}

impl<T: Copy> Aggregator<T> {
    /// Returns an end with nothing to send; backoffs and losses are drawn from `stream`.
    pub fn new(spec: AggregationSpec, stream: Stream) -> Self {
        Self { spec, stream, window: VecDeque::new(), next: None }
    }

    /// Returns the maximum airtime of an aggregate.
    pub const fn time(&self) -> Duration {
        self.spec.time
    }

    /// Returns the number of frames that wait here to be sent, for the first time or again.
    pub fn waiting(&self) -> usize {
        let again = self.window.iter().filter(|entry| matches!(entry.state, State::Waits(_)));
        again.count() + usize::from(self.next.is_some())
    }

    /// Removes and returns all frames, in any state, in order.
    pub fn drain(&mut self) -> Vec<T> {
        let window = self.window.drain(..).map(|entry| entry.item);
        window.chain(self.next.take().map(|(item, _)| item)).collect()
    }

    /// Builds the next aggregate: failed frames in order, followed by those from `source`, as long as `fits` accepts
    /// the total number of bytes, but at least one frame. Returns `None` if there is nothing to send.
    pub fn aggregate(
        &mut self,
        mut source: impl FnMut() -> Option<(T, u32)>,
        mut fits: impl FnMut(u32) -> bool,
    ) -> Option<Aggregate<T>> {
        let most = self.spec.frames.max(1);
        let window = WINDOW.max(most) as usize;
        let (mut bytes, mut sent) = (0u32, Vec::new());
        let mut fits = |bytes: u32, sent: &Vec<usize>| sent.is_empty() || fits(bytes);
        for (place, entry) in self.window.iter().enumerate() {
            if !matches!(entry.state, State::Waits(_)) {
                continue;
            }
            if sent.len() as u32 >= most || !fits(bytes.saturating_add(entry.bytes), &sent) {
                break;
            }
            bytes = bytes.saturating_add(entry.bytes);
            sent.push(place);
        }
        let again = sent.len() as u32;
        // New frames follow after all failed ones, and do not overtake those that did not fit.
        let left = self.window.iter().filter(|entry| matches!(entry.state, State::Waits(_))).count();
        while left == again as usize && (sent.len() as u32) < most && self.window.len() < window {
            let Some((item, size)) = self.next.take().or_else(&mut source) else { break };
            if !fits(bytes.saturating_add(size), &sent) {
                self.next = Some((item, size));
                break;
            }
            bytes = bytes.saturating_add(size);
            sent.push(self.window.len());
            self.window.push_back(Entry { item, bytes: size, state: State::Waits(0) });
        }
        if sent.is_empty() {
            return None;
        }
        let backoff = Duration::from_nanos(self.stream.below(self.spec.backoff.as_nanos().saturating_add(1)));
        for &place in &sent {
            self.judge(place);
        }
        let (mut delivered, mut given_up) = (Vec::new(), Vec::new());
        while let Some(entry) = self.window.pop_front() {
            match entry.state {
                State::Received => delivered.push(entry.item),
                State::GivenUp => given_up.push(entry.item),
                State::Waits(_) => {
                    self.window.push_front(entry);
                    break;
                }
            }
        }
        let frames = sent.len() as u32;
        Some(Aggregate { bytes, access: self.spec.access + backoff, frames, again, delivered, given_up })
    }

    /// Decides whether an attempt of a frame fails.
    fn judge(&mut self, place: usize) {
        let fails = self.stream.chance(self.spec.frame_loss);
        let Some(entry) = self.window.get_mut(place) else { return };
        let State::Waits(failed) = entry.state else { return };
        entry.state = match fails {
            false => State::Received,
            true if failed >= self.spec.retries => State::GivenUp,
            true => State::Waits(failed + 1),
        };
    }
}

#[cfg(test)]
#[path = "aggregation_tests.rs"]
mod tests;
