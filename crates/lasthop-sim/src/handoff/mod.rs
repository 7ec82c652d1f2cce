//! A host that moves among base stations: configuration, schedule of handoffs, distances between stations, packets that
//! stations keep for the host, and effects at receivers. The simulator and the lab apply these rules to their own
//! links.

mod arrivals;
mod itinerary;
mod mobility;
mod stations;
mod ways;

pub use itinerary::{Course, Ground, Itinerary};
pub use mobility::{HandoffKind, LinkSession, Mobility, Moves, SoftState};
pub use stations::{Away, Copied, Stations, Towards};
pub use ways::{End, Fork, Ways};
