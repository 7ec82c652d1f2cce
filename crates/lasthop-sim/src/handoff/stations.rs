//! Where a host that moves is, and what its stations keep, forward or lose while it is elsewhere.

use std::collections::{BTreeSet, VecDeque};

use lasthop_proto::packet::{Body, Packet, Side};
use lasthop_proto::time::{Duration, Instant};

use super::arrivals::Arrivals;
use super::ways::End;
use super::{Course, HandoffKind, Mobility, Ways};
use crate::element::Role;
use crate::link::{Frame, Waiting};
use crate::measure::MobilityReport;
use crate::network::Network;
use crate::pool::PacketPool;

/// As many of the packets that came last the host tells the new station, which sends what follows them.
const TOLD: usize = 3;

/// Tells packets of a flow from each other, but for copies.
type Key = (u32, Side, u32, u32, u32);

/// What becomes of a packet for the host that comes to a station where it is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// The station keeps it.
    Kept,
    /// It goes through a tunnel to that station.
    To(usize),
    /// It is lost.
    Lost,
}

/// What becomes of a copy of a packet that all stations get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// The host is here: it is sent.
    Sent,
    /// The host is elsewhere: it is kept, or dropped.
    Kept,
}

/// Which way a packet goes on a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Towards {
    /// To the host.
    Host,
    /// To the station.
    Station,
}

/// A base station of the host.
struct Post {
    /// What is kept for the host while it is not here.
    kept: VecDeque<Frame>,
    room: Waiting,
    /// Where the host went from here, once this station knows.
    successor: Option<usize>,
    /// How often the host has left.
    left: u64,
    /// Whether what waits in front of the link is as it came, so that another station can send it.
    plain: bool,
    /// Whether a relay here is who gets what is for the host.
    relays: bool,
}

/// Where the host is, what its stations keep for it, and what was measured.
pub struct Stations {
    plan: Mobility,
    posts: Vec<Post>,
    /// The host's own ends of flows.
    own: Vec<usize>,
    /// Where the host is; nowhere during a handoff.
    attached: Option<usize>,
    /// Where it was last.
    served: usize,
    /// Where it is going, during a handoff.
    heading: usize,
    /// Where routes lead.
    routed: usize,
    /// The packets that it got last.
    heard: VecDeque<Key>,
    /// What was lost during this handoff, unless the new station has a copy.
    gone: BTreeSet<Key>,
    /// What the station that the host goes to has had to drop during this handoff, since the last that the host has.
    evicted: Vec<Key>,
    arrivals: Arrivals,
    report: MobilityReport,
}

impl Stations {
    /// The host of `network` that moves is at its first station, and has the ends of flows that `ways` tells.
    pub fn new(network: &Network, ways: &Ways) -> Option<Self> {
        let plan = network.mobility.clone()?;
        let post = |(link, router)| {
            let roles = || {
                let here = network.elements.iter().filter(|spec| spec.link == link && spec.node == router);
                here.map(|spec| spec.element.role())
            };
            Post {
                kept: VecDeque::new(),
                room: Waiting::new(plan.buffer),
                successor: None,
                left: 0,
                plain: !roles().any(|role| matches!(role, Role::Relay | Role::LinkEnd)),
                relays: roles().any(|role| role == Role::Relay),
            }
        };
        let own = |end: &&End| end.node == plan.host;
        Some(Self {
            posts: plan.stations.iter().copied().zip(plan.routers(network)).map(post).collect(),
            own: ways.ends().iter().filter(own).map(|end| end.index).collect(),
            attached: Some(0),
            served: 0,
            heading: 0,
            routed: 0,
            heard: VecDeque::with_capacity(TOLD + 1),
            gone: BTreeSet::new(),
            evicted: Vec::new(),
            arrivals: Arrivals::new(ways.ends().iter().map(|end| end.index)),
            report: MobilityReport::default(),
            plan,
        })
    }

    /// The station where the host is, or was last.
    pub fn served(&self) -> usize {
        self.served
    }

    /// The station to which routes lead.
    pub fn routed(&self) -> usize {
        self.routed
    }

    /// The host's own ends of flows.
    pub fn own_ends(&self) -> &[usize] {
        &self.own
    }

    /// How often the host has left a station.
    pub fn times_left(&self, station: usize) -> u64 {
        self.posts[station].left
    }

    /// Whether what comes to a station for the host goes onto its cell: the host is here, or has gone and nobody has told the station.
    pub fn is_direct(&self, station: usize) -> bool {
        let unaware = matches!(self.plan.kind, HandoffKind::Hard | HandoffKind::Hierarchical);
        self.attached == Some(station) || self.attached.is_none() && self.served == station && unaware
    }

    /// The host leaves its station, or turns elsewhere on its way; the station that it was at, if it was at one.
    pub fn leave(&mut self, heading: usize) -> Option<usize> {
        self.heading = heading;
        self.evicted.clear();
        let left = self.attached.take();
        if left.is_some() {
            self.arrivals.leave();
            self.posts[self.served].left += 1;
            self.posts[self.served].successor = None;
        }
        left
    }

    /// The host is at the station that it went to, from which what it sends takes so long to each end of its flows.
    pub fn attach(&mut self, now: Instant, lags: impl FnOnce(usize) -> Vec<(usize, Duration)>) -> usize {
        let station = self.heading;
        self.attached = Some(station);
        self.served = station;
        self.posts[station].successor = None;
        self.report.handoffs += 1;
        self.arrivals.attach(now, lags(station));
        station
    }

    /// Routes lead to the station `to` from now on.
    pub fn reroute(&mut self, to: usize) {
        self.routed = to;
    }

    /// What waits in front of the cell of a station when the host leaves it; whether the station keeps it.
    pub fn keep_waiting(&mut self, station: usize, frame: Frame, packet: &Packet) -> bool {
        let keeps = self.posts[station].plain && self.plan.kind == HandoffKind::Forwarding;
        keeps && key(packet).is_some() && self.keep(station, frame)
    }

    /// A packet for the host comes to a station where it is not.
    pub fn take(&mut self, station: usize, frame: Frame) -> Away {
        if let Some(next) = self.posts[station].successor {
            return Away::To(next);
        }
        // Until it hears of the new one, a station keeps what comes.
        let keeps = self.plan.kind == HandoffKind::Forwarding && self.posts[station].left > 0;
        if keeps && self.keep(station, frame) { Away::Kept } else { Away::Lost }
    }

    /// A copy of a packet for the host is at a station; what is dropped is discarded from `pool`.
    pub fn take_copy(&mut self, station: usize, frame: Frame, pool: &mut PacketPool) -> Copied {
        if self.attached == Some(station) {
            if self.posts[station].relays {
                self.hear(pool.get(frame.handle()));
            }
            return Copied::Sent;
        }
        let mut kept = self.keep(station, frame);
        while !kept {
            let oldest = self.take_kept(station);
            // A frame that does not fit alone goes itself.
            let evicted = oldest.unwrap_or(frame);
            if self.attached.is_none()
                && self.heading == station
                && let Some(key) = key(pool.get(evicted.handle()))
            {
                // What came before a packet that the host has, it has as well, or never will.
                if self.heard.contains(&key) {
                    self.evicted.clear();
                } else {
                    self.evicted.push(key);
                }
            }
            pool.discard(evicted.handle());
            kept = oldest.is_none() || self.keep(station, frame);
        }
        Copied::Kept
    }

    /// What the station where the host is kept for it and the host has not got; the rest is discarded from `pool`.
    pub fn take_fresh(&mut self, pool: &mut PacketPool) -> Vec<Frame> {
        let station = self.served;
        let relays = self.posts[station].relays;
        let mut known = 0;
        for (index, frame) in self.posts[station].kept.iter().enumerate() {
            if key(pool.get(frame.handle())).is_some_and(|key| self.heard.contains(&key)) {
                known = index + 1;
            }
        }
        if known > 0 {
            self.evicted.clear();
        }
        self.gone.extend(self.evicted.drain(..));
        let mut fresh = Vec::new();
        while let Some(frame) = self.take_kept(station) {
            if known > 0 {
                known -= 1;
                pool.discard(frame.handle());
                continue;
            }
            if let Some(key) = key(pool.get(frame.handle())) {
                self.gone.remove(&key);
            }
            if relays {
                self.hear(pool.get(frame.handle()));
            }
            fresh.push(frame);
        }
        self.report.lost += self.gone.len() as u64;
        self.gone.clear();
        fresh
    }

    /// The station that the host left for the `left`th time hears where it is now; what it kept goes there.
    pub fn tell(&mut self, course: Course, left: u64) -> Vec<Frame> {
        if self.posts[course.from].left != left || self.attached == Some(course.from) {
            return Vec::new();
        }
        self.posts[course.from].successor = Some(course.to);
        std::iter::from_fn(|| self.take_kept(course.from)).collect()
    }

    /// A packet is lost since the host has moved.
    pub fn lose(&mut self, packet: &Packet, towards: Towards) {
        match key(packet) {
            Some(key) if towards == Towards::Host && self.plan.kind == HandoffKind::Multicast => {
                self.gone.insert(key);
            }
            // What link protocols say to each other is no loss to anybody else.
            Some(_) => self.report.lost += 1,
            None => {}
        }
    }

    /// A packet has come to one of the ends of the host's flows; bytes of data, or datagrams, that had not come there before.
    pub fn arrive(&mut self, now: Instant, end: usize, packet: &Packet) -> u64 {
        if self.own.contains(&end) && !self.posts[self.served].relays {
            self.hear(packet);
        }
        self.arrivals.take(now, end, packet, &mut self.report)
    }

    /// What the moves came to.
    pub fn report(&self) -> MobilityReport {
        let lost = self.report.lost + (self.gone.len() + self.evicted.len()) as u64;
        MobilityReport { lost, ..self.report }
    }

    /// Keeps `frame` at a station, if there is room.
    fn keep(&mut self, station: usize, frame: Frame) -> bool {
        let post = &mut self.posts[station];
        let room = post.room.has_room(frame.bytes());
        if room {
            post.room.add(frame.bytes());
            post.kept.push_back(frame);
        }
        room
    }

    fn take_kept(&mut self, station: usize) -> Option<Frame> {
        let post = &mut self.posts[station];
        let frame = post.kept.pop_front()?;
        post.room.remove(frame.bytes());
        Some(frame)
    }

    fn hear(&mut self, packet: &Packet) {
        if self.plan.kind == HandoffKind::Multicast
            && let Some(key) = key(packet)
        {
            self.heard.push_back(key);
            if self.heard.len() > TOLD {
                self.heard.pop_front();
            }
        }
    }
}

fn key(packet: &Packet) -> Option<Key> {
    let (number, ack) = match packet.body {
        Body::Tcp(segment) => (segment.seq.0, segment.ack.0),
        Body::Quic { number, .. } | Body::Datagram { number } | Body::Media { number } => (number, 0),
        Body::Control | Body::Coded(_) | Body::Report(_) => return None,
    };
    Some((packet.flow.0, packet.from, number, ack, packet.len))
}
