use super::*;
use crate::gateway::split::{ListenPorts, SplitError};

fn config() -> SplitConfig {
    SplitConfig {
        wireless_networks: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
        destination_ports: vec![80, 443],
        bypass: Share::new(0.5).unwrap(),
        ..SplitConfig::new("wlan0")
    }
}

fn lines(commands: &[Command]) -> String {
    commands.iter().map(|command| format!("{command}\n")).collect()
}

#[test]
fn the_commands_for_ipv4() {
    let config = SplitConfig { families: Families::V4Only, ..config() };
    let install = "\
ip route add local default dev lo table 7411
ip rule add preference 32000 fwmark 0x10000000/0x10000000 lookup 7411
iptables -w -t raw -N LASTHOP_SPLIT
iptables -w -t mangle -N LASTHOP_SPLIT
iptables -w -t raw -A LASTHOP_SPLIT -p tcp ! --syn -m socket --transparent --restore-skmark -m mark ! --mark 0x40000000/0x40000000 -j MARK --set-xmark 0x20000000/0x20000000
iptables -w -t raw -A LASTHOP_SPLIT -p tcp --syn -i wlan0 -m addrtype --dst-type UNICAST -m multiport --dports 80,443 -m u32 --u32 '0>>22&0x3C@4&0xFFFF=0x8000:0xffff' -j MARK --set-xmark 0x20000000/0x20000000
iptables -w -t raw -A LASTHOP_SPLIT -p tcp --syn ! -i wlan0 -d 10.1.0.0/16 -m addrtype --dst-type UNICAST -m multiport --dports 80,443 -m u32 --u32 '0>>22&0x3C@4&0xFFFF=0x8000:0xffff' -j MARK --set-xmark 0x20000000/0x20000000
iptables -w -t raw -A LASTHOP_SPLIT -m mark --mark 0x20000000/0x20000000 -j CT --notrack
iptables -w -t mangle -A LASTHOP_SPLIT -p tcp --syn -i wlan0 -m mark --mark 0x20000000/0x20000000 -j TPROXY --on-ip 127.0.0.1 --on-port 7412 --tproxy-mark 0x10000000/0x10000000
iptables -w -t mangle -A LASTHOP_SPLIT -p tcp --syn -m mark --mark 0x20000000/0x20000000 -j TPROXY --on-ip 127.0.0.1 --on-port 7411 --tproxy-mark 0x10000000/0x10000000
iptables -w -t mangle -A LASTHOP_SPLIT -p tcp ! --syn -m socket --transparent -j MARK --set-xmark 0x10000000/0x10000000
iptables -w -t mangle -A LASTHOP_SPLIT -p icmp -m socket --transparent -j MARK --set-xmark 0x10000000/0x10000000
iptables -w -t filter -I INPUT -m mark --mark 0x10000000/0x10000000 -j ACCEPT
iptables -w -t raw -I OUTPUT -m mark --mark 0x20000000/0x20000000 -j CT --notrack
iptables -w -t mangle -I PREROUTING -j LASTHOP_SPLIT
iptables -w -t raw -I PREROUTING -p tcp -j LASTHOP_SPLIT
";
    assert_eq!(lines(&config.rules().install()), install);
    let remove = "\
iptables -w -t raw -D PREROUTING -p tcp -j LASTHOP_SPLIT
iptables -w -t mangle -D PREROUTING -j LASTHOP_SPLIT
iptables -w -t raw -D OUTPUT -m mark --mark 0x20000000/0x20000000 -j CT --notrack
iptables -w -t filter -D INPUT -m mark --mark 0x10000000/0x10000000 -j ACCEPT
iptables -w -t mangle -F LASTHOP_SPLIT
iptables -w -t mangle -X LASTHOP_SPLIT
iptables -w -t raw -F LASTHOP_SPLIT
iptables -w -t raw -X LASTHOP_SPLIT
ip rule del preference 32000 fwmark 0x10000000/0x10000000 lookup 7411
ip route del local default dev lo table 7411
";
    assert_eq!(lines(&config.rules().remove()), remove);
    assert_eq!(lines(&config.rules().pause()), "iptables -w -t raw -I LASTHOP_SPLIT -p tcp --syn -j RETURN\n");
    assert_eq!(lines(&config.rules().resume()), "iptables -w -t raw -D LASTHOP_SPLIT -p tcp --syn -j RETURN\n");
}

#[test]
fn the_commands_for_ipv6_name_no_address_of_ipv4() {
    let all = lines(&config().rules().install());
    let six: Vec<&str> =
        all.lines().filter(|line| line.starts_with("ip6tables") || line.starts_with("ip -6")).collect();
    assert_eq!(six.len() * 2, all.lines().count());
    assert!(six.iter().all(|line| !line.contains("127.0.0.1") && !line.contains("10.1.")));
    let split: Vec<_> = six.iter().filter(|line| line.contains("-d 2001:db8::/32")).collect();
    assert!(matches!(split[..], [line] if line.contains("--u32 '44&0xFFFF=0x8000:0xffff'")), "{six:?}");
}

#[test]
fn with_a_queue_its_reader_decides_and_without_a_reader_all_pass() {
    let config = SplitConfig { queue: Some(27_000), families: Families::V4Only, ..SplitConfig::new("wlan0") };
    let lines = lines(&config.rules().install());
    let mut rules = lines.lines().skip_while(|line| !line.contains("--syn -i wlan0"));
    let first = "iptables -w -t raw -A LASTHOP_SPLIT -p tcp --syn -i wlan0 -m addrtype --dst-type UNICAST \
                 -m mark ! --mark 0x20000000/0x20000000 -j NFQUEUE --queue-num 27000 --queue-bypass";
    assert_eq!(rules.next(), Some(first));
    assert!(rules.next().is_some_and(|line| line.ends_with("-m mark --mark 0x20000000/0x20000000 -j CT --notrack")));
}

#[test]
fn shares_networks_and_words_for_a_shell() {
    assert!([-0.1, 1.1, f64::NAN].into_iter().all(|share| Share::new(share).is_none()));
    let (half, all) = (Share::new(0.5).unwrap(), Share::new(1.0).unwrap());
    assert!(
        half.contains(0xABCD_7FFF) && !half.contains(0xABCD_8000) && all.contains(u32::MAX) && !Share::NONE.contains(0)
    );
    for text in ["10.0.0.0/33", "10.0.0/8", "::/129", "x", "", "10.0.0.0/", "10.0.0.0/-1"] {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
    assert_eq!("10.0.0.2".parse::<Network>().unwrap().to_string(), "10.0.0.2/32");
    assert_eq!(
        Command(vec!["echo".into(), "it's".into(), "!".into(), String::new()]).to_string(),
        r"echo 'it'\''s' ! ''"
    );
}

#[test]
fn a_configuration_that_cannot_work_is_told_by_its_key() {
    let base = config();
    base.validate().unwrap();
    let wrong = [
        ("wireless_interface", SplitConfig { wireless_interface: "sixteen_letters_".into(), ..base.clone() }),
        ("wireless_interface", SplitConfig { wireless_interface: "-j".into(), ..base.clone() }),
        ("wireless_interface", SplitConfig { wireless_interface: "wlan+".into(), ..base.clone() }),
        ("destination_ports", SplitConfig { destination_ports: vec![1; 16], ..base.clone() }),
        ("listen", SplitConfig { listen: ListenPorts { wired: 1, wireless: 1 }, ..base.clone() }),
        ("marks", SplitConfig { marks: Marks { deliver: 3, accepted: 2, opened: 4 }, ..base.clone() }),
        ("table", SplitConfig { table: 254, ..base.clone() }),
        ("max_connections", SplitConfig { max_connections: 0, ..base.clone() }),
        ("transfer_buffer", SplitConfig { transfer_buffer: 5000, ..base.clone() }),
    ];
    for (expected, config) in wrong {
        match config.validate() {
            Err(SplitError::Config { key, .. }) => assert_eq!(key, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}
