//! Packets that are too big for the path to a peer: reports to their sender (RFC 1191, RFC 8201), or fragments (RFC
//! 791); and clamping of the MSS of TCP connections.

use std::net::IpAddr;

use etherparse::{Icmpv4Type, Icmpv6Type, PacketBuilder, icmpv4};
use lasthop_proto::packet::{Ecn, Flags};
use lasthop_wire::protocol::{ICMP, ICMP_V6, TCP};
use lasthop_wire::{Ip, Tcp, TcpMut, ecn, fragments, mark_congestion};

use super::look::View;

/// Minimum MTU of an IPv6 link, in bytes (RFC 8200 §5).
const LEAST_V6: u16 = 1280;
/// Maximum number of quoted bytes of an offending packet: the message has at most 576 bytes, or 1280 with IPv6.
const QUOTED: [usize; 2] = [548, 1232];

/// Handling of a packet that is too big.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Oversize {
    /// Send the packet in these fragments.
    Parts(Vec<Vec<u8>>),
    /// Report the MTU to the sender with this packet.
    Answer(Vec<u8>),
    /// Drop the packet without a report.
    Drop,
}

/// Returns the handling of a packet that exceeds `mtu` bytes.
pub fn oversize(packet: &[u8], view: &View, mtu: u16) -> Oversize {
    let answer = match view.addresses {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let Some(Ip::V4(ip)) = Ip::new_checked(packet) else { return Oversize::Drop };
            if !ip.dont_fragment() {
                return fragments(packet, mtu).map_or(Oversize::Drop, Oversize::Parts);
            }
            if view.later_fragment || is_error(packet, view) {
                return Oversize::Drop;
            }
            // Its source is the destination of the packet: an address routed to the device passes every source
            // validation.
            let kind = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu };
            let builder = PacketBuilder::ipv4(to.octets(), from.octets(), 64);
            let builder = builder.icmpv4(Icmpv4Type::DestinationUnreachable(kind));
            let mut bytes = Vec::new();
            builder.write(&mut bytes, &packet[..packet.len().min(QUOTED[0])]).ok().map(|()| bytes)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            // No link may have a smaller MTU: a sender that receives such a report would still send packets of this
            // size.
            if mtu < LEAST_V6 && packet.len() <= usize::from(LEAST_V6) || is_error(packet, view) {
                return Oversize::Drop;
            }
            let kind = Icmpv6Type::PacketTooBig { mtu: mtu.max(LEAST_V6).into() };
            let builder = PacketBuilder::ipv6(to.octets(), from.octets(), 64).icmpv6(kind);
            let mut bytes = Vec::new();
            builder.write(&mut bytes, &packet[..packet.len().min(QUOTED[1])]).ok().map(|()| bytes)
        }
        _ => None,
    };
    answer.map_or(Oversize::Drop, Oversize::Answer)
}

/// Returns whether the packet is an ICMP error, which is not answered (RFC 1122 §3.2.2, RFC 4443 §2.4).
fn is_error(packet: &[u8], view: &View) -> bool {
    match (view.protocol, view.body(packet).first()) {
        (ICMP, Some(kind)) => !matches!(kind, 0 | 8 | 13..=18),
        (ICMP_V6, Some(kind)) => *kind < 128,
        _ => false,
    }
}

/// Returns whether [`clamp`] may change a packet: whether it is a SYN.
pub fn is_syn(packet: &[u8], view: &View) -> bool {
    let has_header = view.protocol == TCP && !view.later_fragment;
    has_header && Tcp::new_checked(view.body(packet)).is_some_and(|segment| segment.flags().has(Flags::SYN))
}

/// Reduces the MSS option of a SYN to segments that fit in `mtu` bytes, if it is larger (RFC 9293 §3.7.1).
pub fn clamp(packet: &mut [u8], view: &View, mtu: u16) {
    if !is_syn(packet, view) {
        return;
    }
    let headers = if view.addresses.0.is_ipv4() { 40 } else { 60 };
    if let Some(mut segment) = packet.get_mut(view.body..).and_then(TcpMut::new_checked) {
        segment.lower_mss(mtu.saturating_sub(headers));
    }
}

/// Applies the outer header's CE mark to an inner packet (RFC 6040 §4.2). Returns `false` if the packet is not
/// ECN-capable: then the mark counts as a loss.
pub fn take_mark(packet: &mut [u8]) -> bool {
    let takes_marks = ecn(packet) != Ecn::NotEct;
    if takes_marks {
        mark_congestion(packet);
    }
    takes_marks
}

#[cfg(test)]
mod tests {
    use etherparse::Ipv4Header;

    use super::super::look::look;
    use super::*;

    const SYN: u8 = Flags::SYN.low_byte();

    /// Returns an IPv4 UDP packet with `length` bytes after a header of 20 bytes, and a valid checksum.
    fn v4(flags: u8, length: usize) -> Vec<u8> {
        let mut header =
            Ipv4Header::new(length as u16, 64, etherparse::ip_number::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        (header.dont_fragment, header.more_fragments) = (flags & 2 != 0, flags & 1 != 0);
        header.header_checksum = header.calc_header_checksum();
        let mut packet = header.to_bytes().to_vec();
        packet.extend((0..length).map(|byte| byte as u8));
        packet
    }

    fn tcp(kind: u8, options: &[u8]) -> Vec<u8> {
        let segment = [
            &[1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0][..],
            &[(20 + options.len()) as u8 * 4, kind, 1, 0, 0, 0, 0, 0],
            options,
        ];
        let mut packet = v4(2, 0);
        packet.extend_from_slice(&segment.concat());
        packet[9] = 6;
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn judge(packet: &[u8], mtu: u16) -> Oversize {
        oversize(packet, &look(packet).unwrap(), mtu)
    }

    #[test]
    fn senders_are_told_and_parts_join_to_the_whole() {
        let Oversize::Answer(answer) = judge(&v4(2, 1400), 1200) else { panic!("no answer") };
        let view = look(&answer).unwrap();
        assert_eq!(view.addresses, ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap()));
        assert_eq!((&answer[20..22], &answer[26..28]), (&[3, 4][..], &1200_u16.to_be_bytes()[..]));
        assert!(answer.len() <= 576 && answer[28..] == v4(2, 1400)[..548]);
        // Errors are not answered.
        let mut error = v4(2, 1400);
        (error[9], error[20]) = (1, 3);
        assert_eq!(judge(&error, 1200), Oversize::Drop);

        let whole = v4(0, 1400);
        let Oversize::Parts(parts) = judge(&whole, 600) else { panic!("no parts") };
        let mut joined = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let (header, body) = Ipv4Header::from_slice(part).unwrap();
            assert!(
                part.len() <= 600 && look(part).is_some() && header.header_checksum == header.calc_header_checksum()
            );
            assert_eq!(usize::from(header.fragment_offset.value()) * 8, joined.len());
            assert_eq!(header.more_fragments, index + 1 < parts.len());
            joined.extend_from_slice(body);
        }
        assert_eq!(joined, whole[20..]);
        assert_eq!(judge(&whole, 27), Oversize::Drop);
    }

    #[test]
    fn with_ipv6_nobody_is_told_of_less_than_its_least() {
        let packet = |length: usize| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
            packet.extend_from_slice(&[0xfd; 32]);
            packet.resize(length, 7);
            packet[4..6].copy_from_slice(&(length as u16 - 40).to_be_bytes());
            packet
        };
        let Oversize::Answer(answer) = judge(&packet(1400), 1170) else { panic!("no answer") };
        assert_eq!((answer[40], &answer[44..48]), (2, &1280_u32.to_be_bytes()[..]));
        assert!(look(&answer).is_some() && answer.len() <= 1280);
        assert_eq!(judge(&packet(1280), 1170), Oversize::Drop);
    }

    #[test]
    fn connections_are_opened_with_segments_that_fit() {
        // After a longer option, and at an odd offset.
        for options in
            [&[2, 4, 5, 180][..], &[8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 180, 0, 0], &[1, 2, 4, 5, 180, 0, 0, 0]]
        {
            let mut packet = tcp(SYN, options);
            let view = lasthop_wire::parse(&packet);
            if let Some(view) = &view {
                lasthop_wire::seal(&mut packet, view);
            }
            let view = look(&packet).unwrap();
            let mut clamped = packet.clone();
            clamp(&mut clamped, &view, 1442);
            let mss = |packet: &[u8]| {
                let at = packet.windows(2).skip(40).position(|pair| pair == [2, 4]).unwrap() + 40;
                u16::from_be_bytes([packet[at + 2], packet[at + 3]])
            };
            assert_eq!((mss(&packet), mss(&clamped)), (1460, 1402));
            // The updated checksum equals one computed over the segment.
            let mut sealed = clamped.clone();
            let parsed = lasthop_wire::parse(&sealed).unwrap();
            lasthop_wire::seal(&mut sealed, &parsed);
            assert_eq!(sealed, clamped);
            // Unchanged: a small MSS, a segment that is not a SYN, options without an end.
            let mut same = packet.clone();
            clamp(&mut same, &view, 1500);
            assert_eq!(same, packet);
        }
        for packet in [tcp(0x10, &[2, 4, 5, 180]), tcp(SYN, &[3, 0, 2, 4]), tcp(SYN, &[2, 4])] {
            let mut same = packet.clone();
            clamp(&mut same, &look(&packet).unwrap(), 1000);
            assert_eq!(same, packet);
        }
    }

    #[test]
    fn marks_are_taken_in_where_they_can_be() {
        for (before, after, taken) in [(0, 0, false), (1, 3, true), (2, 3, true), (3, 3, true)] {
            let mut packet = v4(0, 8);
            packet[1] = before;
            assert_eq!((take_mark(&mut packet), packet[1]), (taken, after));
        }
    }
}
