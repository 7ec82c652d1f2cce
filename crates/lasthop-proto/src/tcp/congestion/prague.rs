//! Prague (draft-briscoe-iccrg-prague-congestion-control): a scalable congestion control for L4S (RFC 9330). The share
//! of marked segments determines how far the window shrinks, at most once per round trip; unmarked segments let it grow.
//! Below a reference round trip it grows more slowly, so that its rate does not depend on the round trip.
//!
//! Arithmetic is that of the module for Linux (`tcp_prague`), in the draft's order. In slow start the exact window
//! follows the window, as in the draft. The module's detection of classic queues, which is off by default, is left out.

use alloc::boxed::Box;

use super::algorithm::Algorithm;
use super::control::{AckSample, CaState, CongestionControl, Episode, Pacing, Reduction};
use super::window::Start;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Prague.
pub static PRAGUE: Algorithm = Algorithm {
    name: "prague",
    title: "Prague",
    about: "for L4S; needs `ecn` `on`, and `ecn_echo` `per-packet` at the receiver",
    family: "prague",
    kernel_name: None,
    paces: true,
    scalable: true,
    hystart: None,
    build: |start, _| Box::new(Prague::new(start)),
};

/// Share of 1.
const ALL: u64 = 1 << 20;
/// Shift of the gain of the moving average: 1/16.
const GAIN: u32 = 4;
/// Bits after the point of the exact window.
const FRACTION: u32 = 20;
/// Segments below which marks do not reduce the window.
const LEAST_WINDOW: u32 = 2;
/// Number of rounds after slow start from which growth is independent of the round trip.
const TRANSITION: u32 = 500;
/// Round trip as which shorter ones count.
const REFERENCE: Duration = Duration::from_millis(25);
/// Unit of round trips in the scaling, in nanoseconds.
const TRIP_UNIT: u64 = 128_000;
/// Round trip from which growth is never scaled.
const LONGEST_SCALED: Duration = Duration::from_millis(100);
/// Bursts last at most 1/2¹² s at the pacing rate.
const BURST_SHIFT: u32 = 12;
/// Maximum time between paced segments, in seconds.
const SLOWEST: u64 = 60;
/// Minimum burst, in segments (`tcp_min_tso_segs`).
const LEAST_BURST: u32 = 2;

/// State of a Prague sender.
#[derive(Clone, Debug)]
struct Prague {
    bound: u32,
    mss: u32,
    window: u32,
    ssthresh: u32,
    /// Window that marks and growth determine, with [`FRACTION`] bits after the point. [`Self::window`] follows it by a
    /// segment per acknowledgment.
    exact: u64,
    /// Window and exact window before the last reaction to a loss.
    prior: Option<(u32, u64)>,
    /// Moving average of the share of marked segments, times 2^[`GAIN`] · [`ALL`]. It is not updated before the first
    /// mark.
    average: u64,
    seen_mark: bool,
    /// True from a loss until it is repaired.
    in_loss: bool,
    /// Segments delivered and marked in this round.
    round: (u64, u64),
    /// `snd_nxt` when the round began; `None` before the first one.
    round_end: Option<Seq>,
    /// Rounds since slow start.
    rounds: u32,
    /// Time of the last update of the average, and of the last reduction by marks.
    averaged_at: Instant,
    reduced_at: Instant,
    /// Growth per window of unmarked segments, in units of 2^-[`FRACTION`] segments.
    increase: u64,
    srtt: Duration,
}

impl Prague {
    fn new(start: &Start) -> Self {
        let Start { window, bound, mss, .. } = start.bounded();
        Self {
            bound,
            mss,
            window,
            ssthresh: u32::MAX,
            exact: u64::from(window) << FRACTION,
            prior: None,
            average: ALL << GAIN,
            seen_mark: false,
            in_loss: false,
            round: (0, 0),
            round_end: None,
            rounds: 0,
            averaged_at: Instant::ZERO,
            reduced_at: Instant::ZERO,
            increase: 1 << FRACTION,
            srtt: Duration::ZERO,
        }
    }

    const fn is_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Returns the exact window in whole segments, rounded up.
    fn target(&self) -> u32 {
        (self.exact.div_ceil(1 << FRACTION)).clamp(1, self.bound.into()) as u32
    }

    /// Returns whether growth and reductions are independent of the round trip.
    const fn is_independent(&self) -> bool {
        !self.is_slow_start() && self.rounds >= TRANSITION
    }

    /// Sets the growth per window: a segment, or that of a flow with the reference round trip at the same rate, which
    /// the square of the round trip determines.
    fn scale_increase(&mut self) {
        self.increase = 1 << FRACTION;
        let [trip, reference] = [self.srtt, REFERENCE].map(|span| span.as_nanos() / TRIP_UNIT);
        if self.rounds >= TRANSITION && trip > 0 && self.srtt <= LONGEST_SCALED && trip < reference {
            let square = reference * reference;
            self.increase = (((trip * trip) << FRACTION) + square / 2) / square;
        }
    }

    /// Lets the window grow by unmarked segments, and follow the exact window.
    fn update_window(&mut self, ack: &AckSample) {
        self.seen_mark |= ack.marked > 0;
        let mut unmarked = ack.delivered.saturating_sub(ack.marked);
        if unmarked > 0 && !self.in_loss && ack.is_cwnd_limited {
            if self.is_slow_start() {
                let grown = self.window.saturating_add(unmarked).min(self.ssthresh).min(self.bound);
                unmarked = unmarked.saturating_sub(grown - self.window);
                self.window = grown;
                self.exact = u64::from(grown) << FRACTION;
                if self.is_slow_start() || unmarked == 0 {
                    return;
                }
            }
            let window = u64::from(self.target());
            let growth = (u64::from(unmarked) * self.increase + window / 2) / window;
            self.exact += growth.max(unmarked.into());
            self.exact = self.exact.min(u64::from(self.bound) << FRACTION);
        }
        let target = self.target();
        if self.window > target && self.window > LEAST_WINDOW {
            self.window -= 1;
            self.ssthresh = self.window;
        } else if self.window < target {
            self.window += 1;
        }
    }

    /// Updates the moving average at the end of a round, and begins the next one.
    fn update_average(&mut self, ack: &AckSample) {
        self.round.0 += u64::from(ack.delivered);
        self.round.1 += u64::from(ack.marked);
        let early = self.is_independent() && ack.now.since(self.averaged_at) < REFERENCE;
        if self.round_end.is_some_and(|end| ack.una.lt(end)) || early {
            return;
        }
        if self.seen_mark {
            let (delivered, marked) = self.round;
            let share = marked.min(delivered).saturating_mul(ALL) / delivered.max(1);
            self.average = (self.average - (self.average >> GAIN) + share).min(ALL << GAIN);
            self.averaged_at = ack.now;
        }
        self.round = (0, 0);
        self.round_end = Some(ack.nxt);
        if !self.is_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.scale_increase();
    }

    /// Reduces the exact window by half of the average share of marks.
    fn reduce_by_marks(&mut self, now: Instant) {
        if self.is_independent() && now.since(self.reduced_at) < REFERENCE {
            return;
        }
        self.reduced_at = now;
        let average = self.average >> GAIN;
        let reduction = (u128::from(average) * u128::from(self.exact) + u128::from(ALL)) / (2 * u128::from(ALL));
        self.exact -= reduction as u64;
    }

    /// Halves the exact window, as Reno does after a loss.
    fn reduce_by_loss(&mut self) {
        self.prior = Some((self.window, self.exact));
        self.exact -= self.exact / 2;
        self.in_loss = true;
        self.scale_increase();
    }
}

impl CongestionControl for Prague {
    fn window(&self) -> u32 {
        self.window
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn set_window(&mut self, segments: u32) {
        self.window = segments.clamp(1, self.bound);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.srtt = ack.srtt;
        if ack.state == CaState::Open {
            self.in_loss = false;
        }
        self.update_window(ack);
        self.update_average(ack);
    }

    fn on_episode(&mut self, now: Instant, what: Episode) {
        match what {
            Episode::Established { rtt } => self.srtt = rtt.unwrap_or_default(),
            Episode::Reduce(Reduction::Ecn) => self.reduce_by_marks(now),
            Episode::Reduce(Reduction::Loss | Reduction::ProbeRepaired) | Episode::Timeout { again: false, .. } => {
                self.reduce_by_loss();
            }
            Episode::Undone => {
                if let Some((window, exact)) = self.prior.take() {
                    self.window = self.window.max(window);
                    self.exact = self.exact.max(exact);
                }
            }
            Episode::Ended
            | Episode::Timeout { again: true, .. }
            | Episode::SendingAgain { .. }
            | Episode::IdleRestart { .. }
            | Episode::Unused { .. } => {}
        }
    }

    fn pacing(&self) -> Option<Pacing> {
        // Without a round trip, nothing is paced.
        let Some(trip) = Some(self.srtt.as_nanos()).filter(|trip| *trip > 0) else {
            return Some(Pacing { rate: 0, quantum: LEAST_BURST });
        };
        let doubled = if self.window < self.ssthresh / 2 { 2 } else { 1 };
        let bytes = (u128::from(self.exact) * u128::from(self.mss) * doubled) >> FRACTION;
        let rate = u64::try_from(bytes * 1_000_000_000 / u128::from(trip)).unwrap_or(u64::MAX);
        let rate = rate.max(u64::from(self.mss) / SLOWEST + 1);
        let burst = (rate / u64::from(self.mss)) >> BURST_SHIFT;
        Some(Pacing { rate, quantum: u32::try_from(burst).unwrap_or(u32::MAX).max(LEAST_BURST) })
    }

    fn governs_recovery(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "prague_tests.rs"]
mod tests;
