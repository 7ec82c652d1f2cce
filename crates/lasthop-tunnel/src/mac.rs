//! Checks before any expensive work: mac1, mac2 and cookies, as in the WireGuard paper, sections 5.3 and 5.4.
//!
//! mac1 proves that the sender knows this end's public key. Under load, mac2 proves that the sender receives at its
//! source address. It is SipHash (a keyed hash for short inputs, 128 bits) of mac1, which covers the message, with the
//! cookie as key; the cookie is SipHash of the address. This costs a tenth of BLAKE2s, and is the most frequent
//! computation in a flood.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, Mac};
use blake2::{Blake2s256, Blake2sMac, Digest};
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use lasthop_proto::time::{Duration, Instant};
use siphasher::sip128::{Hasher128, SipHasher24};
use subtle::ConstantTimeEq;

use crate::entropy::Entropy;
use crate::keys::PublicKey;
use crate::wire::{COOKIE, Index, MAC, begin_cookie};

const LABEL_MAC1: &[u8] = b"lasthop1";
const LABEL_COOKIE: &[u8] = b"lasthopc";

/// Lifetime of a cookie and of the secret behind it.
const COOKIE_LIFE: Duration = Duration::from_secs(120);

type Macd = [u8; MAC];
type Cookie = [u8; MAC];

fn keyed(key: &[u8; 32], text: &[u8]) -> Macd {
    <Blake2sMac<U16> as KeyInit>::new(key.into()).chain_update(text).finalize_fixed().into()
}

/// Computes SipHash-2-4 with 128 bits.
fn short(key: &[u8; 16], text: &[u8]) -> Macd {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(text);
    hasher.finish128().as_bytes()
}

fn labelled(label: &[u8], key: &PublicKey) -> [u8; 32] {
    Blake2s256::new().chain_update(label).chain_update(key.0).finalize().into()
}

fn origin(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

/// Proof provided by the macs of a handshake message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proof {
    /// Nothing.
    None,
    /// The sender knows our public key.
    Knows,
    /// The sender knows our public key and receives at its source address.
    Receives,
}

/// Checks the macs of messages to this end, and creates cookies.
pub(crate) struct Checker {
    mac1_key: [u8; 32],
    cookie_key: XChaCha20Poly1305,
    secret: [u8; 16],
    before: [u8; 16],
    drawn_at: Instant,
}

impl Checker {
    pub(crate) fn new(own: &PublicKey, now: Instant, entropy: &mut Entropy) -> Self {
        let cookie_key = XChaCha20Poly1305::new(&labelled(LABEL_COOKIE, own).into());
        let mac1_key = labelled(LABEL_MAC1, own);
        Self { mac1_key, cookie_key, secret: entropy.bytes(), before: entropy.bytes(), drawn_at: now }
    }

    /// Returns whether the sender of the message knows our public key.
    pub(crate) fn knows(&self, message: &[u8]) -> bool {
        let Some((rest, _)) = message.split_last_chunk::<MAC>() else { return false };
        let Some((body, mac1)) = rest.split_last_chunk::<MAC>() else { return false };
        keyed(&self.mac1_key, body).ct_eq(mac1).into()
    }

    /// Returns the proof provided by a message with a valid mac1.
    pub(crate) fn proof(&self, message: &[u8], from: SocketAddr) -> Proof {
        let Some((rest, mac2)) = message.split_last_chunk::<MAC>() else { return Proof::None };
        let Some((_, mac1)) = rest.split_last_chunk::<MAC>() else { return Proof::None };
        let origin = origin(from);
        let right = |secret| bool::from(short(&short(secret, &origin), mac1).ct_eq(mac2));
        if right(&self.secret) || right(&self.before) { Proof::Receives } else { Proof::Knows }
    }

    /// Returns the cookie for the sender of `message` at `from`: a datagram, encrypted so that only a party that has
    /// seen the message can read it.
    pub(crate) fn cookie(
        &mut self,
        now: Instant,
        entropy: &mut Entropy,
        message: &[u8],
        sender: Index,
        from: SocketAddr,
    ) -> Option<[u8; COOKIE]> {
        if now.since(self.drawn_at) >= COOKIE_LIFE {
            self.before = std::mem::replace(&mut self.secret, entropy.bytes());
            self.drawn_at = now;
        }
        let (rest, _) = message.split_last_chunk::<MAC>()?;
        let (_, mac1) = rest.split_last_chunk::<MAC>()?;
        let mut cookie: Cookie = short(&self.secret, &origin(from));
        let nonce: [u8; 24] = entropy.bytes();
        let tag = self.cookie_key.encrypt_in_place_detached(XNonce::from_slice(&nonce), mac1, &mut cookie).ok()?;
        let mut datagram = [0; COOKIE];
        datagram[..4].copy_from_slice(&begin_cookie(sender));
        datagram[4..28].copy_from_slice(&nonce);
        datagram[28..44].copy_from_slice(&cookie);
        datagram[44..].copy_from_slice(&tag);
        Some(datagram)
    }
}

/// Signs messages to one peer, and stores its cookies.
pub(crate) struct Signer {
    mac1_key: [u8; 32],
    cookie_key: XChaCha20Poly1305,
    cookie: Option<(Cookie, Instant)>,
    /// Value of mac1 in the last message: only one cookie can answer it.
    last: Option<Macd>,
}

impl Signer {
    pub(crate) fn new(peer: &PublicKey) -> Self {
        let cookie_key = XChaCha20Poly1305::new(&labelled(LABEL_COOKIE, peer).into());
        Self { mac1_key: labelled(LABEL_MAC1, peer), cookie_key, cookie: None, last: None }
    }

    /// Fills the last 32 bytes of a handshake message; without a cookie mac2 is zero.
    pub(crate) fn sign(&mut self, now: Instant, message: &mut [u8]) {
        let Some((rest, mac2)) = message.split_last_chunk_mut::<MAC>() else { return };
        let Some((body, mac1)) = rest.split_last_chunk_mut::<MAC>() else { return };
        *mac1 = keyed(&self.mac1_key, body);
        self.last = Some(*mac1);
        *mac2 = match self.cookie {
            Some((cookie, until)) if now < until => short(&cookie, mac1),
            _ => [0; MAC],
        };
    }

    /// Accepts a cookie that answers our last message. Returns whether it is valid.
    pub(crate) fn take_cookie(&mut self, now: Instant, datagram: &[u8; COOKIE]) -> bool {
        let Some(mac1) = self.last else { return false };
        let mut cookie: Cookie = [0; MAC];
        cookie.copy_from_slice(&datagram[28..44]);
        let (nonce, tag) = (XNonce::from_slice(&datagram[4..28]), Tag::from_slice(&datagram[44..]));
        if self.cookie_key.decrypt_in_place_detached(nonce, &mac1, &mut cookie, tag).is_err() {
            return false;
        }
        self.last = None;
        self.cookie = Some((cookie, now + COOKIE_LIFE));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::INITIATION;

    fn parties() -> (Checker, Signer, Entropy) {
        let mut entropy = Entropy::new([5; 32]);
        let key = PublicKey([9; 32]);
        (Checker::new(&key, Instant::ZERO, &mut entropy), Signer::new(&key), entropy)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cookie_proves_the_address_that_it_was_sent_to() {
        let (mut checker, mut signer, mut entropy) = parties();
        let [here, there]: [SocketAddr; 2] = ["192.0.2.1:9", "192.0.2.1:10"].map(|text| text.parse().unwrap());
        let mut message = [7; INITIATION];
        signer.sign(at(0), &mut message);
        assert!(checker.knows(&message));
        assert_eq!(checker.proof(&message, here), Proof::Knows);
        let cookie = checker.cookie(at(1), &mut entropy, &message, Index::new(3), here).unwrap();
        let mut damaged = cookie;
        damaged[30] ^= 1;
        assert!(!signer.take_cookie(at(1), &damaged));
        assert!(signer.take_cookie(at(1), &cookie));
        // Only once: a second one could be a replay.
        assert!(!signer.take_cookie(at(1), &cookie));
        signer.sign(at(2), &mut message);
        assert_eq!(checker.proof(&message, here), Proof::Receives);
        assert_eq!(checker.proof(&message, there), Proof::Knows);
        // The cookie has expired: mac2 is zero.
        signer.sign(at(121), &mut message);
        assert_eq!(message[INITIATION - MAC..], [0; MAC]);
        assert_eq!(checker.proof(&message, here), Proof::Knows);
    }

    #[test]
    fn a_cookie_counts_for_as_long_as_its_owner_uses_it() {
        let (mut checker, mut signer, mut entropy) = parties();
        let here: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
        let mut message = [7; INITIATION];
        signer.sign(at(119), &mut message);
        let cookie = checker.cookie(at(119), &mut entropy, &message, Index::new(3), here).unwrap();
        assert!(signer.take_cookie(at(119), &cookie));
        // A cookie for another sender changes the secret.
        checker.cookie(at(121), &mut entropy, &message, Index::new(3), here).unwrap();
        signer.sign(at(130), &mut message);
        assert_eq!(checker.proof(&message, here), Proof::Receives);
    }

    #[test]
    fn a_changed_message_or_another_key_is_noticed() {
        let (checker, mut signer, _) = parties();
        let mut message = [7; INITIATION];
        signer.sign(at(0), &mut message);
        for at in 0..INITIATION - MAC {
            message[at] ^= 0x10;
            assert!(!checker.knows(&message), "byte {at}");
            message[at] ^= 0x10;
        }
        Signer::new(&PublicKey([8; 32])).sign(at(0), &mut message);
        assert!(!checker.knows(&message));
        assert!(!checker.knows(&message[..10]));
    }
}
