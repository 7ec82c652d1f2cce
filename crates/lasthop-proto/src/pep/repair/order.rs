//! Order in which packets left for the hop, and what an arrival shows by it.
//!
//! The hop preserves order. A packet that left before one that has arrived is therefore lost if it has not arrived
//! itself, whether it was a repair or a first transmission; RFC 8985 detects losses by transmission time in the same
//! way. Only urgent packets overtake, and only in the queue.

use super::super::cache::Cached;
use super::super::sendings::{Number, Sending, Sendings};
use crate::packet::Priority;

/// Indicates whether the hop preserves order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Kept {
    /// Packets sent before one that has arrived are lost.
    #[default]
    Yes,
    /// Packets may be late, and of packets sent several times it is ambiguous which copy has arrived.
    No,
}

/// Latest transmissions shown to have arrived.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    /// Latest that arrived.
    arrived: Number,
    /// Latest that arrived of those with normal priority.
    in_turn: Number,
    /// Latest that arrived of those sent since all data in flight was declared lost, as far as known.
    probe: Sending,
}

/// Transmissions and arrivals so far.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Order {
    pub kept: Kept,
    last: Number,
    shown: Shown,
    /// State before the acknowledgment that is being processed.
    before: Shown,
    /// Latest that arrived of those with normal priority that were sent only once, so that no other copy can have
    /// arrived instead.
    certain: Number,
    /// Latest transmission declared lost because nothing arrived for too long.
    timed_out: Number,
    /// Earliest in flight, as far as known, of normal and of urgent priority.
    earliest: [Number; 2],
}

impl Order {
    /// Numbers a transmission of a packet, which may have been sent before.
    pub fn leave(&mut self, sendings: &mut Sendings, priority: Priority) {
        self.repeat(sendings, priority);
        (sendings.again, sendings.repeated) = (sendings.last, sendings.last);
    }

    /// Numbers a repeated transmission of a packet not shown to be lost since the previous one. If it arrives, either
    /// copy may have.
    pub fn repeat(&mut self, sendings: &mut Sendings, priority: Priority) {
        self.last.0 += 1;
        let now = Sending { number: self.last, priority };
        // A lost transmission cannot be the one that arrives.
        let none = sendings.first == Sending::default();
        let first = if none || self.is_lost(sendings.first, self.shown) { now } else { sendings.first };
        let repeated = if sendings.repeated == sendings.again { now } else { sendings.repeated };
        *sendings = Sendings { first, last: now, repeated, ..*sendings };
    }

    /// Records that a packet has arrived: in its last transmission if all previous ones are known to be lost, otherwise
    /// possibly in the first of the others. `too_soon` says that the arrival is too early for its last transmission.
    pub fn arrive<P>(&mut self, cached: &Cached<P>, too_soon: bool) {
        let Sendings { first, again, repeated, last } = cached.sendings;
        if too_soon || last.number <= self.timed_out {
            // A packet declared lost was late; so may be the others.
            self.timed_out = Number(0);
            (self.shown.probe, self.before.probe) = Default::default();
        } else if first.number <= self.timed_out {
            // If it was late after all, retransmitted packets arrive in the order of their first transmission, and this
            // arrival shows none of them to be lost.
            if self.shown.probe.number < again.number {
                self.shown.probe = again;
            }
        }
        if too_soon {
            // An earlier transmission, which was declared lost, has arrived. This says nothing about packets that left
            // before the last one.
            return;
        }
        let arrived =
            [first, repeated].into_iter().find(|sending| !self.is_lost(*sending, self.before)).unwrap_or(last);
        self.shown.arrived = self.shown.arrived.max(arrived.number);
        if arrived.priority == Priority::Normal {
            self.shown.in_turn = self.shown.in_turn.max(arrived.number);
            if first == last {
                self.certain = self.certain.max(last.number);
            }
        }
    }

    /// Begins to process an acknowledgment. Packets that it reports may have arrived in any order: those in between may
    /// have been lost.
    pub fn begin(&mut self) {
        self.before = self.shown;
    }

    /// Declares all transmissions so far lost.
    pub fn time_out(&mut self) {
        self.timed_out = self.last;
    }

    /// Returns whether a transmission cannot be the one that arrives.
    fn is_lost(&self, sending: Sending, shown: Shown) -> bool {
        self.kept == Kept::Yes && self.is_outrun(sending, shown)
    }

    /// Returns whether a later transmission has arrived.
    #[inline]
    fn is_outrun(&self, sending: Sending, shown: Shown) -> bool {
        let later = if sending.priority == Priority::Normal { shown.in_turn } else { shown.arrived };
        let probe = shown.probe.priority == sending.priority && sending.number > self.timed_out;
        sending.number < later || (probe && sending.number < shown.probe.number)
    }

    /// Returns whether a packet has not arrived although one that left later has.
    #[inline]
    pub fn is_lost_by_order<P>(&self, cached: &Cached<P>) -> bool {
        self.is_outrun(cached.sendings.last, self.shown)
    }

    /// Returns the same, provided that it is certain which transmission of that other packet arrived.
    pub fn is_surely_lost_by_order<P>(&self, cached: &Cached<P>) -> bool {
        cached.sendings.last.number < self.certain && !cached.sendings.is_urgent()
    }

    /// Returns whether a packet is declared lost because nothing arrived for too long.
    #[inline]
    pub fn has_timed_out<P>(&self, cached: &Cached<P>) -> bool {
        cached.sendings.last.number <= self.timed_out
    }

    /// Returns whether more packets may be lost than at the last scan.
    #[inline]
    pub fn has_news(&self) -> bool {
        let [normal, urgent] = self.earliest;
        normal < self.shown.in_turn
            || urgent < self.shown.arrived
            || normal.min(urgent) <= self.timed_out.max(self.shown.probe.number)
    }

    /// Starts a scan, which reports packets in flight to [`Order::note_in_flight`].
    pub fn look(&mut self) {
        let next = Number(self.last.0 + 1);
        self.earliest = [next, next];
    }

    /// Records a packet that is in flight, or still to be resent.
    pub fn note_in_flight<P>(&mut self, cached: &Cached<P>) {
        let Sending { number, priority } = cached.sendings.last;
        let earliest = &mut self.earliest[usize::from(priority == Priority::Urgent)];
        *earliest = number.min(*earliest);
    }
}
