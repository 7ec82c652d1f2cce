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
//! - Where a link protocol is at work, its frames are on interfaces of their own (link type USER0): four bytes of link
//!   header, then the IPv4 packet unless it is a control frame.
//!
//! Most tools take the same packet at two capture points for a retransmission: [`write_pcapng_at`] writes one point
//! for such uses.

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::time::Duration;

use lasthop_proto::packet::{Cause, Integrity, Packet};
use lasthop_proto::time::Instant;
use lasthop_sim::trace::{DropReason, Record, Trace, What};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};

use crate::describe;
use crate::error::ReportError;
use crate::fate::{Fate, fates};
use crate::frame::{self, Frame, Hop, LONGEST_HEADERS};

/// Units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes what all capture points saw, one interface each, numbered as in [`Trace::points`]. Where a link protocol is at
/// work there are interfaces for its frames besides, `NAME (link)`, behind the others.
///
/// # Errors
///
/// When `out` cannot be written, a packet is longer than IPv4 allows, or a record names a capture point or flow that
/// the trace does not define.
pub fn write_pcapng(trace: &Trace, out: impl Write) -> Result<(), ReportError> {
    let points: Vec<usize> = (0..trace.points.len()).collect();
    write(trace, &points, &points_of_links(trace), out)
}

/// Writes what one capture point saw, so that tools can follow each connection; no link frames.
///
/// # Errors
///
/// As [`write_pcapng`], and when there is no such point.
pub fn write_pcapng_at(trace: &Trace, point: usize, out: impl Write) -> Result<(), ReportError> {
    write(trace, &[point], &[], out)
}

/// The points at which a link protocol's frames pass.
fn points_of_links(trace: &Trace) -> Vec<usize> {
    let mut has_link = vec![false; trace.points.len()];
    for record in &trace.records {
        if describe::packet(&record.what).is_some_and(|packet| packet.link.is_some())
            && let Some(slot) = has_link.get_mut(usize::from(record.point))
        {
            *slot = true;
        }
    }
    (0..has_link.len()).filter(|&point| has_link[point]).collect()
}

/// The numbers of a capture point's interfaces.
#[derive(Clone, Copy, Default)]
struct Interfaces {
    packets: Option<u32>,
    link_frames: Option<u32>,
}

fn write(trace: &Trace, points: &[usize], links: &[usize], out: impl Write) -> Result<(), ReportError> {
    let section = SectionHeaderBlock {
        // Always the same, so that files do not depend on the machine.
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop"))],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(BufWriter::new(out), section)?;

    let mut interfaces = vec![Interfaces::default(); trace.points.len()];
    for (number, &point) in points.iter().enumerate() {
        let name = &trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?.name;
        interfaces[point].packets = Some(number as u32);
        writer.write_pcapng_block(interface(name.clone(), DataLink::ETHERNET))?;
    }
    for (number, &point) in links.iter().enumerate() {
        interfaces[point].link_frames = Some((points.len() + number) as u32);
        writer.write_pcapng_block(interface(format!("{} (link)", trace.points[point].name), DataLink::USER0))?;
    }

    for (record, fate) in trace.records.iter().zip(fates(trace)) {
        let point = usize::from(record.point);
        let interfaces = interfaces.get(point).ok_or(ReportError::NoSuchPoint(point))?;
        let Some(seen) = Seen::of(record, fate) else { continue };
        let flow = describe::flow(trace, record)?;
        if let (Some(number), Some(flow)) = (interfaces.packets, flow) {
            let far_end = Trace::far_end(record.point);
            let hop = match record.what {
                What::Received(_) => Hop { from: far_end, to: record.point },
                _ => Hop { from: record.point, to: far_end },
            };
            writer.write_pcapng_block(seen.block(record.time, number, frame::build(seen.packet, flow, hop)?))?;
        }
        if let (Some(number), Some(header)) = (interfaces.link_frames, seen.packet.link) {
            let frame = frame::build_link(seen.packet, header, flow)?;
            writer.write_pcapng_block(seen.block(record.time, number, frame))?;
        }
    }
    writer.into_inner().flush()?;
    Ok(())
}

fn interface(name: String, linktype: DataLink) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock {
        linktype,
        snaplen: LONGEST_HEADERS,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    }
}

/// A packet as a capture shows it.
struct Seen<'t> {
    packet: &'t Packet,
    direction: u32,
    dropped: Option<DropReason>,
}

impl<'t> Seen<'t> {
    /// What shows `record`; nothing for what is no packet, or is shown by another record.
    fn of(record: &'t Record, fate: Fate) -> Option<Self> {
        let (packet, direction, dropped) = match (&record.what, fate) {
            (What::Event(_), _) | (What::Dropped(..), Fate::Merged) => return None,
            (What::Sent(packet), Fate::DroppedLater(reason)) => (packet, OUTBOUND, Some(reason)),
            (What::Sent(packet), _) => (packet, OUTBOUND, None),
            (What::Dropped(packet, reason), _) => (packet, OUTBOUND, Some(*reason)),
            (What::Received(packet), _) => (packet, INBOUND, None),
        };
        Some(Self { packet, direction, dropped })
    }

    fn block(&self, time: Instant, interface: u32, frame: Frame) -> EnhancedPacketBlock<'static> {
        let mut comments = Vec::new();
        comments.extend(self.dropped.map(|reason| format!("dropped: {}", reason.name())));
        comments.extend(retransmission(self.packet.cause));
        comments.extend(damage(self.packet));
        comments.extend(self.packet.link.map(|header| format!("link frame: {}", describe::link_header(header))));
        let mut options = vec![EnhancedPacketOption::Flags(self.direction)];
        options.extend(comments.into_iter().map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment))));
        EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(time.as_nanos()),
            original_len: frame.original_len,
            data: Cow::Owned(frame.headers),
            options,
        }
    }
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
