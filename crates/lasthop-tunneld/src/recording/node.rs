//! The simulator's node ([`TwoEnded`]), whose packets carry the tunnel's packets and combinations.

use lasthop_proto::link::hybrid::node::TwoEnded;
use lasthop_proto::link::hybrid::{
    Carried, Coded, Frame, Header, HopConfig, Image, Item, Label, PacketNumber, PathId, Symbol, TcpSight, Traffic,
    Window,
};
use lasthop_proto::node::{Node, Port};
use lasthop_proto::packet::headers::LinkHeaders;
use lasthop_proto::packet::{Body, Ecn, Flags, FlowId, HeaderForm, LinkReport, Segment, Side};
use lasthop_proto::time::Instant;

use super::{Decision, Head, Setting, Told};
use crate::frames::{self, Near, Own};
use crate::inner::packet::{Connection, Packet, Vector};

/// Content of a packet of the simulator.
#[derive(Clone, PartialEq, Default, Debug)]
enum Content {
    /// Feedback and other frames without content.
    #[default]
    Nothing,
    Packet(Packet),
    Sum(Vector),
}

type Outer = lasthop_proto::packet::Packet<Content>;

impl Carried for Content {
    type Coded = Vector;
    type Connection = Connection;

    fn encode(packet: &Outer, label: Label) -> Vector {
        marked(packet).map_or_else(Vector::zero, |packet| packet.encode(label))
    }

    fn decode(coded: &Vector) -> Option<(Outer, Label)> {
        let (packet, label) = Packet::decode(coded)?;
        Some((outer(packet), label))
    }

    fn part(coded: Vector) -> (Image, Self) {
        (Image::zero(), Self::Sum(coded))
    }

    fn join(_: Image, payload: Self) -> Vector {
        match payload {
            Self::Sum(sum) => sum,
            Self::Nothing | Self::Packet(_) => Vector::zero(),
        }
    }

    fn tcp(packet: &Outer) -> Option<TcpSight<Connection>> {
        match &packet.payload {
            Self::Packet(packet) => packet.tcp(),
            Self::Nothing | Self::Sum(_) => None,
        }
    }

    fn set_window(packet: &mut Outer, window: u16) {
        if let Self::Packet(packet) = &mut packet.payload {
            packet.set_window(window);
        }
    }

    fn is_bare(packet: &Outer) -> bool {
        matches!(&packet.payload, Self::Packet(packet) if packet.traffic() == Traffic::Bare)
    }
}

/// Converts a packet to the simulator's form, with the same flow, class, size and ECN field.
fn outer(packet: Packet) -> Outer {
    let (flow, bytes) = (packet.flow(), packet.bytes().len() as u32);
    let (header_len, len, body) = match packet.traffic() {
        Traffic::Stream | Traffic::Bare => (0, bytes, Body::Quic { number: 0, data: 0, form: HeaderForm::Short }),
        // Headers only.
        Traffic::Acknowledgment => {
            let flags = Flags::ACK;
            (bytes as u16, 0, Body::Tcp(Segment { flags, ..Segment::default() }))
        }
        Traffic::Call => (0, bytes, Body::Media { number: 0 }),
        Traffic::Datagram => (0, bytes, Body::Datagram { number: 0 }),
    };
    let from = if flow & 1 == 0 { Side::Initiator } else { Side::Acceptor };
    let ecn = packet.ecn();
    Outer {
        flow: FlowId(flow >> 1),
        from,
        ecn,
        header_len,
        len,
        body,
        payload: Content::Packet(packet),
        ..Outer::default()
    }
}

/// Returns the packet in the content, with the outer CE mark.
fn marked(packet: &Outer) -> Option<Packet> {
    let Content::Packet(inner) = &packet.payload else { return None };
    let mut inner = inner.clone();
    if packet.ecn == Ecn::Ce && !inner.is_marked() {
        inner.mark();
    }
    Some(inner)
}

/// Returns a packet whose head alone is known.
fn packet(head: &Head) -> Option<Packet> {
    Packet::arrived(&head.whole())
}

/// Node of one link.
pub(super) struct Player(TwoEnded<Content>);

/// Decision of a player.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Said {
    /// State of the deadline, for a recorded timeout.
    pub due: Due,
    pub decision: Decision,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    Yes,
    No,
}

impl Player {
    pub fn new(setting: &Setting) -> Self {
        let mut node = TwoEnded::new(setting.config.clone());
        node.hop_mut().tolerate(setting.lag);
        Self(node)
    }

    /// Returns the player's decision, or the reason why it cannot decide.
    pub fn play(&mut self, now: Instant, told: &Told) -> Result<Said, &'static str> {
        let Self(node) = self;
        let (mut due, mut decision) = (Due::Yes, Decision::default());
        match told {
            // A new player was created for it.
            Told::Begin(_) => {}
            Told::Anew(config, bundle) => {
                node.hop_mut().begin_anew(HopConfig::clone(config));
                node.hop_mut().add_paths(bundle);
            }
            Told::Path(path, header) => {
                if !node.hop().has_path(*path) {
                    return Err("the link has no such path");
                }
                node.hop_mut().on_new_path(*path, *header);
            }
            Told::Terms(path, terms) => {
                if !node.hop().has_path(*path) {
                    return Err("the link has no such path");
                }
                node.hop_mut().set_terms(*path, *terms);
            }
            Told::Packet { head, flow, traffic } => {
                let packet = packet(head).ok_or("not the head of a packet")?;
                node.handle_packet(now, Port::WIRED, outer(packet.told(*flow, *traffic)));
                // The link takes it later.
                return Ok(Said { due, decision });
            }
            Told::Frame { path, number, head } => {
                if !node.hop().has_path(*path) {
                    return Err("the link has no such path");
                }
                let frame = self.wrapped(*path, *number, head).ok_or("not the head of a frame")?;
                self.0.handle_packet(now, Port(Port::WIRELESS.0 + u16::from(path.0)), frame);
            }
            Told::Timeout => {
                // A driver calls when a deadline has passed, never earlier.
                if node.poll_deadline().is_none_or(|at| at > now) {
                    due = Due::No;
                }
                node.handle_timeout(now);
            }
            Told::Poll => {
                let mut packet = Outer::default();
                if let Some((port, _)) = node.poll_transmit(now, &mut packet) {
                    let path = port.0.checked_sub(Port::WIRELESS.0).map(|path| PathId(path as u8));
                    let sent = path.and_then(|path| Some((path, unwrapped(&packet)?)));
                    let (path, (number, head)) = sent.ok_or("the node sent something other than a link frame")?;
                    decision.frame = Some((path, number, head));
                }
                return Ok(Said { due, decision });
            }
            Told::Back => {
                let back = node.hop_mut().give_back(now);
                decision.back = back.iter().filter_map(marked).map(|packet| Head::of_packet(&packet)).collect();
            }
        }
        while let Some(item) = self.0.hop_mut().poll_item(now) {
            decision.items.extend(marked(&item).map(|packet| Head::of_packet(&packet)));
        }
        Ok(Said { due, decision })
    }

    /// Converts a received frame to the simulator's form.
    fn wrapped(&self, path: PathId, number: u32, head: &Head) -> Option<Outer> {
        let hop = self.0.hop();
        let near = Near { symbol: hop.near(PathId::FIRST).1, own_symbol: hop.near_own(PathId::FIRST).1 };
        let own = |path| hop.has_path(path).then(|| Own { next: hop.near_own(path).0, offset: 0 });
        let frame = frames::read(&head.whole(), near, own)?;
        let (mut body, mut payload, mut ecn) = (Body::Control, Content::Nothing, Ecn::NotEct);
        let mut carry = |packet: Packet| {
            ecn = packet.ecn();
            payload = Content::Packet(packet);
        };
        let header = match frame {
            Frame::Data(Symbol(symbol), label, packet) => {
                carry(packet);
                Header::Symbol { packet: number, symbol: symbol as u32, label }
            }
            Frame::Bare(packet) => {
                carry(packet);
                Header::Bare { packet: number }
            }
            Frame::Repair(Window { first: Symbol(first), count }, key, sum) => {
                (body, payload) = (Body::Coded(Image::zero()), Content::Sum(sum));
                Header::Repair { packet: number, first: first as u32, count, key }
            }
            Frame::Feedback(feedback) => {
                body = Body::Report(LinkReport::from(feedback));
                Header::Feedback { packet: number }
            }
            Frame::Floor(Symbol(symbol)) => Header::Floor { packet: number, symbol: symbol as u32 },
            Frame::Probe => Header::Probe { packet: number },
        };
        let (header_len, len) = (hop.header(path), head.len as u32);
        Some(Outer { ecn, header_len, len, body, link: LinkHeaders::from(header), payload, ..Outer::default() })
    }
}

/// Converts a frame that the node sent to the tunnel's form.
fn unwrapped(packet: &Outer) -> Option<(u32, Head)> {
    let (number, frame) = match Header::of(packet)? {
        Header::Symbol { packet: number, symbol, label } => {
            (number, Frame::Data(Symbol(symbol.into()), label, marked(packet)?))
        }
        Header::Bare { packet: number } => (number, Frame::Bare(marked(packet)?)),
        Header::Repair { packet: number, first, count, key } => {
            let Content::Sum(sum) = &packet.payload else { return None };
            (number, Frame::Repair(Window { first: Symbol(first.into()), count }, key, sum.clone()))
        }
        Header::Feedback { packet: number } => {
            let Body::Report(report) = &packet.body else { return None };
            let near = (PacketNumber(report.largest.into()), Symbol(report.floor.into()));
            (number, Frame::Feedback(report.feedback(near)))
        }
        Header::Floor { packet: number, symbol } => (number, Frame::Floor(Symbol(symbol.into()))),
        Header::Probe { packet: number } => (number, Frame::Probe),
    };
    Some((number, Head::of_frame(&frame)))
}
