//! Sending half: the next segment to send, the effects of acknowledgments, and the two timers.

mod ack_ratio;
mod marks;
mod transmit;

use alloc::boxed::Box;
use alloc::sync::Arc;

pub use self::ack_ratio::Seen;
use super::ack::{AckVerdict, Incoming};
use super::classic::control::SendControl;
use super::config::{ImpureDuplicates, Switch, TcpConfig};
use super::congestion::Congestion;
use super::recovery::Recovery;
use super::recovery::rack::{self, Arrival, Rack};
use super::rtt::TickPhase;
use super::stream::{Expiry, Stream, Timer};
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

/// Sending half of a connection.
#[derive(Clone, Debug)]
pub struct Sender {
    stream: Stream,
    control: SendControl,
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
        Self {
            recovery: Recovery::new(&config, seed),
            control: SendControl::new(&config),
            stream: Stream::new(config, iss, phase),
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
        self.stream.rtt_mut().take_latest()
    }

    /// Returns sequence numbers, the peer's window and counters.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Adopts the smaller of the two segment sizes, in which the initial window counts (RFC 6928 §2).
    pub fn limit_mss(&mut self, mss: u32) {
        if mss < self.stream.mss() {
            self.stream.set_mss(mss);
            let config = TcpConfig { mss: self.stream.mss(), ..TcpConfig::clone(self.stream.config()) };
            self.control.cc = Congestion::new(&config);
            self.awake = Switch::On;
        }
    }

    /// Returns whether its SYN has left.
    pub fn has_begun(&self) -> bool {
        self.stream.snd_max() != self.stream.iss()
    }

    /// Notes that the peer does not send selective acknowledgments (RFC 2018 §2).
    pub fn do_without_sack(&mut self) {
        self.recovery.do_without_sack();
    }

    /// Returns congestion window and slow-start threshold, in bytes.
    pub fn window(&self) -> (u32, u32) {
        let s = &self.stream;
        match self.recovery.rack().map(Rack::window) {
            Some((window, ssthresh)) => (window.saturating_mul(s.mss()), ssthresh.saturating_mul(s.mss())),
            None => (self.control.cc.window(), self.control.cc.ssthresh()),
        }
    }

    /// Reduces the segment size to the path's, `mss` bytes. Outstanding data is retransmitted, which is no sign of
    /// congestion (RFC 1191 §6.4). Congestion control continues to count in segments of the initial size.
    pub fn shrink_segments(&mut self, now: Instant, mss: u32) {
        let s = &mut self.stream;
        if mss >= s.mss() {
            return;
        }
        s.set_mss(mss);
        if let Some(rack) = self.recovery.rack_mut() {
            rack.cut(s.mss());
        } else if s.una_pos() > 0 && s.flight() > 0 {
            self.recovery.get().on_timeout(s, &mut self.control);
            self.control.go_back(s, now);
        }
        self.awake = Switch::On;
    }

    /// Sends the SYN again, to answer the peer's in a simultaneous open.
    pub fn answer_syn(&mut self) {
        self.stream.repeat_syn();
        self.awake = Switch::On;
    }

    /// Reports an additional event.
    pub fn report(&mut self, event: Event) {
        self.stream.report(event);
    }

    /// Adds `bytes` to the stream.
    pub fn write(&mut self, bytes: u64) {
        if self.stream.is_closed() {
            return;
        }
        self.stream.write(bytes);
        self.control.budget = u32::MAX;
        self.awake = Switch::On;
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_write();
        }
    }

    /// Adds as much of `bytes` to the stream as the send buffer has capacity for, and returns that amount.
    pub fn offer(&mut self, now: Instant, bytes: u64) -> u64 {
        let s = &self.stream;
        let taken = if s.buffer().is_some() {
            self.offer_to_buffer(now, bytes)
        } else {
            bytes.min(u64::from(s.config().send_buffer).saturating_sub(s.queued() - self.acked()))
        };
        if taken > 0 {
            self.write(taken);
        }
        taken
    }

    /// Closes the stream: a FIN follows the written data.
    pub fn close(&mut self) {
        self.stream.close();
        self.awake = Switch::On;
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_write();
        }
    }

    /// Returns the number of acknowledged stream bytes.
    pub fn acked(&self) -> u64 {
        self.stream.una_pos().saturating_sub(1).min(self.stream.queued())
    }

    /// Returns whether the FIN is acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.stream.is_closed() && self.stream.una_pos() == self.stream.end_pos()
    }

    /// Returns whether the connection was given up.
    pub fn given_up(&self) -> bool {
        self.given_up.is_on()
    }

    /// Returns the next event to report.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.stream.poll_event()
    }

    /// Sets the peer's first window (from its SYN, never scaled).
    pub fn set_window(&mut self, window: u32, seq: Seq, ack: Seq) {
        self.stream.set_window(window);
        self.snd_wl = (seq, ack);
        self.awake = Switch::On;
    }

    /// Returns whether a segment with these numbers is newer than the last one used for a window update.
    pub fn may_update_window(&self, seq: Seq, ack: Seq, window: u32) -> bool {
        let (wl1, wl2) = self.snd_wl;
        wl1.lt(seq) || (wl1 == seq && (wl2.lt(ack) || (wl2 == ack && window > self.stream.snd_wnd())))
    }

    /// Applies RFC 9293 §3.10.7.4: updates the window from segments that are not older than the last one used.
    fn update_window(&mut self, incoming: &Incoming) -> Switch {
        if !self.may_update_window(incoming.seq, incoming.ack.ack, incoming.window) {
            return Switch::Off;
        }
        self.snd_wl = (incoming.seq, incoming.ack.ack);
        let changed = self.stream.set_window(incoming.window);
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
        let s = &self.stream;
        let nothing_new = ack == s.snd_una() && ack == s.snd_max() && window == s.snd_wnd() && window > 0;
        let waits_for_nothing = self.persist.is_none() && self.control.dupacks == 0 && self.recovery.rack().is_none();
        if nothing_new && waits_for_nothing && self.may_update_window(seq, ack, window) {
            self.control.budget = u32::MAX;
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
        if ack.gt(self.stream.snd_max()) || self.stream.snd_una().since(ack) > self.stream.max_snd_wnd() {
            return AckVerdict::Implausible;
        }
        self.awake = Switch::On;
        self.control.budget = u32::MAX;
        self.unanswered = 0;
        if incoming.window == 0 {
            // RFC 9293 §3.8.6.1: a peer that answers with a closed window is alive, however long it takes.
            self.stream.forget_retries();
        }
        let window_before = self.stream.snd_wnd();
        let window_changed = self.update_window(incoming);
        if let Some(rack) = self.recovery.rack_mut() {
            let has_more = incoming.seq_len > 0 || window_changed.is_on();
            rack.on_ack(&mut self.stream, now, &Arrival { ack: &incoming.ack, echoed: incoming.echoed, has_more });
            return AckVerdict::Taken;
        }
        if ack.lt(self.stream.snd_una()) {
            self.end_duplicates();
            self.recovery.get().on_old_ack(&mut self.stream, &mut self.control);
            return AckVerdict::Taken;
        }
        if ack == self.stream.snd_una() {
            // RFC 5681 §2: no data, data outstanding (4.4BSD: the timer runs, which excludes a refused probe), same
            // window.
            let pure = incoming.seq_len == 0 && !window_changed.is_on() && incoming.window == self.stream.snd_wnd();
            let by_sack = !incoming.ack.sack.is_empty() && self.recovery.get().judges_by_sack();
            if (pure || by_sack) && self.stream.rto_timer().is_some() {
                self.recovery.get().on_duplicate(&mut self.stream, &mut self.control, now, &incoming.ack);
            } else {
                self.end_duplicates();
            }
            return AckVerdict::Taken;
        }
        if let Some(sent) = incoming.echoed {
            // RFC 7323 §4.1: every acknowledgment of new data yields a sample.
            self.stream.time_echo(ack, sent);
        }
        if self.stream.una_pos() == 0 {
            self.stream.establish(now, ack);
            self.control.cc.established(self.stream.syn_retries());
            return AckVerdict::Taken;
        }
        // 4.4BSD header prediction: the fast path handles the timer and nothing else.
        let predicted = self.stream.config().header_prediction.is_on()
            && incoming.seq_len == 0
            && incoming.window == window_before
            && self.stream.snd_nxt() == self.stream.snd_max()
            && self.control.cc.window() >= self.stream.snd_wnd()
            && self.recovery.get().predictable();
        if predicted {
            self.control.advance(&mut self.stream, now, ack, Timer::Restart);
        } else {
            self.recovery.get().on_new_ack(&mut self.stream, &mut self.control, now, &incoming.ack);
        }
        AckVerdict::Taken
    }

    /// Handles an acknowledgment that is no duplicate and acknowledges nothing new.
    fn end_duplicates(&mut self) {
        if self.stream.config().impure_duplicates == ImpureDuplicates::RestartCount {
            self.control.dupacks = 0;
        }
    }

    /// Returns when the next timer expires.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Instant> {
        let timers = match (self.stream.rto_timer(), self.persist) {
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
        if self.stream.rto_timer().is_some_and(|at| at <= now) {
            match self.recovery.rack_mut().map(|rack| rack.on_timer(&mut self.stream, now)) {
                Some(rack::Expiry::Handled) => {}
                Some(rack::Expiry::Timeout) | None => self.on_retransmission_timeout(now),
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
            if self.unanswered >= self.stream.config().max_retries {
                self.given_up = Switch::On;
            }
        }
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        let (s, c) = (&mut self.stream, &mut self.control);
        match s.on_expiry() {
            Expiry::Timeout => {}
            Expiry::GivenUp => {
                self.given_up = Switch::On;
                return;
            }
            Expiry::Idle => {
                if s.timer_finds_idleness() {
                    self.recovery.get().on_timeout(s, c);
                    c.cc.restart_after_idle();
                    c.dupacks = 0;
                    c.budget = u32::MAX;
                }
                return;
            }
        }
        if let Some(rack) = self.recovery.rack_mut() {
            rack.on_retransmission_timeout(s, now);
            s.rtt_mut().back_off();
            s.restart_timer(now);
            return;
        }
        self.recovery.get().on_timeout(s, c);
        c.cc.timeout(SendControl::outstanding(s), s.retries());
        s.rtt_mut().back_off();
        c.go_back(s, now);
    }

    /// Returns the sequence number of a pure acknowledgment. While probing, `snd_max` may lie beyond the window, where
    /// the peer would refuse it (4.4BSD `tcp_output`).
    pub fn ack_seq(&self) -> Seq {
        if self.probes > 0 { self.stream.snd_nxt() } else { self.stream.snd_max() }
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
        if transmission.is_none() && self.stream.buffer().is_some() {
            transmission = self.next_refilled(now);
        }
        if transmission.is_none() {
            self.awake = Switch::Off;
            if let Some(rack) = self.recovery.rack_mut() {
                rack.on_burst_end(&mut self.stream, now);
            }
        }
        transmission
    }
}
