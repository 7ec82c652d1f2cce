//! Closing and resetting a connection (RFC 9293 §3.6, §3.10.7.4; RFC 5961), segment by segment. 50 ms each way.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::packet::{Flags, Side};
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::Recovery;
use lasthop_proto::time::Instant;

/// An open connection with its handshake removed from the trace. It is 150 ms into the run.
fn open() -> Pair {
    let mut pair = Pair::of(lab(Recovery::NEW_RENO)).with_iss(u32::MAX - 500, 77);
    pair.connect();
    pair.forget();
    pair
}

fn events(pair: &Pair, side: Side) -> Vec<(Instant, Event)> {
    let of_close = |event: &Event| matches!(event, Event::PeerClosed | Event::Closed | Event::Aborted);
    pair.events
        .iter()
        .filter(|(_, from, event)| *from == side && of_close(event))
        .map(|&(at, _, event)| (at, event))
        .collect()
}

/// Figure 12. FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT; CLOSE-WAIT, LAST-ACK. TIME-WAIT lasts one minute.
#[test]
fn one_after_the_other() {
    let mut pair = open();
    pair.client().close();
    pair.flush();
    assert_eq!(pair.states(), (State::FinWait1, State::Established));
    pair.run_until(ms(210));
    assert_eq!(pair.states(), (State::FinWait1, State::CloseWait));
    pair.run_until(ms(260));
    assert_eq!(pair.states(), (State::FinWait2, State::CloseWait));
    pair.server().close();
    pair.flush();
    assert_eq!(pair.states(), (State::FinWait2, State::LastAck));
    pair.run_until(ms(370));
    assert_eq!(pair.states(), (State::TimeWait, State::Closed));
    pair.expect_conversation(
        "150 > FA 1:1
         200 < A 1:2
         260 < FA 1:2
         310 > A 2:2",
    );
    pair.finish();
    assert_eq!((pair.now, pair.states().0), (ms(60_310), State::Closed));
    assert_eq!(events(&pair, Side::Initiator), [(ms(310), Event::PeerClosed), (ms(310), Event::Closed)]);
    assert_eq!(events(&pair, Side::Acceptor), [(ms(200), Event::PeerClosed), (ms(360), Event::Closed)]);
}

/// Figure 13: both FINs cross: CLOSING, then TIME-WAIT on both sides.
#[test]
fn both_at_once() {
    let mut pair = open();
    pair.client().close();
    pair.server().close();
    pair.run_until(ms(210));
    assert_eq!(pair.states(), (State::Closing, State::Closing));
    pair.run_until(ms(260));
    assert_eq!(pair.states(), (State::TimeWait, State::TimeWait));
    pair.expect_conversation(
        "150 > FA 1:1
         150 < FA 1:1
         200 < A 2:2
         200 > A 2:2",
    );
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
}

/// The FIN is set on the last data segment, and further writes are refused.
#[test]
fn a_fin_on_data() {
    let mut pair = open();
    pair.client().write(1500);
    pair.client().close();
    pair.client().write(1000);
    pair.run_until(ms(260));
    pair.expect_conversation(
        "150 > A 1+1000:1
         150 > FA 1001+500:1
         200 < A 1:1001
         200 < A 1:1502",
    );
}

/// Half-close: one direction ends, the other continues without limit.
#[test]
fn half_close() {
    let mut pair = open();
    pair.client().close();
    pair.run_until(ms(300));
    pair.server().write(30_000);
    pair.run_until(ms(2000));
    assert_eq!(pair.states(), (State::FinWait2, State::CloseWait));
    assert_eq!((pair.ends[0].received(), pair.ends[1].unacked()), (30_000, 0));
    pair.server().close();
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
}

/// The first FIN is lost and retransmitted after the timeout of 1 s.
#[test]
fn a_lost_fin() {
    let mut pair = Pair::of(lab(Recovery::NEW_RENO))
        .judged_by(|sent| if sent.is(Flags::FIN) && sent.transmission == 1 { Fate::Lose } else { Fate::Arrive });
    pair.connect();
    pair.forget();
    pair.client().close();
    pair.run_until(ms(2000));
    pair.expect_conversation(
        "150 > FA 1:1
         1150 > FA 1:1
         1200 < A 1:2",
    );
}

/// The acknowledgment of the last FIN is lost: TIME-WAIT repeats it and restarts (RFC 9293 §3.10.7.4).
#[test]
fn a_lost_last_acknowledgment() {
    let mut pair = Pair::of(lab(Recovery::NEW_RENO)).judged_by(|sent| {
        // The initiator's second pure acknowledgment; its first one ended the handshake.
        let last = sent.from == Side::Initiator && sent.is_pure_ack() && sent.transmission == 2;
        if last { Fate::Lose } else { Fate::Arrive }
    });
    pair.connect();
    pair.forget();
    pair.client().close();
    pair.run_until(ms(260));
    pair.server().close();
    pair.run_until(ms(2000));
    pair.expect_conversation(
        "150 > FA 1:1
         200 < A 1:2
         260 < FA 1:2
         310 > A 2:2
         1260 < FA 1:2
         1310 > A 2:2",
    );
    assert_eq!(pair.states(), (State::TimeWait, State::Closed));
    pair.finish();
    assert_eq!(pair.now, ms(61_310));
}

/// An abort sends a reset with the number that the peer expects (RFC 9293 §3.10.5), which the peer accepts at once.
#[test]
fn abort() {
    let mut pair = open();
    pair.client().write(5000);
    pair.flush();
    pair.client().abort();
    pair.finish();
    pair.expect_conversation(
        "150 > A 1+1000:1
         150 > A 1001+1000:1
         150 > A 2001+1000:1
         150 > A 3001+1000:1
         150 > A 4001+1000:1
         150 > RA 5001:1
         200 < A 1:1001
         200 < A 1:2001
         200 < A 1:3001
         200 < A 1:4001
         200 < A 1:5001
         // A closed end answers each acknowledgment with a reset; the peer is closed as well by then.
         250 > R 1001
         250 > R 2001
         250 > R 3001
         250 > R 4001
         250 > R 5001",
    );
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    assert_eq!(events(&pair, Side::Acceptor), [(ms(200), Event::Aborted)]);
    assert_eq!(events(&pair, Side::Initiator), [(ms(150), Event::Aborted)]);
}

/// RFC 5961 §3.2: a reset at exactly RCV.NXT resets; elsewhere in the window it draws a challenge acknowledgment;
/// outside it is dropped.
#[test]
fn resets() {
    let mut pair = open();
    for seq in [2, 59_999, 60_000] {
        let packet = pair.forge(Side::Acceptor, Flags::RST, seq, 0, 0);
        pair.inject(Side::Acceptor, packet);
    }
    pair.expect_conversation("150 < A 1:1\n150 < A 1:1\n150 < A 1:1");
    pair.forget();
    for seq in [0, 60_001, u32::MAX, 0x8000_0000] {
        let packet = pair.forge(Side::Acceptor, Flags::RST, seq, 0, 0);
        pair.inject(Side::Acceptor, packet);
    }
    assert_eq!((pair.conversation().as_str(), pair.states().1), ("", State::Established));
    let packet = pair.forge(Side::Acceptor, Flags::RST, 1, 0, 0);
    pair.inject(Side::Acceptor, packet);
    assert_eq!((pair.conversation().as_str(), pair.states().1), ("", State::Closed));
    assert_eq!(events(&pair, Side::Acceptor), [(ms(150), Event::Aborted)]);
}

/// RFC 5961 §4.2: a SYN draws a challenge acknowledgment regardless of its number. §7: at most ten of them in five
/// seconds.
#[test]
fn syns_in_the_middle() {
    let mut pair = open();
    for seq in [0, 1, 500, 100_000] {
        let packet = pair.forge(Side::Acceptor, Flags::SYN, seq, 0, 0);
        pair.inject(Side::Acceptor, packet);
    }
    pair.expect_conversation("150 < A 1:1\n150 < A 1:1\n150 < A 1:1\n150 < A 1:1");
    assert_eq!(pair.states().1, State::Established);

    let mut pair = open();
    for _ in 0..100 {
        let packet = pair.forge(Side::Acceptor, Flags::RST, 2, 0, 0);
        pair.inject(Side::Acceptor, packet);
    }
    assert_eq!(pair.trace.len(), 10);
    pair.run_until(ms(5200));
    pair.forget();
    let packet = pair.forge(Side::Acceptor, Flags::RST, 2, 0, 0);
    pair.inject(Side::Acceptor, packet);
    assert_eq!(pair.trace.len(), 1);
}

/// RFC 9293 §3.10.7.4: an acknowledgment of data that was never sent is answered and its data dropped; a segment
/// without an acknowledgment is dropped; one outside the window is answered.
#[test]
fn what_does_not_fit_is_not_taken() {
    let mut pair = open();
    let packet = pair.forge(Side::Acceptor, Flags::ACK, 1, 2, 100);
    pair.inject(Side::Acceptor, packet);
    pair.expect_conversation("150 < A 1:1");
    pair.forget();
    let packet = pair.forge(Side::Acceptor, Flags(0), 1, 1, 100);
    pair.inject(Side::Acceptor, packet);
    assert_eq!(pair.conversation(), "");
    let packet = pair.forge(Side::Acceptor, Flags::ACK, 60_001, 1, 100);
    pair.inject(Side::Acceptor, packet);
    pair.expect_conversation("150 < A 1:1");
    assert_eq!(pair.ends[1].received(), 0);
}

/// A reset in TIME-WAIT only ends the wait: both directions were finished.
#[test]
fn a_reset_in_time_wait() {
    let mut pair = open();
    pair.client().close();
    pair.server().close();
    pair.run_until(ms(300));
    let packet = pair.forge(Side::Initiator, Flags::RST, 2, 0, 0);
    pair.inject(Side::Initiator, packet);
    assert_eq!(pair.states(), (State::Closed, State::TimeWait));
    assert_eq!(events(&pair, Side::Initiator), [(ms(200), Event::PeerClosed), (ms(250), Event::Closed)]);
}

/// Data that arrives after an end has closed completely draws a reset with the sequence number that the data
/// acknowledges.
#[test]
fn data_for_a_closed_end() {
    let mut pair = Pair::of(lab(Recovery::NEW_RENO));
    let packet = pair.forge(Side::Acceptor, Flags::ACK, 10, 5, 100);
    pair.inject(Side::Acceptor, packet);
    let packet = pair.forge(Side::Acceptor, Flags::FIN, 10, 5, 100);
    pair.inject(Side::Acceptor, packet);
    let packet = pair.forge(Side::Acceptor, Flags::RST, 10, 5, 0);
    pair.inject(Side::Acceptor, packet);
    pair.expect_conversation("0 < R 5\n0 < RA 0:111");
}

/// The peer becomes unreachable in mid-transfer: the sender gives up after `max_retries` timeouts (RFC 9293 §3.8.3:
/// R2).
#[test]
fn a_peer_that_vanishes() {
    let config = lab(Recovery::NEW_RENO).with(|c| c.common.max_retries = 5);
    let mut pair = Pair::of(config).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive });
    pair.send_segments(1);
    pair.finish();
    // 1 + 2 + 4 + 8 + 16 + 32 seconds.
    pair.expect("0: 1\n1000: 1t\n3000: 1t\n7000: 1t\n15000: 1t\n31000: 1t");
    assert_eq!(events(&pair, Side::Initiator), [(ms(63_150), Event::Aborted)]);
}

/// RFC 5961 §5: an acknowledgment older than the largest window that the peer ever had is spoofed: its data is dropped,
/// and it draws a challenge acknowledgment. An old one within that window may carry data.
#[test]
fn acknowledgments_too_old_to_be_true() {
    let mut pair = open();
    pair.client().write(200_000);
    pair.until_all_acked_by(Side::Acceptor);
    pair.finish();
    pair.forget();
    let oldest = 200_001 - 60_000;
    for (seq, ack, received) in [(1, 1, 0), (1, oldest - 1, 0), (1, oldest, 100), (101, 200_001, 200)] {
        let packet = pair.forge(Side::Initiator, Flags::ACK, seq, ack, 100);
        pair.inject(Side::Initiator, packet);
        assert_eq!(pair.ends[0].received(), received, "{ack}");
    }
    let said: Vec<_> = pair.trace.iter().map(|sent| sent.ack).collect();
    assert_eq!(said, [1, 1, 101, 201]);
}

/// A connection cannot be reused: its numbers, windows and losses are no valid start of another one.
#[test]
fn a_connection_that_is_over_does_not_begin_again() {
    let mut pair = open();
    pair.client().write(1000);
    pair.client().abort();
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    pair.forget();
    pair.client().connect();
    pair.server().listen();
    pair.finish();
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    pair.expect_conversation("");
}
