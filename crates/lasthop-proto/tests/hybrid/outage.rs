//! Outages in which everything in flight and in the hop's queue is lost, as in a failed handover of a cell.

use lasthop_proto::link::hybrid::Repair;
use lasthop_proto::packet::Packet;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::bottleneck::{auto, goodput};
use super::link::*;

/// A hop with an outage.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// Rate in bits per second, and delay in each direction.
    rate: u64,
    delay: Duration,
    /// Time at which the delay of each direction grows by `longer`, as by a queue of others or a longer route.
    step: Instant,
    longer: Duration,
    /// Start and end of the outage.
    from: Instant,
    until: Instant,
    /// Directions that it affects.
    ends: [bool; 2],
}

impl Outage {
    /// Returns its channel: frames are lost whose transmission overlaps with the outage. The queue holds 100 ms.
    fn channel(self) -> impl FnMut(Instant, usize, &Packet) -> Vec<Duration> {
        let mut free = [Instant::ZERO; 2];
        move |now, end, packet| {
            if free[end].since(now) > millis(100).max(Duration::from_nanos(120_000_000_000_000 / self.rate)) {
                return vec![];
            }
            let time = Duration::from_nanos(u64::from(packet.wire_len()) * 8_000_000_000 / self.rate);
            free[end] = free[end].max(now) + time;
            let longer = if now >= self.step { self.longer } else { Duration::ZERO };
            let after = free[end].since(now) + self.delay + longer;
            if self.ends[end] && now < self.until && now + after > self.from {
                free[end] = now;
                return vec![];
            }
            vec![after]
        }
    }
}

/// Offers packets to end 0 until `until`, at `bits` bits per second, and discards the frames sent.
fn offer(link: &mut Link<'_>, bits: u64, until: Instant) {
    let pause = Duration::from_nanos(1500 * 8 * 1_000_000_000 / bits);
    let mut number = link.now.as_nanos() as u32;
    while link.now < until {
        link.offer(0, segment(0, number));
        number = number.wrapping_add(1);
        let next = link.now + pause;
        link.run_until(next);
        link.sent = Default::default();
    }
}

/// Offers 12 packets to end 0, one per second, and returns the numbers of those that end 1 delivered.
fn single(link: &mut Link<'_>) -> Vec<u32> {
    link.taken = Default::default();
    for second in 1..=12 {
        link.offer(0, segment(0, second));
        let next = link.now + millis(1_000);
        link.run_until(next);
    }
    link.numbers(1, 0)
}

/// The sender shares the hop's queue with others when everything in flight is lost for 2 s. These losses are not
/// congestion: the packets after the outage, one per timeout of their source, are not dropped as signals of it.
#[test]
fn packets_after_an_outage_are_not_dropped() {
    let (from, until) = (ms(9_000), ms(11_000));
    let (delay, step, longer) = (millis(10), ms(6_000), millis(60));
    let hop = Outage { rate: 10_000_000, delay, step, longer, from, until, ends: [true; 2] };
    let mut link = Link::new(auto(Repair::Adaptive), hop.channel());
    offer(&mut link, 12_000_000, from + millis(300));
    link.run_until(until + millis(1_000));
    let dropped = link.ends[0].hop().counters().dropped;
    assert_eq!(single(&mut link), (1..=12).collect::<Vec<u32>>());
    assert_eq!(link.ends[0].hop().counters().dropped, dropped);
}

/// Load offered during an outage.
#[derive(Clone, Copy, Debug)]
enum Load {
    Nothing,
    /// A packet every 200 ms, as a source sends after timeouts.
    Little,
    Full,
}

fn outages() -> impl Strategy<Value = (Outage, Load)> {
    // Equally many of each order of magnitude.
    let rate = (0_u32..4, 100_000_u64..=1_000_000).prop_map(|(exponent, rate)| rate * 10_u64.pow(exponent));
    let length = (1_u32..=100, 1_u64..=100).prop_map(|(first, second)| u64::from(first) * second);
    let ends = prop_oneof![Just([true, true]), Just([true, false]), Just([false, true])];
    let load = prop_oneof![Just(Load::Nothing), Just(Load::Little), Just(Load::Full)];
    let longer = prop_oneof![Just(0_u64), Just(60)];
    (rate, length, ends, load, longer, 2_u64..50).prop_map(|(rate, length, ends, load, longer, delay)| {
        let (from, until) = (ms(7_000), ms(7_000 + length.max(100)));
        let outage = Outage { rate, delay: millis(delay), step: ms(5_000), longer: millis(longer), from, until, ends };
        (outage, load)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// After an outage in one or both directions, packets are delivered within a second and a few round trips, at a
    /// rate near the one before, and single packets are not dropped.
    #[test]
    fn the_hop_is_used_again_after_an_outage((hop, load) in outages()) {
        let mut link = Link::new(auto(Repair::Adaptive), hop.channel());
        let bits = hop.rate * 5 / 4;
        offer(&mut link, bits, hop.from);
        // On slow hops a second may begin with packets that were held for an earlier one.
        let before = goodput(&link, 1, ms(6_000)).min(hop.rate);
        match load {
            Load::Nothing => {}
            Load::Little => offer(&mut link, 60_000, hop.until),
            Load::Full => offer(&mut link, bits, hop.until),
        }
        link.run_until(hop.until);
        link.taken = Default::default();
        let frames = Duration::from_nanos(20 * 12_000 * 1_000_000_000 / hop.rate);
        let soon = hop.until + millis(1_000) + (hop.delay + hop.longer) * 8 + frames;
        offer(&mut link, bits, soon);
        prop_assert!(!link.taken[1].is_empty(), "nothing is delivered");
        let start = link.now;
        offer(&mut link, bits, start + millis(1_000) + frames);
        let after = goodput(&link, 1, start);
        prop_assert!(after * 2 >= before, "{after} of {before} bps");
        link.run_until(start + millis(10_000));
        prop_assert_eq!(single(&mut link), (1..=12).collect::<Vec<u32>>());
    }
}
