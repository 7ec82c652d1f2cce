//! Everything between the nodes: links, routes, elements, and the taps that record packets.

mod books;
mod charge;
mod departures;
mod held;
mod losses;
mod managed;
mod onward;
mod roaming;
mod tap;

use std::collections::VecDeque;

use lasthop_proto::node::{Port, Why};
use lasthop_proto::packet::FlowId;
use lasthop_proto::random::Root;
use lasthop_proto::time::Instant;

pub use self::books::capture_points;
use self::books::unjudged;
use self::losses::Losses;
use self::onward::Onward;
use self::roaming::Roaming;
pub use self::tap::Tap;
use crate::endpoint::index as endpoint;
use crate::leg::LegId;
use crate::letters::Letters;
use crate::link::{Accepted, Carrier, Crossing, Direction, Errors, Frame, Held, InFlight, Keeps, Media};
use crate::measure::{FlowReport, PathReport};
use crate::network::{ElementSpec, LinkId, Network, NodeId, NodeKind};
use crate::pool::{Handle, PacketPool};
use crate::routes::{Destination, Hop, Routes, Table};
use crate::scheduler::{NEVER, Tournament};
use crate::trace::{DropReason, What};

/// Far end of a leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Far {
    /// A host: the packet's flow determines the endpoint.
    Host,
    /// A host that moves, or has a flow with one that does.
    Watched,
    /// A router without an element on this link.
    Router(Table),
    /// A router without an element on this link that forwards all packets from it over that leg.
    Forwarded(LegId),
    Element(ElementPort),
}

/// A port of an element. One number, so that [`Far`] is passed in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ElementPort(usize);

impl ElementPort {
    const fn new(element: usize, port: Port) -> Self {
        Self(element << 16 | port.0 as usize)
    }

    fn receiver(self) -> Receiver {
        Receiver::Element(self.0 >> 16, Port(self.0 as u16))
    }
}

/// One direction of a link, with its state and counters.
struct Leg {
    carrier: Carrier,
    far: Far,
    report: PathReport,
    errors: Errors,
    /// Frames to take after each event of the carrier.
    keeps: Keeps,
    /// Next leg of this leg's frames, if they need no event to continue ([`onward`]).
    onward: Option<Onward>,
}

impl Leg {
    /// Applies the channel to a frame, and writes its effects into the packet.
    #[inline(always)]
    fn cross(&mut self, sent: &InFlight, pool: &mut PacketPool) -> Crossing {
        if self.errors.strike() {
            self.errors.judge(sent, pool.get_mut(sent.frame.handle()))
        } else {
            Crossing::Arrives
        }
    }
}

/// Next recipient of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiver {
    /// The endpoint with this index; each flow has two.
    Endpoint(usize),
    /// The element with this index.
    Element(usize, Port),
    /// Notification without a packet: this number of payload bytes of the endpoint with this index left its host's
    /// queue.
    Departure(usize, u32),
}

#[derive(Clone, Copy)]
struct ElementPlace {
    table: Table,
    leg: LegId,
    /// Element between this one and the node, if any.
    inner: Option<usize>,
    /// Element between this one and the link, if any.
    outer: Option<usize>,
}

/// Links, routes and taps.
pub struct Fabric {
    legs: Vec<Leg>,
    /// Time of the next event on each leg.
    pub agenda: Tournament,
    media: Media,
    /// Delayed frames, each with its leg. Their events are filed after those of all legs.
    held: Held<(LegId, Frame)>,
    /// Legs with a source of datagrams that the fabric operates ([`Fabric::take_charge`]).
    crossed: Vec<LegId>,
    /// Number of datagrams sent by those sources.
    pub datagrams: u64,
    routes: Routes,
    /// Host of each endpoint; each flow has two.
    hosts: Vec<NodeId>,
    /// DSCP of each flow.
    services: Vec<u8>,
    /// Destinations of the endpoints in the routes.
    destinations: Vec<Destination>,
    /// First hop of each endpoint.
    first_hops: Vec<Hop>,
    /// Indicates for each endpoint whether it limits its backlog in the host's queue.
    asks: Vec<bool>,
    /// Number of frames with payload queued on carriers that report the start of their transmission, which is still to
    /// come. Includes those dropped meanwhile.
    departing: usize,
    elements: Vec<ElementPlace>,
    /// Legs of each element's ports after the first wireless one.
    side_legs: Vec<Vec<LegId>>,
    pub pool: PacketPool,
    /// Contents of QUIC's datagrams.
    pub letters: Letters,
    pub handoffs: VecDeque<(Receiver, Handle)>,
    pub flows: Vec<FlowReport>,
    losses: Losses,
    pub frames: u64,
    pub tap: Tap,
    /// The moving host, if any.
    pub roaming: Option<Box<Roaming>>,
}

impl Fabric {
    pub fn new(network: &Network, root: Root, tap: Tap) -> Self {
        // The elements of each leg nearest to the node and nearest to the link.
        let mut through = vec![None; network.links.len() * 2];
        let mut outermost = vec![None; network.links.len() * 2];
        let mut neighbours = vec![[None; 2]; network.elements.len()];
        for (index, spec) in network.elements.iter().enumerate() {
            let leg = leg_of(network, spec).0 as usize;
            match outermost[leg].replace(index) {
                None => through[leg] = Some(index),
                Some(inner) => {
                    neighbours[inner][1] = Some(index);
                    neighbours[index][0] = Some(inner);
                }
            }
        }
        let roaming = Roaming::new(network, &through);
        let mut side_legs = vec![Vec::new(); network.elements.len()];
        let mut side_ends = vec![None; network.links.len() * 2];
        for (index, spec) in network.elements.iter().enumerate() {
            for (port, link) in (Port::WIRELESS.0 + 1..).map(Port).zip(network.more_links(spec)) {
                let leg = leg_from(network, spec.node, *link);
                side_legs[index].push(leg);
                side_ends[leg.0 as usize] = Some((index, port));
            }
        }
        let routes = roaming.as_ref().map_or_else(|| Routes::new(network, &through), |roaming| roaming.first());
        let table = |node| routes.table(node).expect("every forwarding node has a table");
        let place = |(spec, [inner, outer]): (&ElementSpec, [Option<usize>; 2])| ElementPlace {
            table: table(spec.node),
            leg: leg_of(network, spec),
            inner,
            outer,
        };
        let elements = network.elements.iter().zip(neighbours).map(place).collect();
        let mut legs = Vec::with_capacity(through.len());
        let (carriers, media) = Carrier::all(network, root);
        let mut carriers = carriers.into_iter();
        for link in &network.links {
            for (direction, carrier) in Direction::BOTH.into_iter().zip(carriers.by_ref()) {
                let node = link.ends[1 - direction.index()];
                let element = outermost[legs.len() ^ 1].map(|element| (element, Port::WIRELESS));
                let far = match (element.or(side_ends[legs.len() ^ 1]), network.nodes[node.0].kind) {
                    (Some((element, port)), _) => Far::Element(ElementPort::new(element, port)),
                    (None, NodeKind::Host) if roaming::watches(network, node) => Far::Watched,
                    (None, NodeKind::Host) => Far::Host,
                    (None, NodeKind::Router) => Far::Router(table(node)),
                };
                legs.push(Leg {
                    keeps: carrier.keeps(&media),
                    carrier,
                    far,
                    report: PathReport::default(),
                    errors: Errors::new(link, direction, root),
                    onward: None,
                });
            }
        }
        let ends = || network.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        // The ends of tunnels follow the endpoints.
        let stations = network.mobility.iter().flat_map(|mobility| mobility.routers(network));
        let mut fabric = Self {
            agenda: Tournament::new(legs.len() + usize::from(legs.iter().any(|leg| leg.errors.delay()))),
            legs,
            media,
            held: Held::default(),
            crossed: Vec::new(),
            datagrams: 0,
            first_hops: network
                .flows
                .iter()
                .flat_map(|flow| [routes.first(flow.from, flow.to), routes.first(flow.to, flow.from)])
                .collect(),
            destinations: ends().chain(stations).filter_map(|host| routes.destination(host)).collect(),
            hosts: ends().collect(),
            services: network.flows.iter().map(|flow| flow.dscp).collect(),
            asks: network.flows.iter().flat_map(departures::asks).collect(),
            routes,
            departing: 0,
            elements,
            side_legs,
            pool: PacketPool::default(),
            letters: Letters::new(network),
            handoffs: VecDeque::new(),
            flows: vec![unjudged(network); network.flows.len()],
            losses: Losses::new(network),
            frames: 0,
            tap,
            roaming,
        };
        fabric.settle_down(network);
        if network.mobility.is_none() {
            fabric.look_ahead();
        }
        fabric.look_onward(network);
        fabric.watch_departures(network);
        fabric
    }

    /// Finds the legs whose packets all take the same next leg, for which no route has to be looked up. The routes must
    /// be final.
    fn look_ahead(&mut self) {
        for (id, leg) in (0..).map(LegId).zip(&mut self.legs) {
            if let Far::Router(table) = leg.far
                && let Some(Hop::Leg(next)) = self.routes.only(table, Hop::Leg(id.opposite()))
            {
                leg.far = Far::Forwarded(next);
            }
        }
    }

    /// Sends the packet in the pool's next place from the endpoint with this index. Returns its payload in bytes.
    #[inline(always)]
    pub fn send_from_endpoint(&mut self, now: Instant, endpoint: usize) -> u32 {
        let hop = self.first_hops[endpoint];
        let frame = self.pool.commit_from_end(endpoint ^ 1);
        if self.tap.is_on() {
            self.watch_origin(now, endpoint, hop, frame);
        }
        if frame.is_resent() {
            self.flows[endpoint / 2].sender.source_retransmissions += 1;
            self.losses.resend(self.pool.get(frame.handle()));
        }
        if let Hop::Leg(leg) = hop {
            self.enqueue(now, leg, frame)
        } else {
            self.hand_over(now, hop, frame, None)
        }
        frame.payload()
    }

    /// Sends the packet in the pool's next place from an element, out of `port`.
    pub fn send_from_element(&mut self, now: Instant, element: usize, port: Port, why: Why) {
        let ElementPlace { table, leg, inner, outer } = self.elements[element];
        let packet = self.pool.place();
        if why != Why::Own {
            // Elements handle packets one by one.
            packet.super_segment = 0;
        }
        // Retransmissions of the element's own connections count as local. Forwarded ones count at their sender.
        let resent = match why {
            Why::Repair(_) => true,
            Why::Own => packet.cause.is_source_retransmission(),
            Why::Given | Why::Released | Why::LocalAck | Why::Control => false,
        };
        if resent && packet.len > 0 {
            self.flows[packet.flow.0 as usize].sender.local_retransmissions += 1;
            self.losses.resend(packet);
        }
        // A control frame ends at the other end of its link.
        let to = if packet.flow == FlowId::NONE { 0 } else { endpoint(packet.flow, packet.from.peer()) };
        let frame = self.pool.commit(to);
        if let Some(meter) = &mut self.tap.meter {
            meter.leave(now, element, why, frame.handle(), self.pool.get(frame.handle()));
        }
        if let Some(side) = port.0.checked_sub(Port::WIRELESS.0 + 1) {
            let leg = self.side_legs[element][usize::from(side)];
            return self.transmit(now, leg, frame);
        }
        let neighbour = if port == Port::WIRELESS { outer } else { inner };
        if let Some(element) = neighbour {
            let port = if port == Port::WIRELESS { Port::WIRED } else { Port::WIRELESS };
            self.handoffs.push_back((Receiver::Element(element, port), frame.handle()));
        } else if port == Port::WIRELESS {
            self.transmit(now, leg, frame);
        } else {
            self.send(now, self.routes.next(table, self.destinations[to]), frame, Some(leg.opposite()));
        }
    }

    /// Sends a frame on its next hop. `from` is the leg over which it arrived.
    #[inline(always)]
    fn send(&mut self, now: Instant, hop: Hop, frame: Frame, from: Option<LegId>) {
        if let Hop::Leg(leg) = hop { self.transmit(now, leg, frame) } else { self.hand_over(now, hop, frame, from) }
    }

    /// Implements [`Self::send`] if the next hop is not a link.
    #[inline(never)]
    fn hand_over(&mut self, now: Instant, hop: Hop, frame: Frame, from: Option<LegId>) {
        match hop {
            Hop::Leg(leg) => self.transmit(now, leg, frame),
            Hop::Element(element) => {
                self.handoffs.push_back((Receiver::Element(element as usize, Port::WIRED), frame.handle()));
            }
            Hop::Here => self.handoffs.push_back((Receiver::Endpoint(frame.to()), frame.handle())),
            Hop::Nowhere => self.pool.discard(frame.handle()),
            Hop::Roaming(spot) => self.roam(now, spot, frame, from),
        }
    }

    #[inline(always)]
    fn transmit(&mut self, now: Instant, id: LegId, frame: Frame) {
        if self.tap.is_on() {
            self.watch_sent(now, id, frame);
        }
        self.enqueue(now, id, frame);
    }

    /// Implements [`Self::transmit`] for a frame that was recorded and measured.
    #[inline(always)]
    fn enqueue(&mut self, now: Instant, id: LegId, frame: Frame) {
        if let Leg { carrier: Carrier::Own(wire), report, onward, .. } = &mut self.legs[id.0 as usize] {
            if onward.is_some() && wire.is_free(now) {
                return self.send_through(now, id, frame);
            }
            match wire.enqueue(now, frame) {
                Accepted::Queued => report.carry(frame),
                Accepted::Next(at) => {
                    report.carry(frame);
                    self.agenda.set(id.0, at);
                }
                Accepted::Dropped => self.drop(now, id, frame.handle(), DropReason::Queue),
            }
        } else {
            self.transmit_managed(now, id, frame);
        }
    }

    /// Processes the first leg on the agenda. Returns the packet that arrived and its recipient, if that is a node.
    #[inline(always)]
    pub fn advance(&mut self, now: Instant, id: LegId) -> Option<(Receiver, Handle)> {
        let Some(leg) = self.legs.get_mut(id.0 as usize) else { return self.release(now) };
        let Carrier::Own(wire) = &mut leg.carrier else { return self.advance_managed(now, id) };
        let (sent, next) = wire.arrive(now);
        self.agenda.set(id.0, next.unwrap_or(NEVER));
        let sent = sent?;
        if self.tap.is_on()
            && let Some(meter) = &mut self.tap.meter
        {
            meter.cross(id, sent.frame.handle(), sent.start());
        }
        let (crossing, far) = (leg.cross(&sent, &mut self.pool), leg.far);
        self.get_across(now, id, sent.frame, crossing, far)
    }

    /// Processes a frame that has crossed its leg. `crossing` is the result of the channel.
    #[inline(always)]
    fn get_across(
        &mut self,
        now: Instant,
        id: LegId,
        frame: Frame,
        crossing: Crossing,
        far: Far,
    ) -> Option<(Receiver, Handle)> {
        self.frames += 1;
        match crossing {
            Crossing::Arrives | Crossing::Marked => self.arrive(now, id, frame, far),
            Crossing::Late(by) => {
                self.hold(now + by, id, frame);
                None
            }
            Crossing::Twice(by) => {
                self.duplicate(now + by, id, frame);
                None
            }
            Crossing::Lost => {
                self.drop(now, id, frame.handle(), DropReason::Channel);
                None
            }
        }
    }

    /// Holds a frame until its delayed arrival.
    #[cold]
    fn hold(&mut self, until: Instant, id: LegId, frame: Frame) {
        self.held.hold(until, (id, frame));
        self.agenda.wake_by(self.legs.len() as u32, until);
    }

    /// Delays a frame, followed by a copy of it.
    #[cold]
    fn duplicate(&mut self, until: Instant, id: LegId, frame: Frame) {
        let copy = *self.pool.get(frame.handle());
        *self.pool.place() = copy;
        let copy = frame.copied(self.pool.commit(frame.to()).handle());
        self.legs[id.0 as usize].report.duplicates += 1;
        self.hold(until, id, frame);
        self.hold(until, id, copy);
    }

    /// Delivers the first of the delayed frames.
    #[cold]
    fn release(&mut self, now: Instant) -> Option<(Receiver, Handle)> {
        let (id, frame) = self.held.release(now)?;
        self.agenda.set(self.legs.len() as u32, self.held.next().unwrap_or(NEVER));
        if matches!(self.legs[id.0 as usize].carrier, Carrier::Cut(_)) {
            self.lose_at_handoff(now, id, frame);
            return None;
        }
        self.arrive(now, id, frame, self.legs[id.0 as usize].far)
    }

    /// Processes the arrival of a frame at the far end of its leg.
    #[inline(always)]
    fn arrive(&mut self, now: Instant, id: LegId, frame: Frame, far: Far) -> Option<(Receiver, Handle)> {
        if self.tap.is_on() && self.tap.records() {
            self.record_packet(now, id.far(), frame.handle(), What::Received);
        }
        // Nearly all frames go to one of these two. A match of all five compiles to a jump table, which the processor
        // predicts poorly.
        if let Far::Forwarded(next) = far {
            self.transmit(now, next, frame);
            return None;
        }
        if far == Far::Host {
            return Some((Receiver::Endpoint(frame.to()), frame.handle()));
        }
        self.arrive_elsewhere(now, id, frame, far)
    }

    /// Implements [`Self::arrive`] for ends that process the frame, and routers that look its route up.
    #[inline(never)]
    fn arrive_elsewhere(&mut self, now: Instant, id: LegId, frame: Frame, far: Far) -> Option<(Receiver, Handle)> {
        if let Far::Router(router) = far {
            self.send(now, self.routes.next(router, self.destinations[frame.to()]), frame, Some(id));
            return None;
        }
        if let Far::Element(port) = far {
            return Some((port.receiver(), frame.handle()));
        }
        self.notice(now, frame);
        Some((Receiver::Endpoint(frame.to()), frame.handle()))
    }
}

/// Returns the leg that an element precedes: its link, in the direction away from its node.
pub(crate) fn leg_of(network: &Network, spec: &ElementSpec) -> LegId {
    leg_from(network, spec.node, spec.link)
}

/// Returns the direction of a link away from a node.
fn leg_from(network: &Network, node: NodeId, link: LinkId) -> LegId {
    let away = if network.links[link.0].ends[0] == node { Direction::Down } else { Direction::Up };
    LegId::new(link, away)
}
