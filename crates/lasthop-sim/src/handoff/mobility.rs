//! Configuration of a host that moves among base stations.

use lasthop_proto::queue::QueueLimit;
use lasthop_proto::time::{Duration, Instant};

use crate::element::StateAtHandoff;
use crate::network::{LinkId, Network, NodeId};

/// A host that moves among base stations: the stations, the times of its moves, and the handling of its packets.
///
/// A handoff takes `detection`, `registration` and `route_update`, one after another. From its start, the host receives
/// nothing from the old station. It is attached to the new one after registration, and remote packets are routed there
/// after the update.
#[derive(Clone, PartialEq, Debug)]
pub struct Mobility {
    /// The moving host.
    pub host: NodeId,
    /// Links of the host, each to another router, its base stations. It starts at the first.
    pub stations: Vec<LinkId>,
    /// Times of the host's moves.
    pub moves: Moves,
    /// Handling of packets during a handoff.
    pub kind: HandoffKind,
    /// Time until the host detects that it needs another station.
    pub detection: Duration,
    /// Time from detection until the new station has registered the host.
    pub registration: Duration,
    /// Time from registration until routes change. If `None`, it is the sum of the links' delays from the new station
    /// to the place of the change.
    pub route_update: Option<Duration>,
    /// Maximum backlog that a station keeps for the host while it is away.
    pub buffer: QueueLimit,
    /// Handling of [soft state](crate::element::StateAtHandoff::Soft).
    pub soft_state: SoftState,
    /// Handling of a [session](crate::element::StateAtHandoff::Session).
    pub link_session: LinkSession,
    /// Time to move [hard state](crate::element::StateAtHandoff::Hard), in addition to the transmission of its bytes.
    pub state_setup: Duration,
}

/// Times of a host's moves. With a timetable or periodic moves, it goes to the next station, and from the last to the
/// first.
#[derive(Clone, PartialEq, Debug)]
pub enum Moves {
    /// Timetable: these times, in increasing order.
    At(Vec<Instant>),
    /// Periodically.
    Every(Duration),
    /// Exponentially distributed intervals with this mean, to one of the other stations with equal probability. Drawn
    /// from `mobility/moves`.
    Mean(Duration),
}

/// Handling of packets for a moving host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoffKind {
    /// Packets in the old station's queue, and those that arrive there until routes change, are lost. Routes change at
    /// the host's peers.
    Hard,
    /// The old station keeps packets for the host, and forwards them when it learns of the new station.
    Forwarding,
    /// All stations receive the packets for the host; those where it is absent keep the latest. The new one sends those
    /// that the host lacks. Routes do not change.
    Multicast,
    /// As [`Self::Hard`], but routes change at the router where the paths to the two stations diverge.
    Hierarchical,
}

/// Handling of soft state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoftState {
    /// The new station starts without the state.
    Lost,
    /// The new station has the state when the host arrives.
    Mirrored,
}

/// Handling of the session between the two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkSession {
    /// Both ends start without state.
    Anew,
    /// The session continues between the host and the new station.
    Moved,
}

impl Mobility {
    /// Returns the routers of the stations.
    pub fn routers<'n>(&'n self, network: &'n Network) -> impl Iterator<Item = NodeId> + 'n {
        self.stations.iter().map(|link| {
            let [first, second] = network.links[link.0].ends;
            if first == self.host { second } else { first }
        })
    }

    /// Returns whether an element's state moves to the new station.
    pub fn moves_state(&self, state: StateAtHandoff) -> bool {
        match state {
            StateAtHandoff::Hard => true,
            StateAtHandoff::Soft => self.soft_state == SoftState::Mirrored,
            StateAtHandoff::Session => self.link_session == LinkSession::Moved,
            StateAtHandoff::Anew => false,
        }
    }

    /// Returns all links of the host except that of the station `at`.
    pub fn others(&self, at: usize) -> Vec<LinkId> {
        self.stations.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, link)| *link).collect()
    }
}
