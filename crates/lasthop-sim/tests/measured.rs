//! Tests of a metered run's measurements against queueing theory and the record of the same run.

use std::sync::Arc;

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::{CallConfig, OnOffConfig};
use lasthop_sim::link::Direction;
use lasthop_sim::measure::{DelayStats, Report};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, Impairments, LinkId, LinkSpec, Medium, Network, NodeId, NodeKind,
    NodeSpec, QueueLimit, Rate,
};
use lasthop_sim::trace::What;
use lasthop_sim::{Recording, Simulation, run};

const DELAY: Duration = Duration::from_millis(10);

/// Returns a network of a source, a router and a sink. The second link is the bottleneck, with `rate` and `queue`.
fn network(rate: u64, queue: QueueLimit, medium: Medium, flows: Vec<(App, TcpConfig)>, seconds: u64) -> Network {
    let node = |name: &str, kind| NodeSpec { name: name.to_owned(), kind };
    let link = |name: &str, ends: [usize; 2], rate, queue: QueueLimit, medium| LinkSpec {
        name: name.to_owned(),
        ends: ends.map(NodeId),
        medium,
        delay: DELAY,
        directions: [(); 2].map(|()| DirectionSpec {
            rate: Rate(rate),
            queue: queue.into(),
            errors: ErrorSpec::None,
            damaged: DamagedFrames::Drop,
            variation: VariationSpec::NONE,
            impairments: Impairments::NONE,
        }),
    };
    let flow = |(number, (app, tcp)): (usize, (App, TcpConfig))| FlowSpec {
        name: format!("flow-{number}"),
        from: NodeId(0),
        to: NodeId(2),
        start: Instant::ZERO,
        app,
        tcp: [(); 2].map(|()| Arc::new(tcp.clone())),
        iss: [0, 0],
        dscp: 0,
    };
    Network {
        nodes: vec![node("source", NodeKind::Host), node("router", NodeKind::Router), node("sink", NodeKind::Host)],
        links: vec![
            link("fast", [0, 1], 1_000_000_000_000, QueueLimit::Packets(1_000_000), Medium::Duplex),
            link("slow", [1, 2], rate, queue, medium),
        ],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: flows.into_iter().enumerate().map(flow).collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(seconds),
    }
}

fn datagrams(rate: u64, off: Duration) -> (App, TcpConfig) {
    // ns-2's accounting: 1,000 bytes are 1,000 bytes on the wire. An on period of zero is one packet.
    let on = if off == Duration::ZERO { Duration::from_secs(1000) } else { Duration::ZERO };
    let config = OnOffConfig { start: Instant::ZERO, on, off, bytes: 1000, rate: Rate(rate) };
    (App::OnOff(config), TcpConfig::preset(Preset::Ns2))
}

fn metered(network: &Network) -> Report {
    let mut simulation = Simulation::metered(network, 1, Recording::Off);
    while simulation.advance(u32::MAX) {}
    simulation.finish(network).report
}

fn seconds(delay: Duration) -> f64 {
    delay.as_secs_f64()
}

/// Returns P(wait <= t) in an M/D/1 queue of load `rho`, with times in units of the service time (Erlang 1909).
fn md1(rho: f64, t: f64) -> f64 {
    let term = |k: u32| {
        let x = rho * (t - f64::from(k));
        let factorial: f64 = (1..=k).map(f64::from).product();
        (-x).powi(k as i32) / factorial * x.exp()
    };
    (1.0 - rho) * (0..=t as u32).map(term).sum::<f64>()
}

/// Poisson arrivals of constant size: mean wait rho / (2 mu (1 - rho)), and the quantiles of Erlang's distribution.
#[test]
fn waits_are_those_of_an_md1_queue() {
    for (rho, tolerance) in [(0.3, 0.03), (0.7, 0.05)] {
        // 1,000 bytes at 8 Mbps: 1 ms. Packets leave the source at once, so that only the off periods space them.
        let off = Duration::from_nanos((1e6 / rho) as u64);
        let duplex =
            network(8_000_000, QueueLimit::Packets(100_000), Medium::Duplex, vec![datagrams(1 << 42, off)], 300);
        let report = metered(&duplex);
        let waits = report.flows[0].delays.as_ref().unwrap().queueing.unwrap();
        let mean = rho / (2.0 * 1000.0 * (1.0 - rho));
        assert!((seconds(waits.mean) / mean - 1.0).abs() < tolerance, "{rho}: {waits:?} instead of {mean}");
        for (quantile, share) in [(waits.p50, 0.5), (waits.p95, 0.95), (waits.p99, 0.99)] {
            let cdf = md1(rho, 1e3 * seconds(quantile) * 1.008);
            assert!(cdf > share - 0.01, "{rho}: {quantile:?} for {share}, where Erlang has {cdf}");
            let before = md1(rho, (1e3 * seconds(quantile) * 0.992 - 0.01).max(0.0));
            assert!(before < share + 0.01 || quantile == Duration::ZERO, "{rho}: {quantile:?} for {share}: {before}");
        }
        // The one-way delay adds both links' delays and the transmission.
        let one_way = report.flows[0].delays.as_ref().unwrap().one_way.unwrap();
        let added = seconds(one_way.mean) - seconds(waits.mean);
        assert!((added - 0.021).abs() < 1e-5, "{added}");
        assert_eq!(report.links[1][0].queueing.unwrap().count, one_way.count);
        // The link is busy for a share equal to the load.
        let busy = seconds(report.links[1][0].busy.unwrap()) / 300.0;
        assert!((busy / rho - 1.0).abs() < 0.02, "{busy}");
    }
}

/// The source sends at twice the link's rate: each accepted packet finds 49 packets queued and one on the wire.
#[test]
fn a_full_fifo_delays_by_its_size_over_its_rate() {
    let full =
        network(1_000_000, QueueLimit::Packets(50), Medium::Duplex, vec![datagrams(2_000_000, Duration::ZERO)], 60);
    let report = metered(&full);
    let waits = report.flows[0].delays.as_ref().unwrap().queueing.unwrap();
    for quantile in [waits.p50, waits.p95, waits.p99] {
        assert!((0.392 * 0.992..=0.400 * 1.008).contains(&seconds(quantile)), "{waits:?}");
    }
    let one_way = report.flows[0].delays.as_ref().unwrap().one_way.unwrap();
    assert!((seconds(one_way.p50) / (0.396 + 0.008 + 0.020) - 1.0).abs() < 0.02, "{one_way:?}");
    let path = report.links[1][0];
    // The link is busy from the arrival of the first packet.
    assert!(seconds(path.busy.unwrap()) > 59.98 && seconds(path.busy.unwrap()) <= 60.0, "{path:?}");
    // Half of the packets are dropped there, all from this flow.
    let drops = report.flows[0].drops.unwrap();
    assert_eq!((drops.queue_full, drops.channel), (path.queue_drops, 0));
    assert!((path.queue_drops as f64 / path.frames as f64 - 0.5).abs() < 0.01, "{path:?}");
}

/// A constant rate below the link's: the link is busy for its share of the time, and no packet waits.
#[test]
fn a_constant_rate_uses_its_share() {
    let cbr = || vec![datagrams(400_000, Duration::ZERO)];
    let duplex = metered(&network(1_000_000, QueueLimit::Packets(50), Medium::Duplex, cbr(), 100));
    let busy = seconds(duplex.links[1][0].busy.unwrap()) / 100.0;
    assert!((busy - 0.4).abs() < 0.001, "{busy}");
    assert_eq!(duplex.flows[0].delays.as_ref().unwrap().queueing.unwrap().longest, Duration::ZERO);
    assert_eq!(duplex.links[1][1].busy, Some(Duration::ZERO));
    // A frame every 20 ms, each with 8 ms for its bytes and 2 ms of overhead.
    let medium = Medium::HalfDuplex { frame_overhead: Duration::from_millis(2), turnaround: Duration::ZERO };
    let shared = metered(&network(1_000_000, QueueLimit::Packets(50), medium, cbr(), 100));
    let busy = seconds(shared.links[1][0].busy.unwrap()) / 100.0;
    assert!((busy - 0.5).abs() < 0.001, "{busy}");
}

/// Little's law: with a full window W on a link of rate R, a round trip takes W / R.
#[test]
fn a_full_window_takes_its_size_over_the_rate() {
    let tcp = TcpConfig::preset(Preset::Rfc).with(|c| {
        c.common.send_buffer = 64 << 10;
        c.receiver.receive_buffer = 32 << 10;
    });
    let segment = f64::from(tcp.common.mss) + 40.0;
    let in_window = f64::from((32 << 10) / tcp.common.mss);
    let app = App::Transfer { bytes: 4 << 20, close: Switch::On };
    let report = metered(&network(1_000_000, QueueLimit::Packets(100), Medium::Duplex, vec![(app, tcp)], 600));
    let flow = &report.flows[0];
    assert!(flow.complete && flow.sender.source_retransmissions == 0);
    let expected = in_window * segment * 8.0 / 1e6;
    let delays = flow.delays.as_ref().unwrap();
    let rtt = delays.rtt.unwrap();
    // Two segments per acknowledgment: one or two fewer are in flight.
    assert!((seconds(rtt.p50) / expected - 1.0).abs() < 0.1, "{rtt:?} instead of {expected}");
    // Except for the path's 40 ms and a segment's transmission, the round trip is spent in the queue.
    let queueing = delays.queueing.unwrap();
    let path = 0.040 + segment * 8.0 / 1e6;
    assert!((seconds(queueing.p50) + path - seconds(rtt.p50)).abs() < 0.03, "{queueing:?} {rtt:?}");
    assert_eq!(flow.sent, Some(4 << 20));
}

/// The record of the same run has the times when each frame was handed over and when it arrived; the remainder is its
/// wait.
#[test]
fn waits_are_those_of_the_record() {
    let tcp = TcpConfig::preset(Preset::Linux618);
    let app = App::Transfer { bytes: 2 << 20, close: Switch::On };
    let network =
        network(4_000_000, QueueLimit::Packets(60), Medium::Duplex, vec![(app, tcp.clone()), (app, tcp)], 100);
    let trace = run(&network, 1, Recording::On).trace;
    let report = metered(&network);
    let DelayStats { count, mean, .. } = report.links[1][0].queueing.unwrap();
    let (mut sent, mut waits) = (Vec::new(), Vec::new());
    for record in trace.records {
        match record.what {
            What::Sent(packet) if record.point == 2 => sent.push((packet, record.time)),
            What::Dropped(packet, _) if record.point == 2 => {
                let at = sent.iter().rposition(|(other, _)| *other == packet).unwrap();
                sent.remove(at);
            }
            What::Received(packet) if record.point == 3 => {
                let (first, at) = sent.remove(0);
                assert_eq!(first, packet);
                let transmission = Duration::from_nanos(u64::from(packet.wire_len()) * 2000);
                waits.push(record.time.since(at + transmission + DELAY).as_nanos());
            }
            _ => {}
        }
    }
    assert_eq!((count, mean.as_nanos()), (waits.len() as u64, waits.iter().sum::<u64>() / waits.len() as u64));
}

/// Delays of a call's packets agree with its own log, and delays of datagrams without events with those of datagrams
/// with events.
#[test]
fn one_way_delays_of_calls_and_of_datagrams_nobody_sees() {
    let call = CallConfig {
        interval: Duration::from_millis(20),
        frame: 160,
        packet: 160,
        deadline: Duration::from_millis(100),
        codec: None,
    };
    let flows = vec![(App::Call(call), TcpConfig::preset(Preset::Rfc)), datagrams(900_000, Duration::from_millis(30))];
    let network = network(1_000_000, QueueLimit::Packets(50), Medium::Duplex, flows, 50);
    let report = metered(&network);
    let own = report.flows[0].call.as_ref().unwrap();
    let one_way = report.flows[0].delays.as_ref().unwrap().one_way.unwrap();
    assert_eq!(one_way.count, own.delays.count());
    let p95 = seconds(own.delays.quantile(950).unwrap());
    assert!((seconds(one_way.p95) / p95 - 1.0).abs() < 0.015, "{one_way:?} {p95}");
}

/// A lossy link destroys its share of frames, counted as frames: retransmissions of the same segment count again.
#[test]
fn loss_is_counted_in_frames() {
    let tcp = TcpConfig::preset(Preset::Linux618);
    let app = App::Transfer { bytes: 2 << 20, close: Switch::On };
    let mut network = network(4_000_000, QueueLimit::Packets(60), Medium::Duplex, vec![(app, tcp)], 3000);
    network.links[1].directions[0].errors = ErrorSpec::Uniform { frame_loss: 0.15, frames: Frames::All };
    let report = metered(&network);
    let (path, flow) = (report.links[1][0], &report.flows[0]);
    assert!(flow.complete);
    let loss = path.loss().unwrap();
    assert!((loss - 0.15).abs() < 0.02, "{loss}");
    assert!(flow.losses < path.channel_drops, "each segment once: {} of {}", flow.losses, path.channel_drops);
    assert_eq!(flow.drops.unwrap().channel, path.channel_drops);
}

/// Queues, deliveries and round-trip times at any time.
#[test]
fn a_run_can_be_looked_at_while_it_goes() {
    let network =
        network(1_000_000, QueueLimit::Packets(50), Medium::Duplex, vec![datagrams(2_000_000, Duration::ZERO)], 10);
    let mut simulation = Simulation::observed(&network, 1);
    let mut rows = Vec::new();
    let mut at = Instant::ZERO;
    loop {
        at += Duration::from_millis(100);
        let goes_on = simulation.advance_until(at);
        let delay = simulation.recent_delay(FlowId(0));
        let waiting = simulation.waiting(LinkId(1), Direction::Down);
        rows.push((waiting, simulation.delivered(&network, FlowId(0)), delay));
        if !goes_on {
            break;
        }
    }
    // It fills by a packet every 8 ms, and stays full; 12 or 13 packets of 1,000 bytes arrive in each tenth of a
    // second.
    assert!((9..=13).contains(&rows[0].0) && rows[20..99].iter().all(|row| (49..=50).contains(&row.0)), "{rows:?}");
    assert!(rows[20..90].windows(2).all(|pair| (12_000..=13_000).contains(&(pair[1].1 - pair[0].1))), "{rows:?}");
    assert!((seconds(rows[50].2.unwrap()) - 0.424).abs() < 0.01, "{rows:?}");
    let plain = run(&network, 1, Recording::Off).report;
    assert_eq!(simulation.finish(&network).report.flows[0].received, plain.flows[0].received);
}
