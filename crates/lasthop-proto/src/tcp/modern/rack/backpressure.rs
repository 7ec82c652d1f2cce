//! TCP small queues: a connection limits its share of the host's own queue, and sends more as segments leave it (Linux
//! 6.18 `tcp_small_queue_check`, `tcp_tsq_write`).

use alloc::boxed::Box;

use super::Rack;
use crate::host_queue::{HostQueue, Queued, Room};
use crate::tcp::congestion::quantum;
use crate::tcp::modern::pacer::Piece;
use crate::tcp::stream::Stream;
use crate::time::{Duration, Instant};

/// Maximum share, in bytes (`net.ipv4.tcp_limit_output_bytes`).
const MOST: u64 = 4 << 20;
/// Shift of the pacing rate that yields the share: a 1024th of a second (`sk_pacing_shift`). The share is at least two
/// bursts.
const PACING_SHIFT: u32 = 10;

/// The connection's share of the host's queue.
#[derive(Clone, Default, Debug)]
pub(super) struct Backpressure {
    /// Segments in the host's queue; `None` until there are some.
    queue: Option<Box<HostQueue>>,
    /// True if a segment waits for a departure that the driver will report.
    blocked: bool,
}

impl Backpressure {
    /// Returns whether nothing is queued.
    pub fn is_clear(&mut self, now: Instant) -> bool {
        self.queue.as_mut().is_none_or(|queue| queue.bytes(now) == 0)
    }
}

impl Rack {
    /// Records the time at which the segment polled last begins transmission.
    pub fn schedule_departure(&mut self, now: Instant, queued: Queued) {
        self.backpressure.queue.get_or_insert_default().add(now, queued);
    }

    /// Records that a segment of `bytes` has left, whose departure was unknown. Returns whether a segment was waiting
    /// for that.
    pub fn on_departure(&mut self, bytes: u32) -> bool {
        if let Some(queue) = &mut self.backpressure.queue {
            queue.remove(bytes);
        }
        let blocked = core::mem::take(&mut self.backpressure.blocked);
        if blocked {
            self.on_wake();
        }
        blocked
    }

    /// Returns whether the host's queue has capacity for a segment. If not, sets the time of the next check.
    #[inline]
    pub(super) fn host_queue_has_room(&mut self, s: &Stream, now: Instant, piece: Piece) -> bool {
        if self.backpressure.queue.is_none() { true } else { self.asks_host_queue(s, now, piece) }
    }

    #[inline(never)]
    fn asks_host_queue(&mut self, s: &Stream, now: Instant, piece: Piece) -> bool {
        // A burst is one packet in Linux, which the host's queue accepts or refuses as a whole. A sender with almost
        // nothing in flight is never held back.
        let goes_on = self.is_paced() && self.pacer.goes_on(now, piece);
        if self.backpressure.is_clear(now) || goes_on || self.flight.len() <= 1 {
            return true;
        }
        let limit = self.host_queue_limit(s);
        // Retransmissions may use twice as much (`tcp_xmit_retransmit_queue`).
        let limit = if piece.left_at.is_some() { 2 * limit } else { limit };
        match self.backpressure.queue.as_mut().map_or(Room::Now, |queue| queue.room(now, limit)) {
            Room::Now => return true,
            Room::At(at) => self.wake = Some(at),
            Room::Unknown => self.backpressure.blocked = true,
        }
        false
    }

    /// Returns the maximum payload, in bytes, in the host's queue before the next segment is added. Linux counts
    /// memory, which is proportional on both sides of its comparison.
    fn host_queue_limit(&self, s: &Stream) -> u64 {
        let burst = u64::from(self.burst(s)) * u64::from(s.mss());
        let rate = self.control.pacing().map_or_else(|| self.unpaced_rate(s), |pacing| pacing.rate);
        (2 * burst).max(rate >> PACING_SHIFT).min(MOST)
    }

    /// Returns the rate, in bytes per second, at which Linux would pace an unpaced connection.
    pub(super) fn unpaced_rate(&self, s: &Stream) -> u64 {
        let window = self.control.window().max(self.flight.len());
        let srtt = s.rtt().srtt().unwrap_or(Duration::MAX);
        quantum::unpaced_rate(window, self.control.ssthresh(), srtt, s.mss())
    }
}
