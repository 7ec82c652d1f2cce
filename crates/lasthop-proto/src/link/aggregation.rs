//! Frames that share an access to the medium: several leave as one aggregate, each is acknowledged by itself, and what failed is sent
//! again with the next aggregate, as in IEEE 802.11n and later (A-MPDU and block acknowledgment).
//!
//! One end of a link, without I/O. Whoever drives it hands in a source of frames and says how many bytes fit; it says what the
//! receiver has in order now, and what it gave up. The receiver keeps frames behind a hole until that is filled or given up, so that
//! losses turn into delay.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::random::Stream;
use crate::time::Duration;

/// Parameters of aggregation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AggregationSpec {
    /// Most frames of an aggregate.
    pub frames: u32,
    /// Longest time on the air of an aggregate, access not included. A frame that takes longer goes alone.
    pub time: Duration,
    /// How long each aggregate occupies the medium besides its frames: interframe spaces, preamble, acknowledgment.
    pub access: Duration,
    /// Random backoff before each aggregate: uniform from nothing up to this.
    pub backoff: Duration,
    /// Probability with which a try of a frame fails, 0 to 1.
    pub frame_loss: f64,
    /// Tries after the first; then a frame is given up.
    pub retries: u32,
}

/// Frames behind the first one that is not acknowledged, itself included, that may be sent: the window of a block acknowledgment.
/// Larger where an aggregate is.
const WINDOW: u32 = 64;

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many tries failed.
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

/// The sending end, and what it knows of the other.
#[derive(Clone, Debug)]
pub struct Aggregator<T> {
    spec: AggregationSpec,
    stream: Stream,
    /// From the first frame that is neither delivered nor given up on, in order.
    window: VecDeque<Entry<T>>,
    /// A frame that did not fit into the last aggregate.
    next: Option<(T, u32)>,
}

/// An aggregate that is sent.
#[derive(Clone, Debug)]
pub struct Aggregate<T> {
    /// Bytes of its frames.
    pub bytes: u32,
    /// How long it occupies the medium besides: access and backoff.
    pub access: Duration,
    /// Frames in it, those among them that are sent again.
    pub frames: u32,
    /// Frames that are sent again.
    pub again: u32,
    /// What the receiver hands on when it is over, in order.
    pub delivered: Vec<T>,
    /// What is given up with it, in order.
    pub given_up: Vec<T>,
}

impl<T: Copy> Aggregator<T> {
    /// An end that has nothing to send; backoffs and losses come from `stream`.
    pub fn new(spec: AggregationSpec, stream: Stream) -> Self {
        Self { spec, stream, window: VecDeque::new(), next: None }
    }

    /// Longest time on the air of an aggregate.
    pub const fn time(&self) -> Duration {
        self.spec.time
    }

    /// Frames that wait here to be sent, for the first time or again.
    pub fn waiting(&self) -> usize {
        let again = self.window.iter().filter(|entry| matches!(entry.state, State::Waits(_)));
        again.count() + usize::from(self.next.is_some())
    }

    /// Takes out all frames, whatever is known of them, in order.
    pub fn drain(&mut self) -> Vec<T> {
        let window = self.window.drain(..).map(|entry| entry.item);
        window.chain(self.next.take().map(|(item, _)| item)).collect()
    }

    /// Makes the next aggregate: what failed before, in order, and behind it what `source` gives, as long as `fits` says that so many
    /// bytes may be on the air at once; one frame in any case. `None` where there is nothing to send.
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
        // New frames go behind all that failed, not past those that did not fit.
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

    /// Decides about a try of a frame.
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
