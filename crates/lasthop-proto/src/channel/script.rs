//! Script: fates of single frames, identified by the bytes that they carry, so that senders which segment the stream
//! differently can be replayed the same events.

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
    /// Flow; `None` means every flow.
    pub flow: Option<FlowId>,
    /// Frame of the flow.
    pub frame: ScriptFrame,
    /// Fate of the frame.
    pub act: Act,
}

/// One frame of a flow, as seen by this direction of this link. All but bytes count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptFrame {
    /// The `transmission`th segment that passes with that byte in it, however the stream is segmented.
    Byte {
        /// Offset in the stream, from 0 at the first byte after the SYN; if no SYN passes, from the first byte of the
        /// first segment that does.
        byte: u64,
        /// Number of the transmission.
        transmission: u32,
    },
    /// The nth pure acknowledgment (no payload, no SYN, FIN or RST).
    Ack(u32),
    /// The nth SYN, its answer included (no payload).
    Syn(u32),
}

/// Fate of a frame. If several lines concern one frame, the strongest applies: the greatest of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Act {
    /// Marked "congestion experienced", if it is ECN-capable (RFC 3168 §5).
    Mark,
    /// Delayed.
    Late {
        /// Additional delay.
        by: Duration,
        /// Effect on later frames.
        behind: Behind,
    },
    /// Lost.
    Lose,
}

/// Behaviour of frames after a late one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Behind {
    /// Later frames overtake it: reordering.
    Overtake,
    /// Later frames wait for it: a stall of this direction, for all flows.
    Wait,
}

/// Script of one direction of a link. The state of a flow is bounded by the lines.
#[derive(Clone, Debug)]
pub(super) struct Script {
    flows: BTreeMap<FlowId, FlowScript>,
    /// Initial state of each flow that no line names.
    every_flow: FlowScript,
    /// End of a stall, while frames wait behind a late one: they arrive as if sent then.
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

    /// Returns the fate of a frame whose transmission ends at `end`.
    pub(super) fn judge<P>(&mut self, packet: &Packet<P>, end: Instant) -> Fate {
        let act = self.act(packet);
        // Frames that leave at exactly the end wait as well, so that none overtakes.
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

/// Frames of one kind, identified by their number.
#[derive(Clone, Default, Debug)]
struct Counted {
    acts: BTreeMap<u32, Act>,
    /// Number of frames that have passed; not maintained once no acts are pending.
    passed: u32,
}

impl Counted {
    fn add(&mut self, number: u32, act: Act) {
        // Counts start at 1: a 0th frame never occurs, and would keep the flow watched forever.
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

/// Pending acts of one flow.
#[derive(Clone, Default, Debug)]
struct FlowScript {
    /// Acts by byte.
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

    /// Records a SYN: the stream's first byte is `first`.
    fn begin(&mut self, first: Seq) {
        if !self.bytes.is_empty() {
            self.start = Some(self.positions.of(first));
        }
    }

    /// Counts a segment for each of its bytes in the script.
    fn data(&mut self, first: Seq, len: u32) -> Option<Act> {
        if self.bytes.is_empty() {
            return None;
        }
        let position = self.positions.of(first);
        let offset = position - *self.start.get_or_insert(position);
        // Data before the stream's first byte is not in the script.
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
