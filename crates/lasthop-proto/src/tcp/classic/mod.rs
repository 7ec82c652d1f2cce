//! The classic sender: windows in bytes, with recoveries from 4.4BSD's Reno to RFC 6675.
//!
//! A recovery ([`LossRecovery`](recovery::LossRecovery)) acts on [`SendControl`], which contains the congestion window
//! and the limits on sending.

pub mod congestion;
pub mod control;
pub mod recovery;
mod transmit;

use self::congestion::Congestion;
use self::control::SendControl;
use self::recovery::Recovery;
use crate::tcp::ack::Incoming;
use crate::tcp::config::{ClassicConfig, CommonConfig, ImpureDuplicates};
use crate::tcp::sender::contract::Sending;
use crate::tcp::stream::{Expiry, Stream, Timer, Transmission};
use crate::time::Instant;

/// A sender with a classic recovery.
#[derive(Clone, Debug)]
pub struct Classic {
    control: SendControl,
    recovery: Recovery,
    /// Time of the last transmission.
    last_sent: Instant,
}

impl Classic {
    /// Returns the state before the SYN.
    pub fn new(config: &ClassicConfig, common: &CommonConfig) -> Self {
        Self { control: SendControl::new(config, common), recovery: Recovery::new(config), last_sent: Instant::ZERO }
    }

    /// Handles an acknowledgment that is not a duplicate and acknowledges nothing new.
    fn end_duplicates(&mut self) {
        if self.control.config.impure_duplicates == ImpureDuplicates::RestartCount {
            self.control.dupacks = 0;
        }
    }

    /// Handles an acknowledgment equal to `snd_una`.
    fn on_equal_ack(&mut self, s: &mut Stream, now: Instant, incoming: &Incoming, window_before: u32) {
        // RFC 5681 §2: no data, data outstanding (4.4BSD: the timer runs, which excludes a refused probe), same window.
        let same_window = s.snd_wnd() == window_before && incoming.window == s.snd_wnd();
        let pure = incoming.seq_len == 0 && same_window;
        let by_sack = !incoming.ack.sack.is_empty() && self.recovery.get().judges_by_sack();
        if (pure || by_sack) && s.rto_timer().is_some() {
            self.recovery.get().on_duplicate(s, &mut self.control, now, &incoming.ack);
        } else {
            self.end_duplicates();
        }
    }

    /// Returns whether 4.4BSD's header prediction applies to an acknowledgment of new data: the fast path handles the
    /// timer and nothing else.
    fn predicts(&mut self, s: &Stream, incoming: &Incoming, window_before: u32) -> bool {
        self.control.config.header_prediction.is_on()
            && incoming.seq_len == 0
            && incoming.window == window_before
            && s.snd_nxt() == s.snd_max()
            && self.control.cc.window() >= s.snd_wnd()
            && self.recovery.get().predictable()
    }
}

impl Sending for Classic {
    fn window(&self, _s: &Stream) -> (u32, u32) {
        (self.control.cc.window(), self.control.cc.ssthresh())
    }

    fn on_mss(&mut self, s: &Stream) {
        self.control.cc = Congestion::new(self.control.config.growth, s.config(), s.mss());
    }

    fn on_established(&mut self, s: &Stream) {
        self.control.budget = u32::MAX;
        self.control.cc.established(s.syn_retries());
    }

    fn on_write(&mut self) {
        self.control.budget = u32::MAX;
    }

    fn on_no_news(&mut self) -> bool {
        let counts = self.control.dupacks > 0;
        if !counts {
            self.control.budget = u32::MAX;
        }
        !counts
    }

    #[inline(always)]
    fn on_ack(&mut self, s: &mut Stream, now: Instant, incoming: &Incoming, window_before: u32) {
        let ack = incoming.ack.ack;
        self.control.budget = u32::MAX;
        if ack.lt(s.snd_una()) {
            self.end_duplicates();
            self.recovery.get().on_old_ack(&mut self.control);
        } else if ack == s.snd_una() {
            self.on_equal_ack(s, now, incoming, window_before);
        } else {
            s.time_echo(ack, incoming.echoed);
            if self.predicts(s, incoming, window_before) {
                self.control.advance(s, now, ack, Timer::Restart);
            } else {
                self.recovery.get().on_new_ack(s, &mut self.control, now, &incoming.ack);
            }
        }
    }

    fn on_echo(&mut self, s: &Stream) {
        self.control.halve(s);
    }

    fn on_timer(&mut self, s: &mut Stream, now: Instant) {
        if !s.has_expired(now) {
            return;
        }
        let c = &mut self.control;
        match s.on_expiry(now) {
            Expiry::Timeout => {
                self.recovery.get().on_timeout(s, c);
                c.cc.timeout(SendControl::outstanding(s), s.retries());
                s.rtt_mut().back_off();
                c.go_back(s, now);
            }
            Expiry::Idle if s.timer_finds_idleness() => {
                self.recovery.get().on_timeout(s, c);
                c.cc.restart_after_idle();
                c.dupacks = 0;
                c.budget = u32::MAX;
            }
            Expiry::Idle | Expiry::GivenUp => {}
        }
    }

    fn resegment(&mut self, s: &mut Stream, now: Instant) {
        if !s.is_opening() && !s.is_idle() {
            self.recovery.get().on_timeout(s, &mut self.control);
            self.control.go_back(s, now);
        }
    }

    #[inline(always)]
    fn next(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        match self.control.resend.take() {
            Some((seq, cause)) => {
                let transmission = s.segment(seq, s.snd_max(), cause);
                self.record(s, now, &transmission);
                Some(transmission)
            }
            None => self.next_in_turn(s, now),
        }
    }

    #[inline(always)]
    fn next_within_windows(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        self.next_permitted(s, now)
    }

    #[inline(always)]
    fn record(&mut self, s: &mut Stream, now: Instant, transmission: &Transmission) {
        let (seq, end) = (transmission.seq, transmission.end());
        if let Some(recovery) = self.recovery.selective() {
            recovery.on_sent(s, now, seq, end);
        }
        s.time(now, seq, end);
        s.on_sent(now, end);
        self.last_sent = now;
    }
}
