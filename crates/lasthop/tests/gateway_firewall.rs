//! Tests of the gateway beside other programs' rules: address translation, flushed tables, removed routes.
#![cfg(target_os = "linux")]

use std::time::Duration;

use crate::network::{Daemon, Network, Pace, is_skipped, lasthop};
use rustix::process::Signal;
use serde_json::Value;

const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\nsplit.wireless.congestion = 'cubic'\n";

fn server(port: u16) -> String {
    format!("10.1.0.2:{port}")
}

/// Returns a counter of a host's kernel, such as `TcpOutRsts`.
fn counter(network: &Network, host: &str, name: &str) -> u64 {
    let text = network.sh(host, &format!("nstat -asz {name}"));
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Options of a rule that matches resets from the server to an untranslated address of the client, or from the client to
/// another address than the server's; for IPv4 and IPv6.
const ASTRAY: [(&str, [&str; 2]); 2] =
    [("s", ["-d 10.2.0.0/24", "-d fd02::/64"]), ("c", ["! -d 10.1.0.2", "! -d fd01::2"])];

/// Counts resets that answer packets from wrong addresses, from now on.
fn count_resets_astray(network: &Network) {
    for (host, [v4, v6]) in ASTRAY {
        for (program, destination) in [("iptables", v4), ("ip6tables", v6)] {
            network.must(host, &format!("{program} -w -A OUTPUT -p tcp --tcp-flags RST RST {destination}"));
        }
    }
}

/// Returns the number of resets since [`count_resets_astray`].
fn resets_astray(network: &Network) -> u64 {
    let count = |host: &str, program: &str| -> u64 {
        // Two lines of headings, and the rule with its packets first.
        let text = network.sh(host, &format!("{program} -w -nvxL OUTPUT"));
        let packets = text.lines().nth(2).and_then(|line| line.split_whitespace().next());
        packets.and_then(|packets| packets.parse().ok()).unwrap_or_else(|| panic!("{host}, {program}: {text}"))
    };
    ASTRAY.iter().flat_map(|(host, _)| ["iptables", "ip6tables"].map(|program| count(host, program))).sum()
}

#[test]
#[ignore = "needs root: make root"]
fn what_the_gateway_sends_bears_the_addresses_that_its_machine_translates() {
    if is_skipped("snoop behind address translation") {
        return;
    }
    let masquerade = "-t nat -A POSTROUTING -o wired -j MASQUERADE";
    let inner = "-t nat -A POSTROUTING -o wl0 -j MASQUERADE";
    let zone = "-t raw -A PREROUTING -j CT --zone 7";
    let strict = "-A FORWARD -m conntrack --ctstate INVALID -j DROP";
    for rules in [&[strict, masquerade][..], &[strict, masquerade, zone], &[strict, masquerade, inner]] {
        let network = Network::new();
        for program in ["iptables", "ip6tables"] {
            rules.iter().for_each(|rule| network.must("g", &format!("{program} -w {rule}")));
            let output = "-P OUTPUT DROP; PROGRAM -w -A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT; \
                          PROGRAM -w -A OUTPUT -o lo -j ACCEPT; PROGRAM -w -A OUTPUT -p icmpv6 -j ACCEPT";
            network.sh("g", &format!("{program} -w {output}").replace("PROGRAM", program));
        }
        count_resets_astray(&network);
        let daemon = Daemon::start(&network, SNOOP);
        network.lose(0.02);
        let peers = [server(5201), "[fd01::2]:5201".to_owned()].map(|server| {
            let (_, peer) = network.transfer_chunks(&server, 400, Pace::Full).end();
            peer.ip().to_string()
        });
        assert_eq!(peers, ["10.1.0.1", "fd01::1"], "the server sees the gateway");
        let status = daemon.await_status(|status| status["packets"]["injected_wireless"].as_u64() >= Some(20));
        assert_eq!(status["packets"]["injection_failures"], 0, "{status:#}");
        assert_eq!(resets_astray(&network), 0, "{rules:?}: packets bear wrong addresses");
        // A packet from a wrong port would be answered with a reset, and so would everything the gateway sends. A late
        // copy, or a late window, for a connection that has ended is answered with one too: few packets show nothing.
        let sent = |way: &str| status["packets"][way].as_u64().unwrap();
        for (host, way) in [("c", "injected_wireless"), ("s", "injected_wired")] {
            let resets = counter(&network, host, "TcpOutRsts");
            assert!(4 * resets <= sent(way).max(8), "{rules:?}: {resets} resets for {} packets", sent(way));
        }
    }
}

/// Ways in which other programs modify a machine's rules.
const HARMS: [(&str, &str); 6] = [
    ("all tables flushed", "for t in raw mangle filter; do iptables -w -t $t -F; ip6tables -w -t $t -F; done"),
    (
        "foreign rules for mangle and filter restored",
        "printf '*mangle\\nCOMMIT\\n*filter\\n:FORWARD ACCEPT [0:0]\\n-A FORWARD -m conntrack --ctstate INVALID -j DROP\\n\
         COMMIT\\n' | iptables-restore -w",
    ),
    ("one rule of many removed", "iptables -w -t mangle -D LASTHOP 1; iptables -w -t mangle -D LASTHOP_SPLIT 1; true"),
    ("what leads to a chain is there twice", "iptables -w -t raw -I OUTPUT -j LASTHOP"),
    (
        "routing rule removed",
        "ip rule del preference 32000; ip -6 rule del preference 32000; iptables -w -t raw -F OUTPUT",
    ),
    ("routing table flushed", "ip route flush table 7411; iptables -w -t raw -F OUTPUT"),
];

/// Returns how often rules were restored.
fn restored(status: &Value) -> Option<u64> {
    status["firewall"]["restored"].as_u64().filter(|_| status["firewall"]["in_place"] == true)
}

#[test]
#[ignore = "needs root: make root"]
fn rules_that_other_programs_remove_are_put_back_and_nobody_is_cut_off() {
    if is_skipped("removed rules") {
        return;
    }
    for (mode, rules) in [("snoop", SNOOP), ("split", SPLIT)] {
        let network = Network::new();
        let mut daemon = Daemon::start(&network, rules);
        let whole = network.rules();
        // Applies if the rules are those of nf_tables.
        let nft = network.sh("g", "iptables -V").contains("nf_tables");
        let foreign = nft.then_some(("all of nf_tables flushed", "nft flush ruleset"));
        for (index, (what, harm)) in HARMS.iter().chain(&foreign).enumerate() {
            let (what, before) = (format!("{mode}, {what}"), restored(&daemon.ask("status").unwrap()).unwrap());
            let open = network.transfer_chunks(&server(5210), 2000, Pace::Steady);
            std::thread::sleep(Duration::from_millis(300));
            network.must("g", harm);
            // New connections do not fail, whichever part is missing.
            for port in 0..3 {
                network.transfer_chunks(&server(5220 + 3 * index as u16 + port), 10, Pace::Steady).end();
            }
            let status = daemon.await_status(|status| restored(status) > Some(before));
            assert_eq!(network.rules(), whole, "{what}: {status:#}");
            assert!(open.is_over(), "{what}: stuck\n{}{}", network.sockets(), daemon.log());
            let (gap, _) = open.end();
            eprintln!("{what}: longest receive gap {} ms", gap.as_millis());
        }
        assert!(daemon.log().contains("another program removed or changed the gateway's rules"), "{}", daemon.log());
        let metrics = network.get("g", "127.0.0.1:9469", "/metrics");
        assert!(metrics.contains("lasthop_rules_in_place 1\n"), "{metrics}");
        assert!(!metrics.contains("lasthop_rules_restored_total 0\n"), "{metrics}");
        daemon.signal(Signal::TERM);
        assert!(daemon.wait().success(), "{}", daemon.log());
        assert_eq!(network.rules(), "", "{mode}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn rules_that_cannot_be_put_back_are_said_and_all_passes() {
    if is_skipped("rules that cannot be put back") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SPLIT);
    // Packets cannot be routed to an interface that is down.
    network.must("g", "ip route flush table 7411 && ip link set lo down");
    let status = daemon.await_status(|status| status["firewall"]["in_place"] == false);
    assert!(
        status["firewall"]["problem"].as_str().unwrap().contains("route replace local default dev lo"),
        "{status:#}"
    );
    assert!(daemon.log().contains("cannot be restored"), "{}", daemon.log());
    for port in 0..3 {
        network.transfer_chunks(&server(5250 + port), 10, Pace::Steady).end();
    }
    assert_eq!(daemon.ask("status").unwrap()["split"]["total"], 0);
    network.must("g", "ip link set lo up");
    daemon.await_status(|status| restored(status) == Some(1));
    network.transfer_chunks(&server(5260), 10, Pace::Steady).end();
    daemon.await_status(|status| status["split"]["total"] == 1);
}

#[test]
#[ignore = "needs root: make root"]
fn packets_pass_while_the_whole_gateway_is_stopped() {
    if is_skipped("stopped gateway") {
        return;
    }
    for rules in [SNOOP, SPLIT] {
        let network = Network::new();
        let daemon = Daemon::start(&network, rules);
        // Stop one after the other, each for too short a time to be noticed by the other.
        daemon.signal(Signal::STOP);
        daemon.signal_worker_of_stopped(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1500));
        let (gap, _) = network.transfer_chunks(&server(5270), 200, Pace::Steady).end();
        eprintln!("all stopped: longest receive gap {} ms", gap.as_millis());
        daemon.signal_worker_of_stopped(Signal::CONT);
        daemon.signal(Signal::CONT);
        network.transfer_chunks(&server(5271), 20, Pace::Steady).end();
    }
}

#[test]
#[ignore = "needs root: make root"]
fn check_says_what_run_would_meet() {
    if is_skipped("check beside run") {
        return;
    }
    let network = Network::new();
    let check = |rules: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        std::fs::write(&file, rules).unwrap();
        let output = network.command("g", lasthop()).args(["gateway", "check"]).arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (fine, text) = check(SPLIT);
    assert!(fine && !text.contains("MISSING") && text.contains("the relay can listen"), "{text}");
    let (fine, text) = check(&SNOOP.replace("wl0", "wl9"));
    assert!(!fine && text.contains("MISSING  interface wl9: does not exist; did you mean wl0?"), "{text}");
    let (fine, text) = check(&SPLIT.replace("cubic", "warp"));
    assert!(!fine && text.contains("congestion control `warp` of the wireless side"), "{text}");

    let daemon = Daemon::start(&network, SPLIT);
    let (fine, text) = check(SPLIT);
    assert!(fine && text.contains("hint     netfilter queue 27000: in use by a running gateway"), "{text}");
    // A second gateway cannot have the same queue.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, format!("control = '{}'\n{SNOOP}", folder.path().join("control").display())).unwrap();
    let second = network.command("g", lasthop()).arg("gateway").arg(&file).output().unwrap();
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(
        !second.status.success() && message.contains("in use by") && message.contains("set `queue` to another number"),
        "{message}"
    );
    // The file has the path of the socket.
    let mut clean = network.command("g", lasthop());
    let output = clean.args(["gateway", "clean"]).arg(daemon.file()).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains("a gateway is already running"), "{message}");
}
