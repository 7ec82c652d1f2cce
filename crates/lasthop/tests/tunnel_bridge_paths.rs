//! Tests of the tunnel between two bridges over two lines, on real frames between network namespaces.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::network::{Network, Pace, lasthop};
use crate::tunnel_bridge::{BOXES, Hop, crosses, is_skipped, is_up};
use crate::tunnel_end::{self, End, keys};

/// Returns the file of an end with a path by each line, and this head.
fn file(end: usize, head: &str) -> String {
    let key = keys().0.path().join(format!("{end}.key"));
    format!(
        "{head}mode = 'bridge'\ninterface = 'hop'\nprivate_key_file = '{}'\n[[peer]]\nname = 'end{}'\npublic_key = \
         '{}'\n[[peer.path]]\nname = 'one'\nrate = '20 Mbps'\n[[peer.path]]\nname = 'two'\ninterface = 'hop2'\nrate = \
         '20 Mbps'\n",
        key.display(),
        1 - end,
        keys().1[1 - end]
    )
}

/// Two bridges with two lines, and the ends of a tunnel over both.
struct Setup {
    network: Network,
    lines: Vec<Hop>,
    ends: [End; 2],
}

impl Setup {
    fn new() -> Self {
        let network = Network::two_bridges();
        network.add_second_line();
        network.must("g", "ip link set lo up");
        let lines = vec![Hop::start(&network, 0), Hop::over(&network, "hop2", ["near2", "far2"], 0)];
        let ends = [0, 1].map(|end| {
            let metrics = if end == 0 { "metrics = '127.0.0.1:9471'\n" } else { "" };
            End::recorded(&network, BOXES[end], &file(end, metrics))
        });
        for end in &ends {
            end.await_status(is_up);
        }
        let setup = Self { network, lines, ends };
        setup.await_paths([true; 2]);
        setup
    }

    /// Sends frames in both directions, so that paths are probed, until each path is usable at both ends or not.
    fn await_paths(&self, wanted: [bool; 2]) {
        for _ in 0..100 {
            self.network.transfer_chunks("10.1.0.2:5099", 1, Pace::Full).end();
            let states = self.ends.each_ref().map(|end| end.await_status(|_| true));
            if states.iter().all(|status| [0, 1].map(|path| works(status, path)) == wanted) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{:#}\n{}", self.ends[0].await_status(|_| true), self.ends[0].log());
    }

    /// Ends both ends, and checks that their recordings replay to the same decisions.
    fn stop(mut self) {
        for end in &mut self.ends {
            assert!(end.kill(Signal::TERM), "{}", end.log());
            let replay = end.replayed();
            assert!(replay["frames"].as_u64() > Some(200) && replay["sent"].as_u64() > Some(200), "{replay}");
        }
    }
}

fn works(status: &Value, path: usize) -> bool {
    let path = &status["peers"][0]["paths"][path];
    path["address"].is_string() && !["down", "unused", "untried"].contains(&path["state"].as_str().unwrap_or("unused"))
}

fn bytes(status: &Value, path: usize) -> u64 {
    status["peers"][0]["paths"][path]["frames"]["bytes"].as_u64().unwrap()
}

/// Numbered datagrams from the client to the server, 50 per second.
struct Flow {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<(Vec<u32>, Duration)>,
}

impl Flow {
    fn start(network: &Network) -> Self {
        let server = network.within("s", || UdpSocket::bind("10.1.0.2:7008").unwrap()).join().unwrap();
        let client = network.within("c", || UdpSocket::bind("10.1.0.3:0").unwrap()).join().unwrap();
        server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let sender = std::thread::spawn(move || {
            let (start, mut number) = (Instant::now(), 0_u32);
            while !ends.load(Ordering::Relaxed) {
                client.send_to(&number.to_be_bytes(), "10.1.0.2:7008").unwrap();
                number += 1;
                let next = start + Duration::from_millis(20) * number;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            number
        });
        let ends = Arc::clone(&stop);
        let receiver = std::thread::spawn(move || {
            let (mut numbers, mut gap, mut last) = (Vec::new(), Duration::ZERO, None::<Instant>);
            let mut buffer = [0; 64];
            loop {
                match server.recv(&mut buffer) {
                    Ok(_) => {
                        numbers.push(u32::from_be_bytes(*buffer.first_chunk().unwrap()));
                        gap = gap.max(last.map_or(Duration::ZERO, |last| last.elapsed()));
                        last = Some(Instant::now());
                    }
                    Err(_) if ends.load(Ordering::Relaxed) => return (numbers, gap),
                    Err(_) => {}
                }
            }
        });
        Self { stop, sender, receiver }
    }

    /// Returns the number of datagrams sent, those missing, and the longest gap.
    fn end(self) -> (u32, Vec<u32>, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        let (sent, (numbers, gap)) = (self.sender.join().unwrap(), self.receiver.join().unwrap());
        (sent, (0..sent).filter(|number| !numbers.contains(number)).collect(), gap)
    }

    /// Checks that no datagram was lost, and that the longest gap is below a bound that a busy machine keeps.
    fn must_be_whole(self, what: &str) {
        let (sent, missing, gap) = self.end();
        eprintln!("{what}: {sent} datagrams each 20 ms, longest gap {} ms", gap.as_millis());
        assert!(missing.is_empty() && gap < Duration::from_secs(1), "{what}: {missing:?} of {sent}, {gap:?}");
    }
}

#[test]
#[ignore = "needs root: make root"]
fn two_lines_of_a_bridge_carry_a_transfer_and_a_cut_costs_no_frame() {
    if is_skipped("tunnel between bridges over two lines") {
        return;
    }
    let setup = Setup::new();
    let Setup { network, lines, ends } = &setup;
    // Both lines carry a good part of 10 MB.
    let before = ends[1].await_status(|_| true);
    network.transfer_chunks("10.1.0.2:5001", 400, Pace::Full).end();
    let status = ends[1].await_status(|status| bytes(status, 1) > bytes(&before, 1) + 2_000_000);
    assert!(bytes(&status, 0) > bytes(&before, 0) + 2_000_000, "{status:#}");
    let text = network.get("g", "127.0.0.1:9471", "/metrics");
    for path in ["one", "two"] {
        assert!(text.contains(&format!("lasthop_tunnel_path_up{{peer=\"end1\",path=\"{path}\"}} 1")), "{text}");
    }
    let mut said = Command::new(lasthop());
    said.args(["tunnel", "status", "--control"]).arg(ends[0].folder.path().join("control.sock"));
    let said = String::from_utf8(said.output().unwrap().stdout).unwrap();
    assert!(
        said.contains("lasthop0 on hop") && said.contains("  path one: at ") && said.contains("  path two: at "),
        "{said}"
    );

    for (cut, line) in lines.iter().enumerate() {
        let (flow, transfer) = (Flow::start(network), network.transfer_chunks("10.1.0.2:5002", 600, Pace::Full));
        std::thread::sleep(Duration::from_secs(1));
        line.cut(true);
        std::thread::sleep(Duration::from_secs(2));
        // On a busy machine, an answer on the other line may be late too, for a moment.
        let status = ends[0].await_status(|status| !works(status, cut) && works(status, 1 - cut));
        assert_eq!(&status["peers"][0]["up"], &true, "{status:#}");
        line.cut(false);
        transfer.end();
        flow.must_be_whole(&format!("line {} cut for 2 s", cut + 1));
        setup.await_paths([true; 2]);
    }
    let status = ends[0].await_status(|_| true);
    assert_eq!((&status["worker"]["restarts"], &status["peers"][0]["starts"]), (&0.into(), &1.into()), "{status:#}");
    setup.stop();
}

#[test]
#[ignore = "needs root: make root"]
fn a_line_of_a_bridge_may_disappear_return_and_never_be_a_port() {
    if is_skipped("interfaces of a tunnel between bridges over two lines") {
        return;
    }
    let mut setup = Setup::new();
    let flow = Flow::start(&setup.network);
    // With the interface, the other end of its cable disappears.
    drop(setup.lines.pop());
    let Setup { network, ends, .. } = &setup;
    network.must("g", "ip link del hop2");
    setup.await_paths([true, false]);
    network.attach_second_line("g", "near2");
    let _line = Hop::over(network, "hop2", ["near2", "far2"], 0);
    setup.await_paths([true; 2]);
    // A port would forward the tunnel's frames in a circle.
    network.must("g", "ip link set hop2 master br0");
    setup.await_paths([true, false]);
    assert!(ends[0].log().contains("hop2 is a port of bridge br0"), "{}", ends[0].log());
    network.must("g", "ip link set hop2 nomaster");
    setup.await_paths([true; 2]);
    flow.must_be_whole("interface removed, added, and made a port");
    let status = ends[0].await_status(|_| true);
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    setup.stop();
}

#[test]
#[ignore = "needs root: make root"]
fn frames_pass_on_the_first_line_when_a_worker_is_killed() {
    if is_skipped("killed worker on a bridge with two lines") {
        return;
    }
    let setup = Setup::new();
    let Setup { network, lines, ends } = &setup;
    let flow = Flow::start(network);
    let [_, plain, _] = lines[0].counts();
    let [_, others, _] = lines[1].counts();
    let (supervisor, worker) = (Pid::from_child(&ends[0].child), ends[0].worker());
    for pid in [supervisor, worker] {
        kill_process(pid, Signal::STOP).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let [_, now_plain, _] = lines[0].counts();
    kill_process(worker, Signal::KILL).unwrap();
    kill_process(supervisor, Signal::CONT).unwrap();
    assert!(now_plain - plain > 10, "{now_plain} {plain}");
    // Nothing but the tunnel's frames crosses the other line.
    assert_eq!(lines[1].counts()[1], others);
    for end in ends {
        end.await_status(is_up);
    }
    setup.await_paths([true; 2]);
    let (sent, missing, gap) = flow.end();
    assert!(missing.len() < 10 && gap < Duration::from_secs(1), "{missing:?} of {sent}, {gap:?}");
}

/// The bridge disables a port without carrier, and forwards nothing to it: the device replaces it, without a loop.
#[test]
#[ignore = "needs root: make root"]
fn frames_take_the_other_line_when_the_port_loses_its_carrier() {
    if is_skipped("port without carrier on a bridge with two lines") {
        return;
    }
    let setup = Setup::new();
    let Setup { network, ends, .. } = &setup;
    let state =
        |end: &str| network.sh(end, "cat /sys/class/net/hop/brport/state; ls -d /sys/class/net/lasthop0/brport");
    let frame = [&[255; 6][..], &[2, 0, 0, 7, 7, 7, 0x88, 0xcc], &[9; 60]].concat();
    let must_cross = |what: &str| {
        for [from, to] in [["c", "s"], ["s", "c"]] {
            assert_eq!(crosses(network, (from, "eth0"), (to, "eth0"), &frame), 1, "{what}, from {from}");
        }
    };
    let address = network.sh("g", "cat /sys/class/net/br0/address");
    for (end, side) in BOXES.into_iter().zip(["near", "far"]) {
        let flow = Flow::start(network);
        network.must("h", &format!("ip link set {side} down"));
        await_state(&|| state(end), "0\n/sys/class/net/lasthop0/brport\n");
        must_cross("without carrier");
        network.transfer_chunks("10.1.0.2:5001", 40, Pace::Full).end();
        network.must("h", &format!("ip link set {side} up"));
        await_state(&|| state(end), "3\n");
        setup.await_paths([true; 2]);
        must_cross("with carrier again");
        let (sent, missing, gap) = flow.end();
        eprintln!("{side} down and up: {} of {sent} lost, longest gap {} ms", missing.len(), gap.as_millis());
        assert!(missing.len() <= 10 && gap < Duration::from_secs(1), "{missing:?} of {sent}, {gap:?}");
    }
    assert_eq!(network.sh("g", "cat /sys/class/net/br0/address"), address);
    let status = ends[0].await_status(|_| true);
    assert_eq!((&status["worker"]["restarts"], &status["peers"][0]["starts"]), (&0.into(), &1.into()), "{status:#}");
    setup.stop();
}

/// Waits until `state` returns this text.
fn await_state(state: &impl Fn() -> String, wanted: &str) {
    for _ in 0..100 {
        if state() == wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{}", state());
}

#[test]
#[ignore = "needs root: make root"]
fn a_check_says_which_interface_cannot_be_a_line() {
    if is_skipped("check of a tunnel between bridges over two lines") {
        return;
    }
    let network = Network::two_bridges();
    network.add_second_line();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], text: &str| {
        tunnel_end::configure(folder.path(), text);
        let mut command = network.command("g", lasthop());
        let output = command.arg("tunnel").args(arguments).arg(folder.path().join("tunnel.toml")).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.success(), said.concat())
    };
    let right = file(0, "");
    let (fine, said) = run(&["check"], &right);
    assert!(fine && said.contains("peer end1 path two interface: hop2 exists; packets of up to 1448 bytes"), "{said}");
    let (fine, said) = run(&["run", "--dry-run"], &right);
    assert!(
        fine && said.contains("packet socket at hop2") && said.contains("path two: discovered by broadcast on hop2"),
        "{said}"
    );
    // An interface that is missing is waited for.
    let (fine, said) = run(&["check"], &right.replace("hop2", "hop3"));
    assert!(fine && said.contains("hop3 does not exist: the path waits for it"), "{said}");
    network.must("g", "ip link set br0 type bridge stp_state 1");
    let (fine, said) = run(&["check"], &right);
    assert!(fine && said.contains("bridge br0 runs the spanning tree: if hop loses its carrier"), "{said}");
    network.must("g", "ip link set br0 type bridge stp_state 0");
    network.must("g", "ip link set hop2 master br0");
    for (text, expected) in [
        (
            right.clone(),
            "interface hop2 is a port of bridge br0: frames would loop; remove it with `ip link set hop2 nomaster`",
        ),
        (right.replace("hop2", "br0"), "interface br0 is a bridge, or is above a bridge or hop"),
        (right.replace("hop2", "lo"), "interface lo is not an Ethernet interface"),
    ] {
        let (fine, said) = run(&["check"], &text);
        assert!(!fine && said.contains(expected) && said.contains("line 13"), "{said}");
        for arguments in [&["run", "--dry-run"][..], &["run"]] {
            let (fine, said) = run(arguments, &text);
            assert!(
                !fine && said.contains(expected) && said.contains("tunnel.toml:13: peer \"end1\": path \"two\": "),
                "{said}"
            );
        }
    }
}
