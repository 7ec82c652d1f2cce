//! Types of the interface between a tunnel and its driver.

use std::net::SocketAddr;
use std::ops::Range;

use ipnet::IpNet;
use lasthop_proto::link::hybrid::{PathId, Terms};
use lasthop_proto::time::Duration;

use crate::carrier::Carrier;
use crate::hello::Capabilities;
use crate::keys::{PresharedKey, PublicKey};
use crate::noise::Credentials;

pub use super::refusals::Refusal;

/// Maximum number of peers of one end.
pub const MOST_PEERS: usize = 256;

/// Identifier of a peer: its slot, which is reused after the peer was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// Configuration of this end.
#[derive(Clone, Debug)]
pub struct TunnelConfig {
    /// Identity of this end.
    pub credentials: Credentials,
    /// Capabilities of this end; a session uses those that both ends have.
    pub capabilities: Capabilities,
    /// Carrier of this end's datagrams.
    pub carrier: Carrier,
    /// MTU of the interface towards the peers, in bytes: of an IP packet, or after the Ethernet header.
    pub link_mtu: u16,
}

/// Identifier of one of the driver's sockets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct SocketId(pub u8);

/// Origin of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Address of the sender.
    pub address: SocketAddr,
    /// Socket on which the datagram arrived.
    pub socket: SocketId,
}

impl From<SocketAddr> for Origin {
    /// Returns the origin of a datagram that arrived on the first socket.
    fn from(address: SocketAddr) -> Self {
        Self { address, socket: SocketId::default() }
    }
}

/// Configuration of a path to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathConfig {
    /// Address at which the peer is called; `None` if the peer calls.
    pub endpoint: Option<SocketAddr>,
    /// Socket from which datagrams are sent.
    pub socket: SocketId,
}

impl PathConfig {
    /// Returns a path to `endpoint` by the first socket.
    pub fn to(endpoint: Option<SocketAddr>) -> Self {
        Self { endpoint, socket: SocketId::default() }
    }
}

/// Configuration of a peer.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Public key of the peer.
    pub key: PublicKey,
    /// Preshared key; all zeros for none.
    pub preshared: PresharedKey,
    /// Paths to the peer, at least one and at most
    /// [`MOST_PATHS`](lasthop_proto::link::hybrid::MOST_PATHS). Both ends number them alike; a session uses those that
    /// both have.
    pub paths: Vec<PathConfig>,
    /// Inner networks assigned to the peer.
    pub allowed: Vec<IpNet>,
    /// Time without traffic after which a keep-alive is sent, so that address translators keep their entry; the session
    /// then starts at once. `None`: it starts when there is data to send.
    pub keepalive: Option<Duration>,
}

/// Reason why a peer cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeerError {
    /// The peer has this end's own key.
    #[error("the peer's public key is this end's own")]
    Own,
    /// Another peer has the same key.
    #[error("another peer has the same public key")]
    Key,
    /// Another peer has one of the peer's prefixes.
    #[error("allowed network {0} is already assigned to another peer")]
    Prefix(IpNet),
    /// There are [`MOST_PEERS`] peers already.
    #[error("too many peers; the maximum is {MOST_PEERS}")]
    Many,
    /// The number of paths is 0, or exceeds the maximum.
    #[error("a peer has 1 to {} paths", lasthop_proto::link::hybrid::MOST_PATHS)]
    Paths,
}

/// Purpose of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A handshake message or a cookie.
    Handshake,
    /// A keep-alive, a challenge or an answer.
    Control,
    /// A probe of the path's MTU: if the system refuses it as too big, call
    /// [`Tunnel::too_big`](super::Tunnel::too_big).
    Probe,
}

/// Datagram that the session sends itself. It must not be fragmented.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Destination.
    pub to: SocketAddr,
    /// Socket from which to send.
    pub socket: SocketId,
    /// UDP payload.
    pub bytes: Vec<u8>,
    /// Purpose.
    pub purpose: Purpose,
}

/// Event for the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A session has started; packets can be sent.
    Up {
        /// The peer.
        peer: PeerId,
        /// Common capabilities of both ends.
        capabilities: Capabilities,
        /// Number of paths that both ends have. It changes only with [`Start::Fresh`].
        paths: u8,
        /// Continuity of the peer's state.
        start: Start,
    },
    /// The last session has ended: it expired, or the peer closed it.
    Down {
        /// The peer.
        peer: PeerId,
    },
    /// No response for [`GIVE_UP`](crate::GIVE_UP).
    Unreachable {
        /// The peer.
        peer: PeerId,
    },
    /// The peer has another address on a path: round-trip time and path MTU must be measured again.
    Path {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// Address of the peer.
        address: SocketAddr,
        /// Bytes of UDP payload that pass initially.
        size: u16,
    },
    /// A path's MTU has changed.
    Size {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// Bytes of UDP payload that pass.
        size: u16,
    },
    /// The peer announced the terms on which it uses a path. It may repeat an announcement.
    Terms {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// Terms of the peer.
        terms: Terms,
    },
    /// The peer has seen a later time of our clock, which was set back. The handshake continues with that time.
    ClockBehind {
        /// The peer.
        peer: PeerId,
    },
    /// A handshake failed; reported at most once in ten seconds for each cause.
    Refused {
        /// Address of the other end.
        address: SocketAddr,
        /// Cause.
        cause: Refusal,
        /// Number of failures with this cause since the last report, without this one.
        others: u64,
    },
    /// The peer only supports another version.
    Version {
        /// The peer.
        peer: PeerId,
        /// Version that the peer uses.
        version: u8,
    },
}

/// Continuity of a peer's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The peer has restarted since the last session, or this is the first one: the link restarts.
    Fresh,
    /// Keys were changed: the link continues.
    Rekeyed,
}

/// Result of handling a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Authenticated frames for the link.
    Link {
        /// Sender.
        peer: PeerId,
        /// Path of the packet.
        path: PathId,
        /// Number of the packet on its path.
        number: u64,
        /// Range of the frames in the datagram.
        frames: Range<usize>,
    },
    /// The session has handled the datagram.
    Taken,
    /// The datagram was dropped without an answer, or with a cookie.
    Dropped(Drop),
}

/// Reason why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// The datagram is not the tunnel's.
    Form,
    /// A handshake message from a sender that does not know our public key.
    Mac,
    /// Too many handshakes; a cookie may be the answer.
    Load,
    /// No session has that index.
    Index,
    /// The session has expired.
    Expired,
    /// The datagram was received before, or is too old to tell.
    Replayed,
    /// The datagram is damaged, or sealed with another key.
    Damaged,
    /// A handshake of a sender that is not a peer.
    Stranger,
    /// A handshake with a timestamp below an earlier one.
    Stale,
    /// A control frame of a later version.
    Unknown,
}

/// Counters of datagrams since the start, by result.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Frames for the link.
    pub link: u64,
    /// Datagrams handled by the session.
    pub taken: u64,
    /// Dropped datagrams, in the order of [`Drop`].
    pub dropped: [u64; 10],
    /// Completed handshakes.
    pub handshakes: u64,
    /// Cookies sent.
    pub cookies: u64,
}

/// Reason why a datagram cannot be sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsealed {
    /// The peer does not exist.
    #[error("unknown peer")]
    Peer,
    /// There is no session yet: the next [`Tunnel::handle_timeout`](super::Tunnel::handle_timeout) starts a
    /// handshake.
    #[error("there is no session yet")]
    Session,
    /// The peer's address is not known yet.
    #[error("the peer's address is unknown")]
    Address,
    /// The number does not exceed that of the last datagram: no number may be used twice with one key.
    #[error("the packet number was already used")]
    Number,
    /// The datagram is too short for header and tag.
    #[error("the datagram lacks space for header and tag")]
    Short,
}
