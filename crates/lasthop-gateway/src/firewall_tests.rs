use super::chains::{Table, install, remove};
use super::*;

/// Returns the rules of one IP version for a configuration, without existing rules.
fn text(rules: &str, family: Family) -> String {
    let gateway = Gateway::parse("g", rules).unwrap();
    let source = Source { forward: Some(gateway.clone()), split: settings::split(&gateway) };
    source.text(&iptables(family), Pulse::Required, &Listing::new())
}

fn iptables(family: Family) -> Tables {
    Tables { family, program: family.programs()[1] }
}

#[test]
fn what_snoop_installs() {
    let rules = "[[rule]]\nname = 'a'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24', 'fd02::/64']\n\
                 ports = [443, '8000-8100']\n[[rule]]\nname = 'b'\nmode = 'observe'\ninterface = 'wl0'\nopened_by = 'wired'\n";
    let four = "\
*filter
:LASTHOP - [0:0]
-A LASTHOP -m mark --mark 0x8000000/0x8000000 -j ACCEPT
-I OUTPUT -j LASTHOP
COMMIT
*raw
:LASTHOP - [0:0]
-A LASTHOP -m mark --mark 0x8000000/0x8000000 -j CT --notrack
-I OUTPUT -j LASTHOP
COMMIT
*mangle
:LASTHOP - [0:0]
-A LASTHOP -m mark --mark 0x8000000/0x8000000 -j RETURN
-A LASTHOP -d 10.2.0.0/24 -o wl0 -p tcp -m multiport --sports 443,8000:8100 BEAT -j NFQUEUE --queue-num 27000 --queue-bypass
-A LASTHOP -s 10.2.0.0/24 -i wl0 -p tcp -m multiport --dports 443,8000:8100 BEAT -j NFQUEUE --queue-num 27000 --queue-bypass
-A LASTHOP -o wl0 -p tcp -m conntrack --ctdir ORIGINAL BEAT -j NFQUEUE --queue-num 27000 --queue-bypass
-A LASTHOP -i wl0 -p tcp -m conntrack --ctdir REPLY BEAT -j NFQUEUE --queue-num 27000 --queue-bypass
-A FORWARD -j LASTHOP
COMMIT
";
    let beat = |mask: &str| format!("-m recent --rcheck --seconds 1 --name lasthop --mask {mask} --rsource");
    assert_eq!(text(rules, Family::V4), four.replace("BEAT", &beat("0.0.0.0")));
    let six = four.replace("10.2.0.0/24", "fd02::/64").replace("BEAT", &beat("::"));
    assert_eq!(text(rules, Family::V6), six);
}

#[test]
fn a_rule_for_quic_queues_both_directions_of_udp_with_both_programs() {
    let rules = "[[rule]]\nname = 'a'\nmode = 'quic'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24', 'fd02::/64']\n";
    for (family, host, native) in [(Family::V4, "10.2.0.0/24", "ip"), (Family::V6, "fd02::/64", "ip6")] {
        let iptables = text(rules, family);
        let queued: Vec<&str> = iptables.lines().filter(|line| line.contains("NFQUEUE")).collect();
        let [down, up] = &queued[..] else { panic!("{iptables}") };
        assert!(down.starts_with(&format!("-A LASTHOP -d {host} -o wl0 -p udp -m udp --sport 443 ")), "{down}");
        assert!(up.starts_with(&format!("-A LASTHOP -s {host} -i wl0 -p udp -m udp --dport 443 ")), "{up}");
        let source = Source { forward: Some(Gateway::parse("g", rules).unwrap()), split: None };
        let tables = Tables { family, program: "nft" };
        let nft = source.text(&tables, Pulse::Required, &Listing::new());
        let down = format!("{native} daddr {host} oifname \"wl0\" meta l4proto udp udp sport 443 ");
        let up = format!("{native} saddr {host} iifname \"wl0\" meta l4proto udp udp dport 443 ");
        assert!(nft.contains(&down) && nft.contains(&up), "{nft}");
        assert_eq!(nft.matches("queue num 27000 bypass").count(), 2, "{nft}");
    }
}

#[test]
fn what_a_rule_that_splits_leaves_alone_is_measured() {
    let text = |ab: &str| {
        text(
            &format!(
                "[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\n{ab}[[rule]]\nname = 'b'\nmode = 'snoop'\ninterface = 'wl1'\n"
            ),
            Family::V4,
        )
    };
    assert!(text("").contains("-A LASTHOP -o wl0 -p tcp -j RETURN\n"), "{}", text(""));
    let measured = text("ab = '10 %'\n");
    let queued = |line: &str| line.starts_with("-A LASTHOP -o wl0 -p tcp -m recent") && line.contains("-j NFQUEUE");
    assert!(measured.lines().any(queued) && !measured.contains("-o wl0 -p tcp -j RETURN"), "{measured}");
}

#[test]
fn what_a_port_forward_leads_on_comes_to_the_queue_once_more() {
    let rules = "[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\nports = [80]\nopened_by = 'either'\n";
    let text = text(rules, Family::V4);
    let led_on: Vec<&str> = text.lines().filter(|line| line.contains("--ctstate DNAT")).collect();
    let beat = "-m recent --rcheck --seconds 1 --name lasthop --mask 0.0.0.0 --rsource";
    let expected = ["-s 10.2.0.0/24 -i wl0", "-d 10.2.0.0/24 -o wl0"].map(|selection| {
        format!(
            "-A LASTHOP {selection} -p tcp --syn -m tcp --dport 80 -m conntrack --ctstate DNAT {beat} -j NFQUEUE --queue-num 27000 --queue-bypass"
        )
    });
    assert_eq!(led_on, expected, "{text}");
}

#[test]
fn the_relays_packets_come_to_the_queue_where_they_are_repaired() {
    let of = |repair: &str| {
        let rule = |name: &str, hop: &str, more: &str| {
            format!("[[rule]]\nname = '{name}'\nmode = 'split'\ninterface = '{hop}'\n{more}\n")
        };
        let rules = [
            rule("a", "wl0", &format!("ports = [80]\nsplit.repair = '{repair}'")),
            rule("b", "wl0", &format!("ports = [81]\nsplit.repair = '{repair}'")),
            rule("c", "wl1", "split.repair = 'off'"),
        ];
        let gateway = Gateway::parse("g", &rules.concat()).unwrap();
        let source = Source { forward: Some(gateway.clone()), split: settings::split(&gateway) };
        source.text(&iptables(Family::V6), Pulse::Required, &Listing::new())
    };
    let text = of("on");
    let led = |line: &&str| line.starts_with("-A LASTHOP_OUT") || line.starts_with("-A LASTHOP_IN");
    let rules: Vec<&str> = text.lines().filter(led).collect();
    assert_eq!(
        rules.iter().filter(|line| line.contains("wl0") && line.ends_with("--queue-bypass")).count(),
        3,
        "{text}"
    );
    assert!(rules.iter().all(|line| !line.contains("wl1")), "{text}");
    assert!(!of("off").contains("LASTHOP_OUT") && !of("off").contains("LASTHOP_IN"));
    // Removed with the other chains.
    let listing = vec![(Table::Mangle, vec!["-N LASTHOP_OUT".to_owned(), "-A OUTPUT -j LASTHOP_OUT".to_owned()])];
    let expected = "*mangle\n:LASTHOP_OUT - [0:0]\n-D OUTPUT -j LASTHOP_OUT\n-X LASTHOP_OUT\nCOMMIT\n";
    assert_eq!(remove(&listing).unwrap(), expected);
}

#[test]
fn each_port_is_in_one_match_of_at_most_fifteen() {
    let ports: Vec<String> = (1..=16).map(|port| port.to_string()).chain(["'100-200'".to_owned()]).collect();
    let rules = format!("[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\nports = [{}]\n", ports.join(", "));
    let text = text(&rules, Family::V4);
    assert!(text.contains("-m multiport --dports 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 -m addrtype"), "{text}");
    assert!(text.contains("-m multiport --dports 16,100:200 -m addrtype"), "{text}");
}

#[test]
fn what_leads_packets_to_other_tables_comes_last_and_is_taken_out_first() {
    let rules = "[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\n\
                 [[rule]]\nname = 'b'\nmode = 'snoop'\ninterface = 'wl1'\n";
    let text = text(rules, Family::V4);
    let tables: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('*')).collect();
    assert_eq!(tables, ["filter", "raw", "mangle", "raw"]);
    assert!(text.ends_with("COMMIT\n*raw\n-I PREROUTING -j LASTHOP_SPLIT\nCOMMIT\n"), "{text}");
    // A table is committed before the next one begins.
    assert_eq!(text.matches("COMMIT").count(), tables.len());

    let lines = |text: &str| text.lines().map(str::to_owned).collect();
    let listing = vec![
        (
            Table::Raw,
            lines("-P PREROUTING ACCEPT\n-N LASTHOP_SPLIT\n-A PREROUTING -j LASTHOP_SPLIT\n-A PREROUTING -j X"),
        ),
        (Table::Mangle, lines("-P FORWARD ACCEPT\n-A FORWARD -j MARK")),
        (Table::Filter, lines("-N LASTHOP\n-A OUTPUT -j LASTHOP\n-A OUTPUT -j LASTHOP\n-A LASTHOP -j ACCEPT")),
    ];
    let expected = "*raw\n:LASTHOP_SPLIT - [0:0]\n-D PREROUTING -j LASTHOP_SPLIT\n-X LASTHOP_SPLIT\nCOMMIT\n\
                    *filter\n:LASTHOP - [0:0]\n-D OUTPUT -j LASTHOP\n-D OUTPUT -j LASTHOP\n-X LASTHOP\nCOMMIT\n";
    assert_eq!(remove(&listing).unwrap(), expected);
    assert_eq!(remove(&listing[1..2].to_vec()), None);
}

#[test]
fn what_leads_to_a_chain_already_is_replaced_however_often_it_is_there() {
    let gateway = Gateway::parse("g", "[[rule]]\nname = 'a'\nmode = 'snoop'\ninterface = 'wl0'\n").unwrap();
    let chains = forward::chains(&gateway, Family::V4, Pulse::None);
    let jumps = ["-A FORWARD -j LASTHOP", "-A FORWARD -j LASTHOP_SPLIT", "-A FORWARD -p tcp -j LASTHOP"];
    let listing = vec![(Table::Mangle, jumps.map(str::to_owned).to_vec())];
    let text = install(&chains, &listing);
    let changes: Vec<&str> = text.lines().filter(|line| line.contains(" FORWARD ")).collect();
    assert_eq!(changes, ["-D FORWARD -j LASTHOP", "-D FORWARD -p tcp -j LASTHOP", "-A FORWARD -j LASTHOP"]);
    assert!(text.contains("-A LASTHOP -o wl0 -p tcp -j NFQUEUE --queue-num 27000 --queue-bypass"), "{text}");
}

/// The nft rules correspond to the iptables rules one to one.
#[test]
fn rules_of_nftables_say_the_same() {
    let rules = "[[rule]]\nname = 'a'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24', 'fd02::/64']\n\
                 ports = [443, '8000-8100']\n[[rule]]\nname = 'b'\nmode = 'observe'\ninterface = 'wl0'\nopened_by = 'wired'\n";
    let gateway = Gateway::parse("g", rules).unwrap();
    let source = Source { forward: Some(gateway), split: None };
    let native = Tables { family: Family::V4, program: "nft" };
    let expected = "\
add table ip lasthop
delete table ip lasthop
table ip lasthop {
  set alive { typeof ip version; size 16; flags dynamic,timeout; timeout 1s; }
  chain beat {
    type filter hook output priority -400; policy accept;
    meta mark & 0x8000000 == 0x8000000 oifname \"lo\" udp dport 9 update @alive { ip version } drop
  }
  chain output_0 {
    type filter hook output priority -305; policy accept;
    meta mark & 0x8000000 == 0x8000000 notrack
  }
  chain forward_1 {
    type filter hook forward priority 10; policy accept;
    meta mark & 0x8000000 == 0x8000000 return
    ip daddr 10.2.0.0/24 oifname \"wl0\" meta l4proto tcp tcp sport { 443, 8000-8100 } ip version @alive queue num 27000 bypass
    ip saddr 10.2.0.0/24 iifname \"wl0\" meta l4proto tcp tcp dport { 443, 8000-8100 } ip version @alive queue num 27000 bypass
    oifname \"wl0\" meta l4proto tcp ct direction original ip version @alive queue num 27000 bypass
    iifname \"wl0\" meta l4proto tcp ct direction reply ip version @alive queue num 27000 bypass
  }
}
";
    assert_eq!(source.text(&native, Pulse::Required, &Listing::new()), expected);
}

#[test]
fn every_rule_has_words_of_nftables() {
    let rule = |name: &str, more: &str| format!("[[rule]]\nname = '{name}'\ninterface = 'wl0'\n{more}\n");
    let addresses = "addresses = ['10.2.0.0/24', '10.9.0.1', 'fd02::/64']\n";
    for mode in [
        "mode = 'snoop'",
        "mode = 'observe'",
        "mode = 'quic'",
        "mode = 'split'",
        "mode = 'split'\nsplit.repair = 'off'",
        "mode = 'split'\nab = '10 %'",
    ] {
        for ports in ["", "ports = 443\n", "ports = [80, 443, '8000-8100']\n"] {
            for opened_by in ["", "opened_by = 'wired'\n", "opened_by = 'either'\n"] {
                let text = rule("a", &format!("{addresses}{ports}{opened_by}{mode}"));
                let Ok(gateway) = Gateway::parse("g", &text) else { continue };
                let source = Source { forward: Some(gateway.clone()), split: settings::split(&gateway) };
                for (family, pulse) in [(Family::V4, Pulse::Required), (Family::V6, Pulse::None)] {
                    let chains = source.chains(family, pulse);
                    let native = native::install(&chains, family, pulse, gateway.mark);
                    let native = native.unwrap_or_else(|| panic!("{text}"));
                    // One rule corresponds to one rule, except those that restore a socket's mark.
                    let of_chains =
                        chains.iter().filter(|chain| chain.table != Table::Filter).flat_map(|chain| &chain.rules);
                    let restoring = |rule: &&String| rule.contains("--restore-skmark");
                    let wanted: usize = of_chains.clone().count() + of_chains.filter(restoring).count();
                    let skipped = ["set alive", "add ", "delete ", "table ", "chain ", "type ", "}"];
                    let lines =
                        native.lines().map(str::trim).filter(|line| !skipped.iter().any(|word| line.starts_with(word)));
                    let beat = usize::from(pulse == Pulse::Required);
                    assert_eq!(lines.count(), wanted + beat, "{native}");
                }
            }
        }
    }
}
