//! Round trips, and arbitrary input.

use std::net::SocketAddr;
use std::num::NonZeroU8;

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use lasthop_proto::packet::{
    AckCongestionOption, Ecn, EcnCounters, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps,
};
use lasthop_proto::seq::Seq;
use proptest::prelude::*;

use super::*;

fn routes() -> impl Strategy<Value = Route> {
    let v4 = |(a, p, b, q): ([u8; 4], u16, [u8; 4], u16)| (SocketAddr::from((a, p)), SocketAddr::from((b, q)));
    let v6 = |(a, p, b, q): ([u8; 16], u16, [u8; 16], u16)| (SocketAddr::from((a, p)), SocketAddr::from((b, q)));
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>().prop_map(v4),
        any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(v6)
    ]
    .prop_map(|(source, destination)| Route { source, destination })
}

fn segments() -> impl Strategy<Value = Segment> {
    let block = any::<(u32, u32)>().prop_map(|(left, right)| SackBlock { left: Seq(left), right: Seq(right) });
    // Timestamps leave space for three blocks, and SMART for one less.
    let sack = prop::collection::vec(block, 0..3);
    let timestamps = any::<Option<(u32, u32)>>().prop_map(|pair| pair.map(|(val, ecr)| Timestamps { val, ecr }));
    let on_syn = any::<(Option<u16>, Option<u8>, bool)>();
    let counters = prop::option::of((any::<bool>(), prop::collection::vec(0..1_u32 << 24, 0..4)));
    let numbers = any::<(u32, u32, u16, bool)>();
    (numbers, 0..=Flags::ALL.0, sack, timestamps, any::<Option<u32>>(), on_syn, counters).prop_map(
        |((seq, ack, window, eln), flags, sack, timestamps, smart, (mss, window_scale, sack_permitted), counters)| {
            let flags = Flags(flags);
            let syn = flags.has(Flags::SYN);
            let mut blocks = SackBlocks::NONE;
            sack.into_iter().filter(|_| !syn).for_each(|block| blocks.push(block));
            let options = Options {
                mss: mss.filter(|_| syn),
                window_scale: window_scale.filter(|_| syn),
                sack_permitted: sack_permitted && syn,
                eln: eln && !syn && smart.is_none(),
                smart: smart.map(Seq).filter(|_| !syn && blocks.as_slice().len() < 2),
                // It needs the space of a block, as SMART does.
                ack_congestion: match (syn, NonZeroU8::new(window_scale.unwrap_or(0))) {
                    (true, _) if eln => Some(AckCongestionOption::Permitted),
                    (false, Some(ratio)) if smart.is_none() && blocks.as_slice().len() < 2 => {
                        Some(AckCongestionOption::Ratio(ratio))
                    }
                    _ => None,
                },
                // A block leaves space for three counters beside timestamps, two blocks for two, or one beside ELN.
                ecn_counters: counters.filter(|_| smart.is_none() && window_scale.is_none()).and_then(
                    |(order, values)| {
                        let most = match (blocks.len() < 2, eln) {
                            (true, _) => 3,
                            (false, false) => 2,
                            (false, true) => 1,
                        };
                        EcnCounters::new(if order { 172 } else { 174 }, &values[..values.len().min(most)])
                    },
                ),
                timestamps,
                sack: blocks,
            };
            let ack = if flags.has(Flags::ACK) { ack } else { 0 };
            Segment { seq: Seq(seq), ack: Seq(ack), window, flags, options }
        },
    )
}

/// Verifies both checksums with an independent parser.
fn check(packet: &[u8]) {
    let sliced = SlicedPacket::from_ip(packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
    let (header, payload) = (tcp.to_header(), tcp.payload());
    match sliced.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            assert_eq!(header.checksum, header.calc_checksum_ipv4(&ip, payload).unwrap());
        }
        etherparse::NetSlice::Ipv6(ip) => {
            let ip = ip.header().to_header();
            assert_eq!(header.checksum, header.calc_checksum_ipv6(&ip, payload).unwrap());
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn what_is_built_is_read_back(route in routes(), segment in segments(), payload in prop::collection::vec(any::<u8>(), 0..100), ecn in 0u8..4) {
        let ecn = Ecn::from_bits(ecn);
        let bytes = build_with_ecn(route, ecn, &segment, &payload).unwrap();
        check(&bytes);
        let view = parse(&bytes).unwrap();
        prop_assert_eq!((view.route, view.ecn, view.segment), (route, ecn, segment));
        prop_assert_eq!(&bytes[view.header_len..view.total_len()], &payload[..]);
        prop_assert_eq!(view.header_len - view.ip_len, 20 + usize::from(segment.options.wire_len()));
    }

    #[test]
    fn pieces_make_up_the_whole(route in routes(), segment in segments(), payload in prop::collection::vec(any::<u8>(), 0..5000), most in 1usize..2000) {
        let whole = build(route, &segment, &payload).unwrap();
        let pieces = pieces(&whole, &parse(&whole).unwrap(), most);
        let (mut joined, last) = (Vec::new(), pieces.len() - 1);
        for (index, piece) in pieces.iter().enumerate() {
            check(piece);
            let view = parse(piece).unwrap();
            prop_assert_eq!(view.segment.seq, segment.seq + joined.len() as u32);
            prop_assert!(view.payload_len <= most && view.total_len() == piece.len());
            let ends = if index == last { Flags::default() } else { Flags::FIN.with(Flags::PSH) };
            // With AE set, CWR is a counter bit (RFC 9768 §3.1) that each piece repeats.
            let says_once = index > 0 && !segment.flags.has(Flags::AE);
            let ends = if says_once { ends.with(Flags::CWR) } else { ends };
            prop_assert_eq!(view.segment.flags, segment.flags.without(ends));
            prop_assert_eq!((view.route, view.segment.options), (route, segment.options));
            joined.extend_from_slice(&piece[view.header_len..]);
        }
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn window_and_blocks_are_all_that_changes(route in routes(), segment in segments(), payload in prop::collection::vec(any::<u8>(), 0..50), window: u16) {
        let bytes = build(route, &segment, &payload).unwrap();
        let hidden = Options { sack: SackBlocks::NONE, ..segment.options };
        for options in [segment.options, hidden] {
            let wanted = Segment { window, options, ..segment };
            let revised = revise(&bytes, &parse(&bytes).unwrap(), &wanted, Checksum::Complete);
            check(&revised);
            prop_assert_eq!(&revised, &revise(&bytes, &parse(&bytes).unwrap(), &wanted, Checksum::Pending));
            let view = parse(&revised).unwrap();
            prop_assert_eq!(view.segment, wanted);
            prop_assert_eq!((revised.len(), &revised[view.header_len..]), (bytes.len(), &payload[..]));
        }
    }

    #[test]
    fn a_stamp_changes_the_timestamp_only(route in routes(), segment in segments(), val: u32) {
        let bytes = build(route, &segment, b"payload").unwrap();
        let mut wanted = segment;
        if let Some(timestamps) = &mut wanted.options.timestamps {
            timestamps.val = val;
        }
        let (mut stamped, view) = (bytes.clone(), parse(&bytes).unwrap());
        stamp(&mut stamped, &view, &wanted);
        check(&stamped);
        let after = parse(&stamped).unwrap();
        prop_assert_eq!((after.segment, after.total_len()), (wanted, bytes.len()));
        prop_assert!(segment.options.timestamps.is_some() || stamped == bytes);
    }

    #[test]
    fn an_acknowledgment_made_of_another_has_its_number_and_window(route in routes(), segment in segments(), ack: u32, window: u16) {
        let segment = Segment { flags: segment.flags.with(Flags::ACK), ..segment };
        let bytes = build(route, &segment, &[]).unwrap();
        let wanted = Segment { ack: Seq(ack), window, ..segment };
        let made = acknowledge(&bytes, &parse(&bytes).unwrap(), &wanted);
        check(&made);
        let view = parse(&made).unwrap();
        prop_assert_eq!((view.route, view.segment, made.len()), (route, wanted, bytes.len()));
    }

    #[test]
    fn a_mark_is_all_that_is_added(route in routes(), segment in segments(), payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let options = Options { eln: false, ..segment.options };
        let bytes = build(route, &Segment { options, ..segment }, &payload).unwrap();
        let room = options.wire_len() <= 36;
        let Some(marked) = mark_eln(&bytes, &parse(&bytes).unwrap()) else {
            prop_assert!(!room && options.sack.is_empty());
            return Ok(());
        };
        check(&marked);
        let view = parse(&marked).unwrap();
        let mut sack = SackBlocks::NONE;
        let kept = options.sack.as_slice().len() - usize::from(!room);
        options.sack.as_slice()[..kept].iter().for_each(|&block| sack.push(block));
        prop_assert_eq!((view.route, view.segment), (route, Segment { options: Options { eln: true, sack, ..options }, ..segment }));
        prop_assert_eq!(&marked[view.header_len..], &payload[..]);
    }

    #[test]
    fn a_flipped_bit_shows_in_the_checksum_of_its_part(route in routes(), segment in segments(), payload in prop::collection::vec(any::<u8>(), 0..50), at: prop::sample::Index, bit in 0u8..8) {
        let mut bytes = build(route, &segment, &payload).unwrap();
        let view = parse(&bytes).unwrap();
        prop_assert_eq!(checksums(&bytes, &view, Checksum::Complete), Checksums::Hold);
        // The version must stay: it determines how the rest is parsed.
        let at = 1 + at.index(bytes.len() - 1);
        bytes[at] ^= 1u8 << bit;
        let wrong = match (at < view.ip_len, route.source.is_ipv4()) {
            (true, true) => Checksums::IpWrong,
            // TCP's checksum covers only the addresses of the IPv6 header.
            (true, false) if at < 8 => Checksums::Hold,
            _ => Checksums::TcpWrong,
        };
        prop_assert_eq!(checksums(&bytes, &view, Checksum::Complete), wrong);
        let pending = if wrong == Checksums::IpWrong { wrong } else { Checksums::Hold };
        prop_assert_eq!(checksums(&bytes, &view, Checksum::Pending), pending);
        // A revised packet is as wrong as before.
        let revised = revise(&bytes, &view, &Segment { window: !segment.window, ..segment }, Checksum::Complete);
        prop_assert_eq!(checksums(&revised, &view, Checksum::Complete), wrong);
    }

    #[test]
    fn any_bytes_are_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..120), first in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60), any::<u8>()]) {
        let mut bytes = bytes;
        if let [version, rest @ ..] = &mut bytes[..] {
            *version = first;
            if let Some(protocol) = rest.get_mut(if first >> 4 == 4 { 8 } else { 5 }) {
                *protocol = 6;
            }
        }
        if let Some(view) = parse(&bytes) {
            prop_assert!(view.ip_len + 20 <= view.header_len && view.total_len() <= bytes.len());
            prop_assert!(!pieces(&bytes, &view, 7).is_empty());
            prop_assert_eq!(revise(&bytes, &view, &Segment::default(), Checksum::Pending).len(), view.total_len());
            let _ = checksums(&bytes, &view, Checksum::Complete);
            if let Some(marked) = mark_eln(&bytes, &view) {
                prop_assert!(parse(&marked).is_some_and(|marked| marked.total_len() <= view.total_len() + 4));
            }
        }
    }
}

/// Every change preserves the ECN field of the IP header and the flags of the TCP header.
#[test]
fn marks_and_flags_survive_every_change() {
    for (source, destination) in [("10.0.0.1:80", "10.0.0.2:81"), ("[fd00::1]:80", "[fd00::2]:81")] {
        let route = Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        for (number, bits) in (0..=Flags::ALL.0).zip((0..4).cycle()) {
            let (flags, ecn) = (Flags(number), Ecn::from_bits(bits));
            let ack = if flags.has(Flags::ACK) { Seq(7) } else { Seq(0) };
            let segment = Segment { seq: Seq(5), ack, window: 9, flags, options: Options::default() };
            let bytes = build_with_ecn(route, ecn, &segment, b"payload").unwrap();
            let view = parse(&bytes).unwrap();
            let mut stamped = bytes.clone();
            stamp(&mut stamped, &view, &segment);
            let changed = [
                revise(&bytes, &view, &Segment { window: 77, ..segment }, Checksum::Complete),
                mark_eln(&bytes, &view).unwrap(),
                pieces(&bytes, &view, 100).remove(0),
                stamped,
            ];
            let mut congested = bytes.clone();
            mark_congestion(&mut congested);
            check(&congested);
            assert_eq!(parse(&congested).unwrap(), View { ecn: Ecn::Ce, ..view });
            for bytes in changed {
                check(&bytes);
                let view = parse(&bytes).unwrap();
                assert_eq!((view.ecn, view.segment.flags), (ecn, flags));
            }
        }
    }
}

/// Timestamps and three blocks fill the space for options; the mark replaces the last block.
#[test]
fn a_mark_takes_the_place_of_the_last_block() {
    let route = Route { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() };
    let block = |left: u32| SackBlock { left: Seq(left), right: Seq(left + 1) };
    let timestamps = Some(Timestamps { val: 1, ecr: 2 });
    for (smart, blocks, kept) in [(None, 3, 2), (Some(Seq(5)), 2, 1)] {
        let mut sack = SackBlocks::NONE;
        (0..blocks).for_each(|index| sack.push(block(10 * index)));
        let options = Options { timestamps, smart, sack, ..Options::default() };
        let segment = Segment { flags: Flags::ACK, options, ..Segment::default() };
        let bytes = build(route, &segment, &[]).unwrap();
        assert_eq!(bytes.len(), 80);
        let marked = mark_eln(&bytes, &parse(&bytes).unwrap()).unwrap();
        check(&marked);
        let view = parse(&marked).unwrap();
        assert!(view.segment.options.eln && marked.len() == 76);
        assert_eq!(view.segment.options.sack.as_slice(), &options.sack.as_slice()[..kept]);
        assert_eq!((view.segment.options.timestamps, view.segment.options.smart), (timestamps, smart));
    }
}

#[test]
fn what_is_not_a_whole_tcp_segment_is_left_alone() {
    let udp = |payload: &[u8]| {
        let builder = PacketBuilder::ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9).udp(1, 2);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, payload).unwrap();
        bytes
    };
    assert_eq!(parse(&udp(&[0; 30])), None);
    assert_eq!(parse(&[]), None);
    let route = Route { source: "10.0.0.1:80".parse().unwrap(), destination: "10.0.0.2:81".parse().unwrap() };
    let whole = build(route, &Segment::default(), &[7; 40]).unwrap();
    assert!(parse(&whole).is_some());
    // Truncated, and a fragment.
    assert_eq!(parse(&whole[..whole.len() - 1]), None);
    for (at, value) in [(6, 0x20), (7, 1)] {
        let mut fragment = whole.clone();
        fragment[at] = value;
        assert_eq!(parse(&fragment), None);
    }
    // Padding after the packet is not part of it.
    let padded = [&whole[..], &[0; 6]].concat();
    assert_eq!(parse(&padded), parse(&whole));
}

proptest! {
    /// A redirected packet has valid checksums for any content, and nothing else in it changes.
    #[test]
    fn a_redirected_packet_is_one_that_was_addressed_so(
        source in any::<[u8; 4]>(),
        (first, second) in any::<([u8; 4], [u8; 4])>(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        is_tcp in any::<bool>(),
    ) {
        let packet = |to| {
            let ip = PacketBuilder::ipv4(source, to, 9);
            let mut bytes = Vec::new();
            if is_tcp {
                ip.tcp(1000, 80, 7, 512).write(&mut bytes, &payload).expect("a packet");
            } else {
                ip.udp(1000, 53).write(&mut bytes, &payload).expect("a packet");
            }
            bytes
        };
        let mut bytes = packet(first);
        redirect(&mut bytes, second.into());
        prop_assert_eq!(&bytes, &packet(second));
        redirect(&mut bytes, first.into());
        prop_assert_eq!(&bytes, &packet(first));
    }

    /// Bytes that are not an IPv4 packet stay unchanged; no input, however short, causes a failure.
    #[test]
    fn what_is_no_ipv4_packet_is_not_redirected(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), to in any::<[u8; 4]>()) {
        let before = bytes.clone();
        redirect(&mut bytes, to.into());
        if before.first().is_none_or(|first| first >> 4 != 4) {
            prop_assert_eq!(&bytes, &before);
        }
        prop_assert_eq!(bytes.len(), before.len());
    }
}

/// A UDP packet without a checksum gets none; a later fragment, whose first bytes are data, keeps them; a damaged
/// packet stays damaged.
#[test]
fn a_redirected_packet_keeps_what_is_no_checksum() {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9).udp(1000, 53).write(&mut bytes, &[1, 2, 3]).expect("a packet");
    let after = |change: &dyn Fn(&mut [u8])| {
        let mut changed = bytes.clone();
        change(&mut changed);
        redirect(&mut changed, [192, 0, 2, 77].into());
        changed
    };
    let whole = after(&|_| {});
    assert_eq!(after(&|packet| packet[26..28].fill(0))[26..28], [0; 2]);
    assert_eq!(after(&|packet| packet[7] = 1)[20..], bytes[20..]);
    let damaged = after(&|packet| packet[30] ^= 1);
    assert_eq!((&damaged[..30], damaged[30]), (&whole[..30], whole[30] ^ 1));
}

/// A segment that no TCP header can hold is not built: all options together take 52 bytes.
#[test]
fn options_beyond_the_header_are_refused() {
    let options = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 1, ecr: 2 }),
        smart: Some(Seq(3)),
        eln: true,
        ack_congestion: Some(AckCongestionOption::Permitted),
        ecn_counters: EcnCounters::new(172, &[1, 2, 3]),
        ..Options::default()
    };
    let route = Route { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() };
    let built = |options: Options| build(route, &Segment { options, ..Segment::default() }, &[]);
    assert_eq!((options.wire_len(), built(options)), (52, None));
    // Without the counters they take exactly 40 bytes.
    let fitting = Options { ecn_counters: None, ..options };
    let packet = built(fitting).expect("40 bytes of options");
    assert_eq!(parse(&packet).map(|view| view.segment.options), Some(fitting));
}
