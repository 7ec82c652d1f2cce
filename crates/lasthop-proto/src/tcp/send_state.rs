//! State common to all loss recoveries: sequence numbers, windows, the timer, and the segment that is due next.

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
    /// SMART number.
    pub smart: Option<Seq>,
    /// On if the next expected segment was lost to corruption.
    pub eln: Switch,
    /// On if the peer echoes a mark (RFC 3168); off unless ECN was negotiated.
    pub ece: Switch,
}

/// Effect of a new acknowledgment on the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Restarts it.
    Restart,
    /// Lets it run.
    Keep,
}

/// Sender variables (RFC 9293 §3.3.1 and RFC 5681 §2) and requests of the recovery.
///
/// Sequence space is counted from the SYN: position 0 is the SYN, 1.. are the stream's bytes, and one more is the FIN.
#[derive(Clone, Debug)]
pub struct SendState {
    /// Keys of the endpoint.
    pub config: Arc<TcpConfig>,
    /// Segment size in use: the smaller of this end's and the peer's.
    pub mss: u32,
    /// Initial sequence number.
    pub iss: Seq,
    /// Lowest unacknowledged number.
    pub snd_una: Seq,
    /// Next number to send.
    pub snd_nxt: Seq,
    /// One past the highest number sent.
    pub snd_max: Seq,
    /// The peer's window, in bytes.
    pub snd_wnd: u32,
    /// Maximum of `snd_wnd` so far.
    pub max_snd_wnd: u32,
    /// Position of `snd_una`.
    pub una_pos: u64,
    /// Stream bytes written by the application.
    pub queued: u64,
    /// On if a FIN follows them.
    pub closed: Switch,
    /// Send buffer, if it is auto-tuned.
    pub buffer: Option<SendBuffer>,
    /// Congestion control; unused with RACK, which has its own.
    pub cc: Congestion,
    /// Round-trip estimator.
    pub rtt: RttEstimator,
    /// Segment being timed: one past its end, and its transmission time.
    pub timed: Option<(Seq, Instant)>,
    /// Expiry of the retransmission timer.
    pub rto_timer: Option<Instant>,
    /// Number of consecutive expiries without progress.
    pub retries: u32,
    /// Number of retransmissions of the SYN.
    pub syn_retries: u32,
    /// Number of consecutive duplicate acknowledgments.
    pub dupacks: u32,
    /// Segment to resend at once, regardless of the windows.
    pub resend: Option<(Seq, Cause)>,
    /// Limited transmit: one new segment may be sent beyond the congestion window, which counts as inflated by
    /// `dupacks`.
    pub limited: Switch,
    /// Bytes sent by limited transmit since the last new acknowledgment.
    pub limited_sent: u32,
    /// End of the last segment smaller than the mss that was sent for the first time (Linux `snd_sml`).
    pub small_end: Seq,
    /// Number of segments that may still be sent before the next acknowledgment.
    pub budget: u32,
    /// Bytes above `snd_una` known to have left the network, which do not count against the congestion window.
    pub credit: u32,
    /// Seed of the congestion control's random draws.
    pub seed: u64,
    /// Events to report.
    pub events: Vec<Event>,
}

impl SendState {
    /// Returns the state before the SYN.
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

    /// Returns the number of bytes sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        self.snd_max.since(self.snd_una)
    }

    /// Returns the flight in segments, rounded up.
    pub fn flight_segments(&self) -> u32 {
        self.flight().div_ceil(self.mss)
    }

    /// Returns whether a segment smaller than the mss has to wait, given that data is outstanding.
    pub fn holds_small(&self) -> bool {
        match self.config.nagle {
            Nagle::Off => false,
            Nagle::On => true,
            Nagle::Minshall => self.small_end.gt(self.snd_una) && self.small_end.le(self.snd_nxt),
        }
    }

    /// Returns the information that congestion control requires at a loss.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { flight: self.flight(), snd_wnd: self.snd_wnd.min(self.config.send_buffer) }
    }

    /// Returns the bytes that the peer's window and the send buffer allow beyond `snd_una`.
    #[inline]
    pub fn flow_window(&self) -> u32 {
        self.snd_wnd.min(self.config.send_buffer)
    }

    /// Returns one past the last position that can be sent now: the stream's end, its FIN included.
    pub fn end_pos(&self) -> u64 {
        1 + self.queued + u64::from(self.closed.is_on())
    }

    /// Returns one past the last position, the stream's end or its FIN, that is in the send buffer. Data beyond it is
    /// still in the application.
    #[inline]
    pub fn buffered_end(&self) -> u64 {
        match &self.buffer {
            None => self.end_pos().min(self.una_pos + u64::from(self.config.send_buffer)),
            Some(buffer) if buffer.written() <= self.queued => buffer.written(),
            Some(_) => self.end_pos(),
        }
    }

    /// Returns the position of a sequence number at or above `snd_una`.
    #[inline]
    pub fn pos(&self, seq: Seq) -> u64 {
        self.una_pos + u64::from(seq.since(self.snd_una))
    }

    /// Returns whether [`RecoveryGuard`] permits a fast retransmit, given the `recover` of the last one.
    pub fn may_enter(&self, recover: Option<Seq>) -> bool {
        match self.config.recovery_guard {
            RecoveryGuard::None => true,
            RecoveryGuard::Ns2 if self.una_pos == 1 => true,
            RecoveryGuard::Careful | RecoveryGuard::Ns2 => recover.is_none_or(|recover| self.snd_una.gt(recover)),
            RecoveryGuard::OncePerWindow => recover.is_none_or(|recover| self.snd_una.ge(recover)),
        }
    }

    /// Returns whether an idle connection's window is reset by an expiry of the retransmission timer with nothing
    /// outstanding.
    pub fn timer_finds_idleness(&self) -> bool {
        self.config.rtt_rule == RttRule::Ns2 && self.config.idle_restart.is_on()
    }

    /// Returns whether the window inflated in fast recovery is deflated at its end.
    pub fn deflates(&self) -> bool {
        match self.config.deflation {
            Deflation::Always => true,
            Deflation::AboveThreshold => self.dupacks > self.config.dupack_threshold,
        }
    }

    /// Ends a recovery that counted the data in the network instead of inflating the window: leaves the window as
    /// inflation would have.
    pub fn leave_inflated(&mut self) {
        self.cc.deflate(None);
        if !self.deflates() {
            self.cc.inflate(self.config.dupack_threshold);
        }
    }

    /// Restarts the retransmission timer.
    pub fn restart_timer(&mut self, now: Instant) {
        self.rto_timer = Some(self.rtt.deadline(now));
    }

    /// Performs a fast retransmit: resends the lowest unacknowledged segment and halves the window.
    pub fn fast_retransmit(&mut self, now: Instant, cause: Cause) {
        self.events.push(Event::RecoveryEntered { seq: self.snd_una });
        // RFC 5681 §3.2 step 2: data sent by limited transmit must not count.
        let Outstanding { flight, snd_wnd } = self.outstanding();
        self.cc.halve(Outstanding { flight: flight.saturating_sub(self.limited_sent), snd_wnd });
        self.resend_lowest(now, cause);
    }

    /// Resends the lowest unacknowledged segment, abandons the current measurement (Karn) and restarts the timer.
    pub fn resend_lowest(&mut self, now: Instant, cause: Cause) {
        self.timed = None;
        self.restart_timer(now);
        self.resend = Some((self.snd_una, cause));
    }

    /// Advances `snd_una` to `ack`, takes the round-trip sample and handles the timer. Returns the sequence space
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

    /// Grows the window, except for the acknowledgment of a SYN, which does not count as data.
    pub fn grow(&mut self, acked: u32) {
        if acked > 0 {
            self.cc.grow(acked);
        }
    }
}
