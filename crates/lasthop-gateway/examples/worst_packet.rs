//! Maximum time of the gateway's engine for one packet: `cargo run --release -p lasthop-gateway --example worst_packet
//! [RUNS [CASE]]`, where CASE is a part of the cases' names.
//!
//! Each case brings the engine into the state in which its packets are most expensive, then passes them and times each
//! call in CPU time of the thread. A case runs several times with the same packets; the minimum time of each packet
//! counts, which excludes disturbances by the machine. Times include the two readings of the clock, whose duration is
//! printed first.

use std::num::NonZeroU16;

use lasthop_gateway::engine::rules::{EngineConfig, Mode, Rule};
use lasthop_gateway::engine::{Engine, Injection, Offloaded};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Route, build};
use rustix::time::{ClockId, clock_gettime};

/// First sequence number of the data.
const BASE: u32 = 1000;
/// Number of cached pieces of a connection, close to the maximum.
const PIECES: u32 = 8000;
/// Number of packets that are timed.
const PACKETS: u32 = 2000;
/// Window scale with which a 16-bit window exceeds the data that a case sends ahead.
const SCALE: u8 = 10;

/// An engine with the measured times.
struct Bench {
    engine: Engine,
    now: Instant,
    random: Stream,
    taken: Vec<Taken>,
    /// Packets injected by the last call. As in a driver, the buffer is reused.
    out: Vec<Injection>,
}

/// Cost of a call.
#[derive(Clone, Copy)]
struct Taken {
    nanos: u64,
    /// Number of wire packets in the call.
    packets: u64,
}

/// Packet of the connection.
#[derive(Default)]
struct Given<'b> {
    seq: u32,
    ack: u32,
    payload: &'b [u8],
    blocks: Vec<(u32, u32)>,
    flags: Flags,
    size: Option<NonZeroU16>,
    /// Number of the client; 0 for the connection under test.
    client: u16,
}

impl Bench {
    fn new(is_flow_controlled: bool) -> Self {
        let mut rule = Rule::all("all", Mode::Snoop);
        if !is_flow_controlled {
            rule.snoop.hop = None;
        }
        let engine = Engine::new(EngineConfig::new(vec![rule]), 1);
        let mut bench =
            Self { engine, now: Instant::ZERO, random: Root(1).stream("worst"), taken: Vec::new(), out: Vec::new() };
        bench.open(0);
        bench
    }

    fn packet(&self, port: Port, given: &Given<'_>) -> Vec<u8> {
        let [high, low] = given.client.to_be_bytes();
        let client = ([10, 1, high, low], 4000).into();
        let down = Route { source: ([10, 0, 0, 1], 80).into(), destination: client };
        let mut sack = SackBlocks::default();
        for (left, right) in &given.blocks {
            sack.push(SackBlock { left: Seq(*left), right: Seq(*right) });
        }
        let mut options = Options { sack, ..Options::default() };
        if given.flags.has(Flags::SYN) {
            options =
                Options { mss: Some(1460), window_scale: Some(SCALE), sack_permitted: true, ..Options::default() };
        }
        if given.blocks.len() < 4 {
            options.timestamps = Some(Timestamps { val: 1, ecr: 1 });
        }
        let flags = if given.flags == Flags::default() { Flags::ACK } else { given.flags };
        let segment = Segment { seq: Seq(given.seq), ack: Seq(given.ack), window: 65_535, flags, options };
        let route = if port == Port::WIRED { down } else { down.reversed() };
        build(route, &segment, given.payload).expect("a packet")
    }

    /// Passes a packet to the engine; its time counts if `is_timed`.
    fn give(&mut self, is_timed: bool, port: Port, given: Given<'_>) {
        let packet = self.packet(port, &given);
        self.out.clear();
        self.now += Duration::from_micros(10);
        let start = cpu();
        let offloaded = Offloaded { size: given.size, ..Offloaded::NOTHING };
        let _ = self.engine.handle_packet(self.now, port, &packet, offloaded, &mut self.out);
        let spent = cpu() - start;
        if is_timed {
            let size = given.size.map_or(given.payload.len(), |size| size.get().into());
            self.taken.push(Taken { nanos: spent, packets: given.payload.len().div_ceil(size.max(1)).max(1) as u64 });
        }
        // As a driver does when a deadline has passed.
        if self.engine.poll_deadline().is_some_and(|due| due <= self.now) {
            self.timeout(false);
        }
    }

    fn timeout(&mut self, is_timed: bool) {
        self.out.clear();
        let start = cpu();
        self.engine.handle_timeout(self.now, &mut self.out);
        let spent = cpu() - start;
        if is_timed {
            self.taken.push(Taken { nanos: spent, packets: 1 });
        }
    }

    fn open(&mut self, client: u16) {
        let both = Flags(Flags::SYN.0 | Flags::ACK.0);
        self.give(false, Port::WIRELESS, Given { seq: 99, flags: Flags::SYN, client, ..Given::default() });
        self.give(false, Port::WIRED, Given { seq: BASE - 1, ack: 100, flags: both, client, ..Given::default() });
        self.give(false, Port::WIRELESS, Given { seq: 100, ack: BASE, client, ..Given::default() });
    }

    fn data(&mut self, is_timed: bool, seq: u32, payload: &[u8], size: Option<NonZeroU16>) {
        self.give(is_timed, Port::WIRED, Given { seq, ack: 100, payload, size, ..Given::default() });
    }

    fn acknowledge(&mut self, is_timed: bool, ack: u32, blocks: Vec<(u32, u32)>) {
        self.give(is_timed, Port::WIRELESS, Given { seq: 100, ack, blocks, ..Given::default() });
    }

    /// Sends pieces of one byte each.
    fn fill(&mut self, from: u32) {
        for index in 0..PIECES {
            self.data(false, from + index, b"x", None);
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound.into()) as u32
    }
}

/// Returns the CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

type Case = (&'static str, fn(&mut Bench));

const CASES: &[Case] = &[
    ("acknowledgments with 4 wide SACK blocks, other left edges each time", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            let blocks = (0..4).map(|_| (BASE + 1 + bench.below(PIECES / 4), BASE + PIECES)).collect();
            bench.acknowledge(true, BASE, blocks);
        }
    }),
    ("acknowledgments with 4 SACK blocks of a byte", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            let starts: Vec<_> = (0..4).map(|_| BASE + 1 + bench.below(PIECES - 2)).collect();
            bench.acknowledge(true, BASE, starts.into_iter().map(|start| (start, start + 1)).collect());
        }
    }),
    ("SACK block behind thousands of holes of a byte", |bench| {
        bench.fill(BASE);
        for round in 0..PACKETS {
            bench.acknowledge(true, BASE, vec![(BASE + PIECES - 1 - round % 100, BASE + PIECES)]);
        }
    }),
    ("SACK block of 16 more bytes each time behind thousands of holes", |bench| {
        bench.fill(BASE);
        for round in 0..PIECES / 32 {
            let left = BASE + PIECES / 2;
            bench.acknowledge(true, BASE, vec![(left, left + 16 * (round + 1))]);
        }
    }),
    ("duplicate acknowledgments without blocks", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            bench.acknowledge(true, BASE, vec![]);
        }
    }),
    ("acknowledgment of a full cache at once", |bench| {
        for round in 0..20 {
            let base = BASE + round * PIECES;
            bench.fill(base);
            bench.acknowledge(true, base + PIECES, vec![]);
        }
    }),
    ("acknowledgments of a piece each, from a full cache", |bench| {
        bench.fill(BASE);
        for index in 0..PACKETS {
            bench.acknowledge(true, BASE + index + 1, vec![]);
        }
    }),
    ("segments of a byte, in order", |bench| {
        for index in 0..4 * PIECES {
            bench.data(true, BASE + index, b"x", None);
        }
    }),
    ("segments of a byte, last first", |bench| {
        for index in (0..PIECES).rev() {
            bench.data(true, BASE + index, b"x", None);
        }
    }),
    ("segments of a byte, every second, then those between", |bench| {
        for index in (0..PIECES).step_by(2).chain((1..PIECES).step_by(2)) {
            bench.data(true, BASE + index, b"x", None);
        }
    }),
    ("segments of a byte again, anywhere in a full cache", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            let seq = BASE + bench.below(PIECES);
            bench.data(true, seq, b"x", None);
        }
    }),
    ("segments of a byte with another byte, anywhere in a full cache", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            let seq = BASE + bench.below(PIECES);
            bench.data(true, seq, b"y", None);
        }
    }),
    ("full segments over small pieces, same bytes", |bench| {
        bench.fill(BASE);
        for _ in 0..PACKETS {
            let seq = BASE + bench.below(PIECES - 1448);
            bench.data(true, seq, &[b'x'; 1448], None);
        }
    }),
    ("full segments over small pieces, other bytes", |bench| {
        for round in 0..20 {
            let base = BASE + round * 4 * PIECES;
            bench.fill(base);
            bench.data(true, base + 1000, &[b'y'; 1448], None);
            bench.acknowledge(false, base + 4 * PIECES, vec![]);
        }
    }),
    ("super-segments of 64,000 bytes over small pieces", |bench| {
        for round in 0..20 {
            let base = BASE + round * 80_000;
            bench.fill(base);
            bench.data(true, base, &[b'x'; 64_000], NonZeroU16::new(1448));
            bench.data(true, base, &[b'x'; 64_000], NonZeroU16::new(256));
            bench.acknowledge(false, base + 80_000, vec![]);
        }
    }),
    ("super-segments of 64,000 bytes, in order, in segments of 256", |bench| {
        for round in 0..60 {
            bench.data(true, BASE + round * 64_000, &[b'x'; 64_000], NonZeroU16::new(256));
            bench.acknowledge(false, BASE + round * 64_000, vec![]);
        }
    }),
    ("super-segments of 64,000 bytes, in order", |bench| {
        for round in 0..200 {
            bench.data(true, BASE + round * 64_000, &[b'x'; 64_000], NonZeroU16::new(1448));
            bench.acknowledge(true, BASE + round * 64_000, vec![]);
        }
    }),
    ("reset of a connection with a full cache", |bench| {
        for round in 0..20 {
            let base = BASE + round * PIECES;
            bench.fill(base);
            bench.give(true, Port::WIRED, Given { seq: base + PIECES, flags: Flags::RST, ..Given::default() });
            bench.open(0);
            bench.acknowledge(false, base + PIECES, vec![]);
        }
    }),
    ("openings of connections that nobody answers", |bench| {
        for client in 0..u16::MAX {
            bench.give(true, Port::WIRELESS, Given { seq: 7, flags: Flags::SYN, client, ..Given::default() });
        }
    }),
    ("connections that open, and send once", |bench| {
        for client in 1..20_000 {
            bench.open(client);
            bench.give(true, Port::WIRED, Given { seq: BASE, ack: 100, payload: b"x", client, ..Given::default() });
        }
    }),
    ("timers of 2,000 connections at once", |bench| {
        for client in 1..2000 {
            bench.open(client);
            bench.give(false, Port::WIRED, Given { seq: BASE, ack: 100, payload: b"x", client, ..Given::default() });
        }
        for _ in 0..10 {
            bench.now += Duration::from_millis(2000);
            bench.timeout(true);
        }
    }),
    ("timers of what a receiver has named and discards", |bench| {
        bench.fill(BASE);
        for _ in 0..PIECES.div_ceil(64) {
            bench.acknowledge(false, BASE, vec![(BASE + 1, BASE + PIECES)]);
        }
        bench.acknowledge(false, BASE + 1, Vec::new());
        for _ in 0..8 {
            bench.now += Duration::from_millis(2000);
            bench.timeout(true);
        }
    }),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let runs = args.next().and_then(|runs| runs.parse().ok()).unwrap_or(5).max(1);
    let wanted = args.next().unwrap_or_default();
    let readings = (0..1000).map(|_| cpu()).collect::<Vec<_>>();
    let clock = readings.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default();
    println!(
        "of {runs} runs the shortest time for each packet; the clock itself takes {:.2} us",
        clock as f64 / 1000.0
    );
    println!(
        "{:68}  {:>12}  {:>8}  {:>8}  {:>9}  {:>9}  {:>9}",
        "us for a packet", "flow control", "packets", "mean", "99.9 %", "longest", "of wire"
    );
    for (name, case) in CASES.iter().filter(|(name, _)| name.contains(&wanted)) {
        for is_flow_controlled in [true, false] {
            let mut best: Vec<Taken> = Vec::new();
            for _ in 0..runs {
                let mut bench = Bench::new(is_flow_controlled);
                case(&mut bench);
                if best.is_empty() {
                    best = bench.taken;
                } else {
                    let pairs = best.iter_mut().zip(bench.taken);
                    pairs.for_each(|(best, other)| best.nanos = best.nanos.min(other.nanos));
                }
            }
            best.sort_unstable_by_key(|taken| taken.nanos);
            let micros = |nanos: u64| nanos as f64 / 1000.0;
            let mean = micros(best.iter().map(|taken| taken.nanos).sum::<u64>()) / best.len().max(1) as f64;
            let nearly = best.get(best.len().saturating_sub(1) * 999 / 1000).map_or(0, |taken| taken.nanos);
            let longest = best.last().map_or(0, |taken| taken.nanos);
            let of_wire = best.iter().map(|taken| taken.nanos / taken.packets).max().unwrap_or_default();
            println!(
                "{name:68}  {:>12}  {:8}  {mean:8.2}  {:9.2}  {:9.2}  {:9.2}",
                if is_flow_controlled { "fast" } else { "none" },
                best.len(),
                micros(nearly),
                micros(longest),
                micros(of_wire)
            );
        }
    }
}
