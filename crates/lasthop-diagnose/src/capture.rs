//! Reads captures, pcap and pcapng, one packet at a time. Files are untrusted input.

mod bytes;
mod pcap;
mod pcapng;

use std::collections::VecDeque;
use std::io::{self, Read};

use self::bytes::{Bytes, Got};
use self::pcap::Pcap;
use self::pcapng::{Block, Kept, PcapNg, options};

/// Maximum number of interfaces of a file, in all sections.
const MOST_INTERFACES: usize = 65_536;
/// The first block of a pcapng file, in any byte order.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const GZIP: [u8; 2] = [0x1f, 0x8b];
const SECOND: u128 = 1_000_000_000;

/// Returns whether a file that begins with these bytes is a capture, or may be a compressed one.
pub fn is_capture(begin: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 7] = [
        PCAPNG,
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xcd, 0x34],
        [0x34, 0xcd, 0xb2, 0xa1],
    ];
    begin.starts_with(&GZIP) || MAGIC.iter().any(|magic| begin.starts_with(magic))
}

/// Error in the format of a capture, or in reading it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file is not a capture.
    #[error("not a capture: expected a pcap or pcapng file, as written by tcpdump or Wireshark")]
    Foreign,
    /// The compression is not supported.
    #[error("compressed with {with}, which is not supported; decompress it first ({tool})")]
    Compressed {
        /// Name of the compression.
        with: &'static str,
        /// Command that decompresses the file.
        tool: &'static str,
    },
    /// The capture format is not supported.
    #[error("a capture in the format of {form}, which is not supported; convert it first (editcap FILE FILE.pcapng)")]
    Form {
        /// Name of the format.
        form: &'static str,
    },
    /// The file is truncated.
    #[error("truncated in a packet after packet {behind}")]
    Cut {
        /// Number of packets before.
        behind: u64,
    },
    /// The file is damaged, or is not a capture beyond this point.
    #[error("damaged after packet {behind}: {what}")]
    Damaged {
        /// Number of packets before.
        behind: u64,
        /// Description of the error.
        what: String,
    },
    /// The system cannot read the file.
    #[error("{0}")]
    Io(io::Error),
}

/// An interface at which packets were captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Name, if the file has one.
    pub name: Option<String>,
    /// Link type, by the numbers of tcpdump.org.
    pub link: u32,
    /// Maximum number of captured bytes per packet, or 0.
    pub snap_len: u32,
    unit: Unit,
}

/// Unit of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unit {
    /// Same as pcapng's `if_tsresol`: a power of 10, or of 2 if the highest bit is set.
    resolution: u8,
    /// Seconds to add.
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

/// Direction of a packet, if the file contains it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Way {
    /// The machine that captured the packet received it.
    In,
    /// The machine that captured the packet sent it.
    Out,
    /// Unknown.
    Unknown,
}

/// A captured packet, starting at its link header.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'f> {
    /// Number from 1, as in Wireshark.
    pub number: u64,
    /// Index into [`Capture::interfaces`].
    pub interface: u32,
    /// Time in nanoseconds since 1970. Packets in blocks without a time have the time of the packet before.
    pub time: u64,
    /// Captured bytes.
    pub data: &'f [u8],
    /// Number of bytes on the wire.
    pub len: u32,
    /// Direction.
    pub way: Way,
    options: &'f [u8],
    order: Order,
}

impl Frame<'_> {
    /// Returns the comments that the frame already has.
    pub fn comments(&self) -> impl Iterator<Item = String> {
        options(self.options, self.order)
            .filter(|(code, _)| *code == 1)
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// Byte order of a file or section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// Returns the first two bytes as a number.
    fn short(self, bytes: &[u8]) -> u16 {
        let bytes = [bytes[0], bytes[1]];
        if self == Self::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// Returns the first four bytes as a number.
    fn word(self, bytes: &[u8]) -> u32 {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self == Self::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// A packet within the last block or record.
struct Found {
    interface: u32,
    data: std::ops::Range<usize>,
    len: u32,
    way: Way,
    options_at: usize,
    order: Order,
}

enum Form {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// A capture that is read in constant memory: one file, or several that continue each other.
pub struct Capture<R: Read> {
    file: Bytes<R>,
    form: Form,
    /// Files after this one.
    rest: VecDeque<R>,
    interfaces: Vec<Interface>,
    /// Interfaces of this section, as indices into `interfaces`.
    section: Vec<usize>,
    packets: u64,
    time: u64,
    /// Body of the last block or record.
    body: Vec<u8>,
    /// Reasons for which files before the last one ended early.
    damage: Vec<String>,
}

impl<R: Read> Capture<R> {
    /// Starts to read.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a capture.
    pub fn open(source: R) -> Result<Self, CaptureError> {
        Self::open_all(VecDeque::from([source]))
    }

    /// Starts to read files each of which continues the one before, as written by programs that rotate their files.
    /// Interfaces of the same name and link type count as one. A file that is truncated or damaged ends at that place
    /// ([`Capture::damage`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the first file is not a capture.
    pub fn open_all(mut sources: VecDeque<R>) -> Result<Self, CaptureError> {
        let source = sources.pop_front().ok_or(CaptureError::Foreign)?;
        let mut body = Vec::new();
        let (file, form, interface) = begin(source, &mut body)?;
        let interfaces: Vec<Interface> = interface.into_iter().collect();
        let section = (0..interfaces.len()).collect();
        Ok(Self { file, form, rest: sources, interfaces, section, packets: 0, time: 0, body, damage: Vec::new() })
    }

    /// Returns the interfaces so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns the reasons for which files before the last one ended early.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Returns the next packet and its interface; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the last file is damaged or truncated. No packets follow.
    pub fn next_frame(&mut self) -> Result<Option<(Frame<'_>, &Interface)>, CaptureError> {
        let found = loop {
            let next = match self.form {
                Form::Pcap(_) => self.next_of_pcap(),
                Form::PcapNg(_) => self.next_of_pcapng(),
            };
            match next {
                Ok(Some(found)) => break found,
                Ok(None) if self.rest.is_empty() => return Ok(None),
                Err(error) if self.rest.is_empty() || matches!(error, CaptureError::Io(_)) => return Err(error),
                Ok(None) => {}
                Err(error) => self.damage.push(error.to_string()),
            }
            self.next_file()?;
        };
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
                order: found.order,
            },
            &self.interfaces[found.interface as usize],
        )))
    }

    fn next_file(&mut self) -> Result<(), CaptureError> {
        while let Some(source) = self.rest.pop_front() {
            match begin(source, &mut self.body) {
                Ok((file, form, interface)) => {
                    (self.file, self.form) = (file, form);
                    self.section.clear();
                    return interface.into_iter().try_for_each(|interface| self.describe(interface));
                }
                Err(error) if self.rest.is_empty() || matches!(error, CaptureError::Io(_)) => return Err(error),
                Err(error) => self.damage.push(error.to_string()),
            }
        }
        Ok(())
    }

    /// Adds an interface of this section: the same one as before, if it has the same name and link type.
    fn describe(&mut self, interface: Interface) -> Result<(), CaptureError> {
        let is_same = |(index, known): &(usize, &Interface)| {
            !self.section.contains(index) && known.name == interface.name && known.link == interface.link
        };
        let index = match self.interfaces.iter().enumerate().find(is_same).map(|(index, _)| index) {
            Some(index) => {
                self.interfaces[index] = interface;
                index
            }
            None if self.interfaces.len() >= MOST_INTERFACES => {
                let what = "too many interfaces".to_owned();
                return Err(CaptureError::Damaged { behind: self.packets, what });
            }
            None => {
                self.interfaces.push(interface);
                self.interfaces.len() - 1
            }
        };
        self.section.push(index);
        Ok(())
    }

    fn next_of_pcap(&mut self) -> Result<Option<Found>, CaptureError> {
        let Form::Pcap(pcap) = &self.form else { return Ok(None) };
        let Some((found, time)) = pcap.next(&mut self.file, &mut self.body, self.packets)? else { return Ok(None) };
        self.time = time;
        Ok(Some(Found { interface: self.section[0] as u32, ..found }))
    }

    fn next_of_pcapng(&mut self) -> Result<Option<Found>, CaptureError> {
        let behind = self.packets;
        loop {
            let Form::PcapNg(pcapng) = &mut self.form else { return Ok(None) };
            match pcapng.next(&mut self.file, &mut self.body, behind)? {
                None => return Ok(None),
                Some(Block::Section) => self.section.clear(),
                Some(Block::Interface(interface)) => self.describe(interface)?,
                Some(Block::Packet(mut found, stamp, kept)) => {
                    let Some(&number) = self.section.get(found.interface as usize) else {
                        let what = "a packet of an unknown interface".to_owned();
                        return Err(CaptureError::Damaged { behind, what });
                    };
                    let interface = &self.interfaces[number];
                    if kept == Kept::BySnapLen && interface.snap_len > 0 {
                        let len = found.data.len().min(interface.snap_len as usize);
                        found.data.end = found.data.start + len;
                    }
                    if let Some(stamp) = stamp {
                        self.time = interface.unit.nanos(stamp);
                    }
                    return Ok(Some(Found { interface: number as u32, ..found }));
                }
            }
        }
    }
}

type Begun<R> = (Bytes<R>, Form, Option<Interface>);

/// Reads a file up to its first packet or block.
fn begin<R: Read>(source: R, body: &mut Vec<u8>) -> Result<Begun<R>, CaptureError> {
    let mut file = Bytes::new(source)?;
    body.clear();
    if file.take(4, body)? != Got::All {
        return Err(CaptureError::Foreign);
    }
    let magic = [body[0], body[1], body[2], body[3]];
    if magic == PCAPNG {
        let pcapng = PcapNg::open(&mut file, body)?.ok_or(CaptureError::Foreign)?;
        return Ok((file, Form::PcapNg(pcapng), None));
    }
    let (pcap, interface) = Pcap::open(magic, &mut file)?.ok_or(CaptureError::Foreign)?;
    Ok((file, Form::Pcap(pcap), Some(interface)))
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
