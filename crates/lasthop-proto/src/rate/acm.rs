//! Rates of a DVB-S2 carrier with adaptive coding and modulation (ACM) during a fade.

use alloc::vec::Vec;

use super::{MOST_STEPS, RateStep};
use crate::time::Duration;

/// Spectral efficiency in bits per symbol and ideal Es/N0 in dB of the modulation and coding (MODCOD) of normal frames
/// without pilots (ETSI EN 302 307-1, table 13), without those that another exceeds in both.
const MODCODS: [(f64, f64); 22] = [
    (0.490_243, -2.35),
    (0.656_448, -1.24),
    (0.789_412, -0.30),
    (0.988_858, 1.00),
    (1.188_304, 2.23),
    (1.322_253, 3.10),
    (1.487_473, 4.03),
    (1.587_196, 4.68),
    (1.654_663, 5.18),
    (1.779_991, 5.50),
    (1.788_612, 6.42),
    (1.980_636, 6.62),
    (2.228_124, 7.91),
    (2.637_201, 8.97),
    (2.966_728, 10.21),
    (3.165_623, 11.03),
    (3.300_184, 11.61),
    (3.703_295, 12.73),
    (3.951_571, 13.64),
    (4.119_540, 14.28),
    (4.397_854, 15.69),
    (4.453_027, 16.05),
];

/// Interval at which the modem measures Es/N0.
const SAMPLE: Duration = Duration::from_millis(100);
/// Time for which Es/N0 must permit the next MODCOD before it is chosen.
const PATIENCE: Duration = Duration::from_secs(1);
/// Distance below a threshold, in dB, at which every frame is lost.
const CLIFF: f64 = 0.3;

/// A carrier and its control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AcmSpec {
    /// Symbols per second.
    pub symbol_rate: u64,
    /// Es/N0 without a fade, in dB.
    pub clear_sky: f64,
    /// Distance to the threshold, in dB, that the control keeps.
    pub margin: f64,
    /// Additional distance before it chooses a higher MODCOD, in dB.
    pub hysteresis: f64,
    /// Time from a measurement until the MODCOD changes: the report over the satellite, and the change.
    pub latency: Duration,
}

/// Attenuation by rain at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fade {
    /// Time since the start of the run.
    pub at: Duration,
    /// Attenuation in dB.
    pub depth: f64,
}

/// Error in a fade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcmError {
    /// More than [`MOST_STEPS`] measurements.
    Long,
    /// At this time the MODCOD in force is above what the carrier supports: the fade is faster than the control, and
    /// frames would be lost, which a course of rates cannot express.
    TooFast(Duration),
}

/// Returns the rates of a carrier during a fade, which is linear between points and constant before the first and after
/// the last. The rate is zero where Es/N0 is below that of the most robust MODCOD.
///
/// # Errors
///
/// Returns [`AcmError`].
pub fn acm(spec: &AcmSpec, fades: &[Fade]) -> Result<Vec<RateStep>, AcmError> {
    // Until every change has happened: up to a second for each MODCOD.
    let settled = Duration::from_secs(MODCODS.len() as u64 + 1) + spec.latency;
    let end = fades.last().map_or(Duration::ZERO, |last| last.at) + settled;
    let samples = end.as_nanos() / SAMPLE.as_nanos();
    if samples > MOST_STEPS as u64 {
        return Err(AcmError::Long);
    }
    // The MODCOD that the control reaches from below.
    let begin = highest(spec, spec.clear_sky - depth_at(fades, Duration::ZERO), spec.hysteresis);
    let mut control = Control { index: begin, good_since: None };
    let latency = spec.latency.as_nanos().div_ceil(SAMPLE.as_nanos()) as usize;
    // The choices of the last measurements, the oldest of which is in force.
    let mut chosen = alloc::collections::VecDeque::from(alloc::vec![control.index; latency + 1]);
    let mut steps: Vec<RateStep> = Vec::new();
    for sample in 0..=samples {
        let at = SAMPLE.saturating_mul(sample);
        let level = spec.clear_sky - depth_at(fades, at);
        control.measure(spec, at, level);
        chosen.push_back(control.index);
        chosen.pop_front();
        let in_force = chosen.front().copied().flatten();
        let rate = match in_force {
            Some(index) if level < MODCODS[index].1 - CLIFF => {
                if index > 0 || level >= MODCODS[0].1 - CLIFF {
                    return Err(AcmError::TooFast(at));
                }
                0
            }
            Some(index) => (spec.symbol_rate as f64 * MODCODS[index].0) as u64,
            None => 0,
        };
        if steps.last().is_none_or(|last| last.rate != rate) {
            steps.push(RateStep { from: at, rate });
        }
    }
    Ok(steps)
}

/// Returns the highest MODCOD for a level, if any.
fn highest(spec: &AcmSpec, level: f64, more: f64) -> Option<usize> {
    MODCODS.iter().rposition(|(_, threshold)| threshold + spec.margin + more <= level)
}

/// Choice of the MODCOD by measurements. `None`: not even the most robust one.
struct Control {
    index: Option<usize>,
    /// Time since which the next one was possible.
    good_since: Option<Duration>,
}

impl Control {
    fn measure(&mut self, spec: &AcmSpec, at: Duration, level: f64) {
        let most = highest(spec, level, 0.0);
        // Down at once, as far as necessary.
        if most < self.index {
            (self.index, self.good_since) = (most, None);
            return;
        }
        // Up by one, after a while.
        if highest(spec, level, spec.hysteresis) <= self.index {
            self.good_since = None;
            return;
        }
        let since = *self.good_since.get_or_insert(at);
        if at.saturating_sub(since) >= PATIENCE {
            self.index = Some(self.index.map_or(0, |index| index + 1));
            self.good_since = Some(at);
        }
    }
}

fn depth_at(fades: &[Fade], at: Duration) -> f64 {
    let next = fades.partition_point(|fade| fade.at <= at);
    match (next.checked_sub(1).and_then(|index| fades.get(index)), fades.get(next)) {
        (Some(last), Some(next)) => {
            let (done, span) =
                (at.saturating_sub(last.at).as_secs_f64(), next.at.saturating_sub(last.at).as_secs_f64());
            last.depth + (next.depth - last.depth) * done / span
        }
        (Some(one), None) | (None, Some(one)) => one.depth,
        (None, None) => 0.0,
    }
}
