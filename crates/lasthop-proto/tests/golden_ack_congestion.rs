//! Acknowledgment congestion control (RFC 5690) segment by segment, with the endpoint of [`util::golden::lab`]: a
//! round-trip time of 100 ms, a window of eight segments in congestion avoidance, every second segment acknowledged
//! until the sender signals another ratio.

use crate::util;

use lasthop_proto::packet::{AckCongestionOption, Ecn, Flags, Side};
use lasthop_proto::tcp::config::{AckCongestion, DelayedAck, EcnMode, Recovery, TcpConfig};
use util::golden::*;
use util::*;

fn config(ack_congestion: AckCongestion, ecn: EcnMode) -> TcpConfig {
    lab(Recovery::NEW_RENO).with(|c| {
        c.receiver.delayed_ack = DelayedAck::EverySecond { timeout: millis(200) };
        c.common.ack_congestion = ack_congestion;
        c.common.ecn = ecn;
    })
}

/// The ratios that data carried: first segment, last segment, ratio.
fn told(pair: &Pair) -> Vec<(u32, u32, u8)> {
    let mut runs: Vec<(u32, u32, u8)> = Vec::new();
    for sent in pair.sent_by(Side::Initiator) {
        let Some(AckCongestionOption::Ratio(ratio)) = sent.segment.options.ack_congestion else { continue };
        assert!(sent.len > 0, "{sent:?}");
        match runs.last_mut() {
            Some((_, to, known)) if *known == ratio.get() && *to + 1 == sent.number => *to = sent.number,
            _ => runs.push((sent.number, sent.number, ratio.get())),
        }
    }
    runs
}

/// §4.1: a SYN offers, its answer accepts. Without both, no data carries a ratio and no acknowledgment is ECN-capable.
/// With both, and ECN, pure acknowledgments are.
#[test]
fn both_ends_must_agree() {
    use AckCongestion::{Off, Rfc5690};
    use EcnMode::On;
    for (modes, offered, agreed) in [
        ([Off, Off], false, false),
        ([Off, Rfc5690], false, false),
        ([Rfc5690, Off], true, false),
        ([Rfc5690; 2], true, true),
    ] {
        for ecn in [EcnMode::Off, On] {
            let [client, server] = modes.map(|mode| config(mode, ecn));
            let mut pair = Pair::between(client, server);
            pair.send_segments(20);
            pair.finish();
            let permits = |sent: &Sent| sent.segment.options.ack_congestion == Some(AckCongestionOption::Permitted);
            assert_eq!((permits(&pair.trace[0]), permits(&pair.trace[1])), (offered, agreed), "{modes:?}");
            assert!(pair.trace[2..].iter().all(|sent| sent.segment.options.ack_congestion.is_none()), "{modes:?}");
            let expected = if agreed && ecn == On { Ecn::Ect0 } else { Ecn::NotEct };
            let acks = pair.arrived.iter().filter(|(_, to, packet)| {
                *to == Side::Initiator && packet.len == 0 && packet.tcp().unwrap().flags == Flags::ACK
            });
            assert!(acks.clone().count() >= 10 && acks.clone().all(|(.., packet)| packet.ecn == expected), "{modes:?}");
        }
    }
}

/// The acknowledgment of 4 is lost. That of 6 arrives at 100 and covers four segments where R is 2 (§4.4); the third
/// one after it, of 12 at 200, shows that none is reordered. R = 4, which 20 to 28 carry, until 20 is acknowledged. The
/// window is 9, so R decreases after 81/12 = 6 segments without a loss (§4.5), those of 14, 16 and 18, but not before
/// the peer is known to use 4, by the acknowledgment of 22 at 300. R = 3 decreases after 100/6 = 16 segments: those of
/// 26, 29, 32, 35 and 38. Fewer than R segments wait for 200 ms.
#[test]
fn a_lost_acknowledgment_doubles_the_ratio() {
    let pair = sends(config(AckCongestion::Rfc5690, EcnMode::Off), 50, |pair| pair.lose_acks(&[2]));
    pair.expect_acks(
        "50: 2 4 6 8
         150: 10 12 14 16
         250: 18 22
         350: 26 29 32
         450: 35 38 41
         550: 44 47 49
         750: 50",
    );
    assert_eq!(told(&pair), [(20, 28, 4), (29, 36, 3), (47, 50, 2)]);
    pair.expect(
        "0: 1 2 3 4 5 6 7 8
         100: 9 10 11 12 13 14 15 16 17
         200: 18 19 20 21 22 23 24 25
         300: 26 27 28 29 30 31 32
         400: 33 34 35 36 37 38 39 40 41 42 43
         500: 44 45 46 47 48 49 50",
    );
}

/// The acknowledgment of 4 is marked. It doubles R on arrival at 100, when 9 and 10 have been sent; 11 to 17 carry the
/// ratio. 14 is the fourth segment since the acknowledgment of 10; the three after it wait.
#[test]
fn a_marked_acknowledgment_doubles_it_at_once() {
    let pair = sends(config(AckCongestion::Rfc5690, EcnMode::On), 17, |pair| pair.mark_acks(&[2]));
    pair.expect_acks(
        "50: 2 4 6 8
         150: 10 14
         350: 17",
    );
    assert_eq!(told(&pair), [(11, 17, 4)]);
}

/// §4.6: R is 4 from the mark on, as above. Acknowledgments of 10 and 14 arrive at 200 and send 18 to 23; 18 is lost.
/// The acknowledgments of 6, 8 and 10 covered 81/12 = 6 segments without a mark, and that of 14 shows that the peer
/// uses 4: R is 3, which 20 to 27 and the retransmission of 18 carry. Of the five segments after 18 the first three are
/// acknowledged at once, with 15 to 17, which had waited; 22 and 23 wait. 24 to 27 follow at 300: 24 is the third that
/// waits, 27 the third after it. The fourth acknowledgment of 17 is the third duplicate; the retransmission of 18
/// arrives at 450, fills the hole, and is acknowledged at once.
#[test]
fn duplicates_come_by_the_ratio_too() {
    let pair = sends(config(AckCongestion::Rfc5690, EcnMode::On), 27, |pair| pair.mark_acks(&[2]).lose(&[(18, 1)]));
    pair.expect_acks(
        "50: 2 4 6 8
         150: 10 14
         250: 17 17 17
         350: 17 17
         450: 27",
    );
    assert_eq!(told(&pair), [(11, 19, 4), (20, 27, 3), (18, 18, 3)]);
}
