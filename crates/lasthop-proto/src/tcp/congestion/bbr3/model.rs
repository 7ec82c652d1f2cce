//! Model of the path: its rate, round trip and bounds, and the short-term reaction to losses.

use super::{AckSample, BW_UNIT, Bbr3, LostSegment, MIN_PIPE_CWND, Phase, Sample};
use crate::tcp::congestion::max_filter::{MaxFilter, Moment};
use crate::time::Instant;

/// Divisor of the data in flight above which losses are too many: `LossThresh` = 2 %.
const LOSS_THRESHOLD: u64 = 50;
/// `Beta` = 0.7.
const BETA: (u64, u64) = (7, 10);
/// `Headroom` = 0.15.
const HEADROOM: (u64, u64) = (15, 100);
/// `ExtraAckedFilterLen`, in rounds.
pub(super) const EXTRA_ACKED_ROUNDS: u32 = 10;
/// `BBRStartupFullLossCnt`: number of acknowledgments in a round that show losses.
const STARTUP_LOSS_EVENTS: u32 = 6;

/// Returns `value` times [`BETA`].
fn beta(value: u64) -> u64 {
    (u128::from(value) * u128::from(BETA.0) / u128::from(BETA.1)) as u64
}

/// Estimates of the path.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Maxima of the last probing cycle and of the current one.
    max_bw: [u64; 2],
    /// Rate in use.
    pub bw: u64,
    pub bw_shortterm: u64,
    pub inflight_shortterm: u32,
    pub inflight_longterm: u32,
    /// Minimum round trip, in microseconds.
    pub min_rtt: Option<u64>,
    pub min_rtt_at: Instant,
    extra_acked: MaxFilter,
    extra_since: Instant,
    extra_delivered: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            max_bw: [0; 2],
            bw: 0,
            bw_shortterm: u64::MAX,
            inflight_shortterm: u32::MAX,
            inflight_longterm: u32::MAX,
            min_rtt: None,
            min_rtt_at: Instant::ZERO,
            extra_acked: MaxFilter::default(),
            extra_since: Instant::ZERO,
            extra_delivered: 0,
        }
    }
}

impl Model {
    pub fn begin(&mut self, min_rtt: Option<u64>, now: Instant) {
        self.min_rtt = min_rtt;
        self.min_rtt_at = now;
        self.begin_extra_acked(now);
    }

    pub fn max_bw(&self) -> u64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Ends a cycle. A cycle without samples leaves the maximum unchanged.
    pub fn advance_max_bw(&mut self) {
        if self.max_bw[1] > 0 {
            self.max_bw = [self.max_bw[1], 0];
        }
    }

    fn update_max_bw(&mut self, sample: &Sample) {
        if sample.bw > 0 && (sample.bw >= self.max_bw() || !sample.is_app_limited) {
            self.max_bw[1] = self.max_bw[1].max(sample.bw);
        }
    }

    pub fn bound_bw(&mut self) {
        self.bw = self.max_bw().min(self.bw_shortterm);
    }

    pub fn reset_shortterm(&mut self) {
        self.bw_shortterm = u64::MAX;
        self.inflight_shortterm = u32::MAX;
    }

    pub fn inflight_with_headroom(&self) -> u32 {
        if self.inflight_longterm == u32::MAX {
            return u32::MAX;
        }
        let headroom = u64::from(self.inflight_longterm) * HEADROOM.0 / HEADROOM.1;
        self.inflight_longterm.saturating_sub((headroom as u32).max(1)).max(MIN_PIPE_CWND)
    }

    pub fn begin_extra_acked(&mut self, now: Instant) {
        self.extra_since = now;
    }

    pub fn extra_acked(&self) -> u32 {
        self.extra_acked.max().min(1 << 30) as u32
    }

    pub fn update_extra_acked(&mut self, ack: &AckSample, cwnd: u32, now: Moment) {
        let micros = ack.now.since(self.extra_since).as_nanos() / 1000;
        let expected = u128::from(self.bw) * u128::from(micros) / BW_UNIT;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.extra_delivered <= expected {
            self.extra_delivered = 0;
            self.extra_since = ack.now;
            expected = 0;
        }
        self.extra_delivered += u64::from(ack.delivered);
        let extra = (self.extra_delivered - expected).min(u64::from(cwnd));
        self.extra_acked.update(now, extra);
    }
}

/// Congestion signals of the current round.
#[derive(Clone, Default, Debug)]
pub(super) struct Signals {
    pub is_loss_in_round: bool,
    /// Number of acknowledgments in the round that showed losses.
    loss_events: u32,
    loss_round_end: u64,
    pub is_loss_round_start: bool,
    bw_latest: u64,
    inflight_latest: u32,
}

impl Signals {
    pub fn update_latest(&mut self, sample: &Sample, delivered: u64) {
        self.bw_latest = self.bw_latest.max(sample.bw);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= self.loss_round_end {
            self.loss_round_end = delivered;
            self.is_loss_round_start = true;
        }
    }

    pub fn advance_latest(&mut self, sample: &Sample) {
        if self.is_loss_round_start {
            self.bw_latest = sample.bw;
            self.inflight_latest = sample.delivered;
        }
    }

    pub fn reset(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }
}

/// Returns whether losses show that too much was in flight.
fn is_too_high(segment: &LostSegment) -> bool {
    u64::from(segment.lost) * LOSS_THRESHOLD > u64::from(segment.tx_in_flight)
}

impl Sample {
    pub fn is_inflight_too_high(&self) -> bool {
        let Self { tx_in_flight, lost, is_app_limited, .. } = *self;
        is_too_high(&LostSegment { tx_in_flight, lost, is_app_limited })
    }
}

impl Bbr3 {
    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        self.model.update_max_bw(sample);
        if !self.signals.is_loss_round_start {
            return;
        }
        if self.signals.is_loss_in_round && !self.is_probing_bw() {
            self.lower_bounds();
        }
        self.signals.is_loss_in_round = false;
    }

    fn is_probing_bw(&self) -> bool {
        matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up)
    }

    /// Lowers the short-term bounds once per round to the data delivered, but by a factor of 0.7 at most.
    fn lower_bounds(&mut self) {
        let (model, signals) = (&mut self.model, &self.signals);
        if model.bw_shortterm == u64::MAX {
            model.bw_shortterm = model.max_bw();
        }
        if model.inflight_shortterm == u32::MAX {
            model.inflight_shortterm = self.cwnd;
        }
        model.bw_shortterm = beta(model.bw_shortterm).max(signals.bw_latest);
        model.inflight_shortterm = (beta(u64::from(model.inflight_shortterm)) as u32).max(signals.inflight_latest);
    }

    pub(super) fn check_startup_done(&mut self, ack: &AckSample, sample: &Sample) {
        if self.phase != Phase::Startup {
            return;
        }
        self.check_startup_high_loss(ack, sample);
        if self.full_bw.is_reached {
            self.phase = Phase::Drain;
            self.drain_start_round = self.rounds.number;
        }
    }

    /// Checks for a round in recovery with losses of more than 2 % in several places.
    fn check_startup_high_loss(&mut self, ack: &AckSample, sample: &Sample) {
        if ack.newly_lost > 0 {
            self.signals.loss_events = self.signals.loss_events.saturating_add(1);
        }
        if !self.signals.is_loss_round_start {
            return;
        }
        let is_lossy = ack.state == super::CaState::Recovery
            && self.signals.loss_events >= STARTUP_LOSS_EVENTS
            && sample.is_inflight_too_high();
        self.signals.loss_events = 0;
        if is_lossy && !self.full_bw.is_reached {
            self.undo.phase = Some(Phase::Startup);
            self.full_bw.is_reached = true;
            self.full_bw.is_now = true;
            let bdp = self.bdp_multiple(self.model.bw, super::GAIN_UNIT);
            self.model.inflight_longterm = bdp.max(self.signals.inflight_latest);
        }
    }

    pub(super) fn handle_lost(&mut self, segment: &LostSegment) {
        if !self.signals.is_loss_in_round {
            self.signals.loss_round_end = self.delivered;
            self.save_state_upon_loss();
        }
        self.signals.is_loss_in_round = true;
        if self.cycle.is_probe_sample && is_too_high(segment) {
            self.handle_inflight_too_high(&LostSegment { tx_in_flight: inflight_at_loss(segment), ..*segment });
        }
    }

    fn handle_inflight_too_high(&mut self, segment: &LostSegment) {
        self.cycle.was_too_high = true;
        self.cycle.is_probe_sample = false;
        if !segment.is_app_limited {
            self.model.inflight_longterm = segment.tx_in_flight.max(beta(u64::from(self.target_inflight())) as u32);
        }
        if self.phase == Phase::Up {
            self.undo.phase = Some(Phase::Up);
            self.start_down();
        }
    }
}

/// Returns the data in flight when losses exceeded the threshold: all before this segment, and the part of it within
/// the threshold.
fn inflight_at_loss(segment: &LostSegment) -> u32 {
    let before = segment.tx_in_flight.saturating_sub(1);
    let lost_before = u64::from(segment.lost.saturating_sub(1));
    let allowed = u64::from(before).saturating_sub(lost_before * LOSS_THRESHOLD) / (LOSS_THRESHOLD - 1);
    before.saturating_add(allowed as u32)
}
