//! 4.4BSD `tcp_input`: byte counts, with the window limited to 65535 for any window of the peer.

use super::Outstanding;
use crate::tcp::config::{CommonConfig, Growth};

#[derive(Clone, Debug)]
pub struct Bsd {
    mss: u32,
    cwnd: u32,
    ssthresh: u32,
    initial: u32,
    max: u32,
    /// Quirk 1 of 4.4BSD-Lite: additional mss/8 in each step of congestion avoidance; 0 in Lite2.
    extra: u32,
}

impl Bsd {
    pub fn new(growth: Growth, config: &CommonConfig, mss: u32) -> Self {
        let extra = if growth == Growth::BsdLite { mss / 8 } else { 0 };
        let initial = config.initial_window.saturating_mul(mss);
        let ssthresh = config.initial_ssthresh.unwrap_or(config.send_buffer);
        Self { mss, cwnd: initial, ssthresh, initial, max: config.max_cwnd, extra }
    }

    #[inline]
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    pub fn established(&mut self, _syn_retries: u32) {
        self.cwnd = self.initial;
    }

    pub fn grow(&mut self, _acked: u32) {
        let step = if self.cwnd > self.ssthresh {
            (u64::from(self.mss) * u64::from(self.mss) / u64::from(self.cwnd.max(1))) as u32 + self.extra
        } else {
            self.mss
        };
        self.cwnd = self.cwnd.saturating_add(step).min(self.max);
    }

    fn half(&self, outstanding: Outstanding) -> u32 {
        (outstanding.snd_wnd.min(self.cwnd) / 2 / self.mss).max(2) * self.mss
    }

    pub fn halve(&mut self, outstanding: Outstanding) {
        self.ssthresh = self.half(outstanding);
        self.cwnd = self.ssthresh;
    }

    pub fn inflate(&mut self, segments: u32) {
        self.cwnd = self.cwnd.saturating_add(segments.saturating_mul(self.mss));
    }

    pub fn take_back(&mut self, segments: u32) {
        self.cwnd = self.cwnd.saturating_sub(segments.saturating_mul(self.mss)).max(self.mss);
    }

    pub fn partial_ack(&mut self, acked: u32) {
        self.cwnd = self.cwnd.saturating_sub(acked).max(self.mss);
        if acked >= self.mss {
            self.cwnd += self.mss;
        }
    }

    pub fn deflate(&mut self, _flight: Option<u32>) {
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    pub fn timeout(&mut self, outstanding: Outstanding, _retries: u32) {
        self.ssthresh = self.half(outstanding);
        self.cwnd = self.mss;
    }

    pub fn restart_after_idle(&mut self) {
        self.cwnd = self.mss;
    }
}
