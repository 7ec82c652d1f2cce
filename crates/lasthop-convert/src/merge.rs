//! Columns with times of their own, to the rows of a trace.

use std::collections::BTreeSet;

use lasthop_proto::link_trace::{LinkTrace, MOST_ROWS};
use lasthop_proto::time::Duration;

use crate::ConvertError;

/// Maximum length of a trace: times of the CSV are at most a day.
pub const LONGEST: Duration = Duration::from_secs(86_400);

/// Values of a column with the times from which they are valid, increasing; the first is valid from the start.
pub type Steps<T> = Vec<(Duration, T)>;

/// Columns of a trace.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Columns {
    pub rates: [Option<Steps<u64>>; 2],
    pub delays: [Option<Steps<Duration>>; 2],
    pub losses: [Option<Steps<f64>>; 2],
}

impl Columns {
    /// Returns the trace until `length`: a row wherever a column changes.
    pub fn into_trace(self, length: Duration) -> Result<LinkTrace, ConvertError> {
        let mut times = BTreeSet::from([Duration::ZERO, length]);
        let within = |time: &Duration| *time < length;
        self.rates.iter().flatten().for_each(|steps| times.extend(changes(steps).filter(within)));
        self.delays.iter().flatten().for_each(|steps| times.extend(changes(steps).filter(within)));
        self.losses.iter().flatten().for_each(|steps| times.extend(changes(steps).filter(within)));
        if times.len() > MOST_ROWS {
            let message = format!(
                "the trace has {} rows, and at most {MOST_ROWS} are allowed; give a longer --step, or a part of the file",
                times.len()
            );
            return Err(ConvertError::Use(message));
        }
        let times: Vec<Duration> = times.into_iter().collect();
        let Self { rates, delays, losses } = self;
        Ok(LinkTrace {
            rates: rates.map(|steps| steps.map(|steps| column(&steps, &times))),
            delays: delays.map(|steps| steps.map(|steps| column(&steps, &times))),
            losses: losses.map(|steps| steps.map(|steps| column(&steps, &times))),
            times,
        })
    }
}

/// Returns the starts of steps of `step` until `length`.
pub fn starts(length: Duration, step: Duration) -> Result<Vec<Duration>, ConvertError> {
    let step = step.as_nanos().max(1);
    let number = length.as_nanos().div_ceil(step);
    if length > LONGEST || number >= MOST_ROWS as u64 {
        let message = format!(
            "the trace of {:.0} s has {number} steps; at most {MOST_ROWS} steps and a day are allowed; give a longer --step, or \
             a part of the file",
            length.as_secs_f64()
        );
        return Err(ConvertError::Use(message));
    }
    Ok((0..number).map(|number| Duration::from_nanos(number * step)).collect())
}

/// Returns the times at which a column changes.
fn changes<T: PartialEq>(steps: &[(Duration, T)]) -> impl Iterator<Item = Duration> {
    steps.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| pair[1].0)
}

/// Returns the values at `times`, which increase. The last time ends the trace, with the last value.
fn column<T: Copy + Default>(steps: &[(Duration, T)], times: &[Duration]) -> Vec<T> {
    let mut next = 0;
    let mut value = steps.first().map(|(_, value)| *value).unwrap_or_default();
    let mut at = |time: &Duration| {
        while let Some((_, later)) = steps.get(next).filter(|(from, _)| from <= time) {
            (value, next) = (*later, next + 1);
        }
        value
    };
    times.iter().map(&mut at).collect()
}
