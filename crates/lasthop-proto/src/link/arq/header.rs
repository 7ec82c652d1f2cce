//! Header that the protocol puts in front of a packet, and contents of control frames.

use crate::packet::Packet;
use crate::packet::headers::{LONGEST, LinkHeader, LinkProtocol};

/// Header of a frame. Numbers wrap; both ends start at 0.
///
/// In bytes: 0 for data, 1 for an acknowledgment, 2 for "missing", 3 for "skipped"; a zero; the number, high byte
/// first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Frame with that number, which carries a packet.
    Data(u16),
    /// Control: every frame before that number arrived.
    Ack(u16),
    /// Control: the frame with that number is missing.
    Nack(u16),
    /// Control: no frame before that number will be sent any more.
    Skip(u16),
}

impl Header {
    /// Length, in bytes.
    pub const LEN: usize = 4;

    /// Returns the outermost header of a frame, if it is one of this protocol.
    #[inline]
    pub fn of<P>(packet: &Packet<P>) -> Option<Self> {
        Self::from_bytes(packet.link.read(LinkProtocol::ARQ)?)
    }

    /// Returns the header in bytes.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let (kind, number) = match self {
            Self::Data(number) => (0, number),
            Self::Ack(number) => (1, number),
            Self::Nack(number) => (2, number),
            Self::Skip(number) => (3, number),
        };
        let [high, low] = number.to_be_bytes();
        [kind, 0, high, low]
    }

    /// Parses a header; `None` if it is malformed.
    pub const fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[kind, 0, high, low] = bytes else { return None };
        let number = u16::from_be_bytes([high, low]);
        match kind {
            0 => Some(Self::Data(number)),
            1 => Some(Self::Ack(number)),
            2 => Some(Self::Nack(number)),
            3 => Some(Self::Skip(number)),
            _ => None,
        }
    }
}

impl LinkHeader for Header {
    const PROTOCOL: LinkProtocol = LinkProtocol::ARQ;

    #[inline]
    fn bytes(self) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        bytes[..Self::LEN].copy_from_slice(&self.to_bytes());
        (bytes, Self::LEN)
    }
}
