//! Metrics of the study, computed for each run.

use super::lines::CUBIC;
use crate::emodel::{Speech, opinion_score};
use crate::measures::flows::duration_name;
use crate::measures::links::overhead_name;
use crate::study::Results;

/// A metric of a use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Throughput of the download in Mbps.
    Throughput,
    /// Ratio of that throughput to CUBIC's in the run of the same number.
    Gain,
    /// Bytes on the hop beyond those delivered, in percent.
    Overhead,
    /// Time of a page in seconds, mean of three visits.
    PageTime,
    /// Mean opinion score of the call.
    Opinion,
    /// 95th percentile of the delay of the call's packets, in ms.
    CallDelay,
    /// Packets of the call that were lost or too late, in percent.
    CallMissed,
    /// Video frames that were incomplete at their deadline, in percent.
    FramesMissed,
}

/// Number of connections of a page.
const CONNECTIONS: usize = 6;
/// Names of the visits to the page.
const VISITS: [&str; 3] = ["page-1", "page-2", "page-3"];
/// Interval between the packets of the call, in ms.
const INTERVAL: f64 = 20.0;
/// Latest playout of the call, in ms.
const LATEST: f64 = 1000.0;
/// G.711 with loss concealment (ITU-T G.113).
const CODEC: (f64, f64) = (0.0, 25.1);

impl Metric {
    /// Returns the name, a column of `cells.csv`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Gain => "gain",
            Self::Overhead => "overhead",
            Self::PageTime => "page_time",
            Self::Opinion => "opinion",
            Self::CallDelay => "call_delay",
            Self::CallMissed => "call_missed",
            Self::FramesMissed => "frames_missed",
        }
    }

    /// Returns the unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "Mbps",
            Self::Gain => "ratio",
            Self::Overhead | Self::CallMissed | Self::FramesMissed => "percent",
            Self::PageTime => "s",
            Self::Opinion => "MOS",
            Self::CallDelay => "ms",
        }
    }

    /// Returns the metric of a cell in each run, with `None` for runs that lack it; `None` if the cell was not run.
    pub fn of(self, results: &Results, cell: &str) -> Option<Vec<Option<f64>>> {
        match self {
            Self::Throughput => results.values_of(cell, ["throughput"], |[mbps]| mbps),
            Self::Gain => {
                let (own, cubic) =
                    (Self::Throughput.of(results, cell)?, Self::Throughput.of(results, &cubic_of(cell))?);
                let ratio = |(own, cubic): (Option<f64>, Option<f64>)| Some(own? / cubic.filter(|cubic| *cubic > 0.0)?);
                Some(own.into_iter().zip(cubic).map(ratio).collect())
            }
            Self::Overhead => results.values_of(cell, [&*overhead_name("hop")], |[percent]| percent),
            Self::PageTime => {
                let visits: Vec<_> = VISITS.iter().map(|visit| slowest(results, cell, visit)).collect::<Option<_>>()?;
                let runs = visits.iter().map(Vec::len).min()?;
                let mean = |run: usize| {
                    let sum = visits.iter().map(|visit| visit[run]).sum::<Option<f64>>()?;
                    Some(sum / VISITS.len() as f64)
                };
                Some((0..runs).map(mean).collect())
            }
            Self::Opinion => results.values_of(
                cell,
                ["call_sent", "call_lost", "call_late", "call_delay_p99"],
                |[sent, lost, late, p99]| Some(opinion(sent?, lost?, late?, p99)),
            ),
            Self::CallDelay => results.values_of(cell, ["call_delay_p95"], |[ms]| ms),
            Self::CallMissed => {
                results.values_of(cell, ["call_sent", "call_lost", "call_late"], |[sent, lost, late]| {
                    Some(100.0 * (lost? + late?) / sent.filter(|sent| *sent > 0.0)?)
                })
            }
            Self::FramesMissed => results.values_of(cell, ["call_frames", "call_frames_missed"], |[frames, missed]| {
                Some(100.0 * missed? / frames.filter(|frames| *frames > 0.0)?)
            }),
        }
    }
}

/// Returns the cell of CUBIC beside a cell.
fn cubic_of(cell: &str) -> String {
    let (rest, _) = cell.rsplit_once('/').unwrap_or((cell, ""));
    format!("{rest}/{CUBIC}")
}

/// Returns the longest duration of the connections of a visit, in each run.
fn slowest(results: &Results, cell: &str, visit: &str) -> Option<Vec<Option<f64>>> {
    let names: [String; CONNECTIONS] = std::array::from_fn(|at| duration_name(&format!("{visit}#{}", at + 1)));
    results.values_of(cell, names.each_ref().map(String::as_str), |durations| {
        durations.into_iter().try_fold(0.0, |longest: f64, one| Some(longest.max(one?)))
    })
}

/// Returns the mean opinion score of a call whose receiver plays at the 99th percentile of the delay, `p99` in ms, or a
/// second if that is later; from its packets sent, lost, and later than a second.
fn opinion(sent: f64, lost: f64, late: f64, p99: Option<f64>) -> f64 {
    let (ie, bpl) = CODEC;
    let playout = p99.unwrap_or(LATEST).min(LATEST);
    let beyond = late.max(0.01 * (sent - lost));
    let loss = if sent > 0.0 { ((lost + beyond) / sent).min(1.0) } else { 1.0 };
    opinion_score(Speech { delay: INTERVAL + playout, ie, bpl, loss, burst_ratio: 1.0 }.rating())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G.107 rates a short delay without losses 4.3 to 4.4; half a second, or a tenth of the packets, is worse.
    #[test]
    fn delay_and_losses_lower_the_opinion_score() {
        let short = opinion(1500.0, 0.0, 0.0, Some(40.0));
        assert!((4.2..4.41).contains(&short), "{short}");
        let long = opinion(1500.0, 0.0, 0.0, Some(500.0));
        let lossy = opinion(1500.0, 150.0, 0.0, Some(40.0));
        assert!(long < 3.5 && lossy < 3.8, "{long} {lossy}");
        // Nothing arrives.
        assert!(opinion(1500.0, 1500.0, 0.0, None) < 1.1);
        // Packets later than a second are missed, and the playout is not later than that.
        assert!(opinion(1500.0, 0.0, 300.0, Some(1000.0)) < opinion(1500.0, 0.0, 0.0, Some(1000.0)) - 0.3);
        assert_eq!(opinion(1500.0, 0.0, 300.0, Some(5000.0)), opinion(1500.0, 0.0, 300.0, Some(1000.0)));
    }

    #[test]
    fn cubic_is_that_of_the_same_use_and_link() {
        assert_eq!(cubic_of("bulk/farm/QUIC-HYBRID"), "bulk/farm/CUBIC");
    }
}
