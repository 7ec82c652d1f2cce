//! Output of `fping` with `-c`, `-C` or `-l`, with or without `-D`.

use lasthop_proto::time::Duration;

use super::echoes::{Echoes, Frame};
use super::lines::{leading_number, plain, stamp};
use super::{Form, ReadError, Reading, wrong};

/// Bytes of a packet with 56 bytes of data.
const USUAL_BYTES: u32 = 84;
/// Bytes of the IPv4 header, which newer versions do not count.
const IP_HEADER: u32 = 20;

/// Echo as printed: `host : [0], 64 bytes, 0.026 ms (0.026 avg, 0% loss)`.
struct Line<'t> {
    host: &'t str,
    number: i64,
    /// Text after the number.
    rest: &'t str,
}

impl<'t> Line<'t> {
    /// Parses a line; `None` if it does not describe an echo.
    fn of(line: &'t str) -> Option<Result<Self, String>> {
        let (host, rest) = line.split_once(" : ")?;
        let rest = rest.trim_start().trim_start_matches("duplicate for ");
        let (number, rest) = rest.strip_prefix('[')?.split_once(']')?;
        let number = number.trim().parse::<u32>().map(i64::from);
        let is_whole = rest.starts_with(',');
        Some(match number {
            Ok(number) if is_whole => Ok(Self { host: host.trim(), number, rest: rest[1..].trim_start() }),
            _ => Err("expected HOST : [NUMBER], followed by BYTES bytes, TIME ms or a timeout".to_owned()),
        })
    }

    /// Returns bytes and milliseconds of an answer.
    fn answer(&self) -> Option<(u32, f64)> {
        let (bytes, rest) = leading_number(self.rest)?;
        let (time, rest) = leading_number(rest.split_once(',')?.1)?;
        rest.trim_start().starts_with("ms").then_some((bytes as u32, time))
    }
}

/// Returns the round-trip times of a line that `-C` prints at the end: `host : 0.038 - 0.034`.
fn listed(line: &str) -> Option<(&str, Vec<Option<f64>>)> {
    let (host, values) = line.split_once(" : ")?;
    let value = |text: &str| match text {
        "-" => Some(None),
        text => leading_number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| Some(number)),
    };
    let values: Option<Vec<_>> = values.split_whitespace().map(value).collect();
    values.filter(|values| !values.is_empty()).map(|values| (host.trim(), values))
}

/// Returns whether one of the first lines is from `fping`.
pub(super) fn is_fping(text: &str) -> bool {
    const FIRST: usize = 50;
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).take(FIRST);
    lines.any(|line| Line::of(stamp(line).1).is_some() || listed(line).is_some())
}

pub(super) fn read(text: &str, most: usize, interval: Option<Duration>) -> Result<Reading, ReadError> {
    let mut echoes = Echoes::default();
    let mut frame = Frame { first: Some(0), bytes: USUAL_BYTES, ..Frame::default() };
    let mut of_host = None;
    let mut list = None;
    for (at, text) in text.lines().enumerate() {
        let (stamp, line) = stamp(text);
        let host = match Line::of(line) {
            Some(found) => {
                let found = found.map_err(|what| wrong(at, what))?;
                match found.answer() {
                    Some((bytes, time)) => {
                        frame.bytes = bytes.saturating_add(if bytes == USUAL_BYTES { 0 } else { IP_HEADER });
                        echoes.answer(found.number, time / 1e3, stamp);
                    }
                    None if found.rest.starts_with(|c: char| c.is_ascii_digit()) => {
                        return Err(wrong(at, "expected BYTES bytes, TIME ms after the number"));
                    }
                    None => echoes.sent(found.number),
                }
                found.host
            }
            None => match listed(line) {
                Some((host, values)) => {
                    list = Some(values);
                    host
                }
                None => continue,
            },
        };
        let known = *of_host.get_or_insert(host);
        if known != host {
            return Err(wrong(
                at,
                format!(
                    "host {}, but earlier lines are of {}; give the lines of a single host",
                    plain(host),
                    plain(known)
                ),
            ));
        }
        if echoes.len() > most {
            return Err(ReadError::Long(most));
        }
    }
    // The list repeats the lines.
    if let Some(list) = list.filter(|_| echoes.len() == 0) {
        if list.len() > most {
            return Err(ReadError::Long(most));
        }
        for (number, value) in (0..).zip(list) {
            match value {
                Some(time) => echoes.answer(number, time / 1e3, None),
                None => echoes.sent(number),
            }
        }
    }
    frame.spacing = interval.map(|interval| interval.as_secs_f64());
    let (trace, seen) = echoes.finish(frame, most)?;
    Ok(Reading::of_trace(trace, Form::Fping, seen))
}
