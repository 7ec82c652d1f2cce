//! Captures, pcap and pcapng, one packet at a time. Files come from anybody.

use std::io::{self, Chain, Cursor, Read};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::{
    ENHANCED_PACKET_BLOCK, INTERFACE_DESCRIPTION_BLOCK, PACKET_BLOCK, SECTION_HEADER_BLOCK, SIMPLE_PACKET_BLOCK,
};
use pcap_file::{Endianness, PcapError, TsResolution};

/// Most interfaces of a file, all sections together.
const MOST_INTERFACES: usize = 65_536;
/// The number of a pcapng file's first block, in any order of bytes.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECOND: u128 = 1_000_000_000;

/// Whether a file that begins so is a capture.
pub fn is_capture(begin: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0x0a, 0x0d, 0x0d, 0x0a],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
    ];
    MAGIC.iter().any(|magic| begin.starts_with(magic))
}

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Something else than a capture.
    #[error("not a capture: expected a pcap or pcapng file, as tcpdump and Wireshark write")]
    Foreign,
    /// Cut off.
    #[error("ends in the midst of a packet, behind packet {behind}")]
    Cut {
        /// Packets before.
        behind: u64,
    },
    /// Damaged, or no capture further on.
    #[error("damaged behind packet {behind}: {what}")]
    Damaged {
        /// Packets before.
        behind: u64,
        /// What is wrong.
        what: String,
    },
    /// The system cannot read it.
    #[error("{0}")]
    Io(io::Error),
}

/// An interface that packets were captured at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name, where the file has one.
    pub name: Option<String>,
    /// Its link type, by the numbers of tcpdump.org.
    pub link: u32,
    /// Most bytes kept of a packet, or 0.
    pub snap_len: u32,
    unit: Unit,
}

/// In what times are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unit {
    /// As pcapng's `if_tsresol`: 10 to this power, or with the highest bit 2 to it.
    resolution: u8,
    /// Seconds to be added.
    offset: i64,
}

impl Unit {
    fn nanos(self, stamp: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let nanos = match self.resolution & 0x80 {
            0 if power <= 9 => u128::from(stamp) * 10u128.pow(9 - power),
            0 => 10u128.checked_pow(power - 9).map_or(0, |unit| u128::from(stamp) / unit),
            _ if power < 128 => (u128::from(stamp) * SECOND) >> power,
            _ => 0,
        };
        let shifted =
            i128::try_from(nanos).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset) * SECOND as i128);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

/// Which way a packet went, where the file says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// To the machine that captured it.
    In,
    /// From it.
    Out,
    /// Not said.
    Unknown,
}

/// A packet as captured, from its link header on.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'f> {
    /// Its number, from 1, as Wireshark counts.
    pub number: u64,
    /// Where: index into [`Capture::interfaces`].
    pub interface: u32,
    /// When, in nanoseconds since 1970. Packets of a block type without a time have that of the one before.
    pub time: u64,
    /// What was kept.
    pub data: &'f [u8],
    /// Bytes on the wire.
    pub len: u32,
    /// Which way.
    pub way: Way,
    options: &'f [u8],
    endianness: Endianness,
}

impl Frame<'_> {
    /// The comments that it has already.
    pub fn comments(&self) -> impl Iterator<Item = String> {
        options(self.options, self.endianness)
            .filter(|(code, _)| *code == 1)
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// The options of a block, up to the first that is not whole.
fn options(mut rest: &[u8], endianness: Endianness) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = short(endianness, rest.get(..2)?);
        let len = usize::from(short(endianness, rest.get(2..4)?));
        let value = rest.get(4..4 + len).filter(|_| code != 0)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

fn short(endianness: Endianness, bytes: &[u8]) -> u16 {
    let bytes = [bytes[0], bytes[1]];
    if endianness == Endianness::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

fn word(endianness: Endianness, bytes: &[u8]) -> u32 {
    let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if endianness == Endianness::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

type Source<R> = Chain<Cursor<Vec<u8>>, R>;

enum Blocks<R: Read> {
    Pcap(PcapReader<Source<R>>),
    PcapNg(PcapNgReader<Source<R>>),
}

/// A capture that is being read, in constant memory.
pub struct Capture<R: Read> {
    blocks: Blocks<R>,
    interfaces: Vec<Interface>,
    /// The number of the section's first interface.
    section: usize,
    packets: u64,
    time: u64,
    /// The block that was read last, or the packet.
    body: Vec<u8>,
}

impl<R: Read> Capture<R> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// When it is no capture.
    pub fn open(mut source: R) -> Result<Self, CaptureError> {
        let mut begin = Vec::new();
        (&mut source).take(4).read_to_end(&mut begin).map_err(CaptureError::Io)?;
        let is_pcapng = begin == PCAPNG;
        let source = Cursor::new(begin).chain(source);
        let foreign = |error| match error {
            PcapError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => CaptureError::Io(error),
            _ => CaptureError::Foreign,
        };
        let (blocks, interfaces) = if is_pcapng {
            (Blocks::PcapNg(PcapNgReader::new(source).map_err(foreign)?), Vec::new())
        } else {
            let reader = PcapReader::new(source).map_err(foreign)?;
            let header = reader.header();
            let resolution = if header.ts_resolution == TsResolution::NanoSecond { 9 } else { 6 };
            let interface = Interface {
                name: None,
                // Above are bits about the frame check sequence.
                link: u32::from(header.datalink) & 0xffff,
                snap_len: header.snaplen,
                unit: Unit { resolution, offset: 0 },
            };
            (Blocks::Pcap(reader), vec![interface])
        };
        Ok(Self { blocks, interfaces, section: 0, packets: 0, time: 0, body: Vec::new() })
    }

    /// The interfaces so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next packet and where it was captured; none at the end.
    ///
    /// # Errors
    ///
    /// When the file is damaged or cut off. Nothing comes behind that.
    pub fn next_frame(&mut self) -> Result<Option<(Frame<'_>, &Interface)>, CaptureError> {
        let found = match &mut self.blocks {
            Blocks::Pcap(_) => self.next_of_pcap()?,
            Blocks::PcapNg(_) => self.next_of_pcapng()?,
        };
        let Some(found) = found else { return Ok(None) };
        self.packets += 1;
        Ok(Some((
            Frame {
                number: self.packets,
                interface: found.interface,
                time: self.time,
                data: &self.body[found.data],
                len: found.len,
                way: found.way,
                options: self.body.get(found.options_at..).unwrap_or_default(),
                endianness: found.endianness,
            },
            &self.interfaces[found.interface as usize],
        )))
    }

    fn next_of_pcap(&mut self) -> Result<Option<Found>, CaptureError> {
        let Blocks::Pcap(reader) = &mut self.blocks else { return Ok(None) };
        let endianness = reader.header().endianness;
        let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
        let packet = packet.map_err(|error| stopped(error, self.packets))?;
        let unit = self.interfaces[0].unit;
        let whole = Unit { resolution: 0, ..unit }.nanos(u64::from(packet.ts_sec));
        self.time = whole.saturating_add(unit.nanos(u64::from(packet.ts_frac)));
        self.body.clear();
        self.body.extend_from_slice(&packet.data);
        let kept = self.body.len();
        let len = packet.orig_len.max(kept as u32);
        Ok(Some(Found { interface: 0, data: 0..kept, len, way: Way::Unknown, options_at: kept, endianness }))
    }

    fn next_of_pcapng(&mut self) -> Result<Option<Found>, CaptureError> {
        let Blocks::PcapNg(reader) = &mut self.blocks else { return Ok(None) };
        let behind = self.packets;
        let damaged = |what: &str| CaptureError::Damaged { behind, what: what.to_owned() };
        loop {
            let Some(block) = reader.next_raw_block() else { return Ok(None) };
            let block = block.map_err(|error| stopped(error, behind))?;
            let kind = block.type_;
            match kind {
                ENHANCED_PACKET_BLOCK | PACKET_BLOCK | SIMPLE_PACKET_BLOCK => {
                    self.body.clear();
                    self.body.extend_from_slice(&block.body);
                    let endianness = reader.section().endianness;
                    let header = Header::read(kind, &self.body, endianness)
                        .ok_or_else(|| damaged("the block of a packet is too short"))?;
                    let number = self.section.saturating_add(header.interface as usize);
                    let interface = self.interfaces.get(number);
                    let interface = interface.ok_or_else(|| damaged("the interface of a packet is not described"))?;
                    let kept = match (header.kept, interface.snap_len) {
                        (Some(kept), _) => kept,
                        (None, 0) => header.len,
                        (None, snap) => header.len.min(snap),
                    };
                    let end = header.bytes.saturating_add(kept as usize);
                    if end > self.body.len() {
                        return Err(damaged("a packet is longer than its block"));
                    }
                    if let Some(stamp) = header.stamp {
                        self.time = interface.unit.nanos(stamp);
                    }
                    // A simple packet has no options; what is behind it is padding.
                    let options_at = if header.kept.is_some() { end.next_multiple_of(4) } else { self.body.len() };
                    let flags = self.body.get(options_at..).unwrap_or_default();
                    let flags = options(flags, endianness).find(|(code, value)| *code == 2 && value.len() == 4);
                    let way = match flags.map(|(_, value)| word(endianness, value) & 3) {
                        Some(1) => Way::In,
                        Some(2) => Way::Out,
                        _ => Way::Unknown,
                    };
                    let (data, len) = (header.bytes..end, header.len.max(kept));
                    let interface = number as u32;
                    return Ok(Some(Found { interface, data, len, way, options_at, endianness }));
                }
                SECTION_HEADER_BLOCK => self.section = self.interfaces.len(),
                INTERFACE_DESCRIPTION_BLOCK if self.interfaces.len() >= MOST_INTERFACES => {
                    return Err(damaged("it describes too many interfaces"));
                }
                INTERFACE_DESCRIPTION_BLOCK => self.interfaces.extend(reader.interfaces().last().map(described)),
                _ => {}
            }
        }
    }
}

/// A packet, in what was read last.
struct Found {
    interface: u32,
    data: std::ops::Range<usize>,
    len: u32,
    way: Way,
    options_at: usize,
    endianness: Endianness,
}

/// What a block says in front of its packet.
struct Header {
    /// In its section.
    interface: u32,
    stamp: Option<u64>,
    /// Bytes kept, where it says so.
    kept: Option<u32>,
    len: u32,
    /// Its own bytes.
    bytes: usize,
}

impl Header {
    fn read(kind: u32, body: &[u8], endianness: Endianness) -> Option<Self> {
        let word = |at: usize| Some(word(endianness, body.get(at..at + 4)?));
        if kind == SIMPLE_PACKET_BLOCK {
            return Some(Self { interface: 0, stamp: None, kept: None, len: word(0)?, bytes: 4 });
        }
        let interface = match kind {
            // The obsolete block counts what was dropped beside it.
            PACKET_BLOCK => u32::from(short(endianness, body.get(..2)?)),
            _ => word(0)?,
        };
        let stamp = Some(u64::from(word(4)?) << 32 | u64::from(word(8)?));
        Some(Self { interface, stamp, kept: Some(word(12)?), len: word(16)?, bytes: 20 })
    }
}

fn described(block: &InterfaceDescriptionBlock<'_>) -> Interface {
    let mut interface = Interface {
        name: None,
        link: u32::from(block.linktype) & 0xffff,
        snap_len: block.snaplen,
        unit: Unit { resolution: 6, offset: 0 },
    };
    for option in &block.options {
        match option {
            InterfaceDescriptionOption::IfName(name) => interface.name = Some(name.clone().into_owned()),
            InterfaceDescriptionOption::IfTsResol(resolution) => interface.unit.resolution = *resolution,
            InterfaceDescriptionOption::IfTsOffset(offset) => interface.unit.offset = *offset as i64,
            _ => {}
        }
    }
    interface
}

fn stopped(error: PcapError, behind: u64) -> CaptureError {
    match error {
        PcapError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => CaptureError::Io(error),
        PcapError::IoError(_) | PcapError::IncompleteBuffer => CaptureError::Cut { behind },
        PcapError::InvalidField(what) => CaptureError::Damaged { behind, what: what.to_owned() },
        other => CaptureError::Damaged { behind, what: other.to_string() },
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
