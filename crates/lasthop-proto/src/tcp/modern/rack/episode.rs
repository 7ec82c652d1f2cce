//! The state machine: Open, Disorder, Cwr, Recovery, Loss (Linux `tcp_fastretrans_alert`), and undo.

use super::ack::News;
use super::{Permit, Rack};
use crate::event::{Event, Spurious};
use crate::tcp::config::Switch;
use crate::tcp::congestion::control::{CaState, Episode, Reduction};
use crate::tcp::modern::prr::{Entry, Prr};
use crate::tcp::stream::Stream;
use crate::time::{Duration, Instant};

/// Continuation of the processing of an acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Go,
    Stop,
}

/// Treatment of loss marks when a reduction is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Losses {
    Keep,
    Forget,
}

impl Rack {
    /// Evaluates a dubious acknowledgment: decides which segments are lost and which state follows.
    pub(super) fn judge(&mut self, s: &mut Stream, now: Instant, news: &mut News) {
        if news.ece {
            self.undo.forbid();
        }
        if news.reneging && news.una_advanced {
            // Linux `tcp_check_sack_reneging`: the peer may correct that at once; if not, the timeout follows soon.
            let srtt = s.rtt().srtt().unwrap_or(Duration::ZERO);
            let patience = (srtt / 2).max(Duration::from_millis(10));
            self.set_timer(s, now, super::timers::Pending::Timeout, patience);
            news.set_timer = false;
            return;
        }
        if self.phase.state == CaState::Open {
            self.undo.restart_clock();
        } else if s.snd_una().ge(self.phase.high) {
            match self.phase.state {
                // Held until data beyond it is acknowledged, so that the peer is notified.
                CaState::Cwr if s.snd_una() != self.phase.high => {
                    self.end_reduction(now);
                    self.phase.state = CaState::Open;
                }
                CaState::Recovery => {
                    self.flight.forget_guesses();
                    if self.try_undo_recovery(s, now, news) == Next::Stop {
                        return;
                    }
                    self.end_reduction(now);
                }
                _ => {}
            }
        }
        let next = match self.phase.state {
            CaState::Recovery => self.judge_in_recovery(s, now, news),
            CaState::Loss => self.judge_in_loss(s, now, news),
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if news.una_advanced {
                    self.flight.forget_guesses();
                }
                self.count_duplicate(news);
                Next::Go
            }
        };
        if next == Next::Stop {
            return;
        }
        if matches!(self.phase.state, CaState::Open | CaState::Disorder) {
            self.try_undo_by_duplicates(s, now);
        }
        if self.phase.state != CaState::Recovery {
            self.find_losses(s, now, news);
            if self.flight.lost() == 0 {
                self.try_to_open(s, now, news);
                return;
            }
            self.enter_recovery(s, now, news.delivered);
        }
        news.rexmit = Some(Permit::All);
    }

    fn judge_in_recovery(&mut self, s: &mut Stream, now: Instant, news: &mut News) -> Next {
        self.count_duplicate(news);
        if news.una_advanced && self.try_undo_partial(s, now, news) == Next::Stop {
            return Next::Stop;
        }
        if self.try_undo_by_duplicates(s, now) {
            self.try_to_open(s, now, news);
        }
        self.find_losses(s, now, news);
        if self.phase.state != CaState::Recovery {
            if self.flight.lost() == 0 {
                return Next::Stop;
            }
            // The reduction was undone, but there are losses: another recovery.
            self.enter_recovery(s, now, news.delivered);
        }
        Next::Go
    }

    fn judge_in_loss(&mut self, s: &mut Stream, now: Instant, news: &mut News) -> Next {
        self.process_loss(s, now, news);
        self.find_losses(s, now, news);
        if self.phase.state == CaState::Open || news.lost_again { Next::Go } else { Next::Stop }
    }

    /// Lets RACK mark lost segments, if anything was delivered since the last time.
    fn find_losses(&mut self, s: &mut Stream, now: Instant, news: &mut News) {
        if self.is_blind() {
            self.find_losses_blindly(now, news);
            return;
        }
        if !self.newest.take_advanced() {
            return;
        }
        let resent = self.flight.resent();
        if let Some(span) = self.detect(s, now) {
            self.wait_for_reordering(s, now, span);
            news.set_timer = false;
        }
        news.lost_again |= self.flight.resent() < resent;
    }

    pub(super) fn enter_recovery(&mut self, s: &mut Stream, now: Instant, delivered: u32) {
        if !self.any_resent() {
            self.undo.restart_clock();
        }
        self.undo.begin(s.snd_una(), self.open_retransmissions());
        if !self.in_reduction() {
            self.undo.allow();
            self.begin_reduction(s, now, Reduction::Loss, delivered);
        }
        s.report(Event::RecoveryEntered { seq: s.snd_una() });
        self.phase.state = CaState::Recovery;
    }

    fn begin_reduction(&mut self, s: &Stream, now: Instant, why: Reduction, delivered: u32) {
        self.phase.high = s.snd_nxt();
        self.probe = None;
        self.phase.untold = Switch::On;
        let (window, out, sacked) = (self.control.window(), self.flight.len(), self.flight.sacked());
        self.prr = Prr::begin(self.config.window_reduction, &Entry { window, out, sacked, delivered });
        self.control.on_episode(now, Episode::Reduce(why));
    }

    /// Sets the window to its threshold, unless the reduction was undone.
    fn end_reduction(&mut self, now: Instant) {
        let ssthresh = self.control.ssthresh();
        let stands = self.phase.state == CaState::Cwr || self.undo.is_open();
        if stands && ssthresh < u32::MAX && !self.control.governs_recovery() {
            self.control.set_window(ssthresh);
            self.usage.restart(now);
        }
        self.control.on_episode(now, Episode::Ended);
    }

    /// Handles an echoed mark (RFC 3168 §6.1.2).
    fn enter_cwr(&mut self, s: &Stream, now: Instant) {
        if matches!(self.phase.state, CaState::Open | CaState::Disorder) {
            self.undo.forget();
            self.begin_reduction(s, now, Reduction::Ecn, 0);
            self.phase.state = CaState::Cwr;
        }
    }

    fn try_to_open(&mut self, s: &Stream, now: Instant, news: &News) {
        if !self.any_resent() {
            self.undo.restart_clock();
        }
        if news.ece {
            self.enter_cwr(s, now);
        }
        if self.phase.state != CaState::Cwr {
            self.keep_open(s);
        }
    }

    /// Returns to Open, or to Disorder if something is still dubious.
    fn keep_open(&mut self, s: &Stream) {
        let dubious = self.flight.sacked() + self.flight.lost() > 0 || self.any_resent();
        let state = if dubious { CaState::Disorder } else { CaState::Open };
        if self.phase.state != state {
            self.phase.state = state;
            self.phase.high = s.snd_nxt();
        }
    }

    /// Returns whether a retransmission is in flight, or the oldest segment was retransmitted.
    pub(super) fn any_resent(&self) -> bool {
        self.flight.resent() > 0 || self.flight.front().is_some_and(|oldest| oldest.is_repeated())
    }

    fn may_undo(&self, news: &News) -> bool {
        self.config.undo.is_on()
            && self.undo.is_open()
            && (self.undo.all_were_needless() || self.undo.original_arrived(news.echoed))
    }

    fn undo_reduction(&mut self, s: &mut Stream, now: Instant, why: Spurious, losses: Losses) {
        if losses == Losses::Forget {
            self.flight.unmark_lost();
        }
        if self.undo.restores() {
            // The peer is not told of a reduction that was undone (`tcp_ecn_withdraw_cwr`).
            self.phase.untold = Switch::Off;
            self.control.on_episode(now, Episode::Undone);
        }
        self.usage.restart(now);
        self.undo.forget();
        self.newest.force();
        s.report(Event::Undone { why });
    }

    /// Tries to undo when all data outstanding at the start of recovery is acknowledged. Returns whether the state
    /// ends.
    fn try_undo_recovery(&mut self, s: &mut Stream, now: Instant, news: &News) -> Next {
        if self.may_undo(news) {
            self.undo_reduction(s, now, self.reason(), Losses::Keep);
        } else {
            self.reordering.on_recovered();
        }
        if self.is_held(s) {
            return Next::Stop;
        }
        self.leave(s, CaState::Open);
        self.reneged = false;
        Next::Go
    }

    fn reason(&self) -> Spurious {
        if self.undo.all_were_needless() { Spurious::Duplicates } else { Spurious::Timestamps }
    }

    /// Reports the end of a recovery. Later steps see the new state, except the end of the reduction, which comes
    /// first.
    fn leave(&mut self, s: &mut Stream, state: CaState) {
        if self.phase.state == CaState::Recovery {
            s.report(Event::RecoveryLeft { ack: s.snd_una() });
        }
        self.phase.state = state;
    }

    /// Tries to undo when a hole was filled by a segment sent before the first retransmission: it was late, not lost.
    fn try_undo_partial(&mut self, s: &mut Stream, now: Instant, news: &News) -> Next {
        let late = self.config.undo.is_on() && self.undo.is_open() && self.undo.original_arrived(news.echoed);
        if !late {
            return Next::Go;
        }
        // If no selective reports remain, the data acknowledged now was reported (Linux `tcp_highest_sack_seq`).
        let highest = self.flight.highest_sacked().unwrap_or(s.snd_una());
        self.reordering.on_reordered(news.prior_una, highest, s.mss());
        if self.flight.resent() > 0 {
            return Next::Stop;
        }
        if !self.any_resent() {
            self.undo.restart_clock();
        }
        self.undo_reduction(s, now, Spurious::Timestamps, Losses::Forget);
        if self.phase.state == CaState::Recovery {
            s.report(Event::RecoveryLeft { ack: s.snd_una() });
        }
        self.keep_open(s);
        Next::Go
    }

    /// Undoes the reduction if the peer received every retransmission twice; returns whether it did.
    fn try_undo_by_duplicates(&mut self, s: &mut Stream, now: Instant) -> bool {
        if !self.config.undo.is_on() || !self.undo.all_were_needless() {
            return false;
        }
        self.reordering.on_undone();
        self.undo_reduction(s, now, Spurious::Duplicates, Losses::Keep);
        if self.phase.state == CaState::Recovery {
            s.report(Event::RecoveryLeft { ack: s.snd_una() });
        }
        true
    }

    /// Handles an acknowledgment after a timeout (Linux `tcp_process_loss`; F-RTO, RFC 5682 §3.1 with SACK).
    fn process_loss(&mut self, s: &mut Stream, now: Instant, news: &mut News) {
        if news.una_advanced && self.may_undo(news) {
            let why = self.reason();
            self.undo_timeout(s, now, why);
            return;
        }
        let recovered = s.snd_una().ge(self.phase.high);
        if self.phase.frto {
            // Step 3.b: a segment arrived that was never retransmitted.
            if news.original {
                self.undo_timeout(s, now, Spurious::Frto);
                return;
            }
            if s.snd_nxt().gt(self.phase.high) {
                // Step 3.a: the loss was real.
                if news.sacked || !(news.una_advanced || news.is_no_duplicate || news.duplicate) {
                    self.phase.frto = false;
                }
            } else if news.una_advanced && !recovered {
                self.phase.high = s.snd_nxt();
                // Step 2.b: new data first, if there is any.
                if self.can_try_new(s) {
                    news.rexmit = Some(Permit::Trial);
                    return;
                }
                self.phase.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(s, now, news);
            return;
        }
        if s.snd_nxt().gt(self.phase.high) {
            self.count_duplicate(news);
        }
        if news.una_advanced {
            self.flight.forget_guesses();
        }
        news.rexmit = Some(Permit::All);
    }

    fn undo_timeout(&mut self, s: &mut Stream, now: Instant, why: Spurious) {
        self.undo_reduction(s, now, why, Losses::Forget);
        s.forget_retries();
        if self.is_held(s) || self.is_blind() && why != Spurious::Frto {
            return;
        }
        self.phase.state = CaState::Open;
        self.reneged = false;
    }

    /// Evaluates the result of the last probe (RFC 8985 §7.4).
    pub(super) fn judge_probe(&mut self, s: &mut Stream, now: Instant, news: &News) {
        let Some(probe) = self.probe else { return };
        if s.snd_una().lt(probe.high) {
            return;
        }
        let pure_duplicate = !(news.una_advanced || news.is_no_duplicate || news.sacked);
        if !probe.repeats || news.duplicate_probe {
            self.probe = None;
        } else if s.snd_una().gt(probe.high) {
            // The probe repaired a loss.
            self.begin_reduction(s, now, Reduction::ProbeRepaired, news.delivered);
            self.phase.state = CaState::Cwr;
            self.end_reduction(now);
            self.keep_open(s);
        } else if pure_duplicate {
            self.probe = None;
        }
    }
}
