//! Cryptographic session of a simulated connection: no cryptography, but everything else that quinn requires of it.
//!
//! The handshake has TLS 1.3's flights, which carry the transport parameters and make the keys available one level
//! after the other; [`Flights`] has their sizes. Packets are not encrypted. Instead of an AEAD tag each has a tag of
//! the same 16 bytes, which depends on the packet's key and number: opening it with another key or under another number
//! fails, as with an AEAD. Bytes altered on the path are not detected; the simulator alters none, and does not deliver
//! damaged packets to the end.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    self, AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys,
    PacketKey, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

/// Length of an AEAD's tag, equal for all of QUIC's cipher suites (RFC 9001 §5.3).
const TAG_LEN: usize = 16;

/// Number of bytes that header protection samples (RFC 9001 §5.4.2): a packet must be long enough to contain them.
const SAMPLE_LEN: usize = 16;

/// Number of packets that AES-GCM can protect under one key, and of forgeries that it tolerates (RFC 9001 §6.6).
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Sizes of the handshake's flights in bytes, without their transport parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flights {
    /// ClientHello.
    pub client_hello: usize,
    /// ServerHello.
    pub server_hello: usize,
    /// EncryptedExtensions to the server's Finished.
    pub server_rest: usize,
    /// The client's Finished.
    pub client_finished: usize,
    /// The server's tickets, after the handshake.
    pub tickets: usize,
}

/// Sizes for rustls 0.23 over ring: X25519, AES-256-GCM, the protocol `h3`, and a self-signed certificate of 354 bytes
/// (ECDSA over P-256, for `localhost`). `docs/models/quic.md` gives the sizes for other certificates.
pub const FLIGHTS: Flights =
    Flights { client_hello: 192, server_hello: 90, server_rest: 521, client_finished: 52, tickets: 178 };

/// Packets that a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    /// Derived from the client's first destination connection identifier.
    Initial(u64),
    Handshake,
    /// 1-RTT, with the number of updates.
    Data(u32),
}

/// A key for packets of one level from one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    level: Level,
    sender: Side,
}

impl Key {
    fn tag(self, packet: u64) -> [u8; TAG_LEN] {
        let (kind, value) = match self.level {
            Level::Initial(connection) => (0, connection),
            Level::Handshake => (1, 0),
            Level::Data(updates) => (2, u64::from(updates)),
        };
        let sender = u64::from(self.sender.is_server());
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&packet.to_be_bytes());
        tag[8..].copy_from_slice(&(value << 3 | kind << 1 | sender).to_be_bytes());
        tag
    }

    fn pair(level: Level, side: Side) -> KeyPair<Box<dyn PacketKey>> {
        let key = |sender| Box::new(Self { level, sender });
        KeyPair { local: key(side), remote: key(!side) }
    }

    fn keys(level: Level, side: Side) -> Keys {
        Keys {
            header: KeyPair { local: Box::new(PlainHeader), remote: Box::new(PlainHeader) },
            packet: Self::pair(level, side),
        }
    }

    fn initial(connection: &ConnectionId, side: Side) -> Keys {
        Self::keys(Level::Initial(hash(0, connection)), side)
    }
}

impl PacketKey for Key {
    fn encrypt(&self, packet: u64, buf: &mut [u8], _header_len: usize) {
        let end = buf.len().saturating_sub(TAG_LEN);
        buf[end..].copy_from_slice(&self.tag(packet));
    }

    fn decrypt(&self, packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let end = payload.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        if payload[end..] != self.tag(packet) {
            return Err(CryptoError);
        }
        payload.truncate(end);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

/// Header key that leaves headers unchanged.
struct PlainHeader;

impl HeaderKey for PlainHeader {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE_LEN
    }
}

/// Returns the FNV-1a hash, which distinguishes values and protects nothing.
fn hash(key: u64, data: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ key;
    data.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Key of stateless reset tokens, which identify an end that has lost a connection, and of address validation tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenKey(pub u64);

impl HmacKey for TokenKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, part) in signature_out.chunks_mut(8).enumerate() {
            let bytes = hash(self.0.wrapping_add(index as u64), data).to_be_bytes();
            part.copy_from_slice(&bytes[..part.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = vec![0; self.signature_len()];
        self.sign(data, &mut own);
        if own == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for TokenKey {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self(hash(self.0, random_bytes)))
    }
}

impl AeadKey for TokenKey {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let mut tag = [0; TAG_LEN];
        self.sign(additional_data, &mut tag);
        data.extend_from_slice(&tag);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], additional_data: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let end = data.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        let mut tag = [0; TAG_LEN];
        self.sign(additional_data, &mut tag);
        let (sealed, found) = data.split_at_mut(end);
        if *found == tag { Ok(sealed) } else { Err(CryptoError) }
    }
}

/// Opens sessions at either end.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl crypto::ClientConfig for Plain {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(PlainSession::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for Plain {
    fn initial_keys(&self, _version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(Key::initial(dst_cid, Side::Server))
    }

    fn retry_tag(&self, _version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        retry_tag(orig_dst_cid, &[packet])
    }

    fn start_session(self: Arc<Self>, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(PlainSession::new(Side::Server, params))
    }
}

fn retry_tag(connection: &ConnectionId, parts: &[&[u8]]) -> [u8; 16] {
    let key = parts.iter().fold(hash(0, connection), |key, part| hash(key, part));
    let mut tag = [0; TAG_LEN];
    TokenKey(key).sign(connection, &mut tag);
    tag
}

/// Next step of a session. The client's steps and the server's are interleaved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The server waits for the ClientHello.
    AwaitClientHello,
    /// The client writes its ClientHello, the server its ServerHello.
    WriteHello,
    /// The client waits for the ServerHello.
    AwaitServerHello,
    /// The client has read the ServerHello, and takes the keys of the handshake.
    TakeKeys,
    /// The server writes the rest of its flight.
    WriteRest,
    /// The client waits for that flight.
    AwaitRest,
    /// The client writes its Finished.
    WriteFinished,
    /// The server waits for the Finished.
    AwaitFinished,
    /// The server writes its tickets.
    WriteTickets,
    /// Nothing more.
    Done,
}

/// One end of the handshake.
struct PlainSession {
    side: Side,
    /// This end's transport parameters, encoded.
    own: Vec<u8>,
    /// Bytes of the peer's flights that were read and not yet parsed.
    read: Vec<u8>,
    peer: Option<TransportParameters>,
    step: Step,
    updates: u32,
}

fn out_of_turn() -> TransportError {
    let reason = "handshake message out of order".to_owned();
    TransportError { code: TransportErrorCode::PROTOCOL_VIOLATION, frame: None, reason }
}

/// Header of each message: its length, and that of the transport parameters at its beginning.
const MESSAGE_HEAD: usize = 8;

impl PlainSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut own = Vec::new();
        params.write(&mut own);
        let step = if side.is_client() { Step::WriteHello } else { Step::AwaitClientHello };
        Self { side, own, read: Vec::new(), peer: None, step, updates: 0 }
    }

    /// Writes a message of `len` bytes in addition to `parameters`.
    fn message(len: usize, parameters: &[u8], buf: &mut Vec<u8>) {
        let whole = len.max(MESSAGE_HEAD) + parameters.len();
        let start = buf.len();
        buf.extend_from_slice(&(whole as u32).to_be_bytes());
        buf.extend_from_slice(&(parameters.len() as u32).to_be_bytes());
        buf.extend_from_slice(parameters);
        buf.resize(start + whole, 0);
    }

    /// Returns the transport parameters of the next complete message read; empty if it has none. Returns `None` if no
    /// message is complete.
    fn next_message(&mut self) -> Option<Vec<u8>> {
        let number = |at: usize| Some(u32::from_be_bytes(self.read.get(at..at + 4)?.try_into().ok()?) as usize);
        let (whole, parameters) = (number(0)?, number(4)?);
        let message = self.read.get(..whole)?;
        let parameters = message.get(MESSAGE_HEAD..MESSAGE_HEAD + parameters)?.to_vec();
        self.read.drain(..whole);
        Some(parameters)
    }

    fn learn(&mut self, parameters: &[u8]) -> Result<(), TransportError> {
        self.peer = Some(TransportParameters::read(self.side, &mut &*parameters)?);
        Ok(())
    }
}

impl Session for PlainSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        Key::initial(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side == Side::Client).then_some(false)
    }

    fn is_handshaking(&self) -> bool {
        !matches!(self.step, Step::WriteTickets | Step::Done)
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.read.extend_from_slice(buf);
        let known = self.peer.is_some();
        while let Some(parameters) = self.next_message() {
            self.step = match self.step {
                Step::AwaitClientHello => {
                    self.learn(&parameters)?;
                    Step::WriteHello
                }
                Step::AwaitServerHello => Step::TakeKeys,
                Step::AwaitRest => {
                    self.learn(&parameters)?;
                    Step::WriteFinished
                }
                Step::AwaitFinished => Step::WriteTickets,
                // Tickets: no session is resumed.
                Step::Done if self.side.is_client() => Step::Done,
                _ => return Err(out_of_turn()),
            };
        }
        Ok(!known && self.peer.is_some())
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let (next, keys) = match self.step {
            Step::WriteHello if self.side.is_client() => {
                Self::message(FLIGHTS.client_hello, &self.own, buf);
                (Step::AwaitServerHello, None)
            }
            Step::WriteHello => {
                Self::message(FLIGHTS.server_hello, &[], buf);
                (Step::WriteRest, Some(Level::Handshake))
            }
            Step::TakeKeys => (Step::AwaitRest, Some(Level::Handshake)),
            Step::WriteRest => {
                Self::message(FLIGHTS.server_rest, &self.own, buf);
                (Step::AwaitFinished, Some(Level::Data(0)))
            }
            Step::WriteFinished => {
                Self::message(FLIGHTS.client_finished, &[], buf);
                (Step::Done, Some(Level::Data(0)))
            }
            Step::WriteTickets => {
                Self::message(FLIGHTS.tickets, &[], buf);
                (Step::Done, None)
            }
            _ => return None,
        };
        self.step = next;
        keys.map(|level| Key::keys(level, self.side))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.updates += 1;
        Some(Key::pair(Level::Data(self.updates), self.side))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some(end) = payload.len().checked_sub(TAG_LEN) else { return false };
        retry_tag(orig_dst_cid, &[&[header, &payload[..end]].concat()]) == payload[end..]
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
