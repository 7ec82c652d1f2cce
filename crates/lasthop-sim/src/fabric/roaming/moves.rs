//! The steps of a handoff: what each does to links, stations and routes.

use lasthop_proto::time::Instant;

use super::key;
use crate::fabric::{Carrier, Fabric, LegId};
use crate::link::{Cut, Direction};
use crate::network::HandoffKind;
use crate::scheduler::NEVER;
use crate::trace::{DropReason, What};

impl Fabric {
    /// The host leaves its station, or turns elsewhere on its way; says whether it was at one.
    pub fn leave(&mut self, now: Instant, heading: usize) -> bool {
        let Some(mut roaming) = self.roaming.take() else { return false };
        roaming.heading = heading;
        roaming.evicted.clear();
        let left = roaming.attached.take();
        if left.is_some() {
            roaming.arrivals.leave();
            roaming.posts[roaming.served].left += 1;
            roaming.posts[roaming.served].successor = None;
            roaming.lead(&mut self.routes);
        }
        self.roaming = Some(roaming);
        if let Some(station) = left {
            self.cut(now, station);
        }
        left.is_some()
    }

    /// Nothing is on a station's link any more.
    fn cut(&mut self, now: Instant, station: usize) {
        let Some(roaming) = &self.roaming else { return };
        let (down, plain) = (roaming.posts[station].down, roaming.posts[station].plain);
        let keeps = plain && roaming.plan.kind == HandoffKind::Forwarding;
        for id in [down, down.opposite()] {
            let cut = self.cut_leg(now, id);
            for frame in cut.sent {
                self.lose_at_handoff(now, id, frame);
            }
            for frame in cut.waiting {
                self.legs[id.0 as usize].report.withdraw(frame);
                let whole = keeps && id == down && key(self.pool.get(frame.handle())).is_some();
                let kept = match &mut self.roaming {
                    Some(roaming) if whole => roaming.keep(station, frame),
                    _ => Err(frame),
                };
                match kept {
                    Ok(()) => {
                        let packet = *self.pool.get(frame.handle());
                        self.legs[id.0 as usize].report.lose(DropReason::Handoff);
                        self.record(now, id.near(), packet.flow, What::Dropped(packet, DropReason::Handoff));
                    }
                    Err(frame) => self.lose_at_handoff(now, id, frame),
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
        let station = roaming.heading;
        roaming.attached = Some(station);
        roaming.served = station;
        roaming.posts[station].successor = None;
        roaming.report.handoffs += 1;
        roaming.lead(&mut self.routes);
        let host = roaming.plan.host;
        for &(index, own, peer) in roaming.ends.iter().filter(|end| end.1 == host) {
            debug_assert_eq!(own, host);
            self.first_hops[index] = roaming.settled().first(host, peer);
        }
        let down = roaming.posts[station].down;
        self.roaming = Some(roaming);
        self.open(down);
        self.open(down.opposite());
        // A packet from the host to one of its peers takes as long as the links' delays.
        let lags: Vec<_> = self.own_lags();
        if let Some(roaming) = &mut self.roaming {
            roaming.arrivals.attach(now, lags);
        }
    }

    /// The station where the host is sends what it kept for it.
    pub fn send_kept(&mut self, now: Instant) {
        let Some(roaming) = &mut self.roaming else { return };
        let station = roaming.served;
        let hop = roaming.posts[station].direct;
        let relays = roaming.posts[station].relays;
        let mut known = 0;
        for (index, frame) in roaming.posts[station].kept.iter().enumerate() {
            if key(self.pool.get(frame.handle())).is_some_and(|key| roaming.heard.contains(&key)) {
                known = index + 1;
            }
        }
        if known > 0 {
            roaming.evicted.clear();
        }
        roaming.gone.extend(roaming.evicted.drain(..));
        let mut fresh = Vec::new();
        while let Some(frame) = roaming.take_kept(station) {
            if known > 0 {
                known -= 1;
                self.pool.discard(frame.handle());
                continue;
            }
            if let Some(key) = key(self.pool.get(frame.handle())) {
                roaming.gone.remove(&key);
            }
            if relays {
                roaming.hear(self.pool.get(frame.handle()));
            }
            fresh.push(frame);
        }
        roaming.report.lost += roaming.gone.len() as u64;
        roaming.gone.clear();
        for frame in fresh {
            self.send(now, hop, frame, None);
        }
    }

    /// The station `old` hears that the host, which left it for the `left`th time, is at `new`: it forwards what it kept and what comes.
    pub fn tell(&mut self, now: Instant, old: usize, new: usize, left: u64) {
        let Some(roaming) = &mut self.roaming else { return };
        if roaming.posts[old].left != left || roaming.attached == Some(old) {
            return;
        }
        roaming.posts[old].successor = Some(new);
        while let Some(frame) = self.roaming.as_mut().and_then(|roaming| roaming.take_kept(old)) {
            self.tunnel(now, old, new, frame);
        }
    }

    /// Routes lead to the station `to` from now on.
    pub fn reroute(&mut self, to: usize) {
        if let Some(mut roaming) = self.roaming.take() {
            roaming.routed = to;
            roaming.lead(&mut self.routes);
            self.roaming = Some(roaming);
        }
    }

    /// How often the host has left a station.
    pub fn times_left(&self, station: usize) -> u64 {
        self.roaming.as_ref().map_or(0, |roaming| roaming.posts[station].left)
    }

    /// The station where the host is or was last.
    pub fn served(&self) -> usize {
        self.roaming.as_ref().map_or(0, |roaming| roaming.served)
    }
}
