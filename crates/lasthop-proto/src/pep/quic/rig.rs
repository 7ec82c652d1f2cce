//! A client model and a hop for tests: the client acknowledges as QUIC stacks do, and its acknowledgments are as long as
//! ACK frames are.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{QuicSnoop, QuicSnoopConfig};
use crate::node::{Node, Output, Port, Why, pump};
use crate::packet::{Body, FlowId, HeaderForm, Packet, Side};
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// Length of an acknowledgment without a gap.
pub const BARE: u32 = 36;
/// Length of a full datagram.
pub const FULL: u32 = 1472;

pub const MS: Duration = Duration::from_millis(1);

/// A client that acknowledges every second datagram, and at once what is out of order (RFC 9000 §13.2).
#[derive(Default)]
pub struct Client {
    pub received: BTreeSet<u32>,
    unacknowledged: u32,
}

impl Client {
    /// Receives a datagram. Returns the length of the acknowledgment, if there is one.
    pub fn take(&mut self, number: u32) -> Option<u32> {
        let largest = self.received.last().copied();
        if !self.received.insert(number) {
            return None;
        }
        self.unacknowledged += 1;
        let is_next = largest.is_none_or(|largest| number == largest + 1);
        if is_next && self.unacknowledged < 2 {
            return None;
        }
        self.unacknowledged = 0;
        Some(BARE + 2 * self.gaps())
    }

    fn gaps(&self) -> u32 {
        let pairs = self.received.iter().zip(self.received.iter().skip(1));
        pairs.filter(|(before, after)| *after - *before > 1).count() as u32
    }
}

/// A datagram that reached the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    pub at: Instant,
    pub number: u32,
    pub len: u32,
}

enum Arrival {
    AtClient(Packet),
    AtDevice(Packet),
    FromSender(Packet),
}

/// A device, the hop behind it, and a client.
pub struct World {
    pub node: QuicSnoop<()>,
    pub now: Instant,
    pub client: Client,
    /// Round-trip time of the hop.
    pub rtt: Duration,
    arrivals: BTreeMap<(Instant, u64), Arrival>,
    events: u64,
    /// Transmissions over the hop towards the client, by order.
    pub transmissions: Vec<u32>,
    /// Transmissions over the hop that are lost, by order.
    pub lost: BTreeSet<usize>,
    pub replies: Vec<Reply>,
    /// Number of acknowledgments that the client sent.
    pub sent_back: u32,
    timer: Option<Instant>,
}

pub fn datagram(from: Side, form: HeaderForm, number: u32, len: u32) -> Packet {
    Packet {
        flow: FlowId(1),
        from,
        header_len: 28,
        len,
        body: Body::Quic { number, data: 0, form },
        ..Packet::default()
    }
}

impl World {
    /// Creates a connection whose handshake has passed.
    pub fn new(rtt: Duration) -> Self {
        let mut world = Self {
            node: QuicSnoop::new(QuicSnoopConfig::new(Rate(100_000_000))),
            now: Instant::ZERO,
            client: Client::default(),
            rtt,
            arrivals: BTreeMap::new(),
            events: 0,
            transmissions: Vec::new(),
            lost: BTreeSet::new(),
            replies: Vec::new(),
            sent_back: 0,
            timer: None,
        };
        world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Long, 900_000, 1200));
        world.now += MS * 50;
        world.pass(Port::WIRED, datagram(Side::Acceptor, HeaderForm::Long, 900_001, 1200));
        world.now += rtt;
        world.pass(Port::WIRELESS, datagram(Side::Initiator, HeaderForm::Long, 900_002, 80));
        world.now += MS * 50;
        world.transmissions.clear();
        world.arrivals.clear();
        world
    }

    /// Lets the sender send the datagrams numbered `numbers`, one every `spacing`, and runs until all is quiet.
    pub fn send(&mut self, numbers: core::ops::Range<u32>, spacing: Duration) {
        for (index, number) in numbers.enumerate() {
            let at = self.now + spacing * index as u64;
            self.schedule(at, Arrival::FromSender(datagram(Side::Acceptor, HeaderForm::Short, number, FULL)));
        }
        self.run();
    }

    fn schedule(&mut self, at: Instant, arrival: Arrival) {
        self.events += 1;
        self.arrivals.insert((at, self.events), arrival);
    }

    /// Runs until there is nothing left to do within a second.
    pub fn run(&mut self) {
        let end = |world: &Self| world.now + MS * 1000;
        loop {
            let next = self.arrivals.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = [next, self.timer].into_iter().flatten().min().filter(|at| *at <= end(self)) else { return };
            self.now = at;
            if next == Some(at)
                && let Some((_, arrival)) = self.arrivals.pop_first()
            {
                match arrival {
                    Arrival::FromSender(packet) => self.pass(Port::WIRED, packet),
                    Arrival::AtDevice(packet) => self.pass(Port::WIRELESS, packet),
                    Arrival::AtClient(packet) => self.at_client(&packet),
                }
            } else {
                self.node.handle_timeout(at);
                self.drain();
            }
        }
    }

    fn at_client(&mut self, packet: &Packet) {
        let Body::Quic { number, .. } = packet.body else { return };
        if let Some(len) = self.client.take(number) {
            self.sent_back += 1;
            let reply = datagram(Side::Initiator, HeaderForm::Short, self.sent_back, len);
            self.schedule(self.now + self.rtt / 2, Arrival::AtDevice(reply));
        }
    }

    pub fn pass(&mut self, port: Port, packet: Packet) {
        self.node.handle_packet(self.now, port, packet);
        self.drain();
    }

    fn drain(&mut self) {
        let mut outputs = Vec::new();
        self.timer = pump(&mut self.node, self.now, |output| outputs.push(output));
        for output in outputs {
            let Output::Transmit(port, why, packet) = output else { continue };
            let Body::Quic { number, .. } = packet.body else { continue };
            if port == Port::WIRELESS {
                assert!(matches!(why, Why::Given | Why::Repair(_)));
                let index = self.transmissions.len();
                self.transmissions.push(number);
                if !self.lost.contains(&index) {
                    self.schedule(self.now + self.rtt / 2, Arrival::AtClient(packet));
                }
            } else {
                self.replies.push(Reply { at: self.now, number, len: packet.len });
            }
        }
    }

    /// Returns the acknowledgments that reached the sender and show a gap before any later one without.
    pub fn revealed(&self) -> usize {
        let mut newest = 0;
        let mut count = 0;
        for reply in self.replies.iter().filter(|reply| reply.number < 900_000) {
            count += usize::from(reply.number > newest && reply.len > BARE);
            newest = newest.max(reply.number);
        }
        count
    }
}
