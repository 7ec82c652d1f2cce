//! TCP options that the engine does not read, and ECN flags: they pass unchanged, and the sender gets every signal in
//! them.

use super::tests::{Bench, V4, V6, ack_of, data, only, payload, seq};
use super::*;
use crate::engine::rules::Mode;
use lasthop_proto::packet::{Options, Segment};

/// Returns an AccECN option of order 0 (RFC 9768 §3.2.3): three byte counters, the second one of bytes marked CE.
fn accecn(marked: u8, plain: u8) -> [u8; 12] {
    [172, 11, 0, 0, plain, 0, 0, marked, 0, 0, 1, 1]
}

/// Returns a data sequence signal of Multipath TCP with only a data acknowledgment (RFC 8684 §3.3.2).
fn data_ack(number: u8) -> [u8; 8] {
    [30, 8, 0x20, 0x01, 0, 0, 0, number]
}

/// Appends options to those of a packet and computes its checksums.
fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    let view = parse(packet).unwrap();
    let mut bytes = packet[..view.header_len].to_vec();
    bytes.extend_from_slice(options);
    bytes.extend_from_slice(&packet[view.header_len..]);
    bytes[view.ip_len + 12] += (options.len() / 4 * 16) as u8;
    let len = if view.route.source.is_ipv4() { (2, bytes.len()) } else { (4, bytes.len() - view.ip_len) };
    bytes[len.0..len.0 + 2].copy_from_slice(&(len.1 as u16).to_be_bytes());
    let view = parse(&bytes).unwrap();
    lasthop_wire::seal(&mut bytes, &view);
    bytes
}

impl Bench {
    /// Opens a connection with an MSS that leaves space for some options in addition to 1448 bytes.
    fn roomy(ends: [&str; 2]) -> Self {
        let mut bench = Self::new(Mode::Snoop, ends);
        bench.open_with(Some(1500));
        bench
    }

    fn ack_with(&mut self, seq: u32, blocks: &[(u32, u32)], options: &[u8]) -> (Verdict, Vec<Injection>) {
        let packet = with_options(&self.bytes(Port::WIRELESS, ack_of(seq, blocks), b""), options);
        self.take(Port::WIRELESS, &packet)
    }

    fn data_with(&mut self, n: u32, options: &[u8]) -> Vec<u8> {
        let packet = with_options(&self.bytes(Port::WIRED, data(n), &payload(n, 1)), options);
        assert_eq!(self.take(Port::WIRED, &packet), (Verdict::Accept, vec![]));
        packet
    }
}

/// Returns the packet that replaced an acknowledgment.
fn replaced(verdict: Verdict) -> (Segment, Vec<u8>) {
    let Verdict::Replace(packet) = verdict else { panic!("{verdict:?}") };
    let view = parse(&packet).unwrap();
    assert!(lasthop_wire::pieces(&packet, &view, usize::MAX).iter().eq([&packet]), "its checksums are right");
    (view.segment, packet)
}

#[test]
fn a_loss_of_data_with_unknown_options_is_repaired_with_them() {
    for ends in [V4, V6] {
        for options in [&accecn(0, 1)[..], &data_ack(7), &[76, 4, 1, 2], &[253, 4, 0xf9, 0x89]] {
            let mut bench = Bench::roomy(ends);
            let sent: Vec<_> = (0..3).map(|n| bench.data_with(n, options)).collect();
            let (_, repairs) = bench.ack_with(seq(1), &[(seq(2), seq(3))], options);
            let (towards, segment, bytes) = only(&repairs);
            assert_eq!((towards, segment.seq.0, bytes), (Port::WIRELESS, seq(1), payload(1, 1)), "{options:?}");
            assert_eq!(repairs[0].packet, sent[1], "bit for bit");
            assert_eq!((bench.counters().repairs.hole, bench.counters().packets_guarded), (1, 0));
        }
    }
}

#[test]
fn pieces_of_a_super_segment_have_all_its_options() {
    let mut bench = Bench::roomy(V4);
    let whole = with_options(&bench.bytes(Port::WIRED, data(0), &payload(0, 8)), &data_ack(1));
    assert_eq!(bench.take(Port::WIRED, &whole), (Verdict::Accept, vec![]));
    // The segments' payload is shorter by the option's length.
    let size = 1500 - 12 - 8;
    let (_, sent) = bench.ack(1001 + 3 * size, &[(1001 + 4 * size, seq(8))]);
    let (_, segment, _) = only(&sent);
    assert_eq!(segment.seq.0, 1001 + 3 * size);
    let view = parse(&sent[0].packet).unwrap();
    assert_eq!(view.option_bytes(&sent[0].packet)[12..], data_ack(1));
}

/// A duplicate with known signals is withheld from the sender; with other signals it passes without its blocks.
#[test]
fn a_duplicate_with_other_signals_passes_without_its_blocks() {
    for ends in [V4, V6] {
        let mut bench = Bench::roomy(ends);
        (0..8).for_each(|n| drop(bench.data_with(n, &accecn(0, 0))));
        assert_eq!(bench.ack_with(seq(1), &[], &accecn(0, 1)), (Verdict::Accept, vec![]));
        let known = bench.ack_with(seq(1), &[(seq(2), seq(3))], &accecn(0, 1));
        assert_eq!((known.0, known.1.len()), (Verdict::Drop, 1), "the repair");
        let (verdict, _) = bench.ack_with(seq(1), &[(seq(2), seq(4))], &accecn(1, 1));
        let (segment, packet) = replaced(verdict);
        assert_eq!((segment.ack.0, segment.options.sack.is_empty()), (seq(1), true));
        let view = parse(&packet).unwrap();
        assert!(view.option_bytes(&packet).ends_with(&accecn(1, 1)));
        assert_eq!(bench.ack_with(seq(1), &[(seq(2), seq(5))], &accecn(1, 1)).0, Verdict::Drop, "it is known now");
        assert_eq!(bench.counters().dup_acks_suppressed, 2);
    }
}

#[test]
fn a_data_acknowledgment_on_a_duplicate_reaches_the_sender() {
    let mut bench = Bench::roomy(V4);
    (0..6).for_each(|n| drop(bench.data_with(n, &data_ack(1))));
    bench.ack_with(seq(1), &[], &data_ack(1));
    assert_eq!(bench.ack_with(seq(1), &[(seq(2), seq(3))], &data_ack(1)).0, Verdict::Drop);
    let (segment, packet) = replaced(bench.ack_with(seq(1), &[(seq(2), seq(4))], &data_ack(2)).0);
    assert!(segment.options.sack.is_empty() && packet.ends_with(&data_ack(2)));
}

/// The three bits of AccECN's counter (RFC 9768 §3.2.2), and the echo of RFC 3168.
#[test]
fn a_duplicate_with_another_echo_passes_without_its_blocks() {
    let counts = [Flags::AE.with(Flags::ECE), Flags::AE.with(Flags::CWR), Flags::AE.with(Flags::CWR).with(Flags::ECE)];
    for echoes in [counts, [Flags(0), Flags::ECE, Flags(0)]] {
        let mut bench = Bench::roomy(V4);
        (0..8).for_each(|n| bench.data(n));
        let echo = |flags: Flags, blocks: &[(u32, u32)]| {
            let ack = ack_of(seq(1), blocks);
            Segment { flags: ack.flags.with(flags), ..ack }
        };
        bench.passes(Port::WIRELESS, echo(echoes[0], &[]), b"");
        assert_eq!(bench.give(Port::WIRELESS, echo(echoes[0], &[(seq(2), seq(3))]), b"").0, Verdict::Drop);
        for (n, flags) in (4..).zip([echoes[1], echoes[2]]) {
            let (verdict, _) = bench.give(Port::WIRELESS, echo(flags, &[(seq(2), seq(n))]), b"");
            assert_eq!(replaced(verdict).0, echo(flags, &[]));
            let again = bench.give(Port::WIRELESS, echo(flags, &[(seq(2), seq(n + 1))]), b"");
            assert_eq!(again.0, Verdict::Drop);
        }
    }
}

/// The sender would take an echo older than the last one it has seen for new marks.
#[test]
fn old_data_is_not_answered_with_signals_of_the_past() {
    let echo = |flags: Flags, at: u32, blocks: &[(u32, u32)]| {
        let ack = ack_of(at, blocks);
        Segment { flags: ack.flags.with(flags), ..ack }
    };
    let (five, six) = (Flags::AE.with(Flags::ECE), Flags::AE.with(Flags::CWR));
    let mut bench = Bench::roomy(V4);
    (0..8).for_each(|n| bench.data(n));
    bench.passes(Port::WIRELESS, echo(five, seq(4), &[]), b"");
    let (verdict, sent) = bench.give(Port::WIRED, data(1), &payload(1, 1));
    assert_eq!((verdict, only(&sent).1), (Verdict::Drop, echo(five, seq(4), &[])));
    bench.give(Port::WIRELESS, echo(six, seq(4), &[(seq(5), seq(6))]), b"");
    bench.passes(Port::WIRED, data(1), &payload(1, 1));
    // Options that request an action are not repeated either.
    let mut bench = Bench::roomy(V4);
    (0..8).for_each(|n| bench.data(n));
    bench.ack_with(seq(4), &[], &data_ack(1));
    bench.passes(Port::WIRED, data(1), &payload(1, 1));
}

/// TCP-MD5 and TCP-AO in both SYNs.
#[test]
fn connections_that_options_protect_pass_and_are_counted() {
    for kind in [19, 29] {
        let mut guard = vec![kind, 18];
        guard.resize(20, 1);
        let mut bench = Bench::new(Mode::Snoop, V4);
        let signed = |bench: &Bench, port, segment, bytes: &[u8]| {
            let mut packet = bench.bytes(port, Segment { options: Default::default(), ..segment }, bytes);
            packet = with_options(&packet, &guard);
            packet
        };
        let syn = |at, ack, flags| Segment { seq: at, ack, flags, ..ack_of(0, &[]) };
        let first = lasthop_proto::seq::Seq;
        let opening = [
            (Port::WIRELESS, syn(first(0), first(0), Flags::SYN)),
            (Port::WIRED, syn(first(1000), first(1), Flags::SYN.with(Flags::ACK))),
            (Port::WIRELESS, ack_of(1001, &[])),
        ];
        for (port, segment) in opening {
            let packet = signed(&bench, port, segment, b"");
            assert_eq!(bench.take(port, &packet), (Verdict::Accept, vec![]));
        }
        for n in 0..4 {
            let packet = signed(&bench, Port::WIRED, data(n), &payload(n, 1));
            assert_eq!(bench.take(Port::WIRED, &packet), (Verdict::Accept, vec![]));
        }
        for _ in 0..4 {
            let packet = signed(&bench, Port::WIRELESS, ack_of(seq(1), &[]), b"");
            assert_eq!(bench.take(Port::WIRELESS, &packet), (Verdict::Accept, vec![]));
        }
        assert_eq!(bench.wait(3_000), []);
        let counters = bench.counters();
        assert_eq!(
            (counters.packets_guarded, counters.flows_guarded, counters.cached_bytes),
            (10, 1, 0),
            "kind {kind}"
        );
    }
}

/// With AccECN, CWR is a counter bit (RFC 9768 §3.1), which each piece of a segment repeats; otherwise only the first
/// piece has it.
#[test]
fn a_counter_of_marks_is_in_each_piece() {
    let offer = Flags::SYN.with(Flags::AE).with(Flags::CWR).with(Flags::ECE);
    for (answer, kept) in [(Flags::CWR, true), (Flags::ECE, false)] {
        let mut bench = Bench::new(Mode::Snoop, V4);
        let agreed = Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..data(0).options };
        let syn = |at, ack, flags| Segment { seq: at, ack, flags, options: agreed, ..ack_of(0, &[]) };
        let at = lasthop_proto::seq::Seq;
        bench.passes(Port::WIRELESS, syn(at(0), at(0), offer), b"");
        bench.passes(Port::WIRED, syn(at(1000), at(1), Flags::SYN.with(Flags::ACK).with(answer)), b"");
        bench.passes(Port::WIRELESS, ack_of(1001, &[]), b"");
        let whole = Segment { flags: data(0).flags.with(Flags::CWR), ..data(0) };
        bench.passes(Port::WIRED, whole, &payload(0, 10));
        let (_, sent) = bench.ack(seq(3), &[(seq(4), seq(10))]);
        let (_, segment, _) = only(&sent);
        assert_eq!((segment.seq.0, segment.flags.has(Flags::CWR)), (seq(3), kept));
    }
}

/// A packet that exceeds the MSS of both SYNs because a device on the path added options is still one segment.
#[test]
fn a_segment_to_which_an_option_was_added_is_not_cut() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    bench.engine.set_mtu(Port::WIRELESS, 1520);
    let sent: Vec<_> = (0..3).map(|n| bench.data_with(n, &accecn(0, 1))).collect();
    let (_, repairs) = bench.ack_with(seq(1), &[(seq(2), seq(3))], &accecn(0, 1));
    let [repair] = &repairs[..] else { panic!("{} packets", repairs.len()) };
    assert_eq!(repair.packet, sent[1]);
}
