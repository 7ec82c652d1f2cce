//! Legs other than those with a drop-tail queue of their own. Separate, so that the code path of those, which carry
//! most frames, stays short.

use lasthop_proto::packet::Ecn;
use lasthop_proto::queue::Sight;
use lasthop_proto::time::{Duration, Instant};

use super::{Carrier, ChannelLegs, Fabric, Receiver};
use crate::leg::LegId;
use crate::link::{Accepted, Frame, InFlight};
use crate::pool::Handle;
use crate::scheduler::NEVER;
use crate::trace::DropReason;

impl Fabric {
    /// Implements [`Self::transmit`] for legs other than those with a drop-tail queue of their own.
    #[inline(never)]
    pub(super) fn transmit_managed(&mut self, now: Instant, id: LegId, frame: Frame) {
        let leg = &mut self.legs[id.0 as usize];
        let look = || Sight::of(self.pool.get(frame.handle()));
        let (accepted, source) = match &mut leg.carrier {
            Carrier::Own(wire) => (wire.enqueue(now, frame), id.0),
            Carrier::Managed(wire) => (wire.enqueue(now, frame, look), id.0),
            Carrier::Crossed(wire) => {
                self.datagrams += wire.catch_up(now);
                (wire.enqueue(now, frame), id.0)
            }
            Carrier::Shared(medium, direction) => {
                (self.media[*medium].enqueue(now, *direction, frame, look), id.0 & !1)
            }
            Carrier::Cut(_) => return self.miss(now, id, frame),
            Carrier::Channel(channel, station) => {
                let ChannelLegs { channel, legs } = &mut self.channels[*channel];
                (channel.enqueue(now, *station, frame, look), legs[0].0)
            }
        };
        match accepted {
            Accepted::Queued => leg.report.carry(frame),
            Accepted::Next(at) => {
                leg.report.carry(frame);
                self.agenda.set(source, at);
            }
            Accepted::Dropped => {
                self.report_departure(id, frame);
                self.drop(now, id, frame.handle(), DropReason::Queue);
            }
        }
        self.drop_managed(now, id);
        self.report_begun(id);
    }

    /// Counts the drops of a managed queue.
    #[inline(never)]
    pub(super) fn drop_managed(&mut self, now: Instant, id: LegId) {
        loop {
            let dropped = match &mut self.legs[id.0 as usize].carrier {
                Carrier::Managed(wire) => wire.take_dropped().map(|(frame, why)| (id, frame, why)),
                Carrier::Shared(medium, _) => {
                    let dropped = self.media[*medium].take_dropped();
                    dropped.map(|(direction, frame, why)| (LegId(id.0 & !1 | direction.index() as u32), frame, why))
                }
                Carrier::Channel(channel, _) => {
                    let ChannelLegs { channel, legs } = &mut self.channels[*channel];
                    channel.take_dropped().map(|(station, frame, why)| (legs[station.0], frame, why))
                }
                Carrier::Own(_) | Carrier::Crossed(_) | Carrier::Cut(_) => None,
            };
            let Some((id, frame, why)) = dropped else { return };
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
        let arrived = self.take_arrival(now, id);
        self.report_begun(id);
        let (id, sent) = arrived?;
        if let Some(meter) = &mut self.meter {
            meter.cross(id, sent.frame.handle(), sent.start());
        }
        let leg = &mut self.legs[id.0 as usize];
        let (crossing, far) = (leg.cross(&sent, &mut self.pool), leg.far);
        self.get_across(now, id, sent.frame, crossing, far)
    }

    /// Processes the next event of a carrier. Returns the frame that arrives, and its leg.
    fn take_arrival(&mut self, now: Instant, id: LegId) -> Option<(LegId, InFlight)> {
        Some(match &mut self.legs[id.0 as usize].carrier {
            Carrier::Own(wire) => {
                let (sent, next) = wire.arrive(now);
                self.agenda.set(id.0, next.unwrap_or(NEVER));
                (id, sent?)
            }
            Carrier::Crossed(wire) => {
                self.datagrams += wire.catch_up(now);
                let (sent, next) = wire.arrive(now);
                self.agenda.set(id.0, next.unwrap_or(NEVER));
                (id, sent?)
            }
            Carrier::Managed(wire) => {
                let sent = wire.advance(now);
                self.agenda.set(id.0, wire.poll_deadline().unwrap_or(NEVER));
                self.drop_managed(now, id);
                (id, self.mark(id, sent?))
            }
            Carrier::Shared(medium, _) => {
                let medium = &mut self.media[*medium];
                let arrived = medium.advance(now);
                self.agenda.set(id.0, medium.poll_deadline().unwrap_or(NEVER));
                self.drop_managed(now, id);
                let (direction, sent) = arrived?;
                let id = LegId(id.0 | direction.index() as u32);
                (id, self.mark(id, sent))
            }
            Carrier::Cut(_) => {
                self.agenda.set(id.0, NEVER);
                return None;
            }
            Carrier::Channel(channel, _) => {
                let ChannelLegs { channel, legs } = &mut self.channels[*channel];
                let arrived = channel.advance(now);
                self.agenda.set(id.0, channel.poll_deadline().unwrap_or(NEVER));
                let arrived = arrived.map(|(station, sent)| (legs[station.0], sent));
                self.drop_managed(now, id);
                let (id, sent) = arrived?;
                (id, self.mark(id, sent))
            }
        })
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
        match &mut self.legs[leg.0 as usize].carrier {
            Carrier::Own(wire) => wire.waiting(now),
            Carrier::Managed(wire) => wire.waiting(),
            Carrier::Crossed(wire) => {
                self.datagrams += wire.catch_up(now);
                wire.waiting(now)
            }
            Carrier::Shared(medium, direction) => self.media[*medium].waiting(*direction),
            Carrier::Channel(channel, station) => self.channels[*channel].channel.waiting(*station),
            Carrier::Cut(_) => 0,
        }
    }

    /// Returns the time for which a leg has transmitted until `now`.
    pub fn busy(&self, now: Instant, leg: LegId) -> Duration {
        self.busy_of(now, &self.legs[leg.0 as usize].carrier)
    }

    fn busy_of(&self, now: Instant, carrier: &Carrier) -> Duration {
        match carrier {
            Carrier::Own(wire) => wire.busy(now),
            Carrier::Managed(wire) => wire.busy(now),
            Carrier::Crossed(wire) => wire.busy(now),
            Carrier::Shared(medium, direction) => self.media[*medium].busy(now, *direction),
            Carrier::Channel(channel, station) => self.channels[*channel].channel.busy(now, *station),
            Carrier::Cut(carrier) => self.busy_of(now, carrier),
        }
    }
}
