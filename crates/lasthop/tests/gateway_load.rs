//! Tests of the gateway under load: many connections, hostile packets, and long runs.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::network::{Bytes, Daemon, Network, Pace, is_skipped, skip};
use rustix::net::{AddressFamily, SendFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n";

const MIB: u64 = 1 << 20;

const CONNECTIONS: usize = 10_000;
/// Bytes in each of the two parts that every connection carries, so that all are active at once.
const PART: usize = 4096;
const PARTS: usize = 2;
/// Variable that makes the test below the server, with its address.
const SERVE: &str = "LASTHOP_SERVE";

/// Contents of all connections, by number.
struct Contents(Vec<u8>);

impl Contents {
    fn new() -> Self {
        let mut bytes = vec![0; CONNECTIONS + PARTS * PART];
        Bytes(7).fill(&mut bytes);
        Self(bytes)
    }

    fn part(&self, connection: usize, part: usize) -> &[u8] {
        &self.0[connection + part * PART..][..PART]
    }
}

/// Raises this process's limit of files to one per connection; returns whether it may.
fn may_open_all() -> bool {
    let need = CONNECTIONS as u64 + 500;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < need) {
        skip(&format!("{CONNECTIONS} connections: this process may open {:?} files", limit.maximum));
        return false;
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    true
}

fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
}

/// Server of the next test rather than a test, in a process of its own since files are limited per process.
#[test]
#[ignore = "part of another test"]
fn serves_ten_thousand_connections() {
    let Ok(address) = std::env::var(SERVE) else { return };
    assert!(may_open_all());
    let listener = TcpListener::bind(address).unwrap();
    let (mut streams, contents) = (Vec::new(), Contents::new());
    while streams.len() < CONNECTIONS {
        let (mut stream, _) = listener.accept().unwrap();
        patient(&stream);
        let mut number = [0; 4];
        stream.read_exact(&mut number).unwrap();
        streams.push((stream, u32::from_be_bytes(number) as usize));
    }
    // Start signal.
    std::io::stdin().read_exact(&mut [0]).unwrap();
    for part in 0..PARTS {
        for (stream, number) in &mut streams {
            stream.write_all(contents.part(*number, part)).unwrap();
        }
    }
    // Wait until the client, which reads one connection after the other, has closed all.
    for (stream, _) in &mut streams {
        stream.set_read_timeout(Some(Duration::from_secs(180))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

/// Opens connections `from..to`, and sends each one's number on it.
fn open(network: &Network, address: SocketAddr, from: usize, to: usize) -> JoinHandle<Vec<TcpStream>> {
    let connect = move |number: usize| {
        let end = Instant::now() + Duration::from_secs(20);
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                // The server is still starting.
                Err(error) => assert!(Instant::now() < end, "connection {number}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        patient(&stream);
        stream.write_all(&(number as u32).to_be_bytes()).unwrap();
        stream
    };
    network.within("c", move || (from..to).map(connect).collect())
}

#[test]
#[ignore = "needs root: make root"]
fn ten_thousand_connections_at_once_all_get_what_is_theirs() {
    if is_skipped("ten thousand connections") || !may_open_all() {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SNOOP);
    let address: SocketAddr = "10.1.0.2:5201".parse().unwrap();
    let mut server = network.command("s", std::env::current_exe().unwrap());
    server
        .args(["--exact", "gateway_load::serves_ten_thousand_connections", "--ignored"])
        .env(SERVE, address.to_string());
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let halves = [(0, CONNECTIONS / 2), (CONNECTIONS / 2, CONNECTIONS)];
    let opening = halves.map(|(from, to)| open(&network, address, from, to));
    let mut streams: Vec<TcpStream> = opening.into_iter().flat_map(|half| half.join().unwrap()).collect();
    let opened = start.elapsed();
    network.lose(0.01);
    server.stdin.take().unwrap().write_all(&[1]).unwrap();
    let contents = Contents::new();
    let mut received = vec![0; PART];
    for part in 0..PARTS {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.read_exact(&mut received).unwrap_or_else(|error| {
                let port = format!("ss -tinom '( sport = {0} or dport = {0} )'", stream.local_addr().unwrap().port());
                let ends = ["s", "c"].map(|name| network.sh(name, &port)).concat();
                let status = daemon.ask("status").unwrap_or_default();
                panic!("part {part} of connection {number}: {error}\n{ends}{status:#}\n{}", daemon.log())
            });
            assert!(received[..] == *contents.part(number, part), "connection {number}: bytes differ");
        }
    }
    let carried = start.elapsed() - opened;
    // If more packets arrive at once than the queue takes, acknowledgments pass unseen, and the data that they
    // acknowledge stays cached: on a busy machine for several hundred connections.
    let status = daemon.await_status(|status| status["rules"][0]["cached_bytes"].as_u64() < Some(8 * MIB));
    let (now, most) = (daemon.worker_memory("VmRSS"), daemon.worker_memory("VmHWM"));
    eprintln!(
        "{CONNECTIONS} connections: opened in {} ms, {} MiB carried in {} ms; worker's memory {} MiB, at most {} MiB",
        opened.as_millis(),
        (CONNECTIONS * PART * PARTS) as u64 / MIB,
        carried.as_millis(),
        now / MIB,
        most / MIB
    );
    // Some attempts failed before the server listened.
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}\n{}", daemon.log());
    assert!(status["flows"].as_u64() >= Some(CONNECTIONS as u64), "{status:#}");
    assert_eq!(status["rules"][0]["flows_evicted"], 0, "{status:#}");
    assert!(status["rules"][0]["wireless_losses"].as_u64() > Some(0), "{status:#}");
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    // The cache, as much again in flight, and the state of the connections.
    assert!(most < 200 * MIB, "{} MiB", most / MIB);
    drop(streams);
    assert!(server.wait().unwrap().success());
}

/// Floods both directions with invalid packets; returns their number.
fn flood(network: &Network, from: &'static str, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    network.within(from, move || {
        let [v4, v6] = [AddressFamily::INET, AddressFamily::INET6]
            .map(|family| rustix::net::socket(family, SocketType::RAW, Some(rustix::net::ipproto::RAW)).unwrap());
        let mut random = Bytes(0x9e37_79b9 + from.len() as u64 + u64::from(from == "c"));
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..20 {
                let packet = hostile(&mut random, from);
                let to = lasthop_wire::Ip::new_checked(&packet).expect("a whole IP header").destination();
                let socket = if to.is_ipv4() { &v4 } else { &v6 };
                let done = rustix::net::sendto(socket, &packet, SendFlags::empty(), &SocketAddr::new(to, 0));
                sent += u64::from(done.is_ok());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        sent
    })
}

/// Returns a hostile packet, starting at its IP header.
fn hostile(random: &mut Bytes, from: &str) -> Vec<u8> {
    let mut dice = [0; 64];
    random.fill(&mut dice);
    let [kind, version, a, b, len, ..] = dice;
    // From made-up hosts to the client, or from made-up hosts beside the client to the server.
    let wired = (Ipv4Addr::new(10, 9, a, b), Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, a.into(), b.into()));
    let (source, destination) = match from {
        "s" => (wired, (Ipv4Addr::new(10, 2, 0, 2), Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 2))),
        _ => {
            let made_up = (Ipv4Addr::new(10, 2, 0, b), Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, b.into()));
            (made_up, (Ipv4Addr::new(10, 1, 0, 2), Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2)))
        }
    };
    // Ports, sequence numbers, five words of header, flags, window.
    let mut tcp = [&dice[8..20], &[0x50, 2], &dice[20..26]].concat();
    match kind % 8 {
        // Connection requests.
        0..=3 => {}
        // Options whose lengths exceed the header, or are zero.
        4 => {
            tcp[12..14].copy_from_slice(&[0xf0, dice[26]]);
            tcp.extend_from_slice(&dice[24..64]);
        }
        // Headers longer than the packet.
        5 => tcp[12..14].copy_from_slice(&[0xa0 | dice[26], dice[27]]),
        // Truncated packets.
        6 => tcp.truncate(usize::from(len % 20)),
        // Random bytes.
        _ => {
            tcp = vec![0; usize::from(len) * 4];
            random.fill(&mut tcp);
        }
    }
    let mut packet = match version % 4 {
        0 => {
            let mut header = vec![0x60, 0, 0, 0, (tcp.len() >> 8) as u8, tcp.len() as u8, 6, 64];
            header.extend(source.1.octets());
            header.extend(destination.1.octets());
            header
        }
        _ => {
            // The kernel fills in the rest.
            let len = (20 + tcp.len() as u16).to_be_bytes();
            let mut header = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 6, 0, 0];
            header.extend(source.0.octets());
            header.extend(destination.0.octets());
            header
        }
    };
    packet.extend(tcp);
    // Most packets have correct checksums; the gateway must ignore the others.
    if version < 224
        && let Some(view) = lasthop_wire::parse(&packet)
    {
        lasthop_wire::seal(&mut packet, &view);
    }
    packet
}

#[test]
#[ignore = "needs root: make root"]
fn floods_and_garbage_disturb_no_honest_transfer() {
    if is_skipped("floods and garbage") {
        return;
    }
    let network = Network::new();
    network.lose(0.01);
    // Answers to made-up hosts pass as well.
    network.must("g", "ip route add 10.9.0.0/16 via 10.1.0.2; ip route add fd09::/64 via fd01::2");
    network.must("g", "for f in all wl0 wired; do echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter; done");
    let everything = "[limits]\nflows = 4096\n[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\n";
    let daemon = Daemon::start(&network, everything);
    let stop = Arc::new(AtomicBool::new(false));
    let floods = ["s", "c"].map(|from| flood(&network, from, Arc::clone(&stop)));
    let transfers = [network.transfer("10.1.0.2:5202", 3), network.transfer("[fd01::2]:5202", 3)];
    for transfer in transfers {
        assert!(transfer.is_over(), "stuck\n{}{}", network.sockets(), daemon.log());
        let (gap, _) = transfer.end();
        eprintln!("under a flood: longest receive gap {} ms", gap.as_millis());
        assert!(gap < Duration::from_secs(5), "{gap:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = floods.map(|flood| flood.join().unwrap()).iter().sum();
    let status = daemon.await_status(|status| status["rules"][0]["cached_bytes"] == 0);
    let most = daemon.worker_memory("VmHWM");
    eprintln!(
        "{sent} hostile packets: {} connections of at most 4096, {} pushed out, {} unread, {} damaged; worker's memory at most {} MiB",
        status["flows"],
        status["rules"][0]["flows_evicted"],
        status["unread"],
        status["damaged"],
        most / MIB
    );
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    assert!(status["flows"].as_u64() <= Some(4096) && status["unread"].as_u64() > Some(1000), "{status:#}");
    assert!(status["rules"][0]["flows_evicted"].as_u64() > Some(1000), "{status:#}");
    assert!(status["damaged"].as_u64() > Some(1000), "{status:#}");
    assert!(most < 200 * MIB, "{} MiB", most / MIB);
}

/// Runs a transfer that its receiver aborts.
fn broken_off(network: &Network, address: SocketAddr) {
    let listener = network.within("s", move || TcpListener::bind(address).unwrap()).join().unwrap();
    let client = network.within("c", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        patient(&stream);
        // Unread data turns the close into a reset.
        stream.read_exact(&mut [0; 50_000]).unwrap();
    });
    let (mut stream, _) = listener.accept().unwrap();
    patient(&stream);
    let chunk = vec![5; 100_000];
    let failed = (0..1000).find_map(|_| stream.write_all(&chunk).err());
    assert!(failed.is_some_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    client.join().unwrap();
}

/// Variable with the duration of the next test in seconds; a few by default.
const SOAK: &str = "LASTHOP_SOAK_SECONDS";

#[test]
#[ignore = "needs root: make root"]
fn flows_that_come_and_go_for_long_leave_nothing_behind() {
    if is_skipped("soak") {
        return;
    }
    let seconds = std::env::var(SOAK).map_or(6, |text| text.parse::<u64>().expect("a number of seconds"));
    let network = Arc::new(Network::new());
    network.lose(0.02);
    let daemon = Daemon::start(&network, &format!("[limits]\nidle = '1 s'\n{SNOOP}"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let ports = Arc::new(AtomicU16::new(0));
    let (flows, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let user = |number: u64| {
        let (network, ports) = (Arc::clone(&network), Arc::clone(&ports));
        let (flows, bytes) = (Arc::clone(&flows), Arc::clone(&bytes));
        std::thread::spawn(move || {
            let mut random = Bytes(number + 1);
            while Instant::now() < end {
                let port = 10_000 + ports.fetch_add(1, Ordering::Relaxed) % 20_000;
                let mut dice = [0; 2];
                random.fill(&mut dice);
                flows.fetch_add(1, Ordering::Relaxed);
                if dice[0] % 8 == 0 {
                    broken_off(&network, ([10, 1, 0, 2], port).into());
                    continue;
                }
                // Most flows are small, a few have up to 25 MB.
                let chunks = if dice[0] % 8 == 1 { usize::from(dice[1]) * 4 } else { usize::from(dice[1]) / 8 } + 1;
                let transfer = network.transfer_chunks(&format!("10.1.0.2:{port}"), chunks, Pace::Full);
                if !transfer.is_over() {
                    panic!("a flow of {chunks} chunks to port {port} is stuck\n{}", network.sockets());
                }
                transfer.end();
                bytes.fetch_add(chunks as u64 * 25_000, Ordering::Relaxed);
            }
        })
    };
    let users = [0, 1, 2].map(user);
    let mut memory = Vec::new();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(500));
        memory.push(daemon.worker_memory("VmRSS"));
    }
    for user in users {
        user.join().unwrap_or_else(|_| panic!("{:#}\n{}", daemon.ask("status").unwrap_or_default(), daemon.log()));
    }
    // Nothing is cached, and no connection is tracked.
    let status = daemon.await_status(|status| status["cached_bytes"] == 0 && status["flows"] == 0);
    let early = memory[..memory.len().div_ceil(3)].iter().max().unwrap();
    let late = memory.iter().max().unwrap();
    eprintln!(
        "{seconds} s: {} flows, {} MB, {} losses on the hop; worker's memory {} MiB, in the first third {} MiB",
        flows.load(Ordering::Relaxed),
        bytes.load(Ordering::Relaxed) / 1_000_000,
        status["rules"][0]["wireless_losses"],
        late / MIB,
        early / MIB
    );
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    assert!(*late < early + 32 * MIB, "memory grows: {memory:?}");
}
