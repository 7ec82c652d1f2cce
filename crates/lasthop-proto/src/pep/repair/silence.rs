//! When nothing comes: what goes then, how often, and when what is out passes for lost.

use super::link_rtt::{FLOOR, LEAST_MARGIN};
use super::{MAX_DOUBLINGS, MOST_PROBES, Masks, Outbox, Repair, SPACED, STEADY_TRIES};
use crate::node::Trigger;
use crate::packet::Payload;
use crate::time::{Duration, Instant};

/// Part of a silence that passes between two probes of it.
const SELDOM: u64 = 32;

/// Fewer packets under way do not tell how fast the hop is.
const LEAST_UNDER_WAY: u64 = 4;

impl<P: Payload> Repair<P> {
    /// A copy from here has come back as a duplicate: it takes its time on the hop, and what is behind it waits for that.
    pub(super) fn hear_echo(&mut self, now: Instant) {
        self.echoed = now;
        if self.walk.is_none() && self.holds() {
            self.pace = Some(now + self.rtt.silence());
        }
    }

    /// Nothing has arrived since the last of what goes spaced went.
    pub(super) fn on_silence(&mut self, now: Instant, out: &mut Outbox<P>) {
        if self.walk.is_none()
            && let Some(took) = self.others_hear(now)
        {
            // Nobody need look for the end of a silence. What is out waits, or is lost: the timer tells.
            self.pace = Some(now + took);
            return;
        }
        if let Some(dry) = self.sender_shows(now) {
            self.pace = Some(dry);
            return;
        }
        self.pace = None;
        self.in_vain = self.in_vain.saturating_add(SPACED);
        if self.walk.is_none() && self.holds() && self.in_vain <= self.most_probes() {
            // New data shows as well as a copy whether anything comes through (RFC 8985 §7.3), and is never sent in vain.
            self.release_beyond(now, SPACED, out);
            self.pace = Some(now + self.spacing());
        } else {
            if self.masks == Masks::Seen {
                self.resend_lost(now, SPACED, out);
            }
            if self.awaits_arrivals(now) {
                self.probe_overdue(now, out);
            } else {
                self.probe_silence(now, out);
            }
        }
    }

    /// Whether nothing passes for lost yet of what was sent by a sender that looks after this hop itself.
    fn awaits_arrivals(&self, now: Instant) -> bool {
        self.hop.is_none() && self.is_in_charge(now) && self.walk.is_none() && !self.has_timed_out()
    }

    /// Whether all that was out has passed for lost since anything came.
    fn has_timed_out(&self) -> bool {
        self.timed_out > self.progress.max(self.echoed)
    }

    /// When the oldest packet under way should have arrived, if a silence is to be ended from here; not before the hop has had time for another.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Instant> {
        if self.hop.is_some() || !self.is_in_charge(now) {
            return None;
        }
        let beyond = self.highest_marked.map_or(0, |highest| self.cache.index_after(highest));
        let oldest = if beyond < self.cache.len() { beyond } else { 0 };
        let sent = self.cache.get_mut(oldest)?.last_sent;
        Some((sent + self.rtt.due()?).max(now + LEAST_MARGIN))
    }

    /// Data from the sender: it will be overdue one day.
    pub(super) fn expect(&mut self, now: Instant) {
        self.fresh = now;
        if self.pace.is_none() {
            self.pace = self.overdue(now);
        }
    }

    /// Until when what the sender sent last is on its way through the queue, and shows as well as a copy whether anything comes through.
    fn sender_shows(&self, now: Instant) -> Option<Instant> {
        let dry = self.fresh + self.rtt.queue() + self.packet_time();
        (self.awaits_arrivals(now) && now < dry).then_some(dry)
    }

    /// The time between two packets of late, as far as the number under way tells.
    fn packet_time(&self) -> Duration {
        (self.rtt.smoothed() / (self.cache.len() as u64).max(LEAST_UNDER_WAY)).max(FLOOR)
    }

    /// What should have arrived has not, and the queue has run dry: copies of the last packet go as fast as packets went of late. If acknowledgments
    /// were lost, the next says so before all is sent again; if data was, it shows what.
    fn probe_overdue(&mut self, now: Instant, out: &mut Outbox<P>) {
        if self.in_vain > MOST_PROBES * SPACED {
            return;
        }
        if let Some((last, _)) = self.last_on_hop() {
            self.resend(now, last, Trigger::Timer, out);
        }
        self.pace = Some(now + self.packet_time());
    }

    /// All that passed for lost in a silence has gone again: from then on the last packet alone shows whether anything comes through, and by
    /// its place in the order what of all this was lost. Under delays that grow all at once most of it was not.
    fn probe_silence(&mut self, now: Instant, out: &mut Outbox<P>) {
        let heard = self.progress.max(self.echoed);
        if !self.is_in_charge(now) || self.walk.is_some() || !self.has_timed_out() {
            return;
        }
        // The longer it lasts, the more seldom: a fade that ends by packets, not by time, wants many.
        let pause = self.spacing().max(now.since(heard) / SELDOM);
        if let Some((index, sent)) = self.last_on_hop()
            && now.since(sent) >= pause
        {
            self.resend(now, index, Trigger::Timer, out);
        }
        self.pace = Some(now + pause);
    }

    /// Nothing has arrived for too long.
    pub(super) fn on_timeout(&mut self, now: Instant, out: &mut Outbox<P>) {
        // Once in a silence: what has gone again since then may still be on its way.
        if !self.is_in_charge(now) || !self.has_timed_out() {
            self.order.time_out();
            self.timed_out = now;
        }
        self.take_back_marks();
        if let Some(front) = self.cache.get_mut(0) {
            front.by_timer = front.by_timer.saturating_add(1);
            if front.by_timer > STEADY_TRIES {
                self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            }
            if front.seq.ge(self.recover) {
                self.recover = self.high;
            }
            self.resend(now, 0, Trigger::Timer, out);
            self.expect_duplicates();
        }
        if self.masks == Masks::Seen && !self.holds() {
            self.resend_lost(now, SPACED, out);
        }
        if self.is_in_charge(now) && self.pace.is_none() {
            self.pace = Some(now + self.spacing());
        }
    }
}
