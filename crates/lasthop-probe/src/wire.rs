//! The wire format. All integers are big-endian.
//!
//! Opening messages (kinds 1 to 5) end in a tag under the shared key. Session packets (kinds from 16) have the tag
//! after their header, under the key of their direction. It covers the header, the packet's length and the body. The
//! body of a data packet is empty; its padding must be zero, which is checked.

use crate::key::{Key, TAG};

/// Version of the protocol.
const VERSION: u8 = 1;
/// Size in bytes of both messages that a caller sends first. No answer is longer.
pub(crate) const OPENING: usize = 112;
/// Size of a session packet's header in bytes, tag included.
pub const HEADER: usize = 24 + TAG;
/// Maximum size of a packet's body in bytes.
pub(crate) const BODY: usize = 1140;
/// Size of a ping and of its answer in bytes, UDP payload.
pub(crate) const PING: usize = HEADER + 48;
/// Returns the bytes of UDP and IP headers, by IP version.
pub const fn overhead(of: &std::net::SocketAddr) -> u16 {
    if of.is_ipv4() { 28 } else { 48 }
}

/// Random number that the caller drew for one session.
pub(crate) type Nonce = [u8; 16];
/// Time of issue, and a tag under the server's secret that binds it to this caller.
pub(crate) type Cookie = [u8; 24];

/// Kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Requests a cookie.
    Hello = 1,
    /// Contains the cookie.
    Challenge = 2,
    /// Opens a session with the cookie.
    Open = 3,
    /// Confirms that the session is open.
    Accept = 4,
    /// Refuses the session.
    Refuse = 5,
    /// Measurement packet without contents.
    Data = 16,
    /// Requests an answer of the same size.
    Ping = 17,
    /// Answers a ping.
    Pong = 18,
    /// Orders packets.
    Order = 19,
    /// Accepts the order, now or again.
    Ordered = 20,
    /// Requests what arrived, or when something was sent.
    Fetch = 21,
    /// Answers a `Fetch`.
    Log = 22,
    /// Ends the session.
    Bye = 23,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        use Kind::*;
        let all = [Hello, Challenge, Open, Accept, Refuse, Data, Ping, Pong, Order, Ordered, Fetch, Log, Bye];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Returns the kind of a packet without authenticating it.
    pub(crate) fn peek(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [kind, VERSION, ..] => Self::of(*kind),
            _ => None,
        }
    }
}

/// Encodes an opening message: `kind version 0 0 nonce body 0... tag`.
pub(crate) fn opening(key: &Key, kind: Kind, nonce: &Nonce, body: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend([kind as u8, VERSION, 0, 0]);
    bytes.extend(nonce);
    bytes.extend(body);
    bytes.resize(len.max(bytes.len() + TAG) - TAG, 0);
    let tag = key.tag(&[&bytes]);
    bytes.extend(tag);
    bytes
}

/// Decodes an opening message with a valid tag: returns its nonce and the rest.
pub(crate) fn read_opening<'b>(key: &Key, bytes: &'b [u8]) -> Option<(Nonce, &'b [u8])> {
    let (rest, tag) = bytes.split_last_chunk::<TAG>()?;
    let (_, from_nonce) = rest.split_first_chunk::<4>()?;
    let (nonce, body) = from_nonce.split_first_chunk::<16>()?;
    key.is_tag(&[rest], tag).then_some((*nonce, body))
}

/// Header of a session packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Kind of packet.
    pub kind: Kind,
    /// Session identifier.
    pub session: u32,
    /// Sequence number of this direction.
    pub seq: u32,
    /// Number of its order; 0 for none.
    pub order: u16,
    /// Index within the order.
    pub index: u16,
    /// DSCP when sent.
    pub dscp: u8,
    /// Send time in nanoseconds of the sender's clock.
    pub sent: u64,
}

impl Header {
    fn bytes(&self) -> [u8; HEADER - TAG] {
        let mut bytes = [0; HEADER - TAG];
        bytes[..4].copy_from_slice(&[self.kind as u8, VERSION, self.dscp, 0]);
        bytes[4..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.seq.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.order.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.index.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    fn of(bytes: &[u8; HEADER - TAG]) -> Option<Self> {
        let kind = Kind::peek(bytes).filter(|kind| *kind as u8 >= Kind::Data as u8)?;
        let mut reader = Reader(&bytes[4..]);
        Some(Self {
            kind,
            dscp: bytes[2],
            session: reader.u32()?,
            seq: reader.u32()?,
            order: reader.u16()?,
            index: reader.u16()?,
            sent: reader.u64()?,
        })
    }
}

/// Returns the session identifier of a packet without authenticating it.
pub(crate) fn session_of(bytes: &[u8]) -> Option<u32> {
    Reader(bytes.get(4..8)?).u32()
}

/// Encodes a session packet of `len` bytes, or more if the body needs them.
pub(crate) fn seal(key: &Key, header: &Header, body: &[u8], len: usize) -> Vec<u8> {
    let front = header.bytes();
    let len = len.max(HEADER + body.len());
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(front);
    bytes.extend([0; TAG]);
    bytes.extend(body);
    bytes.resize(len, 0);
    let covered: &[u8] = if header.kind == Kind::Data { &[] } else { &bytes[HEADER..] };
    let tag = key.tag(&[&front, &(len as u32).to_be_bytes(), covered]);
    bytes[HEADER - TAG..HEADER].copy_from_slice(&tag);
    bytes
}

/// Decodes a session packet with a valid tag: returns its header and body.
pub(crate) fn open<'b>(key: &Key, bytes: &'b [u8]) -> Option<(Header, &'b [u8])> {
    let (front, rest) = bytes.split_first_chunk::<{ HEADER - TAG }>()?;
    let (tag, body) = rest.split_first_chunk::<TAG>()?;
    let header = Header::of(front)?;
    let covered: &[u8] = if header.kind == Kind::Data { &[] } else { body };
    if !key.is_tag(&[front, &(bytes.len() as u32).to_be_bytes(), covered], tag) {
        return None;
    }
    (header.kind != Kind::Data || body.iter().all(|byte| *byte == 0)).then_some((header, body))
}

/// Reader of integers.
pub(crate) struct Reader<'b>(pub &'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// Reads an integer of seven bits per byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a zigzag-encoded signed integer.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.varint().map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_varint(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KEY;

    fn header(kind: Kind) -> Header {
        Header { kind, session: 7, seq: 9, order: 3, index: 4, dscp: 46, sent: 1 << 40 }
    }

    #[test]
    fn packets_are_read_as_they_are_written() {
        let key = Key::from_bytes([3; KEY]);
        let data = seal(&key, &header(Kind::Data), &[], 100);
        assert_eq!((data.len(), open(&key, &data).map(|(header, _)| header)), (100, Some(header(Kind::Data))));
        let ping = seal(&key, &header(Kind::Ping), b"body", PING);
        assert_eq!(open(&key, &ping).map(|(_, body)| &body[..5]), Some(&b"body\0"[..]));
        let hello = opening(&key, Kind::Hello, &[5; 16], b"x", OPENING);
        assert_eq!((hello.len(), read_opening(&key, &hello).map(|(nonce, _)| nonce)), (OPENING, Some([5; 16])));
    }

    #[test]
    fn a_packet_that_was_changed_anywhere_is_none() {
        let key = Key::from_bytes([3; KEY]);
        for kind in [Kind::Data, Kind::Ping] {
            let packet = seal(&key, &header(kind), &[], 80);
            for at in 0..packet.len() {
                let mut changed = packet.clone();
                changed[at] ^= 1;
                assert_eq!(open(&key, &changed), None, "byte {at}");
            }
            assert_eq!(open(&key, &packet[..79]), None);
            assert_eq!(open(&Key::from_bytes([4; KEY]), &packet), None);
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_without_a_panic(bytes: Vec<u8>) {
            let key = Key::from_bytes([3; KEY]);
            prop_assert!(open(&key, &bytes).is_none() && read_opening(&key, &bytes).is_none());
            let mut reader = Reader(&bytes);
            while reader.signed().is_some() {}
        }

        #[test]
        fn integers_come_back(value: i64) {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            prop_assert_eq!(Reader(&bytes).signed(), Some(value));
        }
    }
}
