//! Writing a link's trace.

use core::fmt;

use super::{LinkTrace, TIME};

/// A link's trace as CSV: a header, and a line per row.
#[derive(Clone, Copy, Debug)]
pub struct Csv<'a>(pub &'a LinkTrace);

impl fmt::Display for Csv<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(trace) = self;
        f.write_str(TIME)?;
        trace.names().try_for_each(|name| write!(f, ",{name}"))?;
        f.write_str("\n")?;
        for (row, time) in trace.times.iter().enumerate() {
            decimal(f, time.as_nanos(), 9)?;
            for rates in trace.rates.iter().flatten() {
                f.write_str(",")?;
                decimal(f, rates.get(row).copied().unwrap_or_default(), 6)?;
            }
            for delays in trace.delays.iter().flatten() {
                f.write_str(",")?;
                decimal(f, delays.get(row).copied().unwrap_or_default().as_nanos(), 6)?;
            }
            for losses in trace.losses.iter().flatten() {
                write!(f, ",{}", losses.get(row).copied().unwrap_or_default())?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// Writes `value` divided by ten to the power `digits`, without zeros at its end.
fn decimal(f: &mut fmt::Formatter<'_>, value: u64, digits: usize) -> fmt::Result {
    let unit = 10_u64.pow(digits as u32);
    let (whole, mut rest, mut places) = (value / unit, value % unit, digits);
    if rest == 0 {
        return write!(f, "{whole}");
    }
    while rest % 10 == 0 {
        (rest, places) = (rest / 10, places - 1);
    }
    write!(f, "{whole}.{rest:0places$}")
}
