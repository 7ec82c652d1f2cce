//! Conversion of a report of `lasthop probe` into a link of a scenario.

mod behaviour;
mod form;
mod moving;

use self::behaviour::found;
use self::form::{Direction, Estimate, Load, Medium, Queue, Report};
use crate::scenario::{HalfDuplex, Link, Told, digits, milliseconds};

pub use self::behaviour::{Found, Spread};

/// Version of the format that is read.
const VERSION: u32 = 1;

/// Measured link, with the names of its traces.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Rates, delay and queues, each with its origin.
    pub link: Link,
    /// Rates in bits per second: down, up; `None` if the probe did not find one.
    pub rates: [Option<f64>; 2],
    /// Directions whose rates are lower bounds: `down`, `up`.
    pub at_least: Vec<&'static str>,
    /// Names of the trace files in the report's folder: down, up.
    pub traces: [String; 2],
    /// Names of the files with rates over time: down, up.
    pub rate_traces: [Option<String>; 2],
    /// Further behaviour: down, up.
    pub found: [Found; 2],
    /// Quantities that a scenario needs and the probe did not find (`rate`, `delay`), each with the reason.
    pub lacking: Vec<(&'static str, String)>,
}

/// Reason for which a text is not a report of a probe.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The text is not the JSON that a probe writes.
    #[error("not a probe.json written by `lasthop probe --out`: {0}")]
    Form(String),
    /// The report has another version.
    #[error("lasthop_probe = {0}: expected {VERSION}; measure again with this lasthop")]
    Version(u32),
    /// The report has an impossible value.
    #[error("{0}")]
    Value(String),
}

/// Reads a report.
///
/// # Errors
///
/// Returns a [`ProbeError`] with the expected form.
pub fn read(text: &str) -> Result<Measured, ProbeError> {
    let report: Report = serde_json::from_str(text).map_err(|error| {
        let said = error.to_string();
        ProbeError::Form(said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    })?;
    if report.lasthop_probe != VERSION {
        return Err(ProbeError::Version(report.lasthop_probe));
    }
    if let Some(delay) = report.one_way_delay_ms.filter(|delay| !(0.0..1e6).contains(delay)) {
        return Err(ProbeError::Value(format!("one_way_delay_ms = {delay}: expected milliseconds, 0 or more")));
    }
    let directions = [(&report.down, "down"), (&report.up, "up")];
    for (direction, name) in directions {
        check_direction(direction, name)?;
    }
    if let Some(medium) = &report.half_duplex {
        check(medium)?;
    }
    let mut found = directions.map(|(direction, name)| found(direction, name));
    let medium = report.half_duplex.as_ref();
    let aggregates = report.down.behaviour.iter().chain(&report.up.behaviour).any(|it| it.aggregation.is_some());
    // Aggregates have an access time instead of a frame overhead.
    let half_duplex = medium.map(|medium| half_duplex(medium, aggregates));
    let on_air = [0, 1].map(|at| medium.map(|medium| medium.rate_bps[at]).or(found[at].line_rate));
    let link = Link {
        half_duplex,
        rate: rate(&report.down, "down", on_air[0]),
        rate_up: Some(rate(&report.up, "up", on_air[1])),
        delay: delay(&report),
        queue: queue(&report.down, "down"),
        queue_up: Some(queue(&report.up, "up")),
        // The probe measured the whole path to the other end.
        wire_delay: Told { value: "0 ms".to_owned(), origin: "the probe measured the whole path".to_owned() },
        keys: found.iter_mut().flat_map(|found| std::mem::take(&mut found.keys)).collect(),
    };
    let lacking = lacking(&report);
    Ok(Measured {
        link,
        rates: [carries(&report.down), carries(&report.up)],
        at_least: directions.iter().filter(|(way, _)| way.rate_is_lower_bound).map(|(_, name)| *name).collect(),
        rate_traces: [&report.down, &report.up].map(|way| way.moving.as_ref().map(|moving| moving.trace.clone())),
        traces: [report.down.trace, report.up.trace],
        found,
        lacking,
    })
}

fn check_direction(direction: &Direction, name: &str) -> Result<(), ProbeError> {
    if let Some(rate) = direction.rate_bps.as_ref().filter(|rate| !(1.0..1e12).contains(&rate.value)) {
        return Err(ProbeError::Value(format!(
            "{name}.rate_bps.value = {}: expected bits per second, 1 to 1e12",
            rate.value
        )));
    }
    let behaviour = direction.behaviour.as_ref();
    let buckets = behaviour.map(|it| [it.policer, it.shaper]).into_iter().flatten().flatten();
    for bucket in buckets {
        if ![bucket.rate_bps, bucket.line_rate_bps].iter().all(|rate| (1.0..1e12).contains(rate)) {
            return Err(ProbeError::Value(format!(
                "{name}.behaviour: rates of a token bucket are {} and {}: expected bits per second, 1 to 1e12",
                bucket.rate_bps, bucket.line_rate_bps
            )));
        }
    }
    beside(&direction.trace, &format!("{name}.trace"))?;
    direction.moving.as_ref().map_or(Ok(()), |moving| {
        beside(&moving.trace, &format!("{name}.moving.trace"))?;
        moving::check(moving, name)
    })
}

/// Checks that `key` names a file beside the report.
fn beside(trace: &str, key: &str) -> Result<(), ProbeError> {
    let name_of_file = std::path::Path::new(trace).file_name().and_then(|name| name.to_str());
    match name_of_file {
        Some(name) if name == trace => Ok(()),
        _ => Err(ProbeError::Value(format!("{key} = {trace:?}: expected the name of a file beside this one"))),
    }
}

/// Reason used for an unknown quantity if the report states none.
const NOT_FOUND: &str = "not found by the probe";

/// Returns the reason for which a quantity is unknown.
fn reason(report: &Report, quantity: &str) -> String {
    let stated = report.down.unknown(quantity).or_else(|| report.up.unknown(quantity));
    stated.unwrap_or(NOT_FOUND).to_owned()
}

/// Returns the quantities that a scenario needs, that the probe did not find, and for which it has no substitute either
/// ([`carried`], [`typical_delay`]).
fn lacking(report: &Report) -> Vec<(&'static str, String)> {
    let mut lacking = Vec::new();
    if [&report.down, &report.up].into_iter().any(|direction| carries(direction).is_none()) {
        lacking.push(("rate", reason(report, "rate")));
    }
    if report.one_way_delay_ms.is_none() && typical_delay(report).is_none() {
        lacking.push(("delay", reason(report, "base_delay")));
    }
    lacking
}

/// Shortest load whose rate may replace an unknown rate, in seconds.
const LONG_ENOUGH: f64 = 0.25;

/// Returns the longest load, if it lasted long enough to show the link's capacity.
fn carried(direction: &Direction) -> Option<&Load> {
    direction.longest_load.as_ref().filter(|load| load.seconds >= LONG_ENOUGH && (1.0..1e12).contains(&load.rate_bps))
}

/// Returns the measured rate, or that of the longest load in its place, in bits per second.
fn carries(direction: &Direction) -> Option<f64> {
    direction.rate_bps.map(|rate| rate.value).or_else(|| carried(direction).map(|load| load.rate_bps))
}

/// Returns the one-way delay in milliseconds at which the simulated round trip has the measured median: half of that,
/// without the time on the air and the jitter that the scenario adds.
fn typical_delay(report: &Report) -> Option<f64> {
    let added = |direction: &Direction| {
        let jitter = direction.behaviour.as_ref().and_then(|it| it.jitter).map_or(0.0, |jitter| jitter.p50_ms);
        jitter + carries(direction).map_or(0.0, |rate| 1e3 * 8.0 * PING / rate)
    };
    let median = report.median_rtt_ms.filter(|median| (0.0..1e6).contains(median))?;
    Some(((median - added(&report.down) - added(&report.up)) / 2.0).max(0.0))
}

/// Size of a ping of the probe, headers included, in bytes.
const PING: f64 = 100.0;

fn delay(report: &Report) -> Told {
    if let Some(delay) = report.one_way_delay_ms {
        let origin = "lasthop probe: half of the minimum round trip, minus the transmission time".to_owned();
        return Told { value: milliseconds(delay), origin };
    }
    match typical_delay(report) {
        Some(delay) => {
            let origin = format!(
                "assumed: half of the median round trip, minus jitter, since the minimum delay is unknown ({}); --delay sets it",
                reason(report, "base_delay")
            );
            Told { value: milliseconds(delay), origin }
        }
        None => Told { value: "10 ms".to_owned(), origin: "assumed; --delay sets it".to_owned() },
    }
}

fn check(medium: &Medium) -> Result<(), ProbeError> {
    let Medium { rate_bps, frame_overhead_us, turnaround_us } = medium;
    if !rate_bps.iter().all(|rate| (1.0..1e12).contains(rate)) {
        return Err(ProbeError::Value(format!(
            "half_duplex.rate_bps = {rate_bps:?}: expected bits per second, 1 to 1e12"
        )));
    }
    for (key, value) in [("frame_overhead_us", frame_overhead_us.unwrap_or(0.0)), ("turnaround_us", *turnaround_us)] {
        if !(0.0..1e6).contains(&value) {
            return Err(ProbeError::Value(format!("half_duplex.{key} = {value}: expected microseconds, 0 to 1e6")));
        }
    }
    Ok(())
}

fn half_duplex(medium: &Medium, aggregates: bool) -> HalfDuplex {
    let told = |us: f64, origin: &str| Told { value: format!("{us} us"), origin: origin.to_owned() };
    let overhead = medium.frame_overhead_us;
    HalfDuplex {
        frame_overhead: (!aggregates).then(|| {
            overhead.map_or_else(
                || told(0.0, "lasthop probe did not find it; included in the rate"),
                |us| told(us, "lasthop probe: overhead of each frame"),
            )
        }),
        turnaround: told(medium.turnaround_us, "lasthop probe: time between frames of opposite directions"),
    }
}

/// Returns the rate of a direction. `on_air` is the rate during transmission if frames have overhead.
fn rate(direction: &Direction, way: &str, on_air: Option<f64>) -> Told {
    let kilobits = |value: f64| format!("{} kbps", (value / 1e3).round().max(1.0));
    let Some(Estimate { value, interval }) = direction.rate_bps else {
        let Some(load) = carried(direction) else {
            return Told { value: "10 Mbps".to_owned(), origin: "assumed; --rate sets it".to_owned() };
        };
        let why = direction.unknown("rate").unwrap_or(NOT_FOUND);
        let origin = format!(
            "assumed: rate at which a load of {:.2} s arrived {way}, since the rate is unknown ({why}); --rate sets it",
            load.seconds
        );
        return Told { value: kilobits(load.rate_bps), origin };
    };
    let megabits = |value: f64| digits(value / 1e6);
    if let Some(rate) = on_air {
        let buckets = direction.behaviour.as_ref().is_some_and(|it| it.policer.is_some() || it.shaper.is_some());
        let what = if direction.moving.is_some() {
            "away from the boundaries of slots; with them"
        } else if buckets {
            "while the bucket has tokens; beyond that"
        } else {
            "with the overhead per frame"
        };
        let origin = format!("lasthop probe, {way}; {what} {:.4} Mbps", megabits(value));
        return Told { value: kilobits(rate), origin };
    }
    let mut origin = format!("lasthop probe, {way}");
    if let Some([low, high]) = interval {
        let share = if direction.moving.is_some() { "5 and 95 % of its values" } else { "95 %" };
        origin += &format!("; {share}: {:.4} to {:.4} Mbps", megabits(low), megabits(high));
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
            let origin = if *filled { "" } else { "; at least this, since the probe did not fill it" };
            Told { value, origin: format!("lasthop probe, {way}{origin}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Verdict;

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
        assert_eq!((frame_overhead.unwrap().value.as_str(), turnaround.value.as_str()), ("101.5 us", "16 us"));
        assert_eq!((link.rate.value.as_str(), link.rate_up.unwrap().value.as_str()), ("24000 kbps", "12000 kbps"));
        assert_eq!(turns("null").half_duplex.unwrap().frame_overhead.unwrap().value, "0 us");
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
            ("\"one_way_delay_ms\": 20.125,", "\"one_way_delay_ms\": \"x\",", "not a probe.json"),
            (", \"trace\": \"up.csv\"", "", "not a probe.json"),
        ] {
            let said = read(&REPORT.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    fn with_behaviour(behaviour: &str) -> Measured {
        let text = format!(
            r#"{{ "lasthop_probe": 1, "one_way_delay_ms": 20, "down": {{ "rate_bps": {{ "value": 1e7, "interval": null }},
            "queue": null, "trace": "down.csv", "loss": {{ "packets": 1000, "lost": 0, "share": {{ "value": 0 }} }},
            "behaviour": {behaviour} }}, "up": {{ "rate_bps": {{ "value": 1e7, "interval": null }}, "queue": null, "trace": "up.csv" }} }}"#
        );
        read(&text).unwrap()
    }

    fn keys(measured: &Measured) -> Vec<(&str, &str)> {
        measured.link.keys.iter().map(|key| (key.key.as_str(), key.value.as_str())).collect()
    }

    /// A policer becomes a key, with the line's rate as the link's, and no cure is advised against it.
    #[test]
    fn a_policer_is_a_key_and_no_loss_to_repair() {
        let measured = with_behaviour(
            r#"{ "policer": { "rate_bps": 1e7, "burst_bytes": 65536, "line_rate_bps": 1e8 }, "unknown": [{ "quantity": "queue", "reason": "policed" }] }"#,
        );
        assert_eq!(keys(&measured), [("policer_down", "{ rate = \"10000 kbps\", burst = \"65536 B\" }")]);
        assert_eq!(measured.link.rate.value, "100000 kbps");
        let found = &measured.found[0];
        assert!(found.no_cure.as_ref().is_some_and(|why| why.contains("10 Mbps")));
        assert_eq!(found.unknown, ["queue down: policed"]);
        assert!(measured.found[1].no_cure.is_none());
    }

    /// Quantiles determine the jitter's distribution: normal, uniform or exponential; reordering needs free order.
    #[test]
    fn jitter_is_carried() {
        for (p50, p95, p99, expected) in [
            (30.0, 46.45, 53.0, "model = \"normal\", mean = \"30 ms\", deviation = \"10 ms\""),
            (10.0, 19.0, 19.8, "model = \"jitter\", up_to = \"20 ms\""),
            (6.93, 29.96, 46.05, "model = \"exponential\", mean = \"9.99788 ms\""),
        ] {
            let behaviour = format!(
                r#"{{ "jitter": {{ "p50_ms": {p50}, "p95_ms": {p95}, "p99_ms": {p99} }}, "reordering": {{ "share": 0.2, "by_ms_p95": 9 }} }}"#
            );
            let measured = with_behaviour(&behaviour);
            assert_eq!(
                keys(&measured),
                [("delay_variation_down", format!("{{ {expected}, order = \"free\" }}").as_str())]
            );
            assert_eq!(measured.found[0].delay.verdict, Verdict::Fits);
        }
    }

    /// Reordering without jitter is not modelled; with jitter it is tested on the trace.
    #[test]
    fn the_order_is_tried() {
        use crate::{LossTrace, Sent};
        use lasthop_proto::time::Duration;
        let sent = |number| Sent { at: Duration::from_millis(number), air: Duration::ZERO, bytes: 1228, lost: false };
        let trace = LossTrace::timed((0..2000).map(sent).collect());
        let without = with_behaviour(r#"{ "reordering": { "share": 0.03, "by_ms_p95": 9 } }"#);
        let said = without.found[0].order(&trace);
        assert!(said.verdict == Verdict::DoesNotFit && said.why.contains("3 %"), "{}", said.why);
        // With a spacing of 1 ms and 20 ms of jitter, most packets arrive after one sent later.
        let jitter = r#""jitter": { "p50_ms": 10, "p95_ms": 19, "p99_ms": 19.8 }"#;
        let of = |share: f64| {
            let behaviour = format!(r#"{{ {jitter}, "reordering": {{ "share": {share}, "by_ms_p95": 9 }} }}"#);
            with_behaviour(&behaviour).found[0].order(&trace).verdict
        };
        assert_eq!((of(0.75), of(0.01)), (Verdict::Fits, Verdict::DoesNotFit));
        assert_eq!(with_behaviour("{}").found[0].order(&trace).verdict, Verdict::Unknown);
    }

    #[test]
    fn varying_rates_slots_aggregates_and_duplicates_are_carried() {
        let measured = with_behaviour(
            r#"{ "varying_rate": { "least_bps": 2e6, "most_bps": 2e7, "series": [{ "at_s": -0.1, "rate_bps": 2e7 },
            { "at_s": 1.9, "rate_bps": 5e6 }, { "at_s": 3.9, "rate_bps": 2e6 }] }, "slots": { "interval_ms": 10 }, "duplicates": { "share": 0.2 } }"#,
        );
        let keys = keys(&measured);
        assert_eq!(keys[0].0, "rate_variation_down");
        assert!(
            keys[0].1.contains("{ at = \"2 s\", rate = \"5000 kbps\" }") && keys[0].1.contains("length = \"6 s\""),
            "{keys:?}"
        );
        assert_eq!(&keys[1..], [("slots_down", "\"10 ms\""), ("duplicates_down", "\"20 %\"")]);
        // A rate that varies too fast cannot be simulated, and no cure is advised.
        let fast = with_behaviour(r#"{ "varying_rate": { "least_bps": 2e6, "most_bps": 2e7, "series": [] } }"#);
        assert!(fast.link.keys.is_empty() && fast.found[0].no_cure.is_some());
        assert_eq!(fast.found[0].rate.verdict, Verdict::DoesNotFit);
        let wifi = with_behaviour(r#"{ "aggregation": { "packets_mean": 20, "interval_ms": 6 } }"#);
        assert_eq!(wifi.link.keys[0].value, "{ frames = 20, access = \"100 us\" }");
        // The link layer's retransmissions are unknown, so a cure must help with and without them.
        let found = &wifi.found[0];
        assert!(
            found.no_cure.is_none() && found.unknown.iter().any(|it| it.contains("retransmissions by the link layer"))
        );
        let [other] = &found.alternatives[..] else { panic!("{found:?}") };
        assert_eq!(other.key, "links.hop.aggregation_down");
        assert_eq!(other.value, "{ frames = 20, access = \"100 us\", frame_loss = 0.2 }");
    }

    fn with_moving(moving: &str) -> Result<Measured, ProbeError> {
        let varying = r#""varying_rate": { "least_bps": 2e6, "most_bps": 2e7, "series": [{ "at_s": 0, "rate_bps": 2e7 }, { "at_s": 30, "rate_bps": 2e6 }] }"#;
        let text = format!(
            r#"{{ "lasthop_probe": 1, "one_way_delay_ms": 20, "down": {{ "rate_bps": {{ "value": 1e7, "interval": [2e6, 2e7] }},
            "queue": null, "trace": "down.csv", "behaviour": {{ {varying} }}, "moving": {{ "summary": "10 Mbps on average", "why": "because",
            "trains": 300, "seconds": 60, "trace": "down-rate.csv", {moving} }} }},
            "up": {{ "rate_bps": {{ "value": 1e6, "interval": null }}, "queue": null, "trace": "up.csv" }} }}"#
        );
        read(&text)
    }

    /// Each family becomes a model of the rate, beside which the measured rates are replayed from random offsets.
    #[test]
    fn rates_that_move_become_models_and_replays() {
        let replay = r#"{ model = "replay", file = "down-rate.csv", offset = "random", wrap = "repeat" }"#;
        let slots = r#""slots": { "period_s": 15, "first_s": 3.5, "mean_bps": 1.1e7, "spread": 0.2, "inner": 0.1, "outage_ms": [60, 135], "outage_seen": false, "slots": 5 }"#;
        let states = r#""states": [{ "rate_bps": 2e6, "mean_s": 0.5, "next": [0, 1] }, { "rate_bps": 2e7, "mean_s": 2, "next": [1, 0] }]"#;
        let steps = r#""steps": [{ "at_s": 0.1, "rate_bps": 2e7 }, { "at_s": 30.1, "rate_bps": 2e6 }]"#;
        for (family, fits, parameters, expected) in [
            ("slots", "true", slots, r#"first = "3.5 s", spread = 0.2, inner = 0.1, outage = ["60 ms", "135 ms"]"#),
            ("markov", "true", states, r#"{ rate = "2000 kbps", mean = "0.5 s", next = [0, 1] }"#),
            ("steps", "false", steps, r#"{ at = "30 s", rate = "2000 kbps" }], length = "59.9 s", wrap = "repeat""#),
        ] {
            let measured = with_moving(&format!(r#""family": "{family}", "fits": {fits}, {parameters}"#)).unwrap();
            let [key] = &measured.link.keys[..] else { panic!("{:?}", measured.link.keys) };
            assert!(key.key == "rate_variation_down" && key.value.contains(expected), "{}", key.value);
            let [other] = &measured.found[0].alternatives[..] else { panic!("{family}") };
            assert_eq!((other.key.as_str(), other.value.as_str()), ("links.hop.rate_variation_down", replay));
            let verdict = if fits == "true" { Verdict::Fits } else { Verdict::DoesNotFit };
            assert_eq!(measured.found[0].rate.verdict, verdict);
        }
        // Away from the boundaries of slots the rate is higher than on average.
        let slots = with_moving(&format!(r#""family": "slots", "fits": true, {slots}"#)).unwrap();
        assert_eq!(slots.link.rate.value, "11000 kbps");
        assert!(slots.found[0].assumed.iter().any(|it| it.contains("pause at a boundary")));
        for (family, verdict) in [("replay", Verdict::Fits), ("unknown", Verdict::Unknown), ("cell", Verdict::Unknown)]
        {
            let measured = with_moving(&format!(r#""family": "{family}", "fits": null"#)).unwrap();
            assert_eq!(measured.link.keys[0].value, replay, "{family}");
            assert_eq!(measured.found[0].rate.verdict, verdict, "{family}");
            assert!(measured.found[0].alternatives.is_empty());
        }
        let constant = with_moving(r#""family": "constant", "fits": true"#).unwrap();
        assert!(constant.link.keys.is_empty() && constant.found[0].rate.verdict == Verdict::Fits);
        assert_eq!(constant.rate_traces, [Some("down-rate.csv".to_owned()), None]);
    }

    #[test]
    fn impossible_models_of_a_rate_are_refused() {
        for (moving, expected) in [
            (r#""family": "markov", "fits": true, "states": [{ "rate_bps": 1, "mean_s": 1, "next": [1] }]"#, "states"),
            (r#""family": "steps", "fits": true, "steps": [{ "at_s": 61, "rate_bps": 1e6 }]"#, "steps"),
            (r#""family": "cell", "fits": null, "interval_ms": 0"#, "interval_ms"),
            (
                r#""family": "slots", "fits": true, "slots": { "period_s": 15, "first_s": 3, "mean_bps": 1e6, "spread": 0.2, "inner": 0.1,
                "outage_ms": [60, 15000], "outage_seen": true, "slots": 5 }"#,
                "slots",
            ),
        ] {
            let said = with_moving(moving).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    /// An unknown rate or delay is replaced by a value derived from the carried load, marked as assumed with the
    /// reason. Without a load, the user must give the value.
    #[test]
    fn an_unknown_quantity_has_a_substitute_or_is_lacking() {
        let text = REPORT.replace("\"one_way_delay_ms\": 20.125", "\"one_way_delay_ms\": null, \"median_rtt_ms\": 44").replacen(
            "{ \"value\": 20123456.0, \"interval\": [2e7, 2.02e7] }",
            "null, \"behaviour\": { \"jitter\": { \"p50_ms\": 3, \"p95_ms\": 6, \"p99_ms\": 7 }, \"unknown\": [{ \"quantity\": \"rate\", \"reason\": \"bursts\" }, { \"quantity\": \"new_one\", \"reason\": \"x\" }] }",
            1,
        );
        let measured = read(&text).unwrap();
        assert_eq!(measured.lacking, [("rate", "bursts".to_owned())]);
        assert_eq!(measured.found[0].rate.verdict, Verdict::Unknown);
        assert_eq!(measured.found[0].unknown, ["new one down: x"]);
        let Told { value, origin } = measured.link.delay;
        // 44 ms, less 3 ms of jitter, less 100 bytes at 1 Mbps; both ways.
        assert_eq!(value, "20.1 ms");
        assert!(origin.starts_with("assumed: half of the median round trip"), "{origin}");
        let load = r#"null, "longest_load": { "bytes": 600000, "seconds": 1.2, "rate_bps": 4e6 }, "behaviour""#;
        let measured = read(&text.replacen("null, \"behaviour\"", load, 1)).unwrap();
        assert_eq!(measured.lacking, []);
        assert_eq!((measured.link.rate.value.as_str(), measured.rates[0]), ("4000 kbps", Some(4e6)));
        assert!(measured.link.rate.origin.contains("(bursts)"), "{}", measured.link.rate.origin);
        let without = text.replace("\"median_rtt_ms\": 44", "\"median_rtt_ms\": null");
        assert_eq!(read(&without).unwrap().lacking[1].0, "delay");
    }
}
