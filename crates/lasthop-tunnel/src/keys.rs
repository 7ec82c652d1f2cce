//! Keys in the format of `wg genkey`, `wg pubkey` and `wg genpsk`: 32 bytes in base64.

use base64ct::{Base64, Encoding};
use blake2::{Blake2s256, Digest};
use curve25519_dalek::montgomery::MontgomeryPoint;
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::entropy::Entropy;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 32;
/// Length of a key in base64, in characters.
pub const KEY_CHARACTERS: usize = 44;

/// Reason why a text is not a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// The number of characters is wrong.
    #[error("a key has {KEY_CHARACTERS} characters, not {0}")]
    Length(usize),
    /// The text contains characters outside of base64, or bits after the last byte.
    #[error("not valid base64")]
    NotBase64,
    /// The private key is all zeros, and thus not random.
    #[error("the key is all zeros")]
    Zero,
}

fn decode(text: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let text = text.trim();
    if text.len() != KEY_CHARACTERS {
        return Err(KeyError::Length(text.chars().count()));
    }
    let mut bytes = [0; KEY_BYTES];
    match Base64::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == KEY_BYTES => Ok(bytes),
        _ => Err(KeyError::NotBase64),
    }
}

fn encode(bytes: &[u8; KEY_BYTES]) -> String {
    let mut text = [0; KEY_CHARACTERS];
    let encoded = Base64::encode(bytes, &mut text).map(str::to_owned).unwrap_or_default();
    text.zeroize();
    encoded
}

/// Private key of an end (X25519). It is overwritten when dropped, and `Debug` does not show it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; KEY_BYTES]);

impl PrivateKey {
    /// Generates a key from `entropy`.
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self::from_bytes(entropy.bytes())
    }

    /// Returns the key with these bytes, clamped as in RFC 7748, section 5.
    pub fn from_bytes(mut bytes: [u8; KEY_BYTES]) -> Self {
        bytes[0] &= 0xf8;
        bytes[31] = (bytes[31] & 0x7f) | 0x40;
        Self(bytes)
    }

    /// Parses a key in base64; surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if `text` is not a key.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let mut bytes = decode(text)?;
        let zero = bytes.ct_eq(&[0; KEY_BYTES]).into();
        let key = Self::from_bytes(bytes);
        bytes.zeroize();
        if zero { Err(KeyError::Zero) } else { Ok(key) }
    }

    /// Returns the key in base64, for a file that only its owner may read.
    pub fn to_base64(&self) -> String {
        encode(&self.0)
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(self.0).to_bytes())
    }

    /// Derives a secret for one `purpose` that only the owners of this key and of `other` know: a hash of their X25519
    /// shared secret.
    pub fn agreed(&self, other: &PublicKey, purpose: &str) -> [u8; KEY_BYTES] {
        let mut shared = MontgomeryPoint(other.0).mul_clamped(self.0).to_bytes();
        let agreed = Blake2s256::new().chain_update(purpose).chain_update(shared).finalize().into();
        shared.zeroize();
        agreed
    }

    pub(crate) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// Public key of an end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; KEY_BYTES]);

impl PublicKey {
    /// Parses a key in base64; surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if `text` is not a key.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self)
    }

    /// Returns whether the key is a point of small order, such as all zeros: it yields no secret, and no private key
    /// belongs to it.
    pub fn is_nobodys(&self) -> bool {
        MontgomeryPoint(self.0).mul_clamped([1; KEY_BYTES]).to_bytes() == [0; KEY_BYTES]
    }

    /// Returns a substitute key for an end that only has a name.
    pub fn of_name(name: &str) -> Self {
        Self(Blake2s256::new().chain_update(b"lasthop name").chain_update(name).finalize().into())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// Preshared key of both ends: recorded traffic stays secret even if X25519 is broken. All zeros means none, as in
/// WireGuard.
#[derive(Clone, Default, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; KEY_BYTES]);

impl PresharedKey {
    /// Generates a key from `entropy`.
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self(entropy.bytes())
    }

    /// Returns the key with these bytes.
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses a key in base64; surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if `text` is not a key.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self)
    }

    /// Returns the key in base64, for a file that only its owner may read.
    pub fn to_base64(&self) -> String {
        encode(&self.0)
    }

    pub(crate) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 6.1: Bob's keys.
    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        let private = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
        let public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        assert_eq!(PrivateKey::from_bytes(bytes(private)).public().0, bytes(public));
    }

    fn bytes(hex: &str) -> [u8; 32] {
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let mut entropy = Entropy::new([7; 32]);
        let private = PrivateKey::generate(&mut entropy);
        assert_eq!(private.to_base64().len(), KEY_CHARACTERS);
        let read = PrivateKey::from_base64(&format!("{}\n", private.to_base64())).unwrap();
        assert_eq!(read.public(), private.public());
        let public = private.public();
        assert_eq!(PublicKey::from_base64(&public.to_string()), Ok(public));
        let preshared = PresharedKey::generate(&mut entropy);
        assert_eq!(PresharedKey::from_base64(&preshared.to_base64()).unwrap().bytes(), preshared.bytes());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let key = PublicKey([0xff; 32]).to_string();
        assert_eq!(PublicKey::from_base64(""), Err(KeyError::Length(0)));
        assert_eq!(PublicKey::from_base64(&key[1..]), Err(KeyError::Length(43)));
        assert_eq!(PublicKey::from_base64(&key.replace('/', "*")), Err(KeyError::NotBase64));
        // The last two bits of the 43rd character belong to no byte.
        assert_eq!(PublicKey::from_base64(&key.replace("8=", "9=")), Err(KeyError::NotBase64));
        let zero = PublicKey([0; 32]).to_string();
        assert_eq!(PrivateKey::from_base64(&zero).err(), Some(KeyError::Zero));
    }

    /// Points of order 1, 2 and 8 (Curve25519, <https://cr.yp.to/ecdh.html#validate>).
    #[test]
    fn points_of_small_order_are_nobodys_keys() {
        let one = std::array::from_fn(|at| u8::from(at == 0));
        let eight = bytes("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800");
        for key in [[0; 32], one, eight] {
            assert!(PublicKey(key).is_nobodys());
        }
        assert!(!PrivateKey::generate(&mut Entropy::new([7; 32])).public().is_nobodys());
    }

    #[test]
    fn secrets_do_not_show() {
        let key = PrivateKey::from_bytes([1; 32]);
        assert!(!format!("{key:?} {:?}", PresharedKey::from_bytes([1; 32])).contains('1'));
    }
}
