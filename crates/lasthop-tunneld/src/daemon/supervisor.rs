//! Process that the operator starts. It reads keys, restarts the worker when needed, and answers on the control socket.
//! Everything else that a start creates disappears with the worker.

use std::mem::discriminant;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use lasthop_daemon::child::{Worker, WorkerProgram, let_end};
use lasthop_daemon::finding::Finding;
use lasthop_daemon::supervision::{self, Answers, Daemon, Interfaces, Team};
use lasthop_proto::link::hybrid::{Terms, Tier};
use lasthop_settings::tunnel::{Mode, Security, Tunnel};
use lasthop_settings::values::Choice;

use crate::daemon::order::Order;
use crate::daemon::snapshot::Snapshot;
use crate::daemon::state::State;
use crate::daemon::usage::{Meter, PathUsage, Usages};
use crate::daemon::{control, metrics};
use crate::plan::{Plan, PlanError};
use crate::{WHO, check};

/// Reason why the tunnel does not run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
    /// Keys or hosts are missing.
    #[error("{}{}: {error}", path.display(), error.line().map_or(String::new(), |line| format!(":{line}")))]
    Plan {
        /// File of the configuration.
        path: PathBuf,
        /// The problem.
        error: PlanError,
    },
    /// A resource is not available.
    #[error("{}: {}: {}", path.display(), finding.subject, finding.detail)]
    Refused {
        /// File of the configuration.
        path: PathBuf,
        /// The problem.
        finding: Finding,
    },
    /// A reason common to all daemons.
    #[error(transparent)]
    Common(#[from] supervision::Error),
}

fn listen(tunnel: &Tunnel) -> Option<SocketAddr> {
    if let Mode::Tun { listen, .. } = &tunnel.mode { Some(*listen) } else { None }
}

fn address(tunnel: &Tunnel) -> Option<&[IpNet]> {
    if let Mode::Tun { address, .. } = &tunnel.mode { Some(address) } else { None }
}

fn interface(tunnel: &Tunnel) -> Option<&str> {
    if let Mode::Bridge { interface } = &tunnel.mode { Some(interface) } else { None }
}

fn trusted(tunnel: &Tunnel) -> Option<&str> {
    if let Security::None { trusted_interface, .. } = &tunnel.security { Some(trusted_interface) } else { None }
}

fn silence(tunnel: &Tunnel) -> Option<lasthop_proto::time::Duration> {
    tunnel.peers.first().map(|peer| peer.silence)
}

/// Describes what [`run`] would create, without creating it.
///
/// # Errors
///
/// Returns an error if a start must fail, regardless of the user that starts it.
pub fn dry_run(path: &Path) -> Result<String, SupervisorError> {
    let (tunnel, plan) = Supervisor::load(path)?;
    match check::refusal(&tunnel) {
        Some(finding) => Err(SupervisorError::Refused { path: path.to_owned(), finding }),
        None => Ok(plan.describe()),
    }
}

/// Runs the tunnel until SIGTERM or SIGINT. Calls `tell_level` with the log level of each configuration that is
/// applied.
///
/// # Errors
///
/// Returns an error if it cannot start or continue.
pub fn run(path: &Path, program: WorkerProgram, tell_level: &dyn Fn(&str)) -> Result<(), SupervisorError> {
    supervision::run(path, program, tell_level, |state, plan, _| {
        let meter = Meter::new(&state.lock().configuration);
        Ok(Supervisor { plan, meter, metered: None })
    })
}

struct Supervisor {
    plan: Plan,
    meter: Meter,
    /// Time at which the data volumes were last added.
    metered: Option<Instant>,
}

/// Interval between additions of data volumes: that of a worker's reports.
const METER: Duration = Duration::from_millis(250);

impl Supervisor {
    /// Adds the data volumes of paths, and limits paths whose cap is nearly or entirely used.
    fn meter(&mut self, team: &mut Team<Self>) {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let orders = {
            let mut state = team.state().lock();
            let (tunnel, snapshot) = (&state.configuration, &state.snapshot);
            let has_caps = tunnel.peers.iter().flat_map(|peer| &peer.paths).any(|path| path.cap.is_some());
            let mut paths = snapshot.peers.iter().flat_map(|peer| &peer.paths);
            // A reload may have removed the caps of limited paths.
            if !has_caps && paths.all(|path| Some(path.limit.as_str()) == Tier::Primary.name()) {
                return;
            }
            self.meter.add(wall, tunnel, snapshot);
            let usages = self.meter.usages(tunnel);
            let orders = limits(snapshot, &usages);
            state.own = usages;
            orders
        };
        // Without the lock: the disk may be slow.
        self.meter.store(Instant::now());
        for order in orders {
            if let Some(worker) = team.keeper().working() {
                // A worker that does not receive it does not report the limit, and gets it again.
                let _ = worker.channel.send(&order);
            }
        }
    }
}

/// Returns the orders that limit paths according to their data volumes.
fn limits(snapshot: &Snapshot, usages: &Usages) -> Vec<Order> {
    let mut orders = Vec::new();
    for peer in &snapshot.peers {
        for (path, number) in peer.paths.iter().zip(0..) {
            let usage = usages.get(&(peer.name.clone(), path.name.clone()));
            let tier = usage.map_or(Tier::Primary, PathUsage::tier);
            if Some(path.limit.as_str()) != tier.name() {
                orders.push(Order::Limit { peer: peer.name.clone(), path: number, terms: Terms::of(tier) });
            }
        }
    }
    orders
}

impl Daemon for Supervisor {
    type Configuration = Tunnel;
    type Plan = Plan;
    type Order = Order;
    type Snapshot = Snapshot;
    type Own = Usages;
    type Error = SupervisorError;

    const WHO: &'static str = WHO;
    const LOSS: &'static str = "; its device is removed";
    const ANSWERS: Answers<State> =
        Answers { metrics: metrics::encode, status: control::status, report: control::report };

    fn load(path: &Path) -> Result<(Tunnel, Plan), SupervisorError> {
        let tunnel = Tunnel::load(path)?;
        let plan = Plan::new(&tunnel).map_err(|error| SupervisorError::Plan { path: path.to_owned(), error })?;
        Ok((tunnel, plan))
    }

    fn interfaces(tunnel: &Tunnel) -> Interfaces<'_> {
        let Tunnel { control, control_group, metrics, log, .. } = tunnel;
        Interfaces { control, control_group: control_group.as_ref(), metrics: *metrics, log }
    }

    fn fixed(&self, old: &Tunnel, (tunnel, plan): (&Tunnel, &Plan)) -> Vec<(&'static str, bool)> {
        vec![
            ("mode", discriminant(&tunnel.mode) != discriminant(&old.mode)),
            ("listen", listen(tunnel) != listen(old)),
            ("interface", interface(tunnel) != interface(old)),
            ("security", discriminant(&tunnel.security) != discriminant(&old.security)),
            ("trusted_interface", trusted(tunnel) != trusted(old)),
            ("name", plan.own.key().is_none() && plan.own != self.plan.own),
            ("device", tunnel.device != old.device),
            // It is compiled into a program in the kernel.
            ("peer.silence", interface(tunnel).is_some() && silence(tunnel) != silence(old)),
            ("address", address(tunnel) != address(old)),
            ("usage", tunnel.usage != old.usage),
            ("peer.path.interface", plan.interfaces != self.plan.interfaces),
        ]
    }

    /// Includes the last addresses of the peers, so that the worker can call peers without an endpoint.
    fn first_order(&mut self, last: &Snapshot) -> Order {
        for known in &last.peers {
            let peer = self.plan.peers.iter_mut().find(|peer| peer.name == known.name);
            for (path, known) in peer.into_iter().flat_map(|peer| &mut peer.paths).zip(&known.paths) {
                let address = known.address.as_ref().and_then(|address| address.parse().ok());
                path.last = address.or(path.last);
            }
        }
        Order::Configure(Box::new(self.plan.clone()))
    }

    fn apply(&mut self, _: &Tunnel, plan: Plan, team: &mut Team<Self>) -> Result<(), SupervisorError> {
        team.tell(&Order::Configure(Box::new(plan.clone())))?;
        // If the worker has failed, the next one uses the old plan.
        self.plan = plan;
        Ok(())
    }

    fn on_looked_after(&mut self, team: &mut Team<Self>) {
        let now = Instant::now();
        if self.metered.is_none_or(|metered| now.saturating_duration_since(metered) >= METER) {
            self.metered = Some(now);
            self.meter(team);
        }
    }

    /// Lets the worker notify its peers, and ends it.
    fn stop(&mut self, team: &mut Team<Self>) -> Result<(), SupervisorError> {
        if let Some(Worker { child, channel, .. }) = team.keeper().take() {
            // Closing the channel ends it too.
            let _ = channel.send(&Order::Close);
            let_end(child);
        }
        self.meter.store_now();
        Ok(())
    }
}
