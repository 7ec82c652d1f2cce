//! Control frames of the session. A control datagram contains one, padded with zeros.

use lasthop_proto::link::hybrid::{Copies, PathId, Terms, Tier};

/// Length of every control frame, in bytes: none is shorter than a challenge, so that an answer is never larger than
/// its request.
pub(crate) const SHORTEST: usize = 9;

/// Control frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// No content: the session is alive.
    Keepalive,
    /// Challenge: the receiver returns its number if it receives at the address to which it was sent.
    Challenge(u64),
    /// Answer with the number of a challenge.
    Answer(u64),
    /// Probe of the path's MTU: the datagram has the size under test.
    Probe(u32),
    /// Acknowledgment of the probe with that number.
    Seen(u32),
    /// End of the session.
    Close,
    /// Terms on which the sender uses a path.
    Terms(PathId, Terms),
    /// Acknowledgment of the terms of a path.
    TermsSeen(PathId, Terms),
}

const TIERS: [Tier; 4] = [Tier::Primary, Tier::Secondary, Tier::Backup, Tier::Off];
const COPIES: [Copies; 3] = [Copies::All, Copies::Light, Copies::None];

/// Returns the number that stands for the terms of a path: path, tier and copies in a byte each.
fn number_of(PathId(path): PathId, terms: Terms) -> u64 {
    let place = |found: Option<usize>| found.unwrap_or(0) as u8;
    let tier = place(TIERS.iter().position(|tier| *tier == terms.tier));
    let copies = place(COPIES.iter().position(|copies| *copies == terms.copies));
    u64::from(u32::from_be_bytes([0, path, tier, copies]))
}

/// Parses the output of [`number_of`].
fn terms_of(number: u64) -> Option<(PathId, Terms)> {
    let [0, path, tier, copies] = u32::try_from(number).ok()?.to_be_bytes() else { return None };
    let terms = Terms { tier: *TIERS.get(usize::from(tier))?, copies: *COPIES.get(usize::from(copies))? };
    Some((PathId(path), terms))
}

impl Control {
    /// Returns the frame's bytes, without padding.
    pub(crate) fn encode(self) -> [u8; SHORTEST] {
        let (kind, number) = match self {
            Self::Keepalive => (1, 0),
            Self::Challenge(number) => (2, number),
            Self::Answer(number) => (3, number),
            Self::Probe(number) => (4, u64::from(number)),
            Self::Seen(number) => (5, u64::from(number)),
            Self::Close => (6, 0),
            Self::Terms(path, terms) => (7, number_of(path, terms)),
            Self::TermsSeen(path, terms) => (8, number_of(path, terms)),
        };
        let mut bytes = [0; SHORTEST];
        bytes[0] = kind;
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// Parses a frame; `None` for one of a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let number = u64::from_be_bytes(*rest.first_chunk()?);
        match kind {
            1 => Some(Self::Keepalive),
            2 => Some(Self::Challenge(number)),
            3 => Some(Self::Answer(number)),
            4 => u32::try_from(number).ok().map(Self::Probe),
            5 => u32::try_from(number).ok().map(Self::Seen),
            6 => Some(Self::Close),
            7 => terms_of(number).map(|(path, terms)| Self::Terms(path, terms)),
            8 => terms_of(number).map(|(path, terms)| Self::TermsSeen(path, terms)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        use Control::*;
        let terms = TIERS.into_iter().flat_map(|tier| COPIES.map(|copies| super::Terms { tier, copies }));
        let terms = terms.flat_map(|terms| [Terms(PathId(7), terms), TermsSeen(PathId(0), terms)]);
        let others = [Keepalive, Challenge(u64::MAX), Answer(1), Probe(u32::MAX), Seen(2), Close];
        for frame in others.into_iter().chain(terms) {
            let mut bytes = frame.encode().to_vec();
            assert_eq!(Control::decode(&bytes), Some(frame));
            assert_eq!(Control::decode(&bytes[..SHORTEST - 1]), None);
            bytes.resize(1400, 0);
            assert_eq!(Control::decode(&bytes), Some(frame));
        }
        assert_eq!(Control::decode(&[200; SHORTEST]), None);
        assert_eq!(Control::decode(&[4; SHORTEST]), None, "a number of 64 bits");
        for unknown in [[0, 0, 4, 0], [0, 0, 0, 3], [1, 0, 0, 0]] {
            let bytes = [&[7, 0, 0, 0, 0][..], &unknown].concat();
            assert_eq!(Control::decode(&bytes), None, "{unknown:?}");
        }
    }
}
