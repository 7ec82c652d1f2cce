//! A capture with the verdicts as comments of its packets, so that Wireshark shows them (`frame.comment`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::capture::{Capture, CaptureError, Interface, Way};
use crate::loss::{Needless, Side};
use crate::report::{LossReport, Report};
use crate::verdict::Cause;

/// Units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Why a capture was not annotated.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
    /// It cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// It cannot be written.
    #[error("{0}")]
    Output(io::Error),
}

/// Writes the capture in `source` as pcapng to `out`, with what `report` says of each packet as its last comments. Packets, their order and their
/// times stay; comments that were there stay too. Ends where `source` is damaged.
///
/// # Errors
///
/// When `source` is no capture, or `out` cannot be written. `out` should be buffered.
pub fn annotate(report: &Report, source: impl Read, out: impl Write) -> Result<(), AnnotateError> {
    let comments = comments(report);
    let mut capture = Capture::open(source)?;
    let section = SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop diagnose"))],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(out, section).map_err(plain)?;
    let mut described = 0;
    loop {
        // Interfaces are described as they come; packets name them by the same numbers.
        let known = capture.interfaces().len();
        for interface in &capture.interfaces()[described..] {
            writer.write_pcapng_block(description(interface)).map_err(plain)?;
        }
        described = known;
        let frame = match capture.next_frame() {
            Ok(Some((frame, _))) => frame,
            Ok(None) | Err(_) => break,
        };
        let mut options = Vec::new();
        match frame.way {
            Way::In => options.push(EnhancedPacketOption::Flags(1)),
            Way::Out => options.push(EnhancedPacketOption::Flags(2)),
            Way::Unknown => {}
        }
        let old = frame.comments();
        let new = comments.get(&frame.number).into_iter().flatten().cloned();
        options.extend(old.chain(new).map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment))));
        let block = EnhancedPacketBlock {
            interface_id: frame.interface,
            timestamp: Duration::from_nanos(frame.time),
            original_len: frame.len,
            data: Cow::Owned(frame.data.to_vec()),
            options,
        };
        for interface in &capture.interfaces()[described..] {
            writer.write_pcapng_block(description(interface)).map_err(plain)?;
        }
        described = capture.interfaces().len();
        writer.write_pcapng_block(block).map_err(plain)?;
    }
    writer.into_inner().flush().map_err(AnnotateError::Output)
}

fn description(interface: &Interface) -> InterfaceDescriptionBlock<'static> {
    let name = interface.name.clone().map(|name| InterfaceDescriptionOption::IfName(Cow::Owned(name)));
    let mut options: Vec<_> = name.into_iter().collect();
    options.push(InterfaceDescriptionOption::IfTsResol(NANOSECONDS));
    InterfaceDescriptionBlock { linktype: DataLink::from(interface.link), snaplen: interface.snap_len, options }
}

fn plain(error: PcapError) -> AnnotateError {
    AnnotateError::Output(match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    })
}

/// What is said of each packet.
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

/// Of a lost packet, and of the one that repairs it.
fn words(loss: &LossReport) -> [String; 2] {
    let (packet, repair) = (loss.packet, loss.repaired_by);
    if let Some(why) = loss.needless {
        return [
            format!("arrived, though packet {repair} repeats it"),
            format!("needless retransmission of packet {packet}: {}", reason(why)),
        ];
    }
    let cause = format!("{}{}", said(loss.verdict.cause), evidence(loss));
    match loss.side {
        Side::Beyond => [
            format!("lost: {cause}; packet {repair} repeats it"),
            format!("repeats packet {packet}, which was lost: {cause}"),
        ],
        Side::Before => [
            format!("shows that data is missing, which packet {repair} brings"),
            format!("brings data that was lost before the capture: {cause}"),
        ],
    }
}

/// A cause in a few words.
const fn said(cause: Cause) -> &'static str {
    match cause {
        Cause::Corruption => "corruption",
        Cause::Congestion => "congestion",
        Cause::Unknown => "the capture does not tell why",
    }
}

/// Why a retransmission was needless, in a few words.
pub const fn reason(why: Needless) -> &'static str {
    match why {
        Needless::ReportedTwice => "the receiver reports the data twice",
        Needless::EchoesTheFirst => "the acknowledgment echoes the first transmission's timestamp",
        Needless::AnsweredTooSoon => "the acknowledgment came too soon for it",
    }
}

fn evidence(loss: &LossReport) -> String {
    let verdict = &loss.verdict;
    let mut said = Vec::new();
    said.extend(verdict.queue_ms.map(|queue| format!("queue {queue:.1} of at most {:.1} ms", verdict.full_ms)));
    said.extend(
        verdict.air.map(|air| format!("{:.0} % of its time on the link was used", (air * 100.0).clamp(0.0, 100.0))),
    );
    if verdict.cause != Cause::Unknown {
        said.push(format!("{:.0} % sure", verdict.confidence * 100.0));
    }
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}
