//! Contents of QUIC's datagrams. Links, queues and elements handle packets without payload; the bytes stay here until
//! the datagram arrives.

use std::collections::BTreeMap;

use bytes::Bytes;
use lasthop_proto::packet::{Body, Packet, Side};

use crate::element::Role;
use crate::network::Network;

/// Contents of the datagrams in flight.
pub struct Letters {
    /// Contents by flow, sender and number.
    under_way: BTreeMap<(u32, Side, u32), Bytes>,
    /// Handling of datagrams that a link lost.
    lost: Lost,
}

/// Handling of a datagram that a link lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// Discarded.
    Forgotten,
    /// Kept: a link protocol may retransmit it, or a copy may arrive.
    Kept,
}

impl Letters {
    /// Creates an empty store.
    pub fn new(network: &Network) -> Self {
        // Several stations of a moving host may have copies.
        let copies = network.mobility.is_some() || network.duplicates();
        let resends = |role| matches!(role, Role::LinkEnd | Role::DatagramRepair);
        let repeats = copies || network.elements.iter().any(|spec| resends(spec.element.role()));
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

    /// Stores the contents of `packet`, which is being sent.
    pub fn post(&mut self, packet: &Packet, bytes: Bytes) {
        if let Some(key) = Self::key(packet) {
            self.under_way.insert(key, bytes);
        }
    }

    /// Returns the contents of `packet`, which has arrived; `None` for a duplicate.
    pub fn open(&mut self, packet: &Packet) -> Option<Bytes> {
        self.under_way.remove(&Self::key(packet)?)
    }

    /// Records that a link lost `packet`.
    pub fn lose(&mut self, packet: &Packet) {
        if self.lost == Lost::Forgotten
            && let Some(key) = Self::key(packet)
        {
            self.under_way.remove(&key);
        }
    }
}
