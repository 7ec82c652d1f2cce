//! Signals from the service manager and users, notifications to the former, and a worker's independence of both.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, set_parent_process_death_signal};
use sd_notify::NotifyState;

use crate::system_error::{SystemError, system};

/// Binds a worker to its supervisor: the worker dies with the supervisor, and ignores the signals that a terminal sends
/// to both.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn follow_supervisor() -> Result<(), SystemError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| system("cannot set the parent-death signal")(error.into()))?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(system("cannot handle signals"))?;
    }
    Ok(())
}

/// Notifies the service manager, if there is one.
pub fn notify(states: &[NotifyState<'_>]) {
    // Without a service manager this has no effect.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

/// Notifies the service manager of a reload; [`NotifyState::Ready`] marks its end.
pub fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Signals as flags, with a socket that wakes the waiting thread.
pub struct Signals {
    /// True after SIGTERM or SIGINT.
    pub terminate: Arc<AtomicBool>,
    /// True after SIGHUP.
    pub reload: Arc<AtomicBool>,
    /// Readable after a signal, or after a write to `wake`.
    pub woken: UnixStream,
    /// Socket that wakes the waiting thread.
    pub wake: Arc<UnixStream>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
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

    /// Discards pending wake-ups.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.woken, &mut bytes), Ok(1..)) {}
    }
}
