//! Wire format: the beginning of each datagram. All numbers are big-endian.
//!
//! | datagram | bytes |
//! |---|---|
//! | initiation | type 1, sender's index 3, ephemeral key 32, sealed static key 48, sealed hello 48, mac1 16, mac2 16: 164 |
//! | response | type 1, sender's index 3, zero 1, receiver's index 3, ephemeral key 32, sealed hello 48, mac1 16, mac2 16: 120 |
//! | cookie | type 1, receiver's index 3, nonce 24, sealed cookie 32: 60 |
//! | link, control | type, path and key phase 1, receiver's index 3, packet number 4, sealed frames, tag 16 |
//!
//! The eight clear bytes of the latter are authenticated too. The lowest four bits of their first byte are the type, the
//! next three are the path's number.

use lasthop_proto::link::hybrid::{MOST_PATHS, PathId};

/// Number of bytes before the sealed frames.
pub const HEADER: usize = 8;
/// Length of the tag after the frames, in bytes.
pub const TAG: usize = 16;
/// Number of bytes that a session adds to the link's frames in a datagram.
pub const OVERHEAD: usize = HEADER + TAG;

/// Length of a hello, in bytes.
pub(crate) const HELLO: usize = 32;
/// Length of the first handshake message, in bytes.
pub const INITIATION: usize = 4 + NOISE_1 + 2 * MAC;
/// Length of the second handshake message, in bytes.
pub const RESPONSE: usize = 8 + NOISE_2 + 2 * MAC;
/// Length of a datagram with a cookie, in bytes.
pub const COOKIE: usize = 4 + 24 + MAC + TAG;
pub(crate) const MAC: usize = 16;
pub(crate) const NOISE_1: usize = 32 + 32 + TAG + HELLO + TAG;
pub(crate) const NOISE_2: usize = 32 + HELLO + TAG;

/// No answer is larger than its request.
const _: () = assert!(RESPONSE <= INITIATION && COOKIE <= RESPONSE && COOKIE <= INITIATION);

/// Number with which an end identifies a session: 24 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Index(u32);

impl Index {
    /// Returns the index with the low 24 bits of `bits`.
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0xff_ffff)
    }

    pub(crate) const fn to_bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [a, b, c]
    }

    pub(crate) const fn from_bytes([a, b, c]: [u8; 3]) -> Self {
        Self(u32::from_be_bytes([0, a, b, c]))
    }
}

/// Kind of a sealed datagram; each kind has its own numbers and replay window on each path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Frames of the link mechanism, which numbers its transmissions itself.
    Link,
    /// Frames of the session.
    Control,
}

/// Parity of a session, which shows in a capture when keys changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The first session, the third and so on.
    Even,
    /// The second, the fourth and so on.
    Odd,
}

impl Phase {
    /// Returns the phase of the next session.
    pub const fn next(self) -> Self {
        match self {
            Self::Even => Self::Odd,
            Self::Odd => Self::Even,
        }
    }
}

/// The clear part of a sealed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Kind of the datagram.
    pub kind: Kind,
    /// Phase of the datagram's session.
    pub phase: Phase,
    /// Path of the datagram.
    pub path: PathId,
    /// The receiver's index of the session.
    pub receiver: Index,
    /// The low half of the packet number.
    pub low: u32,
}

const TYPE_INITIATION: u8 = 1;
const TYPE_RESPONSE: u8 = 2;
const TYPE_COOKIE: u8 = 3;
const TYPE_LINK: u8 = 4;
const TYPE_CONTROL: u8 = 5;
const PHASE: u8 = 0x80;
/// Bits of the first byte with the type, and position of the path's number.
const TYPE: u8 = 0x0f;
const PATH_SHIFT: u32 = 4;

const _: () = assert!(MOST_PATHS as u32 == (PHASE >> PATH_SHIFT) as u32);

impl Header {
    /// Writes the header to the first [`HEADER`] bytes of a datagram.
    pub fn write(&self, to: &mut [u8; HEADER]) {
        let kind = match self.kind {
            Kind::Link => TYPE_LINK,
            Kind::Control => TYPE_CONTROL,
        };
        to[0] = kind | self.path.0 << PATH_SHIFT & !PHASE | if self.phase == Phase::Odd { PHASE } else { 0 };
        to[1..4].copy_from_slice(&self.receiver.to_bytes());
        to[4..].copy_from_slice(&self.low.to_be_bytes());
    }
}

/// Type of a datagram, by its first bytes and its length alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// The first handshake message.
    Initiation {
        /// The sender's index of the future session.
        sender: Index,
    },
    /// The second handshake message.
    Response {
        /// The sender's index of the future session.
        sender: Index,
        /// The receiver's index.
        receiver: Index,
    },
    /// A cookie for one of the receiver's handshake messages.
    Cookie {
        /// The index in the message that it answers.
        receiver: Index,
    },
    /// Sealed frames.
    Sealed(Header),
}

/// Parses the first bytes; `None` if they cannot belong to the tunnel.
pub fn parse(datagram: &[u8]) -> Option<Datagram> {
    let (&[kind, a, b, c], rest) = datagram.split_first_chunk()?;
    let first = Index::from_bytes([a, b, c]);
    match (kind, datagram.len()) {
        (TYPE_INITIATION, INITIATION) => Some(Datagram::Initiation { sender: first }),
        (TYPE_RESPONSE, RESPONSE) => match rest {
            [0, a, b, c, ..] => Some(Datagram::Response { sender: first, receiver: Index::from_bytes([*a, *b, *c]) }),
            _ => None,
        },
        (TYPE_COOKIE, COOKIE) => Some(Datagram::Cookie { receiver: first }),
        (first_byte, OVERHEAD..) => {
            let phase = if first_byte & PHASE == 0 { Phase::Even } else { Phase::Odd };
            let path = PathId((first_byte & !PHASE) >> PATH_SHIFT);
            let kind = match first_byte & TYPE {
                TYPE_LINK => Kind::Link,
                TYPE_CONTROL => Kind::Control,
                _ => return None,
            };
            let low = u32::from_be_bytes(*rest.first_chunk()?);
            Some(Datagram::Sealed(Header { kind, phase, path, receiver: first, low }))
        }
        _ => None,
    }
}

/// Returns the beginning of an initiation.
pub(crate) fn begin_initiation(sender: Index) -> [u8; 4] {
    let [a, b, c] = sender.to_bytes();
    [TYPE_INITIATION, a, b, c]
}

/// Returns the beginning of a response.
pub(crate) fn begin_response(sender: Index, receiver: Index) -> [u8; 8] {
    let ([a, b, c], [d, e, f]) = (sender.to_bytes(), receiver.to_bytes());
    [TYPE_RESPONSE, a, b, c, 0, d, e, f]
}

/// Returns the beginning of a cookie.
pub(crate) fn begin_cookie(receiver: Index) -> [u8; 4] {
    let [a, b, c] = receiver.to_bytes();
    [TYPE_COOKIE, a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_table() {
        assert_eq!((INITIATION, RESPONSE, COOKIE, OVERHEAD), (164, 120, 60, 24));
    }

    #[test]
    fn headers_are_read_as_they_are_written() {
        for kind in [Kind::Link, Kind::Control] {
            for phase in [Phase::Even, Phase::Odd] {
                for path in (0..MOST_PATHS).map(PathId) {
                    let header = Header { kind, phase, path, receiver: Index::new(0xab_cdef), low: 0x0102_0304 };
                    let mut datagram = [0; OVERHEAD];
                    header.write(datagram.first_chunk_mut().unwrap());
                    assert_eq!(parse(&datagram), Some(Datagram::Sealed(header)));
                    assert_eq!(datagram[1..8], [0xab, 0xcd, 0xef, 1, 2, 3, 4]);
                    assert_eq!(parse(&datagram[..OVERHEAD - 1]), None);
                }
            }
        }
    }

    #[test]
    fn handshakes_have_one_length_each() {
        let (sender, receiver) = (Index::new(1), Index::new(2));
        let mut initiation = begin_initiation(sender).to_vec();
        initiation.resize(INITIATION, 0);
        assert_eq!(parse(&initiation), Some(Datagram::Initiation { sender }));
        let mut response = begin_response(sender, receiver).to_vec();
        response.resize(RESPONSE, 0);
        assert_eq!(parse(&response), Some(Datagram::Response { sender, receiver }));
        response[4] = 1;
        assert_eq!(parse(&response), None);
        let mut cookie = begin_cookie(receiver).to_vec();
        cookie.resize(COOKIE, 0);
        assert_eq!(parse(&cookie), Some(Datagram::Cookie { receiver }));
        for mut datagram in [initiation, cookie] {
            datagram.push(0);
            assert_eq!(parse(&datagram), None);
        }
    }
}
