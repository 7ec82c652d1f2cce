//! The shared key and what is derived from it: tags on every packet, keys of a session.

use std::fmt;

use base64ct::{Base64, Encoding};
use blake2::Blake2sMac;
use blake2::digest::consts::{U16, U32};
use blake2::digest::{FixedOutput, KeyInit, Mac};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Size of a key in bytes.
pub const KEY: usize = 32;
/// Size of a tag in bytes: keyed BLAKE2s (RFC 7693) with 128 bits.
pub const TAG: usize = 16;

/// Reason for which a text is not a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// Neither 64 hexadecimal digits nor 44 characters of base64.
    #[error(
        "expected 32 bytes as 64 hexadecimal digits or 44 characters of base64; `lasthop probe keygen` creates one"
    )]
    Form,
    /// All zeros, thus not random.
    #[error("the key is all zeros; `lasthop probe keygen` creates one")]
    Zero,
}

/// Secret of 32 bytes. It is erased on drop, and `Debug` does not show it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; KEY]);

impl Key {
    /// Creates a key from these bytes.
    pub const fn from_bytes(bytes: [u8; KEY]) -> Self {
        Self(bytes)
    }

    /// Parses hexadecimal digits or base64, and ignores surrounding white space.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` is not a key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let mut bytes = [0; KEY];
        let read = match text.len() {
            64 => hexadecimal(text, &mut bytes),
            44 => Base64::decode(text, &mut bytes).is_ok_and(|decoded| decoded.len() == KEY),
            _ => false,
        };
        let key = Self(bytes);
        bytes.zeroize();
        if !read {
            Err(KeyError::Form)
        } else if key.0.ct_eq(&[0; KEY]).into() {
            Err(KeyError::Zero)
        } else {
            Ok(key)
        }
    }

    /// Returns the key in base64, for a file that only its owner may read.
    pub fn to_base64(&self) -> String {
        let mut text = [0; 44];
        let encoded = Base64::encode(&self.0, &mut text).map(str::to_owned).unwrap_or_default();
        text.zeroize();
        encoded
    }

    /// Returns the tag of the concatenated `parts`.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        let mac = <Blake2sMac<U16> as KeyInit>::new((&self.0).into());
        parts.iter().fold(mac, |mac, part| mac.chain_update(part)).finalize_fixed().into()
    }

    /// Returns whether `tag` is the tag of `parts`, in constant time.
    pub(crate) fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        self.tag(parts).ct_eq(tag).into()
    }

    /// Derives a key that only holders of this key can derive from the same `parts`.
    pub(crate) fn derive(&self, parts: &[&[u8]]) -> Self {
        let mac = <Blake2sMac<U32> as KeyInit>::new((&self.0).into());
        Self(parts.iter().fold(mac, |mac, part| mac.chain_update(part)).finalize_fixed().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn hexadecimal(text: &str, bytes: &mut [u8; KEY]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes().chunks_exact(2).zip(bytes).all(|(pair, byte)| match (digit(pair[0]), digit(pair[1])) {
        (Some(high), Some(low)) => {
            *byte = ((high << 4) | low) as u8;
            true
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_both_forms() {
        let key = Key::from_bytes(std::array::from_fn(|at| at as u8));
        assert_eq!(Key::parse(&format!(" {}\n", key.to_base64())).unwrap().0, key.0);
        let hex: String = key.0.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(Key::parse(&hex).unwrap().0, key.0);
        for (text, error) in [
            ("", KeyError::Form),
            (&hex[1..], KeyError::Form),
            (&hex.replace('A', "g"), KeyError::Form),
            (&"é".repeat(32), KeyError::Form),
            (&"0".repeat(64), KeyError::Zero),
        ] {
            assert_eq!(Key::parse(text).err(), Some(error), "{text}");
        }
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    /// RFC 7693 has no test vector for a keyed digest of 128 bits: this tests that the tag depends on every part and on
    /// the key.
    #[test]
    fn a_tag_is_of_the_key_and_of_all_parts() {
        let (key, other) = (Key::from_bytes([1; KEY]), Key::from_bytes([2; KEY]));
        let tag = key.tag(&[b"ab", b"c"]);
        assert!(key.is_tag(&[b"abc"], &tag) && !other.is_tag(&[b"abc"], &tag) && !key.is_tag(&[b"abd"], &tag));
        assert!(!key.is_tag(&[b"abc"], &tag[1..]));
        assert_ne!(key.derive(&[b"up"]).0, key.derive(&[b"down"]).0);
    }
}
