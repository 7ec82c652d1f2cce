//! Split connections through network namespaces: client -- gateway -- server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::split_lab::{Family, Host, Lab, Relay, WIRELESS, is_taken, lab, once_free, skip};
use lasthop_gateway::configuration::PortRange;
use lasthop_gateway::split::{SplitConfig, SplitError, SplitProxy, SplitRule, TcpSide, Transfer};
use socket2::{Domain, SockRef, Socket, Type};

const PORT: u16 = 5001;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn rule() -> SplitRule {
    SplitRule {
        addresses: vec!["10.77.1.0/24".parse().unwrap(), "fd77:1::/64".parse().unwrap()],
        ..SplitRule::new(WIRELESS)
    }
}

fn config() -> SplitConfig {
    SplitConfig { max_connections: 64, ..SplitConfig::new(vec![rule()]) }
}

/// Returns [`config`] with the given TCP parameters of both sides.
fn with_sides(wired: TcpSide, wireless: TcpSide) -> SplitConfig {
    SplitConfig { rules: vec![SplitRule { wired, wireless, ..rule() }], ..config() }
}

/// Returns pseudorandom bytes, different for each seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn listen(lab: &Lab, host: Host, family: Family) -> (TcpListener, SocketAddr) {
    let address = lab.address(host, family, PORT);
    let listener = lab
        .on(host, move || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
            socket.set_reuse_address(true).unwrap();
            once_free(|| socket.bind(&address.into()), |error| error.kind() == ErrorKind::AddrInUse);
            socket.listen(2048).unwrap();
            TcpListener::from(socket)
        })
        .join()
        .unwrap();
    (listener, address)
}

fn connect(lab: &Lab, host: Host, to: SocketAddr) -> TcpStream {
    let stream =
        lab.on(host, move || TcpStream::connect_timeout(&to, Duration::from_secs(10))).join().unwrap().unwrap();
    patient(&stream);
    stream
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(PATIENCE).unwrap();
    stream.set_write_timeout(PATIENCE).unwrap();
}

/// Opens a connection and returns both ends, the opener's first.
fn pair(lab: &Lab, opener: Host, family: Family) -> (TcpStream, TcpStream) {
    let other = if opener == Host::Client { Host::Server } else { Host::Client };
    let (listener, address) = listen(lab, other, family);
    let opened = connect(lab, opener, address);
    let (accepted, peer) = listener.accept().unwrap();
    patient(&accepted);
    assert_eq!(peer, opened.local_addr().unwrap(), "the server sees the client's address");
    assert_eq!(peer.ip(), lab.address(opener, family, 0).ip());
    assert_eq!(opened.peer_addr().unwrap(), accepted.local_addr().unwrap(), "the client sees the server's address");
    (opened, accepted)
}

/// Sends bytes in both directions at once, and checks that each stream arrives complete.
fn exchange(a: TcpStream, b: TcpStream, length: usize) {
    let ends = [(a, 1, 2), (b, 2, 1)].map(|(stream, mine, theirs)| {
        let mut writer = stream.try_clone().unwrap();
        let write = thread::spawn(move || {
            writer.write_all(&noise(mine, length)).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let read = thread::spawn(move || {
            let mut received = Vec::new();
            (&stream).read_to_end(&mut received).unwrap();
            assert!(
                received == noise(theirs, length),
                "{} bytes, of {length}, arrived otherwise than sent",
                received.len()
            );
        });
        [write, read]
    });
    for thread in ends.into_iter().flatten() {
        thread.join().unwrap();
    }
}

/// Returns whether the connection was reset, rather than closed or idle.
fn is_reset(stream: &TcpStream) -> bool {
    let mut byte = [0; 4096];
    loop {
        match (&*stream).read(&mut byte) {
            Ok(0) => return false,
            Ok(_) => {}
            // A signal, such as the end of another test's child, interrupts a read with a timeout.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

fn settled(relay: &Relay) -> lasthop_gateway::split::SplitSnapshot {
    relay.wait_for("all connections over", |now| now.open == 0)
}

#[test]
#[ignore = "needs root: make root"]
fn bytes_arrive_intact_both_ways_at_once_under_both_ends_own_addresses() {
    let Some(lab) = lab("bytes both ways") else { return };
    const LENGTH: usize = 8 << 20;
    for transfer in [Transfer::Splice, Transfer::Copy] {
        let config = SplitConfig { transfer, ..config() };
        let relay = lab.start(config.clone());
        for family in [Family::V4, Family::V6] {
            for opener in [Host::Client, Host::Server] {
                let (a, b) = pair(&lab, opener, family);
                exchange(a, b, LENGTH);
            }
        }
        let counters = settled(&relay);
        assert_eq!((counters.total, counters.refused, counters.aborted), (4, 0, 0));
        assert_eq!((counters.wired.bytes, counters.wireless.bytes), (4 * LENGTH as u64, 4 * LENGTH as u64));
        assert!(counters.wired.mean_rtt.is_some() && counters.wireless.mean_rtt.is_some());
        lab.remove(&config);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn one_end_may_close_and_still_be_answered() {
    let Some(lab) = lab("half-close") else { return };
    let relay = lab.start(config());
    for opener in [Host::Client, Host::Server] {
        let (mut a, mut b) = pair(&lab, opener, Family::V4);
        a.write_all(b"question").unwrap();
        a.shutdown(Shutdown::Write).unwrap();
        let mut question = Vec::new();
        b.read_to_end(&mut question).unwrap();
        assert_eq!(question, b"question");
        // Well after the end of the other direction.
        thread::sleep(Duration::from_millis(300));
        assert_eq!(relay.snapshot().open, 1);
        let answer = noise(7, 1 << 20);
        b.write_all(&answer).unwrap();
        drop(b);
        let mut received = Vec::new();
        a.read_to_end(&mut received).unwrap();
        assert!(received == answer);
        drop(a);
        assert_eq!(settled(&relay).aborted, 0);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_reset_and_the_relays_end_reach_the_ends_as_resets() {
    let Some(lab) = lab("resets") else { return };
    let mut relay = lab.start(config());
    for (already, first) in [true, false].into_iter().enumerate() {
        let (a, b) = pair(&lab, Host::Client, Family::V4);
        // The connection is not idle: data is in flight in both directions.
        (&a).write_all(b"up").unwrap();
        (&b).write_all(b"down").unwrap();
        let (victim, survivor) = if first { (a, b) } else { (b, a) };
        reset(victim);
        assert!(is_reset(&survivor), "first end: {first}");
        let counters = relay.wait_for("aborted", |now| now.open == 0);
        assert_eq!(counters.aborted, already as u64 + 1);
    }
    let (a, b) = pair(&lab, Host::Client, Family::V6);
    relay.stop();
    // A FIN would look like the end of the data.
    assert!(is_reset(&a) && is_reset(&b));
}

#[test]
#[ignore = "needs root: make root"]
fn a_reset_that_is_lost_is_repeated() {
    let Some(lab) = lab("lost resets") else { return };
    let _relay = lab.start(config());
    let lose = |action: &str| {
        for (host, iptables) in
            [Host::Client, Host::Server].into_iter().flat_map(|host| [(host, "iptables"), (host, "ip6tables")])
        {
            lab.run(host, &format!("{iptables} -w {action} INPUT -p tcp --tcp-flags RST RST -j DROP"));
        }
    };
    for (family, under_way) in [(Family::V4, 0), (Family::V6, 0), (Family::V4, 100_000), (Family::V6, 100_000)] {
        for first in [true, false] {
            let (a, b) = pair(&lab, Host::Client, family);
            let (victim, survivor) = if first { (a, b) } else { (b, a) };
            (&victim).write_all(&noise(1, under_way)).unwrap();
            // Data in flight must arrive before the reset, which would overtake it.
            thread::sleep(Duration::from_millis(100));
            lose("-I");
            reset(victim);
            thread::sleep(Duration::from_millis(400));
            lose("-D");
            // The survivor only waits, and sends nothing that could be answered.
            assert!(is_reset(&survivor), "{family:?}, {under_way} bytes, first end: {first}");
        }
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_reset_that_never_came_to_the_gateway_is_found_out() {
    let Some(lab) = lab("resets lost before the gateway") else { return };
    let _relay = lab.start(config());
    for family in [Family::V4, Family::V6] {
        for first in [Host::Client, Host::Server] {
            let (a, b) = pair(&lab, Host::Client, family);
            let (victim, survivor) = if first == Host::Client { (a, b) } else { (b, a) };
            // All data is acknowledged before, so that no packet is left that could cause another reset.
            (&survivor).write_all(b"question").unwrap();
            thread::sleep(Duration::from_millis(300));
            let lose = |action: &str| {
                for iptables in ["iptables", "ip6tables"] {
                    lab.run(first, &format!("{iptables} -w {action} OUTPUT -p tcp --tcp-flags RST RST -j DROP"));
                }
            };
            lose("-I");
            reset(victim);
            thread::sleep(Duration::from_millis(100));
            lose("-D");
            assert!(is_reset(&survivor), "{family:?}, first: {first:?}");
        }
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_reader_who_stalls_stalls_the_sender() {
    let Some(lab) = lab("back-pressure") else { return };
    const BUFFER: usize = 64 << 10;
    let side = TcpSide { buffer: Some(BUFFER), ..TcpSide::default() };
    for transfer in [Transfer::Splice, Transfer::Copy] {
        let sides = with_sides(side.clone(), side.clone());
        let config = SplitConfig { transfer_buffer: 64 << 10, transfer, ..sides };
        let relay = lab.start(config.clone());
        let (mut a, mut b) = pair(&lab, Host::Client, Family::V4);
        SockRef::from(&a).set_send_buffer_size(BUFFER).unwrap();
        SockRef::from(&b).set_recv_buffer_size(BUFFER).unwrap();
        a.set_nonblocking(true).unwrap();
        let stream = noise(3, 64 << 20);
        let (mut sent, mut last) = (0, Instant::now());
        while last.elapsed() < Duration::from_millis(700) {
            match a.write(&stream[sent..]) {
                Ok(bytes) => (sent, last) = (sent + bytes, Instant::now()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
            assert!(sent < stream.len(), "never stalled");
        }
        // Four buffers of twice the requested size, as the kernel counts, and the transfer buffer; the kernel may have
        // accepted the receiver's first window before it was reduced.
        assert!(sent < 16 * BUFFER, "{sent} bytes are under way");
        // A stalled connection must not keep the relay busy.
        let before = relay.snapshot();
        thread::sleep(Duration::from_millis(200));
        assert_eq!(before, relay.snapshot());

        a.shutdown(Shutdown::Write).unwrap();
        let mut received = Vec::new();
        b.read_to_end(&mut received).unwrap();
        assert!(received == stream[..sent]);
        drop((a, b));
        assert_eq!(settled(&relay).aborted, 0);
        lab.remove(&config);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn each_side_has_its_own_congestion_control_and_buffers() {
    let Some(lab) = lab("congestion control") else { return };
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let Some(wireless) = ["bbr", "cubic"].into_iter().find(|name| available.contains(name)) else {
        return skip(&format!("congestion control: the kernel has neither bbr nor cubic, only {available}"));
    };
    let relay = lab.start(with_sides(
        TcpSide { congestion: Some("reno".into()), buffer: Some(300_000), ..TcpSide::default() },
        TcpSide {
            congestion: Some(wireless.into()),
            buffer: Some(200_000),
            rto_min: Some(Duration::from_millis(40)),
            rto_max: Some(Duration::from_secs(2)),
        },
    ));
    for opener in [Host::Client, Host::Server] {
        let (a, b) = pair(&lab, opener, Family::V4);
        relay.wait_for("open", |now| now.open == 1);
        // The connection towards the client is the wireless one, regardless of the opener.
        for (peer, congestion, buffer) in [(Host::Client, wireless, 400_000), (Host::Server, "reno", 600_000)] {
            let peer = lab.address(peer, Family::V4, 0).ip();
            let wireless_host = lab.address(Host::Client, Family::V4, 0).ip();
            let said = lab.run(Host::Gateway, &format!("ss -Htinm dst {peer}"));
            assert!(said.contains(&format!("rb{buffer},")) && said.contains(&format!("tb{buffer},")), "{said}");
            assert!(said.split_whitespace().any(|word| word == congestion), "{congestion} towards {peer}: {said}");
            let rto = said.split_whitespace().find_map(|word| word.strip_prefix("rto:")?.parse::<f64>().ok());
            // The round-trip time is negligible here.
            let expected = if peer == wireless_host && kernel() >= (6, 15) { 40.0..100.0 } else { 200.0..1000.0 };
            assert!(rto.is_some_and(|rto| expected.contains(&rto)), "towards {peer}: {said}");
        }
        drop((a, b));
        settled(&relay);
    }
}

/// Returns the major and minor version of the running kernel.
fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.trim().parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
#[ignore = "needs root: make root"]
fn a_server_out_of_reach_resets_the_client() {
    let Some(lab) = lab("unreachable server") else { return };
    let relay = lab.start(SplitConfig { connect_timeout: Duration::from_secs(1), ..config() });
    lab.run(Host::Server, "iptables -w -A INPUT -p tcp --dport 9999 -j DROP");
    lab.run(Host::Gateway, "ip route add unreachable 10.99.0.0/16");
    let silent = lab.address(Host::Server, Family::V4, 9999);
    let closed = lab.address(Host::Server, Family::V6, 1);
    let nowhere: SocketAddr = "10.99.0.1:80".parse().unwrap();
    for (count, server) in [closed, silent, nowhere].into_iter().enumerate() {
        // Accepted at once; data sent in the meantime is lost.
        let stream = lab.on(Host::Client, move || TcpStream::connect(server)).join().unwrap();
        if let Ok(stream) = stream {
            stream.set_read_timeout(PATIENCE).unwrap();
            // The first call after the reset reports it.
            let written = (&stream).write_all(b"is anybody there?");
            assert!(written.is_err() || is_reset(&stream), "{server}");
        }
        let counters = settled(&relay);
        assert_eq!((counters.refused, counters.aborted), (count as u64 + 1, 0), "{server}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_thousand_connections_at_once() {
    let Some(lab) = lab("a thousand connections") else { return };
    const COUNT: usize = 1000;
    let relay = lab.start(SplitConfig { max_connections: 1500, ..config() });
    let (listener, address) = listen(&lab, Host::Server, Family::V4);
    let server = thread::spawn(move || {
        // All connections are open before the first one is answered.
        let accepted: Vec<TcpStream> = (0..COUNT).map(|_| listener.accept().unwrap().0).collect();
        for mut stream in accepted {
            patient(&stream);
            let mut question = [0; 4];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&question.map(|byte| !byte)).unwrap();
        }
    });
    let open = move || {
        let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| TcpStream::connect(address).unwrap()).collect();
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&(i as u32).to_be_bytes()).unwrap();
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            patient(stream);
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, (i as u32).to_be_bytes().map(|byte| !byte));
        }
    };
    lab.on(Host::Client, open).join().unwrap();
    server.join().unwrap();
    let counters = settled(&relay);
    assert_eq!((counters.total, counters.refused, counters.aborted), (COUNT as u64, 0, 0));
}

#[test]
#[ignore = "needs root: make root"]
fn when_full_new_connections_wait_for_room() {
    let Some(lab) = lab("full") else { return };
    let relay = lab.start(SplitConfig { max_connections: 2, ..config() });
    let (listener, address) = listen(&lab, Host::Server, Family::V4);
    let first: Vec<_> = (0..2).map(|_| (connect(&lab, Host::Client, address), listener.accept().unwrap().0)).collect();
    let mut third = connect(&lab, Host::Client, address);
    third.write_all(b"patience").unwrap();
    relay.wait_for("full", |now| now.full > 0);
    thread::sleep(Duration::from_millis(300));
    assert_eq!((relay.snapshot().open, relay.snapshot().total), (2, 2));
    drop(first);
    let (mut accepted, _) = listener.accept().unwrap();
    patient(&accepted);
    drop(third);
    let mut received = Vec::new();
    accepted.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"patience");
}

#[test]
#[ignore = "needs root: make root"]
fn urgent_data_keep_their_place() {
    let Some(lab) = lab("urgent data") else { return };
    let relay = lab.start(config());
    let (a, mut b) = pair(&lab, Host::Client, Family::V4);
    for piece in 0..5 {
        (&a).write_all(b"plain").unwrap();
        assert_eq!(SockRef::from(&a).send_out_of_band(b"!").unwrap(), 1);
        thread::sleep(Duration::from_millis(if piece < 2 { 50 } else { 0 }));
    }
    drop(a);
    let mut received = Vec::new();
    b.read_to_end(&mut received).unwrap();
    assert_eq!(String::from_utf8_lossy(&received), "plain!".repeat(5));
    drop(b);
    settled(&relay);
}

#[test]
#[ignore = "needs root: make root"]
fn nothing_remains_of_the_rules() {
    let Some(lab) = lab("rules") else { return };
    // Listing a table creates it.
    lab.rules();
    let before = lab.rules();
    let config = config();
    let relay = lab.start(config.clone());
    assert_ne!(before, lab.rules());
    // Installing twice has the same effect as once.
    let once = lab.rules();
    lab.install(&config);
    assert_eq!(once, lab.rules());
    lab.remove(&config);
    assert_eq!(before, lab.rules());
    let (a, b) = pair(&lab, Host::Client, Family::V4);
    exchange(a, b, 1000);
    assert_eq!(relay.snapshot().total, 0, "removed");
}

/// The two programs handle a SYN that finds no listening socket differently: the TPROXY target of iptables drops it
/// (Linux `tproxy_tg4`), and the tproxy statement of nftables passes it to the following rules (`nft_tproxy_eval_v4`).
#[test]
#[ignore = "needs root: make root"]
fn without_the_relay_new_connections_wait_for_removal_or_pass() {
    let Some(lab) = lab("rules without a relay") else { return };
    let config = config();
    let mut relay = lab.start(config.clone());
    relay.stop();
    let (listener, address) = listen(&lab, Host::Server, Family::V4);
    let waiting = lab.on(Host::Client, move || TcpStream::connect_timeout(&address, Duration::from_secs(15)));
    if lab.programs(&config).contains(&"nft") {
        let client = waiting.join().unwrap().unwrap();
        patient(&client);
        let (server, _) = listener.accept().unwrap();
        patient(&server);
        exchange(client, server, 100_000);
        lab.remove(&config);
    } else {
        thread::sleep(Duration::from_millis(500));
        assert!(!waiting.is_finished(), "TPROXY drops a first packet without a listener");
        lab.remove(&config);
        // The client's kernel retransmits the SYN after a second, so that the same connection succeeds.
        waiting.join().unwrap().unwrap();
    }
}

#[test]
#[ignore = "needs root: make root"]
fn ports_and_networks_outside_the_rule_are_left_alone() {
    let Some(lab) = lab("selection") else { return };
    let ports = vec![PortRange { first: PORT + 1, last: PORT + 1 }];
    let relay = lab.start(SplitConfig { rules: vec![SplitRule { ports, ..rule() }], ..config() });
    let (a, b) = pair(&lab, Host::Client, Family::V4);
    exchange(a, b, 1000);
    let gateway: SocketAddr = "10.77.1.1:7412".parse().unwrap();
    let refused = lab.on(Host::Client, move || TcpStream::connect(gateway)).join().unwrap();
    assert!(refused.is_err(), "the relay listens on the loopback address only");
    assert_eq!(relay.snapshot().total, 0);
    // A connection to the listener without the rules must not make the relay connect to itself.
    let itself: SocketAddr = "127.0.0.1:7412".parse().unwrap();
    let _ = lab.on(Host::Gateway, move || TcpStream::connect(itself)).join().unwrap();
    relay.wait_for("accepted", |now| now.total == 1);
    settled(&relay);
    assert_eq!((relay.snapshot().total, relay.snapshot().refused), (1, 1));
}

#[test]
#[ignore = "needs root: make root"]
fn behind_network_address_translation_and_a_strict_firewall() {
    let Some(lab) = lab("address translation") else { return };
    for rule in [
        "-t nat -A POSTROUTING -o wd0 -j MASQUERADE",
        "-P INPUT DROP",
        "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        "-P FORWARD DROP",
        "-A OUTPUT -m conntrack --ctstate INVALID -j DROP",
        "-t mangle -A PREROUTING -m conntrack --ctstate INVALID -j DROP",
    ] {
        lab.run(Host::Gateway, &format!("iptables -w {rule}"));
    }
    let relay = lab.start(config());
    let (listener, address) = listen(&lab, Host::Server, Family::V4);
    for _ in 0..3 {
        let a = connect(&lab, Host::Client, address);
        let (b, peer) = listener.accept().unwrap();
        patient(&b);
        assert_eq!(peer.ip().to_string(), "10.77.2.1", "the gateway's own");
        assert_eq!(a.peer_addr().unwrap(), address);
        exchange(a, b, 2 << 20);
    }
    assert_eq!(settled(&relay).aborted, 0);
}

#[test]
#[ignore = "needs root: make root"]
fn the_relay_learns_of_a_narrower_path() {
    let Some(lab) = lab("path MTU") else { return };
    // A router behind the gateway, on the server's host, with a smaller MTU towards the actual server.
    lab.run(Host::Server, "ip route add blackhole 10.88.0.0/16");
    lab.run(Host::Gateway, "ip route add 10.66.0.0/24 via 10.77.2.2");
    let inner = format!("{}n", lab.namespace(Host::Server));
    let narrow = Narrow::build(&lab, inner);
    let relay = lab.start(config());
    let address: SocketAddr = format!("10.66.0.2:{PORT}").parse().unwrap();
    let listener = narrow.listen(address);
    let a = connect(&lab, Host::Client, address);
    let (b, _) = listener.accept().unwrap();
    patient(&b);
    exchange(a, b, 1 << 20);
    assert_eq!(settled(&relay).total, 1);
}

/// Namespace behind the server's host, over a link with an MTU of 1280.
struct Narrow {
    name: String,
}

impl Narrow {
    fn build(lab: &Lab, name: String) -> Self {
        let narrow = Self { name };
        let at = |command: &str| {
            let status = std::process::Command::new("ip").args(command.split(' ')).status().unwrap();
            assert!(status.success(), "ip {command}");
        };
        let (server, name) = (lab.namespace(Host::Server), &narrow.name);
        at(&format!("netns add {name}"));
        at(&format!("-n {server} link add n0 type veth peer name e0 netns {name}"));
        at(&format!("-n {server} addr add 10.66.0.1/24 dev n0"));
        at(&format!("-n {server} link set n0 mtu 1280 up"));
        at(&format!("-n {name} addr add 10.66.0.2/24 dev e0"));
        // The far host's own MTU stays 1500, so its MSS does not reveal the smaller one.
        at(&format!("-n {name} link set e0 up"));
        at(&format!("-n {name} route add default via 10.66.0.1"));
        lab.run(Host::Server, "sysctl -qw net.ipv4.ip_forward=1");
        narrow
    }

    fn listen(&self, address: SocketAddr) -> TcpListener {
        let path = format!("/run/netns/{}", self.name);
        let bind = move || {
            use std::os::fd::AsFd;
            let namespace = std::fs::File::open(path).unwrap();
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
            TcpListener::bind(address).unwrap()
        };
        thread::spawn(bind).join().unwrap()
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

#[test]
#[ignore = "needs root: make root"]
fn what_cannot_be_is_said_at_the_start() {
    let Some(lab) = lab("errors") else { return };
    let bind =
        |config: SplitConfig| lab.on(Host::Gateway, move || SplitProxy::bind(config).map(|_| ())).join().unwrap();
    let side = TcpSide { congestion: Some("warp".into()), ..TcpSide::default() };
    let error = bind(with_sides(TcpSide::default(), side)).unwrap_err();
    assert!(matches!(error, SplitError::Congestion { .. }), "{error}");
    assert!(error.to_string().contains("`warp` of the wireless side"), "{error}");
    let error = bind(SplitConfig { max_connections: 1 << 20, ..config() });
    if let Err(error) = error {
        assert!(error.to_string().contains("LimitNOFILE"), "{error}");
    }
    let taken = lab.on(Host::Gateway, || TcpListener::bind("127.0.0.1:7411").unwrap()).join().unwrap();
    let error = bind(config()).unwrap_err();
    assert!(error.to_string().contains("127.0.0.1:7411"), "{error}");
    drop(taken);
    once_free(|| bind(config()), is_taken);
}
