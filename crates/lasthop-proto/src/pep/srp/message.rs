//! Contents of the datagrams of SRP.

use crate::packet::headers::{LONGEST, LinkHeader, LinkProtocol};

/// Maximum number of datagrams without stream data that wait for the window: the first, the last, and one that reports
/// taken bytes.
pub const MOST_WAITING: u32 = 4;

/// Header of each datagram: the number of the session, since a connection's name may have several in succession. In
/// bytes: the number, high byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionHeader(pub u16);

impl SessionHeader {
    /// Parses the header; `None` if the length is wrong.
    pub const fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            &[high, low] => Some(Self(u16::from_be_bytes([high, low]))),
            _ => None,
        }
    }
}

impl LinkHeader for SessionHeader {
    const PROTOCOL: LinkProtocol = LinkProtocol::SRP;

    fn bytes(self) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        bytes[..2].copy_from_slice(&self.0.to_be_bytes());
        (bytes, 2)
    }
}

/// Contents of a numbered datagram: a byte for the kind, and four, high byte first, for the number of bytes of the
/// other direction that its sender has taken since the start, modulo 2^32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A connection has begun.
    Open,
    /// Bytes of the stream.
    Data {
        /// Bytes taken of the other direction.
        taken: u32,
    },
    /// Buffer space has become free.
    Taken {
        /// Bytes taken of the other direction.
        taken: u32,
    },
    /// The stream ends here.
    Close,
    /// The connection was reset.
    Abort,
}

impl Message {
    /// Length, in bytes.
    pub const LEN: usize = 5;

    /// Parses a message; `None` if it is malformed.
    pub const fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[kind, a, b, c, d] = bytes else { return None };
        let taken = u32::from_be_bytes([a, b, c, d]);
        match kind {
            0 => Some(Self::Open),
            1 => Some(Self::Data { taken }),
            2 => Some(Self::Taken { taken }),
            3 => Some(Self::Close),
            4 => Some(Self::Abort),
            _ => None,
        }
    }
}

impl LinkHeader for Message {
    const PROTOCOL: LinkProtocol = LinkProtocol::SRP;

    fn bytes(self) -> ([u8; LONGEST], usize) {
        let (kind, taken) = match self {
            Self::Open => (0, 0),
            Self::Data { taken } => (1, taken),
            Self::Taken { taken } => (2, taken),
            Self::Close => (3, 0),
            Self::Abort => (4, 0),
        };
        let mut bytes = [0; LONGEST];
        bytes[0] = kind;
        bytes[1..Self::LEN].copy_from_slice(&u32::to_be_bytes(taken));
        (bytes, Self::LEN)
    }
}
