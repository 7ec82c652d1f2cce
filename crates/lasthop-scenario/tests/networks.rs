//! Tests of the networks that result from scenarios and schemes.

use lasthop_proto::channel::{Act, Behind, Drop, DropFrame, ErrorSpec, Frames, ScriptFrame, ScriptLine};
use lasthop_proto::link::arq::{ArqConfig, Delivery, Protocol, Timer};
use lasthop_proto::link::hybrid::{RateRule, Repair, Reports, Share};
use lasthop_proto::packet::FlowId;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::{BaseStation, Family, LinkRepair, LocalDetection, SCHEMES, Scheme, TcpAwareness};
use lasthop_proto::tcp::config::{ClassicRecovery, Clock, DelayedAck, Growth, Nagle, Recovery, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::elements::{Arq, ElnMarker, QuicSnoop, SendingRate, Snoop, Split, Srp, TwoEnded};
use lasthop_scenario::{Scenario, builtin_names};
use lasthop_sim::network::{App, DamagedFrames, ElementSpec, LinkSpec, Medium, Network, NodeKind, QueueLimit, Rate};

const EVERYTHING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/everything.toml");

fn scheme(name: &str) -> &'static Scheme {
    Scheme::by_name(name).expect("a scheme")
}

fn network(scenario: &str, scheme_name: &str) -> Network {
    Scenario::builtin(scenario).unwrap().network(scheme(scheme_name)).unwrap()
}

/// Returns the network of the built-in LAN scenario with values set.
fn lan_with(values: &[(&str, &str)], scheme_name: &str) -> Network {
    Scenario::builtin("wavelan-lan").unwrap().with_overrides(values).unwrap().network(scheme(scheme_name)).unwrap()
}

/// Returns the time that a frame occupies the link.
fn airtime(link: &LinkSpec, direction: usize, bytes: u32) -> Duration {
    let overhead = match link.medium {
        Medium::Duplex | Medium::Wifi { .. } | Medium::Cell { .. } => Duration::ZERO,
        Medium::HalfDuplex { frame_overhead, .. } | Medium::Shared { frame_overhead, .. } => frame_overhead,
    };
    link.directions[direction].rate.time_for(bytes) + overhead
}

/// Three seconds of each: a tree, over which every scheme delivers something.
#[test]
fn every_ready_made_scenario_runs_under_every_scheme() {
    let runs = |name: &str, scheme: &Scheme| {
        let scenario = Scenario::builtin(name).unwrap().with_overrides(&[("limit", "3 s")]).unwrap();
        let network = scenario.network(scheme).unwrap();
        // One of the moving host's links is in use.
        let idle = network.mobility.as_ref().map_or(0, |mobility| mobility.stations.len() - 1);
        let idle = idle + network.side_links().len();
        assert_eq!(network.links.len() - idle + 1, network.nodes.len(), "{name}: a tree");
        let report = lasthop_sim::run(&network, 1, lasthop_sim::Recording::Off).report;
        let arrived: u64 = report.flows.iter().map(|flow| flow.received).sum();
        let browsed = report.sessions.iter().any(|session| session.web.reply_bytes > 0);
        assert!(arrived > 0 || browsed, "{name} under {}: nothing arrives", scheme.name);
    };
    // A minute and a half on one core, so it uses all threads of the machine.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let all = builtin_names().flat_map(|name| SCHEMES.iter().map(move |scheme| (name, scheme)));
            scope.spawn(move || all.skip(first).step_by(threads).for_each(|(name, scheme)| runs(name, scheme)));
        }
    });
}

#[test]
fn the_testbeds_have_the_round_trips_that_the_study_states() {
    for (scenario, millis) in [("wavelan-lan", 10), ("wavelan-lan-8k", 10), ("wavelan-wan", 135)] {
        let network = network(scenario, "E2E");
        let there_and_back =
            network.links.iter().map(|link| airtime(link, 0, 1440) + airtime(link, 1, 40) + link.delay * 2);
        let total = there_and_back.fold(Duration::ZERO, |sum, span| sum + span);
        let off = total.as_nanos().abs_diff(Duration::from_millis(millis).as_nanos());
        assert!(off < 1000, "{scenario}: {total}");
    }
}

/// The published rates are 1.5 Mbps in the LAN, with an acknowledgment for every second segment, and 1.35 in the WAN,
/// with one for each: equal to the printed digits.
#[test]
fn the_testbeds_have_the_bulk_rates_that_the_study_states() {
    let bulk_rate = |scenario, segments: u64| {
        let wireless = &network(scenario, "E2E").links[1];
        let cycle = airtime(wireless, 0, 1440) * segments + airtime(wireless, 1, 40);
        segments as f64 * 1400.0 * 8.0 / cycle.as_secs_f64() / 1e6
    };
    let (lan, wan) = (bulk_rate("wavelan-lan", 2), bulk_rate("wavelan-wan", 1));
    assert!((lan - 1.5).abs() < 0.05, "{lan}");
    assert!((wan - 1.35).abs() < 0.005, "{wan}");
}

#[test]
fn the_testbeds_differ_only_where_the_study_says() {
    let [lan, lan8, wan] = ["wavelan-lan", "wavelan-lan-8k", "wavelan-wan"].map(|name| network(name, "E2E"));
    assert_eq!(lan.flows[0].tcp[0].common.send_buffer, 32_768);
    assert_eq!(lan8.flows[0].tcp[1].receiver.receive_buffer, 8192);
    for network in [&lan, &lan8, &wan] {
        assert_eq!(network.links[1].directions, lan.links[1].directions);
        assert_eq!(network.links[1].medium, lan.links[1].medium);
        assert_eq!(network.flows[0].app, App::Transfer { bytes: 8 << 20, close: Switch::On });
        let errors = ErrorSpec::Exponential { mean_bytes: 65536.0, frames: Frames::All };
        assert!(network.links[1].directions.iter().all(|direction| direction.errors == errors));
        assert!(network.links[0].directions.iter().all(|direction| direction.errors == ErrorSpec::None));
    }
}

#[test]
fn the_peer_transfer_is_that_of_the_comparison_with_ns2() {
    let network = network("peer-transfer", "E2E");
    let [wired, wireless] = [&network.links[0], &network.links[1]];
    assert_eq!((wired.directions[0].rate, wired.delay), (Rate(10_000_000), Duration::from_micros(200)));
    assert_eq!((wireless.directions[0].rate, wireless.delay), (Rate(1_500_000), Duration::from_millis(1)));
    assert_eq!(wireless.directions[0].errors, ErrorSpec::Uniform { frame_loss: 0.0225, frames: Frames::Data });
    assert_eq!(wireless.directions[1].errors, ErrorSpec::None);
    let tcp = &network.flows[0].tcp[0];
    assert_eq!((tcp.common.send_buffer, tcp.common.mss), (23 * 1400, 1400));
    let App::Transfer { bytes, close: Switch::Off } = network.flows[0].app else { panic!("a transfer left open") };
    assert_eq!(bytes.div_ceil(1400), 5992);
}

#[test]
fn ten_thousand_flows_have_names_of_their_own() {
    let network = network("many-flows", "E2E");
    assert_eq!(network.flows.len(), 10_000);
    assert_eq!((&*network.flows[0].name, &*network.flows[9999].name), ("bulk#1", "bulk#10000"));
    assert_eq!(network.flows[1].start.since(network.flows[0].start), Duration::from_micros(10));
}

#[test]
fn schemes_decide_what_the_two_ends_run() {
    use ClassicRecovery::{Eln, ElnRxmt, NewReno, Reno, Sack, Smart};
    let expected = [
        ("E2E", [Reno, Reno], [Switch::Off, Switch::Off]),
        ("E2E-NEWRENO", [NewReno, NewReno], [Switch::Off, Switch::Off]),
        ("E2E-SMART", [Smart, Smart], [Switch::On, Switch::On]),
        ("E2E-IETF-SACK", [Sack, Sack], [Switch::Off, Switch::Off]),
        ("E2E-ELN", [Eln, Eln], [Switch::Off, Switch::Off]),
        ("E2E-ELN-RXMT", [ElnRxmt, ElnRxmt], [Switch::Off, Switch::Off]),
        ("LL", [Reno, Reno], [Switch::Off, Switch::Off]),
        ("LL-TCP-AWARE", [Reno, Reno], [Switch::Off, Switch::Off]),
        // Only the mobile's acknowledgments pass the base station's detector.
        ("LL-SMART", [Reno, Reno], [Switch::Off, Switch::On]),
        ("LL-SMART-TCP-AWARE", [Reno, Reno], [Switch::Off, Switch::On]),
        ("SPLIT", [Reno, Reno], [Switch::Off, Switch::Off]),
        // The mobile's peer is the relay.
        ("SPLIT-SMART", [Reno, Smart], [Switch::Off, Switch::On]),
    ];
    for (name, recovery, smart_acks) in expected {
        let network = network("wavelan-lan", name);
        assert_eq!(
            network.flows[0].tcp.each_ref().map(|tcp| tcp.sender.recovery()),
            recovery.map(Recovery::Classic),
            "{name}"
        );
        assert_eq!(network.flows[0].tcp.each_ref().map(|tcp| tcp.receiver.smart_acks), smart_acks, "{name}");
    }
}

#[test]
fn schemes_decide_what_the_base_station_does() {
    for scheme in &SCHEMES {
        let network = network("wavelan-lan", scheme.name);
        if scheme.family == Family::Modern {
            // Their parts there are the gateway's: tests/today.rs.
            let expected = match scheme.base_station {
                BaseStation::GatewaySnoop => 1,
                // The relay, and snoop beneath it.
                BaseStation::GatewaySplit { .. } => 2,
                _ => 0,
            };
            assert_eq!(network.elements.len(), expected, "{}", scheme.name);
            continue;
        }
        if let BaseStation::TwoEnded(repair) = scheme.base_station {
            let ends: Vec<_> = network.elements.iter().map(|spec| network.nodes[spec.node.0].name.as_str()).collect();
            assert_eq!(ends, ["base", "mobile"]);
            let expected = match repair {
                LinkRepair::Repeat => Repair::Repeat,
                // AIRMAIL's ends differ.
                LinkRepair::Adaptive | LinkRepair::Multipath | LinkRepair::Airmail => Repair::Adaptive,
                LinkRepair::Share => Repair::Share(Share { data: 20, coded: 3, wait: Duration::from_millis(8) }),
            };
            for (spec, reports) in network.elements.iter().zip([Reports::Periodic, Reports::OnEvent]) {
                let expected = if repair == LinkRepair::Airmail { Repair::Airmail(reports) } else { expected };
                let end: &TwoEnded = spec.element.get().expect("an end");
                assert_eq!(
                    (end.rate, end.header, end.queue, end.repair),
                    (SendingRate::SameAsLink, 58, None, expected),
                    "{}",
                    scheme.name
                );
            }
            continue;
        }
        if scheme.base_station == BaseStation::QuicSnoop {
            let [element] = &network.elements[..] else { panic!("one element under {}", scheme.name) };
            assert_eq!(element.element.get(), Some(&QuicSnoop::DEFAULT));
            assert_eq!(network.nodes[element.node.0].name, "base");
            continue;
        }
        if scheme.name.starts_with("E2E") || scheme.name.ends_with("/Raw") {
            assert!(network.elements.is_empty(), "{}", scheme.name);
            continue;
        }
        if scheme.name.ends_with("/SR") {
            // One end at the base station, the other at the mobile host.
            let ends: Vec<_> = network.elements.iter().map(|spec| network.nodes[spec.node.0].name.as_str()).collect();
            assert_eq!(ends, ["base", "mobile"]);
            let same = |spec: &ElementSpec| spec.element.get::<Arq>().is_some_and(|Arq(config)| config.window == 16);
            assert!(network.elements.iter().all(same));
            continue;
        }
        if scheme.base_station == BaseStation::SplitSrp {
            let ends: Vec<_> = network.elements.iter().map(|spec| network.nodes[spec.node.0].name.as_str()).collect();
            assert_eq!(ends, ["base", "mobile"]);
            let [base, mobile] = [0, 1].map(|end| network.elements[end].element.get::<Srp>().expect("an end"));
            assert_eq!(base.config, mobile.config);
            assert_eq!((base.config.window, base.config.header, base.config.buffer), (32, 40, 65_536));
            // There is no network between the mobile host's end and its TCP.
            assert_eq!((base.tcp.common.initial_window, mobile.tcp.common.initial_window), (1, 65_536 / 1400));
            continue;
        }
        let [element] = &network.elements[..] else { panic!("one element under {}", scheme.name) };
        assert_eq!(network.nodes[element.node.0].name, "base");
        assert_eq!(network.links[element.link.0].name, "wireless");
        if let Some(Snoop(config)) = element.element.get() {
            assert!(scheme.name.starts_with("LL"), "{}", scheme.name);
            assert_eq!(config.detection == LocalDetection::Smart, scheme.name.contains("SMART"));
            assert_eq!(config.awareness == TcpAwareness::Aware, scheme.name.contains("AWARE"));
            assert_eq!(config.timer_min, Duration::from_millis(200));
        } else {
            let Split { handover, wired, wireless, .. } = element.element.get().expect("a relay");
            assert!(scheme.name.starts_with("SPLIT"), "{}", scheme.name);
            assert_eq!(*handover, Handover::Shared(65_536));
            assert_eq!((wired.sender.recovery(), wired.receiver.smart_acks), (Recovery::RENO, Switch::Off));
            assert_eq!(wireless.sender.recovery() == Recovery::SMART, scheme.name == "SPLIT-SMART");
            assert_eq!(wireless.receiver.smart_acks.is_on(), scheme.name == "SPLIT-SMART");
        }
    }
}

#[test]
fn eln_comes_from_the_receiver_or_from_the_base_station() {
    let damaged = |network: &Network| network.links[1].directions.each_ref().map(|direction| direction.damaged);
    for name in ["E2E-ELN", "E2E-ELN-RXMT"] {
        let at_receiver = lan_with(&[], name);
        assert_eq!(damaged(&at_receiver), [DamagedFrames::Deliver; 2], "{name}");
        assert!(at_receiver.elements.is_empty());

        let at_base = lan_with(&[("eln_source", "base-station")], name);
        assert_eq!(damaged(&at_base), [DamagedFrames::Drop; 2], "{name}");
        assert!(at_base.elements[0].element.get::<ElnMarker>().is_some());
    }
    // Other schemes cannot use damaged frames or marks.
    for scheme in SCHEMES.iter().filter(|scheme| !scheme.name.contains("ELN")) {
        let network = lan_with(&[("eln_source", "base-station")], scheme.name);
        assert_eq!(damaged(&network), [DamagedFrames::Drop; 2], "{}", scheme.name);
        assert!(!network.elements.iter().any(|spec| spec.element.get::<ElnMarker>().is_some()));
    }
    // SACK and ELN coupled.
    let coupled = [("tcp.sack_eln", "on")];
    assert_eq!(damaged(&lan_with(&coupled, "E2E-IETF-SACK")), [DamagedFrames::Deliver; 2]);
    assert_eq!(damaged(&lan_with(&coupled, "E2E")), [DamagedFrames::Drop; 2]);
    // Explicit values of the scenario take precedence.
    let kept = lan_with(&[("links.wireless.damaged", "drop")], "E2E-ELN");
    assert_eq!(damaged(&kept), [DamagedFrames::Drop; 2]);
}

#[test]
fn recovery_can_be_given() {
    let both = lan_with(&[("tcp.recovery", "new-reno")], "E2E");
    assert!(both.flows[0].tcp.iter().all(|tcp| tcp.sender.recovery() == Recovery::NEW_RENO));
    let one = lan_with(&[("hosts.source.tcp.recovery", "sack")], "E2E");
    assert_eq!(one.flows[0].tcp.each_ref().map(|tcp| tcp.sender.recovery()), [Recovery::SACK, Recovery::RENO]);
}

#[test]
fn values_set_from_outside_need_no_quotes() {
    let network = lan_with(
        &[
            ("links.wireless.rate", "1.5 Mbps"),
            ("links.wireless.errors", "{ model = \"uniform\", frame_loss = \"1 %\" }"),
            ("links.wired.queue", "64 KiB"),
            ("tcp.socket_buffer", "8192"),
            ("tcp.timestamps", "on"),
            ("hosts.mobile.tcp.delayed_ack", "off"),
            ("flows.bulk.count", "3"),
        ],
        "E2E",
    );
    assert_eq!(network.links[1].directions.each_ref().map(|direction| direction.rate), [Rate(1_500_000); 2]);
    let uniform = ErrorSpec::Uniform { frame_loss: 0.01, frames: Frames::All };
    assert_eq!(network.links[1].directions[1].errors, uniform);
    assert_eq!(network.links[0].directions[0].queue, QueueLimit::Bytes(65_536).into());
    let [source, mobile] = &network.flows[2].tcp;
    assert_eq!((source.common.send_buffer, mobile.receiver.receive_buffer), (8192, 8192));
    assert!(source.common.timestamps.is_on() && mobile.common.timestamps.is_on());
    assert_eq!((source.receiver.delayed_ack, mobile.receiver.delayed_ack), (DelayedAck::WindowUpdate, DelayedAck::Off));
}

#[test]
fn values_set_later_win() {
    let scenario = Scenario::builtin("wavelan-lan").unwrap();
    let twice =
        scenario.with_overrides(&[("runs", "5")]).unwrap().with_overrides(&[("runs", "7"), ("seed", "2")]).unwrap();
    assert_eq!((twice.runs(), twice.seed()), (7, 2));
    assert_eq!(scenario.runs(), 30, "the original stays as it was");
}

#[test]
fn a_short_scenario_is_enough() {
    let text = r#"
        hosts = { a = {}, b = {} }
        flows.f = { from = "a", to = "b", size = "1 MiB" }
        [links.l]
        between = ["a", "b"]
        rate = "1 Mbps"
        delay = "10 ms"
    "#;
    let scenario = Scenario::parse("short.toml", text).unwrap();
    assert_eq!((scenario.title(), scenario.scheme().name, scenario.runs(), scenario.seed()), ("short", "E2E", 30, 1));
    let network = scenario.network(scenario.scheme()).unwrap();
    assert_eq!(network.limit, Instant::ZERO + Duration::from_secs(1000));
    assert_eq!(network.links[0].directions[1].queue, QueueLimit::Packets(50).into());
    assert_eq!(network.flows[0].tcp[0].sender.classic().unwrap().growth, Growth::Rfc5681, "preset rfc");
}

fn everything() -> Network {
    let scenario = Scenario::load(EVERYTHING).unwrap();
    scenario.network(scenario.scheme()).unwrap()
}

fn node(network: &Network, flow: usize, end: usize) -> (&TcpConfig, u32) {
    (&network.flows[flow].tcp[end], network.flows[flow].iss[end])
}

#[test]
fn nodes_and_flows_keep_the_order_of_the_file() {
    let network = everything();
    let names: Vec<_> = network.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["zulu", "alpha", "mike", "kilo", "left", "right"]);
    assert!(network.nodes.iter().skip(4).all(|node| node.kind == NodeKind::Router));
    let flows: Vec<_> = network.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(flows, ["first", "many#1", "many#2", "many#3", "pages", "upload"]);
    assert_eq!(network.flows[3].start, Instant::from_nanos(20_000_000));
    assert_eq!(network.flows[3].app, App::Idle);
    assert_eq!(network.flows[0].iss, [u32::MAX, 0]);
}

#[test]
fn a_host_inherits_what_it_does_not_say_itself() {
    let network = everything();
    let (zulu, iss) = node(&network, 0, 0);
    assert_eq!(iss, u32::MAX);
    assert_eq!((zulu.common.mss, zulu.common.send_buffer, zulu.receiver.receive_buffer), (1000, 32_000, 32_200));
    assert_eq!(zulu.common.clock, Clock::Ticks { slow: Duration::from_millis(250), fast: Duration::from_millis(100) });
    assert_eq!(zulu.receiver.delayed_ack, DelayedAck::EverySecond { timeout: Duration::from_millis(40) });
    assert_eq!(
        (zulu.common.initial_ssthresh, zulu.sender.classic().unwrap().smart_rtt),
        (Some(65_536), Some(Duration::from_millis(30)))
    );
    // Its own preset replaces the common settings.
    let (alpha, _) = node(&network, 0, 1);
    assert_eq!((alpha.common.mss, alpha.common.send_buffer, alpha.receiver.window_scale), (1400, 16_384, None));
    assert_eq!((alpha.sender.recovery(), alpha.receiver.smart_acks), (Recovery::ELN_RXMT, Switch::On));
    let (mike, _) = node(&network, 1, 1);
    assert_eq!((mike.common.mss, mike.common.send_buffer, mike.receiver.receive_buffer), (1000, 20_000, 10_240));
    assert_eq!((mike.common.initial_ssthresh, mike.receiver.window_scale), (None, Some(14)));
}

#[test]
fn error_models_are_read_per_direction() {
    let network = everything();
    let errors = |link: usize, direction: usize| network.links[link].directions[direction].errors.clone();
    let ErrorSpec::Replay { trace, .. } = errors(0, 0) else { panic!("a replay") };
    assert_eq!(*trace, [0, 0, 0, 1, 1, 1, 0, 0, 1].map(|lost| lost == 1));
    let fades = ErrorSpec::TwoStateTime {
        good: Duration::from_secs(10),
        bad: Duration::from_millis(100),
        good_ber: 1e-6,
        bad_ber: 0.01,
    };
    assert_eq!(errors(0, 1), fades);
    // Given in bits, and per direction.
    assert_eq!(errors(1, 0), ErrorSpec::Exponential { mean_bytes: 65536.0, frames: Frames::Acks });
    assert_eq!(errors(1, 1), ErrorSpec::Burst { mean_bytes: 1000.5, packets: 3, frames: Frames::All });
    let gilbert = ErrorSpec::TwoStatePacket {
        good_to_bad: 0.01,
        bad_to_good: 0.5,
        good_loss: 0.0,
        bad_loss: 0.9,
        frames: Frames::Data,
    };
    assert_eq!([errors(2, 0), errors(2, 1)], [gilbert.clone(), gilbert]);
    let ErrorSpec::List(drops) = errors(3, 0) else { panic!("a list") };
    let data = |segment, transmission| DropFrame::Data { segment, transmission };
    let expected =
        [(Some(0), data(17, 2)), (None, data(3, 1)), (Some(2), DropFrame::Ack(5)), (None, DropFrame::Syn(1))];
    assert_eq!(*drops, expected.map(|(flow, frame)| Drop { flow: flow.map(FlowId), frame }));
    let ErrorSpec::Script(lines) = errors(4, 1) else { panic!("a script") };
    let byte = |byte, transmission| ScriptFrame::Byte { byte, transmission };
    let late = |by, behind| Act::Late { by: Duration::from_millis(by), behind };
    let expected = [
        (Some(0), byte(14_600, 2), Act::Lose),
        (None, ScriptFrame::Syn(1), Act::Lose),
        (None, byte(0, 1), late(300, Behind::Wait)),
        (None, ScriptFrame::Ack(7), late(5, Behind::Overtake)),
        (None, byte(u64::MAX, 1), Act::Mark),
    ];
    assert_eq!(*lines, expected.map(|(flow, frame, act)| ScriptLine { flow: flow.map(FlowId), frame, act }));
}

#[test]
fn links_can_be_asymmetric() {
    let network = everything();
    let link = &network.links[1];
    assert_eq!(
        link.medium,
        Medium::HalfDuplex { frame_overhead: Duration::from_micros(1100), turnaround: Duration::ZERO }
    );
    assert_eq!(link.directions.each_ref().map(|direction| direction.rate), [Rate(2_500_000), Rate(64_000)]);
    let queues = link.directions.each_ref().map(|direction| direction.queue);
    assert_eq!(queues, [QueueLimit::Bytes(65_536).into(), QueueLimit::Packets(1).into()]);
}

/// A preset of digital cellular links: explicit keys take precedence, and `explain` states the origin of each value.
#[test]
fn a_link_protocol_has_presets() {
    let with = |keys: &[(&str, &str)]| {
        let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(keys).unwrap();
        let network = scenario.network(scheme("Reno/SR")).unwrap();
        let Arq(config) = network.elements[0].element.get().expect("a link protocol");
        (config.clone(), scenario.explain())
    };
    let (plain, text) = with(&[]);
    assert!(!text.contains("preset cdma") && !text.contains("arq.preset"));
    let (cdma, text) = with(&[("base_station.arq.preset", "cdma")]);
    assert_eq!((cdma.max_retransmissions, cdma.window, cdma.delivery), (Some(3), 128, Delivery::InOrder));
    assert_eq!(cdma.nack_again, Some(Duration::from_millis(200)));
    assert!(
        text.lines().any(|line| line.starts_with("max_retransmissions = 3") && line.ends_with("preset cdma")),
        "{text}"
    );
    assert_eq!(
        Scenario::parse("again", &text).unwrap().network(scheme("Reno/SR")).unwrap().elements[0].element.get(),
        Some(&Arq(cdma.clone()))
    );
    let (tdma, _) = with(&[("base_station.arq.preset", "tdma")]);
    let timer = Timer::Estimated { min: Duration::from_millis(480) };
    assert_eq!(tdma, ArqConfig { window: 61, timer, ..plain });
    let (other, _) = with(&[("base_station.arq.preset", "cdma"), ("base_station.arq.max_retransmissions", "1")]);
    assert_eq!(other, ArqConfig { max_retransmissions: Some(1), ..cdma });
    let error =
        Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("base_station.arq.preset", "umts")]).unwrap_err();
    assert!(
        error.to_string().contains("base_station.arq.preset") && error.to_string().contains("\"cdma\" or \"tdma\""),
        "{error}"
    );
}

/// The scenario's own link protocol is at both ends of its link, with its keys.
#[test]
fn a_link_protocol_has_two_ends() {
    let text = r#"
        [elements.arq]
        kind = "arq"
        router = "base"
        link = "wired"
        protocol = "go-back-n"
        window = 100
        header = 6
        timer = "estimated"
        timer_min = "50 ms"
        nack_again = "30 ms"
        max_retransmissions = 3
        delivery = "immediate"
        queue = 7
    "#;
    let text = Scenario::builtin_text("wavelan-lan").unwrap().to_owned() + text;
    let network = Scenario::parse("arq", &text).unwrap().network(&SCHEMES[0]).unwrap();
    let expected = ArqConfig {
        protocol: Protocol::GoBackN,
        window: 100,
        header: 6,
        timer: Timer::Estimated { min: Duration::from_millis(50) },
        nack_again: Some(Duration::from_millis(30)),
        max_retransmissions: Some(3),
        delivery: Delivery::Immediate,
        queue: 7,
    };
    let ends: Vec<_> = network.elements.iter().map(|spec| (spec.node, spec.link.0)).collect();
    assert_eq!(ends.len(), 2);
    for spec in &network.elements {
        assert_eq!(network.links[spec.link.0].name, "wired");
        assert_eq!(spec.element.get(), Some(&Arq(expected.clone())));
    }
}

/// Each end sends at the rate of its own direction, unless one is given; invalid keys are reported.
#[test]
fn the_keys_of_a_two_ended_link() {
    let with = |keys: &str| {
        let text = Scenario::builtin_text("wavelan-lan")
            .unwrap()
            .replace("[links.wired]", "[links.wired]\nrate_up = \"1 Mbps\"");
        let element = "[elements.tunnel]\nkind = \"two-ended\"\nrouter = \"base\"\nlink = \"wired\"";
        Scenario::parse("two", &format!("{text}\n{element}\n{keys}"))
    };
    let ends = |keys: &str| {
        let network = with(keys).unwrap().network(&SCHEMES[0]).unwrap();
        let end = |spec: &ElementSpec| {
            let end: &TwoEnded = spec.element.get().expect("an end");
            (
                network.nodes[spec.node.0].name.clone(),
                end.config(network.rate_from(spec.node, spec.link), &network.links[spec.link.0].medium),
            )
        };
        network.elements.iter().map(end).collect::<Vec<_>>()
    };
    for (name, config) in ends("") {
        let rate = if name == "base" { 1_000_000 } else { 10_000_000 };
        assert_eq!((config.rate, config.repair), (RateRule::Fixed(rate), Repair::Adaptive));
        assert_eq!((config.target, config.interval), (Duration::from_millis(40), Duration::from_millis(100)));
    }
    let keys = "rate = \"800 kbps\"\nheader = 32\nqueue = 50\nrepair = \"share\"\nshare_data = 10\nshare_coded = 2\nshare_wait = \"5 ms\"";
    let given = ends(keys);
    assert_eq!(given.len(), 2);
    for (_, config) in given {
        let share = Share { data: 10, coded: 2, wait: Duration::from_millis(5) };
        assert_eq!((config.rate, config.repair), (RateRule::Fixed(800_000), Repair::Share(share)));
        assert_eq!((config.header, config.queue), (32, Some(50)));
    }
    assert!(ends("rate = \"auto\"").into_iter().all(|(_, config)| config.rate == RateRule::Auto));
    assert_eq!(ends("rate = \"link\""), ends(""));
    for (keys, expected) in [
        ("rate = \"0 bps\"", "elements.tunnel.rate"),
        ("rate = \"atuo\"", "did you mean \"auto\"?"),
        ("repair = \"none\"", "elements.tunnel.repair"),
        ("share_data = 129", "elements.tunnel.share_data"),
        ("window = 16", "elements.tunnel.window"),
    ] {
        let error = with(keys).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn elements_sit_where_they_are_put() {
    let network = everything();
    let places: Vec<_> = network
        .elements
        .iter()
        .map(|spec| {
            let kind = spec.element.kind();
            (network.nodes[spec.node.0].name.as_str(), network.links[spec.link.0].name.as_str(), kind)
        })
        .collect();
    // The scheme's part at the base station, then the elements of the scenario.
    let expected =
        [("right", "c", "split"), ("left", "a", "eln-marker"), ("left", "d", "snoop"), ("right", "b", "split")];
    assert_eq!(places, expected);
    let Split { wired, wireless, handover, .. } = network.elements[0].element.get().expect("a relay");
    assert_eq!((*handover, wired.common.nagle, wireless.common.mss), (Handover::Shared(16_384), Nagle::Off, 1460));
    let Split { wired, wireless, .. } = network.elements[3].element.get().expect("a relay");
    assert_eq!((wired.sender.recovery(), wireless.sender.recovery()), (Recovery::RENO, Recovery::SACK));
    assert_eq!((wired.common.mss, wireless.common.mss), (1000, 500));
    // Beyond the relay of link b, seen from its router, is the other half of the network.
    assert_eq!(node(&network, 0, 0).0.sender.recovery(), Recovery::SACK, "zulu");
    assert_eq!(node(&network, 1, 0).0.sender.recovery(), Recovery::RENO, "kilo");
    assert!(node(&network, 1, 1).0.receiver.smart_acks.is_on(), "mike is beyond a cache that reads SMART numbers");
}

/// The base station's part is nearest to the router if a port has several elements, followed by those of the scenario
/// in the order of the file; a link protocol is at the link's other end too.
#[test]
fn elements_on_one_port_keep_their_order() {
    let element = |name: &str, kind: &str| {
        format!("[elements.{name}]\nkind = \"{kind}\"\nrouter = \"base\"\nlink = \"wireless\"\n")
    };
    let text = |elements: &[(&str, &str)]| {
        let elements: String = elements.iter().map(|(name, kind)| element(name, kind)).collect();
        format!("{}\n{elements}", Scenario::builtin_text("wavelan-lan").unwrap())
    };
    let places = |text: &str, scheme: &str| {
        let network = Scenario::parse("chain", text).unwrap().network(Scheme::by_name(scheme).unwrap()).unwrap();
        let place = |spec: &ElementSpec| (network.nodes[spec.node.0].name.clone(), spec.element.kind());
        network.elements.iter().map(place).collect::<Vec<_>>()
    };
    let place = |node: &str, kind| (node.to_owned(), kind);
    let chain = text(&[("z", "eln-marker"), ("a", "arq")]);
    let under_snoop = [("base", "snoop"), ("base", "eln-marker"), ("base", "arq"), ("mobile", "arq")];
    assert_eq!(places(&chain, "LL-TCP-AWARE"), under_snoop.map(|(node, kind)| place(node, kind)));
    assert_eq!(
        places(&chain, "E2E"),
        under_snoop[1..].iter().map(|(node, kind)| place(node, kind)).collect::<Vec<_>>()
    );
    let eln = format!("eln_source = \"base-station\"\n{}", text(&[("link", "arq")]));
    assert_eq!(places(&eln, "E2E-ELN")[..2], [place("base", "eln-marker"), place("base", "arq")]);
    // Two nested link protocols, but not three.
    Scenario::parse("chain", &text(&[("a", "arq"), ("b", "arq")])).unwrap();
    let error = Scenario::parse("chain", &text(&[("a", "arq"), ("b", "arq"), ("c", "arq")])).unwrap_err().to_string();
    assert!(error.contains("elements.c.link: wireless already has the maximum of 2 link protocols"), "{error}");
}
