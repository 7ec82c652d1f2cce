//! What every supervisor does while its daemon runs: it keeps a worker alive, and takes the configuration anew when asked to.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use serde::de::DeserializeOwned;

use crate::keeper::Keeper;
use crate::signals::Signals;
use crate::system_error::{SystemError, system};
use crate::wishes::ReloadRequest;

/// What is particular to one daemon.
pub trait Supervisor {
    /// What its worker says of itself.
    type Snapshot: DeserializeOwned;
    /// Why something of it fails.
    type Error: Display;

    /// What it means that a worker is lost: the end of a sentence in the log.
    const LOSS: &'static str;

    /// Who keeps the worker, and what takes in what the worker says of itself.
    fn keeper(&mut self) -> (&mut Keeper, impl FnMut(Self::Snapshot));

    /// Starts a worker.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    fn start(&mut self) -> Result<(), Self::Error>;

    /// The worker was looked after: there may be none any more, or another.
    fn on_looked_after(&mut self);

    /// Takes the configuration file as it is now. On failure everything stays as it was.
    ///
    /// # Errors
    ///
    /// When the file is bad, or cannot be put into force.
    fn reload(&mut self) -> Result<(), Self::Error>;
}

/// Keeps a worker alive until a signal says otherwise. `file` holds the configuration, which is read again for a signal and for `wishes`.
///
/// # Errors
///
/// When the system refuses to wait.
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
                Ok(()) => tracing::info!(file = %file.display(), "reloaded"),
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

/// Ends a worker that hangs, and starts another when there is none.
fn look_after_worker<S: Supervisor>(supervisor: &mut S) {
    let (keeper, take) = supervisor.keeper();
    keeper.look_after_worker(take, S::LOSS);
    if supervisor.keeper().0.wants_another() {
        match supervisor.start() {
            Ok(()) => tracing::info!("another worker is started"),
            Err(error) => {
                tracing::error!(%error, "no worker");
                supervisor.keeper().0.postpone();
            }
        }
    }
    supervisor.on_looked_after();
}
