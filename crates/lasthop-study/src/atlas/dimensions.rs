//! Dimensions of the atlas: ranges of the properties of links, in bins of equal probability.

use std::fmt::Write as _;

/// Number of dimensions.
pub const DIMENSIONS_COUNT: usize = 7;

/// Bins of the dimensions that a selection is limited to; `None` for all of them.
pub type Selection = [Option<usize>; DIMENSIONS_COUNT];

/// Property of a link that the atlas varies. Values are whole numbers of a small unit, so that they are the same on
/// every machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dimension {
    /// Name in addresses, columns and JSON.
    pub id: &'static str,
    /// Label.
    pub label: &'static str,
    /// Description in a clause.
    pub hint: &'static str,
    /// Unit of display.
    pub unit: &'static str,
    /// Number of the values' unit in a unit of display.
    pub scale: u32,
    /// True if a link has the value zero with the probability of a bin; that bin is the first.
    pub has_zero: bool,
    /// True if values are uniform within a bin; otherwise their logarithms are.
    pub linear: bool,
    /// Limits of the other bins, increasing.
    pub edges: &'static [u32],
}

/// All dimensions.
pub const DIMENSIONS: [Dimension; DIMENSIONS_COUNT] = [
    Dimension {
        id: "rate",
        label: "Rate",
        hint: "mean rate of the hop, in each direction",
        unit: "Mbps",
        scale: 1000,
        has_zero: false,
        linear: false,
        edges: &[300, 1000, 3000, 10_000, 30_000, 100_000, 300_000],
    },
    Dimension {
        id: "round-trip",
        label: "Round trip",
        hint: "round-trip time of the path without queues",
        unit: "ms",
        scale: 1000,
        has_zero: false,
        linear: false,
        edges: &[5000, 15_000, 40_000, 100_000, 250_000, 700_000],
    },
    Dimension {
        id: "loss",
        label: "Loss",
        hint: "share of frames that the hop loses, in each direction",
        unit: "%",
        scale: 10_000,
        has_zero: true,
        linear: false,
        edges: &[100, 500, 2000, 10_000, 30_000, 100_000],
    },
    Dimension {
        id: "burst",
        label: "Bursts",
        hint: "mean number of consecutive frames lost",
        unit: "frames",
        scale: 100,
        has_zero: false,
        linear: false,
        edges: &[100, 200, 600, 2000],
    },
    Dimension {
        id: "queue",
        label: "Queue",
        hint: "drop-tail queue in front of the hop, as the time it takes to drain",
        unit: "ms",
        scale: 1000,
        has_zero: false,
        linear: false,
        edges: &[10_000, 40_000, 160_000, 640_000],
    },
    Dimension {
        id: "variation",
        label: "Variation",
        hint: "standard deviation of the hop's rate over its mean; it changes every 0.5 s on average",
        unit: "%",
        scale: 10,
        has_zero: true,
        linear: true,
        edges: &[100, 800],
    },
    Dimension {
        id: "share",
        label: "Share of the hop",
        hint: "share of the round trip that is on the hop",
        unit: "%",
        scale: 10,
        has_zero: false,
        linear: true,
        edges: &[0, 500, 1000],
    },
];

/// Indices of the dimensions that are treated separately.
pub(super) const ROUND_TRIP: usize = 1;
pub(super) const LOSS: usize = 2;
pub(super) const BURST: usize = 3;
pub(super) const QUEUE: usize = 4;
pub(super) const VARIATION: usize = 5;
pub(super) const SHARE: usize = 6;

/// Number of cells: combinations of the bins of all dimensions.
pub const CELLS: usize = {
    let (mut cells, mut at) = (1, 0);
    while at < DIMENSIONS_COUNT {
        cells *= DIMENSIONS[at].bins();
        at += 1;
    }
    cells
};

impl Dimension {
    /// Returns the index of the dimension with this name.
    pub fn by_id(id: &str) -> Option<usize> {
        DIMENSIONS.iter().position(|dimension| dimension.id == id)
    }

    /// Returns the number of bins.
    pub const fn bins(&self) -> usize {
        self.edges.len() - 1 + self.has_zero as usize
    }

    /// Returns the value at `place`, a fraction of 2³² of the way through the bins.
    pub fn value(&self, place: u32) -> u32 {
        let through = u64::from(place) * self.bins() as u64;
        let (bin, within) = ((through >> 32) as usize, (through & u64::from(u32::MAX)) as f64 / 4_294_967_296.0);
        let Some(bin) = bin.checked_sub(usize::from(self.has_zero)) else { return 0 };
        let (low, high) = (f64::from(self.edges[bin]), f64::from(self.edges[bin + 1]));
        let value = match self.linear {
            true => low + (high - low) * within,
            false => libm::exp(libm::log(low) + (libm::log(high) - libm::log(low)) * within),
        };
        // Below the limit of the next bin, to which that value belongs.
        (libm::round(value) as u32).clamp(self.edges[bin], self.edges[bin + 1] - 1)
    }

    /// Returns the value in the middle of a bin; `None` for the middle of the whole range, or of zero if a link may have it.
    pub fn middle(&self, bin: Option<usize>) -> u32 {
        let zero = usize::from(self.has_zero);
        let through = match bin {
            Some(bin) => (2 * bin as u64 + 1) << 31,
            // A little below the middle, where no limit of bins is.
            None if zero == 0 => self.bins() as u64 * 0x7fff_0000,
            None => 0,
        };
        self.value((through / self.bins() as u64) as u32)
    }

    /// Returns the bin of `value`, in units of [`Self::scale`]; `None` outside of the range.
    pub fn bin(&self, value: f64) -> Option<usize> {
        let zero = usize::from(self.has_zero);
        if self.has_zero && value == 0.0 {
            return Some(0);
        }
        let (first, last) = (f64::from(self.edges[0]), f64::from(self.edges[self.edges.len() - 1]));
        if !(first..=last).contains(&value) {
            return None;
        }
        let above = self.edges.iter().rposition(|edge| f64::from(*edge) <= value).unwrap_or(0);
        Some(zero + above.min(self.edges.len() - 2))
    }

    /// Returns `value`, in units of [`Self::scale`], for display: `2.5 %`.
    pub fn words(&self, value: f64) -> String {
        format!("{} {}", short(value / f64::from(self.scale)), self.unit)
    }

    /// Returns the range of a bin: `1 to 3 Mbps`.
    pub fn bin_words(&self, bin: usize) -> String {
        let Some(at) = bin.checked_sub(usize::from(self.has_zero)) else { return "none".to_owned() };
        let edge = |at: usize| short(f64::from(self.edges[at]) / f64::from(self.scale));
        format!("{} to {} {}", edge(at), edge(at + 1), self.unit)
    }

    /// Returns the whole range: `0.3 to 300 Mbps`.
    pub fn range_words(&self) -> String {
        let edge = |at: usize| short(f64::from(self.edges[at]) / f64::from(self.scale));
        let zero = if self.has_zero { "none, or " } else { "" };
        format!("{zero}{} to {} {}", edge(0), edge(self.edges.len() - 1), self.unit)
    }
}

/// Returns the index of the cell with these bins; the last dimension changes fastest.
pub fn cell_of(bins: &[usize; DIMENSIONS_COUNT]) -> usize {
    DIMENSIONS.iter().zip(bins).fold(0, |cell, (dimension, bin)| cell * dimension.bins() + bin)
}

/// Returns the bins of a cell.
pub fn bins_of(mut cell: usize) -> [usize; DIMENSIONS_COUNT] {
    let mut bins = [0; DIMENSIONS_COUNT];
    for (bin, dimension) in bins.iter_mut().zip(&DIMENSIONS).rev() {
        *bin = cell % dimension.bins();
        cell /= dimension.bins();
    }
    bins
}

/// Returns the dimensions as lines of the folder's description.
pub(super) fn described() -> String {
    let mut text = String::new();
    for Dimension { id, unit, scale, has_zero, linear, edges, .. } in &DIMENSIONS {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "dimensions.{id} = {{ edges = {edges:?}, unit = \"1/{scale} {unit}\", zero = {has_zero}, linear = {linear} }}"
        );
    }
    text
}

/// Returns a number with at most three significant digits.
pub(super) fn short(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { (2 - libm::floor(libm::log10(value.abs())) as i32).max(0) };
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_has_the_same_share_of_places() {
        for dimension in &DIMENSIONS {
            let mut counts = vec![0; dimension.bins()];
            for place in 0..60_000u32 {
                let value = dimension.value(place * 71_582);
                counts[dimension.bin(f64::from(value)).unwrap()] += 1;
            }
            let even = 60_000 / dimension.bins();
            assert!(
                counts.iter().all(|count: &usize| count.abs_diff(even) <= even / 100),
                "{}: {counts:?}",
                dimension.id
            );
        }
    }

    #[test]
    fn limits_belong_to_the_bin_above_and_the_last_one_to_the_range() {
        let rate = &DIMENSIONS[0];
        assert_eq!(
            [300.0, 999.0, 1000.0, 300_000.0].map(|value| rate.bin(value)),
            [Some(0), Some(0), Some(1), Some(5)]
        );
        assert_eq!([299.0, 300_001.0, f64::NAN].map(|value| rate.bin(value)), [None; 3]);
        let loss = &DIMENSIONS[2];
        assert_eq!([0.0, 50.0, 100.0, 100_000.0].map(|value| loss.bin(value)), [Some(0), None, Some(1), Some(5)]);
        assert_eq!((loss.bin_words(0), loss.bin_words(1)), ("none".to_owned(), "0.01 to 0.05 %".to_owned()));
        assert_eq!(loss.range_words(), "none, or 0.01 to 10 %");
    }

    /// Equal steps of the place are equal factors of the value: halfway from 1 to 3 Mbps is √3 Mbps.
    #[test]
    fn values_are_spread_by_their_logarithms() {
        let place = |share: f64| (share * 4_294_967_296.0) as u32;
        assert_eq!(DIMENSIONS[0].value(0), 300);
        assert_eq!(DIMENSIONS[0].value(place(1.5 / 6.0)), 1732);
        assert_eq!(DIMENSIONS[0].value(u32::MAX), 299_999);
        assert_eq!(DIMENSIONS[6].value(place(0.25)), 250);
    }

    #[test]
    fn middles_lie_in_their_bins() {
        for dimension in &DIMENSIONS {
            for bin in 0..dimension.bins() {
                assert_eq!(dimension.bin(f64::from(dimension.middle(Some(bin)))), Some(bin), "{}", dimension.id);
            }
        }
        assert_eq!([1, 5].map(|at: usize| DIMENSIONS[at].middle(None)), [63_241, 0]);
    }

    #[test]
    fn cells_and_bins_are_each_others_inverse() {
        assert_eq!(CELLS, 6 * 5 * 6 * 3 * 3 * 2 * 2);
        for cell in 0..CELLS {
            assert_eq!(cell_of(&bins_of(cell)), cell);
        }
        assert_eq!(bins_of(1), [0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.3, 1234.0, 2.5, 0.01, 0.0, 99.96].map(short), ["0.3", "1234", "2.5", "0.01", "0", "100"]);
    }
}
