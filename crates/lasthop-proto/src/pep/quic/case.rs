//! A case: acknowledgments that reveal gaps are held while copies of the missing datagrams are on their way.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::lengths::{WOBBLE, is_below};
use crate::packet::Packet;
use crate::time::{Duration, Instant};

/// Maximum number of gaps that are under repair at the same time. More are congestion before this device, or a hop that
/// loses too much.
const MOST_GAPS: usize = 4;

/// Maximum number of copies for a gap, in all rounds. Bursts of losses are as long as the silence of the client says.
pub(super) const MOST_COPIES: usize = 16;

/// Number of times that a gap's candidates are resent.
const ROUNDS: u8 = 3;

/// Maximum number of datagrams held in a case.
const MOST_HELD: usize = 128;

/// A gap under repair: the candidates are numbered `low..=high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub low: u64,
    pub high: u64,
    /// The first and the last one that are missing if the causes of acknowledgments are exact.
    pub likely: (u64, u64),
    /// Time of the first copies.
    pub begun: Instant,
    /// Time of the last copies.
    pub resent_at: Instant,
    /// Copies sent.
    pub copies: usize,
    pub rounds: u8,
}

/// Acknowledgments held, and the gaps that they reveal.
#[derive(Clone, Debug)]
pub(super) struct Case<P> {
    /// Length of acknowledgments before the first gap.
    pub level: u16,
    /// Length of the last acknowledgment without control frames.
    pub last: u16,
    /// Time at which the first datagram has been held for as long as permitted.
    pub until: Instant,
    pub gaps: Vec<Gap>,
    /// Length of the last datagram if it was below the level.
    below: Option<u16>,
    held: VecDeque<Packet<P>>,
}

impl<P> Case<P> {
    /// Opens a case at an acknowledgment of length `len`.
    pub fn new(now: Instant, hold: Duration, level: u16, len: u16, gap: Gap) -> Self {
        Self { level, last: len, until: now + hold, gaps: Vec::from([gap]), below: None, held: VecDeque::new() }
    }

    /// Holds a datagram. Returns whether there is space for more.
    pub fn hold(&mut self, packet: Packet<P>) -> bool {
        self.held.push_back(packet);
        self.held.len() < MOST_HELD
    }

    /// Records a length that is not above the one before. Returns whether it is a lone one below the level: a control
    /// frame without an acknowledgment.
    pub fn is_lone(&mut self, len: u16) -> bool {
        let last = self.below.take();
        if is_below(self.level, len) {
            self.below = Some(len);
        }
        self.below.is_some() && last.is_none_or(|last| last.abs_diff(len) > WOBBLE)
    }

    /// Adds a gap. Returns whether there is space for it.
    pub fn add(&mut self, gap: Gap) -> bool {
        let fits = self.gaps.len() < MOST_GAPS;
        if fits {
            self.gaps.push(gap);
        }
        fits
    }

    /// Removes the gap that an acknowledgment at `now` closes: the first whose copies have had time to arrive. Returns
    /// the time since its first copies and since its last ones.
    pub fn close(&mut self, now: Instant, rtt: Duration) -> Option<[Duration; 2]> {
        let answered = |gap: &Gap| now.since(gap.resent_at) * 4 >= rtt * 3;
        let index = self.gaps.iter().position(answered).unwrap_or(0);
        if self.gaps.is_empty() {
            return None;
        }
        let gap = self.gaps.remove(index);
        Some([gap.begun, gap.resent_at].map(|at| now.since(at)))
    }

    /// Returns whether copies of a gap were sent one round trip before `now`.
    pub fn is_answer(&self, now: Instant, rtt: Duration) -> bool {
        let slack = (rtt / 8).max(Duration::from_micros(500));
        self.gaps.iter().any(|gap| {
            let age = now.since(gap.resent_at);
            age + slack >= rtt && age <= rtt + slack
        })
    }

    /// Returns the next time at which the case needs attention.
    pub fn deadline(&self, overdue: Duration) -> Instant {
        self.gaps.iter().map(|gap| gap.resent_at + overdue).min().map_or(self.until, |at| at.min(self.until))
    }

    /// Ends the case. Returns the datagrams held, the newest first, the others in their order: an acknowledgment whose
    /// largest number is not new starts no loss detection (RFC 9002 §A.7).
    pub fn release(mut self) -> impl Iterator<Item = Packet<P>> {
        let newest = self.held.pop_back();
        newest.into_iter().chain(self.held)
    }
}

impl Gap {
    /// Returns whether a candidate is missing if the causes of acknowledgments are exact.
    pub fn is_likely(&self) -> impl Fn(u64) -> bool + Copy + use<> {
        let (first, last) = self.likely;
        move |number| (first..=last).contains(&number)
    }

    /// Returns whether the gap may be tried again.
    pub const fn may_repeat(&self) -> bool {
        self.rounds < ROUNDS && self.copies < MOST_COPIES
    }
}
