//! Radios that distinguish corruption from congestion by each other's queues, for Explicit Loss Notification over
//! several hops (\[a\] §VI).
//!
//! The near end of a hop numbers its frames and periodically reports its queue length to the far end. The far end
//! detects by the numbers that a frame is missing, and by TCP's sequence numbers which data. If the queue was short,
//! the loss is attributed to the channel. The far end then reports it towards the sender, so that the node that marks
//! acknowledgments there ([`crate::pep::eln`]) learns of it. `docs/models/wireless-chain.md` explains the rules.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::event::{Event, LossCause};
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::headers::{LONGEST, LinkHeader, LinkProtocol};
use crate::packet::{Body, Cause, Flags, FlowId, Packet, Priority, SackBlock};
use crate::pep::flow_table::FlowTable;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Maximum number of missing frame numbers to remember: the latest ones.
const MOST_MISSING: usize = 64;

/// Header of a packet between radios, and their messages. In bytes: 0 for a number, 1 for a queue, 2 for missing data;
/// followed by two bytes, or the first missing byte and the one after the last, four bytes each; high bytes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Number of the frame on the hop.
    Data(u16),
    /// Number of waiting frames.
    Queue(u16),
    /// Bytes of the packet's flow that the channel lost, on their way to the end that the packet comes from.
    Missing(SackBlock),
}

impl Header {
    /// Parses a header; `None` if it is malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [0, high, low] => Some(Self::Data(u16::from_be_bytes([high, low]))),
            [1, high, low] => Some(Self::Queue(u16::from_be_bytes([high, low]))),
            [2, a, b, c, d, e, f, g, h] => {
                let left = Seq(u32::from_be_bytes([a, b, c, d]));
                Some(Self::Missing(SackBlock { left, right: Seq(u32::from_be_bytes([e, f, g, h])) }))
            }
            _ => None,
        }
    }

    /// Returns the outermost header of a packet, if it is a radio's.
    pub fn of<P>(packet: &Packet<P>) -> Option<Self> {
        Self::from_bytes(packet.link.read(LinkProtocol::RADIO)?)
    }

    /// Maximum length, in bytes.
    const ROOM: usize = 9;
}

impl LinkHeader for Header {
    const PROTOCOL: LinkProtocol = LinkProtocol::RADIO;

    fn bytes(self) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        let len = match self {
            Self::Data(number) => {
                bytes[1..3].copy_from_slice(&number.to_be_bytes());
                3
            }
            Self::Queue(waiting) => {
                bytes[0] = 1;
                bytes[1..3].copy_from_slice(&waiting.to_be_bytes());
                3
            }
            Self::Missing(range) => {
                bytes[0] = 2;
                bytes[1..5].copy_from_slice(&range.left.0.to_be_bytes());
                bytes[5..9].copy_from_slice(&range.right.0.to_be_bytes());
                Self::ROOM
            }
        };
        (bytes, len)
    }
}

/// End of the hop at which a radio is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// End from which data is sent over the hop: numbers the frames, and reports its queue.
    Near,
    /// End at which data arrives: detects missing data.
    Far,
}

/// Parameters of both ends, which must agree except for the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RadioConfig {
    /// End of the hop at which the radio is.
    pub end: End,
    /// Interval at which the near end reports its queue while it has anything to send.
    pub exchange: Duration,
    /// Number of frames in the neighbour's queue from which missing data is attributed to congestion.
    pub threshold: u16,
    /// Bytes that a number adds to a packet.
    pub header: u16,
    /// Length of a message between radios, in bytes.
    pub message: u16,
    /// Maximum number of connections with state; the least recently used one is evicted first.
    pub connections: usize,
}

/// State of a connection at the far end.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// One past the highest byte seen.
    high: Seq,
    /// Number on the hop of the last packet seen.
    number: u16,
}

/// One end of a hop.
#[derive(Clone, Debug)]
pub struct Radio<P = ()> {
    config: RadioConfig,
    /// Number of the next frame, to be sent or expected.
    next: u16,
    /// Near: number of waiting frames as set by the driver; far: as reported by the neighbour.
    waiting: u16,
    /// Near: time of the next report of the queue, while there is anything to report.
    tell_at: Option<Instant>,
    /// Near: true if anything was sent since the last report.
    active: bool,
    /// Far: numbers of missing frames.
    missing: VecDeque<u16>,
    /// Far: connections in the direction in which data arrives here.
    streams: FlowTable<Stream>,
    out: VecDeque<(Port, Why, Packet<P>)>,
    events: VecDeque<(FlowId, Event)>,
}

impl Radio<()> {
    /// Returns a radio for packets without payload as a trait object.
    pub fn boxed(config: RadioConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P: Clone + Default> Radio<P> {
    /// Returns an end that has sent and received nothing, and assumes its neighbour's queue empty.
    pub fn new(config: RadioConfig) -> Self {
        Self {
            next: 0,
            waiting: 0,
            tell_at: None,
            active: false,
            missing: VecDeque::new(),
            streams: FlowTable::new(config.connections),
            out: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }

    /// Returns the number of connections with state.
    pub fn connections(&self) -> usize {
        self.streams.len()
    }

    /// Numbers a packet that is sent over the hop.
    fn send(&mut self, now: Instant, mut packet: Packet<P>) -> Disposition {
        if !packet.link.has_room(Header::ROOM) {
            self.out.push_back((Port::WIRELESS, Why::Given, packet));
            return Disposition::Forwarded;
        }
        Header::Data(self.next).put(&mut packet.link);
        packet.header_len = packet.header_len.saturating_add(self.config.header);
        self.next = self.next.wrapping_add(1);
        self.active = true;
        self.tell_at.get_or_insert(now + self.config.exchange.max(Duration::from_micros(1)));
        self.out.push_back((Port::WIRELESS, Why::Given, packet));
        Disposition::Changed
    }

    fn receive(&mut self, mut packet: Packet<P>) -> Disposition {
        match Header::of(&packet) {
            Some(Header::Data(number)) => {
                packet.link.pop();
                packet.header_len = packet.header_len.saturating_sub(self.config.header);
                self.count(number);
                self.look(number, &packet);
                self.out.push_back((Port::WIRED, Why::Given, packet));
                Disposition::Changed
            }
            Some(Header::Queue(waiting)) => {
                self.waiting = waiting;
                Disposition::Absorbed
            }
            Some(Header::Missing(_)) | None => {
                self.out.push_back((Port::WIRED, Why::Given, packet));
                Disposition::Forwarded
            }
        }
    }

    /// Records the arrival of a frame with that number; those between it and the last one are missing.
    fn count(&mut self, number: u16) {
        let ahead = number.wrapping_sub(self.next);
        if ahead >= 1 << 15 {
            // It is an old one.
            self.missing.retain(|missing| *missing != number);
            return;
        }
        for missing in ahead.saturating_sub(MOST_MISSING as u16)..ahead {
            if self.missing.len() == MOST_MISSING {
                self.missing.pop_front();
            }
            self.missing.push_back(self.next.wrapping_add(missing));
        }
        self.next = number.wrapping_add(1);
    }

    /// Checks for a hole in the packet's stream that this hop caused.
    fn look(&mut self, number: u16, packet: &Packet<P>) {
        let Some(tcp) = packet.tcp() else { return };
        let (seq, end) = (tcp.seq, tcp.seq + packet.seq_len());
        let found = self.streams.find(packet.flow);
        if tcp.flags.has(Flags::RST) {
            if let Some(slot) = found {
                self.streams.remove(slot);
            }
            return;
        }
        if packet.seq_len() == 0 {
            return;
        }
        let fresh = Stream { high: end, number };
        let Some(slot) = found else {
            if self.streams.is_full()
                && let Some((evicted, _)) = self.streams.oldest().and_then(|oldest| self.streams.remove(oldest))
            {
                self.events.push_back((evicted, Event::Evicted));
            }
            self.streams.insert(packet.flow, fresh);
            return;
        };
        self.streams.touch(slot);
        let Some((_, stream)) = self.streams.get_mut(slot) else { return };
        let before = *stream;
        if tcp.flags.has(Flags::SYN) || !seq.is_near(before.high) {
            *stream = fresh;
            return;
        }
        *stream = Stream { high: before.high.max(end), number };
        let passed = number.wrapping_sub(before.number);
        let is_between = |missing: &u16| {
            let ahead = missing.wrapping_sub(before.number);
            0 < ahead && ahead < passed
        };
        if seq.gt(before.high) && self.missing.iter().any(is_between) {
            self.judge(packet, SackBlock { left: before.high, right: seq });
        }
    }

    /// Determines the cause of missing bytes before the packet.
    fn judge(&mut self, packet: &Packet<P>, range: SackBlock) {
        let cause = if self.waiting >= self.config.threshold { LossCause::Congestion } else { LossCause::Corruption };
        self.events.push_back((packet.flow, Event::LossJudged { from: packet.from, seq: range.left, cause }));
        if cause == LossCause::Corruption {
            let told = Packet {
                flow: packet.flow,
                from: packet.from.peer(),
                link: Header::Missing(range).into(),
                ..self.message()
            };
            self.out.push_back((Port::WIRELESS, Why::Control, told));
        }
    }

    fn message(&self) -> Packet<P> {
        Packet {
            flow: FlowId::NONE,
            priority: Priority::Urgent,
            cause: Cause::LinkControl,
            header_len: self.config.message,
            body: Body::Control,
            ..Packet::default()
        }
    }
}

impl<P: Clone + Default> Node<P> for Radio<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        match (self.config.end, port) {
            (End::Near, Port::WIRED) => self.send(now, packet),
            (End::Far, Port::WIRELESS) => self.receive(packet),
            (_, port) => {
                self.out.push_back((port.across(), Why::Given, packet));
                Disposition::Forwarded
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.tell_at.is_none_or(|at| at > now) {
            return;
        }
        let told = Packet { link: Header::Queue(self.waiting).into(), ..self.message() };
        self.out.push_back((Port::WIRELESS, Why::Control, told));
        let goes_on = self.active || self.waiting > 0;
        self.tell_at = goes_on.then(|| now + self.config.exchange.max(Duration::from_micros(1)));
        self.active = false;
    }

    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.out.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.tell_at
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.events.pop_front()
    }

    fn see_queue(&mut self, waiting: usize) {
        self.waiting = u16::try_from(waiting).unwrap_or(u16::MAX);
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(slot) = self.streams.find(flow) {
            self.streams.remove(slot);
        }
    }
}

#[cfg(test)]
#[path = "radio_tests.rs"]
mod tests;
