//! Phases: the end of `STARTUP` and `DRAIN`, and the cycle of gains in `PROBE_BW`.

use super::{AckSample, Bbr, GAIN_UNIT, Mode};
use crate::time::{Duration, Instant};

/// Phases of `PROBE_BW`: a higher rate, a lower one to compensate, then the path's rate.
const CYCLE: [u32; 8] = [320, 192, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT];
/// Growth of the rate per round below which the pipe is considered full, if that lasts for [`FULL_ROUNDS`].
const FULL_GAIN: u128 = 320;
/// Number of consecutive rounds without growth by [`FULL_GAIN`] that show a full pipe.
const FULL_ROUNDS: u32 = 3;

/// Place in the cycle of gains.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cycle {
    phase: usize,
    start: Instant,
}

impl Cycle {
    pub fn begin(&mut self, now: Instant) {
        self.start = now;
    }

    /// Returns the phase's gain.
    pub fn gain(&self) -> u32 {
        CYCLE[self.phase]
    }

    /// Returns whether the phase probes for more.
    pub fn is_probing(&self) -> bool {
        self.phase == 0
    }

    fn lasted(&self, now: Instant) -> Duration {
        now.since(self.start)
    }

    fn advance(&mut self, now: Instant) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.start = now;
    }
}

/// Detection of a full pipe: the rate no longer grows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FullPipe {
    /// True once the pipe was full.
    pub is_full: bool,
    /// Last rate that grew.
    rate: u64,
    /// Consecutive rounds without growth.
    rounds: u32,
}

impl FullPipe {
    /// Processes the maximum rate of a round.
    fn update(&mut self, rate: u64) {
        if u128::from(rate) >= u128::from(self.rate) * FULL_GAIN / u128::from(GAIN_UNIT) {
            self.rate = rate;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.is_full = self.rounds >= FULL_ROUNDS;
    }

    /// Counts the next rate as growth.
    pub fn forget_rate(&mut self) {
        self.rate = 0;
    }

    /// Starts to count rounds again.
    pub fn restart(&mut self) {
        self.forget_rate();
        self.rounds = 0;
    }
}

impl Bbr {
    pub(super) fn update_phase(&mut self, ack: &AckSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let lasted = self.cycle.lasted(ack.now).as_nanos() / 1000;
        let is_long = self.min_rtt.micros.is_some_and(|min_rtt| lasted > min_rtt);
        let in_flight = self.in_flight_at_departure(ack, ack.prior_in_flight);
        let is_over = match self.pacing_gain.cmp(&GAIN_UNIT) {
            core::cmp::Ordering::Equal => is_long,
            // Until there is a queue, or the queue is full.
            core::cmp::Ordering::Greater => {
                is_long && (ack.newly_lost > 0 || in_flight >= self.inflight(self.pacing_gain))
            }
            // Until there is none.
            core::cmp::Ordering::Less => is_long || in_flight <= self.inflight(GAIN_UNIT),
        };
        if is_over {
            self.cycle.advance(self.now);
        }
    }

    /// Enters `PROBE_BW` at a random phase except the second, so that flows that start together do not stay
    /// synchronized.
    pub(super) fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle.phase = 7 - self.draws.below("bbr/phase", 7) as usize;
        self.cycle.advance(self.now);
    }

    pub(super) fn check_full(&mut self, ack: &AckSample) {
        if !self.full.is_full && self.rounds.is_start && ack.rate.is_some_and(|rate| !rate.is_app_limited) {
            self.full.update(self.max_rate());
        }
    }

    pub(super) fn check_drain(&mut self, ack: &AckSample) {
        if self.mode == Mode::Startup && self.full.is_full {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(GAIN_UNIT);
        }
        if self.mode == Mode::Drain && self.in_flight_at_departure(ack, ack.in_flight) <= self.inflight(GAIN_UNIT) {
            self.enter_probe_bw();
        }
    }
}
