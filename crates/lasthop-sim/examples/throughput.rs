//! What a simulated frame costs, and an idle connection: `cargo run --release -p lasthop-sim --example throughput`.
//!
//! Two hosts, a router and a lossy last hop carry 64 MiB in all, or 64 KiB a flow if that is more, over 1, 100 and 10,000
//! concurrent flows. A frame counts once per link that it crosses; making the network is not counted. Times are those of
//! the fastest of five runs on an otherwise idle machine. Memory is the growth of the resident set per connection, both
//! ends together, over 100,000 idle connections (Linux only).

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it times the simulator")]

use std::sync::Arc;
use std::time;

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec, QueueLimit,
    Rate,
};
use lasthop_sim::{Recording, Simulation};

const BYTES: u64 = 64 << 20;

fn main() {
    for flows in [1, 100, 10_000] {
        let bytes = (BYTES / flows).max(64 << 10);
        let network = network(flows, App::Transfer { bytes, close: Switch::On });
        let nanos_per_frame = |seed| {
            let mut simulation = Simulation::new(&network, seed, Recording::Off);
            let start = time::Instant::now();
            while simulation.advance(u32::MAX) {}
            let took = start.elapsed().as_nanos() as f64;
            took / simulation.finish(&network).report.frames as f64
        };
        let best = (0..5).map(nanos_per_frame).fold(f64::INFINITY, f64::min);
        println!("{flows:>6} flows: {best:.1} ns per frame");
    }
    let flows = 100_000;
    let network = network(flows, App::Idle);
    let before = resident();
    let mut simulation = Simulation::new(&network, 0, Recording::Off);
    while simulation.advance(u32::MAX) {}
    if let (Some(before), Some(after)) = (before, resident()) {
        println!("{:.0} bytes per idle connection", after.saturating_sub(before) as f64 / flows as f64);
    }
}

/// The preset of today's RFCs, sockets of 32 KiB, and links with 1.5 Mbps and room in the queue for every flow, so that a
/// flow does the same however many there are.
fn network(flows: u64, app: App) -> Network {
    let tcp = TcpConfig { send_buffer: 32 << 10, receive_buffer: 32 << 10, ..TcpConfig::preset(Preset::Rfc) };
    let tcp = Arc::new(tcp);
    let node = |name: &str, kind| NodeSpec { name: name.to_owned(), kind };
    let direction = |rate, errors| DirectionSpec {
        rate: Rate(rate),
        queue: QueueLimit::Packets(100 + 64 * flows as u32).into(),
        errors,
        damaged: DamagedFrames::Drop,
    };
    let link = |name: &str, ends, delay, rate, errors| LinkSpec {
        name: name.to_owned(),
        ends,
        medium: Medium::Duplex,
        delay,
        directions: [direction(rate, errors), direction(rate, ErrorSpec::None)],
    };
    let lossy = ErrorSpec::Uniform { frame_loss: 0.01, frames: Frames::Data };
    let flow = |index: u64| FlowSpec {
        name: format!("flow-{index}"),
        from: NodeId(0),
        to: NodeId(2),
        start: Instant::ZERO,
        app,
        tcp: [tcp.clone(), tcp.clone()],
        iss: [0, 0],
    };
    Network {
        nodes: vec![node("source", NodeKind::Host), node("base", NodeKind::Router), node("mobile", NodeKind::Host)],
        links: vec![
            link("wired", [NodeId(0), NodeId(1)], Duration::from_micros(200), 10_000_000 * flows, ErrorSpec::None),
            link("wireless", [NodeId(1), NodeId(2)], Duration::from_millis(1), 1_500_000 * flows, lossy),
        ],
        elements: Vec::new(),
        flows: (0..flows).map(flow).collect(),
        sessions: Vec::new(),
        limit: Instant::ZERO + Duration::from_secs(1000),
    }
}

/// Bytes of this process in memory.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}
