//! A rule for QUIC on real connections of quinn over the lab's lossy hop.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use lasthop_lab::namespace::all;
use rustix::process::{Pid, Signal};
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

/// A lab and the gateway in its router.
struct Scene {
    bench: Bench,
    lab: Running,
    gateway: Running,
}

impl Scene {
    /// Starts the download through a gateway with this share left untreated.
    fn start(ab: &str) -> Self {
        let bench = Bench::new();
        bench.put("link.toml", LINK);
        let socket = bench.path().join("gateway.sock");
        let rule = "[[rule]]\nname = 'web'\nmode = 'quic'\ninterface = 'link1'\nports = ['1-65535']";
        bench.put("gateway.toml", &format!("control = '{}'\n{rule}\nab = '{ab}'\n", socket.display()));
        let mut command = Command::new(lasthop());
        command.current_dir(bench.path()).args(["lab", "link.toml", "--scheme", "E2E", "--json", "--runs", "1"]);
        let lab = Running::start(&mut command);
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
        Self { bench, lab, gateway }
    }

    /// Returns the gateway's status as text or JSON; `None` if it does not answer.
    fn say(&self, more: &[&str]) -> Option<String> {
        let mut status = Command::new(lasthop());
        status.args(["gateway", "status", "--control"]).arg(self.bench.path().join("gateway.sock")).args(more);
        let output = status.output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.say(&["--json"])?).ok()
    }

    /// Waits for a status.
    fn await_status(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if let Some(status) = status.filter(&wanted) {
                return status;
            }
            assert!(Instant::now() < end, "no such status");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn count(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {value:#}"))
}

/// Runs the download through a gateway with this share left untreated; returns the gateway's figures of the rule.
fn download(ab: &str) -> Value {
    let mut scene = Scene::start(ab);
    assert_eq!(scene.lab.status(), Some(0), "the download ends");
    // The worker reports twice a second.
    std::thread::sleep(Duration::from_secs(1));
    let text = scene.say(&[]).expect("an answer");
    assert!(text.contains("\nweb: quic on link1; ") && text.contains(" repaired, "), "{text}");
    let status = scene.status().expect("an answer");
    drop(scene.gateway);
    assert_eq!(status["packets"]["injection_failures"], 0, "{status:#}");
    assert_eq!(status["rules"][0]["flows_seen"], 1, "{status:#}");
    status["rules"][0].clone()
}

fn is_skipped(test: &str) -> bool {
    let queues = Path::new("/proc/net/netfilter/nfnetlink_queue").exists();
    skipping::is_skipped_without(test, "the kernel's netfilter queues", queues)
}

#[test]
#[ignore = "needs root: make root"]
fn losses_of_quic_are_repaired_and_the_untreated_share_is_only_observed() {
    if is_skipped("losses_of_quic_are_repaired_and_the_untreated_share_is_only_observed") {
        return;
    }
    let treated = download("0 %");
    assert!(count(&treated, "/quic/treated/cases") >= 3, "{treated:#}");
    assert!(count(&treated, "/quic/treated/repaired") >= 1, "{treated:#}");
    assert!(count(&treated, "/quic/treated/copies") >= 1, "{treated:#}");
    assert_eq!(count(&treated, "/treated/flows"), 1, "{treated:#}");

    let untreated = download("100 %");
    assert_eq!(count(&untreated, "/quic/treated/cases"), 0, "{untreated:#}");
    assert!(count(&untreated, "/quic/untreated/repaired") >= 1, "{untreated:#}");
    assert_eq!(count(&untreated, "/untreated/flows"), 1, "{untreated:#}");
}

/// Checks that datagrams pass, also those of a connection under repair, if the worker is killed in mid-transfer.
#[test]
#[ignore = "needs root: make root"]
fn a_download_ends_although_the_worker_of_its_gateway_is_killed() {
    if is_skipped("a_download_ends_although_the_worker_of_its_gateway_is_killed") {
        return;
    }
    let mut scene = Scene::start("0 %");
    let has_held = |status: &Value| status.pointer("/rules/0/quic/treated/held").and_then(Value::as_u64) >= Some(3);
    let status = scene.await_status(has_held);
    let pid = i32::try_from(count(&status, "/worker/pid")).unwrap();
    assert!(scene.lab.0.try_wait().unwrap().is_none(), "the download is under way");
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(scene.lab.status(), Some(0), "the download ends");
    let other =
        |status: &Value| status.pointer("/worker/pid").and_then(Value::as_i64).is_some_and(|own| own != i64::from(pid));
    let status = scene.await_status(other);
    // The new worker did not see the beginning of the connection.
    assert_eq!(count(&status, "/rules/0/quic/treated/held"), 0, "{status:#}");
    drop(scene.gateway);
}
