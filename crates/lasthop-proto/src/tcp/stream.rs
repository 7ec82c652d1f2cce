//! State that both senders share: sequence numbers, the peer's window, the written data, round-trip times and the
//! retransmission timer.

mod buffers;
mod feedback;
mod live;
mod persist;
mod segment;

pub use self::buffers::Quota;
pub use self::feedback::{Delivery, Feedback, Seen, counter_of, initial_bytes};
pub use self::segment::{NewData, Transmission, Turn};

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::buffers::Buffers;
use self::live::Live;
use self::persist::Persist;
use crate::event::Event;
use crate::seq::Seq;
use crate::tcp::config::{CommonConfig, Nagle, RttRule, Switch, TcpConfig};
use crate::tcp::rtt::{RttEstimator, TickPhase};
use crate::tcp::send_buffer::{Need, SendBuffer, segment_memory};
use crate::time::{Duration, Instant};

/// Effect of a new acknowledgment on the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Restarts the timer.
    Restart,
    /// Lets the timer run.
    Keep,
}

/// Meaning of an expiry of the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Nothing is outstanding.
    Idle,
    /// The connection is given up after too many retries.
    GivenUp,
    /// Outstanding data has to be retransmitted.
    Timeout,
}

/// Payload of a full segment, and what limits it.
#[derive(Clone, Copy, Debug)]
struct SegmentSize {
    /// Payload, without the bytes for SACK blocks.
    mss: u32,
    /// Payload before half of the peer's window limits it.
    full: u32,
    /// Maximum of the peer's window since the handshake, for a Linux end.
    widest: u32,
    /// Bytes of the current burst's segments that SACK blocks take; `None` before its first segment.
    blocks: Option<u8>,
}

/// Timeouts without an answer.
#[derive(Clone, Copy, Debug)]
struct Tries {
    /// Consecutive timeouts.
    data: u32,
    /// Timeouts of the SYN.
    syn: u32,
    /// On if the connection was given up after too many of them.
    given_up: Switch,
}

/// Send sequence variables (RFC 9293 §3.3.1) with the data that they describe.
///
/// Sequence space is counted from the SYN: position 0 is the SYN, 1.. are the stream's bytes, and one more is the FIN.
#[derive(Clone, Debug)]
pub struct Stream {
    config: Arc<TcpConfig>,
    size: SegmentSize,
    iss: Seq,
    snd_una: Seq,
    snd_nxt: Seq,
    snd_max: Seq,
    snd_wnd: u32,
    max_snd_wnd: u32,
    /// Sequence and acknowledgment numbers of the segment used for the last window update (RFC 9293 §3.3.1).
    snd_wl: (Seq, Seq),
    /// Position of `snd_una`.
    una_pos: u64,
    /// Stream bytes written by the application.
    queued: u64,
    /// On if a FIN follows the written bytes.
    closed: Switch,
    /// Send buffer, if it is auto-tuned.
    buffer: Option<SendBuffer>,
    rtt: RttEstimator,
    /// Segment being timed: one past its end, and its transmission time.
    timed: Option<(Seq, Instant)>,
    rto_timer: Option<Instant>,
    tries: Tries,
    /// End of the last segment smaller than the mss that was sent for the first time (Linux `snd_sml`).
    small_end: Seq,
    persist: Persist,
    /// On if the application has written, or the peer's window has moved, since the last transmission (Linux: the
    /// events after which an idle connection's window is reduced).
    resumes: Switch,
    /// Socket options that the application has changed.
    live: Option<Box<Live>>,
    /// Peer's counts of marks, under accurate ECN.
    feedback: Option<Box<Feedback>>,
    /// Buffers of unsent data, if the peer's window is narrow.
    buffers: Option<Box<Buffers>>,
    /// Off if nothing can be sent before the next event: an acknowledgment, a timer, more data.
    awake: Switch,
    events: Vec<Event>,
}

impl Stream {
    /// Returns the state before the SYN.
    pub fn new(config: Arc<TcpConfig>, iss: Seq, phase: TickPhase) -> Self {
        Self {
            size: SegmentSize { mss: config.common.mss, full: config.common.mss, widest: 0, blocks: None },
            iss,
            snd_una: iss,
            snd_nxt: iss,
            snd_max: iss,
            snd_wnd: 0,
            max_snd_wnd: 0,
            snd_wl: (Seq(0), Seq(0)),
            una_pos: 0,
            queued: 0,
            closed: Switch::Off,
            buffer: SendBuffer::new(&config),
            rtt: RttEstimator::new(config.clone(), phase),
            timed: None,
            rto_timer: None,
            tries: Tries { data: 0, syn: 0, given_up: Switch::Off },
            small_end: iss,
            persist: Persist::NONE,
            resumes: Switch::On,
            live: None,
            feedback: None,
            buffers: None,
            awake: Switch::On,
            events: Vec::new(),
            config,
        }
    }

    /// Returns the settings of both halves.
    #[inline]
    pub fn config(&self) -> &CommonConfig {
        &self.config.common
    }

    /// Returns the segment size in use: the smaller of this end's and the peer's.
    #[inline]
    pub fn mss(&self) -> u32 {
        self.size.mss
    }

    /// Returns the payload of full segments of the current burst (Linux `tcp_current_mss`).
    #[inline]
    pub fn payload(&self) -> u32 {
        self.size.mss - u32::from(self.size.blocks.unwrap_or(0))
    }

    /// Returns whether a burst begins, whose segments may carry SACK blocks.
    #[inline]
    pub fn begins_burst(&self) -> bool {
        self.size.blocks.is_none()
    }

    /// Reserves `bytes` of each segment of the burst for SACK blocks.
    #[inline]
    pub fn reserve(&mut self, bytes: u8) {
        self.size.blocks = Some(if u32::from(bytes) < self.size.mss { bytes } else { 0 });
    }

    /// Returns the segment size before half of the peer's window limits it.
    pub fn full_mss(&self) -> u32 {
        self.size.full
    }

    /// Sets the segment size, to a byte at least.
    pub fn set_mss(&mut self, mss: u32) {
        self.size.full = mss.max(1);
        self.fit_window();
    }

    /// Returns the initial sequence number.
    pub fn iss(&self) -> Seq {
        self.iss
    }

    /// Returns the lowest unacknowledged number.
    #[inline]
    pub fn snd_una(&self) -> Seq {
        self.snd_una
    }

    /// Returns the next number to send.
    #[inline]
    pub fn snd_nxt(&self) -> Seq {
        self.snd_nxt
    }

    /// Returns one past the highest number sent.
    #[inline]
    pub fn snd_max(&self) -> Seq {
        self.snd_max
    }

    /// Returns the position of `snd_una`.
    #[inline]
    pub fn una_pos(&self) -> u64 {
        self.una_pos
    }

    /// Returns whether the SYN is not acknowledged yet.
    #[inline]
    pub fn is_opening(&self) -> bool {
        self.una_pos == 0
    }

    /// Returns the number of stream bytes written by the application.
    #[inline]
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Adds `bytes` to the stream, of which `quota` may leave at once; `None` unless [`Self::has_buffers`].
    pub fn write(&mut self, bytes: u64, quota: Option<Quota>) {
        self.fill_buffers(bytes, quota);
        self.mark_end();
        self.queued = self.queued.saturating_add(bytes);
        self.resumes = Switch::On;
    }

    /// Returns whether a FIN follows the written data.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.is_on()
    }

    /// Ends the stream: a FIN follows the written data.
    pub fn close(&mut self) {
        self.closed = Switch::On;
    }

    /// Returns the send buffer, if it is auto-tuned.
    #[inline]
    pub fn buffer(&self) -> Option<&SendBuffer> {
        self.buffer.as_ref()
    }

    /// Lets the application write up to position `end` of the stream, or until the auto-tuned buffer is full, which is
    /// expanded by `need` if the application found it full (`tcp_check_space`). Returns whether anything was written.
    pub fn fill_buffer(&mut self, end: u64, need: Option<Need>) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        if let Some(need) = need.filter(|_| buffer.is_awaited()) {
            buffer.expand(need, segment_memory(self.size.mss, self.config.common.timestamps));
        }
        let filled = buffer.fill(self.una_pos, end, self.size.mss);
        if filled {
            self.resumes = Switch::On;
        }
        filled
    }

    /// Returns the round-trip estimator.
    #[inline]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the round-trip estimator mutably.
    #[inline]
    pub fn rtt_mut(&mut self) -> &mut RttEstimator {
        &mut self.rtt
    }

    /// Returns the number of consecutive timeouts without progress.
    pub fn retries(&self) -> u32 {
        self.tries.data
    }

    /// Resets the number of timeouts: the peer is alive.
    #[inline]
    pub fn forget_retries(&mut self) {
        self.tries.data = 0;
    }

    /// Returns the number of retransmissions of the SYN.
    pub fn syn_retries(&self) -> u32 {
        self.tries.syn
    }

    /// Returns the time at which the retransmission timer expires.
    #[inline]
    pub fn rto_timer(&self) -> Option<Instant> {
        self.rto_timer
    }

    /// Returns whether the retransmission timer has expired.
    pub fn has_expired(&self, now: Instant) -> bool {
        self.rto_timer.is_some_and(|at| at <= now)
    }

    /// Stops the retransmission timer.
    pub fn stop_timer(&mut self) {
        self.rto_timer = None;
    }

    /// Restarts the retransmission timer with the timeout in force.
    #[inline]
    pub fn restart_timer(&mut self, now: Instant) {
        self.set_timer(now, self.rtt.rto());
    }

    /// Restarts the retransmission timer with another span.
    pub fn set_timer(&mut self, now: Instant, span: Duration) {
        let span = if self.live.is_some() { self.clamp_to_user(now, span) } else { span };
        self.rto_timer = Some(self.rtt.deadline_after(now, span));
    }

    /// Reports an event.
    pub fn report(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns the next event to report.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() { None } else { Some(self.events.remove(0)) }
    }

    /// Returns whether the connection was given up.
    pub fn given_up(&self) -> bool {
        self.tries.given_up.is_on()
    }

    /// Returns whether anything may be sent before the next event.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.awake.is_on()
    }

    /// Records an event after which something may be sent.
    #[inline]
    pub fn wake(&mut self) {
        self.awake = Switch::On;
    }

    /// Records that nothing can be sent before the next event.
    #[inline]
    pub fn sleep(&mut self) {
        self.merge_buffers();
        self.size.blocks = None;
        self.awake = Switch::Off;
    }

    /// Returns whether nothing is outstanding.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.snd_max == self.snd_una
    }

    /// Returns the number of bytes sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u32 {
        self.snd_max.since(self.snd_una)
    }

    /// Returns whether `ack` acknowledges nothing before `snd_una`, and nothing that was not sent.
    #[inline]
    pub fn is_outstanding(&self, ack: Seq) -> bool {
        ack.0.wrapping_sub(self.snd_una.0) <= self.flight()
    }

    /// Returns the flight in segments, rounded up.
    pub fn flight_segments(&self) -> u32 {
        self.flight().div_ceil(self.size.mss)
    }

    /// Returns whether a segment smaller than the mss has to wait, given that data is outstanding.
    pub fn holds_small(&self) -> bool {
        let nagle = self.live.as_ref().map_or(self.config.common.nagle, |live| live.nagle);
        match nagle {
            Nagle::Off => false,
            Nagle::On => true,
            Nagle::Minshall => self.small_end.gt(self.snd_una) && self.small_end.le(self.snd_nxt),
        }
    }

    /// Returns one past the last position that can be sent now: the stream's end, its FIN included.
    #[inline]
    pub fn end_pos(&self) -> u64 {
        1 + self.queued + u64::from(self.closed.is_on())
    }

    /// Returns one past the last position, the stream's end or its FIN, that is in the send buffer. Data beyond it is
    /// still in the application.
    #[inline]
    pub fn buffered_end(&self) -> u64 {
        match &self.buffer {
            None => self.end_pos().min(self.una_pos + u64::from(self.config.common.send_buffer)),
            Some(buffer) if buffer.written() <= self.queued => buffer.written(),
            Some(_) => self.end_pos(),
        }
    }

    /// Returns the position of a sequence number at or above `snd_una`.
    #[inline]
    pub fn pos(&self, seq: Seq) -> u64 {
        self.una_pos + u64::from(seq.since(self.snd_una))
    }

    /// Returns the number of acknowledged stream bytes.
    pub fn acked(&self) -> u64 {
        self.una_pos.saturating_sub(1).min(self.queued)
    }

    /// Returns the capacity left in a send buffer of fixed size, in bytes.
    pub fn capacity(&self) -> u64 {
        u64::from(self.config.common.send_buffer).saturating_sub(self.queued - self.acked())
    }

    /// Returns whether everything written, and the FIN after it, is acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.una_pos == self.end_pos()
    }

    /// Returns whether `end` is the number after the FIN.
    #[inline]
    pub fn ends_with_fin(&self, end: Seq) -> bool {
        self.closed.is_on() && self.pos(end) == self.end_pos()
    }

    /// Returns whether the FIN was sent.
    fn fin_sent(&self) -> bool {
        self.closed.is_on() && self.pos(self.snd_max) == self.end_pos()
    }

    /// Returns whether an idle connection's window is reset by an expiry of the retransmission timer with nothing
    /// outstanding.
    pub fn timer_finds_idleness(&self) -> bool {
        self.config.common.rtt_rule == RttRule::Ns2 && self.config.common.idle_restart.is_on()
    }

    /// Retransmits all unacknowledged data, starting with the lowest.
    pub fn go_back(&mut self, now: Instant) {
        self.timed = None;
        self.snd_nxt = self.snd_una;
        self.restart_timer(now);
    }

    /// Starts measuring a round trip with the segment `seq..end`, which is about to be recorded as sent, unless a
    /// measurement is in progress. A retransmission abandons the measurement (Karn's rule; 4.4BSD does so on any
    /// retransmission), except in ns-2.
    #[inline]
    pub fn time(&mut self, now: Instant, seq: Seq, end: Seq) {
        if self.una_pos == 0 && self.tries.data == 0 && self.config.common.rtt_rule == RttRule::Linux {
            // A SYN that answers another does not count as a retransmission.
            self.timed = self.timed.or(Some((end, now)));
        } else if seq.lt(self.snd_max) && self.config.common.rtt_rule != RttRule::Ns2 {
            self.timed = None;
        } else if end.gt(self.snd_max) && self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Measures with the segment before `end`, whose transmission time `sent` the peer has echoed, if it has: every
    /// acknowledgment of new data yields a sample (RFC 7323 §4.1).
    #[inline]
    pub fn time_echo(&mut self, end: Seq, sent: Option<Instant>) {
        if let Some(sent) = sent {
            self.timed = Some((end, sent));
        }
    }

    /// Abandons the measurement in progress.
    #[inline]
    pub fn stop_timing(&mut self) {
        self.timed = None;
    }

    /// Takes the round-trip sample of a segment sent at `sent`.
    #[inline]
    pub fn sample_rtt(&mut self, sent: Instant, now: Instant) {
        self.rtt.sample_in_round(sent, now, self.snd_una, self.snd_nxt);
    }

    /// Records everything below `end` as sent. Starts the retransmission timer if it does not run.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, end: Seq) {
        self.snd_nxt = self.snd_nxt.max(end);
        self.snd_max = self.snd_max.max(end);
        if self.rto_timer.is_none() {
            self.restart_timer(now);
            self.replace_persist_timer();
        }
    }

    /// Sends the SYN again, to answer the peer's in a simultaneous open.
    pub fn repeat_syn(&mut self) {
        self.snd_nxt = self.iss;
    }

    /// Measures the round trip from the next SYN on.
    pub fn retime_syn(&mut self) {
        self.timed = None;
    }

    /// Advances `snd_una` to `ack`, takes the round-trip sample and handles the timer. Returns the sequence space
    /// acknowledged.
    #[inline]
    pub fn advance(&mut self, now: Instant, ack: Seq, timer: Timer) -> u32 {
        let acked = ack.since(self.snd_una);
        self.snd_una = ack;
        self.una_pos += u64::from(acked);
        self.snd_nxt = self.snd_nxt.max(ack);
        self.tries.data = 0;
        if let Some((end, sent)) = self.timed
            && ack.ge(end)
        {
            self.timed = None;
            self.sample_rtt(sent, now);
        }
        if ack == self.snd_max && !self.timer_finds_idleness() {
            self.rto_timer = None;
        } else if timer == Timer::Restart {
            self.restart_timer(now);
        }
        acked
    }

    /// Processes the acknowledgment of the SYN, which was sent at `echoed` by the peer's timestamp echo.
    pub fn establish(&mut self, now: Instant, ack: Seq, echoed: Option<Instant>) {
        self.time_echo(ack, echoed);
        self.advance(now, ack, Timer::Restart);
        if self.tries.syn > 0 {
            self.rtt.after_syn_timeout();
        }
    }

    /// Handles an expiry of the retransmission timer: counts a timeout, if anything is outstanding.
    pub fn on_expiry(&mut self, now: Instant) -> Expiry {
        self.rto_timer = None;
        if self.snd_una == self.snd_max {
            return Expiry::Idle;
        }
        self.tries.data += 1;
        let outlasted = self.live.is_some() && self.outlasts_user(now, self.tries.data == 1);
        if outlasted || self.tries.data > self.config.common.max_retries {
            self.tries.given_up = Switch::On;
            return Expiry::GivenUp;
        }
        self.report(Event::Timeout { seq: self.snd_una });
        if self.una_pos == 0 {
            self.tries.syn += 1;
        }
        Expiry::Timeout
    }
}
