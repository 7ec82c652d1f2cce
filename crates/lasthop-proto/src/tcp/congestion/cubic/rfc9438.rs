//! CUBIC as written in RFC 9438, in fixed point: windows in 2^-16 segments, times in microseconds.

use super::cube_root;
use crate::tcp::congestion::control::{AckSample, CongestionControl, Episode};
use crate::tcp::congestion::hystart::{Hystart, HystartRule, SlowStart};
use crate::tcp::congestion::window::{MayUndo, Start};
use crate::time::{Duration, Instant};

/// One segment, in fixed point.
const ONE: u64 = 1 << 16;
/// Limit of the distance from the plateau, in microseconds: nine hours, beyond every window.
const FAR: u64 = 1 << 35;
/// Minimum window after a reduction: two segments (RFC 9438 §4.6).
const LEAST: u64 = 2 * ONE;

/// Returns `window` times `beta_cubic` = 0.7 (RFC 9438 §4.6).
fn beta(window: u64) -> u64 {
    window * 7 / 10
}

/// The seven variables that a spurious reduction restores (RFC 9438 §4.9.2).
#[derive(Clone, Copy, Default, Debug)]
struct Curve {
    /// Congestion window.
    cwnd: u64,
    /// `ssthresh`; `u64::MAX` if there is none.
    ssthresh: u64,
    /// Window before the last reduction; 0 before the first.
    cwnd_prior: u64,
    /// Plateau; 0 while unknown: congestion avoidance then starts on it.
    w_max: u64,
    /// Time at which the curve passes the plateau, in microseconds from the epoch's start.
    k: u64,
    /// Start of congestion avoidance, moved by application-limited time.
    epoch: Option<Instant>,
    /// Reno's window.
    w_est: u64,
}

/// Window of a CUBIC sender, by the RFC.
#[derive(Clone, Debug)]
pub struct Rfc9438 {
    curve: Curve,
    prior: Option<Curve>,
    hystart: Hystart,
    initial: u64,
    bound: u64,
    /// Time of the last acknowledgment.
    last_ack: Instant,
}

impl Rfc9438 {
    /// Returns the initial state.
    pub fn new(start: &Start, hystart: HystartRule) -> Self {
        let start = start.bounded();
        let initial = u64::from(start.window) * ONE;
        Self {
            curve: Curve { cwnd: initial, ssthresh: u64::MAX, ..Curve::default() },
            prior: None,
            hystart: Hystart::new(hystart, start.mss),
            initial,
            bound: u64::from(start.bound) * ONE,
            last_ack: Instant::ZERO,
        }
    }

    fn set(&mut self, window: u64) {
        self.curve.cwnd = window.clamp(ONE, self.bound);
    }

    /// Starts congestion avoidance (§4.2, §4.3, §4.8): computes K from this window to the plateau, or starts on the
    /// plateau.
    fn begin_epoch(&mut self, now: Instant) {
        let curve = &mut self.curve;
        curve.epoch = Some(now);
        curve.w_est = curve.cwnd;
        if curve.w_max <= curve.cwnd {
            curve.w_max = curve.cwnd;
            curve.k = 0;
        } else {
            // K^3 = (W_max - cwnd) / 0.4, in microseconds cubed.
            let missing = u128::from(curve.w_max - curve.cwnd);
            curve.k = cube_root((missing * 10_u128.pow(19) / 4) >> 16);
        }
    }

    /// Evaluates W_cubic(t), t in microseconds from the epoch's start (§4.2, figure 1).
    fn w_cubic(&self, t: u64) -> u64 {
        let away = u128::from(t.abs_diff(self.curve.k).min(FAR));
        // Shifted in two steps: three powers of FAR and a segment would not fit.
        let rise = ((away * away * away / 10_u128.pow(9)) * 4 * u128::from(ONE) / 10_u128.pow(10)) as u64;
        if t < self.curve.k { self.curve.w_max.saturating_sub(rise) } else { self.curve.w_max.saturating_add(rise) }
    }

    fn avoid(&mut self, ack: &AckSample, delivered: u32) {
        let epoch = match self.curve.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin_epoch(ack.now);
                ack.now
            }
        };
        let cwnd = self.curve.cwnd;
        let delivered = u64::from(delivered) * ONE;
        // §4.3: Reno's pace at this β until the window is restored, then one per round trip.
        let gain = scaled(delivered, (ONE, cwnd));
        self.curve.w_est += if self.curve.w_est < self.curve.cwnd_prior { gain * 9 / 17 } else { gain };
        self.curve.w_est = self.curve.w_est.min(self.bound);
        let t = ack.now.since(epoch).as_nanos() / 1000;
        let ahead = ack.srtt.as_nanos() / 1000;
        if self.w_cubic(t) < self.curve.w_est {
            self.set(self.curve.w_est.max(cwnd));
        } else {
            let target = self.w_cubic(t.saturating_add(ahead)).clamp(cwnd, cwnd + cwnd / 2);
            self.set(cwnd + scaled(delivered, (target - cwnd, cwnd)));
        }
    }

    fn reduce(&mut self, may_undo: MayUndo) {
        self.prior = (may_undo == MayUndo::Yes).then_some(self.curve);
        let curve = &mut self.curve;
        let cwnd = curve.cwnd;
        curve.cwnd_prior = cwnd;
        // §4.7: fast convergence.
        curve.w_max = if cwnd < curve.w_max { cwnd * 17 / 20 } else { cwnd };
        curve.ssthresh = beta(cwnd).max(LEAST);
        curve.epoch = None;
        self.hystart.on_reduction();
    }

    /// Excludes application-limited time (§5.8).
    fn skip(&mut self, span: Duration, now: Instant) {
        if let Some(epoch) = &mut self.curve.epoch {
            *epoch = (*epoch + span).min(now);
        }
    }

    fn is_slow_start(&self) -> bool {
        self.curve.cwnd < self.curve.ssthresh
    }
}

/// Returns `value` times a fraction, without overflow.
fn scaled(value: u64, (over, under): (u64, u64)) -> u64 {
    u64::try_from(u128::from(value) * u128::from(over) / u128::from(under.max(1))).unwrap_or(u64::MAX)
}

impl CongestionControl for Rfc9438 {
    fn window(&self) -> u32 {
        (self.curve.cwnd / ONE) as u32
    }

    fn ssthresh(&self) -> u32 {
        u32::try_from(self.curve.ssthresh / ONE).unwrap_or(u32::MAX)
    }

    fn set_window(&mut self, segments: u32) {
        // A reduction ends on the threshold, which has a fraction.
        let is_threshold = self.ssthresh() == segments;
        self.set(if is_threshold { self.curve.ssthresh } else { u64::from(segments) * ONE });
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let since_last = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        self.hystart.on_round(ack);
        if let (true, Some(rtt)) = (self.is_slow_start(), ack.rtt) {
            let cwnd = self.window();
            if self.hystart.on_ack(ack, rtt, ack.min_rtt, cwnd) == SlowStart::Leave {
                self.curve.ssthresh = self.curve.cwnd;
            }
        }
        if !ack.lets_grow() {
            if !ack.is_cwnd_limited {
                self.skip(since_last, ack.now);
            }
            return;
        }
        let mut delivered = ack.delivered;
        if self.is_slow_start() {
            delivered = self.hystart.allowed(delivered);
            let before = self.curve.cwnd;
            let grown = (before + u64::from(delivered) * ONE).min(self.curve.ssthresh);
            self.set(grown);
            delivered -= ((grown - before).div_ceil(ONE) as u32).min(delivered);
        }
        if delivered > 0 {
            self.avoid(ack, delivered);
        }
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        match what {
            Episode::Reduce(reduction) => self.reduce(reduction.into()),
            Episode::Timeout { again, .. } => {
                if !again {
                    self.reduce(MayUndo::Yes);
                }
                // §4.8: congestion avoidance will start on the plateau.
                self.curve.w_max = 0;
                self.curve.epoch = None;
                self.hystart.restart(now);
            }
            Episode::Undone => {
                if let Some(prior) = self.prior.take() {
                    self.curve = Curve { cwnd: self.curve.cwnd.max(prior.cwnd), ..prior };
                }
            }
            Episode::SendingAgain { idle, .. } => {
                self.skip(idle, now);
                self.last_ack = now;
            }
            // RFC 5681 §4.1.
            Episode::IdleRestart { .. } => self.set(self.curve.cwnd.min(self.initial)),
            Episode::Established { .. } | Episode::Ended | Episode::Unused { .. } => {}
        }
    }
}
