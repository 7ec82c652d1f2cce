//! Tests of lasthop's TCP with the kernel's, over a TUN device in a network namespace that is removed with the test's
//! threads.

use crate::net;

use std::net::TcpListener;
use std::thread;

use lasthop_proto::tcp::config::{Clock as Ticks, DelayedAck, Preset, Recovery, SackAlgorithm, Switch, TcpConfig};
use lasthop_proto::time::Duration;
use net::*;

/// A loss recovery, with its name in the table of results.
type Scheme = (&'static str, Recovery, SackAlgorithm);

const SCHEMES: [Scheme; 8] = [
    ("Reno", Recovery::RENO, SackAlgorithm::Sack1),
    ("NewReno", Recovery::NEW_RENO, SackAlgorithm::Sack1),
    ("Sack1", Recovery::SACK, SackAlgorithm::Sack1),
    ("RFC 6675", Recovery::SACK, SackAlgorithm::Rfc6675),
    ("SMART", Recovery::SMART, SackAlgorithm::Sack1),
    ("ELN", Recovery::ELN, SackAlgorithm::Sack1),
    ("ELN-RXMT", Recovery::ELN_RXMT, SackAlgorithm::Sack1),
    ("RACK-TLP", Recovery::Rack, SackAlgorithm::Rfc6675),
];

const PRESETS: [Preset; 5] = [Preset::BsdLite, Preset::Ns2, Preset::Rfc, Preset::Linux618, Preset::Linux618Bbr];

/// Returns `preset` with `scheme`, and with timers of a tenth of the duration, so that many timeouts fit into a test.
fn quick(preset: Preset, (_, recovery, sack_algorithm): Scheme) -> TcpConfig {
    let base = TcpConfig::new(preset, recovery);
    let clock = match base.common.clock {
        other @ (Ticks::Fine | Ticks::Jiffies { .. }) => other,
        Ticks::Ticks { slow, fast } => Ticks::Ticks { slow: slow / 10, fast: fast / 10 },
    };
    let delayed_ack = match base.receiver.delayed_ack {
        DelayedAck::EverySecond { .. } => DelayedAck::EverySecond { timeout: Duration::from_millis(20) },
        other => other,
    };
    base.with(|c| {
        c.common.clock = clock;
        c.receiver.delayed_ack = delayed_ack;
        c.common.rto_initial = c.common.rto_initial / 10;
        c.common.rto_min = c.common.rto_min / 10;
        c.common.rto_max = Duration::from_secs(1);
        c.common.max_retries = 30;
        if let Some(classic) = c.sender.classic_mut() {
            classic.sack_algorithm = sack_algorithm;
        }
        c.receiver.smart_acks = if recovery == Recovery::SMART { Switch::On } else { Switch::Off };
    })
}

/// Runs every preset with every scheme to a kernel, and from it, at one loss rate in both directions: all at the same
/// time, each on a port of its own. The kernel's settings are those of the namespace.
fn matrix(frame_loss: f64, bytes: u64) {
    let host = open(&lossy(frame_loss), 7);
    let mut cases = Vec::new();
    for (preset, scheme) in PRESETS.iter().flat_map(|&preset| SCHEMES.map(|scheme| (preset, scheme))) {
        let port = 5000 + cases.len() as u16;
        let name = format!("{preset:?} {} at {frame_loss}", scheme.0);
        let listener = TcpListener::bind((KERNEL, port)).expect("a free port");
        let kernel = thread::spawn(move || receive(&listener));
        let ours = host.start_sending(Sending { bytes, ..sending(quick(preset, scheme), port, port) }).expect("host");
        cases.push((format!("{name}, to a kernel"), ours, kernel));
        let port = 5000 + cases.len() as u16;
        let ours = host.start_receiving(receiving(quick(preset, scheme), port)).expect("host");
        let kernel = thread::spawn(move || send((OURS, port), bytes));
        cases.push((format!("{name}, from a kernel"), ours, kernel));
    }
    let mut failed = Vec::new();
    for (name, ours, kernel) in cases {
        let outcome = ours.wait().expect("host");
        let kernel = kernel.join().expect("the kernel's side");
        let took = outcome.end.since(outcome.start).as_secs_f64();
        let Outcome { segments, sender, ending, mismatch, received, acked, .. } = &outcome;
        let line = format!(
            "{name}: {ending:?} after {took:.2} s, {acked} acknowledged, {received} received, mismatch {mismatch:?}, {segments} \
             segments, {} retransmissions, {} timeouts, {} recoveries; kernel: {kernel:?}",
            sender.source_retransmissions, sender.timeouts, sender.recoveries
        );
        println!("{line}");
        if !outcome.is_intact() || kernel != Ok(bytes) || acked.max(received) != &bytes {
            failed.push(line);
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Shortens the kernel's timers as ours, with as many retries: at a loss of one in five, seven attempts to connect
/// would fail once in a thousand connections.
fn quick_kernel(sack: &str, timestamps: &str) {
    sysctl("tcp_sack", sack);
    sysctl("tcp_timestamps", timestamps);
    sysctl("tcp_rto_min_us", "20000");
    sysctl("tcp_rto_max_ms", "1000");
    sysctl("tcp_syn_retries", "30");
    sysctl("tcp_synack_retries", "30");
    sysctl("tcp_orphan_retries", "30");
    sysctl("tcp_retries2", "30");
}

fn interoperate(sack: &str, timestamps: &str) {
    if namespace().is_none() {
        return;
    }
    quick_kernel(sack, timestamps);
    for (frame_loss, bytes) in [(0.0, 100_000), (0.01, 100_000), (0.05, 60_000), (0.2, 20_000)] {
        matrix(frame_loss, bytes);
    }
}

#[test]
#[ignore = "needs root: make root"]
fn kernel_with_sack_and_timestamps() {
    interoperate("1", "1");
}

#[test]
#[ignore = "needs root: make root"]
fn kernel_with_sack() {
    interoperate("1", "0");
}

#[test]
#[ignore = "needs root: make root"]
fn kernel_with_timestamps() {
    interoperate("0", "1");
}

#[test]
#[ignore = "needs root: make root"]
fn kernel_with_neither() {
    interoperate("0", "0");
}

/// Measures throughput: `LASTHOP_MEASURE=1 cargo test --release -p lasthop-lab --test all -- --ignored --nocapture
/// throughput_with_a_kernel`.
#[test]
#[ignore = "a measurement on a quiet machine; runs if LASTHOP_MEASURE is set"]
fn throughput_with_a_kernel() {
    if std::env::var_os("LASTHOP_MEASURE").is_none() || namespace().is_none() {
        return;
    }
    let bytes = 2_000_000_000;
    let host = open(&lossy(0.0), 1);
    let config = rfc().with(|c| {
        c.common.send_buffer = 4 << 20;
        c.receiver.receive_buffer = 4 << 20;
    });
    for port in [5000, 5001, 5002] {
        let listener = TcpListener::bind((KERNEL, port)).expect("port");
        let kernel = thread::spawn(move || receive(&listener));
        let outcome = host.send(Sending { bytes, ..sending(config.clone(), port, port) }).expect("host");
        assert_eq!(kernel.join().expect("kernel"), Ok(bytes));
        report("to a kernel", bytes, &outcome);
        let ours = host.start_receiving(receiving(config.clone(), port)).expect("host");
        let kernel = thread::spawn(move || send((OURS, port), bytes));
        let outcome = ours.wait().expect("host");
        assert_eq!(kernel.join().expect("kernel"), Ok(bytes));
        report("from a kernel", bytes, &outcome);
    }
}

fn report(direction: &str, bytes: u64, outcome: &Outcome) {
    let seconds = outcome.end.since(outcome.start).as_secs_f64();
    let rate = bytes as f64 * 8.0 / seconds / 1e6;
    let resent = outcome.sender.source_retransmissions;
    println!("{direction}: {rate:.0} Mbit/s, {resent} retransmissions, intact: {}", outcome.is_intact());
}
