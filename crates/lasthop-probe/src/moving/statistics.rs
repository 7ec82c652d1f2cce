//! Statistics of series.

use lasthop_proto::random::{Root, Stream};

use super::Sample;

/// Number of permutations or simulations in a test.
pub(super) const REPEATS: usize = 999;

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Returns the variance around the mean.
pub(super) fn variance(values: &[f64]) -> f64 {
    let middle = mean(values.iter().copied());
    let count = values.len() as f64;
    values.iter().map(|value| (value - middle) * (value - middle)).sum::<f64>() / (count - 1.0).max(1.0)
}

/// Returns the autocorrelation of neighbours.
pub(super) fn autocorrelation(values: &[f64]) -> f64 {
    let middle = mean(values.iter().copied());
    let products: f64 = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let squares: f64 = values.iter().map(|value| (value - middle) * (value - middle)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Shuffles the values (Fisher and Yates).
pub(super) fn shuffle(values: &mut [f64], draws: &mut Stream) {
    for at in (1..values.len()).rev() {
        values.swap(at, draws.below(at as u64 + 1) as usize);
    }
}

/// Returns the autocorrelation of neighbours, and the probability that a random order has at least this one.
pub(super) fn neighbours(values: &[f64]) -> (f64, f64) {
    let seen = autocorrelation(values);
    let mut draws = Root(1).stream("probe/moving/permutations");
    let mut shuffled = values.to_vec();
    let as_high = (0..REPEATS).filter(|_| {
        shuffle(&mut shuffled, &mut draws);
        autocorrelation(&shuffled) >= seen
    });
    (seen, (as_high.count() as f64 + 1.0) / (REPEATS as f64 + 1.0))
}

/// Returns the correlation of samples that are `lag` apart, within a third of it or a tenth of a second; `None` if
/// there are too few pairs.
pub(super) fn lagged(samples: &[Sample], lag: f64) -> Option<f64> {
    let middle = mean(samples.iter().map(|sample| sample.log));
    let within = (lag / 3.0).max(0.1);
    let (mut pairs, mut sum) = (0_u32, 0.0);
    let mut from = 0;
    for (at, one) in samples.iter().enumerate() {
        from = from.max(at + 1);
        while samples.get(from).is_some_and(|other| other.at - one.at < lag - within) {
            from += 1;
        }
        for other in samples[from.min(samples.len())..].iter().take_while(|other| other.at - one.at <= lag + within) {
            sum += (one.log - middle) * (other.log - middle);
            pairs += 1;
        }
    }
    let squares = mean(samples.iter().map(|sample| (sample.log - middle) * (sample.log - middle)));
    (pairs >= 20 && squares > 0.0).then(|| sum / f64::from(pairs) / squares)
}
