//! Bursts: their size, their pacing, and their way through the host. With segmentation offload they are super-segments,
//! which pacer and host queue treat as one packet.

use super::Rack;
use crate::seq::Seq;
use crate::tcp::config::Qdisc;
use crate::tcp::congestion::control::Pacing;
use crate::tcp::congestion::quantum;
use crate::tcp::modern::flight::{Index, Sent};
use crate::tcp::modern::pacer::Piece;
use crate::tcp::stream::Stream;
use crate::time::{Duration, Instant};

impl Rack {
    /// Returns the number of segments that leave as one burst.
    pub fn burst(&self, s: &Stream) -> u32 {
        match self.pacing(s) {
            Some(pacing) => pacing.quantum.min(self.config.send_quantum),
            None if self.config.tso.is_on() => {
                self.unpaced_burst(s, self.unpaced_rate(s)).min(self.config.send_quantum)
            }
            None => self.unpaced_burst(s, self.unpaced_rate(s)),
        }
    }

    fn unpaced_burst(&self, s: &Stream, rate: u64) -> u32 {
        quantum::unpaced(rate, self.min_rtt.get().unwrap_or(Duration::MAX), s.mss())
    }

    /// Returns whether segments are paced, by the congestion control or by the host's queue discipline.
    #[inline]
    pub(super) fn is_paced(&self) -> bool {
        self.control.is_paced() || self.config.qdisc == Qdisc::Fq
    }

    /// Returns the pacing. A discipline that paces does so at the rate that Linux sets for every connection.
    pub(super) fn pacing(&self, s: &Stream) -> Option<Pacing> {
        self.control.pacing().or_else(|| {
            (self.config.qdisc == Qdisc::Fq).then(|| {
                let rate = self.unpaced_rate(s);
                Pacing { rate, quantum: self.unpaced_burst(s, rate) }
            })
        })
    }

    /// Returns whether window, pacer and the host's queue permit a segment. `begins` is true if it began a
    /// super-segment before.
    pub(super) fn may_send(&mut self, s: &Stream, now: Instant, piece: Piece, begins: bool) -> bool {
        if self.flight.in_flight() >= self.control.window() {
            return false;
        }
        if self.config.tso.is_on() {
            return self.may_begin(s, now, piece, begins);
        }
        if self.is_paced()
            && let Some(release) = self.pacer.blocked_until(now, piece)
        {
            self.wake = Some(release);
            return false;
        }
        self.host_queue_has_room(s, now, piece)
    }

    /// Returns the number of the super-segment that the last segment is a part of; 0 without segmentation offload.
    pub fn super_segment(&self) -> u8 {
        self.sent.super_segments.number()
    }

    /// Returns whether pacer and host queue permit a segment, which they only decide for the first of a super-segment.
    #[inline(never)]
    pub(super) fn may_begin(&mut self, s: &Stream, now: Instant, piece: Piece, begins: bool) -> bool {
        if !begins && self.sent.super_segments.goes_on(now, piece) {
            return true;
        }
        let delay = if self.is_paced() { self.pacer.delay(now) } else { Duration::ZERO };
        if delay > Duration::ZERO {
            self.wake = Some(now + delay);
            return false;
        }
        self.host_queue_has_room(s, now, piece)
    }

    /// Adds the segment that leaves to the current super-segment, or begins another one. `again` is its index if it is
    /// a retransmission. Returns whether it begins one.
    #[inline(never)]
    pub(super) fn join_super_segment(
        &mut self,
        s: &Stream,
        now: Instant,
        (seq, end): (Seq, Seq),
        again: Option<Index>,
    ) -> bool {
        let sent = again.and_then(|index| self.flight.get(index));
        let piece = Piece { seq, left_at: sent.map(Sent::sent_at) };
        let began = sent.is_some_and(Sent::begins_super_segment);
        let most = match (self.forced, again) {
            // Timeouts and probes send one segment (`tcp_retransmit_timer`, `tcp_send_loss_probe`).
            (Some(_), _) => 1,
            (None, Some(_)) => self.burst(s),
            // New data uses half of the window at once (`tcp_cwnd_test`).
            (None, None) => self.burst(s).min(self.control.window() / 2),
        };
        self.sent.super_segments.on_sent(now, piece, end.since(seq), began || self.forced.is_some(), most)
    }
}
