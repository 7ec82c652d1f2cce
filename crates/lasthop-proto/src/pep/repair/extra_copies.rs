//! Additional copies of a packet whose repairs were lost, so that its loss does not trigger the sender's timer.

use super::{Outbox, Repair};
use crate::node::Trigger;
use crate::packet::Payload;
use crate::pep::cache::Whereabouts;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Minimum time that a modern sender waits beyond the round trip (Linux's `TCP_RTO_MIN`).
const PATIENCE: Duration = Duration::from_millis(200);

/// Number of copies beyond the triggered one, and divisor of the round trip that spaces them: one burst does not
/// destroy all of them, and they are sent before the loss of the first could be noticed.
const COPIES: u32 = 2;
const PARTS: u64 = COPIES as u64 + 1;

/// Copies of the oldest packet still to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExtraCopies {
    seq: Seq,
    left: u32,
    pub next: Instant,
}

impl<P: Payload> Repair<P> {
    /// Decides on additional copies when the oldest packet is resent. They are sent if a repair of it was lost, and it
    /// left so long ago that another loss would exceed the sender's minimum timeout.
    pub(super) fn schedule_extra_copies(&mut self, now: Instant) {
        self.schedule.extra_copies = None;
        let pause = self.rtt.smoothed() / PARTS;
        let Some(front) = self.cache.front().filter(|_| self.repairs_alone(now)) else { return };
        if !self.waits_in_a_queue()
            && front.local > 0
            && now.since(front.first_sent) + self.rtt.smoothed() / 2 >= PATIENCE
        {
            self.schedule.extra_copies = Some(ExtraCopies { seq: front.seq, left: COPIES, next: now + pause });
        }
    }

    /// Sends the next copy if it is due and the packet is still the oldest.
    pub(super) fn send_extra_copy(&mut self, now: Instant, out: &mut Outbox<P>) {
        let Some(ExtraCopies { seq, left, next }) =
            self.schedule.extra_copies.filter(|extra_copies| extra_copies.next <= now)
        else {
            return;
        };
        self.schedule.extra_copies = None;
        if !self.cache.front().is_some_and(|front| front.seq == seq && front.whereabouts == Whereabouts::OnHop) {
            return;
        }
        self.resend(now, 0, Trigger::Timer, out);
        if left > 1 {
            self.schedule.extra_copies =
                Some(ExtraCopies { seq, left: left - 1, next: next + self.rtt.smoothed() / PARTS });
        }
    }
}
