//! Keep-alives to a peer, and the time within which it must answer.

use lasthop_proto::link::hybrid::PathId;
use lasthop_proto::time::{Duration, Instant};

use super::{KEEPALIVE, Peer, Shared};
use crate::control::Control;

/// Timers of a peer that run between datagrams.
pub(super) struct Liveness {
    /// Configured interval between keep-alives.
    interval: Option<Duration>,
    /// Time at which received data is answered by a keep-alive.
    answer_at: Option<Instant>,
    /// Time of the next configured keep-alive.
    persistent_at: Option<Instant>,
    /// Time by which the peer must have answered.
    silent_at: Option<Instant>,
}

impl Liveness {
    pub(super) fn new(interval: Option<Duration>) -> Self {
        Self { interval, answer_at: None, persistent_at: None, silent_at: None }
    }

    /// Records that a datagram was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        self.answer_at = None;
        self.restart(now);
    }

    /// Records that an authentic datagram was received.
    pub(super) fn received(&mut self, now: Instant) {
        self.silent_at = None;
        self.restart(now);
    }

    fn restart(&mut self, now: Instant) {
        self.persistent_at = self.interval.map(|interval| now + interval);
    }

    /// Schedules a keep-alive after received data, for which the other end expects an answer.
    pub(super) fn owe_answer(&mut self, now: Instant) {
        self.answer_at.get_or_insert(now + KEEPALIVE);
    }

    /// Cancels the keep-alive after received data.
    pub(super) fn answered(&mut self) {
        self.answer_at = None;
    }

    /// Starts to wait for an answer until `silent_at`, unless one is awaited already.
    pub(super) fn await_answer(&mut self, silent_at: impl FnOnce() -> Instant) {
        self.silent_at.get_or_insert_with(silent_at);
    }

    /// Returns whether the peer has not answered in time, once.
    pub(super) fn take_silence(&mut self, now: Instant) -> bool {
        self.silent_at.take_if(|at| *at <= now).is_some()
    }

    /// Returns whether a configured keep-alive is due, and schedules the next one.
    pub(super) fn take_persistent(&mut self, now: Instant) -> bool {
        let due = self.persistent_at.take_if(|at| *at <= now).is_some();
        if due {
            self.restart(now);
        }
        due
    }

    /// Returns whether the keep-alive after received data is due, once.
    pub(super) fn take_answer(&mut self, now: Instant) -> bool {
        self.answer_at.take_if(|at| *at <= now).is_some()
    }

    /// Stops all timers.
    pub(super) fn stop(&mut self) {
        (self.answer_at, self.persistent_at, self.silent_at) = (None, None, None);
    }

    pub(super) fn poll_deadline(&self) -> Option<Instant> {
        [self.answer_at, self.persistent_at, self.silent_at].into_iter().flatten().min()
    }
}

impl Peer {
    /// Sends a keep-alive on each path.
    pub(crate) fn keep_alive(&mut self, now: Instant, shared: &mut Shared) {
        for path in self.used() {
            if self.path_mut(path).is_some_and(|path| path.has_destination() && path.take_keepalive(now)) {
                self.keep_alive_on(now, path, shared);
            }
        }
        self.liveness.answered();
    }

    /// Sends a keep-alive on a path, unless it is off.
    pub(crate) fn keep_alive_on(&mut self, now: Instant, path: PathId, shared: &mut Shared) {
        let is_one_of_several = self.used().count() > 1;
        let path_on = self.path_mut(path).filter(|path| path.is_on());
        let to = path_on.and_then(|path| if is_one_of_several { path.keep_alive_to(now) } else { path.address });
        if let Some(to) = to {
            self.send_to(now, path, to, (Control::Keepalive, 0), shared);
        }
        self.liveness.answered();
    }
}
