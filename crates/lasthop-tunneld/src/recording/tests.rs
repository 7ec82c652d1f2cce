//! Recordings of two ends in virtual time, replayed by the simulator's node.

use std::io::Cursor;

use lasthop_daemon::recording::RecordTo;
use lasthop_daemon::recording::reader::ReadError;
use lasthop_proto::link::hybrid::{
    Bundle, Feedback, Item, Multipath, Outgoing, PacketNumber, PathId, Symbol, Terms, Tier,
};
use lasthop_proto::packet::{Flags, Options, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::Instant;
use proptest::prelude::*;

use super::hop::{RecordedHop, Tape};
use super::reader::{Entry, Recording};
use super::replay::{Comparison, replay};
use super::*;
use crate::frames::Near;

const LIMIT: u64 = 1 << 30;

fn config(repair: Repair) -> HopConfig {
    HopConfig {
        rate: RateRule::Fixed(10_000_000),
        repair,
        medium: Medium::Own,
        header: 58,
        queue: Some(100),
        memory: 64 << 20,
        target: Duration::from_millis(40),
        interval: Duration::from_millis(100),
    }
}

/// Returns an IPv4 UDP datagram of `len` bytes with this type-of-service field.
fn packet(number: u64, len: usize, tos: u8) -> Vec<u8> {
    let mut bytes = vec![0x45, tos, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.extend((0..len.max(28) - 20).map(|at| (number as usize * 31 + at) as u8));
    let len = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// Two links, the first of which is recorded, and a hop between them.
struct World {
    folder: tempfile::TempDir,
    now: Instant,
    ends: Vec<RecordedHop>,
    /// Frames in flight, with arrival time, destination and path.
    way: Vec<(Instant, usize, PathId, PacketNumber, Vec<u8>)>,
    random: u64,
    /// Loss probability, in 10⁻³.
    loss: u64,
    /// Packets that each end passed on.
    taken: [Vec<Packet>; 2],
}

impl World {
    fn new(repair: Repair, loss: u64, limit: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let to = RecordTo { path: folder.path().join("r"), limit, who: "the tunnel" };
        to.create().unwrap();
        let routed = crate::plan::Routed {
            listen: "0.0.0.0:1".parse().unwrap(),
            mtu: 1442,
            address: Vec::new(),
            routes: Vec::new(),
        };
        let recorder = start(to.open().unwrap(), &Way::Routed(routed)).unwrap();
        let recorder = std::rc::Rc::new(std::cell::RefCell::new(recorder));
        let now = Instant::from_nanos(5_000_000_000);
        let lag = Duration::from_millis(3);
        let tapes = [Some(Tape { recorder, peer: 0 }), None];
        let ends = tapes.into_iter().map(|tape| RecordedHop::new(now, config(repair), lag, "other", tape)).collect();
        Self { folder, now, ends, way: Vec::new(), random: 88_172_645_463_325_252, loss, taken: [vec![], vec![]] }
    }

    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Advances the time by 1 ms and performs due work.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let (here, rest) = std::mem::take(&mut self.way).into_iter().partition(|(at, ..)| *at <= self.now);
        self.way = rest;
        for (_, end, path, number, bytes) in here {
            let hop = &self.ends[end];
            let near = Near { symbol: hop.near(path).1, own_symbol: hop.near_own(path).1 };
            let own = |path| Some(frames::Own { next: hop.near_own(path).0, offset: 0 });
            let frame = frames::read(&bytes, near, own).unwrap();
            self.ends[end].handle_frame(self.now, path, number, bytes.len() as u32, frame);
            self.take(end);
        }
        for end in 0..2 {
            if self.ends[end].poll_deadline().is_some_and(|due| due <= self.now) {
                self.ends[end].handle_timeout(self.now);
                self.take(end);
            }
            while let Some(Outgoing { path, packet, frame, .. }) = self.ends[end].poll_frame(self.now) {
                if self.draw() % 1000 >= self.loss {
                    let mut bytes = Vec::new();
                    frames::write(&frame, &mut bytes);
                    // Each path after the first is slower.
                    let delay = Duration::from_millis(5 + 7 * u64::from(path.0));
                    self.way.push((self.now + delay, 1 - end, path, packet, bytes));
                }
            }
            for path in self.ends[end].path_ids() {
                while self.ends[end].poll_fate(path).is_some() {}
            }
        }
    }

    fn take(&mut self, end: usize) {
        while let Some(item) = self.ends[end].poll_item(self.now) {
            self.taken[end].push(item);
        }
    }

    fn offer(&mut self, end: usize, number: u64, flow: u32, traffic: Traffic) {
        let len = 28 + (self.draw() % 1400) as usize;
        let tos = (self.draw() % 4) as u8;
        let packet = Packet::arrived(&packet(number, len, tos)).unwrap().told(flow, traffic);
        self.ends[end].handle_item(self.now, packet);
    }

    /// Ends the recording and returns its bytes.
    fn bytes(mut self) -> Vec<u8> {
        self.ends.clear();
        std::fs::read(self.folder.path().join("r")).unwrap()
    }
}

fn replayed(bytes: &[u8]) -> Result<Comparison, ReadError> {
    replay(Recording::new("r", Cursor::new(bytes))?)
}

/// Exercises all inputs of an end: packets of all classes in both directions over a lossy hop, overload, a new path, a
/// restarted end, and a silent end. After the restart there are `more` further paths.
fn eventful(repair: Repair, more: usize) -> Vec<u8> {
    let mut world = World::new(repair, 80, LIMIT);
    let multipath = if more == 2 { Multipath::Redundant } else { Multipath::Bond };
    let bundle = Bundle { multipath, more: vec![(RateRule::Fixed(8_000_000), 60); more], terms: Vec::new() };
    for number in 0..3000_u64 {
        for end in 0..2 {
            let flow = (world.draw() % 7) as u32 * 0x1fff_ffff;
            let traffic = KINDS[(world.draw() % 5) as usize].1;
            if !world.draw().is_multiple_of(3) || (1000..1200).contains(&number) {
                world.offer(end, number, flow, traffic);
            }
        }
        let now = world.now;
        match number {
            700 => world.ends[0].on_new_path(now, PathId::FIRST, 78),
            // Both ends restart.
            1500 => {
                world.way.clear();
                for end in &mut world.ends {
                    end.begin_anew(now, HopConfig { rate: RateRule::Auto, ..config(repair) }, &bundle);
                }
            }
            1900 if more > 0 => world.ends[0].set_terms(now, PathId(more as u8), Terms::of(Tier::Secondary)),
            2100 if more > 0 => world.ends[0].on_new_path(now, PathId(more as u8), 78),
            2500 => {
                world.ends[0].give_back(now);
                while world.ends[0].poll_item(now).is_some() {}
            }
            _ => {}
        }
        world.step();
    }
    world.bytes()
}

#[test]
fn the_simulators_node_decides_alike() {
    for (repair, more) in [(Repair::Adaptive, 0), (Repair::Repeat, 0), (Repair::Adaptive, 1), (Repair::Adaptive, 2)] {
        let bytes = eventful(repair, more);
        let comparison = replayed(&bytes).unwrap();
        assert_eq!(comparison.differences.first, None, "{repair:?}, {more}: {comparison:?}");
        assert_eq!((comparison.workers, comparison.links), (1, 1));
        let Comparison { packets, frames, sent, handed_on, timeouts, .. } = comparison;
        assert!(packets > 1500 && frames > 1000 && sent > 1000 && handed_on > 800 && timeouts > 100, "{comparison:?}");
    }
}

/// Runs a TCP transfer whose sender, behind the recorded end, respects its window and is not ECN-capable. Returns the
/// recording, and the number of packets with a clamped receive window.
fn transfer() -> (Vec<u8>, u64) {
    let ends: [std::net::SocketAddr; 2] = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:5000".parse().unwrap()];
    let build = |from: usize, segment: &Segment, len: usize| {
        let route = lasthop_wire::Route { source: ends[from], destination: ends[1 - from] };
        let bytes = lasthop_wire::build(route, segment, &vec![5; len]).unwrap();
        let (flow, traffic) = (from as u32, if len > 0 { Traffic::Stream } else { Traffic::Acknowledgment });
        Packet::arrived(&bytes).unwrap().told(flow, traffic)
    };
    let segment = |seq: u32, ack: u32, window: u16, flags: Flags, stamps: [u32; 2]| {
        let [val, ecr] = stamps;
        let scale = flags.has(Flags::SYN).then_some(7);
        let options = Options { window_scale: scale, timestamps: Some(Timestamps { val, ecr }), ..Options::default() };
        Segment { seq: Seq(seq), ack: Seq(ack), window, flags, options }
    };
    let mut world = World::new(Repair::Adaptive, 20, LIMIT);
    let first = u32::MAX - 5_000;
    // A window of at most 80 segments, fewer bytes than offered.
    let (mut next, mut acked, mut edge, mut expected) = (0_u32, 0_u32, 0_u32, 0_u32);
    let now = world.now;
    world.ends[0].handle_item(now, build(0, &segment(first.wrapping_sub(1), 0, 64_000, Flags::SYN, [1, 0]), 0));
    for n in 0..4_000_u32 {
        world.step();
        let now = world.now;
        for packet in std::mem::take(&mut world.taken[1]) {
            let sight = packet.tcp().unwrap();
            let came = sight.segment.seq.0.wrapping_sub(first);
            let flags = Flags::SYN.with(Flags::ACK);
            let answer = if sight.segment.flags.has(Flags::SYN) {
                segment(4999, first, 64_000, flags, [n + 2, 1])
            } else {
                if came == expected {
                    expected += sight.len;
                }
                segment(5000, first.wrapping_add(expected), 1200, Flags::ACK, [n + 2, 1])
            };
            world.ends[1].handle_item(now, build(1, &answer, 0));
        }
        let mut echoed = 0;
        for packet in std::mem::take(&mut world.taken[0]) {
            let heard = packet.tcp().unwrap().segment;
            let ack = heard.ack.0.wrapping_sub(first);
            let shift = if heard.flags.has(Flags::SYN) { 0 } else { 7 };
            echoed = heard.options.timestamps.unwrap().val;
            (acked, edge) = (acked.max(ack), edge.max(ack + (u32::from(heard.window) << shift)));
        }
        while echoed > 0 && next + 1300 <= edge && next + 1300 - acked <= 80 * 1300 {
            let data = segment(first.wrapping_add(next), 5000, 500, Flags::ACK, [n + 2, echoed]);
            world.ends[0].handle_item(now, build(0, &data, 1300));
            next += 1300;
        }
    }
    let cuts = world.ends[0].counters().windows_cut;
    (world.bytes(), cuts)
}

#[test]
fn windows_are_cut_alike() {
    let (bytes, cuts) = transfer();
    assert!(cuts > 0);
    let comparison = replayed(&bytes).unwrap();
    assert_eq!(comparison.differences.first, None, "{comparison:?}");
    assert!(comparison.handed_on > 500, "{comparison:?}");
}

/// A state machine with other settings decides differently: the comparison can fail.
#[test]
fn another_node_decides_otherwise() {
    let bytes = eventful(Repair::Adaptive, 0);
    // A rate of equal length.
    let (from, to) = (b"rate=10000000", b"rate=00900000");
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    let mut changed = bytes.clone();
    changed[at..at + to.len()].copy_from_slice(to);
    let comparison = replayed(&changed).unwrap();
    let first = comparison.differences.first.unwrap();
    assert!(comparison.differences.count > 100 && first.to_string().contains("s: recorded: "), "{first}");

    // Change one byte of a packet that was passed on: the identification in its IP header.
    let mut recording = Recording::new("r", Cursor::new(&bytes)).unwrap();
    let head = loop {
        match recording.next_entry().unwrap().unwrap() {
            Entry::Step(step) if !step.decision.items.is_empty() => break step.decision.items[0].bytes.clone(),
            _ => {}
        }
    };
    // It occurs in the frame that carried it, and after that where it was passed on.
    let places: Vec<_> = bytes.windows(head.len()).enumerate().filter(|(_, window)| *window == head).collect();
    let (at, _) = *places.last().unwrap();
    let mut changed = bytes.clone();
    changed[at + 5] ^= 1;
    assert_eq!(replayed(&changed).unwrap().differences.count, 1);
}

#[test]
fn feedback_is_recorded_whole() {
    let feedback =
        Feedback { largest: PacketNumber(7), received: 5, beyond: 6, floor: Symbol(3), ..Feedback::default() };
    let head = Head::of_frame(&Frame::Feedback(feedback));
    assert_eq!(head.bytes.len(), head.len);
}

#[test]
fn a_recording_ends_at_its_limit_with_a_whole_step() {
    let mut world = World::new(Repair::Adaptive, 50, 60_000);
    for number in 0..2000 {
        world.offer(0, number, 1, Traffic::Stream);
        world.step();
    }
    let bytes = world.bytes();
    assert!((50_000..=60_000).contains(&bytes.len()), "{}", bytes.len());
    let comparison = replayed(&bytes).unwrap();
    assert!(comparison.differences.count == 0 && comparison.packets > 50, "{comparison:?}");
}

#[test]
fn what_is_no_recording_is_said() {
    let error = |bytes: &[u8]| replayed(bytes).unwrap_err().to_string();
    assert_eq!(error(b"something else"), "r: not a pcapng file");
    let bytes = World::new(Repair::Repeat, 0, LIMIT).bytes();
    let other = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let mut changed = bytes.clone();
        changed[at..at + to.len()].copy_from_slice(to);
        error(&changed)
    };
    let no_recording = "r: not a recording of `lasthop tunnel run --record`";
    assert_eq!(other(b"tunnel recording 2", b"tunnel recording 1"), no_recording);
    assert_eq!(other(b"peer 0", b"peer x"), "r: frame 1: expected `peer NUMBER` as the first comment");
    assert_eq!(
        other(b"begin ", b"began "),
        "r: frame 1: expected begin, anew, path, timeout, pause or back, with its arguments"
    );
    assert!(error(&bytes[..bytes.len() - 3]).starts_with("r: truncated in a block"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any damaged file is replayed, or fails with a one-line error.
    #[test]
    fn damage_is_no_panic(places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut world = World::new(Repair::Adaptive, 50, LIMIT);
        for number in 0..60 {
            world.offer(0, number, 1, Traffic::Stream);
            world.step();
        }
        let mut bytes = world.bytes();
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        match replayed(&bytes) {
            Ok(comparison) => prop_assert_eq!(comparison.differences.count == 0, comparison.differences.first.is_none()),
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
