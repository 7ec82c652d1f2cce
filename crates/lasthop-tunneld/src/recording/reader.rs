//! Reads a recording, one step at a time.

use std::collections::VecDeque;
use std::io::Read;

use lasthop_daemon::recording::reader::{Frame, Frames, Piece, ReadError};
use lasthop_daemon::recording::{INBOUND, OUTBOUND};
use lasthop_proto::time::{Duration, Instant};
use pcap_file::DataLink;

use super::{
    Decision, END, FORMAT, HEAD, HOP, Head, INNER, INTERFACES, KINDS, MOST_NANOS, Setting, Step, Told, config_of,
};
use crate::frames::DATA;
use crate::inner::frame::{LENGTH, LONGEST};

/// Length of a frame's number, in bytes.
const NUMBER: usize = 4;
/// Maximum length of carried data, in bytes.
const MOST_BYTES: u32 = 1 << 16;
/// Maximum number of packets that a link passes on or gives back at once: those that it may hold, and those that may
/// wait.
const MOST_HANDED: usize = 1 << 21;

/// Entry of a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// A worker started.
    Worker,
    /// An input of a link, and its decision.
    Step(Step),
}

/// Parser of a recording.
pub struct Recording<R: Read> {
    frames: Frames<R>,
    /// Step to which more decisions may be added.
    pending: Option<Step>,
    ready: VecDeque<Entry>,
}

impl<R: Read> Recording<R> {
    /// Opens a recording; messages call it `file`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a recording.
    pub fn new(file: &str, source: R) -> Result<Self, ReadError> {
        let frames = Frames::new(file, source, &INTERFACES, "lasthop tunnel run")?;
        let mut recording = Self { frames, pending: None, ready: VecDeque::new() };
        recording.read()?;
        Ok(recording)
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the file violates the format. The recording cannot be read further.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
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
    fn read(&mut self) -> Result<bool, ReadError> {
        match self.frames.next_piece()? {
            Some(Piece::Section(text)) if text == FORMAT => {
                self.settle();
                self.ready.push_back(Entry::Worker);
            }
            Some(Piece::Section(_)) => return Err(self.frames.no_recording()),
            Some(Piece::Frame(frame)) => self.take(&frame)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Completes the pending step.
    fn settle(&mut self) {
        self.ready.extend(self.pending.take().map(Entry::Step));
    }

    fn take(&mut self, frame: &Frame) -> Result<(), ReadError> {
        let mut comments = frame.comments.iter().map(String::as_str);
        let peer = comments.next().and_then(|comment| comment.strip_prefix("peer ")?.parse().ok());
        let peer = peer.ok_or_else(|| self.frames.bad("expected `peer NUMBER` as the first comment"))?;
        let comment = comments.next();
        let decided = Decision::default();
        match (frame.interface, frame.direction) {
            (END, _) => {
                let told = event(frame.text()).ok_or_else(|| {
                    self.frames.bad("expected begin, anew, path, timeout, pause or back, with its arguments")
                })?;
                self.begin_step(frame.time, peer, told, decided);
            }
            (INNER, INBOUND) => {
                let told = comment.and_then(flow).map(|(flow, traffic)| (flow, traffic, self.inner(frame)));
                let Some((flow, traffic, head)) = told else {
                    return Err(self.frames.bad("expected `flow NUMBER KIND` as the second comment"));
                };
                let told = Told::Packet { head: head?, flow, traffic };
                self.begin_step(frame.time, peer, told, decided);
            }
            (INNER, OUTBOUND) => {
                let head = self.inner(frame)?;
                let step = self.pending.as_mut().filter(|step| step.peer == peer && step.time == frame.time);
                let Some(step) = step else {
                    return Err(self.frames.bad("packet delivered without a preceding input"));
                };
                let heads = if comment == Some("back") { &mut step.decision.back } else { &mut step.decision.items };
                if heads.len() >= MOST_HANDED {
                    return Err(self.frames.bad("more packets delivered in one step than a link can deliver"));
                }
                heads.push(head);
            }
            (HOP, INBOUND) => {
                let (number, head) = self.frame(frame)?;
                self.begin_step(frame.time, peer, Told::Frame { number, head }, decided);
            }
            (HOP, OUTBOUND) => {
                let decision = Decision { frame: Some(self.frame(frame)?), ..decided };
                self.begin_step(frame.time, peer, Told::Poll, decision);
            }
            (INNER | HOP, _) => return Err(self.frames.bad("neither inbound nor outbound")),
            _ => return Err(self.frames.bad("unknown interface")),
        }
        Ok(())
    }

    fn begin_step(&mut self, time: Instant, peer: u32, told: Told, decision: Decision) {
        self.settle();
        self.pending = Some(Step { frame: self.frames.number(), time, peer, told, decision });
    }

    /// Returns the head of a packet as the link carries it.
    fn inner(&self, frame: &Frame) -> Result<Head, ReadError> {
        let bridged = self.frames.link_type(INNER) == Some(DataLink::ETHERNET);
        let (front, kept) = if bridged { (Some(frame.len as u16), HEAD - LENGTH) } else { (None, HEAD) };
        let fits = frame.data.len() == kept.min(frame.len as usize)
            && frame.len <= if bridged { LONGEST as u32 } else { MOST_BYTES };
        if !fits {
            return Err(self.frames.bad("invalid length for the head of a packet"));
        }
        let mut bytes: Vec<u8> = front.into_iter().flat_map(u16::to_be_bytes).collect();
        let len = bytes.len() + frame.len as usize;
        bytes.extend_from_slice(&frame.data);
        Ok(Head { bytes, len })
    }

    /// Returns the low bits of a frame's number, and its head.
    fn frame(&self, frame: &Frame) -> Result<(u32, Head), ReadError> {
        let split = frame.data.split_first_chunk::<NUMBER>();
        let fits = frame.data.len() <= frame.len as usize && frame.len <= MOST_BYTES;
        let Some((number, bytes)) = split.filter(|(_, bytes)| fits && bytes.len() <= DATA + HEAD) else {
            return Err(self.frames.bad("invalid length for the head of a frame"));
        };
        Ok((u32::from_be_bytes(*number), Head { bytes: bytes.to_vec(), len: frame.len as usize - NUMBER }))
    }

    /// Returns an error at the given step.
    pub(super) fn unfit(&self, step: &Step, what: &str) -> ReadError {
        self.frames.at(step.frame, what)
    }
}

fn flow(comment: &str) -> Option<(u32, lasthop_proto::link::hybrid::Traffic)> {
    let (flow, kind) = comment.strip_prefix("flow ")?.split_once(' ')?;
    Some((flow.parse().ok()?, KINDS.iter().find(|known| known.0 == kind)?.1))
}

fn event(text: &str) -> Option<Told> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    match first.split_once(' ').unwrap_or((first, "")) {
        ("begin", _) => {
            let (lag, config) = words.split_last()?;
            let lag = lag.strip_prefix("lag=")?.parse().ok().filter(|nanos| *nanos <= MOST_NANOS)?;
            Some(Told::Begin(Setting { config: config_of(config)?, lag: Duration::from_nanos(lag) }))
        }
        ("anew", "") => config_of(&words).map(Told::Anew),
        ("path", header) => header.parse().ok().filter(|header| *header <= super::MOST_HEADER).map(Told::Path),
        ("timeout", "") => Some(Told::Timeout),
        ("pause", "") => Some(Told::Poll),
        ("back", "") => Some(Told::Back),
        _ => None,
    }
}
