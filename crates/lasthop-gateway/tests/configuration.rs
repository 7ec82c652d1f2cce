//! Parsing of the gateway's configuration, and error messages for invalid ones.

use lasthop_gateway::configuration::{Gateway, Group, Mode, OpenedBy};
use lasthop_proto::pep::snoop::{HopControl, SnoopConfig};
use lasthop_proto::scheme::{LocalDetection, TcpAwareness};
use lasthop_proto::time::Duration;
use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

const RULE: &str = "[[rule]]\nname = 'roof'\nmode = 'snoop'\ninterface = 'wlan0'\n";

#[test]
fn a_whole_configuration() {
    let text = "control = '/run/x.sock'\ncontrol_group = 'netdev'\nmetrics = '127.0.0.1:9469'\nlog = 'debug'\nqueue = 5\n\
                [limits]\ncache = '8 MiB'\nflows = 1000\nidle = '30 s'\n\
                [[rule]]\nname = 'web'\nmode = 'split'\ninterface = 'wlan0'\naddresses = ['10.0.0.0/8', '2001:db8::1']\n\
                ports = [80, 443]\nab = '50 %'\nsplit.wireless = { congestion = 'bbr', buffer = '4 MiB', rto_min = '30 ms' }\n\
                [[rule]]\nname = 'rest'\nmode = 'snoop'\ninterface = 'wlan0'\nsnoop.timer_min = '30 ms'\n";
    let gateway = Gateway::parse("gateway.toml", text).unwrap();
    assert_eq!(gateway.control_group, Some(Group::Named("netdev".to_owned())));
    assert_eq!((gateway.queue, gateway.limits.cache, gateway.limits.flows), (5, 8 << 20, 1000));
    assert_eq!(gateway.limits.idle, Duration::from_secs(30));
    let [web, rest] = &gateway.rules[..] else { panic!("{gateway:?}") };
    assert_eq!((web.opened_by, rest.opened_by), (OpenedBy::Wireless, OpenedBy::Either));
    assert_eq!(web.ab.get(), 0.5);
    assert!(web.addresses[0].contains("10.1.2.3".parse().unwrap()));
    assert!(!web.addresses[1].contains("2001:db8::2".parse().unwrap()));
    let Mode::Split(split) = &web.mode else { panic!("{web:?}") };
    assert_eq!((split.wireless.congestion.as_str(), split.wireless.buffer), ("bbr", Some(4 << 20)));
    assert_eq!((split.wireless.rto_min, split.wired.rto_min), (Some(Duration::from_millis(30)), None));
    let Mode::Snoop(snoop) = &rest.mode else { panic!("{rest:?}") };
    assert_eq!(snoop.timer_min.as_nanos(), 30_000_000);
    assert_eq!(*snoop, SnoopConfig { timer_min: snoop.timer_min, ..SnoopConfig::gateway() });
}

/// A formatted configuration parses to the same value.
#[test]
fn a_configuration_survives_being_written_down() {
    let split = RULE.replace("snoop", "split");
    let texts = [
        RULE.to_owned(),
        format!("control = '/run/a \"b.sock'\ncontrol_group = 108\nmetrics = '[::1]:9469'\nlog = 'trace'\n{RULE}"),
        format!("trial = 'off'\n{split}"),
        format!("trial = '800 ms'\n{split}"),
        format!("queue = 0\nmark = 0x80000000\n[limits]\ncache = '1234567 B'\nflows = 7\nidle = '1.5 s'\n{RULE}"),
        format!("{RULE}snoop = {{ timer_min = '1234567 ns', timer_max = '2 min', held = '77 KiB', backlog = 3 }}"),
        format!("{RULE}snoop = {{ detection = 'smart', dupack_threshold = 4, max_local_retries = 0 }}"),
        format!("{RULE}snoop = {{ awareness = 'unaware' }}"),
        format!("{RULE}snoop = {{ repairs = 'silences' }}"),
        format!(
            "{RULE}addresses = ['10.0.0.0/8', '2001:db8::1']\nports = [80, '8000-8100']\nopened_by = 'wired'\nab = 0.3"
        ),
        format!("bridge.wired = 'eth0'\ncontrol_group = 'netdev'\n{RULE}"),
        format!("limits.share = '10 %'\n{split}ports = 443\nopened_by = 'either'\n{}", RULE.replace("roof", "cellar")),
        format!(
            "{split}split = {{ wireless.buffer = '4 MiB', wireless.rto_min = '20 ms', wired.rto_min = '199 ms', wired.rto_max = '7 s' }}"
        ),
        format!("{split}split.wired = {{ congestion = 'reno', buffer = 4097 }}"),
        RULE.replace("snoop", "observe"),
        RULE.replace("snoop", "quic"),
        format!("{}ports = [443, '8000-8100']\nab = '10 %'\naddresses = 'fd00::/8'", RULE.replace("snoop", "quic")),
        format!("bridge.wired = 'eth0'\n{}", RULE.replace("snoop", "quic")),
    ];
    for text in texts {
        let gateway = Gateway::parse("given", &text).unwrap();
        assert_eq!(Gateway::parse("written", &gateway.to_string()).unwrap(), gateway, "{gateway}");
    }
    let Gateway { rules, .. } = Gateway::parse("rule", RULE).unwrap();
    assert_eq!(Gateway::new(rules), Gateway::parse("rule", RULE).unwrap());
}

#[test]
fn a_rule_for_quic_selects_port_443_of_the_servers_unless_it_names_others() {
    let of = |more: &str| Gateway::parse("g.toml", &format!("{}{more}", RULE.replace("snoop", "quic"))).unwrap();
    let rule = of("").rules.remove(0);
    assert_eq!((rule.mode.clone(), rule.opened_by, rule.ab.get()), (Mode::Quic, OpenedBy::Wireless, 0.0));
    assert_eq!(rule.ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["443"]);
    let rule = of("ports = [8443]\nab = '50 %'\nopened_by = 'wired'").rules.remove(0);
    assert_eq!((rule.opened_by, rule.ab.get()), (OpenedBy::Wired, 0.5));
    assert_eq!(rule.ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["8443"]);
}

/// A file cannot select the kernel's bounds of timeouts over the lossy hop; the kernel's values are written instead.
#[test]
fn the_kernels_timeouts_are_written_where_the_default_is_another() {
    let mut gateway = Gateway::parse("split", &RULE.replace("snoop", "split")).unwrap();
    let Mode::Split(split) = &mut gateway.rules[0].mode else { panic!("a split") };
    (split.wireless.rto_min, split.wireless.rto_max) = (None, None);
    let Mode::Split(read) = Gateway::parse("written", &gateway.to_string()).unwrap().rules.remove(0).mode else {
        panic!("a split")
    };
    let kernels = (Some(Duration::from_millis(200)), Some(Duration::from_secs(120)));
    assert_eq!((read.wireless.rto_min, read.wireless.rto_max), kernels);
}

/// LL lets every acknowledgment pass, so it cannot hold back senders.
#[test]
fn the_four_kinds_of_local_repair() {
    for (detection, found) in [("duplicate-acks", LocalDetection::DuplicateAcks), ("smart", LocalDetection::Smart)] {
        for (awareness, heard, hop) in
            [("aware", TcpAwareness::Aware, Some(HopControl::DEFAULT)), ("unaware", TcpAwareness::Unaware, None)]
        {
            let text = format!("{RULE}snoop = {{ detection = '{detection}', awareness = '{awareness}' }}");
            let gateway = Gateway::parse("gateway.toml", &text).unwrap();
            let expected = SnoopConfig { detection: found, awareness: heard, hop, ..SnoopConfig::gateway() };
            assert_eq!(gateway.rules[0].mode, Mode::Snoop(expected));
        }
    }
}

#[test]
fn a_bridge_has_a_wired_port_and_that_of_all_rules() {
    let gateway = Gateway::parse("g.toml", &format!("bridge.wired = 'eth0'\n{RULE}")).unwrap();
    let bridge = gateway.bridge.unwrap();
    assert_eq!((bridge.wired.as_str(), bridge.wireless.as_str()), ("eth0", "wlan0"));
    assert_eq!(Gateway::parse("g.toml", RULE).unwrap().bridge, None);
    let second = "[[rule]]\nname = 'x'\nmode = 'observe'\n";
    let cases = [
        (format!("bridge = {{}}\n{RULE}"), "g.toml:1: bridge.wired: ", &["missing", "such as \"wlan0\""][..]),
        (format!("mark = 1\nbridge.wired = 'eth0'\n{RULE}"), "g.toml:1: mark: ", &["no effect on a bridge"]),
        (format!("trial = 'off'\nbridge.wired = 'eth0'\n{RULE}"), "g.toml:1: trial: ", &["no effect on a bridge"]),
        (
            format!("bridge.wired = 'wlan0'\n{RULE}"),
            "g.toml:5: rule[1].interface: ",
            &["\"wlan0\"", "bridge.wired", "the port towards the lossy hop"],
        ),
        (
            format!("bridge.wired = 'eth0'\n{RULE}{second}interface = 'wlan1'\n"),
            "g.toml:9: rule[2].interface: ",
            &["\"wlan1\"", "the same interface", "\"wlan0\", as in the first rule"],
        ),
        (
            format!("bridge.wired = 'eth0'\n{RULE}opened_by = 'wired'"),
            "g.toml:6: rule[1].opened_by: ",
            &["\"wired\"", "derived from the ports", "\"either\", or give ports too"],
        ),
        (
            format!("bridge.wired = 'eth0'\n{}", RULE.replace("snoop", "split")),
            "g.toml:4: rule[1].mode: ",
            &["\"split\"", "cannot be split on a bridge", "\"snoop\", \"quic\" or \"observe\""],
        ),
    ];
    for (text, place, words) in cases {
        names(&text, place, words);
    }
}

/// Checks that the error for an invalid file has one line, starts with the place and the key, and contains `words`.
fn names(text: &str, place: &str, words: &[&str]) {
    let error = Gateway::parse("g.toml", text).expect_err(text).to_string();
    assert!(error.starts_with(place) && !error.contains('\n'), "{text}: {error}");
    for word in words {
        assert!(error[place.len()..].contains(word), "{text}: {word}: {error}");
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_file_line_and_key() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("", "g.toml: rule: ", &["missing", "at least one rule: [[rule]] with name, mode and interface"]),
        ("rule = 3", "g.toml:1: rule: ", &["3", "tables: [[rule]] with name, mode and interface"]),
        ("[[rule]]\nnme = 'x'", "g.toml:2: rule[1].nme: ", &["unknown key", "did you mean \"name\"?"]),
        (
            "[[rule]]\nname = 'x'",
            "g.toml:1: rule[1].mode: ",
            &["missing", "\"snoop\", \"split\", \"quic\", \"observe\""],
        ),
        ("[[rule]]\nname = 'a b'", "g.toml:2: rule[1].name: ", &["\"a b\"", "1 to 32 letters, digits, `-` and `_`"]),
        (
            "[[rule]]\nname = 'x'\nmode = 'snoop'\ninterface = 'wlan+'",
            "g.toml:4: rule[1].interface: ",
            &["\"wlan+\"", "the name of one interface, such as \"wlan0\""],
        ),
        (
            &format!("{RULE}addresses = ['10.0.0.1/8']"),
            "g.toml:5: rule[1].addresses: ",
            &[
                "item 1: \"10.0.0.1/8\" has host bits set",
                "an address or network, such as \"192.0.2.7\" or \"2001:db8::/32\"",
            ],
        ),
        (
            &format!("{RULE}addresses = ['10.0.0.0/33']"),
            "g.toml:5: rule[1].addresses: ",
            &["item 1: the prefix length of \"10.0.0.0/33\" is not 0 to 32", "an address or network"],
        ),
        (
            &format!("{RULE}ports = [0]"),
            "g.toml:5: rule[1].ports: ",
            &["item 1: 0 is not a port", "a port from 1 to 65535, or a range, such as \"8000-8100\""],
        ),
        (
            &format!("{RULE}ports = ['90-80']"),
            "g.toml:5: rule[1].ports: ",
            &["item 1: \"90-80\" is reversed", "a port from 1 to 65535, or a range"],
        ),
        (
            &format!("{RULE}ports = [80]\nopened_by = 'either'"),
            "g.toml:6: rule[1].opened_by: ",
            &["\"either\"", "accepts the connection", "\"wireless\" or \"wired\", or write two rules"],
        ),
        (&format!("{RULE}ab = 50"), "g.toml:5: rule[1].ab: ", &["50", "\"50 %\"", "from 0 to 1"]),
        (&format!("{RULE}{RULE}"), "g.toml:6: rule[2].name: ", &["\"roof\"", "another rule has it", "a unique name"]),
        (&format!("{RULE}split = {{}}"), "g.toml:5: rule[1].split: ", &["only with mode = \"split\""]),
        (
            &format!("{}snoop.timer_min = '30 ms'", RULE.replace("snoop", "quic")),
            "g.toml:5: rule[1].snoop: ",
            &["only with mode = \"snoop\""],
        ),
        (
            &format!("{}opened_by = 'either'", RULE.replace("snoop", "quic")),
            "g.toml:5: rule[1].opened_by: ",
            &["\"either\"", "\"wireless\" or \"wired\", or write two rules"],
        ),
        (
            &format!("{RULE}snoop = {{ timer_min = '2 s' }}"),
            "g.toml:5: rule[1].snoop.timer_min: ",
            &["2 s", "timer_max = 1 s"],
        ),
        (
            &format!("{RULE}snoop = {{ detection = 'sack' }}"),
            "g.toml:5: rule[1].snoop.detection: ",
            &["\"sack\"", "\"duplicate-acks\" or \"smart\""],
        ),
        (
            &format!("{RULE}snoop = {{ awareness = 'unaware', flow_control = 'fast' }}"),
            "g.toml:5: rule[1].snoop.flow_control: ",
            &["\"fast\"", "awareness = \"aware\""],
        ),
        (
            &format!("{RULE}snoop = {{ awareness = 'unaware', held = '1 MiB' }}"),
            "g.toml:5: rule[1].snoop.held: ",
            &["flow_control = \"fast\""],
        ),
        (
            &format!("control_group = 'net dev'\n{RULE}"),
            "g.toml:1: control_group: ",
            &["\"net dev\"", "\"netdev\" or 108"],
        ),
        (&format!("control_group = -1\n{RULE}"), "g.toml:1: control_group: ", &["-1", "\"netdev\" or 108"]),
        (
            &format!("metrics = '0.0.0.0:9469'\n{RULE}"),
            "g.toml:1: metrics: ",
            &["\"0.0.0.0:9469\"", "loopback", "\"127.0.0.1:9469\"", "\"off\""],
        ),
        (
            &format!("control = 'gateway.sock'\n{RULE}"),
            "g.toml:1: control: ",
            &["\"gateway.sock\"", "absolute path", "\"/run/lasthop/gateway.sock\""],
        ),
        (&format!("trial = '1 s'\n{RULE}"), "g.toml:1: trial: ", &["\"1 s\"", "50 ms to 900 ms, or \"off\""]),
        (
            &format!("mark = 3\n{RULE}"),
            "g.toml:1: mark: ",
            &["3 (several bits are set)", "a power of two, such as 0x08000000"],
        ),
        (
            &format!("[limits]\ncache = '1 KiB'\n{RULE}"),
            "g.toml:2: limits.cache: ",
            &["\"1 KiB\"", "1 MiB to 64 GiB, such as \"64 MiB\""],
        ),
        (
            &RULE.replace("snoop", "observe").replace("wlan0'", "wlan0'\nab = 0.5"),
            "g.toml:5: rule[1].ab: ",
            &["0.5", "no treatment to compare", "mode = \"snoop\", \"split\" or \"quic\""],
        ),
        (
            &format!("{}split.wired.rto_min = '1 s'", RULE.replace("snoop", "split")),
            "g.toml:5: rule[1].split.wired.rto_min: ",
            &["\"1 s\"", "20 ms to 200 ms"],
        ),
        (
            &format!("mark = 0x10000000\n{}", RULE.replace("snoop", "split")),
            "g.toml:1: mark: ",
            &["268435456", "up to 0x00080000, or 0x08000000", "use the bits 0x77f00000"],
        ),
        (
            &format!("[limits]\nshare = 0\n{}", RULE.replace("snoop", "split")),
            "g.toml:2: limits.share: ",
            &["0 (no connection would be split)", "more than 0, up to 1, such as \"25 %\""],
        ),
    ];
    for (text, place, words) in cases {
        names(text, place, words);
    }
}

#[test]
fn several_rules_may_split_by_any_ports_and_whoever_opens() {
    let split = RULE.replace("snoop", "split");
    let text = format!(
        "{split}ports = [80, '1000-2000', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]\nopened_by = 'either'\n{}",
        split.replace("roof", "cellar")
    );
    let gateway = Gateway::parse("g.toml", &text).unwrap();
    assert!(gateway.rules.iter().all(|rule| matches!(rule.mode, Mode::Split(_)) && rule.opened_by == OpenedBy::Either));
    assert_eq!((gateway.rules[0].ports.len(), gateway.limits.share.get()), (16, 0.25));
}

#[test]
fn one_port_or_address_needs_no_brackets() {
    let read = |more: &str| {
        let text = format!("[[rule]]\nname = 'x'\nmode = 'observe'\ninterface = 'wlan0'\nopened_by = 'wired'\n{more}");
        Gateway::parse("g.toml", &text).unwrap().rules.remove(0)
    };
    for (alone, list) in [
        ("ports = 443", "ports = [443]"),
        ("ports = '8000-8100'", "ports = ['8000-8100']"),
        ("addresses = '192.0.2.7'", "addresses = ['192.0.2.7']"),
    ] {
        assert_eq!(read(alone), read(list));
        assert_ne!(read(alone), read(""));
    }
}

/// Returns the store of failed inputs.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: kept(), ..ProptestConfig::default() })]

    #[test]
    fn hostile_names_leave_messages_on_one_line(name in any::<String>(), file in any::<String>()) {
        let quoted: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        let told = [
            Gateway::parse(&file, &format!("\"{quoted}\" = 1")).err(),
            Gateway::parse(&file, &format!("[[rule]]\nname = \"{quoted}\"\nmode = \"{quoted}\"")).err(),
            Gateway::parse(&file, &format!("{name}\n]")).err(),
        ];
        for (number, error) in told.into_iter().enumerate() {
            let Some(error) = error else { return Err(TestCaseError::fail(format!("{number} was taken"))) };
            let message = error.to_string();
            let steers = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            prop_assert!(!message.chars().any(steers), "{}: {:?}", number, message);
        }
    }
}
