//! Main loop of every supervisor: it keeps a worker running, and reloads the configuration on request.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use serde::de::DeserializeOwned;

use crate::keeper::Keeper;
use crate::signals::Signals;
use crate::system_error::{SystemError, system};
use crate::wishes::ReloadRequest;

/// Parts specific to one daemon.
pub trait Supervisor {
    /// Report of its worker.
    type Snapshot: DeserializeOwned;
    /// Error of its operations.
    type Error: Display;

    /// Consequence of a lost worker, as the end of a log message.
    const LOSS: &'static str;

    /// Returns the keeper of the worker, and the receiver of the worker's reports.
    fn keeper(&mut self) -> (&mut Keeper, impl FnMut(Self::Snapshot));

    /// Starts a worker.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started.
    fn start(&mut self) -> Result<(), Self::Error>;

    /// Called after the worker was checked: it may have ended or been replaced.
    fn on_looked_after(&mut self);

    /// Applies the current configuration file, or fails without effect.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is invalid, or cannot be applied.
    fn reload(&mut self) -> Result<(), Self::Error>;
}

/// Keeps a worker running until a signal ends the daemon. `file` is the configuration, which is reloaded on a signal or
/// a request in `wishes`.
///
/// # Errors
///
/// Returns an error if waiting fails.
pub fn supervise(
    supervisor: &mut impl Supervisor,
    file: &Path,
    signals: &Signals,
    wishes: &Receiver<ReloadRequest>,
) -> Result<(), SystemError> {
    while !signals.terminate.load(Ordering::Relaxed) {
        supervisor.keeper().0.wait(signals).map_err(system("cannot wait"))?;
        look_after_worker(supervisor);
        let wish = wishes.try_recv().ok();
        if signals.reload.swap(false, Ordering::Relaxed) || wish.is_some() {
            let outcome = supervisor.reload().map_err(|error| error.to_string());
            match &outcome {
                Ok(()) => tracing::info!(file = %file.display(), "configuration reloaded"),
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
fn look_after_worker<S: Supervisor>(supervisor: &mut S) {
    let (keeper, take) = supervisor.keeper();
    keeper.look_after_worker(take, S::LOSS);
    if supervisor.keeper().0.wants_another() {
        match supervisor.start() {
            Ok(()) => tracing::info!("worker restarted"),
            Err(error) => {
                tracing::error!(%error, "cannot start a worker");
                supervisor.keeper().0.postpone();
            }
        }
    }
    supervisor.on_looked_after();
}
