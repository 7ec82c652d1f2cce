//! State that the supervisor shares with the threads that report it.

use lasthop_daemon::supervision;
use lasthop_settings::tunnel::Tunnel;

use crate::daemon::snapshot::Snapshot;
use crate::daemon::usage::Usages;

/// State of the tunnel.
pub type State = supervision::State<Tunnel, Snapshot, Usages>;
