//! Independent loss with a probability that varies in time.

use super::Fate;
use super::gap::{Gap, expected_errors};
use crate::link_trace::{Cursor, TimeSeries};
use crate::random::Stream;
use crate::time::Instant;

/// Independent loss of frames by a series of probabilities. With one probability it is [`Uniform`](super::uniform::Uniform).
#[derive(Clone, Debug)]
pub(super) struct Timed {
    series: Cursor<f64>,
    gap: Gap,
    /// The last probability, and the expected errors per frame that it causes.
    known: (f64, f64),
}

impl Timed {
    /// Creates the process. A random offset that was not fixed before ([`ErrorSpec::placed`](super::ErrorSpec::placed))
    /// is drawn from `stream` as well.
    pub(super) fn new(series: &TimeSeries<f64>, stream: Stream) -> Self {
        let series = Cursor::new(series, || stream.clone());
        Self { series, gap: Gap::new(1.0, stream), known: (0.0, 0.0) }
    }

    pub(super) fn judge(&mut self, at: Instant) -> Fate {
        let share = self.series.at(at).unwrap_or_default();
        if share.to_bits() != self.known.0.to_bits() {
            self.known = (share, expected_errors(share));
        }
        Fate::lost_if(self.gap.hit(self.known.1).is_some())
    }
}
