//! Recordings as sequences of steps: inputs of state machines, each with the decision on it. A replay passes the inputs
//! to other state machines and compares their decisions.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::Read;

use lasthop_proto::time::Instant;

use super::differences::Differences;
use super::reader::{Frame, Frames, Piece, ReadError};

/// Input of a state machine, and the decision on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step<C, D> {
    /// Number of the step's first frame in the file, from 1, as Wireshark counts.
    pub frame: u64,
    /// Time passed to the state machine.
    pub time: Instant,
    /// The input.
    pub call: C,
    /// The decision.
    pub decision: D,
}

/// Entry of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry<S, C, D> {
    /// A worker started, with new state machines.
    Start(S),
    /// An input and the decision on it.
    Step(Step<C, D>),
}

/// Step of a recording in format `F`.
pub type StepOf<F> = Step<<F as Format>::Call, <F as Format>::Decision>;

/// Entry of a recording in format `F`.
pub type EntryOf<F> = Entry<<F as Format>::Start, <F as Format>::Call, <F as Format>::Decision>;

/// Format of one daemon's recordings: the meaning of sections and frames. Its value is the state of the parser.
pub trait Format: Default {
    /// Start of a worker.
    type Start;
    /// Input of a state machine.
    type Call;
    /// Decision of a state machine.
    type Decision;
    /// Reason why a file cannot be replayed.
    type Error: From<ReadError>;

    /// Names of the interfaces.
    const INTERFACES: &'static [&'static str];
    /// Command that records such files, for messages.
    const COMMAND: &'static str;

    /// Parses the text of a section.
    ///
    /// # Errors
    ///
    /// Returns an error if the text violates the format.
    fn start<R: Read>(recording: &mut Recording<Self, R>, text: &str) -> Result<Self::Start, Self::Error>;

    /// Parses a frame: it begins a step ([`Recording::begin_step`]), or belongs to the decision of the last one
    /// ([`Recording::last_step`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the frame violates the format.
    fn take<R: Read>(recording: &mut Recording<Self, R>, frame: Frame) -> Result<(), Self::Error>;
}

/// Parser of a recording.
pub struct Recording<F: Format, R: Read> {
    /// State of the format.
    pub format: F,
    frames: Frames<R>,
    /// Step whose frames may not be complete yet.
    pending: Option<StepOf<F>>,
    ready: VecDeque<EntryOf<F>>,
}

impl<F: Format, R: Read> Recording<F, R> {
    /// Opens a recording; `file` identifies it in messages.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a recording.
    pub fn new(file: &str, source: R) -> Result<Self, F::Error> {
        let frames = Frames::new(file, source, F::INTERFACES, F::COMMAND)?;
        let mut recording = Self { format: F::default(), frames, pending: None, ready: VecDeque::new() };
        recording.read()?;
        Ok(recording)
    }

    /// Returns the next entry; `None` at the end. The first is a start.
    ///
    /// # Errors
    ///
    /// Returns an error if the file violates the format. The recording cannot be read further.
    pub fn next_entry(&mut self) -> Result<Option<EntryOf<F>>, F::Error> {
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
    fn read(&mut self) -> Result<bool, F::Error> {
        match self.frames.next_piece()? {
            Some(Piece::Section(text)) => {
                self.settle();
                let start = F::start(self, &text)?;
                self.ready.push_back(Entry::Start(start));
            }
            Some(Piece::Frame(frame)) => F::take(self, frame)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Completes the pending step.
    fn settle(&mut self) {
        self.ready.extend(self.pending.take().map(Entry::Step));
    }

    /// Begins a step with the last frame.
    pub fn begin_step(&mut self, time: Instant, call: F::Call, decision: F::Decision) {
        self.settle();
        self.pending = Some(Step { frame: self.frames.number(), time, call, decision });
    }

    /// Returns the last step, to whose decision more frames may belong.
    pub const fn last_step(&mut self) -> Option<&mut StepOf<F>> {
        self.pending.as_mut()
    }

    /// Returns the frames of the file, for their properties and for errors.
    pub const fn frames(&self) -> &Frames<R> {
        &self.frames
    }

    /// Returns an error about the last frame.
    pub fn bad(&self, what: &str) -> F::Error {
        self.frames.bad(what).into()
    }
}

/// State machines that decide on recorded inputs again.
pub trait Player<F: Format> {
    /// Part of a decision that the player determines.
    type Decision: Display + PartialEq;

    /// Converts the recorded decision, with which the player's own is compared.
    fn recorded(&self, step: &StepOf<F>) -> Self::Decision;

    /// Returns the player's decision.
    ///
    /// # Errors
    ///
    /// Returns the reason as an error if the player cannot decide.
    fn play(&mut self, step: &StepOf<F>) -> Result<Self::Decision, &'static str>;
}

/// Replays a recording and compares decisions. `start` returns the player for a start, or the reason why there is none;
/// `count` is called for each entry.
///
/// # Errors
///
/// Returns an error if the recording violates the format, or a player cannot decide.
pub fn replay<F: Format, R: Read, P: Player<F>>(
    mut recording: Recording<F, R>,
    mut start: impl FnMut(&F::Start) -> Result<P, &'static str>,
    mut count: impl FnMut(&EntryOf<F>),
) -> Result<Differences, F::Error> {
    let mut differences = Differences::default();
    let mut player = None;
    while let Some(entry) = recording.next_entry()? {
        count(&entry);
        match (&entry, &mut player) {
            (Entry::Start(section), player) => {
                *player = Some(start(section).map_err(|what| recording.frames.whole(what))?);
            }
            (Entry::Step(step), Some(player)) => {
                let recorded = player.recorded(step);
                let replayed = player.play(step).map_err(|what| recording.frames.at(step.frame, what))?;
                differences.compare(step.frame, step.time, &recorded, &replayed);
            }
            // No step precedes the first start.
            (Entry::Step(_), None) => {}
        }
    }
    Ok(differences)
}
