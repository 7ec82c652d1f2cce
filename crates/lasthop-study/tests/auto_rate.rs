//! Tests of a two-ended link over a hop whose rate it estimates, alone and with competing flows.

use crate::common::{jain, run};
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;

/// Returns a hop of 10 Mbps: a wired part, and a lossy part that is repaired, with these delays in milliseconds each
/// way.
fn hop(wired: u32, lossy: u32) -> Scenario {
    let text = format!(
        r#"
limit = "30 s"
[tcp]
preset = "linux-6.18"
mss = 1390
[hosts.server]
[hosts.client]
[routers.base]
[links.wired]
between = ["server", "base"]
rate = "100 Mbps"
delay = "{wired} ms"
queue = "1000 packets"
[links.radio]
between = ["base", "client"]
rate = "10 Mbps"
delay = "{lossy} ms"
queue = "100 packets"
errors = {{ model = "uniform", frame_loss = "0 %" }}
[flows.bulk]
from = "server"
to = "client"
size = "200 MB"
[base_station]
router = "base"
link = "radio"
[base_station.two_ended]
rate = "link"
"#
    );
    Scenario::parse("hop.toml", &text).unwrap()
}

fn mean(reports: &[Report]) -> f64 {
    reports.iter().flat_map(|report| &report.flows).map(|flow| flow.throughput() / 1e6).sum::<f64>()
        / reports.len() as f64
}

/// Tests hops A and B of the documentation, at losses of 0 %, 2.3 % and 10 %, in both directions: an estimated rate
/// yields at least 95 % of the throughput with the true one, and 90 % at a loss of 10 %.
#[test]
fn a_found_rate_is_as_good_as_the_true_one() {
    let mut wrong = Vec::new();
    for (name, scenario) in [("A", hop(0, 30)), ("B", hop(25, 5))] {
        for loss in ["0 %", "2.3 %", "10 %"] {
            let with = |rate| {
                let keys = [("base_station.two_ended.rate", rate), ("links.radio.errors.frame_loss", loss)];
                mean(&run(&scenario.with_overrides(&keys).unwrap(), "LINK-HYBRID", 2))
            };
            let (given, found) = (with("link"), with("auto"));
            println!("{name} {loss}: given {given:.3}, found {found:.3} Mbps");
            let least = if loss == "10 %" { 0.9 } else { 0.95 };
            if found < least * given {
                wrong.push(format!("{name} {loss}: given {given}, found {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Number of runs in the next test. With bursts of losses, single runs differ by 5 %.
const RUNS_OF_CASES: u32 = 6;

/// Tests the estimate with loss bursts of four, with several flows, with one that starts after a pause, with IPv6
/// headers, and in the other direction.
#[test]
fn a_found_rate_is_as_good_in_other_cases() {
    let bursts = "{ model = \"two-state-packet\", good_to_bad = 0.0059, bad_to_good = 0.25 }";
    let cases: [(&str, &[(&str, &str)]); 5] = [
        ("bursts of 4", &[("links.radio.errors", bursts)]),
        ("four flows", &[("flows.bulk.count", "4"), ("links.radio.errors.frame_loss", "2.3 %")]),
        ("after a pause", &[("flows.bulk.start", "7 s"), ("links.radio.errors.frame_loss", "2.3 %")]),
        ("IPv6", &[("base_station.two_ended.header", "78"), ("links.radio.errors.frame_loss", "2.3 %")]),
        (
            "upload",
            &[("flows.bulk.from", "client"), ("flows.bulk.to", "server"), ("links.radio.errors.frame_loss", "2.3 %")],
        ),
    ];
    let mut wrong = Vec::new();
    for (name, keys) in cases {
        let with = |rate| {
            let keys: Vec<_> = keys.iter().copied().chain([("base_station.two_ended.rate", rate)]).collect();
            mean(&run(&hop(0, 30).with_overrides(&keys).unwrap(), "LINK-HYBRID", RUNS_OF_CASES))
        };
        let (given, found) = (with("link"), with("auto"));
        println!("A, {name}: given {given:.3}, found {found:.3} Mbps");
        // After the pause 23 s remain, of which the start takes one.
        let least = if name == "after a pause" { 0.92 } else { 0.95 };
        if found < least * given {
            wrong.push(format!("{name}: given {given}, found {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns a bottleneck of 10 Mbps and 30 ms each way, crossed by a CUBIC flow, in the tunnel or not, with a competing
/// CUBIC flow, a BBR flow, or both, and a call that measures the queueing delay of all.
fn shared(queue: &str, beside: &[&str]) -> Scenario {
    let mut text = format!(
        r#"
limit = "60 s"
[hosts.tunnel]
tcp = {{ preset = "linux-6.18", mss = 1390 }}
[hosts.cubic]
tcp = {{ preset = "linux-6.18", mss = 1390 }}
[hosts.bbr]
tcp = {{ preset = "linux-6.18-bbr", mss = 1390 }}
[hosts.speaker]
[hosts.client]
tcp = {{ preset = "linux-6.18", mss = 1390 }}
[routers.core]
[routers.base]
[links.bottleneck]
between = ["core", "base"]
rate = "10 Mbps"
delay = "30 ms"
queue = {queue}
[flows.call]
app = "call"
from = "speaker"
to = "client"
"#
    );
    for (host, router) in
        [("tunnel", "core"), ("cubic", "core"), ("bbr", "core"), ("speaker", "core"), ("client", "base")]
    {
        text += &format!(
            "[links.of-{host}]\nbetween = [\"{host}\", \"{router}\"]\nrate = \"100 Mbps\"\ndelay = \"100 us\"\nqueue = \"1000 packets\"\n"
        );
    }
    for host in ["tunnel"].iter().chain(beside) {
        text += &format!("[flows.{host}]\nfrom = \"{host}\"\nto = \"client\"\nsize = \"400 MB\"\n");
    }
    let past: Vec<_> = beside.iter().chain(&["call"]).map(|name| format!("\"{name}\"")).collect();
    text += &format!(
        "[base_station]\nrouter = \"core\"\nlink = \"bottleneck\"\n[base_station.two_ended]\nrate = \"auto\"\npast = [{}]\n",
        past.join(", ")
    );
    Scenario::parse("shared.toml", &text).unwrap()
}

/// Three runs of a shared bottleneck differ by 0.05 in the index.
const RUNS: u32 = 24;

/// Result of sharing: Jain's index, throughput of each flow in Mbps, and the median delay of others.
struct Outcome {
    index: f64,
    rates: Vec<f64>,
    delay: f64,
}

fn outcome(scenario: &Scenario, scheme: &str) -> Outcome {
    let reports = run(scenario, scheme, RUNS);
    let flows = reports[0].flows.len();
    let rates: Vec<f64> = (1..flows)
        .map(|flow| {
            reports.iter().map(|report| report.flows[flow].received as f64 * 8.0 / 60e6).sum::<f64>()
                / reports.len() as f64
        })
        .collect();
    let delay = reports
        .iter()
        .map(|report| report.flows[0].call.as_ref().unwrap().delays.quantile(500).unwrap().as_secs_f64() * 1e3)
        .sum::<f64>()
        / reports.len() as f64;
    Outcome { index: jain(&rates), rates, delay }
}

/// A bottleneck shared with plain flows. Others wait no longer than with the same flow outside of the tunnel. Under
/// FQ-CoDel shares are equal; under tail drop with CUBIC nearly so; BBR takes more from the tunnel than from a plain
/// flow (docs/models/two-ended-link.md).
#[test]
fn plain_flows_get_their_share() {
    for (name, queue) in
        [("tail drop", "\"100 packets\""), ("FQ-CoDel", "{ kind = \"fq-codel\", limit = \"1000 packets\" }")]
    {
        for beside in [&["cubic"][..], &["bbr"], &["cubic", "bbr"]] {
            let scenario = shared(queue, beside);
            let [plain, tunnel] = ["E2E", "LINK-HYBRID"].map(|scheme| outcome(&scenario, scheme));
            let least = match (name, beside) {
                ("FQ-CoDel", _) => 0.97,
                (_, ["cubic"]) => 0.88,
                _ => 0.75,
            };
            assert!(tunnel.index >= least, "{name}, {beside:?}: {:.3}", tunnel.index);
            assert!(tunnel.delay <= 1.2 * plain.delay, "{name}, {beside:?}: {:.1} ms", tunnel.delay);
            for (what, one) in [("plain", &plain), ("tunnel", &tunnel)] {
                println!(
                    "{name} {beside:?} {what}: Jain {:.3}, {:.2?} Mbps, {:.1} ms",
                    one.index, one.rates, one.delay
                );
            }
        }
    }
}
