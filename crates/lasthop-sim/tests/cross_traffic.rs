//! Cross traffic: datagrams that share a link with a transfer and end behind it.
//!
//! A run without a record processes them without events (`datagrams.rs`); a run with one records each of them. Both
//! must have the same results.

use std::sync::Arc;

use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::delay::VariationSpec;
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::OnOffConfig;
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, FlowSpec, Impairments, LinkSpec, Medium, Network, NodeId, NodeKind, NodeSpec,
    QueueLimit, Rate,
};
use lasthop_sim::{Recording, run};
use proptest::prelude::*;

/// A server, an access point, a mobile host, and cross traffic from the server to the access point.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    bytes: u64,
    queue: QueueLimit,
    wired: Rate,
    wired_delay: Duration,
    wireless: Rate,
    loss: f64,
    start: Duration,
    source: OnOffConfig,
    limit: Duration,
}

fn plans() -> impl Strategy<Value = Plan> {
    let queue = prop_oneof![(0u32..60).prop_map(QueueLimit::Packets), (0u64..20_000).prop_map(QueueLimit::Bytes)];
    let milliseconds = |range: std::ops::Range<u64>| range.prop_map(Duration::from_millis);
    let source = (milliseconds(0..400), milliseconds(0..400), 1u32..1500, 100_000u64..12_000_000)
        .prop_map(|(on, off, bytes, rate)| OnOffConfig { start: Instant::ZERO, on, off, bytes, rate: Rate(rate) });
    let wired = (1_000_000u64..12_000_000).prop_map(Rate);
    let wireless = (64_000u64..4_000_000).prop_map(Rate);
    let times = (milliseconds(0..30), milliseconds(0..700), milliseconds(1..60_000));
    (any::<u64>(), 0u64..200_000, queue, wired, wireless, 0.0..0.1f64, source, times).prop_map(
        |(seed, bytes, queue, wired, wireless, loss, source, (wired_delay, start, limit))| Plan {
            seed,
            bytes,
            queue,
            wired,
            wired_delay,
            wireless,
            loss,
            start,
            source,
            limit,
        },
    )
}

fn build(plan: &Plan) -> Network {
    let tcp = Arc::new(TcpConfig::preset(Preset::Ns2));
    let flow = |name: &str, to: usize, app: App| FlowSpec {
        name: name.to_owned(),
        from: NodeId(0),
        to: NodeId(to),
        start: Instant::ZERO + plan.start,
        app,
        tcp: [tcp.clone(), tcp.clone()],
        iss: [0, 0],
        dscp: 0,
    };
    let link = |name: &str, ends: [usize; 2], rate: Rate, delay: Duration, errors: ErrorSpec| {
        let direction = || DirectionSpec {
            rate,
            queue: plan.queue.into(),
            errors: errors.clone(),
            damaged: DamagedFrames::Drop,
            variation: VariationSpec::NONE,
            impairments: Impairments::NONE,
        };
        LinkSpec {
            name: name.to_owned(),
            ends: ends.map(NodeId),
            medium: Medium::Duplex,
            delay,
            directions: [direction(), direction()],
        }
    };
    let node = |name: &str, kind| NodeSpec { name: name.to_owned(), kind };
    let errors = ErrorSpec::Uniform { frame_loss: plan.loss, frames: Frames::All };
    Network {
        nodes: vec![node("server", NodeKind::Host), node("base", NodeKind::Router), node("mobile", NodeKind::Host)],
        links: vec![
            link("wired", [0, 1], plan.wired, plan.wired_delay, ErrorSpec::None),
            link("wireless", [1, 2], plan.wireless, Duration::from_millis(5), errors),
        ],
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: vec![
            flow("udp", 1, App::OnOff(plan.source)),
            flow("file", 2, App::Transfer { bytes: plan.bytes, close: Switch::On }),
        ],
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + plan.limit,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_run_comes_to_the_same_whether_each_datagram_is_recorded_or_not(plan in plans()) {
        let network = build(&plan);
        let recorded = run(&network, plan.seed, Recording::On).report;
        prop_assert_eq!(run(&network, plan.seed, Recording::Off).report, recorded);
    }
}
