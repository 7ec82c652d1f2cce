//! Encryption and decryption in place, with the keys of one session (ChaCha20-Poly1305, RFC 8439).

use lasthop_proto::link::hybrid::PathId;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::wire::{HEADER, Kind, OVERHEAD, TAG};

/// Failure to open a datagram that does not belong to the session, or was modified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damaged;

/// Packet number space: numbers of datagrams of a kind on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub(crate) kind: Kind,
    pub(crate) path: PathId,
}

impl Space {
    /// Space of the link's frames on the first path.
    #[cfg(test)]
    pub(crate) const LINK: Self = Self { kind: Kind::Link, path: PathId::FIRST };
}

/// Keys of a session: one for each direction.
pub(crate) struct Keys {
    /// Keys; `None` on a trusted network, without encryption.
    ciphers: Option<Box<Ciphers>>,
}

/// Raw keys. `ring` does not overwrite its derived keys, so they are derived on the stack for each datagram, in
/// nanoseconds.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Ciphers {
    send: [u8; 32],
    receive: [u8; 32],
}

impl Keys {
    /// Creates keys from raw keys, which are overwritten.
    pub(crate) fn new(mut send: [u8; 32], mut receive: [u8; 32]) -> Self {
        let ciphers = Box::new(Ciphers { send, receive });
        send.zeroize();
        receive.zeroize();
        Self { ciphers: Some(ciphers) }
    }

    /// Creates keys for a trusted network: the tag is zero.
    pub(crate) const fn plain() -> Self {
        Self { ciphers: None }
    }

    /// Seals `datagram`, which consists of header, frames, and space for the tag.
    pub(crate) fn seal(&self, space: Space, number: u64, datagram: &mut [u8]) -> Result<(), Damaged> {
        let (header, sealed) = parts(datagram)?;
        let (frames, tag) = sealed.split_at_mut(sealed.len() - TAG);
        match &self.ciphers {
            Some(ciphers) => tag.copy_from_slice(&encrypt(&ciphers.send, nonce(space, number), header, frames)?),
            None => tag.fill(0),
        }
        Ok(())
    }

    /// Opens `datagram` in place; its frames follow the header. On failure its content is undefined.
    pub(crate) fn open(&self, space: Space, number: u64, datagram: &mut [u8]) -> Result<(), Damaged> {
        let (header, sealed) = parts(datagram)?;
        match &self.ciphers {
            Some(ciphers) => decrypt(&ciphers.receive, nonce(space, number), header, sealed),
            None if sealed[sealed.len() - TAG..].iter().all(|byte| *byte == 0) => Ok(()),
            None => Err(Damaged),
        }
    }
}

/// Returns a datagram's header, and its frames with the tag.
fn parts(datagram: &mut [u8]) -> Result<(&[u8], &mut [u8]), Damaged> {
    if datagram.len() < OVERHEAD {
        return Err(Damaged);
    }
    let (header, sealed) = datagram.split_at_mut(HEADER);
    Ok((header, sealed))
}

/// Returns the nonce of Noise for the link on the first path, 32 zero bits and the number; different ones for control
/// frames, and for other paths.
fn nonce(Space { kind, path }: Space, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[0] = match kind {
        Kind::Link => 0,
        Kind::Control => 1,
    };
    nonce[1] = path.0;
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, Damaged> {
    // Fails only for keys of another length.
    UnboundKey::new(&CHACHA20_POLY1305, key).map(LessSafeKey::new).map_err(|_| Damaged)
}

fn encrypt(key: &[u8; 32], nonce: [u8; 12], with: &[u8], text: &mut [u8]) -> Result<[u8; TAG], Damaged> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    // Fails only for texts of 256 GiB.
    let tag = cipher(key)?.seal_in_place_separate_tag(nonce, Aad::from(with), text).map_err(|_| Damaged)?;
    tag.as_ref().try_into().map_err(|_| Damaged)
}

fn decrypt(key: &[u8; 32], nonce: [u8; 12], with: &[u8], sealed: &mut [u8]) -> Result<(), Damaged> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    cipher(key)?.open_in_place(nonce, Aad::from(with), sealed).map(drop).map_err(|_| Damaged)
}

/// Seals like a Noise transport message, without associated data.
#[cfg(test)]
pub(crate) fn tests_only_seal(key: [u8; 32], number: u64, text: &[u8]) -> Vec<u8> {
    let mut sealed = text.to_vec();
    let tag = encrypt(&key, nonce(Space::LINK, number), &[], &mut sealed);
    sealed.extend(tag.unwrap());
    sealed
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: Space = Space { kind: Kind::Control, ..Space::LINK };

    fn ends() -> (Keys, Keys) {
        (Keys::new([1; 32], [2; 32]), Keys::new([2; 32], [1; 32]))
    }

    fn datagram() -> Vec<u8> {
        (0..100).collect()
    }

    #[test]
    fn what_one_end_seals_the_other_opens() {
        let (one, other) = ends();
        let mut bytes = datagram();
        one.seal(Space::LINK, 7, &mut bytes).unwrap();
        assert_ne!(bytes[HEADER..84], datagram()[HEADER..84]);
        assert_eq!(bytes[..HEADER], datagram()[..HEADER]);
        other.open(Space::LINK, 7, &mut bytes).unwrap();
        assert_eq!(bytes[..84], datagram()[..84]);
    }

    #[test]
    fn number_kind_path_and_direction_are_part_of_the_seal() {
        let (one, other) = ends();
        let mut bytes = datagram();
        one.seal(Space::LINK, 7, &mut bytes).unwrap();
        assert_eq!(other.open(Space::LINK, 8, &mut bytes.clone()), Err(Damaged));
        assert_eq!(other.open(CONTROL, 7, &mut bytes.clone()), Err(Damaged));
        let elsewhere = Space { path: PathId(1), ..Space::LINK };
        assert_eq!(other.open(elsewhere, 7, &mut bytes.clone()), Err(Damaged), "another path");
        assert_eq!(one.open(Space::LINK, 7, &mut bytes.clone()), Err(Damaged), "reflected");
    }

    #[test]
    fn every_bit_counts() {
        let (one, other) = ends();
        let mut sealed = datagram();
        one.seal(CONTROL, 1, &mut sealed).unwrap();
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone();
            bytes[at] ^= 1;
            assert_eq!(other.open(CONTROL, 1, &mut bytes), Err(Damaged), "byte {at}");
            assert_eq!(other.open(CONTROL, 1, &mut sealed.clone()[..at]), Err(Damaged), "{at} bytes");
        }
    }

    /// RFC 8439, section 2.8.2, has another form of nonce; the test vectors in `noise_tests.rs` cover that of Noise.
    #[test]
    fn the_links_nonce_is_that_of_noise() {
        assert_eq!(nonce(Space::LINK, 0x0102_0304_0506_0708), [0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
    }
}
