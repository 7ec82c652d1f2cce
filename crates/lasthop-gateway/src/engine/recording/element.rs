//! The mechanism alone, driven as in the simulator: it receives every packet of a connection in order, SYNs included,
//! without tables, super-segments or bytes. It acts on deadlines when the recording says that the gateway did
//! ([`drain`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Display};
use std::num::NonZeroU16;

use lasthop_daemon::ab::Arm;
use lasthop_daemon::flows::{Key, side};
use lasthop_daemon::recording::steps::Player;
use lasthop_proto::node::{Disposition, Node, Output, Port, Why, drain};
use lasthop_proto::packet::{Body, Flags, FlowId, Packet, Segment};
use lasthop_proto::pep::snoop::{Snoop, SnoopConfig};
use lasthop_proto::time::Instant;
use lasthop_wire::{View, parse};

use super::reader::Engines;
use super::text::{list, segment};
use super::{Call, Headers, Judgement, Step};
use crate::configuration::Gateway;
use crate::engine::Condition;
use crate::engine::flow::{Flow, has_unread_options};
use crate::engine::rules::{Mode, Predicate};
use crate::settings;

/// Maximum number of connections in a recording: each has its own number.
const MOST_FLOWS: usize = 1 << 16;

/// The simulator's element, and the connections it has seen.
pub(super) struct Element {
    snoop: Snoop<()>,
    /// Selection of connections; `None` after a release.
    predicate: Option<Predicate>,
    flows: HashMap<Key, (FlowId, Flow)>,
    /// MTU by port.
    mtu: [Option<usize>; 2],
}

/// Part of a decision that the mechanism determines.
#[derive(PartialEq)]
pub(super) struct Done {
    fate: Fate,
    /// Port, header and payload bytes of each packet sent; no header if the bytes are not a segment.
    sent: Vec<(Port, Option<Segment>, u32)>,
}

#[derive(PartialEq)]
enum Fate {
    Forwarded,
    Dropped,
    /// Forwarded with this header; `None` if the bytes are not a segment.
    Revised(Option<Segment>),
}

impl Element {
    pub fn new(gateway: &Gateway) -> Result<Self, &'static str> {
        let config = settings::engine(gateway);
        let [rule] = &config.rules[..] else {
            return Err("the simulator's element requires a recording with a single rule");
        };
        if rule.mode != Mode::Snoop || rule.ab > 0.0 {
            return Err("the simulator's element requires a rule with mode = \"snoop\" and without ab");
        }
        let snoop = Snoop::new(SnoopConfig { connections: config.flows, ..rule.snoop.clone() });
        Ok(Self { snoop, predicate: Some(rule.predicate.clone()), flows: HashMap::new(), mtu: [None; 2] })
    }

    fn take_packet(
        &mut self,
        now: Instant,
        port: Port,
        headers: &Headers,
        size: Option<NonZeroU16>,
    ) -> Result<Done, &'static str> {
        let passes = Ok(Done { fate: Fate::Forwarded, sent: Vec::new() });
        let bytes = headers.packet();
        let Some(view) = parse(&bytes) else { return passes };
        let (source, destination) = (view.route.source, view.route.destination);
        let (wired, wireless) = if port == Port::WIRED { (source, destination) } else { (destination, source) };
        if self.predicate.as_ref().is_none_or(|predicate| !predicate.matches(wired, wireless)) {
            return passes;
        }
        let packet = self.packet(now, port, &view, &bytes, size)?;
        let disposition = self.snoop.handle_packet(now, port, packet);
        Ok(self.drain(now, Some(disposition)))
    }

    /// Converts a packet to the mechanism's form.
    fn packet(
        &mut self,
        now: Instant,
        port: Port,
        view: &View,
        bytes: &[u8],
        size: Option<NonZeroU16>,
    ) -> Result<Packet, &'static str> {
        let key = Key::of(&view.route);
        let syn = view.segment.flags.has(Flags::SYN);
        let new = || Flow::new(key, view.route, port, 0, Arm::Treated);
        let next = FlowId(self.flows.len() as u32);
        if self.flows.len() >= MOST_FLOWS {
            return Err("the simulator's element supports at most 65536 connections");
        }
        let (id, flow) = match self.flows.entry(key) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) if syn => place.insert((next, new())),
            Entry::Vacant(_) => {
                return Err(
                    "no SYN recorded for this connection; the simulator's element requires connections from their start",
                );
            }
        };
        let from = side(&flow.first, &view.route);
        flow.take(now, port, view);
        if flow.port_of(from) != port {
            return Err("packet from the wrong side, which cannot occur in the simulator");
        }
        if !syn && has_unread_options(bytes, view) {
            return Err("packet has TCP options that the simulator does not support");
        }
        if view.payload_len as u32 > flow.segment_size(view, size, self.mtu[usize::from(port.0 & 1) ^ 1]) {
            return Err("packet aggregates several segments (receive offload), which the simulator does not support");
        }
        Ok(Packet {
            flow: *id,
            from,
            ecn: view.ecn,
            header_len: view.header_len as u16,
            len: view.payload_len as u32,
            body: Body::Tcp(view.segment),
            ..Packet::default()
        })
    }

    /// Collects the mechanism's output. `given` is its disposition of the packet passed to it, if there was one.
    fn drain(&mut self, now: Instant, given: Option<Disposition>) -> Done {
        let (mut went, mut sent) = (None, Vec::new());
        drain(&mut self.snoop, now, |output| match output {
            Output::Transmit(_, Why::Given, packet) => went = packet.tcp().copied(),
            Output::Transmit(to, _, packet) => sent.push((to, packet.tcp().copied(), packet.len)),
            Output::Event(..) => {}
        });
        let fate = match given {
            None | Some(Disposition::Forwarded) => Fate::Forwarded,
            Some(Disposition::Changed) => Fate::Revised(went),
            Some(Disposition::Absorbed | Disposition::Held | Disposition::Dropped) => Fate::Dropped,
        };
        Done { fate, sent }
    }
}

impl Player<Engines> for Element {
    type Decision = Done;

    fn recorded(&self, step: &Step) -> Done {
        let read = |headers: &Headers| parse(&headers.packet());
        let fate = match &step.decision.judgement {
            Judgement::Accept => Fate::Forwarded,
            Judgement::Drop => Fate::Dropped,
            Judgement::Replace(headers) => Fate::Revised(read(headers).map(|view| view.segment)),
        };
        let sent = step.decision.sent.iter().map(|(port, headers)| {
            let view = read(headers);
            (*port, view.map(|view| view.segment), view.map_or(0, |view| view.payload_len as u32))
        });
        Done { fate, sent: sent.collect() }
    }

    fn play(&mut self, step: &Step) -> Result<Done, &'static str> {
        match &step.call {
            Call::Packet { condition: Condition::Damaged, .. } => Ok(Done { fate: Fate::Forwarded, sent: Vec::new() }),
            Call::Packet { port, headers, offloaded, .. } => {
                self.take_packet(step.time, *port, headers, offloaded.size)
            }
            Call::Timeout => {
                self.snoop.handle_timeout(step.time);
                Ok(self.drain(step.time, None))
            }
            Call::Mtu { port, mtu } => {
                self.mtu[usize::from(port.0 & 1)] = Some(usize::from(*mtu));
                Ok(Done { fate: Fate::Forwarded, sent: Vec::new() })
            }
            Call::Release => {
                self.predicate = None;
                self.snoop.clear();
                Ok(self.drain(step.time, None))
            }
            Call::Configure { .. } => Err("the simulator's element cannot change its parameters"),
        }
    }
}

impl Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |header: &Option<Segment>, len: u32| {
            header.as_ref().map_or_else(|| "an invalid segment".to_owned(), |header| segment(header, len))
        };
        match &self.fate {
            Fate::Forwarded => f.write_str("accept")?,
            Fate::Dropped => f.write_str("drop")?,
            Fate::Revised(header) => write!(f, "replace by {}", describe(header, 0))?,
        }
        list(f, self.sent.iter().map(|(port, header, len)| (*port, describe(header, *len))))
    }
}
