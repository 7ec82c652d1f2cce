//! Drops of listed frames: for tests, for teaching, and to compare schemes under the same losses.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::position::Positions;
use super::{Drop, DropFrame, Fate};
use crate::packet::{Body, Flags, FlowId, Packet};
use crate::seq::Seq;

/// Pending drops. The state of a flow is bounded by the list: sequence numbers up to the last listed segment, and
/// nothing for flows that the list does not concern.
#[derive(Clone, Debug)]
pub(super) struct List {
    flows: BTreeMap<FlowId, FlowDrops>,
    /// Initial state of each flow that the list does not name.
    every_flow: FlowDrops,
}

impl List {
    pub(super) fn new(drops: &[Drop]) -> Self {
        let mut every_flow = FlowDrops::default();
        for drop in drops.iter().filter(|drop| drop.flow.is_none()) {
            every_flow.want(drop.frame);
        }
        let mut flows = BTreeMap::new();
        for drop in drops {
            if let Some(flow) = drop.flow {
                flows.entry(flow).or_insert_with(|| every_flow.clone()).want(drop.frame);
            }
        }
        Self { flows, every_flow }
    }

    pub(super) fn judge<P>(&mut self, packet: &Packet<P>) -> Fate {
        let Some(kind) = Kind::of(packet) else { return Fate::Delivered };
        let flow = match self.flows.entry(packet.flow) {
            Entry::Occupied(flow) => flow.into_mut(),
            Entry::Vacant(_) if self.every_flow.is_done() => return Fate::Delivered,
            Entry::Vacant(flow) => flow.insert(self.every_flow.clone()),
        };
        Fate::lost_if(match kind {
            Kind::Data(first) => flow.drops_data(first),
            Kind::Ack => flow.acks.drops_next(),
            Kind::Syn => flow.syns.drops_next(),
        })
    }
}

/// Kind of a frame for counting.
enum Kind {
    /// Data, identified by the number of its first payload byte; a datagram by its number in the flow, or among its
    /// sender's.
    Data(Seq),
    /// A pure acknowledgment.
    Ack,
    /// A SYN without payload.
    Syn,
}

impl Kind {
    fn of<P>(packet: &Packet<P>) -> Option<Self> {
        match &packet.body {
            Body::Datagram { number } | Body::Media { number } => (packet.len > 0).then_some(Self::Data(Seq(*number))),
            // Every datagram has its own number: retransmitted data is in another one.
            Body::Quic { number, .. } => Some(if packet.has_data() { Self::Data(Seq(*number)) } else { Self::Ack }),
            Body::Control | Body::Coded(_) | Body::Report(_) => None,
            Body::Tcp(segment) if packet.len > 0 => {
                Some(Self::Data(segment.seq + u32::from(segment.flags.has(Flags::SYN))))
            }
            Body::Tcp(segment) if segment.flags.has(Flags::SYN) => Some(Self::Syn),
            Body::Tcp(segment) => {
                let closes = segment.flags.meets(Flags::FIN.with(Flags::RST));
                (segment.flags.has(Flags::ACK) && !closes).then_some(Self::Ack)
            }
        }
    }
}

/// Frames of one kind, dropped by their number.
#[derive(Clone, Default, Debug)]
struct Counted {
    wanted: BTreeSet<u32>,
    /// Number of frames that have passed; not maintained once no more are listed.
    passed: u32,
}

impl Counted {
    fn drops_next(&mut self) -> bool {
        if self.wanted.is_empty() {
            return false;
        }
        self.passed += 1;
        self.wanted.remove(&self.passed)
    }
}

/// Drops of one flow, and the counts that they require.
#[derive(Clone, Default, Debug)]
struct FlowDrops {
    /// Segment and transmission of each pending drop.
    data: BTreeSet<(u32, u32)>,
    acks: Counted,
    syns: Counted,
    /// Number of segments numbered so far.
    numbered: u32,
    /// Positions of the numbered segments, ascending; empty once no more numbers are required.
    known: Vec<i64>,
    /// Number and transmissions so far of the segments with pending drops, by position.
    watched: BTreeMap<i64, (u32, u32)>,
    positions: Positions,
}

impl FlowDrops {
    fn want(&mut self, frame: DropFrame) {
        // Counts start at 1: a 0th frame never occurs, and would keep the flow watched forever.
        match frame {
            DropFrame::Data { segment: 0, .. }
            | DropFrame::Data { transmission: 0, .. }
            | DropFrame::Ack(0)
            | DropFrame::Syn(0) => {}
            DropFrame::Data { segment, transmission } => {
                self.data.insert((segment, transmission));
            }
            DropFrame::Ack(number) => {
                self.acks.wanted.insert(number);
            }
            DropFrame::Syn(number) => {
                self.syns.wanted.insert(number);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.data.is_empty() && self.acks.wanted.is_empty() && self.syns.wanted.is_empty()
    }

    fn drops_data(&mut self, first: Seq) -> bool {
        if self.data.is_empty() {
            return false;
        }
        let position = self.positions.of(first);
        let (number, transmission) = match self.watched.get(&position) {
            Some(&(number, transmissions)) => (number, transmissions + 1),
            None => match self.number(position) {
                Some(number) => (number, 1),
                None => return false,
            },
        };
        let dropped = self.data.remove(&(number, transmission));
        if self.data.range((number, transmission)..=(number, u32::MAX)).next().is_some() {
            self.watched.insert(position, (number, transmission));
        } else {
            self.watched.remove(&position);
        }
        if self.data.last().is_none_or(|&(last, _)| last <= self.numbered) {
            self.known = Vec::new();
        }
        dropped
    }

    /// Assigns the next number to the segment at `position`, unless it has one or no further number is required.
    fn number(&mut self, position: i64) -> Option<u32> {
        if self.data.last().is_none_or(|&(last, _)| last <= self.numbered) {
            return None;
        }
        // Nearly always the end.
        let place = self.known.binary_search(&position).err()?;
        self.known.insert(place, position);
        self.numbered += 1;
        Some(self.numbered)
    }
}
