//! Tests against published tables and closed forms.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::access::Fate;
use super::*;

/// A channel whose lines have endless or given numbers of packets of one size.
struct Bench {
    wifi: Wifi<u32>,
    now: Instant,
    /// Packets left in each queue, and the number of the next.
    queues: Vec<(u64, u32)>,
    bytes: u32,
    received: Vec<u64>,
    given_up: Vec<u64>,
    /// Time when the last frame left.
    last: Instant,
}

impl Bench {
    fn new(spec: WifiSpec, lines: &[LineSpec], bytes: u32, seed: u64) -> Self {
        let count = lines.len();
        Self {
            wifi: Wifi::new(spec, lines, "channels/home", Root(seed)),
            now: Instant::ZERO,
            queues: vec![(0, 0); count],
            bytes,
            received: vec![0; count],
            given_up: vec![0; count],
            last: Instant::ZERO,
        }
    }

    fn fill(&mut self, line: usize, packets: u64) {
        self.queues[line].0 += packets;
        self.wifi.handle_frame(self.now, LineId(line));
    }

    /// Fills all queues for ever.
    fn saturate(mut self) -> Self {
        (0..self.queues.len()).for_each(|line| self.fill(line, u64::MAX / 2));
        self
    }

    fn run(&mut self, until: Instant) {
        let Self { wifi, queues, bytes, received, given_up, last, now } = self;
        while let Some(at) = wifi.poll_deadline().filter(|at| *at <= until) {
            assert!(at >= *now, "time decreases");
            *now = at;
            wifi.handle_timeout(at, &mut |_: Instant, line: LineId| {
                let (left, next) = &mut queues[line.0];
                *left = left.checked_sub(1)?;
                *next += 1;
                Some((*next, *bytes))
            });
            while let Some(crossed) = wifi.poll_crossed() {
                assert!(at <= crossed.end && crossed.start < crossed.end);
                *last = crossed.end;
                match crossed.fate {
                    Fate::Received => received[crossed.line.0] += 1,
                    Fate::GivenUp => given_up[crossed.line.0] += 1,
                }
            }
        }
        *now = until;
    }

    /// Returns the throughput of each line in Mbps after `seconds`, with `bytes` counted of each packet.
    fn throughput(mut self, seconds: u64, bytes: u32) -> Vec<f64> {
        self.run(Instant::from_nanos(seconds * 1_000_000_000));
        self.received.iter().map(|count| (count * u64::from(bytes) * 8) as f64 / seconds as f64 / 1e6).collect()
    }
}

fn phy(standard: Standard, width: u32, streams: u32, guard: Guard) -> Phy {
    Phy { standard, band: Band::Ghz5, width, streams, guard }
}

fn line(sender: usize, receiver: usize, phy: Phy, rate: u8) -> LineSpec {
    let transmitter = TransmitterSpec {
        phy,
        loss: FrameLoss::Fixed(0.0),
        control: Control::Fixed(RateIndex(rate)),
        rts: None,
        retries: 7,
        frames: phy.acknowledged_at_once(),
        aifsn: phy.aifsn(),
    };
    LineSpec { sender, receiver, transmitter }
}

/// Returns a line with a changed transmitter.
fn with(line: LineSpec, change: impl FnOnce(&mut TransmitterSpec)) -> LineSpec {
    let mut line = line;
    change(&mut line.transmitter);
    line
}

const PLAIN: WifiSpec = WifiSpec { turns: Turns::Airtime, eifs: Switch::Off, ack_timeout: Switch::Off, beacon: None };

/// Tables of ns-3's `wifi-bianchi` example (`difs` variant) for 1500 bytes of payload, at 5, 10, 20 and 50 stations.
#[test]
fn saturated_stations_share_as_in_the_tables() {
    let table: [(Standard, u8, [f64; 4]); 5] = [
        (Standard::Ofdm, 0, [4.709, 4.345, 3.990, 3.507]),
        (Standard::Ofdm, 4, [16.25, 15.14, 14.01, 12.41]),
        (Standard::Ofdm, 7, [29.83, 28.15, 26.29, 23.56]),
        (Standard::He, 0, [6.37, 5.87, 5.37, 4.70]),
        (Standard::He, 11, [43.00, 41.00, 38.59, 34.82]),
    ];
    for (standard, rate, expected) in table {
        for (stations, expected) in [5, 10, 20, 50].into_iter().zip(expected) {
            let phy = phy(standard, 20, 1, Guard::Normal);
            let change = |to: &mut TransmitterSpec| (to.retries, to.frames, to.aifsn) = (1_000, 1, 2);
            let lines: Vec<_> = (1..=stations).map(|station| with(line(station, 0, phy, rate), change)).collect();
            let found: f64 = Bench::new(PLAIN, &lines, 1_500, 1).saturate().throughput(20, 1_500).iter().sum();
            let ratio = found / expected;
            assert!((ratio - 1.0).abs() < 0.03, "{standard:?} {rate}, {stations}: {found:.3}, table {expected:.3}");
        }
    }
}

/// One HT station that sends 1472 bytes in UDP to its access point, with beacons: ns-3's `wifi-testing.rst`.
#[test]
fn one_station_saturates_as_in_the_table() {
    let table = [5.814, 11.827, 17.794, 23.796, 35.733, 47.617, 53.610, 59.550];
    let per_transmission = [2, 5, 8, 11, 17, 22, 25, 28];
    let spec = WifiSpec { beacon: Some(Duration::from_micros(102_400)), ..PLAIN };
    for (rate, (expected, frames)) in table.into_iter().zip(per_transmission).enumerate() {
        let line = line(1, 0, phy(Standard::Ht, 20, 1, Guard::Normal), rate as u8);
        let found = Bench::new(spec, &[line], 1_500, 1).saturate().throughput(10, 1_472)[0];
        assert!((found / expected - 1.0).abs() < 0.005, "MCS {rate}: {found:.3}, table {expected:.3}");
        let mut bench = Bench::new(spec, &[line], 1_500, 1).saturate();
        bench.run(Instant::from_nanos(20_000_000));
        assert_eq!(bench.received[0] % frames, 0, "MCS {rate}");
    }
    let line = line(1, 0, phy(Standard::Ht, 40, 2, Guard::Short), 7);
    let found = Bench::new(spec, &[line], 1_500, 1).saturate().throughput(10, 1_472)[0];
    assert!((found / 254.90 - 1.0).abs() < 0.005, "MCS 15: {found:.3}");
}

/// Losses of single frames cost their share of the throughput, as the block acknowledgment asks for these alone.
#[test]
fn lost_frames_cost_their_share() {
    let phy = phy(Standard::Ht, 20, 1, Guard::Normal);
    let clean = Bench::new(PLAIN, &[line(1, 0, phy, 7)], 1_500, 1).saturate().throughput(10, 1_472)[0];
    for (loss, tolerance) in [(0.05, 0.01), (0.1, 0.01), (0.3, 0.02)] {
        let lossy = with(line(1, 0, phy, 7), |to| to.loss = FrameLoss::Fixed(loss));
        let mut bench = Bench::new(PLAIN, &[lossy], 1_500, 1).saturate();
        bench.run(Instant::from_nanos(10_000_000_000));
        let found = (bench.received[0] * 1_472 * 8) as f64 / 1e7;
        let ratio = found / clean / (1.0 - loss);
        assert!((ratio - 1.0).abs() < tolerance, "loss {loss}: {found:.2} of {clean:.2}");
        // 8 attempts fail with the eighth power.
        let expected = bench.received[0] as f64 * libm::pow(loss, 8.0);
        assert!(bench.given_up[0] as f64 <= expected + 4.0 * libm::sqrt(expected) + 1.0, "{}", bench.given_up[0]);
    }
}

/// Two stations at 144.4 Mbps and one at 7.2 behind an access point: exact arithmetic of the exchanges' durations.
#[test]
fn airtime_is_shared() {
    let phy = |streams| phy(Standard::Ht, 20, streams, Guard::Short);
    let lines = [line(0, 1, phy(2), 7), line(0, 2, phy(2), 7), line(0, 3, phy(1), 0)];
    let fair = Bench::new(PLAIN, &lines, 1_500, 1).saturate().throughput(20, 1_472);
    for (found, expected) in fair.iter().zip([43.48, 43.48, 2.21]) {
        assert!((found / expected - 1.0).abs() < 0.02, "{fair:?}");
    }
    let turns = WifiSpec { turns: Turns::Transmissions, ..PLAIN };
    let equal = Bench::new(turns, &lines, 1_500, 1).saturate().throughput(20, 1_472);
    for (found, expected) in equal.iter().zip([38.31, 38.31, 2.74]) {
        assert!((found / expected - 1.0).abs() < 0.02, "{equal:?}");
    }
    let single = lines.map(|line| with(line, |to| to.frames = 1));
    // One queue for all: the slow station takes most of the time.
    let arrival = WifiSpec { turns: Turns::Arrival, ..PLAIN };
    let mut bench = Bench::new(arrival, &single, 1_500, 1);
    for packet in 0..9_000 {
        bench.fill(packet % 3, 1);
        let now = bench.now;
        bench.run(now + Duration::from_micros(1));
    }
    bench.run(Instant::from_nanos(6_000_000_000));
    assert!(bench.received.iter().all(|count| count.abs_diff(bench.received[0]) <= 1), "{:?}", bench.received);
    let anomaly = Bench::new(turns, &single, 1_500, 1).saturate().throughput(20, 1_472);
    for found in &anomaly {
        assert!((found / 4.75 - 1.0).abs() < 0.02, "{anomaly:?}");
    }
}

/// With RTS, collisions cost an RTS alone: 50 stations with long frames keep most of the channel.
#[test]
fn rts_makes_collisions_cheap() {
    let phy = phy(Standard::Ofdm, 20, 1, Guard::Normal);
    let throughput = |rts| {
        let lines: Vec<_> = (1..=50).map(|station| with(line(station, 0, phy, 0), |to| to.rts = rts)).collect();
        Bench::new(PLAIN, &lines, 1_500, 1).saturate().throughput(10, 1_500).iter().sum::<f64>()
    };
    let (without, with) = (throughput(None), throughput(Some(0)));
    assert!(with > 1.2 * without, "{without} {with}");
}

/// Minstrel finds the rate with the highest throughput at each signal-to-noise ratio.
#[test]
fn minstrel_finds_the_best_rate() {
    for snr in [4, 7, 10, 13, 17, 21, 24, 30] {
        let phy = phy(Standard::Ht, 20, 1, Guard::Normal);
        let loss = FrameLoss::Snr(f64::from(snr));
        let at = |control| {
            let line = with(line(0, 1, phy, 0), |to| (to.loss, to.control) = (loss, control));
            Bench::new(PLAIN, &[line], 1_500, 1).saturate().throughput(10, 1_472)[0]
        };
        let best = (0..8).map(|rate| at(Control::Fixed(RateIndex(rate)))).fold(0.0, f64::max);
        let found = at(Control::Minstrel);
        assert!(found >= 0.93 * best, "{snr} dB: {found:.2} of {best:.2}");
    }
}

/// A single packet on an idle channel is sent at the next slot and takes its airtime.
#[test]
fn a_packet_on_an_idle_channel_is_sent_in_the_next_slot() {
    let phy = phy(Standard::Ofdm, 20, 1, Guard::Normal);
    let mut bench = Bench::new(PLAIN, &[line(1, 0, phy, 7)], 1_500, 1);
    bench.run(Instant::from_nanos(1_000_000));
    bench.fill(0, 1);
    // The next boundary of slots of 9 µs.
    assert_eq!(bench.wifi.poll_deadline(), Some(Instant::from_nanos(1_008_000)));
    bench.run(Instant::from_nanos(1_008_000));
    // 20 µs and 57 symbols of 4 µs for 1536 bytes and 22 bits at 216 bits each.
    assert_eq!((bench.last, &bench.received[..]), (Instant::from_nanos(1_008_000 + 248_000), &[1][..]));
}

/// Rates in Mbps of the standards' tables.
#[test]
fn rates_are_those_of_the_tables() {
    let rate = |phy: Phy, index| phy.bits_per_second(RateIndex(index)) as f64 / 1e6;
    for (found, expected) in [
        (rate(phy(Standard::Ofdm, 20, 1, Guard::Normal), 7), 54.0),
        (rate(phy(Standard::Ht, 20, 1, Guard::Normal), 0), 6.5),
        (rate(phy(Standard::Ht, 20, 1, Guard::Normal), 7), 65.0),
        (rate(phy(Standard::Ht, 40, 2, Guard::Short), 7), 300.0),
        (rate(phy(Standard::Vht, 80, 1, Guard::Short), 9), 433.3),
        (rate(phy(Standard::Vht, 160, 2, Guard::Short), 9), 1_733.3),
        (rate(phy(Standard::He, 20, 1, Guard::Normal), 0), 8.6),
        (rate(phy(Standard::He, 80, 2, Guard::Normal), 11), 1_201.0),
        (rate(phy(Standard::He, 160, 2, Guard::Normal), 11), 2_402.0),
        (rate(phy(Standard::He, 80, 1, Guard::Quadruple), 11), 510.4),
    ] {
        assert!((found / expected - 1.0).abs() < 0.005, "{found} instead of {expected}");
    }
}

proptest! {
    /// Every frame leaves once; those of a line in order, at times that do not decrease.
    #[test]
    fn every_frame_leaves_once_and_in_order(
        seed in 0u64..1_000,
        stations in 1usize..5,
        loss in 0.0f64..0.6,
        rts in prop::option::of(0u32..3_000),
        retries in 0u32..9,
        standard in prop::sample::select(vec![Standard::Ofdm, Standard::Ht, Standard::He]),
        bursts in prop::collection::vec((0u64..20_000_000, 0usize..10, 1u64..200), 1..20),
    ) {
        let phy = phy(standard, 20, 1, Guard::Normal);
        let both = |station| {
            let of = |from, to| {
                with(line(from, to, phy, 3), |to| (to.loss, to.rts, to.retries) = (FrameLoss::Fixed(loss), rts, retries))
            };
            [of(0, station), of(station, 0)]
        };
        let lines: Vec<_> = (1..=stations).flat_map(both).collect();
        let spec = WifiSpec { eifs: Switch::On, ack_timeout: Switch::On, beacon: Some(Duration::from_millis(100)), ..PLAIN };
        let mut wifi = Wifi::new(spec, &lines, "x", Root(seed));
        let mut queues = vec![(0u64, 0u64); lines.len()];
        let mut next = vec![0u64; lines.len()];
        let mut last = vec![Instant::ZERO; lines.len()];
        let mut now = Instant::ZERO;
        let mut advance = |wifi: &mut Wifi<u64>, queues: &mut Vec<(u64, u64)>, until: Instant| {
            while let Some(at) = wifi.poll_deadline().filter(|at| *at <= until) {
                wifi.handle_timeout(at, &mut |_: Instant, line: LineId| {
                    let (left, next) = &mut queues[line.0];
                    *left = left.checked_sub(1)?;
                    *next += 1;
                    Some((*next - 1, 1_000))
                });
                while let Some(crossed) = wifi.poll_crossed() {
                    let last = &mut last[crossed.line.0];
                    prop_assert!(crossed.end >= *last && crossed.start < crossed.end);
                    *last = crossed.end;
                    prop_assert_eq!(crossed.item, next[crossed.line.0]);
                    next[crossed.line.0] += 1;
                }
            }
            Ok(())
        };
        for (gap, line, packets) in bursts {
            now += Duration::from_nanos(gap);
            advance(&mut wifi, &mut queues, now)?;
            let line = line % lines.len();
            queues[line].0 += packets;
            wifi.handle_frame(now, LineId(line));
        }
        advance(&mut wifi, &mut queues, now + Duration::from_secs(60))?;
        prop_assert_eq!(wifi.poll_deadline(), None);
        for (line, (left, sent)) in queues.into_iter().enumerate() {
            prop_assert_eq!(left, 0);
            prop_assert_eq!(sent, next[line]);
            prop_assert_eq!(wifi.held(LineId(line)), 0);
        }
    }
}
