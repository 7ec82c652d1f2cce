//! One timer for three purposes, as in Linux: retransmission timeout, tail-loss probe, and the wait for reordered
//! segments.

use super::{Forced, Permit, Rack, unsent};
use crate::event::Event;
use crate::tcp::config::{Clock, RttRule, Switch};
use crate::tcp::congestion::control::{CaState, Episode};
use crate::tcp::modern::prr::Step;
use crate::tcp::modern::rack::detect;
use crate::tcp::stream::Stream;
use crate::time::{Duration, Instant};

/// Purpose for which the timer is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pending {
    Timeout,
    Probe,
    Reordering,
}

/// Minimum timeout, Linux's `TCP_TIMEOUT_MIN`: two ticks of the fastest clock, for timers that count in ticks.
const SLACK: Duration = Duration::from_millis(2);
/// Time for which a peer may delay the acknowledgment of a single segment (RFC 8985 §7.2).
const DELAYED_ACK: Duration = Duration::from_millis(200);

impl Rack {
    fn slack(s: &Stream) -> Duration {
        if matches!(s.config().clock, Clock::Jiffies { .. }) { SLACK } else { Duration::ZERO }
    }

    pub(super) fn set_timer(&mut self, s: &mut Stream, now: Instant, what: Pending, span: Duration) {
        let paced = self.is_paced() && what != Pending::Reordering;
        let delay = if paced { self.pacer.delay(now) } else { Duration::ZERO };
        self.pending = what;
        s.set_timer(now, span + delay);
    }

    /// Returns the time until the oldest segment times out.
    fn until_timeout(&self, s: &Stream, now: Instant) -> Duration {
        let sent = self.flight.front().map_or(now, |sent| sent.sent_at());
        (sent + s.rtt().rto()).since(now)
    }

    /// Sets the retransmission timeout. If the timer was set for another purpose, it counts from the oldest segment.
    pub(super) fn restart_timeout(&mut self, s: &mut Stream, now: Instant) {
        if self.flight.is_empty() {
            s.stop_timer();
            return;
        }
        let span = match self.pending {
            Pending::Probe | Pending::Reordering if s.rto_timer().is_some() => {
                self.until_timeout(s, now).max(Duration::from_micros(1))
            }
            _ => s.rtt().rto(),
        };
        self.set_timer(s, now, Pending::Timeout, span);
    }

    /// Schedules a probe (RFC 8985 §7.2). `full` is the remaining retransmission timeout. Returns whether a probe is
    /// scheduled.
    fn schedule_probe(&mut self, s: &mut Stream, now: Instant, full: Duration) -> bool {
        let steady = matches!(self.phase.state, CaState::Open | CaState::Cwr);
        // Without SACK the response to a probe shows nothing.
        if !self.config.tlp.is_on() || self.flight.is_empty() || !steady || self.is_blind() {
            return false;
        }
        let mut span = match s.rtt().srtt() {
            Some(srtt) if self.flight.len() == 1 => {
                let patience = if s.config().rtt_rule == RttRule::Linux { s.config().rto_min } else { DELAYED_ACK };
                srtt * 2 + patience
            }
            Some(srtt) => srtt * 2 + Self::slack(s),
            None => s.config().rto_initial,
        };
        if full > Duration::ZERO {
            span = span.min(full);
        }
        self.set_timer(s, now, Pending::Probe, span);
        true
    }

    /// Restarts the timer after an acknowledgment made progress.
    pub(super) fn restart_timer(&mut self, s: &mut Stream, now: Instant) {
        if !self.schedule_probe(s, now, s.rtt().rto()) {
            self.restart_timeout(s, now);
        }
    }

    /// Schedules another loss detection in `span`, when further segments may be lost.
    pub(super) fn wait_for_reordering(&mut self, s: &mut Stream, now: Instant, span: Duration) {
        self.set_timer(s, now, Pending::Reordering, span + Self::slack(s));
    }

    /// Updates the timer for the segments sent since the last time.
    pub(super) fn look_after_timer(&mut self, s: &mut Stream, now: Instant) {
        let batch = self.batch;
        if batch.probe || self.forced.take().is_some() {
            // The timeout runs from the probe; if none could be sent, it continues as before.
            if batch.probe {
                s.report(Event::TailProbe { seq: self.flight.back().map_or(s.snd_una(), |last| last.seq()) });
                self.pending = Pending::Timeout;
            }
            self.restart_timeout(s, now);
            return;
        }
        if batch.oldest && self.pending != Pending::Reordering {
            self.set_timer(s, now, Pending::Timeout, s.rtt().rto());
        }
        if batch.waited {
            self.restart_timeout(s, now);
        }
        if batch.new {
            let full = self.until_timeout(s, now);
            // A probe of the peer's window is followed by the timeout (`tcp_write_wakeup`).
            let probes = !batch.window_probe && self.schedule_probe(s, now, full);
            if !probes && (batch.first || self.pending == Pending::Probe) {
                self.restart_timeout(s, now);
            }
        }
    }

    /// Handles an expiry of the timer that is not a retransmission timeout. Returns false for a retransmission timeout.
    pub fn on_timer(&mut self, s: &mut Stream, now: Instant) -> bool {
        match self.pending {
            Pending::Timeout => return false,
            Pending::Reordering => self.stop_waiting(s, now),
            Pending::Probe => self.send_probe(s, now),
        }
        true
    }

    /// Sends a probe (RFC 8985 §7.3).
    fn send_probe(&mut self, s: &mut Stream, now: Instant) {
        if self.probe.is_some() || self.flight.is_empty() {
            self.restart_timeout(s, now);
            return;
        }
        self.forced = Some(Forced::Probe);
        self.permit = Permit::Nothing;
    }

    /// Ends the wait for reordered segments (Linux `tcp_rack_reo_timeout`).
    fn stop_waiting(&mut self, s: &mut Stream, now: Instant) {
        let (in_flight, lost) = (self.flight.in_flight(), self.rate.lost());
        self.detect(s, now);
        if self.flight.in_flight() != in_flight {
            if self.phase.state != CaState::Recovery {
                self.enter_recovery(s, now, 0);
                let found = self.rate.lost() > lost;
                self.reduce(&Step {
                    delivered: 1,
                    in_flight: self.flight.in_flight(),
                    ssthresh: self.control.ssthresh(),
                    is_safe: !found,
                });
            }
            self.permit = Permit::Lost;
        }
        self.batch.waited = true;
    }

    /// Detects losses, regardless of deliveries; returns the time to wait for the rest.
    pub(super) fn detect(&mut self, s: &Stream, now: Instant) -> Option<Duration> {
        let srtt = s.rtt().srtt().unwrap_or(Duration::ZERO);
        let window = self.reordering.window(self.phase.state, self.flight.sacked(), self.least_rtt(), srtt);
        let Self { flight, rate, control, newest, .. } = self;
        detect::detect(flight, newest, now, window, |flight, index| {
            Self::mark_lost(flight, rate, control, now, index);
        })
    }

    /// Handles the retransmission timeout (Linux `tcp_enter_loss`): declares overdue segments lost and resends the
    /// oldest, and the rest as acknowledgments permit. `s.retries()` counts this timeout.
    pub fn on_retransmission_timeout(&mut self, s: &mut Stream, now: Instant) {
        let recurring = s.retries() > 1;
        let was = self.phase.state;
        let fresh = matches!(was, CaState::Open | CaState::Disorder | CaState::Cwr);
        self.mark_overdue(now);
        let again = !(matches!(was, CaState::Open | CaState::Disorder)
            || s.snd_una().ge(self.phase.high)
            || was == CaState::Loss && !recurring);
        if !again {
            self.undo.allow();
            self.undo.begin(s.snd_una(), self.open_retransmissions());
        }
        self.control.on_episode(now, Episode::Timeout { again, totals: self.rate.totals() });
        self.control.set_window(self.flight.in_flight() + 1);
        self.usage.restart(now);
        if matches!(was, CaState::Open | CaState::Disorder) {
            self.reordering.on_timeout(self.flight.sacked());
        }
        if was == CaState::Recovery {
            s.report(Event::RecoveryLeft { ack: s.snd_una() });
        }
        self.phase.state = CaState::Loss;
        self.phase.high = s.snd_nxt();
        self.probe = None;
        self.phase.untold = Switch::On;
        self.phase.frto = self.config.frto.is_on() && (fresh || recurring);
        self.rate.restart_round();
        self.forced = Some(Forced::Oldest);
        self.permit = Permit::Nothing;
        self.pending = Pending::Timeout;
    }

    /// Declares the oldest segment lost, and those that RACK finds overdue. If the peer had reported the oldest, it has
    /// reneged (RFC 2018 §8), and all are declared lost.
    fn mark_overdue(&mut self, now: Instant) {
        self.flight.forget_guesses();
        if self.flight.front().is_some_and(|oldest| oldest.is_sacked()) {
            self.flight.forget_sacks();
            self.reneged = true;
        }
        let Self { flight, rate, control, newest, reneged, .. } = self;
        let places = flight.iter().enumerate();
        let overdue = places.filter(|(at, (_, sent))| {
            *at == 0 || *reneged || newest.patience(now, sent, Duration::ZERO) == Duration::ZERO
        });
        let overdue: alloc::vec::Vec<_> = overdue.map(|(_, (index, _))| index).collect();
        for index in overdue {
            Self::mark_lost(flight, rate, control, now, index);
        }
    }

    /// Returns the number of retransmissions that the peer may report as spurious, a probe's included.
    pub(super) fn open_retransmissions(&self) -> u32 {
        self.flight.resent() + u32::from(self.probe.is_some_and(|probe| probe.repeats))
    }

    /// Returns whether new data is available and fits the peer's window.
    pub(super) fn can_try_new(&self, s: &Stream) -> bool {
        unsent(s) && s.snd_nxt().since(s.snd_una()) < s.flow_window()
    }
}
