//! Keeper of a worker: starts it, handles its messages, ends it if it hangs, and requests a replacement after a pause.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lasthop_sys::poll::wait;
use rustix::event::{PollFd, PollFlags};
use sd_notify::NotifyState;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::child::{BUSY, Phase, Worker, WorkerProgram};
use crate::signals::{Signals, notify};
use crate::system_error::{SystemError, system};

/// Lifetime after which a worker is considered healthy, so that its replacement starts at once.
const WELL: Duration = Duration::from_secs(5);
/// Bounds of the pause before the replacement of a short-lived worker; it doubles each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reason why a worker does not execute an order.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A message from the worker, or a description of its failure.
    #[error("{0}")]
    Worker(String),
    /// A system error.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Keeper of at most one worker. It also serves the service manager's watchdog.
pub struct Keeper {
    program: WorkerProgram,
    worker: Option<Worker>,
    /// Number of workers so far.
    started: u64,
    /// Start time of the next worker, and the length of the pause before it.
    pause: Option<(Instant, Duration)>,
    watchdog: Option<Duration>,
    next_watchdog: Instant,
}

impl Keeper {
    /// Creates a keeper of workers started from `program`, without a worker.
    pub fn new(program: WorkerProgram) -> Self {
        let watchdog = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        Self { program, worker: None, started: 0, pause: None, watchdog, next_watchdog: Instant::now() }
    }

    /// Starts a worker with its first order.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn start(&mut self, order: &impl Serialize) -> Result<(), SystemError> {
        self.worker = Some(Worker::spawn(&self.program, order)?);
        self.started += 1;
        Ok(())
    }

    /// Returns the number of workers started after the first.
    pub fn restarts(&self) -> u64 {
        self.started.saturating_sub(1)
    }

    /// Returns the process that processes packets; `None` while a worker is starting.
    pub fn process(&self) -> Option<u32> {
        let serving = |worker: &&Worker| matches!(worker.phase, Phase::Working | Phase::Changing);
        self.worker.as_ref().filter(serving).map(|worker| worker.child.id())
    }

    /// Returns the worker, if it processes packets and orders.
    pub fn working(&self) -> Option<&Worker> {
        self.worker.as_ref().filter(|worker| worker.phase == Phase::Working)
    }

    /// Releases the worker, to be ended by the caller.
    pub fn take(&mut self) -> Option<Worker> {
        self.worker.take()
    }

    /// Waits until the worker reaches this phase; `take` receives its reports in the meantime.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker fails, does not answer in time, or does not exist.
    pub fn await_phase<S: DeserializeOwned>(
        &mut self,
        phase: Phase,
        patience: Duration,
        mut take: impl FnMut(S),
    ) -> Result<(), WorkerError> {
        let end = Instant::now() + patience;
        loop {
            let Some(worker) = &mut self.worker else {
                return Err(WorkerError::Worker("no worker is running".to_owned()));
            };
            worker.listen(&mut take);
            let left = end.saturating_duration_since(Instant::now());
            match &worker.phase {
                reached if *reached == phase => return Ok(()),
                Phase::Lost(message) => return Err(WorkerError::Worker(message.clone())),
                _ if left.is_zero() => return Err(WorkerError::Worker("the worker does not answer".to_owned())),
                _ => {}
            }
            wait(&mut [PollFd::new(&worker.channel, PollFlags::IN)], left).map_err(system("cannot wait"))?;
        }
    }

    /// Sends the worker an order, and waits until it is executed. Succeeds without a worker: the first order to the
    /// next worker suffices.
    ///
    /// # Errors
    ///
    /// Returns an error if the worker refuses it, fails, or is still starting.
    pub fn tell<S: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        take: impl FnMut(S),
    ) -> Result<(), WorkerError> {
        match &mut self.worker {
            // A starting worker may have received the old order.
            Some(worker) if worker.phase == Phase::Working => {
                worker.channel.send(order).map_err(system("cannot send an order to the worker"))?;
                worker.phase = Phase::Changing;
                self.await_phase(Phase::Working, BUSY, take)?;
                let refused = self.worker.as_mut().and_then(|worker| worker.refused.take());
                refused.map_or(Ok(()), |message| Err(WorkerError::Worker(message)))
            }
            Some(_) => Err(WorkerError::Worker("the worker is starting; try again".to_owned())),
            None => Ok(()),
        }
    }

    /// Waits for a signal, a message of the worker, the end of its permitted silence, or the start time of the next
    /// one; and notifies the service manager's watchdog.
    ///
    /// # Errors
    ///
    /// Returns an error if waiting fails.
    pub fn wait(&mut self, signals: &Signals) -> io::Result<()> {
        let now = Instant::now();
        let mut patience = Duration::from_secs(3600);
        if let Some(interval) = self.watchdog {
            if now >= self.next_watchdog {
                notify(&[NotifyState::Watchdog]);
                self.next_watchdog = now + interval;
            }
            patience = patience.min(self.next_watchdog.saturating_duration_since(now));
        }
        if let Some(worker) = &self.worker {
            patience = patience.min(worker.deadline().saturating_duration_since(now));
        } else if let Some((at, _)) = self.pause {
            patience = patience.min(at.saturating_duration_since(now));
        }
        let mut fds = vec![PollFd::new(&signals.woken, PollFlags::IN)];
        fds.extend(self.worker.as_ref().map(|worker| PollFd::from_borrowed_fd(worker.channel.as_fd(), PollFlags::IN)));
        wait(&mut fds, patience)?;
        signals.drain();
        Ok(())
    }

    /// Handles the worker's messages, and ends it if it failed or hangs. `meaning` is appended to the log message.
    pub fn look_after_worker<S: DeserializeOwned>(&mut self, take: impl FnMut(S), meaning: &str) {
        let Some(worker) = &mut self.worker else { return };
        worker.listen(take);
        let now = Instant::now();
        if now < worker.deadline() || worker.is_excused(now) {
            return;
        }
        let reason = match &worker.phase {
            Phase::Lost(reason) => reason.clone(),
            _ => format!("no heartbeat for {} ms", now.duration_since(worker.heard).as_millis()),
        };
        let lived = worker.started.elapsed();
        let end = worker.kill();
        let before = self.pause.map_or(Duration::ZERO, |(_, pause)| pause);
        let pause = match lived >= WELL {
            true => Duration::ZERO,
            false => (before * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE),
        };
        tracing::warn!(reason, end, pause_ms = pause.as_millis() as u64, "worker failed{meaning}");
        self.worker = None;
        self.pause = Some((now + pause, pause));
    }

    /// Returns whether there is no worker and the next one is due.
    pub fn wants_another(&self) -> bool {
        self.worker.is_none() && self.pause.is_some_and(|(at, _)| at <= Instant::now())
    }

    /// Postpones the next worker after a failed start.
    pub fn postpone(&mut self) {
        self.pause = Some((Instant::now() + LONGEST_PAUSE, LONGEST_PAUSE));
    }
}
