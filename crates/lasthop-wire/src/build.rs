//! From what the mechanisms send to bytes.

use std::net::{IpAddr, SocketAddr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};
use lasthop_proto::packet::{Flags, Options, Segment};

use crate::options::{ELN_EXID, EXPERIMENTAL_KIND, MOST_OPTIONS, NOP, SACK, SMART_EXID, TIMESTAMPS};
use crate::parse::{Route, View};

const TIME_TO_LIVE: u8 = 64;

/// The packet that carries `segment` and `payload` from one end to the other, checksums computed; with DF set over IPv4.
///
/// `None` when the two ends are not of one address family, or the packet would be longer than 65,535 bytes.
pub fn build(route: Route, segment: &Segment, payload: &[u8]) -> Option<Vec<u8>> {
    let mut tcp = tcp_header([route.source.port(), route.destination.port()], segment);
    let len = tcp.header_len() + payload.len();
    let mut bytes = Vec::with_capacity(Ipv6Header::LEN + len);
    match (route.source, route.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let addresses = [source.ip().octets(), destination.ip().octets()];
            let len = u16::try_from(len).ok()?;
            let mut ip = Ipv4Header::new(len, TIME_TO_LIVE, IpNumber::TCP, addresses[0], addresses[1]).ok()?;
            ip.dont_fragment = true;
            ip.header_checksum = ip.calc_header_checksum();
            tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).ok()?;
            bytes.extend_from_slice(&ip.to_bytes());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: u16::try_from(len).ok()?,
                next_header: IpNumber::TCP,
                hop_limit: TIME_TO_LIVE,
                source: source.ip().octets(),
                destination: destination.ip().octets(),
            };
            tcp.checksum = tcp.calc_checksum_ipv6(&ip, payload).ok()?;
            bytes.extend_from_slice(&ip.to_bytes());
        }
        _ => return None,
    }
    bytes.extend_from_slice(&tcp.to_bytes());
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// The TCP header of `segment`, from the first port to the second, its checksum still 0.
pub fn tcp_header(ports: [u16; 2], segment: &Segment) -> TcpHeader {
    let mut header = TcpHeader::new(ports[0], ports[1], segment.seq.0, segment.window);
    let flags = segment.flags;
    header.fin = flags.has(Flags::FIN);
    header.syn = flags.has(Flags::SYN);
    header.rst = flags.has(Flags::RST);
    header.psh = flags.has(Flags::PSH);
    header.ack = flags.has(Flags::ACK);
    header.acknowledgment_number = if header.ack { segment.ack.0 } else { 0 };
    header.set_options_raw(&option_bytes(&segment.options)).expect("at most 40 bytes of options");
    header
}

/// The options as [`Options::wire_len`] counts them, each padded in front to a multiple of four. SACK blocks for which
/// no room is left are dropped, oldest first.
pub fn option_bytes(options: &Options) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MOST_OPTIONS);
    if let Some(mss) = options.mss {
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        bytes.extend([NOP, 3, 3, shift]);
    }
    if options.sack_permitted {
        bytes.extend([NOP, NOP, 4, 2]);
    }
    if let Some(timestamps) = options.timestamps {
        bytes.extend([NOP, NOP, TIMESTAMPS, 10]);
        bytes.extend(timestamps.val.to_be_bytes());
        bytes.extend(timestamps.ecr.to_be_bytes());
    }
    if let Some(seq) = options.smart {
        bytes.extend([EXPERIMENTAL_KIND, 8]);
        bytes.extend(SMART_EXID.to_be_bytes());
        bytes.extend(seq.0.to_be_bytes());
    }
    if options.eln {
        bytes.extend([EXPERIMENTAL_KIND, 4]);
        bytes.extend(ELN_EXID.to_be_bytes());
    }
    let room = MOST_OPTIONS.saturating_sub(bytes.len() + 4) / 8;
    let blocks = options.sack.as_slice();
    let blocks = &blocks[..blocks.len().min(room)];
    if !blocks.is_empty() {
        bytes.extend([NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            bytes.extend(block.left.0.to_be_bytes());
            bytes.extend(block.right.0.to_be_bytes());
        }
    }
    debug_assert!(bytes.len() <= MOST_OPTIONS && bytes.len().is_multiple_of(4));
    bytes
}

/// Computes the checksum of the TCP header at `ip_len` anew, and IPv4's own.
pub(crate) fn seal(packet: &mut [u8], ip_len: usize) {
    let (ip, transport) = packet.split_at_mut(ip_len);
    let Some(field) = transport.get_mut(16..18) else { return };
    field.fill(0);
    let sum = tcp_sum(ip, transport).ones_complement();
    transport[16..18].copy_from_slice(&sum.to_ne_bytes());
    if has_checksum(ip) {
        ip[10..12].fill(0);
        let sum = Sum16BitWords::new().add_slice(ip).ones_complement();
        ip[10..12].copy_from_slice(&sum.to_ne_bytes());
    }
}

/// Which parts of a packet arrived as they were sent, as far as checksums tell (RFC 1071).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksums {
    /// Both are right.
    Hold,
    /// IPv4's is right or there is none, TCP's is wrong.
    TcpWrong,
    /// IPv4's is wrong: nothing of the packet can be relied on.
    IpWrong,
}

/// Looks at the checksums of a packet, read as `view`.
pub fn checksums(packet: &[u8], view: &View) -> Checksums {
    // Right checksums make the sum of all words 0, or its other name, all ones.
    let holds = |sum: Sum16BitWords| sum.ones_complement() == 0;
    let (ip, transport) = packet[..view.total_len()].split_at(view.ip_len);
    if has_checksum(ip) && !holds(Sum16BitWords::new().add_slice(ip)) {
        Checksums::IpWrong
    } else if holds(tcp_sum(ip, transport)) {
        Checksums::Hold
    } else {
        Checksums::TcpWrong
    }
}

/// The words of the pseudo header and of the segment, added up.
fn tcp_sum(ip: &[u8], transport: &[u8]) -> Sum16BitWords {
    let pseudo = if has_checksum(ip) { &ip[12..20] } else { &ip[8..40] };
    Sum16BitWords::new()
        .add_slice(pseudo)
        .add_2bytes([0, IpNumber::TCP.0])
        .add_4bytes((transport.len() as u32).to_be_bytes())
        .add_slice(transport)
}

/// IPv4's header has a checksum, IPv6's has none.
fn has_checksum(ip: &[u8]) -> bool {
    ip.first().is_some_and(|first| first >> 4 == 4)
}

/// Whether an address is of the fourth version.
pub(crate) const fn is_v4(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(_))
}
