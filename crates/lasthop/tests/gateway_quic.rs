//! A rule for QUIC on real connections of quinn over the lab's lossy hop.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lasthop_lab::namespace::all;
use serde_json::Value;

use crate::common::Bench;
use crate::running::{PATIENCE, Running};
use crate::skipping;

/// A client downloads over a hop that loses 1 %; the download begins once the gateway runs.
const LINK: &str = r#"
limit = "60 s"
[hosts.server]
[hosts.client]
[routers.box]
[links.wire]
between = ["server", "box"]
rate = "10 Mbps"
delay = "25 ms"
queue = "65 kB"
[links.hop]
between = ["box", "client"]
rate = "100 Mbps"
delay = "1 ms"
errors_down = { model = "uniform", frame_loss = "1 %" }
[flows.download]
from = "client"
to = "server"
app = "quic"
request = 300
response = "4 MB"
start = "5 s"
[lab]
lateness = "200 ms"
"#;

fn lasthop() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lasthop"))
}

/// Runs the download through a gateway with this share left untreated; returns the gateway's figures of the rule.
fn download(ab: &str) -> Value {
    let bench = Bench::new();
    bench.put("link.toml", LINK);
    let socket = bench.path().join("gateway.sock");
    let rule = "[[rule]]\nname = 'web'\nmode = 'quic'\ninterface = 'link1'\nports = ['1-65535']";
    bench.put("gateway.toml", &format!("control = '{}'\n{rule}\nab = '{ab}'\n", socket.display()));
    let mut command = Command::new(lasthop());
    command.current_dir(bench.path()).args(["lab", "link.toml", "--scheme", "E2E", "--json", "--runs", "1"]);
    let mut lab = Running::start(&mut command);
    let end = Instant::now() + PATIENCE;
    let router = loop {
        let of_lab = |name: &str| name.ends_with("-box");
        if let Some(found) = all().into_iter().find(|found| found.pid == lab.0.id() && of_lab(&found.name)) {
            break found.name;
        }
        assert!(Instant::now() < end, "no lab");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut command = Command::new("ip");
    command.current_dir(bench.path()).args(["netns", "exec", &router]).arg(lasthop());
    let gateway = Running::start(command.args(["gateway", "gateway.toml"]));
    assert_eq!(lab.status(), Some(0), "the download ends");
    // The worker reports twice a second.
    std::thread::sleep(Duration::from_secs(1));
    let mut status = Command::new(lasthop());
    let output = status.args(["gateway", "status", "--json", "--control"]).arg(&socket).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut text = Command::new(lasthop());
    let text = text.args(["gateway", "status", "--control"]).arg(&socket).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("\nweb: quic on link1; ") && text.contains(" repaired, "), "{text}");
    drop(gateway);
    assert_eq!(status["packets"]["injection_failures"], 0, "{status:#}");
    assert_eq!(status["rules"][0]["flows_seen"], 1, "{status:#}");
    status["rules"][0].clone()
}

#[test]
#[ignore = "needs root: make root"]
fn losses_of_quic_are_repaired_and_the_untreated_share_is_only_observed() {
    let queues = Path::new("/proc/net/netfilter/nfnetlink_queue").exists();
    let test = "losses_of_quic_are_repaired_and_the_untreated_share_is_only_observed";
    if skipping::is_skipped_without(test, "the kernel's netfilter queues", queues) {
        return;
    }
    let treated = download("0 %");
    let count = |rule: &Value, path: &str| {
        rule.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {rule:#}"))
    };
    assert!(count(&treated, "/quic/treated/cases") >= 3, "{treated:#}");
    assert!(count(&treated, "/quic/treated/repaired") >= 1, "{treated:#}");
    assert!(count(&treated, "/quic/treated/copies") >= 1, "{treated:#}");
    assert_eq!(count(&treated, "/treated/flows"), 1, "{treated:#}");

    let untreated = download("100 %");
    assert_eq!(count(&untreated, "/quic/treated/cases"), 0, "{untreated:#}");
    assert!(count(&untreated, "/quic/untreated/repaired") >= 1, "{untreated:#}");
    assert_eq!(count(&untreated, "/untreated/flows"), 1, "{untreated:#}");
}
