//! Measures the cost of a simulated frame, an idle connection, and a large topology: `cargo run --release -p
//! lasthop-sim --example throughput`.
//!
//! Two hosts, a router and a lossy last hop carry 64 MiB in total, or 64 KiB per flow if that is more, over 1, 100 and
//! 10,000 concurrent flows, with the `rfc` and Linux presets. A frame counts once per link that it crosses; building
//! the network is not counted. Times are those of the fastest of five runs on an otherwise idle machine. Memory is the
//! growth of the resident set per connection, both ends together, over 100,000 idle connections (Linux only). Routes
//! are computed for 4,096 nodes, each of which is the end of a flow: a tree, and a chain, in which nearly every node
//! forwards.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it times the simulator")]

use std::process::Command;
use std::sync::Arc;
use std::time;

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, Impairments, LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec,
    QueueLimit, Rate,
};
use lasthop_sim::{Recording, Simulation};

const BYTES: u64 = 64 << 20;

const PRESETS: [(&str, Preset); 2] = [("rfc", Preset::Rfc), ("linux-6.18", Preset::Linux618)];

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, what, name] = &arguments[..]
        && what == "idle"
    {
        return measure_idle(name);
    }
    for (name, preset) in PRESETS {
        for flows in [1, 100, 10_000] {
            let bytes = (BYTES / flows).max(64 << 10);
            let network = network(preset, flows, App::Transfer { bytes, close: Switch::On });
            let nanos_per_frame = |seed| {
                let mut simulation = Simulation::new(&network, seed, Recording::Off);
                let start = time::Instant::now();
                while simulation.advance(u32::MAX) {}
                let took = start.elapsed().as_nanos() as f64;
                took / simulation.finish(&network).report.frames as f64
            };
            let best = (0..5).map(nanos_per_frame).fold(f64::INFINITY, f64::min);
            println!("{name:<11} {flows:>6} flows: {best:.1} ns per frame");
        }
        // In a process of its own: earlier runs would leave memory for it to reuse.
        let mut alone = Command::new(std::env::current_exe().expect("a program has a path"));
        let said = alone.args(["idle", name]).output().expect("this program starts");
        print!("{}", String::from_utf8_lossy(&said.stdout));
    }
    for (name, parent) in [("a tree of 64 a router", 64), ("a chain", 1)] {
        let network = tree(4096, parent);
        let start = time::Instant::now();
        let simulation = Simulation::new(&network, 0, Recording::Off);
        let took = start.elapsed();
        drop(simulation);
        println!("4096 nodes, {name}: {:.3} s to route", took.as_secs_f64());
    }
}

/// Prints the memory of an idle connection under the preset of that name: one that is open, and over which nothing was
/// sent.
fn measure_idle(name: &str) {
    let flows = 100_000;
    let Some((_, preset)) = PRESETS.into_iter().find(|(preset, _)| *preset == name) else { return };
    let mut network = network(preset, flows, App::Idle);
    // One after another: the packets of concurrent handshakes would count as idle memory.
    for (flow, millis) in network.flows.iter_mut().zip(0..) {
        flow.start = Instant::ZERO + Duration::from_millis(millis);
    }
    let before = resident();
    let mut simulation = Simulation::new(&network, 0, Recording::Off);
    while simulation.advance(u32::MAX) {}
    if let (Some(before), Some(after)) = (before, resident()) {
        println!("{name:<11} {:.0} bytes per idle connection", after.saturating_sub(before) as f64 / flows as f64);
    }
}

fn node(name: &str, kind: NodeKind) -> NodeSpec {
    NodeSpec { name: name.to_owned(), kind }
}

fn direction(rate: u64, packets: u32, errors: ErrorSpec) -> DirectionSpec {
    let queue = QueueLimit::Packets(packets).into();
    DirectionSpec {
        rate: Rate(rate),
        queue,
        errors,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    }
}

fn flow(index: u64, [from, to]: [usize; 2], app: App, tcp: &Arc<TcpConfig>) -> FlowSpec {
    FlowSpec {
        name: format!("flow-{index}"),
        from: NodeId(from),
        to: NodeId(to),
        start: Instant::ZERO,
        app,
        tcp: [tcp.clone(), tcp.clone()],
        iss: [0, 0],
        dscp: 0,
    }
}

/// Returns a network with sockets of 32 KiB, and links with 1.5 Mbps and queue capacity for every flow, so that a flow
/// behaves the same regardless of their number.
fn network(preset: Preset, flows: u64, app: App) -> Network {
    let tcp = TcpConfig::preset(preset).with(|c| {
        c.common.send_buffer = 32 << 10;
        c.receiver.receive_buffer = 32 << 10;
    });
    let tcp = Arc::new(tcp);
    let link = |name: &str, ends, delay, rate, errors| LinkSpec {
        name: name.to_owned(),
        ends,
        medium: Medium::Duplex,
        delay,
        directions: [errors, ErrorSpec::None].map(|errors| direction(rate, 100 + 64 * flows as u32, errors)),
    };
    let lossy = ErrorSpec::Uniform { frame_loss: 0.01, frames: Frames::Data };
    Network {
        nodes: vec![node("source", NodeKind::Host), node("base", NodeKind::Router), node("mobile", NodeKind::Host)],
        links: vec![
            link("wired", [NodeId(0), NodeId(1)], Duration::from_micros(200), 10_000_000 * flows, ErrorSpec::None),
            link("wireless", [NodeId(1), NodeId(2)], Duration::from_millis(1), 1_500_000 * flows, lossy),
        ],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: (0..flows).map(|index| flow(index, [0, 2], app, &tcp)).collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(1000),
    }
}

/// Returns a tree of `nodes` nodes; each has up to `children` children, and those with children are routers. There is a
/// flow between each node and the last one.
fn tree(nodes: usize, children: usize) -> Network {
    let kind = |index: usize| if index * children + 1 < nodes { NodeKind::Router } else { NodeKind::Host };
    let link = |child: usize| LinkSpec {
        name: format!("link-{child}"),
        ends: [NodeId((child - 1) / children), NodeId(child)],
        medium: Medium::Duplex,
        delay: Duration::ZERO,
        directions: [(); 2].map(|()| direction(1_000_000, 100, ErrorSpec::None)),
    };
    let tcp = Arc::new(TcpConfig::preset(Preset::Rfc));
    Network {
        nodes: (0..nodes).map(|index| node(&format!("node-{index}"), kind(index))).collect(),
        links: (1..nodes).map(link).collect(),
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: (0..nodes - 1).map(|index| flow(index as u64, [index, nodes - 1], App::Idle, &tcp)).collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO,
    }
}

/// Returns the bytes of this process in memory.
fn resident() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}
