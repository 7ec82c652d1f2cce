//! Tests of the gateway under faults: of its links, of its own processes, and at its end.
#![cfg(target_os = "linux")]

use crate::network;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use network::{Daemon, Network, Pace, is_skipped};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::process::Signal;

const SNOOP: &str = "[[rule]]\nname = 'all'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n";
const SPLIT: &str = "[[rule]]\nname = 'all'\nmode = 'split'\ninterface = 'wl0'\naddresses = ['10.2.0.0/24']\n\
                     split.wireless.congestion = 'cubic'\n";

fn server(port: u16) -> String {
    format!("10.1.0.2:{port}")
}

fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Waits for a transfer's end; returns its longest silence.
fn finish(what: &str, transfer: network::Transfer, network: &Network, daemon: &Daemon) -> Duration {
    if !transfer.is_over() {
        let status = daemon.ask("status").unwrap_or_default();
        panic!("{what}: stuck\n{}{status:#}\n{}", network.sockets(), daemon.log());
    }
    let (gap, _) = transfer.end();
    eprintln!("{what}: longest receive gap {} ms", gap.as_millis());
    gap
}

#[test]
#[ignore = "needs root: make root"]
fn a_link_that_goes_down_and_comes_back_interrupts_and_loses_nothing() {
    if is_skipped("link down and up") {
        return;
    }
    let network = Network::new();
    network.lose(0.01);
    let daemon = Daemon::start(&network, SNOOP);
    let transfer = network.transfer(&server(5101), 3);
    for _ in 0..2 {
        pause(700);
        network.must("g", "ip link set wl0 down");
        pause(300);
        network.must("g", "ip link set wl0 up");
    }
    pause(300);
    let gap = finish("link down for 300 ms", transfer, &network, &daemon);
    assert!(gap < Duration::from_secs(5), "{gap:?}");
    let status = daemon.await_status(|status| status["cached_bytes"] == 0);
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
    assert!(status["rules"][0]["repairs_hole"].as_u64() > Some(0), "{status:#}");
}

#[test]
#[ignore = "needs root: make root"]
fn an_interface_that_is_replaced_is_found_again() {
    if is_skipped("another interface of the same name") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SNOOP);
    let seen = |status: &serde_json::Value| status["rules"][0]["flows_seen"].as_u64();
    network.transfer_chunks(&server(5102), 20, Pace::Steady).end();
    daemon.await_status(|status| seen(status) == Some(1));
    network.must("g", "ip link del wl0");
    network.attach_client();
    network.transfer_chunks(&server(5103), 20, Pace::Steady).end();
    let status = daemon.await_status(|status| seen(status) == Some(2));
    assert_eq!(status["packets"]["strangers"], 0, "{status:#}");
}

#[test]
#[ignore = "needs root: make root"]
fn an_mtu_that_changes_in_mid_transfer_is_kept_to() {
    if is_skipped("change of MTU") {
        return;
    }
    let network = Network::new();
    network.lose(0.02);
    let daemon = Daemon::start(&network, SNOOP);
    let repairs = || {
        let status = daemon.ask("status").unwrap();
        ["repairs_hole", "repairs_timer"]
            .map(|cause| status["rules"][0][cause].as_u64().unwrap_or(0))
            .iter()
            .sum::<u64>()
    };
    let transfer = network.transfer(&server(5104), 4);
    for _ in 0..2 {
        pause(700);
        let before = repairs();
        network.must("g", "ip link set wl0 mtu 1200");
        pause(1000);
        assert!(repairs() > before, "nothing was repaired under the smaller MTU: {}", daemon.log());
        network.must("g", "ip link set wl0 mtu 1500");
        // Otherwise the server would not try larger packets for ten minutes.
        network.must("s", "ip route flush cache");
    }
    let gap = finish("MTU 1500, 1200, 1500", transfer, &network, &daemon);
    assert!(gap < Duration::from_secs(5), "{gap:?}");
    let status = daemon.await_status(|status| status["cached_bytes"] == 0);
    assert_eq!(status["packets"]["injection_failures"], 0, "{status:#}");
    assert_eq!(status["worker"]["restarts"], 0, "{status:#}");
}

/// Checks that a sender whose data is held at the gateway in mid-transfer need not retransmit it. On a loaded machine
/// its timer may expire before held data arrives, so there are three attempts.
fn held_data_goes_on(what: &str, end: impl Fn(&mut Daemon)) {
    if is_skipped(what) {
        return;
    }
    // The gateway held at least a hundred segments.
    const FEW: u64 = 50;
    let mut all = Vec::new();
    for _ in 0..3 {
        let Some(again) = sent_again(what, &end) else { return };
        all.push(again);
        if again < FEW {
            return;
        }
    }
    panic!("{what}: {all:?} segments retransmitted");
}

/// Returns the number of segments that a sender retransmits if the gateway holds its data when it reaches its `end`.
fn sent_again(what: &str, end: impl Fn(&mut Daemon)) -> Option<u64> {
    let network = Network::new();
    if !network.is_slowed(20) {
        return None;
    }
    // The window fits into the hop's queue, so that nothing is dropped there without the gateway; the sender must fill
    // it.
    network.must("c", "echo 4096 400000 400000 >/proc/sys/net/ipv4/tcp_rmem");
    // By default little is held. This lets 150 segments wait at the gateway and as many in front of the hop.
    let mut daemon = Daemon::start(&network, &format!("{SNOOP}snoop.backlog = 150\nsnoop.held = '2 MiB'\n"));
    let transfer = network.transfer_under("reno", &server(5105), 250, Pace::Steady);
    daemon.await_status(|status| status["cached_bytes"].as_u64() > Some(100_000));
    pause(1000);
    let before = network.retransmissions();
    end(&mut daemon);
    assert!(transfer.is_over(), "{what}: stuck\n{}{}", network.sockets(), daemon.log());
    let (gap, _) = transfer.end();
    let again = network.retransmissions() - before;
    eprintln!("{what}: longest receive gap {} ms, {again} segments retransmitted\n{}", gap.as_millis(), daemon.log());
    Some(again)
}

#[test]
#[ignore = "needs root: make root"]
fn what_is_held_goes_out_when_the_gateway_is_stopped() {
    held_data_goes_on("stopped", |daemon| {
        daemon.signal(Signal::TERM);
        assert!(daemon.wait().success(), "{}", daemon.log());
    });
}

#[test]
#[ignore = "needs root: make root"]
fn what_is_held_goes_out_when_its_rule_is_taken_away() {
    held_data_goes_on("rule removed", |daemon| {
        daemon
            .configure("[[rule]]\nname = 'other'\nmode = 'observe'\ninterface = 'wl0'\naddresses = ['10.9.0.0/16']\n");
        assert!(daemon.command("reload").output().unwrap().status.success(), "{}", daemon.log());
    });
}

#[test]
#[ignore = "needs root: make root"]
fn what_is_held_goes_out_when_flow_control_ends() {
    held_data_goes_on("flow control ended", |daemon| {
        daemon.configure(&format!("{SNOOP}snoop.flow_control = 'none'\n"));
        assert!(daemon.command("reload").output().unwrap().status.success(), "{}", daemon.log());
    });
}

/// Returns the time that the client takes to open a connection to a listening server.
fn open(network: &Network, port: u16) -> Duration {
    let address: std::net::SocketAddr = server(port).parse().unwrap();
    let listener = network.within("s", move || std::net::TcpListener::bind(address).unwrap()).join().unwrap();
    let opening = network.within("c", move || {
        let start = Instant::now();
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        (start.elapsed(), stream)
    });
    let (took, stream) = opening.join().unwrap();
    // The server itself accepted it, and sees the client's address.
    let (theirs, peer) = listener.accept().unwrap();
    assert_eq!(peer, stream.local_addr().unwrap());
    drop(theirs);
    took
}

#[test]
#[ignore = "needs root: make root"]
fn a_killed_relay_refuses_nobody() {
    if is_skipped("killed relay") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SPLIT);
    network.transfer_chunks(&server(5110), 20, Pace::Steady).end();
    daemon.await_status(|status| status["split"]["total"] == 1);
    for round in 1..=3_u16 {
        daemon.signal_worker(Signal::KILL);
        let took = open(&network, 5110 + round);
        eprintln!("relay killed: a new connection took {} ms", took.as_millis());
        assert!(took < Duration::from_secs(4), "{took:?}\n{}", daemon.log());
        daemon.await_status(|status| status["worker"]["restarts"] == round && status["worker"]["pid"].is_u64());
    }
    // Connections are split again once the new relay listens; connections opened before are forwarded.
    daemon.await_status(|status| status["split"].is_object());
    let is_split = |port| {
        network.transfer_chunks(&server(port), 20, Pace::Steady).end();
        daemon.ask("status").is_some_and(|status| status["split"]["total"].as_u64() >= Some(1))
    };
    assert!((5120..5220).any(is_split), "{}", daemon.log());
}

#[test]
#[ignore = "needs root: make root"]
fn without_a_supervisor_new_connections_pass_a_splitting_gateway() {
    if is_skipped("killed supervisor of a relay") {
        return;
    }
    let network = Network::new();
    let mut daemon = Daemon::start(&network, SPLIT);
    daemon.signal(Signal::KILL);
    daemon.wait();
    let took = open(&network, 5130);
    eprintln!("supervisor of a relay killed: a new connection took {} ms", took.as_millis());
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(network.rules().contains("TPROXY") && network.rules().contains("NFQUEUE"));
    let (_, peer) = network.transfer_chunks(&server(5131), 20, Pace::Steady).end();
    assert_eq!(peer.ip().to_string(), "10.2.0.2");
}

/// Returns the worker's thread with this name.
fn thread(worker: i32, name: &str) -> nix::unistd::Pid {
    let tasks = std::fs::read_dir(format!("/proc/{worker}/task")).unwrap();
    let is_named =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let task = tasks.map(|task| task.unwrap().path()).find(|path| is_named(path)).unwrap();
    nix::unistd::Pid::from_raw(task.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

#[test]
#[ignore = "needs root: make root"]
fn a_relay_that_hangs_is_replaced_and_refuses_nobody() {
    if is_skipped("hanging relay") {
        return;
    }
    let network = Network::new();
    let daemon = Daemon::start(&network, SPLIT);
    let status = daemon.await_status(|status| status["worker"]["pid"].is_u64());
    let relay = thread(status["worker"]["pid"].as_i64().unwrap() as i32, "relay");
    // A tracer can stop a single thread.
    let tracer = std::thread::spawn(move || {
        nix::sys::ptrace::attach(relay).unwrap();
        let wait = || waitpid(relay, Some(WaitPidFlag::__WALL));
        assert!(matches!(wait(), Ok(WaitStatus::Stopped(..))));
        // A dead thread remains until its tracer has waited for it.
        while !matches!(wait(), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_)) {}
    });
    daemon.await_status(|status| status["worker"]["restarts"] == 1 && status["worker"]["pid"].is_u64());
    tracer.join().unwrap();
    assert!(daemon.log().contains("the relay of split connections does not respond"), "{}", daemon.log());
    let took = open(&network, 5140);
    eprintln!("relay hangs: a new connection took {} ms", took.as_millis());
    assert!(took < Duration::from_secs(4), "{took:?}\n{}", daemon.log());
}
