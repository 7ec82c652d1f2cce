//! What the service manager and users say by signals, what a daemon says to the former, and how a worker hears neither.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, set_parent_process_death_signal};
use sd_notify::NotifyState;

use crate::system_error::{SystemError, system};

/// Binds a worker to its supervisor: it never outlives it, and leaves to it the signals that a terminal sends to both.
///
/// # Errors
///
/// When the system refuses it.
pub fn follow_supervisor() -> Result<(), SystemError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| system("cannot ask for the parent's death signal")(error.into()))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(system("cannot handle signals"))?;
    }
    Ok(())
}

/// Tells the service manager, if there is one.
pub fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager nobody listens.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot tell the service manager");
    }
}

/// Tells the service manager that the configuration is read again; [`NotifyState::Ready`] ends that.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Signals as flags, and a socket that wakes whoever waits.
pub struct Signals {
    /// SIGTERM or SIGINT came.
    pub terminate: Arc<AtomicBool>,
    /// SIGHUP came.
    pub reload: Arc<AtomicBool>,
    /// Readable when one came, or somebody wrote to `wake`.
    pub woken: UnixStream,
    /// Wakes whoever waits.
    pub wake: Arc<UnixStream>,
}

impl Signals {
    /// Begins to handle them.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub fn new() -> io::Result<Self> {
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

    /// Takes in what woke.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.woken, &mut bytes), Ok(1..)) {}
    }
}
