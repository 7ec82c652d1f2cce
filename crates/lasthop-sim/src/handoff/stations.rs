//! Location of a moving host, and the packets that its stations keep, forward or lose while it is elsewhere.

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

/// Number of most recently received packets that the host reports to the new station, which sends those that follow.
const TOLD: usize = 3;

/// Identity of a packet in its flow; its copies share the identity.
type Key = (u32, Side, u32, u32, u32);

/// Handling of a packet for the host at a station where it is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// Kept by the station.
    Kept,
    /// Sent through a tunnel to this station.
    To(usize),
    /// Lost.
    Lost,
}

/// Handling of a copy of a packet that all stations receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// Sent: the host is here.
    Sent,
    /// Kept or dropped: the host is elsewhere.
    Kept,
}

/// Direction of a packet in a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Towards {
    /// Towards the host.
    Host,
    /// Towards the station.
    Station,
}

/// A base station of the host.
struct Post {
    /// Frames kept for the host while it is elsewhere.
    kept: VecDeque<Frame>,
    room: Waiting,
    /// Station to which the host went from here, if this station knows it.
    successor: Option<usize>,
    /// Number of times that the host has left.
    left: u64,
    /// Indicates whether frames queued in front of the link are unmodified, so that another station can send them.
    plain: bool,
    /// Indicates whether a relay here receives the packets for the host.
    relays: bool,
}

/// Location of the host, packets that its stations keep for it, and measurements.
pub struct Stations {
    plan: Mobility,
    posts: Vec<Post>,
    /// The host's own ends of flows.
    own: Vec<usize>,
    /// Current station; `None` during a handoff.
    attached: Option<usize>,
    /// Current or last station.
    served: usize,
    /// Destination during a handoff.
    heading: usize,
    /// Station to which routes lead.
    routed: usize,
    /// The most recent packets that the host received.
    heard: VecDeque<Key>,
    /// Packets lost during this handoff, unless the new station has a copy.
    gone: BTreeSet<Key>,
    /// Packets that the destination has dropped from its buffer during this handoff, after the last one that the host
    /// has.
    evicted: Vec<Key>,
    arrivals: Arrivals,
    report: MobilityReport,
}

impl Stations {
    /// Places the moving host of `network` at its first station. `ways` lists its ends of flows. Returns `None` if no
    /// host moves.
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

    /// Returns the station where the host is or was last.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Returns the station to which routes lead.
    pub fn routed(&self) -> usize {
        self.routed
    }

    /// Returns the host's own ends of flows.
    pub fn own_ends(&self) -> &[usize] {
        &self.own
    }

    /// Returns the number of times that the host has left a station.
    pub fn times_left(&self, station: usize) -> u64 {
        self.posts[station].left
    }

    /// Returns whether a station sends packets for the host into its cell: the host is present, or has left without the
    /// station being informed.
    pub fn is_direct(&self, station: usize) -> bool {
        let unaware = matches!(self.plan.kind, HandoffKind::Hard | HandoffKind::Hierarchical);
        self.attached == Some(station) || self.attached.is_none() && self.served == station && unaware
    }

    /// Makes the host leave its station for `heading`, or change its destination. Returns the station that it leaves,
    /// if it is at one.
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

    /// Attaches the host to its destination and returns that station. `lags` returns the delays from a station to each
    /// end of the host's flows.
    pub fn attach(&mut self, now: Instant, lags: impl FnOnce(usize) -> Vec<(usize, Duration)>) -> usize {
        let station = self.heading;
        self.attached = Some(station);
        self.served = station;
        self.posts[station].successor = None;
        self.report.handoffs += 1;
        self.arrivals.attach(now, lags(station));
        station
    }

    /// Changes the routes to lead to the station `to`.
    pub fn reroute(&mut self, to: usize) {
        self.routed = to;
    }

    /// Handles a frame that is queued for a station's cell when the host leaves. Returns whether the station keeps it.
    pub fn keep_waiting(&mut self, station: usize, frame: Frame, packet: &Packet) -> bool {
        let keeps = self.posts[station].plain && self.plan.kind == HandoffKind::Forwarding;
        keeps && key(packet).is_some() && self.keep(station, frame)
    }

    /// Handles a packet for the host at a station where it is absent.
    pub fn take(&mut self, station: usize, frame: Frame) -> Away {
        if let Some(next) = self.posts[station].successor {
            return Away::To(next);
        }
        // Until it learns of the new station, a station keeps the packets that arrive.
        let keeps = self.plan.kind == HandoffKind::Forwarding && self.posts[station].left > 0;
        if keeps && self.keep(station, frame) { Away::Kept } else { Away::Lost }
    }

    /// Handles a copy of a packet for the host at a station. Discards dropped packets from `pool`.
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
            // If the frame exceeds an empty buffer, it is dropped itself.
            let evicted = oldest.unwrap_or(frame);
            if self.attached.is_none()
                && self.heading == station
                && let Some(key) = key(pool.get(evicted.handle()))
            {
                // Packets before one that the host has have been received as well, or never will be.
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

    /// Returns the kept packets at the host's station that it has not received. Discards the others from `pool`.
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

    /// Informs the station that the host left for the `left`th time where it is now. Returns the kept packets, to be
    /// forwarded there.
    pub fn tell(&mut self, course: Course, left: u64) -> Vec<Frame> {
        if self.posts[course.from].left != left || self.attached == Some(course.from) {
            return Vec::new();
        }
        self.posts[course.from].successor = Some(course.to);
        std::iter::from_fn(|| self.take_kept(course.from)).collect()
    }

    /// Counts a packet that is lost because the host has moved.
    pub fn lose(&mut self, packet: &Packet, towards: Towards) {
        match key(packet) {
            Some(key) if towards == Towards::Host && self.plan.kind == HandoffKind::Multicast => {
                self.gone.insert(key);
            }
            // Control frames of link protocols do not count as losses.
            Some(_) => self.report.lost += 1,
            None => {}
        }
    }

    /// Records the arrival of a packet at an end of the host's flows. Returns the number of new bytes of data, or of
    /// new datagrams.
    pub fn arrive(&mut self, now: Instant, end: usize, packet: &Packet) -> u64 {
        if self.own.contains(&end) && !self.posts[self.served].relays {
            self.hear(packet);
        }
        self.arrivals.take(now, end, packet, &mut self.report)
    }

    /// Returns the results of the handoffs.
    pub fn report(&self) -> MobilityReport {
        let lost = self.report.lost + (self.gone.len() + self.evicted.len()) as u64;
        MobilityReport { lost, ..self.report }
    }

    /// Keeps `frame` at a station, if it fits in the buffer. Returns whether it does.
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
