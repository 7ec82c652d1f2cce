//! Tests of each rule, with the RFC it is from: a packet that an end would refuse changes nothing, one that it accepts
//! does.

use super::*;
use crate::packet::{Options, Timestamps};

impl Tracking {
    /// Takes a packet whose time does not matter.
    fn see(&mut self, from: Side, segment: &Segment, len: u32) -> Take {
        self.take(Instant::ZERO, from, segment, len)
    }
}

/// Initial sequence numbers: of the client, just before the wrap, and of the server.
const CLIENT: Seq = Seq(u32::MAX - 2_000);
const SERVER: Seq = Seq(70_000);
const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
/// Window that either end advertises, in bytes, scaled by 2^7.
const WINDOW: u32 = 128_000;

fn segment(seq: Seq, ack: Seq, flags: Flags) -> Segment {
    Segment { seq, ack, window: 1_000, flags, options: Options::default() }
}

fn syn(seq: Seq, ack: Seq, flags: Flags) -> Segment {
    let mut syn = segment(seq, ack, flags);
    syn.options.window_scale = Some(7);
    syn
}

fn stamped(mut segment: Segment, val: u32, ecr: u32) -> Segment {
    segment.options.timestamps = Some(Timestamps { val, ecr });
    segment
}

/// Returns a data segment of the client, `at` bytes into its stream, that acknowledges `acked` bytes of the server's.
fn data(at: u32, acked: u32) -> Segment {
    segment(CLIENT + 1 + at, SERVER + 1 + acked, Flags::ACK)
}

/// Returns the server's acknowledgment of `acked` bytes after it has sent `at` bytes itself.
fn ack(acked: u32, at: u32) -> Segment {
    segment(SERVER + 1 + at, CLIENT + 1 + acked, Flags::ACK)
}

/// Returns the state after the handshake, with window scales.
fn opened() -> Tracking {
    let mut tracking = Tracking::new();
    assert_eq!(tracking.see(Side::Initiator, &syn(CLIENT, Seq(0), Flags::SYN), 0), Take::Refused);
    assert!(!tracking.is_open());
    assert_eq!(tracking.see(Side::Acceptor, &syn(SERVER, CLIENT + 1, SYN_ACK), 0), Take::Opened);
    assert_eq!(tracking.see(Side::Initiator, &data(0, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Acceptor, &ack(0, 0), 0), Take::Believed);
    tracking
}

/// Returns the state after a SYN with the timestamp 100 and its answer with 9,000.
fn stamping() -> Tracking {
    let mut tracking = Tracking::new();
    tracking.see(Side::Initiator, &stamped(syn(CLIENT, Seq(0), Flags::SYN), 100, 0), 0);
    tracking.see(Side::Acceptor, &stamped(syn(SERVER, CLIENT + 1, SYN_ACK), 9_000, 100), 0);
    tracking
}

/// Checks that a refused packet leaves all state on which later verdicts depend unchanged.
fn unchanged(before: &Tracking, after: &Tracking) {
    let picture =
        |tracking: &Tracking| alloc::format!("{:?} {:?} {:?}", tracking.halves, tracking.stage, tracking.scales);
    assert_eq!(picture(before), picture(after));
}

fn refuses(tracking: &mut Tracking, from: Side, segment: &Segment, len: u32) {
    let before = tracking.clone();
    assert_eq!(tracking.see(from, segment, len), Take::Refused, "{segment:?}");
    unchanged(&before, tracking);
}

#[test]
fn a_handshake_opens_and_tells_the_scales() {
    let tracking = opened();
    assert!(tracking.is_open());
    assert_eq!((tracking.shift(Side::Initiator), tracking.shift(Side::Acceptor)), (Some(7), Some(7)));
    assert_eq!(tracking.acked(Side::Initiator), Some(CLIENT + 1));
    // RFC 7323 §2.2: only if both ends offered it.
    let mut tracking = Tracking::new();
    tracking.see(Side::Initiator, &syn(CLIENT, Seq(0), Flags::SYN), 0);
    tracking.see(Side::Acceptor, &segment(SERVER, CLIENT + 1, SYN_ACK), 0);
    assert_eq!((tracking.shift(Side::Initiator), tracking.shift(Side::Acceptor)), (Some(0), Some(0)));
}

/// RFC 9293 §3.10.7.4: data is acceptable within the receiver's window.
#[test]
fn data_is_believed_inside_the_window_only() {
    let mut tracking = opened();
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW - 1_000, 0), 1_000), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW - 999, 0), 1_000), Take::Refused);
    assert_eq!(tracking.next(Side::Initiator), CLIENT + 1 + WINDOW);
    refuses(&mut tracking, Side::Initiator, &data(10_000_000, 0), 1_000);
    refuses(&mut tracking, Side::Initiator, &segment(CLIENT - 1_000_000, SERVER + 1, Flags::ACK), 1_000);
    // The window moves with the acknowledgments, and not without them.
    assert_eq!(tracking.see(Side::Acceptor, &ack(WINDOW, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW - 999, 0), 1_000), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(0, 0), 1_000), Take::Old);
    refuses(&mut tracking, Side::Initiator, &data(2 * WINDOW + 5, 0), 1);
    // Nothing precedes the start of the stream.
    let mut tracking = opened();
    tracking.see(Side::Acceptor, &ack(0, 0), 0);
    refuses(&mut tracking, Side::Initiator, &segment(CLIENT - 1_000, SERVER + 1, Flags::ACK), 1_000);
}

/// RFC 5961 §5.2: no more than was sent, no less than a window behind. In addition, the segment itself has to be
/// acceptable.
#[test]
fn an_acknowledgment_is_believed_with_both_its_numbers_right_only() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 100_000);
    for wrong in [WINDOW + 3, 1 << 30, 1 << 31, 3 << 30] {
        refuses(&mut tracking, Side::Acceptor, &ack(wrong, 0), 0);
        refuses(&mut tracking, Side::Acceptor, &ack(50_000, wrong), 0);
    }
    assert_eq!(tracking.see(Side::Acceptor, &ack(50_000, 0), 0), Take::Believed);
    // Sent before its own data was acknowledged.
    tracking.see(Side::Acceptor, &ack(50_000, 0), 500);
    tracking.see(Side::Initiator, &data(100_000, 500), 0);
    refuses(&mut tracking, Side::Acceptor, &ack(60_000, 499), 0);
    assert_eq!(tracking.see(Side::Acceptor, &ack(60_000, 500), 0), Take::Believed);
}

/// RFC 9293 §3.10.7.4: the send window is updated if SND.UNA =< SEG.ACK. The largest window that the receiver ever
/// granted, by which RFC 5961 §5.2 refuses older acknowledgments, therefore stays unchanged, and so does the right
/// edge.
#[test]
fn an_older_acknowledgment_grants_nothing() {
    let mut tracking = opened();
    let step = |tracking: &mut Tracking, at: u32| {
        assert_eq!(tracking.see(Side::Initiator, &data(at, 0), 100_000), Take::Believed);
        assert_eq!(tracking.see(Side::Acceptor, &ack(at + 100_000, 0), 0), Take::Believed);
    };
    step(&mut tracking, 0);
    step(&mut tracking, 100_000);
    let made_up = Segment { window: u16::MAX, ..ack(199_000, 0) };
    assert_eq!(tracking.see(Side::Acceptor, &made_up, 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(200_000 + WINDOW - 999, 0), 1_000), Take::Refused);
    step(&mut tracking, 200_000);
    refuses(&mut tracking, Side::Acceptor, &ack(300_000 - WINDOW - 1, 0), 0);
    assert_eq!(tracking.see(Side::Acceptor, &ack(300_000 - WINDOW, 0), 0), Take::Believed);
}

/// RFC 9293 §3.8.6.1: a byte beyond a closed window may be accepted.
#[test]
fn a_probe_that_was_taken_is_no_riddle() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), WINDOW);
    let closed = Segment { window: 0, ..ack(WINDOW, 0) };
    assert_eq!(tracking.see(Side::Acceptor, &closed, 0), Take::Believed);
    refuses(&mut tracking, Side::Acceptor, &ack(WINDOW + 1, 0), 0);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW, 0), 1), Take::Refused);
    assert_eq!(tracking.see(Side::Acceptor, &ack(WINDOW + 1, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW + 1, 0), 1_000), Take::Believed);
}

/// Data at the edge of an open window, or an empty segment, is no probe: it does not extend the data that may be
/// acknowledged.
#[test]
fn only_bytes_at_the_edge_of_a_closed_window_are_a_probe() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 1_000);
    tracking.see(Side::Acceptor, &ack(1_000, 0), 0);
    for len in 0..3 {
        refuses(&mut tracking, Side::Initiator, &data(1_000 + WINDOW, 0), len);
    }
    refuses(&mut tracking, Side::Acceptor, &ack(1_001, 0), 0);
    tracking.see(Side::Initiator, &data(1_000, 0), WINDOW);
    tracking.see(Side::Acceptor, &Segment { window: 0, ..ack(1_000 + WINDOW, 0) }, 0);
    for len in [3, 1_000] {
        refuses(&mut tracking, Side::Initiator, &data(1_000 + WINDOW, 0), len);
    }
    refuses(&mut tracking, Side::Acceptor, &ack(1_001 + WINDOW, 0), 0);
}

/// RFC 5961 §3.2: "If the RST bit is set and the sequence number exactly matches the next expected sequence number
/// (RCV.NXT), then TCP MUST reset the connection. If the RST bit is set and the sequence number does not exactly match
/// the next expected sequence value, yet is within the current receive window, TCP MUST send an acknowledgment
/// (challenge ACK)."
#[test]
fn a_reset_ends_the_connection_at_exactly_the_next_number_only() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 5_000);
    // The other end was at 0 in its last acknowledgment; with data in flight it may be further.
    for at in [0, 1, 4_999, 5_001, 100_000, 1 << 31] {
        refuses(&mut tracking, Side::Initiator, &Segment { flags: Flags::RST, ..data(at, 0) }, 0);
    }
    tracking.see(Side::Acceptor, &ack(3_000, 0), 0);
    for at in [0, 2_999, 3_000, 3_001] {
        refuses(&mut tracking, Side::Initiator, &Segment { flags: Flags::RST, ..data(at, 0) }, 0);
    }
    for at in [1, 100_000, 1 << 31] {
        refuses(&mut tracking, Side::Acceptor, &Segment { flags: Flags::RST, ..ack(at, at) }, 0);
    }
    let mut reset = tracking.clone();
    assert_eq!(reset.see(Side::Initiator, &Segment { flags: Flags::RST, ..data(5_000, 0) }, 0), Take::Reset);
    assert!(!reset.is_open());
    // A vanished end answers a packet with a reset at the number that the packet acknowledges (RFC 9293 §3.10.7.1).
    assert_eq!(tracking.see(Side::Acceptor, &Segment { flags: Flags::RST, ..ack(0, 0) }, 0), Take::Reset);
}

#[test]
fn a_side_has_ended_with_its_fin_and_nothing_behind_it() {
    let fin = |at| Segment { flags: Flags::ACK.with(Flags::FIN), ..data(at, 0) };
    let mut tracking = opened();
    assert!(!tracking.has_ended(Side::Initiator));
    tracking.see(Side::Initiator, &data(0, 0), 1000);
    // A spoofed one below data that the side has already sent.
    assert_eq!(tracking.see(Side::Initiator, &fin(300), 0), Take::Believed);
    assert!(!tracking.has_ended(Side::Initiator));
    // Another, after which the side continues to send.
    assert_eq!(tracking.see(Side::Initiator, &fin(1500), 0), Take::Believed);
    assert!(tracking.has_ended(Side::Initiator) && !tracking.has_ended(Side::Acceptor));
    tracking.see(Side::Initiator, &data(1000, 0), 1000);
    assert!(!tracking.has_ended(Side::Initiator));
    // Its own, with data; a repetition of earlier data changes nothing.
    tracking.see(Side::Initiator, &fin(2000), 1000);
    tracking.see(Side::Initiator, &data(1000, 0), 1000);
    assert!(tracking.has_ended(Side::Initiator));
    tracking.see(Side::Acceptor, &ack(3001, 0), 0);
    assert!(tracking.has_ended(Side::Initiator));
}

/// RFC 5961 §4.2: a SYN alone changes nothing.
#[test]
fn a_new_connection_on_the_same_ports_takes_a_whole_handshake() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 5_000);
    let (client, server) = (CLIENT + 900_000, SERVER + 900_000);
    refuses(&mut tracking, Side::Initiator, &syn(client, Seq(0), Flags::SYN), 0);
    // A flood of others does not displace it.
    for n in 0..3 {
        refuses(&mut tracking, Side::Initiator, &syn(Seq(n * 77), Seq(0), Flags::SYN), 0);
    }
    refuses(&mut tracking, Side::Acceptor, &syn(server, client + 1, SYN_ACK), 0);
    // The old connection still continues.
    assert_eq!(tracking.clone().see(Side::Initiator, &data(5_000, 0), 1_000), Take::Believed);
    refuses(&mut tracking, Side::Initiator, &segment(client + 2, server + 1, Flags::ACK), 0);
    assert_eq!(tracking.see(Side::Initiator, &segment(client + 1, server + 1, Flags::ACK), 0), Take::Opened);
    assert_eq!(tracking.see(Side::Initiator, &segment(client + 1, server + 1, Flags::ACK), 700), Take::Believed);
    refuses(&mut tracking, Side::Initiator, &data(5_000, 0), 1_000);
}

/// RFC 9293 §3.10.7.3.
#[test]
fn a_refused_connection_is_over_and_a_forged_refusal_is_not_believed() {
    let mut tracking = Tracking::new();
    tracking.see(Side::Initiator, &syn(CLIENT, Seq(0), Flags::SYN), 0);
    let refusal = segment(Seq(0), CLIENT + 2, Flags::RST.with(Flags::ACK));
    assert_eq!(tracking.see(Side::Acceptor, &refusal, 0), Take::Refused);
    assert_eq!(tracking.see(Side::Acceptor, &Segment { ack: CLIENT + 1, ..refusal }, 0), Take::Reset);
}

/// RFC 7323 §5.3 and §4.3: judged by what the other end has echoed, not by what was sent, possibly spoofed.
#[test]
fn replays_are_refused_by_what_the_other_end_has_taken() {
    let mut tracking = stamping();
    tracking.see(Side::Initiator, &stamped(data(0, 0), 105, 9_000), 0);
    tracking.see(Side::Acceptor, &stamped(ack(0, 0), 9_000, 100), 0);
    assert_eq!(tracking.see(Side::Initiator, &stamped(data(0, 0), 110, 9_000), 1_000), Take::Believed);
    // Far in the future, inside the window: the other end accepts it, but does not echo it before the bytes below it
    // arrive.
    assert_eq!(tracking.see(Side::Initiator, &stamped(data(50_000, 0), 1 << 30, 9_000), 1_000), Take::Believed);
    assert_eq!(tracking.recent(Side::Initiator), Some(100));
    assert_eq!(tracking.see(Side::Acceptor, &stamped(ack(1_000, 0), 9_010, 110), 0), Take::Believed);
    assert_eq!(tracking.recent(Side::Initiator), Some(110));
    refuses(&mut tracking, Side::Initiator, &stamped(data(1_000, 0), 109, 9_010), 1_000);
    refuses(&mut tracking, Side::Initiator, &data(1_000, 0), 1_000);
    assert_eq!(tracking.see(Side::Initiator, &stamped(data(1_000, 0), 120, 9_010), 1_000), Take::Believed);
    // An echo of a timestamp that was never sent does not count.
    tracking.see(Side::Acceptor, &stamped(ack(2_000, 0), 9_020, (1 << 30) + 1), 0);
    assert_eq!(tracking.recent(Side::Initiator), Some(110));
    // Neither does one that may be later as well as earlier than all that was sent.
    tracking.see(Side::Acceptor, &stamped(ack(2_000, 0), 9_020, (1 << 30) + (1 << 31)), 0);
    assert_eq!(tracking.recent(Side::Initiator), Some(110));
}

/// If a SYN had no timestamps, ends ignore those that arrive nevertheless (RFC 7323 §3.2). Spoofed ones do not make the
/// ends' own packets, which have none, look like replays.
#[test]
fn timestamps_that_no_syn_agreed_on_say_nothing() {
    let mut tracking = opened();
    assert_eq!(tracking.see(Side::Initiator, &stamped(data(0, 0), 500, 600), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Acceptor, &stamped(ack(0, 0), 600, 500), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(0, 0), 1_000), Take::Believed);
    assert_eq!(tracking.see(Side::Acceptor, &ack(1_000, 0), 0), Take::Believed);
    assert_eq!(tracking.recent(Side::Initiator), None);
}

/// A gateway that starts while a connection is in progress does not know the window scale: it learns it from
/// acknowledgments.
#[test]
fn a_connection_is_picked_up_in_its_midst() {
    let mut tracking = picked_up();
    assert_eq!(tracking.shift(Side::Acceptor), None);
    // Only 1000 bytes are certainly allowed.
    assert_eq!(tracking.see(Side::Initiator, &data(0, 0), 1_000), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(1_000, 0), 31_000), Take::Refused);
    assert_eq!(tracking.see(Side::Acceptor, &ack(1_000, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(32_000, 0), 1_000), Take::Refused);
    // The data in flight is acknowledged: 32 times as much was allowed.
    assert_eq!(tracking.see(Side::Acceptor, &ack(2_000, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Acceptor, &ack(32_000, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(33_000, 0), 31_000), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(64_000, 0), 1_000), Take::Refused);
}

/// Packets of one side alone cannot replace a connection.
#[test]
fn a_stranger_on_one_side_does_not_displace_a_connection() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 5_000);
    for n in 0..1_000u32 {
        let forged = segment(Seq(n << 20), Seq(n << 19), Flags::ACK);
        let before = tracking.clone();
        if tracking.see(Side::Initiator, &forged, 1_000) == Take::Refused {
            unchanged(&before, &tracking);
        }
    }
    assert_eq!(tracking.see(Side::Initiator, &data(5_000, 0), 1_000), Take::Believed);
}

/// A refused packet of the other side, such as a late one, does not help: spoofed data near the numbers in it would be
/// taken for the stream.
#[test]
fn a_stranger_and_a_late_packet_do_not_make_a_connection() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 5_000);
    tracking.see(Side::Acceptor, &ack(5_000, 0), 500);
    tracking.see(Side::Initiator, &data(5_000, 500), 0);
    for n in 0..100 {
        refuses(&mut tracking, Side::Initiator, &data(1_000_000 + n, 500), 1_000);
        if n % 30 == 29 {
            refuses(&mut tracking, Side::Acceptor, &ack(5_000, 100), 0);
        }
    }
    assert_eq!(tracking.see(Side::Initiator, &data(5_000, 500), 1_000), Take::Believed);
}

/// If much of a connection takes another path, none of it fits until both ends show their position.
#[test]
fn what_passed_elsewhere_is_made_up_for() {
    let mut tracking = opened();
    let (far, mut takes) = (50_000_000, Vec::new());
    let wide = |segment: Segment| Segment { window: 60_000, ..segment };
    for n in 0..6 {
        takes.push(tracking.see(Side::Initiator, &wide(data(far + n * 1_000, 0)), 1_000));
        takes.push(tracking.see(Side::Acceptor, &wide(ack(far + n * 1_000, 0)), 0));
    }
    assert_eq!(takes.iter().filter(|&&take| take == Take::Opened).count(), 1, "{takes:?}");
    assert!(takes[..7].iter().all(|&take| take == Take::Refused));
    assert_eq!(tracking.see(Side::Acceptor, &ack(far + 6_000, 0), 0), Take::Believed);
}

/// Packets that a full queue lets pass are not seen: both ends have then moved on. Spoofed data may be the last that
/// was seen.
#[test]
fn after_a_gap_a_stranger_is_not_taken_for_the_sender() {
    for strangers_last in [false, true] {
        let mut tracking = opened();
        tracking.see(Side::Initiator, &data(0, 0), 5_000);
        let mut takes = Vec::new();
        for n in 1..=u32::from(DOUBT) {
            let own = ack(60_000 - 1_000 * (u32::from(DOUBT) - n), 0);
            if strangers_last {
                takes.push(tracking.see(Side::Acceptor, &own, 0));
            }
            takes.push(tracking.see(Side::Initiator, &data(500_000 + n * 1_000, 0), 1_000));
            if !strangers_last {
                takes.push(tracking.see(Side::Acceptor, &own, 0));
            }
        }
        assert_eq!(takes.pop(), Some(Take::Opened));
        assert!(takes.iter().all(|&take| take == Take::Refused), "{takes:?}");
        // The options of both SYNs stay valid, and spoofed data does not count as sent.
        assert_eq!(tracking.shift(Side::Acceptor), Some(7));
        assert_eq!(tracking.next(Side::Initiator), CLIENT + 1 + 60_000);
        refuses(&mut tracking, Side::Initiator, &data(500_000, 0), 1_000);
        refuses(&mut tracking, Side::Acceptor, &ack(501_000, 0), 0);
        // Data that was not seen becomes known by the data that follows it.
        refuses(&mut tracking, Side::Acceptor, &ack(80_000, 0), 0);
        assert_eq!(tracking.see(Side::Initiator, &data(80_000, 0), 1_000), Take::Believed);
        assert_eq!(tracking.see(Side::Acceptor, &ack(81_000, 0), 0), Take::Believed);
    }
}

/// A sender may know a wider window than was seen here, by a spoofed acknowledgment. The receiver accepts the part
/// inside its own window as of the arrival. Data across the edge is not accepted here, but may be acknowledged in part;
/// data beyond the edge may not.
#[test]
fn what_lies_across_the_edge_may_be_taken_in_part() {
    let mut tracking = opened();
    assert_eq!(tracking.see(Side::Initiator, &data(0, 0), WINDOW - 500), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW - 500, 0), 3_000), Take::Refused);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW + 2_500, 0), 3_000), Take::Refused);
    refuses(&mut tracking, Side::Acceptor, &ack(WINDOW + 2_501, 0), 0);
    assert_eq!(tracking.see(Side::Acceptor, &ack(WINDOW + 2_000, 0), 0), Take::Believed);
    assert_eq!(tracking.next(Side::Initiator), CLIENT + 1 + WINDOW + 2_000);
    assert_eq!(tracking.see(Side::Initiator, &data(WINDOW + 2_000, 0), 1_000), Take::Believed);
}

/// After a gap a connection is picked up with a packet that continues the one before, not with a spoofed one in
/// between.
#[test]
fn after_a_gap_one_packet_of_a_stranger_is_not_where_the_stream_goes_on() {
    let mut tracking = opened();
    let (far, mut takes) = (500_000, Vec::new());
    for n in 0..2 * u32::from(DOUBT) {
        takes.push(tracking.see(Side::Acceptor, &ack(far, 0), 0));
        let mut forged = ack(far + 2_500, 0);
        forged.seq += 700;
        takes.push(tracking.see(Side::Acceptor, &forged, 0));
        takes.push(tracking.see(Side::Initiator, &data(far + n * 1_000, 0), 1_000));
    }
    assert!(takes.iter().all(|&take| take == Take::Refused), "{takes:?}");
    assert_eq!(tracking.see(Side::Acceptor, &ack(far + 1_000, 0), 0), Take::Refused);
    assert_eq!(tracking.see(Side::Acceptor, &ack(far + 2_000, 0), 0), Take::Opened);
    assert_eq!(tracking.acked(Side::Initiator), Some(CLIENT + 1 + far + 2_000));
}

/// A spoofed acknowledgment of data not sent does not help either, although it has the end's own number (RFC 9293
/// §3.10.7.4).
#[test]
fn after_a_gap_nothing_is_acknowledged_that_was_not_sent() {
    let mut tracking = opened();
    let far = 500_000;
    for _ in 0..DOUBT {
        refuses(&mut tracking, Side::Acceptor, &ack(far, 0), 0);
    }
    for n in 0..DOUBT {
        refuses(&mut tracking, Side::Acceptor, &ack(far + 50_000, 0), 0);
        refuses(&mut tracking, Side::Initiator, &data(far + u32::from(n) * 1_000, 0), 1_000);
    }
    refuses(&mut tracking, Side::Acceptor, &ack(far, 0), 0);
    assert_eq!(tracking.see(Side::Acceptor, &ack(far + 1_000, 0), 0), Take::Opened);
    assert_eq!(tracking.acked(Side::Initiator), Some(CLIENT + 1 + far + 1_000));
    refuses(&mut tracking, Side::Initiator, &data(far + 1_000 + WINDOW, 0), 1_000);
}

/// Repetitions from both sides do not help either: of two ends that make progress, one sends more or acknowledges more.
#[test]
fn what_is_repeated_is_no_gap() {
    let mut tracking = opened();
    tracking.see(Side::Initiator, &data(0, 0), 1_000);
    tracking.see(Side::Acceptor, &ack(1_000, 0), 0);
    for _ in 0..3 * DOUBT {
        refuses(&mut tracking, Side::Initiator, &data(500_000, 0), 1_000);
        refuses(&mut tracking, Side::Acceptor, &ack(1_001, 0), 100);
    }
    for _ in 0..3 * DOUBT {
        refuses(&mut tracking, Side::Initiator, &data(500_000, 0), 1_000);
    }
    for _ in 0..3 * DOUBT {
        refuses(&mut tracking, Side::Acceptor, &ack(1_001, 0), 100);
    }
    assert_eq!(tracking.see(Side::Initiator, &data(1_000, 0), 1_000), Take::Believed);
    assert_eq!(tracking.see(Side::Acceptor, &ack(2_000, 0), 0), Take::Believed);
}

/// After a gap, too, the other end refuses timestamps older than it has accepted (RFC 7323 §5.3), so that a connection
/// is not picked up with a spoofed old timestamp.
#[test]
fn after_a_gap_timestamps_do_not_move_back() {
    let mut tracking = stamping();
    tracking.see(Side::Initiator, &stamped(data(0, 0), 105, 9_000), 1_000);
    assert_eq!(tracking.see(Side::Acceptor, &stamped(ack(1_000, 0), 9_010, 105), 0), Take::Believed);
    // Much was not seen. An attacker has the number that the server expects, and a timestamp one tick too old.
    let mut takes = Vec::new();
    for _ in 0..2 * DOUBT {
        takes.push(tracking.see(Side::Acceptor, &stamped(ack(500_000, 0), 9_020, 115), 0));
        takes.push(tracking.see(Side::Initiator, &stamped(data(500_000, 0), 104, 9_010), 1_000));
    }
    assert!(takes.iter().all(|&take| take == Take::Refused), "{takes:?}");
    // The client shows itself. Being picked up is no reason to accept old timestamps.
    let shown = (0..DOUBT)
        .map(|n| tracking.see(Side::Initiator, &stamped(data(500_000 + 1_000 * u32::from(n), 0), 116, 9_020), 1_000));
    assert_eq!(shown.last(), Some(Take::Refused));
    assert_eq!(tracking.see(Side::Acceptor, &stamped(ack(501_000, 0), 9_020, 115), 0), Take::Opened);
    refuses(&mut tracking, Side::Initiator, &stamped(data(501_000, 0), 104, 9_020), 1_000);
    assert_eq!(tracking.recent(Side::Initiator), Some(115));
}

/// Returns a connection that is known to allow 1000 bytes, with a window of unknown scale.
fn picked_up() -> Tracking {
    let mut tracking = Tracking::new();
    let (before, later) = (segment(CLIENT + 1 - 500, SERVER + 1, Flags::ACK), data(0, 0));
    refuses(&mut tracking, Side::Initiator, &before, 500);
    refuses(&mut tracking, Side::Initiator, &later, 1_000);
    refuses(&mut tracking, Side::Acceptor, &segment(SERVER + 1, CLIENT + 1 - 500, Flags::ACK), 0);
    assert_eq!(tracking.see(Side::Acceptor, &ack(0, 0), 0), Take::Opened);
    tracking
}

/// If no opening was seen, spoofed packets among those of the ends neither hasten nor delay picking up a connection,
/// whether their numbers are near the true ones or not.
#[test]
fn a_stranger_does_not_move_the_beginning() {
    for distance in [0, 1, 700, 1_000, 2_500, 1 << 20, 1 << 30] {
        let mut tracking = Tracking::new();
        for n in 0..3 {
            let (own, server) = (data(n * 1_000, 0), ack(n * 1_000, 0));
            let mut forged = own;
            (forged.seq, forged.ack) = (forged.seq + distance + 1, forged.ack + distance);
            refuses(&mut tracking, Side::Initiator, &forged, 0);
            refuses(&mut tracking, Side::Initiator, &forged, 1_400);
            (forged.seq, forged.ack) = (server.seq + distance + 1, server.ack + distance);
            refuses(&mut tracking, Side::Acceptor, &forged, 0);
            let takes = [tracking.see(Side::Initiator, &own, 1_000), tracking.see(Side::Acceptor, &server, 0)];
            assert_eq!(takes, if n < 2 { [Take::Refused; 2] } else { [Take::Refused, Take::Opened] }, "{distance}");
        }
        assert_eq!(tracking.see(Side::Initiator, &data(2_000, 0), 1_000), Take::Believed, "{distance}");
        assert_eq!(tracking.see(Side::Acceptor, &ack(3_000, 0), 0), Take::Believed, "{distance}");
    }
}

/// The window scale is not learned from data that the stream itself reaches later.
#[test]
fn a_strangers_data_ahead_of_the_stream_prove_no_window() {
    let mut tracking = picked_up();
    for n in 1..=155 {
        assert_eq!(tracking.see(Side::Acceptor, &ack(n * 1_000, 0), 0), Take::Believed);
        if n < 150 {
            assert_eq!(tracking.see(Side::Initiator, &data(150_000, 0), 1_400), Take::Refused);
        }
        assert_eq!(tracking.see(Side::Initiator, &data(n * 1_000, 0), 1_000), Take::Believed);
    }
    assert_eq!(tracking.see(Side::Initiator, &data(156_000, 0), 1), Take::Refused);
}

/// The scale is learned from data acknowledged at once, whatever was seen.
#[test]
fn what_is_acknowledged_at_once_was_allowed() {
    let mut tracking = picked_up();
    assert_eq!(tracking.see(Side::Initiator, &data(31_000, 0), 1_000), Take::Refused);
    assert_eq!(tracking.see(Side::Initiator, &data(1_000, 0), 1_000), Take::Refused);
    assert_eq!(tracking.see(Side::Acceptor, &ack(32_000, 0), 0), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(32_000, 0), 32_000), Take::Believed);
    assert_eq!(tracking.see(Side::Initiator, &data(64_000, 0), 1), Take::Refused);
}

/// Time from here to an end and back: the server's answer arrives 30 ms after the SYN, the client's 20 ms after that.
/// It is ambiguous which of two was answered (Karn's algorithm, RFC 6298 §3).
#[test]
fn a_handshake_tells_how_long_either_way_takes() {
    let crossings = |syns: &[u64], answers: &[u64], served: u32| {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        let mut tracking = Tracking::new();
        for &millis in syns {
            tracking.take(at(millis), Side::Initiator, &syn(CLIENT, Seq(0), Flags::SYN), 0);
        }
        for &millis in answers {
            tracking.take(at(millis), Side::Acceptor, &syn(SERVER, CLIENT + 1, SYN_ACK), 0);
        }
        assert_eq!(tracking.crossing(Side::Acceptor), None);
        tracking.take(at(45), Side::Acceptor, &ack(0, 0), served);
        tracking.take(at(50), Side::Initiator, &data(0, served), 0);
        tracking.take(at(90), Side::Initiator, &data(0, 0), 500);
        [Side::Initiator, Side::Acceptor].map(|side| tracking.crossing(side).map(|took| took.as_nanos() / 1_000_000))
    };
    assert_eq!(crossings(&[0], &[30], 0), [Some(30), Some(20)]);
    assert_eq!(crossings(&[0, 10], &[30], 0), [None, Some(20)]);
    assert_eq!(crossings(&[0], &[30, 40], 0), [Some(30), None]);
    // The first acknowledgment was not seen, but that of the data that the server sent then.
    assert_eq!(crossings(&[0], &[30], 500), [Some(30), None]);
}
