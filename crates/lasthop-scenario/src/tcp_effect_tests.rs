//! Tests that keys are rejected exactly if they have no effect.

use lasthop_proto::scheme::Scheme;
use lasthop_sim::trace::{Record, What};
use lasthop_sim::{Recording, run};

use super::*;
use crate::Scenario;

/// Keys that every endpoint reads. A new key must be added here, or to `NEEDS`.
const ALWAYS: [&str; 36] = [
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "window_scale",
    "timestamps",
    "headers",
    "recovery",
    "smart_acks",
    "clock",
    "slow_tick",
    "fast_tick",
    "jiffy",
    "timer_wheel",
    "rtt_rule",
    "rto_initial",
    "rto_min",
    "rto_max",
    "max_backoff",
    "max_retries",
    "delayed_ack",
    "delayed_ack_timeout",
    "receive_autotune",
    "gro",
    "ack_before_read",
    "ecn",
    "ecn_echo",
    "ecn_fallback",
    "ack_congestion",
    "initial_window",
    "max_cwnd",
    "dupack_threshold",
    "nagle",
    "handshake_ack",
    "window_probe",
    "time_wait",
];

#[test]
fn each_key_is_declared() {
    let mut declared: Vec<&str> = ALWAYS.into_iter().chain(NEEDS.iter().map(|(key, _)| key.name())).collect();
    let mut known: Vec<&str> = Keys::NAMES.iter().copied().filter(|key| !["preset", "given"].contains(key)).collect();
    declared.sort_unstable();
    known.sort_unstable();
    assert_eq!(declared, known);
}

/// Alternative values for each key of `NEEDS`.
const OTHERS: [(&str, &[&str]); 37] = [
    ("paws", &["rfc7323", "linux"]),
    ("sack_algorithm", &["sack1", "rfc6675"]),
    ("sack_blocks", &["1", "3"]),
    ("sack_eln", &["on", "off"]),
    ("smart_rtt", &["off", "20 ms"]),
    ("tick_phase", &["1 ms", "3 ms"]),
    ("rtt_granularity", &["1 ms", "2 s"]),
    ("sack_compression", &["off", "linux"]),
    ("ecn_option", &["full", "off"]),
    ("ecn_option_beacon", &["0", "200"]),
    ("dsack", &["on", "off"]),
    ("send_autotune", &["off", "linux"]),
    ("initial_ssthresh", &["unlimited", "20 KiB"]),
    ("congestion", &["reno", "bbr"]),
    ("hystart", &["off", "linux"]),
    ("window_reduction", &["linux", "rfc9937"]),
    ("undo", &["on", "off"]),
    ("frto", &["on", "off"]),
    ("tlp", &["on", "off"]),
    ("small_queues", &["on", "off"]),
    ("qdisc", &["fifo", "fq"]),
    ("tso", &["off", "on"]),
    ("gro_flush_timeout", &["0 s", "20 ms"]),
    ("growth", &["rfc5681", "ns2"]),
    ("deflation", &["always", "above-threshold"]),
    ("limited_transmit", &["on", "off"]),
    ("header_prediction", &["on", "off"]),
    ("impure_duplicates", &["ignored", "restart-count"]),
    ("recovery_guard", &["none", "careful"]),
    ("recovery_burst", &["1", "unlimited"]),
    ("partial_ack_timer", &["impatient", "slow-but-steady"]),
    ("partial_deflation", &["by-acked", "to-ssthresh"]),
    ("eln_inflation", &["on", "off"]),
    ("idle_restart", &["on", "off"]),
    ("send_quantum", &["1", "unlimited"]),
    ("window_edge", &["whole", "cut"]),
    ("push", &["never", "bursts"]),
];

/// Endpoints of every kind.
const ENDPOINTS: [&[(&str, &str)]; 13] = [
    &[("tcp.recovery", "reno")],
    &[("tcp.recovery", "new-reno")],
    &[("tcp.recovery", "smart")],
    &[("tcp.recovery", "sack"), ("tcp.sack_algorithm", "sack1")],
    &[("tcp.recovery", "sack"), ("tcp.sack_algorithm", "rfc6675")],
    &[("tcp.recovery", "eln")],
    &[("tcp.preset", "bsd-lite"), ("tcp.recovery", "eln-rxmt")],
    &[("tcp.preset", "linux-6.18")],
    &[("tcp.preset", "linux-6.18"), ("tcp.ecn", "accurate")],
    &[("tcp.preset", "linux-6.18"), ("tcp.ecn", "accurate"), ("tcp.ecn_option", "minimum")],
    &[("tcp.preset", "linux-6.18"), ("tcp.gro", "on")],
    &[("tcp.preset", "linux-6.18-bbr")],
    &[("tcp.preset", "rfc-2026")],
];

/// A link with losses in both directions, small enough to run often.
const LINK: &str = r#"
limit = "60 s"
[tcp]
preset = "rfc"
[hosts.a]
[hosts.b]
[links.hop]
between = ["a", "b"]
rate = "2 Mbps"
delay = "30 ms"
queue = "20 packets"
errors = { model = "uniform", frame_loss = "8 %" }
[flows.one]
from = "a"
to = "b"
size = "400 KiB"
"#;

/// Frame loss and queue. Many losses end slow start at once, few let it continue, and a short queue drops several
/// segments of a window.
const HOPS: [(&str, &str); 6] = [
    ("8 %", "20 packets"),
    ("2 %", "20 packets"),
    ("0.3 %", "20 packets"),
    ("1 %", "6 packets"),
    ("0.3 %", "100 packets"),
    ("3 %", "100 packets"),
];

/// Keys that change packets although no sender reacts: `sack_eln` adds an option to acknowledgments of any receiver.
const SEEN_ON_THE_WIRE: [&str; 1] = ["sack_eln"];

/// Returns the packets of a run with this value of the key; `None` if values exclude each other. Events, such as the
/// window before the first data, are omitted.
fn runs(endpoints: &[(&str, &str)], key: &str, value: &str, (frame_loss, queue): (&str, &str)) -> Option<String> {
    let key = format!("tcp.{key}");
    let link = [("links.hop.errors.frame_loss", frame_loss), ("links.hop.queue", queue), (key.as_str(), value)];
    let set = [endpoints, &link].concat();
    let scenario = Scenario::parse("link", LINK).unwrap().with_overrides(&set).ok()?;
    let network = scenario.network(Scheme::by_name("E2E").unwrap()).unwrap();
    let outcome = run(&network, 3, Recording::On);
    let is_packet = |record: &&Record| !matches!(record.what, What::Event(_));
    let packets: Vec<&Record> = outcome.trace.records.iter().filter(is_packet).collect();
    Some(format!("{:?} {packets:?}", outcome.report))
}

#[test]
fn a_key_that_is_refused_changes_nothing() {
    let scheme = Scheme::by_name("E2E").unwrap();
    let mut compared = 0;
    for endpoints in ENDPOINTS {
        for (key, values) in OTHERS.iter().filter(|(key, _)| !SEEN_ON_THE_WIRE.contains(key)) {
            let name = format!("tcp.{key}");
            let set = [endpoints, &[(name.as_str(), values[0])]].concat();
            let Ok(scenario) = Scenario::parse("link", LINK).unwrap().with_overrides(&set) else { continue };
            if !scenario.idle_keys(&[scheme]).unwrap().iter().any(|idle| idle.key == name) {
                continue;
            }
            for hop in [HOPS[0], HOPS[2]] {
                let run_with = |value| runs(endpoints, key, value, hop);
                if let (Some(one), Some(other)) = (run_with(values[0]), run_with(values[1])) {
                    assert!(one == other, "{key} is refused with {endpoints:?}, and changes what happens");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// Each key with a requirement changes the result with some endpoint with which it is not rejected. The others need
/// more than losses to show an effect: copies of old segments, marks, receive windows, delay spikes, a window larger
/// than its buffer or partly unused, several losses in one large window.
#[test]
fn a_key_that_is_taken_changes_something() {
    const RARE: [&str; 14] = [
        "window_reduction",
        "recovery_burst",
        "partial_ack_timer",
        "eln_inflation",
        "paws",
        "send_autotune",
        "sack_eln",
        "undo",
        "frto",
        "idle_restart",
        "window_edge",
        "impure_duplicates",
        "header_prediction",
        "sack_compression",
    ];
    for (key, values) in OTHERS.iter().filter(|(key, _)| !RARE.contains(key)) {
        let changes = |endpoints: &[(&str, &str)], hop| {
            let run_with = |value| runs(endpoints, key, value, hop);
            run_with(values[0]).zip(run_with(values[1])).is_some_and(|(one, other)| one != other)
        };
        let changes_anywhere = HOPS.iter().any(|hop| ENDPOINTS.iter().any(|endpoints| changes(endpoints, *hop)));
        assert!(changes_anywhere, "{key} changes nothing anywhere");
    }
}

fn error(scenario: &Scenario, scheme: &str) -> Option<String> {
    scenario.check_effects(&[Scheme::by_name(scheme).unwrap()]).err().map(|error| error.to_string())
}

#[test]
fn the_message_says_what_it_needs_and_what_there_is() {
    let radio = Scenario::builtin("farm-radio").unwrap();
    let set = radio.with_overrides(&[("tcp.growth", "ns2")]).unwrap();
    let message = error(&set, "E2E").unwrap();
    for part in [
        "farm-radio",
        "tcp.growth: \"ns2\" has no effect under E2E",
        "a recovery other than \"rack\"",
        "recovery = \"rack\"",
        "remove it",
    ] {
        assert!(message.contains(part), "{message}");
    }
    for (key, value) in [
        ("smart_rtt", "1 s"),
        ("deflation", "always"),
        ("partial_deflation", "by-acked"),
        ("eln_inflation", "on"),
        ("sack_algorithm", "sack1"),
    ] {
        let set = radio.with_overrides(&[(format!("tcp.{key}"), value)]).unwrap();
        assert!(error(&set, "E2E").is_some_and(|message| message.contains(key)), "{key}");
    }
    // And vice versa.
    let studied = Scenario::builtin("wavelan-lan").unwrap();
    for (key, value) in
        [("tlp", "off"), ("congestion", "bbr"), ("window_reduction", "linux"), ("send_autotune", "linux")]
    {
        let set = studied.with_overrides(&[(format!("tcp.{key}"), value)]).unwrap();
        assert!(error(&set, "E2E").is_some_and(|message| message.contains(key)), "{key}");
        assert_eq!(error(&set, "E2E-CUBIC"), None, "{key}");
    }
}

#[test]
fn a_key_counts_where_any_of_the_schemes_reads_it() {
    let set = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("tcp.smart_rtt", "1 s")]).unwrap();
    let schemes = ["E2E", "E2E-SMART"].map(|name| Scheme::by_name(name).unwrap());
    assert!(set.check_effects(&schemes).is_ok());
    assert!(set.check_effects(&schemes[..1]).is_err());
}

/// Options may override a file, and the file may be intended for another scheme.
#[test]
fn ready_made_scenarios_are_taken_under_every_scheme() {
    for name in crate::builtin_names() {
        let scenario = Scenario::builtin(name).unwrap();
        for scheme in lasthop_proto::scheme::SCHEMES.iter().filter(|scheme| scenario.network(scheme).is_ok()) {
            assert_eq!(error(&scenario, scheme.name), None, "{name}, {}", scheme.name);
        }
        let today = scenario.with_overrides(&[("tcp.preset", "linux-6.18")]);
        assert_eq!(today.ok().and_then(|today| error(&today, today.scheme().name)), None, "{name}");
        // A text written by `explain` has every key, but `given` does not list more of them.
        let again = Scenario::parse("again", &scenario.explain()).unwrap();
        assert_eq!(error(&again, again.scheme().name), None, "{name}, explained");
    }
}

#[test]
fn a_key_of_one_host_counts_for_that_host() {
    let radio = Scenario::builtin("wavelan-lan").unwrap();
    let set = [("hosts.source.tcp.recovery", "new-reno"), ("hosts.source.tcp.partial_deflation", "by-acked")];
    assert_eq!(error(&radio.with_overrides(&set).unwrap(), "E2E"), None);
    let other = [("hosts.source.tcp.recovery", "new-reno"), ("hosts.mobile.tcp.partial_deflation", "by-acked")];
    let message = error(&radio.with_overrides(&other).unwrap(), "E2E").unwrap();
    assert!(message.contains("hosts.mobile.tcp.partial_deflation"), "{message}");
}

#[test]
fn explain_marks_keys_without_effect() {
    let text = Scenario::builtin("farm-radio").unwrap().explain();
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap();
    assert!(line("growth = ").contains("no effect: requires a recovery other than \"rack\""), "{}", line("growth = "));
    assert!(!line("tlp = ").contains("no effect"), "{}", line("tlp = "));
}
