//! Conservation: regardless of events on a connection and of the data held or still to be repaired, all
//! accepted packets leave in order, and no state remains.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::tests::{Bench, ack, at, data, sack};
use super::*;
use crate::node::Node;
use crate::packet::{Cause, Packet};

/// Maximum number of timer calls until nothing is due: more than all held packets and repair attempts take.
const MOST_CALLS: usize = 20_000;
/// Total number of packets that the sender sends; its window has capacity for them.
const MOST_SENT: u32 = 600;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The sender sends this many more packets.
    Send(u32),
    /// The sender resends this packet, counted from the oldest unacknowledged one.
    Resend(u32),
    /// This many packets leave the hop. Those whose bit is set are lost, the others are acknowledged as they arrive.
    Cross(u32, u64),
    /// This many packets leave the hop, and all acknowledgments but the last are lost.
    CrossUnheard(u32),
    Wait(u64),
    /// The due timers run.
    Timeout,
    Part(Parting),
}

/// Ways in which a connection, or its flow control, ends while the connection continues.
#[derive(Clone, Copy, Debug)]
enum Parting {
    /// Removed.
    Removed,
    /// Another one evicts it.
    Ousted,
    /// All connections are removed.
    Cleared,
    /// Flow control is disabled.
    Unheld,
    /// Limits are reduced.
    Narrowed,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u32..60).prop_map(Step::Send),
        1 => (0u32..30).prop_map(Step::Resend),
        8 => (1u32..50, any::<u64>(), any::<u64>()).prop_map(|(count, a, b)| Step::Cross(count, a & b)),
        2 => (1u32..50).prop_map(Step::CrossUnheard),
        2 => (0u64..400).prop_map(Step::Wait),
        3 => Just(Step::Timeout),
    ]
}

fn parting() -> impl Strategy<Value = Parting> {
    use Parting::*;
    prop_oneof![Just(Removed), Just(Ousted), Just(Cleared), Just(Unheld), Just(Narrowed)]
}

/// The hop and the mobile host.
#[derive(Default)]
struct Hop {
    under_way: VecDeque<u32>,
    arrived: Vec<bool>,
    /// Packets in the order of their first transmission on the hop.
    first: Vec<u32>,
}

impl Hop {
    fn put(&mut self, sent: Vec<(Cause, u32)>) {
        // The other connection's SYN is no data.
        for (_, n) in sent.into_iter().filter(|(_, n)| *n < MOST_SENT) {
            if !self.first.contains(&n) {
                self.first.push(n);
            }
            self.under_way.push_back(n);
        }
    }

    fn next(&self) -> u32 {
        self.arrived.iter().take_while(|arrived| **arrived).count() as u32
    }

    /// Returns the mobile host's acknowledgment after `n` has arrived, with its block first (RFC 2018 §4).
    fn answer(&mut self, n: u32) -> Packet {
        self.arrived.resize(self.arrived.len().max(n as usize + 1), false);
        self.arrived[n as usize] = true;
        let next = self.next();
        if n < next {
            return ack(next);
        }
        let is = |n: u32| self.arrived.get(n as usize).copied().unwrap_or(false);
        let first = (next..=n).rev().take_while(|&n| is(n)).last().unwrap_or(n);
        let end = (n..).find(|&n| !is(n)).unwrap_or(n);
        sack(next, &[(first, end)])
    }
}

struct Story {
    bench: Bench,
    hop: Hop,
    config: SnoopConfig,
    now: u64,
    sent: u32,
    /// Packets that arrived and were not dropped for lack of capacity.
    taken: Vec<u32>,
    /// True if a retransmission passed.
    resent: bool,
}

impl Story {
    fn new(backlog: u32, connections: usize) -> Self {
        let hop = Some(HopControl { backlog, held: 1 << 20 });
        let new = SnoopConfig::new(LocalDetection::Smart, TcpAwareness::Aware);
        let config = SnoopConfig { hop, connections, ..new };
        let mut bench = Bench::wide(config.clone());
        bench.wireless(0, ack(0));
        Self { bench, hop: Hop::default(), config, now: 0, sent: 0, taken: Vec::new(), resent: false }
    }

    fn cross(&mut self, count: u32, mut lost: u64, heard: impl Fn(u32) -> bool) {
        for left in (0..count).rev() {
            let Some(n) = self.hop.under_way.pop_front() else { return };
            let arrives = lost & 1 == 0;
            lost >>= 1;
            if arrives {
                let answer = self.hop.answer(n);
                if heard(left) {
                    let seen = self.bench.wireless(self.now, answer);
                    self.hop.put(seen.down);
                }
            }
        }
    }

    /// Passes a packet of the sender to the node, and returns its disposition.
    fn give(&mut self, n: u32) -> Disposition {
        let now = at(self.now);
        let disposition = self.bench.snoop.handle_packet(now, Port::WIRED, data(n));
        let seen = self.bench.drain(now);
        self.hop.put(seen.down);
        disposition
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send(count) => {
                for _ in 0..count.min(MOST_SENT - self.sent) {
                    if self.give(self.sent) != Disposition::Dropped {
                        self.taken.push(self.sent);
                    }
                    self.sent += 1;
                }
            }
            Step::Resend(n) => {
                let n = self.hop.next() + n;
                if n < self.sent {
                    // Retransmissions may pass, ahead of held data.
                    self.resent |= self.give(n) == Disposition::Forwarded;
                }
            }
            Step::Cross(count, lost) => self.cross(count, lost, |_| true),
            Step::CrossUnheard(count) => self.cross(count, 0, |left| left == 0),
            Step::Wait(millis) => self.now += millis,
            Step::Timeout => self.timeout(),
            Step::Part(parting) => self.part(parting),
        }
    }

    /// Calls the node once at its deadline, if that is within the current millisecond or past.
    fn timeout(&mut self) {
        if let Some(due) = self.bench.snoop.poll_deadline().filter(|due| *due < at(self.now + 1)) {
            self.call(due);
        }
    }

    fn call(&mut self, due: Instant) {
        self.bench.snoop.handle_timeout(due);
        let seen = self.bench.drain(due);
        self.hop.put(seen.down);
    }

    fn part(&mut self, parting: Parting) {
        let snoop = &mut self.bench.snoop;
        match parting {
            Parting::Removed => snoop.remove(at(self.now), data(0).flow),
            Parting::Ousted => {
                let seen = self.bench.open(77);
                self.hop.put(seen.down);
            }
            Parting::Cleared => snoop.clear(),
            Parting::Unheld => snoop.set_config(at(self.now), SnoopConfig { hop: None, ..self.config.clone() }),
            Parting::Narrowed => {
                snoop.set_config(at(self.now), SnoopConfig { cache_bytes: 4_000, ..self.config.clone() })
            }
        }
        let seen = self.bench.drain(at(self.now));
        self.hop.put(seen.down);
    }

    /// Runs the rest of the time, without further losses.
    fn end(&mut self) {
        for _ in 0..MOST_CALLS {
            self.cross(1, 0, |_| true);
            let Some(due) = self.bench.snoop.poll_deadline() else {
                if self.hop.under_way.is_empty() {
                    return;
                }
                continue;
            };
            if self.hop.under_way.is_empty() || due < at(self.now + 1) {
                self.now = self.now.max(due.since(Instant::ZERO).as_nanos() / 1_000_000);
                self.call(due.max(at(self.now)));
            } else {
                self.now += 1;
            }
        }
        panic!("it goes on without end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn all_that_was_taken_leaves_whatever_becomes_of_the_connection(
        backlog in 0u32..20,
        connections in 1usize..3,
        before in proptest::collection::vec(step(), 1..40),
        parting in parting(),
        after in proptest::collection::vec(step(), 0..10),
    ) {
        let mut story = Story::new(backlog, connections);
        before.into_iter().for_each(|step| story.step(step));
        story.step(Step::Part(parting));
        let after_it = story.hop.first.len();
        after.into_iter().for_each(|step| story.step(step));
        story.end();
        let mut first = story.hop.first.clone();
        let in_order = story.resent || first[..after_it].is_sorted();
        first.sort_unstable();
        prop_assert!(story.taken.iter().all(|n| first.binary_search(n).is_ok()), "{first:?} of {:?}", story.taken);
        prop_assert!(in_order, "new data in order");
        prop_assert_eq!(story.bench.snoop.over.len(), 0);
    }
}
