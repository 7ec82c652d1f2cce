//! Choice of the classic sender's next segment: a hole, new data, or a limited transmit.

use super::Classic;
use crate::packet::Cause;
use crate::tcp::config::Switch;
use crate::tcp::stream::{Stream, Transmission};
use crate::time::Instant;

impl Classic {
    /// Returns a hole, new data, or a limited transmit.
    #[inline(always)]
    pub(super) fn next_permitted(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        if self.control.budget > 0 {
            if let Some(recovery) = self.recovery.selective()
                && let Some((seq, end, cause)) = recovery.next_hole(s, &self.control)
            {
                return Some(s.segment(seq, end, cause));
            }
            if let Some(transmission) = self.next_in_order(s, now) {
                self.control.limited = Switch::Off;
                return Some(transmission);
            }
        }
        if !self.control.limited.is_on() {
            return None;
        }
        self.control.limited = Switch::Off;
        let transmission = self.limited_transmit(s)?;
        self.control.limited_sent += transmission.len;
        Some(transmission)
    }

    /// Returns the segment at `snd_nxt`, if windows and rules permit it.
    #[inline(always)]
    fn next_in_order(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        if s.is_idle() {
            self.restart_after_idle(s, now);
        }
        let c = &mut self.control;
        let flow = s.flow_window();
        let window = match self.recovery.selective() {
            Some(recovery) => recovery.window(s, c)?,
            None => c.window(),
        };
        let new = s.new_data(flow.min(window))?;
        if !s.permits(&new) {
            s.wait_for_window(now, &new, flow <= c.cc.window());
            return None;
        }
        c.budget -= 1;
        if s.is_last_in_window(&new) && !s.probe_is_due() {
            s.sleep();
        }
        Some(s.take_new(&new))
    }

    /// Reduces the window after an idle period (RFC 5681 §4.1; 4.4BSD `tcp_output`).
    #[inline(never)]
    fn restart_after_idle(&mut self, s: &Stream, now: Instant) {
        let by_clock = s.config().idle_restart.is_on() && !s.timer_finds_idleness();
        if by_clock && now.since(self.last_sent) >= s.rtt().rto() {
            self.control.cc.restart_after_idle();
            self.last_sent = now;
        }
    }

    /// Returns one new segment per first and second duplicate, within the peer's window (RFC 3042).
    fn limited_transmit(&mut self, s: &Stream) -> Option<Transmission> {
        let c = &self.control;
        let window = c.cc.window().saturating_add(c.dupacks.saturating_mul(s.mss())).min(s.flow_window());
        let room = window.saturating_sub(s.snd_nxt().since(s.snd_una()));
        let left = s.end_pos().saturating_sub(s.pos(s.snd_nxt())).min(u64::from(s.mss())) as u32;
        if left == 0 || room < left {
            return None;
        }
        let again = s.snd_nxt().lt(s.snd_max());
        let cause = if again { Cause::Timeout } else { Cause::LimitedTransmit };
        Some(s.segment(s.snd_nxt(), s.snd_nxt() + s.mss() + 1, cause))
    }
}
