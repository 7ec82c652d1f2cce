//! What the driver gives to a tunnel and gets from it.

use std::net::SocketAddr;
use std::ops::Range;

use ipnet::IpNet;
use lasthop_proto::time::Duration;

use crate::carrier::Carrier;
use crate::hello::Capabilities;
use crate::keys::{PresharedKey, PublicKey};
use crate::noise::Credentials;

/// Most peers of one end.
pub const MOST_PEERS: usize = 256;

/// A peer of this end, by the order in which it was added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// What this end is.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// Its identity.
    pub credentials: Credentials,
    /// What it can do; peers use what both can.
    pub capabilities: Capabilities,
    /// What carries its datagrams.
    pub carrier: Carrier,
    /// The MTU of the interface towards the peers: bytes of an IP packet, or behind the Ethernet header.
    pub link_mtu: u16,
}

/// What is known of a peer beforehand.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its identity.
    pub key: PublicKey,
    /// What both share besides; all zeros for nothing.
    pub preshared: PresharedKey,
    /// Where it is called; none for a peer that calls.
    pub endpoint: Option<SocketAddr>,
    /// Inner addresses that are its own.
    pub allowed: Vec<IpNet>,
    /// A sign of life after so long without traffic, so that address translators keep their entry; and the session is begun
    /// at once. None: it is begun when there is something to send.
    pub keepalive: Option<Duration>,
}

/// Why a peer cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerError {
    /// It has this end's own key.
    #[error("the peer's public key is this end's own")]
    Own,
    /// Another peer has its key.
    #[error("another peer has the same public key")]
    Key,
    /// Another peer has one of its prefixes.
    #[error("{0} is allowed to another peer already")]
    Prefix(IpNet),
    /// There are [`MOST_PEERS`].
    #[error("there are {MOST_PEERS} peers already")]
    Many,
}

/// Why a datagram is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A handshake message or a cookie.
    Handshake,
    /// A keep-alive, a challenge or an answer.
    Control,
    /// A probe of the path's MTU: if the system finds it too big, tell [`Tunnel::too_big`](super::Tunnel::too_big).
    Probe,
}

/// A datagram that the session sends of its own accord. None may be fragmented.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// UDP payload.
    pub bytes: Vec<u8>,
    /// What for.
    pub purpose: Purpose,
}

/// What the driver should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Packets can be sent.
    Up {
        /// To whom.
        peer: PeerId,
        /// What both can do.
        capabilities: Capabilities,
        /// Whether the peer is one that was met before, or has forgotten everything.
        start: Start,
    },
    /// The last session ended: by age, or because the peer closed it.
    Down {
        /// With whom.
        peer: PeerId,
    },
    /// No response for [`GIVE_UP`](crate::GIVE_UP).
    Unreachable {
        /// From whom.
        peer: PeerId,
    },
    /// The peer is reached at another address: round trip and path MTU start anew.
    Path {
        /// Who.
        peer: PeerId,
        /// Where.
        address: SocketAddr,
        /// Bytes of UDP payload that pass for now.
        size: u16,
    },
    /// The path lets datagrams of another size pass.
    Size {
        /// To whom.
        peer: PeerId,
        /// Bytes of UDP payload.
        size: u16,
    },
    /// The peer has seen a later clock of ours: it was set back. The handshake goes on with the peer's.
    ClockBehind {
        /// Who.
        peer: PeerId,
    },
    /// Somebody calls who is no peer, or who means another end; told of one in ten seconds.
    Refused {
        /// From where.
        address: SocketAddr,
        /// The caller's public key; none where the call was made for another public key than this end's.
        key: Option<PublicKey>,
    },
    /// The peer speaks another version only.
    Version {
        /// Who.
        peer: PeerId,
        /// Which.
        version: u8,
    },
}

/// Whether a peer's memory goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The peer has started since the last session, or this is the first: the link begins anew.
    Fresh,
    /// Keys were changed: the link goes on.
    Rekeyed,
}

/// What became of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Frames for the link; they are authentic.
    Link {
        /// From whom.
        peer: PeerId,
        /// The packet's number.
        number: u64,
        /// Where they stand in the datagram that was given.
        frames: Range<usize>,
    },
    /// The session took it.
    Taken,
    /// It was dropped without an answer, or with a cookie.
    Dropped(Drop),
}

/// Why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// It is none of ours.
    Form,
    /// A handshake message from somebody who does not know our public key.
    Mac,
    /// Too many handshakes; a cookie may be the answer.
    Load,
    /// No session has that index.
    Index,
    /// The session is too old.
    Expired,
    /// It was seen before, or is too old to tell.
    Replayed,
    /// It is damaged, or sealed by somebody else.
    Damaged,
    /// A handshake of somebody who is no peer.
    Stranger,
    /// A handshake with a timestamp below one that was seen before.
    Stale,
    /// A control frame of a later version.
    Unknown,
}

/// Datagrams since the start, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Frames for the link.
    pub link: u64,
    /// What the session took.
    pub taken: u64,
    /// What was dropped, in the order of [`Drop`].
    pub dropped: [u64; 10],
    /// Handshakes finished.
    pub handshakes: u64,
    /// Cookies sent.
    pub cookies: u64,
}

/// Why a datagram cannot be sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsealed {
    /// There is no such peer.
    #[error("there is no such peer")]
    Peer,
    /// No session yet: a handshake is begun by the next [`Tunnel::handle_deadline`](super::Tunnel::handle_deadline).
    #[error("there is no session yet")]
    Session,
    /// The peer's address is not known yet.
    #[error("the peer's address is not known")]
    Address,
    /// The number is not above that of the last datagram: under one key no number is used twice.
    #[error("the packet number was used before")]
    Number,
    /// It is too short for header and tag.
    #[error("the datagram has no room for header and tag")]
    Short,
}
