//! Tests of scripts, frame by frame.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Act, Behind, Channel, ErrorSpec, Fate, ScriptFrame, ScriptLine};
use crate::packet::{Body, Flags, FlowId, Packet, Segment};
use crate::random::Root;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

const MSS: u32 = 1000;

fn channel(lines: &[(Option<u32>, ScriptFrame, Act)]) -> Channel {
    let line = |&(flow, frame, act): &(Option<u32>, _, _)| ScriptLine { flow: flow.map(FlowId), frame, act };
    let lines: Vec<_> = lines.iter().map(line).collect();
    Channel::new(&ErrorSpec::Script(Arc::new(lines)), Root(1).stream("unused"))
}

fn byte(byte: u64, transmission: u32) -> ScriptFrame {
    ScriptFrame::Byte { byte, transmission }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn late(by: u64, behind: Behind) -> Act {
    Act::Late { by: millis(by), behind }
}

fn tcp(flow: u32, seq: u32, len: u32, flags: Flags) -> Packet {
    let body = Body::Tcp(Segment { seq: Seq(seq), flags, ..Segment::default() });
    Packet { flow: FlowId(flow), header_len: 40, len, body, ..Packet::default() }
}

/// Returns the fate of a packet that leaves `at` milliseconds after the start.
fn judge(channel: &mut Channel, packet: &Packet, at: u64) -> Fate {
    let at = Instant::ZERO + millis(at);
    channel.judge(packet, at, at)
}

fn is_lost(channel: &mut Channel, packet: &Packet) -> bool {
    judge(channel, packet, 0) == Fate::Lost
}

/// The segment that carries a byte counts, wherever it begins: the byte is lost in its first and third transmission,
/// each time with other bytes around it.
#[test]
fn bytes_count_however_the_stream_is_cut() {
    let lose = |at, transmission| (None, byte(at, transmission), Act::Lose);
    let mut channel = channel(&[lose(1500, 1), lose(1500, 3), lose(0, 1), lose(5000, 2)]);
    // The stream begins after the SYN, at 101.
    assert!(!is_lost(&mut channel, &tcp(0, 100, 0, Flags::SYN)));
    let mut send = |first: u32, len: u32| is_lost(&mut channel, &tcp(0, 101 + first, len, Flags::ACK));
    assert!(send(1000, 1000));
    assert!(!send(2000, 1000));
    // Neither the byte before nor the one after.
    assert!(!send(1501, 10) && !send(1490, 10));
    assert!(!send(1500, 1));
    assert!(send(1400, 200));
    assert!(!send(1400, 200));
    assert!(send(0, 1000) && !send(0, 1000));
    // Data that is segmented differently the second time is the same byte.
    assert!(!send(4000, 2000));
    assert!(send(5000, 1));
    assert!(!send(5000, 1));
}

/// If the SYN took another path, the first segment that passes begins the stream. Numbers wrap.
#[test]
fn bytes_count_across_the_wrap_of_sequence_numbers() {
    let mut channel = channel(&[(Some(0), byte(2000, 2), Act::Lose), (Some(0), byte(500, 2), Act::Lose)]);
    let start = 0_u32.wrapping_sub(1500);
    let mut send = |number: u32| is_lost(&mut channel, &tcp(0, start.wrapping_add(number * MSS), MSS, Flags::ACK));
    assert_eq!([0, 1, 2, 2, 2, 0, 0].map(&mut send), [false, false, false, true, false, true, false]);
}

/// A segment of data before the stream's first byte, like a keepalive probe, is not in the script.
#[test]
fn what_lies_before_the_stream_does_not_count() {
    let mut channel = channel(&[(None, byte(0, 1), Act::Lose)]);
    assert!(!is_lost(&mut channel, &tcp(0, 100, 0, Flags::SYN)));
    assert!(!is_lost(&mut channel, &tcp(0, 100, 1, Flags::ACK)));
    assert!(is_lost(&mut channel, &tcp(0, 101, 1, Flags::ACK)));
}

#[test]
fn acknowledgments_and_syns_count_by_number_and_flow() {
    let lines = [
        (None, ScriptFrame::Ack(2), Act::Lose),
        (Some(1), ScriptFrame::Ack(3), Act::Lose),
        (None, ScriptFrame::Syn(1), Act::Lose),
        (None, ScriptFrame::Ack(0), Act::Lose),
        (None, byte(0, 0), Act::Lose),
    ];
    let mut channel = channel(&lines);
    for (flow, lost) in [(0, [false, true, false, false]), (1, [false, true, true, false])] {
        assert!(is_lost(&mut channel, &tcp(flow, 100, 0, Flags::SYN.with(Flags::ACK))));
        assert!(!is_lost(&mut channel, &tcp(flow, 100, 0, Flags::SYN.with(Flags::ACK))));
        // Neither data nor a FIN is an acknowledgment.
        assert!(!is_lost(&mut channel, &tcp(flow, 101, MSS, Flags::ACK)));
        assert!(!is_lost(&mut channel, &tcp(flow, 101, 0, Flags::ACK.with(Flags::FIN))));
        for lost in lost {
            assert_eq!(is_lost(&mut channel, &tcp(flow, 101, 0, Flags::ACK)), lost, "flow {flow}");
        }
    }
}

/// One frame is late and the others overtake it; a stall holds all later frames until it is over, in order.
#[test]
fn frames_are_late_alone_or_with_all_behind_them() {
    let lines = [
        (None, byte(0, 1), late(5, Behind::Overtake)),
        (None, byte(2000, 1), late(300, Behind::Wait)),
        (None, byte(4000, 1), Act::Lose),
        (None, byte(5000, 1), late(1, Behind::Overtake)),
        (None, byte(6000, 1), late(500, Behind::Overtake)),
    ];
    let mut channel = channel(&lines);
    let mut send =
        |number: u32, at: u64| judge(&mut channel, &tcp(number % 2, 1 + number / 2 * MSS, MSS, Flags::ACK), at);
    let late = |by| Fate::Late(millis(by));
    // Two flows, alternating by one packet; the lines concern both.
    assert_eq!([send(0, 0), send(1, 0)], [late(5), late(5)]);
    assert_eq!([send(2, 10), send(3, 11)], [Fate::Delivered; 2]);
    assert_eq!(send(4, 20), late(300));
    // The other flow's frame waits as well, and its own stall begins later.
    assert_eq!([send(3, 25), send(5, 30), send(6, 31)], [late(295), late(300), late(299)]);
    assert_eq!(send(8, 40), Fate::Lost);
    assert_eq!([send(10, 50), send(12, 60)], [late(280), late(500)]);
    // A frame that leaves at exactly the end follows the waiting ones.
    assert_eq!([send(14, 330), send(16, 331)], [late(0), Fate::Delivered]);
}

#[test]
fn the_strongest_line_holds() {
    let lines = [
        (None, byte(10, 1), Act::Mark),
        (None, byte(20, 1), late(3, Behind::Overtake)),
        (None, byte(20, 1), Act::Mark),
        (None, byte(30, 2), Act::Lose),
        (None, byte(1000, 1), Act::Mark),
    ];
    let mut channel = channel(&lines);
    let mut send = |number: u32| judge(&mut channel, &tcp(0, 7 + number * MSS, MSS, Flags::ACK), 0);
    assert_eq!(
        [send(0), send(0), send(0), send(1)],
        [Fate::Late(millis(3)), Fate::Lost, Fate::Delivered, Fate::Marked]
    );
}
