//! The window that the receiver advertises (RFC 9293 §3.8.6), and the segments that it admits.

use super::ack_ratio::AckRatio;
use super::linux::Linux;
use super::{AckDue, Receiver};
use crate::seq::Seq;
use crate::tcp::config::{DelayedAck, Switch};

impl Receiver {
    /// Returns whether any part of the segment lies in the window (RFC 9293 §3.10.7.4).
    #[inline]
    pub fn acceptable(&self, seq: Seq, seq_len: u32) -> bool {
        self.expects(seq, seq_len) || self.overlaps_window(seq, seq_len)
    }

    /// Returns whether the segment is exactly the next one, and inside the window advertised last.
    #[inline]
    pub fn expects(&self, seq: Seq, seq_len: u32) -> bool {
        seq == self.rcv_nxt && seq_len <= self.rcv_adv.since(seq)
    }

    /// Returns whether a Linux receiver accepts a segment with these numbers (`tcp_sequence`): it ends at the last
    /// acknowledgment or later, and within the advertised window unless the application has read everything.
    pub fn is_in_sequence(&self, seq: Seq, end: Seq) -> bool {
        let beyond = end.gt(self.rcv_adv) && (seq.gt(self.rcv_adv) || self.unread() > 0);
        !(end.lt(self.last_ack_sent) || beyond)
    }

    /// Returns whether a segment with these numbers is within the window of an answered SYN (`tcp_in_window`).
    pub fn request_admits(&self, seq: Seq, end: Seq) -> bool {
        let (left, right) = (self.rcv_nxt, self.rcv_adv);
        seq == left || end.gt(left) && seq.lt(right) || seq == right && seq == end
    }

    fn overlaps_window(&self, seq: Seq, seq_len: u32) -> bool {
        let window = self.window();
        if seq_len == 0 {
            return if window == 0 { seq == self.rcv_nxt } else { self.in_window(seq, window) };
        }
        window > 0 && (self.in_window(seq, window) || self.in_window(seq + (seq_len - 1), window))
    }

    fn in_window(&self, seq: Seq, window: u32) -> bool {
        seq.0.wrapping_sub(self.rcv_nxt.0) < window
    }

    /// Returns the window towards the peer, in bytes. An advertised window is never taken back.
    pub fn window(&self) -> u32 {
        self.right_edge().since(self.rcv_nxt)
    }

    pub(super) fn right_edge(&self) -> Seq {
        let tuned = self.linux.read(&self.config, |linux| self.edge_beside(linux));
        tuned.unwrap_or_else(|| self.fixed_edge())
    }

    /// Returns the right edge for a buffer of fixed size.
    pub(super) fn fixed_edge(&self) -> Seq {
        self.rcv_adv.max(self.rcv_nxt + self.fixed_offer())
    }

    /// Returns the window that a buffer of fixed size leaves open.
    pub(super) fn fixed_offer(&self) -> u32 {
        let free = u64::from(self.config.receiver.receive_buffer).saturating_sub(self.unread) as u32;
        let silly = free < self.config.receiver.receive_buffer / 4 && free < self.config.common.mss;
        if silly { 0 } else { free.min(0xffff << self.window_shift) }
    }

    /// Returns the field of the window that is open now.
    pub fn current_window(&self) -> u16 {
        (self.rcv_adv.max(self.rcv_nxt).since(self.rcv_nxt) >> self.window_shift).min(0xffff) as u16
    }

    /// Returns the window field of a SYN, which is never scaled (RFC 7323 §2.2).
    pub fn syn_window(&self) -> u16 {
        let offer = |linux: &Linux| Some(linux.tuning()?.window(self.holdings(linux.mss()), linux.mss(), 1).0);
        let tuned = self.linux.read(&self.config, offer).flatten();
        tuned.unwrap_or(self.config.receiver.receive_buffer).min(0xffff) as u16
    }

    /// Returns the window field of the SYN being sent, and records it as sent. With an auto-tuned buffer, the window is
    /// exactly that field.
    pub fn take_syn_window(&mut self) -> u16 {
        self.take_window();
        let window = self.syn_window();
        if self.linux.is_linux() && self.config.receiver.tunes_itself() {
            self.rcv_adv = self.rcv_nxt + u32::from(window);
        }
        window
    }

    /// Records that the application has read `bytes`. Acknowledges if that moves the window by two segments or half the
    /// buffer (4.4BSD `tcp_output`; RFC 9293 §3.8.6.2.2).
    pub fn on_read(&mut self, bytes: u64) {
        if (self.config.receiver.ack_before_read.is_on() || self.linux.is_linux()) && self.ack_due() {
            self.reading = (self.reading + bytes).min(self.unread);
        } else {
            self.open_window(bytes);
        }
    }

    fn open_window(&mut self, bytes: u64) {
        if self.linux.is_linux() {
            return self.read_as_linux(bytes);
        }
        self.unread = self.unread.saturating_sub(bytes);
        if self.ack_due() || self.finished() {
            // It leaves as it is; or the window is of no interest any more, and the peer may have left.
            return;
        }
        if matches!(self.config.receiver.delayed_ack, DelayedAck::Ns2 { .. }) && self.poll_deadline().is_some() {
            // ns-2 has no windows, so nothing hastens an acknowledgment.
            return;
        }
        let moved = self.right_edge().since(self.rcv_adv);
        let least = self.ratio.as_ref().map_or(2, AckRatio::least_update);
        if moved >= least.saturating_mul(self.config.common.mss) || moved >= self.config.receiver.receive_buffer / 2 {
            self.due = AckDue::Now;
        }
    }

    /// Returns the window field of the segment being sent, and records the acknowledgment as sent.
    #[inline]
    pub fn take_window(&mut self) -> u16 {
        let (edge, early) =
            if self.linux.is_linux() { self.take_window_as_linux() } else { (self.fixed_edge(), Switch::Off) };
        self.rcv_adv = edge;
        self.last_ack_sent = self.rcv_nxt;
        if let Some(acks) = &mut self.ratio {
            acks.on_ack_sent();
        }
        if !early.is_on() {
            self.due = AckDue::No;
        }
        let window = self.rcv_adv.since(self.rcv_nxt) >> self.window_shift;
        if self.reading > 0 {
            let bytes = core::mem::take(&mut self.reading);
            self.open_window(bytes);
        }
        window.min(0xffff) as u16
    }

    #[inline(never)]
    fn take_window_as_linux(&mut self) -> (Seq, Switch) {
        let edge = self.edge_as_linux().unwrap_or_else(|| self.fixed_edge());
        (edge, self.linux_ack_sent())
    }
}
