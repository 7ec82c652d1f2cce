//! Choice of the next segment: retransmissions, new data, probes of a closed window.

use super::{Sender, Transmission, Turn};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::config::{Clock, Push, Switch, WindowEdge, WindowProbe};
use crate::tcp::send_buffer::SendBuffer;
use crate::time::{Duration, Instant};

/// Bounds of the persist timer: 4.4BSD `TCPTV_PERSMIN`, `TCPTV_PERSMAX`. RFC 9293 §3.8.6.1 requires the first probe
/// after one retransmission timeout, so the lower bound applies to 4.4BSD's clock only.
const PERSIST: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Consecutive new segments sent at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    at: Instant,
    end: Seq,
    segments: u32,
}

impl Run {
    /// State before the first segment.
    pub const NONE: Self = Self { at: Instant::ZERO, end: Seq(0), segments: 0 };

    fn on_sent(&mut self, now: Instant, seq: Seq, end: Seq) {
        self.segments = if self.goes_on(now, seq) { self.segments + 1 } else { 1 };
        (self.at, self.end) = (now, end);
    }

    fn goes_on(&self, now: Instant, seq: Seq) -> bool {
        self.segments > 0 && self.at == now && self.end == seq
    }
}

impl Sender {
    /// Returns the next segment and records it as sent. Inlined together with its callees: a simulation spends much of
    /// its time here.
    #[inline(always)]
    pub(super) fn next_transmission(&mut self, now: Instant) -> Option<Transmission> {
        let s = &self.stream;
        let transmission = if let Some((seq, cause)) = self.control.resend.take() {
            self.segment(seq, self.stream.snd_max(), cause)
        } else if s.una_pos() == 0 {
            return self.poll_syn(now);
        } else if s.una_pos() == s.end_pos() && !self.probe_due.is_on() {
            // Everything is sent and acknowledged: the usual state of an end that only receives.
            return None;
        } else if let Some(transmission) = self.next_within_windows(now) {
            transmission
        } else {
            return self.probe_when_due(now);
        };
        self.book(now, transmission);
        Some(transmission)
    }

    /// Returns a hole, new data, or a limited transmit.
    #[inline(always)]
    fn next_within_windows(&mut self, now: Instant) -> Option<Transmission> {
        if self.control.budget > 0 {
            if let Some((seq, end, cause)) = self.recovery.next_hole(&self.stream, &self.control, now) {
                return Some(self.segment(seq, end, cause));
            }
            if let Some(transmission) = self.next_in_order(now) {
                self.control.limited = Switch::Off;
                return Some(transmission);
            }
        }
        if !self.control.limited.is_on() {
            return None;
        }
        self.control.limited = Switch::Off;
        let transmission = self.limited_transmit()?;
        self.control.limited_sent += transmission.len;
        Some(transmission)
    }

    #[inline(never)]
    fn probe_when_due(&mut self, now: Instant) -> Option<Transmission> {
        if !self.probe_due.is_on() {
            return None;
        }
        self.probe_due = Switch::Off;
        self.probe(now)
    }

    /// Returns [`Self::next_transmission`] after the application has written more, if it does.
    #[inline(never)]
    pub(super) fn next_refilled(&mut self, now: Instant) -> Option<Transmission> {
        if self.refill() { self.next_transmission(now) } else { None }
    }

    /// Lets the application write more, if the send buffer is auto-tuned and has capacity again. Returns whether it
    /// did.
    fn refill(&mut self) -> bool {
        let waits = self.stream.buffer().is_some_and(|buffer| buffer.written() <= self.stream.queued());
        waits && self.fill_buffer(1 + self.stream.queued())
    }

    /// Returns how much of `bytes` an auto-tuned send buffer accepts, and writes it. It accepts nothing before the
    /// handshake is complete.
    pub(super) fn offer_to_buffer(&mut self, now: Instant, bytes: u64) -> u64 {
        let s = &self.stream;
        if s.una_pos() == 0 || bytes == 0 {
            return 0;
        }
        self.recovery.begin(s, now);
        let before = 1 + s.queued();
        self.fill_buffer(before + bytes);
        self.stream.buffer().map_or(before, SendBuffer::written).saturating_sub(before)
    }

    /// Lets the application write up to position `end` of the stream. Returns whether anything was written.
    fn fill_buffer(&mut self, end: u64) -> bool {
        let Some(rack) = self.recovery.rack() else { return false };
        let need = rack.buffer_need();
        self.stream.fill_buffer(end, need)
    }

    #[inline(never)]
    fn poll_syn(&mut self, now: Instant) -> Option<Transmission> {
        let s = &self.stream;
        if s.snd_nxt() != s.iss() {
            return None;
        }
        let cause = if s.retries() == 0 { Cause::Handshake } else { Cause::Timeout };
        let (seq, off) = (s.iss(), Switch::Off);
        let turn = if s.retries() == 0 { Turn::First } else { Turn::Again };
        let syn = Transmission { seq, len: 0, syn: Switch::On, fin: off, push: off, turn, cause };
        self.book(now, syn);
        Some(syn)
    }

    /// Returns the segment that starts at `seq`, was sent before, and ends at `end` at the latest.
    fn segment(&self, seq: Seq, end: Seq, cause: Cause) -> Transmission {
        let s = &self.stream;
        let data_end = 1 + s.queued();
        let data = data_end.saturating_sub(s.pos(seq)).min(u64::from(s.mss())) as u32;
        let len = data.min(end.since(seq));
        let fin = s.is_closed() && s.pos(seq) + u64::from(len) == data_end && end.gt(seq + len);
        let fin = if fin { Switch::On } else { Switch::Off };
        let turn = if seq.lt(s.snd_max()) { Turn::Again } else { Turn::First };
        Transmission { seq, len, syn: Switch::Off, fin, push: Switch::Off, turn, cause }
    }

    /// Returns the segment at `snd_nxt`, if the windows, Nagle's rule and the sender's silly-window rule permit it (RFC
    /// 9293 §3.8.6.2.1).
    #[inline(always)]
    fn next_in_order(&mut self, now: Instant) -> Option<Transmission> {
        if self.stream.snd_max() == self.stream.snd_una() {
            self.restart_after_idle(now);
        }
        let s = &self.stream;
        let flow = s.flow_window();
        let window = match self.recovery.may_send_new(s, &self.control, now) {
            Some(true) => flow,
            Some(false) => return None,
            None => flow.min(self.control.cc.window().saturating_add(self.control.credit)),
        };
        let used = s.snd_nxt().since(s.snd_una());
        let pos = s.pos(s.snd_nxt());
        let data_end = 1 + s.queued();
        if used >= window && used > 0 && s.snd_wnd() > 0 && pos < data_end {
            return None;
        }
        let in_buffer = data_end.min(s.buffered_end()).saturating_sub(pos) as u32;
        let room = window.saturating_sub(used);
        let len = in_buffer.min(room).min(s.mss());
        let last = pos + u64::from(len) == data_end;
        let fin = s.is_closed() && last && pos <= data_end && (len > 0 || in_buffer == 0);
        let fin_unsent = fin && (!s.fin_sent() || s.snd_nxt().lt(s.snd_max()));
        let again = s.snd_nxt().lt(s.snd_max());
        let idle = s.snd_max() == s.snd_una();
        let go = len == s.mss() && len > 0
            || len > 0 && len == in_buffer && (idle || !s.holds_small())
            || len > 0 && len >= s.max_snd_wnd() / 2
            || len > 0 && again
            || len > 0 && len == room && self.is_cut_at_the_edge(now)
            || fin_unsent;
        if !go {
            // With nothing outstanding and too small a window, only a probe can show that it has opened, in case the
            // update is lost. The same holds if the peer took the window back (RFC 9293 §3.8.6).
            let taken_back = s.snd_wnd() == 0 && s.snd_nxt() == s.snd_una();
            let too_little = self.recovery.rack().is_some() || flow <= self.control.cc.window();
            if (idle && too_little || taken_back) && in_buffer > 0 && self.persist.is_none() && !self.probe_due.is_on()
            {
                self.stream.stop_timer();
                self.start_persist(now);
            }
            return None;
        }
        let s = &mut self.stream;
        self.control.budget -= 1;
        if len > 0 && len < s.mss() && !again {
            s.note_small(s.snd_nxt() + len);
        }
        if self.counts_bursts() && !again {
            self.run.on_sent(now, self.stream.snd_nxt(), self.stream.snd_nxt() + len);
        }
        let s = &mut self.stream;
        // With a full window, nothing more can be sent before the next acknowledgment.
        let full = used + len >= window && s.snd_wnd() > 0 && pos + u64::from(len) < data_end;
        if full && !self.probe_due.is_on() && self.recovery.rack().is_none() {
            self.awake = Switch::Off;
        }
        let cause = match (again, len) {
            (true, _) => Cause::Timeout,
            (false, 0) => Cause::Handshake,
            (false, _) => Cause::New,
        };
        let fin = if fin { Switch::On } else { Switch::Off };
        let push = match self.stream.config().push {
            Push::Bursts => self.push(len, in_buffer - len, room - len, cause),
            Push::Never => Switch::Off,
        };
        let turn = if again { Turn::Again } else { Turn::First };
        Some(Transmission { seq: self.stream.snd_nxt(), len, syn: Switch::Off, fin, push, turn, cause })
    }

    /// Returns whether bursts are counted, for rules that depend on their ends.
    fn counts_bursts(&self) -> bool {
        self.stream.config().window_edge == WindowEdge::Cut || self.stream.config().push == Push::Bursts
    }

    /// Returns whether a segment of `len` bytes carries PSH, if bursts do: `left` more bytes are in the send buffer,
    /// and `room` bytes fit into the peer's window. A burst takes half of the congestion window at most
    /// (`tcp_cwnd_test`).
    fn push(&self, len: u32, left: u32, room: u32, cause: Cause) -> Switch {
        let s = &self.stream;
        let Some(rack) = self.recovery.rack().filter(|_| len > 0) else { return Switch::Off };
        if left == 0 {
            return Switch::On;
        }
        // The first of a burst never does.
        if cause != Cause::New || self.run.segments <= 1 {
            return Switch::Off;
        }
        let size = rack.burst(s).min(rack.window().0 / 2).max(1);
        let place = (self.run.segments - 1) % size;
        let next = left.min(room).min(s.mss());
        let whole = next == s.mss() || next == left || s.config().window_edge == WindowEdge::Cut;
        let goes_on = next > 0 && whole && (next == s.mss() || !s.holds_small()) && rack.has_room_behind_next();
        if place > 0 && (place + 1 == size || !goes_on) { Switch::On } else { Switch::Off }
    }

    /// Returns whether the part of the next segment within the peer's window leaves with the previous segment, as one
    /// burst.
    fn is_cut_at_the_edge(&self, now: Instant) -> bool {
        let s = &self.stream;
        s.config().window_edge == WindowEdge::Cut
            && self.run.goes_on(now, s.snd_nxt())
            && !s.holds_small()
            && self.recovery.rack().is_some_and(|rack| !self.run.segments.is_multiple_of(rack.burst(s)))
    }

    /// Handles the restart after an idle period. RFC 5681 §4.1; 4.4BSD `tcp_output`.
    #[inline(never)]
    fn restart_after_idle(&mut self, now: Instant) {
        let s = &mut self.stream;
        if let Some(rack) = self.recovery.rack_mut() {
            rack.restart_after_idle(s, now);
            return;
        }
        let by_clock = s.config().idle_restart.is_on() && !s.timer_finds_idleness();
        if by_clock && now.since(self.last_sent) >= s.rtt().rto() {
            self.control.cc.restart_after_idle();
            self.last_sent = now;
        }
    }

    /// Returns one new segment per first and second duplicate, within the peer's window (RFC 3042).
    fn limited_transmit(&mut self) -> Option<Transmission> {
        let (s, c) = (&self.stream, &self.control);
        let window = c.cc.window().saturating_add(c.dupacks.saturating_mul(s.mss())).min(s.flow_window());
        let room = window.saturating_sub(s.snd_nxt().since(s.snd_una()));
        let left = s.end_pos().saturating_sub(s.pos(s.snd_nxt())).min(u64::from(s.mss())) as u32;
        if left == 0 || room < left {
            return None;
        }
        let again = s.snd_nxt().lt(s.snd_max());
        let cause = if again { Cause::Timeout } else { Cause::LimitedTransmit };
        Some(self.segment(s.snd_nxt(), s.snd_nxt() + s.mss() + 1, cause))
    }

    fn start_persist(&mut self, now: Instant) {
        let s = &mut self.stream;
        let span = s.rtt().rto().saturating_mul(1 << self.probes.min(6));
        if self.probes == 0 && s.snd_wnd() == 0 {
            s.report(Event::ZeroWindow);
        }
        let least = if matches!(s.config().clock, Clock::Ticks { .. }) { PERSIST.0 } else { Duration::ZERO };
        self.persist = Some(s.rtt().deadline_after(now, span.max(least).min(PERSIST.1)));
    }

    /// Returns a probe of a closed window, or the part that a small one admits. In the former case `snd_nxt` stays: if
    /// the peer refuses the byte, it is retransmitted in its turn.
    fn probe(&mut self, now: Instant) -> Option<Transmission> {
        let s = &mut self.stream;
        if s.pos(s.snd_una()) > s.queued() {
            return None;
        }
        if s.snd_wnd() > 0 {
            if s.snd_max() != s.snd_una() {
                return None;
            }
            let end = s.snd_nxt() + s.flow_window();
            let probe = Transmission { turn: Turn::Probe, ..self.segment(self.stream.snd_nxt(), end, Cause::Probe) };
            self.book(now, probe);
            return Some(probe);
        }
        let (seq, len) = match s.config().window_probe {
            WindowProbe::Byte => (s.snd_una(), 1),
            WindowProbe::Empty => (s.snd_una() - 1, 0),
        };
        let (off, cause) = (Switch::Off, Cause::Probe);
        let probe = Transmission { seq, len, syn: off, fin: off, push: off, turn: Turn::Probe, cause };
        s.on_probe_sent(probe.end());
        self.probes = self.probes.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
        self.start_persist(now);
        Some(probe)
    }

    /// Records a segment as sent.
    #[inline(always)]
    fn book(&mut self, now: Instant, transmission: Transmission) {
        let (seq, end) = (transmission.seq, transmission.end());
        self.recovery.on_sent(&self.stream, now, seq, end);
        let s = &mut self.stream;
        if let Some(ratio) = self.ack_ratio.as_mut().filter(|_| seq.lt(s.snd_max())) {
            ratio.on_sent_again(s.pos(s.snd_max()));
        }
        s.time(now, seq, end);
        s.on_sent(now, end);
        self.last_sent = now;
    }
}
