//! Writes a capture with the verdicts as comments of its packets, which Wireshark shows (`frame.comment`).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use crate::capture::{Capture, CaptureError, Frame, Interface, Way};
use crate::loss::{Needless, Side};
use crate::report::{LossReport, Report};
use crate::verdict::Cause;

/// Time resolution of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Error of the annotation of a capture.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The output cannot be written.
    #[error("{0}")]
    Output(io::Error),
}

/// Writes the capture in `source` as [`annotate_capture`] does.
///
/// # Errors
///
/// Returns an error if `source` is not a capture, or `out` cannot be written.
pub fn annotate(report: &Report, source: impl Read, out: impl Write) -> Result<(), AnnotateError> {
    annotate_capture(report, Capture::open(source)?, out)
}

/// Writes a capture as pcapng to `out`, with the verdicts of `report` as the last comments of each packet. Packets,
/// their order, their times and their comments are unchanged. Ends where the capture is damaged.
///
/// # Errors
///
/// Returns an error if `out` cannot be written; it should be buffered.
pub fn annotate_capture<R: Read>(
    report: &Report,
    mut capture: Capture<R>,
    mut out: impl Write,
) -> Result<(), AnnotateError> {
    let comments = comments(report);
    let mut described = 0;
    let mut put = |kind: u32, body: Vec<u8>| out.write_all(&block(kind, body)).map_err(AnnotateError::Output);
    put(SECTION_HEADER, section())?;
    loop {
        let next = capture.next_frame();
        let Ok(Some((frame, _))) = next else { break };
        let mut list: Vec<String> = frame.comments().collect();
        list.extend(comments.get(&frame.number).into_iter().flatten().cloned());
        let packet = packet(&frame, &list);
        // Interfaces are described as they occur, and packets refer to them by the same numbers.
        for interface in &capture.interfaces()[described..] {
            put(INTERFACE_DESCRIPTION, description(interface))?;
        }
        described = capture.interfaces().len();
        put(ENHANCED_PACKET, packet)?;
    }
    for interface in &capture.interfaces()[described..] {
        put(INTERFACE_DESCRIPTION, description(interface))?;
    }
    out.flush().map_err(AnnotateError::Output)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Writes a block with its type and its lengths; `body` is padded.
fn block(kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    pad(&mut body);
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Appends an option. A value longer than an option can have is truncated.
fn option(to: &mut Vec<u8>, code: u16, value: &[u8]) {
    let mut end = value.len().min(65_532);
    while end < value.len() && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    to.extend(code.to_le_bytes());
    to.extend((end as u16).to_le_bytes());
    to.extend(&value[..end]);
    pad(to);
}

/// Ends the options of a block.
const END: [u8; 4] = [0; 4];

fn section() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend([1, 0, 0, 0]);
    body.extend([0xff; 8]);
    option(&mut body, 4, b"lasthop diagnose");
    body.extend(END);
    body
}

fn description(interface: &Interface) -> Vec<u8> {
    let mut body = (interface.link as u16).to_le_bytes().to_vec();
    body.extend([0, 0]);
    body.extend(interface.snap_len.to_le_bytes());
    if let Some(name) = &interface.name {
        option(&mut body, 2, name.as_bytes());
    }
    option(&mut body, 9, &[NANOSECONDS]);
    body.extend(END);
    body
}

fn packet(frame: &Frame<'_>, comments: &[String]) -> Vec<u8> {
    let mut body = frame.interface.to_le_bytes().to_vec();
    body.extend(((frame.time >> 32) as u32).to_le_bytes());
    body.extend((frame.time as u32).to_le_bytes());
    body.extend((frame.data.len() as u32).to_le_bytes());
    body.extend(frame.len.to_le_bytes());
    body.extend(frame.data);
    pad(&mut body);
    let flags: u32 = match frame.way {
        Way::In => 1,
        Way::Out => 2,
        Way::Unknown => 0,
    };
    if flags != 0 {
        option(&mut body, 2, &flags.to_le_bytes());
    }
    for comment in comments {
        option(&mut body, 1, comment.as_bytes());
    }
    if flags != 0 || !comments.is_empty() {
        body.extend(END);
    }
    body
}

/// Returns the comments on each packet, by its number.
fn comments(report: &Report) -> BTreeMap<u64, Vec<String>> {
    let mut comments: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for flow in &report.flows {
        for loss in flow.directions.iter().flat_map(|direction| &direction.losses) {
            let [of_lost, of_repair] = words(loss);
            let mut say = |packet: u64, words: String| {
                comments.entry(packet).or_default().push(format!("lasthop: flow {}: {words}", flow.number));
            };
            say(loss.packet, of_lost);
            say(loss.repaired_by, of_repair);
        }
    }
    comments
}

/// Returns the comments on a lost packet and on the one that repairs it.
fn words(loss: &LossReport) -> [String; 2] {
    let (packet, repair) = (loss.packet, loss.repaired_by);
    if let Some(why @ Needless::Overtaken) = loss.needless {
        return [
            format!("reordered: ahead of packet {repair}"),
            format!("reordered: behind packet {packet}: {}", reason(why)),
        ];
    }
    if let Some(why) = loss.needless {
        return [
            format!("arrived, but was retransmitted in packet {repair}"),
            format!("spurious retransmission of packet {packet}: {}", reason(why)),
        ];
    }
    let cause = format!("{}{}", said(loss.verdict.cause), evidence(loss));
    match loss.side {
        Side::Beyond => [
            format!("lost: {cause}; retransmitted in packet {repair}"),
            format!("retransmission of packet {packet}, which was lost: {cause}"),
        ],
        Side::Before => [
            format!("shows that data is missing, which is retransmitted in packet {repair}"),
            format!("retransmission of data that was lost before the capture point: {cause}"),
        ],
    }
}

/// Returns a short description of a cause.
const fn said(cause: Cause) -> &'static str {
    match cause {
        Cause::Corruption => "corruption",
        Cause::Congestion => "congestion",
        Cause::Policed => "a policer",
        Cause::PathMtu => "larger than the path MTU",
        Cause::Unknown => "unknown cause",
    }
}

/// Returns a short reason for which a retransmission was needless.
pub const fn reason(why: Needless) -> &'static str {
    match why {
        Needless::ReportedTwice => "the receiver reports duplicate data (DSACK)",
        Needless::EchoesTheFirst => "the acknowledgment echoes the first transmission's timestamp",
        Needless::AnsweredTooSoon => "the acknowledgment came too soon to be for the retransmission",
        Needless::SentTooSoon => "sent before the sender could detect a loss",
        Needless::AcknowledgmentDelayed => "the receiver delayed its acknowledgment",
        Needless::AcknowledgedInOrder => "all earlier data is acknowledged in order",
        Needless::AnsweredTwice => "answered by a duplicate acknowledgment",
        Needless::Captured => "the packet had reached the receiver, which captured it",
        Needless::Overtaken => "its IPv4 identification shows that it was sent earlier",
    }
}

fn evidence(loss: &LossReport) -> String {
    let verdict = &loss.verdict;
    let mut said = Vec::new();
    said.extend(verdict.queue_ms.map(|queue| format!("queue {queue:.1} of at most {:.1} ms", verdict.full_ms)));
    said.extend(
        verdict.air.map(|air| format!("{:.0} % of its transmission time was used", (air * 100.0).clamp(0.0, 100.0))),
    );
    if verdict.cause != Cause::Unknown {
        said.push(format!("confidence {:.0} %", verdict.confidence * 100.0));
    }
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}
