//! Hosts that are silent or have left, and packets that exceed the path MTU.

use alloc::vec::Vec;

use super::tests::{Bench, ISN, ack, at, change, data, segment};
use super::*;
use crate::node::{Output, pump};
use crate::packet::{SackBlock, Side};

/// Returns how many packets the timers resend on each of `silent` connections while another one receives every 10 ms,
/// and how many on that one.
fn resent_in(seconds: u64, silent: u32) -> (Vec<usize>, usize) {
    let mut bench = Bench::with(SnoopConfig::gateway());
    let of = |flow: u32, packet: Packet| Packet { flow: FlowId(flow), ..packet };
    for flow in 0..silent {
        bench.open(100 + flow);
        (0..10).for_each(|n| drop(bench.wired(1, of(100 + flow, data(n)))));
    }
    let (mut resent, mut other) = (alloc::vec![0; silent as usize], 0);
    let count = |resent: &mut Vec<usize>, other: &mut usize, now: Instant, bench: &mut Bench| {
        pump(&mut bench.snoop, now, |output| {
            if let Output::Transmit(Port::WIRELESS, Why::Repair(_), packet) = output {
                match packet.flow.0.checked_sub(100) {
                    Some(flow) => resent[flow as usize] += 1,
                    None => *other += 1,
                }
            }
        });
    };
    for n in 0..(seconds * 100) as u32 {
        let now = u64::from(n) * 10 + 10;
        for (when, port, packet) in [(now, Port::WIRED, data(n)), (now + 5, Port::WIRELESS, ack(n + 1))] {
            while let Some(due) = bench.snoop.poll_deadline().filter(|&due| due <= at(when)) {
                bench.snoop.handle_timeout(due);
                count(&mut resent, &mut other, due, &mut bench);
            }
            bench.snoop.handle_packet(at(when), port, packet);
            count(&mut resent, &mut other, at(when), &mut bench);
        }
    }
    (resent, other)
}

/// Each is retried a few times. All together they get a part of what the other one's arrivals earn, not each as much as
/// it would alone.
#[test]
fn silent_connections_are_tried_seldom_while_others_hear() {
    for silent in [40, 150] {
        let (resent, other) = resent_in(14, silent);
        let sum: usize = resent.iter().sum();
        assert_eq!(other, 0);
        assert!(resent.iter().all(|&times| times >= 3), "{resent:?}");
        assert!(sum <= 7 * silent as usize + 64 + 1400 / 64, "{sum} of {silent}");
    }
}

/// Returns a packet of `len` bytes starting at byte `from`.
fn piece(from: u32, len: u32) -> Packet {
    let header = Segment { seq: ISN + from, window: 5000, flags: crate::packet::Flags::ACK, ..Segment::default() };
    segment(Side::Initiator, len, header)
}

/// Returns an acknowledgment of all up to byte `upto`, with these blocks.
fn bytes(upto: u32, blocks: &[(u32, u32)]) -> Packet {
    change(ack(0), |segment| {
        segment.ack = ISN + upto;
        (segment.window, segment.flags) = (50_000, crate::packet::Flags::ACK);
        for &(from, to) in blocks {
            segment.options.sack.push(SackBlock { left: ISN + from, right: ISN + to });
        }
    })
}

/// Returns the packets that leave for the hop: whether it is a repair, first byte, and length.
fn leaving(snoop: &mut Snoop<()>, now: Instant) -> Vec<(bool, u32, u32)> {
    let mut gone = Vec::new();
    pump(snoop, now, |output| {
        if let Output::Transmit(Port::WIRELESS, why, packet) = output {
            let from = packet.tcp().unwrap().seq.since(ISN);
            gone.push((matches!(why, Why::Repair(_)), from, packet.len));
        }
    });
    gone
}

fn wired(bench: &mut Bench, ms: u64, packet: Packet) -> Vec<(bool, u32, u32)> {
    bench.snoop.handle_packet(at(ms), Port::WIRED, packet);
    leaving(&mut bench.snoop, at(ms))
}

fn wireless(bench: &mut Bench, ms: u64, packet: Packet) -> (Disposition, Vec<(bool, u32, u32)>) {
    let fate = bench.snoop.handle_packet(at(ms), Port::WIRELESS, packet);
    (fate, leaving(&mut bench.snoop, at(ms)))
}

fn wait(bench: &mut Bench, until: u64) -> Vec<(bool, u32, u32)> {
    let mut gone = Vec::new();
    while let Some(due) = bench.snoop.poll_deadline().filter(|&due| due <= at(until)) {
        bench.snoop.handle_timeout(due);
        gone.extend(leaving(&mut bench.snoop, due));
    }
    gone
}

/// Returns a bench on which packets of 1000 bytes are lost after 20 ms, since the path MTU has decreased.
fn behind_a_black_hole() -> Bench {
    let mut bench = Bench::with(SnoopConfig::gateway());
    wired(&mut bench, 0, piece(0, 1000));
    wireless(&mut bench, 10, bytes(1000, &[]));
    for n in 1..5 {
        assert_eq!(wired(&mut bench, 20, piece(1000 * n, 1000)), [(false, 1000 * n, 1000)]);
    }
    let repairs = wait(&mut bench, 2000);
    assert!(repairs.iter().filter(|(_, from, _)| *from == 1000).count() >= 3, "{repairs:?}");
    bench
}

/// The sender detects the black hole itself (RFC 4821, RFC 8899), and sends smaller segments: the large copies are not
/// resent, the small ones pass, and are repaired.
#[test]
fn behind_a_black_hole_the_senders_smaller_segments_pass_and_are_repaired() {
    let mut bench = behind_a_black_hole();
    assert_eq!(wired(&mut bench, 2000, piece(1000, 500)), [(false, 1000, 500)]);
    let (fate, gone) = wireless(&mut bench, 2010, bytes(1500, &[]));
    assert_eq!((fate, gone), (Disposition::Forwarded, Vec::new()));
    for n in 0..7 {
        let from = 1500 + 500 * n;
        assert_eq!(wired(&mut bench, 2020, piece(from, 500)), [(false, from, 500)]);
    }
    // The first of these is lost.
    let (fate, gone) = wireless(&mut bench, 2030, bytes(1500, &[(2000, 2500)]));
    assert_eq!((fate, gone), (Disposition::Absorbed, [(true, 1500, 500)].into()));
    wireless(&mut bench, 2040, bytes(5000, &[]));
    assert!(wait(&mut bench, 4000).is_empty());
}

/// A sender that goes back to the middle of one of its packets still sends segments of the same size. That is no search
/// for a smaller size, and the following segments are cached for repairs.
#[test]
fn segments_of_the_same_size_with_other_bounds_are_kept() {
    let mut bench = behind_a_black_hole();
    wired(&mut bench, 2000, piece(1500, 1000));
    let before = bench.snoop.cached_bytes();
    wired(&mut bench, 2010, piece(6000, 1000));
    assert_eq!(bench.snoop.cached_bytes(), before + 1000);
}

/// Smaller segments arrive, for example from a sender with other data to send, and none as large: the losses of the
/// large ones are shown to the sender.
#[test]
fn what_is_too_large_is_left_to_the_sender() {
    let mut bench = Bench::with(SnoopConfig::gateway());
    wired(&mut bench, 0, piece(0, 1000));
    wireless(&mut bench, 10, bytes(1000, &[]));
    wired(&mut bench, 20, piece(1000, 1000));
    let (mut large, mut fates) = (0, Vec::new());
    for n in 0..12 {
        let (from, now) = (2000 + 100 * n, 20 + 30 * u64::from(n));
        large += wait(&mut bench, now).iter().filter(|(_, _, len)| *len == 1000).count();
        wired(&mut bench, now, piece(from, 100));
        let (fate, gone) = wireless(&mut bench, now + 10, bytes(1000, &[(2000, from + 100)]));
        large += gone.iter().filter(|(_, _, len)| *len == 1000).count();
        fates.push(fate);
    }
    assert!((3..=5).contains(&large), "{large} repairs");
    assert_eq!(fates.first(), Some(&Disposition::Absorbed));
    assert!(fates.ends_with(&[Disposition::Forwarded; 4]), "{fates:?}");
    // The sender's own pass, uncached; after one has arrived, the next is cached again.
    let before = bench.snoop.cached_bytes();
    assert_eq!(wired(&mut bench, 500, piece(1000, 1000)), [(false, 1000, 1000)]);
    assert_eq!(bench.snoop.cached_bytes(), before);
    wireless(&mut bench, 510, bytes(3200, &[]));
    wait(&mut bench, 519);
    assert_eq!(bench.snoop.cached_bytes(), 0);
    wired(&mut bench, 520, piece(3200, 1000));
    assert_eq!(bench.snoop.cached_bytes(), 1000);
}

/// Without flow control, a sender that sees no loss fills the queue, and packets dropped there are repaired over and
/// over. While the queue is nearly at its maximum, losses are shown to the sender as well, so that it slows down.
#[test]
fn without_flow_control_the_sender_hears_of_losses_in_a_full_queue() {
    for (last, fate) in [(100, Disposition::Forwarded), (20, Disposition::Absorbed)] {
        let mut bench = Bench::with(SnoopConfig { hop: None, ..SnoopConfig::gateway() });
        // Blocks have been seen.
        (0..3).for_each(|n| drop(wired(&mut bench, 0, data(n))));
        wireless(&mut bench, 10, bytes(0, &[(100, 200)]));
        wireless(&mut bench, 20, bytes(300, &[]));
        let (mut now, mut n) = (20, 3);
        let fills = (0..12).map(|step| 10 + 8 * step);
        for trip in fills.chain([last; 40]) {
            wired(&mut bench, now, data(n));
            wait(&mut bench, now + trip - 1);
            now += trip;
            n += 1;
            wireless(&mut bench, now, bytes(100 * n, &[]));
        }
        (n..n + 3).for_each(|n| drop(wired(&mut bench, now, data(n))));
        let told = wireless(&mut bench, now + last, bytes(100 * n, &[(100 * n + 100, 100 * n + 200)]));
        assert_eq!(told, (fate, [(true, 100 * n, 100)].into()), "repaired either way");
    }
}
