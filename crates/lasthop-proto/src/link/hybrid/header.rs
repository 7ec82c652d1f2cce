//! Header that an end puts in front of a packet in the simulator, and contents of its other frames.

use super::frame::{Class, Label};
use crate::packet::Packet;
use crate::packet::headers::{LONGEST, LinkHeader, LinkProtocol};

/// Header of a frame. Numbers are the low 32 bits.
///
/// In bytes: 0 for a packet, 1 for a combination, 2 for feedback, 3 for the floor, 4 for a probe, 5 for a packet
/// without repair; the transmission's number, high byte first; then for a packet its symbol, class and chain, for a
/// combination the first symbol, the count and the key, for the floor the symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// The transmission carries a packet.
    Symbol {
        /// Number of the transmission.
        packet: u32,
        /// Number of the packet.
        symbol: u32,
        /// Treatment of the packet, and the packet that it waits for.
        label: Label,
    },
    /// A combination of consecutive packets, in a [`Body::Coded`](crate::packet::Body::Coded).
    Repair {
        /// Number of the transmission.
        packet: u32,
        /// Number of the first packet.
        first: u32,
        /// Number of packets.
        count: u8,
        /// Key that determines the coefficients.
        key: u8,
    },
    /// A report of arrivals, in a [`Body::Report`](crate::packet::Body::Report).
    Feedback {
        /// Number of the transmission.
        packet: u32,
    },
    /// Notice that no packet before that number will be sent any more.
    Floor {
        /// Number of the transmission.
        packet: u32,
        /// First packet that may still be sent.
        symbol: u32,
    },
    /// Request for feedback.
    Probe {
        /// Number of the transmission.
        packet: u32,
    },
    /// The transmission carries a packet without repair.
    Bare {
        /// Number of the transmission.
        packet: u32,
    },
}

impl Header {
    /// Maximum length, in bytes.
    pub const LEN: usize = LONGEST;

    /// Returns the outermost header of a frame, if it is one of this protocol.
    pub fn of<P>(packet: &Packet<P>) -> Option<Self> {
        Self::from_bytes(packet.link.read(LinkProtocol::TWO_ENDED)?)
    }

    /// Parses a header; `None` if it is malformed.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (packet, rest) = number(rest)?;
        if rest.is_empty() {
            return match kind {
                2 => Some(Self::Feedback { packet }),
                4 => Some(Self::Probe { packet }),
                5 => Some(Self::Bare { packet }),
                _ => None,
            };
        }
        let (symbol, rest) = number(rest)?;
        match (kind, rest) {
            (0, &[class, chain]) => {
                let label = Label { class: Class::from_byte(class)?, chain };
                Some(Self::Symbol { packet, symbol, label })
            }
            (1, &[count, key]) => Some(Self::Repair { packet, first: symbol, count, key }),
            (3, &[]) => Some(Self::Floor { packet, symbol }),
            _ => None,
        }
    }
}

impl LinkHeader for Header {
    const PROTOCOL: LinkProtocol = LinkProtocol::TWO_ENDED;

    fn bytes(self) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        let (kind, packet, symbol, detail) = match self {
            Self::Symbol { packet, symbol, label } => (0, packet, Some(symbol), Some([label.class as u8, label.chain])),
            Self::Repair { packet, first, count, key } => (1, packet, Some(first), Some([count, key])),
            Self::Feedback { packet } => (2, packet, None, None),
            Self::Floor { packet, symbol } => (3, packet, Some(symbol), None),
            Self::Probe { packet } => (4, packet, None, None),
            Self::Bare { packet } => (5, packet, None, None),
        };
        bytes[0] = kind;
        bytes[1..5].copy_from_slice(&packet.to_be_bytes());
        bytes[5..9].copy_from_slice(&symbol.unwrap_or(0).to_be_bytes());
        bytes[9..].copy_from_slice(&detail.unwrap_or([0; 2]));
        let len = if detail.is_some() {
            11
        } else if symbol.is_some() {
            9
        } else {
            5
        };
        (bytes, len)
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::headers::LinkHeaders;

    #[test]
    fn bytes_are_as_described() {
        let label = Label { class: Class::AtOnce, chain: 9 };
        for (header, bytes) in [
            (Header::Symbol { packet: 0x0102_0304, symbol: 5, label }, &[0, 1, 2, 3, 4, 0, 0, 0, 5, 2, 9][..]),
            (Header::Repair { packet: 1, first: 2, count: 3, key: 4 }, &[1, 0, 0, 0, 1, 0, 0, 0, 2, 3, 4]),
            (Header::Feedback { packet: 7 }, &[2, 0, 0, 0, 7]),
            (Header::Floor { packet: 7, symbol: 8 }, &[3, 0, 0, 0, 7, 0, 0, 0, 8]),
            (Header::Probe { packet: 7 }, &[4, 0, 0, 0, 7]),
            (Header::Bare { packet: 7 }, &[5, 0, 0, 0, 7]),
        ] {
            assert_eq!(LinkHeaders::from(header).read(LinkProtocol::TWO_ENDED), Some(bytes));
            assert_eq!(Header::from_bytes(bytes), Some(header));
            for end in 0..bytes.len() {
                assert_ne!(Header::from_bytes(&bytes[..end]), Some(header));
            }
        }
        for bytes in [&[0, 0, 0, 0, 1, 0, 0, 0, 2, 3, 4][..], &[6, 0, 0, 0, 1], &[2, 0, 0, 0, 1, 0], &[]] {
            assert_eq!(Header::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
