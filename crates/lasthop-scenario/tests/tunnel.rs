//! Tests of the tunnel's configuration, and of messages about invalid ones.

use lasthop_proto::link::hybrid::{Copies, Multipath, Terms, Tier};
use lasthop_proto::time::Duration;
use lasthop_scenario::tunnel::{Mode, Repair, Routes, Security, Tunnel};

const HEAD: &str = "listen = '0.0.0.0:51900'\nprivate_key_file = '/etc/lasthop/tunnel.key'\n";
const KEY: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

fn peer(more: &str) -> String {
    format!("[[peer]]\nname = 'shore'\npublic_key = '{KEY}'\nallowed = '10.20.0.0/16'\n{more}rate = '10 Mbps'\n")
}

fn message(text: &str) -> String {
    Tunnel::parse("t.toml", text).unwrap_err().to_string()
}

#[test]
fn a_whole_configuration() {
    let more = "endpoint = 'shore.example.net:51900'\nkeepalive = '10 s'\npreshared_key_file = '/etc/lasthop/psk'\n\
                rate = '2 Mbps'\nrepair = 'arq'\nqueue = 50\nab = '10 %'\n\
                [[peer]]\nname = 'van'\npublic_key = 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='\n\
                allowed = ['10.21.0.0/16', '2001:db8::/32', '192.0.2.1']\n";
    let tunnel = Tunnel::parse("t.toml", &format!("{HEAD}{}", peer(more))).unwrap();
    let private_key_file = "/etc/lasthop/tunnel.key".into();
    assert_eq!(tunnel.security, Security::Noise { private_key_file });
    let listen = "0.0.0.0:51900".parse().unwrap();
    assert_eq!(tunnel.mode, Mode::Tun { listen, address: Vec::new(), routes: Routes::Allowed });
    let [shore, van] = &tunnel.peers[..] else { panic!("{tunnel:?}") };
    assert_eq!(shore.public_key.unwrap()[..4], [0xde, 0x9e, 0xdb, 0x7d]);
    assert_eq!(shore.paths[0].endpoint.as_ref().unwrap().to_string(), "shore.example.net:51900");
    assert_eq!((shore.keepalive, van.keepalive), (Some(Duration::from_secs(10)), None));
    assert_eq!(van.allowed[2], "192.0.2.1/32".parse().unwrap());
    assert_eq!((shore.paths[0].rate, shore.repair, shore.queue), (Some(2_000_000), Repair::Arq, Some(50)));
    assert_eq!((shore.ab.get(), van.ab.get()), (0.1, 0.0));
    assert_eq!((van.paths[0].rate, van.repair, van.queue), (Some(10_000_000), Repair::Hybrid, None));
    assert_eq!((tunnel.device.as_str(), tunnel.log.as_str()), ("lasthop0", "info"));
    assert_eq!((tunnel.metrics, tunnel.control_group), (None, None));
}

#[test]
fn without_security_an_interface_is_trusted_and_names_do_for_keys() {
    let head = "listen = '10.9.0.1:51900'\nsecurity = 'none'\nname = 'ship'\n";
    let peer = "[[peer]]\nname = 'shore'\nallowed = '10.20.0.0/16'\nendpoint = '10.9.0.2:51900'\n\
                rate = '10 Mbps'\n";
    let tunnel = Tunnel::parse("t.toml", &format!("{head}trusted_interface = 'wg0'\n{peer}")).unwrap();
    let security = Security::None { trusted_interface: "wg0".to_owned(), name: "ship".to_owned() };
    assert_eq!((tunnel.security, tunnel.peers[0].public_key), (security, None));
    assert_eq!(
        message(&format!("{head}{peer}")),
        "t.toml: trusted_interface: missing; give the name of an interface on which no third party can send, e.g. \"wg0\""
    );
}

/// The first end of a van with two lines, and the other end, which answers on both.
#[test]
fn a_peer_has_paths_with_their_own_interface_and_rate() {
    let head = format!("{HEAD}[[peer]]\nname = 'shore'\npublic_key = '{KEY}'\nallowed = '0.0.0.0/0'\n");
    let lines = "endpoint = '192.0.2.9:51900'\n[[peer.path]]\nname = 'dish'\ninterface = 'eth1'\nrate = 'auto'\n\
                 [[peer.path]]\nname = 'lte'\ninterface = 'wwan0'\nendpoint = '192.0.2.9:443'\nrate = '20 Mbps'\n";
    let tunnel = Tunnel::parse("t.toml", &format!("{head}{lines}")).unwrap();
    let [dish, lte] = &tunnel.peers[0].paths[..] else { panic!("{tunnel:?}") };
    assert_eq!((dish.name.as_deref(), dish.interface.as_deref(), dish.rate), (Some("dish"), Some("eth1"), None));
    assert_eq!(dish.endpoint.as_ref().unwrap().to_string(), "192.0.2.9:51900");
    assert_eq!((lte.interface.as_deref(), lte.rate), (Some("wwan0"), Some(20_000_000)));
    assert_eq!(lte.endpoint.as_ref().unwrap().to_string(), "192.0.2.9:443");
    let answers = "[[peer.path]]\nname = 'dish'\nrate = '50 Mbps'\n[[peer.path]]\nname = 'lte'\nrate = '50 Mbps'\n";
    let tunnel = Tunnel::parse("t.toml", &format!("{head}{answers}")).unwrap();
    assert!(tunnel.peers[0].paths.iter().all(|path| path.endpoint.is_none() && path.interface.is_none()));
    assert_eq!(tunnel.peers[0].multipath, Multipath::Bond);
    let tunnel = Tunnel::parse("t.toml", &format!("{head}multipath = 'redundant'\n{answers}")).unwrap();
    assert_eq!(tunnel.peers[0].multipath, Multipath::Redundant);

    let path = |more: &str| format!("[[peer.path]]\nname = 'a'\nrate = 'auto'\n{more}");
    for (text, expected) in [
        (format!("{head}rate = '1 Mbps'\n{}", path("")), "t.toml:7: peer[1].rate: each [[peer.path]] has its own rate"),
        (format!("{head}{}{}", path(""), path("")), "peer[1].path[2].name: cannot be \"a\""),
        (
            format!("{head}{}", path("interface = 'eth1'\n")),
            "peer[1].path[1].endpoint: missing; give the host and UDP port",
        ),
        (format!("{head}[[peer.path]]\nname = 'a'\n"), "peer[1].path[1].rate: missing"),
        (format!("{head}{}", path("interface = 'a/b'\n")), "peer[1].path[1].interface: cannot be \"a/b\""),
        (format!("{head}{}", path("rat = 1\n")), "peer[1].path[1].rat: unknown key; did you mean \"rate\"?"),
        (
            format!("{head}endpoint = '192.0.2.9:1'\n{}{}", path(""), path("").replace("'a'", "'b'")),
            "peer[1].path[2].name: cannot be \"b\" (another path of this peer has the same interface and endpoint)",
        ),
        (format!("{head}{}", path("").repeat(9)), "a peer has at most 8 paths"),
        (
            format!("{head}rate = '1 Mbps'\nmultipath = 'failover'\n"),
            "peer[1].multipath: requires at least two [[peer.path]]",
        ),
        (format!("{head}multipath = 'bonding'\n{answers}"), "peer[1].multipath: cannot be \"bonding\""),
    ] {
        let found = message(&text);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

#[test]
fn each_path_of_a_bridge_has_an_interface_of_its_own() {
    let head = format!("{BRIDGE}[[peer]]\nname = 'shore'\npublic_key = '{KEY}'\n");
    let path = |name: &str, more: &str| format!("[[peer.path]]\nname = '{name}'\nrate = '10 Mbps'\n{more}");
    let second = path("b", "interface = 'eth2'\n");
    for first in ["", "interface = 'eth1'\n"] {
        let text = format!("{head}multipath = 'failover'\n{}{second}", path("a", first));
        let tunnel = Tunnel::parse("t.toml", &text).unwrap();
        let paths = &tunnel.peers[0].paths;
        let interfaces: Vec<_> = paths.iter().map(|path| path.interface.as_deref()).collect();
        assert_eq!(interfaces, [None, Some("eth2")]);
        assert_eq!(paths[1].interface_line, Some(if first.is_empty() { 14 } else { 15 }));
    }
    let own = "mode = 'bridge'\ninterface = 'eth1'\nsecurity = 'none'\ntrusted_interface = 'eth1'\nname = 'ship'\n[[peer]]\n\
               name = 'shore'\n";
    for (text, expected) in [
        (
            format!("{head}{}{second}", path("a", "interface = 'eth3'\n")),
            "t.toml:10: peer[1].path[1].interface: cannot be \"eth3\" (frames that bypass the tunnel leave by it); give \
             \"eth1\", the interface towards the hop, for the first path",
        ),
        (
            format!("{head}{}{}", path("a", ""), path("b", "")),
            "t.toml:10: peer[1].path[2].interface: missing; give the name of the interface by which the path leaves, e.g. \
             \"wwan0\"",
        ),
        (
            format!("{head}{}{second}{}", path("a", ""), path("c", "interface = 'eth2'\n")),
            "t.toml:17: peer[1].path[3].interface: cannot be \"eth2\" (another path of this peer has it); give an interface \
             of this path alone",
        ),
        (
            format!("{head}{}{}", path("a", ""), path("b", "interface = 'eth1'\n")),
            "t.toml:13: peer[1].path[2].interface: cannot be \"eth1\" (another path of this peer has it); give an interface \
             of this path alone",
        ),
        (
            format!("{head}{}{second}endpoint = '192.0.2.1:9'\n", path("a", "")),
            "t.toml:14: peer[1].path[2].endpoint: not allowed with mode = \"bridge\", which has no addresses",
        ),
        (
            format!("device = 'eth2'\n{head}{}{second}", path("a", "")),
            "t.toml:1: device: cannot be \"eth2\" (it is the interface of a path); give another name",
        ),
        (
            format!("{own}{}{second}", path("a", "")),
            "t.toml:8: peer[1].path: several paths of a bridge require security = \"noise\": without, this end accepts \
             frames from the trusted interface only",
        ),
    ] {
        assert_eq!(message(&text), expected);
    }
}

#[test]
fn paths_have_tiers_and_caps() {
    let head = format!(
        "listen = '0.0.0.0:51900'\nprivate_key_file = '/k'\n[[peer]]\nname = 'hub'\npublic_key = '{KEY}'\nallowed = '10.0.0.0/8'\n"
    );
    let path = |name: &str, more: &str| format!("[[peer.path]]\nname = '{name}'\nrate = 'auto'\n{more}\n");
    let text = format!(
        "{head}{}{}{}",
        path("dish", ""),
        path("lte", "tier = 'secondary'\ncap = '20 GB/month'\ncap_day = 15"),
        path("sat", "tier = 'backup'\ncopies = 'light'\ncap = '1.5GiB/month'")
    );
    let peer = Tunnel::parse("t.toml", &text).unwrap().peers.remove(0);
    let terms: Vec<_> = peer.paths.iter().map(|path| path.terms).collect();
    let sat = Terms { tier: Tier::Backup, copies: Copies::Light };
    assert_eq!(terms, [Terms::default(), Terms::of(Tier::Secondary), sat]);
    let caps: Vec<_> = peer.paths.iter().map(|path| path.cap.map(|cap| (cap.bytes, cap.day))).collect();
    assert_eq!(caps, [None, Some((20_000_000_000, 15)), Some((3 << 29, 1))]);

    let two = |more: &str| format!("{head}{}{}", path("a", more), path("b", "tier = 'off'"));
    for (text, expected) in [
        (
            format!("{head}{}", path("a", "tier = 'backup'")),
            "peer[1].path[1].tier: requires at least two [[peer.path]]",
        ),
        (format!("{head}{}", path("a", "cap = '1 GB/month'")), "path[1].cap: requires at least two [[peer.path]]"),
        (two("tier = 'off'"), "peer[1].path[2].tier: cannot be \"off\" (all paths of this peer are off)"),
        (two("tier = 'spare'"), "peer[1].path[1].tier: cannot be \"spare\"; give one of \"primary\""),
        (two("cap = '20 GB'"), "path[1].cap: cannot be \"20 GB\" (`/month` is missing at its end)"),
        (two("cap = '20 GBit/month'"), "path[1].cap: cannot be \"20 GBit/month\""),
        (two("cap = '0 GB/month'"), "give a data volume of at least 1 MB per month"),
        (two("cap_day = 3"), "path[1].cap_day: requires `cap`"),
        (two("cap = '1 GB/month'\ncap_day = 31"), "path[1].cap_day: cannot be 31; give a whole number from 1 to 28"),
        (
            format!("{head}{}{}", path("a", ""), path("b", "tier = 'off'\ncopies = 'all'")),
            "path[2].copies: not allowed with tier = \"off\"",
        ),
    ] {
        let found = message(&text);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

const BRIDGE: &str = "mode = 'bridge'\ninterface = 'eth1'\nprivate_key_file = '/etc/lasthop/tunnel.key'\n";

#[test]
fn a_bridge_needs_an_interface_and_no_address() {
    let peer = format!("[[peer]]\nname = 'shore'\npublic_key = '{KEY}'\nrate = '10 Mbps'\n");
    let tunnel = Tunnel::parse("t.toml", &format!("{BRIDGE}{peer}")).unwrap();
    assert_eq!(tunnel.mode, Mode::Bridge { interface: "eth1".to_owned() });
    let [shore] = &tunnel.peers[..] else { panic!("{tunnel:?}") };
    assert_eq!(
        (shore.silence, &shore.allowed, &shore.paths[0].endpoint),
        (Duration::from_millis(30), &Vec::new(), &None)
    );
    let own = "mode = 'bridge'\ninterface = 'eth1'\nsecurity = 'none'\nname = 'ship'\n";
    let plain = "[[peer]]\nname = 'shore'\nrate = '10 Mbps'\nsilence = '100 ms'\n";
    let tunnel = Tunnel::parse("t.toml", &format!("{own}trusted_interface = 'eth1'\n{plain}")).unwrap();
    assert_eq!(tunnel.peers[0].silence, Duration::from_millis(100));

    let unfit = "not allowed with mode = \"bridge\", which has no addresses";
    for (text, expected) in [
        (format!("listen = '0.0.0.0:1'\n{BRIDGE}{peer}"), format!("t.toml:1: listen: {unfit}")),
        (format!("address = '10.0.0.1/24'\n{BRIDGE}{peer}"), format!("t.toml:1: address: {unfit}")),
        (format!("routes = 'off'\n{BRIDGE}{peer}"), format!("t.toml:1: routes: {unfit}")),
        (format!("{BRIDGE}{peer}endpoint = '192.0.2.1:9'\n"), format!("t.toml:8: peer[1].endpoint: {unfit}")),
        (format!("{BRIDGE}{peer}allowed = '10.0.0.0/8'\n"), format!("t.toml:8: peer[1].allowed: {unfit}")),
        (format!("{BRIDGE}{peer}keepalive = '9 s'\n"), format!("t.toml:8: peer[1].keepalive: {unfit}")),
        (
            format!("{BRIDGE}{peer}silence = '5 ms'\n"),
            "t.toml:8: peer[1].silence: cannot be \"5 ms\"; give 20 ms to 1 s, e.g. \"30 ms\"".to_owned(),
        ),
        (
            format!("mode = 'bridge'\n{peer}"),
            "t.toml: interface: missing; give the name of the interface towards the hop, e.g. \"eth1\"".to_owned(),
        ),
        (
            format!("{own}trusted_interface = 'eth0'\n{plain}"),
            "t.toml:5: trusted_interface: cannot be \"eth0\" (the other end is reachable only through it); give \"eth1\", \
             the interface towards the hop"
                .to_owned(),
        ),
        (
            format!("device = 'eth1'\n{BRIDGE}{peer}"),
            "t.toml:1: device: cannot be \"eth1\" (it is the interface towards the hop); give another name"
                .to_owned(),
        ),
        (
            format!("interface = 'eth1'\n{HEAD}"),
            "t.toml:1: interface: requires mode = \"bridge\"".to_owned(),
        ),
        (
            format!("{HEAD}{}silence = '40 ms'\n", self::peer("")),
            "t.toml:8: peer[1].silence: requires mode = \"bridge\"".to_owned(),
        ),
    ] {
        assert_eq!(message(&text), expected);
    }
    let two = format!("{BRIDGE}{peer}{}", peer.replace("shore", "van"));
    assert!(message(&two).ends_with("a bridge supports only one peer"), "{}", message(&two));
}

#[test]
fn what_is_wrong_is_named() {
    let shore = peer("");
    let cases = [
        (
            HEAD.to_owned(),
            "t.toml: peer: missing; give at least one peer, e.g. [[peer]] with name, public_key and allowed",
        ),
        (format!("{HEAD}lisen = 1\n{shore}"), "t.toml:3: lisen: unknown key; did you mean \"listen\"?"),
        (
            format!("listen = '0.0.0.0'\n{shore}"),
            "t.toml:1: listen: cannot be \"0.0.0.0\"; give a local address with a port, e.g. \"0.0.0.0:51900\" or \
             \"[::]:51900\"",
        ),
        (
            format!("{HEAD}security = 'nois'\n{shore}"),
            "t.toml:3: security: cannot be \"nois\" (did you mean \"noise\"?); give \"noise\" or \"none\"",
        ),
        (
            format!("listen = '[::]:1'\nprivate_key_file = '{KEY}'\n{shore}"),
            "t.toml:2: private_key_file: is the key itself; store it in a file that only root can read, and give its path",
        ),
        (format!("{HEAD}name = 'ship'\n{shore}"), "t.toml:3: name: requires security = \"none\""),
        (
            format!("{HEAD}{}", peer("ab = '60 %'\n")),
            "t.toml:7: peer[1].ab: cannot be \"60 %\" (most flows must be repaired); give 0 to 50 %, e.g. \"10 %\"",
        ),
        (
            format!("{HEAD}{}", peer("public = 1\n")),
            "t.toml:7: peer[1].public: unknown key; known here: name, public_key, preshared_key_file, endpoint, allowed, \
             keepalive, silence, rate, repair, medium, queue, memory, ab, multipath, path",
        ),
        (
            format!("{HEAD}{}", shore.replace("K08=", "K0=")),
            "t.toml:5: peer[1].public_key: cannot be \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK0=\" (it has 43 \
             characters); give a public key of 44 characters, as `lasthop tunnel keygen` prints it",
        ),
        (
            format!("{HEAD}{}", shore.replace("10.20.0.0", "10.20.0.1")),
            "t.toml:6: peer[1].allowed: cannot be \"10.20.0.1/16\" (\"10.20.0.1/16\" has host bits set); give an \
             address or network, e.g. \"10.20.0.0/16\" or \"2001:db8::/32\", or a list of such",
        ),
        (
            format!("{HEAD}{shore}{}", shore.replace("shore", "van").replace("3p7", "4p7")),
            "t.toml:11: peer[2].allowed: cannot be \"10.20.0.0/16\" (10.20.0.0/16 is already assigned to peer \"shore\"); give \
             addresses not assigned to another peer",
        ),
        (
            format!("{HEAD}{shore}{shore}"),
            "t.toml:9: peer[2].name: cannot be \"shore\" (another peer has it); give a unique name",
        ),
        (
            format!("{HEAD}{}", peer("keepalive = '100 ms'\n")),
            "t.toml:7: peer[1].keepalive: cannot be \"100 ms\"; give 1 s to 1 h, e.g. \"10 s\", or \"off\"",
        ),
        (
            format!("{HEAD}{}", peer("endpoint = '10.0.0.300:1'\n")),
            "t.toml:7: peer[1].endpoint: cannot be \"10.0.0.300:1\" (\"10.0.0.300\" is neither a host name nor an \
             address); give a host with a port, e.g. \"shore.example.net:51900\", \"192.0.2.7:51900\" or \
             \"[2001:db8::7]:51900\"",
        ),
        (
            format!("{HEAD}{}", peer("endpoint = '[2001:db8::1]:9'\n")),
            "t.toml:7: peer[1].endpoint: cannot be \"[2001:db8::1]:9\" (listen is one of IPv4); give an address of IPv4",
        ),
        (
            format!("{HEAD}{}", shore.replace("rate = '10 Mbps'", "rate = '7 kbps'")),
            "t.toml:7: peer[1].rate: cannot be \"7 kbps\"; give 8 kbps to 100 Gbps, e.g. \"10 Mbps\", or \"auto\"",
        ),
        (
            format!("{HEAD}address = '10.9.0.1'\n{shore}"),
            "t.toml:3: address: cannot be \"10.9.0.1\" (the prefix is missing); give an address with its network's prefix, \
             e.g. \"10.20.0.1/24\" or \"fd00:20::1/64\", or a list of such",
        ),
        (
            format!("{HEAD}address = '10.9.0.0/24'\n{shore}"),
            "t.toml:3: address: cannot be \"10.9.0.0/24\" (it is the address of the network); give an address with its \
             network's prefix, e.g. \"10.20.0.1/24\" or \"fd00:20::1/64\", or a list of such",
        ),
        (
            format!("{HEAD}device = 'a/b'\n{shore}"),
            "t.toml:3: device: cannot be \"a/b\"; give a name of 1 to 15 letters, digits, `-`, `_` and `.` for the \
             device, e.g. \"lasthop0\"",
        ),
        (
            format!("{HEAD}metrics = '0.0.0.0:9470'\n{shore}"),
            "t.toml:3: metrics: cannot be \"0.0.0.0:9470\" (other machines could reach it); give a loopback address with a port, e.g. \
             \"127.0.0.1:9470\" or \"[::1]:9470\", or \"off\"",
        ),
        (
            format!("{HEAD}control = 'tunnel.sock'\n{shore}"),
            "t.toml:3: control: cannot be \"tunnel.sock\" (the path is relative); give an absolute path of at most 107 bytes, e.g. \
             \"/run/lasthop/tunnel.sock\"",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(message(&text), wanted);
    }
}

#[test]
fn the_shipped_example_is_right() {
    let text = include_str!("../../../packaging/tunnel.toml");
    let tunnel = Tunnel::parse("tunnel.toml", text).unwrap();
    assert_eq!(tunnel.peers.len(), 1);
}
