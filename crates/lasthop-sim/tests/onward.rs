//! Tests that a recorded run, with an event for each frame and link, and an unrecorded run, which may use fewer, have
//! the same results.

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

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Rates in bit/s, towards the last host and back.
    rates: [u64; 2],
    delay: Duration,
    /// Queue limit in packets.
    queue: u32,
    loss: f64,
}

/// A chain of routers with a host at each end, and its traffic.
#[derive(Clone, Debug)]
struct Plan {
    links: Vec<Link>,
    /// Start and bytes of each flow, and whether it goes towards the last host.
    flows: Vec<(Duration, u64, bool)>,
    preset: Preset,
    limit: Duration,
    seed: u64,
}

fn links() -> impl Strategy<Value = Link> {
    // Rates with a common multiple, so that frames arrive at the same time.
    let rate = || prop::sample::select(vec![1_000_000, 2_000_000, 8_000_000, 1_000_000_000]);
    let delay = prop::sample::select(vec![0, 1, 1_000, 480_000, 1_000_000, 40_000_000]).prop_map(Duration::from_nanos);
    let loss = prop_oneof![3 => Just(0.0), 1 => 0.0..0.05f64];
    ([rate(), rate()], delay, prop::sample::select(vec![1, 2, 5, 50]), loss)
        .prop_map(|(rates, delay, queue, loss)| Link { rates, delay, queue, loss })
}

fn plans() -> impl Strategy<Value = Plan> {
    let flow = (0u64..200, 1u64..300_000, any::<bool>())
        .prop_map(|(start, bytes, down)| (Duration::from_millis(start), bytes, down));
    let preset = prop::sample::select(vec![Preset::Ns2, Preset::Rfc, Preset::BsdLite, Preset::Linux618]);
    let limit = prop_oneof![(1u64..3_000).prop_map(Duration::from_millis), Just(Duration::from_secs(10_000))];
    (prop::collection::vec(links(), 2..6), prop::collection::vec(flow, 1..4), preset, limit, any::<u64>())
        .prop_map(|(links, flows, preset, limit, seed)| Plan { links, flows, preset, limit, seed })
}

fn build(plan: &Plan) -> Network {
    let tcp = Arc::new(TcpConfig::preset(plan.preset));
    let last = plan.links.len();
    let node = |index: usize| NodeSpec {
        name: format!("n{index}"),
        kind: if index == 0 || index == last { NodeKind::Host } else { NodeKind::Router },
    };
    let link = |(index, link): (usize, &Link)| LinkSpec {
        name: format!("link{index}"),
        ends: [NodeId(index), NodeId(index + 1)],
        medium: Medium::Duplex,
        delay: link.delay,
        directions: link.rates.map(|rate| DirectionSpec {
            rate: Rate(rate),
            queue: QueueLimit::Packets(link.queue).into(),
            errors: match link.loss {
                0.0 => ErrorSpec::None,
                frame_loss => ErrorSpec::Uniform { frame_loss, frames: Frames::All },
            },
            damaged: DamagedFrames::Drop,
            variation: VariationSpec::NONE,
            impairments: Impairments::NONE,
        }),
    };
    let flow = |(index, &(start, bytes, down)): (usize, &(Duration, u64, bool))| FlowSpec {
        name: format!("flow{index}"),
        from: NodeId(if down { 0 } else { last }),
        to: NodeId(if down { last } else { 0 }),
        start: Instant::ZERO + start,
        app: App::Transfer { bytes, close: if index % 2 == 0 { Switch::On } else { Switch::Off } },
        tcp: [tcp.clone(), tcp.clone()],
        iss: [0, 0],
        dscp: 0,
    };
    Network {
        nodes: (0..=last).map(node).collect(),
        links: plan.links.iter().enumerate().map(link).collect(),
        bundles: Vec::new(),
        elements: Vec::new(),
        flows: plan.flows.iter().enumerate().map(flow).collect(),
        sessions: Vec::new(),
        mobility: None,
        limit: Instant::ZERO + plan.limit,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Chains of links with short queues, flows in both directions that meet at the same times, and limits in the
    /// middle of the transfers: all counts are equal.
    #[test]
    fn a_run_counts_the_same_whether_or_not_it_is_recorded(plan in plans()) {
        let network = build(&plan);
        let recorded = run(&network, plan.seed, Recording::On).report;
        prop_assert_eq!(run(&network, plan.seed, Recording::Off).report, recorded);
    }
}

/// Datagrams cross a router of two links every 70 us while a transfer ends, starting at each of the 700 possible
/// phases. Of those that reach the router just as the run ends, one is counted if its link's turn precedes that of the
/// last event.
#[test]
fn what_comes_to_a_router_as_the_run_ends_is_counted_in_its_turn() {
    let micros = Duration::from_micros;
    let link = Link { rates: [80_000_000; 2], delay: micros(100), queue: 50, loss: 0.0 };
    let plan = Plan {
        links: vec![link; 2],
        flows: vec![(Duration::ZERO, 10_000, true), (Duration::ZERO, 0, true)],
        preset: Preset::Ns2,
        limit: Duration::from_secs(10),
        seed: 1,
    };
    let mut network = build(&plan);
    for ends in [[0, 2], [2, 0]] {
        let datagrams = &mut network.flows[1];
        [datagrams.from, datagrams.to] = ends.map(NodeId);
        for tenths in 0..700 {
            let (start, rate) = (Instant::ZERO + Duration::from_nanos(100 * tenths), Rate(4_000_000));
            network.flows[1].start = start;
            let source = OnOffConfig { start, on: Duration::from_secs(100), off: Duration::ZERO, bytes: 35, rate };
            network.flows[1].app = App::OnOff(source);
            let recorded = run(&network, 1, Recording::On).report;
            assert_eq!(run(&network, 1, Recording::Off).report, recorded, "{ends:?}, {start}");
        }
    }
}
