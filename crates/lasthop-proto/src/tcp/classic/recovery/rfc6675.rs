//! RFC 6675: SACK-based recovery with `pipe` computed from the scoreboard.

use super::scoreboard::Scoreboard;
use super::{LossRecovery, Selective};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::Switch;
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// State of RFC 6675 §3 and §4.
#[derive(Clone, Default, Debug)]
pub struct Rfc6675 {
    board: Scoreboard,
    /// `RecoveryPoint`; `None` outside recovery.
    recovery_point: Option<Seq>,
    /// Point before whose acknowledgment recovery does not start after a timeout (§5.1).
    timeout_point: Option<Seq>,
    /// `HighRxt`: one past the highest byte resent in this recovery.
    high_rxt: Seq,
    /// `RescueRxt`: a rescue retransmission is allowed once more than this is acknowledged.
    rescue_rxt: Seq,
    /// True if this recovery attributed the loss to corruption (SACK and ELN coupled).
    spared: bool,
}

impl Rfc6675 {
    /// Returns whether a loss is being repaired.
    #[inline]
    pub(super) fn in_recovery(&self) -> bool {
        self.recovery_point.is_some()
    }

    fn is_lost(&self, s: &Stream, seq: Seq) -> bool {
        self.board.is_lost(seq, s.config().dupack_threshold, s.mss())
    }

    /// Evaluates `SetPipe` (§4), over holes instead of octets.
    fn pipe(&self, s: &Stream) -> u32 {
        let mut pipe = 0;
        let mut at = s.snd_una();
        let ends = self.board.runs().iter().map(|run| (run.left, run.right));
        for (hole_end, next) in ends.chain([(s.snd_max(), s.snd_max())]) {
            if at.lt(hole_end) {
                if !self.is_lost(s, at) {
                    pipe += hole_end.since(at);
                }
                pipe += self.high_rxt.min(hole_end).since(at);
            }
            at = at.max(next);
        }
        pipe
    }

    fn enter(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        self.recovery_point = Some(s.snd_max());
        self.spared = c.begin_selective_recovery(s, now, ack);
        let hole_end = self.board.next_hole(s.snd_una()).map_or(s.snd_max(), |(_, end)| end);
        // (4.3): both, so that the rescue does not come too early.
        self.high_rxt = hole_end.min(s.snd_una() + s.mss());
        self.rescue_rxt = self.high_rxt;
    }

    fn leave(&mut self, s: &mut Stream, ack: Seq) {
        self.recovery_point = None;
        s.report(Event::RecoveryLeft { ack });
    }

    /// Counts an acknowledgment outside recovery that SACKs new data, which is a duplicate by §2 regardless of its
    /// other contents (§5).
    fn count_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        c.dupacks += 1;
        let barred = self.timeout_point.is_some_and(|point| s.snd_una().lt(point));
        if !barred && (c.dupacks >= s.config().dupack_threshold || self.is_lost(s, s.snd_una())) {
            self.enter(s, c, now, ack);
        } else {
            c.limited = c.config.limited_transmit;
        }
    }

    /// Returns whether rule 2 of `NextSeg` applies: unsent data that the peer's window and Nagle's rule permit.
    fn new_data_can_go(s: &Stream) -> bool {
        let unsent = (1 + s.queued()).saturating_sub(s.pos(s.snd_max())).min(u64::from(s.mss())) as u32;
        let room = s.flow_window().saturating_sub(s.flight());
        let small = unsent < s.mss() && s.holds_small() && !s.is_closed();
        unsent > 0 && room >= unsent && !small
    }

    /// Returns the end of a segment of a hole that starts at `seq`.
    fn segment_end(s: &Stream, seq: Seq, hole_end: Seq) -> Seq {
        hole_end.min(seq + s.mss())
    }
}

impl LossRecovery for Rfc6675 {
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let fresh = self.board.update(s.snd_una(), s.snd_max(), ack.sack);
        if self.recovery_point.is_some() {
            if self.spared && !ack.eln.is_on() {
                self.spared = false;
                c.halve(s);
            }
            return;
        }
        if fresh > 0 {
            self.count_duplicate(s, c, now, ack);
        }
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let acked = c.advance(s, now, ack.ack, Timer::Restart);
        let fresh = self.board.update(s.snd_una(), s.snd_max(), ack.sack);
        self.high_rxt = self.high_rxt.max(s.snd_una());
        match self.recovery_point {
            Some(point) if s.snd_una().ge(point) => {
                c.dupacks = 0;
                self.leave(s, ack.ack);
            }
            Some(_) => {}
            None => {
                c.dupacks = 0;
                c.grow(acked);
                if fresh > 0 {
                    self.count_duplicate(s, c, now, ack);
                }
            }
        }
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        if self.recovery_point.take().is_some() {
            self.timeout_point = Some(s.snd_max());
        }
        self.board.clear();
        self.high_rxt = s.snd_una();
        c.limited = Switch::Off;
    }

    fn judges_by_sack(&self) -> bool {
        true
    }

    fn predictable(&self) -> bool {
        false
    }
}

impl Selective for Rfc6675 {
    /// Applies rules 1 and 4 of `NextSeg` (§4); rule 2 is the sender's new data, for which this returns `None`.
    fn next_hole(&mut self, s: &Stream, c: &SendControl) -> Option<(Seq, Seq, Cause)> {
        let point = self.recovery_point?;
        if c.cc.window().saturating_sub(self.pipe(s)) < s.mss() {
            return None;
        }
        let unproven = self.board.next_hole(self.high_rxt.max(s.snd_una()));
        if let Some((start, end)) = unproven
            && self.is_lost(s, start)
        {
            return Some((start, Self::segment_end(s, start, end), Cause::SackHole));
        }
        if Self::new_data_can_go(s) {
            return None;
        }
        if let Some((start, end)) = unproven {
            return Some((start, Self::segment_end(s, start, end), Cause::SackHole));
        }
        // Rule 4: one rescue retransmission of the highest unSACKed segment per recovery.
        if s.snd_una().le(self.rescue_rxt) {
            return None;
        }
        let (start, end) = self.board.highest_hole(s.snd_una(), s.snd_max())?;
        self.rescue_rxt = point;
        Some((if end.since(start) > s.mss() { end - s.mss() } else { start }, end, Cause::SackHole))
    }

    fn window(&self, s: &Stream, c: &SendControl) -> Option<u32> {
        (c.cc.window().saturating_sub(self.pipe(s)) >= s.mss()).then_some(u32::MAX)
    }

    fn on_sent(&mut self, _s: &Stream, _now: Instant, seq: Seq, end: Seq) {
        if self.board.highest().is_some_and(|highest| seq.lt(highest)) {
            self.high_rxt = self.high_rxt.max(end);
        }
    }
}
