//! Distributions of delays in bounded memory.

use lasthop_proto::time::Duration;

/// Classes per octave (a factor of two). A class is at most 1/64 of its lower bound wide.
const CLASSES: usize = 64;
const BITS: u32 = CLASSES.ilog2();
/// Number of octaves. The first has a class for each nanosecond below 64 ns.
const OCTAVES: usize = 65 - BITS as usize;

/// Number of delays up to which a histogram lists their classes.
const FEW: usize = 128;

/// Counts by octave and class.
type Counts = [Option<Box<[u64; CLASSES]>>; OCTAVES];

/// A histogram of delays. Quantiles have an error of at most 0.8 % ([`DelayHistogram::quantile`]); count, mean and
/// maximum are exact. Lists the classes of the first 128 delays, since there may be a hundred thousand flows with few
/// delays each; beyond that it uses at most 31 KB, and allocates once for each octave that contains a delay. Delays of
/// zero, as in the queue of a link that is free, are only counted.
#[derive(Clone, Debug, Default)]
pub struct DelayHistogram {
    /// Number of delays of zero.
    zeros: u64,
    /// Octaves and classes of the other delays, each as [`place`] returns them, in one number.
    few: Vec<u16>,
    /// Counts of the delays that are not listed.
    counts: Option<Box<Counts>>,
    sum: u128,
    longest: Duration,
}

/// Returns the octave and the class of a delay.
#[inline]
fn place(delay: Duration) -> (usize, usize) {
    let nanos = delay.as_nanos();
    let octave = (nanos | (CLASSES as u64 - 1)).ilog2() + 1 - BITS;
    (octave as usize, (nanos >> octave.saturating_sub(1)) as usize % CLASSES)
}

fn count(counts: &mut Counts, (octave, class): (usize, usize)) {
    counts[octave].get_or_insert_with(|| Box::new([0; CLASSES]))[class] += 1;
}

impl DelayHistogram {
    /// Adds a delay.
    #[inline]
    pub fn add(&mut self, delay: Duration) {
        if delay == Duration::ZERO {
            return self.add_zero();
        }
        self.sum += u128::from(delay.as_nanos());
        self.longest = self.longest.max(delay);
        let (octave, class) = place(delay);
        match self.counts.as_mut().and_then(|counts| counts[octave].as_mut()) {
            Some(counts) => counts[class] += 1,
            None => self.add_first(octave, class),
        }
    }

    /// Adds a delay of zero.
    #[inline]
    pub fn add_zero(&mut self) {
        self.zeros += 1;
    }

    /// Adds a delay to a histogram of few, or the first one of its octave.
    #[inline(never)]
    fn add_first(&mut self, octave: usize, class: usize) {
        if self.counts.is_none() && self.few.len() < FEW {
            self.few.push((octave * CLASSES + class) as u16);
        } else {
            count(self.spread(), (octave, class));
        }
    }

    /// Counts the listed delays.
    #[cold]
    fn spread(&mut self) -> &mut Counts {
        let counts = self.counts.get_or_insert_with(|| Box::new([const { None }; OCTAVES]));
        for number in std::mem::take(&mut self.few) {
            count(counts, (usize::from(number) / CLASSES, usize::from(number) % CLASSES));
        }
        counts
    }

    /// Adds the delays of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let counts = self.spread();
        for number in &other.few {
            count(counts, (usize::from(*number) / CLASSES, usize::from(*number) % CLASSES));
        }
        for (octave, more) in counts.iter_mut().zip(other.counts.iter().flat_map(|counts| counts.iter())) {
            if let Some(more) = more {
                let counts = octave.get_or_insert_with(|| Box::new([0; CLASSES]));
                counts.iter_mut().zip(more.iter()).for_each(|(count, more)| *count += more);
            }
        }
        self.zeros += other.zeros;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the quantile at `permille` thousandths, with an error of at most 0.8 %: the middle of its class, at most
    /// the maximum delay. `None` without delays.
    pub fn quantile(&self, permille: u32) -> Option<Duration> {
        self.quantiles([permille]).map(|[quantile]| quantile)
    }

    /// Returns the number of delays.
    fn total(&self) -> u64 {
        let counts = self.counts.iter().flat_map(|counts| counts.iter().flatten()).flat_map(|octave| octave.iter());
        self.zeros + self.few.len() as u64 + counts.sum::<u64>()
    }

    fn quantiles<const N: usize>(&self, permille: [u32; N]) -> Option<[Duration; N]> {
        let mut few = self.few.clone();
        few.sort_unstable();
        let total = self.total();
        let mut quantiles = [Duration::ZERO; N];
        for (quantile, permille) in quantiles.iter_mut().zip(permille) {
            let rank = (u128::from(total) * u128::from(permille)).div_ceil(1000).max(1) as u64;
            let Some(rank) = rank.checked_sub(self.zeros).filter(|rank| *rank > 0) else { continue };
            let nanos = match &self.counts {
                Some(counts) => nth_counted(counts, rank)?,
                None => {
                    let number = usize::from(*few.get(rank as usize - 1)?);
                    middle((number / CLASSES) as u32, (number % CLASSES) as u64)
                }
            };
            *quantile = Duration::from_nanos(nanos).min(self.longest);
        }
        Some(quantiles)
    }

    /// Returns number, mean and quantiles; `None` without delays.
    pub fn stats(&self) -> Option<DelayStats> {
        let total = self.total();
        let mean = self.sum.checked_div(total.into())?;
        let [p50, p95, p99] = self.quantiles([500, 950, 990])?;
        Some(DelayStats {
            count: total,
            mean: Duration::from_nanos(mean.try_into().unwrap_or(u64::MAX)),
            p50,
            p95,
            p99,
            longest: self.longest,
        })
    }
}

/// Returns the middle of the class of the `rank`-th shortest delay, in nanoseconds.
fn nth_counted(counts: &Counts, rank: u64) -> Option<u64> {
    let octaves = counts.iter().zip(0_u32..).filter_map(|(counts, octave)| Some((counts.as_deref()?, octave)));
    let mut classes = octaves.flat_map(|(counts, octave)| {
        counts.iter().zip(0_u64..).map(move |(count, class)| (*count, middle(octave, class)))
    });
    let mut below = 0;
    let (_, nanos) = classes.find(|(count, _)| {
        below += count;
        *count > 0 && below >= rank
    })?;
    Some(nanos)
}

/// Returns the middle of a class, in nanoseconds.
const fn middle(octave: u32, class: u64) -> u64 {
    match octave.checked_sub(1) {
        None => class,
        Some(shift) => ((CLASSES as u64 + class) << shift) + (1 << shift) / 2,
    }
}

/// Summary of a [`DelayHistogram`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayStats {
    /// Number of delays.
    pub count: u64,
    /// Mean.
    pub mean: Duration,
    /// Median, with an error of at most 0.8 %.
    pub p50: Duration,
    /// 95th percentile, with an error of at most 0.8 %.
    pub p95: Duration,
    /// 99th percentile, with an error of at most 0.8 %.
    pub p99: Duration,
    /// Maximum delay.
    pub longest: Duration,
}

/// Delays of a flow, of several flows, or of a whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// Round-trip times, as the sender of the data samples them; smoothed (RFC 9002) for QUIC.
    pub rtt: Option<DelayStats>,
    /// Total time in the queues of all links, of data packets that arrived.
    pub queueing: Option<DelayStats>,
    /// Time from sending to arrival, of datagrams and of calls.
    pub one_way: Option<DelayStats>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with sorting, over nine orders of magnitude.
    #[test]
    fn quantiles_are_those_of_a_sorted_list_to_the_stated_error() {
        let mut delays: Vec<u64> = (0..20_000_u64).map(|n| (n * 7919 % 20_000).pow(3) / 100).collect();
        let (mut whole, mut halves) =
            (DelayHistogram::default(), [DelayHistogram::default(), DelayHistogram::default()]);
        for (at, nanos) in delays.iter().enumerate() {
            whole.add(Duration::from_nanos(*nanos));
            halves[at % 2].add(Duration::from_nanos(*nanos));
        }
        delays.sort_unstable();
        for permille in [1, 10, 500, 950, 990, 999, 1000] {
            let exact = delays[(delays.len() * permille as usize).div_ceil(1000) - 1];
            let found = whole.quantile(permille).unwrap().as_nanos();
            assert!(found.abs_diff(exact) as f64 <= 0.008 * exact as f64, "{permille}: {found} for {exact}");
        }
        let stats = whole.stats().unwrap();
        let sum: u64 = delays.iter().sum();
        assert_eq!(
            (stats.count, stats.mean.as_nanos(), stats.longest.as_nanos()),
            (20_000, sum / 20_000, *delays.last().unwrap())
        );
        let [mut merged, other] = halves;
        merged.merge(&other);
        assert_eq!(merged.stats(), whole.stats());
    }

    /// Few delays, which are listed, have the same quantiles as if they were counted.
    #[test]
    fn quantiles_do_not_depend_on_the_number_of_delays() {
        for number in [1, 2, FEW, FEW + 1, 3 * FEW] {
            let mut listed = DelayHistogram::default();
            // The first one is zero, which is not listed.
            (0..=number as u64).for_each(|n| listed.add(Duration::from_nanos((n * 7919 % 1000).pow(2))));
            let mut counted = DelayHistogram::default();
            counted.merge(&listed);
            assert!(counted.counts.is_some() && listed.counts.is_some() == (number > FEW), "{number}");
            assert_eq!(listed.stats(), counted.stats(), "{number}");
        }
    }

    #[test]
    fn nothing_and_extremes() {
        let mut delays = DelayHistogram::default();
        assert_eq!((delays.stats(), delays.quantile(500)), (None, None));
        delays.add(Duration::ZERO);
        assert_eq!(delays.quantile(1000), Some(Duration::ZERO));
        delays.add(Duration::MAX);
        assert_eq!(delays.quantile(500), Some(Duration::ZERO));
        assert!(delays.quantile(1000).unwrap().as_nanos() > u64::MAX / 100 * 99);
    }
}
