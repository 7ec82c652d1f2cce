//! Tests that a host's sockets limit their backlog in its queue on every carrier.

use std::sync::Arc;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::queue::{CakeConfig, CoDelConfig, DualPi2Config, FqCoDelConfig, PieConfig, QueueSpec};
use lasthop_proto::tcp::config::{ControlRule, HystartRule, Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_quic::{CongestionControl, QuicConfig, Task};

use crate::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, Impairments, LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec,
    QueueLimit, Rate,
};
use crate::trace::What;
use crate::{Outcome, Recording, run};

/// Rate of the host's own link, in bits per second.
const RATE: u64 = 10_000_000;

fn linux() -> TcpConfig {
    TcpConfig::preset(Preset::Linux618)
}

fn direction(rate: u64, queue: QueueSpec) -> DirectionSpec {
    DirectionSpec {
        rate: Rate(rate),
        queue,
        errors: ErrorSpec::None,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    }
}

fn link(name: &str, ends: [usize; 2], medium: Medium, rate: u64, queue: QueueSpec) -> LinkSpec {
    LinkSpec {
        name: name.to_owned(),
        ends: ends.map(NodeId),
        medium,
        delay: Duration::from_millis(10),
        directions: [direction(rate, queue), direction(rate, QueueLimit::Packets(1000).into())],
    }
}

/// Returns an upload over the host's own link, the bottleneck, with `queue` in front of it; a router and a server
/// follow.
fn upload(medium: &Medium, queue: QueueSpec, app: App, tcp: TcpConfig, flows: usize) -> Network {
    let tcp = Arc::new(tcp);
    let node = |name: &str, kind| NodeSpec { name: name.to_owned(), kind };
    let flow = |index: usize| FlowSpec {
        name: format!("upload-{index}"),
        from: NodeId(0),
        to: NodeId(2),
        start: Instant::ZERO,
        app,
        tcp: [tcp.clone(), tcp.clone()],
        iss: [1, 1],
        dscp: 0,
    };
    Network {
        nodes: vec![node("host", NodeKind::Host), node("router", NodeKind::Router), node("server", NodeKind::Host)],
        links: vec![
            link("own", [0, 1], medium.clone(), RATE, queue),
            link("wire", [1, 2], Medium::Duplex, 100_000_000, QueueLimit::Packets(1000).into()),
        ],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: (0..flows).map(flow).collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(60),
    }
}

fn media() -> [(Medium, QueueSpec); 8] {
    let fifo = QueueLimit::Packets(30);
    let overhead = Duration::from_micros(100);
    [
        (Medium::Duplex, fifo.into()),
        (Medium::HalfDuplex { frame_overhead: overhead, turnaround: Duration::ZERO }, fifo.into()),
        (Medium::Shared { frame_overhead: overhead, channel: 0 }, fifo.into()),
        (Medium::Duplex, QueueSpec::CoDel(fifo, CoDelConfig::default())),
        (Medium::Duplex, QueueSpec::FqCoDel(FqCoDelConfig { limit: 30, ..FqCoDelConfig::default() })),
        (Medium::Duplex, QueueSpec::Pie(PieConfig { limit: fifo, ..PieConfig::default() })),
        (Medium::Duplex, QueueSpec::DualPi2(DualPi2Config { limit: fifo, ..DualPi2Config::default() })),
        (Medium::Duplex, QueueSpec::Cake(CakeConfig { memory: Some(45_000), ..CakeConfig::default() })),
    ]
}

const TRANSFER: App = App::Transfer { bytes: 5_000_000, close: Switch::On };

/// Returns the maximum time of the host's data segments from socket to router.
fn longest(outcome: &Outcome) -> Duration {
    let mut sent = std::collections::BTreeMap::new();
    let mut longest = Duration::ZERO;
    for record in &outcome.trace.records {
        match &record.what {
            What::Sent(packet) if record.point == 0 && packet.len > 0 => {
                sent.insert((packet.tcp().map(|tcp| tcp.seq.0), packet.flow.0), record.time);
            }
            What::Received(packet) if record.point == 1 && packet.len > 0 => {
                if let Some(at) = sent.remove(&(packet.tcp().map(|tcp| tcp.seq.0), packet.flow.0)) {
                    longest = longest.max(record.time.since(at));
                }
            }
            _ => {}
        }
    }
    longest
}

/// Linux allows a burst of segments for each of two completions at this rate (`tcp_small_queue_check`: two packets of
/// two segments), and adds one more packet below that limit. The bound here is 20 of the 833 segments per second.
/// Without small queues, a window of hundreds of segments would wait.
#[test]
fn tcp_keeps_its_hosts_queue_short_on_every_medium() {
    for congestion in [ControlRule::cubic(HystartRule::Linux), ControlRule::BBR] {
        for (medium, queue) in media() {
            let network = |small_queues| {
                let tcp = linux().with(|c| {
                    let modern = c.sender.modern_mut().unwrap();
                    (modern.small_queues, modern.congestion) = (small_queues, congestion);
                });
                upload(&medium, queue, TRANSFER, tcp, 1)
            };
            let outcome = run(&network(Switch::On), 1, Recording::On);
            let report = &outcome.report;
            // Two bursts take 4.8 ms at this rate. CoDel, with a target of 5 ms, drops packets behind them, as in the
            // kernel.
            if matches!(queue, QueueSpec::Fifo(_)) {
                assert_eq!(report.links[0][0].queue_drops, 0, "{congestion:?} {medium:?} {queue:?}");
            }
            let flow = &report.flows[0];
            let finished = flow.complete.then(|| flow.end.since(flow.start).as_secs_f64());
            // 5 MB of payload with headers of 52 bytes take 4.14 s; 5.2 s with 100 us of overhead per frame and
            // acknowledgments on the same medium.
            assert!(finished.is_some_and(|seconds| seconds < 6.0), "{congestion:?} {medium:?} {queue:?}: {finished:?}");
            let frame = Rate(RATE).time_for(1500) + Duration::from_micros(100);
            let bound = Duration::from_millis(10) + frame * 20;
            assert!(longest(&outcome) < bound, "{congestion:?} {medium:?} {queue:?}: {:?}", longest(&outcome));
        }
    }
    let off = linux().with(|c| c.sender.modern_mut().unwrap().small_queues = Switch::Off);
    let control = run(&upload(&Medium::Duplex, QueueLimit::Packets(30).into(), TRANSFER, off, 1), 1, Recording::Off);
    assert!(control.report.links[0][0].queue_drops > 0, "a window larger than the queue overflows it");
}

/// Each socket has a limit of its own.
#[test]
fn several_connections_share_their_hosts_queue() {
    for (medium, _) in media() {
        let queue = QueueLimit::Packets(100).into();
        let outcome = run(
            &upload(&medium, queue, App::Transfer { bytes: 500_000, close: Switch::On }, linux(), 8),
            1,
            Recording::Off,
        );
        assert_eq!(outcome.report.links[0][0].queue_drops, 0, "{medium:?}");
        assert!(outcome.report.flows.iter().all(|flow| flow.complete), "{medium:?}");
    }
}

/// A UDP socket buffers 212,992 bytes by default, 92 datagrams, which fit into a queue of 100.
#[test]
fn quic_waits_for_its_sockets_buffer() {
    for (medium, _) in media() {
        let config = QuicConfig {
            task: Task::Bulk { bytes: 5_000_000 },
            congestion: CongestionControl::Cubic,
            udp_payload: 1452,
            stream_window: 16 << 20,
            idle_timeout: Duration::from_secs(30),
        };
        let queue = QueueLimit::Packets(100).into();
        let outcome = run(&upload(&medium, queue, App::Quic(config), linux(), 1), 1, Recording::Off);
        assert_eq!(outcome.report.links[0][0].queue_drops, 0, "{medium:?}");
        assert!(outcome.report.flows[0].complete, "{medium:?}");
    }
}

/// Tests both ends of the host's own link with a concurrent download. A departure is reported to the socket that sent
/// the packet, in whichever direction the medium transmits.
#[test]
fn an_upload_beside_a_download_waits_for_nothing() {
    for (medium, queue) in media() {
        for swapped in [false, true] {
            let app = App::Transfer { bytes: 2_000_000, close: Switch::On };
            // A window of 64 KB overflows no queue.
            let tcp = linux().with(|c| c.receiver.receive_buffer = 65_536);
            let mut network = upload(&medium, QueueLimit::Packets(100).into(), app, tcp, 2);
            let own = &mut network.links[0];
            own.directions[0].queue = queue_of(queue, 100);
            if swapped {
                own.ends.swap(0, 1);
                own.directions.swap(0, 1);
            }
            let download = &mut network.flows[1];
            std::mem::swap(&mut download.from, &mut download.to);
            let report = run(&network, 1, Recording::Off).report;
            for flow in &report.flows {
                let took = flow.end.since(flow.start).as_secs_f64();
                // Twice 2 MB take 3.4 s on a half-duplex medium, without overhead of frames. At one segment per round
                // trip they would take 30 s.
                assert!(flow.complete && took < 8.0, "{medium:?} {queue:?} swapped: {swapped}: {took} {flow:?}");
            }
        }
    }
}

/// Returns the same kind of queue with a capacity of `packets`.
fn queue_of(queue: QueueSpec, packets: u32) -> QueueSpec {
    match queue {
        QueueSpec::Fifo(_) => QueueLimit::Packets(packets).into(),
        QueueSpec::CoDel(_, config) => QueueSpec::CoDel(QueueLimit::Packets(packets), config),
        QueueSpec::FqCoDel(config) => QueueSpec::FqCoDel(FqCoDelConfig { limit: packets, ..config }),
        other => other,
    }
}
