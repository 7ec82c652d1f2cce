//! SMART (\[a\] §III-B, after Keshav and Morgan): each acknowledgment names the segment that caused it. The sender
//! keeps a mask of the segments that arrived and resends every hole below the highest segment named, without further
//! evidence. A lost retransmission is not detected: it waits for the timer, unless [`ClassicConfig::smart_rtt`] sets the
//! time after which a hole that still exists is resent.
//!
//! A peer that names no segment does not support SMART. The sender then acts as NewReno, instead of waiting for the
//! timer on every loss.
//!
//! [`ClassicConfig::smart_rtt`]: crate::tcp::config::ClassicConfig::smart_rtt

use alloc::collections::VecDeque;

use super::newreno::NewReno;
use super::{LossRecovery, Selective};
use crate::event::Event;
use crate::packet::Cause;
use crate::seq::Seq;
use crate::tcp::ack::Ack;
use crate::tcp::classic::control::SendControl;
use crate::tcp::config::Switch;
use crate::tcp::stream::{Stream, Timer};
use crate::time::Instant;

/// Maximum number of tracked segments. Beyond it the oldest are dropped: they wait for the timer.
const MAX_SEGMENTS: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: Seq,
    end: Seq,
    at: Instant,
    state: SegmentState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SegmentState {
    /// In flight, sent once.
    Sent,
    /// Below a segment that arrived, therefore lost; to be resent.
    Lost,
    /// Resent.
    Resent,
    /// Named by an acknowledgment.
    Arrived,
}

/// SMART's state.
#[derive(Clone, Default, Debug)]
pub struct Smart {
    segments: VecDeque<Sent>,
    /// `snd_max` when the window was last reduced: one reduction per window.
    recover: Option<Seq>,
    /// Evidence of the peer's support for SMART: whether an acknowledgment ever named a segment.
    spoken: Spoken,
}

/// Support of the peer for SMART.
#[derive(Clone, Debug)]
enum Spoken {
    /// Not so far: losses are left to NewReno.
    NotYet(NewReno),
    Yes,
}

impl Default for Spoken {
    fn default() -> Self {
        Self::NotYet(NewReno::default())
    }
}

impl Smart {
    /// Returns NewReno, unless `ack` or an earlier one named a segment.
    fn stand_in(&mut self, ack: &Ack) -> Option<&mut NewReno> {
        if ack.smart.is_some() {
            self.spoken = Spoken::Yes;
        }
        match &mut self.spoken {
            Spoken::NotYet(newreno) => Some(newreno),
            Spoken::Yes => None,
        }
    }

    /// Returns the segment that `ack` names.
    fn named(&self, ack: &Ack) -> Option<usize> {
        let smart = ack.smart?;
        let index = self.segments.partition_point(|sent| sent.seq.le(smart)).checked_sub(1)?;
        self.segments[index].end.gt(smart).then_some(index)
    }

    /// Marks the segment that `ack` names, and declares unmarked segments below it lost.
    fn mark(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        let Some(index) = self.named(ack) else { return };
        let sent = self.segments[index];
        if sent.state != SegmentState::Arrived {
            self.segments[index].state = SegmentState::Arrived;
            c.credit += sent.end.since(sent.seq);
        }
        let lowest_was = self.segments.front().map(|lowest| lowest.state);
        let mut lost = false;
        for below in self.segments.iter_mut().take(index) {
            let overdue =
                below.state == SegmentState::Resent && c.config.smart_rtt.is_some_and(|rtt| now.since(below.at) >= rtt);
            if below.state == SegmentState::Sent || overdue {
                below.state = SegmentState::Lost;
                lost = true;
            }
        }
        if lost {
            self.reduce(s, c);
        }
        if lost && self.segments.front().map(|lowest| lowest.state) != lowest_was {
            // The lowest segment is resent now: its timeout counts from here (RFC 6298 §5).
            s.restart_timer(now);
        }
    }

    fn reduce(&mut self, s: &mut Stream, c: &mut SendControl) {
        if self.recover.is_some_and(|recover| s.snd_una().lt(recover)) {
            return;
        }
        self.recover = Some(s.snd_max());
        s.report(Event::RecoveryEntered { seq: s.snd_una() });
        c.halve(s);
    }

    fn drop_acknowledged(&mut self, s: &Stream, c: &mut SendControl) {
        while let Some(first) = self.segments.front() {
            if first.end.gt(s.snd_una()) {
                break;
            }
            if first.state == SegmentState::Arrived {
                c.credit = c.credit.saturating_sub(first.end.since(first.seq));
            }
            self.segments.pop_front();
        }
    }
}

impl LossRecovery for Smart {
    fn on_duplicate(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if let Some(newreno) = self.stand_in(ack) {
            newreno.on_duplicate(s, c, now, ack);
            return;
        }
        c.dupacks += 1;
        self.mark(s, c, now, ack);
    }

    fn on_new_ack(&mut self, s: &mut Stream, c: &mut SendControl, now: Instant, ack: &Ack) {
        if let Some(newreno) = self.stand_in(ack) {
            newreno.on_new_ack(s, c, now, ack);
            self.drop_acknowledged(s, c);
            return;
        }
        let acked = c.advance(s, now, ack.ack, Timer::Restart);
        c.dupacks = 0;
        self.drop_acknowledged(s, c);
        self.mark(s, c, now, ack);
        match self.recover {
            Some(recover) if s.snd_una().lt(recover) => {}
            Some(_) => {
                self.recover = None;
                s.report(Event::RecoveryLeft { ack: ack.ack });
                c.grow(acked);
            }
            None => c.grow(acked),
        }
    }

    fn on_timeout(&mut self, s: &mut Stream, c: &mut SendControl) {
        // All outstanding data is retransmitted, and its losses are detected again.
        self.segments.clear();
        self.recover = None;
        c.credit = 0;
        c.limited = Switch::Off;
        if let Spoken::NotYet(newreno) = &mut self.spoken {
            newreno.on_timeout(s, c);
        }
    }

    fn predictable(&self) -> bool {
        false
    }
}

impl Selective for Smart {
    fn next_hole(&mut self, _s: &Stream, _c: &SendControl) -> Option<(Seq, Seq, Cause)> {
        let lost = self.segments.iter().find(|sent| sent.state == SegmentState::Lost)?;
        Some((lost.seq, lost.end, Cause::SmartHole))
    }

    fn on_sent(&mut self, s: &Stream, now: Instant, seq: Seq, end: Seq) {
        if s.una_pos() == 0 {
            // Nothing names the SYN.
            return;
        }
        let index = self.segments.partition_point(|sent| sent.seq.lt(seq));
        if let Some(sent) = self.segments.get_mut(index)
            && sent.seq == seq
        {
            sent.at = now;
            if sent.state != SegmentState::Arrived {
                sent.state = SegmentState::Resent;
            }
            return;
        }
        if seq == end || self.segments.back().is_some_and(|last| seq.lt(last.end)) {
            return;
        }
        if self.segments.len() >= MAX_SEGMENTS {
            self.segments.pop_front();
        }
        let resent = seq.lt(s.snd_max());
        let state = if resent { SegmentState::Resent } else { SegmentState::Sent };
        self.segments.push_back(Sent { seq, end, at: now, state });
    }
}
