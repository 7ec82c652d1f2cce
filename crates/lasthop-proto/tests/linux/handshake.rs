//! Repeated SYNs (`tcp_check_req`).

use crate::util::drill::linux;
use crate::util::*;
use lasthop_proto::packet::{Flags, Side};
use lasthop_proto::tcp::State;

const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);

/// Returns a pair whose acceptor has sent its SYN-ACK, which was lost.
fn answered() -> Pair {
    let mut pair = Pair::of(linux()).judged_by(|sent| if sent.is(SYN_ACK) { Fate::Lose } else { Fate::Arrive });
    pair.ends[1].listen();
    let syn = pair.forge(Side::Acceptor, Flags::SYN, 0, 0, 0);
    pair.inject(Side::Acceptor, syn);
    assert_eq!(pair.states().1, State::SynReceived);
    pair
}

fn answers(pair: &Pair) -> Vec<(u64, bool)> {
    let sent = pair.sent_by(Side::Acceptor);
    sent.map(|sent| (sent.at.as_nanos() / 1_000_000, sent.is(Flags::SYN))).collect()
}

/// A repeated SYN is answered at once, but not more often than every 500 ms. The timer of the answer is 1 s.
#[test]
fn a_repeated_syn_is_answered_at_once() {
    let mut pair = answered();
    for at in [200, 400, 800] {
        pair.run_until(ms(at));
        let syn = pair.forge(Side::Acceptor, Flags::SYN, 0, 0, 0);
        pair.inject(Side::Acceptor, syn);
    }
    assert_eq!(answers(&pair), [(0, true), (200, true), (800, true)]);
}

/// A SYN-ACK is out of the window of an answered SYN, and does not pass for the other half of a simultaneous open.
#[test]
fn a_syn_ack_to_an_answer_opens_nothing() {
    let mut pair = answered();
    pair.run_until(ms(100));
    let stray = pair.forge(Side::Acceptor, SYN_ACK, 0, 1, 0);
    pair.inject(Side::Acceptor, stray);
    assert_eq!(pair.states().1, State::SynReceived);
    assert_eq!(answers(&pair), [(0, true), (100, false)]);
}

/// A wrong acknowledgment is reset, and the connection stays; a reset in the window ends it.
#[test]
fn a_wrong_acknowledgment_is_reset_and_leaves_the_connection() {
    let mut pair = answered();
    let stray = pair.forge(Side::Acceptor, Flags::ACK, 1, 500, 0);
    pair.inject(Side::Acceptor, stray);
    assert!(pair.sent_by(Side::Acceptor).last().unwrap().is(Flags::RST));
    assert_eq!(pair.states().1, State::SynReceived);
    let reset = pair.forge(Side::Acceptor, Flags::RST, 1, 0, 0);
    pair.inject(Side::Acceptor, reset);
    assert_eq!(pair.states().1, State::Closed);
}
