//! Speed of the gateway's engine: `cargo run --release -p lasthop-gateway --example engine_rate`.
//!
//! Measures CPU time, which depends little on other load. Data passes and is acknowledged a window later; nothing is
//! lost. The packets are built in advance, and their sequence numbers are set before each call.

use lasthop_gateway::engine::rules::{EngineConfig, Mode, Rule};
use lasthop_gateway::engine::{Engine, Offloaded, Verdict};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Options, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Checksum, Route, amend, build, parse};
use rustix::time::{ClockId, clock_gettime};

/// Maximum number of bytes in flight to one client.
const WINDOW: u64 = 32 * 1448;

/// Size of the cache: more than all windows together.
const CACHE: u64 = 1 << 30;

/// Returns a packet that is reused many times.
fn packet(route: Route, payload: usize) -> Vec<u8> {
    let options = Options { timestamps: Some(Timestamps { val: 1, ecr: 1 }), ..Options::default() };
    let segment = Segment { window: 1000, flags: Flags::ACK, options, ..Segment::default() };
    build(route, &segment, &vec![0x55; payload]).expect("a packet")
}

/// Sets a number in the TCP header, and updates the checksum.
fn set(packet: &mut [u8], at: usize, value: Seq) {
    let view = parse(packet).expect("it was built");
    amend(packet, &view, |tcp| tcp[at..at + 4].copy_from_slice(&value.0.to_be_bytes()));
}

/// Returns the CPU time of this process, in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns packets per second: of all kinds, and of data.
fn rate(mode: Mode, flows: u64, payload: usize) -> (f64, f64) {
    let mut rule = Rule::all("all", mode);
    rule.snoop.cache_bytes = CACHE;
    let mut engine = Engine::new(EngineConfig::new(vec![rule]), 1);
    // Data packets in flight; each acknowledgment covers two.
    let window = (WINDOW / payload as u64).clamp(2, 32);
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..flows)
        .map(|n| {
            let client = ([10, 1, (n >> 8) as u8, n as u8], 4000).into();
            let route = Route { source: ([10, 0, 0, 1], 80).into(), destination: client };
            (packet(route, payload), packet(route.reversed(), 0))
        })
        .collect();
    // Receive offload verifies the packets that it merges.
    let checksum = if payload > 1448 { Checksum::Pending } else { Checksum::Complete };
    let merged = Offloaded { size: None, checksum };
    let mut out = Vec::new();
    let (mut now, mut packets, mut rounds) = (Instant::ZERO, 0_u64, 0_u64);
    let mut start = cpu();
    // The first rounds fill the window and the tables.
    while rounds < 2 * window || cpu() - start < 1.0 {
        if rounds == 2 * window {
            (start, packets) = (cpu(), 0);
        }
        for (data, ack) in &mut pairs {
            set(data, 4, Seq(rounds as u32 * payload as u32));
            now += Duration::from_nanos(500);
            assert_eq!(engine.handle_packet(now, Port::WIRED, data, merged, &mut out), Verdict::Accept);
            packets += 1;
            if rounds == 0 || (rounds > window && rounds % 2 == 0) {
                set(ack, 8, Seq(rounds.saturating_sub(window) as u32 * payload as u32));
                assert_eq!(
                    engine.handle_packet(now, Port::WIRELESS, ack, Offloaded::NOTHING, &mut out),
                    Verdict::Accept
                );
                packets += 1;
            }
        }
        engine.handle_timeout(now, &mut out);
        assert!(out.is_empty(), "nothing is lost");
        rounds += 1;
    }
    let seconds = cpu() - start;
    (packets as f64 / seconds, (rounds - 2 * window) as f64 * flows as f64 / seconds)
}

fn main() {
    println!("mode     flows  payload  million packets/s  Gbit/s of data");
    for mode in [Mode::Snoop, Mode::Observe, Mode::Bypass] {
        for (flows, payload) in [(1, 100), (1_000, 100), (1, 1448), (1_000, 1448), (1, 44 * 1448), (1_000, 44 * 1448)] {
            let (all, data) = rate(mode, flows, payload);
            let gigabits = data * payload as f64 * 8e-9;
            println!(
                "{:8} {flows:5}  {payload:7}  {:17.2}  {gigabits:14.1}",
                format!("{mode:?}").to_lowercase(),
                all / 1e6
            );
        }
    }
}
