//! Opening a connection (RFC 9293 §3.5, §3.10.7), segment by segment. 50 ms each way.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Flags, Side};
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::{Preset, Recovery, SenderConfig, Switch, TcpConfig};

fn rfc() -> TcpConfig {
    lab(Recovery::NEW_RENO)
}

/// Loses the given SYNs of each side, counted from 1.
fn losing_syns(config: TcpConfig, client: &[u32], server: &[u32]) -> Pair {
    let lost = [client.to_vec(), server.to_vec()];
    Pair::of(config).judged_by(move |sent| {
        let hit = sent.is(Flags::SYN) && lost[sent.from.index()].contains(&sent.transmission);
        if hit { Fate::Lose } else { Fate::Arrive }
    })
}

/// Figure 6.
#[test]
fn three_way() {
    let mut pair = Pair::of(rfc()).with_iss(u32::MAX, 0x8000_0000);
    pair.connect();
    pair.expect_conversation(
        "0 > S 0
         50 < SA 0:1
         100 > A 1:1",
    );
    assert_eq!(pair.count_events(|event| *event == Event::Established), 2);
}

/// Figure 7: both SYNs cross; each is answered by a SYN with an acknowledgment, which completes the handshake.
#[test]
fn simultaneous_open() {
    let mut pair = Pair::of(rfc()).with_iss(u32::MAX - 1, 99);
    pair.ends.iter_mut().for_each(|end| end.connect());
    pair.finish();
    pair.expect_conversation(
        "0 > S 0
         0 < S 0
         50 < SA 0:1
         50 > SA 0:1",
    );
    assert_eq!(pair.states(), (State::Established, State::Established));
    pair.client().write(10_000);
    pair.server().write(10_000);
    pair.finish();
    assert_eq!((pair.ends[0].received(), pair.ends[1].received()), (10_000, 10_000));
}

/// The first SYN's timeout: RFC 6298 §2.1 1 s; ns-2 3 s; 4.4BSD 12 ticks of half a second, the first of which may be
/// short: a connection opened 100 ms into the run times out on the twelfth tick, 5.9 s later. The second timeout is
/// twice the first.
#[test]
fn a_lost_syn() {
    for (preset, opened, first, second) in [
        (Preset::Rfc, 0, 1000, 3000),
        (Preset::Ns2, 0, 3000, 9000),
        (Preset::BsdLite, 0, 6000, 18000),
        (Preset::BsdLite, 100, 6000, 18000),
    ] {
        let mut pair = losing_syns(TcpConfig::preset(preset), &[1, 2], &[]);
        pair.run_until(ms(opened));
        pair.connect();
        let sent: Vec<_> =
            pair.sent_by(Side::Initiator).filter(|sent| sent.is(Flags::SYN)).map(|sent| sent.at).collect();
        assert_eq!(sent, [ms(opened), ms(first), ms(second)], "{preset:?}");
    }
}

/// RFC 6298 §5.7: a SYN was retransmitted and no round-trip time could be measured, so data starts with 3 s, not 1 s.
/// RFC 5681 §3.1: and with one segment.
#[test]
fn what_a_lost_syn_means_for_data() {
    let mut pair = losing_syns(rfc(), &[1], &[]).lose(&[(1, 1)]);
    pair.send_segments(3);
    pair.finish();
    pair.expect(
        "0: 1
         3000: 1t
         3100: 2 3",
    );
    // With timestamps the retransmitted SYN still gives a sample (RFC 7323 §4): 100 ms, so the minimum applies.
    let config = rfc().with(|c| c.common.timestamps = Switch::On);
    let mut pair = losing_syns(config, &[1], &[]).lose(&[(1, 1)]);
    pair.send_segments(3);
    pair.finish();
    pair.expect(
        "0: 1
         1000: 1t
         1100: 2 3",
    );
}

/// Both ends retransmit: the initiator its SYN at 1000, the acceptor its answer at 50 + 1000. The answer to the
/// retransmitted SYN is the acceptor's own retransmission, whichever is first; one acknowledgment is enough.
#[test]
fn a_lost_answer() {
    let mut pair = losing_syns(rfc(), &[], &[1]);
    pair.connect();
    pair.expect_conversation(
        "0 > S 0
         50 < SA 0:1
         1000 > S 0
         1050 < SA 0:1
         1100 > A 1:1",
    );
}

/// The last acknowledgment of the handshake is lost: the acceptor retransmits its SYN, which draws a challenge
/// acknowledgment (RFC 5961 §4.2).
#[test]
fn a_lost_last_acknowledgment() {
    let mut pair = Pair::of(rfc()).judged_by(|sent| {
        if sent.from == Side::Initiator && sent.is_pure_ack() && sent.transmission == 1 {
            Fate::Lose
        } else {
            Fate::Arrive
        }
    });
    pair.connect();
    pair.expect_conversation(
        "0 > S 0
         50 < SA 0:1
         100 > A 1:1
         1050 < SA 0:1
         1100 > A 1:1",
    );
}

/// Data right after it completes the handshake as well (RFC 9293 §3.10.7.4: any acceptable acknowledgment does).
#[test]
fn data_makes_up_for_a_lost_last_acknowledgment() {
    let mut pair = Pair::of(rfc()).judged_by(|sent| {
        if sent.from == Side::Initiator && sent.is_pure_ack() && sent.transmission == 1 {
            Fate::Lose
        } else {
            Fate::Arrive
        }
    });
    pair.ends[1].listen();
    pair.ends[0].connect();
    pair.run_until(ms(100));
    pair.client().write(1000);
    pair.run_until(ms(200));
    pair.expect_conversation(
        "0 > S 0
         50 < SA 0:1
         100 > A 1:1
         100 > A 1+1000:1
         150 < A 1:1001",
    );
    assert_eq!(pair.states().1, State::Established);
}

/// RFC 9293 §3.10.7.1: a closed end answers with a reset, which SYN-SENT accepts if it acknowledges the SYN.
#[test]
fn refused() {
    let mut pair = Pair::of(rfc());
    pair.ends[0].connect();
    pair.finish();
    pair.expect_conversation(
        "0 > S 0
         50 < RA 0:1",
    );
    assert_eq!(pair.states(), (State::Closed, State::Closed));
    assert_eq!(pair.count_events(|event| *event == Event::Aborted), 1);
}

/// Without any answer the connection is given up after its retries.
#[test]
fn nobody_there() {
    for preset in [Preset::BsdLite, Preset::Rfc] {
        let config = TcpConfig::preset(preset);
        let tries = config.common.max_retries + 1;
        let mut pair = Pair::of(config).judged_by(|_| Fate::Lose);
        pair.ends[0].connect();
        pair.finish();
        assert_eq!(pair.trace.len(), tries as usize, "{preset:?}");
        assert_eq!(pair.states().0, State::Closed);
        assert_eq!(pair.count_events(|event| *event == Event::Aborted), 1);
    }
}

/// RFC 9293 §3.10.7.3: a segment that does not acknowledge the SYN is answered with a reset at its own acknowledgment
/// number; a reset that does not acknowledge the SYN is ignored.
#[test]
fn nonsense_while_opening() {
    let mut pair = Pair::of(rfc()).judged_by(|_| Fate::Lose);
    pair.ends[0].connect();
    pair.flush();
    for ack in [0, 2, 1000] {
        pair.forget();
        let packet = pair.forge(Side::Initiator, Flags::SYN.with(Flags::ACK), 0, ack, 0);
        pair.inject(Side::Initiator, packet);
        assert_eq!(pair.conversation(), format!("0 > R {ack}"));
        let packet = pair.forge(Side::Initiator, Flags::RST.with(Flags::ACK), 0, ack, 0);
        pair.inject(Side::Initiator, packet);
        let packet = pair.forge(Side::Initiator, Flags::RST, 0, 0, 0);
        pair.inject(Side::Initiator, packet);
        assert_eq!(pair.states().0, State::SynSent);
    }
    let packet = pair.forge(Side::Initiator, Flags::RST.with(Flags::ACK), 0, 1, 0);
    pair.inject(Side::Initiator, packet);
    assert_eq!(pair.states().0, State::Closed);
}

/// RFC 9293 §3.10.7.2: a listener resets acknowledgments, ignores resets, and accepts SYNs.
#[test]
fn nonsense_for_a_listener() {
    let mut pair = Pair::of(rfc()).judged_by(|_| Fate::Lose);
    pair.ends[1].listen();
    let packet = pair.forge(Side::Acceptor, Flags::ACK, 7, 5, 10);
    pair.inject(Side::Acceptor, packet);
    pair.expect_conversation("0 < R 5");
    pair.forget();
    let packet = pair.forge(Side::Acceptor, Flags::RST, 7, 5, 0);
    pair.inject(Side::Acceptor, packet);
    let packet = pair.forge(Side::Acceptor, Flags::FIN, 7, 5, 0);
    pair.inject(Side::Acceptor, packet);
    assert_eq!((pair.conversation().as_str(), pair.states().1), ("", State::Listen));
    // Data on a SYN is discarded; the SYN is valid.
    let packet = pair.forge(Side::Acceptor, Flags::SYN, 0, 0, 100);
    pair.inject(Side::Acceptor, packet);
    pair.expect_conversation("0 < SA 0:1");
}

/// Options that either SYN lacks are not used (RFC 7323 §2 and §3.2, RFC 2018 §2); the smaller segment size applies,
/// and 536 if none is offered (RFC 9293 §3.7.1).
#[test]
fn negotiation() {
    let full = TcpConfig::preset(Preset::Rfc).with(|c| {
        c.receiver.receive_buffer = 1 << 20;
        c.common.send_buffer = 1 << 20;
    });
    let plain = full.clone().with(|c| {
        c.receiver.window_scale = None;
        c.common.timestamps = Switch::Off;
        c.sender = SenderConfig::new(Preset::Rfc, Recovery::NEW_RENO);
        c.common.mss = 1000;
    });
    let options = |client: &TcpConfig, server: &TcpConfig| {
        let mut pair = Pair::between(client.clone(), server.clone());
        pair.send_segments(1);
        pair.finish();
        let of = |index: usize| pair.trace[index].segment.options;
        let data = pair.trace.iter().find(|sent| sent.len > 0).unwrap();
        (of(0), of(1), (data.len, data.segment.options.timestamps.is_some(), data.segment.window))
    };
    let (syn, answer, data) = options(&full, &full);
    for offer in [syn, answer] {
        assert_eq!((offer.mss, offer.window_scale, offer.sack_permitted), (Some(1460), Some(7), true));
        assert!(offer.timestamps.is_some());
    }
    assert_eq!(data, (1460, true, 1 << 13));

    let (syn, answer, data) = options(&full, &plain);
    assert!(syn.window_scale.is_some() && syn.sack_permitted && syn.timestamps.is_some());
    assert_eq!((answer.mss, answer.window_scale, answer.sack_permitted), (Some(1000), None, false));
    assert_eq!(answer.timestamps, None);
    assert_eq!(data, (1000, false, 0xffff));

    let (syn, answer, data) = options(&plain, &full);
    assert_eq!((syn.window_scale, syn.sack_permitted, syn.timestamps), (None, false, None));
    assert_eq!((answer.mss, answer.window_scale, answer.sack_permitted), (Some(1460), None, false));
    assert_eq!(answer.timestamps, None);
    assert_eq!(data, (1000, false, 0xffff));

    // No size offered: 536, and the initial window is counted in segments of that size (RFC 6928 §2: 10 of them).
    let mut pair = Pair::of(full.with(|c| c.common.timestamps = Switch::Off));
    pair.ends[0].connect();
    pair.flush();
    let mut packet = pair.forge(Side::Initiator, Flags::SYN.with(Flags::ACK), 0, 1, 0);
    let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
    segment.options.mss = None;
    pair.inject(Side::Initiator, packet);
    pair.client().write(100_000);
    pair.flush();
    let sizes: Vec<_> = pair.trace.iter().map(|sent| sent.len).filter(|&len| len > 0).collect();
    assert_eq!(sizes, [536; 10]);
}

/// RFC 9293 §3.8.6: the window of a SYN is never scaled, later ones are.
#[test]
fn windows_of_syns_are_not_scaled() {
    let config = TcpConfig::preset(Preset::Rfc).with(|c| c.receiver.receive_buffer = 1 << 20);
    let mut pair = Pair::of(config);
    pair.connect();
    let windows: Vec<_> = pair.trace.iter().map(|sent| sent.segment.window).collect();
    assert_eq!(windows, [0xffff, 0xffff, 1 << 13]);
}
