//! Content of handshake messages: version, capabilities, and packet numbers.
//!
//! Version 1, status 1, phase 1, number of additional paths 1, capabilities 4, epoch 8, timestamp 8, next packet number 8:
//! 32 bytes.

use lasthop_proto::link::hybrid::MOST_PATHS;

use crate::wire::{HELLO, Phase};

/// Version of the tunnel protocol; there is no earlier one.
pub const VERSION: u8 = 1;

/// Optional capabilities of an end, as a bit set. Both ends use the common ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Capabilities(pub u32);

impl Capabilities {
    /// Returns the common capabilities.
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set contains all of `other`.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Status of a response to its initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// A session follows; initiations have this status too.
    Accepted,
    /// The timestamp does not exceed that of an earlier initiation, which the response contains.
    Stale,
    /// The version is not supported; the response contains one that is.
    Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) version: u8,
    pub(crate) status: Status,
    /// Phase of the session that the initiator proposes.
    pub(crate) phase: Phase,
    /// Number of paths between sender and receiver that the sender's configuration has, at least 1.
    pub(crate) paths: u8,
    pub(crate) capabilities: Capabilities,
    /// Random number drawn when the end started: a new value means that it has lost all state.
    pub(crate) epoch: u64,
    /// Timestamp. From the initiator: in units of 2^24 ns, increasing with each initiation. From the responder: the
    /// latest that it has seen.
    pub(crate) timestamp: u64,
    /// Lower bound of the number of the sender's next link packet on each path, if its link restarts.
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
        bytes[3] = self.paths.saturating_sub(1);
        bytes[4..8].copy_from_slice(&self.capabilities.0.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[24..].copy_from_slice(&self.next.to_be_bytes());
        bytes
    }

    /// Parses a hello; `None` if the status is unknown.
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
            paths: bytes[3].min(MOST_PATHS - 1) + 1,
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
                let (version, paths, epoch, timestamp, next) = (1, MOST_PATHS, 5, 6, u64::MAX);
                let hello = Hello { version, status, phase, paths, capabilities, epoch, timestamp, next };
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
