use super::*;
use crate::configuration::OpenedBy;
use crate::firewall::chains::install;
use crate::split::{Share, SplitError};

fn rule() -> SplitRule {
    SplitRule {
        addresses: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        ports: vec![crate::configuration::PortRange { first: 80, last: 90 }],
        ..SplitRule::new("wl0")
    }
}

fn config() -> SplitConfig {
    let other = SplitRule { opened_by: OpenedBy::Wired, ..SplitRule::new("wl1") };
    SplitConfig { queue: Some(27_000), ..SplitConfig::new(vec![rule(), other]) }
}

fn text(config: &SplitConfig, family: Family, pulse: Pulse) -> String {
    let mut all = Vec::new();
    extend_output(config, &mut all);
    all.extend(chains(config, family, pulse));
    install(&all, &Vec::new())
}

#[test]
fn the_rules_for_ipv4() {
    let expected = "\
*filter
:LASTHOP - [0:0]
-A LASTHOP -m mark --mark 0x20000000/0x20000000 -j ACCEPT
-A LASTHOP -m mark --mark 0x40000000/0x40000000 -j ACCEPT
:LASTHOP_SPLIT - [0:0]
-A LASTHOP_SPLIT -m mark --mark 0x10000000/0x10000000 -j ACCEPT
-I OUTPUT -j LASTHOP
-I INPUT -j LASTHOP_SPLIT
COMMIT
*raw
:LASTHOP - [0:0]
-A LASTHOP -m mark --mark 0x20000000/0x20000000 -j CT --notrack
:LASTHOP_SPLIT - [0:0]
-A LASTHOP_SPLIT -p tcp ! --syn -m socket --transparent --restore-skmark -m mark ! --mark 0x40000000/0x40000000 -j MARK --set-xmark 0x20000000/0x20000000
-A LASTHOP_SPLIT -s 10.1.0.0/16 -i wl0 -p tcp --syn -m tcp --dport 80:90 -m addrtype --dst-type UNICAST QUEUE
-A LASTHOP_SPLIT -d 10.1.0.0/16 ! -i wl0 -p tcp --syn -m tcp --dport 80:90 -m addrtype --dst-type UNICAST QUEUE
-A LASTHOP_SPLIT ! -i wl1 -p tcp --syn -m addrtype --dst-type UNICAST QUEUE
-A LASTHOP_SPLIT ! -i wl0 -p tcp --syn -m addrtype ! --src-type LOCAL --dst-type LOCAL QUEUE
-A LASTHOP_SPLIT ! -i wl1 -p tcp --syn -m addrtype ! --src-type LOCAL --dst-type LOCAL QUEUE
-A LASTHOP_SPLIT -s 10.1.0.0/16 -i wl0 -p tcp --syn -m addrtype ! --src-type LOCAL --dst-type LOCAL QUEUE
-A LASTHOP_SPLIT -m mark --mark 0x20000000/0x20000000 -j CT --notrack
-I OUTPUT -j LASTHOP
COMMIT
*mangle
:LASTHOP_SPLIT - [0:0]
-A LASTHOP_SPLIT -p tcp --syn -m mark --mark 0x40000000/0x40000000 -j MARK --set-xmark 0x0/0x40000000
-A LASTHOP_SPLIT -p tcp --syn -m mark --mark 0x20100000/0x27f00000 -j TPROXY --on-ip 127.0.0.1 --on-port 7412 --tproxy-mark 0x10000000/0x10000000
-A LASTHOP_SPLIT -p tcp --syn -m mark --mark 0x20000000/0x27f00000 -j TPROXY --on-ip 127.0.0.1 --on-port 7411 --tproxy-mark 0x10000000/0x10000000
-A LASTHOP_SPLIT -p tcp --syn -m mark --mark 0x20200000/0x27f00000 -j TPROXY --on-ip 127.0.0.1 --on-port 7413 --tproxy-mark 0x10000000/0x10000000
-A LASTHOP_SPLIT -p tcp ! --syn -m socket --transparent -j MARK --set-xmark 0x10000000/0x10000000
-A LASTHOP_SPLIT -p icmp -m socket --transparent -j MARK --set-xmark 0x10000000/0x10000000
-A LASTHOP_SPLIT -m mark --mark 0x10000000/0x10000000 -j ACCEPT
-I PREROUTING -j LASTHOP_SPLIT
COMMIT
*raw
-I PREROUTING -j LASTHOP_SPLIT
COMMIT
";
    let queue = "-m mark --mark 0x0/0x60000000 -m recent --rcheck --seconds 1 --name lasthop --mask 0.0.0.0 \
                 --rsource -j NFQUEUE --queue-num 27000 --queue-bypass";
    assert_eq!(text(&config(), Family::V4, Pulse::Required), expected.replace("QUEUE\n", &format!("{queue}\n")));
}

#[test]
fn the_rules_for_ipv6_name_no_address_of_ipv4() {
    let (four, six) = (text(&config(), Family::V4, Pulse::None), text(&config(), Family::V6, Pulse::None));
    assert_eq!(four.lines().count(), six.lines().count());
    assert!(!six.contains("127.0.0.1") && !six.contains("10.1.") && six.contains("-p icmpv6"), "{six}");
    assert!(six.contains("-d 2001:db8::/32 ! -i wl0") && six.contains("--on-ip ::1"), "{six}");
}

#[test]
fn what_the_relay_sends_over_the_hop_is_led_to_the_queue() {
    let expected = "\
*mangle
:LASTHOP_OUT - [0:0]
-A LASTHOP_OUT -m mark --mark 0x8000000/0x8000000 -j RETURN
-A LASTHOP_OUT -p tcp --sport 9 -j RETURN
-A LASTHOP_OUT -o wl0 -p tcp -m mark --mark 0x20000000/0x20000000 -j QUEUE
-A LASTHOP_OUT -o wl0 -p tcp -m mark --mark 0x40000000/0x40000000 -j QUEUE
:LASTHOP_IN - [0:0]
-A LASTHOP_IN -p tcp --sport 9 -j RETURN
-A LASTHOP_IN -i wl0 -p tcp -m mark --mark 0x10000000/0x10000000 -j QUEUE
-A OUTPUT -j LASTHOP_OUT
-A INPUT -j LASTHOP_IN
COMMIT
";
    assert_eq!(install(&beneath(&config(), &["wl0"], "-j QUEUE", 0x800_0000), &Vec::new()), expected);
}

#[test]
fn without_a_queue_all_are_split() {
    let text = text(&SplitConfig { queue: None, ..config() }, Family::V4, Pulse::None);
    let rule = "-s 10.1.0.0/16 -i wl0 -p tcp --syn -m tcp --dport 80:90 -m addrtype --dst-type UNICAST -j MARK \
                --set-xmark 0x20100000/0x27f00000\n";
    assert!(text.contains(rule) && !text.contains("NFQUEUE"), "{text}");
}

#[test]
fn shares_are_of_numbers() {
    assert!([-0.1, 1.1, f64::NAN].into_iter().all(|share| Share::new(share).is_none()));
    let (half, all) = (Share::new(0.5).unwrap(), Share::new(1.0).unwrap());
    assert!(
        half.contains(0xABCD_7FFF) && !half.contains(0xABCD_8000) && all.contains(u32::MAX) && !Share::NONE.contains(0)
    );
}

#[test]
fn a_configuration_that_cannot_work_is_told_by_its_key() {
    let base = config();
    base.validate().unwrap();
    let named = |interface: &str| SplitConfig::new(vec![SplitRule::new(interface)]);
    let marks = crate::split::Marks { deliver: 3, accepted: 2, ..base.marks };
    let wrong = [
        ("interface", named("sixteen_letters_")),
        ("interface", named("-j")),
        ("interface", named("wlan+")),
        ("rules", SplitConfig::new(Vec::new())),
        ("rules", SplitConfig::new(vec![rule(); 65])),
        ("listen", SplitConfig { listen: 0, ..base.clone() }),
        ("listen", SplitConfig { listen: 65_534, ..base.clone() }),
        ("marks", SplitConfig { marks, ..base.clone() }),
        ("table", SplitConfig { table: 254, ..base.clone() }),
        ("max_connections, max_of_client", SplitConfig { max_connections: 0, ..base.clone() }),
        ("transfer_buffer", SplitConfig { transfer_buffer: 5000, ..base.clone() }),
    ];
    for (expected, config) in wrong {
        match config.validate() {
            Err(SplitError::Config { key, .. }) => assert_eq!(key, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}
