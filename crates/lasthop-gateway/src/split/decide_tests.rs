use super::*;
use crate::settings;

/// Packets that arrive at one interface and leave by another.
struct Way(&'static str, &'static str);

impl Crossing for Way {
    fn comes_from(&self, interface: &str) -> bool {
        self.0 == interface
    }
    fn leads_to(&self, interface: &str) -> bool {
        self.1 == interface
    }
}

const DOWN: Way = Way("eth0", "wl0");
const UP: Way = Way("wl0", "eth0");

fn choose(rules: &str, way: &Way, client: &str, server: &str, number: u32) -> Option<u32> {
    let gateway = Gateway::parse("g", rules).unwrap();
    let config = settings::split(&gateway).unwrap();
    let ends = Ends { client: client.parse().unwrap(), server: server.parse().unwrap() };
    Chooser::new(&gateway).choose(&config, &Opening { ends, number }, &Way(way.0, way.1))
}

#[test]
fn direction_addresses_and_ports_tell_which_rule_a_connection_belongs_to() {
    let rule = |more: &str| format!("[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\n{more}\n");
    let (near, far) = ("10.2.0.2:80", "10.1.0.2:80");
    let cases = [
        ("", &UP, near, far, Some(1)),
        ("", &DOWN, far, near, Some(0)),
        ("", &Way("eth0", "eth1"), far, "10.3.0.1:80", None),
        ("opened_by = 'wired'", &UP, near, far, None),
        ("opened_by = 'wired'", &DOWN, far, near, Some(0)),
        ("opened_by = 'wireless'", &UP, near, far, Some(1)),
        ("opened_by = 'wireless'", &DOWN, far, near, None),
        ("ports = [80]", &DOWN, far, near, None),
        ("ports = [80]\nopened_by = 'wired'", &DOWN, far, near, Some(0)),
        ("ports = [80]\nopened_by = 'either'", &DOWN, far, near, Some(0)),
        ("ports = [80]\nopened_by = 'either'", &UP, near, far, Some(1)),
        ("ports = ['81-90', 443]\nopened_by = 'either'", &UP, near, far, None),
        ("ports = ['70-90', 443]", &UP, near, far, Some(1)),
        ("addresses = ['10.2.0.0/24']", &UP, near, far, Some(1)),
        ("addresses = ['10.2.1.0/24']", &UP, near, far, None),
        ("addresses = ['10.2.1.0/24']", &DOWN, far, near, None),
    ];
    for (more, way, client, server, expected) in cases {
        assert_eq!(choose(&rule(more), way, client, server, 0), expected, "{more} {client} {server}");
    }
}

#[test]
fn the_first_rule_counts_and_each_has_listeners_of_its_own() {
    let rules = "[[rule]]\nname = 'web'\nmode = 'snoop'\ninterface = 'wl0'\nports = [80]\n\
                 [[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\nports = ['1-100']\n\
                 [[rule]]\nname = 'b'\nmode = 'split'\ninterface = 'wl0'\nab = '50 %'\n";
    let client = "10.2.0.2:4000";
    assert_eq!(choose(rules, &UP, client, "10.1.0.2:80", 0), None);
    assert_eq!(choose(rules, &UP, client, "10.1.0.2:81", 0), Some(1));
    assert_eq!(choose(rules, &UP, client, "10.1.0.2:101", 0x8000), Some(3));
    assert_eq!(choose(rules, &UP, client, "10.1.0.2:101", 0x7fff), None);
    assert_eq!(choose(rules, &DOWN, client, "10.1.0.2:81", 0x8000), Some(2));
}

#[test]
fn first_packets_are_read_from_whole_headers_only() {
    for (client, server) in [("10.2.0.2:4000", "10.1.0.2:80"), ("[fd02::2]:4000", "[fd01::2]:80")] {
        let ends = Ends { client: client.parse().unwrap(), server: server.parse().unwrap() };
        let route = lasthop_wire::Route { source: ends.client, destination: ends.server };
        let segment = lasthop_proto::packet::Segment { seq: lasthop_proto::seq::Seq(77), ..Default::default() };
        let packet = lasthop_wire::build(route, &segment, &[]).unwrap();
        assert_eq!(Opening::read(&packet), Some(Opening { ends, number: 77 }));
        assert!((0..packet.len()).all(|len| Opening::read(&packet[..len]).is_none()));
    }
}
