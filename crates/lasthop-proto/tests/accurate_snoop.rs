//! Accurate ECN (RFC 9768) through snoop: a suppressed acknowledgment loses no count.

use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::node::{Disposition, Node, Port, Why};
use lasthop_proto::packet::{Ecn, Flags, FlowId, Packet, Side};
use lasthop_proto::pep::snoop::{Snoop, SnoopConfig};
use lasthop_proto::tcp::TcpInfo;
use lasthop_proto::tcp::config::{EcnMode, EcnOption, Preset, TcpConfig};
use lasthop_proto::time::Instant;
use std::cell::Cell;
use std::rc::Rc;

/// Pseudorandom numbers below 1000 (Knuth's MMIX generator).
#[derive(Clone)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 1000
    }
}

/// Snoop behind a queue that marks some of the packets from the wired side.
struct Station {
    snoop: Snoop<()>,
    draws: Draws,
    /// Marked packets per thousand.
    share: Rc<Cell<u64>>,
}

impl Node<()> for Station {
    fn handle_packet(&mut self, now: Instant, port: Port, mut packet: Packet) -> Disposition {
        if port == Port::WIRED && packet.ecn.is_capable() && self.draws.next() < self.share.get() {
            packet.ecn = Ecn::Ce;
        }
        self.snoop.handle_packet(now, port, packet)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.snoop.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, place: &mut Packet) -> Option<(Port, Why)> {
        self.snoop.poll_transmit(now, place)
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.snoop.poll_deadline()
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.snoop.poll_event()
    }
}

/// Result of a transfer over a lossy hop.
struct Counted {
    sender: TcpInfo,
    receiver: TcpInfo,
    pair: Pair,
}

/// Transfers data through snoop while the queue marks `marked` and the hop loses `lost` of 1000 packets, then a little
/// without marks and losses, whose acknowledgment completes the counts.
fn transfer(config: TcpConfig, marked: u64, lost: u64, seed: u64) -> Counted {
    let (share, loss) = (Rc::new(Cell::new(marked)), Rc::new(Cell::new(lost)));
    let snoop = Snoop::new(SnoopConfig::gateway());
    let station = Station { snoop, draws: Draws(seed), share: Rc::clone(&share) };
    let (mut draws, losses) = (Draws(!seed), Rc::clone(&loss));
    let mut pair = Pair::of(config).with_middle(station).with_delay(millis(10)).judged_by(move |sent| {
        let opens = sent.is(Flags::SYN);
        if !opens && draws.next() < losses.get() { Fate::Lose } else { Fate::Arrive }
    });
    pair.connect();
    let start = pair.now;
    for part in 1..=20 {
        pair.ends[0].write(50_000);
        pair.run_until(start + millis(200 * part));
    }
    pair.until_all_acked_by(Side::Initiator);
    let quiet = pair.now + millis(3000);
    pair.run_until(quiet);
    share.set(0);
    loss.set(0);
    for _ in 0..4 {
        pair.ends[0].write(10);
        let soon = pair.now + millis(500);
        pair.run_until(soon);
    }
    let [sender, receiver] = [0, 1].map(|end: usize| pair.ends[end].info());
    assert_eq!((pair.ends[0].unacked(), receiver.receiver.bytes_received), (0, 1_000_040), "seed {seed}");
    Counted { sender, receiver, pair }
}

fn accurate(option: EcnOption) -> TcpConfig {
    TcpConfig::preset(Preset::Linux618).with(|c| (c.common.ecn, c.common.ecn_option) = (EcnMode::Accurate, option))
}

/// The option's bytes show that a count has not wrapped although an acknowledgment covers all that waited for a repair.
/// A receiver with [`EcnOption::Full`] may end the option, if data that snoop and the sender both repair arrives three
/// times.
#[test]
fn the_sender_counts_what_the_receiver_counts() {
    let (mut marks, mut repairs, mut exact) = (0, 0, 0);
    for seed in 1..=24 {
        let (marked, lost) = [(0, 50), (20, 20), (100, 50), (300, 100)][seed as usize % 4];
        let Counted { sender, receiver, pair } = transfer(accurate(EcnOption::Persistent), marked, lost, seed);
        // Before its first increase, no counter shows whether a count has wrapped.
        assert!(sender.accurate.delivered_ce >= receiver.accurate.received_ce, "seed {seed}");
        assert_eq!(sender.accurate.delivered_ce % 8, receiver.accurate.received_ce % 8, "seed {seed}");
        exact += u32::from(sender.accurate.delivered_ce == receiver.accurate.received_ce);
        let arrived = pair.arrived.iter().filter(|(_, to, packet)| *to == Side::Acceptor && packet.ecn == Ecn::Ce);
        // Copies of data that was acknowledged before do not count, as in Linux.
        assert!(receiver.accurate.received_ce as usize <= arrived.count(), "seed {seed}");
        let bytes = |info: &TcpInfo| (info.accurate.delivered_bytes, info.accurate.received_bytes);
        assert_eq!(bytes(&sender).0, bytes(&receiver).1, "seed {seed}");
        marks += receiver.accurate.received_ce;
        repairs += pair.trace.iter().filter(|sent| sent.by_middle && sent.cause.is_local_retransmission()).count();
    }
    assert!(marks > 500 && repairs > 200 && exact >= 12, "{marks} marks, {repairs} repairs, {exact} exact");
}

/// Without the option, the sender may count more marks, since a count may have wrapped, but not fewer.
#[test]
fn without_the_option_no_mark_is_lost() {
    for seed in 1..=12 {
        let (marked, lost) = [(0, 50), (100, 50), (300, 100)][seed as usize % 3];
        let Counted { sender, receiver, .. } = transfer(accurate(EcnOption::Off), marked, lost, seed);
        assert!(
            sender.accurate.delivered_ce >= receiver.accurate.received_ce,
            "seed {seed}: {} of {}",
            sender.accurate.delivered_ce,
            receiver.accurate.received_ce
        );
        assert_eq!(sender.accurate.delivered_ce % 8, receiver.accurate.received_ce % 8, "seed {seed}");
    }
}

/// A local retransmission keeps ECN field, flags and counters of the packet that was lost.
#[test]
fn repairs_repeat_what_was_lost() {
    let Counted { pair, .. } = transfer(accurate(EcnOption::Full), 100, 50, 7);
    let mut compared = 0;
    let sent: Vec<_> = pair.trace.iter().filter(|sent| sent.by_middle && sent.from == Side::Initiator).collect();
    for repair in sent.iter().filter(|sent| sent.cause.is_local_retransmission()) {
        let same =
            |sent: &&&Sent| sent.seq == repair.seq && sent.len == repair.len && !sent.cause.is_local_retransmission();
        let firsts: Vec<_> = sent.iter().filter(same).filter(|sent| sent.at <= repair.at).collect();
        let [first] = firsts[..] else { continue };
        assert_eq!(first.segment.flags, repair.segment.flags);
        assert_eq!(first.segment.options.ecn_counters, repair.segment.options.ecn_counters);
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}
