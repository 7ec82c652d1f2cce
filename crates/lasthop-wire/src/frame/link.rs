//! Link headers, by the link types of tcpdump.org.

use super::{Layer, Unread, Walk, digest};

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const TOKEN_RING: u32 = 6;
const PPP: u32 = 9;
const FDDI: u32 = 10;
const RAW: [u32; 4] = [12, 14, 101, 228];
const PPP_SERIAL: u32 = 50;
const PPP_ETHER: u32 = 51;
const ATM_RFC1483: u32 = 100;
const C_HDLC: u32 = 104;
const IEEE_802_11: u32 = 105;
const FRAME_RELAY: u32 = 107;
const LOOP: u32 = 108;
const ENC: u32 = 109;
const LINUX_SLL: u32 = 113;
const PFLOG: u32 = 117;
const PRISM: u32 = 119;
const RADIOTAP: u32 = 127;
const FIREWIRE: u32 = 138;
const AVS: u32 = 163;
const PPP_PPPD: u32 = 166;
const PPI: u32 = 192;
const MPLS: u32 = 219;
const RAW_IPV6: u32 = 229;
const NFLOG: u32 = 239;
const PKTAP: u32 = 258;
const LINUX_SLL2: u32 = 276;

/// Names of the supported link types.
pub(crate) const KNOWN: &str = "Ethernet, Linux cooked (v1 and v2), raw IP, BSD loopback, Wi-Fi (802.11, radiotap, Prism, AVS, PPI), PPP, PPPoE, Cisco HDLC, \
     frame relay, MPLS, NFLOG, PFLOG, PKTAP, OpenBSD enc, token ring, FDDI, ATM (RFC 1483), IP over FireWire";

/// Returns the first header of a frame of this link type; `None` if the type is not supported.
pub(super) fn first(link: u32) -> Option<Layer> {
    match link {
        ETHERNET => Some(Layer::Ethernet),
        IEEE_802_11 => Some(Layer::Wireless),
        MPLS => Some(Layer::Mpls),
        PPP => Some(Layer::Ppp),
        ATM_RFC1483 => Some(Layer::Llc),
        RAW_IPV6 => Some(Layer::Ip),
        _ if RAW.contains(&link) => Some(Layer::Ip),
        NULL | LOOP | TOKEN_RING | FDDI | PPP_SERIAL | PPP_ETHER | C_HDLC | FRAME_RELAY | ENC | LINUX_SLL | PFLOG
        | PRISM | RADIOTAP | FIREWIRE | AVS | PPP_PPPD | PPI | NFLOG | PKTAP | LINUX_SLL2 => Some(Layer::Link(link)),
        _ => None,
    }
}

/// Returns the name of a common link type that is not supported.
pub(super) fn name(link: u32) -> Option<&'static str> {
    Some(match link {
        7 => "ARCNET",
        123 => "SunATM",
        143 => "DOCSIS",
        147..=162 => "reserved for private use",
        177 => "LAPD",
        187 | 201 => "Bluetooth HCI",
        189 | 220 => "Linux USB",
        195 | 230 => "IEEE 802.15.4",
        227 => "CAN bus",
        242 | 247 => "InfiniBand",
        249 => "USBPcap",
        251 | 256 => "Bluetooth Low Energy",
        252 => "exported PDUs of Wireshark",
        253 => "Linux netlink",
        _ => return None,
    })
}

/// Returns the name of an EtherType that carries no IP packet.
pub(super) fn ether_type(number: u16) -> Option<&'static str> {
    Some(match number {
        0x0806 => "ARP",
        0x0842 => "Wake-on-LAN",
        0x8035 => "RARP",
        0x809b => "AppleTalk",
        0x8137 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x8892 => "PROFINET",
        0x88cc => "LLDP",
        0x88f7 => "PTP",
        0x8902 => "Ethernet OAM",
        0x9000 => "Ethernet loopback test",
        _ => return None,
    })
}

impl Walk<'_> {
    /// Parses the header of a link type that is not a shared layer.
    pub(super) fn link(&mut self, number: u32) -> Result<Layer, Unread> {
        match number {
            NULL | LOOP => {
                self.skip(4)?;
                Ok(Layer::Ip)
            }
            LINUX_SLL => self.cooked(),
            LINUX_SLL2 => {
                let (protocol, device) = (self.rest.short(0)?, self.rest.word(4)?);
                self.device = device;
                self.link_addresses(12, 8);
                self.skip(20)?;
                Ok(cooked_protocol(protocol))
            }
            PPP_SERIAL => {
                // Cisco HDLC and PPP share this type; the address byte distinguishes them (RFC 1547, RFC 1662).
                if matches!(self.rest.byte(0)?, 0x0f | 0x8f) { self.cisco() } else { Ok(Layer::Ppp) }
            }
            PPP_PPPD => {
                self.skip(1)?;
                Ok(Layer::Ppp)
            }
            PPP_ETHER => Ok(Layer::EtherType(PPPOE)),
            C_HDLC => self.cisco(),
            FRAME_RELAY => self.frame_relay(),
            ENC => {
                self.skip(12)?;
                Ok(Layer::Ip)
            }
            PFLOG => {
                let len = usize::from(self.rest.byte(0)?);
                self.skip(len.next_multiple_of(4))?;
                Ok(Layer::Ip)
            }
            FIREWIRE => {
                let protocol = self.rest.short(16)?;
                self.skip(18)?;
                Ok(Layer::EtherType(protocol))
            }
            TOKEN_RING => {
                let routed = self.rest.byte(8)? & 0x80 != 0;
                let routing = if routed { usize::from(self.rest.byte(14)? & 0x1f) } else { 0 };
                self.link_addresses(2, 12);
                self.skip(14 + routing)?;
                Ok(Layer::Llc)
            }
            FDDI => {
                self.link_addresses(1, 12);
                self.skip(13)?;
                Ok(Layer::Llc)
            }
            PRISM => self.prism(),
            AVS => {
                let len = self.rest.word(4)?;
                self.skip(len as usize)?;
                Ok(Layer::Wireless)
            }
            RADIOTAP => self.radiotap(),
            PPI => {
                let (len, inner) = (self.little_short(2)?, self.little_word(4)?);
                self.skip(usize::from(len).max(8))?;
                first(inner).ok_or(Unread::LinkType(inner))
            }
            NFLOG => self.netfilter_log(),
            PKTAP => {
                let (len, inner) = (self.little_word(0)?, self.little_word(8)?);
                self.skip((len as usize).max(12))?;
                first(inner).ok_or(Unread::LinkType(inner))
            }
            _ => Err(Unread::LinkType(number)),
        }
    }

    pub(super) fn little_short(&self, at: usize) -> Result<u16, Unread> {
        Ok(self.rest.short(at)?.swap_bytes())
    }

    pub(super) fn little_word(&self, at: usize) -> Result<u32, Unread> {
        Ok(self.rest.word(at)?.swap_bytes())
    }

    /// Records the link addresses, `len` bytes at offset `at`.
    pub(super) fn link_addresses(&mut self, at: usize, len: usize) {
        self.front.addresses = self.rest.data.get(at..at + len).map_or(0, |addresses| digest(0, addresses));
    }

    fn tag(&mut self, bytes: usize) {
        let tag = self.rest.data.get(..bytes).unwrap_or_default();
        self.front.tags = digest(self.front.tags, tag);
    }

    pub(super) fn ethernet(&mut self) -> Result<Layer, Unread> {
        self.link_addresses(0, 12);
        let kind = self.rest.short(12)?;
        self.skip(14)?;
        if kind >= 0x600 {
            return Ok(Layer::EtherType(kind));
        }
        // A smaller value is a length (IEEE 802.3), followed by padding. Length 0: the frame had not been segmented
        // yet.
        if kind > 0 {
            self.limit(usize::from(kind));
        }
        Ok(Layer::Llc)
    }

    pub(super) fn behind_ether_type(&mut self, kind: u16) -> Result<Layer, Unread> {
        match kind {
            0x0800 | 0x86dd => Ok(Layer::Ip),
            // 802.1Q, 802.1ad and their predecessors: two bytes, then the next type.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => {
                let next = self.rest.short(2)?;
                self.tag(2);
                self.skip(4)?;
                if next >= 0x600 { Ok(Layer::EtherType(next)) } else { Ok(Layer::Llc) }
            }
            PPPOE => {
                // Version 1, type 1, code 0: data of a session (RFC 2516).
                if self.rest.short(0)? != 0x1100 {
                    return Err(Unread::Other("PPPoE discovery"));
                }
                self.tag(4);
                self.skip(6)?;
                Ok(Layer::Ppp)
            }
            0x8847 | 0x8848 => Ok(Layer::Mpls),
            0x6558 => Ok(Layer::Ethernet),
            0x880b => Ok(Layer::Ppp),
            // Provider backbone bridges (802.1ah): four bytes, then the customer's frame.
            0x88e7 => {
                self.tag(4);
                self.skip(4)?;
                Ok(Layer::Ethernet)
            }
            // VN-Tag: four bytes, then the next type.
            0x8926 => {
                let next = self.rest.short(4)?;
                self.tag(4);
                self.skip(6)?;
                Ok(Layer::EtherType(next))
            }
            // Cisco metadata (TrustSec): six bytes, then the next type.
            0x8909 => {
                let next = self.rest.short(6)?;
                self.skip(8)?;
                Ok(Layer::EtherType(next))
            }
            0x88e5 => Err(Unread::Encapsulation("MACsec")),
            0x894f => Err(Unread::Encapsulation("NSH")),
            0x8903 => Err(Unread::Encapsulation("FabricPath")),
            0x22f3 => Err(Unread::Encapsulation("TRILL")),
            0x4305 => Err(Unread::Encapsulation("batman-adv")),
            _ => Err(Unread::EtherType(kind)),
        }
    }

    pub(super) fn llc(&mut self) -> Result<Layer, Unread> {
        match [self.rest.byte(0)?, self.rest.byte(1)?, self.rest.byte(2)?] {
            [0xaa, 0xaa, 3] => {
                let (vendor, kind) = (self.rest.word(2)? & 0xff_ffff, self.rest.short(6)?);
                self.skip(8)?;
                match (vendor, kind) {
                    // Encapsulated Ethernet, and bridge tunnels (802.1H).
                    (0 | 0xf8, _) => Ok(Layer::EtherType(kind)),
                    // Bridged Ethernet, with and without its frame check sequence (RFC 2684).
                    (0x80c2, 1 | 7) => {
                        self.skip(2)?;
                        Ok(Layer::Ethernet)
                    }
                    (0x00_000c, _) => Err(Unread::Other("Cisco discovery, spanning tree or trunking protocols")),
                    _ => Err(Unread::Other("SNAP of a vendor's protocol")),
                }
            }
            [0x06, 0x06, 3] => {
                self.skip(3)?;
                Ok(Layer::Ip)
            }
            [0x42, 0x42, _] => Err(Unread::Other("spanning tree")),
            [0xfe, 0xfe, _] => Err(Unread::Other("OSI")),
            [0xe0, 0xe0, _] | [0xff, 0xff, _] => Err(Unread::Other("IPX")),
            [0xf0, 0xf0 | 0xf1, _] => Err(Unread::Other("NetBIOS frames")),
            _ => Err(Unread::Other("LLC without IP")),
        }
    }

    pub(super) fn ppp(&mut self) -> Result<Layer, Unread> {
        if self.rest.data.starts_with(&[0xff, 3]) {
            self.skip(2)?;
        }
        // A compressed field is one byte, which is odd (RFC 1661 §6.5).
        let first = self.rest.byte(0)?;
        let protocol = if first & 1 == 1 { u16::from(first) } else { self.rest.short(0)? };
        self.skip(if first & 1 == 1 { 1 } else { 2 })?;
        match protocol {
            0x0021 | 0x0057 => Ok(Layer::Ip),
            0x0281 | 0x0283 => Ok(Layer::Mpls),
            0x0031 => Err(Unread::Encapsulation("PPP bridging")),
            0x003d => Err(Unread::Encapsulation("multilink PPP")),
            0x002d | 0x002f => Err(Unread::Encapsulation("PPP with Van Jacobson's header compression")),
            0x00fd | 0x00fb => Err(Unread::Encapsulation("compressed PPP")),
            0x0053 | 0x0055 => Err(Unread::Encapsulation("encrypted PPP")),
            _ => Err(Unread::Other("PPP control")),
        }
    }

    pub(super) fn mpls(&mut self) -> Result<Layer, Unread> {
        // The last label has the bottom-of-stack bit set (RFC 3032); the caller bounds the number of steps.
        let entry = self.rest.word(0)?;
        self.tag(4);
        self.skip(4)?;
        if entry & 0x100 == 0 {
            return Ok(Layer::Mpls);
        }
        match self.rest.byte(0)? >> 4 {
            4 | 6 => Ok(Layer::Ip),
            // Control word of a pseudowire (RFC 4385).
            0 => {
                self.skip(4)?;
                Ok(Layer::Ethernet)
            }
            1 => Err(Unread::Other("MPLS control channel")),
            _ => Ok(Layer::Ethernet),
        }
    }

    fn cooked(&mut self) -> Result<Layer, Unread> {
        let (hardware, protocol) = (self.rest.short(2)?, self.rest.short(14)?);
        self.link_addresses(6, 8);
        self.skip(16)?;
        // For ARPHRD_IPGRE (778) the field contains GRE's EtherType, which is parsed alike; ARPHRD_NETLINK has no
        // packets.
        if hardware == 824 {
            return Err(Unread::Other("netlink"));
        }
        Ok(cooked_protocol(protocol))
    }

    fn cisco(&mut self) -> Result<Layer, Unread> {
        let protocol = self.rest.short(2)?;
        self.skip(4)?;
        match protocol {
            0x8035 | 0x2000 => Err(Unread::Other("Cisco keep-alives and discovery")),
            _ => Ok(Layer::EtherType(protocol)),
        }
    }

    /// Parses RFC 2427: an address of two to four bytes, control, then a network protocol number.
    fn frame_relay(&mut self) -> Result<Layer, Unread> {
        let address = (0..4).find(|&at| self.rest.byte(at).is_ok_and(|byte| byte & 1 == 1)).ok_or(Unread::CutOff)? + 1;
        self.tag(address);
        self.skip(address)?;
        if self.rest.byte(0)? != 3 {
            // Cisco's own format has an EtherType here.
            let kind = self.rest.short(0)?;
            self.skip(2)?;
            return Ok(Layer::EtherType(kind));
        }
        let mut at = 1;
        if self.rest.byte(at)? == 0 {
            at += 1;
        }
        let protocol = self.rest.byte(at)?;
        match protocol {
            0xcc | 0x8e => {
                self.skip(at + 1)?;
                Ok(Layer::Ip)
            }
            0x80 => {
                let (vendor, kind) = (self.rest.word(at)? & 0xff_ffff, self.rest.short(at + 4)?);
                self.skip(at + 6)?;
                if vendor == 0 { Ok(Layer::EtherType(kind)) } else { Err(Unread::Encapsulation("bridged frame relay")) }
            }
            0xcf => {
                self.skip(at + 1)?;
                Ok(Layer::Ppp)
            }
            _ => Err(Unread::Other("frame relay control")),
        }
    }

    /// Parses NFLOG: a header of four bytes, then attributes, one of which is the packet. Lengths are in the byte order
    /// of the capturing machine.
    fn netfilter_log(&mut self) -> Result<Layer, Unread> {
        const PAYLOAD: u16 = 9;
        let little = self.little_short(4)? < 0x200;
        let order = |value: u16| if little { value.swap_bytes() } else { value };
        self.skip(4)?;
        // Each attribute needs at least four bytes, and a frame has few.
        for _ in 0..64 {
            let (len, kind) = (usize::from(order(self.rest.short(0)?)), order(self.rest.short(2)?));
            if len < 4 {
                return Err(Unread::CutOff);
            }
            if kind & 0x7fff == PAYLOAD {
                self.skip(4)?;
                self.limit(len - 4);
                return Ok(Layer::Ip);
            }
            self.skip(len.next_multiple_of(4))?;
        }
        Err(Unread::CutOff)
    }
}

/// EtherType of PPPoE sessions.
const PPPOE: u16 = 0x8864;

/// Interprets the protocol field of a cooked capture: an EtherType, or one of Linux's own numbers.
fn cooked_protocol(protocol: u16) -> Layer {
    match protocol {
        // ETH_P_802_2: LLC follows.
        4 => Layer::Llc,
        other => Layer::EtherType(other),
    }
}
