//! Golden segment sequences: inputs with their times, and the expected output. Lengths are 100 bytes throughout;
//! `data(n)` is the segment that starts at 100 n past the initial sequence number, `ack(n)` acknowledges all before it.

use alloc::vec;
use alloc::vec::Vec;

use super::super::rig::{Loss, transfer};
use super::*;
use crate::node::{Output, pump};
use crate::packet::{Body, Cause, Priority, SackBlock, Side, Timestamps};
use crate::seq::Seq;
use crate::tcp::config::{Preset, Switch, TcpConfig};
use crate::time::Duration;
use LocalDetection::{DuplicateAcks, Smart};
use TcpAwareness::{Aware, Unaware};

/// Initial sequence number, chosen so that the sequence numbers wrap within the first segments.
pub(super) const ISN: Seq = Seq(u32::MAX - 250);

pub(super) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(super) fn seq(n: u32) -> Seq {
    ISN + n * 100
}

pub(super) fn segment(from: Side, len: u32, segment: Segment) -> Packet {
    crate::pep::rig::packet(FlowId(3), from, len, segment)
}

pub(super) fn data(n: u32) -> Packet {
    segment(Side::Initiator, 100, Segment { seq: seq(n), window: 5000, flags: Flags::ACK, ..Segment::default() })
}

/// Returns the sender's SYN, and the mobile host's answer.
fn handshake() -> [Packet; 2] {
    let syn = |seq, ack, flags| Segment { seq, ack, window: 5000, flags, ..Segment::default() };
    [
        segment(Side::Initiator, 0, syn(ISN - 1, Seq(0), Flags::SYN)),
        segment(Side::Acceptor, 0, syn(Seq(0) - 1, ISN, Flags::SYN.with(Flags::ACK))),
    ]
}

pub(super) fn ack(n: u32) -> Packet {
    segment(Side::Acceptor, 0, Segment { ack: seq(n), window: 5000, flags: Flags::ACK, ..Segment::default() })
}

pub(super) fn change(mut packet: Packet, edit: impl FnOnce(&mut Segment)) -> Packet {
    let Body::Tcp(segment) = &mut packet.body else { return packet };
    let before = segment.options.wire_len();
    edit(segment);
    packet.header_len = packet.header_len - before + segment.options.wire_len();
    packet
}

/// Returns `ack(n)` caused by `data(cause)`.
fn smart(n: u32, cause: u32) -> Packet {
    change(ack(n), |segment| segment.options.smart = Some(seq(cause)))
}

pub(super) fn sack(n: u32, runs: &[(u32, u32)]) -> Packet {
    change(ack(n), |segment| {
        runs.iter().for_each(|&(a, b)| segment.options.sack.push(SackBlock { left: seq(a), right: seq(b) }));
    })
}

pub(super) struct Bench {
    /// True if repairs overtake queued data, as under the TCP-aware schemes.
    aware: bool,
    pub(super) snoop: Snoop<()>,
}

/// Output: `(cause, n)` of packets to the mobile host, of packets to the sender, and events.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Seen {
    pub(super) down: Vec<(Cause, u32)>,
    pub(super) up: Vec<(Cause, u32)>,
    pub(super) events: Vec<Event>,
}

fn number(seq: Seq) -> u32 {
    seq.since(ISN) / 100
}

impl Bench {
    fn new(detection: LocalDetection, awareness: TcpAwareness) -> Self {
        Self::with(SnoopConfig::new(detection, awareness))
    }

    pub(super) fn with(config: SnoopConfig) -> Self {
        Self::unopened(config).opened()
    }

    fn unopened(config: SnoopConfig) -> Self {
        Self { aware: config.queue_priority() == Priority::Urgent, snoop: Snoop::new(config) }
    }

    /// Completes the handshake at 0 ms.
    fn opened(mut self) -> Self {
        self.open(3);
        self
    }

    /// Returns an opened bench with windows of 5000 times 2^6 bytes.
    pub(super) fn wide(config: SnoopConfig) -> Self {
        Self::agreed(config, |segment| segment.options.window_scale = Some(6))
    }

    /// Returns an opened bench with timestamps (RFC 7323 §3.2: only if both SYNs have them).
    pub(super) fn stamping(config: SnoopConfig) -> Self {
        Self::agreed(config, |segment| {
            segment.options.timestamps = Some(Timestamps { val: u32::MAX - 10, ecr: u32::MAX - 10 })
        })
    }

    /// Returns an opened bench with an option in both SYNs.
    fn agreed(config: SnoopConfig, option: impl Fn(&mut Segment)) -> Self {
        let mut bench = Self::unopened(config);
        let [syn, answer] = handshake().map(|packet| change(packet, &option));
        bench.wired(0, syn);
        bench.wireless(0, answer);
        bench
    }

    /// Runs the handshake of another connection.
    pub(super) fn open(&mut self, flow: u32) -> Seen {
        let [syn, answer] = handshake().map(|packet| Packet { flow: FlowId(flow), ..packet });
        let seen = self.wired(0, syn);
        self.wireless(0, answer);
        seen
    }

    /// Returns a bench after `data(0..n)` at 0 ms and `ack(1)` at 10 ms.
    fn sent(detection: LocalDetection, awareness: TcpAwareness, n: u32) -> Self {
        let mut bench = Self::new(detection, awareness);
        for i in 0..n {
            assert_eq!(bench.wired(0, data(i)).down, [(Cause::New, i)]);
        }
        let first = if detection == Smart { smart(1, 0) } else { ack(1) };
        assert_eq!(bench.wireless(10, first).up, [(Cause::New, 1)]);
        bench
    }

    pub(super) fn drain(&mut self, now: Instant) -> Seen {
        let mut seen = Seen::default();
        pump(&mut self.snoop, now, |output| match output {
            Output::Transmit(Port::WIRED, _, packet) => {
                seen.up.push((packet.cause, packet.tcp().map_or(u32::MAX, |tcp| number(tcp.ack))));
            }
            Output::Transmit(_, _, packet) => {
                let urgent = packet.priority == Priority::Urgent;
                assert_eq!(urgent, self.aware && packet.cause.is_local_retransmission());
                seen.down.push((packet.cause, packet.tcp().map_or(u32::MAX, |tcp| number(tcp.seq))));
            }
            Output::Event(_, event) => seen.events.push(event),
        });
        seen
    }

    pub(super) fn wired(&mut self, millis: u64, packet: Packet) -> Seen {
        self.snoop.handle_packet(at(millis), Port::WIRED, packet);
        self.drain(at(millis))
    }

    pub(super) fn wireless(&mut self, millis: u64, packet: Packet) -> Seen {
        self.snoop.handle_packet(at(millis), Port::WIRELESS, packet);
        self.drain(at(millis))
    }

    /// Runs the timers up to a time, and returns when each local retransmission left.
    pub(super) fn idle_until(&mut self, millis: u64) -> Vec<u64> {
        self.resent_until(millis).iter().map(|&(when, _)| when).collect()
    }

    /// Runs the timers up to a time, and returns when each local retransmission left, with cause and number.
    pub(super) fn resent_until(&mut self, millis: u64) -> Vec<(u64, (Cause, u32))> {
        let mut gone = Vec::new();
        while let Some(deadline) = self.snoop.poll_deadline().filter(|&deadline| deadline <= at(millis)) {
            self.snoop.handle_timeout(deadline);
            let down = self.drain(deadline).down;
            gone.extend(down.into_iter().map(|sent| (deadline.as_nanos() / 1_000_000, sent)));
        }
        gone
    }
}

pub(super) fn suppressed(n: u32) -> Event {
    Event::DupAckSuppressed { ack: seq(n) }
}

#[test]
fn the_first_duplicate_is_repaired_and_all_are_kept_from_the_sender() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 6);
    let first = bench.wireless(12, ack(1));
    assert_eq!(
        first,
        Seen { down: [(Cause::LocalDuplicate, 1)].into(), up: [].into(), events: [suppressed(1)].into() }
    );
    for millis in 13..16 {
        let more = bench.wireless(millis, ack(1));
        assert_eq!(more, Seen { events: [suppressed(1)].into(), ..Seen::default() });
    }
    assert_eq!(bench.wireless(18, ack(6)).up, [(Cause::New, 6)]);
    assert_eq!(bench.snoop.cached_bytes(), 0);
}

#[test]
fn ll_repairs_the_same_and_forwards_duplicates() {
    let mut bench = Bench::sent(DuplicateAcks, Unaware, 6);
    let first = bench.wireless(12, ack(1));
    assert_eq!((first.down, first.up), ([(Cause::LocalDuplicate, 1)].into(), [(Cause::New, 1)].into()));
    let second = bench.wireless(13, ack(1));
    assert_eq!((second.down, second.up, second.events), ([].into(), [(Cause::New, 1)].into(), [].into()));
    // It drops nothing, and answers nothing.
    assert_eq!(bench.wireless(18, ack(6)).up, [(Cause::New, 6)]);
    assert_eq!(bench.wireless(19, ack(2)).up, [(Cause::New, 2)]);
    assert_eq!(bench.wired(20, data(3)).down, [(Cause::New, 3)]);
}

#[test]
fn a_threshold_above_one_lets_earlier_duplicates_pass() {
    let mut bench = Bench::with(SnoopConfig { dupack_threshold: 2, ..SnoopConfig::new(DuplicateAcks, Aware) });
    (0..6).for_each(|i| drop(bench.wired(0, data(i))));
    bench.wireless(10, ack(1));
    assert_eq!(bench.wireless(12, ack(1)).up, [(Cause::New, 1)]);
    assert_eq!(bench.wireless(13, ack(1)).down, [(Cause::LocalDuplicate, 1)]);
}

#[test]
fn an_unexpected_duplicate_shows_that_the_retransmission_was_lost() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    assert_eq!(bench.wireless(12, ack(1)).down, [(Cause::LocalDuplicate, 1)]);
    // Packets 2 and 3 explain two duplicates; the third stems from a packet behind the retransmission.
    assert_eq!(bench.wireless(13, ack(1)).down, []);
    bench.wired(14, data(4));
    assert_eq!(bench.wireless(16, ack(1)).down, [(Cause::LocalDuplicate, 1)]);
}

#[test]
fn a_new_acknowledgment_shows_the_next_hole_of_a_burst() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 8);
    // 1 and 2 are lost, 3 and 4 arrive; 5 to 7 are still queued.
    bench.wireless(12, ack(1));
    bench.wireless(13, ack(1));
    let partial = bench.wireless(14, ack(2));
    assert_eq!((partial.down, partial.up), ([(Cause::LocalDuplicate, 2)].into(), [(Cause::New, 2)].into()));
    // Now 5 is next, but nothing indicates that it is lost.
    assert_eq!(bench.wireless(16, ack(5)).down, []);
}

#[test]
fn packets_still_queued_do_not_pass_for_lost() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 8);
    // 1 is lost; 2 and 3 arrive, then the retransmission, before 4 to 7.
    bench.wireless(12, ack(1));
    bench.wireless(13, ack(1));
    assert_eq!(bench.wireless(14, ack(4)).down, []);
    assert_eq!(bench.wireless(15, ack(5)).down, []);
}

#[test]
fn a_window_update_is_no_duplicate() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    let update = change(ack(1), |segment| segment.window = 6000);
    assert_eq!(bench.wireless(12, update), Seen { up: [(Cause::New, 1)].into(), ..Seen::default() });
    // The same holds if nothing is outstanding, and for segments with data.
    let mut piggybacked = change(ack(1), |segment| segment.window = 6000);
    piggybacked.len = 10;
    assert_eq!(bench.wireless(13, piggybacked).up, [(Cause::New, 1)]);
    bench.wireless(14, ack(4));
    assert_eq!(bench.wireless(15, ack(4)).up, [(Cause::New, 4)]);
}

#[test]
fn answers_to_probes_of_a_closed_window_pass() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 1);
    let closed = || change(ack(1), |segment| segment.window = 0);
    bench.wireless(12, closed());
    let mut probe = data(1);
    probe.len = 1;
    for round in 0..3 {
        assert_eq!(bench.wired(100 + round * 100, probe).down, [(Cause::New, 1)]);
        assert_eq!(
            bench.wireless(101 + round * 100, closed()),
            Seen { up: [(Cause::New, 1)].into(), ..Seen::default() }
        );
    }
    assert_eq!(bench.idle_until(5_000), []);
}

#[test]
fn duplicates_for_what_is_not_cached_or_resent_by_the_sender_pass() {
    let mut bench = Bench::new(DuplicateAcks, Aware);
    bench.wired(0, data(0));
    (2..5).for_each(|i| drop(bench.wired(0, data(i))));
    bench.wireless(10, ack(1));
    // 1 was never seen: congestion.
    assert_eq!(bench.wireless(11, ack(1)), Seen { up: [(Cause::New, 1)].into(), ..Seen::default() });
    // The sender's retransmission is cached, and left to the sender until it is acknowledged.
    assert_eq!(bench.wired(20, data(1)).down, [(Cause::New, 1)]);
    assert_eq!(bench.snoop.cached_bytes(), 4 * 256);
    assert_eq!(bench.wireless(21, ack(1)), Seen { up: [(Cause::New, 1)].into(), ..Seen::default() });
    // A local timeout still repairs it.
    assert_eq!(bench.idle_until(221), [220]);
}

#[test]
fn a_sender_retransmission_above_the_last_acknowledgment_passes_and_resets() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    assert_eq!(bench.wireless(12, ack(1)).down, [(Cause::LocalDuplicate, 1)]);
    assert_eq!(bench.wired(13, data(1)).down, [(Cause::New, 1)]);
    assert_eq!(bench.wireless(14, ack(1)), Seen { up: [(Cause::New, 1)].into(), ..Seen::default() });
}

fn stamped(n: u32, val: u32) -> Packet {
    change(data(n), |segment| segment.options.timestamps = Some(Timestamps { val, ecr: 7 }))
}

/// Returns `ack(n)` of a mobile host that echoes the timestamp `ecr`.
fn echoing(n: u32, ecr: u32) -> Packet {
    change(ack(n), |segment| segment.options.timestamps = Some(Timestamps { val: 7, ecr }))
}

/// Returns the data numbers and timestamps of packets to the mobile host.
fn stamps(snoop: &mut Snoop<()>, now: Instant) -> Vec<(u32, u32)> {
    let mut seen = Vec::new();
    pump(snoop, now, |output| {
        if let Output::Transmit(Port::WIRELESS, _, packet) = output
            && let Some(tcp) = packet.tcp()
        {
            seen.push((number(tcp.seq), tcp.options.timestamps.map_or(0, |timestamps| timestamps.val)));
        }
    });
    seen
}

/// RFC 7323 §5.3: a mobile host that has accepted a timestamp accepts none below it.
#[test]
fn what_is_resent_after_newer_data_below_it_is_no_replay() {
    // The timestamp clock wraps in between.
    let (old, new) = (u32::MAX - 3, 5);
    let mut bench = Bench::stamping(SnoopConfig::new(DuplicateAcks, Aware));
    (0..4).for_each(|n| drop(bench.wired(0, stamped(n, old))));
    bench.wireless(10, echoing(1, old));
    // 1 is not repaired here: the sender retransmits it with a new timestamp, and the mobile host accepts it.
    bench.snoop.handle_packet(at(20), Port::WIRED, stamped(1, new));
    assert_eq!(stamps(&mut bench.snoop, at(20)), [(1, new)]);
    bench.wireless(30, echoing(2, new));
    // The first duplicate may stem from the copy of 1.
    bench.wireless(31, echoing(2, new));
    bench.snoop.handle_packet(at(32), Port::WIRELESS, echoing(2, new));
    assert_eq!(stamps(&mut bench.snoop, at(32)), [(2, new)]);
}

#[test]
fn what_was_held_while_the_sender_resent_is_no_replay() {
    let hop = Some(HopControl { backlog: 1, held: 10_000 });
    let mut bench = Bench::stamping(SnoopConfig { hop, ..SnoopConfig::new(Smart, Aware) });
    let late = change(stamped(0, 100), |segment| segment.seq = seq(1));
    for n in 1..20 {
        bench.snoop.handle_packet(at(0), Port::WIRED, change(late, |segment| segment.seq = seq(n)));
    }
    assert_eq!(stamps(&mut bench.snoop, at(0)).len(), 10);
    // Data that passed before there was any state.
    bench.snoop.handle_packet(at(5), Port::WIRED, stamped(0, 200));
    assert_eq!(stamps(&mut bench.snoop, at(5)), [(0, 200)]);
    bench.snoop.handle_packet(at(6), Port::WIRELESS, echoing(11, 200));
    let released = stamps(&mut bench.snoop, at(6));
    assert!(released.len() > 1 && released.iter().all(|&(_, val)| val == 200), "{released:?}");
}

/// The mobile host has accepted the newer timestamp before it can have echoed it.
#[test]
fn what_goes_behind_a_newer_packet_of_the_sender_is_no_replay() {
    let hop = Some(HopControl { backlog: 1, held: 10_000 });
    let mut bench = Bench::stamping(SnoopConfig { hop, ..SnoopConfig::new(Smart, Aware) });
    let late = change(stamped(0, 100), |segment| segment.seq = seq(1));
    for n in 1..20 {
        bench.snoop.handle_packet(at(0), Port::WIRED, change(late, |segment| segment.seq = seq(n)));
    }
    assert_eq!(stamps(&mut bench.snoop, at(0)).len(), 10);
    bench.snoop.handle_packet(at(5), Port::WIRED, stamped(0, 200));
    assert_eq!(stamps(&mut bench.snoop, at(5)), [(0, 200)]);
    bench.snoop.handle_packet(at(6), Port::WIRELESS, echoing(5, 100));
    let released = stamps(&mut bench.snoop, at(6));
    assert!(!released.is_empty() && released.iter().all(|&(_, val)| val == 200), "{released:?}");
}

#[test]
fn no_acknowledgment_older_than_the_mobile_hosts_data_is_repeated() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    bench.wireless(12, ack(3));
    let mut piggybacked = ack(3);
    piggybacked.len = 10;
    bench.wireless(15, piggybacked);
    assert_eq!(bench.wired(20, data(1)), Seen { down: [(Cause::New, 1)].into(), ..Seen::default() });
}

#[test]
fn the_answer_is_not_older_than_a_duplicate_that_passed() {
    let at_time = |packet, val| {
        change(packet, |segment: &mut Segment| segment.options.timestamps = Some(Timestamps { val, ecr: 1 }))
    };
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    bench.wireless(12, at_time(ack(3), 12));
    // The sender resent 3 itself, so duplicates pass.
    bench.wired(13, data(3));
    assert_eq!(bench.wireless(14, at_time(ack(3), 14)).up, [(Cause::New, 3)]);
    bench.snoop.handle_packet(at(20), Port::WIRED, data(1));
    let mut answers = Vec::new();
    pump(&mut bench.snoop, at(20), |output| {
        if let Output::Transmit(Port::WIRED, _, packet) = output {
            answers.extend(packet.tcp().and_then(|tcp| tcp.options.timestamps).map(|timestamps| timestamps.val));
        }
    });
    assert_eq!(answers, [14]);
}

#[test]
fn acknowledged_data_is_answered_here_and_old_acknowledgments_are_dropped() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    bench.wireless(12, ack(3));
    let answered = bench.wired(20, data(1));
    let event = Event::Absorbed { seq: seq(3) };
    assert_eq!(answered, Seen { down: [].into(), up: [(Cause::LocalAck, 3)].into(), events: [event].into() });
    assert_eq!(bench.wireless(21, ack(2)), Seen { events: [event].into(), ..Seen::default() });
    // A keepalive probes the mobile host.
    let mut keepalive = change(data(3), |segment| segment.seq = seq(3) - 1);
    keepalive.len = 1;
    assert_eq!(bench.wired(22, keepalive).down.len(), 1);
}

#[test]
fn old_acknowledgments_without_end_mean_that_the_state_is_wrong() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    bench.wireless(11, ack(4));
    let passed: usize = (0..40).map(|i| bench.wireless(20 + i, ack(2)).up.len()).sum();
    assert_eq!(passed, 40 - 15);
    // The state is rebuilt from them, and tracked numbers stay: spoofed data changes nothing, the sender's is repaired.
    assert_eq!(bench.snoop.connections(), 1);
    let stranger = change(data(4), |segment| segment.ack = segment.ack - (1 << 20));
    assert_eq!(bench.wired(60, stranger).down.len(), 1);
    assert_eq!(bench.snoop.cached_bytes(), 0);
    bench.wired(61, data(4));
    bench.wireless(62, ack(4));
    assert_eq!(bench.idle_until(500).first(), Some(&462));
}

#[test]
fn the_timer_keeps_at_it_then_backs_off_then_leaves_it_to_the_sender() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 2);
    // srtt 10 ms, dev 5 ms: the lower bound of 200 ms after the acknowledgment of 0 at 10 ms.
    let fired = bench.idle_until(60_000);
    assert_eq!(fired, [210, 410, 610, 810, 1210, 2010, 3610, 6610, 9610, 12610]);
    assert_eq!(bench.snoop.poll_deadline(), None);
    // Given up: duplicates pass. The sender's own retransmission restarts local repair.
    assert_eq!(bench.wireless(60_001, ack(1)).up, [(Cause::New, 1)]);
    bench.wired(60_010, data(1));
    assert_eq!(bench.idle_until(64_000), [63_010]);
}

#[test]
fn progress_restarts_the_timer_but_not_for_a_burst_that_has_timed_out() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    bench.wireless(150, ack(2));
    // srtt = 10 + (150 - 10) / 8, dev = 5 + (140 - 5) / 4 approximately.
    let fired = bench.idle_until(400);
    assert_eq!(fired.len(), 1);
    assert!(fired[0] >= 350, "{fired:?}");
    // 3 was sent at the same time as 2: it does not wait for a timeout of its own.
    let seen = bench.wireless(fired[0] + 10, ack(3));
    assert_eq!(seen.down, [(Cause::LocalTimer, 3)]);
}

#[test]
fn duplicates_cannot_starve_the_timer() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 3);
    let mut resent = 0;
    for millis in 11..2000 {
        resent += bench.wireless(millis, ack(1)).down.len();
        resent += bench.idle_until(millis).len();
    }
    assert!(resent > 10, "{resent}");
}

#[test]
fn nothing_is_resent_before_the_mobile_host_has_acknowledged_anything() {
    let mut bench = Bench { aware: true, snoop: Snoop::new(SnoopConfig::new(DuplicateAcks, Aware)) };
    // The mobile host opens the connection, and has not answered the sender's SYN yet.
    let syn = |seq, ack, flags| Segment { seq, ack, window: 5000, flags, ..Segment::default() };
    bench.wireless(0, segment(Side::Acceptor, 0, syn(Seq(0) - 1, Seq(0), Flags::SYN)));
    bench.wired(0, segment(Side::Initiator, 0, syn(ISN - 1, Seq(0), Flags::SYN.with(Flags::ACK))));
    bench.wired(0, data(0));
    assert_eq!((bench.snoop.cached_bytes(), bench.idle_until(60_000)), (256, Vec::new()));
}

#[test]
fn a_needless_copy_does_not_beget_another() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 6);
    assert_eq!(bench.idle_until(210), [210]);
    (6..9).for_each(|i| drop(bench.wired(211, data(i))));
    // The original was only late; the copy returns as a duplicate.
    bench.wireless(215, ack(6));
    assert_eq!(bench.wireless(216, ack(6)).down, []);
    // The next duplicate indicates a loss.
    assert_eq!(bench.wireless(217, ack(6)).down, [(Cause::LocalDuplicate, 6)]);
}

#[test]
fn smart_numbers_show_every_hole_at_once_and_lost_repairs_by_what_left_after_them() {
    let mut bench = Bench::sent(Smart, Unaware, 8);
    let holes = bench.wireless(12, smart(1, 4));
    assert_eq!(holes.down, [1, 2, 3].map(|n| (Cause::LocalHole, n)));
    assert_eq!(bench.wireless(13, smart(1, 6)).down, [(Cause::LocalHole, 5)]);
    bench.wired(14, data(8));
    // All of this left before the repairs, or may have: 7, and 2 in its first transmission.
    assert_eq!(bench.wireless(15, smart(1, 7)).down, []);
    // 2 is filled by its repair, which left after that of 1 and before that of 3.
    assert_eq!(bench.wireless(22, smart(1, 2)).down, [(Cause::LocalHole, 1)]);
    // 8 left after the repairs of 3 and 5, and before the second one of 1.
    assert_eq!(bench.wireless(23, smart(1, 8)).down, [(Cause::LocalHole, 3), (Cause::LocalHole, 5)]);
    assert_eq!(bench.wireless(34, smart(9, 5)).up, [(Cause::New, 9)]);
    assert_eq!(bench.snoop.cached_bytes(), 0);
}

/// Repairs overtake queued data. An arrival shows losses among data queued before it only if it was queued itself.
#[test]
fn a_repair_that_overtakes_tells_nothing_of_what_it_overtook() {
    let mut bench = Bench::sent(Smart, Aware, 8);
    assert_eq!(bench.wireless(12, smart(1, 3)).down, [(Cause::LocalHole, 1), (Cause::LocalHole, 2)]);
    // 2's repair has arrived, 4 to 7 are still queued; 1's repair is lost.
    assert_eq!(bench.wireless(22, smart(1, 2)).down, [(Cause::LocalHole, 1)]);
    assert_eq!(bench.wireless(23, smart(1, 4)).down, []);
    assert_eq!(bench.wireless(24, smart(1, 6)).down, [(Cause::LocalHole, 5)]);
}

/// A burst longer than the data behind it destroys the repairs as well: they are repeated, spaced, until something
/// arrives.
#[test]
fn a_window_that_is_lost_goes_again_spaced() {
    let hop = Some(HopControl::DEFAULT);
    let mut bench = Bench::with(SnoopConfig { hop, ..SnoopConfig::modern() });
    (0..10).for_each(|n| drop(bench.wired(0, data(n))));
    bench.wireless(10, sack(1, &[(2, 3)]));
    // Nothing arrives for three round trips after that. Then all packets but the one that arrived are resent, spaced.
    let gone = bench.resent_until(60);
    let order: Vec<_> = gone.iter().map(|&(_, (_, n))| n).collect();
    assert_eq!(order[..8], [1, 3, 4, 5, 6, 7, 8, 9]);
    assert!(gone[..8].iter().all(|&(when, _)| (40..50).contains(&when)));
    assert!(gone.windows(4).all(|few| few[0].0 < few[3].0));
    // Then the last packet probes the hop.
    assert!(order[8..].iter().all(|&n| n == 9) && (4..10).contains(&order[8..].len()), "{order:?}");
    // The first arrival shows which earlier transmissions are lost: 1 again, and 3 to 6.
    let mut down = bench.wireless(60, sack(1, &[(7, 8), (2, 3)])).down;
    down.extend(bench.resent_until(61).into_iter().map(|(_, sent)| sent));
    assert_eq!(down, [1, 3, 4, 5, 6].map(|n| (Cause::LocalHole, n)));
}

/// A modern sender waits 200 ms beyond its round trip. A repair shortly before that, after one that was lost, is sent
/// in several copies.
#[test]
fn what_was_lost_again_goes_three_times_when_the_senders_timer_is_near() {
    for (arrives, copies) in [(None, vec![238, 271]), (Some(250), vec![238])] {
        let mut bench = Bench::with(SnoopConfig::gateway());
        (0..8).for_each(|n| drop(bench.wired(0, data(n))));
        bench.wireless(100, ack(1));
        assert_eq!(bench.wireless(101, sack(1, &[(2, 8)])).down, [(Cause::LocalHole, 1)]);
        bench.wired(105, data(8));
        // It left after the repair.
        assert_eq!(bench.wireless(205, sack(1, &[(2, 9)])).down, [(Cause::LocalHole, 1)]);
        let mut gone = bench.idle_until(arrives.unwrap_or(300));
        if let Some(arrives) = arrives {
            bench.wireless(arrives, ack(9));
            gone.extend(bench.idle_until(300));
        }
        assert_eq!(gone, copies);
    }
}

/// The last packet has none behind it: it probes the hop itself, as does the first if no block has arrived yet.
#[test]
fn a_packet_on_its_own_is_not_left_to_its_timer() {
    for last in [1, 3] {
        let mut bench = Bench::with(SnoopConfig::gateway());
        (0..=last).for_each(|n| drop(bench.wired(0, data(n))));
        bench.wireless(10, ack(1));
        let copies = bench.idle_until(160);
        assert!((16..40).contains(&copies.len()), "{copies:?}");
        // Probes become rarer as the silence lasts.
        let later = bench.idle_until(1160);
        assert!(later.len() < 48, "{later:?}");
    }
}

#[test]
fn ll_smart_forwards_duplicates() {
    let mut bench = Bench::sent(Smart, Unaware, 4);
    let seen = bench.wireless(12, smart(1, 2));
    assert_eq!((seen.down, seen.up), ([(Cause::LocalHole, 1)].into(), [(Cause::New, 1)].into()));
}

#[test]
fn a_smart_number_below_the_acknowledgment_shows_nothing() {
    let mut bench = Bench::sent(Smart, Aware, 4);
    assert_eq!(bench.wireless(12, smart(1, 0)), Seen { up: [(Cause::New, 1)].into(), ..Seen::default() });
}

#[test]
fn acknowledgments_of_needless_copies_are_kept_from_the_sender() {
    let named = [smart(4, 1), sack(4, &[(1, 2)])];
    let kept = Seen { events: [suppressed(4)].into(), ..Seen::default() };
    // If the sender resent it too, the duplicate passes.
    let told = Seen { up: [(Cause::New, 4)].into(), ..Seen::default() };
    for (copied, sender_resends, seen) in
        named.into_iter().flat_map(|copied| [(copied, false, &kept), (copied, true, &told)])
    {
        let mut bench = Bench::sent(Smart, Aware, 4);
        // The acknowledgment caused by 1 is lost, the next one shows a hole; all have arrived.
        assert_eq!(bench.wireless(12, smart(1, 2)).down, [(Cause::LocalHole, 1)]);
        if sender_resends {
            assert_eq!(bench.wired(12, data(1)).down, [(Cause::New, 1)]);
        }
        assert_eq!(bench.wireless(13, smart(4, 3)).up, [(Cause::New, 4)]);
        assert_eq!(&bench.wireless(22, copied), seen);
    }
}

#[test]
fn sack_blocks_are_the_mask_where_there_is_no_smart_number() {
    let mut bench = Bench::new(Smart, Aware);
    (0..8).for_each(|i| drop(bench.wired(0, data(i))));
    bench.wireless(10, ack(1));
    let resent = bench.wireless(12, sack(1, &[(2, 3)]));
    assert_eq!(resent, Seen { down: [(Cause::LocalHole, 1)].into(), up: [].into(), events: [suppressed(1)].into() });
    assert_eq!(bench.wireless(13, sack(1, &[(2, 4)])).down, []);
    assert_eq!(bench.wireless(14, sack(1, &[(5, 7), (2, 4)])).down, [(Cause::LocalHole, 4)]);
    // Acknowledgments that must pass do not report holes that are being repaired.
    bench.snoop.handle_packet(at(15), Port::WIRELESS, sack(2, &[(5, 7)]));
    let mut bare = Vec::new();
    pump(&mut bench.snoop, at(15), |output| {
        if let Output::Transmit(Port::WIRED, _, packet) = output {
            bare.push((packet.header_len, packet.tcp().map(|tcp| tcp.options.sack.is_empty())));
        }
    });
    assert_eq!(bare.len(), 1);
    // 2 and 3 arrived, so 2 is not such a hole: the mobile host has discarded it, and the sender learns of it.
    assert_eq!(bare, [(52, Some(false))]);
    bench.snoop.handle_packet(at(16), Port::WIRELESS, sack(4, &[(5, 7)]));
    pump(&mut bench.snoop, at(16), |output| {
        if let Output::Transmit(Port::WIRED, _, packet) = output {
            bare.push((packet.header_len, packet.tcp().map(|tcp| tcp.options.sack.is_empty())));
        }
    });
    assert_eq!(bare[1], (40, Some(true)));
}

/// RFC 2018 §8: the mobile host may discard data that it has reported. This shows when the oldest packet is reported
/// but nothing is acknowledged. All of the discarded data is resent, not one packet per timeout.
#[test]
fn what_the_mobile_host_discards_goes_again() {
    for hop in [None, Some(HopControl::DEFAULT)] {
        let timer_min = Duration::from_millis(50);
        let mut bench = Bench::with(SnoopConfig { hop, timer_min, ..SnoopConfig::new(Smart, Aware) });
        (0..10).for_each(|n| drop(bench.wired(0, data(n))));
        bench.wireless(10, ack(1));
        // 1 is lost; 2 to 8 arrive.
        assert_eq!(bench.wireless(12, sack(1, &[(2, 9)])).down, [(Cause::LocalHole, 1)]);
        // 1 arrives, but there is no memory: of the others, 7 and 8 are kept, and 9 is lost.
        bench.wireless(22, sack(2, &[(7, 9)]));
        let resent: Vec<_> = bench.resent_until(150).into_iter().map(|(_, (_, n))| n).collect();
        assert_eq!(resent.first(), Some(&2), "{hop:?}");
        // The first acknowledgment that advances shows the state of the rest.
        let mut again = bench.wireless(160, sack(3, &[(7, 9)])).down;
        again.extend(bench.resent_until(165).into_iter().map(|(_, sent)| sent));
        let mut numbers: Vec<_> = resent.into_iter().chain(again.into_iter().map(|(_, n)| n)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 9], "{hop:?}");
    }
}

#[test]
fn a_duplicate_whose_holes_are_not_all_cached_passes() {
    let mut bench = Bench::new(Smart, Aware);
    // 3 is lost to congestion.
    [0, 1, 2, 4, 5].iter().for_each(|&i| drop(bench.wired(0, data(i))));
    bench.wireless(10, ack(1));
    assert_eq!(bench.wireless(12, sack(1, &[(2, 3)])).up, []);
    assert_eq!(bench.wireless(13, sack(1, &[(4, 5), (2, 3)])).up, [(Cause::New, 1)]);
    // The sender's retransmission of it is never dropped.
    assert_eq!(bench.wired(30, data(3)).down, [(Cause::New, 3)]);
}

#[test]
fn a_handshake_begins_the_state_and_the_exact_reset_or_the_acknowledgment_of_the_fin_ends_it() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 3);
    let control = |n, flags| segment(Side::Initiator, 0, Segment { seq: seq(n), flags, ..Segment::default() });
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 512));
    // Neither a SYN nor a reset other than at the next number has an effect (RFC 5961).
    bench.wired(13, control(50, Flags::SYN));
    bench.wired(13, control(2, Flags::RST));
    bench.wireless(13, change(ack(1), |segment| (segment.seq, segment.flags) = (Seq(99), Flags::RST)));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 512));
    // The mobile host answers the SYN, and the sender acknowledges the answer: a new connection.
    let answer = Segment {
        seq: Seq(1_000),
        ack: seq(50) + 1,
        window: 5000,
        flags: Flags::SYN.with(Flags::ACK),
        ..Segment::default()
    };
    bench.wireless(14, segment(Side::Acceptor, 0, answer));
    let again = |n| change(data(n), |segment| (segment.seq, segment.ack) = (seq(n) + 1, Seq(1_001)));
    bench.wired(15, again(50));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 256));
    bench.wired(16, change(control(51, Flags::RST), |segment| segment.seq += 1));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (0, 0));
    // A FIN behind data is cached with it; its acknowledgment ends the state.
    let mut bench = Bench::sent(DuplicateAcks, Aware, 1);
    bench.wired(16, data(1));
    bench.wired(16, change(data(2), |segment| segment.flags = Flags::ACK.with(Flags::FIN)));
    bench.wireless(17, ack(2));
    assert_eq!(bench.snoop.cached_bytes(), 256);
    bench.wireless(18, change(ack(3), |segment| segment.ack += 1));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (0, 0));
}

/// RFC 9293 §3.10.4: an end that has sent its FIN sends nothing after it.
#[test]
fn a_fin_in_the_middle_of_the_stream_is_not_its_end() {
    let fin = change(segment(Side::Initiator, 0, Segment::default()), |segment| {
        (segment.seq, segment.window, segment.flags) = (seq(1) + 50, 5000, Flags::ACK.with(Flags::FIN));
    });
    // After data beyond it, and before data beyond it.
    for (before, after) in [(4, 6), (1, 6)] {
        let mut bench = Bench::sent(Smart, Aware, before);
        bench.wired(12, fin);
        for n in before..after {
            bench.wired(13, data(n));
        }
        bench.wireless(14, ack(2));
        assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, u64::from(after - 2) * 256));
        // Losses after it are repaired here, hidden from the sender.
        let seen = bench.wireless(15, sack(2, &[(3, 4)]));
        assert_eq!((seen.down, seen.up), (vec![(Cause::LocalHole, 2)], vec![]));
    }
}

/// Data may take another path, for example when the driver is overrun.
#[test]
fn an_acknowledgment_of_data_never_seen_is_believed_once_later_data_was() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    for n in [9, 60] {
        assert_eq!(bench.wireless(12, ack(n)).up, [(Cause::New, n)]);
        assert_eq!(bench.snoop.cached_bytes(), 3 * 256);
    }
    bench.wired(13, data(9));
    assert_eq!(bench.wireless(14, ack(9)).up, [(Cause::New, 9)]);
    assert_eq!(bench.snoop.cached_bytes(), 256);
}

#[test]
fn what_the_mobile_host_would_refuse_is_not_cached() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 4);
    for n in [51, 100_000, u32::MAX / 300] {
        assert_eq!(bench.wired(13, data(n)).down.len(), 1);
    }
    assert_eq!(bench.snoop.cached_bytes(), 3 * 256);
    // Without a handshake, the window and the numbers are unknown.
    bench.wired(13, Packet { flow: FlowId(77), ..data(0) });
    assert_eq!(bench.snoop.cached_bytes(), 3 * 256);
}

#[test]
fn resegmented_data_replaces_what_it_covers_and_leaves_what_it_cuts() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 5);
    let mut wide = data(2);
    wide.len = 200;
    bench.wired(20, wide);
    assert_eq!(bench.snoop.cached_bytes(), 3 * 256);
    bench.wired(21, change(data(2), |segment| segment.seq += 50));
    assert_eq!(bench.snoop.cached_bytes(), 3 * 256);
    bench.wireless(30, ack(4));
    assert_eq!(bench.snoop.cached_bytes(), 256);
}

#[test]
fn the_least_recently_used_connection_makes_room() {
    let mut bench =
        Bench::with(SnoopConfig { connections: 2, cache_bytes: 4 * 256, ..SnoopConfig::new(DuplicateAcks, Aware) });
    bench.snoop.remove(at(1), FlowId(3));
    let of = |flow, n| Packet { flow: FlowId(flow), ..data(n) };
    bench.open(1);
    bench.open(2);
    for (flow, n) in [(1, 0), (1, 1), (2, 0)] {
        assert_eq!(bench.wired(0, of(flow, n)).events, []);
    }
    // The table is full.
    assert_eq!(bench.open(3).events, [Event::Evicted]);
    bench.wired(1, of(3, 0));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (2, 2 * 256));
    bench.wired(2, of(3, 1));
    bench.wired(2, of(3, 2));
    assert_eq!(bench.snoop.cached_bytes(), 4 * 256);
    // The cache is full: flow 3 holds more than its share and passes uncached; a new flow takes flow 2's place.
    assert_eq!(bench.wired(3, of(3, 3)), Seen { down: [(Cause::New, 3)].into(), ..Seen::default() });
    assert_eq!(bench.open(4).events, [Event::Evicted]);
    bench.wired(4, of(4, 0));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (2, 4 * 256));
}

/// The connections of one owner together may evict as much as one connection.
#[test]
fn an_owner_of_many_connections_pushes_out_nobody_beyond_its_share() {
    let config = SnoopConfig { cache_bytes: 8 * 256, ..SnoopConfig::new(DuplicateAcks, Aware) };
    let mut bench = Bench::with(config);
    let of = |flow, n| Packet { flow: FlowId(flow), ..data(n) };
    for (flow, owner) in [(10, 0), (11, 0), (12, 1), (13, 1), (14, 1), (15, 1)] {
        bench.snoop.remove(at(1), FlowId(flow));
        let mut tracking = Tracking::new();
        for packet in handshake() {
            let segment = packet.tcp().unwrap();
            tracking.take(Instant::ZERO, packet.from, segment, 0);
        }
        bench.snoop.adopt(at(0), FlowId(flow), Owner(owner), Side::Initiator, tracking);
    }
    (0..4).for_each(|n| drop(bench.wired(1, of(10, n))));
    for n in 0..20 {
        (12..16).for_each(|flow| drop(bench.wired(2, of(flow, n))));
    }
    assert_eq!((bench.snoop.cached_bytes(), bench.snoop.connections()), (8 * 256, 7));
    // An owner with less still finds capacity.
    assert_eq!(bench.wired(3, of(11, 0)).events, []);
    assert_eq!(bench.snoop.owned_bytes, [4 * 256, 4 * 256]);
}

#[test]
fn a_removed_connection_leaves_nothing_behind() {
    let mut bench = Bench::sent(DuplicateAcks, Aware, 3);
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 2 * 256));
    bench.snoop.remove(at(1), data(0).flow);
    bench.snoop.remove(at(1), FlowId(77));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (0, 0));
    assert_eq!(bench.snoop.poll_deadline(), None);
}

#[test]
fn lower_limits_push_out_the_least_recently_used() {
    let mut bench = Bench { aware: true, snoop: Snoop::new(SnoopConfig::new(DuplicateAcks, Aware)) };
    let of = |flow, n| Packet { flow: FlowId(flow), ..data(n) };
    for flow in 1..=4 {
        bench.open(flow);
        bench.wired(u64::from(flow), of(flow, 0));
    }
    let config = SnoopConfig { connections: 3, ..SnoopConfig::new(DuplicateAcks, Aware) };
    bench.snoop.set_config(Instant::ZERO, config.clone());
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (3, 3 * 256));
    bench.snoop.set_config(Instant::ZERO, SnoopConfig { cache_bytes: 2 * 256, ..config.clone() });
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (2, 2 * 256));
    bench.snoop.set_config(Instant::ZERO, SnoopConfig { connections: 1, ..config });
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 256));
    // The newest stayed, and it is evicted for the next.
    assert_eq!(bench.wired(10, of(4, 1)).events, [Event::Evicted; 3]);
    assert_eq!(bench.snoop.cached_bytes(), 2 * 256);
    assert_eq!(bench.open(5).events, [Event::Evicted]);
    bench.wired(11, of(5, 0));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 256));
}

/// Returns a bench with flow control whose mobile host has acknowledged the first of eight packets after 10 ms.
fn one_of_eight_acknowledged() -> Bench {
    let (hop, timer_min) = (Some(HopControl::DEFAULT), Duration::from_millis(50));
    let mut bench = Bench::with(SnoopConfig { hop, timer_min, ..SnoopConfig::new(Smart, Aware) });
    (0..8).for_each(|n| assert_eq!(bench.wired(0, data(n)).down.len(), 1));
    bench.wireless(10, ack(1));
    bench
}

#[test]
fn with_flow_control_the_timer_is_for_when_nothing_comes() {
    let mut bench = one_of_eight_acknowledged();
    assert_eq!(bench.wireless(12, sack(1, &[(2, 3)])).down, [(Cause::LocalHole, 1)]);
    // All of it was sent before 1 was resent.
    for n in 4..8 {
        let now = 12 + u64::from(n - 3) * 20;
        assert_eq!(bench.idle_until(now), []);
        assert_eq!(bench.wireless(now, sack(1, &[(2, n)])).down, []);
    }
    assert_eq!(bench.idle_until(500).first(), Some(&122));
}

#[test]
fn the_senders_retransmissions_pass_once_the_local_timer_backs_off() {
    let mut bench = one_of_eight_acknowledged();
    // Four tries, three round trips apart, then the intervals double; the last packet is sent more often.
    let tries = |copies: Vec<u64>, all: &[u64]| all.iter().all(|at| copies.contains(at));
    assert!(tries(bench.idle_until(209), &[40, 70, 100, 130, 190]));
    assert_eq!(bench.wired(209, data(1)).down, []);
    assert!(tries(bench.idle_until(400), &[310]));
    assert_eq!(bench.wired(401, data(1)).down, [(Cause::New, 1)]);
}

#[test]
fn a_timeout_that_came_too_early_does_not_beget_others() {
    for (acked, due) in [(42, 72), (43, 43)] {
        let mut bench = one_of_eight_acknowledged();
        assert_eq!(bench.idle_until(40), [40]);
        // A copy takes 10 ms, or half of that without the allowance for scheduling.
        let seen = bench.wireless(acked, ack(2)).down;
        assert_eq!(seen, if due == acked { Vec::from([(Cause::LocalTimer, 2)]) } else { Vec::new() });
        assert_eq!(bench.idle_until(71), []);
        assert_eq!(bench.idle_until(72).len(), usize::from(due == 72));
    }
}

/// Returns a bench with flow control, ten segments on the hop and four held.
fn held_back() -> Bench {
    let hop = Some(HopControl { backlog: 1, held: 10_000 });
    let mut bench = Bench::with(SnoopConfig { hop, ..SnoopConfig::new(Smart, Aware) });
    for n in 0..14 {
        bench.wired(0, data(n));
    }
    bench
}

#[test]
fn what_is_held_goes_on_its_way_when_the_state_is_dropped() {
    let held: Vec<_> = (10..14).map(|n| (Cause::New, n)).collect();
    let drops: [fn(&mut Snoop<()>); 4] = [
        |snoop| snoop.remove(at(1), data(0).flow),
        |snoop| snoop.clear(),
        |snoop| snoop.set_config(at(1), SnoopConfig { connections: 0, ..SnoopConfig::new(Smart, Aware) }),
        |snoop| snoop.set_config(at(1), SnoopConfig::new(Smart, Aware)),
    ];
    for drop in drops {
        let mut bench = held_back();
        drop(&mut bench.snoop);
        assert_eq!(bench.drain(at(1)).down, held);
    }
    // After flow control is disabled, the connection continues, and nothing is held any more.
    let mut bench = held_back();
    bench.snoop.set_config(at(1), SnoopConfig::new(Smart, Aware));
    assert_eq!((bench.snoop.connections(), bench.snoop.cached_bytes()), (1, 14 * 256));
    bench.drain(at(1));
    assert_eq!(bench.wired(2, data(14)).down, [(Cause::New, 14)]);
    // A connection that is reset does not send its held data.
    let mut bench = held_back();
    let reset = segment(Side::Initiator, 0, Segment { seq: seq(14), flags: Flags::RST, ..Segment::default() });
    assert_eq!(bench.wired(1, reset).down.len(), 1);
    assert_eq!((bench.drain(at(1)).down, bench.snoop.connections(), bench.snoop.cached_bytes()), (Vec::new(), 0, 0));
}

/// A repaired hole frees a window at once, which as a burst could overflow the queue in front of the hop. Ten segments
/// are sent, and the others at twice a window per round trip, as in slow start.
#[test]
fn what_a_repair_sets_free_goes_spread_over_the_round_trip() {
    let mut bench = Bench::wide(SnoopConfig { hop: Some(HopControl::DEFAULT), ..SnoopConfig::new(Smart, Aware) });
    let mut gone = (0..40).map(|n| bench.wired(0, data(n)).down.len()).sum::<usize>();
    assert_eq!(gone, 10);
    let mut now = 100;
    for window in [20, 40] {
        let at_once = bench.wireless(now, ack(gone as u32)).down;
        if gone == 10 {
            (40..400).for_each(|n| assert_eq!(bench.wired(now, data(n)).down, []));
        }
        // Beyond that it would count as a silence.
        let later = bench.resent_until(now + 49);
        let numbers = at_once.iter().copied().chain(later.iter().map(|&(_, sent)| sent));
        assert!(numbers.eq((gone as u32..).map(|n| (Cause::New, n)).take(window)), "{window} from {gone}");
        assert!(at_once.len() <= 11, "{} of {window} at once", at_once.len());
        // The others are spread over their part of 50 ms.
        let last = later.last().map_or(now, |&(when, _)| when);
        let part = 50 * (window as u64 - 11) / window as u64;
        assert!((now + part - 1..=now + part + 1).contains(&last), "the last of {window} at {last}, {now}");
        gone += window;
        // The packet sent last takes as long as the first.
        now = last + 100;
    }
}

/// The handshake measures the hop before data does, whichever end opens.
#[test]
fn a_long_hop_is_not_given_up_before_its_first_acknowledgment() {
    let timer_min = Duration::from_millis(50);
    let config = || SnoopConfig { timer_min, ..SnoopConfig::new(Smart, Aware) };
    // The sender opens; the hop takes 200 ms, so the timeout is three times that.
    let mut bench = Bench::unopened(config());
    let [syn, answer] = handshake();
    bench.wired(0, syn);
    bench.wireless(200, answer);
    bench.wired(220, data(0));
    assert_eq!(bench.idle_until(900).first(), Some(&820));
    // The mobile host opens.
    let mut bench = Bench::unopened(config());
    let turned = |packet: Packet| Packet { from: packet.from.peer(), ..packet };
    let [of_mobile, of_sender] = handshake();
    let of_mobile = change(of_mobile, |segment| segment.seq = Seq(0) - 1);
    let of_sender = change(of_sender, |segment| (segment.seq, segment.ack) = (ISN - 1, Seq(0)));
    bench.wireless(0, of_mobile);
    bench.wired(20, of_sender);
    bench.wireless(220, turned(ack(0)));
    bench.wired(240, turned(data(0)));
    assert_eq!(bench.idle_until(900).first(), Some(&840));
    // Another component has tracked the handshake.
    let mut tracking = Tracking::new();
    for (millis, packet) in [(0, of_mobile), (20, of_sender), (220, turned(ack(0)))] {
        tracking.take(at(millis), packet.from, packet.tcp().unwrap(), 0);
    }
    let mut bench = Bench::unopened(config());
    bench.snoop.adopt(at(220), of_sender.flow, Owner(0), of_sender.from, tracking);
    bench.wired(240, turned(data(0)));
    assert_eq!(bench.idle_until(900).first(), Some(&840));
    // Spoofed SYNs are not its opening.
    let mut bench = Bench::unopened(config());
    bench.wired(0, change(syn, |segment| segment.seq += 77));
    bench.wired(10, syn);
    bench.wired(150, change(syn, |segment| segment.seq += 99));
    bench.wireless(210, answer);
    bench.wired(220, change(syn, |segment| segment.seq += 99));
    bench.wired(230, data(0));
    assert_eq!(bench.idle_until(900).first(), Some(&830));
    // It is ambiguous which of two was answered.
    let mut bench = Bench::unopened(config());
    bench.wired(0, syn);
    bench.wired(150, syn);
    bench.wireless(200, answer);
    bench.wired(220, data(0));
    assert_eq!(bench.idle_until(900).first(), Some(&320));
}

/// Retransmissions of data that is not resent here must pass.
#[test]
fn only_what_the_timer_takes_care_of_is_kept_from_the_hop() {
    let hop = Some(HopControl::DEFAULT);
    // A connection picked up in progress, of which two packets were seen: there may never be an acknowledgment.
    let mut bench = Bench { aware: true, snoop: Snoop::new(SnoopConfig { hop, ..SnoopConfig::new(Smart, Aware) }) };
    assert_eq!(bench.wired(0, data(49)).down, [(Cause::New, 49)]);
    for n in 1..5 {
        assert_eq!(bench.wired(1000 * n, data(50)).down, [(Cause::New, 50)]);
    }
    bench.wireless(4999, ack(49));
    bench.wireless(5000, ack(50));
    assert_eq!(bench.wired(5001, data(50)).down, [(Cause::New, 50)]);
    assert_eq!(bench.wired(5002, data(50)).down, []);
    // No tries at all.
    let mut bench = Bench::with(SnoopConfig { hop, max_local_retries: 0, ..SnoopConfig::new(Smart, Aware) });
    bench.wired(0, data(0));
    bench.wireless(1, ack(0));
    assert_eq!(bench.wired(300, data(0)).down, [(Cause::New, 0)]);
}

#[test]
fn ten_thousand_connections_each_have_their_timer() {
    let mut bench = Bench::new(DuplicateAcks, Aware);
    for flow in 0..10_000 {
        let sent = u64::from(flow) / 100;
        let own = |packet| Packet { flow: FlowId(flow), ..packet };
        bench.open(flow);
        bench.wired(sent, own(data(0)));
        bench.wired(sent, own(data(1)));
        bench.wireless(sent + 1, own(ack(1)));
    }
    assert_eq!(bench.idle_until(301).len(), 10_000);
}

/// \[a\] §IV: exponential errors of one in 64 KB. No link-layer scheme may provoke a coarse timeout, and the TCP-aware
/// ones hide every loss from the sender.
#[test]
fn the_four_schemes_of_the_paper() {
    for (buffer, millis, least) in [(8_192, 3, 1.35), (32_768, 3, 1.35), (32_768, 65, 1.2)] {
        for (detection, awareness) in [DuplicateAcks, Smart].into_iter().flat_map(|d| [(d, Unaware), (d, Aware)]) {
            for seed in 0..4 {
                let mut tcp = TcpConfig::preset(Preset::BsdLite);
                (tcp.common.send_buffer, tcp.receiver.receive_buffer) = (buffer, buffer);
                tcp.receiver.smart_acks = if detection == Smart { Switch::On } else { Switch::Off };
                let loss = Loss { mean_bytes: 65_536.0, burst: 1 };
                let base = Snoop::new(SnoopConfig::new(detection, awareness));
                let outcome = transfer(base, tcp, Duration::from_millis(millis), loss, 8_000_000, seed);
                let case = (detection, awareness, buffer, millis, &outcome);
                assert_eq!(outcome.timeouts, 0, "{case:?}");
                // Unaware schemes over the WAN halve the sender's window at most losses: 0.82 and 0.93 in \[a\].
                let least = if awareness == Unaware && millis == 65 { 0.7 } else { least };
                assert!(outcome.mbps > least, "{case:?}");
                if awareness == Aware {
                    assert!(outcome.redundant <= 3, "{case:?}");
                    assert_eq!(outcome.source_resends, 0, "{case:?}");
                } else {
                    assert!(outcome.source_resends > 0, "{case:?}");
                }
            }
        }
    }
}

/// In bursts, SMART numbers show all holes, duplicates one at a time (\[a\] §V).
#[test]
fn masks_repair_bursts_better() {
    let mbps = |detection, burst| {
        let total: f64 = (0..4)
            .map(|seed| {
                let mut tcp = TcpConfig::preset(Preset::BsdLite);
                tcp.receiver.smart_acks = if detection == Smart { Switch::On } else { Switch::Off };
                let loss = Loss { mean_bytes: 65_536.0, burst };
                let base = Snoop::new(SnoopConfig::new(detection, Aware));
                transfer(base, tcp, Duration::from_millis(3), loss, 4_000_000, seed).mbps
            })
            .sum();
        total / 4.0
    };
    for burst in [4, 6] {
        let (plain, masks) = (mbps(DuplicateAcks, burst), mbps(Smart, burst));
        assert!(masks > plain && plain > 0.8, "{burst}: {masks} {plain}");
    }
}

/// The hop's losses stay hidden from a SACK sender behind a SACK-aware snoop.
#[test]
fn a_sack_sender_does_not_learn_of_the_losses() {
    for (millis, burst) in [(3, 1), (3, 4), (65, 1), (65, 4)] {
        for seed in 0..2 {
            let mut tcp = TcpConfig::preset(Preset::Rfc);
            (tcp.common.send_buffer, tcp.receiver.receive_buffer) = (65_536, 65_536);
            let loss = Loss { mean_bytes: 65_536.0, burst };
            let base = Snoop::new(SnoopConfig::new(Smart, Aware));
            let outcome = transfer(base, tcp, Duration::from_millis(millis), loss, 8_000_000, seed);
            let case = (millis, burst, seed, &outcome);
            assert_eq!((outcome.timeouts, outcome.source_resends), (0, 0), "{case:?}");
            assert!(outcome.mbps > 1.3 && outcome.suppressed > 0, "{case:?}");
        }
    }
}

/// With flow control on the hop the sender's windows do not matter, and neither losses nor a full queue affect it.
#[test]
fn flow_control_keeps_the_hop_full_and_its_queue_short() {
    for (millis, burst) in [(3, 1), (65, 1), (65, 4)] {
        for seed in 0..2 {
            let mut tcp = TcpConfig::preset(Preset::Rfc);
            (tcp.common.send_buffer, tcp.receiver.receive_buffer) = (1 << 20, 1 << 20);
            let loss = Loss { mean_bytes: 65_536.0, burst };
            let base = Snoop::new(SnoopConfig { hop: Some(HopControl::DEFAULT), ..SnoopConfig::new(Smart, Aware) });
            let outcome = transfer(base, tcp, Duration::from_millis(millis), loss, 8_000_000, seed);
            let case = (millis, burst, seed, &outcome);
            assert_eq!((outcome.timeouts, outcome.source_resends), (0, 0), "{case:?}");
            assert!(outcome.mbps > 1.3, "{case:?}");
            // The sum of the data that fills this hop, which has no delay of its own, the backlog, and the probes of a
            // silence.
            assert!(outcome.longest_queue <= 32, "{case:?}");
        }
    }
}
