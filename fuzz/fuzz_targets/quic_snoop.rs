//! Tests the repair of QUIC with a client that acknowledges what arrives, and with forged datagrams: nothing is
//! dropped, changed, reordered towards the hop, copied beyond the budget or held longer than permitted.
#![no_main]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{drain, steps};
use lasthop_proto::node::{Disposition, Node, Output, Port, Why};
use lasthop_proto::packet::{Body, FlowId, HeaderForm, Packet, Side};
use lasthop_proto::pep::quic::{QuicSnoop, QuicSnoopConfig};
use lasthop_proto::rate::Rate;
use lasthop_proto::time::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

/// A client of one flow: what arrived, and what is on its way back.
#[derive(Default)]
struct Client {
    received: BTreeSet<u32>,
    unacknowledged: u32,
    returning: VecDeque<(Instant, u32)>,
}

impl Client {
    fn take(&mut self, at: Instant, number: u32) {
        let is_next = self.received.last().is_none_or(|largest| largest + 1 == number);
        if self.received.insert(number) {
            self.unacknowledged += 1;
            if !is_next || self.unacknowledged > 1 {
                self.unacknowledged = 0;
                let pairs = self.received.iter().zip(self.received.iter().skip(1));
                let gaps = pairs.filter(|(before, after)| *after - *before > 1).count() as u32;
                self.returning.push_back((at, 36 + 2 * gaps));
            }
        }
    }
}

/// Packets with the device, and bytes of each flow.
#[derive(Default)]
struct Ledger {
    waiting: BTreeMap<u32, (Instant, Packet)>,
    towards_hop: VecDeque<u32>,
    known: BTreeMap<u32, Packet>,
    bytes: BTreeMap<u32, (u64, u64)>,
    /// Transmissions over the hop that the next decision is about.
    crossing: Vec<Packet>,
}

fn number(packet: &Packet) -> u32 {
    if let Body::Quic { number, .. } = packet.body { number } else { u32::MAX }
}

impl Ledger {
    fn check(&mut self, now: Instant, hold: Duration, output: Output<()>) {
        let Output::Transmit(port, why, packet) = output else { return };
        if port == Port::WIRELESS {
            self.crossing.push(packet);
        }
        let (sent, copied) = self.bytes.entry(packet.flow.0).or_default();
        if matches!(why, Why::Repair(_)) {
            let original = self.known.get(&number(&packet)).expect("a copy of what was sent");
            let expected = Packet { priority: packet.priority, cause: packet.cause, ..*original };
            assert_eq!((port, packet), (Port::WIRELESS, expected));
            *copied += u64::from(packet.len);
            assert!(*copied * 10 <= *sent, "{copied} of {sent} bytes");
            return;
        }
        let (since, original) = self.waiting.remove(&number(&packet)).expect("each packet passes once");
        assert_eq!(packet, original);
        if port == Port::WIRELESS {
            assert_eq!((since, self.towards_hop.pop_front()), (now, Some(number(&packet))));
            self.known.insert(number(&packet), packet);
            *sent += u64::from(packet.len);
        } else {
            assert!(now.since(since) <= hold);
        }
    }
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = QuicSnoopConfig {
        flows: u.int_in_range(0..=3)?,
        copies: u64::from(u.arbitrary::<u16>()?),
        cache: u64::from(u.arbitrary::<u16>()?) * 4,
        hold: Duration::from_millis(u.int_in_range(0..=25)?),
        ..QuicSnoopConfig::new(Rate(20_000_000))
    };
    let rtt = Duration::from_nanos(500_000 * u.int_in_range(1..=50)?);
    let mut node: QuicSnoop<()> = QuicSnoop::new(config);
    let (mut ledger, mut now, mut next) = (Ledger::default(), Instant::ZERO, 0);
    let mut clients: [Client; 4] = Default::default();
    // Numbers of the packets that the client of each flow expects.
    let mut sequence = [0; 4];
    steps(u, 600, |u| {
        let kind = u.int_in_range(0..=15)?;
        let flow = u.int_in_range(0..=3_u32)?;
        let mut given = None;
        match kind {
            0..=6 => given = Some((Port::WIRED, HeaderForm::Short, 1472)),
            7..=11 => {
                // What the client has returned by now.
                let returning = &mut clients[flow as usize].returning;
                if returning.front().is_some_and(|(at, _)| *at <= now) {
                    given = returning.pop_front().map(|(_, len)| (Port::WIRELESS, HeaderForm::Short, len));
                }
            }
            12 => {
                let form = if u.arbitrary()? { HeaderForm::Long } else { HeaderForm::Short };
                let port = if u.arbitrary()? { Port::WIRED } else { Port::WIRELESS };
                given = Some((port, form, u32::from(u.arbitrary::<u16>()? >> 5)));
            }
            13 => node.see_queue(u.int_in_range(0..=40)?),
            _ => {
                let span = match u.int_in_range(0..=5_u8)? {
                    0 => Duration::from_millis(u64::from(u.arbitrary::<u16>()?)),
                    _ => Duration::from_nanos(100_000 * u64::from(u.arbitrary::<u8>()?)),
                };
                let until = now + span;
                while let Some(at) = node.poll_deadline().filter(|at| *at <= until) {
                    node.handle_timeout(at);
                    drain(&mut node, at, |output| ledger.check(at, config.hold, output));
                }
                now = until;
            }
        }
        if let Some((port, form, len)) = given {
            let from = if port == Port::WIRED { Side::Acceptor } else { Side::Initiator };
            let data = sequence[flow as usize];
            sequence[flow as usize] += u32::from(port == Port::WIRED);
            let body = Body::Quic { number: next, data, form };
            let packet = Packet { flow: FlowId(flow), from, header_len: 28, len, body, ..Packet::default() };
            ledger.waiting.insert(next, (now, packet));
            if port == Port::WIRED {
                ledger.towards_hop.push_back(next);
            }
            let disposition = node.handle_packet(now, port, packet);
            drain(&mut node, now, |output| ledger.check(now, config.hold, output));
            assert!(disposition == Disposition::Held || !ledger.waiting.contains_key(&next));
            next += 1;
        }
        for packet in std::mem::take(&mut ledger.crossing) {
            if !u.ratio(1, 12)?
                && let Body::Quic { data, .. } = packet.body
            {
                clients[packet.flow.0 as usize].take(now + rtt, data);
            }
        }
        assert!(node.connections() <= config.flows && node.cached_bytes() <= config.cache);
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
