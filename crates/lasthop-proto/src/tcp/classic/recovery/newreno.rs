//! NewReno: partial acknowledgments repair further losses of the same window, one per round trip (RFC 6582; \[a\]
//! §III-B).

use super::LossRecovery;
use super::reno::below_threshold;
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::{PartialAckTimer, PartialDeflation, RecoveryGuard, Switch};
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// NewReno's state.
#[derive(Clone, Default, Debug)]
pub struct NewReno {
    in_recovery: bool,
    /// `snd_max` when the last recovery or timeout began.
    recover: Option<Seq>,
    had_partial: bool,
}

impl LossRecovery for NewReno {
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, _ack: &Ack) {
        c.dupacks += 1;
        let threshold = s.config().dupack_threshold;
        if c.dupacks < threshold {
            if self.in_recovery {
                c.cc.inflate(1);
            } else {
                below_threshold(c);
            }
            return;
        }
        c.budget = c.config.recovery_burst;
        if self.in_recovery {
            c.cc.inflate(1);
        } else if c.dupacks == threshold {
            if c.may_enter(s, self.recover) && !self.at_recover(s, c) {
                self.recover = Some(s.snd_max());
                self.in_recovery = true;
                self.had_partial = false;
                c.fast_retransmit(s, now, Cause::FastRetransmit);
                c.cc.inflate(threshold);
            }
        } else if c.config.recovery_guard == RecoveryGuard::None {
            c.cc.inflate(1);
        }
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let full = self.recover.is_none_or(|recover| ack.ack.ge(recover));
        if self.in_recovery && !full {
            self.on_partial_ack(s, c, now, ack);
            return;
        }
        let acked = c.advance(s, now, ack.ack, Timer::Restart);
        let deflates = c.deflates(s);
        c.dupacks = 0;
        if self.in_recovery {
            self.in_recovery = false;
            s.report(Event::RecoveryLeft { ack: ack.ack });
            if deflates {
                c.cc.deflate(Some(s.flight()));
            }
            if c.config.growth.is_rfc() {
                return;
            }
        }
        c.grow(acked);
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        self.in_recovery = false;
        self.recover = Some(s.snd_max());
        c.limited = Switch::Off;
    }

    fn predictable(&self) -> bool {
        !self.in_recovery
    }
}

impl NewReno {
    /// Returns whether RFC 2582 §3 and its successors, which require more than `recover`, bar this recovery regardless
    /// of Reno's guard.
    fn at_recover(&self, s: &Stream, c: &SendControl) -> bool {
        c.config.recovery_guard == RecoveryGuard::OncePerWindow && self.recover == Some(s.snd_una())
    }

    fn on_partial_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let timer = match c.config.partial_ack_timer {
            PartialAckTimer::SlowButSteady => Timer::Restart,
            PartialAckTimer::Impatient if !self.had_partial => Timer::Restart,
            PartialAckTimer::Impatient => Timer::Keep,
        };
        self.had_partial = true;
        let acked = c.advance(s, now, ack.ack, timer);
        match c.config.partial_deflation {
            PartialDeflation::ByAcked => c.cc.partial_ack(acked),
            PartialDeflation::ToThreshold => c.cc.deflate(None),
        }
        c.resend = Some((s.snd_una(), Cause::PartialAck));
        c.budget = c.config.recovery_burst;
    }
}
