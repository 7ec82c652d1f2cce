//! Tests of `lasthop probe` over loopback, and over links of the lab in namespaces.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::common::Bench;
use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;

use crate::skipping;

fn refused(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run_all(arguments);
    assert_eq!(output.status.code().filter(|code| *code > 0).map(|_| ()), Some(()), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said
}

fn lasthop() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lasthop"))
}

fn serve(bench: &Bench, arguments: &[&str]) -> (Running, String) {
    let mut command = Command::new(lasthop());
    command.current_dir(bench.path()).args(["probe", "serve", "--key", "key"]).args(arguments);
    let mut server = Running::start(&mut command);
    let said = server.says("listening at");
    (server, said.rsplit(' ').next().unwrap().to_owned())
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let bench = Bench::new();
    bench.stdout("probe keygen key");
    bench.put("open", "x");
    let secret = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        bench.put(name, text);
        std::fs::set_permissions(bench.path().join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    secret("short", "abc\n");
    secret("zero", &"0".repeat(64));
    for (arguments, expected) in [
        (&["probe", "keygen", "key"][..], "key: file exists"),
        (&["probe", "127.0.0.1"], "--key"),
        (&["probe", "--key", "key"], "probe: no host given"),
        (&["probe", "127.0.0.1", "--key", "none"], "--key none: No such file"),
        (&["probe", "127.0.0.1", "--key", "open"], "--key open: accessible to other users"),
        (&["probe", "127.0.0.1", "--key", "short"], "--key short: expected 32 bytes"),
        (&["probe", "127.0.0.1", "--key", "zero"], "--key zero: the key is all zeros"),
        (&["probe", "127.0.0.1:99999", "--key", "key"], "127.0.0.1:99999: invalid port"),
        (&["probe", "127.0.0.1", "--key", "key", "--seconds", "301"], "--seconds"),
        (
            &["probe", "127.0.0.1", "--key", "key", "--moving", "--out", "x", "--record", "pcap"],
            "expected mahimahi or leoreplayer",
        ),
        (&["probe", "127.0.0.1", "--key", "key", "--record", "mahimahi"], "--moving"),
        (&["probe", "127.0.0.1", "--key", "key", "--max-rate", "1 kbps"], "at least \"64 kbps\""),
        (&["probe", "127.0.0.1", "--key", "key", "--max-rate", "fast"], "--max-rate"),
        (&["probe", "serve", "--key", "key", "--sessions", "0"], "--sessions"),
        (&["probe", "serve", "--key", "key", "--listen", "192.0.2.77:1"], "192.0.2.77:1"),
        (&["fit", "tiny.toml", "--out", "x.toml"], "--rate and --delay are missing"),
    ] {
        let said = refused(&bench, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn nobody_there_is_said_soon() {
    let bench = Bench::new();
    bench.stdout("probe keygen key");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = refused(&bench, &["probe", &free, "--key", "key"]);
    assert!(said.contains("no server is listening; start `lasthop probe serve`"), "{said}");
    // A host that does not answer, like one without the key.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let said = refused(&bench, &["probe", &silent.local_addr().unwrap().to_string(), "--key", "key"]);
    assert!(said.contains("no answer within 5 s") && said.contains("the same key"), "{said}");
}

#[test]
fn a_wrong_key_and_ctrl_c_end_in_one_line() {
    let bench = Bench::new();
    bench.stdout("probe keygen key");
    bench.stdout("probe keygen other");
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        if listen.starts_with('[') && std::net::UdpSocket::bind(listen).is_err() {
            continue;
        }
        let (mut server, address) = serve(&bench, &["--listen", listen, "--max-rate", "5 Mbps"]);
        let said = refused(&bench, &["probe", &address, "--key", "other"]);
        assert!(said.contains("no answer within 5 s"), "{said}");
        let client = || {
            let mut command = Command::new(lasthop());
            command.current_dir(bench.path()).args(["probe", &address, "--key", "key", "--max-rate", "5 Mbps"]);
            Running::start(&mut command)
        };
        let mut first = client();
        assert!(server.says("started").contains("started"));
        first.signal(Signal::INT);
        assert!(first.says("stopped").ends_with("stopped"));
        assert_eq!(first.status(), Some(1));
        assert!(server.says("finished").contains("finished"));
        // Stopping the server stops the client.
        let mut second = client();
        assert!(server.says("started").contains("started"));
        server.signal(Signal::INT);
        assert_eq!(server.status(), Some(0));
        assert!(second.says("error").contains("the server was stopped"));
        assert_eq!(second.status(), Some(1));
    }
}

/// Link of the lab between two routers: in front of its own link a host would keep its sockets from overrunning the
/// queue, and the probe would measure a socket's buffer.
const LINK: &str = r#"
title = "A link to be measured"
[hosts.near]
[hosts.far]
[routers.one]
[routers.other]
[links.hop]
between = ["other", "one"]
rate = "8 Mbps"
rate_up = "3 Mbps"
delay = "20 ms"
queue = "40 packets"
queue_up = "25 packets"
errors_down = { model = "two-state-packet", good_to_bad = 0.0125, bad_to_good = 0.25 }
errors_up = { model = "uniform", frame_loss = "3 %" }
[links.far-wire]
between = ["far", "other"]
rate = "200 Mbps"
delay = "10 us"
queue = "1000 packets"
[links.near-wire]
between = ["one", "near"]
rate = "200 Mbps"
delay = "10 us"
queue = "1000 packets"
[flows.unused]
from = "far"
to = "near"
size = 1
"#;

/// Half-duplex radio.
const RADIO: &str = r#"
title = "A radio to be measured"
[hosts.near]
[hosts.far]
[routers.one]
[routers.other]
[links.hop]
between = ["other", "one"]
medium = "half-duplex"
rate = "10 Mbps"
frame_overhead = "200 us"
turnaround = "100 us"
delay = "4 ms"
queue = "40 packets"
errors = { model = "uniform", frame_loss = "2 %" }
[links.far-wire]
between = ["far", "other"]
rate = "200 Mbps"
delay = "10 us"
queue = "1000 packets"
[links.near-wire]
between = ["one", "near"]
rate = "200 Mbps"
delay = "10 us"
queue = "1000 packets"
[flows.unused]
from = "far"
to = "near"
size = 1
"#;

/// Link of a held lab, with a probe server at the far end.
struct Held<'b> {
    bench: &'b Bench,
    near: String,
    address: String,
    _running: [Running; 2],
}

impl<'b> Held<'b> {
    fn new(bench: &'b Bench, link: &str) -> Self {
        bench.put("link.toml", link);
        bench.stdout("probe keygen key");
        let mut hold = Command::new(lasthop());
        hold.current_dir(bench.path()).args(["lab", "hold", "link.toml", "--json", "--scheme", "E2E"]);
        let mut lab = Running::start(&mut hold);
        let places: Value = serde_json::from_str(&lab.line()).unwrap();
        let place =
            |name: &str| ["namespace", "address"].map(|key| places["nodes"][name][key].as_str().unwrap().to_owned());
        let ([far, address], [near, _]) = (place("far"), place("near"));
        let mut server = Running::start(within(bench, &far).args(["probe", "serve", "--key", "key"]));
        assert!(server.says("listening").contains("listening"));
        Self { bench, near, address, _running: [server, lab] }
    }

    fn probe(&self) -> std::process::Output {
        let probe = ["probe", &self.address, "--key", "key", "--seconds", "30", "--out", "found"];
        within(self.bench, &self.near).args(probe).output().unwrap()
    }

    /// Returns the summary and the report.
    fn report(&self) -> (String, Value) {
        let output = self.probe();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        (said, serde_json::from_str(&self.bench.text("found/probe.json")).unwrap())
    }
}

fn within(bench: &Bench, namespace: &str) -> Command {
    let mut command = Command::new("ip");
    command.current_dir(bench.path()).args(["netns", "exec", namespace]).arg(lasthop());
    command
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {report:#}"))
}

/// Checks that a number of a report is near its expected value.
fn near(report: &Value, (path, expected, near): (&str, f64, f64)) {
    let found = number(report, path);
    assert!((found - expected).abs() <= near, "{path}: {found}, expected {expected}\n{report:#}");
}

/// A half-duplex medium is distinguished from two links, and the scenario has the overhead of each frame.
#[test]
#[ignore = "needs root: make root"]
fn a_radio_of_the_lab_is_seen_to_be_half_duplex() {
    if skipping::without_root("a_radio_of_the_lab_is_seen_to_be_half_duplex") {
        return;
    }
    let bench = Bench::new();
    let (said, report) = Held::new(&bench, RADIO).report();
    for expected in [
        ("/half_duplex/rate_bps/0", 10e6, 1e6),
        ("/half_duplex/rate_bps/1", 10e6, 1e6),
        ("/half_duplex/frame_overhead_us", 200.0, 60.0),
        ("/half_duplex/turnaround_us", 100.0, 60.0),
        ("/one_way_delay_ms", 4.0, 1.0),
        ("/down/rate_bps/value", 12e3 / 1400e-6, 0.8e6),
        ("/up/rate_bps/value", 12e3 / 1400e-6, 0.8e6),
        ("/down/queue/packets", 40.0, 16.0),
        ("/down/loss/share/value", 0.02, 0.015),
    ] {
        near(&report, expected);
    }
    assert!(said.lines().any(|line| line == "medium         half-duplex   half-duplex"), "{said}");
    bench.stdout("fit found --out fitted.toml");
    let scenario = bench.text("fitted.toml");
    assert!(scenario.contains("medium = \"half-duplex\"\nframe_overhead = "), "{scenario}");
    bench.stdout("compare fitted.toml --schemes E2E-CUBIC -n 1 --set flows.download.size=100kB");
}

/// Checks the numbers of a report that may also be unknown: a busy machine delays the emulated link, which the probe
/// reports as a rate that varies and as unknown quantities. Half of them must be known.
fn near_or_unknown(report: &Value, expected: &[(&str, f64, f64)]) {
    let is_known = |path: &str| report.pointer(path).is_some_and(Value::is_number);
    let (known, unknown): (Vec<_>, Vec<_>) = expected.iter().copied().partition(|(path, ..)| is_known(path));
    known.iter().for_each(|one| near(report, *one));
    for (path, ..) in &unknown {
        let ways = if path.starts_with("/up") { &["up"][..] } else { &["down", "up"] };
        let mut reasons = ways.iter().filter_map(|way| report[way]["behaviour"]["unknown"].as_array()).flatten();
        assert!(
            reasons.any(|one| one["reason"].as_str().is_some_and(|reason| !reason.is_empty())),
            "{path}: {report:#}"
        );
    }
    assert!(known.len() >= unknown.len(), "{report:#}");
}

/// The probe measures what the lab emulates, and `fit` makes a scenario of it that `compare` accepts. Tolerances are
/// wide, since the machine may be busy; `benches/live/probe.py` measures the accuracy.
#[test]
#[ignore = "needs root: make root"]
fn a_link_of_the_lab_is_found() {
    if skipping::without_root("a_link_of_the_lab_is_found") {
        return;
    }
    let bench = Bench::new();
    let held = Held::new(&bench, LINK);
    let (said, report) = held.report();
    let summary = said.split("\nwrote").next().unwrap();
    assert!(summary.lines().all(|line| line.chars().count() <= 40), "{said}");
    let expected = [
        ("/down/rate_bps/value", 8e6, 0.8e6),
        ("/up/rate_bps/value", 3e6, 0.3e6),
        ("/one_way_delay_ms", 20.0, 5.0),
        ("/down/queue/packets", 40.0, 16.0),
        ("/up/queue/packets", 25.0, 10.0),
        ("/down/loss/share/value", 0.048, 0.03),
        ("/up/loss/share/value", 0.03, 0.02),
    ];
    near_or_unknown(&report, &expected);
    assert!(report["half_duplex"].is_null());
    let number = |path: &str| number(&report, path);
    assert!(number("/seconds") <= 31.0);
    assert!(report["down"]["used_share"].as_f64().is_none_or(|share| share <= 0.2), "{said}");
    assert!(number("/down/runs/mean/value") > 1.5 && number("/up/runs/mean/value") < 1.5, "{said}");
    assert_eq!(number("/down/path_mtu"), 1500.0);
    let page = bench.text("found/index.html");
    assert!(page.contains("Loss over time") && page.contains("Runs of losses") && page.contains("Delay against load"));
    bench.stdout("fit found --out fitted.toml");
    let scenario = bench.text("fitted.toml");
    assert!(scenario.contains("rate_up = ") && scenario.contains("# lasthop probe, up"), "{scenario}");
    bench.stdout("compare fitted.toml --schemes E2E-CUBIC -n 1 --set flows.download.size=100kB");
    // A second probe does not overwrite the first.
    let again = held.probe();
    assert!(String::from_utf8(again.stderr).unwrap().contains("--force"));
}
