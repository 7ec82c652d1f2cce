//! Tests of `lasthop lab`. Those that need root are reported as skipped without it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Bench, split};
use crate::network::{skip, without_root};
use lasthop_lab::namespace::{all, require_root};
use serde_json::Value;

fn is_root() -> bool {
    !without_root("`lasthop lab`")
}

fn namespaces_of(pid: u32) -> usize {
    all().iter().filter(|namespace| namespace.pid == pid).count()
}

/// Starts `lasthop` in the folder, as [`Bench::run`] does.
fn start(bench: &Bench, arguments: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lasthop"));
    command.args(split(arguments)).current_dir(bench.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "needs root: make root"]
fn beside_the_simulator_with_a_capture() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    // Other tests run at the same time.
    let output = bench.run("lab tiny.toml --set lab.lateness=200ms --against-sim --json --pcapng captures");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let scheme = &value["schemes"][0];
    assert_eq!((&value["runs"], &scheme["scheme"]), (&2.into(), &"E2E".into()));
    for measures in [&scheme["measures"], &scheme["simulated"]] {
        assert_eq!(measures["incomplete"]["mean"], 0.0, "{scheme}");
        assert!(measures["throughput"]["mean"].as_f64().unwrap() > 0.1, "{scheme}");
        assert_eq!(measures["throughput"]["runs"], 2);
    }
    // The kernel's report and the simulator's have the same fields.
    let [kernel, simulated] = ["flows", "simulated_flows"].map(|flows| &scheme[flows][0]["tcp_info"]);
    assert_eq!((&kernel["bytes_acked"], &simulated["bytes_acked"]), (&102_402.into(), &102_402.into()), "{scheme}");
    assert_eq!(kernel["snd_mss"], simulated["snd_mss"], "{scheme}");
    let names = |info: &Value| info.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(kernel), names(simulated));
    assert!(scheme["lateness_us"]["p99"].as_f64().unwrap() > 0.0);
    let kernels = scheme["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 2, "one a run: {scheme}");
    // The sending kernel counts original transmissions: 100 KiB are 71 segments.
    assert!(kernels.iter().all(|run| run["server"]["TCPOrigDataSent"].as_u64() >= Some(71)), "{scheme}");
    for file in ["captures/E2E-0.pcapng", "captures/E2E-1.pcapng"] {
        assert!(bench.bytes(file).len() > 10_000, "{file}");
    }
}

/// Modern endpoints and gateway: the kernel's TCP where available, otherwise lasthop's.
#[test]
#[ignore = "needs root: make root"]
fn modern_schemes() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let output = bench.run(
        "lab tiny.toml --runs 1 --set lab.lateness=200ms --set flows.download.size=400KiB --json \
         --schemes E2E-CUBIC,E2E-BBR,E2E-BBR3,SNOOP,SPLIT-BBR",
    );
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ends = |whose: &str| serde_json::json!({ "server": whose, "phone": whose });
    let relay = serde_json::json!({ "server": "kernel", "phone": "kernel", "tower": "kernel" });
    let expected = [ends("kernel"), ends("kernel"), ends("own"), ends("kernel"), relay];
    for (scheme, expected) in value["schemes"].as_array().unwrap().iter().zip(&expected) {
        assert_eq!(scheme["endpoints"], *expected, "{scheme}");
        assert_eq!(scheme["measures"]["incomplete"]["mean"], 0.0, "{scheme}");
        assert!(scheme["measures"]["segments_lost"]["mean"].as_f64().unwrap() >= 1.0, "{scheme}");
    }
    let repaired = |at: usize| value["schemes"][at]["measures"]["repaired_locally"]["mean"].as_f64().unwrap();
    assert!(repaired(0) == 0.0 && repaired(3) >= 1.0 && repaired(4) >= 1.0, "{value}");
}

/// A hop's round trip of 600 ms delays the server's answer beyond every trial, and the lab's gateway makes none: the only
/// connection of the run is split, so that its source retransmits next to nothing.
#[test]
#[ignore = "needs root: make root"]
fn a_split_takes_the_first_connection_over_a_long_hop() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let value = bench.json(
        "lab tiny.toml --runs 1 --set lab.lateness=200ms --set links.radio.delay=300ms --set flows.download.size=400KiB \
         --schemes SPLIT-BBR --json",
    );
    assert_eq!(mean(&value, "incomplete"), 0.0, "{value}");
    let [losses, source] = ["segments_lost", "source_retransmissions"].map(|measure| mean(&value, measure));
    assert!(losses >= 4.0 && source < losses / 2.0, "{value}");
}

/// Table and JSON state which TCP ran; with the simulator's TCP the results are similar.
#[test]
#[ignore = "needs root: make root"]
fn our_own_ends_beside_the_simulator() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let lab = "lab tiny.toml --runs 1 --set lab.lateness=200ms --set lab.hosts.server.endpoints=own";
    let table = bench.run(lab);
    let message = String::from_utf8_lossy(&table.stderr).into_owned();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("E2E: TCP own at server, kernel at phone\n"), "{table}{message}");
    assert!(message.starts_with("lab: 1 run in real time, about "), "{message}");
    let output = bench.run("lab tiny.toml --runs 1 --set lab.lateness=200ms --schemes E2E-SMART --against-sim --json");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let scheme = &value["schemes"][0];
    assert_eq!(scheme["endpoints"], serde_json::json!({ "server": "own", "phone": "own" }), "{value}");
    for measure in ["segments_lost", "incomplete"] {
        let [lab, simulated] = [&scheme["measures"], &scheme["simulated"]].map(|of| of[measure]["mean"].as_f64());
        assert!(lab.is_some() && lab == simulated, "{measure}: {value}");
    }
}

/// The base station is the gateway itself: it repairs the link's losses, unnoticed by a kernel's sender.
///
/// On a busy machine the receiving program reads late, and its kernel closes the window meanwhile. The acknowledgments
/// of surplus copies then pass the gateway, and the sender takes them for a loss. Therefore the best of a few runs
/// counts, and a machine whose links were delayed as well is not judged.
#[test]
#[ignore = "needs root: make root"]
fn snoop_at_the_base_station_hides_the_losses_from_a_kernel() {
    const ATTEMPTS: usize = 3;
    if !is_root() {
        return;
    }
    let (mut loudest_on_time, mut late) = (0.0_f64, false);
    for _ in 0..ATTEMPTS {
        let value = lab_of_600_kib("LL-TCP-AWARE");
        let [losses, repaired, local, source, timeouts] =
            ["segments_lost", "repaired_locally", "local_retransmissions", "source_retransmissions", "timeouts"]
                .map(|measure| mean(&value, measure));
        assert!(losses > 3.0 && timeouts == 0.0 && mean(&value, "dupacks_suppressed") >= losses, "{value}");
        if source <= 2.0 {
            assert!(local >= losses && repaired == losses, "{value}");
            return;
        }
        assert!(repaired > losses / 2.0, "{value}");
        late |= value["schemes"][0]["lateness_us"]["p99"].as_f64().unwrap() > 500.0;
        loudest_on_time = loudest_on_time.max(source);
    }
    assert!(
        late,
        "the sender noticed losses in each of {ATTEMPTS} runs: it retransmitted up to {loudest_on_time} segments"
    );
    skip(&format!("whether a kernel's sender notices losses under snoop: the machine was busy in {ATTEMPTS} runs"));
}

/// An upload over a lossy hop between two routers, with the gateway on the customer's.
const UPLOAD: &str = r#"title = "Upload from a farm"
tcp.preset = "linux-6.18"

[hosts.server]
[hosts.farm]
[routers.mast]
[routers.cpe]

[links.wired]
between = ["server", "mast"]
rate = "100 Mbps"
delay = "10 ms"

[links.radio]
between = ["mast", "cpe"]
rate = "10 Mbps"
delay = "2 ms"
errors = { model = "uniform", frame_loss = "2 %" }

[links.lan]
between = ["cpe", "farm"]
rate = "1 Gbps"
delay = "50 us"

[flows.upload]
from = "farm"
to = "server"
size = "1 MiB"

[base_station]
router = "cpe"
link = "radio"
"#;

/// At the customer's side the gateway has copies of an upload, and repairs it. As for a download, the best of a few runs counts.
#[test]
#[ignore = "needs root: make root"]
fn snoop_on_the_customers_router_repairs_an_upload_of_a_kernel() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.put("upload.toml", UPLOAD);
    let mut noticed = Vec::new();
    for _ in 0..3 {
        let value = bench.json("lab upload.toml --schemes SNOOP --runs 1 --json --set lab.lateness=500ms");
        let [losses, repaired, source] =
            ["segments_lost", "repaired_locally", "source_retransmissions"].map(|measure| mean(&value, measure));
        assert!(mean(&value, "incomplete") == 0.0 && losses > 3.0 && repaired > losses / 2.0, "{value}");
        if repaired == losses && source <= 2.0 {
            return;
        }
        noticed.push((losses, repaired, source));
    }
    panic!("losses, repaired, retransmitted by the source: {noticed:?}");
}

#[test]
#[ignore = "needs root: make root"]
fn a_relay_at_the_base_station_brings_everything_to_a_kernel() {
    if is_root() {
        let value = lab_of_600_kib("SPLIT");
        assert!(mean(&value, "segments_lost") > 3.0, "{value}");
    }
}

/// A gateway at each station repairs the losses of its cell, also for connections whose beginning it has not seen.
#[test]
#[ignore = "needs root: make root"]
fn a_gateway_at_each_station_of_a_host_that_moves() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let lossy = ["cell-1", "cell-2", "cell-3"]
        .map(|cell| format!("--set links.{cell}.errors_down='{{ model = \"uniform\", frame_loss = \"3 %\" }}'"));
    let value = bench.json(&format!(
        "lab moving-host --schemes SNOOP --runs 1 --json --set lab.lateness=500ms --set flows.bulk.size=1MiB \
         --set tcp.preset=linux-6.18 --set mobility.moves='{{ every = \"1 s\" }}' {}",
        lossy.join(" ")
    ));
    assert_eq!(mean(&value, "incomplete"), 0.0, "{value}");
    let [handoffs, losses, repaired] =
        ["handoffs", "segments_lost", "repaired_locally"].map(|measure| mean(&value, measure));
    // The other stations repair several times as much as the first does in its first second.
    assert!(handoffs >= 4.0 && losses >= 10.0 && repaired > losses / 2.0, "{value}");
}

/// Returns the lab's results for a transfer of 600 KiB, which must complete, on a machine that may be busy.
fn lab_of_600_kib(scheme: &str) -> Value {
    let lab = "--runs 1 --json --set lab.lateness=500ms --set flows.bulk.size=600KiB";
    let value = Bench::new().json(&format!("lab wavelan-lan --schemes {scheme} {lab}"));
    assert!(mean(&value, "incomplete") == 0.0 && mean(&value, "throughput") > 0.05, "{value}");
    value
}

fn mean(value: &Value, measure: &str) -> f64 {
    let mean = value["schemes"][0]["measures"][measure]["mean"].as_f64();
    mean.unwrap_or_else(|| panic!("{measure}: {value}"))
}

/// Returns the child processes of `pid`, from any of its threads.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
#[ignore = "needs root: make root"]
fn a_run_in_which_the_gateways_worker_was_replaced_is_void() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let lab = start(
        &bench,
        "lab wavelan-lan --schemes LL-TCP-AWARE --runs 1 --json --set lab.lateness=500ms --set flows.bulk.size=600KiB",
    );
    let (pid, begun) = (lab.id(), Instant::now());
    // The gateway has other children while it starts.
    let is_worker = |child: &u32| {
        let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        command.split(|&byte| byte == 0).any(|word| word == b"worker")
    };
    let worker = loop {
        if let Some(worker) = children_of(pid).into_iter().flat_map(children_of).find(is_worker) {
            break worker;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "no gateway");
        std::thread::sleep(Duration::from_millis(20));
    };
    // The transfer takes three seconds from about now.
    std::thread::sleep(Duration::from_secs(1));
    signal(worker, "KILL");
    let output = lab.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success()
            && message.contains("is void: packets passed the gateway untreated (worker restarts: 1,"),
        "{message}"
    );
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["schemes"][0]["void"], 1, "{value}");
}

#[test]
#[ignore = "needs root: make root"]
fn a_signal_ends_it_in_order() {
    if !is_root() {
        return;
    }
    for name in ["INT", "TERM", "HUP"] {
        let bench = Bench::new();
        let lab = start(&bench, "lab tiny.toml --runs 3 --set 'flows.download.size=100 MiB'");
        let (pid, begun) = (lab.id(), Instant::now());
        while namespaces_of(pid) < 4 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(namespaces_of(pid), 4, "three nodes, and the links");
        signal(pid, name);
        let output = lab.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}: {message}");
        assert!(message.ends_with("error: stopped: 0 of 3 runs are done\n"), "{name}: {message}");
        assert_eq!(namespaces_of(pid), 0, "{name}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}: {:?}", begun.elapsed());
    }
}

#[test]
#[ignore = "needs root: make root"]
fn other_programs_use_a_lab_that_is_held_open() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let arguments = "lab hold tiny.toml --json --pcapng captures/held.pcapng --set 'links.radio.errors.frame_loss=0 %'";
    let mut lab = start(&bench, arguments);
    let pid = lab.id();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
    let mut value = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let nodes = value()["nodes"].clone();
    assert_eq!(nodes["tower"]["devices"], serde_json::json!({ "internet": "link0", "radio": "link1" }), "{nodes}");
    let (namespace, address) = (nodes["server"]["namespace"].as_str(), nodes["phone"]["address"].as_str());
    // The lab's default, independent of this machine's.
    let show = ["netns", "exec", namespace.unwrap(), "cat", "/proc/sys/net/ipv4/tcp_congestion_control"];
    let congestion = Command::new("ip").args(show).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&congestion.stdout), "reno\n");
    // The port is closed, which the phone reports.
    let send = format!("echo > /dev/udp/{}/9", address.unwrap());
    let sent = Command::new("ip").args(["netns", "exec", namespace.unwrap(), "bash", "-c", &send]).status().unwrap();
    assert!(sent.success());
    std::thread::sleep(Duration::from_millis(500));
    signal(pid, "TERM");
    let outcome = value();
    assert!(lab.wait().unwrap().success());
    assert_eq!(namespaces_of(pid), 0);
    for (link, way) in [("internet", 0), ("radio", 0), ("radio", 1), ("internet", 1)] {
        assert_eq!(outcome["links"][link][way]["frames"], 1, "{outcome}");
    }
    assert!(outcome["lateness_us"]["max"].as_f64().unwrap() > 0.0);
    assert!(!bench.bytes("captures/held.pcapng").is_empty());
}

/// Calls and web sessions do not run here, so the lab need not support them.
#[test]
#[ignore = "needs root: make root"]
fn a_lab_of_calls_and_one_of_web_sessions_are_held_open() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    for (scenario, host) in [("call-radio", "office"), ("multilayer-web-lan", "mobile")] {
        // Every kernel has Reno and permits it in namespaces.
        let mut lab = start(&bench, &format!("lab hold {scenario} --json --set lab.congestion=reno"));
        let pid = lab.id();
        let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines();
        let opened: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(opened["nodes"][host]["namespace"].is_string(), "{scenario}: {opened}");
        signal(pid, "TERM");
        assert!(lab.wait().unwrap().success(), "{scenario}");
        assert_eq!(namespaces_of(pid), 0, "{scenario}");
    }
}

#[test]
fn without_root_there_is_one_clear_line() {
    let bench = Bench::new();
    // For root, run as nobody, who must be able to read the command and its folder.
    let nobody = require_root().is_ok().then_some(65_534);
    let command = bench.path().join("lasthop");
    std::fs::copy(env!("CARGO_BIN_EXE_lasthop"), &command).unwrap();
    std::fs::set_permissions(bench.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (arguments, status) in [
        (&["lab", "tiny.toml"][..], 1),
        (&["lab", "hold", "tiny.toml"][..], 1),
        (&["lab", "clean"][..], 1),
        (&["lab", "exec", "tiny.toml", "--", "true"][..], 125),
    ] {
        let mut lasthop = Command::new(&command);
        lasthop.args(arguments).current_dir(bench.path());
        if let Some(uid) = nobody {
            lasthop.uid(uid);
        }
        let output = lasthop.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{message}");
        assert_eq!(message, "error: the lab creates network namespaces, which requires root; run it with sudo\n");
    }
}

#[test]
fn what_it_cannot_run_is_said_before_anything_is_made() {
    let bench = Bench::new();
    for (arguments, what) in [
        ("lab multilayer-web-lan", "web sessions"),
        ("lab many-flows", "that many flows (10000)"),
        (
            "lab tiny.toml --schemes E2E-SMART --set lab.endpoints=kernel",
            "a feature that no kernel has (SMART recovery)",
        ),
        ("lab tiny.toml --set lab.endpoints=ours", "lab.endpoints: cannot be \"ours\"; give one of \"auto\""),
        ("lab tiny.toml --set lab.hosts.moblie.endpoints=own", "lab.hosts.moblie: there is no host \"moblie\""),
        ("lab tiny.toml --set lab.sack=maybe", "lab.sack: cannot be \"maybe\""),
        ("lab tiny.toml --set lab.sakc=on", "lab.sakc: unknown key"),
        ("lab", "<SCENARIO>"),
        ("lab hold packet-radio-chain", "radios that report their queues"),
    ] {
        let output = bench.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments}: {message}");
        assert!(message.contains(what), "{arguments}: {message}");
        assert!(output.stdout.is_empty());
    }
}
