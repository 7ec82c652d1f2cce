//! The peer's window: its updates, and probes while it is closed (RFC 9293 §3.8.6).

use super::Stream;
use super::segment::{NewData, Transmission, Turn};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Incoming;
use crate::tcp::config::{Clock, Switch, WindowProbe};
use crate::time::{Duration, Instant};

/// Bounds of the persist timer: 4.4BSD `TCPTV_PERSMIN`, `TCPTV_PERSMAX`. RFC 9293 §3.8.6.1 requires the first probe
/// after one retransmission timeout, so the lower bound applies to 4.4BSD's clock only.
const PERSIST: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Maximum exponent of the interval between Linux's probes (`tcp_probe0_when`).
const MOST_DOUBLINGS: u32 = 10;

/// Window up to which all of it bounds segments, instead of half (Linux `TCP_MSS_DEFAULT`).
const TINY_WINDOW: u32 = 536;

/// Minimum bound of segments (`tcp_bound_to_half_wnd`).
const LEAST_BOUND: u32 = 48;

/// State of the probes of a closed window.
#[derive(Clone, Debug)]
pub(super) struct Persist {
    /// Time of the next probe; [`Instant::FAR_FUTURE`] without one.
    timer: Instant,
    /// Number of consecutive probes.
    probes: u32,
    /// Number of probes since the last segment from the peer.
    unanswered: u32,
    due: Switch,
}

impl Persist {
    /// State while the window is open.
    pub const NONE: Self = Self { timer: Instant::FAR_FUTURE, probes: 0, unanswered: 0, due: Switch::Off };

    #[inline]
    fn is_running(&self) -> bool {
        self.timer != Instant::FAR_FUTURE
    }
}

impl Stream {
    /// Returns the peer's window, in bytes.
    #[inline]
    pub fn snd_wnd(&self) -> u32 {
        self.snd_wnd
    }

    /// Returns the maximum of the peer's window so far.
    #[inline]
    pub fn max_snd_wnd(&self) -> u32 {
        self.max_snd_wnd
    }

    /// Returns the bytes that the peer's window and the send buffer allow beyond `snd_una`.
    #[inline]
    pub fn flow_window(&self) -> u32 {
        self.snd_wnd.min(self.config.common.send_buffer)
    }

    /// Sets the peer's window from a segment with these numbers.
    pub fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.snd_wl = (seq, ack);
        self.snd_wnd = window;
        self.max_snd_wnd = self.max_snd_wnd.max(window);
    }

    /// Returns whether a segment with these numbers is newer than the last one used for a window update. Linux also
    /// trusts every new acknowledgment, and a window that closes (`tcp_may_update_window`).
    pub fn may_update_window(&self, seq: Seq, ack: Seq, window: u32) -> bool {
        let (wl1, wl2) = self.snd_wl;
        if self.config.common.window_probe == WindowProbe::Empty {
            return ack.gt(self.snd_una) || wl1.lt(seq) || wl1 == seq && (window > self.snd_wnd || window == 0);
        }
        wl1.lt(seq) || (wl1 == seq && (wl2.lt(ack) || (wl2 == ack && window > self.snd_wnd)))
    }

    /// Processes the window of a plausible acknowledgment: updates it, unless the segment is older than the last one
    /// used (RFC 9293 §3.10.7.4).
    #[inline]
    pub fn on_window(&mut self, now: Instant, incoming: &Incoming) {
        self.persist.unanswered = 0;
        if self.config.common.window_probe == WindowProbe::Empty {
            return self.on_window_as_linux(now, incoming);
        }
        if incoming.window == 0 {
            // RFC 9293 §3.8.6.1: a peer that answers with a closed window is alive, however long it takes.
            self.tries.data = 0;
        }
        if self.may_update_window(incoming.seq, incoming.ack.ack, incoming.window) {
            self.set_window(incoming.window, incoming.seq, incoming.ack.ack);
            if incoming.window > 0 {
                self.persist.timer = Instant::FAR_FUTURE;
                self.persist.probes = 0;
            }
        }
    }

    /// Processes the window like Linux (`tcp_ack_update_window`, `tcp_ack_probe`). If nothing is outstanding and the
    /// next segment still does not fit, the next probe is a whole interval away.
    #[inline]
    fn on_window_as_linux(&mut self, now: Instant, incoming: &Incoming) {
        if incoming.window > self.size.widest {
            self.size.widest = incoming.window;
            self.fit_window();
        }
        if self.may_update_window(incoming.seq, incoming.ack.ack, incoming.window) {
            self.resumes = if incoming.window == self.snd_wnd { self.resumes } else { Switch::On };
            self.set_window(incoming.window, incoming.seq, incoming.ack.ack);
        }
        if self.is_idle() && !self.is_done() {
            self.judge_opening(now);
        }
    }

    #[inline(never)]
    fn judge_opening(&mut self, now: Instant) {
        let Some(next) = self.next_len().filter(|next| *next > 0) else { return };
        if next <= self.snd_wnd {
            self.persist = Persist::NONE;
        } else if self.persist.is_running() || self.persist.probes > 0 {
            self.persist.due = Switch::Off;
            self.start_persist(now);
        }
    }

    /// Limits segments to half of the widest window that the peer has offered (Linux `tcp_bound_to_half_wnd`).
    #[inline(never)]
    pub(super) fn fit_window(&mut self) {
        let half = self.half_window();
        self.size.mss = if half == 0 { self.size.full } else { self.size.full.min(half.max(LEAST_BOUND)) };
        self.size.blocks = None;
    }

    /// Returns half of the widest window that the peer has offered, or the whole of a tiny one; 0 if it is unknown.
    #[inline]
    pub(super) fn half_window(&self) -> u32 {
        if self.size.widest > TINY_WINDOW { self.size.widest / 2 } else { self.size.widest }
    }

    /// Returns the sequence space of the segment at `snd_nxt`, if there is one in the send buffer.
    pub fn next_len(&self) -> Option<u32> {
        let left = self.buffered_end().checked_sub(self.pos(self.snd_nxt))?;
        Some(left.min(u64::from(self.payload())) as u32)
    }

    /// Returns whether the peer's window admits the segment at `snd_nxt` as a whole (`tcp_snd_wnd_test`).
    pub fn admits_next(&self) -> bool {
        let used = self.snd_nxt.since(self.snd_una);
        self.next_len().is_some_and(|next| next > 0 && used.saturating_add(next) <= self.snd_wnd)
    }

    /// Returns whether the application has written, or the window has moved, since the last call.
    pub fn take_resumption(&mut self) -> bool {
        core::mem::replace(&mut self.resumes, Switch::Off).is_on()
    }

    /// Returns whether a data probe of a small window, or a probe of a closed one, follows Linux's rules.
    pub fn probes_as_linux(&self) -> bool {
        self.config.common.window_probe == WindowProbe::Empty
    }

    /// Returns whether a segment with these fields carries no new information: nothing is outstanding, the window is
    /// open and unchanged.
    #[inline]
    pub fn is_no_news(&self, seq: Seq, ack: Seq, window: u32) -> bool {
        ack == self.snd_una
            && ack == self.snd_max
            && window == self.snd_wnd
            && window > 0
            && !self.persist.is_running()
            && self.may_update_window(seq, ack, window)
    }

    /// Records a segment with these numbers for which [`Self::is_no_news`] holds.
    #[inline]
    pub fn on_no_news(&mut self, seq: Seq, ack: Seq) {
        self.persist.unanswered = 0;
        self.persist.probes = 0;
        self.snd_wl = (seq, ack);
    }

    /// Returns the sequence number of a pure acknowledgment. While probing, `snd_max` may lie beyond the window, where
    /// the peer would refuse it (4.4BSD `tcp_output`).
    pub fn ack_seq(&self) -> Seq {
        if self.persist.probes > 0 { self.snd_nxt } else { self.snd_max }
    }

    /// Returns the sequence number of a segment without data, for a Linux end: within the window that the peer granted
    /// last, to the precision of `shift` (`tcp_acceptable_seq`).
    pub fn acceptable_seq(&self, shift: u8) -> Seq {
        let edge = self.snd_una + self.snd_wnd;
        if !edge.lt(self.snd_max) || self.snd_max.since(edge) < 1 << shift { self.snd_max } else { edge }
    }

    /// Returns the number of probes since the last segment from the peer.
    pub fn unanswered_probes(&self) -> u32 {
        self.persist.unanswered
    }

    /// Returns the time at which the persist timer expires.
    #[inline]
    pub fn persist_timer(&self) -> Option<Instant> {
        self.persist.is_running().then_some(self.persist.timer)
    }

    /// Handles an expiry of the persist timer.
    pub fn on_persist_timer(&mut self, now: Instant) {
        if self.persist.timer <= now {
            self.persist.timer = Instant::FAR_FUTURE;
            self.persist.due = Switch::On;
            let outlasted = self.live.is_some() && self.outlasts_user(now, self.persist.probes == 0);
            if outlasted || self.persist.unanswered >= self.config.common.max_retries {
                self.tries.given_up = Switch::On;
            }
        }
    }

    /// Returns whether a probe of the window is due.
    #[inline]
    pub fn probe_is_due(&self) -> bool {
        self.persist.due.is_on()
    }

    /// Starts the persist timer in place of the retransmission timer if only a probe can show that the window has
    /// opened, in case the update is lost: with nothing outstanding, if the peer's window `limits` what may be sent of
    /// `new`, or if the peer took the window back (RFC 9293 §3.8.6).
    pub fn wait_for_window(&mut self, now: Instant, new: &NewData, limits: bool) {
        let taken_back = self.snd_wnd == 0 && self.snd_nxt == self.snd_una;
        let waits = self.is_idle() && limits || taken_back;
        if waits && new.in_buffer > 0 && !self.persist.is_running() && !self.probe_is_due() {
            self.rto_timer = None;
            self.start_persist(now);
        }
    }

    /// Stops the persist timer because the retransmission timer runs, for a Linux end, which has one timer for both
    /// (`tcp_rearm_rto`).
    #[inline]
    pub(super) fn replace_persist_timer(&mut self) {
        if self.probes_as_linux() && self.snd_wnd > 0 {
            self.persist.timer = Instant::FAR_FUTURE;
        }
    }

    fn start_persist(&mut self, now: Instant) {
        let linux = self.probes_as_linux();
        let doublings = self.persist.probes.min(if linux { MOST_DOUBLINGS } else { 6 });
        let span = self.rtt.rto().saturating_mul(1 << doublings);
        if self.persist.probes == 0 && self.snd_wnd == 0 {
            self.report(Event::ZeroWindow);
        }
        let least = if matches!(self.config.common.clock, Clock::Ticks { .. }) { PERSIST.0 } else { Duration::ZERO };
        let most = if linux { self.config.common.rto_max } else { PERSIST.1 };
        self.persist.timer = self.rtt.deadline_after(now, span.max(least).min(most));
    }

    /// Returns the probe that is due, if there is data to probe with. The probe of a closed window is recorded as sent,
    /// but `snd_nxt` stays: if the peer refuses the byte, it is retransmitted in its turn. For a small window it is the
    /// part of the data that the window admits, an ordinary segment, which is yet to be recorded.
    pub fn take_probe(&mut self, now: Instant) -> Option<Transmission> {
        self.persist.due = Switch::Off;
        if self.pos(self.snd_una) > self.queued {
            return None;
        }
        if self.snd_wnd > 0 {
            if !self.is_idle() {
                return None;
            }
            let end = self.snd_nxt + self.flow_window();
            let mut push = Switch::Off;
            if self.probes_as_linux() {
                // `tcp_write_wakeup` sets PSH.
                push = Switch::On;
                self.persist.probes = 0;
            }
            return Some(Transmission { turn: Turn::Probe, push, ..self.segment(self.snd_nxt, end, Cause::Probe) });
        }
        let (seq, len) = match self.config.common.window_probe {
            WindowProbe::Byte => (self.snd_una, 1),
            WindowProbe::Empty => (self.snd_una - 1, 0),
        };
        let (off, cause) = (Switch::Off, Cause::Probe);
        let probe = Transmission { seq, len, syn: off, fin: off, push: off, joined: off, turn: Turn::Probe, cause };
        self.snd_max = self.snd_max.max(probe.end());
        self.persist.probes = self.persist.probes.saturating_add(1);
        self.persist.unanswered = self.persist.unanswered.saturating_add(1);
        self.start_persist(now);
        Some(probe)
    }
}
