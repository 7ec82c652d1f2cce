//! A recorded run as pcapng, for Wireshark and tcptrace.
//!
//! - One interface a capture point, with nanosecond stamps. Runs start on 1 January 2000, 00:00 UTC: a date that every run has, and
//!   that no tool takes for none.
//! - Ethernet, IPv4, and TCP or UDP headers with valid checksums over a payload of zeros. The payload is cut off (the
//!   original length counts it), so that files stay small. Ethernet addresses are 02:00:00:00 and the number of the
//!   capture point, from 0.
//! - IPv4 addresses are 10.P.N.N, of node N (from 1) as seen at capture point P (from 0): tools that follow connections would take
//!   the same packet at the next point for a retransmission. In a capture of one point, P is 0.
//! - SMART and ELN are experimental options (RFC 6994): kind 253, ExIDs 0x534d ("SM", then the sequence number) and
//!   0x454c ("EL").
//! - A packet that was dropped appears once, where it was sent, with the comment `dropped: channel` or
//!   `dropped: queue`. A retransmission has the comment `source retransmission: CAUSE` or
//!   `local retransmission: CAUSE`; a packet that arrived with a corrupted payload, `damaged: payload`.
//! - Where a link protocol is at work, its frames are on interfaces of their own (link type USER0): four bytes of link
//!   header, then the IPv4 packet unless it is a control frame. Their P goes on behind that of the last point.
//!
//! [`write_pcapng_at`] writes what one capture point saw.

use std::borrow::Cow;
use std::io::{BufWriter, Write};
use std::time::Duration;

use lasthop_proto::packet::{Cause, Integrity, Packet};
use lasthop_proto::time::Instant;
use lasthop_sim::trace::{DropReason, FlowInfo, Record, Trace, What};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};

use crate::describe;
use crate::error::ReportError;
use crate::fate::Fate;
use crate::fate_window::FateWindow;
use crate::frame::{self, Frame, Hop, LONGEST_HEADERS};

/// Units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
/// When runs begin, since 1970: 1 January 2000, 00:00 UTC.
const BEGINNING: Duration = Duration::from_secs(946_684_800);

/// Who wrote it: in the head of every capture.
pub const APPLICATION: &str = "lasthop";

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
    write(trace, Points::All, out)
}

/// Writes what one capture point saw, so that tools can follow each connection; no link frames.
///
/// # Errors
///
/// As [`write_pcapng`], and when there is no such point.
pub fn write_pcapng_at(trace: &Trace, point: usize, out: impl Write) -> Result<(), ReportError> {
    write(trace, Points::One(point), out)
}

fn write(trace: &Trace, points: Points, out: impl Write) -> Result<(), ReportError> {
    let mut writer = CaptureWriter::begin(trace, points, BufWriter::new(out))?;
    for record in &trace.records {
        writer.write(trace, *record)?;
    }
    writer.finish(trace)?;
    Ok(())
}

/// Which capture points a capture holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// All, and the frames of link protocols besides.
    All,
    /// The one of that index.
    One(usize),
}

/// The numbers of a capture point's interfaces.
#[derive(Clone, Copy, Default)]
struct Interfaces {
    packets: Option<u32>,
    link_frames: Option<u32>,
}

/// What a capture came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// Frames in it.
    pub frames: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A capture that is written while the run goes on. Holds back what was sent until it is known what became of it.
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<Counted<W>>,
    points: Points,
    interfaces: Vec<Interfaces>,
    next_interface: u32,
    window: FateWindow,
    frames: u64,
}

/// Counts what it writes.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Begins the capture of a run whose points and flows `trace` holds. `out` should be buffered.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written, or there is no such point.
    pub fn begin(trace: &Trace, points: Points, out: W) -> Result<Self, ReportError> {
        let section = SectionHeaderBlock {
            // Always the same, so that files do not depend on the machine.
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(APPLICATION))],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(Counted { out, bytes: 0 }, section)?;
        let interfaces = vec![Interfaces::default(); trace.points.len()];
        let mut capture =
            Self { writer, points, interfaces, next_interface: 0, window: FateWindow::default(), frames: 0 };
        let shown = match points {
            Points::All => 0..trace.points.len(),
            Points::One(point) => point..point + 1,
        };
        for point in shown {
            let name = trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?.name.clone();
            capture.interfaces[point].packets = Some(capture.add_interface(interface(name, DataLink::ETHERNET))?);
        }
        Ok(capture)
    }

    fn add_interface(&mut self, interface: InterfaceDescriptionBlock<'static>) -> Result<u32, ReportError> {
        self.writer.write_pcapng_block(interface)?;
        self.next_interface += 1;
        Ok(self.next_interface - 1)
    }

    /// Takes the next record.
    ///
    /// # Errors
    ///
    /// When the output cannot be written, a packet is longer than IPv4 allows, or the record names a capture point or flow that
    /// `trace` does not define.
    pub fn write(&mut self, trace: &Trace, record: Record) -> Result<(), ReportError> {
        self.window.push(record);
        self.show_known(trace)
    }

    /// Takes in a record that is not to be in the capture: packets that are in it may have arrived.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn leave_out(&mut self, trace: &Trace, record: &Record) -> Result<(), ReportError> {
        self.window.settle(record);
        self.show_known(trace)
    }

    /// Returns how many records it holds back: as many as there are packets under way, and what came after the oldest of them.
    pub fn held_back(&self) -> usize {
        self.window.waiting()
    }

    fn show_known(&mut self, trace: &Trace) -> Result<(), ReportError> {
        while let Some((record, fate)) = self.window.pop() {
            self.show(trace, &record, fate)?;
        }
        Ok(())
    }

    /// Writes what it holds back, and says how much there is.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn finish(mut self, trace: &Trace) -> Result<Written, ReportError> {
        let rest: Vec<(Record, Fate)> = self.window.drain().collect();
        for (record, fate) in rest {
            self.show(trace, &record, fate)?;
        }
        let frames = self.frames;
        let mut out = self.writer.into_inner();
        out.flush()?;
        Ok(Written { frames, bytes: out.bytes })
    }

    fn show(&mut self, trace: &Trace, record: &Record, fate: Fate) -> Result<(), ReportError> {
        let point = usize::from(record.point);
        let Interfaces { packets, link_frames } = *self.interfaces.get(point).ok_or(ReportError::NoSuchPoint(point))?;
        let Some(seen) = Seen::of(record, fate) else { return Ok(()) };
        let flow = describe::flow(trace, record)?;
        if let (Some(number), Some(flow)) = (packets, flow) {
            let far_end = Trace::far_end(record.point);
            let hop = match record.what {
                What::Received(_) => Hop { from: far_end, to: record.point },
                _ => Hop { from: record.point, to: far_end },
            };
            let flow = self.as_seen_at(flow, point);
            let frame = frame::build(seen.packet, &flow, hop)?;
            self.writer.write_pcapng_block(seen.block(record.time, number, frame))?;
            self.frames += 1;
        }
        if self.points == Points::All && !seen.packet.link.is_empty() {
            let number = match link_frames {
                Some(number) => number,
                None => {
                    let name = format!("{} (link)", trace.points[point].name);
                    let number = self.add_interface(interface(name, DataLink::USER0))?;
                    self.interfaces[point].link_frames = Some(number);
                    number
                }
            };
            let flow = flow.map(|flow| self.as_seen_at(flow, trace.points.len() + point));
            let frame = frame::build_link(seen.packet, flow.as_ref())?;
            self.writer.write_pcapng_block(seen.block(record.time, number, frame))?;
            self.frames += 1;
        }
        Ok(())
    }

    /// The flow with the addresses that tell this place from others.
    fn as_seen_at(&self, flow: &FlowInfo, place: usize) -> FlowInfo {
        let place = if self.points == Points::All { place as u32 } else { 0 };
        let addresses =
            flow.addresses.map(|address| u32::from_be_bytes(address).wrapping_add(place << 16).to_be_bytes());
        FlowInfo { name: String::new(), addresses, ..*flow }
    }
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
        comments.extend(describe::link_headers(&self.packet.link).map(|headers| format!("link frame: {headers}")));
        let mut options = vec![EnhancedPacketOption::Flags(self.direction)];
        options.extend(comments.into_iter().map(|comment| EnhancedPacketOption::Comment(Cow::Owned(comment))));
        EnhancedPacketBlock {
            interface_id: interface,
            timestamp: BEGINNING + Duration::from_nanos(time.as_nanos()),
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
