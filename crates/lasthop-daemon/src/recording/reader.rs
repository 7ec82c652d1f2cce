//! Reads a recording, one frame at a time. Files come from anybody: what does not fit the format is an error that names the frame.

use std::io::Read;

use lasthop_proto::time::Instant;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};

use super::{INBOUND, NANOSECONDS, OUTBOUND, TEXT_FOLLOWS, text};

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not to be read, not whole, or something else.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A frame does not fit the format.
    #[error("{file}: frame {frame}: {what}")]
    Frame {
        /// The file.
        file: String,
        /// Its number, from 1.
        frame: u64,
        /// What is wrong with it.
        what: String,
    },
}

/// A frame as it stands in the file.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The number of its interface.
    pub interface: u32,
    /// When.
    pub time: Instant,
    /// [`INBOUND`], [`OUTBOUND`], or neither.
    pub direction: u32,
    /// What is said of it.
    pub comments: Vec<String>,
    /// As many bytes as were kept.
    pub data: Vec<u8>,
    /// How many it had.
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

    /// The text that it is; empty where it is none.
    pub fn text(&self) -> &str {
        let text = self.data.strip_prefix(TEXT_FOLLOWS).and_then(|text| std::str::from_utf8(text).ok());
        text.unwrap_or_default()
    }
}

/// What is next.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A section, which says this.
    Section(String),
    /// A frame.
    Frame(Frame),
}

/// The frames of a recording.
pub struct Frames<R: Read> {
    file: String,
    blocks: PcapNgReader<R>,
    /// Names of its interfaces.
    interfaces: &'static [&'static str],
    /// What made it, as messages name it.
    command: &'static str,
    /// The number of the last frame.
    number: u64,
    began: bool,
}

impl<R: Read> Frames<R> {
    /// Begins to read what `command` records on these interfaces; messages call it `file`.
    ///
    /// # Errors
    ///
    /// When it is no pcapng file.
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

    /// The next piece; none at the end. The first is a section.
    ///
    /// # Errors
    ///
    /// When the file does not fit the format. Nothing comes behind that.
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
                Some(Ok(_)) => Err("holds blocks that no recording has".to_owned()),
                Some(Err(PcapError::IoError(error))) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                    Err(error.to_string())
                }
                Some(Err(PcapError::IoError(_) | PcapError::IncompleteBuffer)) => {
                    Err(format!("ends in the midst of a block, behind frame {}", self.number))
                }
                Some(Err(error)) => Err(format!("the block behind frame {} is damaged: {error}", self.number)),
            };
            // Before more of them are read: who describes more is no recorder.
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

    /// The number of the last frame, from 1, as Wireshark counts.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The link type of an interface.
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

    /// It is something else.
    pub fn no_recording(&self) -> ReadError {
        self.whole(&format!("not a recording that `{} --record` made", self.command))
    }

    /// What is wrong with the whole file.
    pub fn whole(&self, what: &str) -> ReadError {
        ReadError::File { file: self.file.clone(), what: what.to_owned() }
    }

    /// What is wrong with the last frame.
    pub fn bad(&self, what: &str) -> ReadError {
        self.at(self.number, what)
    }

    /// What is wrong with that frame.
    pub fn at(&self, frame: u64, what: &str) -> ReadError {
        ReadError::Frame { file: self.file.clone(), frame, what: what.to_owned() }
    }

    /// What messages call it.
    pub fn file(&self) -> &str {
        &self.file
    }
}
