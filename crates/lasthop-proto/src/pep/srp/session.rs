//! One connection: TCP towards the end's own side, datagrams over the hop.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::SrpConfig;
use super::message::{Message, SessionHeader};
use crate::event::Event;
use crate::link::arq::Arq;
use crate::node::{Node, Port, Why};
use crate::packet::headers::{LinkHeader, LinkProtocol};
use crate::packet::{Body, Cause, FlowId, Packet, Side};
use crate::seq::Seq;
use crate::tcp::config::{Switch, TcpConfig};
use crate::tcp::{Connection, Setup, State, TickPhase};
use crate::time::Instant;

/// Side on which a connection began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// On this end's own side: `from` sent its SYN.
    Here { number: u16, from: Side },
    /// Beyond the hop.
    There { number: u16, from: Side },
}

/// State of the end of a stream in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Open,
    /// The other end of the hop has been notified of the end or the reset.
    Told,
}

/// A connection at one end of the hop.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub number: u16,
    flow: FlowId,
    /// Endpoint of the own side.
    pub own: Side,
    pub leg: Connection,
    repeat: Arq<()>,
    window: usize,
    segment: u32,
    buffer: u64,
    /// Bytes in each unacknowledged datagram, in order.
    unacknowledged: VecDeque<u32>,
    /// True if the other end knows of the connection.
    known_there: bool,
    /// Bytes of the own side's stream that were sent over the hop.
    passed: u64,
    /// Bytes of `passed` that the far endpoint has taken, as reported by the other end.
    taken_there: u64,
    /// Bytes that arrived over the hop.
    arrived: u64,
    /// Bytes of `arrived` that the own side has taken, as last reported to the other end.
    told: u64,
    ending: Ending,
    /// True if the own side has reset or given up, and the other end does not know.
    aborted: bool,
    datagrams: u32,
    /// Deadline under which the connection is filed.
    pub filed: Option<Instant>,
    /// Time to forget it.
    pub forget_at: Option<Instant>,
}

impl Session {
    pub fn new(flow: FlowId, start: Start, config: &SrpConfig, tcp: &Arc<TcpConfig>, phase: TickPhase) -> Self {
        let (number, own) = match start {
            Start::Here { number, from } => (number, from),
            Start::There { number, from } => (number, from.peer()),
        };
        let setup = Setup { flow, side: own.peer(), config: tcp.clone(), iss: Seq(0), phase, watch: Switch::Off };
        let mut leg = Connection::new(setup);
        let begins_here = matches!(start, Start::Here { .. });
        if begins_here {
            leg.listen()
        } else {
            leg.connect()
        }
        let repeat = config.repeat();
        Self {
            number,
            flow,
            own,
            leg,
            window: usize::from(repeat.window.max(1)),
            repeat: Arq::new(repeat),
            segment: tcp.common.mss.clamp(1, config.buffer.max(1)),
            buffer: u64::from(config.buffer.max(1)),
            unacknowledged: VecDeque::new(),
            known_there: !begins_here,
            passed: 0,
            taken_there: 0,
            arrived: 0,
            told: 0,
            ending: Ending::Open,
            aborted: false,
            datagrams: 0,
            filed: None,
            forget_at: None,
        }
    }

    pub fn waiting(&self) -> u64 {
        self.arrived - self.leg.acked()
    }

    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    pub fn poll_deadline(&self) -> Option<Instant> {
        [self.leg.poll_deadline(), self.repeat.poll_deadline(), self.forget_at].into_iter().flatten().min()
    }

    /// Returns whether the own side's connection is over, and the other end knows.
    pub fn is_over(&self) -> bool {
        self.leg.state() == State::Closed && !self.aborted && self.unacknowledged.is_empty()
    }

    pub fn take_segment(&mut self, now: Instant, packet: Packet) {
        self.leg.handle_packet(now, Port::ONLY, packet);
    }

    pub fn take_datagram(&mut self, now: Instant, packet: Packet) {
        self.repeat.handle_packet(now, Port::WIRELESS, packet);
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.leg.handle_timeout(now);
        self.repeat.handle_timeout(now);
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        let (_, event) = self.leg.poll_event()?;
        if event == Event::Aborted && self.ending == Ending::Open {
            self.aborted = true;
        }
        Some(event)
    }

    /// Hands over all available data, in both directions.
    pub fn work(&mut self, now: Instant, out: &mut VecDeque<(Port, Why, Packet)>) {
        loop {
            self.settle();
            self.offer(now);
            let mut any = false;
            let mut packet = Packet::default();
            while let Some((port, why)) = self.repeat.poll_transmit(now, &mut packet) {
                any = true;
                if port == Port::WIRELESS {
                    out.push_back((port, own(why), self.stamped(packet)));
                } else {
                    self.take_message(&packet);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Removes acknowledged data from the own side's receive buffer.
    fn settle(&mut self) {
        let left = self.repeat.unacknowledged() + self.repeat.waiting();
        let mut bytes = 0;
        while self.unacknowledged.len() > left {
            bytes += u64::from(self.unacknowledged.pop_front().unwrap_or_default());
            self.known_there = true;
        }
        if bytes > 0 {
            self.leg.read(bytes);
        }
    }

    /// Puts data that may be sent into datagrams.
    fn offer(&mut self, now: Instant) {
        if self.aborted {
            self.aborted = false;
            self.ending = Ending::Told;
            self.say(now, Message::Abort, 0);
        }
        if !self.known_there && self.datagrams == 0 {
            self.say(now, Message::Open, 0);
        }
        // Datagrams after the first would be of no use before it arrives.
        if !self.known_there {
            return;
        }
        // Freed buffer space is reported until the end: the other direction may continue after this one has ended.
        let taken = self.leg.acked();
        if taken - self.told >= self.buffer.div_ceil(2) {
            self.say(now, Message::Taken { taken: taken as u32 }, 0);
        }
        if self.ending != Ending::Open {
            return;
        }
        let received = self.leg.received();
        while self.unacknowledged.len() < self.window {
            let ready = received - self.passed;
            let room = self.buffer.saturating_sub(self.passed - self.taken_there);
            let bytes = ready.min(room).min(u64::from(self.segment));
            // Less than a full datagram is sent only if no acknowledgment is outstanding that could report more space.
            let is_part = bytes < ready && bytes < u64::from(self.segment);
            if bytes == 0 || is_part && !self.unacknowledged.is_empty() {
                break;
            }
            self.passed += bytes;
            self.say(now, Message::Data { taken: taken as u32 }, bytes as u32);
        }
        if self.leg.peer_closed() && self.passed == received {
            self.ending = Ending::Told;
            self.say(now, Message::Close, 0);
        }
    }

    fn say(&mut self, now: Instant, message: Message, len: u32) {
        if let Message::Data { .. } | Message::Taken { .. } = message {
            self.told = self.leg.acked();
        }
        let mut packet = Packet {
            flow: self.flow,
            from: self.own,
            cause: if len > 0 { Cause::New } else { Cause::LinkControl },
            len,
            body: Body::Datagram { number: self.datagrams },
            ..Packet::default()
        };
        message.put(&mut packet.link);
        self.datagrams = self.datagrams.wrapping_add(1);
        self.unacknowledged.push_back(len);
        self.repeat.handle_packet(now, Port::WIRED, packet);
    }

    /// Adds the flow, its direction and the session's number, which selective repeat does not know.
    fn stamped(&self, mut packet: Packet) -> Packet {
        (packet.flow, packet.from) = (self.flow, self.own);
        SessionHeader(self.number).put(&mut packet.link);
        packet
    }

    /// Handles a datagram that arrived in order.
    fn take_message(&mut self, packet: &Packet) {
        match packet.link.read(LinkProtocol::SRP).and_then(Message::from_bytes) {
            Some(Message::Data { taken }) => {
                self.take_taken(taken);
                if self.waiting() + u64::from(packet.len) > self.buffer {
                    // The other end has exceeded the space reported to it.
                    return self.leg.abort();
                }
                self.arrived += u64::from(packet.len);
                self.leg.write(packet.len.into());
            }
            Some(Message::Taken { taken }) => self.take_taken(taken),
            Some(Message::Close) => self.leg.close(),
            Some(Message::Abort) => {
                self.ending = Ending::Told;
                self.leg.abort();
            }
            Some(Message::Open) | None => {}
        }
    }

    /// Records the number of bytes that the far side has taken, as reported by the other end; it cannot exceed the
    /// number sent.
    fn take_taken(&mut self, taken: u32) {
        let further = u64::from(taken.wrapping_sub(self.taken_there as u32));
        if self.taken_there + further <= self.passed {
            self.taken_there += further;
        }
    }
}

/// Maps the reason for sending a packet of the selective repeat: none of them was passed to the end as a packet.
const fn own(why: Why) -> Why {
    match why {
        Why::Given | Why::Released => Why::Own,
        why => why,
    }
}
