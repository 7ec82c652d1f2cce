//! What every loss recovery shares: sequence numbers, windows, the timer, and the one segment that is due next.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::Event;
use crate::packet::{Cause, SackBlocks};
use crate::seq::Seq;
use crate::tcp::config::{Deflation, Nagle, RecoveryGuard, RttRule, Switch, TcpConfig};
use crate::tcp::congestion::{Congestion, Outstanding};
use crate::tcp::rtt::{RttEstimator, TickPhase};
use crate::tcp::send_buffer::SendBuffer;
use crate::time::Instant;

/// An acknowledgment as the sender sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Next byte that the peer expects.
    pub ack: Seq,
    /// SACK blocks; empty unless SACK was negotiated.
    pub sack: &'a SackBlocks,
    /// The SMART number.
    pub smart: Option<Seq>,
    /// Whether the next expected segment was lost to corruption.
    pub eln: Switch,
    /// Whether the peer echoes a mark (RFC 3168); off unless marks were agreed on.
    pub ece: Switch,
}

/// How a new acknowledgment treats the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Starts it anew.
    Restart,
    /// Lets it run.
    Keep,
}

/// Sender variables (RFC 9293 §3.3.1 and RFC 5681 §2) and what recoveries ask of the sender.
///
/// Sequence space is counted from the SYN: position 0 is the SYN, 1.. are the stream's bytes, and one more is the FIN.
#[derive(Clone, Debug)]
pub struct SendState {
    /// The endpoint's keys.
    pub config: Arc<TcpConfig>,
    /// The segment size in use: the smaller of ours and the peer's.
    pub mss: u32,
    /// Initial sequence number.
    pub iss: Seq,
    /// Lowest unacknowledged.
    pub snd_una: Seq,
    /// Next to send.
    pub snd_nxt: Seq,
    /// One past the highest sent.
    pub snd_max: Seq,
    /// The peer's window, in bytes.
    pub snd_wnd: u32,
    /// Largest `snd_wnd` so far.
    pub max_snd_wnd: u32,
    /// Position of `snd_una`.
    pub una_pos: u64,
    /// Stream bytes that the application has handed over.
    pub queued: u64,
    /// Whether a FIN follows them.
    pub closed: Switch,
    /// The send buffer, where it tunes itself.
    pub buffer: Option<SendBuffer>,
    /// Congestion control; of no meaning with RACK, which has one of its own.
    pub cc: Congestion,
    /// Round-trip estimator.
    pub rtt: RttEstimator,
    /// The segment being timed: one past its end, and when it was sent.
    pub timed: Option<(Seq, Instant)>,
    /// When the retransmission timer expires.
    pub rto_timer: Option<Instant>,
    /// Expiries in a row without progress.
    pub retries: u32,
    /// Times that the SYN was resent.
    pub syn_retries: u32,
    /// Duplicate acknowledgments in a row.
    pub dupacks: u32,
    /// A segment to resend at once, whatever the windows say.
    pub resend: Option<(Seq, Cause)>,
    /// Limited transmit: one new segment may go out beyond the congestion window, which counts as inflated by
    /// `dupacks`.
    pub limited: Switch,
    /// Bytes sent by limited transmit since the last new acknowledgment.
    pub limited_sent: u32,
    /// Behind the last segment smaller than the mss that was sent for the first time (Linux `snd_sml`).
    pub small_end: Seq,
    /// Segments that may still be sent before the next acknowledgment.
    pub budget: u32,
    /// Bytes above `snd_una` known to have left the network: they do not count against the congestion window.
    pub credit: u32,
    /// What a congestion control draws at random follows from it.
    pub seed: u64,
    /// Things to report.
    pub events: Vec<Event>,
}

impl SendState {
    /// A sender before its SYN.
    pub fn new(config: Arc<TcpConfig>, iss: Seq, phase: TickPhase, seed: u64) -> Self {
        Self {
            mss: config.mss,
            iss,
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_wnd: 0,
            max_snd_wnd: 0,
            una_pos: 0,
            queued: 0,
            closed: Switch::Off,
            buffer: SendBuffer::new(&config),
            cc: Congestion::new(&config),
            rtt: RttEstimator::new(config.clone(), phase),
            timed: None,
            rto_timer: None,
            retries: 0,
            syn_retries: 0,
            dupacks: 0,
            resend: None,
            limited: Switch::Off,
            limited_sent: 0,
            small_end: iss,
            budget: u32::MAX,
            credit: 0,
            seed,
            events: Vec::new(),
            config,
        }
    }

    /// Sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        self.snd_max.since(self.snd_una)
    }

    /// The same in segments, rounded up.
    pub fn flight_segments(&self) -> u32 {
        self.flight().div_ceil(self.mss)
    }

    /// Whether a segment smaller than the mss has to wait, given that data is outstanding.
    pub fn holds_small(&self) -> bool {
        match self.config.nagle {
            Nagle::Off => false,
            Nagle::On => true,
            Nagle::Minshall => self.small_end.gt(self.snd_una) && self.small_end.le(self.snd_nxt),
        }
    }

    /// What congestion control wants to know at a loss.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { flight: self.flight(), snd_wnd: self.snd_wnd.min(self.config.send_buffer) }
    }

    /// What the peer's window and our buffer allow beyond `snd_una`.
    #[inline]
    pub fn flow_window(&self) -> u32 {
        self.snd_wnd.min(self.config.send_buffer)
    }

    /// One past the last position that can be sent now: the stream's end, its FIN included.
    pub fn end_pos(&self) -> u64 {
        1 + self.queued + u64::from(self.closed.is_on())
    }

    /// One past the last position, the stream's end or its FIN, that is in the send buffer: what is beyond still waits with the
    /// application.
    #[inline]
    pub fn buffered_end(&self) -> u64 {
        match &self.buffer {
            None => self.end_pos().min(self.una_pos + u64::from(self.config.send_buffer)),
            Some(buffer) if buffer.written() <= self.queued => buffer.written(),
            Some(_) => self.end_pos(),
        }
    }

    /// Position of a sequence number at or above `snd_una`.
    #[inline]
    pub fn pos(&self, seq: Seq) -> u64 {
        self.una_pos + u64::from(seq.since(self.snd_una))
    }

    /// Whether [`RecoveryGuard`] lets a fast retransmit begin, given the `recover` of the last one.
    pub fn may_enter(&self, recover: Option<Seq>) -> bool {
        match self.config.recovery_guard {
            RecoveryGuard::None => true,
            RecoveryGuard::Ns2 if self.una_pos == 1 => true,
            RecoveryGuard::Careful | RecoveryGuard::Ns2 => recover.is_none_or(|recover| self.snd_una.gt(recover)),
            RecoveryGuard::OncePerWindow => recover.is_none_or(|recover| self.snd_una.ge(recover)),
        }
    }

    /// Whether the retransmission timer, expiring with nothing outstanding, is what ends an idle connection's window.
    pub fn timer_finds_idleness(&self) -> bool {
        self.config.rtt_rule == RttRule::Ns2 && self.config.idle_restart.is_on()
    }

    /// Whether the window inflated in fast recovery comes down at its end.
    pub fn deflates(&self) -> bool {
        match self.config.deflation {
            Deflation::Always => true,
            Deflation::AboveThreshold => self.dupacks > self.config.dupack_threshold,
        }
    }

    /// The end of a recovery that counted what was in the network instead of inflating the window: leaves it where inflation
    /// would have.
    pub fn leave_inflated(&mut self) {
        self.cc.deflate(None);
        if !self.deflates() {
            self.cc.inflate(self.config.dupack_threshold);
        }
    }

    /// Starts the retransmission timer anew.
    pub fn restart_timer(&mut self, now: Instant) {
        self.rto_timer = Some(self.rtt.deadline(now));
    }

    /// Fast retransmit: resends the lowest unacknowledged segment and halves the window.
    pub fn fast_retransmit(&mut self, now: Instant, cause: Cause) {
        self.events.push(Event::RecoveryEntered { seq: self.snd_una });
        // RFC 5681 §3.2 step 2: what limited transmit sent must not count.
        let Outstanding { flight, snd_wnd } = self.outstanding();
        self.cc.halve(Outstanding { flight: flight.saturating_sub(self.limited_sent), snd_wnd });
        self.resend_lowest(now, cause);
    }

    /// Resends the lowest unacknowledged segment; the measurement under way is abandoned (Karn) and the timer starts
    /// anew.
    pub fn resend_lowest(&mut self, now: Instant, cause: Cause) {
        self.timed = None;
        self.restart_timer(now);
        self.resend = Some((self.snd_una, cause));
    }

    /// Moves `snd_una` to `ack`, takes the round-trip sample and sees to the timer. Returns the sequence space
    /// acknowledged.
    #[inline]
    pub fn advance(&mut self, now: Instant, ack: Seq, timer: Timer) -> u32 {
        let acked = ack.since(self.snd_una);
        self.snd_una = ack;
        self.una_pos += u64::from(acked);
        self.snd_nxt = self.snd_nxt.max(ack);
        self.retries = 0;
        self.limited_sent = 0;
        if let Some((end, sent)) = self.timed
            && ack.ge(end)
        {
            self.timed = None;
            self.rtt.sample_in_round(sent, now, self.snd_una, self.snd_nxt);
        }
        if self.resend.is_some_and(|(seq, _)| seq.lt(ack)) {
            self.resend = None;
        }
        if ack == self.snd_max && !self.timer_finds_idleness() {
            self.rto_timer = None;
        } else if timer == Timer::Restart {
            self.restart_timer(now);
        }
        acked
    }

    /// The acknowledgment of a SYN does not count as data.
    pub fn grow(&mut self, acked: u32) {
        if acked > 0 {
            self.cc.grow(acked);
        }
    }
}
