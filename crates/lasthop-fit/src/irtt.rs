//! JSON of `irtt client -o`: the packets of a measurement.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Report of a measurement.
#[derive(Debug, Deserialize)]
pub struct Report {
    config: Config,
    #[serde(default)]
    stats: Stats,
    /// Packets, in their order of transmission.
    round_trips: Vec<RoundTrip>,
}

#[derive(Debug, Deserialize)]
struct Config {
    params: Params,
    #[serde(default)]
    ip_version: String,
}

#[derive(Debug, Deserialize)]
struct Params {
    interval: i64,
    length: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
struct Stats {
    #[serde(default)]
    duplicates: u64,
    #[serde(default)]
    late_packets: u64,
}

/// Loss of a packet or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// Both arrived.
    No,
    /// One of the two was lost.
    Either,
    /// The packet was lost on the uplink.
    Up,
    /// The answer was lost on the downlink.
    Down,
}

impl<'de> Deserialize<'de> for Lost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match text.as_str() {
            "false" => Ok(Self::No),
            "true" => Ok(Self::Either),
            "true_up" => Ok(Self::Up),
            "true_down" => Ok(Self::Down),
            _ => Err(serde::de::Error::custom("lost is none of false, true, true_up, true_down")),
        }
    }
}

/// A packet and its answer.
#[derive(Debug, Deserialize)]
struct RoundTrip {
    lost: Lost,
    timestamps: Timestamps,
    #[serde(default)]
    delay: Delays,
}

#[derive(Debug, Deserialize)]
struct Timestamps {
    client: Client,
}

#[derive(Debug, Deserialize)]
struct Client {
    send: Stamp,
}

/// Timestamps in nanoseconds.
#[derive(Debug, Deserialize)]
struct Stamp {
    wall: Option<i64>,
    monotonic: Option<i64>,
}

/// Delays in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct Delays {
    /// Of both.
    pub rtt: Option<i64>,
    /// Of the packet, on the uplink. Includes the difference of the clocks.
    pub send: Option<i64>,
    /// Of the answer, on the downlink.
    pub receive: Option<i64>,
}

/// A packet of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    /// Time at which it was sent, in nanoseconds since any instant.
    pub sent: i64,
    /// Its loss.
    pub lost: Lost,
    /// Its delays.
    pub delays: Delays,
}

/// Error in a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadReport {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// Problem, on one line.
    pub what: String,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    ///
    /// Returns [`BadReport`] for other contents.
    pub fn read(text: &[u8]) -> Result<Self, BadReport> {
        serde_json::from_slice(text).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            let what: String = what.chars().filter(|c| !c.is_control()).take(120).collect();
            let what = format!("expected the JSON of `irtt client -o`: {what}");
            BadReport { line: error.line().max(1), column: error.column(), what }
        })
    }

    /// Returns the packets, in their order of transmission. Their times are those of one clock: the monotonic one,
    /// which does not step, if every packet has it, otherwise the wall clock, otherwise the interval.
    pub fn trips(&self) -> impl ExactSizeIterator<Item = Trip> {
        let all = |of: fn(&Stamp) -> Option<i64>| {
            self.round_trips.iter().all(|trip| of(&trip.timestamps.client.send).is_some())
        };
        let (is_monotonic, is_wall) = (all(|stamp| stamp.monotonic), all(|stamp| stamp.wall));
        self.round_trips.iter().enumerate().map(move |(number, trip)| {
            let stamp = &trip.timestamps.client.send;
            let clock = match (is_monotonic, is_wall) {
                (true, _) => stamp.monotonic,
                (false, true) => stamp.wall,
                (false, false) => None,
            };
            let by_interval = || self.config.params.interval.saturating_mul(number as i64);
            Trip { sent: clock.unwrap_or_else(by_interval), lost: trip.lost, delays: trip.delay }
        })
    }

    /// Returns the payload of a packet in bytes, if reported.
    pub const fn length(&self) -> Option<u32> {
        self.config.params.length
    }

    /// Returns whether the packets were sent over IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.config.ip_version.contains('6')
    }

    /// Returns the number of duplicates.
    pub const fn duplicates(&self) -> u64 {
        self.stats.duplicates
    }

    /// Returns the number of answers that arrived after later ones.
    pub const fn late_packets(&self) -> u64 {
        self.stats.late_packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the send times of packets with these stamps.
    fn sent(stamps: &[&str]) -> Vec<i64> {
        let trip =
            |stamp: &&str| format!("{{\"lost\": false, \"timestamps\": {{\"client\": {{\"send\": {{{stamp}}}}}}}}}");
        let trips: Vec<_> = stamps.iter().map(trip).collect();
        let text =
            format!("{{\"config\": {{\"params\": {{\"interval\": 20}}}}, \"round_trips\": [{}]}}", trips.join(","));
        Report::read(text.as_bytes()).unwrap().trips().map(|trip| trip.sent).collect()
    }

    /// Times of two clocks cannot be compared.
    #[test]
    fn all_times_are_of_one_clock() {
        assert_eq!(sent(&["\"monotonic\": 5, \"wall\": 900", "\"monotonic\": 7"]), [5, 7]);
        assert_eq!(sent(&["\"monotonic\": 5, \"wall\": 900", "\"wall\": 921"]), [900, 921]);
        assert_eq!(sent(&["\"monotonic\": 5", "\"wall\": 921", ""]), [0, 20, 40]);
    }

    #[test]
    fn losses_are_words_or_booleans() {
        let read = |text: &str| serde_json::from_str::<Lost>(text).ok();
        for (text, lost) in [
            ("true", Lost::Either),
            ("\"true\"", Lost::Either),
            ("false", Lost::No),
            ("\"true_up\"", Lost::Up),
            ("\"true_down\"", Lost::Down),
        ] {
            assert_eq!(read(text), Some(lost), "{text}");
        }
        assert_eq!((read("7"), read("\"down\"")), (None, None));
    }
}
