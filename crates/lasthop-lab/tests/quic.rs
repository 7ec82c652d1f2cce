//! Tests of flows over QUIC in the lab. Need root; otherwise they print a message and pass.

use crate::quiet;

use lasthop_lab::plan::HostTcp;
use lasthop_lab::{Captures, Experiment, LabError, Outcome, run};
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use quiet::Quiet;

/// Returns a scenario with two links, the second with those losses, and those flows.
fn scenario(errors: &str, flows: &str, lines: &str) -> Scenario {
    let text = format!(
        r#"
limit = "40 s"
[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "50 Mbps"
delay = "2 ms"
[links.wireless]
between = ["base", "mobile"]
rate = "8 Mbps"
delay = "10 ms"
{errors}
[base_station]
router = "base"
link = "wireless"
[lab]
# Other tests and builds may run beside this.
lateness = "100 ms"
{lines}
{flows}
"#
    );
    Scenario::parse("test.toml", &text).unwrap()
}

fn try_run(scenario: &Scenario, scheme: &str) -> Result<Outcome, LabError> {
    let scheme = Scheme::by_name(scheme).unwrap();
    let network = scenario.network(scheme).unwrap();
    run(&Experiment { network: &network, scheme, lab: scenario.lab(), seed: 7, captures: Captures::On }, &Quiet)
}

const BULK: &str = r#"
[flows.bulk]
from = "source"
to = "mobile"
app = "quic"
size = "600 kB"
"#;

const PAGES: &str = r#"
[flows.pages]
from = "mobile"
to = "source"
app = "quic"
request = 300
response = "20 kB"
requests = 12
parallel = 3
"#;

#[test]
#[ignore = "needs root: make root"]
fn bulk_and_pages_arrive_over_a_lossy_hop() {
    let Some(_turn) = quiet::turn("QUIC in the lab") else { return };
    let losses = r#"errors = { model = "uniform", frame_loss = "3 %" }"#;
    let outcome = try_run(&scenario(losses, &format!("{BULK}{PAGES}"), ""), "E2E").unwrap();
    let [bulk, pages] = &outcome.report.flows[..] else { panic!("two flows") };
    assert_eq!([bulk.received, pages.received], [600_000, 240_000]);
    assert!(bulk.complete && pages.complete && !bulk.aborted && !pages.aborted);
    // Stream data lost in the channel was retransmitted, and not much else.
    assert!(bulk.losses >= 3 && pages.losses >= 1, "{} and {} losses", bulk.losses, pages.losses);
    let resent = bulk.sender.quic_resent_bytes as f64 / (bulk.losses as f64 * 1400.0);
    assert!((0.5..=2.0).contains(&resent), "{resent} times what was lost");
    assert!(bulk.sender.source_retransmissions >= bulk.losses / 2);
    assert!(bulk.sender.recoveries >= 1 && bulk.sender.timeouts == 0);
    // No host runs TCP.
    assert_eq!(outcome.ends, []);
    let goodput = outcome.report.links[1][0].goodput().unwrap();
    assert!((0.85..1.0).contains(&goodput), "{goodput}");
}

#[test]
#[ignore = "needs root: make root"]
fn a_clean_link_loses_nothing() {
    let Some(_turn) = quiet::turn("QUIC in the lab") else { return };
    let outcome = try_run(&scenario(r#"queue = "1000 packets""#, BULK, ""), "E2E").unwrap();
    let bulk = &outcome.report.flows[0];
    assert!(bulk.complete);
    assert_eq!((bulk.losses, bulk.sender.quic_resent_bytes, bulk.sender.recoveries), (0, 0, 0));
}

#[test]
#[ignore = "needs root: make root"]
fn it_runs_beside_tcp_of_either_kind() {
    let Some(_turn) = quiet::turn("QUIC in the lab") else { return };
    let tcp = "[flows.download]\nfrom = \"source\"\nto = \"mobile\"\nsize = \"300 kB\"\n";
    let losses = r#"errors = { model = "uniform", frame_loss = "1 %" }"#;
    for (endpoints, whose) in [("kernel", HostTcp::Kernel), ("own", HostTcp::Own)] {
        let lines = format!("endpoints = \"{endpoints}\"");
        let outcome = try_run(&scenario(losses, &format!("{tcp}{BULK}"), &lines), "E2E").unwrap();
        assert!(outcome.ends.iter().all(|(_, tcp)| *tcp == whose), "{:?}", outcome.ends);
        let received: Vec<_> = outcome.report.flows.iter().map(|flow| (flow.received, flow.complete)).collect();
        assert_eq!(received, [(300_000, true), (600_000, true)], "{endpoints}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_dead_hop_ends_the_flow() {
    let Some(_turn) = quiet::turn("QUIC in the lab") else { return };
    let dead = r#"errors = { model = "uniform", frame_loss = "100 %" }"#;
    let bulk = format!("{BULK}idle_timeout = \"1 s\"\n");
    let outcome = try_run(&scenario(dead, &bulk, ""), "E2E").unwrap();
    let bulk = &outcome.report.flows[0];
    assert!(bulk.aborted && !bulk.complete);
    assert_eq!(bulk.received, 0);
}

#[test]
#[ignore = "needs root: make root"]
fn the_limit_ends_the_run() {
    let Some(_turn) = quiet::turn("QUIC in the lab") else { return };
    let scenario = scenario("", &BULK.replace("600 kB", "600 MB"), "").with_overrides(&[("limit", "2 s")]).unwrap();
    let outcome = try_run(&scenario, "E2E").unwrap();
    let bulk = &outcome.report.flows[0];
    assert!(!bulk.complete);
    assert!((100_000..2_100_000).contains(&bulk.received), "{}", bulk.received);
}
