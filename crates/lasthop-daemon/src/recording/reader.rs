//! Reads a recording, one frame at a time. Files are untrusted: a violation of the format is an error that names the
//! frame.

use std::io::Read;

use lasthop_proto::time::Instant;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};

use super::{INBOUND, NANOSECONDS, OUTBOUND, TEXT_FOLLOWS, text};

/// Reason why a file is not a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file is unreadable, incomplete, or something else.
    #[error("{file}: {what}")]
    File {
        /// Name of the file.
        file: String,
        /// The problem.
        what: String,
    },
    /// A frame violates the format.
    #[error("{file}: frame {frame}: {what}")]
    Frame {
        /// Name of the file.
        file: String,
        /// Number of the frame, from 1.
        frame: u64,
        /// The problem.
        what: String,
    },
}

/// Frame of a recording.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Number of the frame's interface.
    pub interface: u32,
    /// Time of the frame.
    pub time: Instant,
    /// Direction: [`INBOUND`], [`OUTBOUND`], or neither.
    pub direction: u32,
    /// Comments.
    pub comments: Vec<String>,
    /// Recorded bytes.
    pub data: Vec<u8>,
    /// Original length, in bytes.
    pub len: u32,
}

impl Frame {
    fn of(block: EnhancedPacketBlock<'_>) -> Self {
        let (mut direction, mut comments) = (0, Vec::new());
        for option in block.options {
            match option {
                EnhancedPacketOption::Flags(flags) => direction = flags & (INBOUND | OUTBOUND),
                EnhancedPacketOption::Comment(text) => comments.push(text.into_owned()),
                _ => {}
            }
        }
        Self {
            interface: block.interface_id,
            time: Instant::from_nanos(u64::try_from(block.timestamp.as_nanos()).unwrap_or(u64::MAX)),
            direction,
            comments,
            data: block.data.into_owned(),
            len: block.original_len,
        }
    }

    /// Returns the frame's text; empty if it is not a text frame.
    pub fn text(&self) -> &str {
        let text = self.data.strip_prefix(TEXT_FOLLOWS).and_then(|text| std::str::from_utf8(text).ok());
        text.unwrap_or_default()
    }
}

/// Piece of a recording.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A section with this text.
    Section(String),
    /// A frame.
    Frame(Frame),
}

/// Reader of a recording's frames.
pub struct Frames<R: Read> {
    file: String,
    blocks: PcapNgReader<R>,
    /// Names of the recording's interfaces.
    interfaces: &'static [&'static str],
    /// Command that records such files, for messages.
    command: &'static str,
    /// Number of the last frame.
    number: u64,
    began: bool,
}

impl<R: Read> Frames<R> {
    /// Opens a recording of `command` with these interfaces; `file` identifies it in messages.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a pcapng file.
    pub fn new(
        file: &str,
        source: R,
        interfaces: &'static [&'static str],
        command: &'static str,
    ) -> Result<Self, ReadError> {
        let what = |error| match error {
            PcapError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => error.to_string(),
            _ => "not a pcapng file".to_owned(),
        };
        let blocks =
            PcapNgReader::new(source).map_err(|error| ReadError::File { file: file.to_owned(), what: what(error) })?;
        Ok(Self { file: file.to_owned(), blocks, interfaces, command, number: 0, began: false })
    }

    /// Returns the next piece; `None` at the end. The first is a section.
    ///
    /// # Errors
    ///
    /// Returns an error if the file violates the format. It cannot be read further.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, ReadError> {
        if !self.began {
            self.began = true;
            return Ok(Some(Piece::Section(text(self.blocks.section()))));
        }
        loop {
            let piece = match self.blocks.next_block() {
                None => return Ok(None),
                Some(Ok(Block::SectionHeader(section))) => Ok(Some(Piece::Section(text(&section)))),
                Some(Ok(Block::EnhancedPacket(block))) => Ok(Some(Piece::Frame(Frame::of(block)))),
                Some(Ok(Block::InterfaceDescription(_))) => Ok(None),
                Some(Ok(_)) => Err("contains blocks that do not occur in recordings".to_owned()),
                Some(Err(PcapError::IoError(error))) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                    Err(error.to_string())
                }
                Some(Err(PcapError::IoError(_) | PcapError::IncompleteBuffer)) => {
                    Err(format!("truncated in a block after frame {}", self.number))
                }
                Some(Err(error)) => Err(format!("the block after frame {} is damaged: {error}", self.number)),
            };
            // Before more of them are read: no recorder describes more interfaces.
            if self.blocks.interfaces().len() > self.interfaces.len() {
                return Err(self.no_recording());
            }
            let piece = piece.map_err(|what| self.whole(&what))?;
            if let Some(Piece::Frame(_)) = &piece {
                self.number += 1;
                self.check_interfaces()?;
            }
            if piece.is_some() {
                return Ok(piece);
            }
        }
    }

    /// Returns the number of the last frame, from 1, as Wireshark counts.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the link type of an interface.
    pub fn link_type(&self, interface: u32) -> Option<DataLink> {
        self.blocks.interfaces().get(interface as usize).map(|interface| interface.linktype)
    }

    fn check_interfaces(&self) -> Result<(), ReadError> {
        let has = |name: &'static str, options: &[InterfaceDescriptionOption<'_>]| {
            options.iter().any(|option| matches!(option, InterfaceDescriptionOption::IfName(given) if given == name))
                && options.contains(&InterfaceDescriptionOption::IfTsResol(NANOSECONDS))
        };
        let interfaces = self.blocks.interfaces();
        let fits = interfaces.len() == self.interfaces.len()
            && interfaces.iter().zip(self.interfaces).all(|(interface, name)| has(name, &interface.options));
        if fits { Ok(()) } else { Err(self.no_recording()) }
    }

    /// Returns the error for a file that is not a recording.
    pub fn no_recording(&self) -> ReadError {
        self.whole(&format!("not a recording of `{} --record`", self.command))
    }

    /// Returns an error about the whole file.
    pub fn whole(&self, what: &str) -> ReadError {
        ReadError::File { file: self.file.clone(), what: what.to_owned() }
    }

    /// Returns an error about the last frame.
    pub fn bad(&self, what: &str) -> ReadError {
        self.at(self.number, what)
    }

    /// Returns an error about the given frame.
    pub fn at(&self, frame: u64, what: &str) -> ReadError {
        ReadError::Frame { file: self.file.clone(), frame, what: what.to_owned() }
    }

    /// Returns the file's name in messages.
    pub fn file(&self) -> &str {
        &self.file
    }
}
