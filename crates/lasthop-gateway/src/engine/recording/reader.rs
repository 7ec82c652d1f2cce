//! Reads a recording, one call at a time. Files come from anybody: what does not fit the format is an error that names the
//! frame.

use std::collections::VecDeque;
use std::io::Read;

use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;
use lasthop_wire::Checksum;
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{Block, PcapNgReader};

use super::{
    Call, DROPPED, Decision, ENGINE, FORMAT, FORMAT_1, Headers, INBOUND, INJECTED, INTERFACES, Judgement,
    LONGEST_HEADERS, NANOSECONDS, OUTBOUND, PENDING, REPLACED, REPLACEMENT, SEGMENTS, Step, TEXT_FOLLOWS, WRONG,
};
use crate::configuration::Gateway;
use crate::engine::{Condition, Offloaded};

/// No packet is larger than this (jumbograms as receive offload builds them included).
const MOST_BYTES: u32 = 1 << 20;
/// No engine sends more at once: a call repairs at most what one connection has cached.
const MOST_SENT: usize = 1 << 16;

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
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
    /// The configuration in it is bad.
    #[error(transparent)]
    Config(#[from] lasthop_scenario::Error),
}

/// What is next in a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// A new engine, which knows of no connection.
    Engine {
        /// Its configuration.
        gateway: Box<Gateway>,
        /// The text of that.
        text: String,
        /// Its seed.
        seed: u64,
    },
    /// What it was told then, and what it decided.
    Step(Step),
}

/// A recording that is being read.
pub struct Recording<R: Read> {
    file: String,
    blocks: PcapNgReader<R>,
    frame: u64,
    time: Instant,
    /// What the checksum field holds of packets of which nothing is said.
    checksum: Checksum,
    /// Its frames may not be complete.
    pending: Option<Step>,
    ready: VecDeque<Entry>,
}

/// What a block is, without what it says.
enum Kind {
    Section,
    Frame(Frame),
    Other,
    End,
}

/// A frame as it stands in the file.
struct Frame {
    interface: u32,
    time: Instant,
    direction: u32,
    comment: String,
    offloaded: Offloaded,
    condition: Condition,
    data: Vec<u8>,
    len: u32,
}

impl<R: Read> Recording<R> {
    /// Begins to read; messages call it `file`.
    ///
    /// # Errors
    ///
    /// When it is no recording.
    pub fn new(file: &str, source: R) -> Result<Self, RecordingError> {
        let what = |error| match error {
            PcapError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => error.to_string(),
            _ => "not a pcapng file".to_owned(),
        };
        let blocks = PcapNgReader::new(source)
            .map_err(|error| RecordingError::File { file: file.to_owned(), what: what(error) })?;
        let mut recording = Self {
            file: file.to_owned(),
            blocks,
            frame: 0,
            time: Instant::ZERO,
            checksum: Checksum::Complete,
            pending: None,
            ready: VecDeque::new(),
        };
        recording.begin_engine()?;
        Ok(recording)
    }

    /// The next entry; none at the end.
    ///
    /// # Errors
    ///
    /// When the file does not fit the format. Nothing comes behind that.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RecordingError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            match self.block()? {
                Kind::Section => {
                    self.settle();
                    self.begin_engine()?;
                }
                Kind::Frame(frame) => self.take(frame)?,
                Kind::Other => {}
                Kind::End => {
                    self.settle();
                    if self.ready.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn block(&mut self) -> Result<Kind, RecordingError> {
        let kind = match self.blocks.next_block() {
            None => Ok(Kind::End),
            Some(Ok(Block::SectionHeader(_))) => Ok(Kind::Section),
            Some(Ok(Block::EnhancedPacket(block))) => Ok(Kind::Frame(Frame::of(block, self.checksum))),
            Some(Ok(Block::InterfaceDescription(_))) => Ok(Kind::Other),
            Some(Ok(_)) => Err("holds blocks that no recording of the gateway has".to_owned()),
            Some(Err(PcapError::IoError(error))) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                Err(error.to_string())
            }
            Some(Err(PcapError::IoError(_) | PcapError::IncompleteBuffer)) => {
                Err(format!("ends in the midst of a block, behind frame {}", self.frame))
            }
            Some(Err(error)) => Err(format!("the block behind frame {} is damaged: {error}", self.frame)),
        };
        // Before more of them are read: who describes more is no recorder.
        if self.blocks.interfaces().len() > INTERFACES.len() {
            return Err(self.whole(NO_RECORDING));
        }
        kind.map_err(|what| self.whole(&what))
    }

    /// Reads the header of a section.
    fn begin_engine(&mut self) -> Result<(), RecordingError> {
        self.time = Instant::ZERO;
        let comment = comments(self.blocks.section());
        let (first, text) = comment.split_once('\n').ok_or_else(|| self.whole(NO_RECORDING))?;
        let (seed, checksum) = match (first.strip_prefix(FORMAT), first.strip_prefix(FORMAT_1)) {
            (Some(seed), _) => (seed, Checksum::Complete),
            (None, Some(seed)) => (seed, Checksum::Pending),
            (None, None) => return Err(self.whole(NO_RECORDING)),
        };
        let seed = seed.parse().map_err(|_| self.whole(NO_RECORDING))?;
        self.checksum = checksum;
        let gateway = Box::new(Gateway::parse(&format!("{}: configuration", self.file), text)?);
        self.ready.push_back(Entry::Engine { gateway, text: text.to_owned(), seed });
        Ok(())
    }

    /// What is pending is complete.
    fn settle(&mut self) {
        self.ready.extend(self.pending.take().map(Entry::Step));
    }

    fn take(&mut self, frame: Frame) -> Result<(), RecordingError> {
        self.frame += 1;
        if self.frame == 1 || self.time == Instant::ZERO {
            self.check_interfaces()?;
        }
        if frame.time < self.time {
            return Err(self.bad("it is earlier than the one before"));
        }
        self.time = frame.time;
        if frame.interface == ENGINE {
            let call = self.event(&frame)?;
            self.begin_step(call, Judgement::Accept);
            return Ok(());
        }
        // There are three.
        let port = Port(frame.interface as u16);
        if frame.interface > ENGINE {
            return Err(self.bad("there is no such interface"));
        }
        if frame.data.len() > LONGEST_HEADERS || frame.data.len() as u64 > frame.len.into() || frame.len > MOST_BYTES {
            return Err(self.bad("its length is not that of a packet's headers"));
        }
        let headers = Headers { bytes: frame.data, len: frame.len as usize };
        let (offloaded, condition) = (frame.offloaded, frame.condition);
        match (frame.direction, &frame.comment[..]) {
            (INBOUND, comment @ ("" | DROPPED | REPLACED)) => {
                let judgement = match comment {
                    DROPPED => Judgement::Drop,
                    REPLACED => Judgement::Replace(Headers { bytes: Vec::new(), len: 0 }),
                    _ => Judgement::Accept,
                };
                self.begin_step(Call::Packet { port, headers, offloaded, condition }, judgement);
            }
            (OUTBOUND, REPLACEMENT) => match &mut self.pending {
                Some(Step { decision: Decision { judgement: Judgement::Replace(awaited), .. }, .. }) => {
                    *awaited = headers;
                }
                _ => return Err(self.bad("it replaces nothing")),
            },
            (OUTBOUND, INJECTED) => match &mut self.pending {
                Some(step) if step.decision.sent.len() < MOST_SENT => step.decision.sent.push((port, headers)),
                Some(_) => return Err(self.bad("no engine sends so much at once")),
                None => return Err(self.bad("nothing made the engine send it")),
            },
            (INBOUND | OUTBOUND, comment) => {
                let known = [DROPPED, REPLACED, REPLACEMENT, INJECTED].join(", ");
                return Err(self.bad(&format!("its comment is {comment:?}, not one of {known}")));
            }
            _ => return Err(self.bad("it is neither inbound nor outbound")),
        }
        Ok(())
    }

    fn begin_step(&mut self, call: Call, judgement: Judgement) {
        self.settle();
        let decision = Decision { judgement, sent: Vec::new() };
        self.pending = Some(Step { frame: self.frame, time: self.time, call, decision });
    }

    fn event(&self, frame: &Frame) -> Result<Call, RecordingError> {
        let text = frame.data.strip_prefix(TEXT_FOLLOWS).and_then(|text| std::str::from_utf8(text).ok());
        let text = text.unwrap_or_default();
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let mtu = |words: &str| words.parse().ok();
        let call = match first.split_once(' ') {
            None if first == "timeout" => Some(Call::Timeout),
            None if first == "release" => Some(Call::Release),
            None if first == "configure" => Some(Call::Configure { text: rest.to_owned() }),
            Some(("mtu", words)) => match words.split_once(' ') {
                Some(("wired", bytes)) => mtu(bytes).map(|mtu| Call::Mtu { port: Port::WIRED, mtu }),
                Some(("wireless", bytes)) => mtu(bytes).map(|mtu| Call::Mtu { port: Port::WIRELESS, mtu }),
                _ => None,
            },
            _ => None,
        };
        call.ok_or_else(|| self.bad("it is not one of timeout, mtu PORT BYTES, configure, release"))
    }

    fn check_interfaces(&self) -> Result<(), RecordingError> {
        let has = |name: &'static str, options: &[InterfaceDescriptionOption<'_>]| {
            options.iter().any(|option| matches!(option, InterfaceDescriptionOption::IfName(given) if given == name))
                && options.contains(&InterfaceDescriptionOption::IfTsResol(NANOSECONDS))
        };
        let interfaces = self.blocks.interfaces();
        let fits = interfaces.len() == INTERFACES.len()
            && interfaces.iter().zip(INTERFACES).all(|(interface, name)| has(name, &interface.options));
        if fits { Ok(()) } else { Err(self.whole(NO_RECORDING)) }
    }

    pub(super) fn whole(&self, what: &str) -> RecordingError {
        RecordingError::File { file: self.file.clone(), what: what.to_owned() }
    }

    fn bad(&self, what: &str) -> RecordingError {
        RecordingError::Frame { file: self.file.clone(), frame: self.frame, what: what.to_owned() }
    }

    /// An error at a step of it.
    pub(super) fn unfit(&self, step: &Step, what: &str) -> RecordingError {
        RecordingError::Frame { file: self.file.clone(), frame: step.frame, what: what.to_owned() }
    }
}

const NO_RECORDING: &str = "not a recording that `lasthop gateway run --record` made";

impl Frame {
    fn of(block: EnhancedPacketBlock<'_>, checksum: Checksum) -> Self {
        let (mut direction, mut comment) = (0, String::new());
        let (mut offloaded, mut condition) = (Offloaded { size: None, checksum }, Condition::Whole);
        let number = |text: &str| text.strip_prefix(SEGMENTS)?.parse().ok();
        for option in block.options {
            match option {
                EnhancedPacketOption::Flags(flags) => direction = flags & (INBOUND | OUTBOUND),
                EnhancedPacketOption::Comment(text) => match (&*text, number(&text)) {
                    (_, Some(size)) => offloaded.size = Some(size),
                    (PENDING, _) => offloaded.checksum = Checksum::Pending,
                    (WRONG, _) => condition = Condition::Damaged,
                    _ => comment = text.into_owned(),
                },
                _ => {}
            }
        }
        Self {
            interface: block.interface_id,
            time: Instant::from_nanos(u64::try_from(block.timestamp.as_nanos()).unwrap_or(u64::MAX)),
            direction,
            comment,
            offloaded,
            condition,
            data: block.data.into_owned(),
            len: block.original_len,
        }
    }
}

/// All comments of a section, which are one text.
fn comments(section: &SectionHeaderBlock<'_>) -> String {
    let comment = |option: &SectionHeaderOption<'_>| match option {
        SectionHeaderOption::Comment(text) => Some(text.to_string()),
        _ => None,
    };
    section.options.iter().filter_map(comment).collect()
}
