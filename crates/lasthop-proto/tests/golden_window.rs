//! Flow control (RFC 9293 §3.8.6; 4.4BSD): closed windows and probes, silly windows, scaling. 50 ms each way.

use crate::util::golden::*;
use crate::util::*;
use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Cause, Flags, Side};
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::{Nagle, Preset, Push, Recovery, TcpConfig, WindowEdge, WindowProbe};

/// The acceptor has a buffer for 4 segments and reads on command.
fn small_buffer(client: TcpConfig) -> Pair {
    let server = client.clone().with(|c| c.receiver.receive_buffer = 4000);
    let mut pair = Pair::between(client, server);
    pair.reading = [true, false];
    pair
}

fn rfc() -> TcpConfig {
    lab(Recovery::NEW_RENO)
}

fn probes(pair: &Pair) -> Vec<u64> {
    let start = pair.first_data();
    let sent = pair.sent_by(Side::Initiator).filter(|sent| sent.cause == Cause::Probe);
    sent.map(|sent| sent.at.since(start).as_nanos() / 1_000_000).collect()
}

/// Four segments fill the buffer. §3.8.6.1: the first probe is sent after one timeout (1 s, from the acknowledgment at
/// 100 that closes the window), and the interval doubles, up to the largest timeout. Each probe is the next byte; it is
/// refused and answered.
#[test]
fn a_closed_window_is_probed() {
    let mut pair = small_buffer(rfc());
    pair.send_segments(10);
    pair.run_until(ms(4000));
    pair.expect_conversation(
        "0 > S 0
         50 < SA 0:1
         100 > A 1:1
         150 > A 1+1000:1
         150 > A 1001+1000:1
         150 > A 2001+1000:1
         150 > A 3001+1000:1
         200 < A 1:1001
         200 < A 1:2001
         200 < A 1:3001
         200 < A 1:4001
         1250 > A 4001+1:1
         1300 < A 1:4001
         3250 > A 4001+1:1
         3300 < A 1:4001",
    );
    let windows: Vec<_> =
        pair.trace.iter().filter(|sent| sent.from == Side::Acceptor).map(|sent| sent.segment.window).collect();
    assert_eq!(windows, [4000, 3000, 2000, 1000, 0, 0, 0]);
    assert_eq!(pair.count_events(|event| *event == Event::ZeroWindow), 1);
    pair.run_until(ms(300_000));
    assert_eq!(probes(&pair), [1100, 3100, 7100, 15_100, 31_100, 63_100, 123_100, 183_100, 243_100]);
    assert_eq!(pair.timeouts(), 0);
    // The window opens: the application reads everything.
    pair.reading = [true, true];
    pair.finish();
    assert_eq!((pair.ends[1].received(), pair.ends[0].unacked()), (10_000, 0));
}

/// Linux probes without data (`tcp_xmit_probe_skb`): nothing is retransmitted after the window has opened. The interval
/// of 2 s runs from the acknowledgment of the first probe, which leaves the window closed (`tcp_ack_probe`).
#[test]
fn an_empty_probe_leaves_nothing_to_send_again() {
    let mut pair = small_buffer(rfc().with(|c| c.common.window_probe = WindowProbe::Empty));
    pair.send_segments(6);
    pair.run_until(ms(500));
    pair.forget();
    pair.run_until(ms(4000));
    pair.expect_conversation(
        "1250 > A 4000:1
         1300 < A 1:4001
         3350 > A 4000:1
         3400 < A 1:4001",
    );
    pair.run_until(ms(300_000));
    assert_eq!(probes(&pair), [1250, 3350, 7450, 15_550, 31_650, 63_750, 123_850, 183_950, 244_050]);
    pair.reading = [true, true];
    pair.finish();
    assert_eq!((pair.ends[1].received(), pair.ends[0].unacked(), pair.timeouts()), (6000, 0, 0));
    let sent: u32 = pair.sent_by(Side::Initiator).map(|sent| sent.len).sum();
    assert_eq!(sent, 2000);
}

/// Both windows have opened, but neither end knows: a probe's number is too old for its window to be accepted, so the
/// probe must be answered (`tcp_validate_incoming`).
#[test]
fn two_ends_that_probe_each_other_hear_of_open_windows() {
    let config = rfc().with(|c| {
        c.common.window_probe = WindowProbe::Empty;
        c.receiver.receive_buffer = 4000;
    });
    let mut pair = Pair::of(config).judged_by(|sent| {
        let tells = sent.is_pure_ack() && sent.cause != Cause::Probe && sent.at > ms(10_000) && sent.at < ms(11_000);
        if tells { Fate::Lose } else { Fate::Arrive }
    });
    pair.reading = [false, false];
    pair.connect();
    pair.ends[0].write(6000);
    pair.ends[1].write(6000);
    pair.run_until(ms(10_500));
    assert_eq!(pair.ends.each_ref().map(|end| end.unacked()), [2000, 2000]);
    pair.reading = [true, true];
    // The next probes leave some 15 s after the last ones.
    pair.run_until(ms(40_000));
    assert_eq!(pair.ends.each_ref().map(|end| end.received()), [6000, 6000]);
}

/// 4.4BSD: between 5 and 60 s, in ticks: the round-trip time makes 3 ticks of 500 ms, so max(5 s, 1.5 s · 2^k): 5, 5,
/// 6, 12, 24, 48, 60 s, the first 5 of them from 250 ms into the run, shortened by the phase.
#[test]
fn bsd_persist_timer() {
    let bsd = TcpConfig::preset(Preset::BsdLite).with(|c| {
        c.common.mss = 1000;
        c.common.initial_window = 8;
    });
    let mut pair = small_buffer(bsd);
    pair.send_segments(10);
    pair.run_until(ms(240_000));
    let mut at = 5000;
    let mut expected = vec![at - 150];
    for seconds in [5, 6, 12, 24, 48, 60, 60] {
        at += seconds * 1000;
        expected.push(at - 150);
    }
    // The fourth segment waits for the tick at 400: its acknowledgment closes the window at 450.
    assert_eq!(probes(&pair), expected);
}

/// §3.8.6.1: probes are needed because the acknowledgment that opens the window may be lost, as here.
#[test]
fn a_lost_window_update() {
    let mut pair = small_buffer(rfc()).judged_by(|sent| {
        // The fifth acknowledgment of the acceptor: four for the data, then the update.
        let update = sent.from == Side::Acceptor && sent.is_pure_ack() && sent.transmission == 5;
        if update { Fate::Lose } else { Fate::Arrive }
    });
    pair.send_segments(6);
    pair.run_until(ms(500));
    pair.forget();
    pair.reading = [true, true];
    pair.run_until(ms(1399));
    pair.expect_conversation(
        "500 < A 1:4001
         1250 > A 4001+1:1
         1300 < A 1:4002
         1350 > A 4002+1000:1",
    );
    pair.finish();
    assert_eq!(pair.ends[1].received(), 6000);
}

/// The receiver's half of the silly-window rule (§3.8.6.2.2; 4.4BSD): small increases cause no update, and a window of
/// less than a segment and less than a quarter of the buffer is advertised as zero.
#[test]
fn the_receiver_does_not_offer_silly_windows() {
    let mut pair = small_buffer(rfc());
    pair.send_segments(10);
    pair.run_until(ms(500));
    pair.forget();
    for (read, window) in [(900, None), (900, None), (200, Some(2000))] {
        pair.server().read(read);
        pair.flush();
        let sent = pair.trace.last().map(|sent| sent.segment.window);
        assert_eq!(sent, window);
    }
    let mut pair = small_buffer(rfc());
    pair.send_segments(10);
    pair.run_until(ms(500));
    pair.server().read(900);
    pair.forget();
    pair.run_until(ms(1400));
    // The answer to a probe.
    assert_eq!(pair.trace.last().map(|sent| (sent.at, sent.segment.window)), Some((ms(1300), 0)));
}

/// Makes the acceptor advertise `window` with an acknowledgment of everything up to `ack`.
fn advertise(pair: &mut Pair, ack: u32, window: u16) {
    let mut packet = pair.forge(Side::Initiator, Flags::ACK, 1, ack, 0);
    let Body::Tcp(segment) = &mut packet.body else { unreachable!() };
    segment.window = window;
    pair.inject(Side::Initiator, packet);
}

fn deaf(config: TcpConfig) -> Pair {
    Pair::of(config).judged_by(|sent| if sent.len > 0 { Fate::Lose } else { Fate::Arrive })
}

/// The sender's half (§3.8.6.2.1): it sends a full segment, or all its data when idle, or half the largest window seen;
/// the rest waits, at most for the override timeout.
#[test]
fn the_sender_does_not_use_silly_windows() {
    let mut pair = deaf(rfc());
    pair.send_segments(8);
    pair.forget();
    // All data acknowledged, 700 bytes of window: less than a segment and less than half of 60,000.
    pair.client().write(3000);
    advertise(&mut pair, 8001, 700);
    assert_eq!(pair.conversation(), "");
    pair.run_until(ms(1200));
    pair.expect_conversation("1150 > A 8001+700:1");
    // 2500 bytes: two full segments, without the half of a third.
    let mut pair = deaf(rfc());
    pair.send_segments(8);
    pair.forget();
    pair.client().write(3000);
    advertise(&mut pair, 8001, 2500);
    pair.expect_conversation("150 > A 8001+1000:1\n150 > A 9001+1000:1");
    // All remaining data, when idle.
    let mut pair = deaf(rfc());
    pair.send_segments(8);
    pair.forget();
    pair.client().write(600);
    advertise(&mut pair, 8001, 700);
    pair.expect_conversation("150 > A 8001+600:1");
}

/// Half the largest window seen is sent even if it is less than a segment: the peer's buffer may be smaller than a
/// segment.
#[test]
fn windows_smaller_than_a_segment() {
    let mut pair = Pair::between(rfc(), rfc().with(|c| c.receiver.receive_buffer = 600));
    pair.send_segments(3);
    pair.finish();
    assert_eq!(pair.ends[1].received(), 3000);
    assert_eq!(pair.timeouts(), 0);
    let sizes: Vec<_> = pair.sent_by(Side::Initiator).map(|sent| sent.len).filter(|&len| len > 0).collect();
    assert_eq!(sizes, [600; 5]);
}

/// §3.8.6: "the sender must be prepared" for a window that shrinks to zero: it waits for the window to open instead of
/// retransmitting.
#[test]
fn a_window_taken_back() {
    let mut pair = deaf(rfc());
    pair.send_segments(8);
    pair.forget();
    advertise(&mut pair, 1001, 0);
    pair.run_until(ms(4000));
    // The retransmission timer, restarted at 150, finds the window closed; then probes, at the backed-off 2 s and 4 s.
    pair.expect_conversation("3150 > A 1001+1:1");
    advertise(&mut pair, 1001, 8000);
    assert_eq!(pair.trace.last().map(|sent| (sent.seq, sent.len)), Some((1001, 1000)));
}

/// Both applications write and neither reads: both windows close, and both ends probe. Acknowledgments must be
/// acceptable regardless (4.4BSD: `snd_nxt` rather than `snd_max` while probing), and must not answer each other
/// endlessly.
#[test]
fn both_windows_closed() {
    let config = rfc().with(|c| c.receiver.receive_buffer = 4000);
    let mut pair = Pair::of(config);
    pair.reading = [false, false];
    pair.connect();
    pair.client().write(10_000);
    pair.server().write(10_000);
    pair.run_until(ms(60_000));
    assert_eq!((pair.ends[0].received(), pair.ends[1].received()), (4000, 4000));
    assert!(pair.trace.len() < 60, "{}", pair.trace.len());
    // One side reads only once all its data is acknowledged.
    pair.reading = [false, true];
    pair.until_all_acked_by(Side::Initiator);
    assert_eq!(pair.ends[0].unacked(), 0);
    pair.reading = [true, true];
    pair.finish();
    assert_eq!((pair.ends[0].received(), pair.ends[1].received()), (10_000, 10_000));
}

/// A peer that answers probes is alive, however long it keeps its window closed; a peer that does not answer is given
/// up.
#[test]
fn patience_with_a_closed_window() {
    let config = rfc().with(|c| c.common.max_retries = 5);
    let mut pair = small_buffer(config.clone());
    pair.send_segments(10);
    pair.client().close();
    pair.run_until(ms(3_600_000));
    assert_eq!(pair.states(), (State::Established, State::Established));
    pair.reading = [true, true];
    pair.run_until(ms(3_700_000));
    assert_eq!((pair.ends[1].received(), pair.states().0), (10_000, State::FinWait2));

    // The same applies if only a FIN waits for the window.
    let mut pair = small_buffer(config.clone());
    pair.send_segments(4);
    pair.client().close();
    pair.run_until(ms(3_600_000));
    assert_eq!(pair.ends[1].received(), 4000);
    pair.reading = [true, true];
    pair.run_until(ms(3_700_000));
    assert_eq!(pair.states(), (State::FinWait2, State::CloseWait));

    let mut pair =
        small_buffer(config).judged_by(|sent| if sent.cause == Cause::Probe { Fate::Lose } else { Fate::Arrive });
    pair.send_segments(10);
    pair.run_until(ms(3_600_000));
    assert_eq!((probes(&pair).len(), pair.states().0), (5, State::Closed));
    assert_eq!(pair.count_events(|event| *event == Event::Aborted), 1);
}

/// RFC 7323 §2: more than 65,535 bytes in flight, but never more than the window.
#[test]
fn window_scaling() {
    let under_way = |window_scale| {
        let config = TcpConfig::preset(Preset::Rfc).with(|c| {
            c.receiver.window_scale = window_scale;
            c.receiver.receive_buffer = 300_000;
            c.common.send_buffer = 1 << 20;
        });
        let mut pair = Pair::of(config);
        pair.send_segments(2000);
        pair.finish();
        assert_eq!(pair.ends[1].received(), 2000 * 1460);
        let mut acked = pair.arrived.iter().filter(|(_, side, _)| *side == Side::Initiator).peekable();
        let mut una = 1;
        let mut most = 0;
        for sent in pair.trace.iter().filter(|sent| sent.len > 0) {
            while let Some((_, _, packet)) = acked.next_if(|(at, ..)| *at <= sent.at) {
                una = packet.tcp().unwrap().ack.0;
            }
            most = most.max(sent.seq + sent.len - una);
        }
        most
    };
    assert_eq!(under_way(Some(7)), 300_000 / 1460 * 1460);
    assert_eq!(under_way(None), 65_535 / 1460 * 1460);
    assert_eq!(under_way(Some(0)), 65_535 / 1460 * 1460);
    // RFC 7323 §2.3: a shift beyond 14 counts as 14.
    assert_eq!(under_way(Some(14)), 294_912 / 1460 * 1460);
}

/// The send buffer also limits the data in flight.
#[test]
fn the_send_buffer() {
    let config = rfc().with(|c| c.common.send_buffer = 5500);
    let mut pair = Pair::of(config);
    pair.send_segments(20);
    pair.finish();
    pair.expect(
        "0: 1 2 3 4 5
         100: 6 7 8 9 10
         200: 11 12 13 14 15
         300: 16 17 18 19 20",
    );
}

/// Minshall's rule (Linux): a short segment waits behind another short one only.
#[test]
fn a_short_segment_behind_full_ones() {
    let long_write = |nagle| {
        let mut pair = Pair::of(rfc().with(|c| c.common.nagle = nagle));
        pair.connect();
        pair.forget();
        pair.client().write(u64::from(rfc().common.mss) + 300);
        pair.flush();
        pair.client().write(200);
        pair.run_until(ms(500));
        pair.trace.iter().filter(|sent| sent.len > 0).map(|sent| (sent.at, sent.len)).collect::<Vec<_>>()
    };
    let mss = rfc().common.mss;
    assert_eq!(long_write(Nagle::On), [(ms(150), mss), (ms(250), 500)]);
    assert_eq!(long_write(Nagle::Minshall), [(ms(150), mss), (ms(150), 300), (ms(250), 200)]);
}

/// Linux sends two segments as one if the rate is low. A pair that the peer's window splits is sent up to the window's
/// edge (`tcp_mss_split_point`); if the window ends between pairs, the next segment waits (`tcp_snd_wnd_test`).
#[test]
fn a_window_that_ends_within_a_segment() {
    let first_flight = |receive_buffer, window_edge| {
        let client = lab(Recovery::Rack).with(|c| {
            modern(c).window_edge = window_edge;
            c.common.nagle = Nagle::Minshall;
        });
        let mut pair = Pair::between(client.clone(), client.with(|c| c.receiver.receive_buffer = receive_buffer));
        pair.connect();
        pair.forget();
        pair.client().write(20_000);
        pair.run_until(ms(199));
        pair.trace.iter().filter(|sent| sent.len > 0).map(|sent| sent.len).collect::<Vec<_>>()
    };
    assert_eq!(first_flight(5_400, WindowEdge::Cut), [1000, 1000, 1000, 1000, 1000, 400]);
    assert_eq!(first_flight(4_400, WindowEdge::Cut), [1000; 4]);
    assert_eq!(first_flight(5_400, WindowEdge::Whole), [1000; 5]);
}

/// Nagle (RFC 9293 §3.7.4): less than a segment waits while data is in flight; with Nagle off, it does not.
#[test]
fn nagle() {
    let small_writes = |nagle| {
        let mut pair = Pair::of(rfc().with(|c| c.common.nagle = nagle));
        pair.connect();
        pair.forget();
        for _ in 0..4 {
            pair.client().write(300);
            pair.flush();
        }
        pair.run_until(ms(500));
        pair.trace.iter().filter(|sent| sent.len > 0).map(|sent| (sent.at, sent.len)).collect::<Vec<_>>()
    };
    assert_eq!(small_writes(Nagle::Minshall), small_writes(Nagle::On));
    assert_eq!(small_writes(Nagle::On), [(ms(150), 300), (ms(250), 900)]);
    assert_eq!(small_writes(Nagle::Off), [(ms(150), 300); 4]);
}

/// The last segment of each burst of two, and the last of all (`__tcp_transmit_skb`, `tcp_push`). A segment that is
/// alone in its burst, because the peer's window ends after it, is not pushed.
#[test]
fn the_end_of_a_burst_is_pushed() {
    let pushed = |receive_buffer, bytes, push| {
        let client = lab(Recovery::Rack).with(|c| {
            modern(c).push = push;
            modern(c).window_edge = WindowEdge::Cut;
            c.common.nagle = Nagle::Minshall;
        });
        let mut pair = Pair::between(client.clone(), client.with(|c| c.receiver.receive_buffer = receive_buffer));
        pair.connect();
        pair.forget();
        pair.client().write(bytes);
        pair.run_until(ms(199));
        let numbers = pair.trace.iter().filter(|sent| sent.len > 0).zip(1..);
        numbers.filter(|(sent, _)| sent.segment.flags.has(Flags::PSH)).map(|(_, number)| number).collect::<Vec<_>>()
    };
    assert_eq!(pushed(40_000, 20_000, Push::Bursts), [2, 4, 6, 8]);
    assert_eq!(pushed(40_000, 6_300, Push::Bursts), [2, 4, 6, 7]);
    assert_eq!(pushed(5_400, 20_000, Push::Bursts), [2, 4, 6]);
    assert_eq!(pushed(5_000, 20_000, Push::Bursts), [2, 4]);
    assert_eq!(pushed(40_000, 300, Push::Bursts), [1]);
    assert_eq!(pushed(40_000, 6_300, Push::Never), []);
}
