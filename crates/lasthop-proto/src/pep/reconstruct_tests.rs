//! Sequences derived by hand from RFC 3449 §5.3.1, and properties of arbitrary sequences. Segments have 1,000 bytes.

extern crate std;

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::node::{Output, pump};
use crate::packet::{SackBlock, Side};

const ISN: Seq = Seq(u32::MAX - 20_000);

fn seq(thousands: u32) -> Seq {
    ISN + thousands * 1000
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn packet(from: Side, len: u32, segment: Segment) -> Packet {
    let header_len = 40 + segment.options.wire_len();
    Packet { from, header_len, len, body: Body::Tcp(segment), ..Packet::default() }
}

/// Returns segment `n`, towards the link.
fn data(n: u32) -> Packet {
    packet(Side::Initiator, 1000, Segment { seq: seq(n), flags: Flags::ACK, ..Segment::default() })
}

/// Returns the acknowledgment of all segments before `n`, from the link.
fn ack(n: u32, window: u16) -> Packet {
    packet(Side::Acceptor, 0, Segment { ack: seq(n), window, flags: Flags::ACK, ..Segment::default() })
}

/// A reconstructor, and the packets that left towards the sender: time, number, and reason.
struct Bench {
    node: Reconstructor<()>,
    left: Vec<(u64, u32, Why)>,
}

impl Bench {
    /// Returns a bench through which `segments` segments have passed.
    fn new(segments: u32) -> Self {
        let mut bench = Self { node: Reconstructor::new(ReconstructorConfig::default()), left: Vec::new() };
        for n in 0..segments {
            assert_eq!(bench.pass(0, Port::WIRED, data(n)), Disposition::Forwarded);
        }
        assert!(bench.left.is_empty());
        bench
    }

    fn drain(&mut self, now: u64) {
        let left = &mut self.left;
        pump(&mut self.node, ms(now), |output| {
            if let Output::Transmit(Port::WIRED, why, packet) = output {
                left.push((now, packet.tcp().unwrap().ack.since(ISN) / 1000, why));
            }
        });
    }

    /// Runs all departures due before `now`.
    fn run(&mut self, now: u64) {
        while let Some(due) = self.node.poll_deadline().filter(|due| *due <= ms(now)) {
            self.node.handle_timeout(due);
            self.drain(due.as_nanos() / 1_000_000);
        }
    }

    fn pass(&mut self, now: u64, port: Port, packet: Packet) -> Disposition {
        self.run(now);
        let disposition = self.node.handle_packet(ms(now), port, packet);
        self.drain(now);
        disposition
    }

    fn ack(&mut self, now: u64, n: u32) -> Disposition {
        self.pass(now, Port::WIRELESS, ack(n, 500))
    }

    fn finish(mut self) -> Vec<(u64, u32, Why)> {
        self.run(100_000);
        self.left
    }
}

/// RFC 3449: ack_thresh is 2, delta_a 8 segments, delta_t 80 ms. Thus ceil(8/2) - 1 = 3 are recreated, ack_interval =
/// (2/8)·80 = 20 ms apart, and the received one follows them.
#[test]
fn a_stretch_of_eight_segments_becomes_four_acknowledgments() {
    let mut bench = Bench::new(40);
    assert_eq!(bench.ack(0, 8), Disposition::Forwarded);
    assert_eq!(bench.ack(80, 16), Disposition::Held);
    assert_eq!(bench.ack(160, 24), Disposition::Held);
    let (made, came) = (Why::LocalAck, Why::Released);
    let expected = [
        (0, 8, Why::Given),
        (80, 10, made),
        (100, 12, made),
        (120, 14, made),
        (140, 16, came),
        (160, 18, made),
        (180, 20, made),
        (200, 22, made),
        (220, 24, came),
    ];
    assert_eq!(bench.finish(), expected);
}

/// ceil(5/2) - 1 = 2, ceil(3/2) - 1 = 1, ceil(2/2) - 1 = 0.
#[test]
fn no_more_are_made_than_are_missing() {
    for (gap, made) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)] {
        let mut bench = Bench::new(40);
        bench.ack(0, 8);
        bench.ack(60, 8 + gap);
        let left = bench.finish();
        assert_eq!(left.iter().filter(|(.., why)| *why == Why::LocalAck).count(), made, "{gap}");
        assert_eq!(left.last().unwrap().1, 8 + gap);
    }
}

/// An acknowledgment that arrives while another waits replaces it. The remaining ones are spread over the average
/// interval, (7·80 + 10)/8 = 71.25 ms, so that no backlog builds up.
#[test]
fn a_later_one_takes_the_place_of_one_that_waits() {
    let mut bench = Bench::new(40);
    bench.ack(0, 8);
    bench.ack(80, 16);
    bench.ack(90, 18);
    let left: Vec<_> = bench.finish().into_iter().map(|(at, n, _)| (at, n)).collect();
    assert_eq!(left, [(0, 8), (80, 10), (90, 12), (107, 14), (125, 16), (143, 18)]);
}

/// A duplicate follows the acknowledgment that it repeats at once. Until the possibly lost data is acknowledged,
/// everything passes unchanged.
#[test]
fn duplicates_end_the_wait_and_what_follows_them_passes() {
    let mut bench = Bench::new(24);
    bench.ack(0, 8);
    bench.ack(80, 16);
    for _ in 0..2 {
        assert_eq!(bench.ack(85, 16), Disposition::Forwarded);
    }
    assert_eq!(bench.ack(120, 23), Disposition::Forwarded);
    assert_eq!(bench.ack(160, 24), Disposition::Forwarded);
    let left: Vec<_> = bench.left.iter().map(|(at, n, _)| (*at, *n)).collect();
    assert_eq!(left, [(0, 8), (80, 10), (85, 16), (85, 16), (85, 16), (120, 23), (160, 24)]);
    // The episode is over.
    (24..40).for_each(|n| {
        bench.pass(170, Port::WIRED, data(n));
    });
    assert_eq!(bench.ack(240, 32), Disposition::Held);
}

/// After a retransmission a jump shows which data the receiver already had. A sender that saw it in steps would resend
/// that data.
#[test]
fn jumps_behind_retransmissions_pass() {
    let mut bench = Bench::new(24);
    bench.ack(0, 8);
    bench.pass(50, Port::WIRED, data(8));
    assert_eq!(bench.ack(80, 20), Disposition::Forwarded);
    assert_eq!(bench.ack(160, 24), Disposition::Forwarded);
    // SACK blocks show the same.
    let mut bench = Bench::new(24);
    bench.ack(0, 8);
    let mut sack = ack(8, 500);
    if let Body::Tcp(segment) = &mut sack.body {
        segment.options.sack.push(SackBlock { left: seq(9), right: seq(12) });
    }
    assert_eq!(bench.pass(20, Port::WIRELESS, sack), Disposition::Forwarded);
    assert_eq!(bench.ack(80, 20), Disposition::Forwarded);
}

/// An acknowledgment with a smaller window passes at once. Recreated ones have the window of the previous one, so that
/// no edge is advertised that the receiver has not advertised.
#[test]
fn no_window_is_made_up() {
    let mut node = Reconstructor::<()>::new(ReconstructorConfig::default());
    let mut windows = Vec::new();
    let mut pass = |now: u64, port: Port, packet: Packet| {
        let disposition = node.handle_packet(ms(now), port, packet);
        pump(&mut node, ms(now), |output| {
            if let Output::Transmit(Port::WIRED, _, packet) = output {
                windows.push(packet.tcp().unwrap().window);
            }
        });
        disposition
    };
    (0..40).for_each(|n| {
        pass(0, Port::WIRED, data(n));
    });
    pass(0, Port::WIRELESS, ack(8, 500));
    assert_eq!(pass(80, Port::WIRELESS, ack(12, 900)), Disposition::Held);
    assert_eq!(pass(160, Port::WIRELESS, ack(20, 100)), Disposition::Forwarded);
    assert_eq!(windows, [500, 500, 900, 100]);
}

#[test]
fn connections_have_a_limit_and_an_end() {
    let config = ReconstructorConfig { connections: 2, ..ReconstructorConfig::default() };
    let mut node = Reconstructor::<()>::new(config);
    let mut evicted = Vec::new();
    for flow in 0..3 {
        for n in 0..20 {
            node.handle_packet(ms(0), Port::WIRED, Packet { flow: FlowId(flow), ..data(n) });
        }
        for (at, n) in [(0, 2), (10, 20)] {
            node.handle_packet(ms(at), Port::WIRELESS, Packet { flow: FlowId(flow), ..ack(n, 500) });
        }
    }
    let mut released = Vec::new();
    while let Some((flow, event)) = node.poll_event() {
        if event == Event::Evicted {
            evicted.push(flow);
        }
    }
    let mut place = Packet::default();
    while let Some((_, why)) = node.poll_transmit(ms(10), &mut place) {
        if why == Why::Released {
            released.push(place.flow);
        }
    }
    // The waiting acknowledgment of the evicted connection was passed on.
    assert_eq!((evicted, released, node.connections()), (vec![FlowId(0)], vec![FlowId(0)], 2));
    let reset = packet(Side::Initiator, 0, Segment { flags: Flags::RST, ..Segment::default() });
    node.handle_packet(ms(11), Port::WIRED, Packet { flow: FlowId(1), ..reset });
    node.forget(FlowId(2));
    assert_eq!((node.connections(), node.poll_deadline()), (0, None));
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    /// The next segments.
    Data(u32),
    /// A segment that passed before, counted back from the latest.
    Again(u32),
    /// An acknowledgment above or below the highest so far by this number of segments.
    Ack(i32, u16),
    Sack,
    Open,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..120).prop_map(Step::Wait),
        6 => (1u32..30).prop_map(Step::Data),
        1 => (1u32..20).prop_map(Step::Again),
        12 => (-2i32..30, prop_oneof![4 => Just(500u16), 1 => 0u16..1000]).prop_map(|(by, window)| Step::Ack(by, window)),
        1 => Just(Step::Sack),
        1 => Just(Step::Open),
    ]
}

proptest! {
    /// For any input: nothing is acknowledged that was not; every acknowledgment is passed on, or covered by a later
    /// one that was; none waits longer than half a second; the connection's state is the only state.
    #[test]
    fn of_any_sequence(steps in proptest::collection::vec(step(), 1..200)) {
        let mut bench = Bench::new(10);
        let (mut now, mut highest, mut next) = (1, 0u32, 10);
        let mut opened = Vec::new();
        for step in steps {
            match step {
                Step::Wait(span) => now += span,
                Step::Data(count) => {
                    for n in next..next + count {
                        prop_assert_eq!(bench.pass(now, Port::WIRED, data(n)), Disposition::Forwarded);
                    }
                    next += count;
                }
                Step::Again(back) => {
                    let n = next.saturating_sub(back);
                    prop_assert_eq!(bench.pass(now, Port::WIRED, data(n)), Disposition::Forwarded);
                }
                Step::Ack(by, window) => {
                    let n = highest.saturating_add_signed(by).min(next);
                    highest = highest.max(n);
                    bench.run(now);
                    let before = bench.left.len();
                    let disposition = bench.pass(now, Port::WIRELESS, ack(n, window));
                    let given = bench.left[before..].iter().filter(|(.., why)| *why == Why::Given).count();
                    prop_assert_eq!(given, usize::from(disposition == Disposition::Forwarded));
                }
                Step::Sack => {
                    let mut sack = ack(highest, 500);
                    if let Body::Tcp(segment) = &mut sack.body {
                        segment.options.sack.push(SackBlock { left: seq(next + 1), right: seq(next + 2) });
                    }
                    prop_assert_eq!(bench.pass(now, Port::WIRELESS, sack), Disposition::Forwarded);
                    // No acknowledgment stays behind it.
                    prop_assert_eq!(bench.left.iter().map(|(_, n, _)| *n).max(), Some(highest));
                }
                Step::Open => {
                    let open = packet(Side::Initiator, 0, Segment { flags: Flags::SYN, ..Segment::default() });
                    bench.run(now);
                    bench.node.handle_packet(ms(now), Port::WIRED, open);
                    bench.drain(now);
                    prop_assert_eq!((bench.node.connections(), bench.node.poll_deadline()), (0, None));
                    opened.push(bench.left.len());
                    next += 1;
                    bench.pass(now, Port::WIRED, data(next - 1));
                }
            }
            prop_assert!(bench.left.iter().all(|(_, n, _)| *n <= highest));
            prop_assert!(bench.node.agenda.len() <= 1 && bench.node.connections() <= 1);
        }
        bench.run(now + 501);
        prop_assert_eq!(bench.node.poll_deadline(), None);
        prop_assert_eq!(bench.left.iter().map(|(_, n, _)| *n).max().unwrap_or(0), highest);
        // Recreated acknowledgments repeat nothing and advance.
        let mut passed = None;
        for (at, (_, n, why)) in bench.left.iter().enumerate() {
            if opened.contains(&at) {
                passed = None;
            }
            if *why == Why::LocalAck {
                prop_assert!(passed.is_some_and(|passed| *n > passed));
            }
            passed = passed.max(Some(*n));
        }
    }
}
