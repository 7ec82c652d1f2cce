//! Tests of the tunnel on real packets between network namespaces: two ends with a relay between them that loses,
//! delays and translates.
#![cfg(target_os = "linux")]

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::network::{Network, Pace, is_skipped_without, lasthop};
use crate::tunnel_end::{End, configure, keys};
use rustix::process::{Pid, Signal};
use serde_json::Value;

pub fn is_skipped(test: &str) -> bool {
    is_skipped_without(test, "TUN devices", Path::new("/dev/net/tun").exists())
}

/// Returns the inner address of an end.
pub fn inner(end: usize) -> String {
    format!("10.9.0.{}", end + 1)
}

/// Returns the common part of an end's configuration.
pub fn head(end: usize, listen: &str) -> String {
    let key = keys().0.path().join(format!("{end}.key"));
    format!(
        "listen = '{listen}'\nprivate_key_file = '{}'\naddress = ['{}/24', 'fd09::{}/64']\n",
        key.display(),
        inner(end),
        end + 1
    )
}

pub fn peer(end: usize, more: &str) -> String {
    format!(
        "[[peer]]\nname = 'end{end}'\npublic_key = '{}'\nallowed = ['{}', 'fd09::{}']\nrate = '20 Mbps'\n{more}\n",
        keys().1[end],
        inner(end),
        end + 1
    )
}

/// Creates namespaces and waits until their links are up.
pub fn network() -> Network {
    let network = Network::new();
    let end = Instant::now() + Duration::from_secs(10);
    let is_ready = |name| {
        let said = network.sh(name, "ip -o link; ip -o addr");
        !said.contains("NO-CARRIER") && !said.contains("tentative") && said.contains("scope link")
    };
    while !["c", "g", "s"].into_iter().all(is_ready) {
        assert!(Instant::now() < end, "{}", network.sh("c", "ip -o addr"));
        std::thread::sleep(Duration::from_millis(50));
    }
    network
}

/// Carries datagrams between two ends: with a delay of 10 ms in each direction and losses; the second end sees the
/// first at a changing address.
pub struct Relay {
    stop: Arc<AtomicBool>,
    /// Port to which the first end's visible address moves next.
    move_to: Arc<AtomicU16>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// Address at which the first end calls the relay.
const RELAY: &str = "10.2.0.1:51900";

impl Relay {
    /// Starts a relay that loses one of `every` datagrams in each direction at random.
    fn start(network: &Network, second: &str, every: u64) -> Self {
        Self::between(network, [RELAY, "10.1.0.1:40000"], second, every)
    }

    /// Starts a relay with these addresses towards the first and the second end.
    pub fn between(network: &Network, [near, far]: [&str; 2], second: &str, every: u64) -> Self {
        let (stop, move_to, lost) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU16::new(0)), Arc::new(AtomicU64::new(0)));
        let (ends, moves, count) = (Arc::clone(&stop), Arc::clone(&move_to), Arc::clone(&lost));
        let second: SocketAddr = second.parse().unwrap();
        let [near_address, far_address] = [near, far].map(str::to_owned);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || {
            let socket = |address: &str| {
                let socket = UdpSocket::bind(address).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            };
            let near = socket(&near_address);
            let mut far = socket(&far_address);
            ready.send(()).unwrap();
            let mut first: Option<SocketAddr> = None;
            let mut way: VecDeque<(Instant, bool, Vec<u8>)> = VecDeque::new();
            let (mut random, mut buffer) = (88_172_645_463_325_252_u64, vec![0; 2048]);
            while !ends.load(Ordering::Relaxed) {
                if let port @ 1.. = moves.swap(0, Ordering::Relaxed) {
                    // The address changes as well.
                    far = socket(&format!("10.1.0.9:{port}"));
                }
                let mut idle = true;
                for outwards in [true, false] {
                    let from = if outwards { &near } else { &far };
                    while let Ok((length, sender)) = from.recv_from(&mut buffer) {
                        idle = false;
                        if outwards {
                            first = Some(sender);
                        }
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        if random.is_multiple_of(every) {
                            count.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        way.push_back((
                            Instant::now() + Duration::from_millis(10),
                            outwards,
                            buffer[..length].to_vec(),
                        ));
                    }
                }
                while way.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                    let Some((_, outwards, bytes)) = way.pop_front() else { break };
                    let _ = match (outwards, first) {
                        (true, _) => far.send_to(&bytes, second),
                        (false, Some(first)) => near.send_to(&bytes, first),
                        (false, None) => Ok(0),
                    };
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        };
        let thread = Some(network.within("g", work));
        is_ready.recv().unwrap();
        Self { stop, move_to, lost, thread }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the first end in `c`, which calls, and the second in `s`, which answers.
fn ends(network: &Network, every: u64) -> (Relay, End, End) {
    network.must("g", "ip addr add 10.1.0.9/24 dev wired");
    let relay = Relay::start(network, "10.1.0.2:51900", every);
    let second = End::start(network, "s", &(head(1, "0.0.0.0:51900") + &peer(0, "")));
    let first = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, &format!("endpoint = '{RELAY}'\nkeepalive = '1 s'")));
    let first = End::start(network, "c", &first);
    first.await_status(|status| status["peers"][0]["up"] == true);
    (relay, first, second)
}

/// Returns everything that a tunnel could leave in a namespace.
fn traces(network: &Network, namespace: &str) -> String {
    let list = "ls /sys/class/net; ip -o -4 addr; ip -o -6 addr show scope global; ip route; ip -6 route | grep -v fe80; ip rule";
    network.sh(namespace, &format!("{list}; ss -uan"))
}

/// Sends datagrams from one namespace to an address in another, which echoes them; returns the number of answers.
pub fn echoes(network: &Network, (from, to): (&str, &str), address: &str, count: u8) -> usize {
    let socket = |namespace: &str, address: String| {
        let socket = network.within(namespace, move || UdpSocket::bind(address).unwrap()).join().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let (any, address) = match address.contains(':') {
        true => ("[::]:0", format!("[{address}]:0")),
        false => ("0.0.0.0:0", format!("{address}:0")),
    };
    let (near, far) = (socket(from, any.to_owned()), socket(to, address));
    let target = far.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, sender)) = far.recv_from(&mut bytes) {
            far.send_to(&bytes[..length], sender).unwrap();
        }
    });
    let mut came = std::collections::BTreeSet::new();
    for number in 0..count {
        // Sending fails without a route.
        let _ = near.send_to(&[number; 20], target);
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut bytes = [0; 64];
    while came.len() < count.into() && near.recv_from(&mut bytes).is_ok() {
        came.insert(bytes[0]);
    }
    echo.join().unwrap();
    came.len()
}

pub fn server(port: u16) -> String {
    format!("{}:{port}", inner(1))
}

#[test]
#[ignore = "needs root: make root"]
fn lost_datagrams_are_repaired_and_nothing_is_left_afterwards() {
    if is_skipped("tunnel over a lossy hop") {
        return;
    }
    let network = network();
    network.must("g", "ip addr add 10.1.0.9/24 dev wired");
    let before = ["c", "s"].map(|name| traces(&network, name));
    let relay = Relay::start(&network, "10.1.0.2:51900", 20);
    let text = format!("metrics = '127.0.0.1:9470'\n{}{}", head(1, "0.0.0.0:51900"), peer(0, ""));
    let mut second = End::start(&network, "s", &text);
    let text = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, &format!("endpoint = '{RELAY}'")));
    let mut first = End::start(&network, "c", &text);

    // The first echo starts the session, and none is lost.
    for target in [inner(1), "fd09::2".to_owned()] {
        assert_eq!(echoes(&network, ("c", "s"), &target, 40), 40, "{}\n{}", first.log(), second.log());
    }
    let retransmitted = network.retransmissions();
    // 10 MB, every byte compared.
    let (_, seen) = network.transfer_chunks(&server(5001), 400, Pace::Full).end();
    assert_eq!(seen.ip().to_string(), inner(0));
    let retransmitted = network.retransmissions() - retransmitted;
    let lost = relay.lost.load(Ordering::Relaxed);
    // One in 20 of some 7,200 segments was lost, and TCP hardly noticed.
    assert!(
        lost > 300 && retransmitted < lost / 5,
        "{retransmitted} retransmitted by TCP, {lost} lost\n{}",
        second.log()
    );
    network.transfer_chunks("[fd09::2]:5001", 40, Pace::Full).end();

    let status = second.await_status(|status| status["peers"][0]["sent"]["bytes"].as_u64() > Some(10_000_000));
    let peer = &status["peers"][0];
    assert_eq!((&peer["name"], &peer["up"], &peer["mtu"]), (&"end0".into(), &true.into(), &1442.into()), "{status:#}");
    assert!(peer["resent"].as_u64() > Some(200) && peer["refused"] == 0, "{status:#}");
    let metrics = network.get("s", "127.0.0.1:9470", "/metrics");
    assert!(
        metrics.contains("lasthop_tunnel_starts_total{peer=\"end0\"} 1\n") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let mut said = Command::new(lasthop());
    said.args(["tunnel", "status", "--control"]).arg(second.folder.path().join("control.sock"));
    let said = String::from_utf8(said.output().unwrap().stdout).unwrap();
    assert!(said.contains("\nend0: at 10.1.0.1:40000 for ") && said.contains("retransmitted"), "{said}");

    assert!(first.kill(Signal::TERM), "{}", first.log());
    // The other end was notified, or would detect it.
    second.await_status(|status| status["peers"][0]["up"] == false);
    assert!(second.kill(Signal::INT), "{}", second.log());
    assert_eq!(["c", "s"].map(|name| traces(&network, name)), before);
    assert!(!first.folder.path().join("control.sock").exists());
}

#[test]
#[ignore = "needs root: make root"]
fn ends_that_are_killed_come_back_and_connections_go_on() {
    if is_skipped("killed ends of a tunnel") {
        return;
    }
    let network = network();
    let (_relay, mut first, second) = ends(&network, 50);
    let transfer = network.transfer_chunks(&server(5002), 600, Pace::Full);
    std::thread::sleep(Duration::from_millis(1500));
    // The process that handles packets: its supervisor starts another.
    let status = second.await_status(|status| status["worker"]["pid"].is_u64());
    let worker = Pid::from_raw(status["worker"]["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    second.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
    second.await_status(|status| status["peers"][0]["up"] == true);
    // Both processes of the other end: only the socket is left, which `clean` removes.
    let before = traces(&network, "c");
    assert!(!first.kill(Signal::KILL) && before.contains("lasthop0"));
    let end = Instant::now() + Duration::from_secs(5);
    while traces(&network, "c").contains("lasthop0") || traces(&network, "c").contains(":51900") {
        assert!(Instant::now() < end, "{}", traces(&network, "c"));
        std::thread::sleep(Duration::from_millis(10));
    }
    let file = first.folder.path().join("tunnel.toml");
    let cleaned = Command::new(lasthop()).args(["tunnel", "clean"]).arg(&file).output().unwrap();
    assert!(cleaned.status.success() && String::from_utf8(cleaned.stdout).unwrap().starts_with("removed "));
    assert!(!first.folder.path().join("control.sock").exists());
    first.again(&network, "c");
    first.await_status(|status| status["peers"][0]["up"] == true);
    assert!(transfer.is_over(), "{}\n{}\n{}", first.log(), second.log(), network.sockets());
    transfer.end();
}

/// Both directions over a lossy hop, an end whose visible address changes, a replaced worker, and unrepaired flows.
#[test]
#[ignore = "needs root: make root"]
fn what_ends_recorded_is_decided_again_by_the_simulators_node() {
    if is_skipped("recordings of a tunnel") {
        return;
    }
    let network = network();
    network.must("g", "ip addr add 10.1.0.9/24 dev wired");
    let relay = Relay::start(&network, "10.1.0.2:51900", 20);
    let text = head(1, "0.0.0.0:51900") + &peer(0, "ab = '30 %'");
    let mut second = End::recorded(&network, "s", &text);
    let calls = format!("endpoint = '{RELAY}'\nkeepalive = '1 s'\nab = '30 %'");
    let text = (head(0, "0.0.0.0:51900") + &peer(1, &calls)).replace("rate = '20 Mbps'", "rate = 'auto'");
    let mut first = End::recorded(&network, "c", &text);
    first.await_status(|status| status["peers"][0]["up"] == true);
    for port in 5011..5015 {
        network.transfer_chunks(&server(port), 40, Pace::Full).end();
    }
    relay.move_to.store(41_000, Ordering::Relaxed);
    // The echoes may belong to an unrepaired flow.
    assert!(echoes(&network, ("c", "s"), &inner(1), 40) > 20, "{}\n{}", first.log(), second.log());
    let transfer = network.transfer_chunks(&server(5015), 200, Pace::Full);
    // A SYN that was lost unrepaired would not be answered before the next session, some 15 s later.
    let begun = Instant::now();
    while network.sh("c", "ss -Htn state established '( dport = :5015 )'").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}\n{}", first.log(), second.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(500));
    rustix::process::kill_process(second.worker(), Signal::KILL).unwrap();
    second.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
    assert!(transfer.is_over(), "{}\n{}", first.log(), second.log());
    transfer.end();
    for end in [&mut first, &mut second] {
        assert!(end.kill(Signal::TERM), "{}", end.log());
        let replay = end.replayed();
        let count = |key: &str| replay[key].as_u64().unwrap();
        assert!(count("packets") > 500 && count("frames") > 500 && count("sent") > 500, "{replay}");
        assert!(count("handed_on") > 500 && count("timeouts") > 20, "{replay}");
    }
    // One worker for each end, of which the second was killed once; its unwritten last second is lost.
    let workers = [first.replayed(), second.replayed()].map(|replay| replay["workers"].as_u64().unwrap());
    assert!(workers[0] >= 1 && workers[1] >= 2, "{workers:?}");
    let file = second.folder.path().join("r.pcapng");
    let said = Command::new(lasthop()).args(["tunnel", "replay"]).arg(&file).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(" workers, ") && said.ends_with(" delivered\n"), "{said}");
    // The file is accessible to its owner only.
    let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
#[ignore = "needs root: make root"]
fn an_end_that_moves_is_followed_under_load() {
    if is_skipped("moving end of a tunnel") {
        return;
    }
    let network = network();
    let (relay, first, second) = ends(&network, 50);
    let transfer = network.transfer_chunks(&server(5003), 400, Pace::Full);
    for port in [41_000, 42_000] {
        std::thread::sleep(Duration::from_millis(1000));
        relay.move_to.store(port, Ordering::Relaxed);
        let address = format!("10.1.0.9:{port}");
        second.await_status(|status| status["peers"][0]["address"] == address.as_str());
    }
    assert!(transfer.is_over(), "{}\n{}", first.log(), second.log());
    transfer.end();
    let status = second.await_status(|status| status["peers"][0]["up"] == true);
    // The session continued.
    assert_eq!((&status["peers"][0]["starts"], &status["handshakes"]), (&1.into(), &1.into()), "{status:#}");
}

#[test]
#[ignore = "needs root: make root"]
fn an_end_has_several_peers_over_either_protocol_and_takes_others_without_restart() {
    if is_skipped("tunnel with two peers") {
        return;
    }
    let network = network();
    let hub = head(1, "[::]:51900");
    let second = End::start(&network, "s", &format!("{hub}{}", peer(0, "")));
    let of = |end: usize, endpoint: &str| {
        let listen = if endpoint.starts_with('[') { "[::]:51900" } else { "0.0.0.0:51900" };
        format!("{}{}", head(end, listen), peer(1, &format!("endpoint = '{endpoint}'")))
    };
    let first = End::start(&network, "c", &of(0, "[fd01::2]:51900"));
    let third = End::start(&network, "g", &of(2, "10.1.0.2:51900"));
    let pings = |from: &str, to: usize| echoes(&network, (from, "s"), &inner(to), 3) == 3;
    assert!(pings("c", 1), "{}", first.log());
    // The third peer is unknown yet; a file with an error changes nothing, a correct one adds it.
    assert!(!pings("g", 1));
    configure(second.folder.path(), &format!("{hub}{}{}", peer(0, ""), peer(2, "alowed = 1")));
    let refused = String::from_utf8(second.say("reload").stderr).unwrap();
    assert!(refused.contains("peer[2].alowed: unknown key; did you mean \"allowed\"?"), "{refused}");
    configure(second.folder.path(), &format!("device = 'other'\n{hub}{}", peer(0, "")));
    let refused = String::from_utf8(second.say("reload").stderr).unwrap();
    assert!(refused.contains("`device` cannot change while the tunnel is running; restart it"), "{refused}");
    network.must("s", "ip route add 10.77.0.0/16 dev eth0");
    configure(
        second.folder.path(),
        &format!("{hub}{}{}", peer(0, ""), peer(2, "").replace("['", "['10.77.0.0/16', '")),
    );
    let refused = String::from_utf8(second.say("reload").stderr).unwrap();
    assert!(refused.contains("route to 10.77.0.0/16: already exists through another interface"), "{refused}");
    assert!(!network.sh("s", "ip route").contains("10.9.0.3"));
    configure(second.folder.path(), &format!("{hub}{}{}", peer(0, ""), peer(2, "")));
    let taken = second.say("reload");
    assert!(taken.status.success(), "{taken:?}");
    // The next request is answered according to the new file.
    let status: Value = serde_json::from_slice(&second.say("status").stdout).unwrap();
    assert_eq!((&status["reloads"], &status["peers"][1]["name"]), (&1.into(), &"end2".into()), "{status:#}");
    third.await_status(|_| pings("g", 1));
    assert!(pings("c", 1) && network.sh("s", "ip route").contains("10.9.0.3 dev lasthop0"));
    let status = second.await_status(|status| status["peers"][1]["up"] == true);
    assert_eq!(status["peers"][0]["address"], "[fd02::2]:51900");
    assert_eq!(status["peers"][0]["mtu"], 1422);
    // Peers cannot use each other's addresses: 10.9.0.1 is the first one's.
    network.must("g", "ip addr add 10.9.0.1/32 dev lasthop0");
    let forge = || UdpSocket::bind("10.9.0.1:0").unwrap().send_to(b"forged", "10.9.0.2:9").unwrap();
    network.within("g", forge).join().unwrap();
    second.await_status(|status| status["peers"][1]["refused"].as_u64() > Some(0));
}

#[test]
#[ignore = "needs root: make root"]
fn a_trusted_interface_needs_no_keys_and_others_are_not_heard() {
    if is_skipped("tunnel on a trusted interface") {
        return;
    }
    let network = network();
    let text = |end: usize, more: &str| {
        format!(
            "listen = '0.0.0.0:51900'\nsecurity = 'none'\ntrusted_interface = 'eth0'\nname = 'end{end}'\naddress = '{}/24'\n\
             [[peer]]\nname = 'end{}'\nallowed = '{}'\nrate = '20 Mbps'\n{more}",
            inner(end),
            1 - end,
            inner(1 - end)
        )
    };
    let second = End::start(&network, "s", &text(1, ""));
    let first = End::start(&network, "c", &text(0, "endpoint = '10.1.0.2:51900'\n"));
    network.transfer_chunks(&server(5005), 40, Pace::Full).end();
    assert_eq!(first.await_status(|status| status["peers"][0]["up"] == true)["peers"][0]["name"], "end1");
    // The socket does not listen on another interface of the machine.
    network.must(
        "s",
        "ip link add other type veth peer name other1 && ip addr add 10.3.0.1/24 dev other && ip link set other up",
    );
    let heard = network.sh("s", "ss -uanp sport = :51900");
    assert!(heard.contains("%eth0:51900"), "{heard}");
    drop(second);
}

#[test]
#[ignore = "needs root: make root"]
fn a_start_that_fails_or_is_dry_leaves_all_as_it_was() {
    if is_skipped("failed start of a tunnel") {
        return;
    }
    let network = network();
    network.must("c", "ip link add taken type veth peer name taken1");
    network.must("c", "ip route add 10.77.0.0/16 via 10.2.0.1");
    let before = traces(&network, "c");
    let whole = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, "endpoint = '10.1.0.2:51900'"));
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str, dry: bool| {
        configure(folder.path(), text);
        let mut command = network.command("c", lasthop());
        command.args(["tunnel", "run"]).args(dry.then_some("--dry-run")).arg(folder.path().join("tunnel.toml"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(traces(&network, "c"), before, "{error}");
        assert!(!folder.path().join("control.sock").exists());
        (output.status.code(), out, error)
    };
    let (status, out, _) = run(&whole, true);
    assert_eq!(status, Some(0));
    assert_eq!(
        out,
        "ip tuntap add dev lasthop0 mode tun\nip link set lasthop0 mtu 1442 up\nip address add 10.9.0.1/24 dev lasthop0\n\
         ip address add fd09::1/64 dev lasthop0\nip route add 10.9.0.2/32 dev lasthop0\nip route add fd09::2/128 dev lasthop0\n\
         # UDP socket 0.0.0.0:51900\n# peer end1: contacted at 10.1.0.2:51900\n"
    );
    let holder = network.within("c", || UdpSocket::bind("0.0.0.0:51901").unwrap()).join().unwrap();
    let before = traces(&network, "c");
    let fails = |text: &str, wanted: &str| {
        configure(folder.path(), text);
        let mut command = network.command("c", lasthop());
        let output = command.args(["tunnel", "run"]).arg(folder.path().join("tunnel.toml")).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let line = error.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(line.contains(wanted), "{wanted}\n{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        assert_eq!(traces(&network, "c"), before, "{error}");
        assert!(!folder.path().join("control.sock").exists());
    };
    fails(&whole.replace(":51900'\npri", ":51901'\npri"), "listen 0.0.0.0:51901: Address already in use");
    fails(&format!("device = 'taken'\n{whole}"), "device taken: an interface with this name already exists");
    fails(
        &whole.replace("['10.9.0.2'", "['10.77.0.0/16'"),
        "route to 10.77.0.0/16: already exists through another interface",
    );
    fails(
        &whole.replace("['10.9.0.2'", "['10.1.0.0/24'"),
        "peer \"end1\": endpoint 10.1.0.2 is in 10.1.0.0/24, an allowed network of \"end1\": its datagrams would be routed into",
    );
    let key = keys().0.path().join("none.key");
    let missing = whole.replace("0.key", "none.key");
    fails(&missing, &format!("tunnel.toml: {}: No such file or directory", key.display()));
    fails(
        &whole.replace("10.1.0.2:51900", "no.such.host.invalid:1"),
        "peer \"end1\": endpoint no.such.host.invalid:1: ",
    );
    drop(holder);
}

#[test]
#[ignore = "needs root: make root"]
fn a_check_and_a_dry_run_say_what_a_start_refuses() {
    if is_skipped("check of a tunnel") {
        return;
    }
    let network = network();
    network.must("c", "ip route add 10.77.0.0/16 via 10.2.0.1");
    let _metrics = network.within("c", || std::net::TcpListener::bind("127.0.0.1:9471").unwrap()).join().unwrap();
    let whole = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, ""));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tunnel.toml");
    let said = |arguments: &[&str]| {
        let output = network.command("c", lasthop()).arg("tunnel").args(arguments).arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), said)
    };
    configure(folder.path(), &whole);
    for arguments in [&["check"][..], &["run", "--dry-run"]] {
        assert_eq!(said(arguments).0, Some(0), "{}", said(arguments).1);
    }
    let refused = |text: &str, wanted: &str| {
        std::fs::write(&file, text).unwrap();
        for arguments in [&["check"][..], &["run", "--dry-run"], &["run"]] {
            let (status, said) = said(arguments);
            assert!(status == Some(1) && said.contains(wanted), "{arguments:?}, {wanted}: {said}");
        }
    };
    let control = folder.path().join("control.sock").display().to_string();
    let with =
        |more: &str, change: [&str; 2]| format!("control = '{control}'\n{more}\n{whole}").replace(change[0], change[1]);
    let same = ["", ""];
    refused(&with("", ["['10.9.0.2'", "['10.77.0.0/16'"]), "route to 10.77.0.0/16: already exists through another");
    refused(&with("", ["['10.9.0.2'", "['0.0.0.0/0'"]), "route to 0.0.0.0/0: already exists through another");
    refused(&with("metrics = '127.0.0.1:9471'", same), "metrics");
    refused(&with("control_group = 'lasthop-nobody'", same), "no group \"lasthop-nobody\"");
    refused(&with("", [&keys().1[1], &keys().1[0]]), "this end's own");
    std::fs::create_dir(&control).unwrap();
    refused(&with("", same), "not a socket; set `control` to another path");
}

#[test]
#[ignore = "needs root: make root"]
fn routes_and_addresses_that_vanish_are_put_back() {
    if is_skipped("device of a tunnel that goes down") {
        return;
    }
    let network = network();
    let text = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, "endpoint = '10.1.0.2:51900'"));
    let first = End::start(&network, "c", &text);
    let whole = traces(&network, "c");
    network.must("c", "ip link set lasthop0 down; ip link set lasthop0 up");
    let end = Instant::now() + Duration::from_secs(5);
    while traces(&network, "c") != whole {
        assert!(Instant::now() < end, "{}\n{}", traces(&network, "c"), first.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(first.log().contains("the device was down"), "{}", first.log());
    // A reload restores what another program has removed.
    network.must("c", "ip route del 10.9.0.2/32; ip addr flush dev lasthop0");
    assert!(first.say("reload").status.success(), "{}", first.log());
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&traces(&network, "c")), sorted(&whole));
    // It fails if the route cannot be restored.
    network.must("c", "ip route del 10.9.0.2/32; ip route add 10.9.0.2/32 via 10.2.0.1");
    let refused = String::from_utf8(first.say("reload").stderr).unwrap();
    assert!(refused.contains("route to 10.9.0.2/32: already exists through another interface"), "{refused}");
}

/// Half of the connections in one tunnel are unrepaired, over a hop that loses one datagram in 20.
#[test]
#[ignore = "needs root: make root"]
fn a_comparison_shows_what_repair_gains() {
    if is_skipped("comparison inside a tunnel") {
        return;
    }
    let network = network();
    let _relay = Relay::start(&network, "10.1.0.2:51900", 20);
    let peer = |end: usize, more: &str| peer(end, &format!("ab = '50 %'\n{more}")).replace("20 Mbps", "50 Mbps");
    let text = format!("metrics = '127.0.0.1:9470'\n{}{}", head(1, "0.0.0.0:51900"), peer(0, ""));
    let second = End::start(&network, "s", &text);
    let text = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, &format!("endpoint = '{RELAY}'\nkeepalive = '1 s'")));
    let first = End::start(&network, "c", &text);
    for end in [&first, &second] {
        end.await_status(|status| status["peers"][0]["up"] == true);
    }
    // Both ends choose by the addresses: each arm has some of 36 connections.
    for batch in 0..9 {
        let transfers: Vec<_> =
            (0..4).map(|n| network.transfer_chunks(&server(6000 + 4 * batch + n), 20, Pace::Full)).collect();
        for transfer in transfers {
            transfer.end();
        }
    }
    let report = || {
        let mut command = Command::new(lasthop());
        let control = second.folder.path().join("control.sock");
        let output = command.args(["tunnel", "report", "--json", "--control"]).arg(control).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()["peers"][0].clone()
    };
    let flows = |report: &Value| ["treated", "untreated"].map(|arm| report[arm]["flows"].as_u64().unwrap_or(0));
    let end = Instant::now() + Duration::from_secs(5);
    while flows(&report()).iter().sum::<u64>() < 36 {
        assert!(Instant::now() < end, "{:#}\n{}", report(), second.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    let report = report();
    assert!(flows(&report).iter().all(|flows| *flows >= 4), "{report:#}");
    // Faster, and less loss: both beyond chance.
    assert!(report["gain"]["low"].as_f64() > Some(1.0), "{report:#}");
    assert!(report["loss"]["low"].as_f64() > Some(0.02), "{report:#}");
    assert!(report["delay"]["ratio"].is_f64(), "{report:#}");
    let said = String::from_utf8(second.say("report").stdout).unwrap();
    assert!(said.starts_with("end0: ") && said.contains("times as fast") && said.contains("points fewer"), "{said}");
    let metrics = network.get("s", "127.0.0.1:9470", "/metrics");
    let line = "lasthop_tunnel_compared_connections_total{peer=\"end0\",arm=\"untreated\"} ";
    assert!(metrics.contains(line), "{metrics}");
}
