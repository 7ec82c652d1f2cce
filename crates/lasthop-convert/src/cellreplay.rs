//! Traces of CellReplay: for each direction a heavy trace, whose opportunities carry 1400 bytes, and a light trace of
//! lines `time base_delay opportunities...` in milliseconds. The base delay is interpolated between lines.

use lasthop_proto::rate::{CELL_OPPORTUNITY, read_light};
use lasthop_proto::time::Duration;

use crate::merge::{Columns, Steps, starts};
use crate::opportunities::{self, Opportunities};
use crate::{ConvertError, Converted, Input, Inputs, Options};

/// Default time for which a delay is valid.
const STEP: Duration = Duration::from_millis(100);

const MILLISECOND: u64 = 1_000_000;

/// Reads heavy traces, and light traces for their base delays.
///
/// # Errors
///
/// Returns [`ConvertError`] if there is no heavy trace, or a file has other contents.
pub fn read(inputs: &Inputs<'_>, options: &Options) -> Result<Converted, ConvertError> {
    let Opportunities { columns, length, mut remarks } = opportunities::both(inputs, options, CELL_OPPORTUNITY)?;
    let [down, up] = inputs.delays.map(|input| input.map(light).transpose());
    let step = options.step.unwrap_or(STEP);
    let starts = starts(length, step)?;
    let delays = [down?, up?].map(|lines| lines.map(|lines| delays(&lines, &starts, step)));
    remarks.push(
        "not represented: the light opportunities of CellReplay, its switch between light and heavy traces, and its size \
         offsets; short transfers after idle times differ most"
            .to_owned(),
    );
    let trace = Columns { rates: columns, delays, ..Columns::default() }.into_trace(length)?;
    Ok(Converted { trace, remarks })
}

/// Reads the times and base delays of a light trace, in milliseconds.
fn light(input: &Input) -> Result<Vec<(u64, u64)>, ConvertError> {
    let lines = read_light(&input.bytes).map_err(|error| ConvertError::file(input, error))?;
    Ok(lines.into_iter().map(|line| (line.at.into(), line.delay.into())).collect())
}

/// Returns the base delay in the middle of each step. The light trace starts again at its last line.
fn delays(lines: &[(u64, u64)], starts: &[Duration], step: Duration) -> Steps<Duration> {
    let lap = lines.last().map_or(1, |(time, _)| time * MILLISECOND).max(1);
    let delay = |from: Duration| {
        let at = from.as_nanos().saturating_add(step.as_nanos() / 2) % lap;
        let next = lines.partition_point(|(time, _)| time * MILLISECOND <= at);
        let (left, right) = (lines.get(next.wrapping_sub(1)), lines.get(next));
        let nanos = match (left, right) {
            (Some(left), Some(right)) => {
                let (start, span) = (left.0 * MILLISECOND, (right.0 - left.0) * MILLISECOND);
                let (a, b) = (i128::from(left.1 * MILLISECOND), i128::from(right.1 * MILLISECOND));
                a + (b - a) * i128::from(at - start) / i128::from(span.max(1))
            }
            (Some((_, base)), None) | (None, Some((_, base))) => i128::from(base * MILLISECOND),
            (None, None) => 0,
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
    };
    starts.iter().map(|from| (*from, delay(*from))).collect()
}
