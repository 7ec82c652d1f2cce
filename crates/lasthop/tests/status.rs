//! Tests of `lasthop status`: what it prints of the daemons that it finds, and its page. The daemons are stand-ins that
//! answer over the control socket of the real ones.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lasthop_daemon::control::{Listener, SocketFile};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::network::lasthop;
use crate::running::{PATIENCE, Running};

/// Daemon that answers status requests; its uptime and its bytes grow with each.
struct StandIn {
    file: Option<SocketFile>,
    path: PathBuf,
    who: &'static str,
    asked: Arc<AtomicU64>,
}

/// Bytes per second of the traffic that a tunnel reports.
const BYTES: u64 = 125_000;

/// Returns the answer of a tunnel that has run for `seconds`.
fn tunnel(seconds: u64) -> Value {
    let path = |name: &str, state: &str, rate: u64| {
        json!({
            "name": name, "address": "192.0.2.7:51900", "rate": rate, "finds_rate": true, "state": state,
            "rtt_seconds": 0.04, "loss": 0.02, "heard_seconds": 0.3,
            "frames": { "packets": 9, "bytes": BYTES / 2 * seconds },
            "repair": { "packets": 1, "bytes": BYTES / 20 * seconds },
        })
    };
    json!({
        "version": "0.1.0", "uptime_seconds": seconds, "worker": { "pid": 7, "restarts": 0 }, "reloads": 1,
        "device": "lasthop0", "mode": "tun", "listen": "0.0.0.0:51900", "handshakes": 1, "replayed": 2,
        "a_key_of_a_later_version": "hidden",
        "peers": [{
            "name": "hub", "up": true, "up_seconds": seconds, "heard_seconds": 0.3,
            "address": "192.0.2.7:51900", "mtu": 1442, "rate": 50_000_000, "finds_rate": true,
            "state": "repairing", "rtt_seconds": 0.04, "loss": 0.02,
            "paths": [path("dish", "repairing", 30_000_000), path("lte", "down", 20_000_000)],
            "sent": { "packets": 9, "bytes": BYTES * seconds }, "received": { "packets": 1, "bytes": 100 },
            "frames": { "packets": 9, "bytes": BYTES * seconds }, "repair": { "packets": 1, "bytes": 25 },
        }],
    })
}

/// Returns the answer of a gateway.
fn gateway(seconds: u64) -> Value {
    json!({
        "version": "0.1.0", "uptime_seconds": seconds, "worker": { "pid": 9, "restarts": 1 },
        "firewall": { "in_place": true, "restored": 0, "problem": null },
        "limits": { "cache_bytes": 67_108_864, "flows": 65_536 }, "flows": 3, "cached_bytes": 1_024,
        "packets": { "towards_wireless": 5, "towards_wireless_bytes": 1_000 * seconds, "overflows": 4 },
        "rules": [{
            "name": "roof", "mode": "snoop", "interface": "wlan0", "ab": 0.0, "flows_active": 3, "flows_seen": 8,
            "wireless_losses": 10 * seconds, "repairs_hole": 12 * seconds,
            "rtt_wireless": { "samples": seconds, "sum_seconds": 0.025 * seconds as f64, "mean_seconds": 0.025 },
        }, { "name": "cellar", "mode": "split", "interface": "wlan1", "ab": 0.0 }],
    })
}

impl StandIn {
    fn start(folder: &TempDir, who: &'static str) -> Self {
        let mut daemon =
            Self { file: None, path: folder.path().join(format!("{who}.sock")), who, asked: Arc::default() };
        daemon.resume();
        daemon
    }

    fn stop(&mut self) {
        self.file = None;
    }

    fn resume(&mut self) {
        let (asked, who) = (Arc::clone(&self.asked), self.who);
        let answer = move |request: &[u8]| {
            assert_eq!(request, b"{\"request\":\"status\"}\n", "the page only reads");
            let seconds = asked.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(if who == "tunnel" { tunnel(seconds) } else { gateway(seconds) })
        };
        self.file = Some(Listener::bind(&self.path, who, None).unwrap().serve(answer).unwrap());
    }
}

fn status(arguments: &[&str]) -> Command {
    let mut command = Command::new(lasthop());
    command.arg("status").args(arguments);
    command
}

fn named<'a>(command: &'a mut Command, option: &str, path: &Path) -> &'a mut Command {
    command.arg(option).arg(path)
}

/// Returns standard output, standard error and success.
fn outcome(command: &mut Command) -> (String, String, bool) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.success())
}

#[test]
fn both_daemons_are_summed_up() {
    let folder = tempfile::tempdir().unwrap();
    let daemons = [StandIn::start(&folder, "gateway"), StandIn::start(&folder, "tunnel")];
    let mut command = status(&[]);
    named(named(&mut command, "--gateway", &daemons[0].path), "--tunnel", &daemons[1].path);
    let (out, err, success) = outcome(&mut command);
    assert!(success, "{err}");
    let [gateway, tunnel] = daemons.each_ref().map(|daemon| daemon.path.display());
    assert_eq!(
        out,
        format!(
            "gateway at {gateway}:\n  lasthop 0.1.0, up for 1 s; worker 9, replaced 1 time\n  \
             netfilter rules in place\n  \
             3 connections of at most 65536; 1.0 KiB cached of at most 64.0 MiB\n  \
             4 queue overflows: packets passed untreated (on a bridge, they were lost)\n  \
             roof: snoop on wlan0; 3 connections now, 8 since the worker started\n  \
             cellar: split on wlan1; 0 connections now, 0 since the worker started\n\
             tunnel at {tunnel}:\n  lasthop 0.1.0, up for 1 s; worker 7, never replaced\n  \
             lasthop0 on 0.0.0.0:51900; 1 handshake\n  2 replayed datagrams\n  \
             hub: at 192.0.2.7:51900 for 1 s, 40.0 ms, 50.0 Mbit/s found, 2.0 % lost, repairing, \
             last received 0 s ago, MTU 1442\n    \
             path dish: at 192.0.2.7:51900, 40.0 ms, 30.0 Mbit/s found, 2.0 % lost, repairing, \
             last received 0 s ago, 50 % of all bytes sent\n    \
             path lte: at 192.0.2.7:51900, 40.0 ms, 20.0 Mbit/s found, 2.0 % lost, down, \
             last received 0 s ago, 50 % of all bytes sent\n"
        )
    );
    let (out, _, success) = outcome(command.arg("--json"));
    let all: Value = serde_json::from_str(&out).unwrap();
    assert!(success && all.as_array().unwrap().len() == 2, "{all:#}");
    assert_eq!((&all[0]["daemon"], &all[0]["status"]["flows"]), (&json!("gateway"), &json!(3)));
    assert_eq!((&all[1]["problem"], &all[1]["status"]["peers"][0]["name"]), (&Value::Null, &json!("hub")));
}

#[test]
fn a_daemon_that_does_not_answer_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = StandIn::start(&folder, "tunnel");
    let missing = folder.path().join("none.sock");
    // One of two that were named.
    let mut both = status(&[]);
    named(named(&mut both, "--tunnel", &daemon.path), "--gateway", &missing);
    let (out, err, success) = outcome(&mut both);
    assert!(!success && out.contains("hub: at 192.0.2.7"), "{out}");
    assert!(err.contains("none.sock: no gateway is running"), "{err}");
    let (out, _, _) = outcome(both.arg("--json"));
    let all: Value = serde_json::from_str(&out).unwrap();
    assert!(all[0]["problem"].as_str().unwrap().contains("no gateway is running"), "{out}");
    assert!(all[0]["status"].is_null() && all[1]["problem"].is_null(), "{out}");
    // None at all.
    daemon.stop();
    let (out, err, success) = outcome(named(&mut status(&[]), "--tunnel", &daemon.path));
    assert!(!success && out.is_empty());
    let expected = format!("no gateway or tunnel is running at {}; start one", daemon.path.display());
    assert!(err.contains(&expected) && err.contains("--gateway or --tunnel"), "{err}");
    // Something else at the socket's path.
    std::fs::write(&missing, "").unwrap();
    let (_, err, success) = outcome(named(&mut status(&[]), "--tunnel", &missing));
    assert!(!success && err.starts_with("error: ") && err.contains("none.sock"), "{err}");
}

/// Returns the answer of the page's server.
fn get(host: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(host).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Lasthop-Page: 1\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

fn state(host: &str) -> Value {
    let answer = get(host, "/api/status");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Returns the state once it is as wanted.
fn await_state(host: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let state = state(host);
        if wanted(&state) {
            return state;
        }
        assert!(Instant::now() < end, "{state:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the known values of a line.
fn values(daemon: &Value, chart: &str, name: &str) -> Vec<f64> {
    let lines = daemon["history"]["lines"].as_array().unwrap();
    let Some(place) = lines.iter().position(|line| line["chart"] == chart && line["name"] == name) else {
        return Vec::new();
    };
    let rounds = daemon["history"]["rounds"].as_array().unwrap();
    rounds.iter().filter_map(|round| round["values"][place].as_f64()).collect()
}

/// Starts the page; returns its process and its address.
fn page(command: &mut Command) -> (Running, String) {
    let mut running = Running::start(command);
    let line = running.line();
    let host = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
    let host = host.unwrap_or_else(|| panic!("{line}")).to_owned();
    (running, host)
}

#[test]
fn the_page_follows_daemons_that_end_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let [gateway, mut tunnel] = ["gateway", "tunnel"].map(|who| StandIn::start(&folder, who));
    let mut command = status(&["--serve", "127.0.0.1:0"]);
    named(named(&mut command, "--gateway", &gateway.path), "--tunnel", &tunnel.path);
    let (mut running, host) = page(&mut command);
    assert!(get(&host, "/").contains("<title>lasthop status</title>"));
    let is_known = |state: &Value| {
        let [gateway, tunnel] = [0, 1].map(|index| &state["daemons"][index]);
        !values(gateway, "packets", "roof: retransmitted").is_empty() && !values(tunnel, "paths", "lte").is_empty()
    };
    let known = await_state(&host, is_known);
    let [of_gateway, of_tunnel] = [0, 1].map(|index| &known["daemons"][index]);
    // An answer follows the one before by a second of the stand-ins' time.
    assert_eq!(values(of_tunnel, "throughput", "to it")[0], 8.0 * BYTES as f64);
    assert_eq!(values(of_tunnel, "paths", "lte")[0], 4.0 * BYTES as f64);
    assert!((values(of_tunnel, "round-trip", "dish")[0] - 0.04).abs() < 1e-6);
    // Of a path that is down, the loss is not known.
    assert_eq!((values(of_tunnel, "loss", "dish").is_empty(), values(of_tunnel, "loss", "lte").len()), (false, 0));
    assert_eq!(values(of_gateway, "packets", "roof: retransmitted")[0], 12.0);
    assert!((values(of_gateway, "round-trip", "roof, over the hop")[0] - 0.025).abs() < 1e-6);
    assert_eq!(of_tunnel["status"]["peers"][0]["paths"][1]["state"], "down");
    let rules = &of_gateway["status"]["rules"];
    assert_eq!((&rules[0]["name"], &rules[0]["flows_active"]), (&json!("roof"), &json!(3)));
    // Its connections are the relay's.
    assert_eq!((&rules[1]["name"], &rules[1]["flows_active"]), (&json!("cellar"), &Value::Null));
    assert_eq!(of_tunnel["remarks"], json!(["2 replayed datagrams"]));
    assert!(!known.to_string().contains("hidden"), "only what this version knows is shown");
    // The tunnel ends, and returns; the gateway does not notice.
    tunnel.stop();
    let gone = await_state(&host, |state| state["daemons"][1]["problem"].is_string());
    assert!(gone["daemons"][1]["problem"].as_str().unwrap().contains("no tunnel is running"), "{gone:#}");
    assert!(gone["daemons"][0]["problem"].is_null() && gone["daemons"][1]["status"].is_object());
    tunnel.resume();
    await_state(&host, |state| state["daemons"][1]["problem"].is_null());
    // The port is in use.
    let (_, err, success) = outcome(named(&mut status(&["--serve", &host]), "--tunnel", &tunnel.path));
    assert!(!success && err.contains(&format!("--serve {host}: ")) && err.contains("give another port"), "{err}");
    running.signal(Signal::INT);
    assert_eq!(running.status(), Some(0));
}

#[test]
fn a_page_waits_for_its_daemon_and_warns_of_other_machines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tunnel.sock");
    let mut command = status(&["--serve", "0.0.0.0:0"]);
    let mut running = Running::start(named(&mut command, "--tunnel", &path));
    let url = running.line();
    let port = url.trim().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let host = format!("127.0.0.1:{port}");
    assert!(state(&host)["daemons"][0]["problem"].as_str().unwrap().contains("no tunnel is running"));
    let _daemon = StandIn::start(&folder, "tunnel");
    await_state(&host, |state| state["daemons"][0]["status"].is_object());
    running.signal(Signal::TERM);
    assert_eq!(running.status(), Some(0));
    let mut err = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("the page waits for it") && err.contains("is reachable from other machines"), "{err}");
}
