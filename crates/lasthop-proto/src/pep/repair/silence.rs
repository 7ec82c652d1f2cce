//! Behaviour in a silence: what is sent, how often, and when data in flight is declared lost.

use super::link_rtt::{FLOOR, LEAST_MARGIN};
use super::{MOST_PROBES, Outbox, Repair, Reports, SPACED, Scan};
use crate::node::Trigger;
use crate::packet::Payload;
use crate::time::{Duration, Instant};

/// Divisor of the silence so far that yields the interval between probes.
const SELDOM: u64 = 32;

/// Minimum number of packets in flight from which the hop's rate is estimated.
const LEAST_UNDER_WAY: u64 = 4;

/// Action of the silence timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SilenceAction {
    /// Nothing until this time: other connections receive, or the sender's data probes the hop. No probe is needed to
    /// find the end of the silence. Data in flight is queued or lost, which the local timer decides.
    Wait(Instant),
    /// Release held data beyond the window. It probes the hop as well as a copy does (RFC 8985 §7.3), and is never
    /// spurious.
    Release,
    /// Resend the next packets declared lost. If there are none, probe the hop with a copy of the last packet.
    Resend,
}

impl<P: Payload> Repair<P> {
    /// Records that a local copy has returned as a duplicate. It took time on the hop, for which packets behind it
    /// wait.
    pub(super) fn on_returned_copy(&mut self, now: Instant) {
        self.arrivals.on_returned_copy(now);
        if self.schedule.scan == Scan::Complete && self.holds() {
            self.schedule.silence = Some(now + self.rtt.silence());
        }
    }

    /// Returns the action of the silence timer, which expires at `now`.
    fn silence_action(&self, now: Instant) -> SilenceAction {
        if self.schedule.scan == Scan::Complete {
            if let Some(took) = self.others_receive(now) {
                return SilenceAction::Wait(now + took);
            }
            if let Some(dry) = self.sender_probes_until(now) {
                return SilenceAction::Wait(dry);
            }
            if self.holds() && self.schedule.unanswered.saturating_add(SPACED) <= self.most_probes() {
                return SilenceAction::Release;
            }
        }
        SilenceAction::Resend
    }

    /// Handles a silence since the last spaced transmission.
    pub(super) fn on_silence(&mut self, now: Instant, out: &mut Outbox<P>) {
        let action = self.silence_action(now);
        if let SilenceAction::Wait(until) = action {
            self.schedule.silence = Some(until);
            return;
        }
        self.schedule.silence = None;
        self.schedule.unanswered = self.schedule.unanswered.saturating_add(SPACED);
        if action == SilenceAction::Release {
            self.release_beyond(now, SPACED, out);
            self.schedule.silence = Some(now + self.spacing());
            return;
        }
        if self.detection.reports == Reports::Seen {
            self.resend_lost(now, SPACED, out);
        }
        if self.awaits_arrivals(now) {
            self.probe_overdue(now, out);
        } else {
            self.probe_silence(now, out);
        }
    }

    /// Returns whether no data is declared lost yet on a connection whose sender repairs the hop itself.
    fn awaits_arrivals(&self, now: Instant) -> bool {
        self.hop.is_none()
            && self.repairs_alone(now)
            && self.schedule.scan == Scan::Complete
            && !self.arrivals.has_timed_out()
    }

    /// Returns when the oldest packet in flight should have arrived, if local repair ends the silence; not before the
    /// hop has had time for another.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Instant> {
        if self.hop.is_some() || !self.repairs_alone(now) {
            return None;
        }
        let beyond = self.detection.highest_marked.map_or(0, |highest| self.cache.index_after(highest));
        let oldest = if beyond < self.cache.len() { beyond } else { 0 };
        let sent = self.cache.get_mut(oldest)?.last_sent;
        Some((sent + self.rtt.due()?).max(now + LEAST_MARGIN))
    }

    /// Records data from the sender, which can become overdue.
    pub(super) fn on_sender_data(&mut self, now: Instant) {
        self.arrivals.last_data = now;
        if self.schedule.silence.is_none() {
            self.schedule.silence = self.overdue(now);
        }
    }

    /// Returns the time until which the sender's last data is in the queue, where it probes the hop as well as a copy
    /// would.
    fn sender_probes_until(&self, now: Instant) -> Option<Instant> {
        let dry = self.arrivals.last_data + self.rtt.queue() + self.packet_time();
        (self.awaits_arrivals(now) && now < dry).then_some(dry)
    }

    /// Returns the recent interval between packets, as far as the number in flight shows it.
    fn packet_time(&self) -> Duration {
        (self.rtt.smoothed() / (self.cache.len() as u64).max(LEAST_UNDER_WAY)).max(FLOOR)
    }

    /// Sends copies of the last packet at the recent packet rate if data is overdue and the queue has drained. If
    /// acknowledgments were lost, the next one shows it before all data is retransmitted; if data was lost, it shows
    /// which.
    fn probe_overdue(&mut self, now: Instant, out: &mut Outbox<P>) {
        if self.schedule.unanswered > MOST_PROBES * SPACED {
            return;
        }
        if let Some((last, _)) = self.last_on_hop() {
            self.resend(now, last, Trigger::Timer, out);
        }
        self.schedule.silence = Some(now + self.packet_time());
    }

    /// Probes the hop with the last packet alone after all data declared lost in a silence has been resent. Its
    /// position in the order of transmissions shows which of it was lost. If delays grow suddenly, most of it was not.
    fn probe_silence(&mut self, now: Instant, out: &mut Outbox<P>) {
        let heard = self.arrivals.last();
        if !self.repairs_alone(now) || self.schedule.scan != Scan::Complete || !self.arrivals.has_timed_out() {
            return;
        }
        // Probes become rarer as the silence lasts. A fade that ends by packets, not by time, needs many.
        let pause = self.spacing().max(now.since(heard) / SELDOM);
        if let Some((index, sent)) = self.last_on_hop()
            && now.since(sent) >= pause
        {
            self.resend(now, index, Trigger::Timer, out);
        }
        self.schedule.silence = Some(now + pause);
    }

    /// Handles a timeout: nothing has arrived for too long.
    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Outbox<P>) {
        // Once per silence: data resent since then may still be in flight.
        if !self.repairs_alone(now) || !self.arrivals.has_timed_out() {
            self.detection.order.time_out();
            self.arrivals.time_out(now);
        }
        self.handle_reneging();
        if let Some(front) = self.cache.get_mut(0) {
            front.by_timer = front.by_timer.saturating_add(1);
            self.backoff.time_out(front.by_timer, front.seq, self.stream.high);
            self.resend(now, 0, Trigger::Timer, out);
            self.expect_duplicates();
        }
        if self.detection.reports == Reports::Seen && !self.holds() {
            self.resend_lost(now, SPACED, out);
        }
        if self.repairs_alone(now) && self.schedule.silence.is_none() {
            self.schedule.silence = Some(now + self.spacing());
        }
    }
}
