//! A connection's ends, and the packet that opens it.

use std::net::{IpAddr, SocketAddr};

/// The ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ends {
    /// Who opens it.
    pub client: SocketAddr,
    /// Who is called.
    pub server: SocketAddr,
}

/// What a first packet (SYN) says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Between whom.
    pub ends: Ends,
    /// Its sequence number (ISN).
    pub number: u32,
}

impl Opening {
    /// From a packet's IP header on; none when it is no whole TCP header without IPv6 extension headers.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let address = |at: usize, len: usize| match len {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)),
            _ => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?)),
        };
        let (client, server, tcp, protocol) = match packet.first()? >> 4 {
            4 => (address(12, 4)?, address(16, 4)?, usize::from(packet[0] & 0xf) * 4, *packet.get(9)?),
            6 => (address(8, 16)?, address(24, 16)?, 40, *packet.get(6)?),
            _ => return None,
        };
        let header = packet.get(tcp..tcp + 20).filter(|_| i32::from(protocol) == libc::IPPROTO_TCP)?;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let ends = Ends { client: SocketAddr::new(client, port(0)), server: SocketAddr::new(server, port(2)) };
        Some(Self { ends, number })
    }
}
