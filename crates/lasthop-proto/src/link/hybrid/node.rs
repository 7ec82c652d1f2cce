//! An end of a hop as a node: the simulator's packets in, frames out.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{
    Bundle, Carried, Feedback, Frame, Header, Hop, HopConfig, Outgoing, PacketNumber, PathId, Symbol, Why, Window,
    expand,
};
use crate::event::Event;
use crate::node::{self, Disposition, Node, Port, Trigger};
use crate::packet::headers::{LinkHeader, LinkProtocol};
use crate::packet::{Body, Cause, FlowId, Integrity, LinkReport, Packet, Priority};
use crate::time::{Duration, Instant};

/// One end of a two-ended link. Packets that arrive at [`Port::WIRED`] are sent over the hop as frames, frames that
/// arrive at [`Port::WIRELESS`], or at a port after it if there are several paths, are converted back. The other end must
/// be one too.
#[derive(Clone, Debug)]
pub struct TwoEnded<P: Carried = ()> {
    hop: Hop<Packet<P>>,
    /// Packets that bypass the protocol.
    past: VecDeque<(Port, Packet<P>)>,
    /// Flows that bypass the protocol.
    flows: Vec<FlowId>,
}

impl TwoEnded<()> {
    /// Returns an end for packets without bytes, as simulators use, as a trait object compiled and optimised in this
    /// crate.
    pub fn boxed(config: HopConfig, bundle: &Bundle, past: Vec<FlowId>) -> Box<dyn Node<()>> {
        Box::new(Self::new(config).over(bundle).passing(past))
    }
}

impl<P: Carried> TwoEnded<P> {
    /// Returns an end that has sent and received nothing.
    pub fn new(config: HopConfig) -> Self {
        Self { hop: Hop::new(config), past: VecDeque::new(), flows: Vec::new() }
    }

    /// Adds paths.
    pub fn over(mut self, bundle: &Bundle) -> Self {
        self.hop.add_paths(bundle);
        self
    }

    /// Lets these flows bypass the protocol: they share the link, and are not repaired.
    pub fn passing(mut self, flows: Vec<FlowId>) -> Self {
        self.flows = flows;
        self
    }

    /// Returns the state machine.
    pub fn hop(&self) -> &Hop<Packet<P>> {
        &self.hop
    }

    /// Returns the state machine for events that occur only on real networks: restarts of ends, and changes of path.
    pub fn hop_mut(&mut self) -> &mut Hop<Packet<P>> {
        &mut self.hop
    }

    fn on_wireless(&mut self, now: Instant, path: PathId, mut packet: Packet<P>) -> Disposition {
        let Some(header) = packet.link.read(LinkProtocol::TWO_ENDED) else {
            self.past.push_back((Port::WIRED, packet));
            return Disposition::Forwarded;
        };
        // Frames are authenticated: a corrupted one counts as lost.
        let whole = packet.integrity == Integrity::Intact;
        let Some(header) = Header::from_bytes(header).filter(|_| whole) else { return Disposition::Dropped };
        let bytes = packet.wire_len().saturating_sub(self.hop.header(path).into());
        let (packets, symbols) = self.hop.near(path);
        let symbol = |low: u32| Symbol(expand(low, symbols.0));
        let (number, frame) = match header {
            Header::Symbol { packet: number, symbol: low, label } => {
                self.unwrap(path, &mut packet);
                (number, Frame::Data(symbol(low), label, packet))
            }
            Header::Repair { packet: number, first, count, key } => {
                let Body::Coded(image) = packet.body else { return Disposition::Dropped };
                let sum = P::join(image, packet.payload);
                (number, Frame::Repair(Window { first: symbol(first), count }, key, sum))
            }
            Header::Feedback { packet: number } => {
                let Body::Report(report) = &packet.body else { return Disposition::Dropped };
                let about = PathId(report.path);
                if !self.hop.has_path(about) {
                    return Disposition::Dropped;
                }
                (number, Frame::Feedback(report.feedback(self.hop.near_own(about))))
            }
            Header::Floor { packet: number, symbol: low } => (number, Frame::Floor(symbol(low))),
            Header::Probe { packet: number } => (number, Frame::Probe),
            Header::Bare { packet: number } => {
                self.unwrap(path, &mut packet);
                (number, Frame::Bare(packet))
            }
        };
        let carries = matches!(frame, Frame::Data(..) | Frame::Bare(_));
        self.hop.handle_frame(now, path, PacketNumber(expand(number, packets.0)), bytes, frame);
        // A packet without a predecessor to wait for is passed on at once, by the same path.
        if carries { Disposition::Held } else { Disposition::Absorbed }
    }

    /// Removes this hop's header from a packet.
    fn unwrap(&self, path: PathId, packet: &mut Packet<P>) {
        packet.link.pop();
        packet.header_len = packet.header_len.saturating_sub(self.hop.header(path));
        packet.priority = Priority::Normal;
    }

    /// Writes a frame into `place` as a packet.
    fn put(&self, outgoing: Outgoing<Packet<P>>, place: &mut Packet<P>) {
        let Outgoing { path, packet: PacketNumber(number), frame, why, bytes } = outgoing;
        let packet = number as u32;
        let cause = match why {
            Why::First | Why::Control => Cause::LinkControl,
            Why::Resend => Cause::LinkNack,
            Why::Probe => Cause::LinkTimer,
            Why::Redundancy => Cause::LinkRepair,
        };
        let control = |header: Header, body: Body, payload: P| Packet {
            flow: FlowId::NONE,
            cause,
            header_len: bytes.min(u16::MAX.into()) as u16,
            body,
            link: header.into(),
            payload,
            ..Packet::default()
        };
        match frame {
            Frame::Data(Symbol(symbol), label, item) => {
                let cause = if why == Why::First { item.cause } else { cause };
                *place = Packet { cause, ..item };
                self.wrap(path, Header::Symbol { packet, symbol: symbol as u32, label }, place);
            }
            Frame::Repair(Window { first, count }, key, sum) => {
                let (image, payload) = P::part(sum);
                let header = Header::Repair { packet, first: first.0 as u32, count, key };
                *place = control(header, Body::Coded(image), payload);
            }
            Frame::Feedback(feedback) => {
                let body = Body::Report(LinkReport::from(feedback));
                *place = control(Header::Feedback { packet }, body, P::default());
            }
            Frame::Floor(Symbol(symbol)) => {
                *place = control(Header::Floor { packet, symbol: symbol as u32 }, Body::Control, P::default());
            }
            Frame::Probe => *place = control(Header::Probe { packet }, Body::Control, P::default()),
            Frame::Bare(item) => {
                *place = item;
                self.wrap(path, Header::Bare { packet }, place);
            }
        }
    }

    /// Adds this hop's header to a packet.
    fn wrap(&self, path: PathId, header: Header, packet: &mut Packet<P>) {
        packet.header_len = packet.header_len.saturating_add(self.hop.header(path));
        packet.priority = Priority::Normal;
        header.put(&mut packet.link);
    }
}

impl From<Feedback> for LinkReport {
    fn from(feedback: Feedback) -> Self {
        Self {
            largest: feedback.largest.0 as u32,
            delay: (feedback.delay.as_nanos() / 1000).min(u32::MAX.into()) as u32,
            received: split(feedback.received),
            floor: feedback.floor.0 as u32,
            beyond: split(feedback.beyond),
            delivered: feedback.delivered,
            useful: feedback.useful,
            marked: feedback.marked,
            arrived: feedback.arrived,
            back: feedback.back,
            path: feedback.path.0,
        }
    }
}

impl LinkReport {
    /// Returns the report's contents as feedback, with numbers restored next to the given ones.
    pub fn feedback(&self, (packet, symbol): (PacketNumber, Symbol)) -> Feedback {
        Feedback {
            largest: PacketNumber(expand(self.largest, packet.0)),
            delay: Duration::from_micros(self.delay.into()),
            received: join(self.received),
            floor: Symbol(expand(self.floor, symbol.0)),
            beyond: join(self.beyond),
            delivered: self.delivered,
            useful: self.useful,
            marked: self.marked,
            arrived: self.arrived,
            back: self.back,
            path: PathId(self.path),
        }
    }
}

fn split(bits: u128) -> [u32; 4] {
    [0, 32, 64, 96].map(|shift| (bits >> shift) as u32)
}

fn join(words: [u32; 4]) -> u128 {
    words.into_iter().rev().fold(0, |bits, word| bits << 32 | u128::from(word))
}

impl<P: Carried> Node<P> for TwoEnded<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        if let Some(path) = port.0.checked_sub(Port::WIRELESS.0) {
            let path = u8::try_from(path).ok().map(PathId).filter(|path| self.hop.has_path(*path));
            return path.map_or(Disposition::Dropped, |path| self.on_wireless(now, path, packet));
        }
        let carried = !self.flows.contains(&packet.flow);
        if carried && packet.integrity == Integrity::Intact && packet.link.has_room(Header::LEN) {
            self.hop.handle_item(now, packet);
            return Disposition::Held;
        }
        // Corruption before this hop is not this protocol's concern.
        self.past.push_back((Port::WIRELESS, packet));
        Disposition::Forwarded
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.hop.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<P>) -> Option<(Port, node::Why)> {
        if let Some((port, packet)) = self.past.pop_front() {
            *place = packet;
            return Some((port, node::Why::Given));
        }
        if self.hop.poll_item_into(now, place) {
            return Some((Port::WIRED, node::Why::Released));
        }
        let outgoing = self.hop.poll_frame(now)?;
        let carries = matches!(outgoing.frame, Frame::Data(..));
        let why = match outgoing.why {
            Why::First => node::Why::Released,
            Why::Resend if carries => node::Why::Repair(Trigger::Hole),
            Why::Probe | Why::Redundancy if carries => node::Why::Repair(Trigger::Timer),
            Why::Resend | Why::Probe | Why::Redundancy | Why::Control => node::Why::Control,
        };
        let port = Port(Port::WIRELESS.0 + u16::from(outgoing.path.0));
        self.put(outgoing, place);
        Some((port, why))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.hop.poll_deadline()
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}
