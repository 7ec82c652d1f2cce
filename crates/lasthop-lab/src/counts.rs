//! Attribution of retransmissions, inferred from the packets at the links' ends.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_proto::packet::{Cause, Flags, FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_sim::measure::{FlowReport, LossLedger};
use lasthop_sim::network::{NodeId, NodeKind};

use super::plan::{Plan, Point};

/// Maximum number of segments tracked per stream and node. It exceeds every window of the lab. The oldest are removed
/// first. They cannot be removed when they are acknowledged: an acknowledgment may pass a copy inside the node.
const MOST_COPIES: usize = 8192;

/// Counters over all points.
pub struct Counts {
    /// Node of each point, and its kind.
    nodes: Vec<(NodeId, NodeKind)>,
    /// Nodes where relays terminate connections and continue them with their own sequence numbers.
    relays: Vec<NodeId>,
    streams: BTreeMap<(NodeId, FlowId, Side), Stream>,
    ledger: LossLedger,
    flows: Vec<FlowReport>,
    /// Nodes of the two ends of each flow.
    flows_from: Vec<[NodeId; 2]>,
}

/// One direction of a flow, as it passes a node.
#[derive(Default)]
struct Stream {
    /// End of the highest byte that left the node; does not wrap.
    high: u64,
    /// Number of arrivals and departures of each of the last segments.
    copies: BTreeMap<u64, Copies>,
    /// Starts of the segments that a host retransmitted.
    again: BTreeSet<u64>,
}

#[derive(Clone, Copy, Default)]
struct Copies {
    came: u32,
    forwarded: u32,
}

impl Stream {
    /// Returns the position of a sequence number in the count that does not wrap.
    fn place(&mut self, Seq(seq): Seq) -> u64 {
        if self.high == 0 {
            // One wrap ahead, so that numbers before the first have a position too.
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
    /// Creates counters at zero.
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

    /// Records that the node at `point` sent `packet` into its link. Sets the packet's cause, if it can be inferred.
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
            // The kernel's reason for the retransmission is not visible.
            NodeKind::Host if again => {
                stream.again.insert(place);
                packet.cause = Cause::FastRetransmit;
            }
            NodeKind::Host => {}
            NodeKind::Router => {
                let copies = stream.copies(place);
                // Segments from a relay have no arrivals at this node. A second departure is a retransmission of the
                // relay.
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

    /// Records that `packet`, which the node at `point` sent, did not enter the link after all; it may take another
    /// path.
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

    /// Returns whether the source of the data of `packet` has sent it more than once.
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

    /// Records that a link protocol retransmits `packet`.
    pub fn repeated(&mut self, packet: &Packet) {
        if packet.len > 0
            && let Some(flow) = self.flows.get_mut(packet.flow.0 as usize)
        {
            flow.sender.local_retransmissions += 1;
            self.ledger.resend(packet);
        }
    }

    /// Records that the node at `point` received `packet` from its link.
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

    /// Records that the channel destroyed `packet`.
    pub fn lost(&mut self, packet: &Packet) {
        self.ledger.lose(packet);
    }

    /// Returns the flows' reports with retransmissions and losses.
    pub fn settle(mut self) -> Vec<FlowReport> {
        self.ledger.settle(&mut self.flows);
        self.flows
    }
}
