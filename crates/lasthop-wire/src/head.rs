//! Packets of which a capture only has the headers.

use std::net::SocketAddr;

use lasthop_proto::packet::{Ecn, Options, Segment};

use crate::captured::CapturedIp;
use crate::ip::{Fragment, protocol};
use crate::parse::{Route, options};
use crate::transport::{TCP_LEN, Tcp, Udp, ports};

/// Captured headers of a packet, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'p> {
    /// Source and destination.
    pub route: Route,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// Identification of IPv4.
    pub identification: Option<u16>,
    /// Length of the packet on the wire, IP header included.
    pub total_len: u32,
    /// Transport header.
    pub transport: Transport<'p>,
}

/// Transport header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport<'p> {
    /// A TCP segment.
    Tcp {
        /// Header of the segment. Truncated or malformed options are missing.
        segment: Segment,
        /// Completeness of the segment's options in the capture.
        options: Kept,
        /// Number of payload bytes on the wire.
        payload_len: u32,
    },
    /// A UDP datagram.
    Udp {
        /// Captured part of the datagram's payload.
        payload: &'p [u8],
    },
}

/// Completeness of captured data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// All of the data.
    Whole,
    /// Truncated.
    CutOff,
}

/// Parses a packet that begins with its IP header and had `len` bytes on the wire, of which `bytes` were captured.
/// `None` for all but unfragmented TCP and UDP with at least the fixed part of the transport header. IP options and
/// IPv6 extension headers are skipped.
///
/// A length field of zero belongs to a super-segment that an interface had yet to segment: `len` applies then.
pub fn parse_head(bytes: &[u8], len: u32) -> Option<Head<'_>> {
    let ip = CapturedIp::read(bytes, len)?;
    if ip.fragment == Fragment::Whole { head_of(&ip, ip.payload_len) } else { None }
}

/// Parses a packet from its first fragment; `payload_len` is the length of its whole payload. `None` in the cases of
/// [`parse_head`].
pub fn head_of<'p>(ip: &CapturedIp<'p>, payload_len: u32) -> Option<Head<'p>> {
    let transport = match ip.protocol {
        protocol::TCP => segment(ip.payload, payload_len)?,
        protocol::UDP => Transport::Udp { payload: Udp::new_checked(ip.payload)?.payload() },
        _ => return None,
    };
    let [source, destination] = ports(ip.payload)?;
    let route =
        Route { source: SocketAddr::new(ip.source, source), destination: SocketAddr::new(ip.destination, destination) };
    let total_len = ip.total_len.saturating_sub(ip.payload_len).saturating_add(payload_len);
    let CapturedIp { ecn, hop_limit, identification, .. } = *ip;
    Some(Head { route, ecn, hop_limit, identification, total_len, transport })
}

/// Returns the header of a segment of which `kept` was captured, and which had `len` bytes on the wire.
fn segment(kept: &[u8], len: u32) -> Option<Transport<'_>> {
    let tcp = Tcp::new_checked(kept)?;
    let header_len = Some(tcp.claimed_header_len()).filter(|len| *len >= TCP_LEN)?;
    let payload_len = len.checked_sub(header_len as u32)?;
    Some(Transport::Tcp {
        segment: Segment {
            seq: tcp.seq(),
            ack: tcp.ack(),
            window: tcp.window(),
            flags: tcp.flags(),
            options: options_of(tcp.options()),
        },
        options: if kept.len() < header_len { Kept::CutOff } else { Kept::Whole },
        payload_len,
    })
}

/// Returns the complete options up to the first incomplete one.
fn options_of(kept: &[u8]) -> Options {
    let mut whole = 0;
    while let Some(&kind) = kept.get(whole) {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => match kept.get(whole + 1) {
                Some(&len) if len >= 2 && whole + usize::from(len) <= kept.len() => usize::from(len),
                _ => break,
            },
        };
        whole += len;
    }
    options(&kept[..whole]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Flags, Timestamps};
    use lasthop_proto::seq::Seq;

    use super::*;
    use crate::{build, parse};

    fn packet() -> Vec<u8> {
        let route = Route { source: "10.0.0.1:80".parse().unwrap(), destination: "10.0.0.2:9".parse().unwrap() };
        let options = Options { timestamps: Some(Timestamps { val: 7, ecr: 8 }), ..Options::default() };
        let segment = Segment { seq: Seq(1), ack: Seq(2), window: 3, flags: Flags::ACK.with(Flags::PSH), options };
        build(route, &segment, &[0; 100]).unwrap()
    }

    #[test]
    fn a_whole_packet_reads_as_it_does_elsewhere() {
        let bytes = packet();
        let (head, view) = (parse_head(&bytes, bytes.len() as u32).unwrap(), parse(&bytes).unwrap());
        let Transport::Tcp { segment, payload_len, .. } = head.transport else { panic!("{head:?}") };
        assert_eq!((head.route, segment, payload_len), (view.route, view.segment, 100));
        assert_eq!((head.total_len, head.ecn), (bytes.len() as u32, view.ecn));
    }

    #[test]
    fn what_is_cut_off_is_missing_and_nothing_else() {
        let bytes = packet();
        for kept in 0..bytes.len() {
            let head = parse_head(&bytes[..kept], bytes.len() as u32);
            assert_eq!(head.is_some(), kept >= 40, "{kept}");
            let Some(head) = head else { continue };
            let Transport::Tcp { segment, payload_len, options } = head.transport else { panic!("{head:?}") };
            assert_eq!((payload_len, segment.seq), (100, Seq(1)));
            assert_eq!(options == Kept::CutOff, kept < 52, "{kept}");
            // The timestamps are complete from 40 + 2 bytes of padding + 10; padded at the front or the end, as they
            // were built.
            assert_eq!(segment.options.timestamps.is_some(), kept >= 52 - usize::from(bytes[40] == 8) * 2, "{kept}");
        }
    }

    #[test]
    fn a_super_segment_without_a_length_has_that_of_the_capture() {
        let mut bytes = packet();
        bytes[2..4].fill(0);
        let Transport::Tcp { payload_len, .. } = parse_head(&bytes, 70_052).unwrap().transport else { panic!() };
        assert_eq!(payload_len, 70_000);
    }
}
