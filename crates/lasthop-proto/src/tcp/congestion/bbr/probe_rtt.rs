//! Round trip without queues: the minimum of ten seconds. If no shorter one was seen, little is kept in flight for a
//! while, so that the queue drains.

use super::{AckSample, Bbr, LEAST_WINDOW, Mode};
use crate::time::Duration;

/// Time for which a minimum round trip is valid.
const MIN_RTT_LASTS: Duration = Duration::from_secs(10);
/// Minimum duration of `PROBE_RTT`.
const PROBE_RTT_LASTS: Duration = Duration::from_millis(200);

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        let is_expired = self.is_past(self.min_rtt_at + MIN_RTT_LASTS);
        let is_delayed = ack.rate.is_some_and(|rate| rate.is_ack_delayed);
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_nanos() / 1000;
            if self.min_rtt.is_none_or(|min| rtt < min) || (is_expired && !is_delayed) {
                self.min_rtt = Some(rtt);
                self.min_rtt_at = ack.now;
            }
        }
        if is_expired && !self.is_idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_until = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if ack.rate.is_some_and(|rate| rate.delivered > 0) {
            self.is_idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, ack: &AckSample) {
        if self.probe_rtt_until.is_some() {
            self.is_probe_rtt_round_over |= self.is_round_start;
            if self.is_probe_rtt_round_over {
                self.check_probe_rtt_done();
            }
        } else if ack.in_flight <= LEAST_WINDOW {
            self.probe_rtt_until = Some(ack.now + PROBE_RTT_LASTS);
            self.is_probe_rtt_round_over = false;
            self.round_end = ack.total_delivered;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.probe_rtt_until.is_none_or(|until| !self.is_past(until)) {
            return;
        }
        self.min_rtt_at = self.now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.is_full {
            self.enter_probe_bw();
        } else {
            self.mode = Mode::Startup;
        }
    }
}
