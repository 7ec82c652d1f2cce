//! The emulated links without their I/O: the simulator's state machines, applied to real frames.

mod moves;
mod reading;
mod sides;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::take;
use std::sync::Arc;

use lasthop_proto::node::Port;
use lasthop_proto::packet::{Body, Ecn, FlowId, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::time::Instant;
use lasthop_sim::LegId;
use lasthop_sim::link::{Accepted, Advanced, Carrier, Crossing, Direction, Errors, Frame, Held, Media};
use lasthop_sim::measure::{FlowReport, PathReport, Reporter};
use lasthop_sim::network::LinkSpec;
use lasthop_sim::pool::{Handle, PacketPool};
use lasthop_sim::trace::DropReason;
use lasthop_wire::{Route, mark_congestion};

use self::moves::Roaming;
pub use self::moves::{Crossed, Moves, SetRoute};
use self::sides::Sides;
use super::capture::{Capture, Passage};
use super::counts::Counts;
use super::datagrams::Format;
use super::elements::{Blueprint, ETHERNET, Given, IPV4, PortElement};
use super::monitor::Monitor;
use super::plan::{Plan, Point};
use super::quic::register::Register;

/// All links of a lab, with their elements.
pub struct Air {
    links: Vec<Link>,
    /// Carriers by point, and the media that they share.
    carriers: Vec<Carrier>,
    media: Media,
    /// Time of the last event of each carrier, by the point under which it is filed. Later frames and events must not
    /// precede it.
    last: Vec<Instant>,
    flows: BTreeMap<Route, (FlowId, Side)>,
    /// Formats of the flows of datagrams.
    formats: Vec<Option<Format>>,
    /// Contents of the datagrams of QUIC flows.
    quic: Arc<Register>,
    pool: PacketPool,
    /// Stored frames by handle, with their numbers in the capture.
    frames: Vec<Stored>,
    counts: Counts,
    /// Elements between routers and links, by point.
    elements: Vec<Option<Box<dyn PortElement>>>,
    /// Links that these elements use besides their own.
    sides: Sides,
    /// Frames that elements returned to their routers.
    turned: VecDeque<(Instant, Point, Vec<u8>)>,
    /// Delayed frames, with the points where they arrive.
    late: Held<(Point, Handle)>,
    /// Counts of events that elements reported, per flow.
    told: Vec<FlowReport>,
    /// Capture at all points; `None` if disabled.
    capture: Option<Capture>,
    carried: u64,
    /// Traffic on the links over time; `None` if disabled.
    monitor: Option<Box<Monitor>>,
    /// The moving host, if any.
    roaming: Option<Box<Roaming>>,
}

/// Next event: on a link, at a point, or of a moving host. Links precede elements, since an element handles frames that
/// arrived before its own timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Carrier(Point),
    Element(Point),
    Late,
    Move,
}

/// State of a link for traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gate {
    Open,
    /// Cell of a station where the moving host is absent.
    Closed,
}

#[derive(Default)]
struct Stored {
    bytes: Vec<u8>,
    recorded: Option<usize>,
    /// Times at which the frame was handed to the link, and at which its transmission began.
    entered: Instant,
    started: Instant,
}

struct Link {
    gate: Gate,
    errors: [Errors; 2],
    report: [PathReport; 2],
}

/// A frame that arrives.
pub struct Arrival<'f> {
    /// Point of arrival.
    pub point: Point,
    /// Time of arrival on the link's own clock.
    pub due: Instant,
    /// Frame with its Ethernet header.
    pub bytes: &'f [u8],
}

/// Traffic of the links.
pub struct Carried {
    /// Reports per link: down, up; without useful bytes.
    pub links: Vec<[PathReport; 2]>,
    /// Reports per flow: retransmissions and losses, and events of relays.
    pub flows: Vec<FlowReport>,
    /// Number of frames that links carried.
    pub frames: u64,
    /// Results of a host's handoffs.
    pub moves: Option<Moves>,
    /// Capture at all points.
    pub capture: Option<Capture>,
    /// Traffic on the links over time.
    pub monitor: Option<Box<Monitor>>,
}

impl Air {
    /// Creates links without frames. Errors draw from the same streams as in the simulator under `root`.
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
        let (carriers, media) = Carrier::all(plan.network, root);
        Self {
            links,
            last: vec![Instant::ZERO; carriers.len()],
            carriers,
            media,
            flows: plan.routes(),
            formats: plan.network.flows.iter().map(|flow| Format::of(&flow.app)).collect(),
            quic: Arc::default(),
            pool: PacketPool::default(),
            frames: Vec::new(),
            counts: Counts::new(plan),
            elements,
            sides: Sides::new(plan),
            turned: VecDeque::new(),
            late: Held::default(),
            told: vec![FlowReport::default(); plan.network.flows.len()],
            capture,
            carried: 0,
            monitor: None,
            roaming: Roaming::new(plan, root, blueprints),
        }
    }

    /// Sets the register of datagram contents that the ends of QUIC flows use.
    pub fn with_quic(self, quic: Arc<Register>) -> Self {
        Self { quic, ..self }
    }

    /// Adds a monitor.
    pub fn with_monitor(self, monitor: Monitor) -> Self {
        Self { monitor: Some(Box::new(monitor)), ..self }
    }

    /// Takes a frame that the node at `point` sent at `now`, or that a router handed to its agent (agents' ports follow
    /// all points). Frames other than IPv4 do not belong to the scenario and are dropped.
    pub fn send(&mut self, now: Instant, point: Point, bytes: &[u8]) {
        self.send_part(now, point, bytes, 0);
    }

    /// Takes a frame like [`Air::send`] that is a part of the super-segment with this number; 0 for none.
    pub fn send_part(&mut self, now: Instant, point: Point, bytes: &[u8], super_segment: u8) {
        if bytes.get(12..ETHERNET) != Some(&IPV4) || self.take_at_agent(now, point, bytes) {
            return;
        }
        if self.elements[point].is_some() {
            let packet = self.read(&bytes[ETHERNET..]);
            self.through(now, point, |element, now, given| element.take(now, Port::WIRED, &packet, bytes, given));
        } else {
            let packet = Packet { super_segment, ..self.read(&bytes[ETHERNET..]) };
            self.launch_packet(now, point, packet, bytes);
        }
    }

    /// Runs `act` on the element at a point, and forwards its output.
    fn through(&mut self, now: Instant, point: Point, act: impl FnOnce(&mut dyn PortElement, Instant, &mut Given)) {
        // After a late wake-up, the link may already have advanced.
        let now = now.max(self.last_at(point));
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
        for (port, packet, bytes) in given.link_frames {
            self.launch_packet(now, self.sides.exit(point, port), packet, &bytes);
        }
    }

    /// Sends a frame into the link at `point`.
    fn launch(&mut self, now: Instant, point: Point, bytes: &[u8]) {
        let packet = self.read(&bytes[ETHERNET..]);
        self.launch_packet(now, point, packet, bytes);
    }

    /// Sends a frame into the link at `point`, with `packet` as its description for the mechanisms. Control frames are
    /// not recorded.
    fn launch_packet(&mut self, now: Instant, point: Point, mut packet: Packet, bytes: &[u8]) {
        if is_packet(&packet) && packet.cause.is_local_retransmission() {
            self.counts.repeated(&packet);
        } else if is_packet(&packet) {
            self.counts.sent(point, &mut packet);
        }
        self.put(now, point, packet, bytes);
    }

    /// Sends a frame that is already counted into the link at `point`.
    fn put(&mut self, now: Instant, point: Point, packet: Packet, bytes: &[u8]) {
        let recorded = self.capture.as_mut().filter(|_| is_packet(&packet)).and_then(|capture| {
            capture.add(Passage { time: now, point, outbound: true, cause: packet.cause, dropped: None }, bytes)
        });
        let frame = self.store(packet, bytes, recorded);
        if self.links[point / 2].gate == Gate::Closed {
            return self.miss(now, point, frame);
        }
        // After a late wake-up, the link may already have advanced. Its time cannot decrease.
        let now = now.max(self.last_at(point));
        let look = || reading::view(self.pool.get(frame.handle()), bytes.get(ETHERNET..).unwrap_or_default());
        let carrier = &mut self.carriers[point];
        let (accepted, _) = carrier.enqueue(&mut self.media, now, leg(point), frame, look);
        if let Some(monitor) = &mut self.monitor {
            self.frames[frame.handle().0 as usize].entered = now;
            monitor.enter(point, now, u64::from(frame.bytes()), || carrier.waiting(&self.media, now));
            if accepted == Accepted::Dropped {
                monitor.dropped(point, now);
            }
        }
        let report = &mut self.links[point / 2].report[point % 2];
        match accepted {
            Accepted::Queued | Accepted::Next(_) => report.carry(frame),
            Accepted::Dropped => {
                report.lose(DropReason::Queue);
                self.pool.discard(frame.handle());
                self.mark(recorded, DropReason::Queue);
            }
        }
        self.drop_managed(point);
    }

    /// Returns the time of the last event of a point's carrier.
    fn last_at(&self, point: Point) -> Instant {
        self.last[self.carriers[point].source(&self.media, leg(point)).0 as usize]
    }

    /// Stores a frame in flight, with its bytes and its number in the capture.
    fn store(&mut self, packet: Packet, bytes: &[u8], recorded: Option<usize>) -> Frame {
        *self.pool.place() = packet;
        // The destination is not used for forwarding, but queues with flow isolation need the flow.
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

    /// Counts the drops of managed queues of a point's carrier.
    fn drop_managed(&mut self, point: Point) {
        while let Some((id, frame, why)) = self.carriers[point].take_dropped(&mut self.media, leg(point)) {
            let at = id.0 as usize;
            if why == DropReason::Channel {
                // Frames that the link gave up on have used it.
                self.lose(at, frame.handle());
                continue;
            }
            let now = self.last_at(at);
            if let Some(monitor) = &mut self.monitor {
                monitor.dropped(at, now);
            }
            let report = &mut self.links[at / 2].report[at % 2];
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

    /// Returns the time of the next event.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let turned = self.turned.front().map(|(due, ..)| *due);
        turned.or_else(|| self.next().map(|(at, _)| at))
    }

    /// Returns the next event and its time.
    fn next(&self) -> Option<(Instant, Next)> {
        let open = self.carriers.iter().enumerate().filter(|(point, _)| self.links[point / 2].gate == Gate::Open);
        let carriers = open.filter_map(|(point, carrier)| {
            Some((carrier.poll_deadline(&self.media, leg(point))?, Next::Carrier(point)))
        });
        let elements = self.elements.iter().map(|element| element.as_ref()?.poll_deadline()).enumerate();
        let elements = elements.filter_map(|(point, at)| Some((at?, Next::Element(point))));
        let moves = self.roaming.as_ref().and_then(|roaming| roaming.next()).map(|at| (at, Next::Move));
        carriers.chain(elements).chain(self.late.next().map(|at| (at, Next::Late))).chain(moves).min()
    }

    /// Processes all events due by `now` in order of time, and delivers frames that arrive.
    ///
    /// # Errors
    ///
    /// Returns the errors of `deliver` and of changing routes. The remaining events wait for the next call.
    pub fn advance(&mut self, now: Instant, mut deliver: impl FnMut(Arrival<'_>) -> io::Result<()>) -> io::Result<()> {
        loop {
            while let Some((due, point, bytes)) = self.turned.pop_front() {
                deliver(Arrival { point, due, bytes: &bytes })?;
            }
            let Some((at, next)) = self.next().filter(|(at, _)| *at <= now) else { return Ok(()) };
            let source = match next {
                Next::Carrier(point) => point,
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
            self.last[source] = self.last[source].max(at);
            let Advanced { arrival, .. } = self.carriers[source].advance(&mut self.media, at, leg(source));
            self.drop_managed(source);
            let Some((LegId(id), sent)) = arrival else { continue };
            let point = id as usize;
            self.carried += 1;
            let handle = sent.frame.handle();
            if self.monitor.is_some()
                && let Some(stored) = self.frames.get_mut(handle.0 as usize)
            {
                stored.started = sent.start();
            }
            if sent.frame.is_marked() {
                self.links[point / 2].report[point % 2].marks += 1;
                self.mark_congestion(handle);
            }
            let errors = &mut self.links[point / 2].errors[point % 2];
            let crossing =
                if errors.strike() { errors.judge(&sent, self.pool.get_mut(handle)) } else { Crossing::Arrives };
            let far = point ^ 1;
            match crossing {
                Crossing::Arrives => self.arrive(at, far, handle, &mut deliver)?,
                Crossing::Marked => {
                    self.mark_congestion(handle);
                    self.arrive(at, far, handle, &mut deliver)?;
                }
                Crossing::Late(by) => self.delay(at + by, far, handle),
                Crossing::Twice(by) => {
                    self.links[point / 2].report[point % 2].duplicates += 1;
                    let copy = self.copy(handle);
                    self.delay(at + by, far, handle);
                    self.delay(at + by, far, copy);
                }
                Crossing::Lost => self.lose(point, handle),
            }
        }
    }

    /// Holds a frame for `point` until its extra delay has passed.
    fn delay(&mut self, until: Instant, point: Point, handle: Handle) {
        if self.pool.get(handle).ecn == Ecn::Ce {
            self.mark_congestion(handle);
        }
        self.late.hold(until, (point, handle));
    }

    /// Duplicates a frame in flight. The capture has no record of the copy at the sender, which did not send it.
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

    /// Drops a frame from `point` that the channel destroys.
    fn lose(&mut self, point: Point, handle: Handle) {
        self.links[point / 2].report[point % 2].lose(DropReason::Channel);
        let now = self.last_at(point);
        if let Some(monitor) = &mut self.monitor {
            monitor.lost(point, now);
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
        let (at, port) = self.sides.entrance(point);
        if self.elements[at].is_none() {
            self.notice(due, point, &packet);
        }
        let Some(stored) = self.frames.get_mut(handle.0 as usize) else { return Ok(()) };
        if packet.integrity != Default::default()
            && let Some(last) = stored.bytes.last_mut()
        {
            // Receivers that check see the damage in the checksum; others drop the frame. A second damage does not
            // cancel the first.
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
        if self.elements[at].is_some() {
            let bytes = take(&mut stored.bytes);
            self.through(due, at, |element, now, given| element.take(now, port, &packet, &bytes, given));
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

/// Returns whether a frame contains a packet, in contrast to control frames between the ends of a link.
const fn is_packet(packet: &Packet) -> bool {
    !matches!(packet.body, Body::Control | Body::Coded(_) | Body::Report(_))
}

/// Returns the leg that begins at a point. Points are numbered as legs are.
const fn leg(point: Point) -> LegId {
    LegId(point as u32)
}

impl Link {
    fn new(spec: &LinkSpec, root: Root) -> Self {
        let errors = Direction::BOTH.map(|direction| Errors::new(spec, direction, root));
        Self { gate: Gate::Open, errors, report: [PathReport::default(); 2] }
    }
}

#[cfg(test)]
#[path = "air_tests.rs"]
mod tests;
