//! The gateway on real packets between network namespaces.
#![cfg(target_os = "linux")]

#[path = "common/network.rs"]
mod network;

use std::time::Duration;

use network::{Daemon, Network, is_skipped, lasthop};
use rustix::process::Signal;

const OBSERVE: &str = "[[rule]]\nname = 'all'\nmode = 'observe'\ninterface = 'wl0'\n";
const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n\
                     split.wireless.congestion = 'cubic'\n";

/// The server's address, a port for each transfer of a test.
fn server(port: u16) -> String {
    format!("10.1.0.2:{port}")
}

#[test]
fn packets_pass_as_they_are_and_nothing_is_left_afterwards() {
    if is_skipped("observing gateway") {
        return;
    }
    let network = Network::new();
    let before = network.rules();
    let mut daemon = Daemon::start(&network, OBSERVE);
    assert!(network.rules().contains("NFQUEUE"));
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

    // One at a time; and what is no request is answered as such.
    let second = network.command("g", lasthop()).arg("gateway").arg(daemon.file()).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && message.contains("a gateway runs already"), "{message}");
    for garbage in ["\n", "{\"request\":\"stop\"}\n", "\u{0}\n"] {
        let answer = daemon.tell(garbage.as_bytes());
        assert!(answer.contains("\"ok\":false") && answer.contains("expected "), "{answer}");
    }
    // Whoever does not come to an end is not listened to.
    daemon.tell(&[b'x'; 100_000]);
    assert!(daemon.ask("report").unwrap()["rules"][0]["gain"].is_null());

    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert_eq!(network.rules(), before);
    assert!(!daemon.control().exists());
}

#[test]
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
        // What is put before all other rules is listed like the rest.
        let lines = text.lines().map(|line| line.replacen("-I ", "-A ", 1));
        let mut lines: Vec<_> = lines.filter(|line| line.starts_with("-A")).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&printed), sorted(&network.rules()));
    assert!(sorted(&printed).len() >= 14, "{printed}");
}

/// What happens to a transfer when `harm` comes in its midst.
fn survives(what: &str, rules: &str, harm: impl FnOnce(&mut Daemon)) {
    let network = Network::new();
    let mut daemon = Daemon::start(&network, rules);
    let transfer = network.transfer(&server(5002), 3);
    std::thread::sleep(Duration::from_millis(1200));
    harm(&mut daemon);
    if !transfer.is_over_within(15) {
        let status = daemon.ask("status").unwrap_or_default();
        panic!("{what}: stuck\n{}{status:#}\n{}", network.sockets(), daemon.log());
    }
    let (gap, _) = transfer.end();
    eprintln!("{what}: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{what}: {gap:?}\n{}", daemon.log());
}

#[test]
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
fn flows_go_on_without_a_supervisor_and_clean_removes_what_it_left() {
    if is_skipped("killed supervisor") {
        return;
    }
    let network = Network::new();
    let mut daemon = Daemon::start(&network, SNOOP);
    let transfer = network.transfer(&server(5003), 3);
    std::thread::sleep(Duration::from_millis(1200));
    // Not while a gateway runs.
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
    // A bad configuration changes nothing, and says why.
    daemon.configure("[[rule]]\nname = 'all'\nmode = 'snop'\ninterface = 'wl0'\n");
    let refused = daemon.command("reload").output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && message.contains(":5: rule[1].mode: cannot be \"snop\""), "{message}");
    let (gap, _) = transfer.end();
    eprintln!("reloaded ten times: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{gap:?}");
    let status = daemon.await_status(|status| status["rules"][0]["flows_seen"].as_u64() >= Some(1));
    // One connection, known all the time, handled by one worker.
    assert_eq!(status["rules"][0]["flows_seen"], 1, "{status:#}");
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
}

#[test]
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
    // While there is no worker, new connections are forwarded.
    daemon.signal_worker(Signal::KILL);
    daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
    network.transfer(&server(5006), 1).end();
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert_eq!(network.rules(), "");
}
