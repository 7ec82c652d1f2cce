//! Counters and records of the fabric, and the places that they refer to.

use lasthop_proto::event::{Event, LossCause};
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::Instant;

use super::{Carrier, Fabric, Leg};
use crate::datagrams::Arrived;
use crate::endpoint::index as endpoint;
use crate::leg::LegId;
use crate::link::Frame;
use crate::measure::{Drops, FlowReport, PathReport, SenderReport};
use crate::network::{Network, NodeId};
use crate::pool::Handle;
use crate::routes::{Hop, Routes};
use crate::trace::{CapturePoint, DropReason, What};

impl Fabric {
    #[inline(never)]
    pub(super) fn drop(&mut self, now: Instant, leg: LegId, handle: Handle, reason: DropReason) {
        let packet = self.pool.take(handle);
        self.letters.lose(&packet);
        self.legs[leg.0 as usize].report.lose(reason);
        if let Some(drops) = self.flows.get_mut(packet.flow.0 as usize).and_then(|flow| flow.drops.as_mut()) {
            drops.count(reason);
        }
        self.tap.record(now, leg.near(), packet.flow, What::Dropped(packet, reason));
        self.losses.lose(leg, &packet, reason);
    }

    /// Counts an endpoint's timeout as spurious if none of the data that it retransmits was lost.
    pub fn judge_timeout(&mut self, flow: FlowId, side: Side, event: &Event) {
        if let Event::Timeout { seq } = event
            && self.losses.is_spurious(flow, side, *seq)
        {
            *self.flows[flow.0 as usize].sender.spurious_timeouts.get_or_insert(0) += 1;
        }
    }

    /// Counts the cause that an element reports for the loss of a segment on its link, and whether the cause is
    /// correct.
    pub fn judged(&mut self, element: usize, flow: FlowId, lost: (Side, Seq), cause: LossCause) {
        let came_over = self.elements[element].leg.opposite();
        let right = self.losses.is_right(came_over, flow, lost, cause);
        if let Some(report) = self.flows.get_mut(flow.0 as usize) {
            report.losses_judged += 1;
            report.judged_right += u64::from(right);
        }
    }

    /// Ends the run at `end`, after the event of the leg `last`. Returns the datagrams that had arrived from sources
    /// that the fabric operates.
    pub fn settle(&mut self, end: Instant, last: LegId) -> Vec<Arrived> {
        self.take_back(end, last);
        self.losses.settle(&mut self.flows);
        let mut all = Vec::new();
        for (id, leg) in (0..).map(LegId).zip(&mut self.legs) {
            if let Carrier::Crossed(wire) = &mut leg.carrier {
                let (arrived, report) = wire.settle(end);
                leg.report.add(&report);
                if let (Some(meter), Some(took)) = (&mut self.tap.meter, wire.took()) {
                    meter.add(arrived.flow.0 as usize, id, took, report.payload);
                }
                self.frames += arrived.datagrams;
                if let Some(drops) = self.flows.get_mut(arrived.flow.0 as usize).and_then(|flow| flow.drops.as_mut()) {
                    drops.queue_full += arrived.dropped;
                }
                all.push(arrived);
            }
        }
        all
    }

    /// Credits `bytes` that a flow delivered to that side to every link that they crossed.
    pub fn credit(&mut self, flow: FlowId, to: Side, network: &Network, bytes: u64) {
        let (mut at, to) = (self.host(flow, to.peer()), self.host(flow, to));
        while let Some(leg) = self.leg_of_hop(self.settled().first(at, to)) {
            self.legs[leg.0 as usize].report.useful += bytes;
            at = network.links[leg.0 as usize / 2].ends[1 - leg.0 as usize % 2];
        }
    }

    /// Returns the traffic of each link until `now`: down, up.
    pub fn paths(&self, now: Instant) -> Vec<[PathReport; 2]> {
        let path = |(at, leg): (usize, &Leg)| PathReport {
            busy: Some(self.busy(now, LegId(at as u32))),
            queueing: self.tap.meter.as_ref().and_then(|meter| meter.of_leg(at)),
            ..leg.report
        };
        let paths: Vec<PathReport> = self.legs.iter().enumerate().map(path).collect();
        paths.chunks_exact(2).map(|paths| [paths[0], paths[1]]).collect()
    }

    /// Records that an endpoint sends a frame, and that it is handed to its first link.
    #[inline(never)]
    pub(super) fn watch_origin(&mut self, now: Instant, endpoint: usize, hop: Hop, frame: Frame) {
        if let Some(meter) = &mut self.tap.meter {
            meter.originate(now, endpoint, frame);
        }
        if let Hop::Leg(leg) = hop
            && self.tap.records()
        {
            self.record_packet(now, leg.near(), frame.handle(), What::Sent);
        }
    }

    /// Records that a frame is handed to a link, and when.
    #[inline(never)]
    pub(super) fn watch_sent(&mut self, now: Instant, id: LegId, frame: Frame) {
        if let Some(meter) = &mut self.tap.meter {
            meter.queue(now, frame.handle());
        }
        if self.tap.records() {
            self.record_packet(now, id.near(), frame.handle(), What::Sent);
        }
    }

    #[cold]
    pub(super) fn record_packet(&mut self, time: Instant, point: u16, handle: Handle, what: fn(Packet) -> What) {
        let packet = *self.pool.get(handle);
        self.tap.record(time, point, packet.flow, what(packet));
    }

    /// Returns the capture point of an endpoint: its host's first link.
    pub fn endpoint_point(&self, flow: FlowId, side: Side) -> u16 {
        self.leg_of_hop(self.settled().first(self.host(flow, side), self.host(flow, side.peer())))
            .map_or(0, LegId::near)
    }

    /// Returns the capture point of an element: its router's end of the link.
    pub fn element_point(&self, element: usize) -> u16 {
        self.elements[element].leg.near()
    }

    pub(super) fn host(&self, flow: FlowId, side: Side) -> NodeId {
        self.hosts[endpoint(flow, side)]
    }

    /// Returns the leg of a hop.
    pub(super) fn leg_of_hop(&self, hop: Hop) -> Option<LegId> {
        match hop {
            Hop::Leg(leg) => Some(leg),
            Hop::Element(element) => Some(self.elements[element as usize].leg),
            Hop::Here | Hop::Nowhere | Hop::Roaming(_) => None,
        }
    }

    /// Returns the final routes: with a moving host, those to its last station.
    pub(super) fn settled(&self) -> &Routes {
        self.roaming.as_ref().map_or(&self.routes, |roaming| roaming.settled())
    }
}

/// Returns the initial report of a flow.
pub(super) fn unjudged(network: &Network) -> FlowReport {
    let sender = SenderReport { spurious_timeouts: network.varies().then_some(0), ..SenderReport::default() };
    FlowReport { sender, drops: Some(Drops::default()), ..FlowReport::default() }
}

/// Returns the capture points of a network, in the order of [`LegId`].
pub fn capture_points(network: &Network) -> Vec<CapturePoint> {
    let degree = |node: NodeId| network.links.iter().flat_map(|link| link.ends).filter(|&end| end == node).count();
    let name = |node: NodeId, link: &str| {
        let host = &network.nodes[node.0].name;
        let name = if degree(node) == 1 { host.clone() } else { format!("{host}:{link}") };
        CapturePoint { name }
    };
    network.links.iter().flat_map(|link| link.ends.map(|node| name(node, &link.name))).collect()
}
