//! Tests of `lasthop lab exec`. Those that need root are reported as skipped without it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Bench, split};
use crate::network::without_root;
use lasthop_lab::namespace::all;
use serde_json::Value;

fn is_root() -> bool {
    !without_root("`lasthop lab exec`")
}

/// Returns a name that is unique among the labs of this machine.
fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("t{}x{}", std::process::id() % 10_000_000, NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn namespaces_of(name: &str) -> usize {
    all().iter().filter(|namespace| namespace.lab.as_deref() == Some(name)).count()
}

/// Runs a command at the phone of the tiny scenario, without losses; `options` go before `--`.
fn exec(bench: &Bench, name: &str, options: &str, command: &[&str]) -> Output {
    let mut arguments = split(&format!(
        "lab exec tiny.toml --name {name} --set lab.lateness=500ms --set 'links.radio.errors.frame_loss=0 %' {options} --"
    ));
    arguments.extend(command.iter().map(|word| (*word).to_owned()));
    bench.run_all(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Python program that sends 500 kB to the first client.
const SERVER: &str =
    "import socket\ns = socket.create_server((\"\", 7000))\nc, _ = s.accept()\nc.sendall(bytes(500000))\nc.close()\n";
/// Python program that receives everything from the host called `server`, and prints the number of bytes.
const CLIENT: &str = "import socket\nc = socket.create_connection((\"server\", 7000))\nn = 0\nwhile True:\n    d = c.recv(65536)\n    if not d: break\n    n += len(d)\nprint(n)\n";

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("NOT TESTED: there is no python3 to be the other program");
    }
    has
}

#[test]
#[ignore = "needs root: make root"]
fn statuses_and_signals_of_the_command_are_passed_on() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let name = name();
    bench.put("no-program", "text\n");
    for (command, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -SEGV $$"][..], 128 + 11),
        (&["/does/not/exist"][..], 127),
        (&["./no-program"][..], 126),
    ] {
        let output = exec(&bench, &name, "--quiet", command);
        assert_eq!(output.status.code(), Some(status), "{command:?}: {}", message(&output));
        assert!(output.stdout.is_empty());
        assert_eq!(message(&output).contains("cannot run"), status == 126 || status == 127, "{}", message(&output));
        assert_eq!(namespaces_of(&name), 0, "{command:?}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn standard_input_and_output_are_the_commands() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let mut command = bench.command(&format!("lab exec tiny.toml --name {} -- cat", name()));
    let output = command.write_stdin("what was typed\n").output().unwrap();
    assert!(output.status.success(), "{}", message(&output));
    assert_eq!(output.stdout, b"what was typed\n");
    assert!(message(&output).contains("lab: at phone (namespace lh-"), "{}", message(&output));
}

/// The other end is a program too, which is reached by the name of its host. The links' results are printed, written
/// and drawn.
#[test]
#[ignore = "needs root: make root"]
fn a_command_reaches_a_server_by_name_and_the_links_are_measured() {
    if !is_root() || !has_python() {
        return;
    }
    let bench = Bench::new();
    bench.put("server.py", SERVER);
    let hosts = std::fs::read("/etc/hosts").ok();
    let options =
        "--json out.json --series out.csv --plot out.svg --pcapng out.pcapng --serve 'server:exec python3 server.py'";
    let output = exec(&bench, &name(), options, &["python3", "-c", CLIENT]);
    assert!(output.status.success(), "{}", message(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "500000\n");
    assert_eq!(std::fs::read("/etc/hosts").ok(), hosts);
    let value: Value = serde_json::from_str(&bench.text("out.json")).unwrap();
    let radio = &value["links"]["radio"]["down"];
    // 500,000 bytes over 2 Mbps, with headers.
    let mbps = radio["throughput_mbps"].as_f64().unwrap();
    assert!((0.8..=2.01).contains(&mbps), "{value}");
    assert!(radio["delivered_bytes"].as_u64().unwrap() > 510_000, "{value}");
    // A frame of 1500 bytes takes 6 ms, plus 2 ms to the phone.
    assert!(radio["delay_ms"]["max"].as_f64().unwrap() >= 7.9, "{value}");
    assert_eq!((&value["status"], &value["at"]), (&0.into(), &"phone".into()));
    let series = bench.text("out.csv");
    let delivered: f64 = series
        .lines()
        .filter(|line| line.contains(",radio,down,"))
        .map(|line| line.split(',').nth(4).unwrap().parse::<f64>().unwrap() * 0.1 / 8e-6)
        .sum();
    assert!((delivered / radio["delivered_bytes"].as_f64().unwrap() - 1.0).abs() < 0.001, "{delivered} {value}");
    let drawing = bench.text("out.svg");
    let document = roxmltree::Document::parse(&drawing).unwrap();
    assert_eq!(document.root_element().children().filter(|child| child.has_tag_name("svg")).count(), 3);
    assert!(
        drawing.contains("throughput (Mbps)") && drawing.contains("queue (packets)") && drawing.contains("radio down")
    );
    assert!(bench.bytes("out.pcapng").len() > 10_000);
    assert!(message(&output).contains("radio") && message(&output).contains("Mbps"), "{}", message(&output));
}

#[test]
#[ignore = "needs root: make root"]
fn a_server_that_fails_is_told() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let output = exec(&bench, &name(), "--serve 'server:exit 3'", &["true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(message(&output).contains("--serve server: `exit 3` exited before it listened"), "{}", message(&output));
}

/// Starts a lab whose command, a shell script, prints `started`, and waits for that. Signals have their default effect even
/// if the tests run in the background of a shell, which ignores SIGINT.
fn started(bench: &Bench, name: &str, script: &str) -> Child {
    let arguments = split(&format!("lab exec tiny.toml --name {name} --quiet -- sh -c"));
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,HUP,TERM", env!("CARGO_BIN_EXE_lasthop")]);
    command.args(arguments).arg(script).current_dir(bench.path());
    let mut lab = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 8];
    lab.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"started\n");
    lab
}

#[test]
#[ignore = "needs root: make root"]
fn signals_end_the_command_and_the_lab() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let name = name();
        let lab = started(&bench, &name, "echo started; exec sleep 60");
        assert_eq!(namespaces_of(&name), 4);
        let sent = Command::new("kill").args(["-s", signal, &lab.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let output = lab.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{signal}: {}", message(&output));
        assert_eq!(namespaces_of(&name), 0, "{signal}");
    }
    // The command may handle the signal.
    let lab = started(&bench, &name(), "trap 'echo heard; exit 5' USR1; echo started; while :; do sleep 0.1; done");
    assert!(Command::new("kill").args(["-s", "USR1", &lab.id().to_string()]).status().unwrap().success());
    let output = lab.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b"heard\n"[..]), "{}", message(&output));
}

#[test]
#[ignore = "needs root: make root"]
fn two_labs_are_open_at_once_and_names_are_taken_once() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let [one, other] = [name(), name()];
    let mut first = started(&bench, &one, "echo started; read line; exit 4");
    let second = exec(&bench, &other, "--at server", &["sh", "-c", "ip netns identify $$"]);
    assert_eq!(String::from_utf8_lossy(&second.stdout), format!("lh-{other}-node-server\n"), "{}", message(&second));
    let taken = exec(&bench, &one, "", &["true"]);
    assert_eq!(taken.status.code(), Some(125));
    assert!(message(&taken).contains(&format!("--name {one}: this lab is already open")), "{}", message(&taken));
    // A running lab is not a leftover.
    let clean = bench.run("lab clean");
    assert!(clean.status.success() && namespaces_of(&one) == 4, "{}", message(&clean));
    let _ = first.kill();
    let _ = first.wait();
    // A killed lab leaves namespaces behind, which the next lab of that name removes.
    assert_eq!(namespaces_of(&one), 4);
    let output = exec(&bench, &one, "--quiet", &["true"]);
    assert!(output.status.success(), "{}", message(&output));
    assert_eq!(namespaces_of(&one), 0);
}

#[test]
#[ignore = "needs root: make root"]
fn what_the_command_leaves_running_ends_with_the_lab() {
    if !is_root() {
        return;
    }
    let (bench, name, begun) = (Bench::new(), name(), Instant::now());
    let output = exec(&bench, &name, "--quiet", &["sh", "-c", "sleep 300 > /dev/null 2>&1 & echo $!"]);
    assert!(output.status.success(), "{}", message(&output));
    let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!command.starts_with(b"sleep"), "it still runs");
    assert!(namespaces_of(&name) == 0 && begun.elapsed() < Duration::from_secs(60));
}

/// Route from the phone over radio, tower and server to a program of this machine, here a namespace of the test's own.
#[test]
#[ignore = "needs root: make root"]
fn a_route_leads_to_the_outside() {
    if !is_root() || !has_python() {
        return;
    }
    let outcome = std::thread::spawn(|| {
        lasthop_sys::namespace::enter_new().unwrap();
        for line in ["link set lo up", "addr add 192.0.2.1/32 dev lo"] {
            assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success());
        }
        let forwarded = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap().trim().to_owned();
        let listener = TcpListener::bind("192.0.2.1:7001").unwrap();
        let answer = std::thread::spawn(move || {
            let (mut socket, from) = listener.accept().unwrap();
            socket.write_all(b"from the outside\n").unwrap();
            from.ip().to_string()
        });
        let bench = Bench::new();
        let client =
            "import socket\nprint(socket.create_connection((\"192.0.2.1\", 7001), 20).recv(100).decode(), end=\"\")\n";
        let output = exec(&bench, &name(), "--nat", &["python3", "-c", client]);
        if !output.status.success() {
            return (message(&output), String::new());
        }
        let left = Command::new("nft").args(["list", "tables"]).output();
        let left = left.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        assert!(!left.contains("lasthop"), "{left}");
        // Forwarding is disabled again.
        assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap().trim(), forwarded);
        (String::from_utf8_lossy(&output.stdout).into_owned(), answer.join().unwrap())
    });
    let (heard, from) = outcome.join().unwrap();
    assert_eq!(heard, "from the outside\n");
    // The lab's addresses are translated.
    assert!(from.starts_with("198.18."), "{from}");
}

#[test]
#[ignore = "needs root: make root"]
fn mistakes_are_told_before_anything_is_made() {
    let bench = Bench::new();
    for (arguments, told) in [
        ("lab exec tiny.toml", "<COMMAND>"),
        (
            "lab exec tiny.toml --at nowhere -- true",
            "--at nowhere: the scenario has no host of this name; its hosts are server, phone",
        ),
        ("lab exec tiny.toml --at tower -- true", "--at tower: the scenario has no host of this name"),
        ("lab exec tiny.toml --serve nowhere:true -- true", "--serve nowhere: the scenario has no host"),
        ("lab exec tiny.toml --serve server -- true", "--serve server: expected HOST:COMMAND"),
        ("lab exec tiny.toml --nat=nowhere -- true", "--nat nowhere: the scenario has no host"),
        ("lab exec tiny.toml --scheme E2E-SMART -- true", "lasthop's own TCP in a lab for other programs"),
        ("lab exec packet-radio-chain -- true", "radios that report their queues"),
        ("lab exec nothing.toml -- true", "nothing.toml"),
    ] {
        let output = bench.run(arguments);
        assert!(matches!(output.status.code(), Some(2 | 125)), "{arguments}: {:?}", output.status);
        assert!(message(&output).contains(told) && output.stdout.is_empty(), "{arguments}: {}", message(&output));
    }
    if is_root() {
        let output = exec(&bench, "No-Name", "", &["true"]);
        assert_eq!(output.status.code(), Some(125));
        assert!(message(&output).contains("--name No-Name: invalid name"), "{}", message(&output));
    }
}
