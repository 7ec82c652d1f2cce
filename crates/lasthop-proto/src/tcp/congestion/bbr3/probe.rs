//! Probing for more rate, and for the round trip without queues.

use super::{AckSample, Bbr3, GAIN_UNIT, Phase, Sample};
use crate::time::{Duration, Instant};

/// `MinRTTFilterLen`.
const MIN_RTT_LASTS: Duration = Duration::from_secs(10);
/// `ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `ProbeRTTDuration`.
const PROBE_RTT_LASTS: Duration = Duration::from_millis(200);
/// Minimum time between probes for rate, without its random part.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// Maximum random time that is added to [`PROBE_WAIT`].
const PROBE_WAIT_SPREAD: Duration = Duration::from_secs(1);
/// Maximum number of rounds between probes: as often as Reno would lose on a small path.
const PROBE_ROUNDS: u32 = 63;

/// Relation of acknowledgments to probing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// State of the probing cycle.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// True if the acknowledged data was sent while probing.
    pub is_probe_sample: bool,
    /// Start of the cycle.
    since: Instant,
    wait: Duration,
    pub rounds_since_probe: u32,
    up_rounds: u32,
    up_acked: u64,
    up_acked_per_segment: u64,
    /// True if the last probe caused too many losses.
    pub was_too_high: bool,
    /// True if the last probe stopped at the bound as a precaution.
    was_precautionary: bool,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_probe_sample: false,
            since: Instant::ZERO,
            wait: Duration::ZERO,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_acked: 0,
            up_acked_per_segment: u64::MAX,
            was_too_high: false,
            was_precautionary: false,
        }
    }
}

/// State of probing for the round trip without queues.
#[derive(Clone, Debug)]
pub(super) struct ProbeRtt {
    /// Minimum round trip of the interval, in microseconds.
    least: u64,
    least_at: Instant,
    is_expired: bool,
    until: Option<Instant>,
    is_round_done: bool,
}

impl Default for ProbeRtt {
    fn default() -> Self {
        Self { least: u64::MAX, least_at: Instant::ZERO, is_expired: false, until: None, is_round_done: false }
    }
}

impl ProbeRtt {
    pub fn begin(&mut self, now: Instant) {
        self.least_at = now;
    }
}

impl Bbr3 {
    fn draw(&mut self, below: u64) -> u64 {
        self.draws.below("bbr3/probe", below)
    }

    pub(super) fn is_in_probe_bw(&self) -> bool {
        matches!(self.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }

    pub(super) fn check_drain_done(&mut self, ack: &AckSample) {
        if self.phase != Phase::Drain {
            return;
        }
        let rounds = self.rounds.number.wrapping_sub(self.drain_start_round);
        let is_drained = ack.in_flight <= self.inflight(self.model.bw, GAIN_UNIT);
        if is_drained || rounds > self.rule.drain_rounds() {
            self.start_down();
        }
    }

    pub(super) fn start_down(&mut self) {
        self.signals.reset();
        self.cycle.up_acked_per_segment = u64::MAX;
        self.cycle.rounds_since_probe = self.draw(2) as u32;
        self.cycle.wait = PROBE_WAIT + Duration::from_nanos(self.draw(PROBE_WAIT_SPREAD.as_nanos()));
        self.cycle.since = self.now;
        self.cycle.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.phase = Phase::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.model.reset_shortterm();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.was_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_bw.reset(sample.bw);
        self.phase = Phase::Up;
        self.raise_slope();
    }

    pub(super) fn update_probe_bw_phase(&mut self, ack: &AckSample, sample: &Sample) {
        if !self.full_bw.is_reached || self.adapt_longterm_model(ack, sample) == Decided::Yes {
            return;
        }
        match self.phase {
            Phase::Down => {
                if self.is_time_to_probe() {
                    self.start_refill();
                } else if self.is_time_to_cruise(ack) {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Cruise => {
                if self.is_time_to_probe() {
                    self.start_refill();
                }
            }
            Phase::Refill => {
                if self.rounds.is_start {
                    self.cycle.is_probe_sample = true;
                    self.start_up(sample);
                }
            }
            Phase::Up => {
                if self.is_time_to_go_down(ack, sample) {
                    self.cycle.was_too_high = false;
                    self.start_down();
                }
            }
            Phase::Startup | Phase::Drain | Phase::ProbeRtt => {}
        }
    }

    fn is_time_to_probe(&self) -> bool {
        // Reno would probe after as many rounds as it has segments in flight.
        let rounds = self.target_inflight().min(PROBE_ROUNDS);
        self.now > self.cycle.since + self.cycle.wait || self.cycle.rounds_since_probe >= rounds
    }

    fn is_time_to_cruise(&self, ack: &AckSample) -> bool {
        ack.in_flight <= self.model.inflight_with_headroom()
            && ack.in_flight <= self.inflight(self.model.max_bw(), GAIN_UNIT)
    }

    fn is_time_to_go_down(&mut self, ack: &AckSample, sample: &Sample) -> bool {
        // Before the acknowledgment: after it, a window limited by the bound always has capacity.
        if self.cycle.was_too_high && ack.prior_in_flight >= self.model.inflight_longterm {
            self.cycle.was_precautionary = true;
            return true;
        }
        if ack.is_cwnd_limited && self.cwnd >= self.model.inflight_longterm {
            // The bound limits the rate, which says nothing about the path.
            self.full_bw.reset(sample.bw);
            return false;
        }
        self.full_bw.is_now
    }

    /// Raises the slope: the bound increases by 1, 2, 4, ... segments per round.
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_acked_per_segment = (u64::from(self.cwnd) / growth).max(1);
    }

    fn raise_bound(&mut self, ack: &AckSample) {
        if !ack.is_cwnd_limited || self.cwnd < self.model.inflight_longterm {
            return;
        }
        self.cycle.up_acked += u64::from(ack.delivered);
        let segments = self.cycle.up_acked / self.cycle.up_acked_per_segment;
        self.cycle.up_acked %= self.cycle.up_acked_per_segment;
        self.model.inflight_longterm =
            self.model.inflight_longterm.saturating_add(segments.min(1 << 20) as u32).min(self.bound);
        if self.rounds.is_start {
            self.raise_slope();
        }
    }

    fn adapt_longterm_model(&mut self, ack: &AckSample, sample: &Sample) -> Decided {
        if self.cycle.ack_phase == AckPhase::ProbeStarting && self.rounds.is_start {
            self.cycle.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.cycle.ack_phase == AckPhase::ProbeStopping && self.rounds.is_start {
            self.cycle.is_probe_sample = false;
            self.cycle.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() {
                if !sample.is_app_limited {
                    self.model.advance_max_bw();
                }
                if self.cycle.was_precautionary && !self.cycle.was_too_high {
                    self.start_refill();
                    return Decided::Yes;
                }
            }
        }
        if !sample.is_inflight_too_high() && self.model.inflight_longterm < u32::MAX {
            self.model.inflight_longterm = self.model.inflight_longterm.max(sample.tx_in_flight);
            if self.phase == Phase::Up {
                self.raise_bound(ack);
            }
        }
        Decided::No
    }

    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        let probe = &mut self.probe_rtt;
        probe.is_expired = ack.now > probe.least_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_nanos() / 1000;
            if rtt < probe.least || probe.is_expired {
                probe.least = rtt;
                probe.least_at = ack.now;
            }
        }
        let is_expired = ack.now > self.model.min_rtt_at + MIN_RTT_LASTS;
        if probe.least < u64::MAX && (is_expired || self.model.min_rtt.is_none_or(|min| probe.least < min)) {
            self.model.min_rtt = Some(probe.least);
            self.model.min_rtt_at = probe.least_at;
        }
    }

    pub(super) fn check_probe_rtt(&mut self, ack: &AckSample) {
        if self.phase != Phase::ProbeRtt && self.probe_rtt.is_expired && !self.is_idle_restart {
            self.save_cwnd();
            self.phase = Phase::ProbeRtt;
            self.probe_rtt.until = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.phase == Phase::ProbeRtt {
            self.handle_probe_rtt(ack);
        }
        if ack.delivered > 0 {
            self.is_idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ack: &AckSample) {
        if self.probe_rtt.until.is_some() {
            self.probe_rtt.is_round_done |= self.rounds.is_start;
            if self.probe_rtt.is_round_done {
                self.check_probe_rtt_done();
            }
        } else if ack.in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt.until = Some(ack.now + PROBE_RTT_LASTS);
            self.probe_rtt.is_round_done = false;
            self.start_round();
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt.until.is_none_or(|until| self.now <= until) {
            return;
        }
        self.probe_rtt.least_at = self.now;
        self.restore_cwnd();
        self.model.reset_shortterm();
        if self.full_bw.is_reached {
            self.start_down();
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decided {
    Yes,
    No,
}
