//! BBR version 1 as in Linux: it estimates the path's rate and round trip, paces at that rate, and sends a quarter
//! faster every eight round trips to probe for more.
//!
//! Rates are segments per microsecond in units of 2^-24, gains are in 2^-8, as in Linux.

mod aggregation;
mod phase;
mod policer;
mod probe_rtt;
mod saved;

use alloc::boxed::Box;

use self::aggregation::Aggregation;
use self::phase::{Cycle, FullPipe};
use self::policer::Policer;
use self::probe_rtt::MinRtt;
use self::saved::Saved;
use super::algorithm::Algorithm;
use super::control::{AckSample, CaState, CongestionControl, Episode, Pacing, PathModel, Phase, Totals};
use super::draws::Draws;
use super::max_filter::{MaxFilter, Moment};
use super::quantum::{self, GSO_BYTES};
use super::rounds::Rounds;
use super::window::Start;
use crate::time::{Duration, Instant};

/// One segment per microsecond.
const RATE_UNIT: u128 = 1 << 24;
/// A gain of one.
const GAIN_UNIT: u32 = 256;
/// 2/ln 2: the minimum gain that doubles the rate every round.
const HIGH_GAIN: u32 = GAIN_UNIT * 2885 / 1000 + 1;
/// Inverse of the startup gain, which drains in a round the queue that startup left.
const DRAIN_GAIN: u32 = GAIN_UNIT * 1000 / 2885;
/// Gain of the window: twice the path's capacity, since acknowledgments are delayed and aggregated.
const CWND_GAIN: u32 = 2 * GAIN_UNIT;
/// Number of rounds over which the maximum rate is taken: a cycle and two more.
const RATE_ROUNDS: u32 = 10;
/// Minimum window, also used in `PROBE_RTT`.
const LEAST_WINDOW: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Linux's BBR version 1.
pub static BBR: Algorithm = Algorithm {
    name: "bbr",
    title: "BBR version 1",
    about: "version 1",
    family: "bbr",
    kernel_name: Some("bbr"),
    paces: true,
    scalable: false,
    hystart: None,
    build: |start, _| Box::new(Bbr::new(start)),
};

/// Window and rate of a BBR sender.
#[derive(Clone, Debug)]
pub struct Bbr {
    cwnd: u32,
    ssthresh: u32,
    bound: u32,
    initial: u32,
    mss: u32,
    jiffy: Duration,
    draws: Draws,
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,
    /// Pacing rate, in bytes per second.
    pacing_rate: u64,
    has_round_trip: bool,
    rate: MaxFilter,
    rounds: Rounds,
    min_rtt: MinRtt,
    is_idle_restart: bool,
    full: FullPipe,
    cycle: Cycle,
    saved: Saved,
    /// True in the first round of recovery, in which packets are conserved.
    is_conserving: bool,
    policer: Policer,
    aggregation: Aggregation,
    /// Counts of the whole connection, from the last acknowledgment or timeout.
    totals: Totals,
    /// Minimum round trip of the connection, which sizes bursts.
    path_rtt: Duration,
    now: Instant,
}

impl Bbr {
    /// Returns the initial state.
    pub fn new(start: &Start) -> Self {
        let start = start.bounded();
        let mut bbr = Self {
            cwnd: start.window,
            ssthresh: u32::MAX,
            bound: start.bound,
            initial: start.window,
            mss: start.mss,
            jiffy: start.jiffy,
            draws: Draws::new(start.seed),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            pacing_rate: 0,
            has_round_trip: false,
            rate: MaxFilter::default(),
            rounds: Rounds::default(),
            min_rtt: MinRtt::default(),
            is_idle_restart: false,
            full: FullPipe::default(),
            cycle: Cycle::default(),
            saved: Saved::default(),
            is_conserving: false,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            totals: Totals::default(),
            path_rtt: Duration::MAX,
            now: Instant::ZERO,
        };
        bbr.seed_pacing(None);
        bbr
    }

    /// Sets the first pacing rate: the window per round trip, or per millisecond before that is known.
    fn seed_pacing(&mut self, rtt: Option<Duration>) {
        self.has_round_trip = rtt.is_some();
        let micros = rtt.map_or(1000, |rtt| (rtt.as_nanos() / 1000).max(1));
        let rate = u128::from(self.cwnd) * RATE_UNIT / u128::from(micros);
        self.pacing_rate = self.bytes_a_second(rate as u64, HIGH_GAIN);
    }

    /// Returns a rate times a gain, minus the margin of 1 %, in bytes per second.
    fn bytes_a_second(&self, rate: u64, gain: u32) -> u64 {
        let scaled = u128::from(rate) * u128::from(self.mss) * u128::from(gain) / u128::from(GAIN_UNIT);
        u64::try_from(scaled * 990_000 / RATE_UNIT).unwrap_or(u64::MAX)
    }

    fn max_rate(&self) -> u64 {
        self.rate.max()
    }

    fn model_rate(&self) -> u64 {
        self.policer.rate().unwrap_or(self.max_rate())
    }

    fn set_pacing_rate(&mut self, gain: u32) {
        let rate = self.bytes_a_second(self.model_rate(), gain);
        if self.full.is_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Returns the size of a burst, in segments: the data that the rate yields in a 1024th of a second.
    fn burst(&self) -> u32 {
        let bytes = (self.pacing_rate >> 10).min(GSO_BYTES - 321);
        let segments = (bytes / u64::from(self.mss)) as u32;
        segments.max(quantum::least_segments(self.pacing_rate)).min(127)
    }

    /// Returns the path's capacity at `rate`, times `gain`, in segments.
    fn capacity(&self, rate: u64, gain: u32) -> u32 {
        let Some(min_rtt) = self.min_rtt.micros else { return self.initial };
        let scaled = (u128::from(rate) * u128::from(min_rtt)).saturating_mul(u128::from(gain)) / u128::from(GAIN_UNIT);
        scaled.div_ceil(RATE_UNIT).min(1 << 30) as u32
    }

    /// Adds allowances for bursts at both ends, for acknowledgments of two segments, and for growth while probing for
    /// more.
    fn with_bursts(&self, segments: u32) -> u32 {
        let even = (segments + 3 * self.burst()).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle.is_probing() { even + 2 } else { even }
    }

    fn inflight(&self, gain: u32) -> u32 {
        self.with_bursts(self.capacity(self.max_rate(), gain))
    }

    /// Returns the data in flight when the next burst leaves, if that waits for the pacer.
    fn in_flight_at_departure(&self, ack: &AckSample, in_flight: u32) -> u32 {
        let wait = ack.next_send.since(ack.now).as_nanos() / 1000;
        let gone = u128::from(self.model_rate()) * u128::from(wait) / RATE_UNIT;
        let burst = if self.pacing_gain > GAIN_UNIT { self.burst() } else { 0 };
        in_flight.saturating_add(burst).saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX))
    }

    fn jiffies(&self, at: Instant) -> u64 {
        at.as_nanos() / self.jiffy.as_nanos()
    }

    fn is_past(&self, deadline: Instant) -> bool {
        self.jiffies(self.now) > self.jiffies(deadline)
    }

    fn update_rate(&mut self, ack: &AckSample) {
        let sample = ack.rate.filter(|sample| sample.interval.as_nanos() >= 1000);
        if self.rounds.update(sample.map(|sample| sample.prior_delivered), ack.total_delivered) {
            self.is_conserving = false;
        }
        let Some(sample) = sample else { return };
        let micros = sample.interval.as_nanos() / 1000;
        self.look_for_policer(policer::Shown { has_losses: ack.newly_lost > 0, is_app_limited: sample.is_app_limited });
        let rate = (u128::from(sample.delivered) * RATE_UNIT / u128::from(micros)) as u64;
        if !sample.is_app_limited || rate >= self.max_rate() {
            self.rate.update(Moment { round: self.rounds.number, window: RATE_ROUNDS }, rate);
        }
    }

    /// Updates the policer detection with the findings of the last acknowledgment, or of a timeout.
    fn look_for_policer(&mut self, shown: policer::Shown) {
        let seen = policer::Seen {
            totals: self.totals,
            is_round_start: self.rounds.is_start,
            is_probing: self.mode == Mode::ProbeBw,
            shown,
            mss: self.mss,
        };
        if self.policer.update(&seen) == policer::Verdict::Expired {
            self.enter_probe_bw();
        }
    }

    fn update_aggregation(&mut self, ack: &AckSample) {
        if ack.delivered > 0 && ack.rate.is_some() {
            if self.rounds.is_start {
                self.aggregation.begin_round();
            }
            self.aggregation.update(ack, self.model_rate(), self.cwnd);
        }
    }

    fn aggregated(&self) -> u32 {
        if self.full.is_full { self.aggregation.allowance(self.model_rate()) } else { 0 }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (GAIN_UNIT, CWND_GAIN),
            Mode::ProbeBw => (self.cycle.gain(), CWND_GAIN),
            Mode::ProbeRtt => (GAIN_UNIT, GAIN_UNIT),
        };
    }

    /// Saves the window before recovery or `PROBE_RTT`, to be restored.
    fn save_window(&mut self) {
        self.saved.save(self.cwnd, self.mode == Mode::ProbeRtt);
    }

    /// Applies losses to the window. Returns whether packets are conserved: in recovery's first round nothing else sets
    /// the window.
    fn recover_or_restore(&mut self, ack: &AckSample) -> Recovering {
        self.cwnd = self.cwnd.saturating_sub(ack.newly_lost).max(1);
        let (before, after) = (self.saved.state, ack.state);
        self.saved.state = after;
        if after == CaState::Recovery && before != CaState::Recovery {
            self.is_conserving = true;
            self.rounds.restart(ack.total_delivered);
            self.cwnd = ack.in_flight.saturating_add(ack.delivered);
        } else if before >= CaState::Recovery && after < CaState::Recovery {
            self.cwnd = self.cwnd.max(self.saved.cwnd);
            self.is_conserving = false;
        }
        if self.is_conserving {
            self.cwnd = self.cwnd.max(ack.in_flight.saturating_add(ack.delivered));
            Recovering::Yes
        } else {
            Recovering::No
        }
    }

    fn update_window(&mut self, ack: &AckSample) {
        if ack.delivered > 0 && self.recover_or_restore(ack) == Recovering::No {
            let target = self.capacity(self.model_rate(), self.cwnd_gain) + self.aggregated();
            let target = self.with_bursts(target);
            let grown = self.cwnd.saturating_add(ack.delivered);
            if self.full.is_full {
                self.cwnd = grown.min(target);
            } else if self.cwnd < target || ack.total_delivered < u64::from(self.initial) {
                self.cwnd = grown;
            }
            self.cwnd = self.cwnd.max(LEAST_WINDOW);
        }
        self.cwnd = self.cwnd.clamp(1, self.bound);
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(LEAST_WINDOW);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recovering {
    Yes,
    No,
}

impl CongestionControl for Bbr {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn set_window(&mut self, segments: u32) {
        self.cwnd = segments.clamp(1, self.bound);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.now = ack.now;
        let delivered_at = if ack.delivered > 0 { ack.now } else { self.totals.delivered_at };
        self.totals = Totals { delivered: ack.total_delivered, lost: ack.total_lost, delivered_at };
        self.path_rtt = ack.min_rtt;
        self.update_rate(ack);
        self.update_aggregation(ack);
        self.update_phase(ack);
        self.check_full(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();
        if !self.has_round_trip && ack.srtt > Duration::ZERO {
            self.seed_pacing(Some(ack.srtt));
        }
        self.set_pacing_rate(self.pacing_gain);
        self.update_window(ack);
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        self.now = now;
        match what {
            Episode::Established { rtt } => {
                self.min_rtt.begin(now, rtt);
                self.aggregation.begin(now);
                self.cycle.begin(now);
                self.path_rtt = rtt.unwrap_or(Duration::MAX);
                self.seed_pacing(rtt);
            }
            Episode::Reduce(_) => self.save_window(),
            Episode::Timeout { again, totals } => {
                if !again {
                    self.save_window();
                }
                self.saved.state = CaState::Loss;
                self.full.forget_rate();
                self.rounds.is_start = true;
                self.totals = totals;
                self.look_for_policer(policer::Shown { has_losses: true, is_app_limited: false });
            }
            Episode::Undone => {
                self.full.restart();
                self.policer.reset(self.totals);
            }
            Episode::SendingAgain { is_app_limited: true, .. } => {
                self.is_idle_restart = true;
                self.aggregation.begin(now);
                match self.mode {
                    Mode::ProbeBw => self.set_pacing_rate(GAIN_UNIT),
                    Mode::ProbeRtt => self.check_probe_rtt_done(),
                    Mode::Startup | Mode::Drain => {}
                }
            }
            Episode::SendingAgain { is_app_limited: false, .. }
            | Episode::Ended
            | Episode::IdleRestart { .. }
            | Episode::Unused { .. } => {}
        }
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(quantum::pacing(self.pacing_rate, self.path_rtt, self.mss))
    }

    fn model(&self) -> Option<PathModel> {
        let phase = match (self.mode, self.pacing_gain) {
            (Mode::Startup, _) => Phase::Startup,
            (Mode::Drain, _) => Phase::Drain,
            (Mode::ProbeBw, ..GAIN_UNIT) => Phase::Down,
            (Mode::ProbeBw, GAIN_UNIT) => Phase::Cruise,
            (Mode::ProbeBw, _) => Phase::Up,
            (Mode::ProbeRtt, _) => Phase::ProbeRtt,
        };
        let rate = u128::from(self.model_rate()) * u128::from(self.mss) * 1_000_000 / RATE_UNIT;
        Some(PathModel {
            phase,
            rate: u64::try_from(rate).unwrap_or(u64::MAX),
            min_rtt: self.min_rtt.micros.map(Duration::from_micros),
            inflight_bound: None,
        })
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn buffered_windows(&self) -> u32 {
        3
    }

    fn holds_back(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }
}
