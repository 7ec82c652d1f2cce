//! NewReno: partial acknowledgments repair further losses of the same window, one per round trip (RFC 6582; \[a\]
//! §III-B).

use super::LossRecovery;
use super::reno::below_threshold;
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::{PartialAckTimer, PartialDeflation, RecoveryGuard, Switch};
use crate::tcp::send_state::{Ack, SendState, Timer};
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
    fn on_duplicate(&mut self, s: &mut SendState, now: Instant, _ack: &Ack) {
        s.dupacks += 1;
        let threshold = s.config.dupack_threshold;
        if s.dupacks < threshold {
            if self.in_recovery {
                s.cc.inflate(1);
            } else {
                below_threshold(s);
            }
            return;
        }
        s.budget = s.config.recovery_burst;
        if self.in_recovery {
            s.cc.inflate(1);
        } else if s.dupacks == threshold {
            if s.may_enter(self.recover) && !self.at_recover(s) {
                self.recover = Some(s.snd_max);
                self.in_recovery = true;
                self.had_partial = false;
                s.fast_retransmit(now, Cause::FastRetransmit);
                s.cc.inflate(threshold);
            }
        } else if s.config.recovery_guard == RecoveryGuard::None {
            s.cc.inflate(1);
        }
    }

    fn on_new_ack(&mut self, s: &mut SendState, now: Instant, ack: &Ack) {
        let full = self.recover.is_none_or(|recover| ack.ack.ge(recover));
        if self.in_recovery && !full {
            self.on_partial_ack(s, now, ack);
            return;
        }
        let acked = s.advance(now, ack.ack, Timer::Restart);
        let deflates = s.deflates();
        s.dupacks = 0;
        if self.in_recovery {
            self.in_recovery = false;
            s.events.push(Event::RecoveryLeft { ack: ack.ack });
            if deflates {
                s.cc.deflate(Some(s.flight()));
            }
            if s.config.growth.is_rfc() {
                return;
            }
        }
        s.grow(acked);
    }

    fn on_timeout(&mut self, s: &mut SendState) {
        self.in_recovery = false;
        self.recover = Some(s.snd_max);
        s.limited = Switch::Off;
    }

    fn predictable(&self) -> bool {
        !self.in_recovery
    }
}

impl NewReno {
    /// Returns whether RFC 2582 §3 and its successors, which require more than `recover`, bar this recovery regardless
    /// of Reno's guard.
    fn at_recover(&self, s: &SendState) -> bool {
        s.config.recovery_guard == RecoveryGuard::OncePerWindow && self.recover == Some(s.snd_una)
    }

    fn on_partial_ack(&mut self, s: &mut SendState, now: Instant, ack: &Ack) {
        let timer = match s.config.partial_ack_timer {
            PartialAckTimer::SlowButSteady => Timer::Restart,
            PartialAckTimer::Impatient if !self.had_partial => Timer::Restart,
            PartialAckTimer::Impatient => Timer::Keep,
        };
        self.had_partial = true;
        let acked = s.advance(now, ack.ack, timer);
        match s.config.partial_deflation {
            PartialDeflation::ByAcked => s.cc.partial_ack(acked),
            PartialDeflation::ToThreshold => s.cc.deflate(None),
        }
        s.resend = Some((s.snd_una, Cause::PartialAck));
        s.budget = s.config.recovery_burst;
    }
}
