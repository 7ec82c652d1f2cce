//! Ends of a connection, and the SYN that opens it.

use std::net::SocketAddr;

use lasthop_wire::{Ip, Tcp, protocol};

/// Ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    /// End that opens the connection.
    pub client: SocketAddr,
    /// End that is called.
    pub server: SocketAddr,
}

impl Ends {
    /// Returns the ends with swapped roles, as in a simultaneous open between the same ports (RFC 9293 §3.5).
    pub const fn crossing(self) -> Self {
        Self { client: self.server, server: self.client }
    }
}

/// Content of a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Ends of the connection.
    pub ends: Ends,
    /// Sequence number (ISN) of the SYN.
    pub number: u32,
}

impl Opening {
    /// Parses a packet starting at its IP header. `None` if it has no complete TCP header, or IPv6 extension headers.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let ip = Ip::new_checked(packet).filter(|ip| ip.protocol() == protocol::TCP)?;
        let tcp = Tcp::new_checked(packet.get(ip.claimed_header_len()..)?)?;
        let ends = Ends {
            client: SocketAddr::new(ip.source(), tcp.source_port()),
            server: SocketAddr::new(ip.destination(), tcp.destination_port()),
        };
        Some(Self { ends, number: tcp.seq().0 })
    }
}

/// Options of a SYN whose connection a relay would break: TCP-MD5 (RFC 2385) and TCP-AO (RFC 5925), whose keys only the
/// ends have.
const PROTECTING: [u8; 2] = [19, 29];
/// Multipath TCP, and its subtype that joins a subflow to a connection: an answer without that option ends the subflow
/// (RFC 8684 §3.2). A SYN that begins a connection can fall back to plain TCP.
const MULTIPATH: u8 = 30;
const JOIN: u8 = 1;

/// Returns whether a SYN has an option that only the called end can answer, so that the connection must not be split.
pub fn is_end_to_end(packet: &[u8]) -> bool {
    let Some(view) = lasthop_wire::parse(packet) else { return false };
    lasthop_wire::options_in(view.option_bytes(packet)).any(|option| match option {
        [MULTIPATH, _, subtype, ..] => subtype >> 4 == JOIN,
        [kind, ..] => PROTECTING.contains(kind),
        [] => false,
    })
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Flags, Segment};
    use lasthop_wire::{Route, build};

    use super::*;

    /// Returns a SYN with an MSS option and the given ones.
    fn syn(ends: [&str; 2], options: &[u8]) -> Vec<u8> {
        let [source, destination] = ends.map(|end| end.parse().unwrap());
        let segment = Segment { flags: Flags::SYN, ..Segment::default() };
        let mut packet = build(Route { source, destination }, &segment, &[]).unwrap();
        let view = lasthop_wire::parse(&packet).unwrap();
        let options = [&[2, 4, 5, 0xb4][..], options, &vec![1; options.len().wrapping_neg() % 4]].concat();
        packet[view.ip_len + 12] += (options.len() / 4 * 16) as u8;
        packet.extend(&options);
        let (at, len) = if view.route.source.is_ipv4() { (2, packet.len()) } else { (4, packet.len() - 40) };
        packet[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
        packet
    }

    #[test]
    fn what_only_the_called_end_can_answer_is_told_by_its_option() {
        let md5 = [&[19, 18][..], &[7; 16]].concat();
        let ao = [&[29, 16, 1, 1][..], &[7; 12]].concat();
        let join = [&[30, 12, 0x10, 1][..], &[7; 8]].concat();
        let capable = [30, 4, 0x01, 1];
        for ends in [["10.0.0.1:80", "10.0.0.2:9"], ["[2001:db8::1]:80", "[2001:db8::2]:9"]] {
            for (options, is) in [(&md5[..], true), (&ao, true), (&join, true), (&capable, false), (&[4, 2], false)] {
                assert_eq!(is_end_to_end(&syn(ends, options)), is, "{options:?}");
            }
        }
        assert!(!is_end_to_end(&[]) && !is_end_to_end(&[0x45; 30]));
    }
}
