//! Encapsulations inside IP packets.

use super::{Layer, Rest, Unread, Walk, digest};
use crate::ip::{Version, protocol};
use crate::transport::Udp;

/// Returns the name of an IP protocol other than TCP, UDP and those that carry IP.
pub(super) fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "ICMP",
        2 => "IGMP",
        33 => "DCCP",
        46 => "RSVP",
        58 => "ICMPv6",
        59 => "no next header",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        132 => "SCTP",
        136 => "UDP-Lite",
        _ => return None,
    })
}

/// UDP ports of tunnels (IANA; 8472 is Linux's former default for VXLAN).
mod port {
    pub(super) const VXLAN: [u16; 2] = [4789, 8472];
    pub(super) const VXLAN_GPE: u16 = 4790;
    pub(super) const GENEVE: u16 = 6081;
    pub(super) const GTP_U: u16 = 2152;
    pub(super) const MPLS: u16 = 6635;
    pub(super) const L2TP: u16 = 1701;
    pub(super) const TEREDO: u16 = 3544;
    pub(super) const ESP: u16 = 4500;
    pub(super) const CAPWAP_DATA: u16 = 5247;
    pub(super) const LISP: u16 = 4341;
}

/// Returns the payload of a UDP datagram, by its ports and the format of its content; `None` if it is an ordinary
/// datagram.
pub(super) fn in_datagram(datagram: Rest<'_>) -> Option<(Result<Layer, Unread>, Rest<'_>)> {
    let udp = Udp::new_checked(datagram.data)?;
    let (source, destination) = (udp.source_port(), udp.destination_port());
    let is = |port: u16| destination == port || source == port;
    let rest = skip(datagram, Udp::HEADER_LEN)?;
    let found = if port::VXLAN.contains(&destination) {
        vxlan(rest)
    } else if destination == port::VXLAN_GPE {
        vxlan_gpe(rest)
    } else if destination == port::GENEVE {
        geneve(rest)
    } else if is(port::GTP_U) {
        gtp(rest)
    } else if destination == port::MPLS {
        Some((Layer::Mpls, 0))
    } else if is(port::L2TP) {
        l2tp(rest)
    } else if is(port::TEREDO) {
        teredo(rest)
    } else {
        let name = if is(port::ESP) && rest.word(0).is_ok_and(|index| index != 0) && rest.len > 16 {
            "ESP in UDP"
        } else if is(port::CAPWAP_DATA) {
            "CAPWAP"
        } else if is(port::LISP) {
            "LISP"
        } else {
            return None;
        };
        return Some((Err(Unread::Encapsulation(name)), rest));
    };
    let (layer, bytes) = found?;
    Some((Ok(layer), skip(rest, bytes)?))
}

fn skip(rest: Rest<'_>, bytes: usize) -> Option<Rest<'_>> {
    Some(Rest { data: rest.data.get(bytes..)?, len: rest.len.saturating_sub(bytes as u32) })
}

/// Parses RFC 7348: only the flag for a valid identifier is set, reserved bytes are zero (Cisco's group policy uses
/// some of them).
fn vxlan(rest: Rest<'_>) -> Option<(Layer, usize)> {
    let flags = rest.byte(0).ok()?;
    (flags & 0x7f == 8 && rest.byte(7).ok()? == 0).then_some((Layer::Ethernet, 8))
}

fn vxlan_gpe(rest: Rest<'_>) -> Option<(Layer, usize)> {
    if rest.byte(0).ok()? & 0x0c != 0x0c {
        return vxlan(rest);
    }
    let layer = match rest.byte(3).ok()? {
        1 | 2 => Layer::Ip,
        3 => Layer::Ethernet,
        5 => Layer::Mpls,
        _ => return None,
    };
    Some((layer, 8))
}

/// Parses RFC 8926: version 0, length of options in units of four bytes, EtherType.
fn geneve(rest: Rest<'_>) -> Option<(Layer, usize)> {
    let (first, kind) = (rest.byte(0).ok()?, rest.short(2).ok()?);
    (first >> 6 == 0).then_some((Layer::EtherType(kind), 8 + usize::from(first & 0x3f) * 4))
}

/// Parses 3GPP TS 29.281: version 1, a user packet (message 255), with a chain of extension headers according to the
/// flags.
fn gtp(rest: Rest<'_>) -> Option<(Layer, usize)> {
    let (flags, message) = (rest.byte(0).ok()?, rest.byte(1).ok()?);
    if flags & 0xf0 != 0x30 || message != 0xff {
        return None;
    }
    let mut at = 8;
    if flags & 7 != 0 {
        at = 12;
        let mut next = if flags & 4 != 0 { rest.byte(11).ok()? } else { 0 };
        // Each extension needs at least four bytes, so that this ends with the datagram.
        while next != 0 {
            let units = usize::from(rest.byte(at).ok()?);
            if units == 0 {
                return None;
            }
            next = rest.byte(at + units * 4 - 1).ok()?;
            at += units * 4;
        }
    }
    Version::of(rest.data.get(at..)?).map(|_| (Layer::Ip, at))
}

/// Parses RFC 2661: a data message of version 2, with the fields that its flags announce.
fn l2tp(rest: Rest<'_>) -> Option<(Layer, usize)> {
    let flags = rest.short(0).ok()?;
    if flags & 0x800f != 2 {
        return None;
    }
    let mut at = if flags & 0x4000 != 0 { 4 } else { 2 } + 4;
    if flags & 0x0800 != 0 {
        at += 4;
    }
    if flags & 0x0200 != 0 {
        at += 2 + usize::from(rest.short(at).ok()?);
    }
    Some((Layer::Ppp, at))
}

/// Parses RFC 4380: IPv6, after an optional origin indication.
fn teredo(rest: Rest<'_>) -> Option<(Layer, usize)> {
    let at = if rest.short(0).ok()? == 0 { 8 } else { 0 };
    (Version::of(rest.data.get(at..)?)? == Version::V6).then_some((Layer::Ip, at))
}

impl Walk<'_> {
    /// Parses the payload of an IP packet of this protocol, which is neither TCP nor UDP.
    pub(super) fn in_ip(&mut self, number: u8) -> Result<Layer, Unread> {
        match number {
            protocol::IPV4 | protocol::IPV6 => Ok(Layer::Ip),
            protocol::GRE => self.gre(),
            protocol::MPLS => Ok(Layer::Mpls),
            // RFC 3378: two bytes, version 3.
            protocol::ETHERIP => {
                self.skip(2)?;
                Ok(Layer::Ethernet)
            }
            50 => Err(Unread::Encapsulation("ESP")),
            55 => Err(Unread::Encapsulation("IP mobility (minimal encapsulation)")),
            98 => Err(Unread::Encapsulation("encapsulation header (IP protocol 98)")),
            108 => Err(Unread::Encapsulation("IPComp")),
            115 => Err(Unread::Encapsulation("L2TPv3")),
            other => Err(Unread::Protocol(other)),
        }
    }

    /// Parses RFC 2784 and RFC 2890, version 1 of PPTP (RFC 2637), and ERSPAN of mirror ports.
    fn gre(&mut self) -> Result<Layer, Unread> {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        const ACKNOWLEDGMENT: u16 = 0x0080;
        let (flags, kind) = (self.rest.short(0)?, self.rest.short(2)?);
        let is_set = |flag: u16| flags & flag != 0;
        if is_set(ROUTING) {
            return Err(Unread::Encapsulation("GRE with source routes"));
        }
        let key = if is_set(KEY) { self.rest.word(if is_set(CHECKSUM) { 8 } else { 4 })? } else { 0 };
        let mut len = 4;
        for flag in [CHECKSUM, KEY, SEQUENCE] {
            len += if is_set(flag) { 4 } else { 0 };
        }
        match flags & 7 {
            0 => {}
            1 => {
                len += if is_set(ACKNOWLEDGMENT) { 4 } else { 0 };
                // The key contains a length and the call; acknowledgments alone have no payload.
                self.skip(len)?;
                return if is_set(SEQUENCE) { Ok(Layer::Ppp) } else { Err(Unread::Other("PPTP acknowledgments")) };
            }
            _ => return Err(Unread::Encapsulation("GRE of an unknown version")),
        }
        self.front.tunnels = digest(self.front.tunnels, &key.to_be_bytes());
        self.skip(len)?;
        match kind {
            // ERSPAN type I has no header of its own, type II has eight bytes.
            0x88be if is_set(SEQUENCE) => {
                self.skip(8)?;
                Ok(Layer::Ethernet)
            }
            0x88be => Ok(Layer::Ethernet),
            // Type III: twelve bytes, and eight more if the last bit is set.
            0x22eb => {
                let more = self.rest.byte(11)? & 1 != 0;
                self.skip(if more { 20 } else { 12 })?;
                Ok(Layer::Ethernet)
            }
            // Aruba's tunnels of Wi-Fi frames.
            0x8200..=0x820f | 0x9000 => Err(Unread::Encapsulation("Wi-Fi frames in GRE")),
            // WCCP redirects: IPv4, with a header of four bytes in version 2.
            0x883e => {
                self.rest.byte(0)?;
                if Version::of(self.rest.data) != Some(Version::V4) {
                    self.skip(4)?;
                }
                Ok(Layer::Ip)
            }
            other => Ok(Layer::EtherType(other)),
        }
    }
}
