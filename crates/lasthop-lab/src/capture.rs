//! What passed the ends of all links, and its pcapng file: laid out as the simulator's captures are, but with the headers as
//! they were on the wire.

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

/// Whether a run keeps what passed the links' ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Captures {
    /// No.
    Off,
    /// Yes.
    On,
}

/// Ethernet, IPv4 and TCP headers with all their options; payload is left out.
const SNAP: usize = 14 + 60 + 60;
/// Most packets of one capture: some 400 MB of memory. Later ones are counted, not kept.
const MOST: usize = 2_000_000;
/// Units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A packet passes a point.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// When: from the node, when the kernel handed it over; to the node, when the link's own clock said so.
    pub time: Instant,
    /// Where.
    pub point: Point,
    /// From the node there onto the link.
    pub outbound: bool,
    /// Why it was sent, as far as that shows.
    pub cause: Cause,
    /// What became of it on the link.
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
    /// An empty one of these points.
    pub fn new(points: Vec<String>) -> Self {
        Self { points, ..Self::default() }
    }

    /// Notes a passage of a frame; its number, unless there are too many.
    pub(crate) fn add(&mut self, passage: Passage, frame: &[u8]) -> Option<usize> {
        if self.records.len() >= MOST {
            self.left_out += 1;
            return None;
        }
        let headers = frame[..headers(frame)].into();
        self.records.push(Record { passage, headers, len: frame.len() as u32 });
        Some(self.records.len() - 1)
    }

    /// The link dropped that frame.
    pub(crate) fn mark_dropped(&mut self, number: usize, reason: DropReason) {
        if let Some(record) = self.records.get_mut(number) {
            record.passage.dropped = Some(reason);
        }
    }

    /// Passages that found no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All passages in order of time, each with the headers of its frame.
    pub fn passages(&self) -> impl Iterator<Item = (Passage, &[u8])> {
        let mut records: Vec<&Record> = self.records.iter().collect();
        records.sort_by_key(|record| record.passage.time);
        records.into_iter().map(|record| (record.passage, &*record.headers))
    }

    /// Writes a pcapng file: an interface for each point, stamps from the start of the run in nanoseconds. A packet that a
    /// link dropped has the comment `dropped: channel` or `dropped: queue` where it was sent, a retransmission
    /// `source retransmission` or `local retransmission`.
    ///
    /// # Errors
    ///
    /// When `out` cannot be written.
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

/// Bytes of a frame up to its payload.
fn headers(frame: &[u8]) -> usize {
    let end = frame.get(14..).and_then(lasthop_wire::parse).map_or(SNAP, |view| 14 + view.header_len);
    end.min(frame.len())
}
