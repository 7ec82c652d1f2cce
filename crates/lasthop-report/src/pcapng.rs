//! A recorded run as pcapng, for Wireshark and tcptrace.
//!
//! - One interface a capture point, with nanosecond stamps that count from the start of the run.
//! - Ethernet, IPv4, and TCP or UDP headers with valid checksums over a payload of zeros. The payload is cut off (the
//!   original length counts it), so that files stay small. Ethernet addresses are 02:00:00:00 and the number of the
//!   capture point, from 0.
//! - SMART and ELN are experimental options (RFC 6994): kind 253, ExIDs 0x534d ("SM", then the sequence number) and
//!   0x454c ("EL").
//! - A packet that was dropped appears once, where it was sent, with the comment `dropped: channel` or
//!   `dropped: queue`. A retransmission has the comment `source retransmission: CAUSE` or
//!   `local retransmission: CAUSE`; a packet that arrived with a corrupted payload, `damaged: payload`.
//!
//! Most tools take the same packet at two capture points for a retransmission: [`write_pcapng_at`] writes one point
//! for such uses.

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::time::Duration;

use lasthop_proto::packet::{Cause, Integrity, Packet};
use lasthop_sim::trace::{Record, Trace, What};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};

use crate::error::ReportError;
use crate::fate::{Fate, fates};
use crate::frame::{self, Hop, LONGEST_HEADERS};

/// Units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes what all capture points saw, one interface each, numbered as in [`Trace::points`].
///
/// # Errors
///
/// When `out` cannot be written, a packet is longer than IPv4 allows, or a record names a capture point or flow that
/// the trace does not define.
pub fn write_pcapng(trace: &Trace, out: impl Write) -> Result<(), ReportError> {
    let points: Vec<usize> = (0..trace.points.len()).collect();
    write(trace, &points, out)
}

/// Writes what one capture point saw, so that tools can follow each connection.
///
/// # Errors
///
/// As [`write_pcapng`], and when there is no such point.
pub fn write_pcapng_at(trace: &Trace, point: usize, out: impl Write) -> Result<(), ReportError> {
    write(trace, &[point], out)
}

fn write(trace: &Trace, points: &[usize], out: impl Write) -> Result<(), ReportError> {
    let section = SectionHeaderBlock {
        // Always the same, so that files do not depend on the machine.
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop"))],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(BufWriter::new(out), section)?;

    let mut interfaces = vec![None; trace.points.len()];
    for (interface, &point) in points.iter().enumerate() {
        let name = &trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?.name;
        interfaces[point] = Some(interface as u32);
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: LONGEST_HEADERS,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }

    for (record, fate) in trace.records.iter().zip(fates(trace)) {
        let point = usize::from(record.point);
        let interface = interfaces.get(point).ok_or(ReportError::NoSuchPoint(point))?;
        let far_end = Trace::far_end(record.point);
        let hop = match record.what {
            What::Received(_) => Hop { from: far_end, to: record.point },
            _ => Hop { from: record.point, to: far_end },
        };
        if let Some(interface) = interface
            && let Some(block) = block(trace, record, fate, hop, *interface)?
        {
            writer.write_pcapng_block(block)?;
        }
    }
    writer.into_inner().flush()?;
    Ok(())
}

/// The block that shows `record`; none for what is no packet, or is shown by another record.
fn block(
    trace: &Trace,
    record: &Record,
    fate: Fate,
    hop: Hop,
    interface: u32,
) -> Result<Option<EnhancedPacketBlock<'static>>, ReportError> {
    let (packet, direction, dropped) = match (&record.what, fate) {
        (What::Event(_), _) | (What::Dropped(..), Fate::Merged) => return Ok(None),
        (What::Sent(packet), Fate::DroppedLater(reason)) => (packet, OUTBOUND, Some(reason)),
        (What::Sent(packet), _) => (packet, OUTBOUND, None),
        (What::Dropped(packet, reason), _) => (packet, OUTBOUND, Some(*reason)),
        (What::Received(packet), _) => (packet, INBOUND, None),
    };
    let flow = trace.flows.get(record.flow.0 as usize).ok_or(ReportError::NoSuchFlow(record.flow.0))?;
    let frame = frame::build(packet, flow, hop)?;

    let mut comments = Vec::new();
    comments.extend(dropped.map(|reason| format!("dropped: {}", reason.name())));
    comments.extend(retransmission(packet.cause));
    comments.extend(damage(packet));
    let mut options = vec![EnhancedPacketOption::Flags(direction)];
    options.extend(comments.into_iter().map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment))));

    Ok(Some(EnhancedPacketBlock {
        interface_id: interface,
        timestamp: Duration::from_nanos(record.time.as_nanos()),
        original_len: frame.original_len,
        data: Cow::Owned(frame.headers),
        options,
    }))
}

fn retransmission(cause: Cause) -> Option<String> {
    if cause.is_local_retransmission() {
        Some(format!("local retransmission: {}", cause.name()))
    } else if cause.is_source_retransmission() {
        Some(format!("source retransmission: {}", cause.name()))
    } else {
        None
    }
}

fn damage(packet: &Packet) -> Option<String> {
    match packet.integrity {
        Integrity::Intact => None,
        Integrity::PayloadDamaged => Some("damaged: payload".to_owned()),
    }
}
