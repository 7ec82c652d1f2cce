//! Frames that pass a router without an event of their own.
//!
//! A frame that leaves a router of two links over one of them arrived over the other, in order. If a frame is sent into
//! a free link, its arrival at the router and the state of the next queue at that time are known: only frames sent
//! before it can be there. So the frame is queued on the next link at once, as of its arrival time, and has one event,
//! its arrival at the end of that link.
//!
//! The early queueing must not be observable. It is disabled if packets are recorded, and if there are elements or a
//! moving host. Frames still on their way to the router at the end of the run are subtracted from the counts.

use lasthop_proto::time::{Duration, Instant};

use super::{Carrier, Fabric, Far};
use crate::leg::LegId;
use crate::link::{Accepted, Frame, Ring};
use crate::network::{Network, NodeId};

/// Next leg of the frames of a leg.
pub(super) struct Onward {
    to: LegId,
    /// Frames handed on, with their arrival times at the router; without those that had arrived when the last one was
    /// sent.
    handed_on: Ring<(Instant, Frame)>,
}

impl Onward {
    /// Records at `now` that a frame was handed on that arrives at the router at `arrival`.
    fn note(&mut self, now: Instant, arrival: Instant, frame: Frame) {
        while self.handed_on.front().is_some_and(|(arrived, _)| arrived <= now) {
            self.handed_on.pop_front();
        }
        self.handed_on.push_back((arrival, frame));
    }
}

impl Fabric {
    /// Finds the legs whose frames can be handed on.
    pub(super) fn look_onward(&mut self, network: &Network) {
        if self.tap.records() || !network.elements.is_empty() || network.mobility.is_some() {
            return;
        }
        let mut away = vec![Vec::new(); network.nodes.len()];
        for id in 0..self.legs.len() {
            away[near_end(network, id).0].push(id);
        }
        // Packets of a flow that starts at a router arrive over no link.
        for flow in &network.flows {
            away[flow.from.0].clear();
            away[flow.to.0].clear();
        }
        for id in 0..self.legs.len() {
            if let Far::Forwarded(to) = self.legs[id].far
                && away[near_end(network, id ^ 1).0].len() == 2
                && self.is_foreseen(network, id)
                && self.takes_ahead(network, to.0 as usize)
            {
                self.legs[id].onward = Some(Onward { to, handed_on: Ring::default() });
            }
        }
    }

    /// Disables handing on: from now on each frame has an event at each router, and queues contain only frames that
    /// have arrived.
    pub fn look_at_each_link(&mut self) {
        self.legs.iter_mut().for_each(|leg| leg.onward = None);
    }

    /// Returns whether the arrival of a leg's frames at its end is known when they are sent.
    fn is_foreseen(&self, network: &Network, id: usize) -> bool {
        !self.legs[id].errors.strike() && self.takes_ahead(network, id)
    }

    /// Returns whether frames can be queued on a leg before they reach it. Excludes links without delay: a frame on
    /// them could reach the end at the same time as another that comes first.
    fn takes_ahead(&self, network: &Network, id: usize) -> bool {
        matches!(self.legs[id].carrier, Carrier::Own(_)) && network.links[id / 2].delay > Duration::ZERO
    }

    /// Sends a frame into a free leg, and on into the next one.
    #[inline(never)]
    pub(super) fn send_through(&mut self, now: Instant, id: LegId, frame: Frame) {
        let Some(Onward { to, .. }) = self.legs[id.0 as usize].onward else { return };
        let Ok([first, second]) = self.legs.get_disjoint_mut([id.0 as usize, to.0 as usize]) else { return };
        let (Carrier::Own(wire), Some(onward)) = (&mut first.carrier, &mut first.onward) else { return };
        first.report.carry(frame);
        let (sent, arrival) = wire.send(now, frame);
        let accepted = match &mut second.carrier {
            Carrier::Own(next) => next.enqueue(arrival, frame),
            _ => Accepted::Dropped,
        };
        if accepted == Accepted::Dropped {
            // The drop is to occur when the frame arrives there.
            wire.arrives_later(sent);
            return self.agenda.set(id.0, arrival);
        }
        onward.note(now, arrival, frame);
        second.report.carry(frame);
        if let Some(meter) = &mut self.tap.meter {
            meter.pass(id, frame.handle(), arrival);
        }
        self.frames += 1;
        if let Accepted::Next(at) = accepted {
            self.agenda.set(to.0, at);
        }
    }

    /// Subtracts the counts of frames that had not reached the router when the run ended at `end`, after the event of
    /// the leg `last`.
    pub(super) fn take_back(&mut self, end: Instant, last: LegId) {
        for id in (0..self.legs.len() as u32).map(LegId) {
            let Some(Onward { to, handed_on }) = self.legs[id.0 as usize].onward.take() else { continue };
            for (_, frame) in handed_on.iter().filter(|(arrival, _)| (*arrival, id.0) > (end, last.0)) {
                self.legs[to.0 as usize].report.forget(frame);
                self.frames -= 1;
            }
        }
    }
}

/// Returns the near end of a leg.
fn near_end(network: &Network, id: usize) -> NodeId {
    network.links[id / 2].ends[id % 2]
}
