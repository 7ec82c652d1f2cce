//! Contents of the datagrams that an end sends. The simulator's are not encrypted and can be parsed; an encrypting
//! driver parses each packet's frames before encryption.

use std::collections::BTreeMap;

/// Length of the connection identifiers that both ends issue: quinn's default.
pub(crate) const CONNECTION_ID_LEN: usize = 8;

/// Contents of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Carried {
    /// Stream bytes that were not sent before.
    pub fresh: u64,
    /// Stream bytes that were sent before.
    pub resent: u64,
    /// Indicates whether the datagram contains a packet of the handshake.
    pub handshake: Handshake,
}

/// Handshake contents of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Handshake {
    /// Contains a packet with a long header (RFC 9000 §17.2).
    Part,
    /// All packets of the datagram have short headers.
    #[default]
    Over,
}

/// Highest offset sent of each stream.
#[derive(Clone, Default, Debug)]
pub struct SentSoFar {
    ends: BTreeMap<u64, u64>,
}

impl SentSoFar {
    /// Parses a datagram that is about to be sent, up to the first part that it does not understand.
    pub fn read(&mut self, datagram: &[u8]) -> Carried {
        let mut carried = Carried::default();
        let mut rest = datagram;
        while let Some((frames, following)) = packet(rest, &mut carried) {
            self.frames(frames, &mut carried);
            rest = following;
        }
        carried
    }

    /// Parses the frames of one packet that is about to be sent.
    pub fn read_frames(&mut self, frames: &[u8]) -> Carried {
        let mut carried = Carried::default();
        self.frames(frames, &mut carried);
        carried
    }

    /// Removes a stream that the peer has received completely, so that none of it is retransmitted.
    pub fn forget(&mut self, stream: u64) {
        self.ends.remove(&stream);
    }

    fn frames(&mut self, frames: &[u8], carried: &mut Carried) {
        let mut input = Input(frames);
        while let Some(stream) = input.next_stream() {
            let end = self.ends.entry(stream.id).or_default();
            let last = stream.offset.saturating_add(stream.len);
            let fresh = last.saturating_sub((*end).max(stream.offset));
            carried.fresh += fresh;
            carried.resent += stream.len - fresh;
            *end = last.max(*end);
        }
    }
}

/// Length of the tag behind the frames of each packet.
const TAG_LEN: usize = 16;

/// Returns the frames of the first packet (RFC 9000 §17), and the rest of the datagram.
fn packet<'d>(datagram: &'d [u8], carried: &mut Carried) -> Option<(&'d [u8], &'d [u8])> {
    let first = *datagram.first()?;
    let number_len = usize::from(first & 0x03) + 1;
    if first & 0x80 == 0 {
        let end = datagram.len().checked_sub(TAG_LEN)?;
        return Some((datagram.get(1 + CONNECTION_ID_LEN + number_len..end)?, &[]));
    }
    carried.handshake = Handshake::Part;
    let mut input = Input(datagram.get(5..)?);
    for _ in 0..2 {
        let len = input.byte()?;
        input.skip(u64::from(len))?;
    }
    // Only an Initial packet has a token.
    if first & 0x30 == 0 {
        let len = input.varint()?;
        input.skip(len)?;
    }
    let len = usize::try_from(input.varint()?).ok()?;
    let (packet, following) = input.0.split_at_checked(len)?;
    Some((packet.get(number_len..packet.len().checked_sub(TAG_LEN)?)?, following))
}

/// A STREAM frame (RFC 9000 §19.8).
struct Stream {
    id: u64,
    offset: u64,
    len: u64,
}

/// Unparsed rest of the input.
struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    /// Reads a variable-length integer (RFC 9000 §16).
    fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        let mut value = u64::from(first & 0x3f);
        for _ in 1..1_u8 << (first >> 6) {
            value = value << 8 | u64::from(self.byte()?);
        }
        Some(value)
    }

    fn varints(&mut self, count: u64) -> Option<()> {
        (0..count).try_for_each(|_| self.varint().map(drop))
    }

    /// Returns the next STREAM frame, skipping frames of other types (RFC 9000 §19).
    fn next_stream(&mut self) -> Option<Stream> {
        loop {
            match self.varint()? {
                // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK.
                0x00 | 0x01 | 0x1e | 0x1f => {}
                kind @ (0x02 | 0x03) => {
                    self.varints(2)?;
                    let ranges = self.varint()?;
                    self.varints(1)?;
                    self.varints(ranges.checked_mul(2)?)?;
                    self.varints(if kind == 0x03 { 3 } else { 0 })?;
                }
                // RESET_STREAM.
                0x04 => self.varints(3)?,
                // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
                0x05 | 0x11 | 0x15 => self.varints(2)?,
                // CRYPTO.
                0x06 => {
                    self.varints(1)?;
                    let len = self.varint()?;
                    self.skip(len)?;
                }
                // NEW_TOKEN.
                0x07 => {
                    let len = self.varint()?;
                    self.skip(len)?;
                }
                kind @ 0x08..=0x0f => {
                    let id = self.varint()?;
                    let offset = if kind & 0x04 != 0 { self.varint()? } else { 0 };
                    let len = if kind & 0x02 != 0 { self.varint()? } else { self.0.len() as u64 };
                    self.skip(len)?;
                    return Some(Stream { id, offset, len });
                }
                // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
                0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => self.varints(1)?,
                // NEW_CONNECTION_ID.
                0x18 => {
                    self.varints(2)?;
                    let len = self.byte()?;
                    self.skip(u64::from(len) + 16)?;
                }
                // PATH_CHALLENGE, PATH_RESPONSE.
                0x1a | 0x1b => self.skip(8)?,
                // CONNECTION_CLOSE and all types outside RFC 9000: no STREAM frame follows.
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
#[path = "carried_tests.rs"]
mod tests;
