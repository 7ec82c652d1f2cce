//! Arbitrary datagrams in arbitrary order: nothing is dropped, changed, held too long or copied beyond the budget.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::node::{Output, pump};
use crate::packet::Side;

const FLOWS: usize = 3;
const COPIES: u64 = 20_000;
const CACHE: u64 = 45_000;

#[derive(Clone, Debug)]
enum Step {
    Packet(Port, Packet),
    Wait(u64),
    Queue(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => Just(1472_u32), 8 => 30_u32..46, 1 => 46_u32..300, 1 => 0_u32..3000];
    let packet = (any::<bool>(), 0_u32..5, len, 0_u32..30).prop_map(|(wired, flow, len, rare)| {
        // Data goes to the hop, acknowledgments come back, as a rule.
        let wired = if rare < 26 { len > 1000 } else { wired };
        let form = if rare == 0 { HeaderForm::Long } else { HeaderForm::Short };
        let body = if rare == 1 { Body::Datagram { number: 0 } } else { Body::Quic { number: 0, data: 0, form } };
        let (port, from) = if wired { (Port::WIRED, Side::Acceptor) } else { (Port::WIRELESS, Side::Initiator) };
        let integrity = if rare == 2 { Integrity::PayloadDamaged } else { Integrity::Intact };
        Step::Packet(
            port,
            Packet { flow: FlowId(flow), from, integrity, header_len: 28, len, body, ..Packet::default() },
        )
    });
    let wait = prop_oneof![20 => 0_u64..3_000_000, 3 => 0_u64..40_000_000, 1 => 0_u64..5_000_000_000];
    prop_oneof![10 => packet, 6 => wait.prop_map(Step::Wait), 1 => (0_usize..30).prop_map(Step::Queue)]
}

/// Numbers each datagram, so that it can be recognized.
fn numbered(mut packet: Packet, next: u32) -> Packet {
    match &mut packet.body {
        Body::Quic { number, .. } | Body::Datagram { number } => *number = next,
        _ => {}
    }
    packet
}

fn number(packet: &Packet) -> u32 {
    match packet.body {
        Body::Quic { number, .. } | Body::Datagram { number } => number,
        _ => u32::MAX,
    }
}

/// Datagrams of one direction that are with the device, and what each flow got.
#[derive(Default)]
struct Ledger {
    waiting: BTreeMap<u32, (Instant, Packet)>,
    order: VecDeque<u32>,
    sent: BTreeMap<u32, (u64, u64)>,
    known: BTreeMap<u32, Packet>,
}

impl Ledger {
    fn check(&mut self, now: Instant, output: Output<()>) {
        let Output::Transmit(port, why, packet) = output else { return };
        let id = number(&packet);
        if let Why::Repair(_) = why {
            assert_eq!(port, Port::WIRELESS);
            let original = self.known.get(&id).expect("a copy of what was sent");
            let copy = Packet { priority: original.priority, cause: original.cause, ..packet };
            assert_eq!(copy, *original);
            let (sent, copied) = self.sent.entry(packet.flow.0).or_default();
            *copied += u64::from(packet.len);
            assert!(*copied * 10 <= *sent, "flow {}: {copied} of {sent} bytes copied", packet.flow.0);
            return;
        }
        let (since, original) = self.waiting.remove(&id).expect("passes once");
        assert_eq!(packet, original);
        if port == Port::WIRELESS {
            assert_eq!(self.order.pop_front(), Some(id), "towards the hop, order is kept");
            assert_eq!(now, since, "towards the hop, nothing waits");
            self.known.insert(id, packet);
            self.sent.entry(packet.flow.0).or_default().0 += u64::from(packet.len);
        } else {
            assert!(now.since(since) <= Duration::from_millis(25), "held for {:?}", now.since(since));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_is_dropped_changed_or_held_too_long(steps in proptest::collection::vec(step(), 1..400)) {
        let config =
            QuicSnoopConfig { flows: FLOWS, copies: COPIES, cache: CACHE, ..QuicSnoopConfig::new(Rate(50_000_000)) };
        let mut node: QuicSnoop<()> = QuicSnoop::new(config);
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut deadline: Option<Instant> = None;
        let mut ledger = Ledger::default();
        for (next, step) in (0..).zip(steps) {
            match step {
                Step::Queue(waiting) => node.see_queue(waiting),
                Step::Wait(nanos) => {
                    let until = now + Duration::from_nanos(nanos);
                    // Early calls have no effect.
                    node.handle_timeout(now);
                    while let Some(at) = deadline.filter(|at| *at <= until) {
                        now = at;
                        node.handle_timeout(now);
                        deadline = pump(&mut node, now, |output| ledger.check(now, output));
                    }
                    now = until;
                }
                Step::Packet(port, packet) => {
                    let packet = numbered(packet, next);
                    ledger.waiting.insert(next, (now, packet));
                    if port == Port::WIRED {
                        ledger.order.push_back(next);
                    }
                    let disposition = node.handle_packet(now, port, packet);
                    deadline = pump(&mut node, now, |output| ledger.check(now, output));
                    prop_assert!(disposition == Disposition::Held || !ledger.waiting.contains_key(&next));
                }
            }
            prop_assert!(node.connections() <= FLOWS && node.cached_bytes() <= CACHE);
        }
        // What is still held leaves in time.
        let rest: Vec<Instant> = deadline.into_iter().collect();
        for at in rest {
            let mut at = Some(at);
            while let Some(now) = at {
                node.handle_timeout(now);
                at = pump(&mut node, now, |output| ledger.check(now, output));
            }
        }
        prop_assert!(ledger.waiting.is_empty());
    }
}
