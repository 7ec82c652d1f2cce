//! CUBIC in Linux's integers: time in units of 2^-10 s that advance by jiffies, growth of one segment per `per`
//! delivered.

use super::cube_root;
use crate::tcp::congestion::control::{AckSample, CongestionControl, Episode};
use crate::tcp::congestion::hystart::{Hystart, HystartRule, SlowStart};
use crate::tcp::congestion::window::{MayUndo, Pace, Start, Window};
use crate::time::{Duration, Instant};

/// β = 717/1024, the factor of a reduction.
const BETA: u64 = 717;
/// Denominator of [`BETA`].
const BETA_UNIT: u64 = 1024;
/// C = 410/1024 segments per second cubed: a cube of time in 2^-10 s, times this, shifted by 40, is in segments.
const C: u128 = 410;
/// Shift after multiplication by [`C`].
const C_SHIFT: u32 = 40;
/// Growth of the Reno-friendly window: one segment per `cwnd * 15 / 8` delivered, the inverse of 3(1 - β)/(1 + β).
const FRIENDLY: u64 = 15;
/// Minimum growth without a former maximum: one segment per this number of deliveries, 5 % per round trip.
const UNKNOWN_MAXIMUM: u64 = 20;
/// Limit of times, in 2^-10 s: a day and a half, beyond which the curve is above every window.
const FAR: u64 = 1 << 27;

/// A curve and its origin, from the end of a reduction to the next reduction.
#[derive(Clone, Debug)]
struct Epoch {
    /// Start in jiffies, moved by idle time.
    start: u64,
    /// Time at which the curve passes its plateau, in 2^-10 s from the start.
    k: u64,
    /// Plateau, in segments.
    origin: u64,
    /// Reno's window, in segments.
    reno: u64,
    /// Delivered segments by which `reno` has not grown yet.
    reno_credit: u64,
}

/// Window of a CUBIC sender, as Linux computes it.
#[derive(Clone, Debug)]
pub struct Linux {
    window: Window,
    hystart: Hystart,
    jiffy: Duration,
    /// Whole jiffies in a second: the kernel's `HZ`.
    hz: u64,
    /// Window before the last reduction; 0 before the first and after a timeout.
    last_max: u64,
    /// Minimum round trip since the start or the last timeout.
    min_rtt: Option<Duration>,
    epoch: Option<Epoch>,
    /// Number of deliveries per segment of growth.
    per: u64,
    /// Window and jiffy when `per` was last computed.
    computed: (u32, u64),
}

impl Linux {
    /// Returns the initial state.
    pub fn new(start: &Start, hystart: HystartRule) -> Self {
        let start = start.bounded();
        Self {
            window: Window::new(&start),
            hystart: Hystart::new(hystart, start.mss),
            jiffy: start.jiffy,
            hz: (Duration::from_secs(1).as_nanos() / start.jiffy.as_nanos()).max(1),
            last_max: 0,
            min_rtt: None,
            epoch: None,
            per: 0,
            computed: (0, 0),
        }
    }

    fn jiffies(&self, span: Duration) -> u64 {
        span.in_ticks(self.jiffy)
    }

    fn now(&self, now: Instant) -> u64 {
        self.jiffies(now.since(Instant::ZERO))
    }

    /// Processes a round trip, by which the curve looks ahead, and which HyStart evaluates. In the first second of an
    /// epoch queues may still be as before the loss. `now` is in jiffies.
    fn on_round_trip(&mut self, ack: &AckSample, now: u64, rtt: Duration) {
        if self.epoch.as_ref().is_some_and(|epoch| now.saturating_sub(epoch.start) < self.hz) {
            return;
        }
        let rtt = rtt.max(Duration::from_micros(1));
        let min_rtt = self.min_rtt.map_or(rtt, |min| min.min(rtt));
        self.min_rtt = Some(min_rtt);
        if self.window.is_slow_start() && self.hystart.on_ack(ack, rtt, min_rtt, self.window.cwnd) == SlowStart::Leave {
            self.window.ssthresh = self.window.cwnd;
        }
    }

    /// Recomputes `per`, unless the window is the same and the last time is at most 1/32 s ago, or in this jiffy.
    fn update(&mut self, jiffies: u64, delivered: u32) {
        let cwnd = self.window.cwnd;
        let (computed_for, computed_at) = self.computed;
        if let Some(epoch) = &mut self.epoch {
            epoch.reno_credit += u64::from(delivered);
        }
        let age = jiffies.saturating_sub(computed_at);
        if computed_for == cwnd && age <= self.hz / 32 {
            return;
        }
        if self.epoch.is_none() || age > 0 {
            self.computed = (cwnd, jiffies);
            self.follow_curve(jiffies, delivered);
        }
        self.stay_reno_friendly();
        // At most one segment for two: 1.5 times the window per round trip.
        self.per = self.per.max(2);
    }

    fn follow_curve(&mut self, jiffies: u64, delivered: u32) {
        let cwnd = u64::from(self.window.cwnd);
        let (hz, ahead) = (self.hz, self.jiffies_of_min_rtt());
        let last_max = self.last_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: jiffies,
            k: cube_root((u128::from(last_max.saturating_sub(cwnd)) << C_SHIFT) / C),
            origin: last_max.max(cwnd),
            reno: cwnd,
            reno_credit: u64::from(delivered),
        });
        // As 1024 * (t + min RTT), counted in jiffies, over HZ.
        let t = ((jiffies.saturating_sub(epoch.start) + ahead).min(1 << 53) << 10) / hz;
        let away = u128::from(t.abs_diff(epoch.k).min(FAR));
        let rise = ((C * away * away * away) >> C_SHIFT) as u64;
        let target = if t < epoch.k { epoch.origin.saturating_sub(rise) } else { epoch.origin + rise };
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if last_max == 0 {
            self.per = self.per.min(UNKNOWN_MAXIMUM);
        }
    }

    /// Returns the minimum round trip in jiffies, rounded up.
    fn jiffies_of_min_rtt(&self) -> u64 {
        self.min_rtt.map_or(0, |rtt| rtt.in_ticks_begun(self.jiffy))
    }

    fn stay_reno_friendly(&mut self) {
        let cwnd = u64::from(self.window.cwnd);
        let Some(epoch) = &mut self.epoch else { return };
        let each = (cwnd * FRIENDLY / 8).max(1);
        // One credit is kept: Linux counts while there is more than a step's worth.
        let steps = epoch.reno_credit.saturating_sub(1) / each;
        epoch.reno_credit -= steps * each;
        epoch.reno += steps;
        if epoch.reno > cwnd {
            self.per = self.per.min(cwnd / (epoch.reno - cwnd));
        }
    }

    fn reduce(&mut self, may_undo: MayUndo) {
        self.epoch = None;
        let cwnd = u64::from(self.window.cwnd);
        // Fast convergence: a flow that meets the loss below the former maximum leaves capacity to others.
        self.last_max = if cwnd < self.last_max { cwnd * (BETA_UNIT + BETA) / (2 * BETA_UNIT) } else { cwnd };
        self.window.reduce_to(((cwnd * BETA / BETA_UNIT) as u32).max(2), may_undo);
        self.hystart.on_reduction();
    }

    /// Discards the curve and the round trip after a timeout.
    fn forget(&mut self) {
        self.last_max = 0;
        self.min_rtt = None;
        self.epoch = None;
        self.per = 0;
        self.computed = (0, 0);
        self.window.forget_credit();
    }

    fn resume(&mut self, now: Instant, idle: Duration) {
        let (now, idle) = (self.now(now), self.jiffies(idle));
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle).min(now);
        }
    }
}

impl CongestionControl for Linux {
    fn window(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn set_window(&mut self, segments: u32) {
        self.window.set(segments);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.hystart.on_round(ack);
        let now = self.now(ack.now);
        if let Some(rtt) = ack.rtt {
            self.on_round_trip(ack, now, rtt);
        }
        if !ack.lets_grow() {
            return;
        }
        let mut delivered = ack.delivered;
        if self.window.is_slow_start() {
            delivered = self.window.slow_start(self.hystart.allowed(delivered));
        }
        if delivered > 0 {
            self.update(now, delivered);
            self.window.additive(Pace(u32::try_from(self.per).unwrap_or(u32::MAX)), delivered);
        }
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        match what {
            Episode::Reduce(reduction) => self.reduce(reduction.into()),
            Episode::Timeout { again, .. } => {
                if !again {
                    self.reduce(MayUndo::Yes);
                }
                self.forget();
                self.hystart.restart(now);
            }
            Episode::Undone => self.window.undo(),
            Episode::SendingAgain { idle, .. } => self.resume(now, idle),
            Episode::IdleRestart { idle, rto } => self.window.restart_after(idle, rto),
            Episode::Unused { used } => self.window.unused(used),
            Episode::Ended | Episode::Established { .. } => {}
        }
    }
}
