//! Tests of the Linux receiver against the behaviour of current kernels, derived by hand from their rules.

extern crate std;

mod window;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::tcp::config::{Clock, Preset, ReceiveAutotune, SackCompression};
use crate::time::Duration;

const MSS: u32 = 1448;

/// An acknowledgment: its departure in µs, the number of in-order segments before it, and its blocks as first and last
/// segment.
type Ack = (u64, u32, Vec<(u32, u32)>);

struct Bench {
    receiver: Receiver,
    acks: Vec<Ack>,
    reads: Switch,
    srtt: Duration,
    /// Round trip that each segment shows: TSecr is its own number.
    age: Duration,
}

fn config() -> TcpConfig {
    TcpConfig::preset(Preset::Rfc).with(|c| {
        c.common.mss = MSS;
        c.receiver.receive_buffer = 256 * 1024;
        c.receiver.window_scale = Some(7);
        c.receiver.delayed_ack = DelayedAck::Linux;
        c.receiver.sack_compression = SackCompression::Linux;
        c.receiver.dsack = Switch::On;
    })
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// Returns the first sequence number of segment `number`, from 1.
fn first(number: u32) -> Seq {
    Seq(1 + (number - 1) * MSS)
}

impl Bench {
    fn new(config: TcpConfig) -> Self {
        let mut bench = Self::unopened(config);
        let timestamps = bench.receiver.config.common.timestamps;
        bench.receiver.start(at(0), timestamps);
        bench.receiver.take_window();
        bench
    }

    /// Returns a bench of the end that answers a SYN with timestamps.
    fn answering(config: TcpConfig) -> Self {
        let mut bench = Self::unopened(config);
        bench.receiver.answer_syn();
        assert_eq!(bench.receiver.take_syn_window(), 65_160);
        bench.receiver.start(at(0), Switch::On);
        bench
    }

    fn unopened(config: TcpConfig) -> Self {
        let phase = TickPhase { slow: Duration::ZERO, fast: Duration::ZERO };
        let shift = config.receiver.window_scale.unwrap_or(0);
        let mut receiver = Receiver::new(Arc::new(config), phase);
        receiver.on_syn(Seq(0));
        receiver.window_shift = shift;
        receiver.agree(Switch::On, Switch::On);
        let (srtt, age) = (Duration::from_millis(20), Duration::from_millis(40));
        Self { receiver, acks: Vec::new(), reads: Switch::On, srtt, age }
    }

    /// Sends due acknowledgments.
    fn pump(&mut self, now: Instant) {
        while self.receiver.ack_due() {
            let ack = self.receiver.rcv_nxt();
            self.receiver.take_window();
            let segment = |seq: Seq| (seq.0 - 1) / MSS;
            let mut blocks = SackBlocks::NONE;
            self.receiver.put_sack_blocks(&mut blocks);
            let blocks = blocks.as_slice().iter().map(|block| (segment(block.left) + 1, segment(block.right)));
            self.acks.push((now.as_nanos() / 1000, segment(ack), blocks.collect()));
        }
    }

    /// Runs timers up to `micros`.
    fn until(&mut self, micros: u64) {
        while let Some(due) = self.receiver.poll_deadline().filter(|due| *due <= at(micros)) {
            self.receiver.on_timer(due);
            self.pump(due);
        }
    }

    fn arrival(&self, seq: Seq, len: u32, echo: u32) -> Arrival {
        Arrival {
            seq,
            len,
            size: len,
            fin: Switch::Off,
            push: Switch::Off,
            ecn: Ecn::Ect0,
            cwr: Switch::Off,
            echo: Some((echo, self.age)),
            srtt: Some(self.srtt),
            rto: self.srtt + Duration::from_millis(200),
        }
    }

    fn take(&mut self, micros: u64, arrival: &Arrival) {
        self.until(micros);
        self.receiver.on_mark(arrival.ecn, arrival.cwr);
        self.receiver.on_arrival(at(micros), arrival);
        self.pump(at(micros));
        let unread = self.receiver.unread();
        if self.reads.is_on() && unread > 0 {
            self.receiver.on_read(unread);
        }
        self.pump(at(micros));
    }

    /// Delivers segment `number` at `micros`.
    fn segment(&mut self, micros: u64, number: u32) {
        self.take(micros, &self.arrival(first(number), MSS, number));
    }

    /// Returns a bench on which segments 1 to 20 have arrived a millisecond apart, the last at 1 s: no quick
    /// acknowledgment is left.
    fn warmed(config: TcpConfig) -> Self {
        let mut bench = Self::new(config);
        (1..=20).for_each(|number| bench.segment(980_000 + u64::from(number) * 1000, number));
        bench.acks.clear();
        bench
    }

    fn taken(&self) -> Vec<(u64, u32)> {
        self.acks.iter().map(|(at, ack, _)| (*at, *ack)).collect()
    }
}

/// 16 quick acknowledgments, since half the window holds more segments than that; then every second segment; the last
/// after 40 ms, since arrivals are less than 20 ms apart.
#[test]
fn sixteen_quick_acknowledgments_then_every_second() {
    let mut bench = Bench::new(config());
    (1..=21).for_each(|number| bench.segment(u64::from(number) * 1000, number));
    bench.until(1_000_000);
    let mut expected: Vec<_> = (1..=16).map(|number| (u64::from(number) * 1000, number)).collect();
    expected.extend([(18_000, 18), (20_000, 20), (61_000, 21)]);
    assert_eq!(bench.taken(), expected);
}

/// As many as half the window holds, here half of eight segments.
#[test]
fn a_small_window_has_fewer_quick_acknowledgments() {
    let mut bench = Bench::new(config().with(|c| c.receiver.receive_buffer = 8 * MSS));
    (1..=7).for_each(|number| bench.segment(u64::from(number) * 1000, number));
    assert_eq!(bench.taken(), [(1000, 1), (2000, 2), (3000, 3), (4000, 4), (6000, 6)]);
}

/// Data that the application has not read moves no window: the acknowledgment waits for the read, or for its timer.
#[test]
fn an_application_that_is_late_delays_acknowledgments() {
    let mut bench = Bench::warmed(config());
    bench.reads = Switch::Off;
    bench.segment(1_001_000, 21);
    bench.segment(1_002_000, 22);
    assert_eq!(bench.taken(), []);
    bench.receiver.on_read(2 * u64::from(MSS));
    bench.pump(at(1_003_000));
    assert_eq!(bench.taken(), [(1_003_000, 22)]);
    bench.segment(1_004_000, 23);
    bench.segment(1_005_000, 24);
    bench.until(2_000_000);
    assert_eq!(bench.taken()[1..], [(1_044_000, 24)]);
}

/// A short segment completes the application's read, which acknowledges it.
#[test]
fn a_short_segment_is_acknowledged_when_it_is_read() {
    let mut bench = Bench::warmed(config());
    bench.take(1_001_000, &bench.arrival(first(21), 100, 21));
    assert_eq!(bench.taken(), [(1_001_000, 20)]);
    // A full one with PSH does too (6.x).
    let push = Arrival { push: Switch::On, ..bench.arrival(first(21) + 100, MSS, 22) };
    bench.take(1_002_000, &push);
    assert_eq!(bench.taken().len(), 2);
    // But not while data is sent in both directions.
    bench.receiver.on_data_sent(at(1_003_000));
    bench.take(1_004_000, &bench.arrival(first(22) + 100, 100, 23));
    assert_eq!(bench.taken().len(), 2);
    bench.until(2_000_000);
    assert_eq!(bench.taken()[2], (1_044_000, 21));
}

/// After a pause longer than the timeout, acknowledgments are quick. Then, at an arrival 30 ms after the previous one,
/// the delay becomes 40/2 + 30 ms. An acknowledgment that waited for its timer doubles the delay of the next one, up to
/// a round trip.
#[test]
fn slow_arrivals_wait_longer() {
    let mut bench = Bench::warmed(config());
    bench.srtt = Duration::from_millis(90);
    (21..=36).for_each(|number| bench.segment(2_000_000 + u64::from(number - 21) * 1000, number));
    assert_eq!(bench.acks.len(), 16);
    bench.acks.clear();
    bench.segment(2_045_000, 37);
    bench.until(2_144_000);
    assert_eq!(bench.taken(), [(2_095_000, 37)]);
    bench.segment(2_145_000, 38);
    bench.until(3_000_000);
    // The delay is 100 ms now, the round trip 90.
    assert_eq!(bench.taken()[1], (2_235_000, 38));
}

/// At 250 Hz, with a tick 1 ms after the start: a delay of 40 ms, ten ticks, counts from the tick before the arrival
/// and ends at the tick after the tenth: 40 to 44 ms later.
#[test]
fn delayed_acknowledgments_leave_at_ticks() {
    let clock = Clock::Jiffies { jiffy: Duration::from_millis(4), wheel: Switch::On };
    let mut bench = Bench::warmed(config().with(|c| c.common.clock = clock));
    bench.receiver.phase.slow = Duration::from_millis(3);
    for (number, arrival) in [(21, 1_000_900), (22, 1_101_100)] {
        bench.segment(arrival, number);
        bench.until(arrival + 99_000);
    }
    assert_eq!(bench.taken(), [(1_041_000, 21), (1_145_000, 22)]);
}

/// Segment 21 is lost. The first three duplicates leave at once, the rest once per min(1 ms, 5 % of 20 ms) and 0.1 ms.
/// The segment that fills the gap is acknowledged at once.
#[test]
fn duplicates_are_compressed_after_three() {
    let mut bench = Bench::warmed(config());
    (0..30).for_each(|n| bench.segment(1_000_000 + u64::from(n) * 100, 22 + n));
    bench.segment(1_003_000, 21);
    let run = |last: u32| vec![(22, last)];
    let expected = [
        (1_000_000, 20, run(22)),
        (1_000_100, 20, run(23)),
        (1_000_200, 20, run(24)),
        // Compressed from 1,000,300 on, and again from 1,001,400 on: a segment that arrives at that very time follows
        // the timer.
        (1_001_400, 20, run(35)),
        (1_002_500, 20, run(46)),
        (1_003_000, 51, vec![]),
    ];
    assert_eq!(bench.acks, expected);
}

#[test]
fn at_most_44_are_held_back() {
    let mut bench = Bench::warmed(config());
    (0..60).for_each(|n| bench.segment(1_000_000 + u64::from(n) * 10, 22 + n));
    let times: Vec<_> = bench.acks.iter().map(|ack| ack.0).collect();
    // Three, then 44 suppressed, then the next.
    assert_eq!(times, [1_000_000, 1_000_010, 1_000_020, 1_000_470]);
}

#[test]
fn without_compression_each_duplicate_leaves_at_once() {
    let mut bench = Bench::warmed(config().with(|c| c.receiver.sack_compression = SackCompression::Off));
    (0..30).for_each(|n| bench.segment(1_000_000 + u64::from(n) * 100, 22 + n));
    assert_eq!(bench.acks.len(), 30);
}

/// A third block would displace one that is not reported yet: an acknowledgment leaves before it, for the segments
/// before.
#[test]
fn a_third_block_sends_the_first_two_ahead() {
    let mut bench = Bench::warmed(config());
    for (n, number) in [22, 23, 24, 25, 27, 29, 30].into_iter().enumerate() {
        bench.segment(1_000_000 + n as u64 * 10, number);
    }
    bench.until(1_010_000);
    let expected = [
        (1_000_000, 20, vec![(22, 22)]),
        (1_000_010, 20, vec![(22, 23)]),
        (1_000_020, 20, vec![(22, 24)]),
        (1_000_050, 20, vec![(27, 27), (22, 25)]),
        // 29 had its acknowledgment ahead; 30 is compressed.
        (1_001_160, 20, vec![(29, 30), (27, 27), (22, 25)]),
    ];
    assert_eq!(bench.acks, expected);
}

/// RFC 2883 §4: the first block is the duplicate, once; then the blocks of RFC 2018. Sixteen quick acknowledgments
/// follow.
#[test]
fn duplicates_are_reported_first() {
    let mut bench = Bench::warmed(config());
    bench.segment(1_000_000, 20);
    bench.segment(1_000_010, 21);
    let expected = [(1_000_000, 20, vec![(20, 20)]), (1_000_010, 21, vec![])];
    assert_eq!(bench.acks, expected);
    bench.acks.clear();
    // Out of order, and again; then a copy of two segments in one, of which half is present.
    bench.segment(1_000_020, 24);
    bench.segment(1_000_030, 24);
    bench.take(1_000_040, &bench.arrival(first(24), 2 * MSS, 25));
    bench.segment(1_000_050, 19);
    let expected = [
        (1_000_020, 21, vec![(24, 24)]),
        (1_000_030, 21, vec![(24, 24), (24, 24)]),
        (1_000_040, 21, vec![(24, 24), (24, 25)]),
        (1_000_050, 21, vec![(19, 19), (24, 25)]),
    ];
    assert_eq!(bench.acks, expected);
}

/// A copy that ends before the last acknowledgment is answered in addition to the sixteen; one that ends at it is the
/// first of them.
#[test]
fn an_old_copy_is_followed_by_sixteen_quick_acknowledgments() {
    for (copy, quick) in [(10, 16), (20, 15)] {
        let mut bench = Bench::warmed(config());
        bench.segment(1_000_500, copy);
        assert_eq!(bench.acks, [(1_000_500, 20, vec![(copy, copy)])]);
        (21..=38).for_each(|number| bench.segment(1_000_000 + u64::from(number) * 1000, number));
        let at_once = bench.acks[1..].iter().zip(21..).take_while(|(ack, number)| ack.1 == *number).count();
        assert_eq!(at_once, quick);
    }
}

/// A duplicate whose acknowledgment is compressed is forgotten when the next segment arrives.
#[test]
fn a_duplicate_that_is_held_back_may_go_unreported() {
    for (last, blocks) in [(25, vec![(25, 25), (22, 25)]), (26, vec![(22, 26)])] {
        let mut bench = Bench::warmed(config());
        [22, 23, 24, 25, 25, last]
            .into_iter()
            .zip(0..)
            .for_each(|(number, n)| bench.segment(1_000_000 + n * 10, number));
        bench.until(1_010_000);
        assert_eq!(bench.acks.last().unwrap().2, blocks);
    }
}

#[test]
fn without_dsack_duplicates_are_not_reported() {
    let mut bench = Bench::warmed(config().with(|c| c.receiver.dsack = Switch::Off));
    bench.segment(1_000_000, 20);
    assert_eq!(bench.acks, [(1_000_000, 20, vec![])]);
}

/// RFC 3168 §6.1.3: ECE from the first mark until CWR. The mark makes two acknowledgments leave at once, CWR one.
#[test]
fn marks_are_echoed_until_the_window_is_reduced() {
    let mut bench = Bench::warmed(config());
    let come = |bench: &mut Bench, number: u32, ecn, cwr| {
        let arrival = Arrival { ecn, cwr, ..bench.arrival(first(number), MSS, number) };
        let before = bench.acks.len();
        bench.take(1_000_000 + u64::from(number), &arrival);
        (bench.acks.len() - before, bench.receiver.echoes())
    };
    assert_eq!(come(&mut bench, 21, Ecn::Ect0, Switch::Off), (0, false));
    assert_eq!(come(&mut bench, 22, Ecn::Ce, Switch::Off), (1, true));
    assert_eq!(come(&mut bench, 23, Ecn::Ce, Switch::Off), (1, true));
    assert_eq!(come(&mut bench, 24, Ecn::Ce, Switch::Off), (0, true));
    assert_eq!(come(&mut bench, 25, Ecn::Ect0, Switch::Off), (1, true));
    assert_eq!(come(&mut bench, 26, Ecn::Ect0, Switch::On), (1, false));
    assert_eq!(come(&mut bench, 27, Ecn::Ect0, Switch::Off), (0, false));
    // A segment that is not ECN-capable, among those that are, is likely a retransmission.
    assert_eq!(come(&mut bench, 28, Ecn::NotEct, Switch::Off), (1, false));
    assert_eq!(come(&mut bench, 29, Ecn::Ect0, Switch::Off), (1, false));
    assert_eq!(come(&mut bench, 30, Ecn::Ect0, Switch::Off), (0, false));
    // A mark and a CWR in one segment: the echo continues.
    assert_eq!(come(&mut bench, 31, Ecn::Ce, Switch::On), (1, true));
}

proptest! {
    /// For any input in any order: the stream is reassembled, each arrival causes at most two acknowledgments and each
    /// read one, and when all timers have run everything is acknowledged and none is left.
    #[test]
    fn any_order_is_put_right(
        steps in prop::collection::vec((0u32..40_000, 1u32..4000, 0u64..60_000, 0u8..8), 1..120),
        compression: bool, dsack: bool, autotune: bool, buffer in 4000u32..200_000,
    ) {
        let on = |given| if given { Switch::On } else { Switch::Off };
        let config = config().with(|c| {
            c.receiver.sack_compression = if compression { SackCompression::Linux } else { SackCompression::Off };
            c.receiver.dsack = on(dsack);
            c.receiver.receive_autotune = if autotune { ReceiveAutotune::Linux } else { ReceiveAutotune::Off };
            c.receiver.receive_buffer = buffer;
        });
        let mut bench = Bench::new(config);
        let mut held = vec![false; 50_000];
        let (mut now, mut acks) = (0, 0);
        for (number, &(offset, len, wait, kind)) in steps.iter().enumerate() {
            now += wait;
            bench.until(now);
            let timers = bench.acks.len() - acks;
            // At most one for the delay, and one for compressed acknowledgments.
            prop_assert!(timers <= 2, "{timers}");
            bench.reads = on(kind & 1 == 0);
            // A segment that starts in the window is taken as a whole, if the application has read all before it.
            let (next, edge) = (bench.receiver.rcv_nxt().0 - 1, bench.receiver.rcv_adv.0 - 1);
            let end = (offset + len) as usize;
            let fits = bench.receiver.is_in_sequence(Seq(1 + offset), Seq(1 + offset + len));
            let fits = fits && offset < edge && edge > next;
            let ecn = if kind & 2 == 0 { Ecn::Ce } else { Ecn::Ect0 };
            let arrival = Arrival { ecn, cwr: on(kind & 4 == 0), ..bench.arrival(Seq(1 + offset), len, number as u32) };
            let before = bench.acks.len();
            if bench.receiver.is_in_sequence(Seq(1 + offset), Seq(1 + offset + len)) {
                bench.take(now, &arrival);
            }
            acks = bench.acks.len();
            prop_assert!(acks - before <= 3);
            if fits {
                held[offset as usize..end].fill(true);
            }
            let expected = held.iter().take_while(|held| **held).count() as u32;
            prop_assert_eq!(bench.receiver.rcv_nxt().0 - 1, expected);
            prop_assert_eq!(bench.receiver.received(), u64::from(expected));
            for (_, _, blocks) in &bench.acks[before..] {
                prop_assert!(blocks.len() <= 3);
            }
        }
        bench.until(u64::MAX / 2000);
        prop_assert_eq!(bench.receiver.poll_deadline(), None);
        prop_assert!(!bench.receiver.ack_due());
        prop_assert_eq!(bench.receiver.last_ack_sent(), bench.receiver.rcv_nxt());
    }
}
