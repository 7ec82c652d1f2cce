//! Window of a block acknowledgment (IEEE 802.11n and later): frames from the first that is neither received nor given
//! up. Several are sent at once, each is acknowledged separately, and failed ones are retransmitted, before new ones.
//!
//! The receiver holds frames behind a hole until that is filled or given up, so losses turn into delay.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::access::Fate;
use crate::time::Instant;

/// Number of frames from the first unacknowledged one, itself included, that may be sent. Larger if a transmission
/// holds more frames.
pub const WINDOW: u32 = 64;

#[derive(Clone, Copy, Debug)]
enum State {
    /// Waiting, after this number of failed attempts.
    Waits(u32),
    Received(Instant),
    GivenUp(Instant),
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    item: T,
    bytes: u32,
    state: State,
}

/// The sending end, with its knowledge of the other end.
#[derive(Clone, Debug)]
pub struct BlockWindow<T> {
    entries: VecDeque<Entry<T>>,
    /// A frame that did not fit into the last transmission.
    next: Option<(T, u32)>,
    /// Places of the frames of the last transmission.
    chosen: Vec<usize>,
    /// Number of entries that wait.
    waits: usize,
    /// Time when the receiver passed on the last frame.
    passed_on: Instant,
}

/// Frames of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Total bytes of the frames.
    pub bytes: u32,
    /// Number of frames, those retransmitted included.
    pub frames: u32,
    /// Number of frames that are retransmitted.
    pub again: u32,
}

impl<T> Default for BlockWindow<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), next: None, chosen: Vec::new(), waits: 0, passed_on: Instant::ZERO }
    }
}

impl<T: Copy> BlockWindow<T> {
    /// Returns the number of frames that wait here to be sent, for the first time or again.
    pub fn waiting(&self) -> usize {
        self.waits + usize::from(self.next.is_some())
    }

    /// Returns the first frame that waits to be retransmitted, or did not fit.
    pub fn first_waiting(&self) -> Option<T> {
        let entry = self.entries.iter().find(|entry| matches!(entry.state, State::Waits(_)));
        entry.map(|entry| entry.item).or(self.next.map(|(item, _)| item))
    }

    /// Removes and returns all frames, in any state, in order.
    pub fn drain(&mut self) -> Vec<T> {
        self.waits = 0;
        let entries = self.entries.drain(..).map(|entry| entry.item);
        entries.chain(self.next.take().map(|(item, _)| item)).collect()
    }

    /// Chooses the frames of the next transmission: at most `most`, failed ones in order, followed by those from
    /// `source`, as long as `fits` accepts the total number of bytes, but at least one. `join` adds the bytes of a frame
    /// to those before it. Returns `None` if there is nothing to send. [`Self::settle`] must follow.
    pub fn choose(
        &mut self,
        most: u32,
        mut source: impl FnMut() -> Option<(T, u32)>,
        join: impl Fn(u32, u32) -> u32,
        mut fits: impl FnMut(u32) -> bool,
    ) -> Option<Chosen> {
        let most = most.max(1);
        let window = WINDOW.max(most) as usize;
        let (mut bytes, mut chosen) = (0u32, core::mem::take(&mut self.chosen));
        chosen.clear();
        let mut fits = |bytes: u32, chosen: &Vec<usize>| chosen.is_empty() || fits(bytes);
        if self.waits > 0 {
            for (place, entry) in self.entries.iter().enumerate() {
                if !matches!(entry.state, State::Waits(_)) {
                    continue;
                }
                let total = join(bytes, entry.bytes);
                if chosen.len() as u32 >= most || !fits(total, &chosen) {
                    break;
                }
                bytes = total;
                chosen.push(place);
            }
        }
        let again = chosen.len() as u32;
        // New frames follow after all failed ones, and do not overtake those that did not fit.
        let all_again = self.waits == again as usize;
        while all_again && (chosen.len() as u32) < most && self.entries.len() < window {
            let Some((item, size)) = self.next.take().or_else(&mut source) else { break };
            let total = join(bytes, size);
            if !fits(total, &chosen) {
                self.next = Some((item, size));
                break;
            }
            bytes = total;
            chosen.push(self.entries.len());
            self.entries.push_back(Entry { item, bytes: size, state: State::Waits(0) });
            self.waits += 1;
        }
        self.chosen = chosen;
        (!self.chosen.is_empty()).then_some(Chosen { bytes, frames: self.chosen.len() as u32, again })
    }

    /// Records the result of each chosen frame, in order: `arrival` gets its bytes, and returns when it is received;
    /// `None` if it is lost. A frame is given up at `end`, after `retries` attempts besides the first.
    pub fn settle(&mut self, retries: u32, end: Instant, mut arrival: impl FnMut(u32) -> Option<Instant>) {
        for place in self.chosen.drain(..) {
            let Some(entry) = self.entries.get_mut(place) else { continue };
            let State::Waits(failed) = entry.state else { continue };
            entry.state = match arrival(entry.bytes) {
                Some(at) => State::Received(at),
                None if failed >= retries => State::GivenUp(end),
                None => State::Waits(failed + 1),
            };
            self.waits -= usize::from(!matches!(entry.state, State::Waits(_)));
        }
    }

    /// Removes and returns the first frame of the window, if it is received or given up, with the time from which it
    /// holds back no others.
    pub fn release(&mut self) -> Option<(T, Fate, Instant)> {
        let (fate, at) = match self.entries.front()?.state {
            State::Waits(_) => return None,
            State::Received(at) => (Fate::Received, at),
            State::GivenUp(at) => (Fate::GivenUp, at),
        };
        self.passed_on = self.passed_on.max(at);
        self.entries.pop_front().map(|entry| (entry.item, fate, self.passed_on))
    }
}
