//! Delays and losses of the packets of a measurement, to columns.

use lasthop_proto::link_trace::LONGEST_DELAY;
use lasthop_proto::time::Duration;

use crate::merge::{Columns, LONGEST, Steps, starts};
use crate::{Clocks, ConvertError, Converted, Input, Options};

/// Default time over which lost packets become a probability.
const STEP: Duration = Duration::from_secs(1);

/// Fate of a packet and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Both arrived after these one-way delays in nanoseconds: down, up. They include the difference of the clocks.
    Arrived([i64; 2]),
    /// Both arrived after this round trip; the one-way delays are unknown.
    Returned(i64),
    /// The packet was lost on the uplink.
    LostUp,
    /// The answer was lost on the downlink.
    LostDown,
    /// One of the two was lost.
    Lost,
}

/// A packet of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Line of the file, or number of the packet, for messages.
    pub line: usize,
    /// Time at which it was sent, in nanoseconds since any instant.
    pub sent: i64,
    /// Its fate.
    pub fate: Fate,
}

/// Returns the trace of `samples`, in their order of transmission.
///
/// # Errors
///
/// Returns [`ConvertError`] if they are too few, go back in time, or have impossible delays.
pub fn trace(samples: &[Sample], input: &Input, options: &Options) -> Result<Converted, ConvertError> {
    let [first, .., last] = samples else {
        return Err(ConvertError::file(input, "has fewer than two packets; a trace needs a span of time"));
    };
    if let Some(pair) = samples.windows(2).find(|pair| pair[1].sent < pair[0].sent) {
        return Err(ConvertError::line(input, pair[1].line, "goes back in time; sort the packets by their send times"));
    }
    let since = |sent: i64| u64::try_from(i128::from(sent) - i128::from(first.sent)).unwrap_or(u64::MAX);
    // The last packet is valid as long as those before it on average.
    let span = since(last.sent);
    let length = span.saturating_add(span / (samples.len() as u64 - 1));
    if span == 0 || length > LONGEST.as_nanos() {
        return Err(ConvertError::file(input, "its packets span no time, or more than a day; give a part of it"));
    }
    let mut remarks = Vec::new();
    let delays = delays(samples, input, options.clocks, &mut remarks)?;
    let delays = delays.map(|values| {
        let steps = values.into_iter().map(|(sent, delay)| (Duration::from_nanos(since(sent)), delay));
        distinct(steps.collect())
    });
    let step = options.step.unwrap_or(STEP);
    let length = Duration::from_nanos(length);
    let losses = losses(samples, since, &starts(length, step)?, length);
    let unknown = samples.iter().filter(|sample| sample.fate == Fate::Lost).count();
    if unknown > 0 {
        remarks.push(format!(
            "{unknown} lost packets could be lost in either direction: half of them count for each; use the option \
             --stats=both of irtt to tell them apart"
        ));
    }
    let [delay_down, delay_up] = delays;
    let delays = [delay_down, delay_up].map(|steps| (!steps.is_empty()).then_some(steps));
    if delays.iter().all(Option::is_none) {
        remarks.push("no packet arrived: the delay is unknown".to_owned());
    }
    remarks.push(
        "the delays are those of the whole measured path; a lost packet keeps the delay before it; the rate is unknown"
            .to_owned(),
    );
    let columns = Columns { delays, losses: losses.map(Some), ..Columns::default() };
    Ok(Converted { trace: columns.into_trace(length)?, remarks })
}

/// Send times with delays.
type Delays = Vec<(i64, Duration)>;

/// Returns the one-way delays of the packets that arrived: down, up.
fn delays(
    samples: &[Sample],
    input: &Input,
    clocks: Clocks,
    remarks: &mut Vec<String>,
) -> Result<[Delays; 2], ConvertError> {
    let one_way = samples.iter().filter_map(|sample| match sample.fate {
        Fate::Arrived(delays) => Some(delays.map(i128::from)),
        _ => None,
    });
    let least = one_way.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])]);
    let shift = match (least, clocks) {
        (Some([down, up]), Clocks::Unknown) => {
            remarks.push(format!(
                "the difference of the clocks is unknown: the sum of the minimum delays, {:.3} ms, is divided equally between \
                 the directions; give --clocks synchronized if they were",
                (down + up) as f64 / 1e6
            ));
            let half = (down + up) / 2;
            [half - down, half - up]
        }
        _ => [0, 0],
    };
    if samples.iter().any(|sample| matches!(sample.fate, Fate::Returned(_))) {
        remarks
            .push("some packets have no one-way delays: half of the round trip counts for each direction".to_owned());
    }
    let mut delays: [Delays; 2] = Default::default();
    for sample in samples {
        let own = match sample.fate {
            Fate::Arrived([down, up]) => [i128::from(down) + shift[0], i128::from(up) + shift[1]],
            Fate::Returned(round) => [i128::from(round) / 2; 2],
            Fate::LostUp | Fate::LostDown | Fate::Lost => continue,
        };
        for (delays, own) in delays.iter_mut().zip(own) {
            let delay = u64::try_from(own).ok().map(Duration::from_nanos).filter(|delay| *delay <= LONGEST_DELAY);
            let delay = delay.ok_or_else(|| {
                let what = match clocks {
                    Clocks::Synchronized => {
                        "has a one-way delay below zero or above an hour; omit --clocks synchronized"
                    }
                    Clocks::Unknown => "has a round trip below zero or above an hour; remove it",
                };
                ConvertError::line(input, sample.line, what)
            })?;
            delays.push((sample.sent, delay));
        }
    }
    Ok(delays)
}

/// Removes all but the last value at each time, and begins at the start.
fn distinct(mut steps: Steps<Duration>) -> Steps<Duration> {
    steps.reverse();
    steps.dedup_by_key(|(from, _)| *from);
    steps.reverse();
    if let Some((from, _)) = steps.first_mut() {
        *from = Duration::ZERO;
    }
    steps
}

/// Returns the share of packets lost in each step: down, up. A step without packets keeps the share before it.
fn losses(samples: &[Sample], since: impl Fn(i64) -> u64, starts: &[Duration], length: Duration) -> [Steps<f64>; 2] {
    let mut steps: [Steps<f64>; 2] = Default::default();
    let (mut next, mut last) = (0, [0.0_f64, 0.0]);
    for (from, until) in starts.iter().zip(starts.iter().skip(1).chain([&length])) {
        let within = samples[next..].iter().take_while(|sample| since(sample.sent) < until.as_nanos());
        let (mut sent, mut up, mut down) = (0.0, 0.0, 0.0);
        for sample in within {
            (next, sent) = (next + 1, sent + 1.0);
            match sample.fate {
                Fate::LostUp => up += 1.0,
                Fate::LostDown => down += 1.0,
                Fate::Lost => (up, down) = (up + 0.5, down + 0.5),
                Fate::Arrived(_) | Fate::Returned(_) => {}
            }
        }
        // Answers cross the downlink only if the packets crossed the uplink.
        if sent > 0.0 {
            last = [if sent > up { down / (sent - up) } else { last[0] }, up / sent];
        }
        for (steps, share) in steps.iter_mut().zip(last) {
            steps.push((*from, share.clamp(0.0, 1.0)));
        }
    }
    steps
}
