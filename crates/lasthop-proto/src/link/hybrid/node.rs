//! An end of a hop as a node: the simulator's packets in, frames out.

use super::{Feedback, Frame, Hop, HopConfig, Outgoing, PacketNumber, Symbol, Why, Window, expand};
use crate::event::Event;
use crate::node::{Node, Port};
use crate::packet::{Body, Cause, FlowId, Integrity, LinkHeader, LinkReport, Packet, Priority};
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;

/// One end of a two-ended link. What comes in at [`Port::WIRED`] is brought over the hop, what comes in at
/// [`Port::WIRELESS`] is taken from it; the other end must be one too.
#[derive(Clone, Debug)]
pub struct TwoEnded {
    hop: Hop<Packet>,
    header: u16,
    /// What goes past the protocol.
    past: VecDeque<(Port, Packet)>,
}

impl TwoEnded {
    /// An end that has sent and received nothing.
    pub fn new(config: HopConfig) -> Self {
        Self { header: config.header, hop: Hop::new(config), past: VecDeque::new() }
    }

    /// The state machine.
    pub fn hop(&self) -> &Hop<Packet> {
        &self.hop
    }

    fn on_wireless(&mut self, now: Instant, packet: Packet) {
        let Some(header) = packet.link else {
            self.past.push_back((Port::WIRED, packet));
            return;
        };
        // Frames are authenticated: what is damaged did not arrive.
        if packet.integrity != Integrity::Intact {
            return;
        }
        let bytes = packet.wire_len().saturating_sub(self.header.into());
        let (packets, symbols) = self.hop.near();
        let symbol = |low: u32| Symbol(expand(low, symbols.0));
        let (number, frame) = match header {
            LinkHeader::Symbol { packet: number, symbol: low, label } => {
                let header_len = packet.header_len.saturating_sub(self.header);
                let item = Packet { link: None, header_len, priority: Priority::Normal, ..packet };
                (number, Frame::Data(symbol(low), label, item))
            }
            LinkHeader::Repair { packet: number, first, count, key } => {
                let Body::Coded(image) = packet.body else { return };
                (number, Frame::Repair(Window { first: symbol(first), count }, key, image))
            }
            LinkHeader::Feedback { packet: number } => {
                let Body::Report(report) = &packet.body else { return };
                (number, Frame::Feedback(self.feedback(report)))
            }
            LinkHeader::Floor { packet: number, symbol: low } => (number, Frame::Floor(symbol(low))),
            LinkHeader::Probe { packet: number } => (number, Frame::Probe),
            LinkHeader::Data(_) | LinkHeader::Ack(_) | LinkHeader::Nack(_) | LinkHeader::Skip(_) => return,
        };
        self.hop.receive(now, PacketNumber(expand(number, packets.0)), bytes, frame);
    }

    fn feedback(&self, report: &LinkReport) -> Feedback {
        let (packets, symbols) = self.hop.near_own();
        Feedback {
            largest: PacketNumber(expand(report.largest, packets.0)),
            delay: Duration::from_micros(report.delay.into()),
            received: join(report.received),
            floor: Symbol(expand(report.floor, symbols.0)),
            beyond: join(report.beyond),
            delivered: report.delivered,
            useful: report.useful,
        }
    }

    /// A frame as a packet.
    fn packet(&self, outgoing: Outgoing<Packet>) -> Packet {
        let Outgoing { packet: PacketNumber(number), frame, why, bytes } = outgoing;
        let packet = number as u32;
        let cause = match why {
            Why::First | Why::Control => Cause::LinkControl,
            Why::Resend => Cause::LinkNack,
            Why::Probe => Cause::LinkTimer,
            Why::Redundancy => Cause::LinkRepair,
        };
        let control = |link: LinkHeader, body: Body| Packet {
            flow: FlowId::NONE,
            cause,
            header_len: bytes.min(u16::MAX.into()) as u16,
            body,
            link: Some(link),
            ..Packet::default()
        };
        match frame {
            Frame::Data(Symbol(symbol), label, item) => {
                let link = Some(LinkHeader::Symbol { packet, symbol: symbol as u32, label });
                let header_len = item.header_len.saturating_add(self.header);
                let cause = if why == Why::First { item.cause } else { cause };
                Packet { link, header_len, cause, priority: Priority::Normal, ..item }
            }
            Frame::Repair(Window { first, count }, key, image) => {
                control(LinkHeader::Repair { packet, first: first.0 as u32, count, key }, Body::Coded(image))
            }
            Frame::Feedback(feedback) => {
                let report = LinkReport {
                    largest: feedback.largest.0 as u32,
                    delay: (feedback.delay.as_nanos() / 1000).min(u32::MAX.into()) as u32,
                    received: split(feedback.received),
                    floor: feedback.floor.0 as u32,
                    beyond: split(feedback.beyond),
                    delivered: feedback.delivered,
                    useful: feedback.useful,
                };
                control(LinkHeader::Feedback { packet }, Body::Report(report))
            }
            Frame::Floor(Symbol(symbol)) => control(LinkHeader::Floor { packet, symbol: symbol as u32 }, Body::Control),
            Frame::Probe => control(LinkHeader::Probe { packet }, Body::Control),
        }
    }
}

fn split(bits: u128) -> [u32; 4] {
    [0, 32, 64, 96].map(|shift| (bits >> shift) as u32)
}

fn join(words: [u32; 4]) -> u128 {
    words.into_iter().rev().fold(0, |bits, word| bits << 32 | u128::from(word))
}

impl Node<()> for TwoEnded {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet) {
        if port != Port::WIRED {
            self.on_wireless(now, packet);
        } else if packet.integrity == Integrity::Intact {
            self.hop.offer(now, packet);
        } else {
            // Damage done before this hop is none of its own.
            self.past.push_back((Port::WIRELESS, Packet { link: None, ..packet }));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.hop.on_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<Port> {
        if let Some((port, packet)) = self.past.pop_front() {
            *place = packet;
            return Some(port);
        }
        if let Some(packet) = self.hop.poll_item() {
            *place = packet;
            return Some(Port::WIRED);
        }
        let outgoing = self.hop.poll_frame(now)?;
        *place = self.packet(outgoing);
        Some(Port::WIRELESS)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.hop.deadline()
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        None
    }
}
