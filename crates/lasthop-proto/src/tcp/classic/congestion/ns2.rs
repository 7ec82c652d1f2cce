//! ns-2's `TcpAgent`: windows counted in segments, the congestion window as a floating-point number. Growth is not
//! limited by the peer's window, and inflation by duplicates (`dupwnd_`) is counted separately.

use super::Outstanding;
use crate::tcp::config::CommonConfig;

#[derive(Clone, Debug)]
pub struct Ns2 {
    mss: u32,
    cwnd: f64,
    /// `dupwnd_`, in segments.
    inflation: u32,
    /// Slow-start threshold, in segments.
    ssthresh: u32,
    initial: u32,
    max: f64,
}

impl Ns2 {
    pub fn new(config: &CommonConfig, mss: u32) -> Self {
        let ssthresh = config.initial_ssthresh.unwrap_or(config.send_buffer) / mss;
        let max = f64::from(config.max_cwnd) / f64::from(mss);
        Self { mss, cwnd: 1.0, inflation: 0, ssthresh, initial: config.initial_window, max }
    }

    #[inline]
    pub fn window(&self) -> u32 {
        (self.cwnd as u32).saturating_add(self.inflation).saturating_mul(self.mss)
    }

    pub fn ssthresh(&self) -> u32 {
        self.ssthresh.saturating_mul(self.mss)
    }

    pub fn established(&mut self, syn_retries: u32) {
        if syn_retries > 0 {
            // The SYN's timeout was an ordinary one: it left half of a window of one segment.
            self.ssthresh = 2;
        }
        self.cwnd = if syn_retries > 0 { 1.0 } else { f64::from(self.initial) };
    }

    #[inline]
    pub fn grow(&mut self, _acked: u32) {
        let step = if self.cwnd < f64::from(self.ssthresh) { 1.0 } else { 1.0 / self.cwnd };
        self.cwnd = (self.cwnd + step).min(self.max);
    }

    fn half(&self, outstanding: Outstanding) -> f64 {
        let wnd = f64::from(outstanding.snd_wnd / self.mss);
        (self.cwnd + f64::from(self.inflation)).min(wnd) / 2.0
    }

    pub fn halve(&mut self, outstanding: Outstanding) {
        self.cwnd = self.half(outstanding);
        self.ssthresh = (self.cwnd as u32).max(2);
    }

    pub fn inflate(&mut self, segments: u32) {
        self.inflation = self.inflation.saturating_add(segments);
    }

    pub fn take_back(&mut self, segments: u32) {
        self.inflation = self.inflation.saturating_sub(segments);
    }

    pub fn partial_ack(&mut self, acked: u32) {
        let acked = acked.div_ceil(self.mss).max(1);
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            self.cwnd -= f64::from(acked - self.inflation);
            self.inflation = 1;
        }
        self.cwnd = self.cwnd.max(1.0);
    }

    pub fn deflate(&mut self, _flight: Option<u32>) {
        self.inflation = 0;
    }

    pub fn timeout(&mut self, outstanding: Outstanding, _retries: u32) {
        self.inflation = 0;
        self.cwnd = self.cwnd.max(1.0);
        self.ssthresh = (self.half(outstanding) as u32).max(2);
        self.cwnd = 1.0;
    }

    pub fn restart_after_idle(&mut self) {
        self.inflation = 0;
        self.ssthresh = self.ssthresh.max(2);
        self.cwnd = 1.0;
    }
}
