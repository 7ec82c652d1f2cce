//! Tests of QUIC over whole networks: deliveries, throughput, and the effects of elements on the path.

use std::sync::Arc;

use crate::elements::Element;
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::event::Event;
use lasthop_proto::link::arq::{ArqConfig, Delivery, Protocol, Timer};
use lasthop_proto::packet::{Body, Cause, FlowId};
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::queue::{CoDelConfig, QueueSpec};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::network::{
    App, CongestionControl, DamagedFrames, DirectionSpec, ElementSpec, Exchange, FlowSpec, Impairments, LinkId,
    LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec, QueueLimit, QuicConfig, Rate, Task,
};
use lasthop_sim::trace::What;
use lasthop_sim::{Recording, run};

fn quic(task: Task) -> QuicConfig {
    QuicConfig {
        task,
        congestion: CongestionControl::Cubic,
        udp_payload: 1472,
        stream_window: 1_250_000,
        idle_timeout: Duration::from_secs(30),
    }
}

fn bulk(bytes: u64) -> App {
    App::Quic(quic(Task::Bulk { bytes }))
}

fn flow(name: &str, app: App) -> FlowSpec {
    let tcp = Arc::new(TcpConfig::preset(Preset::Linux618));
    FlowSpec {
        name: name.to_owned(),
        from: NodeId(0),
        to: NodeId(2),
        start: Instant::ZERO,
        app,
        tcp: [tcp.clone(), tcp],
        iss: [1, 1],
        dscp: 0,
    }
}

/// Returns a network of a source, 100 Mbps and 5 ms, a base station, 10 Mbps and 20 ms with those losses down, and a
/// mobile host.
fn network(errors: ErrorSpec, flows: Vec<FlowSpec>) -> Network {
    let node = |name: &str, kind| NodeSpec { name: name.to_owned(), kind };
    let link = |name: &str, ends: [usize; 2], rate: u64, millis: u64, errors: ErrorSpec| {
        let queue: QueueSpec = QueueLimit::Packets(100).into();
        let direction = |errors| DirectionSpec {
            rate: Rate(rate),
            queue,
            errors,
            damaged: DamagedFrames::Drop,
            variation: VariationSpec::NONE,
            impairments: Impairments::NONE,
        };
        LinkSpec {
            name: name.to_owned(),
            ends: ends.map(NodeId),
            medium: Medium::Duplex,
            delay: Duration::from_millis(millis),
            directions: [direction(errors), direction(ErrorSpec::None)],
        }
    };
    Network {
        nodes: vec![node("source", NodeKind::Host), node("base", NodeKind::Router), node("mobile", NodeKind::Host)],
        links: vec![
            link("wired", [0, 1], 100_000_000, 5, ErrorSpec::None),
            link("wireless", [1, 2], 10_000_000, 20, errors),
        ],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows,
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(1000),
    }
}

fn uniform(frame_loss: f64) -> ErrorSpec {
    ErrorSpec::Uniform { frame_loss, frames: Frames::All }
}

fn with(network: &Network, elements: &[(usize, Element)]) -> Network {
    let spec = |(node, element): &(usize, Element)| ElementSpec {
        node: NodeId(*node),
        link: LinkId(1),
        element: element.clone().into(),
    };
    Network { elements: elements.iter().map(spec).collect(), ..network.clone() }
}

fn arq() -> Element {
    Element::Arq(ArqConfig {
        protocol: Protocol::SelectiveRepeat,
        // Smaller than the link's queue.
        window: 64,
        header: 4,
        timer: Timer::Fixed(Duration::from_millis(500)),
        nack_again: Some(Duration::from_millis(60)),
        max_retransmissions: None,
        delivery: Delivery::InOrder,
        queue: 100,
    })
}

/// Without loss, a transfer reaches the rate of the link minus headers: 1472 bytes of payload in 1500, minus QUIC's
/// header of 11 to 13 bytes, a STREAM frame's of 4 to 8, and the tag of 16.
#[test]
fn a_long_transfer_fills_the_link() {
    for congestion in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let app = App::Quic(QuicConfig { congestion, ..quic(Task::Bulk { bytes: 40_000_000 }) });
        let outcome = run(&network(ErrorSpec::None, vec![flow("bulk", app)]), 1, Recording::Off);
        let report = &outcome.report.flows[0];
        assert!(report.complete && report.received == 40_000_000);
        let most = 10e6 * (1472.0 - 12.0 - 8.0 - 16.0) / 1500.0;
        let throughput = report.throughput();
        assert!(
            throughput > 0.98 * most && throughput < 10e6 * 1440.0 / 1500.0,
            "{congestion:?}: {throughput} of {most}"
        );
    }
}

#[test]
fn caches_markers_and_relays_change_nothing() {
    let plain = network(uniform(0.03), vec![flow("bulk", bulk(3_000_000))]);
    let tcp = Arc::new(TcpConfig::preset(Preset::Rfc));
    let expected = run(&plain, 5, Recording::On);
    assert!(expected.report.flows[0].losses > 20);
    let elements = [
        Element::Snoop(SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware)),
        Element::Snoop(SnoopConfig::new(LocalDetection::Smart, TcpAwareness::Unaware)),
        Element::ElnMarker,
        Element::Split { handover: Handover::Shared(65_536), wired: tcp.clone(), wireless: tcp },
    ];
    for element in elements {
        let outcome = run(&with(&plain, &[(1, element.clone())]), 5, Recording::On);
        assert_eq!(outcome.report, expected.report, "{element:?}");
        assert_eq!(outcome.trace.records, expected.trace.records, "{element:?}");
    }
}

/// A link protocol is independent of its payload, so it helps QUIC as it helps TCP.
#[test]
fn a_link_protocol_repairs_what_it_carries() {
    let plain = network(uniform(0.03), vec![flow("bulk", bulk(3_000_000))]);
    let repaired = run(&with(&plain, &[(1, arq()), (2, arq())]), 5, Recording::Off).report.flows.remove(0);
    let lossy = run(&plain, 5, Recording::Off).report.flows.remove(0);
    assert!(repaired.complete && lossy.complete);
    // Data that QUIC retransmitted in the meantime is no longer needed when the run ends.
    assert!(repaired.losses > 20 && repaired.repaired_locally * 10 > repaired.losses * 9, "{repaired:?}");
    assert!(lossy.losses > 20 && lossy.repaired_locally == 0, "{lossy:?}");
    assert!(repaired.throughput() > 1.5 * lossy.throughput(), "{repaired:?} {lossy:?}");
}

/// The data of every datagram that the channel destroyed is retransmitted, and little else.
#[test]
fn what_is_lost_is_sent_again() {
    for (loss, least) in [(0.01, 20), (0.1, 200)] {
        let outcome = run(&network(uniform(loss), vec![flow("bulk", bulk(4_000_000))]), 3, Recording::On);
        let flow = &outcome.report.flows[0];
        assert!(flow.complete && flow.received == 4_000_000);
        assert!(flow.losses > least, "{flow:?}");
        let resent = outcome.trace.records.iter().filter_map(|record| match record.what {
            What::Sent(packet) if record.point == 0 && packet.cause.is_source_retransmission() => Some(packet),
            _ => None,
        });
        let resent: Vec<_> = resent.collect();
        assert_eq!(resent.len() as u64, flow.sender.source_retransmissions);
        assert!(resent.iter().all(|packet| packet.cause == Cause::SackHole));
        // 1430 bytes each, or a few less; a full queue drops some too.
        let lost = (flow.losses + outcome.report.links[1][0].queue_drops) as f64 * 1430.0;
        let repeated = flow.sender.quic_resent_bytes as f64;
        assert!(repeated > 0.9 * lost && repeated < 1.1 * lost, "{repeated} for {lost}: {flow:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let exchange = Exchange { request: 400, response: 60_000, requests: 30, parallel: 4 };
    let flows = vec![flow("bulk", bulk(2_000_000)), flow("web", App::Quic(quic(Task::Exchange(exchange))))];
    let network = network(uniform(0.02), flows);
    let once = run(&network, 11, Recording::On);
    let again = run(&network, 11, Recording::On);
    assert_eq!(once.report, again.report);
    assert_eq!(once.trace.records, again.trace.records);
    assert_ne!(once.trace.records, run(&network, 12, Recording::On).trace.records);
    // Recording changes nothing.
    assert_eq!(once.report, run(&network, 11, Recording::Off).report);
}

/// Responses travel towards the initiator: they are counted where they arrive, and credited to the links that they
/// crossed.
#[test]
fn requests_and_responses_count_at_the_one_who_asks() {
    let exchange = Exchange { request: 200, response: 50_000, requests: 40, parallel: 2 };
    let task = App::Quic(quic(Task::Exchange(exchange)));
    let asking = FlowSpec { from: NodeId(2), to: NodeId(0), ..flow("web", task) };
    let outcome = run(&network(ErrorSpec::None, vec![asking]), 1, Recording::Off);
    let report = &outcome.report;
    assert!(report.flows[0].complete && report.flows[0].received == 2_000_000);
    let [down, up] = &report.links[1];
    assert_eq!((down.useful, up.useful), (2_000_000, 0));
    assert!(down.goodput().is_some_and(|goodput| goodput > 0.9), "{down:?}");
    // 40 responses, two at a time: 20 round trips of 50 ms and their transmission time.
    let seconds = report.flows[0].end.as_secs_f64();
    assert!(seconds > 1.0 + 1.6 && seconds < 4.0, "{seconds}");
}

/// A queue that marks instead of dropping: QUIC's packets are ECN-capable, and it slows down without retransmitting.
#[test]
fn marks_take_the_place_of_losses() {
    let mut network = network(ErrorSpec::None, vec![flow("bulk", bulk(10_000_000))]);
    for direction in &mut network.links[1].directions {
        direction.queue =
            QueueSpec::CoDel(QueueLimit::Packets(1000), CoDelConfig { ecn: Switch::On, ..CoDelConfig::default() });
    }
    let outcome = run(&network, 1, Recording::On);
    let flow = &outcome.report.flows[0];
    assert!(flow.complete && flow.sender.recoveries > 2, "{flow:?}");
    assert_eq!(outcome.report.links[1][0].queue_drops, 0);
    assert_eq!(flow.sender.source_retransmissions, 0);
}

/// QUIC and TCP share a link.
#[test]
fn quic_and_tcp_go_side_by_side() {
    let transfer = App::Transfer { bytes: 5_000_000, close: Switch::On };
    let flows = vec![flow("quic", bulk(5_000_000)), flow("tcp", transfer)];
    let report = run(&network(ErrorSpec::None, flows), 1, Recording::Off).report;
    assert!(report.flows.iter().all(|flow| flow.complete && flow.received == 5_000_000));
    // Neither starves.
    assert!(report.flows.iter().all(|flow| flow.throughput() > 2e6), "{:?}", report.flows);
}

/// A link that fails after some packets: the connection is aborted after its idle timeout, and the run ends.
#[test]
fn a_dead_link_ends_the_connection() {
    let trace = [vec![false; 300], vec![true; 5_000]].concat();
    let errors = ErrorSpec::Replay { trace: Arc::new(trace), frames: Frames::All };
    let outcome = run(&network(errors, vec![flow("bulk", bulk(5_000_000))]), 1, Recording::On);
    let report = &outcome.report.flows[0];
    assert!(report.aborted && !report.complete, "{report:?}");
    assert!(report.received > 200_000 && report.received < 430_000, "{report:?}");
    let aborted = outcome.trace.records.iter().find(|record| record.what == What::Event(Event::Aborted));
    let at = aborted.expect("it is given up").time.as_secs_f64();
    assert!((30.0..35.0).contains(&at), "{at}");
}

/// A trace contains a datagram's size on the wire, its number, and the amount of its data.
#[test]
fn a_trace_shows_datagrams() {
    let outcome = run(&network(ErrorSpec::None, vec![flow("bulk", bulk(100_000))]), 1, Recording::Flow(FlowId(0)));
    let sent = outcome.trace.records.iter().filter_map(|record| match record.what {
        What::Sent(packet) if record.point == 0 => Some(packet),
        _ => None,
    });
    let sent: Vec<_> = sent.collect();
    for (expected, packet) in sent.iter().enumerate() {
        let Body::Quic { number, data, .. } = packet.body else { panic!("{packet:?}") };
        assert_eq!((number as usize, packet.header_len), (expected, 28));
        assert!(packet.len <= 1472 && data < packet.len);
    }
    let data: u32 = sent.iter().map(|packet| if let Body::Quic { data, .. } = packet.body { data } else { 0 }).sum();
    assert_eq!(data, 100_000);
    // The client's first datagram is padded (RFC 9000 §14.1).
    assert_eq!((sent[0].cause, sent[0].len), (Cause::Handshake, 1472));
}
