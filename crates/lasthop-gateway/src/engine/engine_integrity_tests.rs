//! Integrity: damaged packets pass and change no state, and revised or retransmitted packets keep the state of their
//! checksum.

use lasthop_proto::packet::{Options, SackBlock, Segment};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Checksum, Checksums, Route, build, checksums, pieces};
use proptest::prelude::*;

use super::properties::{Step, step};
use super::tests::{Bench, MSS, V4, V6, ack_of, data, only, payload, seq};
use super::*;
use crate::engine::rules::Mode;

fn intact(packet: &[u8]) -> bool {
    checksums(packet, &parse(packet).unwrap(), Checksum::Complete) == Checksums::Hold
}

/// Returns whether no checksum covers the byte: the IPv6 header except its addresses.
fn unguarded(ends: [&str; 2], at: usize) -> bool {
    ends == V6 && at < 8
}

#[test]
fn damage_anywhere_passes_and_changes_nothing() {
    for ends in [V4, V6] {
        let mut bench = Bench::opened(Mode::Snoop, ends);
        (0..4).for_each(|n| bench.data(n));
        let packets = [
            (Port::WIRED, bench.bytes(Port::WIRED, data(4), &payload(4, 1)[..40])),
            // Undamaged, they would be absorbed, cause a repair, and acknowledge data.
            (Port::WIRED, bench.bytes(Port::WIRED, data(0), &payload(0, 1)[..40])),
            (Port::WIRELESS, bench.bytes(Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(3))]), b"")),
            (Port::WIRELESS, bench.bytes(Port::WIRELESS, Segment { flags: Flags::RST, ..ack_of(seq(1), &[]) }, b"")),
        ];
        let before = format!("{:?}", bench.engine.flows);
        let (mut damaged, mut unread) = (0, 0);
        for (port, packet) in &packets {
            for at in 0..packet.len() {
                for bit in 0..8 {
                    let mut packet = packet.clone();
                    packet[at] ^= 1 << bit;
                    if unguarded(ends, at) {
                        continue;
                    }
                    match parse(&packet) {
                        Some(_) => damaged += 1,
                        None => unread += 1,
                    }
                    let verdict =
                        bench.engine.handle_packet(bench.now, *port, &packet, bench.offloaded, &mut bench.out);
                    assert_eq!((verdict, &bench.out[..]), (Verdict::Accept, &[][..]), "bit {bit} of byte {at}");
                }
            }
        }
        assert_eq!(format!("{:?}", bench.engine.flows), before);
        let counters = bench.engine.counters();
        assert_eq!((counters.damaged, counters.unread), (damaged, unread));
        assert!(damaged > 1_500 && counters.rules[0].packets == [5, 2], "{counters:?}");
        // The treatment continues as if the damaged packets had not arrived.
        let (verdict, sent) = bench.ack(seq(1), &[(seq(2), seq(3))]);
        assert!(matches!(verdict, Verdict::Replace(_)), "{verdict:?}");
        assert!(sent.len() == 1 && intact(&sent[0].packet));
    }
}

#[test]
fn what_is_revised_carries_its_checksum_on_and_what_is_pending_gets_one() {
    for ends in [V4, V6] {
        for pending in [false, true] {
            let mut bench = Bench::opened(Mode::Snoop, ends);
            (0..6).for_each(|n| bench.data(n));
            let mut packet = bench.bytes(Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(3))]), b"");
            let field = parse(&packet).unwrap().ip_len + 16;
            if pending {
                packet[field..field + 2].copy_from_slice(&[0x12, 0x34]);
                bench.offloaded.checksum = Checksum::Pending;
            }
            let (verdict, _) = bench.take(Port::WIRELESS, &packet);
            let Verdict::Replace(revised) = verdict else { panic!("{verdict:?}") };
            assert!(intact(&revised));
            let view = parse(&revised).unwrap();
            assert!(pieces(&revised, &view, usize::MAX).iter().eq([&revised]));
        }
    }
}

#[test]
fn what_is_sent_again_is_byte_for_byte_what_was_verified() {
    for ends in [V4, V6] {
        for checksum in [Checksum::Complete, Checksum::Pending] {
            let mut bench = Bench::opened(Mode::Snoop, ends);
            let mut packet = bench.bytes(Port::WIRED, data(0), &payload(0, 1));
            let original = packet.clone();
            if checksum == Checksum::Pending {
                let field = parse(&packet).unwrap().ip_len + 16;
                packet[field..field + 2].copy_from_slice(&[0xab, 0xcd]);
            }
            // Bytes behind the packet in the buffer are not part of it.
            packet.extend_from_slice(&[0xee; 7]);
            bench.offloaded.checksum = checksum;
            assert_eq!(bench.take(Port::WIRED, &packet), (Verdict::Accept, vec![]));
            bench.offloaded.checksum = Checksum::Complete;
            bench.data(1);
            let (_, sent) = bench.ack(seq(0), &[(seq(1), seq(2))]);
            assert_eq!(sent.iter().map(|sent| &sent.packet).collect::<Vec<_>>(), [&original]);
        }
    }
}

/// An unverified super-segment must be valid as a whole.
#[test]
fn a_super_segment_with_the_checksum_of_its_first_part_passes_uncached() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    let mut whole = bench.bytes(Port::WIRED, data(0), &payload(0, 10));
    let first = pieces(&whole, &parse(&whole).unwrap(), MSS as usize).swap_remove(0);
    whole[36..38].copy_from_slice(&first[36..38]);
    let held = bench.engine.counters().held_bytes;
    assert_eq!(bench.take(Port::WIRED, &whole), (Verdict::Accept, vec![]));
    assert_eq!((bench.engine.counters().held_bytes, bench.engine.counters().damaged), (held, 1));
    bench.offloaded.checksum = Checksum::Pending;
    assert_eq!(bench.take(Port::WIRED, &whole), (Verdict::Accept, vec![]));
    assert!(bench.engine.counters().held_bytes > held + 10_000);
}

/// RFC 9293 §3.10.7.4 judges a segment as a whole. A segment that starts before the stream is not acceptable, although
/// pieces of it may lie within the stream.
#[test]
fn a_super_segment_that_the_receiver_refuses_is_not_cut_into_pieces_that_it_takes() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    (0..4).for_each(|n| bench.data(n));
    bench.ack(seq(3), &[]);
    let before = bench.counters();
    let early = Segment { seq: data(0).seq - MSS, ..data(4) };
    bench.passes(Port::WIRED, early, &payload(0, 5));
    let after = bench.counters();
    assert_eq!((after.absorbed, after.local_acks, after.cached_bytes), (before.absorbed, 0, before.cached_bytes));
    assert_eq!(bench.engine.counters().out_of_window, 1);
}

/// Returns a packet whose timestamps option has another kind.
fn strange(bench: &Bench, kind: u8, port: Port, segment: Segment, bytes: &[u8]) -> Vec<u8> {
    let mut packet = bench.bytes(port, segment, bytes);
    let view = parse(&packet).unwrap();
    // NOP NOP 8 10 ... becomes NOP NOP `kind` 10 ...
    let at = packet[view.ip_len + 20..].windows(2).position(|option| option == [8, 10]).unwrap();
    lasthop_wire::amend(&mut packet, &view, |tcp| tcp[20 + at] = kind);
    packet
}

/// The mechanism and the engine track the same state of the connection.
#[test]
fn what_passes_with_an_option_that_protects_it_counts_as_sent_and_acknowledged() {
    for guarded in [true, false] {
        let mut bench = Bench::opened(Mode::Snoop, V4);
        bench.data(0);
        let held = bench.engine.counters().held_bytes;
        let mut options = data(1).options;
        // SACK blocks in data, which become TCP-AO if `guarded`.
        options.sack.push(SackBlock { left: Seq(1), right: Seq(2) });
        let second = Segment { options, ..data(1) };
        let mut packet = bench.bytes(Port::WIRED, second, &payload(1, 1));
        if guarded {
            let view = parse(&packet).unwrap();
            let at = packet[view.ip_len + 20..].windows(2).position(|option| option == [5, 10]).unwrap();
            lasthop_wire::amend(&mut packet, &view, |tcp| tcp[20 + at] = 29);
        }
        assert_eq!(bench.take(Port::WIRED, &packet), (Verdict::Accept, vec![]));
        assert_eq!(bench.engine.counters().held_bytes > held, !guarded);
        assert_eq!(bench.ack(seq(2), &[]).0, Verdict::Accept);
        // The data are acknowledged, so the gateway answers the sender.
        let (verdict, sent) = bench.give(Port::WIRED, data(0), &payload(0, 1));
        assert_eq!((verdict, sent.len()), (Verdict::Drop, 1));
        assert_eq!(parse(&sent[0].packet).unwrap().segment.ack, Seq(seq(2)));
    }
}

#[test]
fn a_stranger_with_an_option_that_protects_ends_nobodys_treatment() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    (0..2).for_each(|n| bench.data(n));
    let held = bench.engine.counters().held_bytes;
    for (port, segment, bytes) in
        [(Port::WIRED, data(2), payload(2, 1)), (Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(3))]), vec![])]
    {
        let packet = strange(&bench, 19, port, segment, &bytes);
        assert_eq!(bench.take(port, &packet), (Verdict::Accept, vec![]));
    }
    assert_eq!(bench.engine.counters().held_bytes, held);
    assert_eq!(bench.ack(seq(0), &[(seq(1), seq(2))]).1.len(), 1);
    // If both SYNs have the option, all segments pass untreated; otherwise only those that have it.
    for (answers, repairs) in [(true, 0), (false, 1)] {
        let mut bench = Bench::new(Mode::Snoop, V4);
        let open = Options {
            mss: Some(1460),
            sack_permitted: true,
            timestamps: data(0).options.timestamps,
            ..Options::default()
        };
        let syn = |seq, ack, flags| Segment { seq: Seq(seq), ack: Seq(ack), window: 64_000, flags, options: open };
        let first = strange(&bench, 29, Port::WIRELESS, syn(0, 0, Flags::SYN), b"");
        let answer = syn(1000, 1, Flags::SYN.with(Flags::ACK));
        let second =
            if answers { strange(&bench, 29, Port::WIRED, answer, b"") } else { bench.bytes(Port::WIRED, answer, b"") };
        assert_eq!(bench.take(Port::WIRELESS, &first), (Verdict::Accept, vec![]));
        assert_eq!(bench.take(Port::WIRED, &second), (Verdict::Accept, vec![]));
        bench.passes(Port::WIRELESS, ack_of(1001, &[]), b"");
        (0..2).for_each(|n| bench.data(n));
        assert_eq!(bench.ack(seq(0), &[(seq(1), seq(2))]).1.len(), repairs);
    }
}

/// RFC 5961 §3.2: a reset is judged by its own number, not by those of the pieces that a driver splits super-segments
/// into.
#[test]
fn a_reset_is_judged_whole() {
    for ends in [V4, V6] {
        let mut bench = Bench::opened(Mode::Snoop, ends);
        (0..2).for_each(|n| bench.data(n));
        // The second part starts at the next number of the stream, the first at the last acknowledged one.
        for from in [0, 1] {
            let flags = Flags::RST.with(Flags::ACK);
            bench.passes(Port::WIRED, Segment { flags, ..data(from) }, &payload(from, 3));
        }
        let (verdict, sent) = bench.ack(seq(0), &[(seq(1), seq(2))]);
        assert_eq!((verdict, sent.len()), (Verdict::Drop, 1));
        // At the next number it ends the connection, regardless of its length.
        bench.passes(Port::WIRED, Segment { flags: Flags::RST, ..data(2) }, &payload(2, 3));
        assert_eq!(bench.engine.counters().rules[0].cached_bytes, 0);
    }
}

/// RFC 5961 §3.2: a reset at the number last acknowledged, with data in flight, may come from an off-path attacker. If
/// the sender sent it, the receiver answers the next repair with a reset, which ends repairs. Without an answer they
/// end as well.
#[test]
fn a_reset_below_what_is_under_way_is_left_to_the_receiver() {
    for answers in [true, false] {
        let mut bench = Bench::opened(Mode::Snoop, V4);
        (0..2).for_each(|n| bench.data(n));
        bench.passes(Port::WIRED, Segment { flags: Flags::RST, ..data(0) }, b"");
        let mut repairs = 0;
        for _ in 0..1_000 {
            for sent in bench.wait(100) {
                repairs += 1;
                let view = parse(&sent.packet).unwrap();
                assert!(sent.towards == Port::WIRELESS && view.segment.ack == Seq(1), "{view:?}");
                if answers {
                    bench.passes(Port::WIRELESS, Segment { flags: Flags::RST, ..ack_of(0, &[]) }, b"");
                }
            }
        }
        assert!(if answers { repairs == 1 } else { (1..50).contains(&repairs) }, "{repairs} repairs");
        assert_eq!(bench.wait(600_000), []);
    }
}

/// Packets may bypass the gateway and move both ends' numbers. It then rebuilds its state from the packets it sees,
/// which may be spoofed.
#[test]
fn after_a_gap_no_strangers_bytes_are_kept() {
    for ends in [V4, V6] {
        let mut bench = Bench::opened(Mode::Snoop, ends);
        (0..2).for_each(|n| bench.data(n));
        let held = bench.engine.counters().held_bytes;
        for n in 0..8 {
            // Acknowledgments that advance: a repeated one proves nothing.
            bench.passes(Port::WIRELESS, ack_of(seq(13 + n), &[]), b"");
            bench.passes(Port::WIRED, Segment { options: data(0).options, ..data(200 + n) }, &payload(200 + n, 1));
        }
        assert!(bench.engine.counters().held_bytes <= held);
        assert_eq!(bench.engine.counters().rules[0].cached_bytes, 0);
        // The connection itself is treated again.
        (20..24).for_each(|n| bench.data(n));
        let (verdict, sent) = bench.ack(seq(20), &[(seq(21), seq(22))]);
        assert_eq!(verdict, Verdict::Drop);
        assert_eq!(only(&sent).2, payload(20, 1));
    }
}

/// Flips bits until a checksum is wrong.
fn damage(packet: &mut [u8], flips: &[(prop::sample::Index, u8)]) -> bool {
    for (at, bit) in flips {
        packet[at.index(packet.len())] ^= 1 << bit;
    }
    parse(packet).is_some_and(|view| checksums(packet, &view, Checksum::Complete) != Checksums::Hold)
}

/// Returns an engine's answers to packets; the engine handles a timeout after each.
fn answers(steps: &[(Step, bool)]) -> Vec<(Verdict, Vec<Injection>)> {
    let mut engine = Engine::new(EngineConfig { flows: 8, ..EngineConfig::new(vec![Rule::all("r", Mode::Snoop)]) }, 3);
    let (mut now, mut said) = (Instant::ZERO, Vec::new());
    for (step, counts) in steps {
        let mut out = Vec::new();
        let verdict = match step {
            Step::Wait(nanos) => {
                now += Duration::from_nanos(*nanos);
                engine.handle_timeout(now, &mut out);
                Verdict::Accept
            }
            Step::Packet(port, bytes) => engine.handle_packet(now, *port, bytes, Offloaded::NOTHING, &mut out),
        };
        match counts {
            true => said.push((verdict, out)),
            false => assert_eq!((verdict, out), (Verdict::Accept, vec![])),
        }
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Damaged copies among the packets do not change the answers.
    #[test]
    fn damaged_packets_leave_no_trace(
        steps in prop::collection::vec((step(), prop::option::of(prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..9))), 1..120),
    ) {
        let mut mixed = Vec::new();
        for (step, flips) in &steps {
            if let (Step::Packet(port, bytes), Some(flips)) = (step, flips) && !bytes.is_empty() {
                let mut copy = bytes.clone();
                if damage(&mut copy, flips) {
                    mixed.push((Step::Packet(*port, copy), false));
                }
            }
            mixed.push((step.clone(), true));
        }
        let clean: Vec<_> = steps.into_iter().map(|(step, _)| (step, true)).collect();
        prop_assert_eq!(answers(&mixed), answers(&clean));
    }

    /// The checksum of a revised or retransmitted packet equals one computed over its bytes.
    #[test]
    fn a_carried_checksum_is_the_computed_one(seed in any::<[u8; 40]>(), window: u16, len in 0usize..60, v6: bool) {
        let number = |at: usize| u32::from_be_bytes([seed[at], seed[at + 1], seed[at + 2], seed[at + 3]]);
        let mut options = Options::default();
        options.sack.push(SackBlock { left: Seq(number(0)), right: Seq(number(4)) });
        options.timestamps = Some(lasthop_proto::packet::Timestamps { val: number(8), ecr: number(12) });
        let segment = Segment { seq: Seq(number(16)), ack: Seq(number(20)), window: 0, flags: Flags::ACK, options };
        let [from, to] = if v6 { V6 } else { V4 }.map(|end| end.parse().unwrap());
        let packet = build(Route { source: from, destination: to }, &segment, &seed[..len.min(40)]).unwrap();
        let view = parse(&packet).unwrap();
        let changed = Segment { window, options: Options::default(), ..segment };
        let revised = lasthop_wire::revise(&packet, &view, &changed, Checksum::Complete);
        prop_assert_eq!(&revised, &lasthop_wire::revise(&packet, &view, &changed, Checksum::Pending));
        // A wrong checksum stays wrong.
        let mut damaged = packet;
        let at = damaged.len() - 1;
        damaged[at] ^= 0x40;
        prop_assert!(!intact(&lasthop_wire::revise(&damaged, &view, &changed, Checksum::Complete)));
    }
}
