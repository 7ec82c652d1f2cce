//! Reads a recording, one step at a time. Files are untrusted: a violation of the format is an error that names the
//! frame.

use std::collections::VecDeque;
use std::io::Read;

use super::{
    Call, DROPPED, Decision, ENGINE, FORMAT, FORMAT_1, Headers, INJECTED, INTERFACES, Judgement, LONGEST_HEADERS,
    PENDING, REPLACED, REPLACEMENT, SEGMENTS, Step, WRONG,
};
use crate::configuration::Gateway;
use crate::engine::{Condition, Offloaded};
use lasthop_daemon::recording::reader::{Frame, Frames, Piece, ReadError};
use lasthop_daemon::recording::{INBOUND, OUTBOUND};
use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;
use lasthop_wire::Checksum;

/// Maximum size of a packet, in bytes (jumbograms built by receive offload included).
const MOST_BYTES: u32 = 1 << 20;
/// Maximum number of packets that an engine sends in one step: at most all that one connection has cached.
const MOST_SENT: usize = 1 << 16;

/// Reason why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file violates the format.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The recorded configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
}

/// Entry of a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// A new engine without connections.
    Engine {
        /// Its configuration.
        gateway: Box<Gateway>,
        /// Text of the configuration file.
        text: String,
        /// Seed of the engine.
        seed: u64,
    },
    /// An input and the decision on it.
    Step(Step),
}

/// Parser of a recording.
pub struct Recording<R: Read> {
    frames: Frames<R>,
    time: Instant,
    /// State of the checksum of packets without a comment about it.
    checksum: Checksum,
    /// Step whose frames may not be complete yet.
    pending: Option<Step>,
    ready: VecDeque<Entry>,
}

impl<R: Read> Recording<R> {
    /// Opens a recording; messages call it `file`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a recording.
    pub fn new(file: &str, source: R) -> Result<Self, RecordingError> {
        let frames = Frames::new(file, source, &INTERFACES, "lasthop gateway run")?;
        let (time, checksum) = (Instant::ZERO, Checksum::Complete);
        let mut recording = Self { frames, time, checksum, pending: None, ready: VecDeque::new() };
        recording.read()?;
        Ok(recording)
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the file violates the format. The recording cannot be read further.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RecordingError> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if !self.read()? {
                self.settle();
                return Ok(self.ready.pop_front());
            }
        }
    }

    /// Reads a piece; `false` at the end.
    fn read(&mut self) -> Result<bool, RecordingError> {
        match self.frames.next_piece()? {
            Some(Piece::Section(text)) => {
                self.settle();
                self.begin_engine(&text)?;
            }
            Some(Piece::Frame(frame)) => self.take(Told::of(frame, self.checksum))?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Parses the header of a section.
    fn begin_engine(&mut self, comment: &str) -> Result<(), RecordingError> {
        self.time = Instant::ZERO;
        let (first, text) = comment.split_once('\n').ok_or_else(|| self.frames.no_recording())?;
        let (seed, checksum) = match (first.strip_prefix(FORMAT), first.strip_prefix(FORMAT_1)) {
            (Some(seed), _) => (seed, Checksum::Complete),
            (None, Some(seed)) => (seed, Checksum::Pending),
            (None, None) => return Err(self.frames.no_recording().into()),
        };
        let seed = seed.parse().map_err(|_| self.frames.no_recording())?;
        self.checksum = checksum;
        let gateway = Box::new(Gateway::parse(&format!("{}: configuration", self.frames.file()), text)?);
        self.ready.push_back(Entry::Engine { gateway, text: text.to_owned(), seed });
        Ok(())
    }

    /// Completes the pending step.
    fn settle(&mut self) {
        self.ready.extend(self.pending.take().map(Entry::Step));
    }

    fn take(&mut self, told: Told) -> Result<(), RecordingError> {
        let Told { frame, comment, offloaded, condition } = told;
        if frame.time < self.time {
            return Err(self.bad("earlier than the previous frame"));
        }
        self.time = frame.time;
        if frame.interface == ENGINE {
            let call = self.event(&frame)?;
            self.begin_step(call, Judgement::Accept);
            return Ok(());
        }
        // Valid numbers are below 3; a larger one fails below.
        let port = Port(frame.interface as u16);
        if frame.interface > ENGINE {
            return Err(self.bad("unknown interface"));
        }
        if frame.data.len() > LONGEST_HEADERS || frame.data.len() as u64 > frame.len.into() || frame.len > MOST_BYTES {
            return Err(self.bad("invalid length for the headers of a packet"));
        }
        let headers = Headers { bytes: frame.data, len: frame.len as usize };
        match (frame.direction, &comment[..]) {
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
                _ => return Err(self.bad("replacement without a packet to replace")),
            },
            (OUTBOUND, INJECTED) => match &mut self.pending {
                Some(step) if step.decision.sent.len() < MOST_SENT => step.decision.sent.push((port, headers)),
                Some(_) => return Err(self.bad("more packets sent in one step than an engine can send")),
                None => return Err(self.bad("packet sent without a preceding input")),
            },
            (INBOUND | OUTBOUND, comment) => {
                let known = [DROPPED, REPLACED, REPLACEMENT, INJECTED].join(", ");
                return Err(self.bad(&format!("unknown comment {comment:?}; expected one of {known}")));
            }
            _ => return Err(self.bad("neither inbound nor outbound")),
        }
        Ok(())
    }

    fn begin_step(&mut self, call: Call, judgement: Judgement) {
        self.settle();
        let decision = Decision { judgement, sent: Vec::new() };
        self.pending = Some(Step { frame: self.frames.number(), time: self.time, call, decision });
    }

    fn event(&self, frame: &Frame) -> Result<Call, RecordingError> {
        let text = frame.text();
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
        call.ok_or_else(|| self.bad("unknown event; expected timeout, mtu PORT BYTES, configure or release"))
    }

    fn bad(&self, what: &str) -> RecordingError {
        self.frames.bad(what).into()
    }

    pub(super) fn whole(&self, what: &str) -> RecordingError {
        self.frames.whole(what).into()
    }

    /// Returns an error at the given step.
    pub(super) fn unfit(&self, step: &Step, what: &str) -> RecordingError {
        self.frames.at(step.frame, what).into()
    }
}

/// A frame and the content of its comments.
struct Told {
    frame: Frame,
    comment: String,
    offloaded: Offloaded,
    condition: Condition,
}

impl Told {
    fn of(mut frame: Frame, checksum: Checksum) -> Self {
        let (mut offloaded, mut condition) = (Offloaded { size: None, checksum }, Condition::Whole);
        let mut comment = String::new();
        let number = |text: &str| text.strip_prefix(SEGMENTS)?.parse().ok();
        for text in std::mem::take(&mut frame.comments) {
            match (&*text, number(&text)) {
                (_, Some(size)) => offloaded.size = Some(size),
                (PENDING, _) => offloaded.checksum = Checksum::Pending,
                (WRONG, _) => condition = Condition::Damaged,
                _ => comment = text,
            }
        }
        Self { frame, comment, offloaded, condition }
    }
}
