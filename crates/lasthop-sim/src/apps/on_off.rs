//! On-off source, as in ns-2's `Application/Traffic/Exponential`.

use lasthop_proto::random::Stream;
use lasthop_proto::time::{Duration, Instant};

use crate::network::Rate;

/// Traffic of an on-off source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnOffConfig {
    /// Start of the first off period.
    pub start: Instant,
    /// Mean on period.
    pub on: Duration,
    /// Mean off period.
    pub off: Duration,
    /// Bytes per packet, at least 1.
    pub bytes: u32,
    /// Rate during on periods.
    pub rate: Rate,
}

/// Sends packets of one size at one rate during on periods and nothing during off periods. Both are exponentially
/// distributed.
///
/// An on period is a whole number of packets: the drawn duration divided by the packet interval, rounded, at least 1. A
/// packet is sent at the end of its interval, so the first one after an off period follows an interval later.
#[derive(Clone, Debug)]
pub struct OnOff {
    stream: Stream,
    /// Interval between two packets of a burst.
    interval: Duration,
    /// Mean on period, in packets.
    burst: f64,
    /// Mean off period, in nanoseconds.
    off: f64,
    next: Instant,
    /// Number of packets of the burst still to send, including `next`.
    left: u64,
    number: u32,
}

impl OnOff {
    /// Creates the source that `config` describes.
    pub fn new(config: OnOffConfig, stream: Stream) -> Self {
        let interval = config.rate.time_for(config.bytes);
        let mut source = Self {
            stream,
            interval,
            burst: config.on.as_nanos() as f64 / interval.as_nanos() as f64,
            off: config.off.as_nanos() as f64,
            next: config.start,
            left: 0,
            number: 0,
        };
        source.schedule();
        source
    }

    /// Returns the time of the next packet.
    #[inline]
    pub fn poll_deadline(&self) -> Instant {
        self.next
    }

    /// Sends the next packet. Returns its number, counted from 0.
    #[inline]
    pub fn take(&mut self) -> u32 {
        let number = self.number;
        self.number = number.wrapping_add(1);
        self.left -= 1;
        self.schedule();
        number
    }

    /// Advances `next` to the next packet, past an off period at the end of a burst.
    #[inline]
    fn schedule(&mut self) {
        if self.left == 0 {
            self.left = round(self.stream.exponential(self.burst)).max(1);
            self.next += Duration::from_nanos(round(self.stream.exponential(self.off)));
        }
        self.next += self.interval;
    }
}

fn round(x: f64) -> u64 {
    (x + 0.5) as u64
}

#[cfg(test)]
mod tests {
    use lasthop_proto::random::Root;
    use lasthop_proto::time::{Duration, Instant};

    use super::{OnOff, OnOffConfig};
    use crate::network::Rate;

    /// 250 bytes every 0.2 ms, approximately the study's source.
    const STUDY: OnOffConfig = OnOffConfig {
        start: Instant::from_nanos(7_000_000_000),
        on: Duration::from_secs(1),
        off: Duration::from_millis(1350),
        bytes: 250,
        rate: Rate(10_000_000),
    };

    /// An observed burst.
    struct Burst {
        /// Time from the last packet of the previous burst (or the start) to the first packet.
        gap: Duration,
        packets: u64,
    }

    /// Returns the first bursts. Gaps longer than `interval` separate them; packets of a burst are exactly `interval`
    /// apart.
    fn bursts(config: OnOffConfig, interval: Duration, count: usize) -> Vec<Burst> {
        let mut source = OnOff::new(config, Root(3).stream("on-off"));
        let mut bursts: Vec<Burst> = Vec::new();
        let mut last = config.start;
        for number in 0.. {
            let now = source.poll_deadline();
            let gap = now.since(last);
            assert!(gap >= interval);
            if let Some(burst) = bursts.last_mut().filter(|_| gap == interval) {
                burst.packets += 1;
            } else if bursts.len() < count {
                bursts.push(Burst { gap, packets: 1 });
            } else {
                break;
            }
            assert_eq!(source.take(), number);
            last = now;
        }
        bursts
    }

    fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = values.len() as f64;
        values.sum::<f64>() / count
    }

    fn near(measured: f64, expected: f64, deviation: f64) {
        assert!((measured - expected).abs() < 4.0 * deviation, "{measured}, expected {expected} +- {deviation}");
    }

    #[test]
    fn periods_and_rate_are_those_asked_for() {
        // Bursts of 5000 and of 0.5 packets in the mean. For the latter, rounding and the minimum of 1 matter.
        for on in [Duration::from_secs(1), Duration::from_micros(100)] {
            const BURSTS: f64 = 5000.0;
            let interval = Duration::from_micros(200);
            let bursts = bursts(OnOffConfig { on, ..STUDY }, interval, BURSTS as usize);
            let packets = mean(bursts.iter().map(|burst| burst.packets as f64));
            let off = mean(bursts.iter().map(|burst| (burst.gap - interval).as_secs_f64()));

            // P(N >= k) is 1 for k = 1; for larger k it is that of an exponential at k - 1/2.
            let m = on.as_secs_f64() / interval.as_secs_f64();
            let expected = 1.0 + (-1.5 / m).exp() / (1.0 - (-1.0 / m).exp());
            near(packets, expected, m / BURSTS.sqrt());
            near(off, 1.35, 1.35 / BURSTS.sqrt());

            // Over whole cycles. To first order the deviations of the two periods add up, weighted by the share of off.
            let bits = 8.0 * 250.0 * packets / (packets * interval.as_secs_f64() + off);
            let cycle = expected * interval.as_secs_f64() + 1.35;
            let deviation = (1.35 / cycle) * (2.0 / BURSTS).sqrt();
            near(bits / (8.0 * 250.0 * expected / cycle), 1.0, deviation);
        }
    }

    #[test]
    fn periods_are_exponential() {
        let interval = Duration::from_micros(200);
        let bursts = bursts(STUDY, interval, 5000);
        for t in [0.1, 0.5, 1.0, 3.0] {
            let on = mean(bursts.iter().map(|burst| f64::from(burst.packets as f64 > 5000.0 * t)));
            let off = mean(bursts.iter().map(|burst| f64::from((burst.gap - interval).as_secs_f64() > 1.35 * t)));
            let longer = (-t).exp();
            near(on, longer, (longer * (1.0 - longer) / 5000.0).sqrt());
            near(off, longer, (longer * (1.0 - longer) / 5000.0).sqrt());
        }
    }

    #[test]
    fn begins_with_an_off_period_and_an_interval() {
        let first =
            |seed: u32| OnOff::new(STUDY, Root(seed.into()).stream("on-off")).poll_deadline().since(STUDY.start);
        let interval = Duration::from_micros(200);
        assert!((0..5000).all(|seed| first(seed) >= interval));
        near(mean((0..5000).map(|seed| (first(seed) - interval).as_secs_f64())), 1.35, 1.35 / 5000f64.sqrt());
    }

    #[test]
    fn without_off_periods_it_is_isochronous() {
        let mut source = OnOff::new(OnOffConfig { off: Duration::ZERO, ..STUDY }, Root(1).stream("on-off"));
        for number in 0..100_000 {
            assert_eq!(source.poll_deadline(), STUDY.start + Duration::from_micros(200) * (u64::from(number) + 1));
            assert_eq!(source.take(), number);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_packets() {
        let times = |seed| {
            let mut source = OnOff::new(STUDY, Root(seed).stream("on-off"));
            (0..20_000).map(|_| (source.poll_deadline(), source.take())).collect::<Vec<_>>()
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
