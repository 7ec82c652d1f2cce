//! The base station: what a scheme adds to the router's plain forwarding.

use std::net::Ipv4Addr;

use lasthop_proto::scheme::{BaseStation, Scheme};
use lasthop_sim::network::Element;

use super::error::LabError;
use super::namespace::Namespace;

/// Where a scheme's part at the base station goes.
pub struct Site<'l> {
    /// The router's namespace; devices, addresses and routes are up, and it forwards.
    pub namespace: &'l Namespace,
    /// The router's name in the scenario.
    pub router: &'l str,
    /// The device towards the lossy link.
    pub wireless: String,
    /// The router's other devices.
    pub wired: Vec<String>,
    /// The hosts beyond the lossy link.
    pub beyond: Vec<Ipv4Addr>,
    /// What the simulator runs there, with all its parameters.
    pub element: &'l Element,
}

/// A base station at work: it ends when this is dropped, before the namespace goes.
pub trait Running: Send {
    /// What it counted so far.
    ///
    /// # Errors
    ///
    /// When it cannot say: it may have ended too early.
    fn counts(&self) -> Result<StationCounts, LabError>;
}

/// What only the base station knows, over all flows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StationCounts {
    /// Retransmission timers that expired at a relay.
    pub relay_timeouts: u64,
    /// Duplicate acknowledgments that it kept back.
    pub dupacks_suppressed: u64,
}

/// Starts what `scheme` does at the base station, and returns when it is ready for packets.
///
/// It must not outlive this process, not even one that is killed: a child asks for a signal on its parent's death.
///
/// # Errors
///
/// When nothing here plays that part.
pub fn start_base_station(site: &Site<'_>, scheme: &Scheme) -> Result<Box<dyn Running>, LabError> {
    // Elements of the scenario's own ask for the gateway as well, also where the scheme only forwards.
    let (BaseStation::Forward | BaseStation::Local { .. } | BaseStation::Split { .. } | BaseStation::SelectiveRepeat) =
        scheme.base_station;
    Err(LabError::NeedsGateway { scheme: scheme.name, router: site.router.to_owned() })
}
