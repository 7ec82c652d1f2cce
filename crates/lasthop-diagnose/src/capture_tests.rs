//! Files of every kind, whole, cut and damaged.

use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::{Flags, Options as TcpOptions, SackBlock, SackBlocks, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_wire::{Ip, Route, Version, build};
use proptest::prelude::*;

use super::{Capture, CaptureError};
use crate::{Options, Report, diagnose};

/// Format of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    Pcap { big: bool, nanos: bool },
    PcapNg { big: bool, resolution: Option<u8> },
}

const FORMS: [Form; 8] = [
    Form::Pcap { big: false, nanos: false },
    Form::Pcap { big: false, nanos: true },
    Form::Pcap { big: true, nanos: false },
    Form::Pcap { big: true, nanos: true },
    Form::PcapNg { big: false, resolution: None },
    Form::PcapNg { big: false, resolution: Some(9) },
    Form::PcapNg { big: true, resolution: Some(6) },
    // Units of 2⁻³⁰ s.
    Form::PcapNg { big: true, resolution: Some(0x80 | 30) },
];

/// A file that grows.
struct File {
    form: Form,
    bytes: Vec<u8>,
}

impl File {
    fn new(form: Form, link: u32, snap: u32) -> Self {
        let mut file = Self { form, bytes: Vec::new() };
        match form {
            Form::Pcap { nanos, .. } => {
                file.word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
                file.half(2);
                file.half(4);
                file.words(&[0, 0, snap, link]);
            }
            Form::PcapNg { resolution, .. } => {
                file.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d]);
                file.half(1);
                file.half(0);
                file.words(&[u32::MAX, u32::MAX, 28]);
                let options = if resolution.is_some() { 12 } else { 0 };
                file.words(&[1, 20 + options]);
                file.half(link as u16);
                file.half(0);
                file.word(snap);
                if let Some(resolution) = resolution {
                    file.half(9);
                    file.half(1);
                    file.bytes.extend([resolution, 0, 0, 0]);
                    file.word(0);
                }
                file.word(20 + options);
            }
        }
        file
    }

    fn is_big(&self) -> bool {
        matches!(self.form, Form::Pcap { big: true, .. } | Form::PcapNg { big: true, .. })
    }

    fn word(&mut self, word: u32) {
        let bytes = if self.is_big() { word.to_be_bytes() } else { word.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|&word| self.word(word));
    }

    fn half(&mut self, half: u16) {
        let bytes = if self.is_big() { half.to_be_bytes() } else { half.to_le_bytes() };
        self.bytes.extend(bytes);
    }

    /// A packet captured at the given time, in nanoseconds.
    fn packet(&mut self, nanos: u64, data: &[u8], len: u32) {
        match self.form {
            Form::Pcap { nanos: fine, .. } => {
                let rest = nanos % 1_000_000_000;
                let rest = if fine { rest } else { rest / 1000 };
                self.words(&[(nanos / 1_000_000_000) as u32, rest as u32, data.len() as u32, len]);
                self.bytes.extend(data);
            }
            Form::PcapNg { resolution, .. } => {
                let units = match resolution {
                    Some(9) => nanos,
                    None | Some(6) => nanos / 1000,
                    _ => ((u128::from(nanos) << 30) / 1_000_000_000) as u64,
                };
                let padded = data.len().next_multiple_of(4);
                let total = 32 + padded as u32;
                self.words(&[6, total, 0, (units >> 32) as u32, units as u32, data.len() as u32, len]);
                self.bytes.extend(data);
                self.bytes.resize(self.bytes.len() + padded - data.len(), 0);
                self.word(total);
            }
        }
    }
}

/// Address family.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Family {
    Four,
    Six,
}

const MILLI: u64 = 1_000_000;
const BEGIN: u64 = 1_700_000_000_000_000_000;

/// Headers before the IP packet, by link type.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Front {
    Ethernet,
    Vlan,
    DoubleVlan,
    Pppoe,
    Cooked,
    Cooked2,
    Raw,
    Null,
}

const FRONTS: [Front; 8] = [
    Front::Ethernet,
    Front::Vlan,
    Front::DoubleVlan,
    Front::Pppoe,
    Front::Cooked,
    Front::Cooked2,
    Front::Raw,
    Front::Null,
];

impl Front {
    fn link(self) -> u32 {
        match self {
            Self::Ethernet | Self::Vlan | Self::DoubleVlan | Self::Pppoe => 1,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
            Self::Raw => 101,
            Self::Null => 0,
        }
    }

    fn put(self, ip: &[u8]) -> Vec<u8> {
        let six = Version::of(ip) == Some(Version::V6);
        let kind: [u8; 2] = if six { [0x86, 0xdd] } else { [8, 0] };
        let mut front = match self {
            Self::Raw => Vec::new(),
            Self::Null => vec![if six { 30 } else { 2 }, 0, 0, 0],
            Self::Cooked => [vec![0; 14], kind.to_vec()].concat(),
            Self::Cooked2 => [kind.to_vec(), vec![0, 0, 0, 0, 0, 7, 0, 1, 4, 6], vec![0; 8]].concat(),
            Self::Ethernet => [vec![2; 12], kind.to_vec()].concat(),
            Self::Vlan => [vec![2; 12], vec![0x81, 0, 0, 5], kind.to_vec()].concat(),
            Self::DoubleVlan => [vec![2; 12], vec![0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], kind.to_vec()].concat(),
            Self::Pppoe => {
                let ppp = if six { 0x57 } else { 0x21 };
                [vec![2; 12], vec![0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, ppp]].concat()
            }
        };
        front.extend(ip);
        front
    }
}

/// A transfer of forty segments of 1,000 bytes, seen in the middle: the ends are 5 ms and 10 ms away; the eighth segment is lost beyond the
/// capture and repeated.
struct Transfer {
    file: File,
    front: Front,
    snap: usize,
    route: Route,
}

impl Transfer {
    fn send(&mut self, nanos: u64, route: Route, segment: Segment, len: usize) {
        let ip = build(route, &segment, &vec![0; len]).unwrap();
        let frame = self.front.put(&ip);
        let kept = frame.len().min(self.snap);
        self.file.packet(BEGIN + nanos, &frame[..kept], frame.len() as u32);
    }

    fn data(&mut self, at: u64, number: u32, payload: usize) {
        let options = TcpOptions {
            timestamps: Some(Timestamps { val: 100 + (at / MILLI) as u32, ecr: 1 }),
            ..TcpOptions::default()
        };
        let segment =
            Segment { seq: Seq(1001 + number * 1000), ack: Seq(501), window: 1000, flags: Flags::ACK, options };
        self.send(at, self.route, segment, payload);
    }

    fn ack(&mut self, at: u64, number: u32, block: Option<(u32, u32)>) {
        let mut sack = SackBlocks::NONE;
        let edge = |number: u32| Seq(1001 + number * 1000);
        if let Some((left, right)) = block {
            sack.push(SackBlock { left: edge(left), right: edge(right) });
        }
        let segment = Segment {
            seq: Seq(501),
            ack: edge(number),
            window: 1000,
            flags: Flags::ACK,
            options: TcpOptions { sack, ..TcpOptions::default() },
        };
        self.send(at, self.route.reversed(), segment, 0);
    }

    fn write(form: Form, front: Front, family: Family, snap: usize) -> Vec<u8> {
        let address = |end: u8| -> SocketAddr {
            if family == Family::Six {
                format!("[fd00::{end}]:{end}00").parse().unwrap()
            } else {
                format!("10.0.0.{end}:{end}00").parse().unwrap()
            }
        };
        let route = Route { source: address(1), destination: address(2) };
        let mut transfer = Self { file: File::new(form, front.link(), snap as u32), front, snap, route };
        let options =
            TcpOptions { mss: Some(1460), window_scale: Some(7), sack_permitted: true, ..TcpOptions::default() };
        let syn = Segment { seq: Seq(1000), ack: Seq(0), window: 65535, flags: Flags::SYN, options };
        transfer.send(0, route, syn, 0);
        let answer = Segment { seq: Seq(500), ack: Seq(1001), flags: Flags::SYN.with(Flags::ACK), ..syn };
        transfer.send(10 * MILLI, route.reversed(), answer, 0);
        let third =
            Segment { seq: Seq(1001), ack: Seq(501), window: 1000, flags: Flags::ACK, options: TcpOptions::default() };
        transfer.send(15 * MILLI, route, third, 0);
        // A packet and its acknowledgment every 20 ms.
        for number in 0..40 {
            let at = (20 + 20 * u64::from(number)) * MILLI;
            transfer.data(at, number, 1000);
            match number {
                0..7 => transfer.ack(at + 10 * MILLI, number + 1, None),
                7 => {}
                8 => {
                    transfer.ack(at + 10 * MILLI, 7, Some((8, 9)));
                    transfer.data(at + 15 * MILLI, 7, 1000);
                }
                9 => {
                    transfer.ack(at + 5 * MILLI, 9, None);
                    transfer.ack(at + 10 * MILLI, 10, None);
                }
                _ => transfer.ack(at + 10 * MILLI, number + 1, None),
            }
        }
        transfer.file.bytes
    }
}

fn report(bytes: &[u8]) -> Report {
    diagnose(bytes, &Options::default()).unwrap()
}

/// Checks the report that is common to all these captures, in any format.
fn check(bytes: &[u8], of: &str) {
    let report = report(bytes);
    assert_eq!((report.packets, report.tcp, report.unread, report.flows.len()), (84, 84, 0, 1), "{of}: {report:?}");
    assert_eq!((report.damage.as_deref(), report.clock_steps), (None, 0), "{of}");
    let flow = &report.flows[0];
    assert!(flow.from_the_beginning, "{of}");
    let direction = &flow.directions[0];
    let counted = (
        direction.bytes,
        direction.packets,
        direction.resent.retransmissions,
        direction.causes.corruption,
        direction.causes.congestion,
    );
    assert_eq!(counted, (40_000, 41, 1, 1, 0), "{of}: {direction:?}");
    let loss = &direction.losses[0];
    assert_eq!((loss.seq, loss.bytes, loss.needless), (8001, 1000, None), "{of}");
    assert_eq!(direction.vantage, crate::Vantage::Gateway, "{of}");
    assert!(direction.rtt_ms.is_some_and(|rtt| (rtt - 15.0).abs() < 0.01), "{of}: {:?}", direction.rtt_ms);
    assert_eq!(direction.limit, Some(crate::rounds::Factor::Application), "{of}: {:?}", direction.limits);
}

#[test]
fn all_forms_of_files_say_the_same() {
    for form in FORMS {
        check(&Transfer::write(form, Front::Ethernet, Family::Four, 65_535), &format!("{form:?}"));
    }
}

#[test]
fn all_link_types_say_the_same() {
    for front in FRONTS {
        for family in [Family::Four, Family::Six] {
            // 96 bytes are all headers.
            for snap in [65_535, 110] {
                let bytes = Transfer::write(FORMS[1], front, family, snap);
                check(&bytes, &format!("{front:?}, {family:?}, {snap} bytes"));
            }
        }
    }
}

/// A capture by tcpdump of 20 years ago: SACK blocks are cut off, but times and sequence numbers are present.
#[test]
fn heads_of_68_bytes_are_enough_to_see_the_loss() {
    let report = report(&Transfer::write(FORMS[0], Front::Ethernet, Family::Four, 68));
    let direction = &report.flows[0].directions[0];
    assert_eq!((direction.bytes, direction.resent.retransmissions), (40_000, 1));
    assert_eq!(direction.causes.corruption + direction.causes.congestion + direction.causes.unknown, 1);
    assert_eq!(report.options_cut, 0);
}

/// Same capture with the options cut off: the report says so, and does not mistake a window of unknown scale for a
/// small one.
#[test]
fn options_that_are_cut_off_are_told_of() {
    let report = report(&Transfer::write(FORMS[0], Front::Ethernet, Family::Four, 64));
    // Both SYNs, the 41 packets of data with their timestamps, and the acknowledgment with a SACK block.
    assert_eq!(report.options_cut, 44);
    let said = report.missing();
    assert!(said.iter().any(|said| said.starts_with("44 TCP headers truncated within the options")), "{said:?}");
    let direction = &report.flows[0].directions[0];
    assert_eq!((direction.bytes, direction.resent.retransmissions), (40_000, 1));
    assert!(direction.limits.iter().all(|limit| limit.factor != crate::rounds::Factor::ReceiveWindow), "{direction:?}");
    assert_eq!(direction.losses[0].verdict.air, None, "nobody knows which packet came first behind it");
}

/// In tcpdump's capture of all interfaces (`-i any`) a forwarded packet appears twice, each time with its device. Each
/// device sees whole connections, regardless of which is captured first.
#[test]
fn a_capture_that_names_devices_has_a_connection_at_each() {
    let bytes = Transfer::write(FORMS[1], Front::Cooked2, Family::Four, 65_535);
    let mut capture = Capture::open(&bytes[..]).unwrap();
    let mut file = File::new(FORMS[1], 276, 65_535);
    while let Some((frame, _)) = capture.next_frame().unwrap() {
        // Towards the receiver from device 2 to device 3, and back.
        let to_receiver = Ip::new_checked(&frame.data[20..]).unwrap().source() == IpAddr::from([10, 0, 0, 1]);
        for (step, device) in (if to_receiver { [2, 3] } else { [3, 2] }).into_iter().enumerate() {
            let mut data = frame.data.to_vec();
            data[7] = device;
            data[20 + 8] -= step as u8;
            file.packet(frame.time + step as u64 * MILLI / 100, &data, frame.len);
        }
    }
    let report = report(&file.bytes);
    assert_eq!((report.packets, report.tcp, report.copies, report.flows.len()), (168, 168, 0, 2));
    for flow in &report.flows {
        let direction = &flow.directions[0];
        assert_eq!(
            (direction.bytes, direction.causes.corruption, direction.vantage),
            (40_000, 1, crate::Vantage::Gateway)
        );
        assert!(direction.rtt_ms.is_some_and(|rtt| (rtt - 15.0).abs() < 0.03), "{:?}", direction.rtt_ms);
    }
    let options = Options { interface: Some("device 3".to_owned()), ..Options::default() };
    let report = diagnose(&file.bytes[..], &options).unwrap();
    assert_eq!((report.other_interfaces, report.flows.len()), (84, 1));
    assert_eq!(report.flows[0].interface, options.interface);
}

/// A packet that leaves through another interface is the same packet.
#[test]
fn a_capture_of_all_interfaces_has_each_packet_once() {
    let mut file = File::new(FORMS[1], 113, 65_535);
    let route = Route { source: "10.0.0.1:1".parse().unwrap(), destination: "10.0.0.2:2".parse().unwrap() };
    for number in 0..10_u32 {
        let segment = Segment {
            seq: Seq(number * 100),
            ack: Seq(1),
            window: 9,
            flags: Flags::ACK,
            options: TcpOptions::default(),
        };
        let mut ip = build(route, &segment, &[0; 100]).unwrap();
        ip[4..6].copy_from_slice(&(number as u16).to_be_bytes());
        let at = BEGIN + u64::from(number) * 20 * MILLI;
        file.packet(at, &Front::Cooked.put(&ip), 156);
        ip[8] -= 1;
        file.packet(at + MILLI / 100, &Front::Cooked.put(&ip), 156);
    }
    let report = report(&file.bytes);
    assert_eq!((report.tcp, report.copies), (20, 10));
    assert_eq!((report.flows[0].directions[0].bytes, report.flows[0].directions[0].resent.retransmissions), (1000, 0));
}

/// Setting the clock twice in the middle of a transfer does not change any verdict.
#[test]
fn a_clock_that_jumps_is_noticed() {
    let bytes = Transfer::write(FORMS[1], Front::Ethernet, Family::Four, 65_535);
    let mut capture = Capture::open(&bytes[..]).unwrap();
    let mut file = File::new(FORMS[1], 1, 65_535);
    while let Some((frame, _)) = capture.next_frame().unwrap() {
        let jump = if (30..60).contains(&frame.number) { 3_000_000 * MILLI } else { 90_000_000 * MILLI };
        file.packet(frame.time - jump + 90_000_000 * MILLI, frame.data, frame.len);
    }
    let report = report(&file.bytes);
    assert_eq!((report.clock_steps, report.packets), (2, 84));
    assert!(report.seconds < 2.0, "{}", report.seconds);
    let direction = &report.flows[0].directions[0];
    assert_eq!((direction.causes.corruption, direction.resent.retransmissions), (1, 1));
    assert!(direction.rtt_ms.is_some_and(|rtt| (rtt - 15.0).abs() < 0.01));
}

#[test]
fn what_is_no_capture_is_said() {
    for bytes in [&b""[..], b"GIF89a", b"\x0a\x0d\x0d\x0a", b"sent_s,lost\n0,1\n", &[0xd4, 0xc3, 0xb2, 0xa1]] {
        let error = diagnose(bytes, &Options::default()).unwrap_err();
        assert!(matches!(error, CaptureError::Foreign), "{bytes:?}: {error}");
    }
}

#[test]
fn a_file_that_ends_early_is_told_of_as_far_as_it_goes() {
    for form in [FORMS[0], FORMS[5]] {
        let bytes = Transfer::write(form, Front::Ethernet, Family::Four, 65_535);
        let report = report(&bytes[..bytes.len() - 7]);
        assert_eq!(report.packets, 83);
        assert_eq!(report.damage.as_deref(), Some("truncated in a packet after packet 83"));
        assert_eq!(report.flows[0].directions[0].causes.corruption, 1);
    }
}

/// tcpdump with a patch of 1997 writes eight more bytes in front of each packet.
#[test]
fn the_modified_form_of_pcap_is_read() {
    let bytes = Transfer::write(FORMS[0], Front::Ethernet, Family::Four, 65_535);
    let mut modified = [&0xa1b2_cd34_u32.to_le_bytes()[..], &bytes[4..24]].concat();
    let mut rest = &bytes[24..];
    while let Some(header) = rest.get(..16) {
        let kept = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        modified.extend_from_slice(header);
        modified.extend([0; 8]);
        modified.extend_from_slice(&rest[16..16 + kept]);
        rest = &rest[16 + kept..];
    }
    check(&modified, "modified");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_is_read_and_other_compressions_are_named() {
    for form in [FORMS[0], FORMS[5]] {
        let bytes = Transfer::write(form, Front::Ethernet, Family::Four, 65_535);
        check(&gzip(&bytes), "gzip");
        // Two members, one behind the other, are one file (RFC 1952 §2.2).
        check(&[gzip(&bytes[..500]), gzip(&bytes[500..])].concat(), "members");
        let whole = gzip(&bytes);
        let cut = report(&whole[..whole.len() / 2]);
        assert!(cut.damage.is_some_and(|damage| damage.contains("truncated in a packet")) && cut.packets < 84);
    }
    let error = diagnose(&b"\x28\xb5\x2f\xfd\0\0\0\0"[..], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("zstd -d"), "{error}");
    let error = diagnose(&b"snoop\0\0\0\0\0\0\x02"[..], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("editcap"), "{error}");
    assert!(matches!(diagnose(&gzip(b"hello")[..], &Options::default()), Err(CaptureError::Foreign)));
}

/// A segment in two fragments, in either order, is reassembled.
#[test]
fn fragments_of_a_segment_are_joined() {
    for reversed in [false, true] {
        let bytes = Transfer::write(FORMS[1], Front::Raw, Family::Four, 65_535);
        let mut capture = Capture::open(&bytes[..]).unwrap();
        let mut file = File::new(FORMS[1], 101, 65_535);
        let mut id = 0_u16;
        while let Some((frame, _)) = capture.next_frame().unwrap() {
            if frame.len < 800 {
                file.packet(frame.time, frame.data, frame.len);
                continue;
            }
            id += 1;
            let part = |from: usize, to: usize, more: bool| {
                let mut ip = frame.data[..20].to_vec();
                ip.extend_from_slice(&frame.data[20 + from..20 + to]);
                ip[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[6..8].copy_from_slice(&((from / 8) as u16 | if more { 0x2000 } else { 0 }).to_be_bytes());
                ip
            };
            let mut parts = [part(0, 600, true), part(600, frame.data.len() - 20, false)];
            if reversed {
                parts.reverse();
            }
            for part in parts {
                file.packet(frame.time, &part, part.len() as u32);
            }
        }
        let report = report(&file.bytes);
        assert_eq!((report.tcp, report.unread, report.packets), (84, 0, 84 + 41), "{reversed}");
        let direction = &report.flows[0].directions[0];
        assert_eq!((direction.bytes, direction.packets, direction.causes.lost), (40_000, 41, 1), "{reversed}");
    }
}

/// Interfaces of consecutive sections, as in concatenated files, are the same.
#[test]
fn sections_of_one_interface_are_one_capture() {
    let bytes = Transfer::write(FORMS[5], Front::Ethernet, Family::Four, 65_535);
    // The section's header has 28 bytes, the description of its interface 32.
    let header = &bytes[..60];
    let mut cut = 60;
    for _ in 0..40 {
        cut += u32::from_le_bytes(bytes[cut + 4..cut + 8].try_into().unwrap()) as usize;
    }
    check(&[&bytes[..cut], header, &bytes[cut..]].concat(), "two sections");
}

#[test]
fn damage_in_the_midst_ends_it() {
    let mut bytes = Transfer::write(FORMS[5], Front::Ethernet, Family::Four, 65_535);
    let middle = bytes.len() / 2;
    bytes.truncate(middle.next_multiple_of(4));
    bytes.extend([0xff; 400]);
    let report = report(&bytes);
    assert!(report.damage.is_some() && report.packets > 20, "{report:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Reads arbitrary bytes after the header of a capture.
    #[test]
    fn any_bytes_end(form in prop::sample::select(&FORMS[..]), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut file = File::new(form, 1, 65_535);
        file.bytes.extend(bytes);
        let _ = diagnose(&file.bytes[..], &Options::default());
    }

    /// A capture with bytes changed anywhere.
    #[test]
    fn damaged_captures_end(
        form in prop::sample::select(&FORMS[..]),
        front in prop::sample::select(&FRONTS[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let mut bytes = Transfer::write(form, front, Family::Four, 120);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(report) = diagnose(&bytes[..], &Options::default()) {
            let mut out = Vec::new();
            crate::annotate::annotate(&report, &bytes[..], &mut out).unwrap();
            // The annotated capture can be read as well, and yields the same for as many packets.
            let again = diagnose(&out[..], &Options::default()).unwrap();
            prop_assert_eq!(again.packets, report.packets);
            for flow in &report.flows {
                for direction in &flow.directions {
                    crate::loss_trace::loss_trace(flow, direction, &bytes[..], &mut Vec::new()).unwrap();
                }
            }
        }
    }
}
