//! Carriers of datagrams: UDP, or Ethernet frames between two devices without IP addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Headers before a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// IP and UDP headers.
    Udp,
    /// An Ethernet header, which an interface's MTU does not include, and the length of the datagram.
    Ethernet,
}

impl Carrier {
    /// Returns the number of bytes before a datagram to `address` that count towards an interface's MTU.
    pub const fn headers(self, address: SocketAddr) -> u16 {
        match self {
            Self::Ethernet => 2,
            Self::Udp if address.is_ipv4() => 28,
            Self::Udp => 48,
        }
    }
}

/// Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Converts the address to the form used by sessions: the first six bytes of an IPv6 address. Each host thus is a
    /// network of its own, whose handshakes are limited separately, and a group address is a multicast address.
    pub fn address(self) -> SocketAddr {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&self.0);
        SocketAddr::new(Ipv6Addr::from(bytes).into(), 0)
    }

    /// Converts an address back; `None` if it is not a converted Ethernet address.
    pub fn of(address: SocketAddr) -> Option<Self> {
        let IpAddr::V6(ip) = address.ip() else { return None };
        let mac = Self(*ip.octets().first_chunk()?);
        (mac.address() == address).then_some(mac)
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([a, b, c, d, e, g]) = self;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ethernet_address_is_itself_again_and_nothing_else_is_one() {
        let mac = Mac([2, 0x0a, 0xff, 0, 0x10, 1]);
        assert_eq!(Mac::of(mac.address()), Some(mac));
        assert_eq!(mac.to_string(), "02:0a:ff:00:10:01");
        assert!(Mac::BROADCAST.address().ip().is_multicast() && !mac.address().ip().is_multicast());
        for text in ["192.0.2.1:0", "[20a:ff00:1001::]:9", "[20a:ff00:1001::1]:0"] {
            assert_eq!(Mac::of(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn headers_are_those_that_an_mtu_counts() {
        let (four, six) = ("192.0.2.1:9".parse().unwrap(), "[2001:db8::1]:9".parse().unwrap());
        assert_eq!([four, six].map(|address| Carrier::Udp.headers(address)), [28, 48]);
        assert_eq!(Carrier::Ethernet.headers(Mac::BROADCAST.address()), 2);
    }
}
