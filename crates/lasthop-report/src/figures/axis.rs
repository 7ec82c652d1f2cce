//! Axes of figures: numbers at the ticks, and mapping of values to positions.

use serde::Serialize;

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic; values must be positive.
    Log,
}

/// Axis from `low` to `high`.
pub struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Values with a label, and the label.
    pub ticks: Vec<(f64, String)>,
}

/// Maximum number of distinct values that are their own ticks on a logarithmic axis.
const OWN_TICKS: usize = 10;

impl Axis {
    /// Creates a linear axis that ends at round numbers.
    pub fn round(low: f64, high: f64, intervals: usize) -> Self {
        let step = round_step(high - low, intervals);
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        let high = if high > low { high } else { low + step };
        Self { low, high, scale: Scale::Linear, ticks: linear_ticks(low, high, step) }
    }

    /// Creates a linear axis that ends exactly where the data does.
    pub fn tight(low: f64, high: f64, intervals: usize) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, scale: Scale::Linear, ticks: linear_ticks(low, high, round_step(high - low, intervals)) }
    }

    /// Creates an axis for these values, with margins at both ends. A logarithmic one has a tick at each value if they
    /// are few, otherwise at the powers of ten.
    pub fn around(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if scale == Scale::Log {
            values.retain(|value| *value > 0.0);
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else { return Self::tight(0.0, 1.0, 5) };
        match scale {
            Scale::Linear => {
                let room = if high > low { (high - low) * 0.04 } else { 0.5 };
                Self::tight(low - room, high + room, 8)
            }
            Scale::Log => {
                let room = if high > low { (high / low).powf(0.06) } else { 2.0 };
                let ticks = if values.len() <= OWN_TICKS { values } else { powers_of_ten(low, high) };
                let ticks = ticks.into_iter().map(|value| (value, number(value, 3))).collect();
                Self { low: low / room, high: high * room, scale, ticks }
            }
        }
    }

    /// Returns the position of `value`: 0 at the low end, 1 at the high end.
    pub fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        }
    }

    /// Returns whether `value` lies on the axis.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Returns the smallest of 1, 2, 2.5, 5 times a power of ten that gives at most `intervals` intervals of `span`.
fn round_step(span: f64, intervals: usize) -> f64 {
    let least = span / intervals as f64;
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power * 10.0)
}

fn linear_ticks(low: f64, high: f64, step: f64) -> Vec<(f64, String)> {
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    // As many digits as the step needs: 0.25 needs one more than its magnitude suggests.
    let digits = (0..9).find(|digits| is_whole(step * 10f64.powi(*digits))).unwrap_or(9) as usize;
    (first..=last).map(|k| (k as f64 * step, format!("{:.digits$}", k as f64 * step))).collect()
}

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6 * value.abs().max(1e-3)
}

fn powers_of_ten(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().ceil() as i32, high.log10().floor() as i32);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

/// Formats a number with at most `digits` decimals, without trailing zeros.
pub fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Axis, Scale};

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&Axis::round(0.0, 1.39, 6)), ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50"]);
        assert_eq!(labels(&Axis::round(0.0, 1.5, 6)), ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50"]);
        assert_eq!(labels(&Axis::tight(0.0, 47.3, 8)), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(&Axis::round(0.0, 0.0, 6)), ["0", "1"]);
    }

    #[test]
    fn a_logarithmic_axis_numbers_its_few_values() {
        let axis = Axis::around([256.0, 16.0, 64.0, 16.0].into_iter(), Scale::Log);
        assert_eq!(labels(&axis), ["16", "64", "256"]);
        let middle = axis.position(64.0);
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
    }
}
