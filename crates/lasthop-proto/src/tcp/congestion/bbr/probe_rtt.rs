//! Round trip without queues: the minimum of ten seconds. If no shorter one was seen, little is kept in flight for a
//! while, so that the queue drains.

use super::{AckSample, Bbr, LEAST_WINDOW, Mode};
use crate::time::{Duration, Instant};

/// Time for which a minimum round trip is valid.
const MIN_RTT_LASTS: Duration = Duration::from_secs(10);
/// Minimum duration of `PROBE_RTT`.
const PROBE_RTT_LASTS: Duration = Duration::from_millis(200);

/// Minimum round trip, and the progress of `PROBE_RTT`.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct MinRtt {
    /// Minimum round trip, in microseconds.
    pub micros: Option<u64>,
    at: Instant,
    /// End of `PROBE_RTT`; `None` while more is in flight than it allows.
    until: Option<Instant>,
    is_round_over: bool,
}

impl MinRtt {
    pub fn begin(&mut self, now: Instant, rtt: Option<Duration>) {
        self.micros = rtt.map(|rtt| rtt.as_nanos() / 1000);
        self.at = now;
    }
}

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        let is_expired = self.is_past(self.min_rtt.at + MIN_RTT_LASTS);
        let is_delayed = ack.rate.is_some_and(|rate| rate.is_ack_delayed);
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_nanos() / 1000;
            if self.min_rtt.micros.is_none_or(|min| rtt < min) || (is_expired && !is_delayed) {
                self.min_rtt.micros = Some(rtt);
                self.min_rtt.at = ack.now;
            }
        }
        if is_expired && !self.is_idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.min_rtt.until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if ack.rate.is_some_and(|rate| rate.delivered > 0) {
            self.is_idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, ack: &AckSample) {
        if self.min_rtt.until.is_some() {
            self.min_rtt.is_round_over |= self.rounds.is_start;
            if self.min_rtt.is_round_over {
                self.check_probe_rtt_done();
            }
        } else if ack.in_flight <= LEAST_WINDOW {
            self.min_rtt.until = Some(ack.now + PROBE_RTT_LASTS);
            self.min_rtt.is_round_over = false;
            self.rounds.restart(ack.total_delivered);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.min_rtt.until.is_none_or(|until| !self.is_past(until)) {
            return;
        }
        self.min_rtt.at = self.now;
        self.cwnd = self.cwnd.max(self.saved.cwnd);
        if self.full.is_full {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
