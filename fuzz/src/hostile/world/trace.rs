//! Prints the events of a script if `LASTHOP_TRACE` is set. The value `states` adds the state that the gateway has and
//! its twin lacks.

use std::fmt::Debug;
use std::sync::OnceLock;

use lasthop_proto::packet::Segment;
use lasthop_proto::seq::Seq;

use super::super::ends::{RECEIVER_ISS, SENDER_ISS};
use super::super::middle::Passed;

/// Extent of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    Nothing,
    Packets,
    /// Packets, and differences between the states of the gateway and its twin.
    States,
}

/// Returns the requested extent of the trace.
pub fn trace() -> Trace {
    static TRACE: OnceLock<Trace> = OnceLock::new();
    *TRACE.get_or_init(|| match std::env::var_os("LASTHOP_TRACE") {
        None => Trace::Nothing,
        Some(word) if word == "states" => Trace::States,
        Some(_) => Trace::Packets,
    })
}

/// Prints the lines in which two states differ.
pub fn print_difference(gateway: &impl Debug, twin: &impl Debug) {
    let (gateway, twin) = (format!("{gateway:#?}"), format!("{twin:#?}"));
    let (mut one, mut other): (Vec<_>, Vec<_>) = (gateway.lines().collect(), twin.lines().collect());
    while !one.is_empty() && one.last() == other.last() {
        one.pop();
        other.pop();
    }
    let same = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    if one.len() == other.len() {
        for at in (same..one.len()).filter(|&at| one[at] != other[at]) {
            eprintln!("      line {at}: {} twin {}", one[at].trim(), other[at].trim());
        }
    } else {
        let brief = |lines: &[&str]| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        eprintln!("      from line {same}: {}\n      twin: {}", brief(&one[same..]), brief(&other[same..]));
    }
}

/// Formats a segment for a trace, with numbers relative to the first bytes of both streams.
pub fn line(segment: &Segment, len: u32) -> String {
    let Segment { seq, ack, window, flags, options } = segment;
    let from = |at: &Seq, first: Seq| at.0.wrapping_sub(first.0.wrapping_add(1)) as i32;
    let sender = |at| from(at, SENDER_ISS);
    let receiver = |at| from(at, RECEIVER_ISS);
    let times = options.timestamps.map(|times| (times.val, times.ecr));
    let (down, up) = ((sender(seq), receiver(ack)), (receiver(seq), sender(ack)));
    let blocks: Vec<_> =
        options.sack.as_slice().iter().map(|block| (sender(&block.left), sender(&block.right))).collect();
    format!("down {down:?} up {up:?} len {len} flags {:#x} window {window} times {times:?} sack {blocks:?}", flags.0)
}

pub fn brief(passed: &Passed) -> String {
    match passed {
        Passed::Unchanged => "passes".to_owned(),
        Passed::No => "does not pass".to_owned(),
        Passed::As(sent) => format!("passes as {}", line(&sent.segment, sent.len)),
    }
}
