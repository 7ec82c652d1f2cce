//! Captures are read back with another library, and their checksums computed according to RFC 1071.

use crate::sample;

use lasthop_proto::packet::{Body, Packet};
use lasthop_proto::time::Instant;
use lasthop_report::error::ReportError;
use lasthop_report::pcapng::{CaptureWriter, Points, write_pcapng, write_pcapng_at};
use lasthop_scenario::Scenario;
use lasthop_sim::trace::{Record, Trace, What};
use lasthop_sim::{Recording, run};
use pcap_parser::Linktype;
use pcap_parser::pcapng::{Block, EnhancedPacketBlock, OptionCode, PcapNGOption, PcapNGSlice, parse_block_le};

const ETHERNET: usize = 14;

struct Frame {
    interface: u32,
    nanos: u64,
    original_len: usize,
    /// Captured bytes, and zeros for the rest.
    bytes: Vec<u8>,
    comments: Vec<String>,
}

struct Capture {
    interfaces: Vec<String>,
    frames: Vec<Frame>,
}

fn capture(trace: &Trace) -> Capture {
    let mut bytes = Vec::new();
    write_pcapng(trace, &mut bytes).expect("memory takes everything");
    read(&bytes)
}

fn read(mut bytes: &[u8]) -> Capture {
    assert!(PcapNGSlice::from_slice(bytes).is_ok());
    let mut capture = Capture { interfaces: Vec::new(), frames: Vec::new() };
    while !bytes.is_empty() {
        let (rest, block) = match parse_block_le(bytes) {
            Ok(parsed) => parsed,
            Err(error) => panic!("{error:?}"),
        };
        bytes = rest;
        match block {
            Block::SectionHeader(_) => {}
            Block::InterfaceDescription(interface) => {
                assert_eq!(interface.linktype, Linktype::ETHERNET);
                assert_eq!(interface.if_tsresol, 9);
                let name = option(&interface.options, OptionCode::IfName).expect("interfaces have names");
                capture.interfaces.push(name);
            }
            Block::EnhancedPacket(packet) => capture.frames.push(frame(&packet)),
            other => panic!("unexpected block {other:?}"),
        }
    }
    capture
}

fn option(options: &[PcapNGOption], code: OptionCode) -> Option<String> {
    options.iter().find(|option| option.code == code).map(text)
}

fn text(option: &PcapNGOption) -> String {
    option.as_str().expect("text options are UTF-8").to_owned()
}

fn frame(packet: &EnhancedPacketBlock) -> Frame {
    let original_len = packet.origlen as usize;
    let mut bytes = packet.data[..packet.caplen as usize].to_vec();
    bytes.resize(original_len, 0);
    let comments = packet.options.iter().filter(|option| option.code == OptionCode::Comment).map(text).collect();
    // Since 1 January 2000: 30 years of which 7 have a leap day.
    let nanos = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
    let nanos = nanos - (30 * 365 + 7) * 86_400 * 1_000_000_000;
    Frame { interface: packet.if_id, nanos, original_len, bytes, comments }
}

/// Returns the sum of RFC 1071 over 16-bit words: 0xffff if the checksum among them is correct.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let total: u64 = bytes.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (total & 0xffff) + (total >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Returns the IPv4 datagram of a frame, after verifying its checksums.
fn verified(frame: &Frame) -> &[u8] {
    assert_eq!(frame.bytes[12..ETHERNET], [0x08, 0x00]);
    let ip = &frame.bytes[ETHERNET..];
    assert_eq!(ip[0], 0x45);
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
    assert_eq!(sum(&[&ip[..20]]), 0xffff, "IPv4 checksum");
    let transport = &ip[20..];
    let len = (transport.len() as u32).to_be_bytes();
    assert_eq!(sum(&[&ip[12..20], &len, &[0, ip[9]], transport]), 0xffff, "checksum of protocol {}", ip[9]);
    ip
}

fn at_time(capture: &Capture, point: u16, micros: u64) -> Vec<&Frame> {
    let frames = capture.frames.iter();
    frames.filter(|frame| frame.interface == u32::from(point) && frame.nanos == micros * 1000).collect()
}

#[test]
fn interfaces_are_the_capture_points() {
    assert_eq!(capture(&sample::trace()).interfaces, ["source", "base:lan", "base:radio", "mobile"]);
}

#[test]
fn each_packet_appears_once_where_it_was_seen() {
    let trace = sample::trace();
    let seen = trace.records.iter().filter_map(|record| match record.what {
        What::Sent(packet) | What::Received(packet) => Some((record.point, record.time, packet)),
        _ => None,
    });
    let seen: Vec<(u16, Instant, Packet)> = seen.collect();
    let frames = capture(&trace).frames;
    assert_eq!(frames.len(), seen.len());
    for (frame, (point, time, packet)) in frames.iter().zip(seen) {
        assert_eq!(frame.interface, u32::from(point));
        assert_eq!(frame.nanos, time.as_nanos());
        assert_eq!(frame.original_len, ETHERNET + packet.wire_len() as usize);
    }
}

#[test]
fn headers_say_what_the_packets_say() {
    let trace = sample::trace();
    let packets = trace.records.iter().filter_map(|record| match record.what {
        What::Sent(packet) | What::Received(packet) => Some(packet),
        _ => None,
    });
    for (frame, packet) in capture(&trace).frames.iter().zip(packets) {
        let ip = verified(frame);
        let parsed = etherparse::SlicedPacket::from_ip(ip).expect("well formed");
        match (&packet.body, parsed.transport) {
            (Body::Tcp(segment), Some(etherparse::TransportSlice::Tcp(tcp))) => {
                assert_eq!(tcp.sequence_number(), segment.seq.0);
                assert_eq!(tcp.window_size(), segment.window);
                assert_eq!(tcp.payload().len(), packet.len as usize);
                assert_eq!(tcp.options().len(), usize::from(segment.options.wire_len()));
            }
            (Body::Datagram { number }, Some(etherparse::TransportSlice::Udp(udp))) => {
                assert_eq!(udp.payload().len(), packet.len as usize);
                assert_eq!(u32::from(u16::from_be_bytes([ip[4], ip[5]])), number & 0xffff);
            }
            (body, transport) => panic!("{body:?} became {transport:?}"),
        }
    }
}

#[test]
fn options_are_laid_out_as_on_the_wire() {
    let capture = capture(&sample::trace());
    let options = |point, micros| {
        let frames = at_time(&capture, point, micros);
        let tcp = &frames[0].bytes[ETHERNET + 20..];
        tcp[20..usize::from(tcp[12] >> 4) * 4].to_vec()
    };
    let syn = options(sample::SOURCE, 0);
    assert_eq!(syn, [2, 4, 5, 80, 1, 3, 3, 2, 1, 1, 4, 2, 1, 1, 8, 10, 0, 0, 0, 17, 0, 0, 0, 0]);
    // 4294967016 to 1080.
    let sack = options(sample::SOURCE, 12_500);
    assert_eq!(sack, [1, 1, 5, 10, 0xff, 0xff, 0xfe, 0xe8, 0, 0, 4, 0x38]);
    let smart_and_eln = options(sample::MOBILE, 12_600);
    assert_eq!(smart_and_eln, [253, 8, b'S', b'M', 0, 0, 9, 0x88, 253, 4, b'E', b'L']);
}

#[test]
fn comments_tell_drops_and_retransmissions() {
    let capture = capture(&sample::trace());
    let comments = |point, micros| -> Vec<String> {
        at_time(&capture, point, micros).iter().flat_map(|frame| frame.comments.clone()).collect()
    };
    assert_eq!(comments(sample::BASE_RADIO, 9_000), ["dropped: channel"]);
    assert_eq!(comments(sample::BASE_RADIO, 10_500), ["dropped: queue"]);
    assert_eq!(comments(sample::MOBILE, 11_000), ["damaged: payload"]);
    assert_eq!(comments(sample::BASE_RADIO, 11_500), ["dropped: channel", "local retransmission: local-duplicate"]);
    assert_eq!(comments(sample::SOURCE, 14_600), ["source retransmission: fast-retransmit"]);
    assert_eq!(comments(sample::MOBILE, 1_020_600), ["source retransmission: timeout"]);
    let all = capture.frames.iter().flat_map(|frame| &frame.comments);
    assert_eq!(all.filter(|comment| comment.starts_with("dropped")).count(), 5);
}

#[test]
fn of_identical_packets_the_right_one_is_dropped() {
    let capture = capture(&sample::trace());
    let dropped =
        |micros| at_time(&capture, sample::MOBILE, micros)[0].comments.contains(&"dropped: channel".to_owned());
    assert_eq!([12_000, 12_200, 12_400].map(dropped), [false, true, false]);
}

#[test]
fn ethernet_addresses_name_the_ends_of_the_link() {
    let capture = capture(&sample::trace());
    let address = |point: u16| [2, 0, 0, 0, 0, point as u8];
    for frame in &capture.frames {
        let (to, from) = (&frame.bytes[..6], &frame.bytes[6..12]);
        let ends = [(0, 1), (1, 0), (2, 3), (3, 2)];
        assert!(ends.iter().any(|&(a, b)| from == address(a) && to == address(b)), "{from:?} to {to:?}");
    }
}

#[test]
fn one_capture_point_alone() {
    let mut bytes = Vec::new();
    write_pcapng_at(&sample::trace(), usize::from(sample::BASE_RADIO), &mut bytes).expect("memory takes everything");
    let capture = read(&bytes);
    assert_eq!(capture.interfaces, ["base:radio"]);
    assert!(!capture.frames.is_empty());
    assert!(capture.frames.iter().all(|frame| frame.interface == 0));
    assert!(matches!(write_pcapng_at(&sample::trace(), 7, Vec::new()), Err(ReportError::NoSuchPoint(7))));
}

#[test]
fn a_drop_without_its_packet_is_shown_by_itself() {
    let mut trace = sample::trace();
    trace.records.retain(|record| matches!(record.what, What::Dropped(..)));
    let frames = capture(&trace).frames;
    assert_eq!(frames.len(), 5);
    assert!(frames.iter().all(|frame| frame.comments[0].starts_with("dropped")));
}

#[test]
fn more_sack_blocks_than_fit_are_cut() {
    let mut options = sample::sack(&[(9, 10), (7, 8), (5, 6), (3, 4)]);
    options.timestamps = Some(Default::default());
    let mut run = sample::Recorder::new();
    run.across(0, sample::ack(1, options), sample::Outcome::Arrives);
    let capture = capture(&run.finish());
    let tcp = &verified(&capture.frames[0])[20..];
    assert_eq!(tcp[12] >> 4, 15, "60 bytes of header");
    assert_eq!(tcp[20 + 12..20 + 16], [1, 1, 5, 2 + 3 * 8]);
}

#[test]
fn a_packet_that_ipv4_cannot_carry_is_refused() {
    let mut run = sample::Recorder::new();
    let packet = Packet { len: 65_536, ..sample::data(0, Default::default()) };
    run.across(0, packet, sample::Outcome::Arrives);
    assert!(matches!(write_pcapng(&run.finish(), Vec::new()), Err(ReportError::PacketTooLong(65_576))));
}

/// A tool that follows connections must not take the same packet at the next point for a retransmission.
#[test]
fn each_capture_point_has_addresses_of_its_own() {
    for frame in &capture(&sample::trace()).frames {
        let ip = verified(frame);
        assert_eq!([ip[12], ip[16]], [10, 10]);
        assert_eq!([u32::from(ip[13]), u32::from(ip[17])], [frame.interface; 2]);
    }
    let mut bytes = Vec::new();
    write_pcapng_at(&sample::trace(), usize::from(sample::BASE_RADIO), &mut bytes).expect("memory takes everything");
    assert!(read(&bytes).frames.iter().all(|frame| verified(frame)[13] == 0));
}

/// A capture of one point holds back packets in flight: their arrivals are not in the capture, but end the wait.
#[test]
fn a_capture_of_one_point_holds_back_what_is_in_flight() {
    let head = sample::trace();
    let is_sent = |record: &&Record| matches!(record.what, What::Sent(_));
    let sent = *head.records.iter().find(is_sent).expect("something is sent");
    let What::Sent(packet) = sent.what else { unreachable!() };
    let arrived = Record { point: Trace::far_end(sent.point), what: What::Received(packet), ..sent };
    let mut capture = CaptureWriter::begin(&head, Points::One(usize::from(sent.point)), Vec::new()).expect("a point");
    for _ in 0..1000 {
        capture.write(&head, sent).expect("memory takes everything");
        assert_eq!(capture.held_back(), 1);
        capture.leave_out(&head, &arrived).expect("memory takes everything");
        assert_eq!(capture.held_back(), 0);
    }
    assert_eq!(capture.finish(&head).expect("memory takes everything").frames, 1000);
}

/// A capture of any point never holds back more than an eighth of its records, on links that lose, damage, queue, repair
/// and code packets: those in flight, and not those whose arrival was left out. The capture is that of the whole trace.
#[test]
fn a_capture_of_any_one_point_holds_back_a_small_part_of_a_run() {
    for (name, scheme, size) in [
        ("wavelan-wan", "LL-TCP-AWARE", "flows.bulk.size"),
        ("satellite", "LINK-HYBRID", "flows.download.size"),
        ("farm-radio", "SNOOP", "flows.download.size"),
    ] {
        let scenario = Scenario::builtin(name).expect("it is built in");
        let scenario = scenario.with_overrides(&[(size, "10 MB"), ("scheme", scheme)]).expect("it holds");
        let trace = run(&scenario.network(scenario.scheme()).expect("it is a network"), 5, Recording::On).trace;
        for point in 0..trace.points.len() {
            let mut streamed = Vec::new();
            let mut capture = CaptureWriter::begin(&trace, Points::One(point), &mut streamed).expect("a point");
            let (mut most, mut written) = (0, 0);
            for record in &trace.records {
                if usize::from(record.point) == point {
                    capture.write(&trace, *record).expect("memory takes everything");
                    written += 1;
                } else {
                    capture.leave_out(&trace, record).expect("memory takes everything");
                }
                most = most.max(capture.held_back());
            }
            let place = &trace.points[point].name;
            assert!(most * 8 < written, "{name}, {place}: {most} of {written}");
            capture.finish(&trace).expect("memory takes everything");
            let mut whole = Vec::new();
            write_pcapng_at(&trace, point, &mut whole).expect("memory takes everything");
            assert!(streamed == whole, "{name}, {place}");
        }
    }
}
