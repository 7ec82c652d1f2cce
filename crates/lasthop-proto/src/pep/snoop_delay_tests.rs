//! Hops with varying delay: packets that are only late are hardly ever resent, and lost ones still are.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::super::rig::{Late, Loss, Outcome, transfer_late};
use super::tests::{Bench, ack, change, data, sack, suppressed};
use super::*;
use crate::packet::{Cause, Timestamps};
use crate::tcp::config::{Preset, TcpConfig};

/// Returns a bench with the gateway's defaults: SACK blocks as masks, with flow control.
fn gateway() -> Bench {
    Bench::with(SnoopConfig::gateway())
}

fn send(bench: &mut Bench, millis: u64, numbers: core::ops::Range<u32>) {
    for n in numbers {
        assert_eq!(bench.wired(millis, data(n)).down, [(Cause::New, n)]);
    }
}

/// Runs eight packets of which the second arrives last. Its repair was spurious, which shows 3 ms later, since a round
/// trip takes 10 ms. Round trips of 10 and 16 ms: the smoothed one is 10.75 ms.
fn overtaken(bench: &mut Bench) {
    send(bench, 0, 0..8);
    bench.wireless(10, ack(1));
    assert_eq!(bench.wireless(12, sack(1, &[(2, 3)])).down, [(Cause::LocalHole, 1)]);
    bench.wireless(15, ack(3));
    bench.wireless(16, ack(8));
}

/// RFC 8985 §6.2 step 4: the reordering window starts at a quarter of the round trip once a repair was spurious.
#[test]
fn what_is_overtaken_waits_once_a_repair_came_after_what_it_repaired() {
    let mut bench = gateway();
    overtaken(&mut bench);
    send(&mut bench, 20, 8..16);
    let seen = bench.wireless(31, sack(8, &[(9, 10)]));
    // It waits for 5/4 of 10.75 ms after its transmission, hidden from the sender.
    assert_eq!((seen.down, seen.up, seen.events), (Vec::new(), Vec::new(), [suppressed(8)].into()));
    assert_eq!(bench.idle_until(60).first(), Some(&33));
    // This time it was only late.
    let mut bench = gateway();
    overtaken(&mut bench);
    send(&mut bench, 20, 8..16);
    bench.wireless(31, sack(8, &[(9, 10)]));
    assert_eq!(bench.wireless(32, ack(16)).down, []);
    assert_eq!(bench.idle_until(100), []);
}

/// A D-SACK block shows it, too: below the acknowledgment, or within the second block (RFC 2883 §4).
#[test]
fn a_repair_that_comes_back_widens_the_window() {
    for duplicate in [sack(8, &[(1, 2)]), sack(5, &[(6, 7), (6, 8)])] {
        let mut bench = gateway();
        send(&mut bench, 0, 0..8);
        bench.wireless(10, ack(1));
        let hole = if duplicate == sack(8, &[(1, 2)]) { 1 } else { 6 };
        if hole == 6 {
            bench.wireless(11, ack(5));
            // 7 arrives before 5 and 6; then 6 arrives.
            let both = [5, 6].map(|n| (Cause::LocalHole, n));
            assert_eq!(bench.wireless(12, sack(5, &[(7, 8)])).down, both);
            bench.wireless(13, sack(5, &[(6, 8)]));
        } else {
            assert_eq!(bench.wireless(12, sack(1, &[(2, 3)])).down, [(Cause::LocalHole, 1)]);
            // Late enough that it may have been the repair.
            bench.wireless(25, ack(8));
        }
        bench.wireless(26, duplicate);
        bench.wireless(27, ack(8));
        send(&mut bench, 30, 8..16);
        assert_eq!(bench.wireless(31, sack(8, &[(9, 10)])).down, [], "{hole}");
    }
}

/// Reordering counts only if it was seen within ten seconds.
#[test]
fn a_hop_that_keeps_the_order_again_is_believed_again() {
    let mut bench = gateway();
    overtaken(&mut bench);
    send(&mut bench, 10_020, 8..16);
    assert_eq!(bench.wireless(10_031, sack(8, &[(9, 10)])).down, [(Cause::LocalHole, 8)]);
    // Each packet that arrived after the hop had waited for it counts as reordering.
    let mut bench = gateway();
    overtaken(&mut bench);
    for round in 1..3 {
        let (now, first) = (u64::from(round) * 8_000, round * 8);
        send(&mut bench, now, first..first + 8);
        assert_eq!(bench.wireless(now + 11, sack(first, &[(first + 1, first + 2)])).down, [], "{round}");
        bench.wireless(now + 12, ack(first + 8));
    }
}

/// All data in flight is late by 200 ms: it is resent once, and the last packet now and then, until something arrives.
/// Nothing is declared lost then.
#[test]
fn after_a_spike_nothing_more_is_resent() {
    let mut bench = gateway();
    send(&mut bench, 0, 0..10);
    bench.wireless(10, sack(1, &[(2, 3)]));
    bench.wireless(12, ack(3));
    let copies = bench.idle_until(212);
    // 7 packets, and copies of the first and of the last, at growing intervals.
    assert!((7..56).contains(&copies.len()), "{copies:?}");
    let mut resent = Vec::new();
    for n in 4..=10 {
        resent.extend(bench.wireless(212, ack(n)).down);
    }
    // Each copy returns. Meanwhile nothing is declared lost.
    send(&mut bench, 212, 10..18);
    for n in 0..7 {
        resent.extend(bench.wireless(214 + 8 * n, sack(10, &[(3 + n as u32, 4 + n as u32)])).down);
        assert_eq!(bench.idle_until(221 + 8 * n), []);
    }
    assert_eq!(resent, []);
}

/// A reordered acknowledgment looks like an old copy by its timestamp (RFC 7323 §5.3), but Linux may evaluate it
/// (`tcp_disordered_ack`).
#[test]
fn an_overtaken_acknowledgment_is_kept_from_the_sender() {
    let at_time = |packet, val, ecr| change(packet, |tcp| tcp.options.timestamps = Some(Timestamps { val, ecr }));
    let mut bench = Bench::stamping(SnoopConfig::gateway());
    for n in 0..6 {
        bench.wired(0, at_time(data(n), 100, u32::MAX - 10));
    }
    // The acknowledgment of 2 alone is lost, and this arrives before another duplicate.
    assert_eq!(bench.wireless(20, at_time(sack(2, &[(3, 5)]), 20, 100)).down, [(Cause::LocalHole, 2)]);
    // The sender has received it.
    bench.wired(21, at_time(data(6), 120, 20));
    let late = bench.wireless(22, at_time(sack(2, &[(3, 4)]), 19, 100));
    assert_eq!((late.up, late.events), (Vec::new(), [suppressed(2)].into()));
    // Linux might evaluate its SACK blocks as well if it is a tick too old.
    assert_eq!(bench.wireless(23, at_time(ack(1), 15, 100)).up, []);
    // Losses that are not repaired here are shown to the sender.
    bench.wireless(30, at_time(ack(7), 30, 120));
    bench.wired(31, at_time(data(7), 131, 30));
    assert_eq!(bench.wireless(32, at_time(ack(7), 29, 120)).up, [(Cause::New, 7)]);
}

/// Runs a download of 2 MB over the rig's hop at 1.5 Mbps.
fn download(late: Duration, loss: Loss, seed: u64) -> Outcome {
    let mut tcp = TcpConfig::preset(Preset::Linux618);
    (tcp.common.send_buffer, tcp.receiver.receive_buffer) = (1 << 20, 1 << 20);
    let base = Snoop::new(SnoopConfig::gateway());
    transfer_late(base, tcp, Duration::from_millis(5), (loss, Late(late)), 2_000_000, seed)
}

const NO_LOSS: Loss = Loss { mean_bytes: 1e12, burst: 1 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Tests some 1,400 packets with reordering of any extent.
    #[test]
    fn little_of_what_is_only_late_is_resent(late in 0_u64..80, seed in any::<u64>()) {
        let outcome = download(Duration::from_millis(late), NO_LOSS, seed);
        let local: u32 = outcome.local.values().sum();
        prop_assert!(local <= 140, "{late} ms: {outcome:?}");
        prop_assert!(outcome.timeouts == 0, "{late} ms: {outcome:?}");
    }

    /// Lost packets are repaired by the base station.
    #[test]
    fn what_is_lost_among_what_is_late_is_repaired_here(late in 0_u64..40, burst in 1_u32..4, seed in any::<u64>()) {
        let loss = Loss { mean_bytes: 100_000.0, burst };
        let outcome = download(Duration::from_millis(late), loss, seed);
        prop_assert!(outcome.source_resends <= outcome.lost / 4, "{late} ms: {outcome:?}");
    }
}

/// Returns a gateway with another connection.
fn gateway_for_two() -> Bench {
    let mut bench = gateway();
    bench.open(OTHER.0);
    bench
}

const OTHER: FlowId = FlowId(77);

fn other(packet: Packet) -> Packet {
    Packet { flow: OTHER, ..packet }
}

/// If packets of others arrive while a connection waits for its own, there is a queue: it waits a quarter longer than
/// theirs took.
#[test]
fn a_connection_waits_as_long_as_others_packets_take() {
    let repaired_at = |heard: bool| {
        let mut bench = gateway_for_two();
        send(&mut bench, 0, 0..2);
        bench.wired(0, other(data(0)));
        bench.wireless(10, ack(1));
        bench.wireless(11, ack(2));
        send(&mut bench, 20, 2..4);
        if heard {
            bench.wireless(40, other(ack(1)));
        }
        bench.idle_until(90).first().copied()
    };
    assert_eq!((repaired_at(false), repaired_at(true)), (Some(46), Some(70)));
}

/// In a silence copies are sent one by one to detect that the hop is up again. If another connection receives, the hop
/// is up, and only the timer resends.
#[test]
fn nobody_looks_for_the_end_of_a_silence_while_others_hear() {
    let copies = |heard: bool| {
        let mut bench = gateway_for_two();
        overtaken(&mut bench);
        // All four are lost.
        send(&mut bench, 20, 8..12);
        let mut at = Vec::new();
        for n in 0..28 {
            let millis = 20 + 10 * u64::from(n);
            at.extend(bench.idle_until(millis));
            bench.wired(millis, other(data(n)));
            if heard && n >= 3 {
                bench.wireless(millis, other(ack(n - 2)));
            }
        }
        at
    };
    let (alone, beside) = (copies(false), copies(true));
    assert!(alone.len() > 40, "{alone:?}");
    assert!(beside.len() <= 12, "{beside:?}");
}
