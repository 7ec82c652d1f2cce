//! Round-trip time of the wireless hop, and the local timeout derived from it.

use super::super::snoop_config::SnoopConfig;
use crate::time::Duration;

/// Minimum local timeout and link round trip. Bounds the work that a mobile host can cause.
pub(super) const FLOOR: Duration = Duration::from_millis(1);

/// Minimum margin beyond the round trip.
pub(super) const LEAST_MARGIN: Duration = Duration::from_millis(5);

/// Default number of intervals between spaced repairs in a round trip, and the maximum interval.
const PARTS: u64 = 16;
const LONGEST_SPACING: Duration = Duration::from_millis(16);

/// Number of spaced repairs without an arrival after which the interval doubles, and maximum number of doublings.
const STEADY: u32 = 48;
const MOST_DOUBLINGS: u32 = 6;

/// Number of samples after which the maximum round trip has decayed to a third, unless one is as long.
const MEMORY: u64 = 1 << 14;

/// Smoothed round trip of the wireless hop (the estimator of RFC 6298 §2, in nanoseconds).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LinkRtt {
    srtt: Option<u64>,
    dev: u64,
    /// Minimum seen.
    least: u64,
    /// Recent maximum.
    most: u64,
    /// Latest sample, until it is taken.
    latest: Option<Duration>,
    /// Time of the handshake, in nanoseconds; 0 if unknown.
    handshake: u64,
}

impl LinkRtt {
    pub fn sample(&mut self, rtt: Duration) {
        self.latest = Some(rtt);
        let rtt = rtt.as_nanos();
        self.most = rtt.max(self.most - self.most / MEMORY);
        self.least = if self.srtt.is_some() { self.least.min(rtt) } else { rtt };
        match self.srtt {
            None => (self.srtt, self.dev) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                let error = srtt.abs_diff(rtt);
                self.dev = self.dev - self.dev / 4 + error / 4;
                self.srtt = Some(srtt - srtt / 8 + rtt / 8);
            }
        }
    }

    /// Takes a sample only if there is none yet. Advancing acknowledgments may yield none for long if all the data that
    /// they cover was resent.
    pub fn first_sample(&mut self, rtt: Duration) {
        if self.srtt.is_none() {
            self.sample(rtt);
        }
    }

    /// Returns the latest sample, once.
    pub fn take_latest(&mut self) -> Option<Duration> {
        self.latest.take()
    }

    /// Sets the time of the handshake. Its packets are short, and data takes longer, so it determines the timeout only
    /// until there is a sample.
    pub fn opened(&mut self, handshake: Option<Duration>) {
        self.handshake = handshake.map_or(self.handshake, Duration::as_nanos);
    }

    /// Returns srtt + 4 dev within the configured bounds. Before the first sample, returns twice the lower bound, since
    /// the mobile host may delay its first acknowledgment for the bound itself, or the timeout with the handshake as
    /// the first sample if that is longer.
    pub fn timeout(&self, config: &SnoopConfig) -> Duration {
        let nanos = match self.srtt {
            Some(srtt) => srtt.saturating_add(self.dev.saturating_mul(4)),
            None => config.timer_min.as_nanos().saturating_mul(2).max(self.handshake.saturating_mul(3)),
        };
        Duration::from_nanos(nanos).min(config.timer_max).max(config.timer_min).max(FLOOR)
    }

    /// Returns the timeout for data whose acknowledgment is not delayed, without the lower bound, which exists for
    /// delayed ones. Allows for scheduling delay.
    pub fn probe_timeout(&self, config: &SnoopConfig) -> Duration {
        let Some(srtt) = self.srtt else { return self.timeout(config) };
        let margin = self.dev.saturating_mul(4).max(growth(srtt));
        Duration::from_nanos(srtt.saturating_add(margin)).min(self.timeout(config))
    }

    /// Returns the time after which a packet should have been acknowledged: a round trip and a quarter, since the queue
    /// may grow. `None` before the first sample.
    pub fn due(&self) -> Option<Duration> {
        self.srtt.map(|srtt| Duration::from_nanos(srtt.saturating_add(growth(srtt))))
    }

    /// Returns the current queueing delay in front of the hop.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.srtt.unwrap_or(0).saturating_sub(self.least))
    }

    /// Returns whether the queueing delay is nearly at its maximum, so that lost packets may have been dropped from a
    /// full queue.
    pub fn is_nearly_full(&self) -> bool {
        let (queue, longest) =
            (self.srtt.unwrap_or(0).saturating_sub(self.least), self.most.saturating_sub(self.least));
        longest > self.least && queue >= longest / 4 * 3
    }

    /// Returns whether an acknowledgment arrives sooner after a transmission than the hop can have delivered it.
    pub fn is_too_soon(&self, elapsed: Duration) -> bool {
        elapsed.as_nanos() < self.least
    }

    /// Returns the smoothed round trip, or 0 before the first sample.
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.srtt.unwrap_or(0))
    }

    /// Returns the shortest time that a packet of this connection took, including the handshake.
    pub fn least(&self) -> Option<Duration> {
        let data = self.srtt.map(|_| Duration::from_nanos(self.least));
        let handshake = (self.handshake > 0).then(|| Duration::from_nanos(self.handshake));
        [data, handshake].into_iter().flatten().min()
    }

    /// Returns the maximum time without arrivals on a hop with a full window: the time in which its queue drains, which
    /// equals the queueing delay. If packets are late for other reasons too, half a round trip is enough.
    pub fn silence(&self) -> Duration {
        let srtt = self.srtt.unwrap_or(u64::MAX);
        let queue = srtt.saturating_sub(self.least).saturating_add(self.dev);
        Duration::from_nanos(queue.min(srtt / 2)).max(LEAST_MARGIN)
    }

    /// Returns the interval between repairs that no acknowledgment has triggered: a round trip divided by `parts`. It
    /// grows with the number of repairs without an arrival.
    pub fn spacing(&self, unanswered: u32, parts: Option<u64>) -> Duration {
        let part = Duration::from_nanos(self.srtt.unwrap_or(0) / parts.unwrap_or(PARTS).max(1))
            .max(FLOOR)
            .min(LONGEST_SPACING);
        part.saturating_mul(1 << (unanswered / STEADY).min(MOST_DOUBLINGS))
    }

    /// Returns the smoothed round trip, or the minimum timeout before the first sample.
    pub fn round_trip(&self, config: &SnoopConfig) -> Duration {
        self.srtt.map_or(config.timer_min, Duration::from_nanos).max(FLOOR)
    }
}

/// Returns the margin beyond a round trip of `srtt` nanoseconds, in which the queue may grow.
fn growth(srtt: u64) -> u64 {
    (srtt / 4).max(LEAST_MARGIN.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pep::snoop::{LocalDetection, TcpAwareness};

    /// One sample of 400 ms: the deviation is half of it, so 400 + 4 * 200 ms. Another: 150, so 400 + 4 * 150.
    #[test]
    fn the_local_timeout_is_the_round_trip_and_four_deviations() {
        let config = SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware);
        let mut rtt = LinkRtt::default();
        assert_eq!(rtt.timeout(&config), config.timer_min * 2);
        rtt.sample(Duration::from_millis(400));
        assert_eq!(rtt.timeout(&config), Duration::from_millis(1200));
        rtt.sample(Duration::from_millis(400));
        assert_eq!(rtt.timeout(&config), Duration::from_millis(1000));
        // The lower bound applies as well.
        let mut short = LinkRtt::default();
        short.sample(Duration::from_millis(4));
        assert_eq!(short.timeout(&config), config.timer_min);
    }
}
