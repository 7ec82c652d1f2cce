//! JSON of `irtt client -o`.

use serde::Deserialize;
use serde_json::Value;

use crate::packets::{Fate, Sample};
use crate::{ConvertError, Input};

#[derive(Deserialize)]
struct Report {
    config: Config,
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct Config {
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    interval: i64,
}

#[derive(Deserialize)]
struct RoundTrip {
    lost: Value,
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delay,
}

#[derive(Deserialize)]
struct Timestamps {
    client: Client,
}

#[derive(Deserialize)]
struct Client {
    send: Stamp,
}

/// Timestamp in nanoseconds.
#[derive(Deserialize)]
struct Stamp {
    wall: Option<i64>,
    monotonic: Option<i64>,
}

/// Delays in nanoseconds.
#[derive(Deserialize, Default)]
struct Delay {
    rtt: Option<i64>,
    send: Option<i64>,
    receive: Option<i64>,
}

/// Reads the packets. Those of other clocks than the first one's are placed by the interval.
///
/// # Errors
///
/// Returns [`ConvertError`] if the file has other contents.
pub fn read(input: &Input) -> Result<Vec<Sample>, ConvertError> {
    let report: Report = serde_json::from_slice(&input.bytes).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        let line = format!("line {}, column {}", error.line(), error.column());
        ConvertError::file(input, format!("{line}: expected the JSON of `irtt client -o`: {}", plain(what)))
    })?;
    // The monotonic clock does not step.
    let is_monotonic = report.round_trips.iter().all(|trip| trip.timestamps.client.send.monotonic.is_some());
    let mut samples = Vec::with_capacity(report.round_trips.len());
    for (number, trip) in report.round_trips.iter().enumerate() {
        let Stamp { wall, monotonic } = trip.timestamps.client.send;
        let by_interval = report.config.params.interval.saturating_mul(number as i64);
        let sent = if is_monotonic { monotonic } else { wall }.unwrap_or(by_interval);
        let line = number + 1;
        let fate = match (&trip.lost, &trip.delay) {
            (Value::Bool(true), _) => Fate::Lost,
            (Value::String(lost), _) if lost == "true" => Fate::Lost,
            (Value::String(lost), _) if lost == "true_up" => Fate::LostUp,
            (Value::String(lost), _) if lost == "true_down" => Fate::LostDown,
            (_, Delay { send: Some(up), receive: Some(down), .. }) => Fate::Arrived([*down, *up]),
            (_, Delay { rtt: Some(round), .. }) => Fate::Returned(*round),
            _ => {
                let what = format!("round trip {line} arrived, but has no delay; record it with irtt client -o again");
                return Err(ConvertError::file(input, what));
            }
        };
        samples.push(Sample { line, sent, fate });
    }
    Ok(samples)
}

/// Removes control characters from a message.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(120).collect()
}
