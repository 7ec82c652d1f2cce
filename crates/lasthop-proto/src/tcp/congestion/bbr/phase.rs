//! Phases: the end of `STARTUP` and `DRAIN`, and the cycle of gains in `PROBE_BW`.

use super::{Bbr, CYCLE, FULL_GAIN, FULL_ROUNDS, GAIN_UNIT, Mode};
use crate::random::Root;
use crate::tcp::congestion::control::AckSample;

impl Bbr {
    pub(super) fn update_phase(&mut self, ack: &AckSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let lasted = ack.now.since(self.phase_start).as_nanos() / 1000;
        let is_long = self.min_rtt.is_some_and(|min_rtt| lasted > min_rtt);
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
            self.next_phase();
        }
    }

    fn next_phase(&mut self) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_start = self.now;
    }

    /// Enters `PROBE_BW` at a random phase except the second, so that flows that start together do not stay
    /// synchronized.
    pub(super) fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        let draw = Root(self.seed.wrapping_add(self.draws)).stream("bbr/phase").below(7);
        self.draws = self.draws.wrapping_add(1);
        self.phase = 7 - draw as usize;
        self.next_phase();
    }

    pub(super) fn check_full(&mut self, ack: &AckSample) {
        if self.is_full || !self.is_round_start || ack.rate.is_none_or(|rate| rate.is_app_limited) {
            return;
        }
        if u128::from(self.max_rate()) >= u128::from(self.full_rate) * FULL_GAIN / u128::from(GAIN_UNIT) {
            self.full_rate = self.max_rate();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    pub(super) fn check_drain(&mut self, ack: &AckSample) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(GAIN_UNIT);
        }
        if self.mode == Mode::Drain && self.in_flight_at_departure(ack, ack.in_flight) <= self.inflight(GAIN_UNIT) {
            self.enter_probe_bw();
        }
    }
}
