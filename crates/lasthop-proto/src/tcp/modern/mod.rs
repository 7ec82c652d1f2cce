//! The modern sender: RACK-TLP over a record of the segments in flight, with windows in segments.

pub mod delivery_rate;
pub mod flight;
pub mod pacer;
pub mod prr;
pub mod rack;
pub mod super_segments;
mod transmit;

use alloc::boxed::Box;

use self::rack::{Arrival, Peer, Rack};
use self::transmit::Run;
use crate::host_queue::Queued;
use crate::tcp::ack::Incoming;
use crate::tcp::config::{ModernConfig, Switch};
use crate::tcp::info::TcpInfo;
use crate::tcp::send_buffer::SendBuffer;
use crate::tcp::sender::contract::Sending;
use crate::tcp::stream::{Delivery, Expiry, Quota, Stream, Transmission};
use crate::time::Instant;

/// A sender with RACK. Its state is created with the first data, so that an end that never sends stays small.
#[derive(Clone, Debug)]
pub struct Modern {
    config: ModernConfig,
    rack: Option<Box<Rack>>,
    peer: Peer,
    /// New segments that leave together.
    run: Run,
    /// Seed of the congestion control's random draws.
    seed: u64,
}

/// Creates the state: once per connection, and out of the hot path.
#[cold]
#[inline(never)]
fn fresh(config: &ModernConfig, s: &Stream, now: Instant, peer: Peer, seed: u64) -> Box<Rack> {
    Box::new(Rack::new(config, s, now, peer, seed))
}

impl Modern {
    /// Returns the state before the SYN. Random draws of the congestion control derive from `seed`.
    pub fn new(config: &ModernConfig, seed: u64) -> Self {
        Self { config: *config, rack: None, peer: Peer::Selective, run: Run::NONE, seed }
    }

    /// Returns RACK's state, and creates it if necessary. Only called before data is sent.
    #[inline(always)]
    fn begin(&mut self, s: &Stream, now: Instant) -> (&mut Rack, &mut Run) {
        let rack = self.rack.get_or_insert_with(|| fresh(&self.config, s, now, self.peer, self.seed));
        (&mut **rack, &mut self.run)
    }

    /// Returns window and threshold before there is data to send: the initial window (RFC 6928 §2), or one segment
    /// after a lost SYN (RFC 5681 §3.1).
    fn opening_window(s: &Stream) -> (u32, u32) {
        let (mss, config) = (s.mss(), s.config());
        if s.syn_retries() > 0 {
            return (mss, 2 * mss);
        }
        let initial = config.initial_window.saturating_mul(mss).min((2 * mss).max(14600));
        (initial, config.initial_ssthresh.unwrap_or(config.send_buffer))
    }

    /// Handles an expiry of the retransmission timer.
    fn on_rto_timer(&mut self, s: &mut Stream, now: Instant) {
        if let Some(rack) = &mut self.rack
            && rack.on_timer(s, now)
        {
            return;
        }
        if s.on_expiry(now) != Expiry::Timeout {
            return;
        }
        if let Some(rack) = &mut self.rack {
            rack.on_retransmission_timeout(s, now);
            s.rtt_mut().back_off();
            s.restart_timer(now);
        } else {
            // The SYN.
            s.rtt_mut().back_off();
            s.go_back(now);
        }
    }

    /// Lets the application write up to position `end` of the stream. Returns whether anything was written.
    fn fill_buffer(&self, s: &mut Stream, end: u64) -> bool {
        let Some(rack) = &self.rack else { return false };
        s.fill_buffer(end, rack.buffer_need())
    }

    /// Lets the application write more, if the send buffer is auto-tuned and has capacity again. Returns the next
    /// segment if it did.
    #[inline(never)]
    fn next_refilled(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        let waits = s.buffer().is_some_and(|buffer| buffer.written() <= s.queued());
        if waits && self.fill_buffer(s, 1 + s.queued()) { self.next_in_turn(s, now) } else { None }
    }
}

impl Sending for Modern {
    fn window(&self, s: &Stream) -> (u32, u32) {
        match self.rack.as_deref().map(Rack::window) {
            Some((window, ssthresh)) => (window.saturating_mul(s.mss()), ssthresh.saturating_mul(s.mss())),
            None => Self::opening_window(s),
        }
    }

    fn describe(&self, s: &Stream, info: &mut TcpInfo) {
        match self.rack.as_deref() {
            Some(rack) => rack.describe(s, info),
            None => info.snd_cwnd = Self::opening_window(s).0 / s.mss().max(1),
        }
    }

    fn do_without_sack(&mut self) {
        self.peer = Peer::Blind;
    }

    /// An auto-tuned buffer accepts nothing before the handshake is complete.
    fn offer(&mut self, s: &mut Stream, now: Instant, bytes: u64) -> u64 {
        if s.buffer().is_none() {
            return bytes.min(s.capacity());
        }
        if s.is_opening() || bytes == 0 {
            return 0;
        }
        self.begin(s, now);
        let before = 1 + s.queued();
        self.fill_buffer(s, before + bytes);
        s.buffer().map_or(before, SendBuffer::written).saturating_sub(before)
    }

    fn quota(&self, s: &Stream) -> Quota {
        let window = self.window(s).0 / s.mss().max(1);
        let (in_flight, burst) = match self.rack.as_deref() {
            Some(rack) => (rack.in_flight(), rack.burst(s)),
            // The least that Linux sends together (`tcp_min_tso_segs`).
            None => (0, 2),
        };
        let admitted = s.flow_window().saturating_sub(s.flight()) / s.payload().max(1);
        // A burst takes half of the congestion window at most (`tcp_cwnd_test`).
        Quota { segments: window.saturating_sub(in_flight).min(admitted), burst: burst.min(window / 2).max(1) }
    }

    fn on_write(&mut self) {
        if let Some(rack) = &mut self.rack {
            rack.on_write();
        }
    }

    fn on_close(&mut self) {
        self.on_write();
    }

    fn on_no_news(&mut self) -> bool {
        self.rack.is_none()
    }

    #[inline(always)]
    fn on_ack(&mut self, s: &mut Stream, now: Instant, incoming: &Incoming, window_before: u32) {
        if let Some(rack) = &mut self.rack {
            let has_more = incoming.seq_len > 0 || s.snd_wnd() != window_before;
            let Incoming { ack, echoed, marks, .. } = incoming;
            rack.on_ack(s, now, &Arrival { ack, echoed: *echoed, marks: *marks, has_more });
        } else if let Some(marks) = incoming.marks.filter(|marks| marks.is_fresh) {
            // The peer counts marks of acknowledgments, too.
            s.weigh_marks(&marks, &Delivery { segments: 0, bytes: 0, is_exact: true });
        }
    }

    /// Does nothing: RACK already reduced its window when it processed the acknowledgment.
    fn on_echo(&mut self, _s: &Stream) {}

    fn take_reduced(&mut self) -> Option<Switch> {
        Some(self.rack.as_mut().map_or(Switch::Off, |rack| rack.take_reduced()))
    }

    #[inline]
    fn wake_time(&self) -> Option<Instant> {
        self.rack.as_deref().and_then(Rack::wake)
    }

    fn on_timer(&mut self, s: &mut Stream, now: Instant) {
        if s.has_expired(now) {
            self.on_rto_timer(s, now);
        }
        if let Some(rack) = &mut self.rack
            && rack.wake().is_some_and(|at| at <= now)
        {
            rack.on_wake();
        }
    }

    fn resegment(&mut self, s: &mut Stream, _now: Instant) {
        if let Some(rack) = &mut self.rack {
            rack.cut(s.mss());
        }
    }

    #[inline(always)]
    fn next(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        let mut transmission = self.next_in_turn(s, now);
        if transmission.is_none() && s.buffer().is_some() {
            transmission = self.next_refilled(s, now);
        }
        if transmission.is_none()
            && let Some(rack) = &mut self.rack
        {
            rack.on_burst_end(s, now);
            self.run.end();
        }
        transmission
    }

    #[inline(always)]
    fn next_within_windows(&mut self, s: &mut Stream, now: Instant) -> Option<Transmission> {
        let (rack, run) = self.begin(s, now);
        if rack.has_hole()
            && let Some(hole) = rack.next_hole(s, now)
        {
            let (seq, end) = rack.fit(s, hole.span);
            let push = if end.lt(hole.span.1) {
                Switch::Off
            } else if end == hole.span.1 {
                hole.push
            } else {
                rack.push_at(seq)
            };
            return Some(Transmission { push, joined: hole.joined, ..s.segment(seq, end, hole.why) });
        }
        run.next_in_order(rack, s, now)
    }

    #[inline(always)]
    fn record(&mut self, s: &mut Stream, now: Instant, transmission: &Transmission) {
        let (seq, end) = (transmission.seq, transmission.end());
        match &mut self.rack {
            Some(rack) => rack.on_sent(s, now, transmission),
            // The SYN.
            None => s.time(now, seq, end),
        }
        s.on_sent(now, end);
    }

    fn super_segment(&self) -> u8 {
        self.rack.as_ref().map_or(0, |rack| rack.super_segment())
    }

    fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        if let Some(rack) = &mut self.rack {
            rack.schedule_departure(now, queued);
        }
    }

    fn on_departure(&mut self, bytes: u32) -> bool {
        self.rack.as_mut().is_some_and(|rack| rack.on_departure(bytes))
    }
}
