//! The pseudocode of RFC 9332 appendix A.1 (figures 2 to 5) in floating point: accumulated instead of random decisions,
//! a ramp from 0.8 to 1.2 ms, the larger of both probabilities for the scalable queue, and the classic queue's delay in
//! the controller. The scheduler, which the RFC leaves open, is weighted round robin with 1/10 for the classic queue.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::random::Stream;

/// A waiting packet: its arrival in seconds, whether it can be marked, and its name.
type Packet = (f64, bool, u32);

/// Fate of a dequeued packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fate {
    Sent { marked: bool },
    Dropped,
}

#[derive(Default)]
pub(super) struct Oracle {
    lq: VecDeque<Packet>,
    cq: VecDeque<Packet>,
    base: f64,
    previous: f64,
    /// Accumulated likelihoods of both queues.
    counts: [f64; 2],
    /// Source of random decisions, if they are not to be accumulated.
    pub draws: Option<Stream>,
    credit: f64,
    next_update: f64,
}

impl Oracle {
    const K: f64 = 2.0;
    const TARGET: f64 = 0.015;
    const RTT_MAX: f64 = 0.1;
    const UPDATE: f64 = 0.016;
    const MIN_TH: f64 = 800e-6;
    const RANGE: f64 = 400e-6;
    const MTU: usize = 1514;

    fn catch_up(&mut self, now: f64) {
        let alpha = 0.1 * Self::UPDATE / (Self::RTT_MAX * Self::RTT_MAX);
        let beta = 0.3 / Self::RTT_MAX;
        while self.next_update <= now {
            let current = self.cq.front().map_or(0.0, |(since, ..)| self.next_update - since);
            self.base += alpha * (current - Self::TARGET) + beta * (current - self.previous);
            self.base = self.base.clamp(0.0, 1.0);
            self.previous = current;
            self.next_update += Self::UPDATE;
        }
    }

    pub fn enqueue(&mut self, now: f64, scalable: bool, name: u32, capable: bool) {
        self.catch_up(now);
        let queue = if scalable { &mut self.lq } else { &mut self.cq };
        queue.push_back((now, capable, name));
    }

    fn recur(&mut self, queue: usize, likelihood: f64) -> bool {
        if let Some(draws) = &mut self.draws {
            return draws.chance(likelihood);
        }
        let count = &mut self.counts[queue];
        *count += likelihood;
        let happens = *count > 1.0;
        if happens {
            *count -= 1.0;
        }
        happens
    }

    fn laqm(delay: f64) -> f64 {
        ((delay - Self::MIN_TH) / Self::RANGE).clamp(0.0, 1.0)
    }

    /// Returns the packets that leave, the last of which is sent, each with its delay, whether it was in the scalable
    /// queue, and its fate.
    pub fn dequeue(&mut self, now: f64, bytes: usize) -> Vec<(u32, f64, bool, Fate)> {
        self.catch_up(now);
        let mut out = Vec::new();
        loop {
            let shared = !self.lq.is_empty() && !self.cq.is_empty();
            let scalable = !self.lq.is_empty() && (self.cq.is_empty() || self.credit <= 0.0);
            let queue = if scalable { &mut self.lq } else { &mut self.cq };
            let Some((since, capable, name)) = queue.pop_front() else { return out };
            let delay = now - since;
            if shared {
                self.credit += bytes as f64 * if scalable { 0.1 } else { -0.9 };
            }
            let long = bytes * (self.lq.len() + self.cq.len()) >= 2 * Self::MTU;
            if scalable {
                let coupled = (Self::K * self.base).min(1.0);
                let native = if self.lq.is_empty() { 0.0 } else { Self::laqm(delay) };
                let marked = self.recur(0, native.max(coupled));
                out.push((name, delay, true, Fate::Sent { marked }));
                return out;
            }
            let strikes = long && self.recur(1, self.base * self.base);
            if strikes && !capable {
                out.push((name, delay, false, Fate::Dropped));
                continue;
            }
            out.push((name, delay, false, Fate::Sent { marked: strikes }));
            return out;
        }
    }
}
