//! New data of the modern sender, and the bursts in which it leaves.

use super::rack::Rack;
use crate::seq::Seq;
use crate::tcp::config::{Push, Switch, WindowEdge};
use crate::tcp::stream::{NewData, Stream, Transmission};
use crate::time::Instant;

/// Consecutive new segments sent at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    at: Instant,
    end: Seq,
    segments: u32,
    /// Segments of each of its bursts.
    size: u32,
}

impl Run {
    /// State before the first segment.
    pub const NONE: Self = Self { at: Instant::ZERO, end: Seq(0), segments: 0, size: 1 };

    /// Ends the run: segments that leave after another event begin another one.
    pub fn end(&mut self) {
        self.segments = 0;
    }

    fn on_sent(&mut self, now: Instant, seq: Seq, end: Seq, rack: &Rack, s: &Stream) {
        if self.goes_on(now, seq) && !s.is_buffer_end(s.pos(seq)) {
            self.segments += 1;
        } else {
            // A burst takes half of the congestion window at most (`tcp_cwnd_test`).
            (self.segments, self.size) = (1, rack.burst(s).min(rack.window().0 / 2).max(1));
        }
        (self.at, self.end) = (now, end);
    }

    /// Returns whether the next segment, at `seq`, begins a burst.
    fn is_at_a_start(&self, now: Instant, seq: Seq) -> bool {
        !self.goes_on(now, seq) || self.segments.is_multiple_of(self.size)
    }

    fn goes_on(&self, now: Instant, seq: Seq) -> bool {
        self.segments > 0 && self.at == now && self.end == seq
    }

    /// Returns the segment at `snd_nxt`, if windows and rules permit it.
    #[inline(always)]
    pub fn next_in_order(&mut self, rack: &mut Rack, s: &mut Stream, now: Instant) -> Option<Transmission> {
        if s.is_idle() && (s.take_resumption() || !s.probes_as_linux()) {
            rack.restart_after_idle(s, now);
        }
        if !rack.may_send_new(s, now) {
            return None;
        }
        let new = s.new_data(s.flow_window())?;
        if !(s.permits(&new)
            || new.len > 0 && rack.is_probing()
            || new.len > 0 && new.len == new.room && self.is_cut_at_the_edge(rack, s, now))
        {
            s.wait_for_window(now, &new, true);
            return None;
        }
        let (bursts, tso) = (rack.config().push == Push::Bursts, rack.config().tso.is_on());
        if (bursts || tso)
            && new.len == s.payload()
            && new.in_buffer > new.len
            && self.is_at_a_start(now, s.snd_nxt())
            && rack.defers(s, now, &new)
        {
            return None;
        }
        let mut transmission = s.take_new(&new);
        if (bursts || tso || rack.config().window_edge == WindowEdge::Cut) && !new.again {
            self.on_sent(now, transmission.seq, transmission.seq + transmission.len, rack, s);
        }
        if bursts {
            transmission.push = self.push(rack, s, &new);
            let starts = self.segments <= 1 || (self.segments - 1).is_multiple_of(self.size);
            transmission.joined = if starts || new.again { Switch::Off } else { Switch::On };
        }
        Some(transmission)
    }

    /// Returns whether `new` carries PSH, if bursts do.
    fn push(&self, rack: &Rack, s: &Stream, new: &NewData) -> Switch {
        let left = new.in_buffer - new.len;
        if new.len == 0 {
            return Switch::Off;
        }
        if left == 0 && !s.marks_end() {
            return Switch::Off;
        }
        let end = s.pos(s.snd_nxt()) + u64::from(new.len);
        if left == 0 || s.is_record_end(end) {
            return Switch::On;
        }
        let is_marked = s.is_marked(end);
        // The first of a burst only does if a buffer with PSH ends with it.
        if new.again || self.segments <= 1 && !is_marked {
            return Switch::Off;
        }
        let size = self.size;
        let place = self.segments.saturating_sub(1) % size;
        let next = left.min(new.room - new.len).min(s.payload());
        let whole = next == s.payload() || next == left || rack.config().window_edge == WindowEdge::Cut;
        let goes_on = next > 0
            && !s.is_buffer_end(end)
            && whole
            && (next == s.payload() || !s.holds_small())
            && rack.has_room_behind_next();
        let is_last = place + 1 == size || !goes_on;
        // A buffer that leaves with the data behind it passes its PSH on (`tcp_grow_skb`).
        if (place > 0 || is_marked) && is_last { Switch::On } else { Switch::Off }
    }

    /// Returns whether the part of the next segment within the peer's window leaves with the previous segment, as one
    /// burst.
    fn is_cut_at_the_edge(&self, rack: &Rack, s: &Stream, now: Instant) -> bool {
        rack.config().window_edge == WindowEdge::Cut
            && self.goes_on(now, s.snd_nxt())
            && !s.is_buffer_end(s.pos(s.snd_nxt()))
            && !s.holds_small()
            && !self.segments.is_multiple_of(rack.burst(s))
    }
}
