//! Frames of every kind around one packet.

use lasthop_proto::packet::{Flags, Options, Segment};
use lasthop_proto::seq::Seq;
use proptest::prelude::*;

use super::*;
use crate::{Route, build, parse_head};

const ETHERNET: u32 = 1;

/// Returns a TCP segment with 20 bytes of payload, over IPv4 or IPv6.
fn segment(six: bool) -> Vec<u8> {
    let (source, destination) = if six { ("[fd00::1]:80", "[fd00::2]:9") } else { ("10.0.0.1:80", "10.0.0.2:9") };
    let route = Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
    let segment = Segment { seq: Seq(7), ack: Seq(2), window: 3, flags: Flags::ACK, options: Options::default() };
    build(route, &segment, &[0; 20]).unwrap()
}

fn ethernet(kind: u16, inner: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), inner].concat()
}

fn ipv4(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let len = (20 + inner.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    header[2..4].copy_from_slice(&len.to_be_bytes());
    [header, inner.to_vec()].concat()
}

fn ipv6(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((inner.len() as u16).to_be_bytes());
    header.extend([protocol, 64]);
    header.extend([0xfd; 32]);
    [header, inner.to_vec()].concat()
}

fn udp(port: u16, inner: &[u8]) -> Vec<u8> {
    let mut header = vec![0xc0, 1];
    header.extend(port.to_be_bytes());
    header.extend(((inner.len() + 8) as u16).to_be_bytes());
    header.extend([0, 0]);
    [header, inner.to_vec()].concat()
}

fn behind(front: &[u8], inner: &[u8]) -> Vec<u8> {
    [front, inner].concat()
}

/// Returns one segment in each encapsulation, with its link type.
fn encapsulated() -> Vec<(&'static str, u32, Vec<u8>)> {
    let tcp = segment(false);
    let (six, payload_six) = (segment(true), segment(true)[40..].to_vec());
    let frame = ethernet(0x0800, &tcp);
    let snap = behind(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &tcp);
    let over = |protocol: u8, inner: &[u8]| ethernet(0x0800, &ipv4(protocol, inner));
    let mut list = vec![
        ("Ethernet", ETHERNET, frame.clone()),
        ("QinQ", ETHERNET, ethernet(0x88a8, &behind(&[0, 5, 0x81, 0, 0, 6, 8, 0], &tcp))),
        ("802.3 and SNAP", ETHERNET, ethernet(snap.len() as u16, &snap)),
        ("VLAN and SNAP", ETHERNET, ethernet(0x8100, &behind(&[0, 5, 0, 60], &snap))),
        ("PPPoE", ETHERNET, ethernet(0x8864, &behind(&[0x11, 0, 0, 1, 0, 62, 0, 0x21], &tcp))),
        ("MPLS", ETHERNET, ethernet(0x8847, &behind(&[0, 1, 0, 64, 0, 2, 1, 64], &tcp))),
        ("pseudowire", ETHERNET, ethernet(0x8847, &behind(&[0, 2, 1, 64, 0, 0, 0, 0], &frame))),
        ("802.1ah", ETHERNET, ethernet(0x88e7, &behind(&[0, 0, 0, 9], &frame))),
        ("GRE", ETHERNET, over(47, &behind(&[0, 0, 8, 0], &tcp))),
        (
            "GRE with checksum, key and number",
            ETHERNET,
            over(47, &behind(&[0xb0, 0, 8, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1], &tcp)),
        ),
        ("gretap", ETHERNET, over(47, &behind(&[0, 0, 0x65, 0x58], &frame))),
        ("PPTP", ETHERNET, over(47, &behind(&[0x30, 1, 0x88, 0x0b, 0, 64, 0, 1, 0, 0, 0, 5, 0xff, 3, 0, 0x21], &tcp))),
        ("ERSPAN I", ETHERNET, over(47, &behind(&[0, 0, 0x88, 0xbe], &frame))),
        (
            "ERSPAN II",
            ETHERNET,
            over(47, &behind(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 0, 0, 0, 0, 0, 0, 0], &frame)),
        ),
        (
            "ERSPAN III",
            ETHERNET,
            over(47, &behind(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &frame)),
        ),
        ("IPIP", ETHERNET, over(4, &tcp)),
        ("6in4", ETHERNET, over(41, &six)),
        ("4in6", ETHERNET, ethernet(0x86dd, &ipv6(4, &tcp))),
        ("EtherIP", ETHERNET, over(97, &behind(&[0x30, 0], &frame))),
        (
            "AH",
            ETHERNET,
            over(51, &behind(&[6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], &tcp[20..])),
        ),
        ("VXLAN", ETHERNET, over(17, &udp(4789, &behind(&[8, 0, 0, 0, 0, 0, 9, 0], &frame)))),
        ("VXLAN-GPE", ETHERNET, over(17, &udp(4790, &behind(&[0x0c, 0, 0, 1, 0, 0, 9, 0], &tcp)))),
        ("Geneve", ETHERNET, over(17, &udp(6081, &behind(&[1, 0, 0x65, 0x58, 0, 0, 9, 0, 0, 0, 0, 0], &frame)))),
        ("GTP-U", ETHERNET, over(17, &udp(2152, &behind(&[0x30, 0xff, 0, 60, 0, 0, 0, 7], &tcp)))),
        (
            "GTP-U of 5G",
            ETHERNET,
            over(17, &udp(2152, &behind(&[0x34, 0xff, 0, 68, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0, 9, 0], &tcp))),
        ),
        ("MPLS in UDP", ETHERNET, over(17, &udp(6635, &behind(&[0, 2, 1, 64], &tcp)))),
        ("L2TP", ETHERNET, over(17, &udp(1701, &behind(&[0, 2, 0, 1, 0, 1, 0xff, 3, 0, 0x21], &tcp)))),
        ("Teredo", ETHERNET, over(17, &udp(3544, &six))),
        (
            "VXLAN in GRE in IPv6",
            ETHERNET,
            ethernet(
                0x86dd,
                &ipv6(47, &behind(&[0, 0, 8, 0], &ipv4(17, &udp(4789, &behind(&[8, 0, 0, 0, 0, 0, 9, 0], &frame))))),
            ),
        ),
        ("raw", 101, tcp.clone()),
        ("PPP", 9, behind(&[0xff, 3, 0, 0x21], &tcp)),
        ("PPP, compressed fields", 9, behind(&[0x21], &tcp)),
        ("PPP serial", 50, behind(&[0xff, 3, 0, 0x57], &six)),
        ("Cisco HDLC", 104, behind(&[0x0f, 0, 8, 0], &tcp)),
        ("frame relay", 107, behind(&[0x18, 0x41, 3, 0xcc], &tcp)),
        ("loopback", 0, behind(&[2, 0, 0, 0], &tcp)),
        ("PFLOG", 117, behind(&[&[61, 2, 0, 0][..], &[0; 60]].concat(), &tcp)),
        ("cooked", 113, behind(&[&[0; 14][..], &[8, 0]].concat(), &tcp)),
        ("cooked v2", 276, behind(&[&[8, 0, 0, 0, 0, 0, 0, 7][..], &[0; 12]].concat(), &tcp)),
        ("802.11", 105, behind(&[&[8, 2][..], &[0; 22]].concat(), &snap)),
        ("802.11 between stations, with quality of service", 105, behind(&[&[0x88, 3][..], &[0; 30]].concat(), &snap)),
        (
            "radiotap, padded",
            127,
            behind(&[&[0, 0, 9, 0, 2, 0, 0, 0, 0x20, 0x88, 1][..], &[0; 24], &[0; 2]].concat(), &snap),
        ),
        ("PPI", 192, behind(&[&[0, 0, 8, 0, 105, 0, 0, 0, 8, 2][..], &[0; 22]].concat(), &snap)),
        ("NFLOG", 239, behind(&[2, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0, 0, (tcp.len() + 4) as u8, 0, 9, 0], &tcp)),
        ("PKTAP", 258, behind(&[&[16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], &[0; 4]].concat(), &frame)),
    ];
    for (name, number, header) in [
        ("hop-by-hop", 0, vec![6, 0, 1, 4, 0, 0, 0, 0]),
        ("routing", 43, vec![6, 2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("destination options", 60, vec![6, 0, 1, 4, 0, 0, 0, 0]),
        ("atomic fragment", 44, vec![6, 0, 0, 0, 0, 0, 0, 9]),
        ("two extensions", 0, vec![60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]),
    ] {
        list.push((name, ETHERNET, ethernet(0x86dd, &ipv6(number, &behind(&header, &payload_six)))));
    }
    list
}

#[test]
fn the_segment_is_found_in_every_encapsulation() {
    for (name, link, frame) in encapsulated() {
        let packet = peel(link, &frame, frame.len() as u32, 0).unwrap_or_else(|why| panic!("{name}: {why}"));
        let head = parse_head(packet.bytes, packet.len).unwrap_or_else(|| panic!("{name}: no head"));
        let crate::Transport::Tcp { segment, payload_len, .. } = head.transport else { panic!("{name}: {head:?}") };
        assert_eq!((segment.seq, payload_len, head.route.source.port()), (Seq(7), 20, 80), "{name}");
    }
}

/// Truncated anywhere: either the same segment or an error, never a packet of another length.
#[test]
fn frames_that_are_cut_off_are_named_or_read() {
    for (name, link, frame) in encapsulated() {
        for kept in 0..frame.len() {
            if let Ok(packet) = peel(link, &frame[..kept], frame.len() as u32, 0)
                && let Some(head) = parse_head(packet.bytes, packet.len)
                && let crate::Transport::Tcp { payload_len, .. } = head.transport
            {
                assert_eq!(payload_len, 20, "{name}, {kept} bytes");
            }
        }
    }
}

#[test]
fn what_is_not_read_is_named() {
    let tcp = segment(false);
    for (frame, said) in [
        (ethernet(0x0806, &[0; 28]), "ARP"),
        (ethernet(0x88e5, &[0; 28]), "MACsec"),
        (ethernet(0x1234, &[0; 28]), "EtherType 0x1234"),
        (ethernet(0x0800, &ipv4(50, &[1; 40])), "ESP"),
        (ethernet(0x0800, &ipv4(1, &[1; 40])), "ICMP"),
        (ethernet(0x0800, &ipv4(200, &[1; 40])), "IP protocol 200"),
        (ethernet(0x0800, &ipv4(17, &udp(4500, &[1; 40]))), "ESP in UDP"),
        (ethernet(0x8100, &[0; 3]), "cut off before the ports, or damaged"),
    ] {
        assert_eq!(peel(ETHERNET, &frame, frame.len() as u32, 0).unwrap_err().to_string(), said);
    }
    assert_eq!(peel(249, &tcp, 60, 0).unwrap_err().to_string(), "link type 249 (USBPcap)");
    let protected = behind(&[&[8, 0x42][..], &[0; 22]].concat(), &tcp);
    assert_eq!(peel(105, &protected, 100, 0).unwrap_err(), Unread::Encapsulation("encrypted Wi-Fi frames"));
    // A datagram with a tunnel's port but other content is an ordinary datagram.
    let plain = ethernet(0x0800, &ipv4(17, &udp(4789, b"hello, world")));
    assert!(peel(ETHERNET, &plain, plain.len() as u32, 0).is_ok());
}

#[test]
fn nesting_is_bounded() {
    let mut packet = segment(false);
    for _ in 0..100 {
        packet = ipv4(4, &packet);
    }
    assert_eq!(peel(101, &packet, packet.len() as u32, 0), Err(Unread::TooDeep));
    let labels = [0_u8, 1, 0, 64].repeat(100);
    assert_eq!(peel(ETHERNET, &ethernet(0x8847, &labels), 500, 0), Err(Unread::TooDeep));
}

/// Two packets in one aggregate, the first of 66 bytes, padded to 68.
#[test]
fn an_aggregate_has_several_packets() {
    let snap = behind(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &segment(false));
    let part = behind(&[&[1; 12][..], &(snap.len() as u16).to_be_bytes()].concat(), &snap);
    let padded = [part.clone(), vec![0; part.len().next_multiple_of(4) - part.len()]].concat();
    let frame = [&[0x88, 2][..], &[0; 22], &[0x80, 0], &padded, &part].concat();
    let found: Vec<_> = (0..2).map(|number| peel(105, &frame, frame.len() as u32, number).unwrap()).collect();
    assert_eq!((found[0].more, found[1].more), (true, false));
    assert!(found.iter().all(|packet| parse_head(packet.bytes, packet.len).is_some()));
    assert!(peel(105, &frame, frame.len() as u32, 2).is_err());
}

#[test]
fn fronts_tell_copies_apart() {
    let tcp = segment(false);
    let front = |frame: &[u8]| peel(ETHERNET, frame, frame.len() as u32, 0).unwrap().front;
    let plain = front(&ethernet(0x0800, &tcp));
    assert_eq!(plain, front(&ethernet(0x0800, &tcp)));
    let tagged = front(&ethernet(0x8100, &behind(&[0, 5, 8, 0], &tcp)));
    assert!(tagged.tags != plain.tags && tagged.addresses == plain.addresses);
    let tunneled = front(&ethernet(0x0800, &ipv4(4, &tcp)));
    assert_ne!(tunneled.tunnels, plain.tunnels);
}

proptest! {
    /// Arbitrary bytes on any link type.
    #[test]
    fn any_frame_ends(link in 0_u32..300, bytes in prop::collection::vec(any::<u8>(), 0..200), part in 0_usize..4) {
        let _ = peel(link, &bytes, bytes.len() as u32, part);
    }

    /// Frames with bytes changed anywhere.
    #[test]
    fn damaged_frames_end(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        len in any::<u32>(),
    ) {
        let mut list = encapsulated();
        let (_, link, mut frame) = list.swap_remove(which.index(list.len()));
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Ok(packet) = peel(link, &frame, len, 0) {
            let _ = parse_head(packet.bytes, packet.len);
        }
    }
}
