//! JSON of `irtt client -o`.

use lasthop_proto::time::Duration;
use serde::Deserialize;

use super::lines::plain;
use super::{Form, Losses, ReadError, Reading, Way, wrong};
use crate::seen::{Seen, Spread};
use crate::trace::{LossTrace, Sent};

/// Bytes of the headers of IP (version 4, version 6) and UDP.
const HEADERS: [u32; 2] = [28, 48];

#[derive(Deserialize)]
struct Report {
    config: Config,
    stats: Stats,
    round_trips: Vec<RoundTrip>,
}

#[derive(Deserialize)]
struct Config {
    params: Params,
    #[serde(default)]
    ip_version: String,
}

#[derive(Deserialize)]
struct Params {
    interval: u64,
    length: u32,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    duplicates: u64,
    #[serde(default)]
    late_packets: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Lost {
    False,
    True,
    TrueUp,
    TrueDown,
}

#[derive(Deserialize)]
struct RoundTrip {
    lost: Lost,
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

/// Returns whether an object has the keys of irtt's report, without parsing it.
pub(super) fn is_irtt(text: &str) -> bool {
    text.contains("\"round_trips\"")
}

pub(super) fn read(text: &str, most: usize) -> Result<Reading, ReadError> {
    let report: Report = serde_json::from_str(text).map_err(|error| {
        wrong(error.line().max(1) - 1, format!("expected the JSON of `irtt client -o`: {}", plain(&error.to_string())))
    })?;
    if report.round_trips.len() > most {
        return Err(ReadError::Long(most));
    }
    let Params { interval, length } = report.config.params;
    let bytes = length.saturating_add(HEADERS[usize::from(report.config.ip_version.contains('6'))]);
    let begin = report.round_trips.first().and_then(|trip| trip.timestamps.client.sent());
    let packets: Vec<(Sent, Lost)> = report
        .round_trips
        .iter()
        .zip(0_u64..)
        .map(|(trip, number)| {
            let since = trip.timestamps.client.sent().zip(begin).and_then(|(sent, begin)| sent.checked_sub(begin));
            let nanos = since.map_or(number.saturating_mul(interval), |nanos| nanos.max(0) as u64);
            let at = Duration::from_nanos(nanos);
            (Sent { at, air: Duration::ZERO, bytes, lost: trip.lost != Lost::False }, trip.lost)
        })
        .collect();
    let delays = |of: fn(&Delay) -> Option<i64>| -> Vec<f64> {
        report.round_trips.iter().filter_map(|trip| of(&trip.delay)).map(|nanos| nanos as f64 / 1e9).collect()
    };
    let beyond_least = |mut delays: Vec<f64>| {
        let least = delays.iter().copied().fold(f64::INFINITY, f64::min);
        delays.iter_mut().for_each(|delay| *delay -= least);
        Spread::of(&mut delays)
    };
    let seen = Seen {
        arrived: packets.iter().filter(|(sent, _)| !sent.lost).count() as u64,
        round_trip: Spread::of(&mut delays(|delay| delay.rtt)),
        reordered: Some(report.stats.late_packets),
        duplicates: Some(report.stats.duplicates),
        ..Seen::default()
    };
    let count = |what: Lost| packets.iter().filter(|(_, lost)| *lost == what).count();
    let (told, untold) = (count(Lost::TrueUp) + count(Lost::TrueDown), count(Lost::True));
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
    let down = way(
        Lost::TrueDown,
        &|lost| matches!(lost, Lost::False | Lost::TrueDown),
        beyond_least(delays(|delay| delay.receive)),
    );
    let up = way(Lost::TrueUp, &|lost| lost != Lost::True, beyond_least(delays(|delay| delay.send)));
    let mut remarks = vec!["The client of irtt is assumed to be the client behind the link.".to_owned()];
    if untold > 0 {
        remarks.push(format!("{untold} lost packets are excluded: irtt did not report their direction."));
    }
    Ok(Reading { form: Form::Irtt, down, up: Some(up), remarks })
}

impl Client {
    fn sent(&self) -> Option<i64> {
        self.send.monotonic.or(self.send.wall)
    }
}
