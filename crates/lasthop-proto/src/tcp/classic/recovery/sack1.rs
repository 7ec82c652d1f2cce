//! "Sack1" (Fall and Floyd, "Simulation-based comparisons of Tahoe, Reno and SACK TCP", 1996; ns-2): recovery under a
//! `pipe` that arriving acknowledgments count down and sent segments count up.

use super::reno::below_threshold;
use super::scoreboard::Scoreboard;
use super::{LossRecovery, Selective};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::{RecoveryGuard, Switch};
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// Sack1's state.
#[derive(Clone, Default, Debug)]
pub struct Sack1 {
    board: Scoreboard,
    in_recovery: bool,
    /// `snd_max` when the last recovery or timeout began.
    recover: Option<Seq>,
    /// Segments assumed to be in the network; may fall below zero.
    pipe: i64,
    /// End of the holes that were resent.
    resent_to: Option<Seq>,
    /// True if duplicates are ignored, between a timeout and the next new acknowledgment.
    after_timeout: bool,
    /// True if this recovery attributed the loss to corruption (SACK and ELN coupled).
    spared: bool,
}

impl Sack1 {
    /// Returns whether a loss is being repaired.
    #[inline]
    pub(super) fn in_recovery(&self) -> bool {
        self.in_recovery
    }

    fn enter(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if !c.may_enter(s, self.recover) {
            return;
        }
        self.in_recovery = true;
        self.recover = Some(s.snd_max());
        self.pipe = i64::from(s.flight_segments()) - i64::from(s.config().dupack_threshold);
        self.spared = c.begin_selective_recovery(s, now, ack);
        let end =
            self.board.next_hole(s.snd_una()).map_or(s.snd_una() + s.mss(), |(_, end)| end.min(s.snd_una() + s.mss()));
        self.resent_to = Some(end);
        // Nothing else is sent on the acknowledgment that starts recovery.
        c.budget = 0;
    }

    fn on_recovery_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        self.pipe -= 1;
        if self.recover.is_none_or(|recover| ack.ack.ge(recover)) {
            self.in_recovery = false;
            self.recover = None;
            let acked = c.advance(s, now, ack.ack, Timer::Restart);
            if !self.spared {
                c.leave_inflated(s);
            }
            c.dupacks = 0;
            if c.config.growth.is_bsd() {
                c.grow(acked);
            }
            s.report(Event::RecoveryLeft { ack: ack.ack });
            self.forget();
        } else if ack.ack.gt(s.snd_una()) {
            self.pipe -= 1;
            c.advance(s, now, ack.ack, Timer::Restart);
            s.rtt_mut().end_backoff();
            self.board.update(s.snd_una(), s.snd_max(), ack.sack);
        } else {
            self.board.update(s.snd_una(), s.snd_max(), ack.sack);
        }
        // Coupled with ELN, an unmarked loss is attributed to congestion after all.
        if self.in_recovery && self.spared && !ack.eln.is_on() {
            self.spared = false;
            c.halve(s);
        }
    }

    /// Returns whether the pipe is below the window in whole segments.
    fn has_room(&self, s: &Stream, c: &SendControl) -> bool {
        (self.pipe + 1) * i64::from(s.mss()) <= i64::from(c.cc.window())
    }

    fn forget(&mut self) {
        self.board.clear();
        self.resent_to = None;
        self.after_timeout = false;
    }
}

impl LossRecovery for Sack1 {
    fn on_old_ack(&mut self, c: &mut SendControl) {
        if self.in_recovery {
            self.pipe -= 1;
        } else {
            c.budget = if c.dupacks > 0 { 0 } else { c.budget };
        }
    }

    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if self.in_recovery {
            c.dupacks = c.dupacks.saturating_add(1);
            self.on_recovery_ack(s, c, now, ack);
            return;
        }
        if self.after_timeout {
            return;
        }
        let fresh = self.board.update(s.snd_una(), s.snd_max(), ack.sack);
        if c.dupacks > 0 || fresh > 0 {
            c.budget = 0;
        }
        if fresh == 0 {
            return;
        }
        c.dupacks += 1;
        if c.dupacks < s.config().dupack_threshold {
            below_threshold(c);
        } else if c.dupacks == s.config().dupack_threshold {
            self.enter(s, c, now, ack);
        }
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if self.in_recovery {
            self.on_recovery_ack(s, c, now, ack);
            return;
        }
        let acked = c.advance(s, now, ack.ack, Timer::Restart);
        c.dupacks = 0;
        c.grow(acked);
        self.forget();
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        self.in_recovery = false;
        self.recover = match c.config.recovery_guard {
            RecoveryGuard::Careful | RecoveryGuard::Ns2 | RecoveryGuard::OncePerWindow => Some(s.snd_max()),
            RecoveryGuard::None => None,
        };
        self.forget();
        self.after_timeout = true;
        c.limited = Switch::Off;
    }

    fn predictable(&self) -> bool {
        !self.in_recovery
    }
}

impl Selective for Sack1 {
    fn next_hole(&mut self, s: &Stream, c: &SendControl) -> Option<(Seq, Seq, Cause)> {
        if !self.has_room(s, c) {
            return None;
        }
        let from = self.resent_to.map_or(s.snd_una(), |seq| seq.max(s.snd_una()));
        let (start, end) = self.board.next_hole(from)?;
        Some((start, end.min(start + s.mss()), Cause::SackHole))
    }

    fn window(&self, s: &Stream, c: &SendControl) -> Option<u32> {
        self.has_room(s, c).then_some(u32::MAX)
    }

    fn on_sent(&mut self, _s: &Stream, _now: Instant, seq: Seq, end: Seq) {
        // The first retransmission of a recovery is not counted: `resent_to` is already at its end.
        if self.resent_to.is_some_and(|resent_to| end.le(resent_to)) {
            return;
        }
        self.pipe += 1;
        if self.board.highest().is_some_and(|highest| seq.lt(highest)) {
            self.resent_to = Some(end);
        }
    }
}
