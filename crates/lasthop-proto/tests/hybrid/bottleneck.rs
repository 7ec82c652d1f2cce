//! A hop with a rate, a delay and a queue in both directions, and with losses.

use lasthop_proto::link::hybrid::{HopConfig, RateRule, Repair};
use lasthop_proto::packet::Packet;
use lasthop_proto::time::{Duration, Instant};

use super::link::*;

/// Parameters of a hop.
#[derive(Clone, Copy)]
pub struct Hop {
    /// Rate in bits per second, by time.
    pub rate: fn(Instant) -> u64,
    /// Delay in each direction.
    pub delay: Duration,
    /// Capacity of the queue, in frames.
    pub queue: u64,
    /// Number of lost frames per 1000, in runs of `run`.
    pub loss: u64,
    pub run: u64,
}

pub const TEN: fn(Instant) -> u64 = |_| 10_000_000;

impl Hop {
    /// Hop A of the documentation: 10 Mbps and 30 ms.
    pub const A: Self = Self { rate: TEN, delay: Duration::from_millis(30), queue: 100, loss: 0, run: 1 };

    /// Returns its channel.
    pub fn channel(self) -> impl FnMut(Instant, usize, &Packet) -> Vec<Duration> {
        // Time at which each direction becomes free, and number of frames of the run still to be lost.
        let (mut free, mut left, mut random) = ([Instant::ZERO; 2], [0; 2], 1_u64);
        move |now, end, packet| {
            let frame = |bytes: u64| Duration::from_nanos(bytes * 8_000_000_000 / (self.rate)(now));
            let backlog = free[end].since(now);
            if backlog > frame(1500 * self.queue) {
                return vec![];
            }
            free[end] = free[end].max(now) + frame(packet.wire_len().into());
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if left[end] > 0 {
                left[end] -= 1;
                return vec![];
            }
            if (random >> 33) % (1000 * self.run) < self.loss {
                left[end] = self.run - 1;
                return vec![];
            }
            vec![free[end].since(now) + self.delay]
        }
    }
}

/// Returns the configuration of an end that estimates its rate.
pub fn auto(repair: Repair) -> HopConfig {
    HopConfig { rate: RateRule::Auto, ..config(repair) }
}

/// Offers packets of `flows` flows to `end` until `until`, at `bits` bits per second.
pub fn offer(link: &mut Link<'_>, end: usize, flows: u32, bits: u64, until: Instant) {
    let pause = Duration::from_nanos(1500 * 8 * 1_000_000_000 / bits);
    let mut number = (link.now.as_nanos() / 100_000) as u32;
    while link.now < until {
        link.offer(end, segment(number % flows, number));
        number += 1;
        let next = link.now + pause;
        link.run_until(next);
    }
}

/// Returns the rate at which `end` delivered packets since `from`, including the hop's header, in bits per second.
pub fn goodput(link: &Link<'_>, end: usize, from: Instant) -> u64 {
    let bytes: u64 =
        link.taken[end].iter().filter(|(at, _)| *at >= from).map(|(_, packet)| u64::from(packet.wire_len()) + 58).sum();
    bytes * 8_000_000_000 / link.now.since(from).as_nanos()
}
