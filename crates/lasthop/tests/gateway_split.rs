//! Tests of the selection of connections that a gateway splits, and of those beyond its limits.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::network::{Daemon, Network, Pace, is_skipped};
use lasthop_sys::raw::Sender;
use rustix::net::{AddressFamily, SocketType};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a rule that splits.
fn split(more: &str) -> String {
    format!("[[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\nsplit.wireless.congestion = 'cubic'\n{more}\n")
}

/// Opens connections from one host to a port of another; each carries a byte in each direction.
fn exchange(network: &Network, from: &str, to: &str, address: &str, count: usize) -> Vec<(TcpStream, TcpStream)> {
    exchange_by(network, from, to, [address, address], count)
}

/// Like `exchange`, where the called address is translated to that of the listener.
fn exchange_by(
    network: &Network,
    from: &str,
    to: &str,
    [called, address]: [&str; 2],
    count: usize,
) -> Vec<(TcpStream, TcpStream)> {
    let [called, address] = [called, address].map(|address| address.parse::<SocketAddr>().unwrap());
    let listener = network.within(to, move || TcpListener::bind(address).unwrap()).join().unwrap();
    let connect = move || TcpStream::connect_timeout(&called, PATIENCE).unwrap();
    let one = |_| {
        let opened = network.within(from, connect).join().unwrap();
        let accepted = accept(&listener);
        for stream in [&opened, &accepted] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        for (mut out, mut into) in [(&opened, &accepted), (&accepted, &opened)] {
            out.write_all(b"x").unwrap();
            into.read_exact(&mut [0]).unwrap();
        }
        (opened, accepted)
    };
    (0..count).map(one).collect()
}

/// Builds a SYN with a sequence number of its own.
fn first_packet(route: lasthop_wire::Route, n: u32) -> Vec<u8> {
    let segment = lasthop_proto::packet::Segment {
        seq: lasthop_proto::seq::Seq(n.wrapping_mul(0x9E37_79B9)),
        flags: lasthop_proto::packet::Flags::SYN,
        window: 65_535,
        ..Default::default()
    };
    lasthop_wire::build(route, &segment, &[]).unwrap()
}

/// Accepts the next connection, which must come soon.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "needs root: make root"]
fn the_connections_that_a_rule_names_are_split_and_no_others() {
    if is_skipped("connections that rules name") {
        return;
    }
    let network = Network::new();
    let cases = [
        ("", [1, 1]),
        ("opened_by = 'wired'", [0, 1]),
        ("opened_by = 'wireless'", [1, 0]),
        ("opened_by = 'wired'\nports = [5301]", [0, 1]),
        ("opened_by = 'either'\nports = ['5300-5310']", [1, 1]),
        ("opened_by = 'either'\nports = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]", [0, 0]),
        ("opened_by = 'wired'\naddresses = ['10.2.0.0/24', 'fd02::/64']", [0, 1]),
        ("opened_by = 'either'\naddresses = ['10.9.0.0/24', 'fd09::/64']", [0, 0]),
    ];
    for (more, expected) in cases {
        let daemon = Daemon::start(&network, &split(more));
        let mut total = 0;
        for (from, to, address, expected) in [
            ("c", "s", "10.1.0.2:5301", expected[0]),
            ("c", "s", "[fd01::2]:5301", expected[0]),
            ("s", "c", "10.2.0.2:5301", expected[1]),
            ("s", "c", "[fd02::2]:5301", expected[1]),
        ] {
            drop(exchange(&network, from, to, address, 1));
            total += expected;
            // The snapshot is half a second old at most.
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(daemon.ask("status").unwrap()["split"]["total"], total, "{more}: {from} to {address}");
        }
    }
}

#[test]
#[ignore = "needs root: make root"]
fn connections_that_a_port_forward_leads_on_are_split() {
    if is_skipped("connections behind a port forward") {
        return;
    }
    let network = Network::new();
    let forward = |program: &str, called: &str, port: u16, to: &str| {
        let rule = format!("-p tcp -d {called} --dport {port} -j DNAT --to-destination {to}");
        network.must("g", &format!("{program} -w -t nat -A PREROUTING {rule}"));
    };
    forward("iptables", "10.1.0.1", 5380, "10.2.0.2:5381");
    forward("ip6tables", "fd01::1", 5380, "[fd02::2]:5381");
    forward("iptables", "10.2.0.1", 5382, "10.1.0.2:5383");
    let (inwards, outwards) =
        (["s", "c", "10.1.0.1:5380", "10.2.0.2:5381"], ["c", "s", "10.2.0.1:5382", "10.1.0.2:5383"]);
    let inwards_v6 = ["s", "c", "[fd01::1]:5380", "[fd02::2]:5381"];
    // Service of the gateway itself.
    let own = ["s", "g", "10.1.0.1:5384", "10.1.0.1:5384"];
    let cases = [
        ("", [1, 1, 1]),
        ("split.repair = 'off'", [1, 1, 1]),
        // Addresses as they are known behind the hop.
        ("opened_by = 'wired'\naddresses = ['10.2.0.0/24', 'fd02::/64']\nports = [5381]", [1, 1, 0]),
        ("opened_by = 'wireless'\nports = [5383]", [0, 0, 1]),
        ("opened_by = 'either'\nports = [5380, 5382]", [0, 0, 0]),
        ("addresses = ['10.9.0.0/24', 'fd09::/64']", [0, 0, 0]),
        ("ab = '100 %'", [0, 0, 0]),
    ];
    for (more, expected) in cases {
        let daemon = Daemon::start(&network, &split(more));
        let mut total = 0;
        let all = [(inwards, expected[0]), (inwards_v6, expected[1]), (outwards, expected[2]), (own, 0)];
        for ([from, to, called, address], expected) in all {
            let streams = exchange_by(&network, from, to, [called, address], 2);
            for (opened, accepted) in &streams {
                assert_eq!(opened.peer_addr().unwrap().to_string(), called);
                assert_eq!(accepted.peer_addr().unwrap(), opened.local_addr().unwrap());
            }
            drop(streams);
            total += 2 * expected;
            // The snapshot is half a second old at most.
            std::thread::sleep(Duration::from_millis(700));
            assert_eq!(
                daemon.ask("status").unwrap()["split"]["total"],
                total,
                "{more}: {from} to {called}\n{}",
                daemon.log()
            );
        }
    }
}

/// After a silence on the hop, losses are repaired beneath the relay's TCP, and every byte is compared. With repair
/// off, the kernel repairs all.
#[test]
#[ignore = "needs root: make root"]
fn losses_after_a_silence_are_repaired_beneath_the_relay() {
    if is_skipped("repair beneath a relay") {
        return;
    }
    let network = Network::new();
    for repair in ["on", "off"] {
        let daemon = Daemon::start(&network, &split(&format!("split.repair = '{repair}'")));
        network.lose(0.05);
        let transfer = network.transfer_chunks("10.1.0.2:5341", 1500, Pace::Steady);
        std::thread::sleep(Duration::from_millis(300));
        network.lose(1.0);
        std::thread::sleep(Duration::from_millis(400));
        network.lose(0.05);
        transfer.end();
        // The snapshot is half a second old at most.
        std::thread::sleep(Duration::from_millis(700));
        let status = daemon.ask("status").unwrap();
        assert_eq!(status["split"]["total"], 1, "{status}");
        // Most of the 1,500 chunks of some 17 segments each cross the hop after the silence.
        let repairs = status["split"]["repairs"].as_u64().unwrap();
        assert!(if repair == "on" { repairs > 50 } else { repairs == 0 }, "{repair}: {status}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn each_rule_has_its_own_settings_and_the_first_counts() {
    if is_skipped("several rules that split") {
        return;
    }
    let network = Network::new();
    let rules = "[[rule]]\nname = 'watched'\nmode = 'observe'\ninterface = 'wl0'\nports = [5311]\n\
                 [[rule]]\nname = 'a'\nmode = 'split'\ninterface = 'wl0'\nports = ['5311-5312']\nsplit.wireless.congestion = 'reno'\n\
                 [[rule]]\nname = 'b'\nmode = 'split'\ninterface = 'wl0'\nsplit.wireless = { congestion = 'cubic', buffer = '200 KB' }\n";
    let _daemon = Daemon::start(&network, rules);
    for (port, expected) in [(5311, ""), (5312, "reno"), (5313, "cubic")] {
        let open = exchange(&network, "c", "s", &format!("10.1.0.2:{port}"), 1);
        // The half towards the client, on the gateway.
        let said = network.sh("g", &format!("ss -Htinm 'dst 10.2.0.2 and sport = :{port}'"));
        assert_eq!(said.is_empty(), expected.is_empty(), "{port}: {said}");
        assert!(expected.is_empty() || said.split_whitespace().any(|word| word == expected), "{port}: {said}");
        assert_eq!(said.contains("rb409600,"), expected == "cubic", "{port}: {said}");
        drop(open);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn clients_with_privileged_ports_are_split() {
    if is_skipped("ports below 1024") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, &split(""));
    let listener = network.within("s", || TcpListener::bind("10.1.0.2:5321").unwrap()).join().unwrap();
    let opened = network
        .within("c", || {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::net::bind(&socket, &"10.2.0.2:601".parse::<SocketAddr>().unwrap()).unwrap();
            rustix::net::connect(&socket, &"10.1.0.2:5321".parse::<SocketAddr>().unwrap()).unwrap();
            TcpStream::from(socket)
        })
        .join()
        .unwrap();
    let (accepted, peer) = listener.accept().unwrap();
    assert_eq!(peer.port(), 601);
    (&opened).write_all(b"x").unwrap();
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    (&accepted).read_exact(&mut [0]).unwrap();
    daemon.await_status(|status| status["split"]["total"] == 1);
}

#[test]
#[ignore = "needs root: make root"]
fn under_a_flood_of_openings_new_connections_go_on() {
    if is_skipped("flood of openings at a relay") {
        return;
    }
    for (flood, client, address) in [("10.2", "10.2.0.2", "10.1.0.2:5331"), ("[fd02::", "fd02::2", "[fd01::2]:5331")] {
        let network = Network::new();
        let daemon = Daemon::start(&network, &split(""));
        let (to, six): (SocketAddr, bool) = (address.parse().unwrap(), client.contains(':'));
        let send = move || {
            let sender = Sender::new(0).unwrap();
            for n in 0..3000_u32 {
                let from = if six {
                    format!("{flood}{:x}]:7000", n + 16)
                } else {
                    format!("{flood}.{}.{}:7000", 1 + n / 200, 1 + n % 200)
                };
                let route = lasthop_wire::Route { source: from.parse().unwrap(), destination: to };
                sender.send(&first_packet(route, n)).unwrap();
                if n % 50 == 0 {
                    // Not faster than virtual links can carry.
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        };
        // Unresolved neighbours queue few packets.
        drop(exchange(&network, "c", "s", address, 1));
        network.within("c", send).join().unwrap();
        let during = exchange(&network, "c", "s", address, 20);
        let status = daemon.await_status(|status| status["split"]["passed"].as_u64() >= Some(1000));
        assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
        drop(during);
        drop(exchange(&network, "c", "s", address, 20));
    }
}

/// A connection older than the gateway is forwarded. Packets of an off-path attacker, which lacks its sequence numbers,
/// do not divert it to the relay, which would reset the unknown connection.
#[test]
#[ignore = "needs root: make root"]
fn a_strangers_first_packet_ends_no_connection_that_passes() {
    if is_skipped("forged first packets of connections that pass") {
        return;
    }
    let network = Network::new();
    let pairs: Vec<_> = ["10.1.0.2:5351", "[fd01::2]:5351"]
        .into_iter()
        .flat_map(|address| exchange(&network, "c", "s", address, 1))
        .collect();
    let daemon = Daemon::start(&network, &split(""));
    let carry = |round: u8| {
        for (opened, accepted) in &pairs {
            for (mut out, mut into) in [(opened, accepted), (accepted, opened)] {
                out.write_all(&[round]).unwrap();
                let mut read = [0];
                into.read_exact(&mut read).unwrap_or_else(|error| panic!("round {round}: {error}"));
                assert_eq!(read, [round]);
            }
        }
    };
    // Connection tracking picks it up again after the gateway's rules have enabled tracking.
    carry(0);
    for (name, back) in [("c", false), ("s", true)] {
        let ends = pairs.iter().map(|(opened, _)| [opened.local_addr().unwrap(), opened.peer_addr().unwrap()]);
        let routes: Vec<_> = ends
            .map(|[client, server]| lasthop_wire::Route { source: client, destination: server })
            .map(|route| if back { route.reversed() } else { route })
            .collect();
        let send = move || {
            let sender = Sender::new(0).unwrap();
            for (route, n) in routes.iter().flat_map(|&route| (0..50_u32).map(move |n| (route, n))) {
                sender.send(&first_packet(route, n)).unwrap();
            }
        };
        network.within(name, send).join().unwrap();
        for round in 1..=3 {
            carry(round);
        }
    }
    let status = daemon.await_status(|status| status["split"]["passed"].as_u64() >= Some(4));
    assert_eq!(status["split"]["total"], 0, "{status:#}");
    // New connections are still split.
    drop(exchange(&network, "c", "s", "10.1.0.2:5352", 1));
    daemon.await_status(|status| status["split"]["total"] == 1);
}

#[test]
#[ignore = "needs root: make root"]
fn one_client_has_its_share_of_the_relay() {
    if is_skipped("a client's share of a relay") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, &format!("limits = {{ flows = 40, share = '25 %' }}\n{}", split("")));
    let open = exchange(&network, "c", "s", "10.1.0.2:5341", 30);
    let status = daemon.await_status(|status| status["split"]["passed"].as_u64() >= Some(20));
    assert_eq!(status["split"]["open"], 10, "{status:#}");
    // Another server has capacity left.
    drop(exchange(&network, "c", "s", "[fd01::2]:5341", 1));
    daemon.await_status(|status| status["split"]["total"] == 11);
    drop(open);
}
