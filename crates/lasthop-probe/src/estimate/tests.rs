//! Tests with logs of known origin.

use lasthop_proto::random::{Root, Stream};

use super::*;

/// Simple link with rate, delay and drop-tail queue; the receiver's clock is 1,000 s ahead.
struct Link {
    rate: f64,
    delay: f64,
    queue: usize,
    drift: f64,
    noise: f64,
    draws: Stream,
    leaving: std::collections::VecDeque<f64>,
    last: f64,
    log: Log,
}

impl Link {
    fn new(rate: f64, delay: f64, queue: usize) -> Self {
        let draws = Root(7).stream("noise");
        let (drift, noise, last) = (0.0, 0.0, 0.0);
        Self { rate, delay, queue, drift, noise, draws, leaving: Default::default(), last, log: Log::default() }
    }

    fn send(&mut self, sent: f64, size: u16, purpose: Purpose, order: u16, index: u16) {
        while self.leaving.front().is_some_and(|at| *at <= sent) {
            self.leaving.pop_front();
        }
        let mut packet = Packet { sent, arrived: None, size, purpose, order, index, dscp: [0, 0] };
        if self.leaving.len() <= self.queue {
            self.last = self.last.max(sent) + packet.air(self.rate);
            self.leaving.push_back(self.last);
            let late = if self.noise > 0.0 { self.draws.exponential(self.noise) } else { 0.0 };
            let at = self.last + self.delay + late;
            packet.arrived = Some(at * (1.0 + self.drift) + 1000.0);
            self.log.arrivals.push(self.log.packets.len() as u32);
        }
        self.log.packets.push(packet);
    }

    fn train(&mut self, at: f64, count: u16, size: u16, purpose: Purpose, order: u16) {
        (0..count).for_each(|index| self.send(at + f64::from(index) * 8e-6, size, purpose, order, index));
    }
}

#[test]
fn the_rate_is_found_through_late_timers_and_full_queues() {
    for rate in [1e6, 10e6, 100e6] {
        let mut link = Link::new(rate, 0.02, 10);
        link.noise = 200e-6;
        (0..14).for_each(|number| link.train(f64::from(number) * 3.0, 16, 1500, Purpose::Capacity, number));
        let found = capacity(&link.log).unwrap();
        assert!((found.rate / rate - 1.0).abs() < 0.04, "{rate}: {found:?}");
        assert!(!found.by_sender && found.trains == 14, "{found:?}");
    }
}

#[test]
fn a_sender_that_is_slower_than_the_link_is_noticed() {
    let mut link = Link::new(10e9, 0.02, 10);
    (0..6).for_each(|number| link.train(f64::from(number), 16, 1500, Purpose::Capacity, number));
    assert!(capacity(&link.log).unwrap().by_sender);
    assert_eq!(capacity(&Log::default()), None);
}

#[test]
fn queues_of_any_size_are_found() {
    for (rate, size) in [(1e6, 500), (20e6, 1500), (100e6, 1500)] {
        for queue_size in [3, 10, 50, 200] {
            let mut link = Link::new(rate, 0.05, queue_size);
            link.noise = 100e-6;
            for (order, count) in [32, 64, 128, 256].into_iter().enumerate() {
                link.train(order as f64 * 5.0, count, size, Purpose::Overload, order as u16);
            }
            let found = queue(&link.log, size, Known { rate, base: 1000.05, loss: 0.01 }).unwrap();
            let Overload::Filled(found) = found else { panic!("{rate} {queue_size}: {found:?}") };
            assert!((f64::from(found.packets) / queue_size as f64 - 1.0).abs() < 0.1, "{rate} {queue_size}: {found:?}");
        }
    }
}

/// A stalled receiver reads packets in batches: delays say little, but drops suffice.
#[test]
fn a_queue_is_found_by_a_receiver_that_stalls() {
    let mut link = Link::new(6e6, 0.008, 40);
    link.noise = 100e-6;
    for (order, count) in [32, 64, 64].into_iter().enumerate() {
        link.train(order as f64 * 5.0, count, 1500, Purpose::Overload, order as u16);
    }
    for order in 0..3 {
        let began = order as f64 * 5.0 + 1000.0;
        for packet in link.log.packets.iter_mut().filter(|packet| packet.order == order) {
            packet.arrived = packet.arrived.map(|at| at.max(began + 0.15));
        }
    }
    let found = queue(&link.log, 1500, Known { rate: 6e6, base: 1000.008, loss: 0.01 }).unwrap();
    let Overload::Filled(found) = found else { panic!("{found:?}") };
    assert!((38..=42).contains(&found.packets), "{found:?}");
}

#[test]
fn a_queue_that_was_not_filled_is_at_least_so_long() {
    let mut link = Link::new(1e6, 0.05, 500);
    link.train(0.0, 64, 500, Purpose::Overload, 1);
    let found = queue(&link.log, 500, Known { rate: 1e6, base: 1000.05, loss: 0.01 }).unwrap();
    let Overload::Holds(found) = found else { panic!("{found:?}") };
    assert!((60..=63).contains(&found.packets), "{found:?}");
    // Burst losses are the channel's if later packets get through.
    link.log.packets[20..25].iter_mut().for_each(|packet| packet.arrived = None);
    assert!(matches!(queue(&link.log, 500, Known { rate: 1e6, base: 1000.05, loss: 0.05 }), Some(Overload::Holds(_))));
}

#[test]
fn two_sizes_tell_packets_from_bytes() {
    let found = |packets, size| QueueFound { packets, size };
    assert_eq!(queue_kind(found(50, 1500), found(52, 500)), QueueLimit::Packets);
    assert_eq!(queue_kind(found(50, 1500), found(146, 500)), QueueLimit::Bytes);
    assert_eq!(queue_kind(found(50, 1500), found(88, 500)), QueueLimit::Unknown);
}

#[test]
fn a_drifting_clock_is_set_right() {
    let mut link = Link::new(10e6, 0.02, 100);
    link.drift = 40e-6;
    link.noise = 1e-3;
    (0..3000).for_each(|number| link.send(f64::from(number) * 0.02, 100, Purpose::Stream, 1, number as u16));
    let found = drift(&link.log, 10e6);
    assert!((found - 40e-6).abs() < 3e-6, "{found}");
    let delays = delays(&link.log.clone().without_drift(found), 10e6).unwrap();
    assert!((delays.base - 1000.02).abs() < 0.3e-3 && (delays.median - 0.7e-3).abs() < 0.3e-3, "{delays:?}");
}

/// With runs of four packets and 1 % loss, the interval for independent losses would contain the true value less often.
#[test]
fn intervals_hold_the_truth_where_losses_come_together() {
    let (to_bad, to_good) = (0.01 / 4.0 / 0.99, 0.25);
    let mut held = 0;
    for seed in 0..200 {
        let mut draws = Root(seed).stream("losses");
        let mut bad = false;
        let lost: Vec<bool> = (0..5000)
            .map(|_| {
                bad = if bad { !draws.chance(to_good) } else { draws.chance(to_bad) };
                bad
            })
            .collect();
        let [low, high] = losses(&lost).interval;
        held += u32::from((low..=high).contains(&0.01));
    }
    assert!((186..=200).contains(&held), "{held}");
}

/// A minute of trains over links with bad periods of 10 to 100 ms and up to 10 % loss: there are few bad periods, and
/// trains see some of them several times.
#[test]
fn intervals_hold_the_truth_where_bad_times_pass() {
    let mut held = 0;
    for seed in 0..400 {
        let mut draws = Root(seed).stream("bad times");
        let (share, bad) = (0.1 * draws.uniform(), 0.01 * 10_f64.powf(draws.uniform()));
        let good = bad * (1.0 - share) / share;
        let mut exponential = |mean: f64| -mean * (1.0 - draws.uniform()).ln();
        // The chain begins in a good period, long before the first train.
        let (mut is_bad, mut changes) = (false, -10.0 + exponential(good));
        let (mut at, mut lost) = (0.0, Vec::new());
        while at < 60.0 {
            at += exponential(0.06);
            for packet in 0..6 {
                while changes < at + 1e-4 * f64::from(packet) {
                    is_bad = !is_bad;
                    changes += exponential(if is_bad { bad } else { good });
                }
                lost.push(is_bad);
            }
        }
        let [low, high] = losses(&lost).interval;
        held += u32::from((low..=high).contains(&share));
    }
    // 380 are 95 %; 8 more or less are two standard deviations.
    assert!((368..=396).contains(&held), "{held}");
}

#[test]
fn runs_are_counted() {
    let lost: Vec<bool> = "0011010111".chars().map(|lost| lost == '1').collect();
    let runs = runs(&lost);
    assert_eq!((runs.lengths, runs.mean), (vec![2, 1, 3], 2.0));
    assert_eq!(losses(&[]).interval, [0.0, 1.0]);
    let none = losses(&[false; 1000]);
    assert!(none.interval[0] == 0.0 && (0.003..0.005).contains(&none.interval[1]), "{none:?}");
}

#[test]
fn what_overtakes_is_counted_once() {
    let log = Log { arrivals: vec![0, 2, 1, 3, 6, 4, 5], ..Log::default() };
    assert_eq!(log.reordered(), 3);
}

fn arrivals(times: &[(f64, f64)]) -> Log {
    let packet = |&(sent, arrived): &(f64, f64)| Packet {
        sent,
        arrived: Some(arrived),
        size: 100,
        purpose: Purpose::Stream,
        order: 1,
        index: 0,
        dscp: [0, 0],
    };
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by(|one, other| times[*one as usize].1.total_cmp(&times[*other as usize].1));
    Log { packets: times.iter().map(packet).collect(), arrivals: order, duplicates: 0 }
}

/// RFC 4737: a packet is reordered if it arrives after one sent later; its lateness is the time since the first of
/// those.
#[test]
fn late_packets_are_late_by_the_first_that_passed_them() {
    let log = arrivals(&[(0.0, 1.000), (0.1, 1.130), (0.2, 1.200), (0.3, 1.125), (0.4, 1.400)]);
    let found = overtaken(&log).unwrap();
    // The second packet is late by 5 ms, the third by 75 ms.
    assert!((found.share - 0.4).abs() < 1e-9 && (found.by - 0.075).abs() < 1e-9, "{found:?}");
    assert_eq!(found.ahead, [false, false, false, true, false]);
    assert!((found.skipping - 0.2).abs() < 1e-9, "{found:?}");
}

/// Clock noise swaps times of arrival, but not packets.
#[test]
fn times_that_cross_are_no_reordering() {
    let mut log = arrivals(&[(0.0, 1.0), (0.1, 1.1), (0.2, 1.2)]);
    log.packets[1].arrived = Some(1.201);
    assert_eq!(overtaken(&log), None);
}

#[test]
fn delays_have_a_least_value_or_none() {
    let edge_of = |noisy: bool, delay: &mut dyn FnMut(&mut Stream) -> f64| {
        let mut draws = Root(3).stream("delays");
        let times: Vec<(f64, f64)> =
            (0..4000).map(|at| (f64::from(at) * 0.01, f64::from(at) * 0.01 + delay(&mut draws))).collect();
        edge(&arrivals(&times), f64::INFINITY, None, noisy).unwrap()
    };
    let exponential = edge_of(true, &mut |draws| 0.02 + draws.exponential(5e-3));
    assert!(exponential.sharp && (exponential.least - 0.02).abs() < 1e-4, "{exponential:?}");
    // The path is idle for an eighth of the time; otherwise packets wait for up to 30 ms.
    let queue = edge_of(false, &mut |draws| if draws.chance(0.125) { 0.02 } else { 0.02 + 0.03 * draws.uniform() });
    assert!(queue.sharp && (queue.least - 0.02).abs() < 1e-4, "{queue:?}");
    for deviation in [1e-3, 3e-3, 10e-3] {
        let normal = edge_of(true, &mut |draws| {
            let sum: f64 = (0..12).map(|_| draws.uniform()).sum();
            0.1 + deviation * (sum - 6.0)
        });
        assert!(!normal.sharp, "{deviation}: {normal:?}");
    }
}

/// On a link of 10 Mbps with independent delays per packet, two packets of a train say nothing, but hundreds give the
/// rate.
#[test]
fn noise_of_single_packets_does_not_bias_the_rate() {
    let mut held = 0;
    for seed in 0..100 {
        let mut draws = Root(seed).stream("noise");
        let slopes: Vec<Slope> = [64, 128, 128, 256]
            .into_iter()
            .map(|count| {
                let times: Vec<(f64, f64)> =
                    (0..count).map(|at| (0.0, f64::from(at) * 1.2e-3 + draws.exponential(10e-3))).collect();
                let mut log = arrivals(&times);
                log.packets.iter_mut().for_each(|packet| packet.size = 1500);
                Slope::of(&log.packets.iter().collect::<Vec<_>>()).unwrap()
            })
            .collect();
        let (rate, error) = combined(&slopes).unwrap();
        assert!(error < 0.1, "{error}");
        held += u32::from((rate / 10e6 - 1.0).abs() < 2.57 * error);
    }
    assert!(held >= 93, "{held}");
}

/// Loads of a path whose losses `lost` decides, given a packet's send time and number: five of 200 packets each, paced
/// at 7.2 Mbps on a link of 8 Mbps with a delay of 20 ms.
fn loads(mut lost: impl FnMut(f64, usize) -> bool) -> Vec<Vec<Packet>> {
    let gap = 12e3 / 7.2e6;
    let packet = |load: usize, index: usize| (2.0 * load as f64 + index as f64 * gap, 200 * load + index);
    let mut of = |(sent, number): (f64, usize)| Packet {
        sent,
        arrived: (!lost(sent, number)).then_some(sent + 0.02 + 12e3 / 8e6),
        size: 1500,
        purpose: Purpose::Load,
        order: (number / 200) as u16,
        index: (number % 200) as u16,
        dscp: [0; 2],
    };
    (0..5).map(|load| (0..200).map(|index| of(packet(load, index))).collect()).collect()
}

fn bucket_of(loads: &[Vec<Packet>], loss: f64) -> Option<Bucket> {
    let stretch = |load| Stretch { packets: Vec::from_iter(load), paced: true };
    bucket(&loads.iter().map(stretch).collect::<Vec<_>>(), 0.02, 8e6, loss)
}

/// Returns a channel with this share of losses, in bursts of this mean length in packets.
fn bursty(draws: &mut Stream, share: f64, run: f64) -> impl FnMut() -> bool {
    let begins = share / (1.0 - share) / run;
    let mut bad = false;
    move || {
        bad = if bad { draws.uniform() >= 1.0 / run } else { draws.uniform() < begins };
        bad
    }
}

#[test]
fn bursts_of_losses_are_no_policer() {
    for seed in 0..400 {
        let mut draws = Root(seed).stream("channel");
        let (share, run) = (0.02 + 0.08 * draws.uniform(), 1.0 + 9.0 * draws.uniform());
        let mut lost = bursty(&mut draws, share, run);
        let found = bucket_of(&loads(|_, _| lost()), share);
        assert_eq!(found, None, "seed {seed}: {share} in runs of {run}");
    }
}

#[test]
fn a_policer_is_found_in_front_of_a_lossy_channel() {
    for seed in 0..100 {
        let mut draws = Root(seed).stream("channel");
        let rate = 2e6 + 3e6 * draws.uniform();
        let mut lost = bursty(&mut draws, 0.02, 1.0);
        let (mut tokens, mut filled) = (30e3_f64, 0.0);
        let all = loads(|sent, _| {
            tokens = (tokens + rate / 8.0 * (sent - filled)).min(30e3);
            filled = sent;
            let passes = tokens >= 1500.0;
            tokens -= if passes { 1500.0 } else { 0.0 };
            lost() || !passes
        });
        let found = bucket_of(&all, 0.02).unwrap_or_else(|| panic!("seed {seed}: {rate}"));
        assert_eq!(found.kind, BucketKind::Policer);
        assert!((found.interval[0]..found.interval[1]).contains(&rate), "seed {seed}: {rate}, {found:?}");
        assert!((found.burst / 30e3 - 1.0).abs() < 0.15, "seed {seed}: {found:?}");
    }
}
