//! Gateways between the ends: the engine with packets as bytes, as drivers pass them, and the mechanism without bytes,
//! which is faster.

use std::fmt::Debug;
use std::num::NonZeroU16;

use lasthop_gateway::engine::rules::{EngineConfig, Mode, Rule};
use lasthop_gateway::engine::{Engine, Injection, Offloaded, Verdict};
use lasthop_proto::node::{Disposition, Node, Output, Port, Why, pump};
use lasthop_proto::packet::{Body, FlowId, Packet, Payload, Segment, Side};
use lasthop_proto::pep::snoop::{HopControl, Snoop, SnoopConfig};
use lasthop_proto::scheme::LocalDetection;
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksum, Route, amend, build, parse};

use super::ends::{Content, Pkt, byte};

/// Settings of the gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    pub flow_control: bool,
    pub detection: LocalDetection,
    /// True if connections and bytes are limited to few.
    pub tight: bool,
}

impl Setup {
    fn snoop(&self) -> SnoopConfig {
        let mut config = SnoopConfig { detection: self.detection, connections: 8, ..SnoopConfig::modern() };
        config.hop = self.flow_control.then_some(HopControl { backlog: 10, held: 4096 });
        if self.tight {
            config.cache_bytes = 2048;
        }
        config
    }
}

/// Properties of a packet's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coming {
    /// Bits that are flipped in transit, by their number in the packet.
    pub flips: Option<[u16; 2]>,
    /// Payload of its segments, if receive offload merged several.
    pub merged: Option<u32>,
    /// True if it arrives from the end that its addresses do not name as the source.
    pub astray: bool,
}

/// A packet that a gateway sends independently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    pub towards: Port,
    pub segment: Segment,
    pub len: u32,
    /// Payload, if it differs from the sender's.
    pub odd: Option<Vec<u8>>,
}

/// Fate of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Passed {
    Unchanged,
    No,
    /// Replaced by this packet.
    As(Sent),
}

/// Gateway under test.
pub trait Middle: Debug {
    /// Packet in the form that the gateway accepts.
    type Packet;
    /// Output of the gateway in response to a packet or a timeout.
    type Said: PartialEq + Debug;

    fn new(setup: Setup) -> Self;

    /// Returns the packet for the gateway; `None` if flipped bits do not change it, or the gateway does not support it.
    fn packet(packet: &Pkt, port: Port, coming: Coming) -> Option<Self::Packet>;

    fn take(&mut self, now: Instant, port: Port, packet: &Self::Packet) -> Self::Said;

    fn wake(&mut self, now: Instant) -> Self::Said;

    fn poll_deadline(&self) -> Option<Instant>;

    /// Converts the gateway's output: the fate of the packet, and the packets that the gateway sent in addition.
    fn read(said: &Self::Said) -> (Passed, Vec<Sent>);

    /// Returns its counters, except those of all packets, and of absorbed acknowledgments, since an attacker may have
    /// forged an old one.
    fn tally(&mut self) -> Vec<u64>;
}

/// The engine.
#[derive(Debug)]
pub struct Bytes(Engine);

/// Returns the route of the connection, from the sender.
fn route() -> Route {
    Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 9, 0, 2], 4000).into() }
}

impl Middle for Bytes {
    type Packet = (Vec<u8>, Offloaded);
    type Said = (Verdict, Vec<Injection>);

    fn new(setup: Setup) -> Self {
        let mut rule = Rule::all("r", Mode::Snoop);
        rule.snoop = setup.snoop();
        Self(Engine::new(EngineConfig { flows: 8, ..EngineConfig::new(vec![rule]) }, 1))
    }

    fn packet(packet: &Pkt, port: Port, coming: Coming) -> Option<Self::Packet> {
        let Pkt { segment, len, content, odd } = *packet;
        let mut payload = Vec::with_capacity(len as usize);
        payload.extend((0..len).map(|at| byte((segment.seq + at).0, content)));
        let way = if (port == Port::WIRED) != coming.astray { route() } else { route().reversed() };
        let mut bytes = build(way, &segment, &payload)?;
        if odd && let Some(view) = parse(&bytes) {
            // Two NOPs in front of the first option become an option of an unknown kind.
            amend(&mut bytes, &view, |tcp| {
                if tcp.get(20..22) == Some(&[1, 1]) {
                    tcp[20..22].copy_from_slice(&[77, 2]);
                }
            });
        }
        let mut offloaded = Offloaded::NOTHING;
        if let Some(size) = coming.merged {
            offloaded = Offloaded { size: NonZeroU16::new(size as u16), checksum: Checksum::Pending };
        }
        if let Some(flips) = coming.flips {
            offloaded.checksum = Checksum::Complete;
            for flip in flips {
                let at = usize::from(flip >> 3) % bytes.len();
                bytes[at] ^= 1 << (flip & 7);
            }
            if !is_damaged(&bytes) {
                return None;
            }
        }
        Some((bytes, offloaded))
    }

    fn take(&mut self, now: Instant, port: Port, (bytes, offloaded): &Self::Packet) -> Self::Said {
        let mut out = Vec::new();
        let verdict = self.0.handle_packet(now, port, bytes, *offloaded, &mut out);
        (verdict, out)
    }

    fn wake(&mut self, now: Instant) -> Self::Said {
        let mut out = Vec::new();
        self.0.handle_timeout(now, &mut out);
        (Verdict::Accept, out)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.0.poll_deadline()
    }

    fn read((verdict, out): &Self::Said) -> (Passed, Vec<Sent>) {
        let sent = |towards, bytes: &[u8]| {
            let view = parse(bytes).expect("the sent packet is TCP");
            assert!(!is_damaged(bytes), "a wrong checksum: {view:?}");
            let there = if towards == Port::WIRELESS { route() } else { route().reversed() };
            assert_eq!(view.route, there, "the addresses are not those of the ends");
            let payload = &bytes[view.header_len..view.total_len()];
            let seq = view.segment.seq;
            let genuine = payload.iter().zip(0..).all(|(&is, at)| is == byte((seq + at).0, Content::Genuine));
            let odd = (!genuine).then(|| payload.to_vec());
            Sent { towards, segment: view.segment, len: payload.len() as u32, odd }
        };
        let passed = match verdict {
            Verdict::Accept => Passed::Unchanged,
            Verdict::Drop => Passed::No,
            // The addresses determine the direction.
            Verdict::Replace(bytes) => {
                let data = parse(bytes).is_some_and(|view| view.route == route());
                Passed::As(sent(if data { Port::WIRELESS } else { Port::WIRED }, bytes))
            }
        };
        (passed, out.iter().map(|injection| sent(injection.towards, &injection.packet)).collect())
    }

    fn tally(&mut self) -> Vec<u64> {
        let all = self.0.counters();
        let mut tally = vec![all.held_bytes];
        for rule in all.rules {
            tally.extend([rule.cached_bytes, rule.repairs.total(), rule.absorbed, rule.local_acks, rule.sack_hidden]);
        }
        tally
    }
}

/// Returns whether a checksum is wrong, computed word by word (RFC 1071). Packets that are not TCP count as undamaged.
fn is_damaged(packet: &[u8]) -> bool {
    let Some(view) = parse(packet) else { return false };
    let packet = &packet[..view.total_len()];
    let sum = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0))).sum()
    };
    let folded = |mut sum: u32| {
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    };
    let (ip, tcp) = packet.split_at(view.ip_len);
    let pseudo = sum(&ip[12..20]) + 6 + tcp.len() as u32;
    folded(sum(ip)) != 0xffff || folded(pseudo + sum(tcp)) != 0xffff
}

/// The mechanism without the engine.
#[derive(Debug)]
pub struct Bare(Snoop<Token>);

/// Origin of the bytes in a payload; their sequence numbers determine the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Token(Content);

impl Payload for Token {
    fn agrees(a: &Packet<Self>, b: &Packet<Self>) -> bool {
        a.payload == b.payload
    }
}

/// Output of the mechanism: the fate of the packet that it received, if any, and all packets that it sent.
type BareSaid = (Option<Disposition>, Vec<(Port, Why, Packet<Token>)>);

impl Bare {
    fn drain(&mut self, now: Instant, given: Option<Disposition>) -> BareSaid {
        let mut sent = Vec::new();
        pump(&mut self.0, now, |output| {
            if let Output::Transmit(port, why, packet) = output {
                sent.push((port, why, packet));
            }
        });
        (given, sent)
    }
}

impl Middle for Bare {
    type Packet = Packet<Token>;
    type Said = BareSaid;

    fn new(setup: Setup) -> Self {
        Self(Snoop::new(setup.snoop()))
    }

    fn packet(packet: &Pkt, port: Port, coming: Coming) -> Option<Self::Packet> {
        // The engine handles damage, unknown options and addresses.
        if coming.flips.is_some() || packet.odd || coming.astray {
            return None;
        }
        Some(Packet {
            flow: FlowId(0),
            from: if port == Port::WIRED { Side::Acceptor } else { Side::Initiator },
            header_len: 40,
            len: packet.len,
            body: Body::Tcp(packet.segment),
            payload: Token(packet.content),
            ..Packet::default()
        })
    }

    fn take(&mut self, now: Instant, port: Port, packet: &Self::Packet) -> Self::Said {
        let disposition = self.0.handle_packet(now, port, *packet);
        self.drain(now, Some(disposition))
    }

    fn wake(&mut self, now: Instant) -> Self::Said {
        self.0.handle_timeout(now);
        self.drain(now, None)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.0.poll_deadline()
    }

    fn read((given, sent): &Self::Said) -> (Passed, Vec<Sent>) {
        let mut passed = if given.is_some() { Passed::No } else { Passed::Unchanged };
        let mut besides = Vec::new();
        for (towards, why, packet) in sent {
            let Some(&segment) = packet.tcp() else { continue };
            let is_given = *why == Why::Given;
            if is_given && *given == Some(Disposition::Forwarded) {
                passed = Passed::Unchanged;
                continue;
            }
            let forged = packet.payload == Token(Content::Forged) && packet.len > 0;
            let bytes = || (0..packet.len).map(|at| byte((segment.seq + at).0, Content::Forged)).collect();
            let sent = Sent { towards: *towards, segment, len: packet.len, odd: forged.then(bytes) };
            if is_given {
                passed = Passed::As(sent);
            } else {
                besides.push(sent);
            }
        }
        (passed, besides)
    }

    fn tally(&mut self) -> Vec<u64> {
        // A slot in the table without any known state does not count, since any SYN takes one.
        vec![self.0.cached_bytes()]
    }
}
