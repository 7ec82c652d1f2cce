//! Tests of calls on a link: counts of packets, ratings, and the effect of a link that recognizes calls.

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_study::measures::{columns, find, summarise};
use lasthop_study::replicate::{Silent, Task, run_all};

/// Returns the metrics of a single run under `scheme`.
fn measured(scenario: &Scenario, scheme: &str) -> impl Fn(&str) -> f64 + use<> {
    let task = Task::new(scenario, Scheme::by_name(scheme).unwrap(), 1, 1).unwrap();
    let reports = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0);
    let summaries = summarise(&task.network, &reports);
    let names: Vec<String> = columns(&task.network).into_iter().map(|(name, _)| name).collect();
    assert!(
        summaries.iter().all(|summary| names.iter().any(|name| *name == summary.name)),
        "a sweep has a column for each"
    );
    move |name| find(&summaries, name).unwrap_or_else(|| panic!("no {name}")).mean
}

/// Without losses and other traffic: 200 bytes take 0.8 ms at 2 Mbps and 20 ms of delay, and are played 100 ms after
/// they were sent.
#[test]
fn a_call_alone_is_as_computed() {
    let text = r#"
limit = "10 s"
[hosts.source]
[hosts.mobile]
[links.wireless]
between = ["source", "mobile"]
rate = "2 Mbps"
delay = "20 ms"
[flows.talk]
from = "source"
to = "mobile"
app = "call"
deadline = "100 ms"
start = "1 s"
"#;
    let of = measured(&Scenario::parse("test.toml", text).unwrap(), "E2E");
    // Packets sent from 1 s to 9.9 s, both included.
    assert_eq!([of("call_sent"), of("call_lost"), of("call_late")], [446.0, 0.0, 0.0]);
    for name in ["call_delay_p50", "call_delay_p99", "call_delay_max"] {
        assert!((of(name) - 20.8).abs() < 0.05, "{name} {}", of(name));
    }
    // 120 ms from mouth to ear: G.107's rating by another implementation.
    assert!((of("call_rating") - 90.264_254_8).abs() < 1e-6, "{}", of("call_rating"));
    assert!((of("call_mos") - 4.345_420_3).abs() < 1e-6, "{}", of("call_mos"));
}

/// A link with half the necessary rate makes all packets late, and the unintelligible call gets a low rating.
#[test]
fn a_call_that_does_not_fit_is_late_and_lost() {
    let text = r#"
limit = "20 s"
[hosts.source]
[hosts.mobile]
[links.wireless]
between = ["source", "mobile"]
rate = "40 kbps"
delay = "20 ms"
queue = "20 packets"
[flows.talk]
from = "source"
to = "mobile"
app = "call"
"#;
    let of = measured(&Scenario::parse("test.toml", text).unwrap(), "E2E");
    let (sent, lost, late) = (of("call_sent"), of("call_lost"), of("call_late"));
    assert_eq!(sent, 993.0);
    // Half of them are dropped by the queue; the others wait for 20 packets of 40 ms each.
    assert!((0.45..0.55).contains(&(lost / sent)) && late > 0.45 * sent && lost + late < sent, "{lost} {late}");
    assert!((of("call_delay_max") - 860.0).abs() < 41.0, "{}", of("call_delay_max"));
    assert!(of("call_mos") < 1.5, "{}", of("call_mos"));
}

/// The built-in scenario: over the lossy radio, and with a concurrent download, only a link that recognizes calls
/// delivers them.
#[test]
fn a_link_that_knows_calls_helps_them() {
    let scenario = Scenario::builtin("call-radio").unwrap().with_overrides(&[("limit", "21 s")]).unwrap();
    let missed = |of: &dyn Fn(&str) -> f64| (of("call_lost") + of("call_late")) / of("call_sent");
    let plain = measured(&scenario, "E2E-CUBIC");
    let helped = measured(&scenario, "LINK-HYBRID");
    assert!((0.03..0.08).contains(&missed(&plain)), "{}", missed(&plain));
    assert!(missed(&helped) <= 0.001, "{}", missed(&helped));
    // Its packets are neither held for the order of others nor queued behind the download.
    assert!(helped("call_delay_p50") < 30.0, "{}", helped("call_delay_p50"));
    assert!(helped("call_mos") > plain("call_mos") + 0.3, "{} {}", helped("call_mos"), plain("call_mos"));
    assert!(helped("call_frames_missed") <= 1.0 && plain("call_frames_missed") > 30.0);
    assert!(helped("throughput") > 5.0 * plain("throughput"));
}
