//! Receiving half: reassembly, the advertised window, and the timing and contents of acknowledgments.

mod ack_ratio;
mod autotune;
mod linux;
mod marks;
mod reassembly;
mod sack;
#[cfg(test)]
mod tests;
mod window;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use super::config::{Clock, DelayedAck, Switch, TcpConfig};
use super::info::TcpInfo;
use super::rtt::{TickPhase, next_tick};
use crate::packet::{Ecn, SackBlock, SackBlocks};
use crate::seq::Seq;
use crate::time::Instant;
use ack_ratio::{AckRatio, Leaves};
pub use linux::Arrival;
use linux::Slot;
use marks::Marks;

/// Maximum number of out-of-order runs; a segment that would add another is not kept. Bounds memory for any peer.
const MAX_RUNS: usize = 512;

/// Number of SACK blocks for which timestamps leave space.
const BESIDE_TIMESTAMPS: u8 = 3;

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
    /// In-order bytes that count against the window because the application has not read them.
    unread: u64,
    /// Bytes of `unread` that the application reads as soon as the due acknowledgment has left.
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
    /// Maximum number of SACK blocks in a segment.
    most_blocks: u8,
    /// Duplicate data to be reported (RFC 2883).
    duplicate: Option<SackBlock>,
    /// Duplicate data in the last segment: all segments of a batch report the same.
    reported: Option<SackBlock>,
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
        let marks = Marks::new(config.receiver.ecn_echo);
        Self {
            linux: Slot::new(&config),
            most_blocks: config.receiver.sack_blocks,
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
            reported: None,
            marks,
            ratio: None,
            window_shift: 0,
        }
    }

    /// Records the peer's SYN. The window in a SYN that this end sent before it stays (Linux `tcp_select_window`).
    pub fn on_syn(&mut self, irs: Seq) {
        let offered = if self.linux.is_linux() { self.rcv_adv.since(self.rcv_nxt) } else { 0 };
        self.rcv_nxt = irs + 1;
        self.rcv_adv = self.rcv_nxt + offered;
        self.last_ack_sent = self.rcv_nxt;
        self.highest = self.rcv_nxt;
    }

    /// Fills in the values of `info` that the receiver knows.
    pub fn describe(&self, info: &mut TcpInfo) {
        info.options.rcv_wscale = self.window_shift;
        info.receiver.bytes_received = self.received + u64::from(self.finished());
        info.receiver.rcv_wnd = self.rcv_adv.since(self.last_ack_sent);
        info.options.ecn_seen = self.marks.seen.is_on();
        self.linux.read(&self.config, |linux| linux.describe(info));
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

    /// Sets the negotiated options: whether acknowledgments carry SACK blocks, and whether ECN is used.
    pub fn agree(&mut self, sack: Switch, ecn: Switch) {
        self.sack = sack;
        self.marks.used = ecn;
    }

    /// Enables the acknowledgment ratio requested by the peer.
    pub fn obey_ratio(&mut self) {
        self.ratio = Some(AckRatio::NEW);
    }

    /// Records the ratio in a segment that begins at `seq` (RFC 5690 §4.2).
    pub fn on_ratio(&mut self, seq: Seq, ratio: NonZeroU8) {
        if let Some(acks) = &mut self.ratio {
            acks.on_told(seq, ratio);
        }
    }

    /// Records that a SYN of the peer is answered with timestamps, which take space in each segment.
    pub fn answer_syn(&mut self) {
        self.linux.answer_syn(self.config.common.mss);
    }

    /// Records that the handshake is complete, and whether segments carry timestamps.
    pub fn start(&mut self, now: Instant, timestamps: Switch) {
        self.linux.start(now, timestamps);
        if self.linux.is_linux() && !timestamps.is_on() && self.most_blocks == BESIDE_TIMESTAMPS {
            self.most_blocks += 1;
        }
    }

    /// Returns whether the receiver requires more information on arrivals than [`Receiver::on_data`] takes.
    #[inline]
    pub fn is_linux(&self) -> bool {
        self.linux.is_linux()
    }

    /// Records a data packet's mark, and whether its sender has answered the echo of an earlier mark (CWR).
    pub fn on_mark(&mut self, ecn: Ecn, cwr: Switch) {
        if cwr.is_on() {
            self.marks.on_answer();
        }
        // A Linux receiver evaluates marks together with the data.
        if !self.linux.is_linux() && self.marks.see(ecn) && self.marks.are_per_packet() {
            self.ack_now();
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
        if self.config.receiver.smart_acks.is_on() {
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
        match (self.ratio.as_mut().map(AckRatio::on_ahead), self.config.receiver.delayed_ack) {
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

    fn config_holds_duplicates(&self) -> bool {
        matches!(self.config.receiver.delayed_ack, DelayedAck::Ns2 { .. }) && self.highest == self.rcv_nxt
    }

    /// Schedules the acknowledgment of an in-order segment with nothing queued behind it.
    fn delay_ack(&mut self, now: Instant) {
        match self.config.receiver.delayed_ack {
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
        match self.config.common.clock {
            Clock::Ticks { fast, .. } => next_tick(now, fast, self.phase.fast),
            Clock::Fine | Clock::Jiffies { .. } => now + crate::time::Duration::from_millis(200),
        }
    }

    /// Schedules an acknowledgment for the next opportunity.
    pub fn ack_now(&mut self) {
        self.due = AckDue::Now;
    }

    /// Records that an acknowledgment has left that is not one of the receiver's.
    pub fn forget_ack(&mut self) {
        self.due = AckDue::No;
    }

    /// Returns whether an acknowledgment is to be sent now.
    #[inline]
    pub fn ack_due(&self) -> bool {
        self.due == AckDue::Now || self.has_early_report()
    }

    /// Returns the time at which a delayed acknowledgment leaves.
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

    /// Returns the SMART number of the segment being sent.
    pub fn take_smart(&mut self) -> Option<Seq> {
        self.smart.take()
    }
}
