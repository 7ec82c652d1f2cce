//! Timers of a connection, and the actions due.

use super::hop::Hop;
use super::link_rtt::FLOOR;
use super::{Burst, LEAST_REPAIRS, LocalTimer, Outbox, Repair, Reports};
use crate::packet::Payload;
use crate::pep::cache::Whereabouts;
use crate::pep::snoop_config::SnoopConfig;
use crate::time::Instant;

impl<P: Payload> Repair<P> {
    /// Returns the time of the next action.
    pub fn poll_deadline(&self, config: &SnoopConfig) -> Option<Instant> {
        self.due(config).map(|due| self.budget.delays(due))
    }

    /// Returns the time of the next action without regard to the pause in a silence.
    fn due(&self, config: &SnoopConfig) -> Option<Instant> {
        if let Burst::Allowed { since, .. } = self.schedule.burst {
            return Some(since);
        }
        let paced = self.hop.as_ref().and_then(Hop::paced);
        let LocalTimer::Running(timer) = self.timer(config) else { return paced };
        let next = self.schedule.next(timer);
        Some(paced.map_or(next, |paced| next.min(paced)))
    }

    /// Returns the state of the local retransmission timer, which is that of the oldest packet.
    pub(super) fn timer(&self, config: &SnoopConfig) -> LocalTimer {
        let Some(front) = self.cache.front() else { return LocalTimer::Idle };
        if self.stream.last_ack.is_none() {
            return LocalTimer::BeforeFirstAck;
        }
        if self.stream.is_closed() {
            return LocalTimer::WindowClosed;
        }
        if front.by_timer >= config.max_local_retries {
            return LocalTimer::GivenUp;
        }
        if self.sizes.are_limited() && front.whereabouts == Whereabouts::Arrived {
            return LocalTimer::TooLarge;
        }
        // Progress shows that the hop works through its queue, and restarts the timer. Without reports of other losses,
        // it does not restart for packets sent before a timeout; otherwise a burst without later packets would cost a
        // timeout per packet.
        let restarts = self.detection.reports == Reports::Seen || front.seq.ge(self.backoff.recover);
        let since = if restarts { self.arrivals.last().max(front.last_sent) } else { front.last_sent };
        // The acknowledgment of a single packet may be delayed, that of two is not (RFC 9293 §3.8.6.3).
        let alone = self.cache.len() == 1 || self.hop.is_none();
        let timeout = if alone { self.rtt.timeout(config) } else { self.rtt.probe_timeout(config) };
        let timeout = timeout.saturating_mul(1 << self.backoff.doublings);
        let at = since + timeout.max(self.others_timeout(since)).min(config.timer_max.max(FLOOR));
        if at == Instant::FAR_FUTURE { LocalTimer::Never } else { LocalTimer::Running(at) }
    }

    /// Performs the actions that are due.
    pub fn on_timer(&mut self, now: Instant, config: &SnoopConfig, out: &mut Outbox<P>) {
        if self.is_left_to_sender(now) {
            self.schedule.stop();
        }
        if self.schedule.burst != Burst::None {
            self.resend_burst(now, out);
            self.release(now, out);
        }
        if self.hop.as_ref().and_then(Hop::paced).is_some_and(|paced| paced <= now) {
            self.release(now, out);
        }
        self.send_extra_copy(now, out);
        if self.schedule.reordered.is_some_and(|at| at <= now) {
            self.schedule.reordered = None;
            self.resend_lost(now, LEAST_REPAIRS, out);
        }
        if self.schedule.silence.is_some_and(|at| at <= now) {
            self.on_silence(now, out);
        }
        if matches!(self.timer(config), LocalTimer::Running(timer) if timer <= now) {
            self.responsibility.time_out(now);
            self.handle_timeout(now, out);
        }
    }
}
