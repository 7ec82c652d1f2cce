//! Reno: fast retransmit and fast recovery (RFC 5681 §3.2; 4.4BSD `tcp_input`).

use super::LossRecovery;
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::{Deflation, RecoveryGuard, Switch};
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// Reno's state.
#[derive(Clone, Default, Debug)]
pub struct Reno {
    in_recovery: bool,
    /// `snd_max` when the last recovery or timeout began.
    recover: Option<Seq>,
}

/// Limits sending on a first or second duplicate acknowledgment, for Reno and its descendants.
pub(super) fn below_threshold(c: &mut SendControl) {
    c.budget = 0;
    c.limited = c.config.limited_transmit;
}

impl LossRecovery for Reno {
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, _ack: &Ack) {
        c.dupacks += 1;
        let threshold = s.config().dupack_threshold;
        if c.dupacks < threshold {
            below_threshold(c);
        } else if c.dupacks == threshold {
            if c.may_enter(s, self.recover) {
                self.recover = Some(s.snd_max());
                self.in_recovery = true;
                c.fast_retransmit(s, now, Cause::FastRetransmit);
                c.cc.inflate(threshold);
                if c.config.growth.is_bsd() {
                    // 4.4BSD resends one segment and drops the acknowledgment; new data waits for the next.
                    c.budget = 0;
                }
            }
        } else if self.in_recovery || c.config.recovery_guard == RecoveryGuard::None {
            c.cc.inflate(1);
        }
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let acked = c.advance(s, now, ack.ack, Timer::Restart);
        let deflate = match c.config.deflation {
            Deflation::Always => self.in_recovery,
            Deflation::AboveThreshold => c.deflates(s),
        };
        if deflate {
            c.cc.deflate(None);
        }
        if self.in_recovery {
            self.in_recovery = false;
            s.report(Event::RecoveryLeft { ack: ack.ack });
        }
        c.dupacks = 0;
        // RFC 5681 §3.2 step 6 sets cwnd to ssthresh and no more; older code also grows the window.
        if !(deflate && c.config.growth.is_rfc()) {
            c.grow(acked);
        }
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        self.in_recovery = false;
        self.recover = Some(s.snd_max());
        c.limited = Switch::Off;
    }
}
