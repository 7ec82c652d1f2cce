//! CSV of the LENS dataset: `timestamp,rtt,uplink,downlink`, in nanoseconds and milliseconds; -1 marks a loss in a
//! column, of unknown direction in that of round trips.

use crate::packets::{Fate, Sample};
use crate::{ConvertError, Input};

const COLUMNS: [&str; 4] = ["timestamp", "rtt", "uplink", "downlink"];

/// Reads the packets.
///
/// # Errors
///
/// Returns [`ConvertError`] if the file has other contents.
pub fn read(input: &Input) -> Result<Vec<Sample>, ConvertError> {
    let mut places: Option<[usize; 4]> = None;
    let mut samples = Vec::new();
    for (line, text) in input.lines() {
        let text = if line == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
        let fields: Vec<&[u8]> = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let Some(places) = places else {
            let place = |name: &str| fields.iter().position(|field| field.eq_ignore_ascii_case(name.as_bytes()));
            let [time, rtt, up, down] = COLUMNS.map(place);
            let found = time.zip(rtt).zip(up.zip(down)).map(|((time, rtt), (up, down))| [time, rtt, up, down]);
            let expected = "expected the header timestamp,rtt,uplink,downlink of LENS; its files of ping have no one-way \
                            delays";
            places = Some(found.ok_or_else(|| ConvertError::line(input, line, expected))?);
            continue;
        };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let bad = |column: usize| {
            let unit = if column == 0 { "whole nanoseconds" } else { "milliseconds, or -1 for a loss" };
            ConvertError::line(input, line, format!("column {}: expected {unit}", COLUMNS[column]))
        };
        let field = |column: usize| fields.get(places[column]).and_then(|field| std::str::from_utf8(field).ok());
        let sent = field(0).and_then(|text| text.parse().ok()).ok_or_else(|| bad(0))?;
        // Differences of clocks may be years, but not centuries.
        let number = |text: &str| text.parse().ok().filter(|value: &f64| value.abs() < 4e12);
        let millis = |column: usize| field(column).and_then(number).ok_or_else(|| bad(column));
        let (rtt, up, down) = (millis(1)?, millis(2)?, millis(3)?);
        let is_lost = |value: f64| value.to_bits() == (-1.0_f64).to_bits();
        let nanos = |millis: f64| (millis * 1e6).round() as i64;
        // A difference of clocks may be -1 ms, but then there is a round trip.
        let fate = if is_lost(rtt) {
            Fate::Lost
        } else if rtt > 0.0 {
            Fate::Arrived([nanos(down), nanos(up)])
        } else if is_lost(up) {
            Fate::LostUp
        } else if is_lost(down) {
            Fate::LostDown
        } else {
            return Err(ConvertError::line(
                input,
                line,
                "column rtt: expected a round trip above 0, or -1 in a column",
            ));
        };
        samples.push(Sample { line, sent, fate });
    }
    Ok(samples)
}
