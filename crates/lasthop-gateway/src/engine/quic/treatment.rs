//! The mechanism of a rule for QUIC, one for each arm, and the bytes of its datagrams.

use std::sync::Arc;

use lasthop_daemon::ab::Arm;
use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, Port, Why, drain};
use lasthop_proto::packet::{Body, FlowId, HeaderForm, Packet, Side};
use lasthop_proto::pep::quic::{Conduct, QuicSnoop, QuicSnoopConfig};
use lasthop_proto::rate::Rate;
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksum, Datagram, parse_datagram, seal_datagram};

use crate::engine::counters::QuicCounters;
use crate::engine::verdict::{Injection, Verdict};

/// Rate of the hop, which is unknown. It matters for datagrams in a queue in front of the hop only, and the gateway does
/// not see that queue: it is part of the hop's round trip.
const RATE: Rate = Rate(1_000_000_000);

/// A datagram of a connection that is not passed.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Arrived<'a> {
    pub now: Instant,
    pub port: Port,
    pub id: FlowId,
    pub from: Side,
    pub form: HeaderForm,
    pub packet: &'a [u8],
    pub datagram: &'a Datagram,
    pub checksum: Checksum,
}

/// Bytes of a datagram as it arrived, with the state of its checksum; `None` in the untreated arm, which sends nothing.
#[derive(Clone, Default, Debug)]
struct Kept(Option<Arc<(Box<[u8]>, Checksum)>>);

impl Kept {
    /// Returns the packet with its checksum.
    fn packet(&self) -> Option<Vec<u8>> {
        let (bytes, checksum) = &**self.0.as_ref()?;
        let mut packet = bytes.to_vec();
        if *checksum == Checksum::Pending
            && let Some(datagram) = parse_datagram(&packet)
        {
            seal_datagram(&mut packet, &datagram);
        }
        Some(packet)
    }
}

/// Treatment of the connections of one rule.
#[derive(Debug)]
pub(in crate::engine) struct QuicTreatment {
    /// The mechanism by [`Arm`]. That of the untreated arm observes.
    arms: [QuicSnoop<Kept>; 2],
    pub counters: QuicCounters,
    /// Connections whose copies were discarded because a limit was reached.
    pub cache_evicted: u64,
}

impl QuicTreatment {
    /// Creates the mechanisms, with capacity for every connection of the engine.
    pub fn new(flows: usize, cache: u64) -> Self {
        let of = |conduct| QuicSnoop::new(QuicSnoopConfig { conduct, flows, cache, ..QuicSnoopConfig::new(RATE) });
        let arms = [of(Conduct::Repair), of(Conduct::Observe)];
        Self { arms, counters: QuicCounters::default(), cache_evicted: 0 }
    }

    /// Sets the limit on the bytes of copies.
    pub fn set_cache(&mut self, cache: u64) {
        self.arms.iter_mut().for_each(|arm| arm.set_cache(cache));
    }

    /// Returns the bytes of copies.
    pub const fn cached_bytes(&self) -> u64 {
        self.arms[Arm::Treated as usize].cached_bytes()
    }

    /// Returns the statistics so far.
    pub const fn report(&self) -> QuicCounters {
        let [treated, untreated] = &self.arms;
        QuicCounters { treated: treated.counts(), untreated: untreated.counts(), ..self.counters }
    }

    /// Returns the verdict on a datagram.
    pub fn treat(&mut self, arrived: &Arrived<'_>, arm: Arm, out: &mut Vec<Injection>) -> Verdict {
        let Arrived { now, port, id, from, form, packet, datagram, checksum } = *arrived;
        let bytes = &packet[..datagram.total_len()];
        let kept = (arm == Arm::Treated).then(|| Arc::new((bytes.into(), checksum)));
        let given = Packet {
            flow: id,
            from,
            header_len: datagram.header_len() as u16,
            len: datagram.payload_len as u32,
            body: Body::Quic { number: 0, data: 0, form },
            payload: Kept(kept),
            ..Packet::default()
        };
        let node = &mut self.arms[arm as usize];
        let _ = node.handle_packet(now, port, given);
        let mut verdict = Verdict::Drop;
        let begun = out.len();
        drain(node, now, |output| match output {
            // Packets that were held go before this one: it takes its place among them.
            Output::Transmit(to, Why::Given, packet) if to == Port::WIRED && has_released(&out[begun..]) => {
                inject(to, &packet, out);
            }
            Output::Transmit(_, Why::Given, _) => verdict = Verdict::Accept,
            Output::Transmit(to, _, packet) => inject(to, &packet, out),
            Output::Event(_, Event::Evicted) => self.cache_evicted += 1,
            Output::Event(..) => {}
        });
        verdict
    }

    /// Removes a connection, and releases what is held of it.
    pub fn remove(&mut self, now: Instant, id: FlowId, arm: Arm, out: &mut Vec<Injection>) {
        let node = &mut self.arms[arm as usize];
        node.forget(id);
        release(node, now, out);
    }

    /// Removes all connections, and releases what is held of them.
    pub fn clear(&mut self, now: Instant, out: &mut Vec<Injection>) {
        for node in &mut self.arms {
            node.clear();
            release(node, now, out);
        }
    }

    /// Acts on the deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Injection>) {
        for node in &mut self.arms {
            node.handle_timeout(now);
            release(node, now, out);
        }
    }

    pub fn poll_deadline(&self) -> Option<Instant> {
        self.arms.iter().filter_map(QuicSnoop::poll_deadline).min()
    }
}

/// Returns whether datagrams that were held leave towards the wired side.
fn has_released(sent: &[Injection]) -> bool {
    sent.iter().any(|sent| sent.towards == Port::WIRED)
}

/// Sends what a mechanism emits without an arrival.
fn release(node: &mut QuicSnoop<Kept>, now: Instant, out: &mut Vec<Injection>) {
    drain(node, now, |output| {
        if let Output::Transmit(to, _, packet) = output {
            inject(to, &packet, out);
        }
    });
}

fn inject(towards: Port, packet: &Packet<Kept>, out: &mut Vec<Injection>) {
    out.extend(packet.payload.packet().map(|packet| Injection { towards, packet }));
}
