//! What ends tell each other inside the handshake: version, capabilities, and where their numbers stand.
//!
//! Version 1, status 1, phase 1, zero 1, capabilities 4, epoch 8, timestamp 8, next packet number 8: 32 bytes.

use crate::wire::{HELLO, Phase};

/// The version of the tunnel that is spoken here; there is no earlier one.
pub const VERSION: u8 = 1;

/// What an end can do beside the least; a set of bits. Both ends use what both have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// What both have.
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a response says of its initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// A session follows; initiations say this too.
    Accepted,
    /// The timestamp is not above that of an earlier initiation, which the response names.
    Stale,
    /// The version is not spoken here; the response has one that is.
    Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) version: u8,
    pub(crate) status: Status,
    /// Phase of the session that the initiator proposes.
    pub(crate) phase: Phase,
    pub(crate) capabilities: Capabilities,
    /// Drawn when the end started: another one means that it has forgotten everything.
    pub(crate) epoch: u64,
    /// Of the initiator: in units of 2^24 ns, larger from one initiation to the next. Of the responder: the newest that it has seen.
    pub(crate) timestamp: u64,
    /// The number that the sender's next link packet has at least.
    pub(crate) next: u64,
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[0] = self.version;
        bytes[1] = match self.status {
            Status::Accepted => 0,
            Status::Stale => 1,
            Status::Version => 2,
        };
        bytes[2] = (self.phase == Phase::Odd).into();
        bytes[4..8].copy_from_slice(&self.capabilities.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[24..].copy_from_slice(&self.next.to_be_bytes());
        bytes
    }

    /// None where the status is unknown.
    pub(crate) fn decode(bytes: &[u8; HELLO]) -> Option<Self> {
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_be_bytes(*chunk));
        Some(Self {
            version: bytes[0],
            status: match bytes[1] {
                0 => Status::Accepted,
                1 => Status::Stale,
                2 => Status::Version,
                _ => return None,
            },
            phase: if bytes[2] & 1 == 0 { Phase::Even } else { Phase::Odd },
            capabilities: Capabilities((word(0) & 0xffff_ffff) as u32),
            epoch: word(8),
            timestamp: word(16),
            next: word(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written() {
        for status in [Status::Accepted, Status::Stale, Status::Version] {
            for phase in [Phase::Even, Phase::Odd] {
                let capabilities = Capabilities(0x0102_0304);
                let hello = Hello { version: 1, status, phase, capabilities, epoch: 5, timestamp: 6, next: u64::MAX };
                assert_eq!(Hello::decode(&hello.encode()), Some(hello));
            }
        }
        assert_eq!(Hello::decode(&[7; HELLO]), None);
    }

    #[test]
    fn capabilities_are_what_both_have() {
        let (one, other) = (Capabilities(0b011), Capabilities(0b110));
        assert_eq!(one.both(other), Capabilities(0b010));
        assert!(one.has(Capabilities(1)) && !other.has(Capabilities(1)) && !one.has(other));
    }
}
