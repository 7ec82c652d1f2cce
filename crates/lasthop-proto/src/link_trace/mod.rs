//! Traces of a link: rate, delay and loss of both directions in step, as rows of a CSV file.
//!
//! A row holds from its time on; the last row ends the trace. [`COLUMNS`] names the columns. A column becomes a
//! [`RateSeries`](crate::rate::RateSeries) or a [`TimeSeries`], and all columns of a link share one [`Offset`](crate::rate::Offset).

mod read;
mod series;
#[cfg(test)]
mod tests;
mod write;

use alloc::vec::Vec;

pub use self::read::{BadLinkTrace, read_link_trace};
pub(crate) use self::series::Cursor;
pub use self::series::TimeSeries;
pub use self::write::Csv;
use crate::time::Duration;

/// Name of the column of times, in seconds from the start of the trace.
pub const TIME: &str = "t_s";

/// Names of the other columns: rates in Mbps, one-way delays in milliseconds, probabilities of loss per frame.
pub const COLUMNS: [&str; 6] =
    ["rate_down_mbps", "rate_up_mbps", "delay_down_ms", "delay_up_ms", "loss_down", "loss_up"];

/// Maximum number of rows.
pub const MOST_ROWS: usize = 1 << 20;

/// Maximum delay; a longer one is a mistake.
pub const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// A link's trace. Each column has as many values as there are times.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkTrace {
    /// Starts of the rows, increasing from zero. The last row ends the trace.
    pub times: Vec<Duration>,
    /// Rates in bits per second: down, up.
    pub rates: [Option<Vec<u64>>; 2],
    /// One-way delays: down, up.
    pub delays: [Option<Vec<Duration>>; 2],
    /// Probabilities of loss per frame, 0 to 1: down, up.
    pub losses: [Option<Vec<f64>>; 2],
}

impl LinkTrace {
    /// Returns the time of the last row.
    pub fn length(&self) -> Duration {
        self.times.last().copied().unwrap_or_default()
    }

    /// Returns the duration of each row except the last one.
    pub fn spans(&self) -> impl Iterator<Item = Duration> {
        self.times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]))
    }

    /// Returns the presence of each of [`COLUMNS`].
    pub fn has(&self) -> [bool; 6] {
        let [rate_down, rate_up] = &self.rates;
        let [delay_down, delay_up] = &self.delays;
        let [loss_down, loss_up] = &self.losses;
        [
            rate_down.is_some(),
            rate_up.is_some(),
            delay_down.is_some(),
            delay_up.is_some(),
            loss_down.is_some(),
            loss_up.is_some(),
        ]
    }

    /// Returns the names of the columns that are present, besides the time.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        COLUMNS.into_iter().zip(self.has()).filter(|(_, has)| *has).map(|(name, _)| name)
    }
}
