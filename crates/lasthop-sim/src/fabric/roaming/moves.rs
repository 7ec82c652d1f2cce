//! Steps of a handoff, and their effects on links, stations and routes.

use lasthop_proto::time::{Duration, Instant};

use crate::fabric::{Carrier, Fabric, LegId};
use crate::handoff::Course;
use crate::link::Cut;
use crate::scheduler::NEVER;
use crate::trace::{DropReason, What};

/// Stands in for a carrier while that is replaced.
const PLACEHOLDER: Carrier = Carrier::Shared { medium: usize::MAX, place: 0 };

impl Fabric {
    /// Makes the host leave its station, or change direction on the way.
    pub fn leave(&mut self, now: Instant, heading: usize) {
        let Some(roaming) = &mut self.roaming else { return };
        if let Some(station) = roaming.stations.leave(heading) {
            roaming.lead(&mut self.routes);
            self.cut(now, station);
        }
    }

    /// Removes all frames from a station's link.
    fn cut(&mut self, now: Instant, station: usize) {
        let Some(roaming) = &self.roaming else { return };
        let down = roaming.posts[station].down;
        for id in [down, down.opposite()] {
            let cut = self.cut_leg(now, id);
            for frame in cut.sent {
                self.lose_at_handoff(now, id, frame);
            }
            for frame in cut.waiting {
                self.report_departure(id, frame);
                self.legs[id.0 as usize].report.withdraw(frame);
                let packet = *self.pool.get(frame.handle());
                let stations = self.roaming.as_mut().map(|roaming| &mut roaming.stations).filter(|_| id == down);
                if stations.is_some_and(|stations| stations.keep_waiting(station, frame, &packet)) {
                    self.legs[id.0 as usize].report.lose(DropReason::Handoff);
                    self.tap.record(now, id.near(), packet.flow, What::Dropped(packet, DropReason::Handoff));
                } else {
                    self.lose_at_handoff(now, id, frame);
                }
            }
        }
        for id in [down, down.opposite()] {
            self.close(id);
        }
    }

    /// Closes an empty leg: it accepts no frames until it is opened.
    pub(super) fn close(&mut self, id: LegId) {
        let carrier = &mut self.legs[id.0 as usize].carrier;
        let open = std::mem::replace(carrier, PLACEHOLDER);
        *carrier = match open {
            Carrier::Cut(_) => open,
            open => Carrier::Cut(Box::new(open)),
        };
        self.agenda.set(id.0, NEVER);
    }

    /// Opens a leg again.
    fn open(&mut self, id: LegId) {
        let carrier = &mut self.legs[id.0 as usize].carrier;
        let closed = std::mem::replace(carrier, PLACEHOLDER);
        *carrier = match closed {
            Carrier::Cut(open) => *open,
            open => open,
        };
    }

    fn cut_leg(&mut self, now: Instant, id: LegId) -> Cut {
        let cut = self.legs[id.0 as usize].carrier.cut(&mut self.media, now);
        self.drop_managed(now, id);
        cut
    }

    /// Attaches the host to the station that it went to.
    pub fn attach(&mut self, now: Instant) {
        let Some(mut roaming) = self.roaming.take() else { return };
        // A packet from the host to one of its peers takes the sum of the links' delays.
        let station = roaming.stations.attach(now, |station| roaming.ways.lags(station));
        roaming.lead(&mut self.routes);
        for end in roaming.ways.ends().iter().filter(|end| roaming.stations.own_ends().contains(&end.index)) {
            self.first_hops[end.index] = roaming.settled().first(end.node, end.peer);
        }
        let down = roaming.posts[station].down;
        self.roaming = Some(roaming);
        self.open(down);
        self.open(down.opposite());
    }

    /// Sends the frames that the host's station kept for it.
    pub fn send_kept(&mut self, now: Instant) {
        let Some(roaming) = &mut self.roaming else { return };
        let hop = roaming.posts[roaming.stations.served()].direct;
        for frame in roaming.stations.take_fresh(&mut self.pool) {
            self.send(now, hop, frame, None);
        }
    }

    /// Makes the old station, which the host left for the `left`th time, forward the frames that it kept and those that
    /// arrive.
    pub fn tell(&mut self, now: Instant, course: Course, left: u64) {
        let Some(roaming) = &mut self.roaming else { return };
        for frame in roaming.stations.tell(course, left) {
            self.tunnel(now, course.from, course.to, frame);
        }
    }

    /// Changes the routes to lead to the station `to`.
    pub fn reroute(&mut self, to: usize) {
        if let Some(roaming) = &mut self.roaming {
            roaming.stations.reroute(to);
            roaming.lead(&mut self.routes);
        }
    }

    /// Returns the number of times that the host has left a station.
    pub fn times_left(&self, station: usize) -> u64 {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.times_left(station))
    }

    /// Returns the station where the host is or was last.
    pub fn served(&self) -> usize {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.served())
    }

    /// Returns the time that `bytes` take from one station to another over the wire. With 0 bytes, it is the sum of the
    /// links' delays.
    pub fn wire_time(&self, course: Course, bytes: u64) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.wire_time(course, bytes))
    }

    /// Returns the time from the host's arrival to the change of routes.
    pub fn route_update(&self, course: Course) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.route_update(course))
    }
}
