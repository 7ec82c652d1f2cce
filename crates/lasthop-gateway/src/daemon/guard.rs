//! Guard of the rules: other programs flush tables, install their own rules, or remove routes. The guard checks once
//! per second and restores missing rules; if it cannot, all packets pass until it can.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::daemon::state::{RulesState, SharedState};
use crate::firewall::watch::Watch;
use crate::firewall::{Firewall, FirewallError, PULSE, Pulse, Standing};

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum interval of attempts to restore rules; it doubles with each failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Interval of heartbeats. After one second without a heartbeat, rules send no packets to the queue.
const BEAT: Duration = Duration::from_millis(200);

/// Guard of the rules, in a thread of its own.
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
    pulse: Arc<Beat>,
}

/// State of the guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Duty {
    Keep,
    Rest,
}

impl Guard {
    /// Starts in the resting state, until [`Guard::install`]. Writes a byte to `wake` if the state of the rules
    /// changes.
    pub fn start(firewall: Firewall, state: SharedState, wake: Arc<UnixStream>) -> io::Result<Self> {
        let (next, beats, pulse) = (Instant::now(), state.clone(), Arc::new(Beat::default()));
        let beaten = Arc::clone(&pulse);
        let kept = Kept { firewall, duty: Duty::Rest, watch: None, state, wake, next, pause: LOOK, pulse };
        let guard = Self { kept: Arc::new(Mutex::new(kept)) };
        let kept = Arc::clone(&guard.kept);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("rules").spawn(move || {
            loop {
                std::thread::sleep(LOOK);
                lock(&kept).look();
            }
        })?;
        // Separate thread: programs that change rules may wait for each other.
        thread("pulse").spawn(move || {
            loop {
                std::thread::sleep(BEAT);
                if beats.lock().worker.is_some() {
                    beaten.send();
                }
            }
        })?;
        Ok(guard)
    }

    /// Installs the rules.
    pub fn install(&self) -> Result<(), FirewallError> {
        let mut kept = lock(&self.kept);
        kept.firewall.install()?;
        kept.begin();
        Ok(())
    }

    /// Replaces the rules. On failure the old ones stay.
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

    /// Removes the rules permanently.
    pub fn remove(&self) -> Result<(), FirewallError> {
        let mut kept = lock(&self.kept);
        kept.duty = Duty::Rest;
        kept.firewall.remove()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    // The next check repairs the state that a thread left when it panicked.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn begin(&mut self) {
        self.pulse.set(self.firewall.beats());
        if self.firewall.pulse() == Pulse::Required {
            self.pulse.send();
        }
        self.watch = Watch::new(&self.firewall)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch netfilter: removal of our rules by other programs will go undetected"))
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
            // Another program holds the lock, or memory is short: check again later.
            Err(error) => tracing::debug!(%error, "cannot check the rules"),
        }
    }

    fn restore(&mut self) {
        match self.firewall.replace() {
            Ok(()) => {
                if self.firewall.pulse() == Pulse::Required {
                    self.pulse.send();
                }
                self.pause = LOOK;
                let restored = self.state.lock().own.restored + 1;
                self.tell(RulesState { in_place: true, restored, problem: None });
                tracing::warn!(restored, "another program removed or changed the gateway's rules; rules restored");
            }
            Err(error) => {
                let pause = self.pause.as_secs();
                tracing::error!(
                    %error,
                    retry_seconds = pause,
                    "another program removed or changed the gateway's rules, and they cannot be restored; packets pass untreated"
                );
                let restored = self.state.lock().own.restored;
                self.tell(RulesState { in_place: false, restored, problem: Some(error.to_string()) });
                self.next = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn tell(&self, rules: RulesState) {
        self.state.lock().own = rules;
        // A full pipe wakes the reader as well.
        let _ = io::Write::write(&mut &*self.wake, &[0]);
    }
}

/// Heartbeat that the rules require.
#[derive(Debug, Default)]
struct Beat(Mutex<Option<(Sockets, u16)>>);

/// Sockets whose datagrams have the gateway's mark.
type Sockets = Vec<(UdpSocket, IpAddr)>;

impl Beat {
    /// Sets the mark and the port of the datagrams that nftables rules require, if any.
    fn set(&self, beats: Option<(u32, u16)>) {
        let open = |address: IpAddr, mark: u32| {
            let socket = UdpSocket::bind((address, 0))?;
            socket2::SockRef::from(&socket).set_mark(mark)?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>((socket, address))
        };
        let loopbacks = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let sockets = |mark| loopbacks.into_iter().filter_map(|address| open(address, mark).ok()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = beats.map(|(mark, port)| (sockets(mark), port));
    }

    /// Sends a heartbeat for each IP version.
    fn send(&self) {
        if let Some((sockets, port)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            for (socket, address) in sockets {
                // The chain that counts the datagram drops it, which is an error here.
                let _ = socket.send_to(&[], (*address, *port));
            }
        }
        for entry in ["+0.0.0.0\n", "+::\n"] {
            // The list accepts one write per open file.
            let list = std::fs::File::options().write(true).open(format!("/proc/net/xt_recent/{PULSE}"));
            if let Err(error) = list.and_then(|mut list| list.write_all(entry.as_bytes())) {
                tracing::trace!(%error, "no iptables rule requires a heartbeat");
            }
        }
    }
}
