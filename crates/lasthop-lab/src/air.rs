//! The emulated links without their I/O: the simulator's own state machines, fed with real frames.

mod carrier;
mod moves;
mod reading;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::take;
use std::sync::Arc;

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Ecn, FlowId, Packet, Side};
use lasthop_proto::queue::Sight;
use lasthop_proto::random::Root;
use lasthop_proto::time::Instant;
use lasthop_sim::link::{Accepted, Crossing, Direction, Errors, Frame, Held};
use lasthop_sim::measure::{FlowReport, PathReport, Reporter};
use lasthop_sim::network::LinkSpec;
use lasthop_sim::pool::{Handle, PacketPool};
use lasthop_sim::trace::DropReason;
use lasthop_wire::{Route, mark_congestion};

use self::carrier::Carrier;
use self::moves::Roaming;
pub use self::moves::{Crossed, Moves, SetRoute};
use super::capture::{Capture, Passage};
use super::counts::Counts;
use super::elements::{Blueprint, ETHERNET, Given, IPV4, PortElement};
use super::monitor::Monitor;
use super::plan::{Plan, Point};
use super::quic::register::Register;

/// All links of a lab, and everything on them.
pub struct Air {
    links: Vec<Link>,
    flows: BTreeMap<Route, (FlowId, Side)>,
    /// What is in the datagrams of QUIC flows.
    quic: Arc<Register>,
    pool: PacketPool,
    /// By handle: the frame's bytes, and its number in the capture.
    frames: Vec<Stored>,
    counts: Counts,
    /// What sits between a router and a link, by its point.
    elements: Vec<Option<Box<dyn PortElement>>>,
    /// What these gave back to their routers.
    turned: VecDeque<(Instant, Point, Vec<u8>)>,
    /// Frames that arrive late, and where.
    late: Held<(Point, Handle)>,
    /// What they told.
    told: Vec<FlowReport>,
    /// What passed each point; `None` when nobody wants it.
    capture: Option<Capture>,
    carried: u64,
    /// What crosses the links over time; `None` when nobody wants it.
    monitor: Option<Box<Monitor>>,
    /// The host that moves, if one does.
    roaming: Option<Box<Roaming>>,
}

/// What can happen next: on a link, at a point, or to a host that moves. Links go first, since an element acts on what came before its own
/// timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Link(usize),
    Element(Point),
    Late,
    Move,
}

/// Whether anything goes over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gate {
    Open,
    /// It is the cell of a station where the host that moves is not.
    Closed,
}

#[derive(Default)]
struct Stored {
    bytes: Vec<u8>,
    recorded: Option<usize>,
    /// When it was handed to the link, and when its transmission began.
    entered: Instant,
    started: Instant,
}

struct Link {
    carrier: Carrier,
    gate: Gate,
    errors: [Errors; 2],
    report: [PathReport; 2],
    /// When it last did something: nothing happens on it before.
    last: Instant,
}

/// A frame that arrives.
pub struct Arrival<'f> {
    /// Where.
    pub point: Point,
    /// When, on the link's own clock.
    pub due: Instant,
    /// With its Ethernet header.
    pub bytes: &'f [u8],
}

/// What the links carried.
pub struct Carried {
    /// Per link: down, up; without what was useful of it.
    pub links: Vec<[PathReport; 2]>,
    /// Per flow: retransmissions and losses, and what relays told of themselves.
    pub flows: Vec<FlowReport>,
    /// Frames that links carried.
    pub frames: u64,
    /// What the moves of a host came to.
    pub moves: Option<Moves>,
    /// What passed each point.
    pub capture: Option<Capture>,
    /// What crossed the links over time.
    pub monitor: Option<Box<Monitor>>,
}

impl Air {
    /// Links without frames; errors come from the streams that the simulator uses under `root`.
    pub fn new(plan: &Plan<'_>, root: Root, capture: Option<Capture>) -> Self {
        let mut elements: Vec<_> = (0..plan.points()).map(|_| None).collect();
        let blueprints = plan.emulated().map(|(point, spec)| (point, Blueprint::new(spec, point, plan, root)));
        let blueprints: Vec<_> = blueprints.collect();
        for (point, blueprint) in &blueprints {
            elements[*point] = blueprint.build();
        }
        let mut links: Vec<_> = plan.network.links.iter().map(|spec| Link::new(spec, root)).collect();
        for cell in plan.cells().into_iter().skip(1) {
            links[cell / 2].gate = Gate::Closed;
        }
        Self {
            links,
            flows: plan.routes(),
            quic: Arc::default(),
            pool: PacketPool::default(),
            frames: Vec::new(),
            counts: Counts::new(plan),
            elements,
            turned: VecDeque::new(),
            late: Held::default(),
            told: vec![FlowReport::default(); plan.network.flows.len()],
            capture,
            carried: 0,
            monitor: None,
            roaming: Roaming::new(plan, root, blueprints),
        }
    }

    /// The same, where the ends of QUIC flows keep that register.
    pub fn with_quic(self, quic: Arc<Register>) -> Self {
        Self { quic, ..self }
    }

    /// The same, watched.
    pub fn with_monitor(self, monitor: Monitor) -> Self {
        Self { monitor: Some(Box::new(monitor)), ..self }
    }

    /// Takes the frame that the node at `point` sent at `now`, or that a router handed to its agent, whose ports come behind all points. What
    /// is not IPv4 is no packet of the scenario and goes nowhere.
    pub fn send(&mut self, now: Instant, point: Point, bytes: &[u8]) {
        if bytes.get(12..ETHERNET) != Some(&IPV4) || self.take_at_agent(now, point, bytes) {
            return;
        }
        if self.elements[point].is_some() {
            let packet = self.read(&bytes[ETHERNET..]);
            self.through(now, point, |element, now, given| element.take(now, Port::WIRED, &packet, bytes, given));
        } else {
            self.launch(now, point, bytes);
        }
    }

    /// Has the element at a point do something, and passes on what it gives out.
    fn through(&mut self, now: Instant, point: Point, act: impl FnOnce(&mut dyn PortElement, Instant, &mut Given)) {
        // A wake-up that came late may have let it go on, too.
        let now = now.max(self.links[point / 2].last);
        let mut given = Given::default();
        if let Some(element) = &mut self.elements[point] {
            act(&mut **element, now, &mut given);
        }
        for (flow, event) in given.events {
            if let Some(report) = self.told.get_mut(flow.0 as usize) {
                report.count(Reporter::Element, &event);
            }
        }
        for (port, frame) in given.frames {
            match port {
                Port::WIRELESS => self.launch(now, point, &frame),
                _ => {
                    if self.roaming.is_some() {
                        let packet = self.read(&frame[ETHERNET..]);
                        self.notice(now, point, &packet);
                    }
                    self.turned.push_back((now, point, frame));
                }
            }
        }
        for (packet, bytes) in given.link_frames {
            self.launch_packet(now, point, packet, &bytes);
        }
    }

    /// Puts a frame onto the link at `point`.
    fn launch(&mut self, now: Instant, point: Point, bytes: &[u8]) {
        let packet = self.read(&bytes[ETHERNET..]);
        self.launch_packet(now, point, packet, bytes);
    }

    /// Puts a frame onto the link at `point` that is `packet` to the mechanisms; what is no packet is not recorded.
    fn launch_packet(&mut self, now: Instant, point: Point, mut packet: Packet, bytes: &[u8]) {
        if is_packet(&packet) && packet.cause.is_local_retransmission() {
            self.counts.repeated(&packet);
        } else if is_packet(&packet) {
            self.counts.sent(point, &mut packet);
        }
        self.put(now, point, packet, bytes);
    }

    /// Puts a frame onto the link at `point`, counted as it is to be.
    fn put(&mut self, now: Instant, point: Point, packet: Packet, bytes: &[u8]) {
        let recorded = self.capture.as_mut().filter(|_| is_packet(&packet)).and_then(|capture| {
            capture.add(Passage { time: now, point, outbound: true, cause: packet.cause, dropped: None }, bytes)
        });
        let frame = self.store(packet, bytes, recorded);
        let link = &mut self.links[point / 2];
        if link.gate == Gate::Closed {
            return self.miss(now, point, frame);
        }
        let direction = [Direction::Down, Direction::Up][point % 2];
        // A wake-up that came late may have let the link go on; it cannot go back.
        let now = now.max(link.last);
        let look = || Sight::of(self.pool.get(frame.handle()));
        let accepted = link.carrier.send(now, direction, frame, look);
        if let Some(monitor) = &mut self.monitor {
            self.frames[frame.handle().0 as usize].entered = now;
            monitor.enter(point, now, u64::from(frame.bytes()), || link.carrier.waiting(now, direction));
            if accepted == Accepted::Dropped {
                monitor.dropped(point, now);
            }
        }
        match accepted {
            Accepted::Queued | Accepted::Next(_) => link.report[direction.index()].carry(frame),
            Accepted::Dropped => {
                link.report[direction.index()].lose(DropReason::Queue);
                self.pool.discard(frame.handle());
                self.mark(recorded, DropReason::Queue);
            }
        }
        self.drop_managed(point / 2);
    }

    /// A frame that is under way, with its bytes and its number in the capture.
    fn store(&mut self, packet: Packet, bytes: &[u8], recorded: Option<usize>) -> Frame {
        *self.pool.place() = packet;
        // Nobody asks where it goes, but queues by flow ask whose it is.
        let to =
            if packet.flow == FlowId::NONE { 0 } else { lasthop_sim::endpoint_index(packet.flow, packet.from.peer()) };
        let frame = self.pool.commit(to);
        let frame = match (packet.flow, bytes.get(ETHERNET..).and_then(reading::line)) {
            (FlowId::NONE, Some(line)) => frame.of_line(line),
            _ => frame,
        };
        let place = frame.handle().0 as usize;
        if place >= self.frames.len() {
            self.frames.resize_with(place + 1, Stored::default);
        }
        let stored = &mut self.frames[place];
        stored.bytes.clear();
        stored.bytes.extend_from_slice(bytes);
        stored.recorded = recorded;
        frame
    }

    /// Books what the managed queues of a link dropped.
    fn drop_managed(&mut self, index: usize) {
        while let Some((direction, frame, why)) = self.links[index].carrier.take_dropped() {
            if why == DropReason::Channel {
                // What the link gave up has used it.
                self.lose(index, direction, frame.handle());
                continue;
            }
            if let Some(monitor) = &mut self.monitor {
                monitor.dropped(2 * index + direction.index(), self.links[index].last);
            }
            let report = &mut self.links[index].report[direction.index()];
            report.withdraw(frame);
            report.lose(why);
            self.pool.discard(frame.handle());
            let recorded = self.frames.get(frame.handle().0 as usize).and_then(|stored| stored.recorded);
            self.mark(recorded, why);
        }
    }

    /// Writes a queue's mark into the packet and its bytes.
    fn mark_congestion(&mut self, handle: Handle) {
        self.pool.get_mut(handle).ecn = Ecn::Ce;
        if let Some(bytes) = self.frames.get_mut(handle.0 as usize).and_then(|stored| stored.bytes.get_mut(ETHERNET..))
        {
            mark_congestion(bytes);
        }
    }

    fn mark(&mut self, recorded: Option<usize>, reason: DropReason) {
        if let (Some(capture), Some(recorded)) = (&mut self.capture, recorded) {
            capture.mark_dropped(recorded, reason);
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        let turned = self.turned.front().map(|(due, ..)| *due);
        turned.or_else(|| self.next().map(|(at, _)| at))
    }

    /// What is next, and when.
    fn next(&self) -> Option<(Instant, Next)> {
        let links = self.links.iter().enumerate().filter(|(_, link)| link.gate == Gate::Open);
        let links = links.filter_map(|(index, link)| Some((link.carrier.next_event()?, Next::Link(index))));
        let elements = self.elements.iter().map(|element| element.as_ref()?.poll_deadline()).enumerate();
        let elements = elements.filter_map(|(point, at)| Some((at?, Next::Element(point))));
        let moves = self.roaming.as_ref().and_then(|roaming| roaming.next()).map(|at| (at, Next::Move));
        links.chain(elements).chain(self.late.next().map(|at| (at, Next::Late))).chain(moves).min()
    }

    /// Acts on everything that is due by `now`, in order of time, and hands out what arrives.
    ///
    /// # Errors
    ///
    /// Those of `deliver`, and of changing routes, after which the rest waits for the next call.
    pub fn advance(&mut self, now: Instant, mut deliver: impl FnMut(Arrival<'_>) -> io::Result<()>) -> io::Result<()> {
        loop {
            while let Some((due, point, bytes)) = self.turned.pop_front() {
                deliver(Arrival { point, due, bytes: &bytes })?;
            }
            let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) else { return Ok(()) };
            let index = match next {
                Next::Link(index) => index,
                Next::Element(point) => {
                    self.through(at, point, |element, now, given| element.handle_timeout(now, given));
                    continue;
                }
                Next::Late => {
                    match self.late.release(at) {
                        Some((point, handle)) if self.links[point / 2].gate == Gate::Closed => {
                            self.lose_at_handoff(point ^ 1, handle);
                        }
                        Some((point, handle)) => self.arrive(at, point, handle, &mut deliver)?,
                        None => {}
                    }
                    continue;
                }
                Next::Move => {
                    self.move_host(at)?;
                    continue;
                }
            };
            let link = &mut self.links[index];
            link.last = link.last.max(at);
            let sent = link.carrier.advance(at);
            self.drop_managed(index);
            let Some((direction, sent)) = sent else { continue };
            self.carried += 1;
            let handle = sent.frame.handle();
            if self.monitor.is_some()
                && let Some(stored) = self.frames.get_mut(handle.0 as usize)
            {
                stored.started = sent.start();
            }
            if sent.frame.is_marked() {
                self.links[index].report[direction.index()].marks += 1;
                self.mark_congestion(handle);
            }
            let link = &mut self.links[index];
            let errors = &mut link.errors[direction.index()];
            let crossing =
                if errors.strike() { errors.judge(&sent, self.pool.get_mut(handle)) } else { Crossing::Arrives };
            let far = 2 * index + direction.other().index();
            match crossing {
                Crossing::Arrives => self.arrive(at, far, handle, &mut deliver)?,
                Crossing::Marked => {
                    self.mark_congestion(handle);
                    self.arrive(at, far, handle, &mut deliver)?;
                }
                Crossing::Late(by) => self.delay(at + by, far, handle),
                Crossing::Twice(by) => {
                    self.links[index].report[direction.index()].duplicates += 1;
                    let copy = self.copy(handle);
                    self.delay(at + by, far, handle);
                    self.delay(at + by, far, copy);
                }
                Crossing::Lost => self.lose(index, direction, handle),
            }
        }
    }

    /// A frame arrives at `point` later than the others.
    fn delay(&mut self, until: Instant, point: Point, handle: Handle) {
        if self.pool.get(handle).ecn == Ecn::Ce {
            self.mark_congestion(handle);
        }
        self.late.hold(until, (point, handle));
    }

    /// A copy of a frame that is under way. It is not in the capture where it was sent: nobody sent it.
    fn copy(&mut self, handle: Handle) -> Handle {
        let packet = *self.pool.get(handle);
        let (bytes, entered, started) = self
            .frames
            .get(handle.0 as usize)
            .map_or_else(Default::default, |stored| (stored.bytes.clone(), stored.entered, stored.started));
        let copy = self.store(packet, &bytes, None).handle();
        if let Some(stored) = self.frames.get_mut(copy.0 as usize) {
            (stored.entered, stored.started) = (entered, started);
        }
        copy
    }

    /// The channel destroys a frame.
    fn lose(&mut self, link: usize, direction: Direction, handle: Handle) {
        let lossy = &mut self.links[link];
        lossy.report[direction.index()].lose(DropReason::Channel);
        if let Some(monitor) = &mut self.monitor {
            monitor.lost(2 * link + direction.index(), lossy.last);
        }
        let packet = self.pool.take(handle);
        self.counts.lost(&packet);
        let recorded = self.frames.get(handle.0 as usize).and_then(|stored| stored.recorded);
        self.mark(recorded, DropReason::Channel);
    }

    fn arrive(
        &mut self,
        due: Instant,
        point: Point,
        handle: Handle,
        deliver: &mut impl FnMut(Arrival<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let packet = self.pool.take(handle);
        if self.elements[point].is_none() {
            self.notice(due, point, &packet);
        }
        let Some(stored) = self.frames.get_mut(handle.0 as usize) else { return Ok(()) };
        if packet.integrity != Default::default()
            && let Some(last) = stored.bytes.last_mut()
        {
            // A receiver that looks sees it by the checksum; others drop it. A second damage does not make up for the first.
            *last = last.wrapping_add(1);
        }
        self.counts.received(point, &packet);
        if let Some(monitor) = &mut self.monitor {
            monitor.arrive(point ^ 1, due, u64::from(packet.wire_len()), stored.entered, stored.started);
        }
        if let Some(capture) = self.capture.as_mut().filter(|_| is_packet(&packet)) {
            let passage = Passage { time: due, point, outbound: false, cause: packet.cause, dropped: None };
            capture.add(passage, &stored.bytes);
        }
        if self.elements[point].is_some() {
            let bytes = take(&mut stored.bytes);
            self.through(due, point, |element, now, given| element.take(now, Port::WIRELESS, &packet, &bytes, given));
            return Ok(());
        }
        deliver(Arrival { point, due, bytes: &stored.bytes })
    }

    /// Ends the run.
    pub fn finish(self) -> Carried {
        let mut flows = self.counts.settle();
        for (flow, told) in flows.iter_mut().zip(&self.told) {
            flow.sender.recoveries += told.sender.recoveries;
            flow.sender.relay_timeouts += told.sender.relay_timeouts;
            flow.acks_reconstructed += told.acks_reconstructed;
        }
        Carried {
            links: self.links.iter().map(|link| link.report).collect(),
            flows,
            frames: self.carried,
            moves: self.roaming.map(|roaming| roaming.finish()),
            capture: self.capture,
            monitor: self.monitor,
        }
    }
}

/// Whether a frame brings a packet, rather than being between the ends of a link alone.
const fn is_packet(packet: &Packet) -> bool {
    !matches!(packet.body, Body::Control | Body::Coded(_) | Body::Report(_))
}

impl Link {
    fn new(spec: &LinkSpec, root: Root) -> Self {
        let errors = [Direction::Down, Direction::Up].map(|direction| Errors::new(spec, direction, root));
        Self {
            carrier: Carrier::new(spec, root),
            gate: Gate::Open,
            errors,
            report: [PathReport::default(); 2],
            last: Instant::ZERO,
        }
    }
}

#[cfg(test)]
#[path = "air_tests.rs"]
mod tests;
