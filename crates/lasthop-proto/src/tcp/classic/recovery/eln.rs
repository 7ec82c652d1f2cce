//! Explicit Loss Notification (\[a\] §III-B): a loss that the acknowledgment marks as corruption is repaired without
//! reducing the congestion window. All other losses are left to NewReno.

use super::LossRecovery;
use super::newreno::NewReno;
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// The marked duplicate on which the hole is retransmitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trigger {
    /// At the threshold, like a fast retransmit: E2E-ELN.
    Threshold,
    /// The first: E2E-ELN-RXMT.
    First,
}

/// State of E2E-ELN and E2E-ELN-RXMT.
#[derive(Clone, Debug)]
pub struct Eln {
    newreno: NewReno,
    trigger: Trigger,
    /// Hole retransmitted last. Each hole is retransmitted once; if that is lost too, the hole waits for the timer.
    resent: Option<Seq>,
    /// Segments by which subsequent duplicates have inflated the window.
    inflation: u32,
}

impl Eln {
    /// Returns E2E-ELN.
    pub fn on_threshold() -> Self {
        Self { newreno: NewReno::default(), trigger: Trigger::Threshold, resent: None, inflation: 0 }
    }

    /// Returns E2E-ELN-RXMT.
    pub fn on_first() -> Self {
        Self { trigger: Trigger::First, ..Self::on_threshold() }
    }
}

impl LossRecovery for Eln {
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if !ack.eln.is_on() {
            self.newreno.on_duplicate(s, c, now, ack);
            return;
        }
        c.dupacks += 1;
        let due = match self.trigger {
            Trigger::Threshold => c.dupacks == s.config().dupack_threshold,
            Trigger::First => true,
        };
        if due && self.resent.is_none_or(|resent| s.snd_una().gt(resent)) {
            self.resent = Some(s.snd_una());
            s.report(Event::RecoveryEntered { seq: s.snd_una() });
            c.resend_lowest(s, now, Cause::Eln);
        } else if c.config.eln_inflation.is_on() && self.resent == Some(s.snd_una()) {
            self.inflation += 1;
            c.cc.inflate(1);
        }
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        c.cc.take_back(core::mem::take(&mut self.inflation));
        if self.newreno.predictable() {
            let acked = c.advance(s, now, ack.ack, Timer::Restart);
            c.dupacks = 0;
            c.grow(acked);
        } else {
            self.newreno.on_new_ack(s, c, now, ack);
        }
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        self.resent = None;
        self.inflation = 0;
        self.newreno.on_timeout(s, c);
    }

    fn predictable(&self) -> bool {
        self.newreno.predictable()
    }
}
