//! Repairs that are still to be sent, and when.

use super::extra_copies::ExtraCopies;
use super::{Burst, Outbox, Repair, Scan};
use crate::node::Trigger;
use crate::packet::Payload;
use crate::pep::cache::Whereabouts;
use crate::time::Instant;

/// Number of repairs sent while the acknowledgment is handled. The others are also sent at once, but as timers,
/// so that no packet waits for all of them.
const REPAIRS_AT_A_TIME: u32 = 2;

/// Maximum number of cached packets that one call examines. Bounds its cost.
const MOST_STEPS: u32 = 256;

/// Losses that remain after the allowed repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// Some are left.
    More,
    /// None are known yet.
    Nothing,
}

/// Pending repairs of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub scan: Scan,
    pub burst: Burst,
    /// Silence timer: when to send the next lost or held packet or a probe, if nothing arrives before.
    pub silence: Option<Instant>,
    /// Reordering timer: when the first reordered hole, which may only be late, is declared lost.
    pub reordered: Option<Instant>,
    /// Repairs since the last arrival, except those that it triggered.
    pub unanswered: u32,
    /// Copies of the oldest packet that are sent without waiting for the loss of the previous one.
    pub extra_copies: Option<ExtraCopies>,
}

impl Schedule {
    /// Nothing is pending.
    pub const IDLE: Self = Self {
        scan: Scan::Complete,
        burst: Burst::None,
        silence: None,
        reordered: None,
        unanswered: 0,
        extra_copies: None,
    };

    /// Stops the timers: losses are left to the sender.
    pub fn stop(&mut self) {
        *self = Self { scan: self.scan, unanswered: self.unanswered, ..Self::IDLE };
    }

    /// Returns the time of the next action, which is no later than `timer`.
    pub fn next(&self, timer: Instant) -> Instant {
        let copy = self.extra_copies.map(|extra_copies| extra_copies.next);
        [self.silence, self.reordered, copy].into_iter().flatten().fold(timer, Instant::min)
    }

    /// Sets the silence timer, no later than `at`.
    fn act_by(&mut self, at: Instant) {
        self.silence = Some(self.silence.map_or(at, |silence| silence.min(at)));
    }

    /// Sets the reordering timer, no later than `at`.
    fn declare_reordered_by(&mut self, at: Instant) {
        self.reordered = Some(self.reordered.map_or(at, |reordered| reordered.min(at)));
    }
}

impl<P: Payload> Repair<P> {
    /// Resends a part of what an acknowledgment has allowed.
    pub(super) fn resend_burst(&mut self, now: Instant, out: &mut Outbox<P>) {
        let Burst::Allowed { since, repairs } = core::mem::replace(&mut self.schedule.burst, Burst::None) else {
            return;
        };
        let part = repairs.min(REPAIRS_AT_A_TIME);
        if self.resend_lost(now, part, out) == Lost::More && repairs > part {
            self.schedule.burst = Burst::Allowed { since, repairs: repairs - part };
        }
    }

    /// Resends packets that are lost by transmission order, oldest first and at most `most`. The rest is sent with the
    /// next arrivals, or spaced.
    pub(super) fn resend_lost(&mut self, now: Instant, most: u32, out: &mut Outbox<P>) -> Lost {
        let mut index = match core::mem::replace(&mut self.schedule.scan, Scan::Complete) {
            Scan::From(from) => self.cache.index_from(from),
            Scan::Complete if self.detection.order.has_news() => {
                self.detection.order.look();
                0
            }
            Scan::Complete => return Lost::Nothing,
        };
        let (patience, mut wait) = (self.detection.reordering.patience(now, &self.rtt), Instant::FAR_FUTURE);
        let (mut left, mut steps) = (most, MOST_STEPS);
        while let Some(packet) = self.cache.get_mut(index) {
            let by_order = packet.whereabouts == Whereabouts::OnHop && self.detection.order.is_lost_by_order(packet);
            let due = packet.last_sent + patience;
            if by_order && due > now {
                // It may only be late.
                wait = wait.min(due);
            }
            let lost = by_order && due <= now
                || packet.whereabouts == Whereabouts::OnHop && self.detection.order.has_timed_out(packet);
            if steps == 0 || (lost && left == 0) {
                self.schedule.scan = Scan::From(packet.seq);
                break;
            }
            steps -= 1;
            if lost {
                left -= 1;
                let trigger = if self.detection.order.has_timed_out(packet) { Trigger::Timer } else { Trigger::Hole };
                if trigger == Trigger::Hole && self.detection.order.is_surely_lost_by_order(packet) {
                    self.detection.reordering.repaired(now, packet.seq, &self.rtt);
                }
                self.resend(now, index, trigger, out);
            }
            let Some(packet) = self.cache.get_mut(index) else { break };
            match packet.whereabouts {
                Whereabouts::Arrived => {}
                // All later packets have not been sent yet.
                Whereabouts::Held => break,
                Whereabouts::OnHop => {
                    self.detection.order.note_in_flight(packet);
                    // A packet sent once is in order: all later packets left after it.
                    if !packet.sent_again() && !by_order {
                        break;
                    }
                }
            }
            index += 1;
        }
        if wait != Instant::FAR_FUTURE {
            self.schedule.declare_reordered_by(wait);
        }
        if self.schedule.scan != Scan::Complete {
            self.schedule.act_by(now + self.spacing());
        }
        if self.schedule.scan != Scan::Complete && left == 0 { Lost::More } else { Lost::Nothing }
    }
}
