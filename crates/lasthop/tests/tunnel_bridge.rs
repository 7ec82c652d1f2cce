//! Tests of the tunnel between two bridges, on real frames between network namespaces: two devices with a lossy,
//! delaying hop between them.
#![cfg(target_os = "linux")]

use crate::tunnel_end;

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::network::{Network, Pace, is_skipped_without, lasthop};
use lasthop_sys::ethtool::switch_offloads_off;
use lasthop_sys::packet_socket::frame::LinkHeader;
use lasthop_sys::packet_socket::{Arrival, PacketSocket};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tunnel_end::{End, keys};

pub(crate) fn is_skipped(test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    is_skipped_without(
        test,
        "Linux 6.6 with TAP devices",
        version >= (Some(6), Some(6)) && Path::new("/dev/net/tun").exists(),
    )
}

/// Namespaces of the two devices, by end.
pub(crate) const BOXES: [&str; 2] = ["g", "t"];

/// Returns the configuration of an end with the key `own` and a peer with the key `other`.
fn text(own: usize, other: usize, rate: u32) -> String {
    let key = keys().0.path().join(format!("{own}.key"));
    format!(
        "mode = 'bridge'\ninterface = 'hop'\nprivate_key_file = '{}'\n[[peer]]\nname = 'end{other}'\npublic_key = '{}'\n\
         rate = '{rate} Mbps'\n",
        key.display(),
        keys().1[other]
    )
}

/// Carries frames between the devices: with a delay of 2 ms in each direction, and losses.
pub(crate) struct Hop {
    stop: Arc<AtomicBool>,
    is_cut: Arc<AtomicBool>,
    /// Number of the tunnel's frames, of other frames, and of lost frames of both kinds.
    counts: Arc<[AtomicU64; 3]>,
    thread: Option<JoinHandle<()>>,
}

impl Hop {
    /// Starts a hop that loses one of `every` frames in each direction at random; none if 0.
    pub(crate) fn start(network: &Network, every: u64) -> Self {
        Self::over(network, "hop", ["near", "far"], every)
    }

    /// Starts a hop between the devices' interfaces with this name, and its own interfaces `sides`.
    pub(crate) fn over(network: &Network, interface: &'static str, sides: [&'static str; 2], every: u64) -> Self {
        for bridge in BOXES {
            network.within(bridge, move || switch_offloads_off(interface).unwrap()).join().unwrap();
        }
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new([const { AtomicU64::new(0) }; 3]));
        let (ends, count) = (Arc::clone(&stop), Arc::clone(&counts));
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || {
            let mut sides = sides.map(|side| PacketSocket::open(side, 1600).unwrap());
            ready.send(()).unwrap();
            let mut way: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
            let mut random = 88_172_645_463_325_252_u64;
            while !ends.load(Ordering::Relaxed) {
                let mut idle = true;
                for (side, socket) in sides.iter_mut().enumerate() {
                    let due = Instant::now() + Duration::from_millis(2);
                    let take = |arrival: Arrival<'_>| {
                        idle = false;
                        let Some(header) = LinkHeader::new(arrival.bytes, arrival.tag) else { return };
                        let frame = [header.bytes(), &arrival.bytes[14..]].concat();
                        count[usize::from(frame[12..14] != [0x88, 0xb5])].fetch_add(1, Ordering::Relaxed);
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        if every > 0 && random.is_multiple_of(every) {
                            count[2].fetch_add(1, Ordering::Relaxed);
                        } else {
                            way.push_back((due, 1 - side, frame));
                        }
                    };
                    if let Err(error) = socket.receive(take) {
                        assert_eq!(error.kind(), std::io::ErrorKind::NetworkDown, "{error}");
                    }
                }
                while way.front().is_some_and(|(at, ..)| *at <= Instant::now()) {
                    let Some((_, side, frame)) = way.pop_front() else { break };
                    if !cut.load(Ordering::Relaxed) {
                        let _ = sides[side].send(&frame);
                    }
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        };
        let thread = Some(network.within("h", work));
        is_ready.recv().unwrap();
        Self { stop, is_cut, counts, thread }
    }

    /// Carries nothing from now on, or all again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Returns the number of the tunnel's frames, other frames, and lost frames so far.
    pub(crate) fn counts(&self) -> [u64; 3] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(crate) fn is_up(status: &Value) -> bool {
    status["peers"][0]["up"] == true
}

/// Starts two ends, and waits until they have a session.
fn ends(network: &Network) -> [End; 2] {
    let ends = [0, 1].map(|end| End::start(network, BOXES[end], &text(end, 1 - end, 100)));
    for end in &ends {
        end.await_status(is_up);
    }
    ends
}

/// Returns everything that an end could leave on a device.
fn traces(network: &Network, name: &str) -> String {
    network.sh(name, "ls /sys/class/net; ip -o addr show scope global; ip rule; cat /proc/net/packet | wc -l; bridge link; tc filter show dev hop ingress")
}

/// Sends a datagram every 5 ms from the client to the server, which echoes them.
struct Echoes {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Duration, u64)>,
}

impl Echoes {
    fn start(network: &Network) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let server = network.within("s", || UdpSocket::bind("10.1.0.2:7007").unwrap()).join().unwrap();
        server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let ends = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while !ends.load(Ordering::Relaxed) {
                if let Ok((length, from)) = server.recv_from(&mut bytes) {
                    let _ = server.send_to(&bytes[..length], from);
                }
            }
        });
        let client = network.within("c", || UdpSocket::bind("10.1.0.3:0").unwrap()).join().unwrap();
        client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            let (mut last, mut longest, mut count) = (Instant::now(), Duration::ZERO, 0);
            let mut next = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    next = Instant::now() + Duration::from_millis(5);
                    let _ = client.send_to(&[7; 32], "10.1.0.2:7007");
                }
                if client.recv_from(&mut bytes).is_ok() {
                    if count > 0 {
                        longest = longest.max(last.elapsed());
                    }
                    (last, count) = (Instant::now(), count + 1);
                }
            }
            (longest, count)
        });
        Self { stop, thread }
    }

    /// Returns the longest time without an answer, and the number of answers.
    fn end(self) -> (Duration, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_lossy_hop_is_repaired_without_addresses_and_nothing_is_left() {
    if is_skipped("tunnel between bridges") {
        return;
    }
    let network = Network::two_bridges();
    let hop = Hop::start(&network, 20);
    let before = BOXES.map(|name| traces(&network, name));
    let mut pair = ends(&network);
    for end in BOXES {
        // The device has no address.
        assert_eq!(network.sh(end, "ip -o addr | grep -v ' lo '"), "");
    }
    let (retransmitted, [_, plain, lost]) = (network.retransmissions(), hop.counts());
    network.transfer_chunks("10.1.0.2:5001", 400, Pace::Full).end();
    network.transfer_chunks("[fd01::2]:5001", 100, Pace::Full).end();
    let retransmitted = network.retransmissions() - retransmitted;
    let [own, now_plain, now_lost] = hop.counts();
    let lost = now_lost - lost;
    eprintln!(
        "{own} frames of the tunnel, {} others, {lost} lost; TCP retransmitted {retransmitted} segments",
        now_plain - plain
    );
    assert!(lost > 400 && retransmitted < lost / 5, "{retransmitted} of {lost}\n{}", pair[1].log());
    let status = pair[1].await_status(|status| status["peers"][0]["sent"]["bytes"].as_u64() > Some(10_000_000));
    assert!(status["peers"][0]["resent"].as_u64() > Some(200) && status["peers"][0]["refused"] == 0, "{status:#}");
    assert_eq!((&status["mode"], &status["interface"]), (&"bridge".into(), &"hop".into()));
    let said = Command::new(lasthop())
        .args(["tunnel", "status", "--control"])
        .arg(pair[1].folder.path().join("control.sock"))
        .output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    assert!(said.contains("lasthop0 on hop") && said.contains("unrepaired: "), "{said}");

    assert!(pair[0].kill(Signal::TERM), "{}", pair[0].log());
    pair[1].await_status(|status| !is_up(status));
    assert!(pair[1].kill(Signal::INT), "{}", pair[1].log());
    assert_eq!(BOXES.map(|name| traces(&network, name)), before);
    network.transfer_chunks("10.1.0.2:5002", 4, Pace::Full).end();
}

/// Checks that traffic survives the death of a process under load, and is repaired after its replacement.
fn survives(what: &str, end: usize, harm: impl FnOnce(&mut End)) {
    let network = Network::two_bridges();
    let hop = Hop::start(&network, 0);
    let mut pair = ends(&network);
    let echoes = Echoes::start(&network);
    let transfer = network.transfer("10.1.0.2:5003", 3);
    std::thread::sleep(Duration::from_millis(1500));
    let [_, before, _] = hop.counts();
    harm(&mut pair[end]);
    std::thread::sleep(Duration::from_millis(500));
    let [_, plain, _] = hop.counts();
    assert!(transfer.is_over(), "{what}: stuck\n{}\n{}", pair[0].log(), pair[1].log());
    let ((tcp, _), (udp, count)) = (transfer.end(), echoes.end());
    eprintln!(
        "{what}: longest gap {} ms for echoes each 5 ms, {} ms for TCP at 200 Mbit/s; {} frames passed unrepaired in 500 ms",
        udp.as_millis(),
        tcp.as_millis(),
        plain - before
    );
    assert!(
        count > 100 && udp < Duration::from_secs(1) && tcp < Duration::from_secs(2),
        "{what}: {udp:?} {tcp:?} {count}"
    );
    let bridge = BOXES[end];
    if pair[end].child.try_wait().unwrap().is_some() {
        // If both processes were killed, a socket is left, which the next start removes.
        assert!(!traces(&network, bridge).contains("lasthop0"));
        pair[end].again(&network, bridge);
    }
    for end in &pair {
        end.await_status(is_up);
    }
    let repaired = |hop: &Hop| {
        let [own, plain, _] = hop.counts();
        network.transfer_chunks("10.1.0.2:5004", 40, Pace::Full).end();
        let [more, others, _] = hop.counts();
        more - own > 700 && others - plain < 100
    };
    assert!((0..5).any(|_| repaired(&hop)), "{what}: not repaired again {:?}\n{}", hop.counts(), pair[0].log());
}

#[test]
#[ignore = "needs root: make root"]
fn traffic_goes_on_when_a_worker_is_killed() {
    if is_skipped("killed worker on a bridge") {
        return;
    }
    for (end, name) in ["client's", "server's"].into_iter().enumerate() {
        survives(&format!("{name} worker killed"), end, |end| kill_process(end.worker(), Signal::KILL).unwrap());
    }
}

#[test]
#[ignore = "needs root: make root"]
fn traffic_goes_on_when_a_supervisor_is_killed_or_all_hang() {
    if is_skipped("killed supervisor on a bridge") {
        return;
    }
    for (end, name) in ["client's", "server's"].into_iter().enumerate() {
        survives(&format!("{name} supervisor killed"), end, |end| {
            end.kill(Signal::KILL);
        });
    }
    survives("server's worker and supervisor stopped", 1, |end| {
        let worker = end.worker();
        rustix::process::kill_process(rustix::process::Pid::from_child(&end.child), Signal::STOP).unwrap();
        kill_process(worker, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        kill_process(worker, Signal::CONT).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&end.child), Signal::CONT).unwrap();
    });
}

/// Sends a frame on an interface of one namespace; returns how often it arrives at that of another within a second of
/// the first arrival.
pub(crate) fn crosses(
    network: &Network,
    (from, out): (&str, &'static str),
    (to, into): (&str, &'static str),
    frame: &[u8],
) -> usize {
    let open = |device: &'static str| move || PacketSocket::open(device, 1600).unwrap();
    let sender = network.within(from, open(out)).join().unwrap();
    let mut receiver = network.within(to, open(into)).join().unwrap();
    sender.send(frame).unwrap();
    let (mut end, mut found) = (Instant::now() + Duration::from_secs(2), 0);
    while Instant::now() < end {
        let take = |arrival: Arrival<'_>| {
            let Some(header) = LinkHeader::new(arrival.bytes, arrival.tag) else { return };
            found += usize::from([header.bytes(), &arrival.bytes[14..]].concat() == frame);
        };
        receiver.receive(take).unwrap();
        if found == 1 {
            end = end.min(Instant::now() + Duration::from_millis(300));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    found
}

#[test]
#[ignore = "needs root: make root"]
fn every_kind_of_frame_crosses_once_and_strangers_frames_do_not() {
    if is_skipped("frames between bridges") {
        return;
    }
    let network = Network::two_bridges();
    let hop = Hop::start(&network, 10);
    let _pair = ends(&network);
    let frame = |to: [u8; 6], rest: &[u8]| [&to[..], &[2, 0, 0, 7, 7, 7], rest, &[9; 60]].concat();
    let (all, group, one) = ([255; 6], [3, 0, 0, 0, 0, 1], [2, 0, 0, 8, 8, 8]);
    // On a busy machine an end may take frames later than its session starts: until then they pass as they are, and the
    // hop loses some.
    let first = frame(one, &[0x88, 0xcc]);
    let warm = |from, to| (0..5).any(|_| crosses(&network, (from, "eth0"), (to, "eth0"), &first) == 1);
    assert!(warm("c", "s") && warm("s", "c"), "no frame crosses");
    let [_, plain, _] = hop.counts();
    for (name, frame) in [
        ("ARP", frame(all, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1])),
        ("multicast", frame(group, &[0x88, 0xcc])),
        ("a tag", frame(one, &[0x81, 0, 0x20, 5, 8, 0])),
        ("two tags", frame(one, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5, 8, 6])),
        ("no IP", frame(one, &[0x88, 0xcc])),
        ("a length", frame(one, &[0, 60])),
        ("the tunnel's own type", frame(all, &[0x88, 0xb5, 0, 3, 1, 2, 3])),
    ] {
        assert_eq!(crosses(&network, ("c", "eth0"), ("s", "eth0"), &frame), 1, "{name}");
        assert_eq!(crosses(&network, ("s", "eth0"), ("c", "eth0"), &frame), 1, "{name}, back");
    }
    let [_, others, _] = hop.counts();
    assert!(others - plain < 10, "{} frames unrepaired", others - plain);
    // Frames of the tunnel's type from an attacker in the hop.
    for to in [all, one] {
        let stranger = frame(to, &[0x88, 0xb5, 0, 3, 1, 2, 3]);
        assert_eq!(crosses(&network, ("h", "far"), ("s", "eth0"), &stranger), 0);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn who_has_another_key_is_never_let_in_and_frames_pass_as_they_are() {
    if is_skipped("another key on a bridge") {
        return;
    }
    let network = Network::two_bridges();
    let hop = Hop::start(&network, 0);
    let first = End::start(&network, "g", &text(0, 1, 100));
    let _other = End::start(&network, "t", &text(2, 0, 100));
    let status = first.await_status(|status| status["strangers"].as_u64() > Some(0));
    assert!(!is_up(&status), "{status:#}");
    let [_, plain, _] = hop.counts();
    network.transfer_chunks("10.1.0.2:5001", 40, Pace::Full).end();
    let [_, others, _] = hop.counts();
    assert!(others - plain > 700, "{others} {plain}");
    let status = first.await_status(|status| status["worker"]["pid"].is_u64());
    assert_eq!((&status["peers"][0]["starts"], &status["peers"][0]["received"]["packets"]), (&0.into(), &0.into()));
}

#[test]
#[ignore = "needs root: make root"]
fn an_interface_has_one_tunnel_only() {
    if is_skipped("two tunnels at an interface") {
        return;
    }
    let network = Network::two_bridges();
    let mut first = End::start(&network, "g", &text(0, 1, 10));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tunnel.toml");
    let second = |namespace: &str, arguments: &[&str]| {
        let control = folder.path().join("socket").display().to_string();
        std::fs::write(&file, format!("device = 'second'\ncontrol = '{control}'\n{}", text(0, 1, 10))).unwrap();
        let output = network.command(namespace, lasthop()).arg("tunnel").args(arguments).arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.success(), said.concat())
    };
    for arguments in [&["check"][..], &["run", "--dry-run"], &["run"]] {
        let (fine, said) = second("g", arguments);
        assert!(!fine && said.contains("interface hop: ") && said.contains("its frames"), "{said}");
    }
    // Interfaces of other namespaces do not conflict.
    let (fine, said) = second("t", &["run", "--dry-run"]);
    assert!(fine, "{said}");
    assert!(first.kill(Signal::TERM), "{}", first.log());
    let (fine, said) = second("g", &["run", "--dry-run"]);
    assert!(fine, "{said}");
}

/// Names instead of keys, on a trusted cable; the recordings of both ends are replayed.
#[test]
#[ignore = "needs root: make root"]
fn ends_without_security_repair_read_their_files_again_and_tell_metrics() {
    if is_skipped("tunnel between bridges without security") {
        return;
    }
    let network = Network::two_bridges();
    let _hop = Hop::start(&network, 20);
    let text = |end: usize, rate: u32| {
        format!(
            "mode = 'bridge'\ninterface = 'hop'\nsecurity = 'none'\ntrusted_interface = 'hop'\nname = 'end{end}'\nmetrics = '127.0.0.1:9471'\n\
             [[peer]]\nname = 'end{}'\nrate = '{rate} Mbps'\n",
            1 - end
        )
    };
    network.must("g", "ip link set lo up");
    let mut pair = [0, 1].map(|end| End::recorded(&network, BOXES[end], &text(end, 100)));
    for end in &pair {
        end.await_status(is_up);
    }
    let retransmitted = network.retransmissions();
    network.transfer_chunks("10.1.0.2:5001", 100, Pace::Full).end();
    let retransmitted = network.retransmissions() - retransmitted;
    let status = pair[1].await_status(|status| status["peers"][0]["resent"].as_u64() > Some(50));
    assert!(retransmitted < 90 && status["peers"][0]["refused"] == 0, "{retransmitted} {status:#}");
    let metrics = network.get("g", "127.0.0.1:9471", "/metrics");
    assert!(
        metrics.contains("lasthop_tunnel_starts_total{peer=\"end1\"} 1\n") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );

    // Changeable keys change without a restart; others are rejected, and nothing changes.
    tunnel_end::configure(pair[0].folder.path(), &text(0, 30));
    assert!(pair[0].say("reload").status.success(), "{}", pair[0].log());
    let status = pair[0].await_status(|status| status["peers"][0]["rate"] == 30_000_000);
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    pair[0].await_status(is_up);
    tunnel_end::configure(pair[0].folder.path(), &text(0, 30).replace("[[peer]]", "[[peer]]\nsilence = '60 ms'"));
    let refused = pair[0].say("reload");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("`peer.silence` cannot change while the tunnel is running"),
        "{said}"
    );
    network.transfer_chunks("10.1.0.2:5002", 40, Pace::Full).end();

    for end in &mut pair {
        assert!(end.kill(Signal::TERM), "{}", end.log());
        let replay = end.replayed();
        assert!(replay["frames"].as_u64() > Some(500) && replay["sent"].as_u64() > Some(500), "{replay}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn a_check_says_what_a_start_says() {
    if is_skipped("check of a tunnel between bridges") {
        return;
    }
    let network = Network::two_bridges();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tunnel.toml");
    let run = |arguments: &[&str], text: &str| {
        std::fs::write(&file, format!("control = '{}'\n{text}", folder.path().join("socket").display())).unwrap();
        let output = network.command("g", lasthop()).arg("tunnel").args(arguments).arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.success(), said.concat())
    };
    let right = text(0, 1, 10);
    let (fine, said) = run(&["check"], &right);
    assert!(fine && said.contains("BPF programs: accepted by the kernel") && said.contains("1552"), "{said}");
    let (fine, said) = run(&["run", "--dry-run"], &right);
    assert!(fine && said.contains("mode tap") && said.contains("tcx") && said.contains("at hop"), "{said}");
    network.must("g", "ip link set hop mtu 1552");
    let before = traces(&network, "g");
    let (fine, said) = run(&["check"], &right);
    assert!(fine && said.contains("packets of up to 1500 bytes are repaired unsplit"), "{said}");
    for (wrong, expected) in [
        (right.replace("'hop'", "'no'"), "interface no does not exist"),
        (right.replace("'hop'", "'lo'"), "interface lo is not an Ethernet interface"),
        (format!("listen = '0.0.0.0:1'\n{right}"), "not allowed with mode = \"bridge\""),
        (format!("{right}endpoint = '192.0.2.1:9'\n"), "not allowed with mode = \"bridge\""),
        (format!("device = 'hop'\n{right}"), "it is the interface towards the hop"),
    ] {
        for arguments in [&["check"][..], &["run", "--dry-run"], &["run"]] {
            let (fine, said) = run(arguments, &wrong);
            assert!(!fine && said.contains(expected), "{arguments:?}: {said}");
        }
    }
    // The name is taken: nothing is left of the attempt.
    let taken = format!("device = 'br0'\n{right}");
    let (fine, said) = run(&["run"], &taken);
    assert!(!fine && said.contains("an interface with this name already exists"), "{said}");
    assert_eq!(traces(&network, "g"), before);
}
