//! The split relay ([a] §III-C) between two endpoints. 50 ms each way on either hop; only the relay's wireless hop
//! loses packets.

use std::sync::Arc;

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::node::{Node, Output, Port, Why, pump};
use lasthop_proto::packet::{Body, Cause, Flags, FlowId, Packet, Side};
use lasthop_proto::pep::split::{Handover, SplitRelay};
use lasthop_proto::tcp::config::{Recovery, SendAutotune, Switch};
use lasthop_proto::tcp::{State, TickPhase};

fn relay(buffer: u32) -> SplitRelay {
    let leg = Arc::new(lab(Recovery::NEW_RENO));
    SplitRelay::new(Handover::Shared(buffer), leg.clone(), leg, TickPhase::default(), Switch::Off)
}

fn split(buffer: u32) -> Pair {
    Pair::of(lab(Recovery::NEW_RENO)).with_middle(relay(buffer))
}

/// Segments that the relay sent towards the acceptor, in the form of [`Pair::story`], in milliseconds since the
/// initiator's first data.
fn beyond(pair: &Pair) -> Vec<(u64, u32)> {
    let start = pair.first_data();
    let data = pair.trace.iter().filter(|sent| sent.by_middle && sent.from == Side::Initiator && sent.len > 0);
    data.map(|sent| (sent.at.since(start).as_nanos() / 1_000_000, sent.number)).collect()
}

/// Each leg has its own handshake; the second begins when the SYN of the first arrives. Data is acknowledged on arrival
/// at the base station, and forwarded from there.
#[test]
fn two_connections_joined() {
    let mut pair = split(60_000);
    pair.connect();
    let syns: Vec<_> =
        pair.trace.iter().filter(|sent| sent.is(Flags::SYN)).map(|sent| (sent.at, sent.by_middle, sent.from)).collect();
    let expected = [
        (ms(0), false, Side::Initiator),
        (ms(50), true, Side::Acceptor),
        (ms(50), true, Side::Initiator),
        (ms(100), false, Side::Acceptor),
    ];
    assert_eq!(syns, expected);
    pair.client().write(3000);
    pair.finish();
    pair.expect("0: 1 2 3");
    // The last one announces that the buffer is free again.
    let acks = pair.trace.iter().filter(|sent| sent.by_middle && sent.from == Side::Acceptor && sent.is_pure_ack());
    let acks: Vec<_> = acks.map(|sent| (sent.at.since(pair.first_data()), sent.ack)).collect();
    assert_eq!(acks, [(millis(50), 1001), (millis(50), 2001), (millis(50), 3001), (millis(150), 3001)]);
    assert_eq!(beyond(&pair), [(50, 1), (50, 2), (50, 3)]);
    assert_eq!(pair.ends[1].received(), 3000);
}

/// Losses on one hop do not affect the other: the sender neither retransmits nor halves its window.
#[test]
fn losses_do_not_cross() {
    let mut pair = split(60_000).judged_by(|sent| {
        if sent.len > 0 && sent.transmission == 1 && [1, 3, 9].contains(&sent.number) {
            Fate::Lose
        } else {
            Fate::Arrive
        }
    });
    pair.send_segments(40);
    pair.finish();
    assert_eq!(pair.ends[1].received(), 40_000);
    assert!(pair.sent_by(Side::Initiator).all(|sent| !sent.cause.is_source_retransmission()));
    let repaired = pair.trace.iter().filter(|sent| sent.by_middle && sent.cause.is_source_retransmission());
    assert_eq!(repaired.map(|sent| sent.number).collect::<Vec<_>>(), [1, 3, 9]);
}

/// A stalled wireless side closes the wired side's window when the buffer is full; the sender probes. Nothing is lost.
#[test]
fn a_stalled_wireless_side_closes_the_window() {
    let mut pair = split(4000).judged_by(|sent| {
        // All data to the acceptor is lost for ten seconds after the handshake.
        let stalled = sent.len > 0 && sent.at > ms(200) && sent.at < ms(10_000);
        if stalled { Fate::Lose } else { Fate::Arrive }
    });
    pair.send_segments(12);
    pair.run_until(ms(9_000));
    let sent: Vec<_> =
        pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).map(|sent| (sent.number, sent.cause)).collect();
    assert_eq!(sent[..4].iter().map(|&(number, _)| number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(sent[4..].iter().all(|&(_, cause)| cause == Cause::Probe) && sent.len() > 5, "{sent:?}");
    assert_eq!(pair.count_events(|event| *event == Event::ZeroWindow), 1);
    pair.finish();
    assert_eq!(pair.ends[1].received(), 12_000);
    assert!(pair.sent_by(Side::Initiator).all(|sent| !sent.cause.is_source_retransmission()));
}

/// A relay of two sockets holds the receive buffer of one and the send buffer of the other: four segments were moved
/// and wait for acknowledgments, six more wait to be moved. Then the window is closed.
#[test]
fn what_is_moved_waits_in_two_buffers() {
    let config = lab(Recovery::NEW_RENO);
    let wired = Arc::new(config.clone().with(|c| c.receiver.receive_buffer = 6000));
    let wireless = Arc::new(config.clone().with(|c| c.common.send_buffer = 4000));
    assert_eq!(Handover::Moved.most_held(&wired, &wireless), 10_000);
    let relay = SplitRelay::new(Handover::Moved, wired, wireless, TickPhase::default(), Switch::Off);
    let mut pair = Pair::of(config).with_middle(relay).judged_by(|sent| {
        let stalled = sent.len > 0 && sent.by_middle && sent.at < ms(10_000);
        if stalled { Fate::Lose } else { Fate::Arrive }
    });
    pair.send_segments(20);
    pair.client().close();
    pair.server().close();
    pair.run_until(ms(9_000));
    let sent = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0 && sent.cause != Cause::Probe);
    assert_eq!(sent.map(|sent| sent.number).max(), Some(10));
    assert_eq!(beyond(&pair).iter().map(|&(_, number)| number).max(), Some(4));
    assert_eq!(pair.ends[1].received(), 0);
    pair.finish();
    assert_eq!((pair.ends[1].received(), pair.states()), (20_000, (State::Closed, State::Closed)));
}

/// A send buffer that tunes itself takes 47 segments while the window is small (46,080 bytes), and six wait to be
/// moved. The relay found it full, so it moves nothing, and the sender's window stays closed, until 17 are acknowledged
/// and a third of the buffer is free.
#[test]
fn a_full_send_buffer_takes_more_when_a_third_is_free() {
    let config = lab(Recovery::Rack);
    let wired = Arc::new(config.clone().with(|c| c.receiver.receive_buffer = 6000));
    let send_autotune = SendAutotune::Linux;
    let wireless = Arc::new(config.clone().with(|c| {
        c.common.send_buffer = 4 << 20;
        modern(c).send_autotune = send_autotune;
    }));
    let relay = SplitRelay::new(Handover::Moved, wired, wireless, TickPhase::default(), Switch::Off);
    let mut pair = Pair::of(config).with_middle(relay).judged_by(|sent| {
        let stalled = sent.len > 0 && sent.by_middle && sent.at < ms(10_000);
        if stalled { Fate::Lose } else { Fate::Arrive }
    });
    pair.send_segments(80);
    pair.run_until(ms(9_000));
    let sent = pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0 && sent.cause != Cause::Probe);
    assert_eq!(sent.map(|sent| sent.number).max(), Some(53));
    pair.finish();
    assert_eq!(pair.ends[1].received(), 80_000);
    let next = pair.sent_by(Side::Initiator).find(|sent| sent.number == 54 && sent.cause != Cause::Probe).unwrap().at;
    let acked = pair.trace.iter().filter(|sent| sent.from == Side::Acceptor && !sent.by_middle && sent.at < next);
    let acked = acked.map(|sent| sent.ack).max().unwrap();
    assert!((17_001..47_001).contains(&acked), "{acked}");
}

/// The FIN is forwarded only after the last data.
#[test]
fn the_fin_comes_last() {
    let mut pair = split(60_000).judged_by(|sent| {
        if sent.len > 0 && sent.number == 2 && sent.transmission < 4 { Fate::Lose } else { Fate::Arrive }
    });
    pair.send_segments(8);
    pair.client().close();
    pair.server().close();
    pair.finish();
    assert_eq!((pair.ends[1].received(), pair.states()), (8000, (State::Closed, State::Closed)));
    let closed =
        pair.events.iter().find(|(_, side, event)| *side == Side::Acceptor && *event == Event::PeerClosed).unwrap();
    let last = pair
        .arrived
        .iter()
        .filter(|(_, side, packet)| *side == Side::Acceptor && packet.len > 0)
        .map(|(at, ..)| *at)
        .max();
    assert_eq!(Some(closed.0), last);
    assert_eq!(pair.count_events(|event| *event == Event::Aborted), 0);
}

/// A reset on either side aborts both.
#[test]
fn resets_cross() {
    for side in [Side::Initiator, Side::Acceptor] {
        let mut pair = split(60_000);
        pair.connect();
        pair.ends[side.index()].abort();
        pair.finish();
        assert_eq!(pair.states(), (State::Closed, State::Closed));
        let aborted: Vec<_> =
            pair.events.iter().filter(|(.., event)| *event == Event::Aborted).map(|(_, side, _)| *side).collect();
        assert_eq!(aborted, [side, side.peer()]);
    }
}

/// If the connection beyond the relay is refused, the relay resets the initiator's connection.
#[test]
fn refused_beyond() {
    let mut pair = split(60_000);
    pair.ends[0].connect();
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    assert_eq!(pair.count_events(|event| *event == Event::Aborted), 1);
}

/// Packets of connections not opened through the relay pass unchanged. Packets of an ended connection are dropped,
/// because their numbers do not fit the other leg.
#[test]
fn strangers_pass_and_ghosts_do_not() {
    let mut relay = relay(60_000);
    let pair = Pair::of(lab(Recovery::NEW_RENO));
    let stranger = pair.forge(Side::Acceptor, Flags::ACK, 5, 7, 100);
    let datagram = Packet { flow: FlowId(9), body: Body::Datagram { number: 3 }, ..stranger };
    for (packet, from, to) in [(stranger, Port::WIRED, Port::WIRELESS), (datagram, Port::WIRELESS, Port::WIRED)] {
        relay.handle_packet(ms(1), from, packet);
        let mut outputs = Vec::new();
        pump(&mut relay, ms(1), |output| outputs.push(output));
        assert_eq!(outputs, [Output::Transmit(to, Why::Given, packet)]);
    }

    // A port that the relay does not have is treated as its wireless one.
    relay.handle_packet(ms(2), Port(7), stranger);
    let mut outputs = Vec::new();
    pump(&mut relay, ms(2), |output| outputs.push(output));
    assert_eq!(outputs, [Output::Transmit(Port::WIRED, Why::Given, stranger)]);

    // The acceptor's last acknowledgment arrives twice: the connection has ended when the second arrives.
    let mut pair = split(60_000)
        .judged_by(|sent| if sent.from == Side::Acceptor && sent.is_pure_ack() { Fate::Twice } else { Fate::Arrive });
    pair.send_segments(3);
    pair.client().close();
    pair.server().close();
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    assert_eq!(pair.count_events(|event| *event == Event::Aborted), 0);
    assert!(pair.trace.len() < 60, "{}", pair.trace.len());
}
