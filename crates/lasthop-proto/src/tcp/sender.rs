//! The sending half: what to send next, what acknowledgments do, and the two timers.

use alloc::sync::Arc;

use super::config::{Clock, RttRule, Switch, TcpConfig};
use super::congestion::Congestion;
use super::recovery::Recovery;
use super::rtt::TickPhase;
use super::send_state::{Ack, SendState, Timer};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Bounds of the persist timer: 4.4BSD `TCPTV_PERSMIN`, `TCPTV_PERSMAX`. RFC 9293 §3.8.6.1 asks for the first probe after
/// one retransmission timeout, so the lower bound holds for 4.4BSD's clock only.
const PERSIST: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// A segment to put on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// First sequence number.
    pub seq: Seq,
    /// Payload bytes.
    pub len: u32,
    /// Whether it is the SYN.
    pub syn: Switch,
    /// Whether the FIN follows its payload.
    pub fin: Switch,
    /// Why it is sent.
    pub cause: Cause,
}

impl Transmission {
    fn end(&self) -> Seq {
        self.seq + self.len + u32::from(self.syn.is_on()) + u32::from(self.fin.is_on())
    }
}

/// What the peer's acknowledgment turned out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckVerdict {
    /// Taken in.
    Taken,
    /// It acknowledges what was never sent, or is older than any window of the peer (RFC 9293 §3.10.7.4, RFC 5961 §5:
    /// acknowledge and drop): no peer means it.
    Implausible,
}

/// A segment's fields that concern the sender besides [`Ack`].
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The acknowledgment.
    pub ack: Ack<'a>,
    /// The peer's window after scaling, in bytes.
    pub window: u32,
    /// Sequence space that the segment occupies.
    pub seq_len: u32,
    /// Its first sequence number.
    pub seq: Seq,
    /// When the peer's timestamp echo says the acknowledged segment was sent.
    pub echoed: Option<Instant>,
}

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    state: SendState,
    recovery: Recovery,
    /// When a closed window is probed next.
    persist: Option<Instant>,
    /// Probes in a row.
    probes: u32,
    /// Probes since the peer was last heard of.
    unanswered: u32,
    probe_due: Switch,
    /// Sequence and acknowledgment numbers of the segment used for the last window update (RFC 9293 §3.3.1).
    snd_wl: (Seq, Seq),
    last_sent: Instant,
    /// Given up after too many timeouts.
    given_up: Switch,
    /// Off when nothing can be sent until something happens: an acknowledgment, a timer, more to send.
    awake: Switch,
}

impl Sender {
    /// A sender before its SYN.
    pub fn new(config: Arc<TcpConfig>, iss: Seq, phase: TickPhase) -> Self {
        let recovery = Recovery::new(&config);
        Self {
            state: SendState::new(config, iss, phase),
            recovery,
            persist: None,
            probes: 0,
            unanswered: 0,
            probe_due: Switch::Off,
            snd_wl: (Seq(0), Seq(0)),
            last_sent: Instant::ZERO,
            given_up: Switch::Off,
            awake: Switch::On,
        }
    }

    /// Sequence numbers, windows and counters, to read.
    pub fn state(&self) -> &SendState {
        &self.state
    }

    /// Takes over the smaller of the two segment sizes. The initial window counts in it (RFC 6928 §2).
    pub fn limit_mss(&mut self, mss: u32) {
        if mss < self.state.mss {
            self.state.mss = mss.max(1);
            let config = TcpConfig { mss: self.state.mss, ..TcpConfig::clone(&self.state.config) };
            self.state.cc = Congestion::new(&config);
            self.awake = Switch::On;
        }
    }

    /// The path turned out to take segments of at most `mss` bytes: what is outstanding goes out again, which is no sign of
    /// congestion (RFC 1191 §6.4). Congestion control goes on counting in the segments that it began with.
    pub fn shrink_segments(&mut self, now: Instant, mss: u32) {
        let s = &mut self.state;
        if mss >= s.mss {
            return;
        }
        s.mss = mss.max(1);
        if s.una_pos > 0 && s.flight() > 0 {
            self.recovery.get().on_timeout(s);
            s.timed = None;
            s.dupacks = 0;
            s.credit = 0;
            s.resend = None;
            s.budget = u32::MAX;
            s.snd_nxt = s.snd_una;
            s.restart_timer(now);
        }
        self.awake = Switch::On;
    }

    /// The SYN goes out again, to answer the peer's in a simultaneous open.
    pub fn answer_syn(&mut self) {
        self.state.snd_nxt = self.state.iss;
        self.awake = Switch::On;
    }

    /// Reports something beside what the sender itself reports.
    pub fn report(&mut self, event: Event) {
        self.state.events.push(event);
    }

    /// Hands over `bytes` more of the stream.
    pub fn write(&mut self, bytes: u64) {
        if self.state.closed.is_on() {
            return;
        }
        self.state.queued = self.state.queued.saturating_add(bytes);
        self.state.budget = u32::MAX;
        self.awake = Switch::On;
    }

    /// A FIN follows what was written.
    pub fn close(&mut self) {
        self.state.closed = Switch::On;
        self.awake = Switch::On;
    }

    /// Stream bytes acknowledged.
    pub fn acked(&self) -> u64 {
        self.state.una_pos.saturating_sub(1).min(self.state.queued)
    }

    /// Whether the FIN is acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.state.closed.is_on() && self.state.una_pos == self.state.end_pos()
    }

    /// Whether the FIN was sent.
    pub fn fin_sent(&self) -> bool {
        self.state.closed.is_on() && self.state.pos(self.state.snd_max) == self.state.end_pos()
    }

    /// Whether the connection was given up.
    pub fn given_up(&self) -> bool {
        self.given_up.is_on()
    }

    /// The next thing to report.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.state.events.is_empty() { None } else { Some(self.state.events.remove(0)) }
    }

    /// The peer's first window (from its SYN, never scaled).
    pub fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.state.snd_wnd = window;
        self.state.max_snd_wnd = window;
        self.snd_wl = (seq, ack);
        self.awake = Switch::On;
    }

    /// RFC 9293 §3.10.7.4: takes the window from segments that are not older than the last one used.
    fn update_window(&mut self, incoming: &Incoming) -> Switch {
        let (wl1, wl2) = self.snd_wl;
        let newer = wl1.lt(incoming.seq)
            || (wl1 == incoming.seq
                && (wl2.lt(incoming.ack.ack) || (wl2 == incoming.ack.ack && incoming.window > self.state.snd_wnd)));
        if !newer {
            return Switch::Off;
        }
        self.snd_wl = (incoming.seq, incoming.ack.ack);
        let changed = incoming.window != self.state.snd_wnd;
        self.state.snd_wnd = incoming.window;
        self.state.max_snd_wnd = self.state.max_snd_wnd.max(incoming.window);
        if incoming.window > 0 {
            self.persist = None;
            self.probes = 0;
        }
        if changed { Switch::On } else { Switch::Off }
    }

    /// Data arrived with an acknowledgment: says whether that brings no news to a sender that has nothing under way, and if
    /// so takes it in.
    #[inline]
    pub fn on_nothing_new(&mut self, seq: Seq, ack: Seq, window: u32) -> bool {
        let s = &mut self.state;
        let nothing_new = ack == s.snd_una && ack == s.snd_max && window == s.snd_wnd && window > 0;
        if nothing_new && self.persist.is_none() {
            s.budget = u32::MAX;
            self.unanswered = 0;
            self.probes = 0;
            self.snd_wl = (seq, ack);
            return true;
        }
        false
    }

    /// Takes in an acknowledgment.
    pub fn on_ack(&mut self, now: Instant, incoming: &Incoming) -> AckVerdict {
        let ack = incoming.ack.ack;
        if ack.gt(self.state.snd_max) || self.state.snd_una.since(ack) > self.state.max_snd_wnd {
            return AckVerdict::Implausible;
        }
        self.awake = Switch::On;
        self.state.budget = u32::MAX;
        self.unanswered = 0;
        if incoming.window == 0 {
            // RFC 9293 §3.8.6.1: a peer that answers with a closed window is alive, however long it takes.
            self.state.retries = 0;
        }
        let window_before = self.state.snd_wnd;
        let window_changed = self.update_window(incoming);
        if ack.lt(self.state.snd_una) {
            self.recovery.get().on_old_ack(&mut self.state);
            return AckVerdict::Taken;
        }
        if ack == self.state.snd_una {
            // RFC 5681 §2: no data, data outstanding (4.4BSD: the timer runs, so a refused probe is not meant), same
            // window.
            let pure = incoming.seq_len == 0 && !window_changed.is_on() && incoming.window == self.state.snd_wnd;
            let by_sack = !incoming.ack.sack.is_empty() && self.recovery.get().judges_by_sack();
            if (pure || by_sack) && self.state.rto_timer.is_some() {
                self.recovery.get().on_duplicate(&mut self.state, now, &incoming.ack);
            }
            return AckVerdict::Taken;
        }
        if let Some(sent) = incoming.echoed {
            // RFC 7323 §4.1: every acknowledgment of new data gives a sample.
            self.state.timed = Some((ack, sent));
        }
        if self.state.una_pos == 0 {
            self.state.advance(now, ack, Timer::Restart);
            self.state.cc.established(self.state.syn_retries);
            if self.state.syn_retries > 0 {
                self.state.rtt.after_syn_timeout();
            }
            return AckVerdict::Taken;
        }
        // 4.4BSD header prediction: the short path looks after the timer and nothing else.
        let predicted = self.state.config.header_prediction.is_on()
            && incoming.seq_len == 0
            && incoming.window == window_before
            && self.state.snd_nxt == self.state.snd_max
            && self.state.cc.window() >= self.state.snd_wnd
            && self.recovery.get().predictable();
        if predicted {
            self.state.advance(now, ack, Timer::Restart);
        } else {
            self.recovery.get().on_new_ack(&mut self.state, now, &incoming.ack);
        }
        AckVerdict::Taken
    }

    /// When a timer expires next.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Instant> {
        match (self.state.rto_timer, self.persist) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Acts on whichever timer has expired.
    pub fn on_timer(&mut self, now: Instant) {
        self.awake = Switch::On;
        if self.state.rto_timer.is_some_and(|at| at <= now) {
            self.on_retransmission_timeout(now);
        }
        if self.persist.is_some_and(|at| at <= now) {
            self.persist = None;
            self.probe_due = Switch::On;
            if self.unanswered >= self.state.config.max_retries {
                self.given_up = Switch::On;
            }
        }
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        let s = &mut self.state;
        s.rto_timer = None;
        if s.snd_una == s.snd_max {
            if s.timer_finds_idleness() {
                self.recovery.get().on_timeout(s);
                s.cc.restart_after_idle();
                s.dupacks = 0;
                s.budget = u32::MAX;
            }
            return;
        }
        s.retries += 1;
        if s.retries > s.config.max_retries {
            self.given_up = Switch::On;
            return;
        }
        s.events.push(Event::Timeout { seq: s.snd_una });
        if s.una_pos == 0 {
            s.syn_retries += 1;
        }
        self.recovery.get().on_timeout(s);
        s.cc.timeout(s.outstanding(), s.retries);
        s.rtt.back_off();
        s.timed = None;
        s.dupacks = 0;
        s.credit = 0;
        s.resend = None;
        s.budget = u32::MAX;
        s.snd_nxt = s.snd_una;
        s.restart_timer(now);
    }

    /// The sequence number of a pure acknowledgment. While probing, `snd_max` may lie beyond the window, where the peer
    /// would refuse it (4.4BSD `tcp_output`).
    pub fn ack_seq(&self) -> Seq {
        if self.probes > 0 { self.state.snd_nxt } else { self.state.snd_max }
    }

    /// Whether [`Sender::poll_transmit`] may have something to send.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.awake.is_on()
    }

    /// The next segment to send, if windows and rules let one go.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission> {
        let transmission = self.next_transmission(now);
        if transmission.is_none() {
            self.awake = Switch::Off;
        }
        transmission
    }

    #[inline]
    fn next_transmission(&mut self, now: Instant) -> Option<Transmission> {
        if let Some((seq, cause)) = self.state.resend {
            self.state.resend = None;
            return Some(self.book(now, self.segment(seq, self.state.snd_max, cause)));
        }
        if self.state.una_pos == 0 {
            return self.poll_syn(now);
        }
        let s = &self.state;
        if s.una_pos == s.end_pos() && !self.probe_due.is_on() {
            // All is sent and acknowledged: the usual state of an end that only receives.
            return None;
        }
        if s.budget > 0 {
            if let Some((seq, end, cause)) = self.recovery.next_hole(&self.state, now) {
                return Some(self.book(now, self.segment(seq, end, cause)));
            }
            if let Some(transmission) = self.next_in_order(now) {
                self.state.limited = Switch::Off;
                return Some(self.book(now, transmission));
            }
        }
        if self.state.limited.is_on() {
            self.state.limited = Switch::Off;
            if let Some(transmission) = self.limited_transmit() {
                self.state.limited_sent += transmission.len;
                return Some(self.book(now, transmission));
            }
        }
        if self.probe_due.is_on() {
            self.probe_due = Switch::Off;
            return self.probe(now);
        }
        None
    }

    fn poll_syn(&mut self, now: Instant) -> Option<Transmission> {
        let s = &self.state;
        if s.snd_nxt != s.iss {
            return None;
        }
        let cause = if s.retries == 0 { Cause::Handshake } else { Cause::Timeout };
        let syn = Transmission { seq: s.iss, len: 0, syn: Switch::On, fin: Switch::Off, cause };
        Some(self.book(now, syn))
    }

    /// The segment that starts at `seq`, which was sent before and ends at `end` at the latest.
    fn segment(&self, seq: Seq, end: Seq, cause: Cause) -> Transmission {
        let s = &self.state;
        let data_end = 1 + s.queued;
        let data = data_end.saturating_sub(s.pos(seq)).min(u64::from(s.mss)) as u32;
        let len = data.min(end.since(seq));
        let fin = s.closed.is_on() && s.pos(seq) + u64::from(len) == data_end && end.gt(seq + len);
        let fin = if fin { Switch::On } else { Switch::Off };
        Transmission { seq, len, syn: Switch::Off, fin, cause }
    }

    /// The segment at `snd_nxt`, if the windows, Nagle's rule and the sender's silly-window rule let it go (RFC 9293
    /// §3.8.6.2.1).
    fn next_in_order(&mut self, now: Instant) -> Option<Transmission> {
        self.restart_after_idle(now);
        let s = &self.state;
        let flow = s.flow_window();
        let window = match self.recovery.may_send_new(s) {
            Some(true) => flow,
            Some(false) => return None,
            None => flow.min(s.cc.window().saturating_add(s.credit)),
        };
        let used = s.snd_nxt.since(s.snd_una);
        let pos = s.pos(s.snd_nxt);
        let data_end = 1 + s.queued;
        if used >= window && used > 0 && s.snd_wnd > 0 && pos < data_end {
            return None;
        }
        let in_buffer = data_end.min(s.una_pos + u64::from(s.config.send_buffer)).saturating_sub(pos) as u32;
        let room = window.saturating_sub(used);
        let len = in_buffer.min(room).min(s.mss);
        let last = pos + u64::from(len) == data_end;
        let fin = s.closed.is_on() && last && pos <= data_end && (len > 0 || in_buffer == 0);
        let fin_unsent = fin && (!self.fin_sent() || s.snd_nxt.lt(s.snd_max));
        let again = s.snd_nxt.lt(s.snd_max);
        let idle = s.snd_max == s.snd_una;
        let go = len == s.mss && len > 0
            || len > 0 && len == in_buffer && (idle || !s.config.nagle.is_on())
            || len > 0 && len >= s.max_snd_wnd / 2
            || len > 0 && again
            || fin_unsent;
        if !go {
            // Nothing under way and too little window: only a probe can tell that it has opened, should the update get
            // lost. The same when the peer took the window back (RFC 9293 §3.8.6).
            let taken_back = s.snd_wnd == 0 && s.snd_nxt == s.snd_una;
            let too_little = flow <= s.cc.window();
            if (idle && too_little || taken_back) && in_buffer > 0 && self.persist.is_none() && !self.probe_due.is_on()
            {
                self.state.rto_timer = None;
                self.start_persist(now);
            }
            return None;
        }
        let s = &mut self.state;
        s.budget -= 1;
        // Nothing more can go out before the next acknowledgment once the window is full.
        let full = used + len >= window && s.snd_wnd > 0 && pos + u64::from(len) < data_end;
        if full && !self.probe_due.is_on() {
            self.awake = Switch::Off;
        }
        let cause = match (again, len) {
            (true, _) => Cause::Timeout,
            (false, 0) => Cause::Handshake,
            (false, _) => Cause::New,
        };
        let fin = if fin { Switch::On } else { Switch::Off };
        Some(Transmission { seq: s.snd_nxt, len, syn: Switch::Off, fin, cause })
    }

    /// RFC 5681 §4.1; 4.4BSD `tcp_output`.
    fn restart_after_idle(&mut self, now: Instant) {
        let s = &mut self.state;
        if s.snd_max != s.snd_una {
            return;
        }
        let by_clock = s.config.idle_restart.is_on() && !s.timer_finds_idleness();
        if by_clock && now.since(self.last_sent) >= s.rtt.rto() {
            s.cc.restart_after_idle();
            self.last_sent = now;
        }
    }

    /// RFC 3042: one new segment per first and second duplicate, within the peer's window.
    fn limited_transmit(&mut self) -> Option<Transmission> {
        let s = &self.state;
        let window = s.cc.window().saturating_add(s.dupacks.saturating_mul(s.mss)).min(s.flow_window());
        let room = window.saturating_sub(s.snd_nxt.since(s.snd_una));
        let left = s.end_pos().saturating_sub(s.pos(s.snd_nxt)).min(u64::from(s.mss)) as u32;
        if left == 0 || room < left {
            return None;
        }
        let again = s.snd_nxt.lt(s.snd_max);
        let cause = if again { Cause::Timeout } else { Cause::LimitedTransmit };
        Some(self.segment(s.snd_nxt, s.snd_nxt + s.mss + 1, cause))
    }

    fn start_persist(&mut self, now: Instant) {
        let s = &mut self.state;
        let span = s.rtt.rto().saturating_mul(1 << self.probes.min(6));
        if self.probes == 0 && s.snd_wnd == 0 {
            s.events.push(Event::ZeroWindow);
        }
        let least = if matches!(s.config.clock, Clock::Ticks { .. }) { PERSIST.0 } else { Duration::ZERO };
        self.persist = Some(s.rtt.deadline_after(now, span.max(least).min(PERSIST.1)));
    }

    /// One byte beyond a closed window, or what a small one takes. `snd_nxt` stays in the former case: should the byte be
    /// refused, it is sent again in its turn.
    fn probe(&mut self, now: Instant) -> Option<Transmission> {
        let s = &mut self.state;
        if s.pos(s.snd_una) > s.queued {
            return None;
        }
        if s.snd_wnd > 0 {
            if s.snd_max != s.snd_una {
                return None;
            }
            let end = s.snd_nxt + s.flow_window();
            return Some(self.book(now, self.segment(self.state.snd_nxt, end, Cause::Probe)));
        }
        let probe = Transmission { seq: s.snd_una, len: 1, syn: Switch::Off, fin: Switch::Off, cause: Cause::Probe };
        s.snd_max = s.snd_max.max(s.snd_una + 1);
        self.probes = self.probes.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
        self.start_persist(now);
        Some(probe)
    }

    /// Books a segment as sent.
    #[inline(always)]
    fn book(&mut self, now: Instant, transmission: Transmission) -> Transmission {
        self.book_range(now, transmission.seq, transmission.end());
        transmission
    }

    fn book_range(&mut self, now: Instant, seq: Seq, end: Seq) {
        self.recovery.on_sent(&self.state, now, seq, end);
        let s = &mut self.state;
        let resent = seq.lt(s.snd_max) && s.config.rtt_rule != RttRule::Ns2;
        s.snd_nxt = s.snd_nxt.max(end);
        if end.gt(s.snd_max) {
            if s.timed.is_none() {
                s.timed = Some((end, now));
            }
            s.snd_max = end;
        }
        if resent {
            // Karn's rule; 4.4BSD abandons the measurement on any retransmission. ns-2 goes on timing.
            s.timed = None;
        }
        if s.rto_timer.is_none() {
            s.restart_timer(now);
        }
        self.last_sent = now;
    }
}
