//! Routes to one host, as listed by the kernel.
#![cfg(target_os = "linux")]

mod skip;

use std::process::Command;
use std::time::Duration;

use lasthop_sys::links::Watch;
use lasthop_sys::namespace::enter_new;
use lasthop_sys::netlink::Socket;
use lasthop_sys::routes::{HostRoute, Interface, Route, RouteTcp, add_address, change, direct, list};
use skip::without_root;

/// Returns the output of `ip`, which runs in the thread's namespace.
fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Sets an existing interface up with an address, and returns its index.
fn interface(socket: &mut Socket, name: &str, address: &str) -> Interface {
    let shown = ip(&format!("-o link show {name}"));
    let interface = Interface(shown.split(':').next().unwrap().parse().unwrap());
    add_address(socket, (address.parse().unwrap(), 24), interface).unwrap();
    ip(&format!("link set {name} up"));
    interface
}

#[test]
#[ignore = "needs root: make root"]
fn packets_to_a_host_go_the_way_that_was_named_last() {
    if without_root("routes to a host") {
        return;
    }
    // A separate thread, so that no other test is in its namespace.
    let tested = std::thread::spawn(|| {
        enter_new().unwrap();
        ip("link add first type veth peer name second");
        let mut socket = Socket::open(None).unwrap();
        let first = interface(&mut socket, "first", "10.1.0.1");
        let second = interface(&mut socket, "second", "10.2.0.1");
        let to = "10.9.0.7".parse().unwrap();
        let plain = HostRoute { to, via: None, interface: first, source: None, tcp: None };

        direct(&mut socket, &plain).unwrap();
        assert!(ip("route get 10.9.0.7").starts_with("10.9.0.7 dev first src 10.1.0.1"));

        // The neighbor is on no network of the interface.
        let tcp = RouteTcp { rto_min: Duration::from_micros(299_001), initial_window: 4 };
        let through = HostRoute {
            via: Some("10.8.0.1".parse().unwrap()),
            interface: second,
            source: Some("10.1.0.1".parse().unwrap()),
            tcp: Some(tcp),
            ..plain
        };
        direct(&mut socket, &through).unwrap();
        assert!(ip("route get 10.9.0.7").starts_with("10.9.0.7 via 10.8.0.1 dev second src 10.1.0.1"));
        let shown = ip("route show 10.9.0.7");
        // The kernel stores whole milliseconds, rounded up so that the minimum timeout is not reduced.
        assert!(
            shown.contains("onlink") && shown.contains("rto_min lock 300ms") && shown.contains("initcwnd 4"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 1, "one route takes the place of the other: {shown}");

        direct(&mut socket, &plain).unwrap();
        assert!(ip("route get 10.9.0.7").starts_with("10.9.0.7 dev first src 10.1.0.1"));
        // Routes to other hosts are unchanged.
        assert!(ip("route get 10.2.0.9").starts_with("10.2.0.9 dev second src 10.2.0.1"));

        let nowhere = HostRoute { interface: Interface(9999), ..plain };
        assert!(direct(&mut socket, &nowhere).is_err());
    });
    tested.join().unwrap();
}

#[test]
#[ignore = "needs root: make root"]
fn an_interface_that_was_down_has_lost_its_routes_and_is_noticed() {
    if without_root("routes by an interface that goes down") {
        return;
    }
    let tested = std::thread::spawn(|| {
        enter_new().unwrap();
        ip("link add first type veth peer name second");
        ip("link set second up");
        let mut socket = Socket::open(None).unwrap();
        socket.choose_strictly();
        let [first, second] = [("first", "10.1.0.1"), ("second", "10.2.0.1")]
            .map(|(name, address)| interface(&mut socket, name, address));
        let mut watch = Watch::open(first.0).unwrap();
        let networks = [("10.9.0.0", 16), ("fd09::", 64), ("::", 0)].map(|(ip, length)| (ip.parse().unwrap(), length));
        for network in networks {
            change(&mut socket, Route::Add, network, first).unwrap();
        }
        ip("route add 10.8.0.0/16 dev second metric 7");
        ip("route add 10.7.0.0/16 dev first table 9");
        let mut shown = |by| {
            let both = networks.map(|(like, _)| list(&mut socket, like, by).unwrap());
            both[..2].concat().into_iter().map(|entry| (entry.network, entry.excludes)).collect::<Vec<_>>()
        };
        for network in networks {
            assert!(shown(Some(first)).contains(&(network, true)), "{network:?}");
            assert!(!shown(Some(second)).contains(&(network, true)), "{network:?}");
        }
        // A route with another metric does not conflict, and other tables are ignored.
        assert!(shown(None).contains(&(("10.8.0.0".parse().unwrap(), 16), false)));
        assert!(!shown(None).iter().any(|((network, _), _)| network.to_string() == "10.7.0.0"));
        assert!(!watch.is_up_again().unwrap());

        ip("link set first down");
        ip("link set second down");
        assert!(!watch.is_up_again().unwrap());
        ip("link set second up");
        assert!(!watch.is_up_again().unwrap());
        ip("link set first up");
        assert!(watch.is_up_again().unwrap());
        assert!(!watch.is_up_again().unwrap());
        ip("link set first mtu 1400");
        assert!(!watch.is_up_again().unwrap());
        for network in networks {
            assert!(!shown(Some(first)).contains(&(network, true)), "{network:?}");
        }
    });
    tested.join().unwrap();
}
