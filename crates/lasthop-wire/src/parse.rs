//! Parser from bytes to the mechanisms' form.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;

use etherparse::{IpNumber, Ipv4HeaderSlice, Ipv6Header, Ipv6HeaderSlice, TcpHeaderSlice};
use lasthop_proto::packet::{AckCongestionOption, Ecn, Flags, Options, SackBlock, SackBlocks, Segment, Timestamps};
use lasthop_proto::seq::Seq;

use crate::options::{ACK_CONGESTION_EXID, ELN_EXID, EXPERIMENTAL_KIND, NOP, SACK, SMART_EXID, TIMESTAMPS};

/// Length of a TCP header without options, in bytes.
const TCP_LEN: usize = 20;

/// One direction of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Route {
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
}

impl Route {
    /// Returns the other direction.
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// Parsed headers of a packet, with the position of its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// Source and destination.
    pub route: Route,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// TCP header, without options that no mechanism uses.
    pub segment: Segment,
    /// Length of the IP header, in bytes.
    pub ip_len: usize,
    /// Length of the IP and TCP headers, in bytes: the payload begins here.
    pub header_len: usize,
    /// Length of the payload, in bytes.
    pub payload_len: usize,
}

impl View {
    /// Returns the bytes of the packet's TCP options, padding included.
    pub fn option_bytes<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        packet.get(self.ip_len + TCP_LEN..self.header_len).unwrap_or_default()
    }

    /// Returns the length of the whole packet, in bytes; further bytes in the buffer are padding.
    pub const fn total_len(&self) -> usize {
        self.header_len + self.payload_len
    }
}

/// Parses a packet that begins with its IP header. `None` for all but complete, unfragmented TCP segments without IPv6
/// extension headers whose lengths agree with `bytes` (which may be longer).
///
/// Checksums are not verified: with offloads the kernel delivers packets whose checksum is not computed yet.
pub fn parse(bytes: &[u8]) -> Option<View> {
    let (source, destination, ip_len, total_len) = match bytes.first()? >> 4 {
        4 => {
            let ip = Ipv4HeaderSlice::from_slice(bytes).ok()?;
            if ip.protocol() != IpNumber::TCP || ip.is_fragmenting_payload() {
                return None;
            }
            let addresses = (IpAddr::V4(ip.source_addr()), IpAddr::V4(ip.destination_addr()));
            (addresses.0, addresses.1, ip.slice().len(), usize::from(ip.total_len()))
        }
        6 => {
            let ip = Ipv6HeaderSlice::from_slice(bytes).ok()?;
            if ip.next_header() != IpNumber::TCP {
                return None;
            }
            let addresses = (IpAddr::V6(ip.source_addr()), IpAddr::V6(ip.destination_addr()));
            let payload = usize::from(ip.payload_length());
            // A super-segment that exceeds the length field has 0 there (RFC 2675 without the option, as built by
            // Linux).
            let total = if payload == 0 { bytes.len() } else { Ipv6Header::LEN + payload };
            (addresses.0, addresses.1, Ipv6Header::LEN, total)
        }
        _ => return None,
    };
    let tcp = TcpHeaderSlice::from_slice(bytes.get(ip_len..total_len)?).ok()?;
    let header_len = ip_len + tcp.slice().len();
    Some(View {
        route: Route {
            source: SocketAddr::new(source, tcp.source_port()),
            destination: SocketAddr::new(destination, tcp.destination_port()),
        },
        ecn: ecn(bytes),
        segment: segment(&tcp)?,
        ip_len,
        header_len,
        payload_len: total_len - header_len,
    })
}

/// Returns the ECN field of a packet with a complete IP header.
fn ecn(ip: &[u8]) -> Ecn {
    match ip[0] >> 4 {
        4 => Ecn::from_bits(ip[1]),
        // The traffic class spans two bytes, four bits after the version.
        _ => Ecn::from_bits(ip[1] >> 4),
    }
}

fn segment(tcp: &TcpHeaderSlice<'_>) -> Option<Segment> {
    let flags = flags([tcp.slice()[12], tcp.slice()[13]]);
    Some(Segment {
        seq: Seq(tcp.sequence_number()),
        ack: Seq(tcp.acknowledgment_number()),
        window: tcp.window_size(),
        flags,
        options: options(tcp.options())?,
    })
}

/// Returns the flags in bytes 12 and 13 of a header, which also contain the data offset.
pub(crate) const fn flags(bytes: [u8; 2]) -> Flags {
    Flags(u16::from_be_bytes(bytes) & Flags::ALL.0)
}

/// Parses options; `None` if they are malformed.
pub(crate) fn options(bytes: &[u8]) -> Option<Options> {
    let mut options = Options::default();
    let mut rest = bytes;
    while let Some(&kind) = rest.first() {
        match kind {
            0 => break,
            NOP => {
                rest = &rest[1..];
                continue;
            }
            _ => {}
        }
        let len = usize::from(*rest.get(1)?);
        let option = rest.get(..len).filter(|_| len >= 2)?;
        let number = |at: usize| {
            let bytes = option.get(at..at + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        match (kind, len) {
            (2, 4) => options.mss = Some(u16::from_be_bytes([option[2], option[3]])),
            (3, 3) => options.window_scale = Some(option[2]),
            (4, 2) => options.sack_permitted = true,
            (SACK, _) => options.sack = blocks(&option[2..]),
            (TIMESTAMPS, 10) => options.timestamps = Some(Timestamps { val: number(2)?, ecr: number(6)? }),
            (EXPERIMENTAL_KIND, 8) if option[2..4] == SMART_EXID.to_be_bytes() => {
                options.smart = Some(Seq(number(4)?));
            }
            (EXPERIMENTAL_KIND, 4) if option[2..4] == ELN_EXID.to_be_bytes() => options.eln = true,
            (EXPERIMENTAL_KIND, 4) if option[2..4] == ACK_CONGESTION_EXID.to_be_bytes() => {
                options.ack_congestion = Some(AckCongestionOption::Permitted);
            }
            // A ratio of 0 is ignored.
            (EXPERIMENTAL_KIND, 5) if option[2..4] == ACK_CONGESTION_EXID.to_be_bytes() => {
                options.ack_congestion = NonZeroU8::new(option[4]).map(AckCongestionOption::Ratio);
            }
            _ => {}
        }
        rest = &rest[len..];
    }
    Some(options)
}

fn blocks(bytes: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::NONE;
    for block in bytes.chunks_exact(8) {
        let edge = |at: usize| Seq(u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]));
        blocks.push(SackBlock { left: edge(0), right: edge(4) });
    }
    blocks
}
