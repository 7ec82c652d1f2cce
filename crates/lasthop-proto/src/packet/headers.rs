//! Headers of link protocols, stacked in front of a packet.

use core::fmt;
use core::num::NonZeroU8;

/// A link protocol, by which it identifies its own headers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkProtocol(pub NonZeroU8);

impl LinkProtocol {
    /// Automatic repeat request ([`crate::link::arq`]).
    pub const ARQ: Self = Self(NonZeroU8::MIN);
    /// Repair by both ends of a hop ([`crate::link::hybrid`]).
    pub const TWO_ENDED: Self = Self(NonZeroU8::MIN.saturating_add(1));
    /// Selective repeat below a split connection ([`crate::pep::srp`]).
    pub const SRP: Self = Self(NonZeroU8::MIN.saturating_add(2));
    /// Radios that report their queues to each other ([`crate::link::radio`]).
    pub const RADIO: Self = Self(NonZeroU8::MIN.saturating_add(3));
}

/// Total capacity for headers in bytes, with two more for each header.
const ROOM: usize = 39;

/// Bytes in addition to those of a header itself: the protocol and the length, after it.
const TRAILER: usize = 2;

/// Headers of link protocols in front of a packet on its hop. The outermost header was added last, and is removed
/// first, by the other end of its protocol; to all others it is opaque.
///
/// Stored inline, since a simulated packet is copied as a whole: three headers of 11 bytes fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkHeaders {
    used: u8,
    /// Headers, innermost first; zero beyond `used`.
    bytes: [u8; ROOM],
}

/// Maximum length of a header of our own protocols, in bytes.
pub const LONGEST: usize = 11;

/// A header of one of our own protocols.
pub trait LinkHeader: Sized {
    /// Protocol of the header.
    const PROTOCOL: LinkProtocol;

    /// Returns the header's bytes, and the number of bytes in use.
    fn bytes(self) -> ([u8; LONGEST], usize);

    /// Adds the header in front of the existing headers. The caller ensures that there is space.
    #[inline]
    fn put(self, headers: &mut LinkHeaders) {
        let (bytes, len) = self.bytes();
        let put = headers.push(Self::PROTOCOL, &bytes[..len]);
        debug_assert!(put.is_ok(), "no space for a header");
    }
}

/// Headers of a frame that has no other.
impl<H: LinkHeader> From<H> for LinkHeaders {
    fn from(header: H) -> Self {
        let mut headers = Self::NONE;
        header.put(&mut headers);
        headers
    }
}

/// Error for lack of space for another header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

impl LinkHeaders {
    /// No headers.
    pub const NONE: Self = Self { used: 0, bytes: [0; ROOM] };

    /// Returns whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns whether a header of `len` bytes fits.
    pub const fn has_room(&self, len: usize) -> bool {
        len <= ROOM && self.used as usize + len + TRAILER <= ROOM
    }

    /// Adds a header in front of the existing ones.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if it does not fit.
    pub fn push(&mut self, protocol: LinkProtocol, header: &[u8]) -> Result<(), NoRoom> {
        if !self.has_room(header.len()) {
            return Err(NoRoom);
        }
        let (begin, end) = (usize::from(self.used), usize::from(self.used) + header.len());
        self.bytes[begin..end].copy_from_slice(header);
        // At most `ROOM`.
        (self.bytes[end], self.bytes[end + 1]) = (header.len() as u8, protocol.0.get());
        self.used = (end + TRAILER) as u8;
        Ok(())
    }

    /// Returns the outermost header, if it is one of `protocol`.
    #[inline]
    pub fn read(&self, protocol: LinkProtocol) -> Option<&[u8]> {
        let (owner, header) = self.iter().next()?;
        (owner == protocol).then_some(header)
    }

    /// Removes the outermost header, if there is one.
    pub fn pop(&mut self) {
        let len = self.iter().next().map_or(0, |(_, header)| header.len() + TRAILER);
        let end = usize::from(self.used);
        let begin = end.saturating_sub(len);
        self.bytes[begin..end].fill(0);
        self.used = begin as u8;
    }

    /// Returns all headers, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = (LinkProtocol, &[u8])> {
        let mut end = usize::from(self.used);
        core::iter::from_fn(move || {
            let [.., len, protocol] = *self.bytes.get(..end)? else { return None };
            let behind = end - TRAILER;
            let begin = behind.checked_sub(usize::from(len))?;
            end = begin;
            Some((LinkProtocol(NonZeroU8::new(protocol)?), &self.bytes[begin..behind]))
        })
    }
}

impl Default for LinkHeaders {
    #[inline]
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for LinkHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(protocol, header)| (protocol.0, header))).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn protocol(number: u8) -> LinkProtocol {
        LinkProtocol(NonZeroU8::new(number).unwrap())
    }

    #[test]
    fn the_outermost_is_read_and_taken_first() {
        let mut headers = LinkHeaders::NONE;
        headers.push(protocol(1), &[1, 2]).unwrap();
        let inner = headers;
        headers.push(protocol(2), &[]).unwrap();
        assert_eq!((headers.read(protocol(1)), headers.read(protocol(2))), (None, Some(&[][..])));
        headers.pop();
        assert_eq!((headers, headers.read(protocol(1))), (inner, Some(&[1, 2][..])));
        headers.pop();
        assert_eq!((headers, headers.read(protocol(1))), (LinkHeaders::NONE, None));
        headers.pop();
        assert!(headers.is_empty());
    }

    proptest! {
        /// Compares with a vector of headers of limited size.
        #[test]
        fn it_is_a_stack(steps in proptest::collection::vec((1u8..=255, proptest::collection::vec(any::<u8>(), 0..45), 0u8..3), 0..60)) {
            let (mut headers, mut model) = (LinkHeaders::NONE, Vec::<(u8, Vec<u8>)>::new());
            for (number, bytes, pops) in steps {
                let used: usize = model.iter().map(|(_, bytes)| bytes.len() + TRAILER).sum();
                let fits = used + bytes.len() + TRAILER <= ROOM;
                assert_eq!(headers.has_room(bytes.len()), fits);
                assert_eq!(headers.push(protocol(number), &bytes).is_ok(), fits);
                if fits {
                    model.push((number, bytes));
                }
                for _ in 0..pops {
                    headers.pop();
                    model.pop();
                }
                let all: Vec<_> = headers.iter().map(|(owner, bytes)| (owner.0.get(), bytes.to_vec())).collect();
                assert_eq!(all, model.iter().rev().cloned().collect::<Vec<_>>());
                assert_eq!(headers.is_empty(), model.is_empty());
            }
        }
    }
}
