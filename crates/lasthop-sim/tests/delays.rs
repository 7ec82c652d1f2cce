//! Tests of links with varying delay: arrival times, order, and spurious timeouts.

use std::sync::Arc;

use lasthop_proto::channel::{Act, ErrorSpec, ScriptFrame, ScriptLine};
use lasthop_proto::delay::{DelaySpec, DelayStep, Order, Spread, VariationSpec};
use lasthop_proto::queue::{AckAwareConfig, QueueSpec};
use lasthop_proto::tcp::config::{Preset, Recovery, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::measure::Report;
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, Impairments, LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec,
    QueueLimit, Rate,
};
use lasthop_sim::trace::What;
use lasthop_sim::{Recording, run};

const BYTES: u64 = 300_000;

/// Returns a network of two hosts and one link of 1 Mbps and 10 ms, with the given errors and delay from the first to
/// the second host.
fn network(errors: ErrorSpec, variation: VariationSpec) -> Network {
    let tcp = Arc::new(TcpConfig::new(Preset::Rfc, Recovery::NEW_RENO));
    let direction = |errors, variation| DirectionSpec {
        rate: Rate(1_000_000),
        queue: QueueLimit::Packets(1000).into(),
        errors,
        damaged: DamagedFrames::Drop,
        variation,
        impairments: Impairments::NONE,
    };
    let node = |name: &str| NodeSpec { name: name.to_owned(), kind: NodeKind::Host };
    Network {
        nodes: vec![node("a"), node("b")],
        links: vec![LinkSpec {
            name: "wire".to_owned(),
            ends: [NodeId(0), NodeId(1)],
            medium: Medium::Duplex,
            delay: Duration::from_millis(10),
            directions: [direction(errors, variation), direction(ErrorSpec::None, VariationSpec::NONE)],
        }],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: vec![FlowSpec {
            name: "bulk".to_owned(),
            from: NodeId(0),
            to: NodeId(1),
            start: Instant::ZERO,
            app: App::Transfer { bytes: BYTES, close: Switch::On },
            tcp: [tcp.clone(), tcp],
            iss: [u32::MAX - 100_000, 7],
            dscp: 0,
        }],
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + Duration::from_secs(600),
    }
}

fn report(network: &Network) -> Report {
    let report = run(network, 1, Recording::Off).report;
    assert!(report.flows[0].complete && report.flows[0].received == BYTES);
    report
}

fn course(steps: &[(u64, u64)]) -> VariationSpec {
    let step = |(from, more): &(u64, u64)| DelayStep {
        from: Instant::ZERO + Duration::from_millis(*from),
        more: Duration::from_millis(*more),
    };
    VariationSpec::of(DelaySpec::Replay(Arc::new(steps.iter().map(step).collect())), Order::Kept)
}

/// Returns a script that loses the last segment: the timeout is genuine.
fn lost_tail() -> ErrorSpec {
    let frame = ScriptFrame::Byte { byte: BYTES - 1, transmission: 1 };
    ErrorSpec::Script(Arc::new(vec![ScriptLine { frame, act: Act::Lose, flow: None }]))
}

/// A spike of 1.9 s for a tenth of a second delays frames and those behind them: the timer of a second expires
/// spuriously.
#[test]
fn a_spike_makes_a_spurious_timeout_and_a_loss_a_true_one() {
    let spike = report(&network(ErrorSpec::None, course(&[(1000, 1900), (1100, 0)])));
    let sender = &spike.flows[0].sender;
    assert!(sender.timeouts > 0, "{sender:?}");
    assert_eq!((sender.spurious_timeouts, spike.flows[0].losses), (Some(sender.timeouts), 0));
    let loss = report(&network(lost_tail(), course(&[(0, 1)])));
    assert_eq!((loss.flows[0].sender.timeouts, loss.flows[0].sender.spurious_timeouts), (1, Some(0)));
    // Timeouts are not judged if delays are constant.
    let constant = report(&network(lost_tail(), VariationSpec::NONE));
    assert_eq!((constant.flows[0].sender.timeouts, constant.flows[0].sender.spurious_timeouts), (1, None));
}

/// Returns the numbers of the first host's segments in the order of arrival.
fn arrivals(order: Order) -> Vec<u32> {
    let jitter = VariationSpec::of(DelaySpec::Jitter(Spread::Uniform(Duration::from_millis(60))), order);
    let outcome = run(&network(ErrorSpec::None, jitter), 1, Recording::On);
    assert!(outcome.report.flows[0].complete);
    let number = |what: &What| match what {
        What::Received(packet) if packet.len > 0 => packet.tcp().map(|tcp| tcp.seq.0.wrapping_add(100_000)),
        _ => None,
    };
    outcome.trace.records.iter().filter(|record| record.point == 1).filter_map(|record| number(&record.what)).collect()
}

/// A stream with jitter of five transmission times arrives in order if order is kept, and is reordered otherwise.
#[test]
fn order_is_kept_or_not() {
    let kept = arrivals(Order::Kept);
    assert!(kept.len() > 200 && kept.is_sorted());
    assert!(!arrivals(Order::Free).is_sorted());
}

/// The acknowledgments have a hundredth of the rate. The filter removes most of them, each acknowledgment is either
/// carried or removed, and the download is faster.
#[test]
fn a_filter_lets_a_thin_return_path_carry_a_download() {
    let thin = |filter: Switch| {
        let mut network = network(ErrorSpec::None, VariationSpec::NONE);
        let [down, up] = &mut network.links[0].directions;
        (down.rate, up.rate) = (Rate(10_000_000), Rate(40_000));
        let limit = QueueLimit::Packets(50);
        up.queue = QueueSpec::AckAware(AckAwareConfig { limit, filter, first: Switch::Off });
        report(&network)
    };
    let [plain, filtered] = [thin(Switch::Off), thin(Switch::On)];
    assert_eq!(plain.links[0][1].filtered, 0);
    let up = filtered.links[0][1];
    assert!(up.filtered > 50 && up.queue_drops == 0, "{up:?}");
    assert!(filtered.flows[0].throughput() > 1.2 * plain.flows[0].throughput());
}
