//! Actions of a QUIC connection's ends that packets in the network do not reveal, since they are encrypted. They are
//! recorded when a packet is sealed, and when the window is reduced.
//!
//! The links recognize a datagram by its last bytes, the tag of its last packet.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::BytesMut;
use lasthop_proto::packet::Side;
use lasthop_quic::{Carried, SentSoFar};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn::{ConnectError, ConnectionId};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{RttEstimator, TransportError};

/// Bytes of a packet's tag under each of TLS 1.3's ciphers (RFC 9001 §5.3).
const TAG_LEN: usize = 16;
/// Maximum number of packets tracked per end. It exceeds every window of the lab.
const MOST_PACKETS: usize = 1 << 17;

type Tag = [u8; TAG_LEN];

/// Contents of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Letter {
    /// Number among the datagrams of its sender.
    pub number: u32,
    /// Bytes of stream data.
    pub data: u32,
    /// Indicates whether some of these bytes are retransmitted.
    pub resent: bool,
}

/// Record of both ends of a connection.
#[derive(Default)]
pub struct Tally {
    ends: [Mutex<End>; 2],
}

#[derive(Default)]
struct End {
    sent: SentSoFar,
    /// Contents of packets by tag, with their datagram's number once a link has seen it.
    packets: BTreeMap<Tag, (Carried, Option<u32>)>,
    /// Tags of these packets, oldest first.
    order: VecDeque<Tag>,
    datagrams: u32,
    totals: Totals,
}

/// Totals of one end, or of both.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Number of packets with retransmitted stream data.
    pub retransmissions: u64,
    /// Number of retransmitted bytes.
    pub resent_bytes: u64,
    /// Number of window reductions by losses or marks.
    pub reductions: u64,
}

impl Tally {
    fn end(&self, side: Side) -> MutexGuard<'_, End> {
        // The counters remain valid if a thread panics.
        self.ends[side.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `side` sealed a packet with these contents and this tag.
    fn sealed(&self, side: Side, carried: impl FnOnce(&mut SentSoFar) -> Carried, tag: Tag) {
        let mut end = self.end(side);
        let carried = carried(&mut end.sent);
        end.totals.retransmissions += u64::from(carried.resent > 0);
        end.totals.resent_bytes += carried.resent;
        if end.order.len() >= MOST_PACKETS
            && let Some(oldest) = end.order.pop_front()
        {
            end.packets.remove(&oldest);
        }
        end.packets.insert(tag, (carried, None));
        end.order.push_back(tag);
    }

    /// Returns the contents of the datagram of `side` with that payload; `None` if it is unknown.
    pub fn letter(&self, side: Side, payload: &[u8]) -> Option<Letter> {
        let tag: Tag = *payload.last_chunk()?;
        let mut end = self.end(side);
        let next = end.datagrams;
        let (carried, number) = end.packets.get_mut(&tag)?;
        let (carried, seen) = (*carried, number.is_some());
        let number = *number.get_or_insert(next);
        end.datagrams += u32::from(!seen);
        let data = u32::try_from(carried.fresh + carried.resent).unwrap_or(u32::MAX);
        Some(Letter { number, data, resent: carried.resent > 0 })
    }

    /// Records that the peer of `side` has received all of a stream.
    pub fn forget(&self, side: Side, stream: u64) {
        self.end(side).sent.forget(stream);
    }

    /// Returns the totals of both ends so far.
    pub fn totals(&self) -> Totals {
        let [a, b] = [Side::Initiator, Side::Acceptor].map(|side| self.end(side).totals);
        Totals {
            retransmissions: a.retransmissions + b.retransmissions,
            resent_bytes: a.resent_bytes + b.resent_bytes,
            reductions: a.reductions + b.reductions,
        }
    }
}

/// Access of one end to a tally.
#[derive(Clone)]
struct Ledger {
    tally: Arc<Tally>,
    side: Side,
}

impl Ledger {
    fn watch(&self, keys: Keys) -> Keys {
        let Keys { header, packet } = keys;
        Keys { header, packet: self.watch_pair(packet) }
    }

    fn watch_pair(&self, pair: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: Box::new(Seal { inner: pair.local, ledger: self.clone() }), remote: pair.remote }
    }

    fn session(self, inner: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(Watched { inner, ledger: self })
    }
}

/// A client's TLS configuration that records sealed packets.
pub struct Client {
    inner: Arc<QuicClientConfig>,
    ledger: Ledger,
}

impl Client {
    /// Wraps `inner`.
    pub fn new(inner: QuicClientConfig, tally: Arc<Tally>) -> Self {
        Self { inner: Arc::new(inner), ledger: Ledger { tally, side: Side::Initiator } }
    }
}

impl ClientConfig for Client {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(self.ledger.clone().session(self.inner.clone().start_session(version, server_name, params)?))
    }
}

/// A server's TLS configuration that records sealed packets.
pub struct Server {
    inner: Arc<QuicServerConfig>,
    ledger: Ledger,
}

impl Server {
    /// Wraps `inner`.
    pub fn new(inner: QuicServerConfig, tally: Arc<Tally>) -> Self {
        Self { inner: Arc::new(inner), ledger: Ledger { tally, side: Side::Acceptor } }
    }
}

impl ServerConfig for Server {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        self.ledger.clone().session(self.inner.clone().start_session(version, params))
    }
}

/// A TLS session that wraps the keys and delegates everything else.
struct Watched {
    inner: Box<dyn Session>,
    ledger: Ledger,
}

impl Session for Watched {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: quinn::Side) -> Keys {
        self.ledger.watch(self.inner.initial_keys(dst_cid, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        self.inner.write_handshake(buf).map(|keys| self.ledger.watch(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys().map(|pair| self.ledger.watch_pair(pair))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// A key that records the packets that it seals.
struct Seal {
    inner: Box<dyn PacketKey>,
    ledger: Ledger,
}

impl PacketKey for Seal {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let Ledger { tally, side } = &self.ledger;
        let frames = header_len..buf.len().saturating_sub(self.inner.tag_len());
        let plain = buf.get(frames).map(<[u8]>::to_vec).unwrap_or_default();
        self.inner.encrypt(packet, buf, header_len);
        if let Some(tag) = buf.last_chunk() {
            tally.sealed(*side, |sent| sent.read_frames(&plain), *tag);
        }
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}

/// A factory of congestion controls that record window reductions.
pub struct Reductions {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    ledger: Ledger,
}

impl Reductions {
    /// Wraps the congestion controls that `inner` creates for `side`.
    pub fn new(inner: Arc<dyn ControllerFactory + Send + Sync>, side: Side, tally: Arc<Tally>) -> Self {
        Self { inner, ledger: Ledger { tally, side } }
    }
}

impl ControllerFactory for Reductions {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        Box::new(Control { inner, ledger: self.ledger.clone() })
    }
}

struct Control {
    inner: Box<dyn Controller>,
    ledger: Ledger,
}

impl Controller for Control {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest_packet_num_acked: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        if self.inner.window() < before {
            let Ledger { tally, side } = &self.ledger;
            tally.end(*side).totals.reductions += 1;
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), ledger: self.ledger.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
