//! What `lasthop probe` found, as a link that a scenario describes.

use serde::Deserialize;

use crate::scenario::{HalfDuplex, Link, Told};

/// The form that is read.
const VERSION: u32 = 1;

/// A link that was measured, and where its losses are.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Rates, delay and queues, each with its origin.
    pub link: Link,
    /// Bits a second: down, up.
    pub rates: [f64; 2],
    /// Ways of which these are lower bounds: `down`, `up`.
    pub at_least: Vec<&'static str>,
    /// Names of the traces' files, beside the report: down, up.
    pub traces: [String; 2],
}

/// Why a text is no report of a probe.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProbeError {
    /// Not the JSON that a probe writes.
    #[error("expected probe.json as `lasthop probe --out` writes it: {0}")]
    Form(String),
    /// Of another version of lasthop.
    #[error("lasthop_probe = {0}: expected {VERSION}; measure again with this lasthop")]
    Version(u32),
    /// A number that no link has.
    #[error("{0}")]
    Value(String),
}

#[derive(Deserialize)]
struct Report {
    lasthop_probe: u32,
    one_way_delay_ms: f64,
    /// Reports from before it was looked for have none.
    #[serde(default)]
    half_duplex: Option<Medium>,
    down: Direction,
    up: Direction,
}

#[derive(Deserialize)]
struct Medium {
    rate_bps: [f64; 2],
    frame_overhead_us: Option<f64>,
    turnaround_us: f64,
}

#[derive(Deserialize)]
struct Direction {
    rate_bps: Estimate,
    #[serde(default)]
    rate_is_lower_bound: bool,
    queue: Option<Queue>,
    trace: String,
}

#[derive(Deserialize)]
struct Estimate {
    value: f64,
    interval: Option<[f64; 2]>,
}

#[derive(Deserialize)]
struct Queue {
    packets: u32,
    bytes: u64,
    filled: bool,
    bound: String,
}

/// Reads a report.
///
/// # Errors
///
/// [`ProbeError`], which says what would be right.
pub fn read(text: &str) -> Result<Measured, ProbeError> {
    let report: Report = serde_json::from_str(text).map_err(|error| ProbeError::Form(error.to_string()))?;
    if report.lasthop_probe != VERSION {
        return Err(ProbeError::Version(report.lasthop_probe));
    }
    let delay = report.one_way_delay_ms;
    if !(0.0..1e6).contains(&delay) {
        return Err(ProbeError::Value(format!("one_way_delay_ms = {delay}: expected milliseconds from 0 on")));
    }
    let directions = [(&report.down, "down"), (&report.up, "up")];
    for (direction, name) in directions {
        if !(1.0..1e12).contains(&direction.rate_bps.value) {
            let value = direction.rate_bps.value;
            return Err(ProbeError::Value(format!(
                "{name}.rate_bps.value = {value}: expected bits a second, 1 to 1e12"
            )));
        }
        let name_of_file = std::path::Path::new(&direction.trace).file_name().and_then(|name| name.to_str());
        if name_of_file != Some(&direction.trace) {
            let trace = &direction.trace;
            return Err(ProbeError::Value(format!(
                "{name}.trace = {trace:?}: expected the name of a file beside this one"
            )));
        }
    }
    if let Some(medium) = &report.half_duplex {
        check(medium)?;
    }
    let medium = report.half_duplex.as_ref();
    let half_duplex = medium.map(half_duplex);
    let link = Link {
        half_duplex,
        rate: rate(&report.down, "down", medium.map(|medium| medium.rate_bps[0])),
        rate_up: Some(rate(&report.up, "up", medium.map(|medium| medium.rate_bps[1]))),
        delay: Told {
            value: format!("{} ms", digits(delay)),
            origin: "lasthop probe: half of the least round trip, less the time on the air".to_owned(),
        },
        queue: queue(&report.down, "down"),
        queue_up: Some(queue(&report.up, "up")),
        // What was measured is the whole path to the other end.
        wire_delay: Told { value: "0 ms".to_owned(), origin: "the probe measured the whole path".to_owned() },
    };
    Ok(Measured {
        link,
        rates: [report.down.rate_bps.value, report.up.rate_bps.value],
        at_least: directions.iter().filter(|(way, _)| way.rate_is_lower_bound).map(|(_, name)| *name).collect(),
        traces: [report.down.trace, report.up.trace],
    })
}

/// Six significant digits.
fn digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn check(medium: &Medium) -> Result<(), ProbeError> {
    let Medium { rate_bps, frame_overhead_us, turnaround_us } = medium;
    if !rate_bps.iter().all(|rate| (1.0..1e12).contains(rate)) {
        return Err(ProbeError::Value(format!(
            "half_duplex.rate_bps = {rate_bps:?}: expected bits a second, 1 to 1e12"
        )));
    }
    for (key, value) in [("frame_overhead_us", frame_overhead_us.unwrap_or(0.0)), ("turnaround_us", *turnaround_us)] {
        if !(0.0..1e6).contains(&value) {
            return Err(ProbeError::Value(format!("half_duplex.{key} = {value}: expected microseconds, 0 to 1e6")));
        }
    }
    Ok(())
}

fn half_duplex(medium: &Medium) -> HalfDuplex {
    let told = |us: f64, origin: &str| Told { value: format!("{us} us"), origin: origin.to_owned() };
    HalfDuplex {
        frame_overhead: medium.frame_overhead_us.map_or_else(
            || told(0.0, "lasthop probe did not find it; it is part of the rate"),
            |us| told(us, "lasthop probe: what each frame takes beside its bytes"),
        ),
        turnaround: told(medium.turnaround_us, "lasthop probe: from a frame of one way to one of the other"),
    }
}

/// `on_air`: the rate while a frame's bytes are, where frames take time besides.
fn rate(direction: &Direction, way: &str, on_air: Option<f64>) -> Told {
    let Estimate { value, interval } = direction.rate_bps;
    let kilobits = |value: f64| format!("{} kbps", (value / 1e3).round().max(1.0));
    let megabits = |value: f64| digits(value / 1e6);
    if let Some(rate) = on_air {
        let origin = format!("lasthop probe, {way}; with what a frame takes besides {:.4} Mbps", megabits(value));
        return Told { value: kilobits(rate), origin };
    }
    let mut origin = format!("lasthop probe, {way}");
    if let Some([low, high]) = interval {
        origin += &format!("; 95 %: {:.4} to {:.4} Mbps", megabits(low), megabits(high));
    }
    if direction.rate_is_lower_bound {
        origin += "; or more";
    }
    Told { value: kilobits(value), origin }
}

fn queue(direction: &Direction, way: &str) -> Told {
    match &direction.queue {
        None => Told {
            value: "100 packets".to_owned(),
            origin: format!("assumed: the probe could not fill the queue {way}"),
        },
        Some(Queue { packets, bytes, filled, bound }) => {
            let value = if bound == "bytes" {
                format!("{} B", bytes.max(&1500))
            } else {
                format!("{} packets", packets.max(&1))
            };
            let origin = if *filled { "" } else { "; it holds this or more: the probe did not fill it" };
            Told { value, origin: format!("lasthop probe, {way}{origin}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{
        "lasthop_probe": 1, "server": "x", "one_way_delay_ms": 20.125,
        "down": { "rate_bps": { "value": 20123456.0, "interval": [2e7, 2.02e7] }, "queue":
            { "packets": 50, "bytes": 75000, "filled": true, "bound": "packets" }, "trace": "down.csv" },
        "up": { "rate_bps": { "value": 1e6, "interval": null }, "queue": null, "trace": "up.csv" }
    }"#;

    #[test]
    fn a_report_becomes_a_link() {
        let measured = read(REPORT).unwrap();
        let Link { rate, rate_up, delay, queue, queue_up, .. } = measured.link;
        assert_eq!((rate.value.as_str(), delay.value.as_str()), ("20123 kbps", "20.125 ms"));
        assert_eq!((queue.value.as_str(), rate_up.unwrap().value.as_str()), ("50 packets", "1000 kbps"));
        assert!(queue_up.unwrap().origin.starts_with("assumed"));
        let bytes = REPORT.replace("\"bound\": \"packets\"", "\"bound\": \"bytes\"");
        assert_eq!(read(&bytes).unwrap().link.queue.value, "75000 B");
    }

    #[test]
    fn a_medium_on_which_the_ways_take_turns_is_kept() {
        let turns = |overhead: &str| {
            let medium = format!(
                r#""half_duplex": {{ "rate_bps": [24e6, 12e6], "frame_overhead_us": {overhead}, "turnaround_us": 16 }}, "down": {{ "#
            );
            read(&REPORT.replacen("\"down\": { ", &medium, 1)).unwrap().link
        };
        let link = turns("101.5");
        let HalfDuplex { frame_overhead, turnaround } = link.half_duplex.unwrap();
        assert_eq!((frame_overhead.value.as_str(), turnaround.value.as_str()), ("101.5 us", "16 us"));
        assert_eq!((link.rate.value.as_str(), link.rate_up.unwrap().value.as_str()), ("24000 kbps", "12000 kbps"));
        assert_eq!(turns("null").half_duplex.unwrap().frame_overhead.value, "0 us");
        assert_eq!(read(REPORT).unwrap().link.half_duplex, None);
        assert!(
            read(&REPORT.replacen(
                "\"down\"",
                r#""half_duplex": { "rate_bps": [0, 1], "frame_overhead_us": 1, "turnaround_us": 1 }, "down""#,
                1
            ))
            .is_err()
        );
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for (from, to, expected) in [
            ("\"lasthop_probe\": 1", "\"lasthop_probe\": 2", "expected 1"),
            ("20.125", "-1", "one_way_delay_ms"),
            ("1e6", "0", "up.rate_bps.value"),
            ("down.csv", "../down.csv", "down.trace"),
            ("\"one_way_delay_ms\": 20.125,", "", "expected probe.json"),
        ] {
            let said = read(&REPORT.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
