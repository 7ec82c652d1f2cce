//! Views of headers that can be rewritten. Each change updates the checksums that cover it (RFC 1624); a checksum that
//! was wrong before stays wrong.

use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::Flags;

use crate::checksum::{CHECKSUM, UDP_CHECKSUM, carry_word};
use crate::ip::{Ip, V4_LEN, V6_LEN, protocol, short};
use crate::options::NOP;
use crate::transport::TCP_LEN;

/// Kinds of TCP options.
const END: u8 = 0;
const MSS: u8 = 2;

/// IP packet whose addresses can be changed.
#[derive(Debug)]
pub struct IpMut<'p> {
    fixed: Fixed<'p>,
    /// Transport header whose checksum covers the addresses.
    covering: Option<Covering>,
    payload: &'p mut [u8],
}

/// Header without options.
#[derive(Debug)]
enum Fixed<'p> {
    V4(&'p mut [u8; V4_LEN]),
    V6(&'p mut [u8; V6_LEN]),
}

#[derive(Clone, Copy, Debug)]
enum Covering {
    Tcp,
    Udp,
}

#[derive(Clone, Copy)]
enum Role {
    Source,
    Destination,
}

impl<'p> IpMut<'p> {
    /// Returns the view of a packet that begins with its IP header. `None` in the cases of [`Ip::new_checked`], and if
    /// its options are not complete.
    pub fn new_checked(bytes: &'p mut [u8]) -> Option<Self> {
        let ip = Ip::new_checked(bytes)?;
        let covering = match ip.protocol() {
            protocol::TCP if !ip.fragment().is_later() => Some(Covering::Tcp),
            protocol::UDP if !ip.fragment().is_later() => Some(Covering::Udp),
            _ => None,
        };
        let (is_v4, header_len) = (matches!(ip, Ip::V4(_)), ip.header_len()?);
        let (header, payload) = bytes.split_at_mut_checked(header_len)?;
        let fixed = if is_v4 { Fixed::V4(header.first_chunk_mut()?) } else { Fixed::V6(header.first_chunk_mut()?) };
        Some(Self { fixed, covering, payload })
    }

    /// Changes the destination address. Does nothing if the address has the other version. The checksum of a TCP or UDP header
    /// after IPv6 extension headers is not updated.
    pub fn set_destination(&mut self, to: IpAddr) {
        self.set_address(Role::Destination, to, self.covering);
    }

    /// Changes the source of a packet that is known to be TCP without extension headers. Does nothing if the address has
    /// the other version, or if the TCP header is truncated.
    pub fn set_tcp_source(&mut self, source: SocketAddr) {
        self.set_tcp_end(Role::Source, source);
    }

    /// Changes the destination like [`IpMut::set_tcp_source`].
    pub fn set_tcp_destination(&mut self, destination: SocketAddr) {
        self.set_tcp_end(Role::Destination, destination);
    }

    fn set_tcp_end(&mut self, role: Role, end: SocketAddr) {
        if self.payload.len() >= TCP_LEN
            && self.set_address(role, end.ip(), Some(Covering::Tcp))
            && let Some(mut tcp) = TcpMut::new_checked(self.payload)
        {
            tcp.set_port(role, end.port());
        }
    }

    /// Returns whether the address is of the packet's version.
    fn set_address(&mut self, role: Role, to: IpAddr, covering: Option<Covering>) -> bool {
        let mut transport = match covering {
            Some(Covering::Tcp) => self.payload.get_mut(CHECKSUM),
            // Zero means none (RFC 768).
            Some(Covering::Udp) => self.payload.get_mut(UDP_CHECKSUM).filter(|field| **field != [0; 2]),
            None => None,
        }
        .and_then(|field| field.first_chunk_mut::<2>());
        match (&mut self.fixed, to) {
            (Fixed::V4(fixed), IpAddr::V4(to)) => {
                let mut own = [fixed[10], fixed[11]];
                let at = match role {
                    Role::Source => 12,
                    Role::Destination => 16,
                };
                if let Some(place) = fixed.get_mut(at..at + 4) {
                    exchange(place, &to.octets(), [Some(&mut own), transport.as_deref_mut()]);
                }
                fixed[10..12].copy_from_slice(&own);
            }
            (Fixed::V6(fixed), IpAddr::V6(to)) => {
                let at = match role {
                    Role::Source => 8,
                    Role::Destination => 24,
                };
                if let Some(place) = fixed.get_mut(at..at + 16) {
                    exchange(place, &to.octets(), [None, transport.as_deref_mut()]);
                }
            }
            _ => return false,
        }
        // A computed zero is sent as its complement (RFC 768).
        if let (Some(Covering::Udp), Some(field)) = (covering, transport)
            && *field == [0; 2]
        {
            *field = [u8::MAX; 2];
        }
        true
    }
}

/// Replaces the words at `place` and updates the checksums that cover them.
fn exchange(place: &mut [u8], new: &[u8], sums: [Option<&mut [u8; 2]>; 2]) {
    let (words, new) = (place.as_chunks_mut::<2>().0, new.as_chunks::<2>().0);
    for sum in sums.into_iter().flatten() {
        words.iter().zip(new).for_each(|(word, new)| carry_word(sum, *word, *new));
    }
    words.iter_mut().zip(new).for_each(|(word, new)| *word = *new);
}

/// TCP segment whose header can be changed.
#[derive(Debug)]
pub struct TcpMut<'p> {
    fixed: &'p mut [u8; TCP_LEN],
    /// Options and payload.
    rest: &'p mut [u8],
}

impl<'p> TcpMut<'p> {
    /// Returns the view of a segment; `None` if it has less than the fixed part of the header.
    pub fn new_checked(bytes: &'p mut [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk_mut()?;
        Some(Self { fixed, rest })
    }

    /// Returns the flags.
    pub const fn flags(&self) -> Flags {
        Flags(short!(self.fixed, 12) & Flags::ALL.0)
    }

    /// Reduces the MSS option to `most`, if it is larger (RFC 9293 §3.7.1). Segments without the option stay unchanged.
    pub fn lower_mss(&mut self, most: u16) {
        let len = usize::from(self.fixed[12] >> 4) * 4;
        let len = len.saturating_sub(TCP_LEN).min(self.rest.len());
        let options = &mut self.rest[..len];
        let mut at = 0;
        while at + 1 < len {
            match (options[at], usize::from(options[at + 1])) {
                (END, _) => return,
                (NOP, _) => at += 1,
                (MSS, 4) if at + 4 <= len => {
                    let before = [options[at + 2], options[at + 3]];
                    if u16::from_be_bytes(before) > most {
                        let after = most.to_be_bytes();
                        options[at + 2..at + 4].copy_from_slice(&after);
                        // At an odd offset the bytes of a word are swapped (RFC 1071 §2).
                        let sum = |[high, low]: [u8; 2]| if at.is_multiple_of(2) { [high, low] } else { [low, high] };
                        self.update([sum(before), sum(after)]);
                    }
                    return;
                }
                (_, len) => at += len.max(2),
            }
        }
    }

    fn set_port(&mut self, role: Role, port: u16) {
        let at = match role {
            Role::Source => 0,
            Role::Destination => 2,
        };
        let (before, after) = ([self.fixed[at], self.fixed[at + 1]], port.to_be_bytes());
        self.fixed[at..at + 2].copy_from_slice(&after);
        self.update([before, after]);
    }

    /// Updates the checksum for a word that changed.
    fn update(&mut self, [before, after]: [[u8; 2]; 2]) {
        let mut sum = [self.fixed[CHECKSUM.start], self.fixed[CHECKSUM.start + 1]];
        carry_word(&mut sum, before, after);
        self.fixed[CHECKSUM].copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Options, Segment};
    use proptest::prelude::*;

    use super::*;
    use crate::{Checksum, Checksums, Route, build, checksums, parse, seal};

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let route = Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
        build(route, &Segment::default(), b"odd").unwrap()
    }

    #[test]
    fn another_end_gets_right_checksums() {
        for (from, to, other) in [
            ("10.2.0.2:4000", "10.1.0.2:80", "192.0.2.1:61000"),
            ("[fd02::2]:4000", "[fd01::2]:80", "[2001:db8::ffff]:1"),
        ] {
            let mut bytes = packet(from, to);
            IpMut::new_checked(&mut bytes).unwrap().set_tcp_source(other.parse().unwrap());
            assert_eq!(bytes, packet(other, to));
            IpMut::new_checked(&mut bytes).unwrap().set_tcp_destination(from.parse().unwrap());
            assert_eq!(bytes, packet(other, from));
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut bytes = packet("10.2.0.2:4000", "10.1.0.2:80");
        let before = bytes.clone();
        IpMut::new_checked(&mut bytes).unwrap().set_tcp_source("[::1]:1".parse().unwrap());
        IpMut::new_checked(&mut bytes).unwrap().set_destination("::1".parse().unwrap());
        IpMut::new_checked(&mut bytes[..39]).unwrap().set_tcp_source("10.9.9.9:9".parse().unwrap());
        assert_eq!(bytes, before);
        bytes[0] = 0x4f;
        assert!(IpMut::new_checked(&mut bytes).is_none());
    }

    proptest! {
        #[test]
        fn a_lower_mss_leaves_the_checksum_right(mss: u16, most: u16, shift in 0_usize..4) {
            let route = Route { source: "10.0.0.1:1".parse().unwrap(), destination: "10.0.0.2:2".parse().unwrap() };
            let options = Options { mss: Some(mss), sack_permitted: true, ..Options::default() };
            let mut bytes = build(route, &Segment { flags: Flags::SYN, options, ..Segment::default() }, b"x").unwrap();
            let view = parse(&bytes).unwrap();
            // The option after `shift` bytes of padding, in place of that after it.
            bytes[40..48].fill(NOP);
            bytes[40 + shift..44 + shift].copy_from_slice(&[MSS, 4, mss.to_be_bytes()[0], mss.to_be_bytes()[1]]);
            seal(&mut bytes, &view);
            let mut lower = bytes.clone();
            TcpMut::new_checked(&mut lower[20..]).unwrap().lower_mss(most);
            prop_assert_eq!(lower == bytes, mss <= most);
            let view = parse(&lower).unwrap();
            prop_assert_eq!(view.segment.options.mss, Some(mss.min(most)));
            prop_assert_eq!(checksums(&lower, &view, Checksum::Complete), Checksums::Hold);
        }

        #[test]
        fn any_bytes_are_changed_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80), first in prop_oneof![0x40u8..0x50, Just(0x60)], most: u16) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let len = bytes.len();
            if let Some(mut ip) = IpMut::new_checked(&mut bytes) {
                ip.set_destination([192, 0, 2, 1].into());
                ip.set_tcp_source("[2001:db8::1]:1".parse().unwrap());
            }
            if let Some(mut tcp) = TcpMut::new_checked(&mut bytes) {
                tcp.lower_mss(most);
            }
            prop_assert_eq!(bytes.len(), len);
        }
    }
}
