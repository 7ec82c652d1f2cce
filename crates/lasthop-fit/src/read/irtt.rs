//! JSON of `irtt client -o`.

use lasthop_proto::time::Duration;

use super::{Form, Losses, ReadError, Reading, Way, wrong};
use crate::irtt::{BadReport, Delays, Lost, Report};
use crate::seen::{Seen, Spread};
use crate::trace::{LossTrace, Sent};

/// Bytes of the headers of IP (version 4, version 6) and UDP.
const HEADERS: [u32; 2] = [28, 48];

/// Returns whether an object has the keys of irtt's report, without parsing it.
pub(super) fn is_irtt(text: &str) -> bool {
    text.contains("\"round_trips\"")
}

pub(super) fn read(text: &str, most: usize) -> Result<Reading, ReadError> {
    let report = Report::read(text.as_bytes()).map_err(|BadReport { line, what, .. }| wrong(line - 1, what))?;
    let trips: Vec<_> = report.trips().collect();
    if trips.len() > most {
        return Err(ReadError::Long(most));
    }
    let length = report.length().ok_or_else(|| wrong(0, "config.params.length is missing".to_owned()))?;
    let bytes = length.saturating_add(HEADERS[usize::from(report.is_ipv6())]);
    let begin = trips.first().map_or(0, |trip| trip.sent);
    let packets: Vec<(Sent, Lost)> = trips
        .iter()
        .map(|trip| {
            let at = Duration::from_nanos(trip.sent.saturating_sub(begin).max(0) as u64);
            (Sent { at, air: Duration::ZERO, bytes, lost: trip.lost != Lost::No }, trip.lost)
        })
        .collect();
    let delays = |of: fn(&Delays) -> Option<i64>| -> Vec<f64> {
        trips.iter().filter_map(|trip| of(&trip.delays)).map(|nanos| nanos as f64 / 1e9).collect()
    };
    let beyond_least = |mut delays: Vec<f64>| {
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        delays.iter_mut().for_each(|delay| *delay -= least);
        Spread::of(&mut delays)
    };
    let seen = Seen {
        arrived: packets.iter().filter(|(sent, _)| !sent.lost).count() as u64,
        round_trip: Spread::of(&mut delays(|delays| delays.rtt)),
        reordered: Some(report.late_packets()),
        duplicates: Some(report.duplicates()),
        ..Seen::default()
    };
    let count = |what: Lost| packets.iter().filter(|(_, lost)| *lost == what).count();
    let (told, untold) = (count(Lost::Up) + count(Lost::Down), count(Lost::Either));
    if told <= untold && untold > 0 {
        let trace = LossTrace::timed(packets.into_iter().map(|(sent, _)| sent).collect());
        let mut reading = Reading::of_trace(trace, Form::Irtt, seen);
        reading.remarks.push(
            "irtt did not report the direction of losses; use `--stats=both` (its default) at both ends".to_owned(),
        );
        return Ok(reading);
    }
    let way = |lost_here: Lost, crossed: &dyn Fn(Lost) -> bool, one_way: Option<Spread>| {
        let sent = packets.iter().filter(|(_, lost)| crossed(*lost));
        let sent = sent.map(|(sent, lost)| Sent { lost: *lost == lost_here, ..*sent });
        let trace = LossTrace::timed(sent.collect());
        Way { losses: Losses::Packets(trace), seen: Seen { one_way, ..seen } }
    };
    let down =
        way(Lost::Down, &|lost| matches!(lost, Lost::No | Lost::Down), beyond_least(delays(|delays| delays.receive)));
    let up = way(Lost::Up, &|lost| lost != Lost::Either, beyond_least(delays(|delays| delays.send)));
    let mut remarks = vec!["The client of irtt is assumed to be the client behind the link.".to_owned()];
    if untold > 0 {
        remarks.push(format!("{untold} lost packets are excluded: irtt did not report their direction."));
    }
    Ok(Reading { form: Form::Irtt, down, up: Some(up), remarks })
}
