//! Socket options that an application changes on a live connection, and the release of a connection by its application.

use alloc::boxed::Box;

use super::{Connection, State};
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Probes of an idle connection (RFC 9293 §3.8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Time without a segment from the peer before the first probe (`TCP_KEEPIDLE`).
    pub idle: Duration,
    /// Interval between probes (`TCP_KEEPINTVL`).
    pub interval: Duration,
    /// Number of unanswered probes after which the connection is reset (`TCP_KEEPCNT`).
    pub probes: u32,
}

/// State of the probes of an idle connection.
#[derive(Clone, Debug)]
pub(super) struct KeepaliveState {
    settings: Keepalive,
    /// Time of the last segment from the peer.
    pub heard: Instant,
    /// Probes sent since.
    pub sent: u32,
    timer: Instant,
    /// On if a probe is to be sent.
    pub due: Switch,
}

impl Connection {
    /// Sends segments smaller than the mss at once, or by the rule of the settings (`TCP_NODELAY`).
    pub fn set_nodelay(&mut self, on: Switch) {
        self.sender.stream_mut().set_nodelay(on);
        self.sender.resume();
    }

    /// Lets segments smaller than the mss wait until the switch is off, but not longer than a retransmission timeout
    /// (`TCP_CORK`).
    pub fn set_cork(&mut self, on: Switch) {
        self.sender.stream_mut().set_cork(on);
        self.sender.resume();
    }

    /// Adds `bytes` to the stream, to which more will be added at once: a segment smaller than the mss does not leave
    /// because of this write (`MSG_MORE`).
    pub fn write_more(&mut self, bytes: u64) {
        self.write(bytes);
        self.sender.stream_mut().expect_more();
    }

    /// Adds `bytes` to the stream, and ends a segment behind them (`MSG_EOR`).
    pub fn write_record(&mut self, bytes: u64) {
        self.write(bytes);
        let s = self.sender.stream_mut();
        s.forget_records();
        s.end_record();
    }

    /// Limits the amount of data that [`Self::offer`] accepts beyond the data already sent (`TCP_NOTSENT_LOWAT`).
    pub fn set_notsent_lowat(&mut self, bytes: Option<u32>) {
        self.sender.stream_mut().limit_unsent(bytes);
    }

    /// Sets the time without progress after which the connection is given up, in place of the number of retries
    /// (`TCP_USER_TIMEOUT`).
    pub fn set_user_timeout(&mut self, limit: Option<Duration>) {
        self.sender.stream_mut().set_user_timeout(limit);
    }

    /// Probes the peer while the connection is idle (`SO_KEEPALIVE`), or not any more.
    pub fn set_keepalive(&mut self, now: Instant, settings: Option<Keepalive>) {
        let rtt = self.sender.stream().rtt();
        self.keepalive = settings.map(|settings| {
            let timer = rtt.deadline_after(now, settings.idle);
            Box::new(KeepaliveState { settings, heard: now, sent: 0, timer, due: Switch::Off })
        });
    }

    /// Closes the stream and stops reading, like `close` on a socket. Data that arrives from now on resets the
    /// connection, and so does data that was not read (RFC 2525 §2.17; Linux `tcp_close`). A peer that does not end its
    /// stream is not waited for longer than `time_wait`.
    pub fn release(&mut self, now: Instant) {
        if self.receiver.unread() > 0 {
            self.abort();
            return;
        }
        self.ending.released = Switch::On;
        self.close();
        if self.state == State::FinWait2 {
            self.wait_for_peer(now);
        }
    }

    /// Limits the wait for the peer's FIN after the application has released the connection (Linux `tcp_fin_time`).
    pub(super) fn wait_for_peer(&mut self, now: Instant) {
        if self.ending.released.is_on() {
            self.record();
            self.ending.time_wait = now + self.config.common.time_wait;
        }
    }

    /// Returns the time of the next check of an idle connection.
    #[inline]
    pub(super) fn keepalive_timer(&self) -> Option<Instant> {
        self.keepalive.as_ref().map(|keepalive| keepalive.timer)
    }

    /// Handles the timer of an idle connection (`tcp_keepalive_timer`).
    pub(super) fn on_keepalive_timer(&mut self, now: Instant) {
        let busy = !self.sender.stream().is_idle() || !self.sender.stream().is_done();
        let (user_timeout, rtt) = (self.sender.stream().user_timeout(), self.sender.stream().rtt());
        let Some(keepalive) = &mut self.keepalive else { return };
        if keepalive.timer > now {
            return;
        }
        let Keepalive { idle, interval, probes } = keepalive.settings;
        let elapsed = now.since(keepalive.heard);
        if busy || elapsed < idle {
            keepalive.timer = rtt.deadline_after(now, if busy { idle } else { idle.saturating_sub(elapsed) });
            return;
        }
        let over = match user_timeout {
            Some(limit) => keepalive.sent > 0 && elapsed >= limit,
            None => keepalive.sent >= probes,
        };
        if over {
            self.keepalive = None;
            self.abort();
            return;
        }
        keepalive.sent += 1;
        keepalive.due = Switch::On;
        keepalive.timer = rtt.deadline_after(now, interval.max(Duration::from_millis(1)));
    }
}
