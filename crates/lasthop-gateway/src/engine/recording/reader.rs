//! Reads a recording, one step at a time. Files are untrusted: a violation of the format is an error that names the
//! frame.

use std::io::Read;

use super::{
    Call, DROPPED, Decision, ENGINE, FORMAT, FORMAT_1, Headers, INJECTED, INTERFACES, Judgement, LONGEST_HEADERS,
    PENDING, REPLACED, REPLACEMENT, SEGMENTS, Step, WRONG,
};
use crate::configuration::Gateway;
use crate::engine::{Condition, Offloaded};
use lasthop_daemon::recording::reader::{Frame, ReadError};
use lasthop_daemon::recording::steps::{self, EntryOf, Format};
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

/// New engine without connections.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEngine {
    /// Configuration of the engine.
    pub gateway: Box<Gateway>,
    /// Text of the configuration file.
    pub text: String,
    /// Seed of the engine.
    pub seed: u64,
}

/// Entry of a recording.
pub type Entry = EntryOf<Engines>;

/// Parser of a recording.
pub type Recording<R> = steps::Recording<Engines, R>;

/// Format of the recordings.
#[derive(Clone, Copy, Debug)]
pub struct Engines {
    /// Time of the last frame.
    time: Instant,
    /// State of the checksum of packets without a comment about it.
    checksum: Checksum,
}

impl Default for Engines {
    fn default() -> Self {
        Self { time: Instant::ZERO, checksum: Checksum::Complete }
    }
}

impl Format for Engines {
    type Start = NewEngine;
    type Call = Call;
    type Decision = Decision;
    type Error = RecordingError;

    const INTERFACES: &'static [&'static str] = &INTERFACES;
    const COMMAND: &'static str = "lasthop gateway run";

    fn start<R: Read>(recording: &mut Recording<R>, comment: &str) -> Result<NewEngine, RecordingError> {
        let no_recording = || recording.frames().no_recording();
        let (first, text) = comment.split_once('\n').ok_or_else(no_recording)?;
        let (seed, checksum) = match (first.strip_prefix(FORMAT), first.strip_prefix(FORMAT_1)) {
            (Some(seed), _) => (seed, Checksum::Complete),
            (None, Some(seed)) => (seed, Checksum::Pending),
            (None, None) => return Err(no_recording().into()),
        };
        let seed = seed.parse().map_err(|_| no_recording())?;
        let gateway = Box::new(Gateway::parse(&format!("{}: configuration", recording.frames().file()), text)?);
        recording.format = Self { time: Instant::ZERO, checksum };
        Ok(NewEngine { gateway, text: text.to_owned(), seed })
    }

    fn take<R: Read>(recording: &mut Recording<R>, frame: Frame) -> Result<(), RecordingError> {
        let Told { frame, comment, offloaded, condition } = Told::of(frame, recording.format.checksum);
        if frame.time < recording.format.time {
            return Err(recording.bad("earlier than the previous frame"));
        }
        recording.format.time = frame.time;
        let begun = |judgement| Decision { judgement, sent: Vec::new() };
        if frame.interface == ENGINE {
            let call = event(frame.text()).ok_or_else(|| {
                recording.bad("unknown event; expected timeout, mtu PORT BYTES, configure or release")
            })?;
            recording.begin_step(frame.time, call, begun(Judgement::Accept));
            return Ok(());
        }
        // Valid numbers are below 3; a larger one fails below.
        let port = Port(frame.interface as u16);
        if frame.interface > ENGINE {
            return Err(recording.bad("unknown interface"));
        }
        if frame.data.len() > LONGEST_HEADERS || frame.data.len() as u64 > frame.len.into() || frame.len > MOST_BYTES {
            return Err(recording.bad("invalid length for the headers of a packet"));
        }
        let headers = Headers { bytes: frame.data, len: frame.len as usize };
        match (frame.direction, &comment[..]) {
            (INBOUND, comment @ ("" | DROPPED | REPLACED)) => {
                let judgement = match comment {
                    DROPPED => Judgement::Drop,
                    REPLACED => Judgement::Replace(Headers { bytes: Vec::new(), len: 0 }),
                    _ => Judgement::Accept,
                };
                let call = Call::Packet { port, headers, offloaded, condition };
                recording.begin_step(frame.time, call, begun(judgement));
            }
            (OUTBOUND, REPLACEMENT) => match recording.last_step() {
                Some(Step { decision: Decision { judgement: Judgement::Replace(awaited), .. }, .. }) => {
                    *awaited = headers;
                }
                _ => return Err(recording.bad("replacement without a packet to replace")),
            },
            (OUTBOUND, INJECTED) => match recording.last_step() {
                Some(step) if step.decision.sent.len() < MOST_SENT => step.decision.sent.push((port, headers)),
                Some(_) => return Err(recording.bad("more packets sent in one step than an engine can send")),
                None => return Err(recording.bad("packet sent without a preceding input")),
            },
            (INBOUND | OUTBOUND, comment) => {
                let known = [DROPPED, REPLACED, REPLACEMENT, INJECTED].join(", ");
                return Err(recording.bad(&format!("unknown comment {comment:?}; expected one of {known}")));
            }
            _ => return Err(recording.bad("neither inbound nor outbound")),
        }
        Ok(())
    }
}

/// Parses an event.
fn event(text: &str) -> Option<Call> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mtu = |words: &str| words.parse().ok();
    match first.split_once(' ') {
        None if first == "timeout" => Some(Call::Timeout),
        None if first == "release" => Some(Call::Release),
        None if first == "configure" => Some(Call::Configure { text: rest.to_owned() }),
        Some(("mtu", words)) => match words.split_once(' ') {
            Some(("wired", bytes)) => mtu(bytes).map(|mtu| Call::Mtu { port: Port::WIRED, mtu }),
            Some(("wireless", bytes)) => mtu(bytes).map(|mtu| Call::Mtu { port: Port::WIRELESS, mtu }),
            _ => None,
        },
        _ => None,
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
