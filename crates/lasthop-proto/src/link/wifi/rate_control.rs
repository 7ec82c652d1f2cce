//! Choice of a rate for each transmission: fixed, or in the manner of Linux's minstrel_ht
//! (`net/mac80211/rc80211_minstrel_ht.c`).

use alloc::vec::Vec;

use super::TransmitterSpec;
use super::phy::{RateIndex, SLOT};
use crate::time::{Duration, Instant};

/// Rule that chooses rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// One rate.
    Fixed(RateIndex),
    /// By the measured success of each rate.
    Minstrel,
}

/// Interval between updates of the statistics.
const INTERVAL: Duration = Duration::from_millis(25);
/// Interval between probes of other rates, and while some rates were never tried.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
const FIRST_PROBE_INTERVAL: Duration = Duration::from_millis(4);
/// Scale of probabilities.
const SCALE: u64 = 4096;
/// Weight of the past in a probability's average, in percent.
const PAST: u64 = 75;
/// Maximum value of a probability in comparisons, in percent: the rest is overhead of retries that cannot be avoided.
const MOST: u64 = 90;
/// A rate with a lower probability than this, in percent, is not used.
const LEAST: u64 = 10;
/// Among rates of at least this probability, in percent, the fastest is the safest.
const SAFE: u64 = 75;
/// Frames after which a rate that mostly fails is left before the next update.
const GIVE_UP_AFTER: u64 = 30;
/// Success in percent below which the rate is left.
const GIVE_UP_BELOW: u64 = 20;
/// Size of a frame for which throughputs are compared.
const FRAME_BYTES: u64 = 1_200;
/// One in this number of probes uses a slower rate.
const SLOWER_PROBES: u32 = 5;

/// Statistics of a rate.
#[derive(Clone, Copy, Default, Debug)]
struct Statistics {
    attempts: u64,
    successes: u64,
    /// Average probability of success, of [`SCALE`]; `None` before the first attempt.
    probability: Option<u64>,
    /// Airtime of a frame without overhead, in nanoseconds.
    airtime: u64,
}

impl Statistics {
    /// Returns the expected throughput in frames per second, if each frame costs `overhead` ns.
    fn throughput(&self, overhead: u64) -> u64 {
        let probability = self.probability.unwrap_or(0);
        if probability * 100 < LEAST * SCALE {
            return 0;
        }
        probability.min(MOST * SCALE / 100) * 1_000_000_000 / SCALE / (self.airtime + overhead)
    }
}

/// Rates in use.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// Highest expected throughput.
    best: usize,
    /// Second highest.
    second: usize,
    /// Most likely to succeed.
    safest: usize,
}

/// Rate control of a line.
#[derive(Clone, Debug)]
pub(super) struct RateControl {
    control: Control,
    rates: Vec<Statistics>,
    chain: Chain,
    /// Average number of frames of a transmission, times 16.
    frames: u64,
    /// Overhead of a transmission in nanoseconds.
    overhead: u64,
    updated: Instant,
    probed: Instant,
    /// Number of probes so far, and the last probed rate.
    probes: u32,
    last_probe: usize,
}

/// A choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub rate: RateIndex,
    /// Indicates a probe: a transmission of one frame.
    pub probe: bool,
}

impl RateControl {
    pub(super) fn new(transmitter: &TransmitterSpec) -> Self {
        let TransmitterSpec { phy, control, .. } = *transmitter;
        let airtime = |rate| {
            let bits = u64::from(phy.bits_per_symbol(RateIndex(rate)));
            phy.symbol().as_nanos() * 8 * FRAME_BYTES / bits
        };
        let rates: Vec<_> =
            (0..phy.rates()).map(|rate| Statistics { airtime: airtime(rate), ..Statistics::default() }).collect();
        // Interframe space, mean of the smallest backoff, preamble, and acknowledgment.
        let overhead = transmitter.aifs()
            + Duration::from_nanos(SLOT.as_nanos() * 15 / 2)
            + phy.preamble()
            + phy.sifs()
            + phy.basic_airtime(24, 32);
        // Nothing is known at the start: the lowest rate is likely to succeed.
        let chain = Chain { best: 0, second: 0, safest: 0 };
        Self {
            control,
            rates,
            chain,
            frames: 16,
            overhead: overhead.as_nanos(),
            updated: Instant::ZERO,
            probed: Instant::ZERO,
            probes: 0,
            last_probe: 0,
        }
    }

    /// Returns the rate for a transmission at `now`, after this number of transmissions in succession that nobody
    /// acknowledged.
    pub(super) fn choose(&mut self, now: Instant, failures: u32) -> Choice {
        let rate = match self.control {
            Control::Fixed(rate) => return Choice { rate, probe: false },
            Control::Minstrel => {
                self.update(now);
                let untried = self.rates.iter().any(|rate| rate.probability.is_none());
                let interval = if untried { FIRST_PROBE_INTERVAL } else { PROBE_INTERVAL };
                if failures == 0
                    && now.since(self.probed) >= interval
                    && let Some(probe) = self.probe()
                {
                    self.probed = now;
                    return Choice { rate: RateIndex(probe as u8), probe: true };
                }
                match failures {
                    0 | 1 => self.chain.best,
                    2 | 3 => self.chain.second,
                    _ => self.chain.safest,
                }
            }
        };
        Choice { rate: RateIndex(rate as u8), probe: false }
    }

    /// Returns the next rate to probe: mostly one that would be faster than the best if it succeeded.
    fn probe(&mut self) -> Option<usize> {
        self.probes = self.probes.wrapping_add(1);
        let overhead = self.overhead_of_frame();
        let best = self.rates[self.chain.best].throughput(overhead);
        let slower = self.probes.is_multiple_of(SLOWER_PROBES);
        let count = self.rates.len();
        let mut candidates = (1..=count).map(|step| (self.last_probe + step) % count);
        let wanted = |&rate: &usize| {
            let perfect = MOST * 1_000_000_000 / 100 / (self.rates[rate].airtime + overhead);
            rate != self.chain.best && (perfect > best) != slower
        };
        let found = candidates.find(wanted)?;
        self.last_probe = found;
        Some(found)
    }

    fn overhead_of_frame(&self) -> u64 {
        self.overhead * 16 / self.frames.max(16)
    }

    /// Records a transmission: `successes` of `attempts` frames arrived.
    pub(super) fn record(&mut self, rate: RateIndex, attempts: u32, successes: u32) {
        if let Control::Fixed(_) = self.control {
            return;
        }
        let Some(statistics) = self.rates.get_mut(usize::from(rate.0)) else { return };
        statistics.attempts += u64::from(attempts);
        statistics.successes += u64::from(successes);
        self.frames = (self.frames * 3 + 16 * u64::from(attempts)) / 4;
        let Statistics { attempts, successes, .. } = *statistics;
        let fails = attempts > GIVE_UP_AFTER && successes * 100 < attempts * GIVE_UP_BELOW;
        if fails && usize::from(rate.0) == self.chain.best && self.chain.best > 0 {
            self.chain.best -= 1;
        }
    }

    /// Updates the averages and the chain, if an interval has passed.
    fn update(&mut self, now: Instant) {
        if now.since(self.updated) < INTERVAL {
            return;
        }
        self.updated = now;
        for statistics in &mut self.rates {
            if statistics.attempts == 0 {
                continue;
            }
            let current = SCALE * statistics.successes / statistics.attempts;
            let averaged = |past: u64| (past * PAST + current * (100 - PAST)) / 100;
            statistics.probability = Some(statistics.probability.map_or(current, averaged));
            (statistics.attempts, statistics.successes) = (0, 0);
        }
        let overhead = self.overhead_of_frame();
        // The lower of two equal rates is tried first, so that the first that is strictly better replaces it.
        let mut chain = Chain { best: 0, second: 0, safest: 0 };
        let throughput = |rate: usize| self.rates[rate].throughput(overhead);
        for rate in 1..self.rates.len() {
            if throughput(rate) > throughput(chain.best) {
                chain.second = chain.best;
                chain.best = rate;
            } else if throughput(rate) > throughput(chain.second) || chain.second == chain.best {
                chain.second = rate;
            }
            let probability = |rate: usize| self.rates[rate].probability.unwrap_or(0);
            let safe = |rate| probability(rate) * 100 >= SAFE * SCALE;
            let safer = match (safe(rate), safe(chain.safest)) {
                (true, true) => throughput(rate) > throughput(chain.safest),
                (false, false) => probability(rate) > probability(chain.safest),
                (safe, _) => safe,
            };
            if safer {
                chain.safest = rate;
            }
        }
        self.chain = chain;
    }
}
