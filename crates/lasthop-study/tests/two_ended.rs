//! Tests of TCP over a hop that both its ends repair.

use crate::common::{jain, run};
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;

/// Returns a radio of 10 Mbps and 30 ms each way, with these losses and this number of downloads.
fn scenario(loss: &str, flows: u32, limit: &str) -> Scenario {
    let text = format!(
        r#"
limit = "{limit}"
[tcp]
preset = "linux-6.18"
mss = 1390
[hosts.server]
[hosts.client]
[routers.base]
[links.wired]
between = ["server", "base"]
rate = "100 Mbps"
delay = "100 us"
queue = "1000 packets"
[links.radio]
between = ["base", "client"]
rate = "10 Mbps"
delay = "30 ms"
errors = {{ model = "uniform", frame_loss = "{loss}" }}
[flows.bulk]
from = "server"
to = "client"
size = "200 MB"
count = {flows}
[base_station]
router = "base"
link = "radio"
"#
    );
    Scenario::parse("test.toml", &text).unwrap()
}

fn once(scenario: &Scenario, scheme: &str) -> Report {
    run(scenario, scheme, 1).remove(0)
}

/// Tests ends that support ECN: no packet is dropped at the ingress, and the source retransmits nothing, since the hop
/// repairs all losses.
#[test]
fn a_source_that_takes_marks_sends_nothing_again() {
    for (loss, least) in [("2.3 %", 8.5e6), ("10 %", 7.4e6)] {
        let scenario = scenario(loss, 1, "20 s").with_overrides(&[("tcp.ecn", "on")]).unwrap();
        let report = once(&scenario, "LINK-HYBRID");
        let flow = &report.flows[0];
        assert!(flow.losses > 300 && flow.throughput() > least, "{loss}: {} bps, {flow:?}", flow.throughput());
        assert_eq!((flow.sender.source_retransmissions, flow.sender.timeouts), (0, 0), "{loss}: {flow:?}");
    }
}

/// A source without ECN is signalled by receive-window clamping: it retransmits at most two segments in 10,000. They are
/// tail-loss probes, which a sender that the receive window limits sends when a repair takes more than two round trips.
#[test]
fn a_source_that_takes_no_marks_is_told_by_its_window() {
    for (loss, least) in [("0 %", 9.1e6), ("2.3 %", 8.75e6), ("10 %", 8.0e6)] {
        let reports = run(&scenario(loss, 1, "60 s"), "LINK-HYBRID", 3);
        let flows: Vec<_> = reports.iter().map(|report| &report.flows[0]).collect();
        let again: u64 = flows.iter().map(|flow| flow.sender.source_retransmissions).sum();
        let segments: u64 = flows.iter().map(|flow| flow.received / 1390).sum();
        assert!(again * 10_000 <= 2 * segments, "{loss}: {again} of {segments}");
        let throughput = flows.iter().map(|flow| flow.throughput()).sum::<f64>() / 3.0;
        assert!(throughput >= least, "{loss}: {throughput}");
        assert!(flows.iter().all(|flow| flow.sender.timeouts == 0), "{loss}");
    }
}

/// Several flows get nearly equal shares.
#[test]
fn flows_share_the_hop() {
    for loss in ["0 %", "5 %"] {
        let report = once(&scenario(loss, 5, "20 s"), "LINK-HYBRID");
        let rates: Vec<f64> = report.flows.iter().map(|flow| flow.received as f64).collect();
        assert!(jain(&rates) >= 0.95, "{loss}: {}, {rates:?}", jain(&rates));
        let sum: f64 = rates.iter().sum();
        assert!(sum * 8.0 / 20.0 > 7.5e6, "{loss}: {sum} bytes");
    }
}

/// The preset after AIRMAIL repairs losses under which plain TCP collapses. Its code protects the source's window at
/// the cost of capacity.
#[test]
fn airmail_repairs() {
    let scenario = scenario("5 %", 1, "20 s");
    let [plain, airmail, hybrid] = ["E2E-CUBIC", "AIRMAIL", "LINK-HYBRID"].map(|scheme| once(&scenario, scheme));
    let rate = |report: &Report| report.flows[0].throughput() / 1e6;
    assert!(rate(&airmail) > 5.0 * rate(&plain), "{} {}", rate(&airmail), rate(&plain));
    assert!(rate(&airmail) < rate(&hybrid), "{} {}", rate(&airmail), rate(&hybrid));
    // Below 9.27 Mbps times the share that arrives, less a seventh.
    assert!(rate(&airmail) > 0.8 * 9.27 * 0.95 * 6.0 / 7.0, "{}", rate(&airmail));
}
