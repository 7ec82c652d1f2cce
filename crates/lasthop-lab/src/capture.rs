//! Capture at the ends of all links, and its pcapng file: with the layout of the simulator's captures, but with the
//! actual headers.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use lasthop_proto::packet::Cause;
use lasthop_proto::time::Instant;
use lasthop_sim::trace::DropReason;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::plan::Point;

/// Setting for captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Captures {
    /// No capture.
    Off,
    /// Capture at the ends of all links.
    On,
}

/// Maximum length of Ethernet, IPv4 and TCP headers with all options; payload is not captured.
const SNAP: usize = 14 + 60 + 60;
/// Maximum number of packets in a capture: about 400 MB of memory. Later packets are only counted.
const MOST: usize = 2_000_000;
/// Exponent of the timestamp unit, 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A packet that passes a point.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Time: from the node, when the kernel handed the packet over; to the node, the arrival on the link's own clock.
    pub time: Instant,
    /// Point that the packet passes.
    pub point: Point,
    /// Indicates whether the packet goes from the node onto the link.
    pub outbound: bool,
    /// Reason why the packet was sent, if known.
    pub cause: Cause,
    /// Reason why the link dropped the packet, if it did.
    pub dropped: Option<DropReason>,
}

/// All passages of a run.
#[derive(Debug, Default)]
pub struct Capture {
    /// Names of the points.
    points: Vec<String>,
    records: Vec<Record>,
    left_out: u64,
}

#[derive(Debug)]
struct Record {
    passage: Passage,
    headers: Box<[u8]>,
    len: u32,
}

impl Capture {
    /// Creates an empty capture of these points.
    pub fn new(points: Vec<String>) -> Self {
        Self { points, ..Self::default() }
    }

    /// Records a passage of a frame. Returns its number; `None` if the capture is full.
    pub(crate) fn add(&mut self, passage: Passage, frame: &[u8]) -> Option<usize> {
        if self.records.len() >= MOST {
            self.left_out += 1;
            return None;
        }
        let headers = frame[..headers(frame)].into();
        self.records.push(Record { passage, headers, len: frame.len() as u32 });
        Some(self.records.len() - 1)
    }

    /// Records that the link dropped frame `number`.
    pub(crate) fn mark_dropped(&mut self, number: usize, reason: DropReason) {
        if let Some(record) = self.records.get_mut(number) {
            record.passage.dropped = Some(reason);
        }
    }

    /// Returns the number of passages beyond the capacity.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns all passages in order of time, each with the headers of its frame.
    pub fn passages(&self) -> impl Iterator<Item = (Passage, &[u8])> {
        let mut records: Vec<&Record> = self.records.iter().collect();
        records.sort_by_key(|record| record.passage.time);
        records.into_iter().map(|record| (record.passage, &*record.headers))
    }

    /// Writes a pcapng file with an interface for each point, and timestamps in nanoseconds from the start of the run.
    /// At its sender, a packet that a link dropped has a comment such as `dropped: channel` or `dropped: queue`, a
    /// retransmission `source retransmission` or `local retransmission`.
    ///
    /// # Errors
    ///
    /// Returns errors of writing to `out`.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop"))],
            ..SectionHeaderBlock::default()
        };
        let mut writer = PcapNgWriter::with_section_header(BufWriter::new(out), section).map_err(plain)?;
        for name in &self.points {
            let options = vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ];
            let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: SNAP as u32, options };
            writer.write_pcapng_block(block).map_err(plain)?;
        }
        let mut records: Vec<&Record> = self.records.iter().collect();
        records.sort_by_key(|record| record.passage.time);
        for record in records {
            writer.write_pcapng_block(record.block()).map_err(plain)?;
        }
        writer.into_inner().flush()
    }
}

impl Record {
    fn block(&self) -> EnhancedPacketBlock<'_> {
        let Passage { time, point, outbound, cause, dropped } = self.passage;
        let comments = [
            dropped.map(|reason| format!("dropped: {}", reason.name())),
            cause.is_local_retransmission().then(|| "local retransmission".to_owned()),
            cause.is_source_retransmission().then(|| "source retransmission".to_owned()),
        ];
        let mut options = vec![EnhancedPacketOption::Flags(if outbound { OUTBOUND } else { INBOUND })];
        options.extend(comments.into_iter().flatten().map(|text| EnhancedPacketOption::Comment(Cow::Owned(text))));
        EnhancedPacketBlock {
            interface_id: point as u32,
            timestamp: std::time::Duration::from_nanos(time.as_nanos()),
            original_len: self.len,
            data: Cow::Borrowed(&self.headers),
            options,
        }
    }
}

fn plain(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// Returns the number of bytes of a frame before its payload.
fn headers(frame: &[u8]) -> usize {
    let end = frame.get(14..).and_then(lasthop_wire::parse).map_or(SNAP, |view| 14 + view.header_len);
    end.min(frame.len())
}
