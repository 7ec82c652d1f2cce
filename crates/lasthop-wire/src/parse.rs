//! Parser from bytes to the mechanisms' form.

use std::net::SocketAddr;
use std::num::NonZeroU8;

use lasthop_proto::packet::{
    AckCongestionOption, Ecn, EcnCounters, Options, SackBlock, SackBlocks, Segment, Timestamps,
};
use lasthop_proto::seq::Seq;

use crate::ip::{Fragment, Ip, protocol};
use crate::options::{
    ACCURATE_ECN, ACK_CONGESTION_EXID, ELN_EXID, EXPERIMENTAL_KIND, NOP, SACK, SMART_EXID, TIMESTAMPS,
};
use crate::transport::{TCP_LEN, Tcp};

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
    let ip = Ip::new_checked(bytes)?;
    if ip.protocol() != protocol::TCP || ip.fragment() != Fragment::Whole {
        return None;
    }
    let ip_len = ip.header_len()?;
    let total_len = match ip {
        // A super-segment that exceeds the length field has 0 there (RFC 2675 without the option, as built by Linux).
        Ip::V6(_) if ip.is_unmeasured() => bytes.len(),
        Ip::V4(_) | Ip::V6(_) => ip.claimed_len(),
    };
    let tcp = Tcp::new_checked(bytes.get(ip_len..total_len)?)?;
    let header_len = ip_len + tcp.header_len()?;
    Some(View {
        route: Route {
            source: SocketAddr::new(ip.source(), tcp.source_port()),
            destination: SocketAddr::new(ip.destination(), tcp.destination_port()),
        },
        ecn: ip.ecn(),
        segment: Segment {
            seq: tcp.seq(),
            ack: tcp.ack(),
            window: tcp.window(),
            flags: tcp.flags(),
            options: options(tcp.options())?,
        },
        ip_len,
        header_len,
        payload_len: total_len - header_len,
    })
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
            (kind, _) if ACCURATE_ECN.contains(&kind) => options.ecn_counters = counters(kind, &option[2..]),
            _ => {}
        }
        rest = &rest[len..];
    }
    Some(options)
}

/// Reads the whole fields of the option of accurate ECN; the rest is padding (RFC 9768 §3.2.3).
fn counters(kind: u8, bytes: &[u8]) -> Option<EcnCounters> {
    let mut values = [0; 3];
    let whole = bytes.chunks_exact(3).take(values.len());
    let count = whole.len();
    values.iter_mut().zip(whole).for_each(|(value, field)| {
        *value = u32::from_be_bytes([0, field[0], field[1], field[2]]);
    });
    EcnCounters::new(kind, &values[..count])
}

fn blocks(bytes: &[u8]) -> SackBlocks {
    let mut blocks = SackBlocks::NONE;
    for block in bytes.chunks_exact(8) {
        let edge = |at: usize| Seq(u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]));
        blocks.push(SackBlock { left: edge(0), right: edge(4) });
    }
    blocks
}
