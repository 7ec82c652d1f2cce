//! Steps of a rate in time.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{MOST_STEPS, Segment};
use crate::random::Stream;
use crate::time::{Duration, Instant};

/// A rate that is valid from a given time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateStep {
    /// Start, since the beginning of the series.
    pub from: Duration,
    /// Bits per second; zero is an outage.
    pub rate: u64,
}

/// Continuation after the end of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrap {
    /// Starts again.
    Repeat,
    /// The last rate remains valid.
    Hold,
    /// Nothing is sent any more.
    Stop,
}

/// Position in a series at which a run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offset {
    /// Fixed offset.
    At(Duration),
    /// Random offset, drawn for each run, uniform over its length; equal for both directions of a link and for all
    /// schemes under one seed.
    Random,
}

/// A series of steps.
#[derive(Clone, PartialEq, Debug)]
pub struct RateSeries {
    /// Steps, of which the first starts at zero; times increase.
    steps: Arc<Vec<RateStep>>,
    /// End of the series.
    length: Duration,
    /// Continuation after the end.
    wrap: Wrap,
    /// Position at which a run begins.
    offset: Offset,
}

impl RateSeries {
    /// Returns the series of `steps`, which ends at `length`. Returns `None` if there are no steps, their times do not
    /// increase from zero, it ends before the last one, or nothing would ever be sent.
    pub fn new(steps: Vec<RateStep>, length: Duration, wrap: Wrap, offset: Offset) -> Option<Self> {
        let grows = steps.is_sorted_by(|a, b| a.from < b.from);
        let (first, last) = (steps.first()?, steps.last()?);
        let whole = first.from == Duration::ZERO && last.from <= length && steps.len() <= MOST_STEPS;
        let goes_on = match wrap {
            Wrap::Repeat => length > Duration::ZERO && Self::capacity_of(&steps, length) > 0,
            Wrap::Hold | Wrap::Stop => steps.iter().any(|step| step.rate > 0),
        };
        (grows && whole && goes_on).then(|| Self { steps: Arc::new(steps), length, wrap, offset })
    }

    /// Returns the same series with all rates times `up / down`, rounded down, for the other direction of a link.
    #[must_use]
    pub fn scaled(&self, up: u64, down: u64) -> Self {
        let scale = |step: &RateStep| RateStep { rate: super::scaled_rate(step.rate, up, down), ..*step };
        Self { steps: Arc::new(self.steps.iter().map(scale).collect()), ..self.clone() }
    }

    /// Returns the steps.
    pub fn steps(&self) -> &[RateStep] {
        &self.steps
    }

    /// Returns the time at which it ends, or starts again.
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// Returns the continuation after its end.
    pub const fn wrap(&self) -> Wrap {
        self.wrap
    }

    /// Returns the mean rate over its length, in bits per second; the last rate if its length is zero.
    pub fn mean(&self) -> f64 {
        match self.length {
            Duration::ZERO => self.steps.last().map_or(0.0, |step| step.rate as f64),
            length => Self::capacity_of(&self.steps, length) as f64 / length.as_nanos() as f64,
        }
    }

    /// Returns the standard deviation of the rate over its length, in bits per second.
    pub fn deviation(&self) -> f64 {
        let (mean, length) = (self.mean(), self.length.as_nanos() as f64);
        if length == 0.0 {
            return 0.0;
        }
        let ends = self.steps.iter().skip(1).map(|step| step.from).chain([self.length]);
        let square = |(step, end): (&RateStep, Duration)| {
            let apart = step.rate as f64 - mean;
            apart * apart * end.saturating_sub(step.from).as_nanos() as f64
        };
        libm::sqrt(self.steps.iter().zip(ends).map(square).sum::<f64>() / length)
    }

    /// Returns the data that it carries from its start to `length`: bits times a billion.
    fn capacity_of(steps: &[RateStep], length: Duration) -> u128 {
        let ends = steps.iter().skip(1).map(|step| step.from).chain([length]);
        let spans = steps.iter().zip(ends);
        spans.map(|(step, end)| u128::from(step.rate) * u128::from(end.saturating_sub(step.from).as_nanos())).sum()
    }
}

/// Returns steps that approximate linear ramps between `points`, each step `grid` long and of the mean rate of its part
/// of a ramp, so that each carries as much as the ramp; `None` if there are more than [`MOST_STEPS`]. Before the first
/// point its rate is valid, and from the last one on that of the last.
pub fn ramps(points: &[RateStep], grid: Duration) -> Option<Vec<RateStep>> {
    let grid = grid.as_nanos().max(1);
    let mut steps: Vec<RateStep> = Vec::new();
    let mut push = |from: u64, rate: u64| {
        let from = Duration::from_nanos(from);
        match steps.last() {
            Some(last) if last.rate == rate => Some(()),
            _ if steps.len() >= MOST_STEPS => None,
            _ => {
                steps.push(RateStep { from, rate });
                Some(())
            }
        }
    };
    let first = points.first()?;
    if first.from > Duration::ZERO {
        push(0, first.rate)?;
    }
    for pair in points.windows(2) {
        let (from, to) = (pair[0].from.as_nanos(), pair[1].from.as_nanos());
        let (a, b, span) = (i128::from(pair[0].rate), i128::from(pair[1].rate), i128::from(to.saturating_sub(from)));
        if a == b || span == 0 {
            push(from, pair[0].rate)?;
            continue;
        }
        if span.unsigned_abs() / u128::from(grid) > MOST_STEPS as u128 {
            return None;
        }
        let mut at = from;
        while at < to {
            let end = at.saturating_add(grid).min(to);
            // Middle of the step: its distance from the first point is `twice` / 2.
            let twice = i128::from(at - from) + i128::from(end - from);
            let rate = a + (b - a) * twice / (2 * span);
            push(at, u64::try_from(rate).unwrap_or_default())?;
            at = end;
        }
    }
    let last = points.last()?;
    push(last.from.as_nanos(), last.rate)?;
    Some(steps)
}

/// A series in a run.
#[derive(Clone, Debug)]
pub(super) struct Process {
    series: RateSeries,
    /// Offset in the series at which the run begins, in nanoseconds.
    offset: u64,
    /// Data that one lap carries: bits times a billion.
    lap: u128,
}

impl Process {
    pub(super) fn new(series: &RateSeries, stream: impl FnOnce() -> Stream) -> Self {
        let offset = match series.offset {
            Offset::At(offset) => offset.as_nanos(),
            Offset::Random => stream().below(series.length.as_nanos()),
        };
        let lap = RateSeries::capacity_of(&series.steps, series.length);
        Self { series: series.clone(), offset, lap }
    }

    /// Returns the position in the series at `at`, in nanoseconds.
    fn place(&self, at: Instant) -> u64 {
        let place = at.as_nanos().saturating_add(self.offset);
        let length = self.series.length.as_nanos();
        if self.series.wrap == Wrap::Repeat { place % length } else { place }
    }

    pub(super) fn segment(&self, at: Instant) -> Segment {
        let RateSeries { steps, length, wrap, .. } = &self.series;
        let (place, length) = (self.place(at), length.as_nanos());
        if *wrap == Wrap::Stop && place >= length {
            return Segment { rate: 0, until: Instant::FAR_FUTURE };
        }
        let next = steps.partition_point(|step| step.from.as_nanos() <= place);
        let rate = next.checked_sub(1).and_then(|index| steps.get(index)).map_or(0, |step| step.rate);
        let end = match (steps.get(next), wrap) {
            (Some(step), _) => Some(step.from.as_nanos()),
            (None, Wrap::Repeat | Wrap::Stop) => Some(length),
            (None, Wrap::Hold) => None,
        };
        let until = end.map_or(Instant::FAR_FUTURE, |end| at + Duration::from_nanos(end - place));
        Segment { rate, until }
    }

    /// Advances from `at` by as many whole laps as `work` takes, and leaves a remainder of it.
    pub(super) fn skip(&self, at: Instant, work: u128) -> (Instant, u128) {
        if self.series.wrap != Wrap::Repeat || work <= self.lap {
            return (at, work);
        }
        let laps = (work - 1) / self.lap;
        let span = u128::from(self.series.length.as_nanos()) * laps;
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        (at + span, work - laps * self.lap)
    }
}
