//! The steps of a handoff: what each does to links, stations and routes.

use lasthop_proto::time::{Duration, Instant};

use crate::fabric::{Carrier, Fabric, LegId};
use crate::handoff::Course;
use crate::link::{Cut, Direction};
use crate::scheduler::NEVER;
use crate::trace::{DropReason, What};

impl Fabric {
    /// The host leaves its station, or turns elsewhere on its way.
    pub fn leave(&mut self, now: Instant, heading: usize) {
        let Some(roaming) = &mut self.roaming else { return };
        if let Some(station) = roaming.stations.leave(heading) {
            roaming.lead(&mut self.routes);
            self.cut(now, station);
        }
    }

    /// Nothing is on a station's link any more.
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
                    self.record(now, id.near(), packet.flow, What::Dropped(packet, DropReason::Handoff));
                } else {
                    self.lose_at_handoff(now, id, frame);
                }
            }
        }
        for id in [down, down.opposite()] {
            self.close(id);
        }
    }

    /// A leg, which is empty, takes nothing from now on.
    pub(super) fn close(&mut self, id: LegId) {
        // Something has to be in its place for a moment.
        let carrier = &mut self.legs[id.0 as usize].carrier;
        let open = std::mem::replace(carrier, Carrier::Shared(usize::MAX, Direction::Down));
        *carrier = match open {
            Carrier::Cut(_) => open,
            open => Carrier::Cut(Box::new(open)),
        };
        self.agenda.set(id.0, NEVER);
    }

    /// A leg carries frames again.
    fn open(&mut self, id: LegId) {
        let carrier = &mut self.legs[id.0 as usize].carrier;
        let closed = std::mem::replace(carrier, Carrier::Shared(usize::MAX, Direction::Down));
        *carrier = match closed {
            Carrier::Cut(open) => *open,
            open => open,
        };
    }

    fn cut_leg(&mut self, now: Instant, id: LegId) -> Cut {
        let cut = match &mut self.legs[id.0 as usize].carrier {
            Carrier::Own(wire) => wire.cut(now),
            Carrier::Managed(wire) => wire.cut(now),
            Carrier::Shared(medium, direction) => {
                let direction = *direction;
                self.media[*medium].cut(now, direction)
            }
            // Scenarios have no cells on a channel with other links.
            Carrier::Crossed(_) | Carrier::Channel(..) | Carrier::Cut(_) => Cut::default(),
        };
        self.drop_managed(now, id);
        cut
    }

    /// The host is at the station that it went to.
    pub fn attach(&mut self, now: Instant) {
        let Some(mut roaming) = self.roaming.take() else { return };
        // A packet from the host to one of its peers takes as long as the links' delays.
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

    /// The station where the host is sends what it kept for it.
    pub fn send_kept(&mut self, now: Instant) {
        let Some(roaming) = &mut self.roaming else { return };
        let hop = roaming.posts[roaming.stations.served()].direct;
        for frame in roaming.stations.take_fresh(&mut self.pool) {
            self.send(now, hop, frame, None);
        }
    }

    /// The old station, which the host left for the `left`th time, forwards what it kept and what comes.
    pub fn tell(&mut self, now: Instant, course: Course, left: u64) {
        let Some(roaming) = &mut self.roaming else { return };
        for frame in roaming.stations.tell(course, left) {
            self.tunnel(now, course.from, course.to, frame);
        }
    }

    /// Routes lead to the station `to` from now on.
    pub fn reroute(&mut self, to: usize) {
        if let Some(roaming) = &mut self.roaming {
            roaming.stations.reroute(to);
            roaming.lead(&mut self.routes);
        }
    }

    /// How often the host has left a station.
    pub fn times_left(&self, station: usize) -> u64 {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.times_left(station))
    }

    /// The station where the host is or was last.
    pub fn served(&self) -> usize {
        self.roaming.as_ref().map_or(0, |roaming| roaming.stations.served())
    }

    /// How long `bytes` take from one station to another over the wire; none take the links' delays.
    pub fn wire_time(&self, course: Course, bytes: u64) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.wire_time(course, bytes))
    }

    /// How long after the host's arrival routes have changed.
    pub fn route_update(&self, course: Course) -> Duration {
        self.roaming.as_ref().map_or(Duration::ZERO, |roaming| roaming.ways.route_update(course))
    }
}
