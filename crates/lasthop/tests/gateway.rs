//! Tests of the gateway on real packets between network namespaces.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Duration;

use crate::network::{Daemon, Network, is_skipped, lasthop};
use rustix::process::Signal;
use serde_json::Value;

const OBSERVE: &str = "[[rule]]\nname = 'all'\nmode = 'observe'\ninterface = 'wl0'\n";
const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n\
                     split.wireless.congestion = 'cubic'\n";

/// Returns the server's address; each transfer of a test has its own port.
fn server(port: u16) -> String {
    format!("10.1.0.2:{port}")
}

#[test]
#[ignore = "needs root: make root"]
fn packets_pass_as_they_are_and_nothing_is_left_afterwards() {
    if is_skipped("observing gateway") {
        return;
    }
    let network = Network::new();
    let before = network.rules();
    let mut daemon = Daemon::start(&network, &format!("control_group = 65000\n{OBSERVE}"));
    assert!(network.rules().contains("NFQUEUE"));
    let socket = std::fs::metadata(daemon.control()).unwrap();
    assert_eq!((socket.gid(), socket.mode() & 0o777), (65000, 0o660));
    network.transfer(&server(5001), 1).end();
    network.transfer("[fd01::2]:5001", 1).end();

    let status = daemon.await_status(|status| status["packets"]["towards_wireless_bytes"].as_u64() > Some(50_000_000));
    assert_eq!(status["packets"]["dropped"], 0, "{status:#}");
    assert_eq!(status["rules"][0]["flows_seen"], 2, "{status:#}");
    let metrics = network.get("g", "127.0.0.1:9469", "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(network.get("g", "127.0.0.1:9469", "/").starts_with("HTTP/1.1 404 "));
    assert!(metrics.contains("lasthop_rule_flows_seen_total{rule=\"all\"} 2"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");

    // Only one gateway may run; an invalid request is answered with an error.
    let second = network.command("g", lasthop()).arg("gateway").arg(daemon.file()).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && message.contains("a gateway is already running"), "{message}");
    for garbage in ["\n", "{\"request\":\"stop\"}\n", "\u{0}\n"] {
        let answer = daemon.tell(garbage.as_bytes());
        assert!(answer.contains("\"ok\":false") && answer.contains("expected "), "{answer}");
    }
    // A request without an end is dropped.
    daemon.tell(&[b'x'; 100_000]);
    assert!(daemon.ask("report").unwrap()["rules"][0]["gain"].is_null());
    let said = |what: &str| String::from_utf8(daemon.command(what).output().unwrap().stdout).unwrap();
    let (status, report) = (said("status"), said("report"));
    assert!(status.contains("\nnetfilter rules in place\n"), "{status}");
    assert!(status.contains("\nall: observe on wl0; ") && !status.contains("mean seconds"), "{status}");
    assert!(report.contains("Mbit/s (2 connections); nothing is treated\n"), "{report}");
    let mut watch = daemon.command("status");
    let mut watch = watch.args(["--json", "--watch=0.1"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines().take(2);
    let uptimes = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["uptime_seconds"].as_f64());
    let uptimes: Vec<_> = uptimes.collect();
    assert!(uptimes[0].unwrap() + 0.1 <= uptimes[1].unwrap(), "{uptimes:?}");
    watch.kill().unwrap();
    watch.wait().unwrap();

    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert_eq!(network.rules(), before);
    assert!(!daemon.control().exists());
}

/// Checks the worker's rights, beyond its behaviour.
#[test]
#[ignore = "needs root: make root"]
fn the_worker_has_a_user_of_its_own_and_no_rights_but_those_it_needs() {
    if is_skipped("rights of the worker") {
        return;
    }
    // CAP_NET_ADMIN and CAP_NET_RAW; with split connections also CAP_NET_BIND_SERVICE.
    for (rules, rights, threads) in [(SNOOP, "0000000000003000", 1), (SPLIT, "0000000000003400", 2)] {
        let network = Network::new();
        let recording = tempfile::tempdir().unwrap();
        let file = recording.path().join("recording.pcapng");
        let daemon = Daemon::start_with(&network, rules, &["--record", file.to_str().unwrap()]);
        // Rights matter while the worker is in use.
        network.transfer(&server(5004), 1).end();
        let worker = daemon.await_status(|status| status["worker"]["pid"].is_u64())["worker"]["pid"].to_string();
        let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap();
        let statuses: Vec<_> =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap()).collect();
        // The recorder has a thread of its own.
        assert_eq!(statuses.len(), threads + 1);
        for status in statuses {
            let value = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t")).unwrap();
                line.split_whitespace().collect::<Vec<_>>()
            };
            for (key, expected) in [
                ("CapEff", rights),
                ("CapPrm", rights),
                ("CapInh", "0000000000000000"),
                ("CapBnd", "0000000000000000"),
                ("CapAmb", "0000000000000000"),
                ("NoNewPrivs", "1"),
                ("Seccomp", "2"),
            ] {
                assert_eq!(value(key), [expected], "{key}: {status}");
            }
            for key in ["Uid", "Gid"] {
                assert!(value(key).iter().all(|id| *id != "0"), "{key}: {status}");
            }
            assert!(value("Groups").is_empty(), "{status}");
        }
        assert!(!daemon.log().contains("WARN"), "{}", daemon.log());
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_second_gateway_on_the_same_queue_is_told_so() {
    if is_skipped("second gateway on a queue") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, OBSERVE);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("second.toml");
    std::fs::write(&file, format!("control = '{}'\n{OBSERVE}", folder.path().join("sock").display())).unwrap();
    let second = network.command("g", lasthop()).arg("gateway").arg(&file).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success(), "{message}");
    assert!(message.contains("netfilter queue 27000: in use by the program with netlink port "), "{message}");
    assert!(!message.contains("CAP_") && message.matches("error: ").count() == 1, "{message}");
    // `check` does not treat the running gateway as an obstacle.
    let check = network.command("g", lasthop()).args(["gateway", "check"]).arg(&file).output().unwrap();
    let findings = String::from_utf8(check.stdout).unwrap();
    assert!(
        check.status.success() && findings.contains("hint     netfilter queue 27000: in use by a running gateway"),
        "{findings}"
    );
    assert!(daemon.ask("status").is_some());
}

#[test]
#[ignore = "needs root: make root"]
fn slow_and_silent_clients_keep_nobody_from_control_and_metrics() {
    if is_skipped("slow clients of the gateway") {
        return;
    }
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    let network = Network::new();
    let daemon = Daemon::start(&network, OBSERVE);
    let path = daemon.control();
    let within = network.within("g", move || {
        let mut control = Vec::new();
        let mut metrics = Vec::new();
        for number in 0..1000 {
            let mut client = UnixStream::connect(&path).unwrap();
            let mut scraper = TcpStream::connect("127.0.0.1:9469").unwrap();
            if number % 2 == 0 {
                // The gateway may have closed the connections already.
                let _ = client.write_all(b"{");
                let _ = scraper.write_all(b"GET /metrics HTTP/1.1\r\n");
            }
            control.push(client);
            metrics.push(scraper);
            // This test must not run out of files itself.
            if control.len() > 200 {
                control.remove(0);
                metrics.remove(0);
            }
        }
        let mut client = UnixStream::connect(&path).unwrap();
        let mut scraper = TcpStream::connect("127.0.0.1:9469").unwrap();
        let second = Some(Duration::from_secs(1));
        client.set_read_timeout(second).unwrap();
        scraper.set_read_timeout(second).unwrap();
        client.write_all(b"{\"request\":\"status\"}\n").unwrap();
        scraper.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answers = [[0; 11]; 2];
        client.read_exact(&mut answers[0]).unwrap();
        scraper.read_exact(&mut answers[1]).unwrap();
        assert_eq!(
            answers.map(|answer| String::from_utf8_lossy(&answer).into_owned()),
            ["{\"ok\":true,", "HTTP/1.1 20"]
        );
        // Requests under another site's name are refused (DNS rebinding).
        let mut rebound = TcpStream::connect("127.0.0.1:9469").unwrap();
        rebound.write_all(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
        let mut answer = String::new();
        rebound.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    });
    within.join().unwrap();
}

#[test]
#[ignore = "needs root: make root"]
fn a_dry_run_prints_what_is_installed() {
    if is_skipped("dry run of the gateway") {
        return;
    }
    let network = Network::new();
    let rules = "[[rule]]\nname = 'web'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24', 'fd02::/64']\n\
                 ports = [443, '8000-8100']\n[[rule]]\nname = 'phones'\nmode = 'observe'\ninterface = 'wl0'\n\
                 opened_by = 'wired'\n[[rule]]\nname = 'shell'\nmode = 'observe'\ninterface = 'wl0'\nports = [22]\n";
    let daemon = Daemon::start(&network, rules);
    let output = network.command("g", lasthop()).args(["gateway", "run", "--dry-run"]).arg(daemon.file()).output();
    let printed = String::from_utf8(output.unwrap().stdout).unwrap();
    let sorted = |text: &str| {
        // Rules inserted at the top are listed like the others.
        let lines = text.lines().map(|line| line.replacen("-I ", "-A ", 1));
        let mut lines: Vec<_> = lines.filter(|line| line.starts_with("-A")).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&printed), sorted(&network.rules()));
    assert!(sorted(&printed).len() >= 14, "{printed}");
}

/// Checks that a transfer survives when `harm` happens in mid-transfer.
fn survives(what: &str, rules: &str, harm: impl FnOnce(&mut Daemon)) {
    let network = Network::new();
    let mut daemon = Daemon::start(&network, rules);
    let transfer = network.transfer(&server(5002), 3);
    std::thread::sleep(Duration::from_millis(1200));
    harm(&mut daemon);
    if !transfer.is_over() {
        let status = daemon.ask("status").unwrap_or_default();
        panic!("{what}: stuck\n{}{status:#}\n{}", network.sockets(), daemon.log());
    }
    let (gap, _) = transfer.end();
    eprintln!("{what}: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{what}: {gap:?}\n{}", daemon.log());
}

#[test]
#[ignore = "needs root: make root"]
fn a_killed_worker_is_replaced_and_flows_go_on() {
    if is_skipped("killed worker") {
        return;
    }
    for rules in [OBSERVE, SNOOP] {
        survives("worker killed", rules, |daemon| {
            daemon.signal_worker(Signal::KILL);
            daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
        });
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_stopped_worker_is_replaced_and_flows_go_on() {
    if is_skipped("stopped worker") {
        return;
    }
    for rules in [OBSERVE, SNOOP] {
        survives("worker stopped", rules, |daemon| {
            daemon.signal_worker(Signal::STOP);
            daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
        });
    }
}

#[test]
#[ignore = "needs root: make root"]
fn flows_go_on_without_a_supervisor_and_clean_removes_what_it_left() {
    if is_skipped("killed supervisor") {
        return;
    }
    let network = Network::new();
    let mut daemon = Daemon::start(&network, SNOOP);
    let transfer = network.transfer(&server(5003), 3);
    std::thread::sleep(Duration::from_millis(1200));
    // `clean` must fail while a gateway runs.
    let mut clean = network.command("g", lasthop());
    clean.args(["gateway", "clean", "--control"]).arg(daemon.control());
    assert!(!clean.output().unwrap().status.success());
    daemon.signal(Signal::KILL);
    daemon.wait();
    let (gap, _) = transfer.end();
    eprintln!("supervisor killed: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    assert!(network.rules().contains("NFQUEUE"));
    assert!(clean.output().unwrap().status.success());
    assert_eq!(network.rules(), "");
    assert!(!daemon.control().exists());
}

#[test]
#[ignore = "needs root: make root"]
fn reloads_under_load_lose_nothing() {
    if is_skipped("reload of the gateway") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SNOOP);
    let transfer = network.transfer(&server(5004), 3);
    for round in 0..10_u64 {
        let other = if round % 2 == 0 { "[[rule]]\nname = 'more'\nmode = 'observe'\ninterface = 'eth7'\n" } else { "" };
        daemon.configure(&format!("{SNOOP}{other}"));
        if round < 5 {
            daemon.signal(Signal::HUP);
        } else {
            assert!(daemon.command("reload").output().unwrap().status.success(), "{}", daemon.log());
        }
        daemon.await_status(|status| status["reloads"] == round + 1);
    }
    // An invalid configuration is reported and changes nothing.
    daemon.configure("[[rule]]\nname = 'all'\nmode = 'snop'\ninterface = 'wl0'\n");
    let refused = daemon.command("reload").output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && message.contains(":5: rule[1].mode: cannot be \"snop\""), "{message}");
    let (gap, _) = transfer.end();
    eprintln!("reloaded ten times: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    let status = daemon.await_status(|status| status["rules"][0]["flows_seen"].as_u64() >= Some(1));
    // One connection, tracked all the time, handled by one worker.
    assert_eq!(status["rules"][0]["flows_seen"], 1, "{status:#}");
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
}

#[test]
#[ignore = "needs root: make root"]
fn split_connections_keep_their_addresses_and_leave_nothing() {
    if is_skipped("splitting gateway") {
        return;
    }
    let network = Network::new();
    let mut daemon = Daemon::start(&network, SPLIT);
    let (_, peer) = network.transfer(&server(5005), 1).end();
    assert_eq!(peer.ip().to_string(), "10.2.0.2");
    let status = daemon.await_status(|status| status["split"]["total"] == 1);
    assert_eq!(status["split"]["aborted"], 0, "{status:#}");
    // New connections are forwarded while there is no worker.
    daemon.signal_worker(Signal::KILL);
    daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
    network.transfer(&server(5006), 1).end();
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert_eq!(network.rules(), "");
}

#[test]
#[ignore = "needs root: make root"]
fn a_check_names_the_bridge_of_an_interface_that_is_its_port() {
    if is_skipped("check of a port of a bridge") {
        return;
    }
    let network = Network::bridged();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    let check = |interface: &str| {
        std::fs::write(&file, OBSERVE.replace("wl0", interface)).unwrap();
        let output = network.command("g", lasthop()).args(["gateway", "check"]).arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (fine, text) = check("wl0");
    assert!(
        !fine && text.contains("MISSING  interface wl0: is a port of bridge br0: routed packets leave through br0"),
        "{text}"
    );
    assert_eq!(text.matches("interface wl0:").count(), 1, "{text}");
    let (fine, text) = check("br0");
    assert!(fine && text.contains(" interface br0: ") && !text.contains("MISSING"), "{text}");
    // The rule takes effect once the interface exists.
    let (fine, text) = check("radio9");
    assert!(
        !fine && text.contains("MISSING  interface radio9: does not exist; `lasthop gateway run` treats"),
        "{text}"
    );
}
