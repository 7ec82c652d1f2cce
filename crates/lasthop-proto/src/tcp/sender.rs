//! Sending half: the next segment to send, the effects of acknowledgments, and the two timers.

mod ack_ratio;
mod marks;
mod transmit;

use alloc::boxed::Box;
use alloc::sync::Arc;

pub use self::ack_ratio::Seen;
use super::config::{ImpureDuplicates, Switch, TcpConfig};
use super::congestion::Congestion;
use super::recovery::Recovery;
use super::recovery::rack::{Arrival, Expiry, Rack};
use super::rtt::TickPhase;
use super::send_state::{Ack, SendState, Timer};
use crate::event::Event;
use crate::host_queue::Queued;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// First sequence number.
    pub seq: Seq,
    /// Payload bytes.
    pub len: u32,
    /// On if it is the SYN.
    pub syn: Switch,
    /// On if the FIN follows its payload.
    pub fin: Switch,
    /// On if it carries PSH.
    pub push: Switch,
    /// First or repeated transmission of its sequence numbers.
    pub turn: Turn,
    /// Reason for sending it, for measurement.
    pub cause: Cause,
}

/// First or repeated transmission of sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// First transmission.
    First,
    /// Retransmission.
    Again,
    /// Probe of a closed window.
    Probe,
}

impl Transmission {
    fn end(&self) -> Seq {
        self.seq + self.len + u32::from(self.syn.is_on()) + u32::from(self.fin.is_on())
    }
}

/// Result of processing the peer's acknowledgment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckVerdict {
    /// The segment was processed.
    Taken,
    /// The segment acknowledges data that was never sent, or is older than any window of the peer (RFC 9293 §3.10.7.4,
    /// RFC 5961 §5: acknowledge and drop). No genuine peer sends it.
    Implausible,
}

/// Fields of a segment that concern the sender besides [`Ack`].
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
    /// Transmission time of the acknowledged segment, by the peer's timestamp echo.
    pub echoed: Option<Instant>,
}

/// Sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    state: SendState,
    recovery: Recovery,
    /// Time of the next probe of a closed window.
    persist: Option<Instant>,
    /// Number of consecutive probes.
    probes: u32,
    /// Number of probes since the last segment from the peer.
    unanswered: u32,
    probe_due: Switch,
    /// Sequence and acknowledgment numbers of the segment used for the last window update (RFC 9293 §3.3.1).
    snd_wl: (Seq, Seq),
    last_sent: Instant,
    /// New segments that leave together.
    run: transmit::Run,
    /// On if it was given up after too many timeouts.
    given_up: Switch,
    /// State of ECN.
    marks: marks::Marks,
    /// Control of the peer's acknowledgments, if enabled.
    ack_ratio: Option<Box<ack_ratio::AckRatio>>,
    /// Off if nothing can be sent before the next event: an acknowledgment, a timer, more data.
    awake: Switch,
}

impl Sender {
    /// Returns a sender before its SYN. Random draws of its congestion control derive from `seed`.
    pub fn new(config: Arc<TcpConfig>, iss: Seq, phase: TickPhase, seed: u64) -> Self {
        let recovery = Recovery::new(&config);
        Self {
            state: SendState::new(config, iss, phase, seed),
            recovery,
            persist: None,
            probes: 0,
            unanswered: 0,
            probe_due: Switch::Off,
            snd_wl: (Seq(0), Seq(0)),
            last_sent: Instant::ZERO,
            run: transmit::Run::NONE,
            given_up: Switch::Off,
            marks: marks::Marks::default(),
            ack_ratio: None,
            awake: Switch::On,
        }
    }

    /// Returns the latest round-trip sample, if it was not returned before.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.state.rtt.take_latest()
    }

    /// Returns sequence numbers, windows and counters.
    pub fn state(&self) -> &SendState {
        &self.state
    }

    /// Adopts the smaller of the two segment sizes, in which the initial window counts (RFC 6928 §2).
    pub fn limit_mss(&mut self, mss: u32) {
        if mss < self.state.mss {
            self.state.mss = mss.max(1);
            let config = TcpConfig { mss: self.state.mss, ..TcpConfig::clone(&self.state.config) };
            self.state.cc = Congestion::new(&config);
            self.awake = Switch::On;
        }
    }

    /// Returns whether its SYN has left.
    pub fn has_begun(&self) -> bool {
        self.state.snd_max != self.state.iss
    }

    /// Notes that the peer does not send selective acknowledgments (RFC 2018 §2).
    pub fn do_without_sack(&mut self) {
        self.recovery.do_without_sack();
    }

    /// Returns congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        let s = &self.state;
        match self.recovery.rack().map(Rack::window) {
            Some((window, ssthresh)) => (window.saturating_mul(s.mss), ssthresh.saturating_mul(s.mss)),
            None => (s.cc.window(), s.cc.ssthresh()),
        }
    }

    /// Reduces the segment size to the path's, `mss` bytes. Outstanding data is retransmitted, which is no sign of
    /// congestion (RFC 1191 §6.4). Congestion control continues to count in segments of the initial size.
    pub fn shrink_segments(&mut self, now: Instant, mss: u32) {
        let s = &mut self.state;
        if mss >= s.mss {
            return;
        }
        s.mss = mss.max(1);
        if let Some(rack) = self.recovery.rack_mut() {
            rack.cut(s.mss);
        } else if s.una_pos > 0 && s.flight() > 0 {
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

    /// Sends the SYN again, to answer the peer's in a simultaneous open.
    pub fn answer_syn(&mut self) {
        self.state.snd_nxt = self.state.iss;
        self.awake = Switch::On;
    }

    /// Reports an additional event.
    pub fn report(&mut self, event: Event) {
        self.state.events.push(event);
    }

    /// Adds `bytes` to the stream.
    pub fn write(&mut self, bytes: u64) {
        if self.state.closed.is_on() {
            return;
        }
        self.state.queued = self.state.queued.saturating_add(bytes);
        self.state.budget = u32::MAX;
        self.awake = Switch::On;
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_write();
        }
    }

    /// Adds as much of `bytes` to the stream as the send buffer has capacity for, and returns that amount.
    pub fn offer(&mut self, now: Instant, bytes: u64) -> u64 {
        let s = &self.state;
        let taken = if s.buffer.is_some() {
            self.offer_to_buffer(now, bytes)
        } else {
            bytes.min(u64::from(s.config.send_buffer).saturating_sub(s.queued - self.acked()))
        };
        if taken > 0 {
            self.write(taken);
        }
        taken
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn close(&mut self) {
        self.state.closed = Switch::On;
        self.awake = Switch::On;
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_write();
        }
    }

    /// Returns the number of acknowledged stream bytes.
    pub fn acked(&self) -> u64 {
        self.state.una_pos.saturating_sub(1).min(self.state.queued)
    }

    /// Returns whether the FIN is acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.state.closed.is_on() && self.state.una_pos == self.state.end_pos()
    }

    /// Returns whether the FIN was sent.
    pub fn fin_sent(&self) -> bool {
        self.state.closed.is_on() && self.state.pos(self.state.snd_max) == self.state.end_pos()
    }

    /// Returns whether the connection was given up.
    pub fn given_up(&self) -> bool {
        self.given_up.is_on()
    }

    /// Returns the next event to report.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.state.events.is_empty() { None } else { Some(self.state.events.remove(0)) }
    }

    /// Sets the peer's first window (from its SYN, never scaled).
    pub fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.state.snd_wnd = window;
        self.state.max_snd_wnd = window;
        self.snd_wl = (seq, ack);
        self.awake = Switch::On;
    }

    /// Returns whether a segment with these numbers is newer than the last one used for a window update.
    pub fn may_update_window(&self, seq: Seq, ack: Seq, window: u32) -> bool {
        let (wl1, wl2) = self.snd_wl;
        wl1.lt(seq) || (wl1 == seq && (wl2.lt(ack) || (wl2 == ack && window > self.state.snd_wnd)))
    }

    /// Applies RFC 9293 §3.10.7.4: updates the window from segments that are not older than the last one used.
    fn update_window(&mut self, incoming: &Incoming) -> Switch {
        if !self.may_update_window(incoming.seq, incoming.ack.ack, incoming.window) {
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

    /// Processes an acknowledgment with data if it brings no news to a sender with nothing outstanding. Returns whether
    /// it did.
    #[inline]
    pub fn on_nothing_new(&mut self, seq: Seq, ack: Seq, window: u32) -> bool {
        let s = &self.state;
        let nothing_new = ack == s.snd_una && ack == s.snd_max && window == s.snd_wnd && window > 0;
        let waits_for_nothing = self.persist.is_none() && s.dupacks == 0 && self.recovery.rack().is_none();
        if nothing_new && waits_for_nothing && self.may_update_window(seq, ack, window) {
            self.state.budget = u32::MAX;
            self.unanswered = 0;
            self.probes = 0;
            self.snd_wl = (seq, ack);
            return true;
        }
        false
    }

    /// Processes an acknowledgment.
    #[inline(always)]
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
        if let Some(rack) = self.recovery.rack_mut() {
            let has_more = incoming.seq_len > 0 || window_changed.is_on();
            rack.on_ack(&mut self.state, now, &Arrival { ack: &incoming.ack, echoed: incoming.echoed, has_more });
            return AckVerdict::Taken;
        }
        if ack.lt(self.state.snd_una) {
            self.end_duplicates();
            self.recovery.get().on_old_ack(&mut self.state);
            return AckVerdict::Taken;
        }
        if ack == self.state.snd_una {
            // RFC 5681 §2: no data, data outstanding (4.4BSD: the timer runs, which excludes a refused probe), same
            // window.
            let pure = incoming.seq_len == 0 && !window_changed.is_on() && incoming.window == self.state.snd_wnd;
            let by_sack = !incoming.ack.sack.is_empty() && self.recovery.get().judges_by_sack();
            if (pure || by_sack) && self.state.rto_timer.is_some() {
                self.recovery.get().on_duplicate(&mut self.state, now, &incoming.ack);
            } else {
                self.end_duplicates();
            }
            return AckVerdict::Taken;
        }
        if let Some(sent) = incoming.echoed {
            // RFC 7323 §4.1: every acknowledgment of new data yields a sample.
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
        // 4.4BSD header prediction: the fast path handles the timer and nothing else.
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

    /// Handles an acknowledgment that is no duplicate and acknowledges nothing new.
    fn end_duplicates(&mut self) {
        if self.state.config.impure_duplicates == ImpureDuplicates::RestartCount {
            self.state.dupacks = 0;
        }
    }

    /// Returns when the next timer expires.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Instant> {
        let timers = match (self.state.rto_timer, self.persist) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        match self.recovery.rack().and_then(Rack::wake) {
            Some(wake) => Some(timers.map_or(wake, |at| at.min(wake))),
            None => timers,
        }
    }

    /// Handles expired timers.
    pub fn on_timer(&mut self, now: Instant) {
        self.awake = Switch::On;
        if self.state.rto_timer.is_some_and(|at| at <= now) {
            match self.recovery.rack_mut().map(|rack| rack.on_timer(&mut self.state, now)) {
                Some(Expiry::Handled) => {}
                Some(Expiry::Timeout) | None => self.on_retransmission_timeout(now),
            }
        }
        if let Some(rack) = self.recovery.rack_mut()
            && rack.wake().is_some_and(|at| at <= now)
        {
            rack.on_wake();
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
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_retransmission_timeout(s, now);
            s.rtt.back_off();
            s.restart_timer(now);
            return;
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

    /// Returns the sequence number of a pure acknowledgment. While probing, `snd_max` may lie beyond the window, where
    /// the peer would refuse it (4.4BSD `tcp_output`).
    pub fn ack_seq(&self) -> Seq {
        if self.probes > 0 { self.state.snd_nxt } else { self.state.snd_max }
    }

    /// Returns whether [`Sender::poll_transmit`] may return a segment.
    #[inline]
    pub fn is_awake(&self) -> bool {
        self.awake.is_on()
    }

    /// Notes when the segment polled last begins transmission.
    pub fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        if let Some(rack) = self.recovery.rack_mut() {
            rack.schedule_departure(now, queued);
        }
    }

    /// Notes that a segment with `bytes` of payload, whose departure was unknown, begins transmission.
    pub fn on_departure(&mut self, bytes: u32) {
        if let Some(rack) = self.recovery.rack_mut()
            && rack.on_departure(bytes)
        {
            self.awake = Switch::On;
        }
    }

    /// Returns the next segment to send, if windows and rules permit one.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmission> {
        let mut transmission = self.next_transmission(now);
        if transmission.is_none() && self.state.buffer.is_some() {
            transmission = self.next_refilled(now);
        }
        if transmission.is_none() {
            self.awake = Switch::Off;
            if let Some(rack) = self.recovery.rack_mut() {
                rack.on_burst_end(&mut self.state, now);
            }
        }
        transmission
    }
}
