//! The process that an operator starts: it puts the rules in, keeps a worker alive, answers on the control socket, and
//! takes the rules out at the end.
//!
//! A worker that does not beat is killed. The kernel then gives up the queue, its packets' rules let everything pass, and
//! the next worker takes over.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use lasthop_sys::poll::wait;
use rustix::event::{PollFd, PollFlags};
use sd_notify::NotifyState;

use crate::configuration::Gateway;
use crate::daemon::channel::Order;
use crate::daemon::child::{BUSY, Phase, START, Worker};
pub use crate::daemon::child::{SILENCE, WorkerProgram};
use crate::daemon::control::{self, ControlError};
use crate::daemon::guard::{Guard, RulesState};
use crate::daemon::metrics::{self, MetricsError};
use crate::daemon::snapshot::Snapshot;
use crate::daemon::state::{ReloadRequest, SharedState, State, Wishes};
use crate::daemon::system_error::{SystemError, system};
use crate::firewall::{Firewall, FirewallError};
use crate::settings;
use crate::split::SplitError;

/// A worker that lived for so long was well; the next one starts at once.
const WELL: Duration = Duration::from_secs(5);
/// How long to wait before workers that die young are started again: doubled each time, between these.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long packets that wait in the queue may take after the rules are gone.
const DRAIN: Duration = Duration::from_millis(100);
/// How long a worker may take to end.
const END: Duration = Duration::from_millis(500);

/// Why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The configuration is bad.
    #[error(transparent)]
    Config(#[from] lasthop_scenario::Error),
    /// The rules cannot be set.
    #[error(transparent)]
    Firewall(#[from] FirewallError),
    /// The control socket cannot be had.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The metrics address cannot be had.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Connections cannot be split.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The first worker failed.
    #[error("{0}")]
    Worker(String),
    /// Something that only a start can change.
    #[error("`{key}` cannot change while the gateway runs; restart it")]
    Fixed {
        /// The key.
        key: &'static str,
    },
    /// Something else in the system.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Prints what [`run`] would install, and installs nothing.
pub fn dry_run(path: &Path) -> Result<String, SupervisorError> {
    let gateway = Gateway::load(path)?;
    settings::split(&gateway).map_or(Ok(()), |split| split.validate())?;
    Ok(Firewall::choose(&gateway)?.describe(&gateway))
}

/// Runs the gateway until SIGTERM or SIGINT. `tell_level` is given the log level of each configuration that is taken.
pub fn run(path: &Path, program: WorkerProgram, tell_level: &dyn Fn(&str)) -> Result<(), SupervisorError> {
    let (gateway, text) = Gateway::load_with_text(path)?;
    tell_level(&gateway.log);
    let signals = Signals::new().map_err(system("cannot handle signals"))?;
    let control = control::Listener::bind(&gateway.control, gateway.control_group.as_ref())?;
    let metrics = gateway.metrics.map(metrics::bind).transpose()?;
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
        program,
        guard,
        state: state.clone(),
        worker: None,
        told: true,
        pause: None,
    };
    supervisor.start_first(&signals)?;
    if let Some(listener) = metrics {
        metrics::serve(listener, state.clone()).map_err(system("cannot start a thread"))?;
    }
    let _control = control
        .serve(state, Wishes::new(requests, Arc::clone(&signals.wake)))
        .map_err(system("cannot start a thread"))?;
    notify(&[NotifyState::Ready]);
    tracing::info!(file = %path.display(), "the gateway runs");
    let outcome = supervisor.supervise(&signals, &wishes, tell_level);
    notify(&[NotifyState::Stopping]);
    let ended = supervisor.stop();
    tracing::info!("the gateway has ended");
    outcome.and(ended)
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager nobody listens.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot tell the service manager");
    }
}

/// Signals as flags, and a socket that wakes whoever waits.
struct Signals {
    terminate: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    woken: UnixStream,
    wake: Arc<UnixStream>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let (terminate, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [(SIGTERM, &terminate), (SIGINT, &terminate), (SIGHUP, &reload)] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { terminate, reload, woken, wake: Arc::new(wake) })
    }

    fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.woken, &mut bytes), Ok(1..)) {}
    }
}

struct Supervisor {
    path: PathBuf,
    /// The configuration in force, as text.
    text: String,
    program: WorkerProgram,
    guard: Guard,
    state: SharedState,
    worker: Option<Worker>,
    /// What the worker knows of the rules: whether they are in place.
    told: bool,
    /// When to start the next worker, and how long the wait was.
    pause: Option<(Instant, Duration)>,
}

impl Supervisor {
    fn order(&self) -> Order {
        Order::Configure { file: self.path.display().to_string(), text: self.text.clone() }
    }

    /// Starts the first worker, whose failure is the gateway's; and once it takes packets, puts the rules in.
    fn start_first(&mut self, signals: &Signals) -> Result<(), SupervisorError> {
        self.start()?;
        self.await_phase(Phase::Working, START)?;
        if signals.terminate.load(Ordering::Relaxed) {
            return self.stop();
        }
        Ok(self.guard.install()?)
    }

    fn start(&mut self) -> Result<(), SupervisorError> {
        let worker = Worker::spawn(&self.program, &self.order())?;
        self.state.lock().worker = Some(worker.child.id());
        (self.worker, self.told) = (Some(worker), true);
        Ok(())
    }

    /// Waits until the worker is in that phase.
    fn await_phase(&mut self, phase: Phase, patience: Duration) -> Result<(), SupervisorError> {
        let end = Instant::now() + patience;
        loop {
            let Some(worker) = &mut self.worker else {
                return Err(SupervisorError::Worker("there is no worker".to_owned()));
            };
            worker.listen(&self.state);
            let left = end.saturating_duration_since(Instant::now());
            match &worker.phase {
                reached if *reached == phase => return Ok(()),
                Phase::Lost(message) => return Err(SupervisorError::Worker(message.clone())),
                _ if left.is_zero() => {
                    return Err(SupervisorError::Worker("the worker does not answer".to_owned()));
                }
                _ => {}
            }
            wait(&mut [PollFd::new(&worker.channel, PollFlags::IN)], left).map_err(system("cannot wait"))?;
        }
    }

    /// Keeps a worker alive until a signal says otherwise.
    fn supervise(
        &mut self,
        signals: &Signals,
        wishes: &Receiver<ReloadRequest>,
        tell_level: &dyn Fn(&str),
    ) -> Result<(), SupervisorError> {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        let mut next_watchdog = Instant::now();
        while !signals.terminate.load(Ordering::Relaxed) {
            let now = Instant::now();
            let mut patience = Duration::from_secs(3600);
            if let Some(interval) = watchdog {
                if now >= next_watchdog {
                    notify(&[NotifyState::Watchdog]);
                    next_watchdog = now + interval;
                }
                patience = patience.min(next_watchdog.saturating_duration_since(now));
            }
            if let Some(worker) = &self.worker {
                patience = patience.min(worker.deadline().saturating_duration_since(now));
            } else if let Some((at, _)) = self.pause {
                patience = patience.min(at.saturating_duration_since(now));
            }
            let mut fds = vec![PollFd::new(&signals.woken, PollFlags::IN)];
            fds.extend(
                self.worker.as_ref().map(|worker| PollFd::from_borrowed_fd(worker.channel.as_fd(), PollFlags::IN)),
            );
            wait(&mut fds, patience).map_err(system("cannot wait"))?;
            signals.drain();
            self.look_after_worker();
            self.tell_of_rules();
            let wish = wishes.try_recv().ok();
            if signals.reload.swap(false, Ordering::Relaxed) || wish.is_some() {
                let outcome = self.reload(tell_level).map_err(|error| error.to_string());
                match &outcome {
                    Ok(()) => tracing::info!(file = %self.path.display(), "reloaded"),
                    Err(error) => tracing::error!(%error, "not reloaded; all stays as it was"),
                }
                if let Some(reply) = wish {
                    // Whoever asked may have gone.
                    let _ = reply.try_send(outcome);
                }
            }
        }
        Ok(())
    }

    /// Tells the worker whether connections may be led to its relay.
    fn tell_of_rules(&mut self) {
        let in_place = self.state.lock().rules.in_place;
        if let Some(worker) =
            self.worker.as_ref().filter(|worker| worker.phase == Phase::Working && self.told != in_place)
        {
            match worker.channel.send(&Order::Rules { in_place }) {
                Ok(()) => self.told = in_place,
                // It is asked again at the next beat.
                Err(error) => tracing::debug!(%error, "cannot tell the worker of the rules"),
            }
        }
    }

    /// Ends a worker that hangs, and starts another when there is none.
    fn look_after_worker(&mut self) {
        if let Some(worker) = &mut self.worker {
            worker.listen(&self.state);
            let now = Instant::now();
            if now < worker.deadline() || worker.is_excused(now) {
                return;
            }
            let reason = match &worker.phase {
                Phase::Lost(reason) => reason.clone(),
                _ => format!("it was silent for {} ms", now.duration_since(worker.heard).as_millis()),
            };
            let lived = worker.started.elapsed();
            let end = worker.kill();
            let before = self.pause.map_or(Duration::ZERO, |(_, pause)| pause);
            let pause = match lived >= WELL {
                true => Duration::ZERO,
                false => (before * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
            };
            tracing::warn!(
                reason,
                end,
                pause_ms = pause.as_millis() as u64,
                "the worker is lost; packets pass untreated"
            );
            self.worker = None;
            self.state.lock().worker = None;
            self.pause = Some((now + pause, pause));
        }
        if self.pause.is_some_and(|(at, _)| at <= Instant::now()) {
            match self.start() {
                Ok(()) => {
                    self.state.lock().restarts += 1;
                    tracing::info!("another worker is started");
                }
                Err(error) => {
                    tracing::error!(%error, "no worker");
                    self.pause = Some((Instant::now() + LONGEST_PAUSE, LONGEST_PAUSE));
                }
            }
        }
    }

    /// Takes the configuration file as it is now. On failure everything stays as it was.
    fn reload(&mut self, tell_level: &dyn Fn(&str)) -> Result<(), SupervisorError> {
        let (gateway, text) = Gateway::load_with_text(&self.path)?;
        let old = self.state.lock().gateway.clone();
        let fixed = [
            ("control", gateway.control != old.control),
            ("control_group", gateway.control_group != old.control_group),
            ("metrics", gateway.metrics != old.metrics),
            ("queue", gateway.queue != old.queue),
            ("mark", gateway.mark != old.mark),
            ("bridge", gateway.bridge != old.bridge),
            ("split", settings::split(&gateway) != settings::split(&old)),
        ];
        if let Some((key, _)) = fixed.into_iter().find(|(_, differs)| *differs) {
            return Err(SupervisorError::Fixed { key });
        }
        let firewall = Firewall::choose(&gateway)?;
        match NotifyState::monotonic_usec_now() {
            Ok(now) => notify(&[NotifyState::Reloading, now]),
            Err(_) => notify(&[NotifyState::Reloading]),
        }
        let outcome = self.apply(text, firewall);
        notify(&[NotifyState::Ready]);
        outcome?;
        tell_level(&gateway.log);
        let mut state = self.state.lock();
        state.gateway = gateway;
        state.reloads += 1;
        Ok(())
    }

    /// The worker first, so that it knows what the new rules lead to it.
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

    /// Sends the worker an order, and waits until it is carried out.
    fn tell_worker(&mut self, order: &Order) -> Result<(), SupervisorError> {
        match &mut self.worker {
            // One that starts, or will, may have had the old text.
            Some(worker) if worker.phase == Phase::Working => {
                worker.channel.send(order).map_err(system("cannot send an order to the worker"))?;
                worker.phase = Phase::Changing;
                self.await_phase(Phase::Working, BUSY)
            }
            Some(_) => Err(SupervisorError::Worker("the worker is just being started; try again".to_owned())),
            None => Ok(()),
        }
    }

    /// Has the worker send what it holds back, takes the rules out, lets the worker judge what still waits, and ends it.
    fn stop(&mut self) -> Result<(), SupervisorError> {
        // First, so that nothing overtakes what was held.
        if self.worker.as_ref().is_some_and(|worker| worker.phase == Phase::Working)
            && let Err(error) = self.tell_worker(&Order::Release)
        {
            tracing::warn!(%error, "the worker may lose what it holds back");
        }
        let removed = self.guard.remove();
        if let Some(Worker { mut child, channel, .. }) = self.worker.take() {
            std::thread::sleep(DRAIN);
            drop(channel);
            let end = Instant::now() + END;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            // It has ended, or must.
            let _ = child.kill();
            let _ = child.wait();
        }
        Ok(removed?)
    }
}
