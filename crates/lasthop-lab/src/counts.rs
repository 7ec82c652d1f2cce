//! Who resent what, told from the packets at the links' ends.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_proto::packet::{Cause, Flags, FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_sim::measure::{FlowReport, LossLedger};
use lasthop_sim::network::{NodeId, NodeKind};

use super::plan::{Plan, Point};

/// Most segments of one stream that are told apart at one node: beyond any window of the lab. The oldest go first. They
/// cannot go when they are acknowledged: an acknowledgment may pass a copy that is inside the node.
const MOST_COPIES: usize = 8192;

/// Watches all points and counts.
pub struct Counts {
    /// The node of each point, and whether it is a router.
    nodes: Vec<(NodeId, NodeKind)>,
    /// Nodes at which relays end connections, which they continue with sequence numbers of their own.
    relays: Vec<NodeId>,
    streams: BTreeMap<(NodeId, FlowId, Side), Stream>,
    ledger: LossLedger,
    flows: Vec<FlowReport>,
    /// Of each flow, where its ends are.
    flows_from: Vec<[NodeId; 2]>,
}

/// One direction of a flow, as it passes a node.
#[derive(Default)]
struct Stream {
    /// Behind the last byte that left the node; counts on where sequence numbers wrap.
    high: u64,
    /// For each of the last segments: how often it came to the node, and how often it went on.
    copies: BTreeMap<u64, Copies>,
    /// Those that a host sent again, by where they begin.
    again: BTreeSet<u64>,
}

#[derive(Clone, Copy, Default)]
struct Copies {
    came: u32,
    forwarded: u32,
}

impl Stream {
    /// `seq` on the count that goes on.
    fn place(&mut self, Seq(seq): Seq) -> u64 {
        if self.high == 0 {
            // One lap ahead, so that a number before the first has a place too.
            self.high = 1 << 32 | u64::from(seq);
        }
        self.high.wrapping_add_signed(i64::from(seq.wrapping_sub(self.high as u32) as i32))
    }

    fn copies(&mut self, place: u64) -> &mut Copies {
        if self.copies.len() >= MOST_COPIES {
            self.copies.pop_first();
        }
        self.copies.entry(place).or_default()
    }
}

impl Counts {
    /// Nothing counted yet.
    pub fn new(plan: &Plan<'_>) -> Self {
        let node = |point| (plan.node(point), plan.network.nodes[plan.node(point).0].kind);
        Self {
            nodes: (0..plan.points()).map(node).collect(),
            relays: plan.relays(),
            streams: BTreeMap::new(),
            ledger: LossLedger::default(),
            flows: vec![FlowReport::default(); plan.network.flows.len()],
            flows_from: plan.network.flows.iter().map(|flow| [flow.from, flow.to]).collect(),
        }
    }

    /// The node at `point` sent `packet` onto the link there. Notes in the packet why, as far as that shows.
    pub fn sent(&mut self, point: Point, packet: &mut Packet) {
        let Some(segment) = packet.tcp().copied() else { return };
        if packet.len == 0 {
            let handshake = segment.flags.meets(Flags::SYN.with(Flags::FIN));
            packet.cause = if handshake { Cause::Handshake } else { Cause::Ack };
            return;
        }
        let (node, kind) = self.nodes[point];
        let stream = self.streams.entry((node, packet.flow, packet.from)).or_default();
        let place = stream.place(segment.seq);
        let again = place < stream.high;
        stream.high = stream.high.max(place + u64::from(packet.len));
        match kind {
            // Which of its reasons the kernel had is not to be seen.
            NodeKind::Host if again => {
                stream.again.insert(place);
                packet.cause = Cause::FastRetransmit;
            }
            NodeKind::Host => {}
            NodeKind::Router => {
                let copies = stream.copies(place);
                // Of what leaves a relay's node nothing came; what leaves twice the relay resent.
                if again && copies.forwarded >= copies.came {
                    packet.cause = Cause::LocalHole;
                } else {
                    copies.forwarded += 1;
                }
            }
        }
        if let Some(flow) = self.flows.get_mut(packet.flow.0 as usize) {
            flow.sender.source_retransmissions += u64::from(packet.cause.is_source_retransmission());
            flow.sender.local_retransmissions += u64::from(packet.cause.is_local_retransmission());
        }
        self.ledger.resend(packet);
    }

    /// The node at `point` sent `packet`, and it did not go onto the link in the end: it may go another way.
    pub fn withdrawn(&mut self, point: Point, packet: &Packet) {
        let (node, _) = self.nodes[point];
        if let Some(segment) = packet.tcp().filter(|_| packet.len > 0)
            && let Some(stream) = self.streams.get_mut(&(node, packet.flow, packet.from))
        {
            let place = stream.place(segment.seq);
            let copies = stream.copies(place);
            copies.forwarded = copies.forwarded.saturating_sub(1);
        }
    }

    /// Whether the host where the data of `packet` come from has sent them more than once.
    pub fn was_repeated(&mut self, packet: &Packet) -> bool {
        let Some(segment) = packet.tcp() else { return false };
        let Some(source) = self.flows_from.get(packet.flow.0 as usize).map(|ends| ends[packet.from.index()]) else {
            return false;
        };
        let stream = self.streams.get_mut(&(source, packet.flow, packet.from));
        stream.is_some_and(|stream| {
            let place = stream.place(segment.seq);
            stream.again.contains(&place)
        })
    }

    /// A link protocol sends `packet` again.
    pub fn repeated(&mut self, packet: &Packet) {
        if packet.len > 0
            && let Some(flow) = self.flows.get_mut(packet.flow.0 as usize)
        {
            flow.sender.local_retransmissions += 1;
            self.ledger.resend(packet);
        }
    }

    /// The node at `point` got `packet` from the link there.
    pub fn received(&mut self, point: Point, packet: &Packet) {
        let Some(segment) = packet.tcp() else { return };
        let (node, kind) = self.nodes[point];
        if kind == NodeKind::Host || self.relays.contains(&node) {
            return;
        }
        if packet.len > 0 {
            let stream = self.streams.entry((node, packet.flow, packet.from)).or_default();
            let place = stream.place(segment.seq);
            stream.copies(place).came += 1;
        }
    }

    /// The channel destroyed `packet`.
    pub fn lost(&mut self, packet: &Packet) {
        self.ledger.lose(packet);
    }

    /// What the flows' reports have of it: retransmissions and losses.
    pub fn settle(mut self) -> Vec<FlowReport> {
        self.ledger.settle(&mut self.flows);
        self.flows
    }
}
