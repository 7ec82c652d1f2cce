//! The order in which packets left for the hop, and what an arrival tells by it.
//!
//! The hop keeps the order. So what left before something that has arrived is lost if it has not arrived itself, a repair as well as
//! a first sending: RFC 8985 tells losses by time of sending in the same way. Only urgent packets overtake, and only in the queue.

use super::super::cache::Cached;
use super::super::sendings::{Number, Sending, Sendings};
use crate::packet::Priority;

/// Whether the hop keeps the order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Kept {
    /// What was overtaken is lost.
    #[default]
    Yes,
    /// It may be late: of what was sent several times nobody knows which has arrived.
    No,
}

/// What arrivals have shown.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    /// The latest that arrived.
    arrived: Number,
    /// The latest that arrived of those that overtook nobody.
    in_turn: Number,
    /// The latest that arrived of those that were sent since all passed for lost, as far as can be told.
    probe: Sending,
}

/// What has left and what has arrived.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Order {
    pub kept: Kept,
    last: Number,
    shown: Shown,
    /// What had been shown when the acknowledgment came that is being taken in.
    before: Shown,
    /// The latest that arrived of those that overtook nobody and were sent only once, so that nothing else can have arrived in its place.
    certain: Number,
    /// All up to here passes for lost: nothing came for too long.
    timed_out: Number,
    /// The earliest under way, as far as known, among those that overtake nobody and among the urgent ones.
    earliest: [Number; 2],
}

impl Order {
    /// A packet leaves, as it may have left before.
    pub fn leave(&mut self, sendings: &mut Sendings, priority: Priority) {
        self.repeat(sendings, priority);
        (sendings.again, sendings.repeated) = (sendings.last, sendings.last);
    }

    /// A packet leaves once more though nothing says that it was lost since it left last: if it arrives, that may have been either time.
    pub fn repeat(&mut self, sendings: &mut Sendings, priority: Priority) {
        self.last.0 += 1;
        let now = Sending { number: self.last, priority };
        // A sending that is lost cannot be what arrives.
        let none = sendings.first == Sending::default();
        let first = if none || self.is_lost(sendings.first, self.shown) { now } else { sendings.first };
        let repeated = if sendings.repeated == sendings.again { now } else { sendings.repeated };
        *sendings = Sendings { first, last: now, repeated, ..*sendings };
    }

    /// A packet has arrived: in its last sending if all before are known to be lost, else perhaps in the first of the others.
    /// `too_soon`: for its last sending it has come too soon.
    pub fn arrive<P>(&mut self, cached: &Cached<P>, too_soon: bool) {
        let Sendings { first, again, repeated, last } = cached.sendings;
        if too_soon || last.number <= self.timed_out {
            // What passed for lost was late: so may be the rest.
            self.timed_out = Number(0);
            (self.shown.probe, self.before.probe) = Default::default();
        } else if first.number <= self.timed_out {
            // If it was late after all, what was sent again arrives in the order in which it was sent first: then this says of
            // none that it is lost.
            if self.shown.probe.number < again.number {
                self.shown.probe = again;
            }
        }
        if too_soon {
            // An earlier sending has arrived, which passed for lost: of what left behind the last one it tells nothing.
            return;
        }
        let told = [first, repeated].into_iter().find(|sending| !self.is_lost(*sending, self.before)).unwrap_or(last);
        self.shown.arrived = self.shown.arrived.max(told.number);
        if told.priority == Priority::Normal {
            self.shown.in_turn = self.shown.in_turn.max(told.number);
            if first == last {
                self.certain = self.certain.max(last.number);
            }
        }
    }

    /// An acknowledgment comes. Of what it tells to have arrived nobody knows which came first: those in between may have been lost.
    pub fn begin(&mut self) {
        self.before = self.shown;
    }

    /// Nothing has come for so long that nothing of what left will.
    pub fn time_out(&mut self) {
        self.timed_out = self.last;
    }

    /// Whether a sending cannot be what arrives.
    fn is_lost(&self, sending: Sending, shown: Shown) -> bool {
        self.kept == Kept::Yes && self.is_outrun(sending, shown)
    }

    /// Whether something that left later has arrived.
    #[inline]
    fn is_outrun(&self, sending: Sending, shown: Shown) -> bool {
        let later = if sending.priority == Priority::Normal { shown.in_turn } else { shown.arrived };
        let probe = shown.probe.priority == sending.priority && sending.number > self.timed_out;
        sending.number < later || (probe && sending.number < shown.probe.number)
    }

    /// Whether something that left after a packet has arrived, and it has not.
    #[inline]
    pub fn has_overtaken<P>(&self, cached: &Cached<P>) -> bool {
        self.is_outrun(cached.sendings.last, self.shown)
    }

    /// The same, and there is no doubt in what sending that other one arrived.
    pub fn has_surely_overtaken<P>(&self, cached: &Cached<P>) -> bool {
        cached.sendings.last.number < self.certain && !cached.sendings.is_urgent()
    }

    /// Whether it passes for lost because nothing came for too long.
    #[inline]
    pub fn has_timed_out<P>(&self, cached: &Cached<P>) -> bool {
        cached.sendings.last.number <= self.timed_out
    }

    /// Whether anything may be lost that was not when all was looked at last.
    #[inline]
    pub fn has_news(&self) -> bool {
        let [normal, urgent] = self.earliest;
        normal < self.shown.in_turn
            || urgent < self.shown.arrived
            || normal.min(urgent) <= self.timed_out.max(self.shown.probe.number)
    }

    /// All is looked at once more: what is under way is told to [`Order::under_way`].
    pub fn look(&mut self) {
        let next = Number(self.last.0 + 1);
        self.earliest = [next, next];
    }

    /// A packet is under way, or is still to be resent.
    pub fn under_way<P>(&mut self, cached: &Cached<P>) {
        let Sending { number, priority } = cached.sendings.last;
        let earliest = &mut self.earliest[usize::from(priority == Priority::Urgent)];
        *earliest = number.min(*earliest);
    }
}
