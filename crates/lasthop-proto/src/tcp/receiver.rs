//! Receiving half: reassembly, the advertised window, and the timing and contents of acknowledgments.

mod ack_ratio;
mod autotune;
mod linux;
mod marks;
mod sack;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use super::config::{Clock, DelayedAck, Switch, TcpConfig};
use super::rtt::{TickPhase, next_tick};
use crate::packet::{Ecn, SackBlock, SackBlocks};
use crate::seq::Seq;
use crate::time::Instant;
use ack_ratio::{AckRatio, Leaves};
pub use linux::Arrival;
use linux::{Linux, Slot};
use marks::Marks;

/// Maximum number of out-of-order runs; a segment that would add another is not kept. Bounds memory for any peer.
const MAX_RUNS: usize = 512;

/// State of an acknowledgment that may be owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckDue {
    No,
    Delayed(Instant),
    Now,
}

/// Receiving half of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: Arc<TcpConfig>,
    phase: TickPhase,
    /// Next expected sequence number.
    rcv_nxt: Seq,
    /// Right edge of the window advertised last.
    rcv_adv: Seq,
    /// `rcv_nxt` as acknowledged last (RFC 7323 §4.3: `Last.ACK.sent`).
    last_ack_sent: Seq,
    /// In-order bytes that the application has not read, as far as the window is concerned.
    unread: u64,
    /// Bytes of `unread` that it reads as soon as the due acknowledgment has left.
    reading: u64,
    /// Stream bytes received in order.
    received: u64,
    /// Out-of-order runs, in order.
    runs: Vec<SackBlock>,
    /// First blocks of recent acknowledgments, most recent first (RFC 2018 §4). `None` before the first hole, so that
    /// an idle connection stays small.
    history: Option<Box<SackBlocks>>,
    /// Run of the segment that causes the next acknowledgment.
    latest: Option<SackBlock>,
    /// First sequence number of the segment that causes the next acknowledgment.
    smart: Option<Seq>,
    /// First run that arrived corrupted and is not repaired yet. ELN conveys one loss at a time (\[a\] §III-B): data
    /// corrupted while another loss is being repaired is not recorded.
    damaged: Option<SackBlock>,
    /// End of the stream, once the FIN is known.
    fin: Option<Seq>,
    /// One past the highest byte that arrived.
    highest: Seq,
    due: AckDue,
    /// On if acknowledgments carry SACK blocks.
    sack: Switch,
    /// Duplicate data to be reported (RFC 2883).
    duplicate: Option<SackBlock>,
    marks: Marks,
    /// Acknowledgment ratio requested by the peer, under acknowledgment congestion control.
    ratio: Option<AckRatio>,
    /// Additional state of a Linux receiver.
    linux: Slot,
    /// Shift of the windows that this end advertises.
    pub window_shift: u8,
}

impl Receiver {
    /// Returns a receiver that has not seen the peer's SYN.
    pub fn new(config: Arc<TcpConfig>, phase: TickPhase) -> Self {
        Self {
            linux: Slot::new(&config),
            config,
            phase,
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            last_ack_sent: Seq(0),
            unread: 0,
            reading: 0,
            received: 0,
            runs: Vec::new(),
            history: None,
            latest: None,
            smart: None,
            damaged: None,
            fin: None,
            highest: Seq(0),
            due: AckDue::No,
            sack: Switch::Off,
            duplicate: None,
            marks: Marks::NONE,
            ratio: None,
            window_shift: 0,
        }
    }

    /// Notes the peer's SYN.
    pub fn on_syn(&mut self, irs: Seq) {
        self.rcv_nxt = irs + 1;
        self.rcv_adv = self.rcv_nxt;
        self.last_ack_sent = self.rcv_nxt;
        self.highest = self.rcv_nxt;
    }

    /// Returns the next expected sequence number.
    pub fn rcv_nxt(&self) -> Seq {
        self.rcv_nxt
    }

    /// Returns the last acknowledgment number sent.
    pub fn last_ack_sent(&self) -> Seq {
        self.last_ack_sent
    }

    /// Returns the number of stream bytes received in order.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of in-order bytes that the application has not read.
    pub fn unread(&self) -> u64 {
        self.unread - self.reading
    }

    /// Returns whether the FIN and everything before it arrived.
    pub fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.rcv_nxt.gt(fin))
    }

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

    fn right_edge(&self) -> Seq {
        let tuned = self.linux.read(&self.config, |linux| self.edge_beside(linux));
        tuned.unwrap_or_else(|| self.fixed_edge())
    }

    /// Returns the right edge for a buffer of fixed size.
    fn fixed_edge(&self) -> Seq {
        self.rcv_adv.max(self.rcv_nxt + self.fixed_offer())
    }

    /// Returns the window that a buffer of fixed size leaves open.
    fn fixed_offer(&self) -> u32 {
        let free = u64::from(self.config.receive_buffer).saturating_sub(self.unread) as u32;
        let silly = free < self.config.receive_buffer / 4 && free < self.config.mss;
        if silly { 0 } else { free.min(0xffff << self.window_shift) }
    }

    /// Returns the window field of a SYN, which is never scaled (RFC 7323 §2.2).
    pub fn syn_window(&self) -> u16 {
        let offer = |linux: &Linux| Some(linux.tuning()?.window(self.holdings(linux.mss()), linux.mss(), 1).0);
        let tuned = self.linux.read(&self.config, offer).flatten();
        tuned.unwrap_or(self.config.receive_buffer).min(0xffff) as u16
    }

    /// Returns the window field of the SYN being sent, and records it as sent. With an auto-tuned buffer, the window is
    /// exactly that field.
    pub fn take_syn_window(&mut self) -> u16 {
        self.take_window();
        let window = self.syn_window();
        if self.linux.is_linux() && self.config.tunes_itself() {
            self.rcv_adv = self.rcv_nxt + u32::from(window);
        }
        window
    }

    /// Sets the negotiated options: whether acknowledgments carry SACK blocks, and whether ECN is used.
    pub fn agree(&mut self, sack: Switch, ecn: Switch) {
        self.sack = sack;
        self.marks.used = ecn;
    }

    /// Enables the acknowledgment ratio requested by the peer.
    pub fn obey_ratio(&mut self) {
        self.ratio = Some(AckRatio::NEW);
    }

    /// Notes the ratio in a segment that begins at `seq` (RFC 5690 §4.2).
    pub fn on_ratio(&mut self, seq: Seq, ratio: NonZeroU8) {
        if let Some(acks) = &mut self.ratio {
            acks.on_told(seq, ratio);
        }
    }

    /// Notes that a SYN of the peer is answered with timestamps, which take space in each segment.
    pub fn answer_syn(&mut self) {
        self.linux.answer_syn(self.config.mss);
    }

    /// Notes that the handshake is complete, and whether segments carry timestamps.
    pub fn start(&mut self, now: Instant, timestamps: Switch) {
        self.linux.start(now, timestamps);
    }

    /// Returns whether it requires more information on arrivals than [`Receiver::on_data`] takes.
    #[inline]
    pub fn is_linux(&self) -> bool {
        self.linux.is_linux()
    }

    /// Notes a data packet's mark, and whether its sender has answered the echo of an earlier one (CWR).
    pub fn on_mark(&mut self, ecn: Ecn, cwr: Switch) {
        if cwr.is_on() {
            self.marks.echo = Switch::Off;
        }
        // A Linux receiver evaluates marks together with the data.
        if !self.linux.is_linux() {
            self.marks.see(ecn);
        }
    }

    /// Returns whether acknowledgments carry ECE (RFC 3168 §6.1.3).
    #[inline]
    pub fn echoes(&self) -> bool {
        self.marks.echo.is_on()
    }

    /// Processes `len` bytes at `seq` that arrived intact, and the FIN behind them if `fin` is on.
    #[inline]
    pub fn on_data(&mut self, now: Instant, seq: Seq, len: u32, fin: Switch) {
        if self.config.smart_acks.is_on() {
            self.smart = Some(seq);
        }
        if self.expects(seq, len) && self.runs.is_empty() && self.fin.is_none() && !fin.is_on() {
            self.take_in_order(now, len);
        } else {
            self.take_run(now, seq, len, fin);
        }
    }

    /// Handles all other cases: data out of order, duplicate, beyond the window, or with a FIN.
    #[inline(never)]
    fn take_run(&mut self, now: Instant, seq: Seq, len: u32, fin: Switch) {
        let edge = self.right_edge();
        self.note_duplicates(seq, seq + len);
        let (left, right) = (seq.max(self.rcv_nxt), (seq + len).min(edge));
        let (in_order, had_runs) = (left == self.rcv_nxt, !self.runs.is_empty());
        self.place(edge, seq, len, fin);
        let fin_now = self.finished() && fin.is_on();
        let next = left.lt(right) && in_order && !had_runs;
        let again = self.config_holds_duplicates() && seq + len == self.rcv_nxt && self.runs.is_empty();
        if !fin_now && (next || again) {
            self.delay_ack(now);
        } else if left.lt(right) && !in_order && !fin_now {
            self.ack_ahead(now);
        } else {
            self.due = AckDue::Now;
        }
        if let Some(acks) = self.ratio.as_mut().filter(|_| self.runs.is_empty()) {
            acks.on_order();
        }
    }

    /// Schedules the acknowledgment of new data ahead of a hole.
    fn ack_ahead(&mut self, now: Instant) {
        match (self.ratio.as_mut().map(AckRatio::on_ahead), self.config.delayed_ack) {
            (Some(Leaves::Later), DelayedAck::EverySecond { timeout }) => self.delay_until(now + timeout),
            _ => self.due = AckDue::Now,
        }
    }

    /// Schedules an acknowledgment for `latest`, unless one is due before.
    fn delay_until(&mut self, latest: Instant) {
        if self.due == AckDue::No {
            self.due = AckDue::Delayed(latest);
        }
    }

    /// Stores data that is new and before `edge`, and advances `rcv_nxt` over in-order data.
    fn place(&mut self, edge: Seq, seq: Seq, len: u32, fin: Switch) {
        let (left, right) = (seq.max(self.rcv_nxt), (seq + len).min(edge));
        if fin.is_on() && self.fin.is_none() && (seq + len).le(edge) {
            self.fin = Some(seq + len);
        }
        if left.lt(right) {
            self.highest = self.highest.max(right);
            let block = SackBlock { left, right };
            if left == self.rcv_nxt && self.runs.is_empty() {
                self.latest = Some(block);
                self.deliver_to(right);
            } else {
                self.latest = self.insert(block);
            }
            self.damaged = self.damaged.filter(|run| run.left.lt(left) || run.right.gt(right));
        } else {
            self.latest = self.run_at(seq);
        }
        self.deliver();
    }

    /// Handles the usual case: the next segment, with nothing queued behind it.
    #[inline]
    fn take_in_order(&mut self, now: Instant, len: u32) {
        self.rcv_nxt += len;
        self.received += u64::from(len);
        self.unread += u64::from(len);
        self.highest = self.highest.max(self.rcv_nxt);
        self.latest = None;
        self.damaged = self.damaged.filter(|run| run.right.gt(self.rcv_nxt));
        self.delay_ack(now);
    }

    fn config_holds_duplicates(&self) -> bool {
        matches!(self.config.delayed_ack, DelayedAck::Ns2 { .. }) && self.highest == self.rcv_nxt
    }

    /// Notes corrupted data with an intact header, which is used for ELN only.
    pub fn on_damaged(&mut self, seq: Seq, len: u32) {
        let (left, right) = (seq.max(self.rcv_nxt), (seq + len).min(self.right_edge()));
        if left.lt(right) && self.damaged.is_none() {
            self.damaged = Some(SackBlock { left, right });
        }
    }

    /// Returns whether the next expected byte arrived corrupted (ELN).
    pub fn next_was_damaged(&self) -> Switch {
        let hit = self.damaged.is_some_and(|run| run.left.le(self.rcv_nxt) && run.right.gt(self.rcv_nxt));
        if hit { Switch::On } else { Switch::Off }
    }

    /// Adds a run and merges it with those it touches; returns the resulting run, if it was kept.
    fn insert(&mut self, block: SackBlock) -> Option<SackBlock> {
        if let Some(last) = self.runs.last_mut()
            && last.right == block.left
        {
            // The usual case: data that follows the highest run.
            last.right = block.right;
            return Some(*last);
        }
        let from = self.runs.iter().take_while(|run| run.right.lt(block.left)).count();
        let touching = self.runs[from..].iter().take_while(|run| run.left.le(block.right)).count();
        let mut merged = block;
        if touching > 0 {
            merged.left = merged.left.min(self.runs[from].left);
            merged.right = merged.right.max(self.runs[from + touching - 1].right);
            self.runs[from] = merged;
            if touching > 1 {
                self.runs.drain(from + 1..from + touching);
            }
        } else if self.runs.len() < MAX_RUNS || block.left == self.rcv_nxt {
            self.runs.insert(from, merged);
        } else {
            return None;
        }
        Some(merged)
    }

    fn run_at(&self, seq: Seq) -> Option<SackBlock> {
        self.runs.iter().find(|run| run.left.le(seq) && run.right.gt(seq)).copied()
    }

    /// Advances `rcv_nxt` over in-order data.
    fn deliver(&mut self) {
        if let Some(first) = self.runs.first()
            && first.left == self.rcv_nxt
        {
            let right = first.right;
            self.deliver_to(right);
            self.runs.remove(0);
            if self.runs.is_empty()
                && let Some(history) = &mut self.history
            {
                **history = SackBlocks::NONE;
            }
        }
        if self.fin == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
        }
    }

    /// Advances to `right`, up to which all data is present.
    fn deliver_to(&mut self, right: Seq) {
        let bytes = u64::from(right.since(self.rcv_nxt));
        self.rcv_nxt = right;
        self.received += bytes;
        self.unread += bytes;
        self.damaged = self.damaged.filter(|run| run.right.gt(right));
    }

    /// Schedules the acknowledgment of an in-order segment with nothing queued behind it.
    fn delay_ack(&mut self, now: Instant) {
        match self.config.delayed_ack {
            DelayedAck::Off | DelayedAck::Linux => self.due = AckDue::Now,
            DelayedAck::EverySecond { timeout } | DelayedAck::Ns2 { timeout } => {
                let leaves = match (&mut self.ratio, self.due) {
                    (Some(acks), _) => acks.on_in_order(),
                    (None, AckDue::No) => Leaves::Later,
                    (None, AckDue::Delayed(_) | AckDue::Now) => Leaves::Now,
                };
                match leaves {
                    Leaves::Now => self.due = AckDue::Now,
                    Leaves::Later => self.delay_until(now + timeout),
                }
            }
            DelayedAck::WindowUpdate => {
                if self.due == AckDue::No {
                    self.due = AckDue::Delayed(self.next_fast_tick(now));
                }
            }
        }
    }

    fn next_fast_tick(&self, now: Instant) -> Instant {
        match self.config.clock {
            Clock::Ticks { fast, .. } => next_tick(now, fast, self.phase.fast),
            Clock::Fine | Clock::Jiffies { .. } => now + crate::time::Duration::from_millis(200),
        }
    }

    /// Notes that the application has read `bytes`. Acknowledges if that moves the window by two segments or half the
    /// buffer (4.4BSD `tcp_output`; RFC 9293 §3.8.6.2.2).
    pub fn on_read(&mut self, bytes: u64) {
        if (self.config.ack_before_read.is_on() || self.linux.is_linux()) && self.ack_due() {
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
        if matches!(self.config.delayed_ack, DelayedAck::Ns2 { .. }) && self.poll_deadline().is_some() {
            // ns-2 has no windows, so nothing hastens an acknowledgment.
            return;
        }
        let moved = self.right_edge().since(self.rcv_adv);
        let least = self.ratio.as_ref().map_or(2, AckRatio::least_update);
        if moved >= least.saturating_mul(self.config.mss) || moved >= self.config.receive_buffer / 2 {
            self.due = AckDue::Now;
        }
    }

    /// Schedules an acknowledgment for the next opportunity.
    pub fn ack_now(&mut self) {
        self.due = AckDue::Now;
    }

    /// Returns whether an acknowledgment is to be sent now.
    #[inline]
    pub fn ack_due(&self) -> bool {
        self.due == AckDue::Now || self.has_early_report()
    }

    /// Returns when a delayed acknowledgment leaves.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Instant> {
        let delayed = match self.due {
            AckDue::Delayed(at) => Some(at),
            AckDue::No => None,
            AckDue::Now => return None,
        };
        match self.linux.kept().and_then(|linux| linux.release()) {
            None => delayed,
            Some(release) => Some(delayed.map_or(release, |at| at.min(release))),
        }
    }

    /// Handles the timer of a delayed acknowledgment.
    pub fn on_timer(&mut self, now: Instant) {
        if self.poll_deadline().is_some_and(|at| at <= now) {
            if matches!(self.due, AckDue::Delayed(at) if at <= now) {
                self.delay_expired();
            }
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

    /// Returns the SMART number of the segment being sent.
    pub fn take_smart(&mut self) -> Option<Seq> {
        self.smart.take()
    }
}
