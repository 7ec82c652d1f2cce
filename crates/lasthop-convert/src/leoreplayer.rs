//! Delay files of LeoReplayer: a delay in whole milliseconds per line, each valid for an interval, the same for both
//! directions; after the last line the first one is valid again.

use std::fmt::Write;

use lasthop_proto::link_trace::{LONGEST_DELAY, LinkTrace};
use lasthop_proto::time::Duration;

use crate::input::whole;
use crate::merge::{Columns, starts};
use crate::opportunities::{self, Opportunities, PACKET};
use crate::{ConvertError, Converted, Input, Inputs, Options};

/// Maximum number of lines of a delay file.
const MOST_LINES: usize = 1 << 23;

/// Reads rate files, a delay file per direction or for both, or a part of these.
///
/// # Errors
///
/// Returns [`ConvertError`] if there is none, or one has other contents.
pub fn read(inputs: &Inputs<'_>, options: &Options) -> Result<Converted, ConvertError> {
    let has_rates = inputs.rates.iter().any(Option::is_some);
    let delays = [0, 1].map(|index| inputs.delays[index].map(|input| delays(input).map(|delays| (input, delays))));
    let [down, up] = delays.map(Option::transpose);
    let delays = [down?, up?];
    if !has_rates && delays.iter().all(Option::is_none) {
        let message = "no file is given; give rate files with --down and --up, a delay file with --delay, or both";
        return Err(ConvertError::Use(message.to_owned()));
    }
    let Opportunities { columns, length, mut remarks } = match has_rates {
        true => opportunities::both(inputs, options, PACKET)?,
        false => Opportunities { columns: [None, None], length: Duration::ZERO, remarks: Vec::new() },
    };
    let lap = |delays: &[Duration]| options.interval.saturating_mul(delays.len() as u64);
    let longest = delays.iter().flatten().map(|(_, delays)| lap(delays)).max().unwrap_or_default();
    let length = if has_rates { length } else { longest };
    let mut named: Vec<&str> = Vec::new();
    for (input, delays) in delays.iter().flatten() {
        if lap(delays) != length && !named.contains(&input.name.as_str()) {
            named.push(&input.name);
            let (own, all) = (lap(delays).as_secs_f64(), length.as_secs_f64());
            remarks
                .push(format!("{} lasts {own:.3} s; it is repeated or cut to the {all:.3} s of the trace", input.name));
        }
    }
    remarks.push(
        "LeoReplayer lets packets overtake when the delay falls; set order = \"free\" in the table `trace` to allow it"
            .to_owned(),
    );
    let starts = if delays.iter().any(Option::is_some) { starts(length, options.interval)? } else { Vec::new() };
    let repeated = |delays: Vec<Duration>| starts.iter().copied().zip(delays.iter().copied().cycle()).collect();
    let delays = delays.map(|delays| delays.map(|(_, delays)| repeated(delays)));
    let trace = Columns { rates: columns, delays, ..Columns::default() }.into_trace(length)?;
    Ok(Converted { trace, remarks })
}

/// Reads a delay file.
fn delays(input: &Input) -> Result<Vec<Duration>, ConvertError> {
    let mut delays = Vec::new();
    for (line, text) in input.lines() {
        if line > MOST_LINES {
            return Err(ConvertError::file(input, format!("has more than {MOST_LINES} lines; give a part of it")));
        }
        let delay = whole(text.trim_ascii()).map(|millis| Duration::from_millis(millis.into()));
        let delay = delay.filter(|delay| *delay <= LONGEST_DELAY).ok_or_else(|| {
            ConvertError::line(input, line, "expected a delay in whole milliseconds of at most an hour, e.g. 12")
        })?;
        delays.push(delay);
    }
    Ok(delays)
}

/// Returns the delay of a direction as a file with a line per `interval`: the mean within it, in whole milliseconds.
/// `None` without the column.
pub fn write(trace: &LinkTrace, index: usize, interval: Duration) -> Option<String> {
    let delays = trace.delays[index].as_ref()?;
    let (length, interval) = (trace.length().as_nanos(), interval.as_nanos().max(1));
    let mut text = String::new();
    let (mut row, mut from) = (0, 0);
    while from < length {
        let until = from.saturating_add(interval).min(length);
        let mut sum: u128 = 0;
        let mut at = from;
        while at < until {
            let end = trace.times.get(row + 1).map_or(length, |time| time.as_nanos());
            let part = end.min(until);
            let delay = delays.get(row).copied().unwrap_or_default();
            sum += u128::from(delay.as_nanos()) * u128::from(part.saturating_sub(at));
            at = part.max(at);
            if end <= until {
                row += 1;
            }
            if row >= trace.times.len() {
                break;
            }
        }
        let mean = sum / u128::from(until - from);
        let _ = writeln!(text, "{}", (mean + 500_000) / 1_000_000);
        from = until;
    }
    Some(text)
}
