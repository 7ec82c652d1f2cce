//! A script: what becomes of single frames, told by the bytes that they carry, so that senders which cut the stream
//! differently can be led through the same story.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use super::Fate;
use super::position::Positions;
use crate::packet::{Body, Flags, FlowId, Packet};
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// A line of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptLine {
    /// The flow; `None` means every flow.
    pub flow: Option<FlowId>,
    /// Which of its frames.
    pub frame: ScriptFrame,
    /// What becomes of it.
    pub act: Act,
}

/// One frame of a flow, as seen by this direction of this link. All but bytes count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptFrame {
    /// The `transmission`th segment that passes with that byte in it, however the stream is cut.
    Byte {
        /// Offset in the stream, from 0 at the first byte after the SYN; where no SYN passes, from the first byte of the
        /// first segment that does.
        byte: u64,
        /// Which of its transmissions.
        transmission: u32,
    },
    /// The nth pure acknowledgment (no payload, no SYN, FIN or RST).
    Ack(u32),
    /// The nth SYN, its answer included (no payload).
    Syn(u32),
}

/// What becomes of a frame. Where several lines concern one frame, the strongest holds: the greatest of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Act {
    /// It is marked "congestion experienced", where its ends take marks (RFC 3168 §5).
    Mark,
    /// It arrives late.
    Late {
        /// By so much.
        by: Duration,
        /// What becomes of those behind it.
        behind: Behind,
    },
    /// It is lost.
    Lose,
}

/// What the frames do that come behind a late one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Behind {
    /// They overtake it: reordering.
    Overtake,
    /// They wait for it: a stall of this direction, whatever flow they are of.
    Wait,
}

/// The script of one direction of a link. What it remembers of a flow is bounded by the lines.
#[derive(Clone, Debug)]
pub(super) struct Script {
    flows: BTreeMap<FlowId, FlowScript>,
    /// Where each flow that no line names begins.
    every_flow: FlowScript,
    /// While frames wait behind a late one: they arrive as if sent then.
    stalled: Option<Instant>,
}

impl Script {
    pub(super) fn new(lines: &[ScriptLine]) -> Self {
        let mut every_flow = FlowScript::default();
        for line in lines.iter().filter(|line| line.flow.is_none()) {
            every_flow.add(line);
        }
        let mut flows = BTreeMap::new();
        for line in lines {
            if let Some(flow) = line.flow {
                flows.entry(flow).or_insert_with(|| every_flow.clone()).add(line);
            }
        }
        Self { flows, every_flow, stalled: None }
    }

    /// What becomes of a frame that is sent by `end`.
    pub(super) fn judge<P>(&mut self, packet: &Packet<P>, end: Instant) -> Fate {
        let act = self.act(packet);
        // As long as it takes: frames that leave just then wait as well, so that none overtakes.
        let wait = self.stalled.filter(|until| end <= *until).map(|until| until.since(end));
        match act {
            Some(Act::Lose) => Fate::Lost,
            Some(Act::Late { by, behind }) => {
                let by = by.max(wait.unwrap_or_default());
                if behind == Behind::Wait {
                    self.stalled = Some(end + by);
                }
                Fate::Late(by)
            }
            Some(Act::Mark) if wait.is_none() => Fate::Marked,
            Some(Act::Mark) | None => wait.map_or(Fate::Delivered, Fate::Late),
        }
    }

    fn act<P>(&mut self, packet: &Packet<P>) -> Option<Act> {
        let Body::Tcp(segment) = &packet.body else { return None };
        let flow = match self.flows.entry(packet.flow) {
            Entry::Occupied(flow) => flow.into_mut(),
            Entry::Vacant(_) if self.every_flow.is_done() => return None,
            Entry::Vacant(flow) => flow.insert(self.every_flow.clone()),
        };
        let syn = segment.flags.has(Flags::SYN);
        let first = segment.seq + u32::from(syn);
        if syn {
            flow.begin(first);
        }
        if packet.len > 0 {
            return flow.data(first, packet.len);
        }
        let closes = segment.flags.meets(Flags::FIN.with(Flags::RST));
        if syn {
            flow.syns.next()
        } else if segment.flags.has(Flags::ACK) && !closes {
            flow.acks.next()
        } else {
            None
        }
    }
}

/// Frames of one kind, told by their number.
#[derive(Clone, Default, Debug)]
struct Counted {
    acts: BTreeMap<u32, Act>,
    /// How many have passed; no longer kept once no more acts come.
    passed: u32,
}

impl Counted {
    fn add(&mut self, number: u32, act: Act) {
        // Counts start at 1: a 0th never comes, and would keep the flow watched for ever.
        if number > 0 {
            let held = self.acts.entry(number).or_insert(act);
            *held = act.max(*held);
        }
    }

    fn next(&mut self) -> Option<Act> {
        if self.acts.is_empty() {
            return None;
        }
        self.passed += 1;
        self.acts.remove(&self.passed)
    }
}

/// What is to come in one flow.
#[derive(Clone, Default, Debug)]
struct FlowScript {
    /// By byte.
    bytes: BTreeMap<u64, Counted>,
    acks: Counted,
    syns: Counted,
    positions: Positions,
    /// Position of the stream's first byte, once it is known.
    start: Option<i64>,
}

impl FlowScript {
    fn add(&mut self, line: &ScriptLine) {
        match line.frame {
            ScriptFrame::Byte { transmission: 0, .. } => {}
            ScriptFrame::Byte { byte, transmission } => {
                self.bytes.entry(byte).or_default().add(transmission, line.act);
            }
            ScriptFrame::Ack(number) => self.acks.add(number, line.act),
            ScriptFrame::Syn(number) => self.syns.add(number, line.act),
        }
    }

    fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.acks.acts.is_empty() && self.syns.acts.is_empty()
    }

    /// A SYN passes: the stream's first byte is `first`.
    fn begin(&mut self, first: Seq) {
        if !self.bytes.is_empty() {
            self.start = Some(self.positions.of(first));
        }
    }

    /// A segment passes; counts it for each byte in it that the script knows.
    fn data(&mut self, first: Seq, len: u32) -> Option<Act> {
        if self.bytes.is_empty() {
            return None;
        }
        let position = self.positions.of(first);
        let offset = position - *self.start.get_or_insert(position);
        // Nothing of what lies before the stream's first byte is known.
        let end = u64::try_from(offset + i64::from(len)).ok()?;
        let from = u64::try_from(offset).unwrap_or(0);
        let mut strongest = None;
        let mut done = Vec::new();
        for (byte, counted) in self.bytes.range_mut(from..end) {
            strongest = counted.next().max(strongest);
            if counted.acts.is_empty() {
                done.push(*byte);
            }
        }
        for byte in done {
            self.bytes.remove(&byte);
        }
        strongest
    }
}
