//! Segmentation and receive offload between two ends with Linux 6.18's TCP. Expected sizes derive from the kernel's
//! formula: a super-segment holds the bytes of the pacing rate in 1/1024 s, and 64 KiB halved for each 512 us of the
//! minimum round trip, in whole segments; at least two, and at most half of the congestion window.

use std::collections::BTreeMap;

use lasthop_proto::channel::{Channel, ErrorSpec, Fate as Crossing, Frames};
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::{Preset, Push, ReceiveAutotune, Switch, TcpConfig};
use lasthop_proto::time::{Duration, Instant};
use proptest::prelude::*;

use crate::util::{Fate, Pair, Sent, modern};

const MSS: u32 = 1448;

/// Linux with segmentation offload, and a receive buffer that does not limit the first window.
fn offloading(initial_window: u32) -> TcpConfig {
    TcpConfig::preset(Preset::Linux618).with(|c| {
        c.common.initial_window = initial_window;
        c.receiver.receive_autotune = ReceiveAutotune::Off;
        modern(c).tso = Switch::On;
    })
}

/// Returns the sizes of the super-segments that leave in the first round trip, which takes `delay` each way.
fn first_sizes(config: TcpConfig, delay: Duration, segments: u32) -> Vec<usize> {
    let mut pair = Pair::of(config).with_delay(delay);
    pair.send_segments(segments);
    let began = pair.now;
    sizes(pair.sent_by(Side::Initiator).filter(|sent| sent.at == began && sent.len > 0))
}

/// Returns the numbers of consecutive segments with the same number.
fn sizes<'s>(sent: impl Iterator<Item = &'s Sent>) -> Vec<usize> {
    let numbers: Vec<u8> = sent.map(|sent| sent.super_segment).collect();
    assert!(!numbers.contains(&0));
    numbers.chunk_by(|a, b| a == b).map(<[u8]>::len).collect()
}

/// In early slow start the rate is twice the window per round trip.
///
/// * Window of 10, 50 ms: 579,200 B/s, 565 B in 1/1024 s, and nothing for the round trip (2^16 / 2^97): two segments.
/// * Window of 45, 50 ms: 2,606,400 B/s, 2,545 B: one and a half, so two again.
/// * Window of 45, 5 ms: 26,064,000 B/s, 25,453 B, and 2^16 / 2^9 = 128 B: 17.7 segments.
/// * Window of 10, 2 ms: 14,480,000 B/s, 14,140 B, and 2^16 / 2^3 = 8,192 B: 15.4 segments, of which half of the window
///   is five.
/// * Window of 45, 2 ms: 65,160,000 B/s, 63,632 B, and 8,192 B exceed 64 KiB: 45.3 segments, of which half of the window
///   is 22.
#[test]
fn super_segments_have_the_kernels_size() {
    for (window, micros, expected) in [
        (10, 50_000, &[2, 2, 2, 2, 2][..]),
        (45, 50_000, &[2; 22][..]),
        (45, 5_000, &[17, 17, 11][..]),
        (10, 2_000, &[5, 5][..]),
        (45, 2_000, &[22, 22][..]),
    ] {
        let delay = Duration::from_micros(micros / 2);
        let mut found = first_sizes(offloading(window), delay, 60);
        if found.last() == Some(&1) {
            // A window of 45 segments is odd.
            found.pop();
        }
        assert_eq!(found, expected, "{window} segments, {micros} us");
    }
}

/// `gso_max_segs` of the device.
#[test]
fn the_device_limits_super_segments() {
    let config = offloading(45).with(|c| modern(c).send_quantum = 8);
    assert_eq!(first_sizes(config, Duration::from_micros(2_500), 60), [8, 8, 8, 8, 8, 5]);
}

/// The last segment of a super-segment of several carries PSH, as in Linux.
#[test]
fn super_segments_end_with_push() {
    let mut pair = Pair::of(offloading(10)).with_delay(Duration::from_millis(25));
    pair.send_segments(10);
    let pushed: Vec<bool> = pair
        .sent_by(Side::Initiator)
        .filter(|sent| sent.len > 0)
        .map(|sent| sent.is(lasthop_proto::packet::Flags::PSH))
        .collect();
    assert_eq!(pushed, [false, true, false, true, false, true, false, true, false, true]);
}

/// BBR paces super-segments: each has a time of its own, except those of the first ten segments.
#[test]
fn pacing_is_by_super_segment() {
    let config = TcpConfig::preset(Preset::Linux618Bbr).with(|c| modern(c).tso = Switch::On);
    let mut pair = Pair::of(config).with_delay(Duration::from_millis(25));
    pair.send_segments(400);
    pair.finish();
    let mut of_time: BTreeMap<Instant, Vec<&Sent>> = BTreeMap::new();
    for sent in pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0).skip(10) {
        of_time.entry(sent.at).or_default().push(sent);
    }
    let several = of_time.values().filter(|sent| sent.len() > 1).count();
    assert!(several > 20, "{several}");
    for sent in of_time.into_values() {
        assert_eq!(sizes(sent.iter().copied()).len(), 1, "{:?}", sent[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Under any losses a super-segment leaves at one time, without a gap, and retransmissions do not merge earlier
    /// super-segments. The data arrives.
    #[test]
    fn super_segments_are_whole(
        losses in prop::collection::vec((1u32..300, 1u32..3), 0..40),
        window in 4u32..40,
        micros in 500u64..60_000,
        paced: bool,
    ) {
        let preset = if paced { Preset::Linux618Bbr } else { Preset::Linux618 };
        let config = TcpConfig::preset(preset).with(|c| {
            c.common.initial_window = window;
            modern(c).tso = Switch::On;
        });
        let mut pair = Pair::of(config).with_delay(Duration::from_micros(micros)).lose(&losses);
        pair.send_segments(300);
        pair.finish();
        prop_assert_eq!(pair.ends[1].received(), u64::from(300 * MSS));
        let mut units: Vec<Vec<Sent>> = Vec::new();
        for sent in pair.sent_by(Side::Initiator).filter(|sent| sent.len > 0) {
            match units.last_mut().filter(|unit| unit[0].super_segment == sent.super_segment) {
                Some(unit) => {
                    let before = unit[unit.len() - 1];
                    prop_assert_eq!((before.at, before.seq + before.len), (sent.at, sent.seq));
                    prop_assert_eq!(before.transmission > 1, sent.transmission > 1);
                    unit.push(*sent);
                }
                None => units.push(vec![*sent]),
            }
        }
        // Super-segment of the previous transmission, by sequence number.
        let mut before: BTreeMap<u32, usize> = BTreeMap::new();
        for (number, unit) in units.iter().enumerate() {
            let repeated = unit.iter().filter(|sent| sent.transmission > 1).map(|sent| before[&sent.seq]);
            prop_assert!(repeated.collect::<Vec<_>>().windows(2).all(|pair| pair[0] == pair[1]));
            before.extend(unit.iter().map(|sent| (sent.seq, number)));
        }
        prop_assert!(units.iter().all(|unit| unit.len() <= 45));
    }

    /// Without losses, offloads change no byte of what arrives.
    #[test]
    fn offloads_deliver_the_same(bytes in 1u64..400_000, window in 1u32..50, micros in 10u64..40_000, tso: bool, gro: bool) {
        let run = |tso: bool, gro: bool| {
            let on = |on| if on { Switch::On } else { Switch::Off };
            let config = TcpConfig::preset(Preset::Linux618).with(|c| {
                c.common.initial_window = window;
                modern(c).tso = on(tso);
                c.receiver.gro = on(gro);
                c.receiver.gro_flush_timeout = Duration::from_micros(20);
            });
            let mut pair = Pair::of(config).with_delay(Duration::from_micros(micros)).with_time_per_byte(Duration::from_nanos(8));
            pair.connect();
            pair.client().write(bytes);
            pair.client().close();
            pair.finish();
            let repeated = pair.sent_by(Side::Initiator).filter(|sent| sent.transmission > 1 && sent.len > 0).count();
            (pair.ends[1].received(), pair.ends[0].all_acked(), repeated)
        };
        prop_assert_eq!(run(tso, gro), (bytes, true, 0));
    }
}

/// Returns the number of acknowledgments of the ten segments of the first window, which arrive at the same time.
fn acks(gro: Switch, push: Push) -> usize {
    let client = offloading(10).with(|c| modern(c).push = push);
    let server = offloading(10).with(|c| c.receiver.gro = gro);
    let mut pair = Pair::between(client, server).with_delay(Duration::from_millis(25));
    pair.send_segments(10);
    let began = pair.now;
    pair.run_until(began + Duration::from_millis(30));
    pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack() && sent.at > began).count()
}

/// A new connection acknowledges each packet at once (quick mode). With receive offload a packet is a super-segment of
/// two, which PSH ends, or without PSH the whole window.
#[test]
fn merged_segments_have_one_acknowledgment() {
    assert_eq!(acks(Switch::Off, Push::Bursts), 10);
    assert_eq!(acks(Switch::On, Push::Bursts), 5);
    assert_eq!(acks(Switch::On, Push::Never), 1);
}

/// The peer's segment size is that of the segments, not of the merged packet (`tcp_measure_rcv_mss`).
#[test]
fn merged_segments_keep_their_size() {
    let config = offloading(10).with(|c| {
        c.receiver.gro = Switch::On;
        modern(c).push = Push::Never;
    });
    let mut pair = Pair::of(config).with_delay(Duration::from_millis(25));
    pair.send_segments(100);
    pair.finish();
    assert_eq!(pair.ends[1].received(), u64::from(100 * MSS));
    assert_eq!(pair.ends[1].info().receiver.rcv_mss, MSS);
}

/// With a gap, what is behind it is merged too, and has one duplicate acknowledgment.
#[test]
fn a_gap_ends_a_merged_segment() {
    let client = offloading(10).with(|c| modern(c).push = Push::Never);
    let server = offloading(10).with(|c| c.receiver.gro = Switch::On);
    let mut pair = Pair::between(client, server).with_delay(Duration::from_millis(25)).treat(4, 1, Fate::Lose);
    pair.send_segments(10);
    let began = pair.now;
    pair.run_until(began + Duration::from_millis(30));
    let acks: Vec<_> = pair.sent_by(Side::Acceptor).filter(|sent| sent.is_pure_ack() && sent.at > began).collect();
    let blocks: Vec<_> = acks.iter().map(|ack| ack.segment.options.sack.as_slice().len()).collect();
    assert_eq!(acks.iter().map(|ack| ack.ack).collect::<Vec<_>>(), [1 + 3 * MSS, 1 + 3 * MSS]);
    assert_eq!(blocks, [0, 1]);
    let block = acks[1].segment.options.sack.as_slice()[0];
    assert_eq!(block.right.since(block.left), 6 * MSS);
}

/// A process with the unit "super-segment" treats all packets of one equally, and loses the same share.
#[test]
fn packets_of_a_super_segment_share_their_fate() {
    let loss = ErrorSpec::Uniform { frame_loss: 0.2, frames: Frames::All };
    let whole = ErrorSpec::Whole(Box::new(loss.clone()));
    let judge = |spec: &ErrorSpec| {
        let mut channel = Channel::new(spec, Root(7).stream("errors"));
        let mut fates = Vec::new();
        for number in 0..20_000_u32 {
            // Super-segments of three of one sender, in between those of another.
            for flow in [0, 1] {
                let super_segment = (number / 3 % 255 + 1) as u8;
                let packet = Packet { flow: FlowId(flow), super_segment, len: MSS, ..Packet::<()>::default() };
                fates.push((flow, number / 3, channel.judge(&packet, Instant::ZERO, Instant::ZERO)));
            }
        }
        let mut of_unit: BTreeMap<(u32, u32), Vec<Crossing>> = BTreeMap::new();
        fates.iter().for_each(|(flow, unit, fate)| of_unit.entry((*flow, *unit)).or_default().push(*fate));
        let mixed = of_unit.values().filter(|fates| fates.iter().any(|fate| *fate != fates[0])).count();
        let lost = fates.iter().filter(|(.., fate)| *fate == Crossing::Lost).count();
        (mixed, lost as f64 / fates.len() as f64)
    };
    let (mixed, share) = judge(&whole);
    assert!(mixed == 0 && (share - 0.2).abs() < 0.01, "{mixed} {share}");
    let (mixed, share) = judge(&loss);
    assert!(mixed > 5_000 && (share - 0.2).abs() < 0.01, "{mixed} {share}");
    // Acknowledgments and packets of other hosts are of no super-segment.
    let mut channel = Channel::new(&whole, Root(7).stream("errors"));
    let alone = Packet::<()>::default();
    let fates: Vec<_> = (0..100).map(|_| channel.judge(&alone, Instant::ZERO, Instant::ZERO)).collect();
    assert!(fates.contains(&Crossing::Lost) && fates.contains(&Crossing::Delivered));
}
