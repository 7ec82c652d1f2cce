//! The handshake: Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s of `snow`, with randomness from the caller and an X25519 that
//! rejects points of small order.

use curve25519_dalek::montgomery::MontgomeryPoint;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::keys::{PresharedKey, PrivateKey, PublicKey};
use crate::seal::Keys;
use crate::wire::{HELLO, NOISE_1, NOISE_2, TAG};

/// Name of the pattern and its functions.
pub const PROTOCOL: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Prologue of both ends.
pub const PROLOGUE: &[u8] = b"lasthop tunnel 1";

/// Failed handshake: another protocol, damaged, or with other keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failed;

impl From<Error> for Failed {
    fn from(_: Error) -> Self {
        Self
    }
}

/// Identity of this end.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A key: everything is encrypted.
    Key(PrivateKey),
    /// A name, without encryption: for a trusted network, such as one inside WireGuard. Peers are identified by
    /// [`PublicKey::of_name`].
    Name(String),
}

impl Credentials {
    /// Returns the public key that peers know.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Key(private) => private.public(),
            Self::Name(name) => PublicKey::of_name(name),
        }
    }
}

/// [`Credentials`] with the public key, whose computation is expensive.
#[derive(Clone)]
pub(crate) struct Identity {
    /// Private key; `None` without encryption.
    pub(crate) private: Option<PrivateKey>,
    pub(crate) public: PublicKey,
}

impl Identity {
    pub(crate) fn new(credentials: Credentials) -> Self {
        let public = credentials.public();
        match credentials {
            Credentials::Key(private) => Self { public, private: Some(private) },
            Credentials::Name(_) => Self { public, private: None },
        }
    }
}

/// X25519 for `snow`.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
struct X25519 {
    private: [u8; 32],
    public: [u8; 32],
    known: Option<([u8; 32], [u8; 32])>,
}

impl X25519 {
    fn take(&mut self, private: [u8; 32]) {
        self.private = private;
        self.public = match &self.known {
            Some((known, public)) if known.ct_eq(&private).into() => *public,
            _ => MontgomeryPoint::mul_base_clamped(private).to_bytes(),
        };
    }
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn set(&mut self, private: &[u8]) {
        if let Ok(private) = private.try_into() {
            self.take(private);
        }
    }
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut private = [0; 32];
        rng.try_fill_bytes(&mut private)?;
        self.take(private);
        private.zeroize();
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &self.private
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = *public.first_chunk::<32>().ok_or(Error::Dh)?;
        let mut shared = MontgomeryPoint(public).mul_clamped(self.private).to_bytes();
        // RFC 7748, section 6.1: the result of a point of small order.
        if shared.ct_eq(&[0; 32]).into() {
            return Err(Error::Dh);
        }
        out.get_mut(..32).ok_or(Error::Dh)?.copy_from_slice(&shared);
        shared.zeroize();
        Ok(())
    }
}

/// Bytes of one ephemeral key; no second one can be drawn.
struct Drawn(Option<[u8; 32]>);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Error> {
        let mut drawn = self.0.take().ok_or(Error::Rng)?;
        to.copy_from_slice(drawn.get(..to.len()).ok_or(Error::Rng)?);
        drawn.zeroize();
        Ok(())
    }
}

struct Resolver {
    ephemeral: [u8; 32],
    known: ([u8; 32], [u8; 32]),
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.ephemeral.zeroize();
        self.known.zeroize();
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(Some(self.ephemeral))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let known = Some(self.known);
        (*choice == DHChoice::Curve25519).then(|| Box::new(X25519 { known, ..X25519::default() }) as Box<dyn Dh>)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn builder<'b>(
    private: &'b PrivateKey,
    public: &PublicKey,
    ephemeral: [u8; 32],
    prologue: &'b [u8],
) -> Result<Builder<'b>, Failed> {
    let params: NoiseParams = PROTOCOL.parse()?;
    let resolver = Resolver { ephemeral, known: (*private.bytes(), public.0) };
    let builder = Builder::with_resolver(params, Box::new(resolver));
    Ok(builder.prologue(prologue)?.local_private_key(private.bytes())?)
}

/// Offsets of static key and hello in the first message without encryption.
const PLAIN_KEY: usize = 32;
const PLAIN_HELLO: usize = PLAIN_KEY + 32 + TAG;

/// Initiator of a handshake.
pub(crate) enum Initiator {
    Noise(Box<HandshakeState>),
    Plain(PublicKey),
}

impl Initiator {
    pub(crate) fn new(
        own: &Identity,
        peer: &PublicKey,
        shared: &PresharedKey,
        ephemeral: [u8; 32],
    ) -> Result<Self, Failed> {
        let Some(private) = &own.private else { return Ok(Self::Plain(own.public)) };
        let builder = builder(private, &own.public, ephemeral, PROLOGUE)?;
        let builder = builder.remote_public_key(&peer.0)?.psk(2, shared.bytes())?;
        Ok(Self::Noise(Box::new(builder.build_initiator()?)))
    }

    /// Writes the first message.
    pub(crate) fn write(&mut self, hello: &[u8; HELLO], to: &mut [u8; NOISE_1]) -> Result<(), Failed> {
        match self {
            Self::Noise(state) => state.write_message(hello, to).map(drop).map_err(Failed::from),
            Self::Plain(own) => {
                to[PLAIN_KEY..PLAIN_KEY + 32].copy_from_slice(&own.0);
                to[PLAIN_HELLO..PLAIN_HELLO + HELLO].copy_from_slice(hello);
                Ok(())
            }
        }
    }

    /// Reads the second message. After a failure a valid one can still be read.
    pub(crate) fn read(&mut self, message: &[u8; NOISE_2]) -> Result<[u8; HELLO], Failed> {
        let mut hello = [0; HELLO];
        match self {
            Self::Noise(state) => {
                if state.read_message(message, &mut hello)? != HELLO {
                    return Err(Failed);
                }
            }
            Self::Plain(_) => hello.copy_from_slice(&message[32..32 + HELLO]),
        }
        Ok(hello)
    }

    /// Returns the session's keys, after [`Self::read`].
    pub(crate) fn keys(self) -> Keys {
        match self {
            Self::Noise(mut state) => {
                let (send, receive) = state.dangerously_get_raw_split();
                Keys::new(send, receive)
            }
            Self::Plain(_) => Keys::plain(),
        }
    }
}

/// Responder of a handshake.
pub(crate) enum Responder {
    Noise(Box<HandshakeState>),
    Plain,
}

impl Responder {
    /// Reads the first message. Returns the initiator's key and hello.
    pub(crate) fn read(
        own: &Identity,
        ephemeral: [u8; 32],
        message: &[u8; NOISE_1],
    ) -> Result<(Self, PublicKey, [u8; HELLO]), Failed> {
        let mut hello = [0; HELLO];
        let Some(private) = &own.private else {
            let mut peer = [0; 32];
            peer.copy_from_slice(&message[PLAIN_KEY..PLAIN_KEY + 32]);
            hello.copy_from_slice(&message[PLAIN_HELLO..PLAIN_HELLO + HELLO]);
            return Ok((Self::Plain, PublicKey(peer), hello));
        };
        let mut state = builder(private, &own.public, ephemeral, PROLOGUE)?.build_responder()?;
        let length = state.read_message(message, &mut hello)?;
        let peer = state.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(Failed)?;
        if length == HELLO { Ok((Self::Noise(Box::new(state)), PublicKey(peer), hello)) } else { Err(Failed) }
    }

    /// Writes the second message and returns the session's keys.
    pub(crate) fn write(
        self,
        shared: &PresharedKey,
        hello: &[u8; HELLO],
        to: &mut [u8; NOISE_2],
    ) -> Result<Keys, Failed> {
        let Self::Noise(mut state) = self else {
            to[32..32 + HELLO].copy_from_slice(hello);
            return Ok(Keys::plain());
        };
        state.set_psk(2, shared.bytes())?;
        state.write_message(hello, to)?;
        let (receive, send) = state.dangerously_get_raw_split();
        Ok(Keys::new(send, receive))
    }
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
