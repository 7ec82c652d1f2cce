//! A recorded run as pcapng, for Wireshark and tcptrace.
//!
//! - One interface per capture point, with nanosecond timestamps. Runs start on 1 January 2000, 00:00 UTC: a constant
//!   date that no tool treats as missing.
//! - Ethernet, IPv4, and TCP or UDP headers with valid checksums over a payload of zeros. The payload is cut off (the
//!   original length includes it), so that files stay small. Ethernet addresses are 02:00:00:00 and the number of the
//!   capture point, from 0.
//! - IPv4 addresses are 10.P.N.N for node N (from 1) as seen at capture point P (from 0): otherwise tools that follow
//!   connections would take the same packet at the next point for a retransmission. In a capture of one point, P is 0.
//! - SMART and ELN are experimental options (RFC 6994): kind 253, ExIDs 0x534d ("SM", then the sequence number) and
//!   0x454c ("EL").
//! - A packet that was dropped appears once, where it was sent, with the comment `dropped: channel` or
//!   `dropped: queue`. A retransmission has the comment `source retransmission: CAUSE` or
//!   `local retransmission: CAUSE`; a packet that arrived with a corrupted payload, `damaged: payload`.
//! - Frames of link protocols are on interfaces of their own (link type USER0): four bytes of link header, then the
//!   IPv4 packet unless it is a control frame. Their P continues after that of the last point.
//!
//! [`write_pcapng_at`] writes the packets of one capture point.

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
/// Beginning of runs, since 1970: 1 January 2000, 00:00 UTC.
const BEGINNING: Duration = Duration::from_secs(946_684_800);

/// Name of the writing application, in the head of every capture.
pub const APPLICATION: &str = "lasthop";

const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes the packets of all capture points, one interface each, numbered as in [`Trace::points`]. Frames of link
/// protocols have additional interfaces, `NAME (link)`, after the others.
///
/// # Errors
///
/// Returns an error if `out` cannot be written, a packet is longer than IPv4 allows, or a record has a capture point or
/// flow that the trace does not define.
pub fn write_pcapng(trace: &Trace, out: impl Write) -> Result<(), ReportError> {
    write(trace, Points::All, out)
}

/// Writes the packets of one capture point without link frames, so that tools can follow each connection.
///
/// # Errors
///
/// Returns the errors of [`write_pcapng`], and an error if there is no such point.
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

/// Capture points in a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// All points, and the frames of link protocols.
    All,
    /// The point with this index.
    One(usize),
}

/// Numbers of a capture point's interfaces.
#[derive(Clone, Copy, Default)]
struct Interfaces {
    packets: Option<u32>,
    link_frames: Option<u32>,
}

/// Size of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// Number of frames.
    pub frames: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Capture that is written during the run. It holds back packets until their fate is known.
pub struct CaptureWriter<W: Write> {
    writer: PcapNgWriter<Counted<W>>,
    points: Points,
    interfaces: Vec<Interfaces>,
    next_interface: u32,
    window: FateWindow,
    frames: u64,
}

/// Writer that counts bytes.
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
    /// Begins the capture of a run whose points and flows `trace` contains. `out` should be buffered.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written, or there is no such point.
    pub fn begin(trace: &Trace, points: Points, out: W) -> Result<Self, ReportError> {
        let section = SectionHeaderBlock {
            // Constant, so that files do not depend on the machine.
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
    /// Returns an error if the output cannot be written, a packet is longer than IPv4 allows, or the record has a
    /// capture point or flow that `trace` does not define.
    pub fn write(&mut self, trace: &Trace, record: Record) -> Result<(), ReportError> {
        self.window.push(record);
        self.show_known(trace)
    }

    /// Takes a record that is not written: it may show the arrival of packets that are.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::write`].
    pub fn leave_out(&mut self, trace: &Trace, record: &Record) -> Result<(), ReportError> {
        self.window.settle(record);
        self.show_known(trace)
    }

    /// Returns the number of records held back: as many as there are packets in flight, and the records after the
    /// oldest of them.
    pub fn held_back(&self) -> usize {
        self.window.waiting()
    }

    fn show_known(&mut self, trace: &Trace) -> Result<(), ReportError> {
        while let Some((record, fate)) = self.window.pop() {
            self.show(trace, &record, fate)?;
        }
        Ok(())
    }

    /// Writes the records held back, and returns the size of the capture.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::write`].
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

    /// Returns the flow with addresses that identify this capture point.
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

/// Packet as shown in a capture.
struct Seen<'t> {
    packet: &'t Packet,
    direction: u32,
    dropped: Option<DropReason>,
}

impl<'t> Seen<'t> {
    /// Returns the packet that shows `record`; `None` if it is not a packet, or another record shows it.
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
