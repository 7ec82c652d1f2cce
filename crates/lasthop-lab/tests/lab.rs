//! Tests of the lab in real network namespaces. Need root; otherwise they print a message and pass.

use crate::quiet;

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lasthop_lab::capture::Passage;
use lasthop_lab::plan::HostTcp;
use lasthop_lab::{Captures, Experiment, LabError, Outcome, Watch, namespace, run};
use lasthop_proto::packet::{Body, FlowId, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time;
use lasthop_scenario::Scenario;
use lasthop_sim::link::{Crossing, Direction, DuplexDirection, Errors};
use lasthop_sim::measure::Report;
use lasthop_sim::pool::PacketPool;
use lasthop_sim::sim::{Recording, run as simulate};
use lasthop_sim::trace::DropReason;
use quiet::Quiet;

const SEED: u64 = 7;

/// Returns a transfer of `size` over two links; `lines` adds other settings.
fn scenario(size: &str, wireless: &str, lines: &str) -> Scenario {
    Scenario::parse("test.toml", &scenario_text(size, wireless, lines)).unwrap()
}

fn scenario_text(size: &str, wireless: &str, lines: &str) -> String {
    format!(
        r#"
limit = "60 s"
[tcp]
preset = "bsd-lite"
[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "50 Mbps"
delay = "1 ms"
[links.wireless]
between = ["base", "mobile"]
rate = "8 Mbps"
delay = "2 ms"
{wireless}
[flows.bulk]
from = "source"
to = "mobile"
size = "{size}"
[base_station]
router = "base"
link = "wireless"
[lab]
# Other tests and builds may run beside this.
lateness = "100 ms"
{lines}
"#
    )
}

fn try_run(scenario: &Scenario, scheme: &str, watch: &dyn Watch) -> Result<Outcome, LabError> {
    let scheme = Scheme::by_name(scheme).unwrap();
    let network = scenario.network(scheme).unwrap();
    let captures = Captures::On;
    run(&Experiment { network: &network, scheme, lab: scenario.lab(), seed: SEED, captures }, watch)
}

fn ours() -> Vec<namespace::Leftover> {
    namespace::all().into_iter().filter(|other| other.pid == std::process::id()).collect()
}

#[test]
#[ignore = "needs root: make root"]
fn a_clean_link_gives_its_rate_and_nothing_is_left() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let outcome = try_run(&scenario("2 MiB", "", ""), "E2E", &Quiet).unwrap();
    let flow = &outcome.report.flows[0];
    assert!(flow.complete && !flow.aborted);
    assert_eq!(flow.received, 2 << 20);
    let optimum = 8e6 * 1400.0 / 1440.0;
    let share = flow.throughput() / optimum;
    // On a busy machine, frames are late and windows wait.
    assert!((0.75..=1.001).contains(&share), "{share} of the optimum");
    let [down, up] = outcome.report.links[1];
    assert_eq!((down.channel_drops, down.queue_drops, up.channel_drops), (0, 0, 0));
    assert_eq!(down.goodput(), Some(1.0));
    assert!(up.frames > 300, "acknowledgments: {}", up.frames);
    // Each data segment crosses two links, and so does each acknowledgment.
    assert!(outcome.lateness.frames() >= 2 * (1498 + 300), "{}", outcome.lateness.frames());
    assert_eq!(ours(), []);
}

/// Returns the packet of a captured frame, whose payload is not kept.
fn packet(headers: &[u8]) -> Packet {
    let mut bytes = headers[14..].to_vec();
    bytes.resize(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), 0);
    let view = lasthop_wire::parse(&bytes).unwrap();
    let initiator = view.route.source.ip() == Ipv4Addr::new(10, 0, 0, 1);
    Packet {
        flow: FlowId(0),
        from: if initiator { Side::Initiator } else { Side::Acceptor },
        header_len: view.header_len as u16,
        len: view.payload_len as u32,
        ecn: view.ecn,
        body: Body::Tcp(view.segment),
        ..Packet::default()
    }
}

#[test]
#[ignore = "needs root: make root"]
fn the_channel_drops_what_the_simulators_drops() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let errors = r#"errors_down = { model = "list", drop = [
        { data = 5 }, { data = 40 }, { data = 40, transmission = 2 }, { data = 90 }, { syn = 1 } ] }
        errors_up = { model = "list", drop = [{ ack = 3 }] }"#;
    let scenario = scenario("256 KiB", errors, "");
    let outcome = try_run(&scenario, "E2E", &Quiet).unwrap();
    let report = &outcome.report.flows[0];
    assert!(report.complete);
    assert_eq!(report.losses, 3, "data = 40 is one segment");
    assert!(report.sender.source_retransmissions >= 4, "{:?}", report.sender);
    assert!(report.sender.timeouts >= 1, "the SYN and a lost retransmission take a timeout: {:?}", report.sender);
    let network = scenario.network(Scheme::by_name("E2E").unwrap()).unwrap();
    let capture = outcome.capture.unwrap();
    let mut data_drops = Vec::new();
    for (point, direction) in [(2, Direction::Down), (3, Direction::Up)] {
        let mut channel = Errors::new(&network.links[1], direction, Root(SEED));
        let sent = capture.passages().filter(|(passage, _)| passage.point == point && passage.outbound);
        let mut drops = 0;
        for (Passage { dropped, .. }, headers) in sent {
            let mut pool = PacketPool::default();
            *pool.place() = packet(headers);
            let mut link = DuplexDirection::new(&network.links[1].directions[0], time::Duration::ZERO).unwrap();
            let frame = pool.commit(0);
            link.enqueue(time::Instant::ZERO, frame);
            let (sent, _) = link.arrive(time::Instant::ZERO);
            let spared = channel.judge(&sent.unwrap(), pool.get_mut(frame.handle())) == Crossing::Arrives;
            assert_eq!(dropped, (!spared).then_some(DropReason::Channel));
            drops += u64::from(!spared);
            if !spared && frame.payload() > 0 {
                data_drops.push(pool.get(frame.handle()).tcp().unwrap().seq.0);
            }
        }
        assert_eq!(drops, outcome.report.links[1][direction.index()].channel_drops);
        assert_eq!(drops, [5, 1][direction.index()]);
    }
    assert_eq!(data_drops[1], data_drops[2]);
    assert_eq!(data_drops[1].wrapping_sub(data_drops[0]), 35 * 1400);
    let mut file = Vec::new();
    capture.write(&mut file).unwrap();
    let comments = file.windows(16).filter(|text| text == b"dropped: channel").count();
    assert_eq!(comments, 6);
}

#[test]
#[ignore = "needs root: make root"]
fn a_half_duplex_link_carries_one_frame_at_a_time() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let wireless = "medium = \"half-duplex\"\nframe_overhead = \"500 us\"";
    let back = "[flows.back]\nfrom = \"mobile\"\nto = \"source\"\nsize = \"500 KiB\"";
    let outcome = try_run(&scenario("500 KiB", wireless, back), "E2E", &Quiet).unwrap();
    assert!(outcome.report.flows.iter().all(|flow| flow.complete));
    let capture = outcome.capture.unwrap();
    let arrivals = capture.passages().filter(|(passage, _)| passage.point >= 2 && !passage.outbound);
    let arrivals: Vec<_> = arrivals.map(|(passage, headers)| (passage, packet(headers).wire_len())).collect();
    let mut turns = 0;
    for pair in arrivals.windows(2) {
        let [(first, _), (second, bytes)] = [&pair[0], &pair[1]];
        let gap = second.time.since(first.time).as_nanos();
        let air = 500_000 + u64::from(*bytes) * 1000;
        assert!(gap >= air, "{bytes} bytes on the air for {gap} ns");
        turns += u32::from(first.point != second.point);
    }
    // Both ends have data nearly all the time.
    let share = f64::from(turns) / arrivals.len() as f64;
    assert!(share > 0.6, "{share} of {} frames change the direction", arrivals.len());
    let rates = outcome.report.flows.iter().map(|flow| flow.throughput()).sum::<f64>();
    assert!(rates < 8e6 * 1400.0 / 1440.0, "{rates}");
}

#[test]
#[ignore = "needs root: make root"]
fn a_transfer_without_a_fin_and_one_that_nobody_hears() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let open = scenario("20 KiB", "", "").with_overrides(&[("flows.bulk.close", "off")]).unwrap();
    let outcome = try_run(&open, "E2E", &Quiet).unwrap();
    let flow = &outcome.report.flows[0];
    assert!(flow.complete && flow.received == 20 << 10, "{flow:?}");
    // No data arrives: the run ends at the limit, and reports it.
    let errors = "errors = { model = \"uniform\", frame_loss = \"100 %\" }";
    let deaf = scenario("20 KiB", errors, "").with_overrides(&[("limit", "2 s")]).unwrap();
    let begun = Instant::now();
    let outcome = try_run(&deaf, "E2E", &Quiet).unwrap();
    let flow = &outcome.report.flows[0];
    assert!(!flow.complete && flow.received == 0 && flow.throughput() == 0.0, "{flow:?}");
    assert!(outcome.report.links[1][0].channel_drops >= 1);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn an_error_leaves_nothing_behind() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let error = try_run(&scenario("1 MiB", "", "congestion = \"none-such\""), "E2E", &Quiet).err().unwrap().to_string();
    assert!(error.starts_with("lab.congestion: this kernel has no \"none-such\""), "{error}");
    assert!(error.contains("reno"), "{error}");
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn who_wants_to_stop_is_heard_and_nothing_is_left() {
    struct Soon(Instant);
    impl Watch for Soon {
        fn stopped(&self) -> bool {
            self.0.elapsed() > Duration::from_secs(1)
        }
        fn progress(&self, _: u64, _: u64) {}
        fn void(&self, _: &str) {}
    }
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let begun = Instant::now();
    let outcome = try_run(&scenario("100 MiB", "", ""), "E2E", &Soon(begun));
    assert!(matches!(outcome, Err(LabError::Stopped)));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn a_panic_leaves_nothing_behind() {
    struct Clumsy;
    impl Watch for Clumsy {
        fn stopped(&self) -> bool {
            false
        }
        fn progress(&self, received: u64, _: u64) {
            assert!(received < 10_000, "on purpose");
        }
        fn void(&self, _: &str) {}
    }
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let outcome = std::panic::catch_unwind(|| try_run(&scenario("100 MiB", "", ""), "E2E", &Clumsy).map(drop));
    assert!(outcome.is_err());
    assert_eq!(ours(), []);
}

/// Variable that makes the next test a part of the one after it.
const KILLED: &str = "LASTHOP_LAB_TO_KILL";

/// Runs in a process of its own that the next test kills.
#[test]
#[ignore = "a part of what_a_killed_lab_leaves_is_cleaned"]
fn a_lab_to_kill() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    let _ = try_run(&scenario("100 MiB", "", "hosts.mobile.endpoints = \"own\""), "E2E", &Quiet);
}

#[test]
#[ignore = "needs root: make root"]
fn what_a_killed_lab_leaves_is_cleaned() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let mut lab = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lab::a_lab_to_kill", "--ignored"])
        .env(KILLED, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let of_lab = |leftovers: Vec<namespace::Leftover>| leftovers.iter().filter(|left| left.pid == lab.id()).count();
    let begun = Instant::now();
    // Three nodes, and the links.
    while of_lab(namespace::all()) < 4 && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (made, left_before) = (of_lab(namespace::all()), of_lab(namespace::leftovers()));
    let pid = lab.id();
    lab.kill().unwrap();
    lab.wait().unwrap();
    let of_lab = |leftovers: Vec<namespace::Leftover>| leftovers.iter().filter(|left| left.pid == pid).count();
    assert_eq!((made, left_before), (4, 0));
    assert_eq!(of_lab(namespace::leftovers()), 4);
    assert_eq!(of_lab(namespace::clean().unwrap()), 4);
    assert_eq!(of_lab(namespace::all()), 0);
}

/// Errors in payloads only: lost to a kernel, signalled by a receiver that supports ELN.
const CORRUPTING: &str = "errors_down = { model = \"exponential\", mean_bytes = \"40 KB\" }";

fn same_hosts(outcome: &Outcome, source: HostTcp, mobile: HostTcp) {
    let ends = outcome.ends.iter().filter(|(name, _)| name != "base");
    assert_eq!(ends.cloned().collect::<Vec<_>>(), [("source".to_owned(), source), ("mobile".to_owned(), mobile)]);
}

#[test]
#[ignore = "needs root: make root"]
fn our_tcp_and_the_kernels_over_a_lossy_link() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let errors = "errors = { model = \"uniform\", frame_loss = \"2 %\" }";
    // Modern timers, which are short; SACK needs support at both ends.
    let lines = "[tcp]\npreset = \"rfc\"";
    let scenario = |own: &str| {
        let text = scenario_text("300 KiB", errors, &format!("hosts.{own}.endpoints = \"own\""));
        Scenario::parse("test.toml", &text.replace("[tcp]\npreset = \"bsd-lite\"", lines)).unwrap()
    };
    for (own, source, mobile) in [("source", HostTcp::Own, HostTcp::Kernel), ("mobile", HostTcp::Kernel, HostTcp::Own)]
    {
        for scheme in ["E2E-IETF-SACK", "E2E-NEWRENO"] {
            let outcome = try_run(&scenario(own), scheme, &Quiet).unwrap();
            let flow = &outcome.report.flows[0];
            same_hosts(&outcome, source, mobile);
            assert!(flow.complete && !flow.aborted && flow.received == 300 << 10, "{scheme} with own {own}: {flow:?}");
            assert!(flow.losses > 0 && flow.sender.source_retransmissions >= flow.losses, "{scheme}: {flow:?}");
        }
    }
    assert_eq!(ours(), []);
}

/// Returns the outbound packets at a point, as the mechanisms see them.
fn sent(outcome: &Outcome, point: usize) -> Vec<Packet> {
    let passages = outcome.capture.as_ref().unwrap().passages();
    passages.filter(|(passage, _)| passage.point == point && passage.outbound).map(|(_, bytes)| packet(bytes)).collect()
}

/// The simulator and the lab share the code at the ends and on the links, which lose the same segments.
#[test]
#[ignore = "needs root: make root"]
fn smart_on_real_packets_does_as_in_the_simulator() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let errors = "errors_down = { model = \"list\", drop = [{ data = 30 }, { data = 31 }, { data = 90 }] }";
    let scenario = scenario("256 KiB", errors, "");
    let scheme = Scheme::by_name("E2E-SMART").unwrap();
    let outcome = try_run(&scenario, scheme.name, &Quiet).unwrap();
    same_hosts(&outcome, HostTcp::Own, HostTcp::Own);
    let network = scenario.network(scheme).unwrap();
    let simulated = simulate(&network, SEED, Recording::Off).report;
    let counts = |report: &Report| {
        let flow = &report.flows[0];
        (flow.complete, flow.received, flow.losses, flow.sender.source_retransmissions, flow.sender.timeouts)
    };
    assert_eq!(counts(&outcome.report), counts(&simulated));
    assert_eq!(counts(&simulated), (true, 256 << 10, 3, 3, 0));
    let acks = sent(&outcome, 3);
    assert!(acks.iter().any(|ack| ack.tcp().is_some_and(|segment| segment.options.smart.is_some())));
    // Full segments in spite of the option.
    assert!(sent(&outcome, 0).iter().any(|data| data.len == 1400));
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn eln_is_marked_by_the_receiver_or_by_the_base_station() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let is_marked = |ack: &&Packet| ack.tcp().is_some_and(|segment| segment.options.eln);
    let marks = |outcome: &Outcome, point| sent(outcome, point).iter().filter(is_marked).count();
    for (marker, at_mobile) in [("receiver", true), ("base-station", false)] {
        let scenario = scenario("300 KiB", CORRUPTING, "").with_overrides(&[("eln_source", marker)]).unwrap();
        let outcome = try_run(&scenario, "E2E-ELN-RXMT", &Quiet).unwrap();
        let flow = &outcome.report.flows[0];
        assert!(flow.complete && flow.sender.source_retransmissions > 0, "{marker}: {flow:?}");
        same_hosts(&outcome, HostTcp::Own, HostTcp::Own);
        // Ends of the wireless link at the mobile host, and of the wired one at the base station.
        let (mobile, base) = (marks(&outcome, 3), marks(&outcome, 1));
        assert_eq!((mobile > 0, base > 0), (at_mobile, true), "{marker}: {mobile} and {base} marks");
    }
    assert_eq!(ours(), []);
}

/// The base station terminates the kernel's connection and opens one with SMART, which no kernel supports, to the
/// mobile host. Data flows in both directions, and the source does not notice losses of the hop.
#[test]
#[ignore = "needs root: make root"]
fn a_relay_with_smart_between_a_kernel_and_our_host() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let errors = "errors_down = { model = \"list\", drop = [{ data = 30 }, { data = 31 }, { data = 90 }] }";
    let back = "[flows.back]\nfrom = \"mobile\"\nto = \"source\"\nsize = \"100 KiB\"";
    let outcome = try_run(&scenario("256 KiB", errors, back), "SPLIT-SMART", &Quiet).unwrap();
    same_hosts(&outcome, HostTcp::Kernel, HostTcp::Own);
    assert_eq!(outcome.ends[2], ("base".to_owned(), HostTcp::Own));
    let [bulk, back] = &outcome.report.flows[..] else { panic!("two flows") };
    assert!(bulk.complete && back.complete, "{bulk:?} {back:?}");
    assert_eq!((bulk.received, back.received), (256 << 10, 100 << 10));
    // The list counts the data segments of all flows in the down direction, where only one flow has data.
    assert_eq!((bulk.losses, bulk.repaired_locally, bulk.repaired_twice), (3, 3, 0), "{bulk:?}");
    assert_eq!((bulk.sender.local_retransmissions, bulk.sender.source_retransmissions), (3, 0), "{bulk:?}");
    assert_eq!((back.sender.local_retransmissions, back.sender.source_retransmissions), (0, 0), "{back:?}");
    assert!(bulk.sender.recoveries >= 1 && bulk.sender.timeouts == 0, "{bulk:?}");
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn many_flows_each_way_between_two_of_our_hosts() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let flows = "endpoints = \"own\"\n[flows.back]\nfrom = \"mobile\"\nto = \"source\"\nsize = \"40 KiB\"\ncount = 20\n\
                 [flows.open]\nfrom = \"source\"\nto = \"mobile\"\nsize = \"30 KiB\"\nclose = \"off\"\nstart = \"500 ms\"";
    let outcome = try_run(&scenario("200 KiB", "", flows), "E2E", &Quiet).unwrap();
    let flows = &outcome.report.flows;
    assert!(flows.len() == 22 && flows.iter().all(|flow| flow.complete), "{flows:?}");
    assert_eq!(flows.iter().map(|flow| flow.received).sum::<u64>(), (200 + 20 * 40 + 30) << 10);
    assert!(flows[21].start >= time::Instant::from_nanos(500_000_000));
    assert_eq!(ours(), []);
}

/// Each link scheme on real packets: the hop repairs its losses, and a kernel's sender does not notice.
/// docs/models/two-ended-link.md compares the throughput with the simulator's, on a machine that does nothing else.
#[test]
#[ignore = "needs root: make root"]
fn link_schemes_repair_real_packets() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let errors = "errors = { model = \"uniform\", frame_loss = \"5 %\" }";
    let text = scenario_text("1 MiB", errors, "").replace("preset = \"bsd-lite\"", "preset = \"linux-6.18\"");
    let lossy = Scenario::parse("test.toml", &text).unwrap();
    for scheme in ["Reno/SR", "LINK-ARQ", "LINK-HYBRID", "LINK-FEC"] {
        let run = || try_run(&lossy, scheme, &Quiet).unwrap();
        let mut outcome = run();
        let restores = |outcome: &Outcome| {
            let flow = &outcome.report.flows[0];
            flow.sender.source_retransmissions < flow.losses
        };
        // A sender on a busy machine retransmits data that was only late: three attempts, each with the same criterion.
        for _ in 0..2 {
            if scheme == "LINK-FEC" && !restores(&outcome) {
                outcome = run();
            }
        }
        let flow = &outcome.report.flows[0];
        assert!(flow.complete && !flow.aborted && flow.received == 1 << 20, "{scheme}: {flow:?}");
        assert!(flow.losses > 10, "{scheme}: {flow:?}");
        if scheme == "LINK-FEC" {
            // It retransmits nothing. Losses without a retransmission by the source were restored from combinations:
            // correctly, since the transfer is complete.
            assert!(flow.repaired_locally == 0 && restores(&outcome), "{flow:?}");
        } else {
            assert!(flow.repaired_locally > flow.losses / 2, "{scheme}: {flow:?}");
        }
    }
    assert_eq!(ours(), []);
}

#[test]
#[ignore = "needs root: make root"]
fn what_the_lab_cannot_do_is_said() {
    // Also works without root.
    let _turn = namespace::require_root().is_ok().then(|| quiet::turn("the lab's tests with namespaces"));
    let kernel = scenario("1 MiB", "", "endpoints = \"kernel\"");
    let message = try_run(&kernel, "E2E-SMART", &Quiet).err().unwrap().to_string();
    assert!(
        message.contains("E2E-SMART requires at source a feature that no kernel has (SMART recovery)"),
        "{message}"
    );
    let relay = scenario("1 MiB", "", "endpoints = \"kernel\"\nhosts.mobile.endpoints = \"own\"");
    let message = try_run(&relay, "SPLIT-SMART", &Quiet).err().unwrap().to_string();
    assert!(message.contains("SPLIT-SMART requires at base a feature that no kernel has"), "{message}");
    let mut chain = scenario_text("1 MiB", "", "");
    chain += "[elements.mark]\nkind = \"eln-marker\"\nrouter = \"base\"\nlink = \"wireless\"\n";
    let chain = Scenario::parse("test.toml", &chain).unwrap();
    let message = try_run(&chain, "Reno/SR", &Quiet).err().unwrap().to_string();
    assert!(message.contains("this chain of elements on one port"), "{message}");
    let mut two = scenario_text("1 MiB", "", "");
    two += "[elements.cache]\nkind = \"snoop\"\nrouter = \"base\"\nlink = \"wired\"\n";
    let two = Scenario::parse("test.toml", &two).unwrap();
    let message = try_run(&two, "LL-TCP-AWARE", &Quiet).err().unwrap().to_string();
    assert!(message.contains("several base stations"), "{message}");
    let web = Scenario::builtin("multilayer-web-lan").unwrap();
    let message = try_run(&web, "E2E", &Quiet).err().unwrap().to_string();
    assert!(message.contains("web sessions"), "{message}");
}
