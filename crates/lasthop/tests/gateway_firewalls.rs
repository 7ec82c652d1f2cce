//! The gateway beside firewalls that stop its own packets: connections pass untreated, `check` says so before and names the rule to
//! add, and with that rule they are treated. `benches/live/firewalls.py` measures goodput under many more rule sets.
#![cfg(target_os = "linux")]

#[path = "common/network.rs"]
mod network;

use std::time::Duration;

use network::{Daemon, Network, Pace, is_skipped, lasthop};
use serde_json::Value;

const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\nsplit.wireless.congestion = 'cubic'\n";
const FOUR: &str = "10.1.0.2";

/// Whether the machine lacks the program that these tests set rules with.
fn is_without_nft(test: &str) -> bool {
    let there = std::process::Command::new("nft").arg("--version").output().is_ok();
    is_skipped(test) || network::is_skipped_without(test, "nft (Debian: apt-get install nftables)", there)
}

/// What a chain of `inet filter` accepts besides what belongs to the machine itself.
fn chain(hook: &str, policy: &str, more: &str) -> String {
    let own = if hook == "input" { "iif lo accept" } else { "oif lo accept" };
    format!(
        "add table inet filter\nadd chain inet filter {hook} {{ type filter hook {hook} priority 0; policy accept; }}\n\
         add rule inet filter {hook} {own}\nadd rule inet filter {hook} meta l4proto {{ icmp, icmpv6 }} accept\n\
         add rule inet filter {hook} ct state established,related accept\n{more}\
         add chain inet filter {hook} {{ type filter hook {hook} priority 0; policy {policy}; }}\n"
    )
}

fn nft(network: &Network, text: &str) {
    // The end of a block ends a line.
    let quoted = text.replace("} }", "}\n}").replace('\'', "'\\''");
    network.must("g", &format!("printf '%s' '{quoted}' | nft -f -"));
}

/// The exit status of `check`, and what it prints of the firewall.
fn check(network: &Network, daemon: &Daemon) -> (bool, Vec<Value>) {
    let mut command = network.command("g", lasthop());
    let output = command.args(["gateway", "check", "--json"]).arg(daemon.file()).output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of_firewall = |one: &Value| one["subject"].as_str().unwrap().starts_with("firewall, ");
    (output.status.success(), all.into_iter().filter(of_firewall).collect())
}

fn untreated(status: &Value) -> Vec<&str> {
    status["untreated"].as_array().unwrap().iter().map(|one| one["treatment"].as_str().unwrap()).collect()
}

fn download(network: &Network, port: u16) -> Duration {
    network.transfer_chunks(&format!("{FOUR}:{port}"), 40, Pace::Full).end().0
}

/// For each firewall: its text, the mode, the treatment that it stops, and the words that name what drops.
fn firewalls() -> Vec<(&'static str, String, &'static str, &'static str, &'static str)> {
    let own_chain =
        "add chain inet filter last\nadd rule inet filter last counter drop\nadd rule inet filter input jump last\n";
    vec![
        ("input drop", chain("input", "drop", ""), SPLIT, "split", "table inet filter, chain input, policy drop"),
        ("input drop by a chain", chain("input", "accept", own_chain), SPLIT, "split", "chain last, rule `counter"),
        (
            "output drop, split",
            chain("output", "drop", ""),
            SPLIT,
            "split",
            "table inet filter, chain output, policy drop",
        ),
        ("output drop", chain("output", "drop", ""), SNOOP, "snoop", "table inet filter, chain output, policy drop"),
        (
            "mark dropped",
            chain("output", "accept", "add rule inet filter output meta mark & 0x08000000 != 0 drop\n"),
            SNOOP,
            "snoop",
            "chain output, rule `meta mark",
        ),
    ]
}

#[test]
fn connections_pass_untreated_and_check_names_the_chain_and_a_rule_that_helps() {
    if is_without_nft("firewalls that stop the gateway") {
        return;
    }
    for (index, (name, text, rules, treatment, words)) in firewalls().into_iter().enumerate() {
        let network = Network::new();
        nft(&network, &text);
        let daemon = Daemon::start(&network, rules);
        network.lose(0.01);
        for port in 0..3 {
            download(&network, 5300 + 10 * index as u16 + port);
        }
        let status = daemon.await_status(|status| untreated(status).contains(&treatment));
        assert!(status["suspensions"].as_u64() >= Some(1), "{name}: {status:#}");
        if treatment == "split" {
            // At most those that were opened before the first was found to be dropped.
            assert!(status["split"]["total"].as_u64() <= Some(1), "{name}: {status:#}");
        }
        let metrics = network.get("g", "127.0.0.1:9469", "/metrics");
        assert!(
            metrics.contains(&format!("lasthop_suspended{{treatment=\"{treatment}\",family=\"IPv4\"}} 1\n")),
            "{metrics}"
        );
        let log = daemon.log();
        assert!(log.contains("connections pass untreated") && log.contains("inet filter"), "{name}: {log}");
        let text = String::from_utf8(daemon.command("status").output().unwrap().stdout).unwrap();
        assert!(text.contains("NOT TREATED: ") && text.contains("netfilter drops"), "{name}: {text}");
        let (fine, findings) = check(&network, &daemon);
        let finding = findings.iter().find(|one| one["subject"].as_str().unwrap().contains("IPv4")).unwrap();
        let detail = finding["detail"].as_str().unwrap();
        assert!(!fine && finding["outcome"] == "missing" && detail.contains(words), "{name}: {findings:#?}");
        // Each of the rules, as it stands there.
        let (_, remedies) =
            detail.split_once("tested in a copy of the rules: ").unwrap_or_else(|| panic!("{name}: {detail}"));
        for remedy in remedies.split("; ") {
            network.must("g", remedy);
        }
        daemon.await_status(|status| {
            download(&network, 5400 + index as u16);
            !untreated(status).contains(&treatment)
        });
        let (_, findings) = check(&network, &daemon);
        let finding = findings.iter().find(|one| one["subject"].as_str().unwrap().contains("IPv4")).unwrap();
        assert_eq!(finding["outcome"], "ok", "{name}: {finding:#}");
    }
}

#[test]
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
        daemon.await_status(|status| untreated(status).contains(&"snoop"));
        download(&network, 5510 + round);
        network.must("g", "nft delete table inet filter");
        daemon.await_status(|status| untreated(status).is_empty());
    }
    assert!(open.is_over(), "{}{}", network.sockets(), daemon.log());
    open.end();
}

/// Ingredients of firewalls, and whether each stops snoop and split.
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
        "table inet h { chain mark { type filter hook prerouting priority -150; policy accept; iifname wl0 meta mark set meta mark | 0x42; } }",
        false,
        false,
    ),
    (
        "table inet i { chain raw { type filter hook prerouting priority -300; policy accept; iifname lo notrack; } }",
        false,
        false,
    ),
];

/// Every pair of ingredients that the seed draws: what `check` says is what happens, and every download ends.
#[test]
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
                download(&network, 5600 + port);
            }
            if stops {
                daemon.await_status(|status| untreated(status).contains(&treatment));
            } else {
                assert!(!untreated(&daemon.ask("status").unwrap()).contains(&treatment), "{what}");
            }
        }
    }
}
