//! Bounds of the work per packet: of thousands of packets only a limited number is examined, freed or sent at once, and
//! the rest soon after.

use super::tests::{Bench, ISN, ack, at, data, sack, segment, seq};
use alloc::vec;

use super::*;
use crate::node::Node;
use crate::packet::Cause;
use crate::packet::Side;

/// Packets in the cache: many times the number that one call may examine, free or send.
const MANY: u32 = 1_000;
const EACH: u64 = 256;

/// Returns a connection with `data(0..MANY)` cached, after `ack(0)`, with windows of 2^16 segments.
fn full(hop: Option<HopControl>) -> Bench {
    let config = SnoopConfig { hop, ..SnoopConfig::new(LocalDetection::Smart, TcpAwareness::Aware) };
    let mut bench = Bench::wide(config);
    bench.wireless(0, ack(0));
    for n in 0..MANY {
        bench.wired(0, data(n));
    }
    assert_eq!(bench.snoop.cached_bytes(), u64::from(MANY) * EACH);
    bench
}

/// Returns the bytes cached after each call until no deferred work is left.
fn falls(bench: &mut Bench) -> Vec<u64> {
    let mut seen = vec![bench.snoop.cached_bytes()];
    while let Some(due) = bench.snoop.catch_up {
        bench.snoop.handle_timeout(due);
        bench.drain(due);
        seen.push(bench.snoop.cached_bytes());
        assert!(seen.len() <= MANY as usize, "it ends");
    }
    seen
}

fn few_at_a_time(seen: &[u64]) -> bool {
    seen.windows(2).all(|pair| pair[0] >= pair[1] && pair[0] - pair[1] <= 64 * EACH)
}

#[test]
fn what_an_acknowledgment_covers_is_gone_at_once_and_freed_in_parts() {
    let mut bench = full(None);
    bench.wireless(10, ack(MANY - 1));
    // The remaining packet is the only one that the timer may resend.
    let resent = (0..5).find_map(|_| {
        // Timers are moved back lazily.
        let due = bench.snoop.next_timer?;
        bench.snoop.run_timers(due);
        bench.drain(due).down.pop()
    });
    assert_eq!(resent, Some((Cause::LocalTimer, MANY - 1)));
    let seen = falls(&mut bench);
    assert!(seen[0] > u64::from(MANY) / 2 * EACH && few_at_a_time(&seen), "{seen:?}");
    assert_eq!(seen.last(), Some(&EACH));
    // Packets that arrive meanwhile speed it up.
    let mut bench = full(None);
    bench.wireless(10, ack(MANY));
    for n in 0..MANY / 2 {
        bench.wired(10, data(MANY + n));
    }
    assert_eq!(bench.snoop.cached_bytes(), u64::from(MANY / 2) * EACH);
}

#[test]
fn a_connection_that_is_reset_is_forgotten_at_once_and_freed_in_parts() {
    let mut bench = full(None);
    let flags = Flags::RST;
    bench.wired(10, segment(Side::Initiator, 0, Segment { seq: seq(MANY), flags, ..Segment::default() }));
    assert_eq!(bench.snoop.connections(), 0);
    let seen = falls(&mut bench);
    assert!(seen[0] > u64::from(MANY) / 2 * EACH && few_at_a_time(&seen), "{seen:?}");
    assert_eq!(seen.last(), Some(&0));
    assert_eq!(bench.snoop.poll_deadline(), None);
}

#[test]
fn what_is_held_goes_in_parts_and_in_order() {
    let mut bench = full(Some(HopControl { backlog: 1, held: 1 << 20 }));
    bench.snoop.remove(at(1), data(0).flow);
    let mut sent = Vec::new();
    while let Some(due) = bench.snoop.catch_up {
        bench.snoop.handle_timeout(due);
        let part = bench.drain(due).down;
        assert!(part.len() <= 64);
        sent.extend(part.into_iter().map(|(_, n)| n));
    }
    // The window admitted ten.
    assert_eq!(sent, (10..MANY).collect::<Vec<_>>());
    assert_eq!((bench.snoop.cached_bytes(), bench.snoop.poll_deadline()), (0, None));
}

/// No sender splits its data so finely and then sends so much of it at once: the cached packets are neither compared
/// nor used any more.
#[test]
fn a_segment_over_very_many_others_voids_them() {
    let mut bench = full(None);
    let wide = |n: u32, count: u32| {
        let mut packet = data(n);
        packet.len = 100 * count;
        packet
    };
    assert_eq!(bench.wired(5, wide(2, 64)).down, [(Cause::New, 2)]);
    assert_eq!(bench.snoop.cached_bytes(), u64::from(MANY - 64) * EACH + 6_400);
    assert_eq!(bench.wired(6, wide(100, 65)).down, [(Cause::New, 100)]);
    assert_eq!(falls(&mut bench).last(), Some(&0));
    // Caching continues with new data.
    bench.wired(20, data(MANY));
    bench.wired(20, data(MANY + 1));
    bench.wireless(21, ack(MANY + 1));
    assert_eq!(bench.idle_until(1_000).first(), Some(&221));
    assert_eq!(seq(0), ISN);
}

#[test]
fn timers_of_many_connections_are_acted_on_in_parts() {
    const CONNECTIONS: u32 = 50;
    let mut bench = Bench::wide(SnoopConfig::new(LocalDetection::Smart, TcpAwareness::Aware));
    for flow in 10..10 + CONNECTIONS {
        bench.open(flow);
        bench.wireless(0, Packet { flow: FlowId(flow), ..ack(0) });
        bench.wired(0, Packet { flow: FlowId(flow), ..data(0) });
    }
    // All due at once, as after a pause of the machine; a packet of another connection is not delayed either.
    let mut now = at(900);
    let part = bench.wired(900, segment(Side::Initiator, 0, Segment::default())).down;
    assert!(part.len() <= 1 + 8, "{part:?}");
    let mut resent = part.len() - 1;
    while let Some(due) = bench.snoop.poll_deadline().filter(|due| *due < at(920)) {
        assert!(due > now);
        now = due;
        bench.snoop.handle_timeout(due);
        let part = bench.drain(due).down;
        assert!(part.len() <= 8, "{part:?}");
        resent += part.len();
    }
    assert_eq!(resent, CONNECTIONS as usize);
    assert!(now < at(902), "soon: {now:?}");
}

/// One acknowledgment allows four repairs, and one for each of the 16 packets that it reports as arrived.
#[test]
fn repairs_go_in_parts_and_at_once() {
    let mut bench = full(None);
    bench.snoop.handle_packet(at(10), Port::WIRELESS, sack(0, &[(500, 516)]));
    assert!(bench.snoop.out.packets.len() <= 4, "with the acknowledgment");
    // Each of these is a call and what is due immediately after it.
    let mut parts = vec![bench.drain(at(10)).down];
    while let Some(due) = bench.snoop.poll_deadline().filter(|due| *due < at(11)) {
        bench.snoop.handle_timeout(due);
        parts.push(bench.drain(due).down);
    }
    assert!(parts.iter().all(|part| part.len() <= 8), "{parts:?}");
    let repaired = parts.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(repaired, (0..20).map(|n| (Cause::LocalHole, n)).collect::<Vec<_>>());
}

/// New data that the window admits is sent behind the repairs.
#[test]
fn repairs_go_ahead_of_what_is_held() {
    let mut bench = full(Some(HopControl { backlog: 1, held: 1 << 20 }));
    // The window admitted ten; two of them are lost after the first.
    let mut sent = bench.wireless(10, sack(0, &[(6, 10)])).down;
    while let Some(due) = bench.snoop.poll_deadline().filter(|due| *due < at(11)) {
        bench.snoop.handle_timeout(due);
        sent.extend(bench.drain(due).down);
    }
    let repairs = sent.iter().take_while(|(cause, _)| *cause == Cause::LocalHole).count();
    assert_eq!(sent[..repairs].iter().map(|(_, n)| *n).collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
    assert!(sent[repairs..].iter().all(|(cause, _)| *cause == Cause::New) && sent.len() > repairs, "{sent:?}");
}

/// A connection that ends while repairs are pending: held data is sent nevertheless, and nothing is left.
#[test]
fn repairs_that_are_still_to_go_hold_nothing_back_at_the_end() {
    let mut bench = full(Some(HopControl { backlog: 1, held: 1 << 20 }));
    bench.snoop.handle_packet(at(10), Port::WIRELESS, sack(0, &[(6, 10)]));
    bench.snoop.remove(at(10), data(0).flow);
    let seen = falls(&mut bench);
    assert_eq!((seen.last(), bench.snoop.poll_deadline()), (Some(&0), None));
}
