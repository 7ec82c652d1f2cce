//! Golden sequences of real packets through the engine.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use lasthop_proto::packet::{Options, SackBlock, SackBlocks, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Checksum, Route, build};

use super::*;
use crate::engine::rules::Mode;

pub(super) const V4: [&str; 2] = ["10.0.0.1:80", "192.168.1.2:4000"];
pub(super) const V6: [&str; 2] = ["[2001:db8::1]:80", "[2001:db8:1::2]:4000"];
pub(super) const MSS: u32 = 1448;

/// Engine between a server on the wired side and a client behind the hop, which opens the connection.
pub(super) struct Bench {
    pub engine: Engine,
    pub route: Route,
    pub now: Instant,
    pub out: Vec<Injection>,
    /// Metadata of the packets.
    pub offloaded: Offloaded,
}

pub(super) fn times(val: u32) -> Option<Timestamps> {
    Some(Timestamps { val, ecr: val / 2 })
}

impl Bench {
    pub fn with(config: EngineConfig, ends: [&str; 2]) -> Self {
        let ends: [SocketAddr; 2] = ends.map(|end| end.parse().unwrap());
        let route = Route { source: ends[0], destination: ends[1] };
        let (engine, offloaded) = (Engine::new(config, 7), Offloaded::NOTHING);
        Self { engine, route, now: Instant::ZERO, out: Vec::new(), offloaded }
    }

    pub fn new(mode: Mode, ends: [&str; 2]) -> Self {
        Self::with(EngineConfig::new(vec![Rule::all("r", mode)]), ends)
    }

    pub fn opened(mode: Mode, ends: [&str; 2]) -> Self {
        let mut bench = Self::new(mode, ends);
        bench.open();
        bench
    }

    /// Opens the connection. The server's first byte has number 1001, the client's 1.
    pub fn open(&mut self) {
        self.open_with(Some(1460));
    }

    pub fn open_with(&mut self, mss: Option<u16>) {
        let options =
            Options { mss, window_scale: Some(7), sack_permitted: true, timestamps: times(8), ..Options::default() };
        let syn = |seq, ack, flags| Segment { seq: Seq(seq), ack: Seq(ack), window: 64_000, flags, options };
        self.passes(Port::WIRELESS, syn(0, 0, Flags::SYN), b"");
        self.passes(Port::WIRED, syn(1000, 1, Flags::SYN.with(Flags::ACK)), b"");
        self.passes(Port::WIRELESS, ack_of(1001, &[]), b"");
    }

    pub fn bytes(&self, port: Port, segment: Segment, payload: &[u8]) -> Vec<u8> {
        let route = if port == Port::WIRED { self.route } else { self.route.reversed() };
        build(route, &segment, payload).unwrap()
    }

    /// Passes a packet to the engine 1 ms later.
    pub fn take(&mut self, port: Port, packet: &[u8]) -> (Verdict, Vec<Injection>) {
        self.now += Duration::from_millis(1);
        self.engine.handle_timeout(self.now, &mut self.out);
        assert!(self.engine.poll_deadline().is_none_or(|at| at > self.now));
        let verdict = self.engine.handle_packet(self.now, port, packet, self.offloaded, &mut self.out);
        (verdict, std::mem::take(&mut self.out))
    }

    pub fn give(&mut self, port: Port, segment: Segment, payload: &[u8]) -> (Verdict, Vec<Injection>) {
        let packet = self.bytes(port, segment, payload);
        self.take(port, &packet)
    }

    pub fn passes(&mut self, port: Port, segment: Segment, payload: &[u8]) {
        assert_eq!(self.give(port, segment, payload), (Verdict::Accept, vec![]), "{port:?} {segment:?}");
    }

    /// Sends the `n`th segment of the server.
    pub fn data(&mut self, n: u32) {
        self.passes(Port::WIRED, data(n), &payload(n, 1));
    }

    pub fn ack(&mut self, seq: u32, blocks: &[(u32, u32)]) -> (Verdict, Vec<Injection>) {
        self.give(Port::WIRELESS, ack_of(seq, blocks), b"")
    }

    pub fn counters(&mut self) -> crate::engine::counters::RuleCounters {
        self.engine.counters().rules[0].clone()
    }

    pub fn wait(&mut self, millis: u64) -> Vec<Injection> {
        let end = self.now + Duration::from_millis(millis);
        while let Some(at) = self.engine.poll_deadline().filter(|&at| at <= end) {
            self.now = at;
            self.engine.handle_timeout(at, &mut self.out);
        }
        self.now = end;
        std::mem::take(&mut self.out)
    }
}

/// Returns the sequence number of the server's `n`th segment.
pub(super) fn seq(n: u32) -> u32 {
    1001 + n * MSS
}

pub(super) fn payload(n: u32, segments: u32) -> Vec<u8> {
    (n * MSS..(n + segments) * MSS).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub(super) fn data(n: u32) -> Segment {
    let options = Options { timestamps: times(n + 10), ..Options::default() };
    Segment { seq: Seq(seq(n)), ack: Seq(1), window: 500, flags: Flags::ACK.with(Flags::PSH), options }
}

pub(super) fn ack_of(seq: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut sack = SackBlocks::NONE;
    blocks.iter().for_each(|&(left, right)| sack.push(SackBlock { left: Seq(left), right: Seq(right) }));
    let options = Options { timestamps: times(100), sack, ..Options::default() };
    Segment { seq: Seq(1), ack: Seq(seq), window: 900, flags: Flags::ACK, options }
}

/// Returns the port, header and payload of the only injected packet, after checking its checksums.
pub(super) fn only(sent: &[Injection]) -> (Port, Segment, Vec<u8>) {
    let [Injection { towards, packet }] = sent else { panic!("{} packets", sent.len()) };
    let view = parse(packet).unwrap();
    // A packet rebuilt from its content has the same checksums.
    let payload = packet[view.header_len..].to_vec();
    let whole = lasthop_wire::pieces(packet, &view, usize::MAX);
    assert!(whole.iter().eq([packet]));
    (*towards, view.segment, payload)
}

#[test]
fn a_loss_is_repaired_here_and_its_duplicates_are_dropped() {
    for ends in [V4, V6] {
        for with_sack in [true, false] {
            let mut bench = Bench::opened(Mode::Snoop, ends);
            (0..5).for_each(|n| bench.data(n));
            assert_eq!(bench.ack(seq(1), &[]), (Verdict::Accept, vec![]));
            // Segment 1 is lost: 2, 3 and 4 each cause a duplicate.
            for n in 2..5 {
                let blocks = [(seq(2), seq(n + 1))];
                let (verdict, sent) = bench.ack(seq(1), if with_sack { &blocks } else { &[] });
                assert_eq!(verdict, Verdict::Drop);
                if n == 2 {
                    let flags = Flags::ACK.with(Flags::PSH);
                    assert_eq!(only(&sent), (Port::WIRELESS, Segment { flags, ..data(1) }, payload(1, 1)));
                } else {
                    assert_eq!(sent, []);
                }
            }
            assert_eq!(bench.ack(seq(5), &[]), (Verdict::Accept, vec![]));
            let counters = bench.counters();
            let by_cause = (counters.repairs.hole, counters.repairs.duplicate, counters.repairs.timer);
            assert_eq!(by_cause, if with_sack { (1, 0, 0) } else { (0, 1, 0) });
            assert_eq!((counters.dup_acks_suppressed, counters.wireless_losses, counters.cached_bytes), (3, 1, 0));
            assert_eq!((counters.packets, counters.flows_seen, counters.flows_active), ([6, 7], 1, 1));
            // Only the acknowledgment that answers old data is still held.
            assert!(bench.engine.counters().held_bytes < 100);
        }
    }
}

#[test]
fn blocks_that_show_repaired_holes_are_hidden() {
    let mut bench = Bench::opened(Mode::Snoop, V6);
    (0..6).for_each(|n| bench.data(n));
    let (verdict, sent) = bench.ack(seq(1), &[(seq(2), seq(3)), (seq(4), seq(5))]);
    // 1 and 3 are missing: the acknowledgment is new and must pass, but without its blocks.
    let shown: Vec<_> = sent.iter().map(|sent| parse(&sent.packet).unwrap().segment.seq.0).collect();
    assert_eq!(shown, [seq(1), seq(3)]);
    let Verdict::Replace(packet) = verdict else { panic!("{verdict:?}") };
    let original = bench.bytes(Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(3)), (seq(4), seq(5))]), b"");
    assert_eq!(packet, hide(&original));
    assert_eq!(parse(&packet).unwrap().segment, ack_of(seq(1), &[]));
    assert_eq!(bench.counters().sack_hidden, 1);
}

fn hide(packet: &[u8]) -> Vec<u8> {
    let view = parse(packet).unwrap();
    let mut segment = view.segment;
    segment.options.sack = SackBlocks::NONE;
    lasthop_wire::revise(packet, &view, &segment, Checksum::Complete)
}

#[test]
fn a_hole_in_a_super_segment_takes_one_small_packet() {
    for (ends, most) in [(V4, MSS), (V6, MSS)] {
        let mut bench = Bench::opened(Mode::Snoop, ends);
        // The checksum is not computed yet, as with offloads.
        let mut whole = bench.bytes(Port::WIRED, data(0), &payload(0, 40));
        let at = parse(&whole).unwrap().ip_len + 16;
        whole[at..at + 2].copy_from_slice(&[0x12, 0x34]);
        bench.offloaded.checksum = Checksum::Pending;
        assert_eq!(bench.take(Port::WIRED, &whole), (Verdict::Accept, vec![]));
        bench.offloaded.checksum = Checksum::Complete;
        let (_, sent) = bench.ack(seq(17), &[(seq(18), seq(40))]);
        let (towards, segment, bytes) = only(&sent);
        assert_eq!((towards, segment.seq.0, bytes.len() as u32), (Port::WIRELESS, seq(17), most));
        assert_eq!((bytes, segment.flags), (payload(17, 1), Flags::ACK));
        // The super-segment is stored once, while any part of it is needed.
        assert!(bench.engine.counters().held_bytes < whole.len() as u64 + 200);
        bench.ack(seq(40), &[]);
        // Packets are freed a few at a time.
        let soon = bench.now + Duration::from_millis(1);
        bench.engine.handle_timeout(soon, &mut bench.out);
        assert!(bench.engine.counters().held_bytes < 200);
        assert_eq!(bench.counters().repairs.total(), 1);
    }
}

#[test]
fn the_size_of_segments_is_told_or_known_or_usual() {
    let resent = |bench: &mut Bench, told: Option<u16>, hole: (u32, u32)| {
        let whole = bench.bytes(Port::WIRED, data(0), &payload(0, 10));
        let told = Offloaded { size: told.and_then(NonZeroU16::new), ..Offloaded::NOTHING };
        let verdict = bench.engine.handle_packet(bench.now, Port::WIRED, &whole, told, &mut bench.out);
        assert_eq!((verdict, bench.out.len()), (Verdict::Accept, 0));
        let (_, sent) = bench.ack(hole.0, &[(hole.1, seq(10))]);
        sent.iter().map(|sent| (parse(&sent.packet).unwrap().segment.seq.0, sent.packet.len())).collect::<Vec<_>>()
    };
    let at = |n: u32| 1001 + n * 1000;
    let mut bench = Bench::opened(Mode::Snoop, V4);
    assert_eq!(resent(&mut bench, Some(1000), (at(3), at(4))), [(at(3), 1052)]);
    // Without an MSS in the SYNs: 1500 bytes over IPv6 leave 1428 with timestamps.
    let mut bench = Bench::new(Mode::Snoop, V6);
    bench.open_with(None);
    assert_eq!(resent(&mut bench, None, (1001 + 1428, 1001 + 2 * 1428)), [(1001 + 1428, 1500)]);
    // The link's MTU is smaller than the segments.
    let mut bench = Bench::opened(Mode::Snoop, V4);
    bench.engine.set_mtu(Port::WIRELESS, 1052);
    assert_eq!(resent(&mut bench, None, (at(3), at(4))), [(at(3), 1052)]);
}

#[test]
fn a_lower_mtu_cuts_what_was_cached_before() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    (0..3).for_each(|n| bench.data(n));
    bench.engine.set_mtu(Port::WIRELESS, 1000);
    let (_, sent) = bench.ack(seq(1), &[(seq(2), seq(3))]);
    let views: Vec<_> = sent.iter().map(|sent| (parse(&sent.packet).unwrap(), &sent.packet)).collect();
    let shape: Vec<_> = views.iter().map(|(view, _)| (view.segment.seq.0, view.payload_len)).collect();
    assert_eq!(shape, [(seq(1), 948), (seq(1) + 948, 500)]);
    let joined: Vec<u8> = views.iter().flat_map(|(view, packet)| packet[view.header_len..].to_vec()).collect();
    assert_eq!(joined, payload(1, 1));
}

#[test]
fn old_data_is_answered_here() {
    for ends in [V4, V6] {
        let mut bench = Bench::opened(Mode::Snoop, ends);
        (0..6).for_each(|n| bench.data(n));
        bench.ack(seq(4), &[]);
        let (verdict, sent) = bench.give(Port::WIRED, data(1), &payload(1, 1));
        assert_eq!(verdict, Verdict::Drop);
        assert_eq!(only(&sent), (Port::WIRED, ack_of(seq(4), &[]), vec![]));
        // A super-segment gets one answer; a partly new one passes, and the receiver answers.
        let (verdict, sent) = bench.give(Port::WIRED, data(0), &payload(0, 4));
        assert_eq!((verdict, only(&sent).0), (Verdict::Drop, Port::WIRED));
        bench.passes(Port::WIRED, data(2), &payload(2, 4));
        // Old acknowledgments carry no information.
        assert_eq!(bench.ack(seq(2), &[]), (Verdict::Drop, vec![]));
        let counters = bench.counters();
        assert_eq!((counters.local_acks, counters.repairs.total()), (2, 0));
    }
}

#[test]
fn the_end_of_a_burst_is_resent_by_the_timer() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    (0..3).for_each(|n| bench.data(n));
    bench.ack(seq(2), &[]);
    let sent = bench.wait(90);
    assert_eq!(only(&sent), (Port::WIRELESS, data(2), payload(2, 1)));
    let counters = bench.counters();
    // The timer does not prove a loss.
    assert_eq!((counters.repairs.timer, counters.wireless_losses), (1, 0));
}

#[test]
fn what_passes_is_not_touched() {
    // ECN in IP and TCP, urgent data, window scaling, timestamps: accepted unchanged, and repairs preserve them.
    let mut bench = Bench::opened(Mode::Snoop, V4);
    let mut marked = bench.bytes(Port::WIRED, data(0), &payload(0, 1));
    marked[1] = 0x03;
    marked[20 + 13] |= 0xc0;
    let view = parse(&marked).unwrap();
    lasthop_wire::seal(&mut marked, &view);
    assert_eq!(bench.take(Port::WIRED, &marked), (Verdict::Accept, vec![]));
    bench.data(1);
    let (verdict, sent) = bench.ack(1001, &[(seq(1), seq(2))]);
    assert_eq!((verdict, sent.len()), (Verdict::Drop, 1));
    assert_eq!((sent[0].packet[1], sent[0].packet[33] & 0xc0), (0x03, 0xc0));
    assert_eq!(sent[0].packet[20..36], marked[20..36]);
    assert_eq!(sent[0].packet[52..], marked[52..]);
    // Other protocols, a fragment, half a packet, nothing.
    let mut fragment = marked.clone();
    fragment[6] = 0x20;
    let udp = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8][..], &[0; 8]].concat();
    for packet in [&fragment[..], &udp, &marked[..50], &[]] {
        for port in [Port::WIRED, Port::WIRELESS] {
            assert_eq!(bench.take(port, packet), (Verdict::Accept, vec![]));
        }
    }
    assert_eq!(bench.engine.counters().unread, 8);
}

#[test]
fn segments_with_options_that_protect_them_pass_as_they_are() {
    // TCP-MD5 (kind 19) in place of timestamps: the acknowledgments must be neither changed nor dropped.
    let mut bench = Bench::opened(Mode::Snoop, V4);
    let signed = |packet: Vec<u8>| {
        let mut packet = packet;
        // NOP NOP 8 10 ... becomes NOP NOP 19 10 ...
        assert_eq!(packet[42], 8);
        packet[42] = 19;
        let view = parse(&packet).unwrap();
        lasthop_wire::seal(&mut packet, &view);
        packet
    };
    for n in 0..3 {
        let packet = signed(bench.bytes(Port::WIRED, data(n), &payload(n, 1)));
        assert_eq!(bench.take(Port::WIRED, &packet), (Verdict::Accept, vec![]));
    }
    for _ in 0..5 {
        let packet = signed(bench.bytes(Port::WIRELESS, ack_of(seq(1), &[(seq(2), seq(3))]), b""));
        assert_eq!(bench.take(Port::WIRELESS, &packet), (Verdict::Accept, vec![]));
    }
    // Only the acknowledgment that opened the connection is held.
    assert_eq!((bench.counters().repairs.total(), bench.counters().cached_bytes), (0, 0));
    assert_eq!((bench.counters().packets_guarded, bench.counters().flows_guarded), (8, 0));
    assert_eq!(bench.engine.counters().held_bytes, 52);
}

#[test]
fn resets_and_new_connections_on_old_ports() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    (0..3).for_each(|n| bench.data(n));
    let reset = Segment { flags: Flags::RST.with(Flags::ACK), ..ack_of(seq(0), &[]) };
    // In the window, but not at the next number: ignored.
    bench.passes(Port::WIRELESS, Segment { seq: reset.seq + 9, ..reset }, b"");
    assert_eq!(bench.engine.counters().out_of_window, 1);
    bench.data(3);
    assert_eq!(bench.ack(seq(1), &[(seq(2), seq(3))]).1.len(), 1);
    bench.passes(Port::WIRELESS, reset, b"");
    assert_eq!(bench.counters().cached_bytes, 0);
    assert_eq!(bench.wait(5_000), []);
    // The same ports, a new connection with other numbers; its SYN is duplicated.
    let again = |at: u32, flags, ack: u32| Segment { seq: Seq(at), ack: Seq(ack), flags, ..ack_of(0, &[]) };
    bench.passes(Port::WIRELESS, again(900_000, Flags::SYN, 0), b"");
    bench.passes(Port::WIRELESS, again(900_000, Flags::SYN, 0), b"");
    bench.passes(Port::WIRED, again(5_000_000, Flags::SYN.with(Flags::ACK), 900_001), b"");
    bench.passes(Port::WIRELESS, again(900_001, Flags::ACK, 5_000_001), b"");
    for n in 0..3 {
        bench.passes(Port::WIRED, again(5_000_001 + n * 100, Flags::ACK, 900_001), &[n as u8; 100]);
    }
    let mut last = again(900_001, Flags::ACK, 5_000_101);
    last.options.sack.push(SackBlock { left: Seq(5_000_201), right: Seq(5_000_301) });
    let (_, sent) = bench.give(Port::WIRELESS, last, b"");
    assert_eq!(only(&sent).2, [1; 100]);
    assert_eq!((bench.counters().flows_seen, bench.counters().flows_active), (2, 1));
}

#[test]
fn a_connection_ends_with_both_fins() {
    let mut bench = Bench::opened(Mode::Snoop, V4);
    bench.data(0);
    let fin = Segment { flags: Flags::ACK.with(Flags::FIN), ..data(1) };
    bench.passes(Port::WIRED, fin, &payload(1, 1));
    bench.passes(Port::WIRELESS, Segment { flags: Flags::ACK.with(Flags::FIN), ..ack_of(seq(1), &[]) }, b"");
    // The last segment is lost with its FIN: it is still repaired.
    let sent = bench.wait(200);
    let (_, segment, bytes) = only(&sent[..1]);
    assert!(segment.flags.has(Flags::FIN) && bytes == payload(1, 1));
    bench.passes(Port::WIRELESS, ack_of(seq(2) + 1, &[]), b"");
    assert_eq!((bench.engine.counters().held_bytes, bench.counters().cached_bytes), (0, 0));
}
