//! Delivery opportunities: a time in whole milliseconds per line, at which the link can deliver a packet.
//!
//! The trace starts again at its last time. The file of one direction does not know the length of the other's.

use std::fmt::Write;

use lasthop_proto::link_trace::LinkTrace;
use lasthop_proto::rate::{MOST_OPPORTUNITIES, OPPORTUNITY, OPPORTUNITY_EXTRA, read_opportunities};
use lasthop_proto::time::Duration;

use crate::merge::{Columns, Steps, starts};
use crate::{ConvertError, Converted, Inputs, Options};

/// Bytes of an IP packet that fills an opportunity of mahimahi.
pub const PACKET: u32 = OPPORTUNITY - OPPORTUNITY_EXTRA;

/// Default time over which opportunities become a rate.
const STEP: Duration = Duration::from_millis(100);

const MILLISECOND: u64 = 1_000_000;

/// Opportunities of both directions.
pub(crate) struct Opportunities {
    /// Columns of the rates.
    pub columns: [Option<Steps<u64>>; 2],
    /// Length of the longer trace.
    pub length: Duration,
    /// Differences between the directions.
    pub remarks: Vec<String>,
}

/// Reads a file per direction.
///
/// # Errors
///
/// Returns [`ConvertError`] if there is none, or one has other contents.
pub fn read(inputs: &Inputs<'_>, options: &Options) -> Result<Converted, ConvertError> {
    let Opportunities { columns, length, remarks } = both(inputs, options, PACKET)?;
    let trace = Columns { rates: columns, ..Columns::default() }.into_trace(length)?;
    Ok(Converted { trace, remarks })
}

/// Reads the rates of both directions, with opportunities of `bytes`.
pub(crate) fn both(inputs: &Inputs<'_>, options: &Options, bytes: u32) -> Result<Opportunities, ConvertError> {
    let mut times: [Option<Vec<u32>>; 2] = [None, None];
    for (input, times) in inputs.rates.iter().zip(&mut times) {
        let Some(input) = input else { continue };
        let read = read_opportunities(&input.bytes).map_err(|error| {
            ConvertError::file(input, format!("{error}; a rate file has a time in whole milliseconds per line"))
        })?;
        *times = Some(read);
    }
    let lap = |times: &Vec<u32>| times.last().copied().unwrap_or_default();
    let Some(longest) = times.iter().flatten().map(lap).max() else {
        return Err(ConvertError::Use("no rate file is given; give one with --down, --up or both".to_owned()));
    };
    let length = Duration::from_millis(longest.into());
    let mut remarks = Vec::new();
    for (times, input) in times.iter().zip(inputs.rates) {
        if let (Some(times), Some(input)) = (times, input)
            && lap(times) < longest
        {
            let (own, name) = (Duration::from_millis(lap(times).into()), &input.name);
            remarks.push(format!(
                "{name} lasts {:.3} s and is repeated until the other direction ends, at {:.3} s",
                own.as_secs_f64(),
                length.as_secs_f64()
            ));
        }
    }
    let step = options.step.unwrap_or(STEP);
    let starts = starts(length, step)?;
    let columns = times.map(|times| times.map(|times| rates(&times, &starts, length, bytes)));
    Ok(Opportunities { columns, length, remarks })
}

/// Returns the mean rate of each step, of which the last ends at `length`, if each opportunity carries `bytes`.
fn rates(times: &[u32], starts: &[Duration], length: Duration, bytes: u32) -> Steps<u64> {
    let lap = u64::from(times.last().copied().unwrap_or(1).max(1)) * MILLISECOND;
    let ends = starts.iter().skip(1).copied().chain([length]);
    let rate = |(from, until): (&Duration, Duration)| {
        let count = before(times, until.as_nanos(), lap).saturating_sub(before(times, from.as_nanos(), lap));
        let work = u128::from(count) * u128::from(bytes) * 8 * 1_000_000_000;
        let rate = work / u128::from(until.saturating_sub(*from).as_nanos().max(1));
        (*from, u64::try_from(rate).unwrap_or(u64::MAX))
    };
    starts.iter().zip(ends).map(rate).collect()
}

/// Returns the number of opportunities before `time`. Those at the end of a lap belong to it, not to the next one.
fn before(times: &[u32], time: u64, lap: u64) -> u64 {
    let within = times.partition_point(|at| u64::from(*at) * MILLISECOND < time % lap) as u64;
    (time / lap).saturating_mul(times.len() as u64).saturating_add(within)
}

/// Returns the rate of a direction as opportunities, each at the start of the millisecond in which the capacity for it
/// is reached, and the last one at the end, so that the length is kept. `None` without the column.
///
/// # Errors
///
/// Returns [`ConvertError`] if the trace is shorter than a millisecond, or has no or too many opportunities.
pub fn write(trace: &LinkTrace, index: usize) -> Result<Option<String>, ConvertError> {
    let Some(rates) = &trace.rates[index] else { return Ok(None) };
    let end = trace.length().as_nanos().div_ceil(MILLISECOND);
    // A packet's bits, times the nanoseconds of a second.
    let packet = u128::from(PACKET) * 8 * 1_000_000_000;
    let carried = |(span, rate): (Duration, &u64)| u128::from(*rate) * u128::from(span.as_nanos());
    let total: u128 = trace.spans().zip(rates).map(carried).sum();
    // The fraction of a packet comes first, so that the last opportunity is where the capacity ends. Otherwise its move
    // to the end of the trace would take a whole packet from an earlier row.
    let (mut times, mut work): (Vec<u64>, u128) = (Vec::new(), (packet - total % packet) % packet);
    for ((from, span), rate) in trace.times.iter().zip(trace.spans()).zip(rates) {
        let all = u128::from(*rate) * u128::from(span.as_nanos());
        // Opportunities within the row, by the time since its start.
        let mut next = packet - work;
        while next <= all {
            let since = next / u128::from((*rate).max(1));
            let at = u128::from(from.as_nanos()) + since;
            times.push(u64::try_from(at / u128::from(MILLISECOND)).unwrap_or(u64::MAX));
            next += packet;
            if times.len() > MOST_OPPORTUNITIES {
                let message = format!("the trace has more than {MOST_OPPORTUNITIES} opportunities; give a part of it");
                return Err(ConvertError::Use(message));
            }
        }
        work = packet - (next - all);
    }
    match times.last_mut() {
        Some(last) if end > 0 && end <= u32::MAX.into() => *last = end,
        _ => {
            let message = format!(
                "the trace has no rate above zero, or lasts no millisecond or more than 49 days; mahimahi's format needs an \
                 opportunity for {PACKET} bytes"
            );
            return Err(ConvertError::Use(message));
        }
    }
    let mut text = String::new();
    for time in times {
        let _ = writeln!(text, "{time}");
    }
    Ok(Some(text))
}

/// Returns what a rate file does not say of `trace`.
pub fn unsaid(trace: &LinkTrace, has_delay: bool) -> Option<String> {
    let lacks: Vec<&str> =
        trace.names().filter(|name| name.starts_with("loss") || (name.starts_with("delay") && !has_delay)).collect();
    (!lacks.is_empty()).then(|| format!("not represented: {}", lacks.join(", ")))
}
