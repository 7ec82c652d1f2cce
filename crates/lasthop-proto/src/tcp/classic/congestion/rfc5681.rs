//! RFC 5681: slow start, congestion avoidance, and their reaction to losses; with RFC 3465 (appropriate byte counting)
//! up to two segments per acknowledgment in slow start.

use super::Outstanding;
use crate::tcp::config::{CommonConfig, Growth};

#[derive(Clone, Debug)]
pub struct Rfc5681 {
    smss: u32,
    cwnd: u32,
    ssthresh: u32,
    initial: u32,
    max: u32,
    /// Bytes acknowledged in congestion avoidance since the last increase (RFC 5681 §3.1, byte counting).
    bytes_acked: u32,
    /// Maximum growth per acknowledgment in slow start: L of RFC 3465 §2.2, in bytes.
    slow_start_limit: u32,
    /// Limit in use, which is lower until the data of the timeout before this slow start is recovered (RFC 3465 §2.3).
    limit: u32,
}

impl Rfc5681 {
    pub fn new(growth: Growth, config: &CommonConfig, mss: u32) -> Self {
        // RFC 6928 §2: at most 10 segments, at most max(2 segments, 14600 bytes).
        let initial = config.initial_window.saturating_mul(mss).min((2 * mss).max(14600));
        let ssthresh = config.initial_ssthresh.unwrap_or(config.send_buffer);
        let segments = if growth == Growth::Rfc3465 { 2 } else { 1 };
        let limit = mss.saturating_mul(segments);
        let (smss, max) = (mss, config.max_cwnd);
        Self { smss, cwnd: initial, ssthresh, initial, max, bytes_acked: 0, slow_start_limit: limit, limit }
    }

    #[inline]
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub fn established(&mut self, syn_retries: u32) {
        // RFC 5681 §3.1: after a lost SYN the initial window is one segment.
        self.cwnd = if syn_retries > 0 { self.smss } else { self.initial };
    }

    pub fn grow(&mut self, acked: u32) {
        if self.cwnd < self.ssthresh {
            self.cwnd = self.cwnd.saturating_add(acked.min(self.limit)).min(self.max);
            return;
        }
        self.limit = self.slow_start_limit;
        // Regardless of how much one acknowledgment covers, the window grows by at most a segment per round trip.
        self.bytes_acked = self.bytes_acked.saturating_add(acked.min(self.cwnd));
        if self.bytes_acked >= self.cwnd {
            self.bytes_acked -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.smss).min(self.max);
        }
    }

    /// Evaluates equation (4).
    fn half(&self, outstanding: Outstanding) -> u32 {
        (outstanding.flight / 2).max(2 * self.smss)
    }

    pub fn halve(&mut self, outstanding: Outstanding) {
        self.ssthresh = self.half(outstanding);
        self.cwnd = self.ssthresh;
        self.bytes_acked = 0;
    }

    pub fn inflate(&mut self, segments: u32) {
        self.cwnd = self.cwnd.saturating_add(segments.saturating_mul(self.smss));
    }

    pub fn take_back(&mut self, segments: u32) {
        self.cwnd = self.cwnd.saturating_sub(segments.saturating_mul(self.smss)).max(self.smss);
    }

    pub fn partial_ack(&mut self, acked: u32) {
        self.cwnd = self.cwnd.saturating_sub(acked);
        if acked >= self.smss {
            self.cwnd += self.smss;
        }
        self.cwnd = self.cwnd.max(self.smss);
    }

    /// Deflates the window: RFC 5681 §3.2 step 6; RFC 6582 §3.2 step 3 with `flight`.
    pub fn deflate(&mut self, flight: Option<u32>) {
        let most = flight.map_or(self.cwnd, |flight| flight.max(self.smss).saturating_add(self.smss));
        self.cwnd = self.ssthresh.min(most);
    }

    pub fn timeout(&mut self, outstanding: Outstanding, retries: u32) {
        // RFC 5681 §3.1: held constant while the same segment times out again.
        if retries <= 1 {
            self.ssthresh = self.half(outstanding);
        }
        self.cwnd = self.smss;
        self.bytes_acked = 0;
        self.limit = self.smss;
    }

    pub fn restart_after_idle(&mut self) {
        self.cwnd = self.cwnd.min(self.initial);
    }
}
