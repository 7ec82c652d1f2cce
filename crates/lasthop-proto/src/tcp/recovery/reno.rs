//! Reno: fast retransmit and fast recovery (RFC 5681 §3.2; 4.4BSD `tcp_input`).

use super::LossRecovery;
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::{Deflation, RecoveryGuard, Switch};
use crate::tcp::send_state::{Ack, SendState, Timer};
use crate::time::Instant;

/// Reno's state.
#[derive(Clone, Default, Debug)]
pub struct Reno {
    in_recovery: bool,
    /// `snd_max` when the last recovery or timeout began.
    recover: Option<Seq>,
}

/// Limits sending on a first or second duplicate acknowledgment, for Reno and its descendants.
pub(super) fn below_threshold(s: &mut SendState) {
    s.budget = 0;
    s.limited = s.config.limited_transmit;
}

impl LossRecovery for Reno {
    fn on_duplicate(&mut self, s: &mut SendState, now: Instant, _ack: &Ack) {
        s.dupacks += 1;
        let threshold = s.config.dupack_threshold;
        if s.dupacks < threshold {
            below_threshold(s);
        } else if s.dupacks == threshold {
            if s.may_enter(self.recover) {
                self.recover = Some(s.snd_max);
                self.in_recovery = true;
                s.fast_retransmit(now, Cause::FastRetransmit);
                s.cc.inflate(threshold);
                if s.config.growth.is_bsd() {
                    // 4.4BSD resends one segment and drops the acknowledgment; new data waits for the next.
                    s.budget = 0;
                }
            }
        } else if self.in_recovery || s.config.recovery_guard == RecoveryGuard::None {
            s.cc.inflate(1);
        }
    }

    fn on_new_ack(&mut self, s: &mut SendState, now: Instant, ack: &Ack) {
        let acked = s.advance(now, ack.ack, Timer::Restart);
        let deflate = match s.config.deflation {
            Deflation::Always => self.in_recovery,
            Deflation::AboveThreshold => s.deflates(),
        };
        if deflate {
            s.cc.deflate(None);
        }
        if self.in_recovery {
            self.in_recovery = false;
            s.events.push(Event::RecoveryLeft { ack: ack.ack });
        }
        s.dupacks = 0;
        // RFC 5681 §3.2 step 6 sets cwnd to ssthresh and no more; older code also grows the window.
        if !(deflate && s.config.growth.is_rfc()) {
            s.grow(acked);
        }
    }

    fn on_timeout(&mut self, s: &mut SendState) {
        self.in_recovery = false;
        self.recover = Some(s.snd_max);
        s.limited = Switch::Off;
    }
}
