//! A host that moves among base stations, as plain data.

use lasthop_proto::queue::QueueLimit;
use lasthop_proto::time::{Duration, Instant};

use crate::element::StateAtHandoff;
use crate::network::{LinkId, Network, NodeId};

/// A host that moves among base stations: where, when, and what is done for it.
///
/// A handoff takes `detection`, `registration` and `route_update`, one after the other. The host hears the station that it left no more from
/// the first instant on, is at the new one after registration, and packets from afar are sent there when routes have changed.
#[derive(Clone, PartialEq, Debug)]
pub struct Mobility {
    /// The host.
    pub host: NodeId,
    /// Its links, each to another router: its base stations. It begins at the first.
    pub stations: Vec<LinkId>,
    /// When it moves.
    pub moves: Moves,
    /// What happens to packets meanwhile.
    pub kind: HandoffKind,
    /// Until the host notices that it must have another station.
    pub detection: Duration,
    /// Until the new station has taken it on.
    pub registration: Duration,
    /// From then on until routes have changed; none: the links' delays on the way from the new station to where they change.
    pub route_update: Option<Duration>,
    /// Most that a station keeps for the host while it is not there.
    pub buffer: QueueLimit,
    /// What becomes of [soft state](crate::element::StateAtHandoff::Soft).
    pub soft_state: SoftState,
    /// What becomes of a [session](crate::element::StateAtHandoff::Session).
    pub link_session: LinkSession,
    /// What moving [hard state](crate::element::StateAtHandoff::Hard) takes besides the time that its bytes are on the wire.
    pub state_setup: Duration,
}

/// When a host moves. By a timetable or periodically it goes to the next station, and from the last to the first.
#[derive(Clone, PartialEq, Debug)]
pub enum Moves {
    /// At these times, which rise.
    At(Vec<Instant>),
    /// Again and again, so far apart.
    Every(Duration),
    /// At exponentially distributed distances with this mean, to one of the other stations, each as likely as another. Drawn from
    /// `mobility/moves`.
    Mean(Duration),
}

/// What becomes of packets for a host that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandoffKind {
    /// What is in the old station's queue, and what comes there until routes have changed, is lost. Routes change at the host's peers.
    Hard,
    /// The old station keeps it, and forwards it when it hears of the new one.
    Forwarding,
    /// All stations get what is for the host, and those where it is not keep the latest. The new one sends what the host has not got. No
    /// route changes.
    Multicast,
    /// As [`Self::Hard`], but routes change at the router where the ways to the two stations part.
    Hierarchical,
}

/// What becomes of soft state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SoftState {
    /// The new station begins without it.
    Lost,
    /// The new station has it when the host comes.
    Mirrored,
}

/// What becomes of the session between the two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkSession {
    /// Both ends begin anew.
    Anew,
    /// It goes on between the host and the new station.
    Moved,
}

impl Mobility {
    /// The routers at which the stations are.
    pub fn routers<'n>(&'n self, network: &'n Network) -> impl Iterator<Item = NodeId> + 'n {
        self.stations.iter().map(|link| {
            let [first, second] = network.links[link.0].ends;
            if first == self.host { second } else { first }
        })
    }

    /// Whether an element's state goes along to the new station.
    pub fn moves_state(&self, state: StateAtHandoff) -> bool {
        match state {
            StateAtHandoff::Hard => true,
            StateAtHandoff::Soft => self.soft_state == SoftState::Mirrored,
            StateAtHandoff::Session => self.link_session == LinkSession::Moved,
            StateAtHandoff::Anew => false,
        }
    }

    /// All its links but that of the station `at`.
    pub fn others(&self, at: usize) -> Vec<LinkId> {
        self.stations.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, link)| *link).collect()
    }
}
