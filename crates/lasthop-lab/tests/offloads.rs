//! Segmentation and receive offload of the kernel in the lab. Needs root; otherwise the tests print a message and pass.

use crate::quiet;

use std::collections::BTreeMap;

use lasthop_lab::{Captures, Experiment, LabError, Outcome, run};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Instant;
use lasthop_scenario::Scenario;
use quiet::Quiet;

/// Upload from a client with `tcp` over a hop with losses of this unit, to a server with `server`.
fn scenario(tcp: &str, server: &str, unit: &str, more: &str) -> Scenario {
    let text = format!(
        r#"
limit = "60 s"
[tcp]
preset = "linux-6.18"
[hosts.client]
tcp = {{ {tcp} }}
[hosts.server]
tcp = {{ {server} }}
[routers.base]
[links.radio]
between = ["client", "base"]
rate = "20 Mbps"
delay = "5 ms"
errors_down = {{ model = "uniform", frame_loss = "3 %", unit = "{unit}" }}
[links.wire]
between = ["base", "server"]
rate = "100 Mbps"
delay = "10 ms"
[flows.bulk]
from = "client"
to = "server"
size = "1 MiB"
[lab]
lateness = "100 ms"
{more}
"#
    );
    Scenario::parse("test.toml", &text).unwrap()
}

fn try_run(scenario: &Scenario) -> Result<Outcome, LabError> {
    let scheme = Scheme::by_name("E2E").unwrap();
    let network = scenario.network(scheme).unwrap();
    let captures = Captures::On;
    run(&Experiment { network: &network, scheme, lab: scenario.lab(), seed: 7, captures }, &Quiet)
}

/// Returns whether each data frame that entered the hop at one time was dropped.
fn bursts(outcome: &Outcome) -> Vec<Vec<bool>> {
    let mut bursts: BTreeMap<Instant, Vec<bool>> = BTreeMap::new();
    let capture = outcome.capture.as_ref().unwrap();
    for (passage, headers) in capture.passages().filter(|(passage, _)| passage.point == 0 && passage.outbound) {
        let total = u16::from_be_bytes([headers[16], headers[17]]);
        if total > 100 {
            assert!(total <= 1500, "a super-segment on the wire: {total} bytes");
            bursts.entry(passage.time).or_default().push(passage.dropped.is_some());
        }
    }
    bursts.into_values().collect()
}

#[test]
#[ignore = "needs root: make root"]
fn super_segments_are_split_and_share_their_fate() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let outcome = try_run(&scenario("tso = \"on\"", "", "super-segment", "")).unwrap();
    let flow = &outcome.report.flows[0];
    assert!(flow.complete && flow.received == 1 << 20);
    let bursts = bursts(&outcome);
    let several = bursts.iter().filter(|burst| burst.len() > 1).count();
    assert!(several > bursts.len() / 4, "{several} of {}", bursts.len());
    assert!(bursts.iter().any(|burst| burst.len() > 1 && burst[0]), "no super-segment was lost");
    assert!(bursts.iter().all(|burst| burst.iter().all(|dropped| *dropped == burst[0])), "{bursts:?}");
}

#[test]
#[ignore = "needs root: make root"]
fn receive_offload_saves_acknowledgments() {
    let Some(_turn) = quiet::turn("the lab's tests with namespaces") else { return };
    let acks = |server: &str| {
        let outcome = try_run(&scenario("", server, "packet", "")).unwrap();
        assert!(outcome.report.flows[0].complete);
        outcome.report.links[1][1].frames
    };
    let (without, with) = (acks(""), acks("gro = \"on\", gro_flush_timeout = \"2 ms\""));
    assert!(with * 5 < without * 4, "{with} with, {without} without");
}

#[test]
fn what_the_lab_does_not_have_is_refused() {
    let own = scenario("tso = \"on\"", "", "packet", "[lab.hosts.client]\nendpoints = \"own\"");
    let error = try_run(&own).err().unwrap().to_string();
    assert!(error.contains("client") && error.contains("use the kernel's TCP"), "{error}");
    let behind = scenario("tso = \"on\"", "", "packet", "").with_overrides(&[(
        "links.wire.errors",
        "{ model = \"uniform\", frame_loss = 0.1, unit = \"super-segment\" }",
    )]);
    let error = try_run(&behind.unwrap()).err().unwrap().to_string();
    assert!(error.contains("wire") && error.contains("behind a router"), "{error}");
}
