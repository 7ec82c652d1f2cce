//! Two ends over a path of constant delay with losses that the test controls.

use std::collections::BTreeMap;

use bytes::Bytes;
use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::{Body, Cause, Ecn, FlowId, Integrity, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::{HeaderAccounting, Switch};
use lasthop_proto::time::{Duration, Instant};
use lasthop_quic::{CongestionControl, Exchange, QuicConfig, QuicEnd, Setup, Task};

/// Delay in one direction.
const DELAY: Duration = Duration::from_millis(25);

fn config(task: Task) -> QuicConfig {
    QuicConfig {
        task,
        congestion: CongestionControl::Cubic,
        udp_payload: 1472,
        stream_window: 1_250_000,
        idle_timeout: Duration::from_secs(30),
    }
}

/// Fate of a datagram on the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    Lost,
    Damaged,
    Doubled,
    Marked,
}

/// A datagram that was sent.
#[derive(Clone, PartialEq, Debug)]
struct Sent {
    at: Instant,
    from: Side,
    len: u32,
    cause: Cause,
    data: u32,
    bytes: Bytes,
}

struct Pair {
    ends: [QuicEnd; 2],
    deadlines: [Option<Instant>; 2],
    under_way: BTreeMap<(Instant, u32), Packet<Bytes>>,
    order: u32,
    sent: Vec<Sent>,
    events: Vec<(Instant, Side, Event)>,
    now: Instant,
}

impl Pair {
    fn new(config: QuicConfig, seed: u64) -> Self {
        let end = |side: Side| {
            let random = Root(seed).stream(&format!("{side:?}"));
            let (headers, watch) = (HeaderAccounting::Full, Switch::Off);
            QuicEnd::new(Setup { flow: FlowId(0), side, config, headers, random, watch })
        };
        let mut ends = [end(Side::Initiator), end(Side::Acceptor)];
        ends[0].connect(Instant::ZERO);
        Self {
            ends,
            deadlines: [Some(Instant::ZERO), None],
            under_way: BTreeMap::new(),
            order: 0,
            sent: Vec::new(),
            events: Vec::new(),
            now: Instant::ZERO,
        }
    }

    fn pump(&mut self, side: Side, fate: &mut impl FnMut(&Sent) -> Fate) {
        let Self { ends, deadlines, under_way, order, sent, events, now } = self;
        let now = *now;
        deadlines[side.index()] = pump(&mut ends[side.index()], now, |output| match output {
            Output::Event(_, event) => events.push((now, side, event)),
            Output::Transmit(_, _, mut packet) => {
                let Body::Quic { data, .. } = packet.body else { panic!("a datagram of QUIC") };
                assert_eq!(packet.len as usize, packet.payload.len());
                let bytes = packet.payload.clone();
                let datagram = Sent { at: now, from: packet.from, len: packet.len, cause: packet.cause, data, bytes };
                let fate = fate(&datagram);
                sent.push(datagram);
                if fate == Fate::Damaged {
                    packet.integrity = Integrity::PayloadDamaged;
                }
                if fate == Fate::Marked {
                    assert!(packet.ecn.is_capable());
                    packet.ecn = Ecn::Ce;
                }
                let copies = match fate {
                    Fate::Lost => 0,
                    Fate::Doubled => 2,
                    Fate::Passes | Fate::Damaged | Fate::Marked => 1,
                };
                for _ in 0..copies {
                    *order += 1;
                    under_way.insert((now + DELAY, *order), packet.clone());
                }
            }
        });
    }

    /// Runs until nothing is left to happen, or until `limit`; `fate` determines each datagram's fate.
    fn run(&mut self, limit: Duration, mut fate: impl FnMut(&Sent) -> Fate) {
        loop {
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let timers = self.deadlines.iter().flatten().copied();
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= Instant::ZERO + limit) else { return };
            self.now = next;
            if arrival == Some(next) {
                let (_, packet) = self.under_way.pop_first().expect("it was there");
                let to = packet.from.peer();
                self.ends[to.index()].handle_packet(next, Port::ONLY, packet);
                self.pump(to, &mut fate);
                continue;
            }
            for side in [Side::Initiator, Side::Acceptor] {
                if self.deadlines[side.index()].is_some_and(|at| at <= next) {
                    self.ends[side.index()].handle_timeout(next);
                    self.pump(side, &mut fate);
                }
            }
        }
    }

    fn ended(&self, side: Side) -> Option<Event> {
        let mut ends = self
            .events
            .iter()
            .filter(|(_, who, event)| *who == side && matches!(event, Event::Closed | Event::Aborted));
        ends.next().map(|(.., event)| *event)
    }

    fn resent(&self, side: Side) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.from == side && sent.cause.is_source_retransmission())
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// The handshake of RFC 9001 §4 and 2000 bytes after it, 25 ms in each direction.
///
/// The client's first datagram is padded to the path's full size (RFC 9000 §14.1), and so is the server's answer, whose
/// Initial packet is ack-eliciting: ServerHello, followed in a Handshake packet by the rest of its flight, which fits.
/// After a round trip the client has its keys: its Finished shares a datagram with the first data, and the rest of the
/// 2000 bytes fills another. The server confirms the handshake with HANDSHAKE_DONE, its tickets (178 bytes) and new
/// connection identifiers, and acknowledges. The client, once everything is acknowledged, closes and acknowledges the
/// server's packets.
#[test]
fn a_transfer_goes_as_the_rfcs_say() {
    let mut pair = Pair::new(config(Task::Bulk { bytes: 2000 }), 1);
    pair.run(MINUTE, |_| Fate::Passes);
    let (client, server) = (Side::Initiator, Side::Acceptor);
    let expected = [
        (0.0, client, 1472, Cause::Handshake, 0),
        (25.0, server, 1472, Cause::Handshake, 0),
        (50.0, client, 1472, Cause::Handshake, 1176),
        (50.0, client, 856, Cause::New, 824),
        (75.0, server, 219, Cause::Ack, 0),
        (75.0, server, 36, Cause::Ack, 0),
        (100.0, client, 62, Cause::Ack, 0),
        (100.0, client, 37, Cause::Ack, 0),
        (125.0, server, 38, Cause::Ack, 0),
    ];
    let short = |sent: &Sent| (sent.at.as_secs_f64() * 1e3, sent.from, sent.len, sent.cause, sent.data);
    assert_eq!(pair.sent.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(pair.ends[1].received(), 2000);
    let millis = |at: Instant| at.as_secs_f64() * 1e3;
    let events: Vec<_> = pair.events.iter().map(|(at, side, event)| (millis(*at), *side, *event)).collect();
    let expected = [
        (50.0, client, Event::Established),
        (75.0, server, Event::Established),
        (100.0, client, Event::Closed),
        (125.0, server, Event::Closed),
    ];
    assert_eq!(events, expected);
}

#[test]
fn everything_arrives_whatever_is_lost() {
    for (seed, loss) in [(1, 0.02), (2, 0.1), (3, 0.3)] {
        let mut dice = Root(seed).stream("losses");
        let mut pair = Pair::new(config(Task::Bulk { bytes: 300_000 }), seed);
        pair.run(MINUTE, |_| if dice.chance(loss) { Fate::Lost } else { Fate::Passes });
        assert_eq!(pair.ends[1].received(), 300_000, "seed {seed}");
        assert!(pair.ends.iter().all(QuicEnd::through), "seed {seed}");
        assert_eq!(pair.ended(Side::Initiator), Some(Event::Closed), "seed {seed}");
        // The resent bytes match the causes.
        let resent: u64 = pair.resent(Side::Initiator).map(|sent| u64::from(sent.data)).sum();
        assert!(pair.ends[0].resent() > 0 && pair.ends[0].resent() <= resent, "seed {seed}");
        // All data is sent once, and again as often as counted.
        let data: u64 = pair.sent.iter().map(|sent| u64::from(sent.data)).sum();
        assert_eq!(data, 300_000 + pair.ends[0].resent(), "seed {seed}");
    }
}

#[test]
fn a_lost_datagram_is_resent_once_acknowledgments_show_the_hole() {
    let mut pair = Pair::new(config(Task::Bulk { bytes: 30_000 }), 4);
    let mut data = 0;
    pair.run(MINUTE, |sent| {
        data += u32::from(sent.data > 0);
        if data == 5 && sent.data > 0 { Fate::Lost } else { Fate::Passes }
    });
    let resent: Vec<_> = pair.resent(Side::Initiator).collect();
    let lost = pair.sent.iter().filter(|sent| sent.data > 0).nth(4).expect("five were sent");
    assert_eq!(resent.len(), 1);
    assert_eq!((resent[0].cause, resent[0].data), (Cause::SackHole, lost.data));
    let recoveries = pair.events.iter().filter(|(.., event)| matches!(event, Event::RecoveryEntered { .. })).count();
    assert_eq!(recoveries, 1);
}

/// The end of a transfer and everything that the client sends after it is lost for 200 ms: only the answer to a probe
/// shows the hole (RFC 9002 §6.2), 50 ms after it was sent.
#[test]
fn a_lost_tail_is_resent_when_a_probe_is_answered() {
    let mut pair = Pair::new(config(Task::Bulk { bytes: 5000 }), 5);
    let dark = Instant::ZERO + Duration::from_millis(200);
    let mut so_far = 0;
    pair.run(MINUTE, |sent| {
        so_far += sent.data;
        let lost = so_far >= 5000 && sent.from == Side::Initiator && sent.at < dark;
        if lost { Fate::Lost } else { Fate::Passes }
    });
    let probe = pair.sent.iter().find(|sent| sent.from == Side::Initiator && sent.at >= dark).expect("a probe");
    let resent: Vec<_> = pair.resent(Side::Initiator).collect();
    assert_eq!((resent[0].cause, resent[0].at), (Cause::SackHole, probe.at + DELAY * 2));
    assert_eq!((probe.cause, probe.data, resent.len()), (Cause::Ack, 0, 1));
    assert_eq!(pair.ends[1].received(), 5000);
}

#[test]
fn requests_are_answered_in_turn() {
    let exchange = Exchange { request: 300, response: 20_000, requests: 12, parallel: 3 };
    let mut pair = Pair::new(config(Task::Exchange(exchange)), 6);
    pair.run(MINUTE, |_| Fate::Passes);
    assert_eq!(pair.ends[0].received(), 12 * 20_000);
    assert_eq!(pair.ends[1].received(), 12 * 300);
    assert!(pair.ends.iter().all(QuicEnd::finished));
    // Three at once: four rounds of at least 50 ms after the handshake; 60 kB exceed the initial window.
    let (last, ..) = pair.events.iter().find(|(.., event)| *event == Event::Closed).expect("it ends");
    assert!(*last >= Instant::ZERO + Duration::from_millis(250), "{last:?}");
    assert!(*last < Instant::ZERO + Duration::from_millis(800), "{last:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed: u64| {
        let mut dice = Root(9).stream("losses");
        let mut pair = Pair::new(config(Task::Bulk { bytes: 200_000 }), seed);
        pair.run(MINUTE, |_| if dice.chance(0.05) { Fate::Lost } else { Fate::Passes });
        (pair.sent, pair.events)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[test]
fn what_is_damaged_counts_as_lost_and_what_is_doubled_once() {
    let count = |fate: Fate| {
        let mut pair = Pair::new(config(Task::Bulk { bytes: 100_000 }), 10);
        let mut data = 0;
        pair.run(MINUTE, |sent| {
            data += u32::from(sent.data > 0);
            if data == 9 && sent.data > 0 { fate } else { Fate::Passes }
        });
        assert_eq!(pair.ends[1].received(), 100_000);
        pair.resent(Side::Initiator).count()
    };
    assert_eq!([Fate::Passes, Fate::Lost, Fate::Damaged, Fate::Doubled].map(count), [0, 1, 1, 0]);
}

#[test]
fn a_mark_slows_down_and_nothing_is_resent() {
    let mut pair = Pair::new(config(Task::Bulk { bytes: 200_000 }), 11);
    let mut data = 0;
    pair.run(MINUTE, |sent| {
        data += u32::from(sent.data > 0);
        if data == 20 && sent.data > 0 { Fate::Marked } else { Fate::Passes }
    });
    assert_eq!(pair.resent(Side::Initiator).count(), 0);
    let recoveries = pair.events.iter().filter(|(.., event)| matches!(event, Event::RecoveryEntered { .. })).count();
    assert_eq!(recoveries, 1);
}

#[test]
fn silence_ends_a_connection() {
    let idle = QuicConfig { idle_timeout: Duration::from_secs(2), ..config(Task::Bulk { bytes: 1_000_000 }) };
    let mut pair = Pair::new(idle, 12);
    let mut count = 0;
    pair.run(MINUTE, |_| {
        count += 1;
        if count > 100 { Fate::Lost } else { Fate::Passes }
    });
    assert_eq!([Side::Initiator, Side::Acceptor].map(|side| pair.ended(side)), [Some(Event::Aborted); 2]);
    assert!(pair.ends.iter().all(QuicEnd::finished) && !pair.ends.iter().any(QuicEnd::through));
    // With no answer at all.
    let mut pair = Pair::new(idle, 13);
    pair.run(MINUTE, |_| Fate::Lost);
    assert_eq!([Side::Initiator, Side::Acceptor].map(|side| pair.ended(side)), [Some(Event::Aborted), None]);
}
