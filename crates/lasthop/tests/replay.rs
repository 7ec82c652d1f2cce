//! Replays of recorded gateway decisions without packets: by its engine, and by the simulator's element.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use crate::common::Bench;
use crate::network::{Daemon, Network, Pace, is_skipped};
use rustix::process::Signal;
use serde_json::Value;

/// Scenario with losses of data, of a repair, of acknowledgments, and of the last segment, which needs a timer. Other
/// tests may run at the same time.
const SHORT: &str = r#"title = "A short transfer over a lossy hop"
limit = "60 s"
[tcp]
preset = "bsd-lite"
[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "10 Mbps"
delay = "1 ms"
[links.wireless]
between = ["base", "mobile"]
rate = "4 Mbps"
delay = "2 ms"
errors_down = { model = "list", drop = [{ data = 4 }, { data = 9 }, { data = 9, transmission = 2 }, { data = 10 }, { data = 24 }, { data = 75 }] }
errors_up = { model = "list", drop = [{ ack = 3 }, { ack = 20 }, { ack = 21 }] }
[flows.bulk]
from = "source"
to = "mobile"
size = "102 KiB"
[base_station]
router = "base"
link = "wireless"
flow_control = "fast"
held = "16 KiB"
[lab]
endpoints = "kernel"
lateness = "500 ms"
settings = "kernel"
"#;

/// Keys of the flow control.
const FLOW_CONTROL: &str = "flow_control = \"fast\"\nheld = \"16 KiB\"\n";

/// Returns the replay's figures; all decisions must be the same.
fn replayed(bench: &Bench, file: &str) -> Value {
    try_replayed(bench, file).unwrap_or_else(|message| panic!("{file}: {message}"))
}

fn try_replayed(bench: &Bench, file: &str) -> Result<Value, String> {
    let output = bench.run(&format!("gateway replay {file} --json"));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(serde_json::from_slice(&output.stdout).unwrap()) } else { Err(message) }
}

/// Records the checked-in file anew: [`SHORT`] with 40 KiB and without lost acknowledgments, as LL-SMART-TCP-AWARE in
/// the lab (`--pcapng`). An intended change of the mechanism's decisions requires a new recording, and its figures
/// here, made as root: `LASTHOP_RECORD=1 cargo test -p lasthop --test all -- --ignored --nocapture record_anew`.
#[test]
#[ignore = "writes into the repository"]
fn record_anew() {
    if std::env::var_os("LASTHOP_RECORD").is_none() || is_skipped("recordings of the lab") {
        return;
    }
    let bench = Bench::new();
    let text = SHORT.replace("102 KiB", "40 KiB");
    let (kept, _) = text.split_once("errors_up").expect("errors of both directions");
    let (_, rest) = text.split_once("[flows.bulk]").expect("a flow");
    bench.put("short.toml", &format!("{kept}[flows.bulk]{rest}"));
    let (file, figures) = recorded(&bench, "LL-SMART-TCP-AWARE", "anew");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    for copy in ["tests/data/recording.pcapng", "../../fuzz/seeds/recording/recording.pcapng"] {
        std::fs::copy(bench.path().join(&file), package.join(copy)).unwrap();
    }
    println!("recorded: {figures}");
}

#[test]
fn a_recording_of_real_packets_is_decided_again_anywhere() {
    let bench = Bench::new();
    let recording = include_bytes!("data/recording.pcapng");
    std::fs::write(bench.path().join("r.pcapng"), recording).unwrap();
    let expected = serde_json::json!({
        "engines": 1, "packets": 65, "dropped": 22, "replaced": 5, "timeouts": 6, "sent": 6,
        "differences": 0, "first_difference": null,
    });
    assert_eq!(replayed(&bench, "r.pcapng"), expected);
    assert_eq!(replayed(&bench, "r.pcapng --element"), expected);
    let output = bench.run("gateway replay r.pcapng");
    let line = "1 engine: 65 packets (22 dropped, 5 replaced), 6 timeouts, 6 generated\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), line);

    // Another setting of the mechanism decides otherwise.
    let place = |text: &[u8]| recording.windows(text.len()).position(|bytes| bytes == text).unwrap();
    let mut other = recording.to_vec();
    let at = place(b"held = \"16 KiB\"");
    other[at + 8..at + 10].copy_from_slice(b"99");
    std::fs::write(bench.path().join("other.pcapng"), &other).unwrap();
    for element in ["", " --element"] {
        let output = bench.run(&format!("gateway replay other.pcapng{element}"));
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        let (start, rest) = message.split_once(" of 71 decisions differ, first at frame ").expect(&message);
        assert!(
            start.starts_with("error: other.pcapng: ") && rest.contains("s: recorded: replace by seq "),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    // A truncated file.
    std::fs::write(bench.path().join("cut.pcapng"), &recording[..recording.len() - 5]).unwrap();
    for (file, expected) in [
        ("none.pcapng", "error: none.pcapng: No such file or directory (os error 2)\n"),
        ("tiny.toml", "error: tiny.toml: not a pcapng file\n"),
        ("cut.pcapng", "error: cut.pcapng: truncated in a block after frame 83\n"),
    ] {
        let output = bench.run(&format!("gateway replay {file}"));
        assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(1), expected));
    }
}

#[test]
#[ignore = "needs root: make root"]
fn what_the_lab_recorded_is_decided_again_packet_for_packet() {
    if is_skipped("recordings of the lab") {
        return;
    }
    let bench = Bench::new();
    for (flow_control, schemes) in
        [("none", "LL,LL-TCP-AWARE,LL-SMART,LL-SMART-TCP-AWARE"), ("fast", "LL-TCP-AWARE,LL-SMART-TCP-AWARE")]
    {
        let text = if flow_control == "fast" { SHORT.to_owned() } else { SHORT.replace(FLOW_CONTROL, "") };
        bench.put("short.toml", &text);
        for scheme in schemes.split(',') {
            let (file, engine) = recorded(&bench, scheme, flow_control);
            let count = |key: &str| engine[key].as_u64().unwrap();
            assert!(count("packets") > 100 && count("timeouts") > 0, "{file}: {engine}");
            // Losses that LL lets the source see are repaired by the source too, at times sooner; on a delayed machine
            // with the others as well.
            let least = if scheme.ends_with("AWARE") { 4 } else { 2 };
            assert!(count("sent") >= least, "{file}: {engine}");
            assert_eq!(count("dropped") > 0, scheme.ends_with("AWARE"), "{file}: {engine}");
            assert_eq!(
                count("replaced") > 0,
                flow_control == "fast" || scheme == "LL-SMART-TCP-AWARE",
                "{file}: {engine}"
            );
        }
    }
}

/// Returns a run's recording, and the figures of engine and element.
fn recorded(bench: &Bench, scheme: &str, folder: &str) -> (String, Value) {
    let file = format!("{folder}/{scheme}-0-gateway.pcapng");
    // If the machine is so busy that the gateway's worker seems to hang, the next worker misses a connection's SYNs.
    for _ in 0..5 {
        // The kernel at the mobile host sends SACK blocks, which are to be hidden.
        let ends = "--set lab.endpoints=kernel";
        let output = bench.run(&format!("lab short.toml --schemes {scheme} --runs 1 --pcapng {folder} {ends}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let engine = replayed(bench, &file);
        match try_replayed(bench, &format!("{file} --element")) {
            Ok(element) => {
                assert_eq!(engine, element, "{file}");
                return (file, engine);
            }
            Err(message) => assert!(message.contains(": no SYN recorded for this connection"), "{file}: {message}"),
        }
    }
    panic!("{file}: no worker lived through a run");
}

/// Losses, two connections, both IP versions, a new configuration, and two workers.
#[test]
#[ignore = "needs root: make root"]
fn a_gateway_records_across_workers_until_the_limit() {
    if is_skipped("recordings of a gateway") {
        return;
    }
    const RULES: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
    let bench = Bench::new();
    let path = |name: &str| bench.path().join(name).display().to_string();
    let network = Network::new();
    let mut daemon = Daemon::start_with(&network, RULES, &["--record", &path("r.pcapng")]);
    network.lose(0.01);
    network.transfer_chunks("10.1.0.2:5001", 500, Pace::Steady).end();
    daemon.configure(&format!("{RULES}snoop = {{ flow_control = 'none' }}\n"));
    assert!(daemon.command("reload").status().unwrap().success());
    network.transfer_chunks("[fd01::2]:5001", 500, Pace::Steady).end();
    daemon.signal_worker(Signal::KILL);
    daemon.await_status(|status| status["worker"]["restarts"].as_u64() >= Some(1) && status["worker"]["pid"].is_u64());
    network.transfer_chunks("10.1.0.2:5002", 500, Pace::Steady).end();
    // On a busy machine a worker may seem to hang, and be replaced as well.
    let restarts = |daemon: &Daemon| daemon.ask("status").unwrap()["worker"]["restarts"].as_u64().unwrap();
    let workers = restarts(&daemon) + 1;
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    let replay = replayed(&bench, "r.pcapng");
    assert!((2..=workers).contains(&replay["engines"].as_u64().unwrap()), "{replay}");
    let count = |key: &str| replay[key].as_u64().unwrap();
    assert!(count("packets") > 2_000 && count("replaced") > 0 && count("sent") > 10, "{replay}");

    // The recording ends, and the gateway continues.
    let mut daemon =
        Daemon::start_with(&network, RULES, &["--record", &path("small.pcapng"), "--record-limit", "50 KiB"]);
    network.transfer_chunks("10.1.0.2:5003", 500, Pace::Steady).end();
    daemon.await_status(|status| status["packets"]["towards_wireless"].as_u64() > Some(100));
    let workers = restarts(&daemon) + 1;
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    let log = daemon.log();
    let told = log.matches(": reached the size limit of 50 KiB; the gateway continues").count() as u64;
    assert!((1..=workers).contains(&told), "{log}");
    let len = Path::new(&path("small.pcapng")).metadata().unwrap().len();
    assert!((40_000..=50 << 10).contains(&len), "{len}");
    let replay = replayed(&bench, "small.pcapng");
    assert!(replay["packets"].as_u64() > Some(100), "{replay}");
    // In this case the side behind the hop opens the connection, and each packet is one segment.
    if workers == 1 {
        assert_eq!(replayed(&bench, "small.pcapng --element"), replay);
    }
}

/// Small file system mounted on a folder.
struct Disk<'p>(&'p Path);

impl<'p> Disk<'p> {
    fn new(folder: &'p Path, size: &str) -> Self {
        let mount = ["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"].map(str::to_owned);
        assert!(Command::new("mount").args(mount).arg(folder).status().unwrap().success());
        Self(folder)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_recording_on_a_full_disk_is_whole_up_to_its_end() {
    if is_skipped("recording on a full disk") {
        return;
    }
    const RULES: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
    let bench = Bench::new();
    let folder = bench.path().join("disk");
    std::fs::create_dir(&folder).unwrap();
    // Not a whole number of chunks.
    let _disk = Disk::new(&folder, "300k");
    let network = Network::new();
    let mut daemon = Daemon::start_with(&network, RULES, &["--record", folder.join("r.pcapng").to_str().unwrap()]);
    network.lose(0.01);
    network.transfer_chunks("10.1.0.2:5001", 1000, Pace::Steady).end();
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    let log = daemon.log();
    assert!(log.contains("cannot write the recording") && log.contains("No space left on device"), "{log}");
    let replay = replayed(&bench, "disk/r.pcapng");
    assert!(replay["packets"].as_u64() > Some(300), "{replay}");
    let len = folder.join("r.pcapng").metadata().unwrap().len();
    assert!((150_000..300 << 10).contains(&len), "{len}");
}
