//! Legs other than those with a drop-tail queue of their own. Separate, so that the code path of those, which carry
//! most frames, stays short.

use lasthop_proto::packet::headers::LinkProtocol;
use lasthop_proto::packet::{Ecn, FlowId, Packet};
use lasthop_proto::queue::View;
use lasthop_proto::time::{Duration, Instant};

use super::{Carrier, Fabric, Receiver, endpoint};
use crate::leg::LegId;
use crate::link::{Accepted, Advanced, Frame, InFlight};
use crate::network::NodeId;
use crate::pool::Handle;
use crate::scheduler::NEVER;
use crate::trace::DropReason;

/// Returns the properties of a packet that queues evaluate, with the host of each endpoint and the DSCP of each flow.
/// The datagrams of a two-ended link hide both.
fn view(packet: &Packet, hosts: &[NodeId], services: &[u8]) -> View {
    if packet.flow == FlowId::NONE || packet.link.read(LinkProtocol::TWO_ENDED).is_some() {
        return View { ecn: packet.ecn, ..View::default() };
    }
    let host = |side| hosts[endpoint(packet.flow, side)].0 as u32;
    View::of(packet, services[packet.flow.0 as usize], [host(packet.from), host(packet.from.peer())])
}

impl Fabric {
    /// Implements [`Self::transmit`] for legs other than those with a drop-tail queue of their own.
    #[inline(never)]
    pub(super) fn transmit_managed(&mut self, now: Instant, id: LegId, frame: Frame) {
        self.catch_up_on(now, id);
        let leg = &mut self.legs[id.0 as usize];
        if let Carrier::Cut(_) = leg.carrier {
            return self.miss(now, id, frame);
        }
        if leg.keeps.own_begun && frame.payload() > 0 {
            self.departing += 1;
        }
        let look = || view(self.pool.get(frame.handle()), &self.hosts, &self.services);
        let (accepted, source) = leg.carrier.enqueue(&mut self.media, now, id, frame, look);
        match accepted {
            Accepted::Queued => leg.report.carry(frame),
            Accepted::Next(at) => {
                leg.report.carry(frame);
                self.agenda.set(source.0, at);
            }
            Accepted::Dropped => {
                self.report_departure(id, frame);
                self.drop(now, id, frame.handle(), DropReason::Queue);
            }
        }
        self.drop_managed(now, id);
        self.report_begun(id);
    }

    /// Counts the frames that the carrier of a leg dropped after they were queued.
    #[inline]
    pub(super) fn drop_managed(&mut self, now: Instant, id: LegId) {
        if self.legs[id.0 as usize].keeps.dropped {
            self.take_dropped(now, id);
        }
    }

    /// Implements [`Self::drop_managed`] for carriers that may drop such frames.
    #[inline(never)]
    fn take_dropped(&mut self, now: Instant, id: LegId) {
        while let Some((id, frame, why)) = self.legs[id.0 as usize].carrier.take_dropped(&mut self.media, id) {
            // Frames that the link gave up on have used it and have left the queue.
            if why != DropReason::Channel {
                self.legs[id.0 as usize].report.withdraw(frame);
                self.report_departure(id, frame);
            }
            self.drop(now, id, frame.handle(), why);
        }
    }

    /// Implements [`Self::advance`] for legs other than those with a drop-tail queue of their own.
    #[inline(never)]
    pub(super) fn advance_managed(&mut self, now: Instant, id: LegId) -> Option<(Receiver, Handle)> {
        self.catch_up_on(now, id);
        let Advanced { arrival, next } = self.legs[id.0 as usize].carrier.advance(&mut self.media, now, id);
        self.agenda.set(id.0, next.unwrap_or(NEVER));
        self.drop_managed(now, id);
        let arrival = arrival.map(|(id, sent)| (id, self.mark(id, sent)));
        self.report_begun(id);
        let (id, sent) = arrival?;
        if let Some(meter) = &mut self.tap.meter {
            meter.cross(id, sent.frame.handle(), sent.start());
        }
        let leg = &mut self.legs[id.0 as usize];
        let (crossing, far) = (leg.cross(&sent, &mut self.pool), leg.far);
        self.get_across(now, id, sent.frame, crossing, far)
    }

    /// Writes a queue's mark into the packet. Returns `sent`.
    fn mark(&mut self, id: LegId, sent: InFlight) -> InFlight {
        if sent.frame.is_marked() {
            self.legs[id.0 as usize].report.marks += 1;
            self.pool.get_mut(sent.frame.handle()).ecn = Ecn::Ce;
        }
        sent
    }

    /// Returns the number of frames queued in front of an element's link.
    pub fn waiting(&mut self, now: Instant, element: usize) -> usize {
        self.waiting_on(now, self.elements[element].leg)
    }

    /// Returns the number of frames queued on a leg.
    pub fn waiting_on(&mut self, now: Instant, leg: LegId) -> usize {
        self.catch_up_on(now, leg);
        self.legs[leg.0 as usize].carrier.waiting(&self.media, now)
    }

    /// Returns the time for which a leg has transmitted until `now`.
    pub fn busy(&self, now: Instant, leg: LegId) -> Duration {
        self.legs[leg.0 as usize].carrier.busy(&self.media, now)
    }
}
