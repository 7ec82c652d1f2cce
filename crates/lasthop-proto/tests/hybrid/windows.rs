//! Receive-window clamping signals congestion to sources that are not ECN-capable.

use std::collections::VecDeque;

use lasthop_proto::link::hybrid::{Counters, Repair};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Ecn, Flags, FlowId, Options, Packet, Segment, Side, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use super::link::*;

/// Bytes of a segment, which with all headers takes 1 ms.
const SEGMENT: u32 = 1390;

const FLOW: FlowId = FlowId(3);

fn tcp(from: Side, segment: Segment, len: u32) -> Packet {
    Packet { flow: FLOW, from, header_len: 52, len, body: Body::Tcp(segment), ..Packet::default() }
}

fn field(packet: &Packet) -> (Seq, u16) {
    let Body::Tcp(segment) = packet.body else { panic!("{packet:?}") };
    (segment.ack, segment.window)
}

/// Returns the first packet in flight, if it has arrived by now.
fn due(way: &mut VecDeque<(Instant, Packet)>, now: Instant) -> Option<(Instant, Packet)> {
    way.front().is_some_and(|(at, _)| *at <= now).then(|| way.pop_front())?
}

/// Reaction of a source to its offered window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heed {
    Windows,
    Nothing,
}

/// Treatment of dropped packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holes {
    Stay,
    /// Filled at once, by another path.
    AreFilled,
}

/// A connection over a hop: a source with a constant window, behind end 0, and a receiver behind end 1.
struct World<'a> {
    link: Link<'a>,
    /// Delay from the source to the hop, in one direction.
    wire: Duration,
    heed: Heed,
    holes: Holes,
    /// Maximum number of the source's bytes in flight.
    window: u32,
    /// Window that the receiver offers, in units of `1 << shift` bytes.
    offers: u16,
    shift: u8,
    stamped: bool,
    first: Seq,
    next: Seq,
    acked: Seq,
    /// The right edge as the source knows it, and the number of times that it moved left.
    edge: Seq,
    retracted: u32,
    expected: Seq,
    /// Next sequence number of the receiver's own data.
    said: Seq,
    unacked: u32,
    to_source: VecDeque<(Instant, Packet)>,
    to_hop: VecDeque<(Instant, Packet)>,
    seen: [usize; 2],
    /// Times at which the source received a window, in bytes.
    heard: Vec<(Instant, u32)>,
}

impl World<'_> {
    /// Returns a world with a hop of `way` ms in each direction.
    fn new(way: u64, wire: u64, segments: u32, offers: u16, shift: u8) -> Self {
        // Numbers wrap early.
        Self::beginning(Seq(u32::MAX - 100_000), way, wire, segments, offers, shift)
    }

    /// Returns the same with another first number.
    fn beginning(first: Seq, way: u64, wire: u64, segments: u32, offers: u16, shift: u8) -> Self {
        let link = Link::new(config(Repair::Repeat), move |_, _, _| vec![millis(way)]);
        Self {
            link,
            wire: millis(wire),
            heed: Heed::Windows,
            holes: Holes::Stay,
            window: segments * SEGMENT,
            offers,
            shift,
            stamped: true,
            first,
            next: first,
            acked: first,
            edge: first,
            retracted: 0,
            expected: Seq(7),
            said: Seq(2001),
            unacked: 0,
            to_source: VecDeque::new(),
            to_hop: VecDeque::new(),
            seen: [0; 2],
            heard: vec![],
        }
    }

    fn counters(&self) -> Counters {
        self.link.ends[0].hop().counters()
    }

    fn stamps(&self, ecr: u32) -> Option<Timestamps> {
        let val = (self.link.now.as_nanos() / 1_000_000) as u32 + 1;
        self.stamped.then_some(Timestamps { val, ecr })
    }

    fn on_source(&mut self, now: Instant, packet: &Packet) {
        let Body::Tcp(segment) = packet.body else { return };
        let syn = segment.flags.has(Flags::SYN);
        let bytes = u32::from(segment.window) << if syn { 0 } else { self.shift };
        let edge = segment.ack + bytes;
        self.retracted = self.retracted.max(self.edge.since(edge));
        (self.acked, self.edge) = (self.acked.max(segment.ack), edge);
        if !syn {
            self.heard.push((now, bytes));
        }
        let echoed = segment.options.timestamps.map_or(0, |stamps| stamps.val);
        if syn {
            self.send(now, echoed, self.next, 0);
        }
        self.go_on(now, echoed);
    }

    /// Sends the frames that its own window and the offered one allow.
    fn go_on(&mut self, now: Instant, echoed: u32) {
        while self.next.since(self.acked) + SEGMENT <= self.window
            && (self.heed == Heed::Nothing || (self.next + SEGMENT).le(self.edge))
        {
            self.send(now, echoed, self.next, SEGMENT);
            self.next += SEGMENT;
        }
    }

    fn send(&mut self, now: Instant, echoed: u32, seq: Seq, len: u32) {
        let options = Options { timestamps: self.stamps(echoed), ..Options::default() };
        let segment = Segment { seq, ack: Seq(2001), window: 500, flags: Flags::ACK, options };
        self.to_hop.push_back((now + self.wire, tcp(Side::Initiator, segment, len)));
    }

    fn on_receiver(&mut self, packet: &Packet) {
        let Body::Tcp(segment) = packet.body else { return };
        let echoed = segment.options.timestamps.map_or(0, |stamps| stamps.val);
        let mut options = Options { timestamps: self.stamps(echoed), ..Options::default() };
        if segment.flags.has(Flags::SYN) {
            self.expected = segment.seq + 1;
            (options.window_scale, options.mss) = (Some(self.shift), Some(1390));
            let flags = Flags::SYN.with(Flags::ACK);
            // Not scaled, and no more than later.
            let window = (u32::from(self.offers) << self.shift).min(65_000) as u16;
            let answer = Segment { seq: Seq(2000), ack: self.expected, window, flags, options };
            self.link.offer(1, tcp(Side::Acceptor, answer, 0));
            return;
        }
        if self.holes == Holes::AreFilled {
            self.expected = self.expected.max(segment.seq);
        }
        let is_next = segment.seq == self.expected;
        if is_next {
            self.expected += packet.len;
            self.unacked += packet.len;
        }
        if self.unacked >= 2 * SEGMENT || (packet.len > 0 && !is_next) {
            self.unacked = 0;
            let ack = Segment { seq: self.said, ack: self.expected, window: self.offers, flags: Flags::ACK, options };
            self.link.offer(1, tcp(Side::Acceptor, ack, 0));
        }
    }

    /// Advances the time millisecond by millisecond.
    fn run_until(&mut self, until: Instant) {
        if self.next == self.first {
            let options = Options { window_scale: Some(7), timestamps: self.stamps(0), ..Options::default() };
            let syn = Segment { seq: self.first, ack: Seq(0), window: 64_000, flags: Flags::SYN, options };
            self.next += 1;
            self.link.offer(0, tcp(Side::Initiator, syn, 0));
        }
        while self.link.now < until {
            self.link.run_until(self.link.now + millis(1));
            let now = self.link.now;
            let came: Vec<_> = self.link.taken[1][self.seen[1]..].iter().map(|(_, packet)| *packet).collect();
            self.seen[1] += came.len();
            came.iter().filter(|packet| packet.flow == FLOW).for_each(|packet| self.on_receiver(packet));
            let came: Vec<_> = self.link.taken[0][self.seen[0]..].iter().map(|(at, packet)| (*at, *packet)).collect();
            self.seen[0] += came.len();
            self.to_source.extend(came.iter().map(|(at, packet)| (*at + self.wire, *packet)));
            while let Some((_, packet)) = due(&mut self.to_source, now) {
                self.on_source(now, &packet);
            }
            while let Some((_, packet)) = due(&mut self.to_hop, now) {
                self.link.offer(0, packet);
            }
        }
    }

    /// Advances the time, while nineteen other flows fill the hop.
    fn run_beside_others(&mut self, until: u64) {
        while self.link.now < ms(until) {
            let now = self.link.now.as_nanos() as u32 / 1_000_000;
            self.link.offer(0, segment(10 + now % 19, now));
            self.run_until(self.link.now + millis(1));
        }
    }

    /// Returns the smallest window received since `from`.
    fn least(&self, from: Instant) -> u32 {
        self.heard.iter().filter(|(at, _)| *at >= from).map(|(_, bytes)| *bytes).min().unwrap()
    }
}

/// 230 segments over 100 ms: 130 ms of them are queued, where a round trip and 5 ms are accepted. The cut leaves 7/10
/// of them, 161, of which 61 are queued. The right edge stays until enough was acknowledged. Two round trips later the
/// cap grows along CUBIC's curve, which is back at 230 segments after ∛(0.3·230/0.4) = 5.6 s. The same holds if a part
/// of the path is in front of the hop, and if timestamps do not show it.
#[test]
fn a_source_is_told_by_its_window() {
    for (way, wire, stamped, until) in
        [(50, 0, true, 4_000), (50, 0, false, 4_000), (30, 30, true, 2_400), (30, 30, false, 2_400)]
    {
        // 400 kB, more than the source has in flight, and less than two of its windows.
        let mut world = World::new(way, wire, 230, 3125, 7);
        world.stamped = stamped;
        // Before the next cut.
        world.run_until(ms(until));
        let Counters { dropped, windows_cut, .. } = world.counters();
        assert_eq!((dropped, windows_cut, world.retracted), (0, 1, 0), "{way} {wire}");
        // A round trip of the hop, or of the whole path, and CoDel's interval, ten times the accepted delay, have to
        // pass first.
        let cut = world.heard.iter().find(|(_, bytes)| *bytes < 400_000).unwrap().0;
        let accepted = 5 + 2 * way;
        let earliest = 10 * accepted + 2 * way;
        assert!(cut >= ms(earliest) && cut <= ms(earliest + 1_000), "{way} {wire}: {cut}");
        // Windows count in 128 bytes.
        let low = f64::from(230 * SEGMENT) * 0.7;
        let least = f64::from(world.least(Instant::ZERO));
        assert!((low - 0.7 * f64::from(SEGMENT)..low + 128.0).contains(&least), "{way} {wire}: {least}, {low}");
        // The window already offered is used up first: 400 kB at 1390 bytes per millisecond.
        let there = world.heard.iter().find(|(_, bytes)| f64::from(*bytes) == least).unwrap().0;
        let expected = (400_000.0 - least) / 1390.0;
        let took = there.since(cut).as_nanos() as f64 / 1e6;
        assert!((took - expected).abs() <= 0.1 * expected, "{way} {wire}: {took} ms, {expected}");
        // RFC 9438: W(t) = 0.4·(t − K)³ + 230, starting two round trips after the cut, each of some 165 to 230 ms.
        let after = |seconds: f64| {
            let at = cut + Duration::from_nanos((seconds * 1e9) as u64);
            world.heard.iter().rev().find(|(time, _)| *time <= at).unwrap().1
        };
        let curve = |t: f64| (230.0 + 0.4 * (t - (0.3 * 230.0 / 0.4_f64).cbrt()).powi(3)) * f64::from(SEGMENT);
        for t in [1.0, 1.4] {
            let bytes = f64::from(after(t));
            assert!((curve(t - 0.8) * 0.98..curve(t - 0.3) * 1.02).contains(&bytes), "{way} {wire} {t}: {bytes}");
        }
    }
}

/// Retransmitted data may still carry a window (SEG.WL1 of RFC 9293 §3.10.7.4): it grants no more than was granted.
#[test]
fn data_that_comes_again_grants_no_more() {
    let mut world = World::new(50, 0, 230, 3125, 7);
    world.run_until(ms(3_000));
    assert_eq!((world.counters().windows_cut, world.retracted), (1, 0));
    let send = |world: &mut World<'_>| {
        let options = Options { timestamps: world.stamps(1), ..Options::default() };
        let (ack, window) = (world.expected, world.offers);
        let data = Segment { seq: Seq(2001), ack, window, flags: Flags::ACK, options };
        world.link.offer(1, tcp(Side::Acceptor, data, 50));
    };
    send(&mut world);
    world.said = Seq(2051);
    world.run_until(ms(3_200));
    let options = Options { timestamps: world.stamps(1), ..Options::default() };
    let heard = Segment { seq: world.next, ack: Seq(2051), window: 500, flags: Flags::ACK, options };
    world.link.offer(0, tcp(Side::Initiator, heard, 0));
    world.run_until(ms(3_201));
    assert_eq!(world.retracted, 0);
    send(&mut world);
    world.run_until(ms(3_500));
    assert_eq!(world.retracted, 0);
}

/// If the edge is too far ahead to be effective, a packet is dropped instead; the edge stays from then on.
#[test]
fn a_far_edge_comes_nearer_before_it_is_used() {
    let mut world = World::new(50, 0, 230, 31_250, 7);
    world.run_until(ms(8_000));
    let Counters { dropped, windows_cut, .. } = world.counters();
    assert!(dropped >= 1 && windows_cut == 0, "{dropped} {windows_cut}");
    assert_eq!(world.retracted, 0);
}

/// If the edge was far ahead while others shared the hop, it comes near long after they have left: no window is smaller
/// than a cut of the source's flight at that time. No queue is signalled below 105 ms, and the hop holds 100 ms: 205
/// segments, of which 7/10.
#[test]
fn a_far_edge_does_not_bring_an_old_cap_with_it() {
    let mut world = World::new(50, 0, 60, 31_250, 7);
    world.holes = Holes::AreFilled;
    world.run_beside_others(20_000);
    let Counters { dropped, windows_cut, .. } = world.counters();
    assert!(dropped >= 1 && windows_cut == 0, "{dropped} {windows_cut}");
    assert!(world.least(ms(19_000)) > 2_000_000);
    world.window = 230 * SEGMENT;
    // 4 MB take three seconds.
    world.run_until(ms(26_000));
    let least = world.least(ms(20_000));
    assert!((205 * SEGMENT * 7 / 10..400_000).contains(&least), "{least}");
    assert_eq!(world.retracted, 0);
}

/// A source that was limited to its share of a hop among twenty, and pauses, sends bursts afterwards: a whole window,
/// and nothing for the rest of the round trip. It reaches the whole hop's rate in a few round trips nevertheless: its
/// cap doubles in each.
#[test]
fn a_cap_grows_after_a_pause() {
    let mut world = World::new(100, 0, 150, 3125, 7);
    world.holes = Holes::AreFilled;
    world.run_beside_others(60_000);
    // A round trip of the hop and the accepted delay hold some 20 segments, one every 20 ms.
    let low = world.least(ms(50_000));
    assert!(low < 50 * SEGMENT, "{low}");
    world.window = 0;
    world.run_until(ms(64_000));
    world.window = 230 * SEGMENT;
    let stamp = world.stamps(0).unwrap().val;
    world.go_on(world.link.now, stamp);
    // Doubling every 200 ms, it exceeds 200 segments within five round trips.
    world.run_until(ms(66_000));
    let before = world.expected;
    world.run_until(ms(67_000));
    let got = world.expected.since(before);
    assert!(got >= 900 * SEGMENT, "{} segments, {}", got / SEGMENT, world.least(ms(66_000)) / SEGMENT);
    assert_eq!(world.retracted, 0);
}

/// A source that ignores windows is signalled by drops.
#[test]
fn a_source_that_heeds_no_window_loses_packets() {
    let mut world = World::new(50, 0, 230, 3125, 7);
    world.heed = Heed::Nothing;
    world.run_until(ms(8_000));
    assert!(world.counters().dropped >= 1, "{:?}", world.counters());
}

/// Both SYNs carry the window scale. If the opening of a connection was not seen, the scale is unknown, and no window
/// is changed.
#[test]
fn without_a_handshake_packets_are_dropped() {
    let mut world = World::new(50, 0, 230, 3125, 7);
    world.run_until(ms(150));
    // The end loses its state; the connection continues.
    let back = world.link.ends[0].hop_mut().give_back(ms(150));
    for packet in back {
        world.link.offer(0, packet);
    }
    world.run_until(ms(8_000));
    let Counters { dropped, windows_cut, .. } = world.counters();
    assert!(dropped >= 1 && windows_cut == 0, "{dropped} {windows_cut}");
    assert_eq!(world.least(ms(1_000)), 400_000);
}

/// If the source is ECN-capable, windows are not changed.
#[test]
fn marks_come_first() {
    let mut world = World::new(50, 0, 230, 3125, 7);
    world.run_until(ms(100));
    for n in 0..2_000 {
        let at = world.link.now + millis(1);
        world.link.run_until(at);
        if n % 2 == 0 {
            let segment = Segment { seq: Seq(n * SEGMENT), flags: Flags::ACK, ..Segment::default() };
            for _ in 0..3 {
                let packet = Packet { ecn: Ecn::Ect0, flow: FlowId(8), ..tcp(Side::Initiator, segment, SEGMENT) };
                world.link.offer(0, packet);
            }
        }
    }
    assert_eq!(world.counters().windows_cut, 0);
    assert!(world.link.taken[1].iter().any(|(_, packet)| packet.ecn == Ecn::Ce));
}

/// 10,000 connections, of which 4096 are tracked.
#[test]
fn memory_is_bounded() {
    let mut end = lasthop_proto::link::hybrid::node::TwoEnded::new(config(Repair::Repeat));
    for flow in 0..10_000 {
        for n in 0..10 {
            let segment = Segment { seq: Seq(n * 77), flags: Flags::SYN, ..Segment::default() };
            let packet = Packet { flow: FlowId(flow), ..tcp(Side::Initiator, segment, 0) };
            feed(&mut end, ms(u64::from(flow)), Port::WIRED, packet);
        }
        assert!(end.hop().sizes().connections <= 4096);
    }
    assert_eq!(end.hop().sizes().connections, 4096);
}

/// A packet of a receiver, or one spoofed in its name.
#[derive(Clone, Debug)]
struct Says {
    /// Acknowledged number relative to the end of the data sent, in bytes.
    ack: i32,
    window: u16,
    flags: Flags,
    stamp: u32,
}

fn says() -> impl Strategy<Value = Says> {
    let flags = prop_oneof![
        20 => Just(Flags::ACK),
        1 => Just(Flags::ACK.with(Flags::RST)),
        1 => Just(Flags::RST),
        1 => Just(Flags::SYN),
        1 => Just(Flags::SYN.with(Flags::ACK)),
        1 => Just(Flags::ACK.with(Flags::FIN)),
    ];
    let window = prop_oneof![5 => Just(3125_u16), 1 => Just(0), 1 => any::<u16>()];
    let ack = prop_oneof![20 => -300_000..0_i32, 1 => any::<i32>()];
    (ack, window, flags, 0..5_u32).prop_map(|(ack, window, flags, stamp)| Says { ack, window, flags, stamp })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// For any packets of a receiver, or spoofed in its name: they pass with no other change than a smaller window,
    /// which becomes 0 only if it was 0.
    #[test]
    fn a_packet_goes_on_with_a_smaller_window_at_most(
        script in prop::collection::vec(says(), 1..150), shift in 0..=14_u8, first in any::<u32>(), segments in 60..400_u32,
    ) {
        let mut world = World::beginning(Seq(first), 50, 0, segments, 3125, shift);
        world.run_until(ms(2_500));
        let mut offered = vec![];
        for (n, Says { ack, window, flags, stamp }) in script.into_iter().enumerate() {
            world.run_until(ms(2_500 + 3 * n as u64));
            let ack = Seq(world.next.0.wrapping_add_signed(ack));
            let timestamps = world.stamps(1).map(|stamps| Timestamps { val: stamps.val + stamp, ..stamps });
            let options = Options { timestamps, window_scale: Some(3), ..Options::default() };
            let segment = Segment { seq: Seq(2001), ack, window, flags, options };
            let packet = tcp(Side::Acceptor, segment, 0);
            world.link.offer(1, packet);
            offered.push(packet);
        }
        world.run_until(world.link.now + millis(500));
        prop_assert!(world.link.ends[0].hop().sizes().connections <= 1);
        let all: Vec<Packet> = world.link.taken[0].iter().map(|(_, packet)| *packet).collect();
        for packet in &offered {
            let (window, same) = (field(packet).1, |other: &&Packet| {
                let mut other = **other;
                let Body::Tcp(segment) = &mut other.body else { return false };
                segment.window = field(packet).1;
                (other.body, other.len, other.flow, other.from) == (packet.body, packet.len, packet.flow, packet.from)
            });
            let Some(found) = all.iter().find(same) else {
                return Err(TestCaseError::fail(format!("{packet:?} did not go on")));
            };
            prop_assert!(field(found).1 <= window && (field(found).1 > 0 || window == 0), "{:?}", found);
        }
    }

    /// A receiver whose window is the free part of its buffer: the right edge as the source knows it never moves left,
    /// for any scale, path and source window.
    #[test]
    fn edges_never_move_left(
        shift in 0..=10_u8, first in any::<u32>(), segments in 20..600_u32, way in 5..80_u64, wire in 0..60_u64, offers in 100..60_000_u16,
        stamped in any::<bool>(),
    ) {
        let mut world = World::beginning(Seq(first), way, wire, segments, offers, shift);
        world.stamped = stamped;
        world.run_until(ms(6_000));
        prop_assert_eq!(world.retracted, 0);
        let most = u32::from(offers) << shift;
        prop_assert!(world.heard.iter().all(|(_, bytes)| *bytes <= most && *bytes > 0));
    }
}
