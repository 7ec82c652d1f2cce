//! Conversion of packets from the mechanisms' form to bytes.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpEcn, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader};
use lasthop_proto::packet::{AckCongestionOption, Ecn, Flags, Options, Segment};

use crate::options::{
    ACK_CONGESTION_EXID, ELN_EXID, EXPERIMENTAL_KIND, MOST_OPTIONS, NOP, SACK, SMART_EXID, TIMESTAMPS,
};
use crate::parse::Route;

const TIME_TO_LIVE: u8 = 64;

/// Returns a packet with `segment` and `payload` from one end to the other, with checksums, and with DF set for IPv4.
///
/// `None` if the two ends have different address families, the options do not fit into a TCP header, or the packet would
/// exceed 65,535 bytes.
///
/// The packet is not ECN-capable; [`build_with_ecn`] builds one that is.
pub fn build(route: Route, segment: &Segment, payload: &[u8]) -> Option<Vec<u8>> {
    build_with_ecn(route, Ecn::NotEct, segment, payload)
}

/// Returns a packet like [`build`], with an ECN field in the IP header.
pub fn build_with_ecn(route: Route, ecn: Ecn, segment: &Segment, payload: &[u8]) -> Option<Vec<u8>> {
    let mut tcp = tcp_header([route.source.port(), route.destination.port()], segment)?;
    let len = tcp.header_len() + payload.len();
    let mut bytes = Vec::with_capacity(Ipv6Header::LEN + len);
    match (route.source, route.destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let addresses = [source.ip().octets(), destination.ip().octets()];
            let len = u16::try_from(len).ok()?;
            let mut ip = Ipv4Header::new(len, TIME_TO_LIVE, IpNumber::TCP, addresses[0], addresses[1]).ok()?;
            ip.dont_fragment = true;
            ip.ecn = ip_ecn(ecn);
            ip.header_checksum = ip.calc_header_checksum();
            tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).ok()?;
            bytes.extend_from_slice(&ip.to_bytes());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: ecn.bits(),
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

/// Returns the ECN field in the form of an IPv4 header.
pub fn ip_ecn(ecn: Ecn) -> IpEcn {
    match ecn {
        Ecn::NotEct => IpEcn::NotEct,
        Ecn::Ect1 => IpEcn::Ect1,
        Ecn::Ect0 => IpEcn::Ect0,
        Ecn::Ce => IpEcn::CongestionExperienced,
    }
}

/// Returns the TCP header of `segment`, from the first port to the second, with a checksum of 0. `None` if the options do
/// not fit.
pub fn tcp_header(ports: [u16; 2], segment: &Segment) -> Option<TcpHeader> {
    let mut header = TcpHeader::new(ports[0], ports[1], segment.seq.0, segment.window);
    let flags = segment.flags;
    header.fin = flags.has(Flags::FIN);
    header.syn = flags.has(Flags::SYN);
    header.rst = flags.has(Flags::RST);
    header.psh = flags.has(Flags::PSH);
    header.ack = flags.has(Flags::ACK);
    header.urg = flags.has(Flags::URG);
    header.ece = flags.has(Flags::ECE);
    header.cwr = flags.has(Flags::CWR);
    header.ns = flags.has(Flags::AE);
    header.acknowledgment_number = if header.ack { segment.ack.0 } else { 0 };
    header.set_options_raw(&option_bytes(&segment.options)?).ok()?;
    Some(header)
}

/// Returns the options as counted by [`Options::wire_len`], each padded at its front to a multiple of four, except that
/// the counters of accurate ECN are padded at their end. SACK blocks beyond the space are dropped, oldest first. `None` if
/// the other options exceed 40 bytes (RFC 9293 §3.1).
fn option_bytes(options: &Options) -> Option<Vec<u8>> {
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
    match options.ack_congestion {
        None => {}
        Some(AckCongestionOption::Permitted) => {
            bytes.extend([EXPERIMENTAL_KIND, 4]);
            bytes.extend(ACK_CONGESTION_EXID.to_be_bytes());
        }
        Some(AckCongestionOption::Ratio(ratio)) => {
            bytes.extend([NOP, NOP, NOP, EXPERIMENTAL_KIND, 5]);
            bytes.extend(ACK_CONGESTION_EXID.to_be_bytes());
            bytes.push(ratio.get());
        }
    }
    if let Some(counters) = options.ecn_counters {
        bytes.extend([counters.kind(), counters.wire_len() as u8]);
        for (_, value) in counters.fields() {
            bytes.extend(&value.to_be_bytes()[1..]);
        }
    }
    let begin = if bytes.len() % 4 > 2 { bytes.len() + 1 } else { bytes.len() & !3 };
    let room = MOST_OPTIONS.saturating_sub(begin + 4) / 8;
    let blocks = options.sack.as_slice();
    let blocks = &blocks[..blocks.len().min(room)];
    // The option before ends with padding, or where that of the blocks would be.
    let end = if blocks.is_empty() { bytes.len().next_multiple_of(4) } else { begin + 2 };
    bytes.resize(end, NOP);
    if !blocks.is_empty() {
        bytes.extend([SACK, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            bytes.extend(block.left.0.to_be_bytes());
            bytes.extend(block.right.0.to_be_bytes());
        }
    }
    debug_assert!(bytes.len().is_multiple_of(4));
    (bytes.len() <= MOST_OPTIONS).then_some(bytes)
}

/// Returns whether an address is an IPv4 address.
pub(crate) const fn is_v4(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(_))
}
