//! Losses of a link due to corruption, packet by packet: the table that `lasthop fit` reads.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::HashMap;
use std::io::{self, Read, Write};

use crate::annotate::AnnotateError;
use crate::capture::Capture;
use crate::loss::Side;
use crate::packets::{Found, Packets};
use crate::report::{Direction, FlowReport, LossReport};
use crate::table::Clock;
use crate::verdict::Cause;

/// Writes the packets of `direction`, which is one of `flow`'s, as CSV: the time at which each passed the capture, its
/// bytes, and whether it was lost to corruption. Packets that a queue dropped, and losses of unknown cause, are left
/// out, since they did not reach the channel, or may not have. If a capture shows losses on both sides, the side with
/// more corruption counts.
///
/// # Errors
///
/// Returns an error if `source` is not a capture, or `out` cannot be written.
pub fn loss_trace(
    flow: &FlowReport,
    direction: &Direction,
    source: impl Read,
    out: &mut impl Write,
) -> Result<(), AnnotateError> {
    loss_trace_of(flow, direction, Capture::open(source)?, out)
}

/// Same as [`loss_trace`], for a capture that may have several files.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn loss_trace_of<R: Read>(
    flow: &FlowReport,
    direction: &Direction,
    mut capture: Capture<R>,
    out: &mut impl Write,
) -> Result<(), AnnotateError> {
    let side = lossy_side(direction);
    let mut fates: HashMap<u64, Vec<(u32, u32, Cause)>> = HashMap::new();
    for loss in lost(direction, side) {
        fates.entry(loss.packet).or_default().push((loss.seq, loss.bytes, loss.verdict.cause));
    }
    // Losses beyond the limit were not judged: the trace ends before them.
    let end = if direction.causes.unjudged > 0 { direction.losses.iter().map(|loss| loss.packet).max() } else { None };
    let (mut clock, mut packets, mut begin) = (Clock::default(), Packets::default(), None);
    let put = |out: &mut dyn Write, sent: i64, bytes: u32, lost: bool| {
        writeln!(out, "{}.{:06},{bytes},{}", sent / 1_000_000_000, sent % 1_000_000_000 / 1_000, u8::from(lost))
    };
    let failed = |error: io::Error| AnnotateError::Output(error);
    writeln!(out, "sent_s,bytes,lost").map_err(failed)?;
    while let Ok(Some((frame, interface))) = capture.next_frame() {
        let time = clock.read(frame.time);
        let mut ours = None;
        packets.read(interface, &frame, time, &mut |found| {
            if let Found::Tcp { head, segment, payload_len, device, .. } = found
                && (frame.interface, device) == flow.place
                && (head.route.source, head.route.destination) == (direction.from, direction.to)
                && (flow.packet_numbers[0]..=flow.packet_numbers[1]).contains(&frame.number)
                && payload_len > 0
            {
                ours = Some((segment.seq.0, payload_len, head.total_len));
            }
        });
        let Some((seq, payload_len, total_len)) = ours else { continue };
        if end.is_some_and(|end| frame.number > end) {
            break;
        }
        let sent = time.saturating_sub(*begin.get_or_insert(time));
        let headers = total_len.saturating_sub(payload_len);
        let here = fates.get(&frame.number).map_or(&[][..], Vec::as_slice);
        if side == Side::Before {
            for &(_, bytes, cause) in here {
                for piece in pieces(bytes, direction.segment_bytes).filter(|_| cause == Cause::Corruption) {
                    put(out, sent, piece.1 + headers, true).map_err(failed)?;
                }
            }
        }
        for (at, bytes) in pieces(payload_len, direction.segment_bytes) {
            let begin = seq.wrapping_add(at);
            let overlaps =
                |&&(seq, len, _): &&(u32, u32, Cause)| begin.wrapping_sub(seq) < len || seq.wrapping_sub(begin) < bytes;
            let fate = here.iter().filter(|_| side == Side::Beyond).find(overlaps).map(|(_, _, cause)| *cause);
            match fate {
                None => put(out, sent, bytes + headers, false),
                Some(Cause::Corruption) => put(out, sent, bytes + headers, true),
                Some(_) => Ok(()),
            }
            .map_err(failed)?;
        }
    }
    out.flush().map_err(failed)
}

/// Returns the side of the capture with more losses to corruption, on which the lossy link is.
pub fn lossy_side(direction: &Direction) -> Side {
    let corrupted = |side| lost(direction, side).filter(|loss| loss.verdict.cause == Cause::Corruption).count();
    if corrupted(Side::Before) > corrupted(Side::Beyond) { Side::Before } else { Side::Beyond }
}

fn lost(direction: &Direction, side: Side) -> impl Iterator<Item = &LossReport> {
    direction.losses.iter().filter(move |loss| loss.needless.is_none() && loss.side == side)
}

/// Splits a payload into the packets on the wire: offset and bytes of each.
fn pieces(len: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    let size = size.max(1);
    (0..len.div_ceil(size)).map(move |number| (number * size, (len - number * size).min(size)))
}
