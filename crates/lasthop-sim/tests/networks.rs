//! Tests of whole networks: deliveries, their times, and reproducibility.

use std::sync::Arc;

use crate::elements::Element;
use lasthop_proto::channel::{Act, Behind, ErrorSpec, Frames, ScriptFrame, ScriptLine};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::link::arq::{ArqConfig, Delivery, Protocol, Timer};
use lasthop_proto::packet::{Cause, Ecn, Flags, FlowId};
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::queue::{CoDelConfig, QueueSpec};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::tcp::config::{EcnMode, Preset, Recovery, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::{OnOffConfig, WebConfig};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, ElementSpec, FlowSpec, Impairments, LinkId, LinkSpec, Medium, Network, NodeId,
    NodeKind, NodeSpec, QueueLimit, Rate, SessionSpec,
};
use lasthop_sim::trace::{DropReason, Record, What};
use lasthop_sim::{Recording, Simulation, run};
use proptest::prelude::*;

fn direction(rate: u64, queue: QueueLimit, errors: ErrorSpec) -> DirectionSpec {
    DirectionSpec {
        rate: Rate(rate),
        queue: queue.into(),
        errors,
        damaged: DamagedFrames::Drop,
        variation: VariationSpec::NONE,
        impairments: Impairments::NONE,
    }
}

fn node(name: &str, kind: NodeKind) -> NodeSpec {
    NodeSpec { name: name.to_owned(), kind }
}

fn transfer(from: usize, to: usize, bytes: u64, tcp: &Arc<TcpConfig>) -> FlowSpec {
    FlowSpec {
        name: format!("{from}-{to}"),
        from: NodeId(from),
        to: NodeId(to),
        start: Instant::ZERO,
        app: App::Transfer { bytes, close: Switch::On },
        tcp: [tcp.clone(), tcp.clone()],
        iss: [u32::MAX - 1000, 7],
        dscp: 0,
    }
}

/// Returns a network of two hosts and one link of 1 Mbps and 10 ms.
fn pair(tcp: TcpConfig, bytes: u64, queue: QueueLimit) -> Network {
    let wire = || direction(1_000_000, queue, ErrorSpec::None);
    Network {
        nodes: vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
        links: vec![LinkSpec {
            name: "wire".to_owned(),
            ends: [NodeId(0), NodeId(1)],
            medium: Medium::Duplex,
            delay: Duration::from_millis(10),
            directions: [wire(), wire()],
        }],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: vec![transfer(0, 1, bytes, &Arc::new(tcp))],
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(600),
    }
}

/// Each frame arrives after the transmission time of its bytes and the delay, counted from when the wire was free.
#[test]
fn frames_take_their_bytes_and_the_delay() {
    let outcome = run(&pair(TcpConfig::preset(Preset::Rfc), 50_000, QueueLimit::Packets(100)), 1, Recording::On);
    for point in [0, 1] {
        let (mut free_at, mut expected) = (Instant::ZERO, Vec::new());
        let mut received = Vec::new();
        for record in &outcome.trace.records {
            match record.what {
                What::Sent(packet) if record.point == point => {
                    free_at = free_at.max(record.time) + Duration::from_micros(u64::from(packet.wire_len()) * 8);
                    expected.push(free_at + Duration::from_millis(10));
                }
                What::Received(_) if record.point == point ^ 1 => received.push(record.time),
                _ => {}
            }
        }
        assert!(received.len() > 10);
        assert_eq!(received, expected[..received.len()]);
    }
}

/// Each mark of a queue is counted once, at that queue, and the packet arrives.
#[test]
fn marks_are_counted() {
    let tcp = TcpConfig::preset(Preset::Linux618).with(|c| c.common.ecn = EcnMode::On);
    let marked = |tcp: &TcpConfig, ecn: Switch| {
        let mut network = pair(tcp.clone(), 500_000, QueueLimit::Packets(1000));
        let codel = CoDelConfig { ecn, ..CoDelConfig::default() };
        network.links[0].directions[0].queue = QueueSpec::CoDel(QueueLimit::Packets(1000), codel);
        let outcome = run(&network, 1, Recording::On);
        assert!(outcome.report.flows[0].complete);
        let arrived = outcome.trace.records.iter().filter(
            |record| matches!(&record.what, What::Received(packet) if record.point == 1 && packet.ecn == Ecn::Ce),
        );
        let [down, up] = outcome.report.links[0];
        assert_eq!((down.marks, up.marks), (arrived.count() as u64, 0));
        (network.may_mark(), down.marks, down.queue_drops)
    };
    let (may, marks, drops) = marked(&tcp, Switch::On);
    assert!(may && marks > 0 && drops == 0, "{marks} marks, {drops} drops");
    // Without an offer of ECN, or without a queue that marks, packets are dropped.
    for (ecn, switch) in [(EcnMode::Passive, Switch::On), (EcnMode::On, Switch::Off)] {
        let (may, marks, drops) = marked(&tcp.clone().with(|c| c.common.ecn = ecn), switch);
        assert!(!may && marks == 0 && drops > 0, "{ecn:?} {switch:?}: {marks} marks, {drops} drops");
    }
}

/// A queue of four holds four of an initial window of ten, in addition to the one on the wire; the rest is dropped.
#[test]
fn a_full_queue_drops_the_tail() {
    let tcp = TcpConfig::preset(Preset::Rfc).with(|c| c.common.initial_window = 10);
    for queue in [QueueLimit::Packets(4), QueueLimit::Bytes(4 * 1512)] {
        let outcome = run(&pair(tcp.clone(), 1 << 20, queue), 1, Recording::On);
        let first_window: Vec<bool> = outcome
            .trace
            .records
            .iter()
            .filter_map(|record| match record.what {
                What::Sent(packet) if packet.len > 0 => Some(true),
                What::Dropped(..) => Some(false),
                _ => None,
            })
            .take(15)
            .collect();
        // Sent, and dropped at the same place if the queue is full.
        let expected = [vec![true; 5], [true, false].repeat(5)].concat();
        assert_eq!(first_window, expected, "{queue:?}");
        assert!(outcome.report.flows[0].complete);
    }
}

/// Without loss, a transfer's throughput is that of the link, including headers.
#[test]
fn a_long_transfer_fills_the_link() {
    let tcp = TcpConfig::preset(Preset::Rfc).with(|c| c.common.timestamps = Switch::Off);
    let mss = f64::from(tcp.common.mss);
    let outcome = run(&pair(tcp, 4_000_000, QueueLimit::Packets(1000)), 1, Recording::Off);
    let throughput = outcome.report.flows[0].throughput();
    let most = 1e6 * mss / (mss + 40.0);
    assert!(throughput < most && throughput > 0.99 * most, "{throughput} of {most}");
}

/// BBR's window grows beyond the send buffer, and losses keep the buffer full. This limits the sender, but the
/// application has more to write: the rate samples count, and startup ends. Kernels retransmitted 1 to 8 % on such a
/// path; a sender that never leaves startup retransmits 70 %.
#[test]
fn a_full_send_buffer_is_no_limit_of_the_applications() {
    let lossy = || {
        let errors = ErrorSpec::Uniform { frame_loss: 0.01, frames: Frames::All };
        direction(100_000_000, QueueLimit::Packets(100), errors)
    };
    let mut network = pair(TcpConfig::preset(Preset::Linux618Bbr), 1 << 40, QueueLimit::Packets(100));
    network.links[0].delay = Duration::from_millis(75);
    network.links[0].directions = [lossy(), lossy()];
    network.limit = Instant::ZERO + Duration::from_secs(20);
    for seed in 0..16 {
        let flow = &run(&network, seed, Recording::Off).report.flows[0];
        let delivered = flow.received as f64 / 1448.0;
        let resent = flow.sender.source_retransmissions as f64;
        assert!(resent < 0.15 * delivered, "seed {seed}: {resent} retransmitted, {delivered} delivered");
    }
}

/// No segment arrives: the run ends at its limit, and reports that the flow did not finish.
#[test]
fn a_dead_link_ends_at_the_limit() {
    let mut network = pair(TcpConfig::preset(Preset::Rfc), 1000, QueueLimit::Packets(10));
    network.links[0].directions[0].errors = ErrorSpec::Uniform { frame_loss: 1.0, frames: Frames::All };
    network.limit = Instant::ZERO + Duration::from_secs(20);
    let outcome = run(&network, 1, Recording::On);
    assert!(!outcome.report.flows[0].complete && outcome.report.flows[0].received == 0);
    let sent: Vec<Instant> = outcome
        .trace
        .records
        .iter()
        .filter(|record| matches!(record.what, What::Sent(packet) if packet.tcp().is_some_and(|tcp| tcp.flags == Flags::SYN)))
        .map(|record| record.time)
        .collect();
    // RFC 6298: 1 s, doubled each time.
    assert_eq!(sent, [0, 1, 3, 7, 15].map(|seconds| Instant::ZERO + Duration::from_secs(seconds)));
}

/// A record of one flow equals that flow's part of the full record, and the run is the same.
#[test]
fn one_flow_is_recorded_alone() {
    let mut network = pair(TcpConfig::preset(Preset::Rfc), 100_000, QueueLimit::Packets(6));
    let tcp = network.flows[0].tcp[0].clone();
    network.flows = vec![transfer(0, 1, 60_000, &tcp), transfer(0, 1, 90_000, &tcp), transfer(1, 0, 30_000, &tcp)];
    let all = run(&network, 1, Recording::On);
    for flow in [0, 1, 2].map(FlowId) {
        let alone = run(&network, 1, Recording::Flow(flow));
        assert_eq!(alone.report, all.report);
        let told = |records: &[lasthop_sim::trace::Record]| {
            records.iter().filter(|record| record.flow == flow).map(|record| format!("{record:?}")).collect::<Vec<_>>()
        };
        assert!(alone.trace.records.len() > 50 && alone.trace.records.len() < all.trace.records.len());
        assert_eq!(alone.trace.records.len(), told(&alone.trace.records).len());
        assert_eq!(told(&alone.trace.records), told(&all.trace.records));
    }
}

fn arq() -> ArqConfig {
    ArqConfig {
        protocol: Protocol::SelectiveRepeat,
        window: 32,
        header: 4,
        // Longer than a full queue takes at 2 Mbps (60 frames of 1.5 kB: 360 ms). With a shorter fixed timer,
        // retransmissions of the whole window would fill the queue forever.
        timer: Timer::Fixed(Duration::from_secs(1)),
        nack_again: None,
        max_retransmissions: None,
        delivery: Delivery::InOrder,
        queue: 60,
    }
}

/// Datagrams at 2 Mbps half of the time, over a link that loses a tenth of its frames: without a link protocol a tenth
/// is missing, with one none.
#[test]
fn a_link_protocol_hides_the_losses_of_its_link() {
    let rate = Rate(2_000_000);
    let second = Duration::from_secs(1);
    let source = OnOffConfig { start: Instant::ZERO, on: second, off: second, bytes: 1000, rate };
    let tcp = Arc::new(TcpConfig::preset(Preset::Ns2));
    let lossy = ErrorSpec::Uniform { frame_loss: 0.1, frames: Frames::All };
    let wire = || direction(10_000_000, QueueLimit::Packets(1000), lossy.clone());
    let mut network = Network {
        nodes: vec![node("a", NodeKind::Host), node("b", NodeKind::Host)],
        links: vec![LinkSpec {
            name: "air".to_owned(),
            ends: [NodeId(0), NodeId(1)],
            medium: Medium::Duplex,
            delay: Duration::from_millis(1),
            directions: [wire(), wire()],
        }],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: vec![FlowSpec { app: App::OnOff(source), ..transfer(0, 1, 0, &tcp) }],
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(100),
    };
    let delivered = |network: &Network| {
        let outcome = run(network, 3, Recording::On);
        let offered = outcome.trace.records.iter().filter(|record| {
            let first = matches!(record.what, What::Sent(packet) if packet.cause == Cause::Datagram);
            record.point == 0 && first
        });
        (outcome.report.flows[0].received, offered.count() as u64 * 1000)
    };
    let (received, offered) = delivered(&network);
    assert!((0.88..0.92).contains(&(received as f64 / offered as f64)), "{received} of {offered}");
    // Half of the time at 2 Mbps: 12.5 MB in 100 s, within the length of some fifty periods.
    assert!((9_000_000..16_000_000).contains(&offered), "{offered}");
    let end = |node| ElementSpec { node: NodeId(node), link: LinkId(0), element: Element::Arq(arq()).into() };
    network.elements = vec![end(0), end(1)];
    let (received, offered) = delivered(&network);
    // Data in flight at the end has not arrived.
    assert!(received <= offered && offered - received < 100_000, "{received} of {offered}");
}

/// A user fetches page after page. Each transfer has a handshake of its own, and the requests come from the client.
#[test]
fn a_user_browses_page_after_page() {
    let mut network = pair(TcpConfig::preset(Preset::Ns2), 0, QueueLimit::Packets(50));
    let tcp = network.flows[0].tcp[0].clone();
    let web = |from, to| FlowSpec { app: App::Web, ..transfer(from, to, 0, &tcp) };
    network.flows = vec![web(0, 1), web(1, 0), web(0, 1), web(1, 0)];
    network.sessions = vec![SessionSpec {
        name: "user".to_owned(),
        start: Instant::ZERO + Duration::from_secs(1),
        web: WebConfig { parallel: 2, packet: 1000 },
        syn_loss_memory: Switch::Off,
        pairs: vec![[FlowId(0), FlowId(1)], [FlowId(2), FlowId(3)]],
    }];
    network.limit = Instant::ZERO + Duration::from_secs(200);
    let outcome = run(&network, 5, Recording::On);
    let session = outcome.report.sessions[0];
    assert!(session.web.pages > 50 && session.throughput() > 50_000.0, "{session:?}");
    let replies = outcome.report.flows[1].received + outcome.report.flows[3].received;
    assert!((session.web.reply_bytes..session.web.reply_bytes + 2_000_000).contains(&replies));
    let syns = |flow: u32| {
        let syn =
            |what: &What| matches!(what, What::Sent(packet) if packet.tcp().is_some_and(|tcp| tcp.flags == Flags::SYN));
        outcome.trace.records.iter().filter(|record| record.flow == FlowId(flow) && syn(&record.what)).count()
    };
    // As many replies as requests, except for one in progress, on either pair.
    assert!(syns(0) - syns(1) <= 1 && syns(2) - syns(3) <= 1 && syns(0) > 50);
    assert_eq!(
        outcome.trace.records.iter().find(|record| matches!(record.what, What::Sent(_))).unwrap().flow,
        FlowId(0)
    );
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nothing,
    Snoop,
    Marker,
    Split,
    Arq,
}

/// A chain of routers with hosts, and flows between these.
#[derive(Clone, Debug)]
struct Plan {
    routers: usize,
    /// Properties of each host: its router, whether its link points away from it, the element on the link, the link's
    /// loss, and its medium.
    hosts: Vec<(usize, bool, Kind, f64, bool)>,
    flows: Vec<(usize, usize, u64)>,
    recovery: Recovery,
    preset: Preset,
    seed: u64,
}

fn plans() -> impl Strategy<Value = Plan> {
    let kind =
        prop_oneof![Just(Kind::Nothing), Just(Kind::Snoop), Just(Kind::Marker), Just(Kind::Split), Just(Kind::Arq)];
    let host = (0usize..3, any::<bool>(), kind, 0.0..0.08f64, any::<bool>());
    let recovery = prop_oneof![
        Just(Recovery::RENO),
        Just(Recovery::NEW_RENO),
        Just(Recovery::SMART),
        Just(Recovery::SACK),
        Just(Recovery::ELN)
    ];
    let preset = prop_oneof![Just(Preset::Rfc), Just(Preset::BsdLite), Just(Preset::Ns2)];
    (1usize..4, prop::collection::vec(host, 2..5), recovery, preset, any::<u64>()).prop_flat_map(
        |(routers, hosts, recovery, preset, seed)| {
            let count = hosts.len();
            let flow = (0..count, 1..count, 0u64..60_000)
                .prop_map(move |(from, step, bytes)| (from, (from + step) % count, bytes));
            prop::collection::vec(flow, 1..6).prop_map(move |flows| Plan {
                routers,
                hosts: hosts.clone(),
                flows,
                recovery,
                preset,
                seed,
            })
        },
    )
}

fn build(plan: &Plan) -> Network {
    let tcp = Arc::new(TcpConfig::new(plan.preset, plan.recovery));
    let mut nodes: Vec<NodeSpec> =
        (0..plan.routers).map(|index| node(&format!("r{index}"), NodeKind::Router)).collect();
    let queue = QueueLimit::Packets(60);
    let link = |name: String, ends: [usize; 2], loss: f64, medium| LinkSpec {
        name,
        ends: ends.map(NodeId),
        medium,
        delay: Duration::from_millis(3),
        directions: [
            direction(5_000_000, queue, ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All }),
            direction(2_000_000, queue, ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All }),
        ],
    };
    let mut links: Vec<LinkSpec> =
        (1..plan.routers).map(|index| link(format!("core{index}"), [index - 1, index], 0.0, Medium::Duplex)).collect();
    let mut elements = Vec::new();
    for (index, &(router, away, kind, loss, shared)) in plan.hosts.iter().enumerate() {
        let (router, host) = (router % plan.routers, nodes.len());
        nodes.push(node(&format!("h{index}"), NodeKind::Host));
        let ends = if away { [host, router] } else { [router, host] };
        let medium = if shared {
            Medium::HalfDuplex { frame_overhead: Duration::from_micros(200), turnaround: Duration::ZERO }
        } else {
            Medium::Duplex
        };
        if let Kind::Arq = kind {
            let end = |node| ElementSpec {
                node: NodeId(node),
                link: LinkId(links.len()),
                element: Element::Arq(arq()).into(),
            };
            elements.extend([end(router), end(host)]);
        }
        let element = match kind {
            Kind::Nothing | Kind::Arq => None,
            Kind::Snoop => Some(Element::Snoop(SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware))),
            Kind::Marker => Some(Element::ElnMarker),
            Kind::Split => {
                Some(Element::Split { handover: Handover::Shared(65_536), wired: tcp.clone(), wireless: tcp.clone() })
            }
        };
        if let Some(element) = element {
            elements.push(ElementSpec { node: NodeId(router), link: LinkId(links.len()), element: element.into() });
        }
        links.push(link(format!("edge{index}"), ends, loss, medium));
    }
    let flows =
        plan.flows.iter().map(|&(from, to, bytes)| transfer(plan.routers + from, plan.routers + to, bytes, &tcp));
    Network {
        nodes,
        links,
        bundles: Vec::new(),
        elements,
        flows: flows.collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(100_000),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Any tree with flows in all directions, elements on any router's port, and loss on every edge: each stream
    /// arrives complete, each link's counts agree with its record, and the same seed gives the same run.
    #[test]
    fn every_stream_arrives_through_any_tree(plan in plans()) {
        let network = build(&plan);
        let outcome = run(&network, plan.seed, Recording::On);
        for (flow, &(_, _, bytes)) in outcome.report.flows.iter().zip(&plan.flows) {
            prop_assert!(flow.complete && !flow.aborted, "{:?}", flow);
            prop_assert_eq!(flow.received, bytes);
        }
        for (index, paths) in outcome.report.links.iter().enumerate() {
            for (direction, path) in paths.iter().enumerate() {
                let near = (2 * index + direction) as u16;
                let count = |which: fn(&What) -> bool, point: u16| {
                    outcome.trace.records.iter().filter(|record| record.point == point && which(&record.what)).count() as u64
                };
                prop_assert_eq!(path.frames, count(|what| matches!(what, What::Sent(_)), near));
                let dropped = count(|what| matches!(what, What::Dropped(..)), near);
                prop_assert_eq!(path.queue_drops + path.channel_drops, dropped);
                let drops = path.drops();
                prop_assert_eq!(drops.queue_full, count(|what| matches!(what, What::Dropped(_, DropReason::Queue)), near));
                prop_assert_eq!(drops.channel, count(|what| matches!(what, What::Dropped(_, DropReason::Channel)), near));
                let received = count(|what| matches!(what, What::Received(_)), near ^ 1);
                prop_assert!(received <= path.frames - dropped);
            }
        }
        let again = run(&network, plan.seed, Recording::On);
        prop_assert!(again.report == outcome.report && again.trace.records == outcome.trace.records);
        for (index, flow) in outcome.report.flows.iter().enumerate() {
            let mine = |record: &&Record| record.flow == FlowId(index as u32) && matches!(record.what, What::Dropped(..));
            let dropped = outcome.trace.records.iter().filter(mine).count() as u64;
            let counted: u64 = flow.drops.unwrap().by_cause().iter().map(|(_, count)| count).sum();
            prop_assert_eq!(counted, dropped);
        }
        prop_assert_eq!(run(&network, plan.seed, Recording::Off).report, outcome.report.clone());
        // Measurement does not change the run.
        let mut simulation = Simulation::metered(&network, plan.seed, Recording::Off);
        while simulation.advance(u32::MAX) {}
        let mut metered = simulation.finish(&network).report;
        for flow in &mut metered.flows {
            let delays = flow.delays.take().unwrap();
            prop_assert!(delays.queueing.is_some() && flow.sent.take() >= Some(flow.received));
            flow.tcp_info = None;
            // A retransmitted segment gives no sample (RFC 6298 §3), and a short flow may have no other.
            prop_assert!(delays.rtt.is_some() || flow.received < 20_000);
        }
        metered.links.iter_mut().flatten().for_each(|path| path.queueing = None);
        prop_assert!(metered.delays.take().is_some());
        prop_assert_eq!(metered, outcome.report);
    }
}

/// A script delays one frame, stalls the link, and loses one frame. Frames arrive at the scripted times, those of a
/// stall in order.
#[test]
fn a_script_delays_and_stalls() {
    let tcp = TcpConfig::preset(Preset::Rfc).with(|c| c.common.timestamps = Switch::Off);
    let mss = u64::from(tcp.common.mss);
    let mut network = pair(tcp, 10 * mss, QueueLimit::Packets(100));
    let line = |segment: u64, act| ScriptLine {
        flow: None,
        frame: ScriptFrame::Byte { byte: segment * mss, transmission: 1 },
        act,
    };
    let late = |by, behind| Act::Late { by: Duration::from_millis(by), behind };
    let script = vec![line(1, late(15, Behind::Overtake)), line(4, late(100, Behind::Wait)), line(6, Act::Lose)];
    network.links[0].directions[0].errors = ErrorSpec::Script(Arc::new(script));
    let outcome = run(&network, 1, Recording::On);
    assert!(outcome.report.flows[0].complete);
    let first = network.flows[0].iss[0].wrapping_add(1);
    let arrivals = outcome.trace.records.iter().filter_map(|record| match record.what {
        What::Received(packet) if record.point == 1 && packet.len > 0 => {
            Some((u64::from(packet.tcp()?.seq.0.wrapping_sub(first)) / mss, record.time))
        }
        _ => None,
    });
    let arrivals: Vec<_> = arrivals.collect();
    let order: Vec<u64> = arrivals.iter().map(|(segment, _)| *segment).collect();
    // 12 ms per segment: the second arrives 15 ms later, between the third and the fourth; the fifth delays all behind
    // it.
    assert_eq!(order, [0, 2, 1, 3, 4, 5, 7, 8, 9, 6]);
    let frame = Duration::from_micros((mss + 40) * 8);
    let at = |segment| arrivals.iter().find(|(number, _)| *number == segment).unwrap().1;
    let fourth = at(0) + frame * 4 + Duration::from_millis(100);
    assert_eq!([at(1), at(4), at(5), at(9)], [at(0) + frame + Duration::from_millis(15), fourth, fourth, fourth]);
}

/// Snoop above a link protocol: snoop repairs the losses that the protocol cannot, and the source retransmits nothing.
/// Two nested protocols deliver everything as well.
#[test]
fn elements_stand_in_a_chain() {
    let mut network = pair(TcpConfig::preset(Preset::Rfc), 200_000, QueueLimit::Packets(100));
    network.nodes.insert(1, node("base", NodeKind::Router));
    let mut lossy = network.links[0].clone();
    lossy.directions[0].errors = ErrorSpec::Uniform { frame_loss: 0.2, frames: Frames::All };
    network.links[0].ends = [NodeId(0), NodeId(1)];
    network.links.push(LinkSpec { ends: [NodeId(1), NodeId(2)], ..lossy });
    network.flows[0].to = NodeId(2);
    let at =
        |node, element: &Element| ElementSpec { node: NodeId(node), link: LinkId(1), element: element.clone().into() };
    let snoop = Element::Snoop(SnoopConfig::new(LocalDetection::DuplicateAcks, TcpAwareness::Aware));
    let protocol = |max_retransmissions| Element::Arq(ArqConfig { max_retransmissions, ..arq() });
    let weak = protocol(Some(1));
    let nested = [protocol(Some(0)), protocol(None)];
    for (elements, repairs) in [
        (vec![at(1, &snoop), at(1, &weak), at(2, &weak)], true),
        (vec![at(1, &nested[0]), at(1, &nested[1]), at(2, &nested[0]), at(2, &nested[1])], false),
    ] {
        network.elements = elements;
        let outcome = run(&network, 3, Recording::On);
        let flow = &outcome.report.flows[0];
        assert!(flow.complete && flow.received == 200_000, "{flow:?}");
        let cause = |cause: Cause| {
            let sent = outcome.trace.records.iter().filter(|record| record.point == 2);
            sent.filter(|record| matches!(record.what, What::Sent(packet) if packet.cause == cause)).count()
        };
        assert!(cause(Cause::LinkNack) + cause(Cause::LinkTimer) > 10);
        let local = cause(Cause::LocalDuplicate) + cause(Cause::LocalTimer);
        assert_eq!(local > 0, repairs, "{local}");
    }
}
