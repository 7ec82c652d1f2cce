//! A host that moves among base stations, without what carries its packets: what is planned, when each step of a handoff is due, how far it
//! is between stations, what these keep for the host, and what receivers notice. The simulator's links and the lab's are moved by the same
//! rules.

mod arrivals;
mod itinerary;
mod mobility;
mod stations;
mod ways;

pub use itinerary::{Course, Ground, Itinerary};
pub use mobility::{HandoffKind, LinkSession, Mobility, Moves, SoftState};
pub use stations::{Away, Copied, Stations, Towards};
pub use ways::{End, Fork, Ways};
