//! A value in time, other than a rate.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::random::Stream;
use crate::rate::{Offset, Wrap};
use crate::time::{Duration, Instant};

/// Values in time: each is valid from its time until the next one.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeSeries<T> {
    /// Values, of which the first starts at zero; times increase.
    steps: Arc<Vec<(Duration, T)>>,
    /// End of the series.
    length: Duration,
    /// Continuation after the end.
    wrap: Wrap,
    /// Position at which a run begins.
    offset: Offset,
}

impl<T: Copy> TimeSeries<T> {
    /// Returns the series of `steps`, which ends at `length`. Returns `None` if there are no steps, their times do not
    /// increase from zero, it ends before the last one, or it repeats nothing.
    pub fn new(steps: Vec<(Duration, T)>, length: Duration, wrap: Wrap, offset: Offset) -> Option<Self> {
        let (first, last) = (steps.first()?.0, steps.last()?.0);
        let grows = steps.is_sorted_by(|a, b| a.0 < b.0);
        let repeats_time = wrap != Wrap::Repeat || length > Duration::ZERO;
        let is_valid = first == Duration::ZERO && grows && last <= length && repeats_time;
        is_valid.then(|| Self { steps: Arc::new(steps), length, wrap, offset })
    }

    /// Returns the same series with a fixed offset: a random one is drawn from `stream`.
    #[must_use]
    pub fn placed(&self, stream: impl FnOnce() -> Stream) -> Self {
        Self { offset: Offset::At(Duration::from_nanos(self.begin(stream))), ..self.clone() }
    }

    /// Returns the values with their times.
    pub fn steps(&self) -> &[(Duration, T)] {
        &self.steps
    }

    /// Returns the position at which a run begins, in nanoseconds.
    fn begin(&self, stream: impl FnOnce() -> Stream) -> u64 {
        match self.offset {
            Offset::At(offset) => offset.as_nanos(),
            Offset::Random => stream().below(self.length.as_nanos()),
        }
    }
}

/// A series in a run.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<T> {
    series: TimeSeries<T>,
    /// Position in the series at which the run begins, in nanoseconds.
    offset: u64,
}

impl<T: Copy> Cursor<T> {
    pub(crate) fn new(series: &TimeSeries<T>, stream: impl FnOnce() -> Stream) -> Self {
        Self { offset: series.begin(stream), series: series.clone() }
    }

    /// Returns the value at `at`. At the end of a series that stops, the last value remains: nothing is sent then.
    pub(crate) fn at(&self, at: Instant) -> Option<T> {
        let TimeSeries { steps, length, wrap, .. } = &self.series;
        let place = at.as_nanos().saturating_add(self.offset);
        let place = if *wrap == Wrap::Repeat { place % length.as_nanos().max(1) } else { place };
        let next = steps.partition_point(|(from, _)| from.as_nanos() <= place);
        next.checked_sub(1).and_then(|index| steps.get(index)).map(|(_, value)| *value)
    }
}
