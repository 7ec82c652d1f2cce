//! Tests of the gateway on a bridge, on real packets between network namespaces.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::network::{Daemon, Network, is_skipped_without, lasthop};
use lasthop_proto::packet::{Flags, Segment};
use lasthop_proto::seq::Seq;
use lasthop_sys::packet_socket::frame::LinkHeader;
use lasthop_sys::packet_socket::{Arrival, PacketSocket};
use lasthop_wire::Route;
use rustix::process::Signal;
use serde_json::Value;

const SNOOP: &str = "bridge.wired = 'wired'\n[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
const OBSERVE: &str = "bridge.wired = 'wired'\n[[rule]]\nname = 'all'\nmode = 'observe'\ninterface = 'wl0'\n";

/// Drops packets between the client's interface and its TCP.
const LOSSY: &str = "-A INPUT -p tcp -m statistic --mode random --probability 0.02 -j DROP";

fn is_skipped(test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    is_skipped_without(test, "Linux 6.6", version >= (Some(6), Some(6)))
}

/// Returns the server's address; each transfer of a test has its own port.
fn server(port: u16) -> String {
    format!("10.1.0.2:{port}")
}

fn packets(status: &Value) -> u64 {
    let count = |key: &str| status["packets"][key].as_u64().unwrap();
    count("towards_wireless") + count("from_wireless")
}

fn sum(status: &Value, keys: &[&str]) -> u64 {
    keys.iter().map(|key| status["rules"][0][key].as_u64().unwrap()).sum()
}

/// Returns a status that covers everything until now.
fn settled(daemon: &Daemon) -> Value {
    // Snapshots come twice a second.
    std::thread::sleep(Duration::from_millis(1100));
    daemon.await_status(|status| status["packets"].is_object())
}

/// Returns the number of packet sockets on the gateway's machine.
fn packet_sockets(network: &Network) -> usize {
    network.sh("g", "cat /proc/net/packet").lines().count() - 1
}

/// Exchanges a hundred datagrams in both directions, and one that ICMP refuses.
fn datagrams(network: &Network, server: SocketAddr) {
    let echo = network.within("s", move || UdpSocket::bind(server).unwrap()).join().unwrap();
    echo.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let answers = std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        for _ in 0..100 {
            let (len, from) = echo.recv_from(&mut bytes).unwrap();
            echo.send_to(&bytes[..len], from).unwrap();
        }
    });
    let ask = move || {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket.connect(server).unwrap();
        for number in 0..100_u8 {
            socket.send(&[number; 1200]).unwrap();
            let mut bytes = [0; 2000];
            assert_eq!(socket.recv(&mut bytes).unwrap(), 1200);
            assert_eq!(bytes[..1200], [number; 1200]);
        }
        socket.connect((server.ip(), server.port() + 1)).unwrap();
        socket.send(&[0]).unwrap();
        assert_eq!(socket.recv(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionRefused));
    };
    network.within("c", ask).join().unwrap();
    answers.join().unwrap();
}

/// Returns whether a connection from one namespace to an address of another can be opened.
fn connects(network: &Network, from: &str, to: (&str, &str)) -> bool {
    let address: IpAddr = to.1.parse().unwrap();
    let listener = network.within(to.0, move || TcpListener::bind((address, 0)).unwrap()).join().unwrap();
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_millis(800);
    let outcome = network.within(from, move || TcpStream::connect_timeout(&address, patience).is_ok()).join().unwrap();
    drop(listener);
    outcome
}

#[test]
#[ignore = "needs root: make root"]
fn tcp_is_repaired_all_else_stays_with_the_bridge_and_nothing_is_left() {
    if is_skipped("repairs on a bridge") {
        return;
    }
    let network = Network::bridged();
    let sockets = packet_sockets(&network);
    let mut daemon = Daemon::start(&network, SNOOP);
    assert_eq!(packet_sockets(&network), sockets + 2);
    for address in ["10.1.0.2:7000", "[fd01::2]:7000"] {
        // Neighbours must be found anew, by ARP and neighbour discovery.
        network.sh("c", "ip neigh flush dev eth0");
        datagrams(&network, address.parse().unwrap());
    }
    let status = settled(&daemon);
    assert_eq!(packets(&status), 0, "{status:#}");

    network.sh("c", &format!("iptables {LOSSY}; ip6tables {LOSSY}"));
    assert!(network.sh("c", "iptables -S INPUT; ip6tables -S INPUT").matches("statistic").count() == 2);
    // On a busy machine the worker may have been replaced, and its counters with it.
    let enough = |status: &Value| {
        let repairs = sum(status, &["repairs_hole", "repairs_duplicate", "repairs_timer"]);
        repairs > 10 && sum(status, &["wireless_losses"]) > 10 && sum(status, &["flows_seen"]) > 1
    };
    let status = (0..4).find_map(|round| {
        network.transfer(&server(5001 + round), 1).end();
        network.transfer(&format!("[fd01::2]:{}", 5001 + round), 1).end();
        Some(settled(&daemon)).filter(enough)
    });
    let status = status.unwrap_or_else(|| panic!("no repairs\n{}", daemon.log()));
    assert_eq!(status["packets"]["injection_failures"], 0, "{status:#}");
    let repairs = sum(&status, &["repairs_hole", "repairs_duplicate", "repairs_timer"]);
    let resent = sum(&status, &["source_retransmissions"]);
    eprintln!("2 % of the packets lost: {repairs} segments repaired, {resent} resent by the sender");

    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    assert_eq!(packet_sockets(&network), sockets);
    assert_eq!(network.rules(), "");
    assert!(!daemon.control().exists());
    network.sh("c", "iptables -F INPUT");
    network.transfer(&server(5010), 1).end();
}

/// Offloads are on: super-segments are recorded with the size of their segments.
#[test]
#[ignore = "needs root: make root"]
fn what_was_recorded_on_a_bridge_is_decided_again() {
    if is_skipped("recordings on a bridge") {
        return;
    }
    let network = Network::bridged();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bridge.pcapng");
    let mut daemon = Daemon::start_with(&network, SNOOP, &["--record", file.to_str().unwrap()]);
    network.sh("c", &format!("iptables {LOSSY}"));
    network.transfer(&server(5001), 1).end();
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success(), "{}", daemon.log());
    let output = Command::new(lasthop()).args(["gateway", "replay", "--json"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let replay: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replay["differences"], 0, "{replay}");
    assert!(replay["packets"].as_u64() > Some(100) && replay["sent"].as_u64() > Some(10), "{replay}");
    let sized = std::fs::read(&file).unwrap().windows(12).any(|bytes| bytes == b"segments of ");
    assert!(sized, "no super-segment came");
}

/// Checks that a transfer survives when `harm` happens in mid-transfer.
fn survives(what: &str, harm: impl FnOnce(&mut Daemon)) {
    let network = Network::bridged();
    let mut daemon = Daemon::start(&network, SNOOP);
    let transfer = network.transfer(&server(5003), 3);
    std::thread::sleep(Duration::from_millis(1200));
    harm(&mut daemon);
    if !transfer.is_over() {
        panic!("{what}: stuck\n{}\n{}", network.sockets(), daemon.log());
    }
    let (gap, _) = transfer.end();
    eprintln!("{what}: longest receive gap {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "{what}: {gap:?}\n{}", daemon.log());
}

#[test]
#[ignore = "needs root: make root"]
fn a_killed_or_stopped_worker_is_replaced_and_flows_go_on() {
    if is_skipped("killed and stopped worker on a bridge") {
        return;
    }
    for (what, signal) in [("killed", Signal::KILL), ("stopped", Signal::STOP)] {
        survives(&format!("worker {what}"), |daemon| {
            daemon.signal_worker(signal);
            daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
        });
    }
}

#[test]
#[ignore = "needs root: make root"]
fn flows_go_on_when_worker_and_supervisor_hang_or_die() {
    if is_skipped("hanging gateway on a bridge") {
        return;
    }
    // The stopped supervisor cannot kill the worker: the programs in the kernel miss its heartbeat.
    survives("all stopped", |daemon| {
        daemon.signal_worker(Signal::STOP);
        daemon.signal(Signal::STOP);
    });
    survives("all killed", |daemon| {
        daemon.signal(Signal::KILL);
        daemon.wait();
    });
}

#[test]
#[ignore = "needs root: make root"]
fn what_does_not_cross_the_hop_stays_with_the_bridge() {
    if is_skipped("frames of other hosts on a bridge") {
        return;
    }
    let network = Network::bridged();
    let daemon = Daemon::start(&network, OBSERVE);
    // Connections with the bridge's machine, and with a host at a third port.
    for (from, to) in [("c", ("g", "10.1.0.1")), ("s", ("g", "10.1.0.1")), ("t", ("c", "10.1.0.3"))] {
        assert!(connects(&network, from, to), "{from} {to:?}");
    }
    let status = settled(&daemon);
    assert_eq!(packets(&status), 0, "{status:#}");
    assert!(connects(&network, "c", ("s", "10.1.0.2")));
    let known = packets(&settled(&daemon));
    assert!(known > 0);

    // The client moves to the third host's port: its packets go there, bypassing the gateway.
    let [client, third] = ["c", "t"].map(|name| network.sh(name, "cat /sys/class/net/eth0/address"));
    network.sh("t", "ip link set eth0 down");
    network.sh("c", "ip link set eth0 down");
    network.sh("t", &format!("ip link set eth0 address {client}"));
    network.sh("t", "ip addr flush dev eth0; ip addr add 10.1.0.3/24 dev eth0; ip link set eth0 up");
    network.sh("c", &format!("ip link set eth0 address {third}"));
    assert!(connects(&network, "t", ("s", "10.1.0.2")));
    assert!(connects(&network, "s", ("t", "10.1.0.3")));
    assert!(packets(&settled(&daemon)) <= known);
}

/// Builds a TCP segment in a frame between two namespaces, in VLAN 5 with priority 1.
fn tagged(network: &Network, [from, to]: [&str; 2], seq: u32) -> Vec<u8> {
    let host = |name: &str| if name == "s" { [10, 5, 0, 2] } else { [10, 5, 0, 3] };
    let route = Route { source: (host(from), 80).into(), destination: (host(to), 80).into() };
    let segment = Segment { seq: Seq(seq), flags: Flags::ACK, ..Segment::default() };
    let mac = |name: &str| {
        let text = network.sh(name, "cat /sys/class/net/eth0/address");
        text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>()
    };
    let tag = [0x81, 0, 0x20, 5, 8, 0];
    [mac(to), mac(from), tag.to_vec(), lasthop_wire::build(route, &segment, &[7; 300]).unwrap()].concat()
}

#[test]
#[ignore = "needs root: make root"]
fn a_tagged_frame_keeps_its_tag() {
    if is_skipped("VLAN on a bridge") {
        return;
    }
    let network = Network::bridged();
    let daemon = Daemon::start(&network, OBSERVE);
    let open = || PacketSocket::open("eth0", 1500).unwrap();
    let mut ends = ["s", "c"].map(|name| network.within(name, open).join().unwrap());
    let mut cross = |seq: u32| {
        let (from, to) = if seq % 2 == 1 { (0, 1) } else { (1, 0) };
        let frame = tagged(&network, [["s", "c"][from], ["s", "c"][to]], seq);
        ends[from].send(&frame).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        let mut found = 0;
        while found == 0 {
            assert!(Instant::now() < end, "frame {seq} does not arrive: {}", daemon.log());
            let receive = |arrival: Arrival<'_>| {
                let header = LinkHeader::new(arrival.bytes, arrival.tag).unwrap();
                found += usize::from([header.bytes(), &arrival.bytes[14..]].concat() == frame);
            };
            ends[to].receive(receive).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(found, 1);
    };
    // The bridge forwards frames to receivers that it has not learned, and those that arrive while the worker gets no
    // processor.
    let taken = (0..4).any(|round| {
        (1..=4).for_each(|seq| cross(4 * round + seq));
        let status = settled(&daemon);
        let taken = packets(&status);
        assert!(taken <= 4 * u64::from(round) + 4 && status["packets"]["accepted"] == taken, "{status:#}");
        taken > 0
    });
    assert!(taken, "{}", daemon.log());
}

#[test]
#[ignore = "needs root: make root"]
fn a_port_that_the_bridge_closes_is_closed() {
    if is_skipped("closed port of a bridge") {
        return;
    }
    let network = Network::bridged();
    let daemon = Daemon::start(&network, OBSERVE);
    let address = ("s", "10.1.0.2");
    assert!(connects(&network, "c", address));
    let known = packets(&settled(&daemon));
    assert!(known > 0);
    network.sh("g", "bridge link set dev wl0 state 0");
    std::thread::sleep(Duration::from_millis(200));
    assert!(!connects(&network, "c", address));
    let closed = packets(&settled(&daemon));
    assert!(closed <= known, "{closed} {known}");
    network.sh("g", "bridge link set dev wl0 state 3");
    std::thread::sleep(Duration::from_millis(200));
    assert!(connects(&network, "c", address));
    assert!(packets(&settled(&daemon)) > closed);
}

#[test]
#[ignore = "needs root: make root"]
fn a_check_says_what_a_bridge_lacks() {
    if is_skipped("check of a bridge") {
        return;
    }
    let network = Network::bridged();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, SNOOP).unwrap();
    let run = |arguments: &[&str]| {
        let output = network.command("g", lasthop()).arg("gateway").args(arguments).arg(&file).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.success(), text)
    };
    let (fine, text) = run(&["check"]);
    assert!(fine && text.contains("bridge of wired and wl0: br0 forwards between them"), "{text}");
    assert!(text.contains("ok       BPF programs: accepted by the kernel"), "{text}");
    let (fine, text) = run(&["run", "--dry-run"]);
    assert!(fine && text.contains("intercept TCP between wired and wl0"), "{text}");
    let mut cases = Vec::new();
    if !network.sh("g", "ls /sys/class/net/br0/bridge/vlan_filtering").is_empty() {
        let filter = "ip link set br0 type bridge vlan_filtering 1";
        cases.push((filter, "MISSING  bridge of wired and wl0: bridge br0 filters VLANs"));
    }
    cases.extend([
        (
            "for port in wl0 wired; do bridge link set dev $port isolated on; done",
            "MISSING  bridge of wired and wl0: bridge br0 isolates the two ports",
        ),
        ("ip link set wl0 nomaster", "MISSING  bridge of wired and wl0: interface wl0 is not a bridge port"),
        (
            "ip link add br1 type bridge; ip link set wl0 master br1",
            "MISSING  bridge of wired and wl0: interfaces wired and wl0 are ports of different bridges",
        ),
        ("ip link del wl0", "MISSING  bridge of wired and wl0: interface wl0 does not exist"),
    ]);
    for (command, expected) in cases {
        network.sh("g", command);
        let (fine, text) = run(&["check"]);
        assert!(!fine && text.contains(expected), "{command}: {text}");
        // `run` fails as well, with the same message.
        let (fine, text) = run(&["run"]);
        assert!(!fine && text.contains(expected.rsplit(": ").next().unwrap()), "{command}: {text}");
    }
}
