//! Packets of which a capture kept the head only.

use std::net::SocketAddr;

use lasthop_proto::packet::{Ecn, Options, Segment};
use lasthop_proto::seq::Seq;

use crate::ip::{Fragment, Ip, protocol};
use crate::parse::{Route, flags, options};

/// What is left of a packet's headers, and how long the packet was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'p> {
    /// Between whom.
    pub route: Route,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// IPv4's identification.
    pub identification: Option<u16>,
    /// Bytes of the packet, IP header included, as it was on the wire.
    pub total_len: u32,
    /// What it carries.
    pub transport: Transport<'p>,
}

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport<'p> {
    /// A TCP segment.
    Tcp {
        /// Its header. Options that were cut off or are malformed are missing.
        segment: Segment,
        /// Whether the capture kept all of its options.
        options: Kept,
        /// Bytes of payload on the wire.
        payload_len: u32,
    },
    /// A UDP datagram.
    Udp {
        /// What was kept of its payload.
        payload: &'p [u8],
    },
}

/// How much of something a capture kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// All.
    Whole,
    /// Not all.
    CutOff,
}

/// Bytes of a TCP header without options.
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;

/// Reads the head of a packet that begins with its IP header and had `len` bytes on the wire, of which `bytes` are left. `None` for all but
/// unfragmented TCP and UDP of which at least the fixed part of the transport's header is left. IP options and IPv6 extension headers are skipped.
///
/// A length field of zero is that of a segment that was still to be cut by an interface: `len` counts then.
pub fn parse_head(bytes: &[u8], len: u32) -> Option<Head<'_>> {
    let ip = Ip::read(bytes, len)?;
    if ip.fragment == Fragment::Whole { head_of(&ip, ip.payload_len) } else { None }
}

/// Reads the head of a packet from its first fragment; `payload_len` is the length of its whole payload. `None` where [`parse_head`] has none.
pub fn head_of<'p>(ip: &Ip<'p>, payload_len: u32) -> Option<Head<'p>> {
    let rest = ip.payload;
    let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let transport = match ip.protocol {
        protocol::TCP => tcp(rest, payload_len)?,
        protocol::UDP => Transport::Udp { payload: rest.get(UDP_LEN..)? },
        _ => return None,
    };
    let route =
        Route { source: SocketAddr::new(ip.source, port(0)?), destination: SocketAddr::new(ip.destination, port(2)?) };
    let total_len = ip.total_len.saturating_sub(ip.payload_len).saturating_add(payload_len);
    let Ip { ecn, hop_limit, identification, .. } = *ip;
    Some(Head { route, ecn, hop_limit, identification, total_len, transport })
}

fn tcp(rest: &[u8], len: u32) -> Option<Transport<'_>> {
    let fixed = rest.get(..TCP_LEN)?;
    let number = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < TCP_LEN {
        return None;
    }
    let payload_len = len.checked_sub(header_len as u32)?;
    let kept = &rest[TCP_LEN..header_len.min(rest.len())];
    Some(Transport::Tcp {
        segment: Segment {
            seq: Seq(number(4)),
            ack: Seq(number(8)),
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            flags: flags([fixed[12], fixed[13]]),
            options: options_of(kept),
        },
        options: if rest.len() < header_len { Kept::CutOff } else { Kept::Whole },
        payload_len,
    })
}

/// Those that are whole, up to the first that is not.
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
            // The timestamps are whole from 40 + 2 bytes of padding + 10 on; in front or behind, as they were built.
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
