//! The rules, kept in place: other programs flush tables, put in their own, or remove routes. It is looked once a second; what
//! is missing is put back, or everything passes until it can be.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::daemon::state::{RulesState, SharedState};
use crate::firewall::watch::Watch;
use crate::firewall::{Firewall, FirewallError, PULSE, Pulse, Standing};

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// After how long it is tried again to put rules back, when that fails: doubled each time, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the gateway says that it lives; after a second without it, rules lead no packets to the queue.
const BEAT: Duration = Duration::from_millis(200);

/// Looks after the rules in a thread of its own.
pub(super) struct Guard {
    kept: Arc<Mutex<Kept>>,
}

struct Kept {
    firewall: Firewall,
    duty: Duty,
    watch: Option<Watch>,
    state: SharedState,
    wake: Arc<UnixStream>,
    next: Instant,
    pause: Duration,
}

/// Whether there are to be rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Duty {
    Keep,
    Rest,
}

impl Guard {
    /// Rests until [`Guard::install`]; a byte to `wake` says that what is known of the rules has changed.
    pub fn start(firewall: Firewall, state: SharedState, wake: Arc<UnixStream>) -> io::Result<Self> {
        let (next, beats) = (Instant::now(), state.clone());
        let kept = Kept { firewall, duty: Duty::Rest, watch: None, state, wake, next, pause: LOOK };
        let guard = Self { kept: Arc::new(Mutex::new(kept)) };
        let kept = Arc::clone(&guard.kept);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("rules").spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                lock(&kept).look();
            }
        })?;
        // By itself: programs that change rules wait for each other.
        thread("pulse").spawn(move || {
            loop {
                std::thread::sleep(BEAT);
                if beats.lock().worker.is_some() {
                    beat();
                }
            }
        })?;
        Ok(guard)
    }

    /// Puts the rules in.
    pub fn install(&self) -> Result<(), FirewallError> {
        let mut kept = lock(&self.kept);
        kept.firewall.install()?;
        kept.begin();
        Ok(())
    }

    /// Puts other rules in their place. On failure the old ones stay.
    pub fn change(&self, mut firewall: Firewall) -> Result<(), FirewallError> {
        let mut kept = lock(&self.kept);
        if let Err(error) = firewall.replace() {
            kept.firewall.replace()?;
            return Err(error);
        }
        let before = std::mem::replace(&mut kept.firewall, firewall);
        kept.begin();
        before.remove_where_not(&kept.firewall)
    }

    /// Takes the rules out, for good.
    pub fn remove(&self) -> Result<(), FirewallError> {
        let mut kept = lock(&self.kept);
        kept.duty = Duty::Rest;
        kept.firewall.remove()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    // Whatever a thread that panicked left, the next look puts right.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn begin(&mut self) {
        if self.firewall.pulse() == Pulse::Required {
            beat();
        }
        self.watch = Watch::new(&self.firewall)
            .inspect_err(|error| tracing::warn!(%error, "nobody notices when other programs remove rules"))
            .ok();
        self.duty = Duty::Keep;
    }

    fn look(&mut self) {
        let Some(watch) = self.watch.as_mut().filter(|_| self.duty == Duty::Keep && Instant::now() >= self.next) else {
            return;
        };
        match watch.look(&self.firewall) {
            Ok(Standing::Whole) => self.pause = LOOK,
            Ok(Standing::Broken) => self.restore(),
            // Somebody holds the lock, or there is no memory: the next look tells.
            Err(error) => tracing::debug!(%error, "cannot look after the rules"),
        }
    }

    fn restore(&mut self) {
        match self.firewall.replace() {
            Ok(()) => {
                if self.firewall.pulse() == Pulse::Required {
                    beat();
                }
                self.pause = LOOK;
                let restored = self.state.lock().rules.restored + 1;
                self.tell(RulesState { in_place: true, restored, problem: None });
                tracing::warn!(
                    restored,
                    "another program removed or changed the gateway's rules; they are in place again"
                );
            }
            Err(error) => {
                let pause = self.pause.as_secs();
                tracing::error!(
                    %error,
                    retry_seconds = pause,
                    "another program removed or changed the gateway's rules, and they cannot be put back; packets pass"
                );
                let restored = self.state.lock().rules.restored;
                self.tell(RulesState { in_place: false, restored, problem: Some(error.to_string()) });
                self.next = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn tell(&self, rules: RulesState) {
        self.state.lock().rules = rules;
        // A full pipe wakes just as well.
        let _ = io::Write::write(&mut &*self.wake, &[0]);
    }
}

/// Says to the rules that the gateway lives: one entry for each version of IP.
fn beat() {
    for entry in ["+0.0.0.0\n", "+::\n"] {
        // The list takes one write from each that opens it.
        let list = std::fs::File::options().write(true).open(format!("/proc/net/xt_recent/{PULSE}"));
        if let Err(error) = list.and_then(|mut list| list.write_all(entry.as_bytes())) {
            tracing::trace!(%error, "no rule waits for a sign of life");
        }
    }
}
