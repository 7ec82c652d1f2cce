//! BBR version 3 (draft-ietf-ccwg-bbr): like version 1 it paces at the path's estimated rate, but losses above 2 %
//! limit the data in flight, and it probes for more only every two to three seconds.
//!
//! Names follow the draft: `bw` is a rate in segments per microsecond in units of 2^-24, `inflight` is in segments,
//! gains are in thousandths. The draft's infinity is the type's maximum.

mod full_bw;
mod model;
mod probe;

use alloc::boxed::Box;

use self::full_bw::FullBw;
use self::model::{Model, Signals};
use self::probe::{Cycle, ProbeRtt};
use super::algorithm::Algorithm;
use super::control::{AckSample, CaState, CongestionControl, Episode, LostSegment, Pacing, PathModel, Phase};
use super::draws::Draws;
use super::max_filter::Moment;
use super::quantum;
use super::rounds::Rounds;
use super::window::Start;
use crate::time::{Duration, Instant};

/// One segment per microsecond.
const BW_UNIT: u128 = 1 << 24;
/// A gain of one.
const GAIN_UNIT: u32 = 1000;
/// 4 ln 2: `StartupPacingGain`.
const STARTUP_PACING_GAIN: u32 = 2770;
/// `DefaultCwndGain`.
const CWND_GAIN: u32 = 2000;
/// Gain of the window while probing for more.
const UP_CWND_GAIN: u32 = 2250;
/// `ProbeRTTCwndGain`.
const PROBE_RTT_CWND_GAIN: u32 = 500;
/// `MinPipeCwnd`: acknowledgments for two segments, and two segments, are in flight.
const MIN_PIPE_CWND: u32 = 4;

/// BBR version 3 of draft-ietf-ccwg-bbr.
pub static BBR3: Algorithm = Algorithm {
    name: "bbr3",
    title: "BBR version 3",
    about: "IETF draft",
    family: "bbr3",
    kernel_name: None,
    paces: true,
    scalable: false,
    hystart: None,
    build: |start, _| Box::new(Bbr3::new(start, Bbr3Rule::Draft)),
};

/// BBR version 3 with the constants of Google's kernel.
pub static BBR3_GOOGLE: Algorithm = Algorithm {
    name: "bbr3-google",
    title: "BBR version 3",
    about: "",
    family: "bbr3",
    kernel_name: None,
    paces: true,
    scalable: false,
    hystart: None,
    build: |start, _| Box::new(Bbr3::new(start, Bbr3Rule::Google)),
};

/// Source of version 3's constants.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Bbr3Rule {
    /// draft-ietf-ccwg-bbr: DRAIN at half the rate for three rounds at most, DOWN at 0.90.
    #[default]
    Draft,
    /// Google's kernel: DRAIN at 0.347 until it is complete, DOWN at 0.91.
    Google,
}

impl Bbr3Rule {
    fn pacing_gain(self, phase: Phase) -> u32 {
        match (phase, self) {
            (Phase::Startup, _) => STARTUP_PACING_GAIN,
            (Phase::Drain, Self::Draft) => 500,
            (Phase::Drain, Self::Google) => 347,
            (Phase::Down, Self::Draft) => 900,
            (Phase::Down, Self::Google) => 910,
            (Phase::Up, _) => 1250,
            (Phase::Cruise | Phase::Refill | Phase::ProbeRtt, _) => GAIN_UNIT,
        }
    }

    /// Returns the maximum number of rounds in DRAIN.
    fn drain_rounds(self) -> u32 {
        match self {
            Self::Draft => 3,
            Self::Google => u32::MAX,
        }
    }
}

/// Window and rate of a BBR sender.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    rule: Bbr3Rule,
    cwnd: u32,
    bound: u32,
    initial: u32,
    mss: u32,
    draws: Draws,
    now: Instant,
    phase: Phase,
    /// Pacing rate, in bytes per second.
    pacing_rate: u64,
    has_round_trip: bool,
    /// Minimum round trip of the connection, which sizes bursts.
    path_rtt: Duration,
    rounds: Rounds,
    drain_start_round: u32,
    full_bw: FullBw,
    is_idle_restart: bool,
    prior_state: CaState,
    prior_cwnd: u32,
    /// Total number of segments delivered, by the last acknowledgment.
    delivered: u64,
    model: Model,
    signals: Signals,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    undo: Undo,
}

/// State that a spurious recovery restores.
#[derive(Clone, Copy, Default, Debug)]
struct Undo {
    /// Phase that losses ended.
    phase: Option<Phase>,
    bw_shortterm: u64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

/// Rate sample of an acknowledgment, with its rate.
#[derive(Clone, Copy, Debug)]
struct Sample {
    bw: u64,
    delivered: u32,
    prior_delivered: u64,
    tx_in_flight: u32,
    lost: u32,
    is_app_limited: bool,
}

impl Sample {
    fn of(ack: &AckSample) -> Option<Self> {
        let rate = ack.rate?;
        let micros = rate.interval.as_nanos() / 1000;
        (micros > 0).then(|| Self {
            bw: (u128::from(rate.delivered) * BW_UNIT / u128::from(micros)) as u64,
            delivered: rate.delivered,
            prior_delivered: rate.prior_delivered,
            tx_in_flight: rate.tx_in_flight,
            lost: rate.lost,
            is_app_limited: rate.is_app_limited,
        })
    }
}

impl Bbr3 {
    /// Returns the initial state.
    pub fn new(start: &Start, rule: Bbr3Rule) -> Self {
        let start = start.bounded();
        let mut bbr = Self {
            rule,
            cwnd: start.window,
            bound: start.bound,
            initial: start.window,
            mss: start.mss,
            draws: Draws::new(start.seed),
            now: Instant::ZERO,
            phase: Phase::Startup,
            pacing_rate: 0,
            has_round_trip: false,
            path_rtt: Duration::MAX,
            rounds: Rounds::default(),
            drain_start_round: 0,
            full_bw: FullBw::default(),
            is_idle_restart: false,
            prior_state: CaState::Open,
            prior_cwnd: 0,
            delivered: 0,
            model: Model::default(),
            signals: Signals::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            undo: Undo::default(),
        };
        bbr.init_pacing_rate(None);
        bbr
    }

    fn init_pacing_rate(&mut self, rtt: Option<Duration>) {
        self.has_round_trip = rtt.is_some();
        let micros = rtt.map_or(1000, |rtt| (rtt.as_nanos() / 1000).max(1));
        let bw = u128::from(self.cwnd) * BW_UNIT / u128::from(micros);
        self.pacing_rate = self.bytes_a_second(bw as u64, STARTUP_PACING_GAIN);
    }

    /// Returns a rate times a gain, minus `PacingMarginPercent`, in bytes per second.
    fn bytes_a_second(&self, bw: u64, gain: u32) -> u64 {
        let scaled = u128::from(bw) * u128::from(self.mss) * u128::from(gain) / u128::from(GAIN_UNIT);
        u64::try_from(scaled * 990_000 / BW_UNIT).unwrap_or(u64::MAX)
    }

    fn set_pacing_rate(&mut self, gain: u32) {
        let rate = self.bytes_a_second(self.model.bw, gain);
        if self.full_bw.is_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn send_quantum(&self) -> u32 {
        // Data of a millisecond, 64 KiB at most, two segments at least.
        let bytes = (self.pacing_rate / 1000).min(quantum::GSO_BYTES);
        ((bytes / u64::from(self.mss)) as u32).max(2)
    }

    fn bdp_multiple(&self, bw: u64, gain: u32) -> u32 {
        let Some(min_rtt) = self.model.min_rtt else { return self.initial };
        let scaled = (u128::from(bw) * u128::from(min_rtt)).saturating_mul(u128::from(gain)) / u128::from(GAIN_UNIT);
        scaled.div_ceil(BW_UNIT).min(1 << 30) as u32
    }

    fn with_quantization(&self, inflight: u32) -> u32 {
        let inflight = inflight.max(3 * self.send_quantum()).max(MIN_PIPE_CWND);
        if self.phase == Phase::Up { inflight + 2 } else { inflight }
    }

    fn inflight(&self, bw: u64, gain: u32) -> u32 {
        self.with_quantization(self.bdp_multiple(bw, gain))
    }

    fn target_inflight(&self) -> u32 {
        self.bdp_multiple(self.model.bw, GAIN_UNIT).min(self.cwnd)
    }

    fn cwnd_gain(&self) -> u32 {
        match self.phase {
            Phase::Up => UP_CWND_GAIN,
            Phase::ProbeRtt => PROBE_RTT_CWND_GAIN,
            Phase::Startup | Phase::Drain | Phase::Down | Phase::Cruise | Phase::Refill => CWND_GAIN,
        }
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp_multiple(self.model.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE_CWND)
    }

    fn start_round(&mut self) {
        self.rounds.restart(self.delivered);
    }

    fn update_round(&mut self, sample: Option<&Sample>) {
        if self.rounds.update(sample.map(|sample| sample.prior_delivered), self.delivered) {
            self.cycle.rounds_since_probe = self.cycle.rounds_since_probe.saturating_add(1);
        }
    }

    fn update_aggregation(&mut self, ack: &AckSample) {
        if ack.delivered > 0 {
            let window = if self.full_bw.is_reached { model::EXTRA_ACKED_ROUNDS } else { 1 };
            self.model.update_extra_acked(ack, self.cwnd, Moment { round: self.rounds.number, window });
        }
    }

    /// Saves the window before recovery or ProbeRTT, to be restored.
    fn save_cwnd(&mut self) {
        let is_good = self.prior_state < CaState::Recovery && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if is_good { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            phase: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        };
    }

    fn handle_spurious_loss(&mut self) {
        self.restore_cwnd();
        self.signals.is_loss_in_round = false;
        self.full_bw.reset(0);
        self.model.bw_shortterm = self.model.bw_shortterm.max(self.undo.bw_shortterm);
        self.model.inflight_shortterm = self.model.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.model.inflight_longterm = self.model.inflight_longterm.max(self.undo.inflight_longterm);
        match (self.undo.phase.take(), self.phase) {
            (Some(Phase::Startup), Phase::Startup) | (Some(Phase::Up), Phase::Up) | (None, _) => {}
            (Some(Phase::Startup), now) => {
                self.full_bw.is_reached = false;
                if now != Phase::ProbeRtt {
                    self.phase = Phase::Startup;
                }
            }
            (Some(_), now) => {
                if now != Phase::ProbeRtt {
                    self.start_refill();
                }
            }
        }
    }

    fn set_cwnd(&mut self, ack: &AckSample) {
        let leaves_recovery = self.prior_state >= CaState::Recovery && ack.state < CaState::Recovery;
        self.prior_state = ack.state;
        if leaves_recovery {
            self.restore_cwnd();
        }
        let wanted = self.bdp_multiple(self.model.bw, self.cwnd_gain()).saturating_add(self.model.extra_acked());
        let max_inflight = self.with_quantization(wanted);
        let grown = self.cwnd.saturating_add(ack.delivered);
        if self.full_bw.is_reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || ack.total_delivered < u64::from(self.initial) {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(MIN_PIPE_CWND);
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.model.inflight_longterm,
            Phase::Cruise | Phase::ProbeRtt => self.model.inflight_with_headroom(),
            Phase::Startup | Phase::Drain => u32::MAX,
        };
        let cap = cap.min(self.model.inflight_shortterm).max(MIN_PIPE_CWND);
        self.cwnd = self.cwnd.min(cap).clamp(1, self.bound);
    }
}

impl CongestionControl for Bbr3 {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn ssthresh(&self) -> u32 {
        u32::MAX
    }

    fn set_window(&mut self, segments: u32) {
        self.cwnd = segments.clamp(1, self.bound);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.now = ack.now;
        self.delivered = ack.total_delivered;
        self.path_rtt = ack.min_rtt;
        if !self.has_round_trip && ack.srtt > Duration::ZERO {
            self.init_pacing_rate(Some(ack.srtt));
        }
        let sample = Sample::of(ack);
        self.signals.is_loss_round_start = false;
        self.update_round(sample.as_ref());
        if let Some(sample) = &sample {
            self.signals.update_latest(sample, self.delivered);
            self.update_congestion_signals(sample);
        }
        self.update_aggregation(ack);
        if let Some(sample) = &sample {
            self.full_bw.check(sample, self.rounds.is_start);
            self.check_startup_done(ack, sample);
        }
        self.check_drain_done(ack);
        if let Some(sample) = &sample {
            self.update_probe_bw_phase(ack, sample);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        if let Some(sample) = &sample {
            self.signals.advance_latest(sample);
        }
        self.model.bound_bw();
        self.set_pacing_rate(self.rule.pacing_gain(self.phase));
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, now: Instant, segment: &LostSegment) {
        self.now = now;
        self.handle_lost(segment);
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        self.now = now;
        match what {
            Episode::Established { rtt } => {
                let micros = rtt.map(|rtt| rtt.as_nanos() / 1000);
                self.model.begin(micros, now);
                self.probe_rtt.begin(now);
                self.path_rtt = rtt.unwrap_or(Duration::MAX);
                self.init_pacing_rate(rtt);
            }
            Episode::Reduce(_) => self.save_cwnd(),
            Episode::Timeout { again, .. } => {
                if !again {
                    self.save_state_upon_loss();
                }
                self.prior_state = CaState::Loss;
            }
            Episode::Undone => self.handle_spurious_loss(),
            Episode::SendingAgain { is_app_limited: true, .. } => {
                self.is_idle_restart = true;
                self.model.begin_extra_acked(now);
                match self.phase {
                    Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up => self.set_pacing_rate(GAIN_UNIT),
                    Phase::ProbeRtt => self.check_probe_rtt_done(),
                    Phase::Startup | Phase::Drain => {}
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
        let rate = u128::from(self.model.bw) * u128::from(self.mss) * 1_000_000 / BW_UNIT;
        let bound = self.model.inflight_longterm;
        Some(PathModel {
            phase: self.phase,
            rate: u64::try_from(rate).unwrap_or(u64::MAX),
            min_rtt: self.model.min_rtt.map(Duration::from_micros),
            inflight_bound: (bound < u32::MAX).then_some(bound),
        })
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn buffered_windows(&self) -> u32 {
        3
    }

    fn holds_back(&self) -> bool {
        self.phase == Phase::ProbeRtt
    }
}
