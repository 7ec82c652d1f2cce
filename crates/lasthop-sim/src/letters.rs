//! The bytes in QUIC's datagrams. Links, queues and elements handle packets without payload; what is in a datagram waits here
//! until it arrives.

use std::collections::BTreeMap;

use bytes::Bytes;
use lasthop_proto::packet::{Body, Packet, Side};

use crate::element::Role;
use crate::network::Network;

/// The bytes of the datagrams that are under way.
pub struct Letters {
    /// By flow, sender and number.
    under_way: BTreeMap<(u32, Side, u32), Bytes>,
    /// Whether what is lost on a link can still arrive.
    lost: Lost,
}

/// What becomes of a datagram that a link lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// It is gone.
    Forgotten,
    /// A link protocol may send it again.
    Kept,
}

impl Letters {
    /// None yet.
    pub fn new(network: &Network) -> Self {
        // Of a host that moves, several stations may have copies.
        let copies = network.mobility.is_some() || network.duplicates();
        let repeats = copies || network.elements.iter().any(|spec| spec.element.role() == Role::LinkEnd);
        Self { under_way: BTreeMap::new(), lost: if repeats { Lost::Kept } else { Lost::Forgotten } }
    }

    fn key(packet: &Packet) -> Option<(u32, Side, u32)> {
        match packet.body {
            Body::Quic { number, .. } => Some((packet.flow.0, packet.from, number)),
            Body::Tcp(_)
            | Body::Datagram { .. }
            | Body::Media { .. }
            | Body::Control
            | Body::Coded(_)
            | Body::Report(_) => None,
        }
    }

    /// Sends `packet`, which has `bytes` in it.
    pub fn post(&mut self, packet: &Packet, bytes: Bytes) {
        if let Some(key) = Self::key(packet) {
            self.under_way.insert(key, bytes);
        }
    }

    /// What is in `packet`, which has arrived; nothing when it arrives a second time.
    pub fn open(&mut self, packet: &Packet) -> Option<Bytes> {
        self.under_way.remove(&Self::key(packet)?)
    }

    /// A link lost `packet`.
    pub fn lose(&mut self, packet: &Packet) {
        if self.lost == Lost::Forgotten
            && let Some(key) = Self::key(packet)
        {
            self.under_way.remove(&key);
        }
    }
}
