//! JSON of `irtt client -o`.

use lasthop_fit::irtt::{BadReport, Delays, Lost, Report};

use crate::packets::{Fate, Sample};
use crate::{ConvertError, Input};

/// Reads the packets.
///
/// # Errors
///
/// Returns [`ConvertError`] if the file has other contents.
pub fn read(input: &Input) -> Result<Vec<Sample>, ConvertError> {
    let report = Report::read(&input.bytes).map_err(|BadReport { line, column, what }| {
        ConvertError::file(input, format!("line {line}, column {column}: {what}"))
    })?;
    let trips = report.trips().zip(1..).map(|(trip, line)| {
        let fate = match (trip.lost, trip.delays) {
            (Lost::Either, _) => Fate::Lost,
            (Lost::Up, _) => Fate::LostUp,
            (Lost::Down, _) => Fate::LostDown,
            (Lost::No, Delays { send: Some(up), receive: Some(down), .. }) => Fate::Arrived([down, up]),
            (Lost::No, Delays { rtt: Some(round), .. }) => Fate::Returned(round),
            (Lost::No, _) => {
                let what = format!("round trip {line} arrived, but has no delay; record it with irtt client -o again");
                return Err(ConvertError::file(input, what));
            }
        };
        Ok(Sample { line, sent: trip.sent, fate })
    });
    trips.collect()
}
