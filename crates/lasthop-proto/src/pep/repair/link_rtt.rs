//! The round trip of the wireless hop, and the local timeout from it.

use super::super::snoop_config::SnoopConfig;
use crate::time::Duration;

/// Smallest local timeout and link round trip that are believed: bounds the work that a mobile host can ask for.
pub(super) const FLOOR: Duration = Duration::from_millis(1);

/// The least that is waited beyond the round trip.
pub(super) const LEAST_MARGIN: Duration = Duration::from_millis(5);

/// Pauses between spaced repairs in a round trip, where nobody knows better, and the longest of them.
const PARTS: u64 = 16;
const LONGEST_SPACING: Duration = Duration::from_millis(16);

/// Spaced repairs in vain after which the pauses double; and how often they do at most.
const STEADY: u32 = 48;
const MOST_DOUBLINGS: u32 = 6;

/// Samples after which a third of the longest round trip is left, where none is as long.
const MEMORY: u64 = 1 << 14;

/// Smoothed round trip of the wireless hop (the estimator of RFC 6298 §2, in nanoseconds).
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LinkRtt {
    srtt: Option<u64>,
    dev: u64,
    /// The shortest seen.
    least: u64,
    /// The longest of late.
    most: u64,
    /// The newest, until somebody has asked for it.
    latest: Option<Duration>,
    /// What the handshake took; nothing where that is not known.
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

    /// A sample that counts only where there is none yet: acknowledgments that move may bring none for long, where all that they acknowledge had to be resent.
    pub fn first_sample(&mut self, rtt: Duration) {
        if self.srtt.is_none() {
            self.sample(rtt);
        }
    }

    /// The newest sample, once.
    pub fn take_latest(&mut self) -> Option<Duration> {
        self.latest.take()
    }

    /// The handshake's packets are short, so that data take longer: their time counts for the timeout only until there is a sample.
    pub fn opened(&mut self, handshake: Option<Duration>) {
        self.handshake = handshake.map_or(self.handshake, Duration::as_nanos);
    }

    /// srtt + 4 dev within the configured bounds. Before the first sample twice the lower bound: the mobile host may hold
    /// its first acknowledgment back for as long as the bound itself; or what the handshake as a first sample comes to, if that is more.
    pub fn timeout(&self, config: &SnoopConfig) -> Duration {
        let nanos = match self.srtt {
            Some(srtt) => srtt.saturating_add(self.dev.saturating_mul(4)),
            None => config.timer_min.as_nanos().saturating_mul(2).max(self.handshake.saturating_mul(3)),
        };
        Duration::from_nanos(nanos).min(config.timer_max).max(config.timer_min).max(FLOOR)
    }

    /// The same where no acknowledgment is held back: the lower bound is there for that. What schedulers take stays.
    pub fn probe_timeout(&self, config: &SnoopConfig) -> Duration {
        let Some(srtt) = self.srtt else { return self.timeout(config) };
        let margin = self.dev.saturating_mul(4).max(growth(srtt));
        Duration::from_nanos(srtt.saturating_add(margin)).min(self.timeout(config))
    }

    /// After so long a packet should have been acknowledged: in a round trip, or a quarter more where the queue grows. Nothing before there is a sample.
    pub fn due(&self) -> Option<Duration> {
        self.srtt.map(|srtt| Duration::from_nanos(srtt.saturating_add(growth(srtt))))
    }

    /// How long packets wait in the queue in front of the hop.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.srtt.unwrap_or(0).saturating_sub(self.least))
    }

    /// Whether packets wait in a queue that is nearly as long as it was at most, so that what is lost may have found no room in it.
    pub fn is_nearly_full(&self) -> bool {
        let (queue, longest) =
            (self.srtt.unwrap_or(0).saturating_sub(self.least), self.most.saturating_sub(self.least));
        longest > self.least && queue >= longest / 4 * 3
    }

    /// Whether an acknowledgment comes sooner after a sending than the hop can have brought it.
    pub fn is_too_soon(&self, elapsed: Duration) -> bool {
        elapsed.as_nanos() < self.least
    }

    /// The smoothed round trip; nothing before there is one.
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.srtt.unwrap_or(0))
    }

    /// The shortest time that a packet of this connection took, the handshake's among them.
    pub fn least(&self) -> Option<Duration> {
        let data = self.srtt.map(|_| Duration::from_nanos(self.least));
        let handshake = (self.handshake > 0).then(|| Duration::from_nanos(self.handshake));
        [data, handshake].into_iter().flatten().min()
    }

    /// For so long nothing may come from a hop on which the window is full: until its queue has run dry, which takes as long as packets wait in it. Where they
    /// are late for other reasons, too, half a round trip is enough.
    pub fn silence(&self) -> Duration {
        let srtt = self.srtt.unwrap_or(u64::MAX);
        let queue = srtt.saturating_sub(self.least).saturating_add(self.dev);
        Duration::from_nanos(queue.min(srtt / 2)).max(LEAST_MARGIN)
    }

    /// The time between repairs that nothing has asked for: a round trip has so many `parts`. It grows with how many of them were in
    /// vain.
    pub fn spacing(&self, in_vain: u32, parts: Option<u64>) -> Duration {
        let part = Duration::from_nanos(self.srtt.unwrap_or(0) / parts.unwrap_or(PARTS).max(1))
            .max(FLOOR)
            .min(LONGEST_SPACING);
        part.saturating_mul(1 << (in_vain / STEADY).min(MOST_DOUBLINGS))
    }

    /// The smoothed round trip, or the smallest timeout before there is one.
    pub fn round_trip(&self, config: &SnoopConfig) -> Duration {
        self.srtt.map_or(config.timer_min, Duration::from_nanos).max(FLOOR)
    }
}

/// What is waited beyond a round trip of so many nanoseconds, since the queue may grow meanwhile.
fn growth(srtt: u64) -> u64 {
    (srtt / 4).max(LEAST_MARGIN.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{LocalDetection, TcpAwareness};

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
        // Bounded from below, too.
        let mut short = LinkRtt::default();
        short.sample(Duration::from_millis(4));
        assert_eq!(short.timeout(&config), config.timer_min);
    }
}
