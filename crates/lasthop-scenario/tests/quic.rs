//! Tests of flows over QUIC: the meaning of their keys, and their limits.

use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_sim::network::{App, CongestionControl, Exchange, QuicConfig, Task};

const NETWORK: &str = r#"
[hosts.source]
[hosts.mobile]
[links.wireless]
between = ["source", "mobile"]
rate = "2 Mbps"
delay = "1 ms"
[flows.fetch]
from = "source"
to = "mobile"
app = "quic"
"#;

/// Returns the QUIC configuration of the sample network with these lines for its flow.
#[track_caller]
fn quic(lines: &str) -> QuicConfig {
    let scenario = Scenario::parse("test.toml", &format!("{NETWORK}{lines}")).unwrap_or_else(|error| panic!("{error}"));
    let network = scenario.network(scenario.scheme()).unwrap();
    let App::Quic(config) = network.flows[0].app else { panic!("{:?}", network.flows[0].app) };
    config
}

#[track_caller]
fn error(lines: &str) -> String {
    Scenario::parse("test.toml", &format!("{NETWORK}{lines}")).expect_err("a mistake to be found").to_string()
}

#[test]
fn a_bulk_has_quinns_defaults() {
    let expected = QuicConfig {
        task: Task::Bulk { bytes: 1_000_000 },
        congestion: CongestionControl::Cubic,
        // Segments of 1460 bytes with 12 of timestamps and 40 of headers: packets of 1512 bytes.
        udp_payload: 1484,
        stream_window: 1_250_000,
        idle_timeout: Duration::from_secs(30),
    };
    assert_eq!(quic("size = 1000000"), expected);
    // The packets of both hosts count.
    let linux = "size = 1000000\n[hosts.mobile.tcp]\npreset = \"linux-6.18\"";
    assert_eq!(quic(linux), QuicConfig { udp_payload: 1472, ..expected });
}

#[test]
fn every_key_is_heeded() {
    let lines = "request = 300\nresponse = \"40 kB\"\nrequests = 20\nparallel = 6\ncongestion = \"new-reno\"\n\
                 udp_payload = 1350\nstream_window = \"64 KiB\"\nidle_timeout = \"5 s\"";
    let expected = QuicConfig {
        task: Task::Exchange(Exchange { request: 300, response: 40_000, requests: 20, parallel: 6 }),
        congestion: CongestionControl::NewReno,
        udp_payload: 1350,
        stream_window: 65_536,
        idle_timeout: Duration::from_secs(5),
    };
    assert_eq!(quic(lines), expected);
}

/// The explained text yields the same scenario, and a derived size remains derived.
#[test]
fn explained_it_is_the_same() {
    let scenario = Scenario::parse("test.toml", &format!("{NETWORK}size = \"1 MB\"")).unwrap();
    let text = scenario.explain();
    assert_eq!(Scenario::parse("test.toml", &text).unwrap(), scenario);
    let line = |key: &str| text.lines().find(|line| line.trim_start_matches("# ").starts_with(key)).unwrap_or_default();
    assert!(line("congestion = \"cubic\"").ends_with("# default: quinn's"), "{text}");
    let payload = line("udp_payload");
    assert!(payload.starts_with("# udp_payload = \"1484 B\""), "{payload}");
    assert!(payload.ends_with("# the hosts' TCP packets, 1512 B, without IP and UDP headers"), "{payload}");
    let smaller = scenario.with_overrides(&[("tcp.mss", "1400")]).unwrap();
    let App::Quic(config) = smaller.network(smaller.scheme()).unwrap().flows[0].app else { panic!("QUIC") };
    assert_eq!(config.udp_payload, 1424);
}

/// Loss recovery is QUIC's own, so schemes that differ only in TCP are the same run.
#[test]
fn schemes_of_the_ends_are_one() {
    let scenario = Scenario::parse("test.toml", &format!("{NETWORK}size = \"1 MB\"")).unwrap();
    let network = |name: &str| scenario.network(Scheme::by_name(name).unwrap()).unwrap();
    assert_eq!(network("E2E"), network("E2E-IETF-SACK"));
    assert_eq!(network("E2E"), network("E2E-SMART"));
    assert!(SCHEMES.iter().any(Scheme::reads_tcp) && !Scheme::by_name("E2E").unwrap().reads_tcp());
}

#[test]
fn mistakes_say_what_would_be_right() {
    assert_eq!(
        error(""),
        "test.toml:8: flows.fetch.size: missing; give a number of bytes to send, e.g. \"10 MiB\"; or request and response"
    );
    assert_eq!(
        error("size = 10\nrequest = 10"),
        "test.toml:12: flows.fetch.size: request makes requests and responses, which have their own sizes; \
         remove this key, or request"
    );
    assert_eq!(
        error("requests = 10"),
        "test.toml:8: flows.fetch.request: missing; give a number of bytes, e.g. \"64 KiB\" or 65536 (B, kB, KiB, MiB, GiB)"
    );
    assert_eq!(
        error("size = 10\ncongestion = \"bbr\""),
        "test.toml:13: flows.fetch.congestion: cannot be \"bbr\" (quinn's BBR draws random numbers from the operating \
         system, so that no seed repeats its runs); give \"cubic\" or \"new-reno\""
    );
    assert_eq!(
        error("size = 10\ncongestion = \"newreno\""),
        "test.toml:13: flows.fetch.congestion: cannot be \"newreno\" (did you mean \"new-reno\"?); \
         give \"cubic\" or \"new-reno\""
    );
    assert_eq!(
        error("size = 10\nudp_payload = 1199"),
        "test.toml:13: flows.fetch.udp_payload: cannot be 1199 (QUIC needs paths that carry 1200 (RFC 9000 §14)); \
         give 1200 to 65507 bytes"
    );
    assert_eq!(
        error("size = 10\n[tcp]\nmss = 536"),
        "test.toml:8: flows.fetch.udp_payload: QUIC needs datagrams of 1200 to 65507 bytes (RFC 9000 §14), but packets of \
         TCP's size (588 B) hold 560; set udp_payload, or an mss of at least 1188"
    );
    assert_eq!(
        error("size = 10\nclose = \"off\""),
        "test.toml:13: flows.fetch.close: app = \"quic\" closes once everything has arrived; remove this key, or app"
    );
    assert_eq!(
        error("size = 10\nparallel = 101\nresponse = 1\nrequest = 1").split(": ").nth(1),
        Some("flows.fetch.size")
    );
    assert_eq!(
        error("request = 1\nresponse = 1\nparallel = 101"),
        "test.toml:14: flows.fetch.parallel: cannot be 101; give a whole number from 1 to 100"
    );
    assert_eq!(
        error("size = 10\nidle_timeout = \"10 us\""),
        "test.toml:13: flows.fetch.idle_timeout: cannot be \"10 us\" (QUIC counts milliseconds); give a time from 1 ms on"
    );
    assert_eq!(error("size = 10\nstream_window = 0").split(": ").nth(1), Some("flows.fetch.stream_window"));
    assert_eq!(
        Scenario::parse("test.toml", &format!("{NETWORK}size = 10\nudp_payload = 1300").replace("quic", "transfer"))
            .expect_err("a key of QUIC")
            .to_string(),
        "test.toml:13: flows.fetch.udp_payload: only app = \"quic\" supports it; remove this key, or app"
    );
}
