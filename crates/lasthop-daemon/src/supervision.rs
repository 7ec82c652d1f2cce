//! Process that the operator starts: it keeps a worker running, answers on the control socket, and reloads the
//! configuration on request.

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

use lasthop_settings::reading::Group;
use sd_notify::NotifyState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::child::{Phase, START, WorkerProgram};
use crate::control::{self, ControlError, Listener, SocketFile};
use crate::keeper::{Keeper, WorkerError};
use crate::metrics::{self, MetricsError};
use crate::shared::Shared;
use crate::signals::{Signals, notify, notify_reloading};
use crate::status::{Status, WorkerStatus};
use crate::system_error::{SystemError, system};
use crate::wishes::{ReloadRequest, Wishes};

/// State that the supervisor shares with the threads that report it and send requests.
#[derive(Clone, Debug)]
pub struct State<C, S, I = ()> {
    /// Current configuration.
    pub configuration: C,
    /// Start time of the daemon.
    pub started: Instant,
    /// Process of the worker, once it processes packets.
    pub worker: Option<u32>,
    /// Number of workers started after the first.
    pub restarts: u64,
    /// Number of configurations applied after the first.
    pub reloads: u64,
    /// State that the supervisor itself keeps, such as rules that it installed, or stored counters.
    pub own: I,
    /// Latest report of the worker.
    pub snapshot: S,
}

/// State of daemon `D`.
pub type StateOf<D> = State<<D as Daemon>::Configuration, <D as Daemon>::Snapshot, <D as Daemon>::Own>;

impl<C, S, I> State<C, S, I> {
    /// Returns the answer to a status request; `more` is specific to the daemon.
    pub fn status<T: Serialize>(&self, more: T) -> Value {
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            worker: WorkerStatus { pid: self.worker, restarts: self.restarts },
            reloads: self.reloads,
            more,
        };
        json!(status)
    }
}

/// Settings that all daemons have.
#[derive(Clone, Copy, Debug)]
pub struct Interfaces<'a> {
    /// Path of the control socket.
    pub control: &'a Path,
    /// Group with access to the control socket.
    pub control_group: Option<&'a Group>,
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Log level.
    pub log: &'a str,
}

/// Reason why a daemon of any kind does not run, or keeps its configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The metrics address cannot be bound.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The first worker failed, or a worker did not execute an order.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A reload changes a key that needs a restart.
    #[error("`{key}` cannot change while the {who} is running; restart it")]
    Fixed {
        /// The key.
        key: &'static str,
        /// Name of the daemon.
        who: &'static str,
    },
    /// Another system error.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Keeper of the worker, and the state that its reports update.
pub struct Team<D: Daemon> {
    keeper: Keeper,
    state: Shared<StateOf<D>>,
}

impl<D: Daemon> Team<D> {
    /// Returns the state.
    pub const fn state(&self) -> &Shared<StateOf<D>> {
        &self.state
    }

    /// Returns the keeper.
    pub const fn keeper(&mut self) -> &mut Keeper {
        &mut self.keeper
    }

    /// Sends the worker an order, and waits until it is executed: [`Keeper::tell`].
    ///
    /// # Errors
    ///
    /// Returns an error if the worker refuses it, fails, or is still starting.
    pub fn tell(&mut self, order: &D::Order) -> Result<(), Error> {
        let state = &self.state;
        Ok(self.keeper.tell(order, |snapshot| state.lock().snapshot = snapshot)?)
    }

    /// Updates the state of the worker.
    fn note_worker(&self) {
        let mut state = self.state.lock();
        (state.worker, state.restarts) = (self.keeper.process(), self.keeper.restarts());
    }
}

/// Descriptions of a daemon's state `S`.
#[derive(Clone, Copy, Debug)]
pub struct Answers<S> {
    /// Returns the metrics as text.
    pub metrics: fn(&S) -> Result<String, std::fmt::Error>,
    /// Returns state and statistics for the control socket.
    pub status: fn(&S) -> Value,
    /// Returns the effect of the daemon's work for the control socket.
    pub report: fn(&S) -> Value,
}

/// Parts of a supervisor that are specific to one daemon.
pub trait Daemon: Sized {
    /// Configuration.
    type Configuration: Clone + Send + 'static;
    /// Form of the configuration that orders contain.
    type Plan;
    /// Order to a worker.
    type Order: Serialize;
    /// Report of a worker.
    type Snapshot: Clone + Default + DeserializeOwned + Send + 'static;
    /// State that the supervisor itself keeps.
    type Own: Clone + Default + Send + 'static;
    /// Error of the daemon.
    type Error: Display + From<Error>;

    /// Name of the daemon in messages.
    const WHO: &'static str;
    /// Consequence of a lost worker, as the end of a log message.
    const LOSS: &'static str;
    /// Descriptions of the state.
    const ANSWERS: Answers<StateOf<Self>>;

    /// Reads a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if it is invalid.
    fn load(path: &Path) -> Result<(Self::Configuration, Self::Plan), Self::Error>;

    /// Returns the settings that all daemons have.
    fn interfaces(configuration: &Self::Configuration) -> Interfaces<'_>;

    /// Returns the further keys that need a restart, and whether they differ from those of the current configuration.
    fn fixed(
        &self,
        current: &Self::Configuration,
        other: (&Self::Configuration, &Self::Plan),
    ) -> Vec<(&'static str, bool)>;

    /// Returns the first order to a worker, which may replace one that sent `last`.
    fn first_order(&mut self, last: &Self::Snapshot) -> Self::Order;

    /// Called once, when the first worker processes packets.
    ///
    /// # Errors
    ///
    /// Returns an error if the daemon must end.
    fn on_started(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called after the worker was checked: it may have ended or been replaced.
    fn on_looked_after(&mut self, _team: &mut Team<Self>) {}

    /// Applies another configuration, or fails without effect.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be applied.
    fn apply(
        &mut self,
        configuration: &Self::Configuration,
        plan: Self::Plan,
        team: &mut Team<Self>,
    ) -> Result<(), Self::Error>;

    /// Ends the worker, and removes all objects that the daemon installed.
    ///
    /// # Errors
    ///
    /// Returns an error if an object cannot be removed.
    fn stop(&mut self, team: &mut Team<Self>) -> Result<(), Self::Error>;
}

/// Runs a daemon until SIGTERM or SIGINT. `create` returns the daemon for the state, which contains the configuration,
/// and for the plan; the daemon may wake the loop through the signals' socket. `tell_level` is called with the log
/// level of each configuration that is applied.
///
/// # Errors
///
/// Returns an error if it cannot start or continue.
pub fn run<D: Daemon>(
    path: &Path,
    program: WorkerProgram,
    tell_level: &dyn Fn(&str),
    create: impl FnOnce(&Shared<StateOf<D>>, D::Plan, &Signals) -> Result<D, D::Error>,
) -> Result<(), D::Error> {
    let (configuration, plan) = D::load(path)?;
    tell_level(D::interfaces(&configuration).log);
    let doors = Doors::open(D::interfaces(&configuration), D::WHO)?;
    let state = Shared::new(State {
        configuration,
        started: Instant::now(),
        worker: None,
        restarts: 0,
        reloads: 0,
        own: D::Own::default(),
        snapshot: D::Snapshot::default(),
    });
    let daemon = create(&state, plan, &doors.signals)?;
    let team = Team { keeper: Keeper::new(program), state: state.clone() };
    let mut supervisor = Supervisor { path: path.to_owned(), daemon, team, tell_level };
    supervisor.start_first()?;
    // Unless a signal came during the start.
    if !doors.signals.terminate.load(Ordering::Relaxed) {
        supervisor.daemon.on_started()?;
    }
    let (signals, wishes, _file) = doors.serve(&state, D::ANSWERS, D::WHO)?;
    notify(&[NotifyState::Ready]);
    tracing::info!(file = %path.display(), "{} started", D::WHO);
    let outcome = supervisor.supervise(&signals, &wishes).map_err(Error::from);
    notify(&[NotifyState::Stopping]);
    let ended = supervisor.daemon.stop(&mut supervisor.team);
    tracing::info!("{} stopped", D::WHO);
    outcome?;
    ended
}

/// Ways in which other programs reach a daemon.
struct Doors {
    signals: Signals,
    control: Listener,
    metrics: Option<TcpListener>,
}

impl Doors {
    fn open(interfaces: Interfaces<'_>, who: &'static str) -> Result<Self, Error> {
        let signals = Signals::new().map_err(system("cannot handle signals"))?;
        let control = Listener::bind(interfaces.control, who, interfaces.control_group)?;
        let metrics = interfaces.metrics.map(metrics::bind).transpose()?;
        Ok(Self { signals, control, metrics })
    }

    /// Answers requests in other threads until the returned file is dropped. Also returns the receiver of the reload
    /// requests.
    fn serve<S: Clone + Send + 'static>(
        self,
        state: &Shared<S>,
        answers: Answers<S>,
        who: &'static str,
    ) -> Result<(Signals, Receiver<ReloadRequest>, SocketFile), Error> {
        let Self { signals, control, metrics } = self;
        let Answers { metrics: encode, status, report } = answers;
        if let Some(listener) = metrics {
            let state = state.clone();
            // A copy, so that the supervisor need not wait.
            metrics::serve(listener, move || encode(&state.lock().clone())).map_err(system("cannot start a thread"))?;
        }
        let (requests, wishes) = mpsc::sync_channel(4);
        let (state, asked) = (state.clone(), Wishes::new(requests, Arc::clone(&signals.wake), who));
        let answer =
            move |line: &[u8]| control::answer(line, || status(&state.lock()), || report(&state.lock()), &asked);
        let file = control.serve(answer).map_err(system("cannot start a thread"))?;
        Ok((signals, wishes, file))
    }
}

struct Supervisor<'a, D: Daemon> {
    path: PathBuf,
    daemon: D,
    team: Team<D>,
    tell_level: &'a dyn Fn(&str),
}

impl<D: Daemon> Supervisor<'_, D> {
    /// Starts a worker.
    fn start(&mut self) -> Result<(), SystemError> {
        let order = self.daemon.first_order(&self.team.state.lock().snapshot);
        self.team.keeper.start(&order)
    }

    /// Starts the first worker, whose failure ends the daemon.
    fn start_first(&mut self) -> Result<(), Error> {
        self.start()?;
        let Team { keeper, state } = &mut self.team;
        keeper.await_phase(Phase::Working, START, |snapshot| state.lock().snapshot = snapshot)?;
        self.team.note_worker();
        Ok(())
    }

    /// Keeps a worker running until a signal ends the daemon. The configuration is reloaded on a signal or a request in
    /// `wishes`.
    fn supervise(&mut self, signals: &Signals, wishes: &Receiver<ReloadRequest>) -> Result<(), SystemError> {
        while !signals.terminate.load(Ordering::Relaxed) {
            self.team.keeper.wait(signals).map_err(system("cannot wait"))?;
            self.look_after_worker();
            let wish = wishes.try_recv().ok();
            if signals.reload.swap(false, Ordering::Relaxed) || wish.is_some() {
                let outcome = self.reload().map_err(|error| error.to_string());
                match &outcome {
                    Ok(()) => tracing::info!(file = %self.path.display(), "configuration reloaded"),
                    Err(error) => tracing::error!(%error, "reload failed; keeping the current configuration"),
                }
                if let Some(reply) = wish {
                    // The requesting thread may have given up.
                    let _ = reply.try_send(outcome);
                }
            }
        }
        Ok(())
    }

    /// Ends a hung worker, and starts another one if there is none.
    fn look_after_worker(&mut self) {
        let Team { keeper, state } = &mut self.team;
        keeper.look_after_worker(|snapshot| state.lock().snapshot = snapshot, D::LOSS);
        if keeper.wants_another() {
            match self.start() {
                Ok(()) => tracing::info!("worker restarted"),
                Err(error) => {
                    tracing::error!(%error, "cannot start a worker");
                    self.team.keeper.postpone();
                }
            }
        }
        self.team.note_worker();
        self.daemon.on_looked_after(&mut self.team);
    }

    /// Applies the current configuration file, or fails without effect.
    fn reload(&mut self) -> Result<(), D::Error> {
        let (configuration, plan) = D::load(&self.path)?;
        let current = self.team.state.lock().configuration.clone();
        let (old, new) = (D::interfaces(&current), D::interfaces(&configuration));
        let mut fixed = self.daemon.fixed(&current, (&configuration, &plan));
        fixed.extend([
            ("control", new.control != old.control),
            ("control_group", new.control_group != old.control_group),
            ("metrics", new.metrics != old.metrics),
        ]);
        if let Some((key, _)) = fixed.into_iter().find(|(_, differs)| *differs) {
            return Err(Error::Fixed { key, who: D::WHO }.into());
        }
        notify_reloading();
        let outcome = self.daemon.apply(&configuration, plan, &mut self.team);
        notify(&[NotifyState::Ready]);
        outcome?;
        (self.tell_level)(D::interfaces(&configuration).log);
        let mut state = self.team.state.lock();
        state.configuration = configuration;
        state.reloads += 1;
        Ok(())
    }
}
