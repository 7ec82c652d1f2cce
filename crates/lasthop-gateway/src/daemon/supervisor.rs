//! Process that the operator starts. It installs the rules, restarts the worker when needed, answers on the control
//! socket, and removes the rules at the end.
//!
//! A worker without heartbeats is killed. The kernel then closes the queue, the rules let all packets pass, and the
//! next worker takes over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lasthop_daemon::child::{Phase, START, Worker, let_end};
pub use lasthop_daemon::child::{SILENCE, WorkerProgram};
use lasthop_daemon::control::{ControlError, Listener};
use lasthop_daemon::keeper::{Keeper, WorkerError};
use lasthop_daemon::metrics::MetricsError;
use lasthop_daemon::signals::{Signals, notify, notify_reloading};
use lasthop_daemon::supervision::{self, Supervisor as _, supervise};
use lasthop_daemon::system_error::{SystemError, system};
use lasthop_daemon::wishes::Wishes;
use sd_notify::NotifyState;

use crate::configuration::Gateway;
use crate::daemon::control;
use crate::daemon::guard::Guard;
use crate::daemon::metrics;
use crate::daemon::order::Order;
use crate::daemon::snapshot::Snapshot;
use crate::daemon::state::{RulesState, SharedState, State};
use crate::daemon::suspects::Reported;
use crate::firewall::{Firewall, FirewallError};
use crate::settings;
use crate::split::SplitError;

/// Time for packets that wait in the queue after the rules are removed.
const DRAIN: Duration = Duration::from_millis(100);

/// Reason why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] lasthop_settings::Error),
    /// The rules cannot be installed.
    #[error(transparent)]
    Firewall(#[from] FirewallError),
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The metrics address cannot be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Connections cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The first worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A reload changes a key that needs a restart.
    #[error("`{key}` cannot change while the gateway is running; restart it")]
    Fixed {
        /// The key.
        key: &'static str,
    },
    /// Another system error.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Returns the rules that [`run`] would install, without installing them.
pub fn dry_run(path: &Path) -> Result<String, SupervisorError> {
    let gateway = Gateway::load(path)?;
    settings::split(&gateway).map_or(Ok(()), |split| split.validate())?;
    Ok(Firewall::choose(&gateway)?.describe(&gateway))
}

/// Runs the gateway until SIGTERM or SIGINT. Calls `tell_level` with the log level of each configuration that is
/// applied.
pub fn run(path: &Path, program: WorkerProgram, tell_level: &dyn Fn(&str)) -> Result<(), SupervisorError> {
    let (gateway, text) = Gateway::load_with_text(path)?;
    tell_level(&gateway.log);
    let signals = Signals::new().map_err(system("cannot handle signals"))?;
    let control = Listener::bind(&gateway.control, control::WHO, gateway.control_group.as_ref())?;
    let metrics = gateway.metrics.map(lasthop_daemon::metrics::bind).transpose()?;
    let firewall = Firewall::choose(&gateway)?;
    let state = SharedState::new(State {
        gateway,
        started: Instant::now(),
        worker: None,
        restarts: 0,
        reloads: 0,
        rules: RulesState::default(),
        snapshot: Snapshot::default(),
    });
    let (requests, wishes) = mpsc::sync_channel(4);
    let guard =
        Guard::start(firewall, state.clone(), Arc::clone(&signals.wake)).map_err(system("cannot start a thread"))?;
    let mut supervisor = Supervisor {
        path: path.to_owned(),
        text,
        keeper: Keeper::new(program),
        guard,
        state: state.clone(),
        told: true,
        reported: Reported::default(),
        tell_level,
    };
    supervisor.start_first(&signals)?;
    if let Some(listener) = metrics {
        let state = state.clone();
        lasthop_daemon::metrics::serve(listener, move || metrics::encode(&state.lock().clone()))
            .map_err(system("cannot start a thread"))?;
    }
    let asked = Wishes::new(requests, Arc::clone(&signals.wake), control::WHO);
    let _control =
        control.serve(move |line| control::answer(line, &state, &asked)).map_err(system("cannot start a thread"))?;
    notify(&[NotifyState::Ready]);
    tracing::info!(file = %path.display(), "gateway started");
    let outcome = supervise(&mut supervisor, path, &signals, &wishes).map_err(SupervisorError::from);
    notify(&[NotifyState::Stopping]);
    let ended = supervisor.stop();
    tracing::info!("gateway stopped");
    outcome.and(ended)
}

struct Supervisor<'a> {
    path: PathBuf,
    /// Text of the current configuration.
    text: String,
    keeper: Keeper,
    guard: Guard,
    state: SharedState,
    /// State of the rules as last sent to the worker: true if they are in place.
    told: bool,
    reported: Reported,
    tell_level: &'a dyn Fn(&str),
}

impl supervision::Supervisor for Supervisor<'_> {
    type Snapshot = Snapshot;
    type Error = SupervisorError;

    const LOSS: &'static str = "; packets pass untreated";

    fn keeper(&mut self) -> (&mut Keeper, impl FnMut(Snapshot)) {
        let state = &self.state;
        (&mut self.keeper, move |snapshot| state.lock().snapshot = snapshot)
    }

    fn start(&mut self) -> Result<(), SupervisorError> {
        self.keeper.start(&self.order())?;
        self.told = true;
        Ok(())
    }

    fn on_looked_after(&mut self) {
        let mut state = self.state.lock();
        (state.worker, state.restarts) = (self.keeper.process(), self.keeper.restarts());
        let untreated = state.snapshot.untreated.clone();
        drop(state);
        self.reported.report(&untreated);
        self.tell_of_rules();
    }

    fn reload(&mut self) -> Result<(), SupervisorError> {
        let (gateway, text) = Gateway::load_with_text(&self.path)?;
        let old = self.state.lock().gateway.clone();
        let fixed = [
            ("control", gateway.control != old.control),
            ("control_group", gateway.control_group != old.control_group),
            ("metrics", gateway.metrics != old.metrics),
            ("queue", gateway.queue != old.queue),
            ("mark", gateway.mark != old.mark),
            ("trial", gateway.trial != old.trial),
            ("limits.link", gateway.limits.link != old.limits.link),
            ("bridge", gateway.bridge != old.bridge),
            ("split", settings::split(&gateway) != settings::split(&old)),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, differs)| *differs) {
            return Err(SupervisorError::Fixed { key });
        }
        let firewall = Firewall::choose(&gateway)?;
        notify_reloading();
        let outcome = self.apply(text, firewall);
        notify(&[NotifyState::Ready]);
        outcome?;
        (self.tell_level)(&gateway.log);
        let mut state = self.state.lock();
        state.gateway = gateway;
        state.reloads += 1;
        Ok(())
    }
}

impl Supervisor<'_> {
    fn order(&self) -> Order {
        Order::Configure { file: self.path.display().to_string(), text: self.text.clone() }
    }

    /// Starts the first worker, whose failure ends the gateway, and installs the rules once it takes packets.
    fn start_first(&mut self, signals: &Signals) -> Result<(), SupervisorError> {
        self.start()?;
        let (keeper, take) = self.keeper();
        keeper.await_phase(Phase::Working, START, take)?;
        self.state.lock().worker = self.keeper.process();
        if signals.terminate.load(Ordering::Relaxed) {
            return self.stop();
        }
        Ok(self.guard.install()?)
    }

    /// Tells the worker whether the rules for its relay are in place.
    fn tell_of_rules(&mut self) {
        let in_place = self.state.lock().rules.in_place;
        if let Some(worker) = self.keeper.working().filter(|_| self.told != in_place) {
            match worker.channel.send(&Order::Rules { in_place }) {
                Ok(()) => self.told = in_place,
                // Tried again at the next beat.
                Err(error) => tracing::debug!(%error, "cannot send the state of the rules to the worker"),
            }
        }
    }

    /// Configures the worker first, so that it knows the connections that the new rules send to it.
    fn apply(&mut self, text: String, firewall: Firewall) -> Result<(), SupervisorError> {
        let old_text = std::mem::replace(&mut self.text, text);
        let outcome = self.configure_worker().and_then(|()| Ok(self.guard.change(firewall)?));
        if let Err(error) = outcome {
            self.text = old_text;
            self.configure_worker()?;
            return Err(error);
        }
        Ok(())
    }

    fn configure_worker(&mut self) -> Result<(), SupervisorError> {
        self.tell_worker(&self.order())
    }

    /// Sends an order to the worker, and waits until it is executed.
    fn tell_worker(&mut self, order: &Order) -> Result<(), SupervisorError> {
        let (keeper, take) = self.keeper();
        Ok(keeper.tell(order, take)?)
    }

    /// Lets the worker send held packets, removes the rules, lets the worker decide on waiting packets, and ends it.
    fn stop(&mut self) -> Result<(), SupervisorError> {
        // First, so that no later packet overtakes held ones.
        if self.keeper.working().is_some()
            && let Err(error) = self.tell_worker(&Order::Release)
        {
            tracing::warn!(%error, "the worker cannot release held packets; they may be lost");
        }
        let removed = self.guard.remove();
        if let Some(Worker { child, channel, .. }) = self.keeper.take() {
            std::thread::sleep(DRAIN);
            drop(channel);
            let_end(child);
        }
        Ok(removed?)
    }
}
