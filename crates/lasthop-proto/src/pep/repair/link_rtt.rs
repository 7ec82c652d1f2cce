//! The round trip of the wireless hop, and the local timeout from it.

use super::super::snoop_config::SnoopConfig;
use crate::time::Duration;

/// Smallest local timeout and link round trip that are believed: bounds the work that a mobile host can ask for.
pub(super) const FLOOR: Duration = Duration::from_millis(1);

/// Smoothed round trip of the wireless hop (the estimator of RFC 6298 §2, in nanoseconds).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LinkRtt {
    srtt: Option<u64>,
    dev: u64,
}

impl LinkRtt {
    pub fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_nanos();
        match self.srtt {
            None => (self.srtt, self.dev) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                let error = srtt.abs_diff(rtt);
                self.dev = self.dev - self.dev / 4 + error / 4;
                self.srtt = Some(srtt - srtt / 8 + rtt / 8);
            }
        }
    }

    /// srtt + 4 dev within the configured bounds. Before the first sample twice the lower bound: the mobile host may hold
    /// its first acknowledgment back for as long as the bound itself.
    pub fn timeout(&self, config: &SnoopConfig) -> Duration {
        let nanos = match self.srtt {
            Some(srtt) => srtt.saturating_add(self.dev.saturating_mul(4)),
            None => config.timer_min.as_nanos().saturating_mul(2),
        };
        Duration::from_nanos(nanos).min(config.timer_max).max(config.timer_min).max(FLOOR)
    }

    /// In what time a hole is resent at most once.
    pub fn round_trip(&self, config: &SnoopConfig) -> Duration {
        self.srtt.map_or(config.timer_min, Duration::from_nanos).max(FLOOR)
    }
}
