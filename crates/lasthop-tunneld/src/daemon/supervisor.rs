//! Process that the operator starts. It reads keys, restarts the worker when needed, and answers on the control socket.
//! Everything else that a start creates disappears with the worker.

use std::mem::discriminant;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use ipnet::IpNet;
use lasthop_daemon::child::{Phase, START, Worker, WorkerProgram, let_end};
use lasthop_daemon::control::{ControlError, Listener};
use lasthop_daemon::finding::Finding;
use lasthop_daemon::keeper::{Keeper, WorkerError};
use lasthop_daemon::metrics::MetricsError;
use lasthop_daemon::signals::{Signals, notify, notify_reloading};
use lasthop_daemon::supervision::{self, Supervisor as _, supervise};
use lasthop_daemon::system_error::{SystemError, system};
use lasthop_daemon::wishes::Wishes;
use lasthop_proto::time::Duration;
use lasthop_settings::tunnel::{Mode, Security, Tunnel};
use sd_notify::NotifyState;

use crate::daemon::order::Order;
use crate::daemon::snapshot::Snapshot;
use crate::daemon::state::{SharedState, State};
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
    #[error("{}: {error}", path.display())]
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
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The metrics address cannot be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A reload changes a key that needs a restart.
    #[error("`{key}` cannot change while the tunnel is running; restart it")]
    Fixed {
        /// The key.
        key: &'static str,
    },
    /// Another system error.
    #[error(transparent)]
    System(#[from] SystemError),
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

fn key_file(tunnel: &Tunnel) -> Option<&Path> {
    if let Security::Noise { private_key_file } = &tunnel.security { Some(private_key_file) } else { None }
}

fn trusted(tunnel: &Tunnel) -> Option<&str> {
    if let Security::None { trusted_interface, .. } = &tunnel.security { Some(trusted_interface) } else { None }
}

fn silence(tunnel: &Tunnel) -> Option<Duration> {
    tunnel.peers.first().map(|peer| peer.silence)
}

fn load(path: &Path) -> Result<(Tunnel, Plan), SupervisorError> {
    let tunnel = Tunnel::load(path)?;
    let plan = Plan::new(&tunnel).map_err(|error| SupervisorError::Plan { path: path.to_owned(), error })?;
    Ok((tunnel, plan))
}

/// Describes what [`run`] would create, without creating it.
///
/// # Errors
///
/// Returns an error if a start must fail, regardless of the user that starts it.
pub fn dry_run(path: &Path) -> Result<String, SupervisorError> {
    let (tunnel, plan) = load(path)?;
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
    let (tunnel, plan) = load(path)?;
    tell_level(&tunnel.log);
    let signals = Signals::new().map_err(system("cannot handle signals"))?;
    let listener = Listener::bind(&tunnel.control, WHO, tunnel.control_group.as_ref())?;
    let metrics_listener = tunnel.metrics.map(lasthop_daemon::metrics::bind).transpose()?;
    let state = SharedState::new(State {
        tunnel,
        started: Instant::now(),
        worker: None,
        restarts: 0,
        reloads: 0,
        snapshot: Snapshot::default(),
    });
    let (requests, wishes) = mpsc::sync_channel(4);
    let keeper = Keeper::new(program);
    let mut supervisor = Supervisor { path: path.to_owned(), plan, keeper, state: state.clone(), tell_level };
    supervisor.start()?;
    let (keeper, take) = supervisor.keeper();
    keeper.await_phase(Phase::Working, START, take)?;
    state.lock().worker = supervisor.keeper.process();
    if let Some(listener) = metrics_listener {
        let state = state.clone();
        lasthop_daemon::metrics::serve(listener, move || metrics::encode(&state.lock()))
            .map_err(system("cannot start a thread"))?;
    }
    let asked = Wishes::new(requests, Arc::clone(&signals.wake), WHO);
    let _control =
        listener.serve(move |line| control::answer(line, &state, &asked)).map_err(system("cannot start a thread"))?;
    notify(&[NotifyState::Ready]);
    tracing::info!(file = %path.display(), "tunnel started");
    let outcome = supervise(&mut supervisor, path, &signals, &wishes);
    notify(&[NotifyState::Stopping]);
    supervisor.stop();
    tracing::info!("tunnel stopped");
    Ok(outcome?)
}

struct Supervisor<'a> {
    path: PathBuf,
    plan: Plan,
    keeper: Keeper,
    state: SharedState,
    tell_level: &'a dyn Fn(&str),
}

impl supervision::Supervisor for Supervisor<'_> {
    type Snapshot = Snapshot;
    type Error = SupervisorError;

    const LOSS: &'static str = "; its device is removed";

    fn keeper(&mut self) -> (&mut Keeper, impl FnMut(Snapshot)) {
        let state = &self.state;
        (&mut self.keeper, move |snapshot| state.lock().snapshot = snapshot)
    }

    /// Starts a worker with the last addresses of the peers, so that it can call peers without an endpoint.
    fn start(&mut self) -> Result<(), SupervisorError> {
        for known in &self.state.lock().snapshot.peers {
            let peer = self.plan.peers.iter_mut().find(|peer| peer.name == known.name);
            if let (Some(peer), Some(address)) = (peer, &known.address) {
                peer.last = address.parse().ok();
            }
        }
        Ok(self.keeper.start(&Order::Configure(Box::new(self.plan.clone())))?)
    }

    fn on_looked_after(&mut self) {
        let mut state = self.state.lock();
        (state.worker, state.restarts) = (self.keeper.process(), self.keeper.restarts());
    }

    fn reload(&mut self) -> Result<(), SupervisorError> {
        let (tunnel, plan) = load(&self.path)?;
        let old = self.state.lock().tunnel.clone();
        let fixed = [
            ("mode", discriminant(&tunnel.mode) != discriminant(&old.mode)),
            ("listen", listen(&tunnel) != listen(&old)),
            ("interface", interface(&tunnel) != interface(&old)),
            ("security", discriminant(&tunnel.security) != discriminant(&old.security)),
            ("private_key_file", key_file(&tunnel) != key_file(&old) || plan.own.key() != self.plan.own.key()),
            ("trusted_interface", trusted(&tunnel) != trusted(&old)),
            ("name", plan.own != self.plan.own),
            ("device", tunnel.device != old.device),
            // It is compiled into a program in the kernel.
            ("peer.silence", interface(&tunnel).is_some() && silence(&tunnel) != silence(&old)),
            ("address", address(&tunnel) != address(&old)),
            ("control", tunnel.control != old.control),
            ("control_group", tunnel.control_group != old.control_group),
            ("metrics", tunnel.metrics != old.metrics),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, differs)| *differs) {
            return Err(SupervisorError::Fixed { key });
        }
        notify_reloading();
        let old_plan = std::mem::replace(&mut self.plan, plan);
        let outcome = self.configure_worker();
        if outcome.is_err() {
            // If the worker has failed, the next one uses the old plan.
            self.plan = old_plan;
        }
        notify(&[NotifyState::Ready]);
        outcome?;
        (self.tell_level)(&tunnel.log);
        let mut state = self.state.lock();
        state.tunnel = tunnel;
        state.reloads += 1;
        Ok(())
    }
}

impl Supervisor<'_> {
    fn configure_worker(&mut self) -> Result<(), SupervisorError> {
        let order = Order::Configure(Box::new(self.plan.clone()));
        let (keeper, take) = self.keeper();
        Ok(keeper.tell(&order, take)?)
    }

    /// Lets the worker notify its peers, and ends it.
    fn stop(&mut self) {
        let Some(Worker { child, channel, .. }) = self.keeper.take() else { return };
        // Closing the channel ends it too.
        let _ = channel.send(&Order::Close);
        let_end(child);
    }
}
