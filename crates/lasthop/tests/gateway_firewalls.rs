//! Tests of the gateway beside firewalls that stop its own packets: connections pass untreated, `check` reports this in
//! advance with the rule to add, and with that rule they are treated. `benches/live/firewalls.py` measures goodput with
//! many more rule sets.
#![cfg(target_os = "linux")]

use crate::network;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network::{Daemon, Network, Pace, is_skipped, lasthop};
use serde_json::Value;

const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\nsplit.wireless.congestion = 'cubic'\n";
const FOUR: &str = "10.1.0.2";
const SIX: &str = "[fd01::2]";
/// Minimum goodput with the gateway, relative to that without it: the goal is 0.95, and a test shares its machine.
const SHARE: f64 = 0.9;
/// Number of pairs of transfers, of which the best counts.
const PAIRS: usize = 4;

/// Returns whether the machine lacks the program that sets these tests' rules.
fn is_without_nft(test: &str) -> bool {
    let there = Command::new("nft").arg("--version").output().is_ok();
    is_skipped(test) || network::is_skipped_without(test, "nft (Debian: apt-get install nftables)", there)
}

/// Returns a chain of `inet filter` that accepts the machine's own traffic, then has the rules `more` and its policy.
fn chain(hook: &str, policy: &str, more: &str) -> String {
    let own = if hook == "input" { "iif lo accept" } else { "oif lo accept" };
    format!(
        "table inet filter {{ chain {hook} {{ type filter hook {hook} priority 0; policy {policy}; {own}; \
         meta l4proto {{ icmp, icmpv6 }} accept; ct state established,related accept; {more} }} }}"
    )
}

/// Loads rules, one per line, as older versions of nft require.
fn nft(network: &Network, text: &str) {
    let text = text.replace("; ", "\n").replace("} }", "}\n}").replace('\'', "'\\''");
    network.must("g", &format!("printf '%s\n' '{text}' | nft -f -"));
}

/// Returns the success of `check`, and its findings on the firewall.
fn check(network: &Network, daemon: &Daemon) -> (bool, Vec<Value>) {
    let mut command = network.command("g", lasthop());
    let output = command.args(["gateway", "check", "--json"]).arg(daemon.file()).output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of_firewall = |one: &Value| one["subject"].as_str().unwrap().starts_with("firewall, ");
    (output.status.success(), all.into_iter().filter(of_firewall).collect())
}

/// Returns the outcome and the detail of `check` for an IP version.
fn said<'a>(findings: &'a [Value], family: &str) -> (&'a str, &'a str) {
    let finding = findings.iter().find(|one| one["subject"].as_str().unwrap().contains(family)).unwrap();
    (finding["outcome"].as_str().unwrap(), finding["detail"].as_str().unwrap())
}

fn untreated(status: &Value) -> Vec<&str> {
    status["untreated"].as_array().unwrap().iter().map(|one| one["treatment"].as_str().unwrap()).collect()
}

fn download(network: &Network, server: &str, port: u16) {
    network.transfer_chunks(&format!("{server}:{port}"), 40, Pace::Full).end();
}

/// Returns the duration of a transfer of 0.5 s, from its opening to its end.
fn duration(network: &Network, server: &str, port: u16) -> Duration {
    let begin = Instant::now();
    network.transfer_chunks(&format!("{server}:{port}"), 500, Pace::Steady).end();
    begin.elapsed()
}

/// Returns firewalls: name, text, mode, the treatment that it stops, and words that identify the rule.
fn firewalls() -> Vec<(&'static str, String, &'static str, &'static str, &'static str)> {
    let own_chain = "table inet filter { chain last { counter drop; } }";
    let jumps = format!("{own_chain}\n{}", chain("input", "accept", "jump last;"));
    let rejects = chain("input", "accept", "meta l4proto tcp reject with tcp reset;");
    let marks = chain("output", "accept", "meta mark & 0x08000000 != 0 drop;");
    let masquerade = "table inet nat { chain post { type nat hook postrouting priority 100; policy accept; oifname wired masquerade; } }";
    let all = [chain("input", "drop", ""), chain("output", "drop", "")].join("\n");
    let masqueraded = format!("{masquerade}\n{}", chain("input", "drop", ""));
    let input = "table inet filter, chain input, policy drop";
    let output = "table inet filter, chain output, policy drop";
    vec![
        ("input drop", chain("input", "drop", ""), SPLIT, "split", input),
        ("input drop by a chain", jumps, SPLIT, "split", "chain last, rule `counter"),
        ("input reject", rejects, SPLIT, "split", "chain input"),
        ("output drop, split", chain("output", "drop", ""), SPLIT, "split", output),
        ("output drop, snoop", chain("output", "drop", ""), SNOOP, "snoop", output),
        ("all drop, split", all.clone(), SPLIT, "split", output),
        ("all drop, snoop", all, SNOOP, "snoop", output),
        ("input drop behind a masquerade", masqueraded, SPLIT, "split", input),
        ("mark dropped", marks, SNOOP, "snoop", "chain output, rule `meta mark"),
    ]
}

#[test]
#[ignore = "needs root: make root"]
fn connections_pass_untreated_as_fast_as_without_the_gateway() {
    if is_without_nft("goodput beside firewalls that stop the gateway") {
        return;
    }
    for (name, text, rules, treatment, _) in firewalls() {
        let network = Network::new();
        nft(&network, &text);
        for (server, family) in [(FOUR, "IPv4"), (SIX, "IPv6")] {
            let mut shares = Vec::new();
            let mut told = None;
            for pair in 0..PAIRS as u16 {
                drop(told.take());
                let without = duration(&network, server, 5300 + 2 * pair);
                let daemon = Daemon::start(&network, rules);
                // The first connection of this gateway.
                let with = duration(&network, server, 5301 + 2 * pair);
                shares.push(without.as_secs_f64() / with.as_secs_f64());
                for more in 0..2 {
                    download(&network, server, 5350 + 2 * pair + more);
                }
                let status = daemon.await_status(|status| untreated(status).contains(&treatment));
                let split = status["split"]["total"].as_u64().unwrap_or(0);
                assert_eq!(split, 0, "{name}, {family}: {status:#}");
                told = Some((network.get("g", "127.0.0.1:9469", "/metrics"), daemon));
                if shares.iter().any(|share| *share >= SHARE) {
                    break;
                }
            }
            assert!(shares.iter().any(|share| *share >= SHARE), "{name}, {family}: {shares:?}");
            let (metrics, daemon) = told.unwrap();
            let gauge = format!("lasthop_suspended{{treatment=\"{treatment}\",family=\"{family}\"}} 1\n");
            assert!(metrics.contains(&gauge), "{name}, {family}: {metrics}");
            // A process lists the chains before the line is logged.
            let begin = Instant::now();
            let lines = loop {
                let log = daemon.log();
                let of_family = |line: &&str| line.contains("connections pass untreated") && line.contains(family);
                let lines: Vec<String> = log.lines().filter(of_family).map(str::to_owned).collect();
                if !lines.is_empty() || begin.elapsed() > Duration::from_secs(5) {
                    break lines;
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            let of_treatment = lines.iter().filter(|line| line.contains(&format!("\"{treatment}\""))).count();
            assert!(of_treatment == 1 && lines[0].contains("inet filter"), "{name}, {family}: {lines:#?}");
            let text = String::from_utf8(daemon.command("status").output().unwrap().stdout).unwrap();
            assert!(text.contains("NOT TREATED: ") && text.contains("netfilter drops"), "{name}, {family}: {text}");
        }
    }
}

#[test]
#[ignore = "needs root: make root"]
fn check_names_the_chain_and_rules_that_help() {
    if is_without_nft("check beside firewalls that stop the gateway") {
        return;
    }
    // One firewall of each kind: each needs a gateway with several rehearsals.
    let kinds = ["input drop", "input drop by a chain", "output drop, split", "output drop, snoop", "mark dropped"];
    for (name, text, rules, treatment, words) in firewalls().into_iter().filter(|one| kinds.contains(&one.0)) {
        let network = Network::new();
        nft(&network, &text);
        let daemon = Daemon::start(&network, rules);
        let (fine, findings) = check(&network, &daemon);
        let mut remedies = Vec::new();
        for family in ["IPv4", "IPv6"] {
            let (outcome, detail) = said(&findings, family);
            assert!(!fine && outcome == "missing" && detail.contains(words), "{name}: {findings:#?}");
            // Each rule, as printed.
            let (_, rules) =
                detail.split_once("tested in a copy of the rules: ").unwrap_or_else(|| panic!("{name}: {detail}"));
            remedies.extend(rules.split("; ").map(str::to_owned));
        }
        remedies.dedup();
        for remedy in remedies {
            network.must("g", &remedy);
        }
        let (_, findings) = check(&network, &daemon);
        for (server, family) in [(FOUR, "IPv4"), (SIX, "IPv6")] {
            assert_eq!(said(&findings, family).0, "ok", "{name}: {findings:#?}");
            download(&network, server, 5400);
            download(&network, server, 5401);
        }
        let status = daemon.ask("status").unwrap();
        assert!(!untreated(&status).contains(&treatment), "{name}: {status:#}");
        daemon.await_status(|status| treatment != "split" || status["split"]["total"].as_u64() >= Some(4));
    }
}

/// Process that occupies a processor until it is dropped.
struct Load(Child);

impl Load {
    fn begin() -> Self {
        Self(Command::new("yes").stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root: make root"]
fn nothing_is_suspended_where_no_firewall_is_however_busy_the_machine() {
    if is_skipped("no suspension without a firewall") {
        return;
    }
    for (rules, loads) in [(SNOOP, 0), (SPLIT, 0), (SNOOP, 2), (SPLIT, 2)] {
        let _loads: Vec<Load> = (0..loads).map(|_| Load::begin()).collect();
        let network = Network::new();
        // One server is down, and one refuses.
        for program in ["iptables", "ip6tables"] {
            network.must("s", &format!("{program} -w -A INPUT -p tcp --dport 5600 -j DROP"));
        }
        let daemon = Daemon::start(&network, rules);
        for (round, server) in [FOUR, SIX, FOUR, SIX].into_iter().enumerate() {
            for port in [5600, 5601] {
                let address: std::net::SocketAddr = format!("{server}:{port}").parse().unwrap();
                let call = move || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(2500)).is_err();
                let fails = network.within("c", call).join().unwrap();
                assert!(fails || rules == SPLIT);
            }
            for more in 0..4 {
                download(&network, server, 5610 + 4 * round as u16 + more);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        let status = daemon.ask("status").unwrap();
        let log = daemon.log();
        assert!(untreated(&status).is_empty() && status["suspensions"] == 0, "{loads}: {status:#}\n{log}");
        assert!(!log.contains("pass untreated"), "{log}");
        if rules == SPLIT {
            // All except those that came right after the server that is down.
            assert!(status["split"]["total"].as_u64() >= Some(10), "{loads}: {status:#}\n{log}");
        }
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_firewall_that_comes_while_it_runs_stops_no_connection() {
    if is_without_nft("firewalls that come and go") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SNOOP);
    network.lose(0.01);
    let open = network.transfer_chunks(&format!("{FOUR}:5500"), 3000, Pace::Steady);
    daemon.await_status(|status| status["packets"]["injected_wireless"].as_u64() >= Some(3));
    for round in 0..2 {
        nft(&network, &chain("output", "drop", ""));
        daemon.await_status(|status| {
            download(&network, FOUR, 5510 + 2 * round);
            untreated(status).contains(&"snoop")
        });
        network.must("g", "nft delete table inet filter");
        // Packets that pass show that connections may be treated again.
        daemon.await_status(|status| {
            download(&network, FOUR, 5511 + 2 * round);
            untreated(status).is_empty()
        });
    }
    assert!(open.is_over(), "{}{}", network.sockets(), daemon.log());
    open.end();
}

/// Parts of firewalls, and whether each stops snoop and split.
const INGREDIENTS: [(&str, bool, bool); 9] = [
    (
        "table inet a { chain forward { type filter hook forward priority 0; policy drop; ct state established,related accept; ct state invalid drop; iifname wl0 accept; } }",
        false,
        false,
    ),
    (
        "table inet b { chain input { type filter hook input priority 5; policy drop; iif lo accept; meta l4proto { icmp, icmpv6 } accept; ct state established,related accept; } }",
        false,
        true,
    ),
    (
        "table inet c { chain output { type filter hook output priority 5; policy drop; oif lo accept; meta l4proto { icmp, icmpv6 } accept; ct state established,related accept; } }",
        true,
        true,
    ),
    (
        "table ip d { chain post { type nat hook postrouting priority 100; policy accept; oifname wired masquerade; } }",
        false,
        false,
    ),
    (
        "table inet e { chain pre { type filter hook prerouting priority -150; policy accept; ct state invalid drop; } }",
        false,
        false,
    ),
    (
        "table inet f { chain mss { type filter hook forward priority -150; policy accept; tcp flags syn tcp option maxseg size set 1200; } }",
        false,
        false,
    ),
    (
        "table inet g { chain out { type filter hook postrouting priority 0; policy accept; oifname wl0 meta l4proto tcp ct state untracked drop; } }",
        true,
        true,
    ),
    (
        "table inet h { chain marks { type filter hook prerouting priority -150; policy accept; iifname wl0 meta mark set meta mark | 0x42; } }",
        false,
        false,
    ),
    (
        "table inet i { chain raw { type filter hook prerouting priority -300; policy accept; iifname lo notrack; } }",
        false,
        false,
    ),
];

/// For random pairs of parts, the prediction of `check` is correct, and every download ends.
#[test]
#[ignore = "needs root: make root"]
fn check_predicts_what_becomes_of_connections_under_drawn_firewalls() {
    if is_without_nft("drawn firewalls") {
        return;
    }
    let mut drawn = 0x9e37_79b9_u32;
    let mut draw = move |below: usize| {
        drawn ^= drawn << 13;
        drawn ^= drawn >> 17;
        drawn ^= drawn << 5;
        drawn as usize % below
    };
    for round in 0..6 {
        let (one, other) = (draw(INGREDIENTS.len()), draw(INGREDIENTS.len()));
        let chosen = [INGREDIENTS[one], INGREDIENTS[other]];
        for (rules, treatment) in [(SNOOP, "snoop"), (SPLIT, "split")] {
            let stops = chosen.iter().any(|&(_, snoop, split)| if treatment == "snoop" { snoop } else { split });
            let network = Network::new();
            for (text, ..) in chosen.iter().take(if one == other { 1 } else { 2 }) {
                nft(&network, text);
            }
            let daemon = Daemon::start(&network, rules);
            let what = format!("round {round}, {treatment}, {chosen:#?}");
            let (_, findings) = check(&network, &daemon);
            let finding = findings.iter().find(|one| one["subject"].as_str().unwrap().contains("IPv4"));
            let said = finding.is_some_and(|finding| finding["outcome"] == "missing");
            assert_eq!(said, stops, "{what}: {findings:#?}");
            network.lose(0.01);
            for port in 0..3 {
                download(&network, FOUR, 5600 + port);
            }
            if stops {
                daemon.await_status(|status| untreated(status).contains(&treatment));
            } else {
                assert!(!untreated(&daemon.ask("status").unwrap()).contains(&treatment), "{what}");
            }
        }
    }
}
