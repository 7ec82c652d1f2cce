//! Packets as bytes of Ethernet frames: headers only, with checksums over a payload of zeros.

use etherparse::{EtherType, Ethernet2Header, IpDscp, IpFragOffset, IpNumber, Ipv4Header, UdpHeader};
use lasthop_proto::packet::{Body, Packet, Segment};
use lasthop_sim::trace::FlowInfo;

use crate::error::ReportError;

/// Maximum length of headers: Ethernet, IPv4 without options, TCP with 40 bytes of options.
pub const LONGEST_HEADERS: u32 = 94;

const TIME_TO_LIVE: u8 = 64;

/// Packet in its wire format.
pub struct Frame {
    /// Ethernet, IPv4 and transport headers. The payload, all zeros, is left out.
    pub headers: Vec<u8>,
    /// Length with the payload, in bytes.
    pub original_len: u32,
}

/// Link that carries a frame, by the capture points at its ends.
#[derive(Clone, Copy)]
pub struct Hop {
    /// Capture point of the sender.
    pub from: u16,
    /// Capture point of the receiver.
    pub to: u16,
}

/// Builds the frame of `packet`, which belongs to `flow`, on `hop`.
pub fn build(packet: &Packet, flow: &FlowInfo, hop: Hop) -> Result<Frame, ReportError> {
    let mut headers = Vec::with_capacity(LONGEST_HEADERS as usize);
    headers.extend_from_slice(&ethernet(hop).to_bytes());
    headers.extend_from_slice(&ip_packet(packet, flow)?);
    let original_len = headers.len() as u32 + packet.len;
    Ok(Frame { headers, original_len })
}

/// Builds the link frame of `packet`: its link headers, the outermost first, then the IPv4 packet unless it is a
/// control frame. The ARQ header is a byte for its kind (0 data, 1 acknowledgment, 2 "missing", 3 "no longer sent"), a
/// zero, and the frame number; for that of a two-ended link see [`lasthop_proto::link::hybrid::Header`].
pub fn build_link(packet: &Packet, flow: Option<&FlowInfo>) -> Result<Frame, ReportError> {
    let mut headers = Vec::new();
    packet.link.iter().for_each(|(_, header)| headers.extend_from_slice(header));
    if let Some(flow) = flow {
        headers.extend_from_slice(&ip_packet(packet, flow)?);
    }
    let original_len = headers.len() as u32 + packet.len;
    Ok(Frame { headers, original_len })
}

/// Returns the Ethernet header. Libpcap, and so tcptrace, rejects files with several interfaces of the link type for
/// bare IP datagrams, so frames have locally administered addresses that end in the number of the capture point.
fn ethernet(hop: Hop) -> Ethernet2Header {
    let address = |point: u16| {
        let [high, low] = point.to_be_bytes();
        [0x02, 0, 0, 0, high, low]
    };
    Ethernet2Header { source: address(hop.from), destination: address(hop.to), ether_type: EtherType::IPV4 }
}

/// Returns the headers of the IPv4 packet; none for a link's control frame.
fn ip_packet(packet: &Packet, flow: &FlowInfo) -> Result<Vec<u8>, ReportError> {
    match &packet.body {
        Body::Tcp(segment) => tcp(packet, segment, flow),
        Body::Datagram { number } | Body::Media { number } | Body::Quic { number, .. } => udp(packet, *number, flow),
        Body::Control | Body::Coded(_) | Body::Report(_) => Ok(Vec::new()),
    }
}

fn tcp(packet: &Packet, segment: &Segment, flow: &FlowInfo) -> Result<Vec<u8>, ReportError> {
    let (from, to) = (packet.from.index(), packet.from.peer().index());
    let header = lasthop_wire::tcp_header([flow.ports[from], flow.ports[to]], segment);
    let mut header = header.ok_or_else(|| ReportError::OptionsTooLong(segment.options.wire_len()))?;
    let ip = ip_header(packet, header.header_len() + packet.len as usize, IpNumber::TCP, flow)?;
    let payload = vec![0; packet.len as usize];
    header.checksum = header.calc_checksum_ipv4(&ip, &payload).expect("its length fits IPv4's, which was checked");
    Ok([&ip.to_bytes()[..], &header.to_bytes()[..]].concat())
}

fn udp(packet: &Packet, number: u32, flow: &FlowInfo) -> Result<Vec<u8>, ReportError> {
    let (from, to) = (packet.from.index(), packet.from.peer().index());
    let mut ip = ip_header(packet, UdpHeader::LEN + packet.len as usize, IpNumber::UDP, flow)?;
    // Datagrams have no sequence number, so the identification distinguishes them.
    ip.identification = number as u16;
    ip.header_checksum = ip.calc_header_checksum();
    let payload = vec![0; packet.len as usize];
    let header = UdpHeader::with_ipv4_checksum(flow.ports[from], flow.ports[to], &ip, &payload)
        .expect("its length fits IPv4's, which was checked");
    Ok([&ip.to_bytes()[..], &header.to_bytes()[..]].concat())
}

fn ip_header(packet: &Packet, len: usize, protocol: IpNumber, flow: &FlowInfo) -> Result<Ipv4Header, ReportError> {
    let (from, to) = (packet.from.index(), packet.from.peer().index());
    let too_long = || ReportError::PacketTooLong((Ipv4Header::MIN_LEN + len) as u64);
    let len = u16::try_from(len).map_err(|_| too_long())?;
    let mut header = Ipv4Header::new(len, TIME_TO_LIVE, protocol, flow.addresses[from], flow.addresses[to])
        .map_err(|_| too_long())?;
    header.dont_fragment = true;
    if matches!(packet.body, Body::Media { .. }) {
        header.dscp = IpDscp::EF;
    }
    header.ecn = lasthop_wire::ip_ecn(packet.ecn);
    header.fragment_offset = IpFragOffset::ZERO;
    header.header_checksum = header.calc_header_checksum();
    Ok(header)
}
