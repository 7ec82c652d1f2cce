//! Conversion of a measurement to the link of a scenario: results of a probe, a packet capture, lists of losses.
//!
//! A channel model is fitted to the losses. Rate, delay and queue come from the measurement, from the user, or are
//! assumed; the scenario states the origin.

pub(crate) mod access;
mod captured;
pub(crate) mod error;
mod one_way;
mod probed;
mod traces;
mod values;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lasthop_diagnose::Vantage;
use lasthop_diagnose::capture::is_capture;
use lasthop_fit::Clock;
use lasthop_fit::measurement::Notes;
use lasthop_fit::read::Reading;
use lasthop_fit::scenario::{Direction, Link, scenario};
use lasthop_scenario::one_line;
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use serde_json::{Value, json};

pub use self::access::{Access, Files, NamedFile};
use self::error::failed;
pub use self::error::{LinkError, lacks};
use self::probed::probed;
pub use self::traces::Fitted;
use self::values::{ASSUMED, assumed, link_of};

/// Properties of the link given by the user. They take precedence over the measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Given {
    /// Rate.
    pub rate: Option<BitRate>,
    /// One-way delay.
    pub delay: Option<TimeSpan>,
    /// One-way delay of the path behind the base station.
    pub wire_delay: Option<TimeSpan>,
    /// Queue in front of the lossy link.
    pub queue: Option<QueueSize>,
    /// Interval between packets, for a list of losses without times.
    pub interval: Option<TimeSpan>,
    /// Place of a capture.
    pub at: Option<Vantage>,
}

impl Given {
    /// Sets the property `key` (`rate`, `delay`, `wire-delay`, `queue`, `interval`, `at`).
    ///
    /// # Errors
    ///
    /// Returns the problem with `text`, and the correct form.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "rate" => self.rate = Some(bit_rate(text)?),
            "delay" => self.delay = Some(time_span(text)?),
            "wire-delay" => self.wire_delay = Some(time_span(text)?),
            "queue" => self.queue = Some(text.parse::<QueueSize>().map_err(|error| error.to_string())?),
            "interval" => self.interval = Some(time_span(text)?),
            "at" => self.at = Some(place(text)?),
            _ => {
                return Err(format!(
                    "unknown property {key}; expected one of rate, delay, wire-delay, queue, interval, at"
                ));
            }
        }
        Ok(())
    }
}

/// Parses a rate, such as `10 Mbps`.
///
/// # Errors
///
/// Returns the problem with `text`, and the correct form.
pub fn bit_rate(text: &str) -> Result<BitRate, String> {
    match text.parse() {
        Ok(BitRate(0)) => Err("expected a rate above zero, e.g. \"10 Mbps\"".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(format!("{error}; give a rate with its unit, e.g. \"10 Mbps\"")),
    }
}

/// Parses a span of time, such as `1.5 s`.
///
/// # Errors
///
/// Returns the problem with `text`, and the correct form.
pub fn time_span(text: &str) -> Result<TimeSpan, String> {
    text.parse().map_err(|error| format!("{error}; give a time with its unit, e.g. \"1.5 s\" or \"20 ms\""))
}

/// Parses the place of a capture, relative to the sender of the data.
///
/// # Errors
///
/// Returns a message with the known places.
pub fn place(text: &str) -> Result<Vantage, String> {
    match text {
        "sender" => Ok(Vantage::Sender),
        "gateway" => Ok(Vantage::Gateway),
        "receiver" => Ok(Vantage::Receiver),
        _ => Err("expected sender, gateway or receiver: the capture location relative to the data sender".to_owned()),
    }
}

/// Source of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `lasthop probe`.
    Probe,
    /// A packet capture.
    Capture,
    /// Losses alone.
    Trace,
}

/// A measured link.
#[derive(Clone, Debug)]
pub struct MeasuredLink {
    /// Name of the measurement.
    pub name: String,
    /// Source of the measurement.
    pub source: Source,
    /// Losses in the direction of the client.
    pub down: Fitted,
    /// Losses in the direction from the client.
    pub up: Option<Fitted>,
    /// Remark in a sentence: the part of a larger measurement that was used, or that its rate is a lower bound.
    pub remark: Option<String>,
    /// Diagnosis of a capture, and the number of the flow that was used.
    pub diagnosis: Option<(lasthop_diagnose::Report, usize)>,
    link: Link,
    /// Files with measured rates over time: name in the scenario, and path.
    rate_traces: Vec<(String, PathBuf)>,
    /// Directions whose rate may be higher than measured: `down`, `up`.
    at_least: Vec<&'static str>,
    lacking: Vec<&'static str>,
    /// Reasons why a value is missing, in parentheses.
    why_lacking: String,
    /// Notes about the measurement that the scenario does not contain, except for the statements of its directions.
    notes: Notes,
}

/// Returns whether a path is a measurement instead of a scenario: a list of losses, or a path as for [`tells_of_link`].
pub fn is_measurement(path: &Path) -> bool {
    const LISTS: [&str; 4] = ["csv", "txt", "log", "out"];
    path.extension().is_some_and(|extension| LISTS.iter().any(|list| extension == *list)) || tells_of_link(path)
}

/// Returns whether a path is a measurement of more than losses: a probe's folder or report, or a capture.
pub fn tells_of_link(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "json") || path.join(REPORT).is_file() {
        return true;
    }
    if is_named_as_capture(path) {
        return true;
    }
    let mut begin = [0; 4];
    // Files that cannot be read are reported elsewhere.
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && is_capture(&begin)
}

/// Checks that `path` exists, and that a folder contains a probe's report.
///
/// # Errors
///
/// Returns an error that names the missing file.
pub fn present(path: &Path) -> Result<(), LinkError> {
    let about = std::fs::metadata(path).map_err(failed(path))?;
    if about.is_dir() && !path.join(REPORT).is_file() { Err(no_report(path)) } else { Ok(()) }
}

/// Name of the report in a probe's folder.
const REPORT: &str = "probe.json";

/// Returns the error of a folder without a report, such as one from a probe that was stopped early.
fn no_report(path: &Path) -> LinkError {
    let what = format!("contains no {REPORT}; give a folder written by a completed `lasthop probe --out`");
    failed(path)(io::Error::new(io::ErrorKind::NotFound, what))
}

/// Returns whether the name of a file, which may be empty, is that of a capture.
fn is_named_as_capture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng")
}

/// Reads a measurement and fits models to its losses: a probe's folder or report, a capture, or losses `down` and `up`.
///
/// # Errors
///
/// Returns a [`LinkError`] that names the file.
pub fn measured(down: &Path, up: Option<&Path>, given: &Given) -> Result<MeasuredLink, LinkError> {
    measured_from(&Access::DISK, down, up, given)
}

/// Reads a measurement as [`measured`], from the files of `access`.
///
/// # Errors
///
/// Returns a [`LinkError`] that names the file.
pub fn measured_from(
    access: &Access<'_>,
    down: &Path,
    up: Option<&Path>,
    given: &Given,
) -> Result<MeasuredLink, LinkError> {
    let rate = given.rate.map(|BitRate(rate)| rate as f64);
    let up = up.map(|path| one_way::one_way(access, path, given, rate)).transpose()?;
    if let Some(measured) = probed(access, down, given, up.clone())? {
        return Ok(measured);
    }
    if begins_as_capture(access, down)? {
        return captured::measured(access, down, given, up);
    }
    let Reading { form, down: way, up: way_up, remarks } = one_way::read(access, down, given)?;
    let has_two_ways = way_up.is_some();
    let fitted = Fitted::of(access, down, (way, form), rate, has_two_ways)?;
    let way_up = way_up.filter(|_| up.is_none());
    let way_up = way_up.map(|way| Fitted::of(access, down, (way, form), rate, has_two_ways)).transpose()?;
    let mut notes = Notes::default();
    if form.is_round_trip() && !has_two_ways {
        notes.assumed.push(
            "direction of losses: down for all of them, though echoes can be lost in either direction".to_owned(),
        );
    }
    if form.is_round_trip() && fitted.clock == Clock::Unknown && fitted.report.lost > 0 {
        // Echoes are far apart: two consecutive losses may be two packets of a transfer, or a hundred.
        notes.no_cure = Some(
            "the echoes have no times, so the duration of loss periods is unknown, on which every cure depends; give --interval, the \
             time between them"
                .to_owned(),
        );
    }
    let mut lacking = Vec::new();
    lacking.extend(given.rate.is_none().then_some("rate"));
    lacking.extend(given.delay.is_none().then_some("delay"));
    Ok(MeasuredLink {
        name: one_line(&down.display().to_string()),
        source: Source::Trace,
        down: fitted,
        up: way_up.or(up),
        remark: (!remarks.is_empty()).then(|| remarks.join(" ")),
        diagnosis: None,
        link: link_of(given, assumed()),
        rate_traces: Vec::new(),
        at_least: Vec::new(),
        lacking,
        why_lacking: String::new(),
        notes,
    })
}

impl MeasuredLink {
    /// Returns the link as a scenario, each value with its origin, for the current directory.
    ///
    /// # Errors
    ///
    /// Returns an error if its rate or its delay is neither measured nor given.
    pub fn scenario(&self) -> Result<String, LinkError> {
        self.scenario_with(|_, path| path.display().to_string())
    }

    /// Returns the link as a scenario that is written to `out`, and the files of measured rates that belong beside it:
    /// the path of each and that of its source.
    ///
    /// # Errors
    ///
    /// Returns an error if its rate or its delay is neither measured nor given.
    pub fn scenario_beside(&self, out: &Path) -> Result<(String, Vec<[PathBuf; 2]>), LinkError> {
        let stem = out.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let beside = |name: &str| format!("{stem}.{name}");
        let text = self.scenario_with(|name, _| beside(name))?;
        let files = self.rate_traces.iter().map(|(name, path)| [out.with_file_name(beside(name)), path.clone()]);
        Ok((text, files.collect()))
    }

    fn scenario_with(&self, file: impl Fn(&str, &Path) -> String) -> Result<String, LinkError> {
        if !self.lacking.is_empty() {
            let (name, lacking, why) = (self.name.clone(), self.lacking.clone(), self.why_lacking.clone());
            return Err(LinkError::Lacking { name, lacking, why });
        }
        fn direction(fitted: &Fitted) -> Direction<'_> {
            Direction { name: &fitted.name, report: &fitted.report }
        }
        let text = scenario(&self.link, direction(&self.down), self.up.as_ref().map(direction), &self.notes());
        let quoted = |name: &str| format!("file = \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let named =
            |text: String, (name, path): &(String, PathBuf)| text.replace(&quoted(name), &quoted(&file(name, path)));
        Ok(self.rate_traces.iter().fold(text, named))
    }

    /// Returns the notes about the measurement that the scenario does not contain.
    pub fn notes(&self) -> Notes {
        let mut notes = self.notes.clone();
        // Those of the losses have a limit, which does not count the others.
        let others = std::mem::take(&mut notes.alternatives);
        for (way, fitted) in self.ways() {
            notes.add(way, &fitted.statement);
            notes.add_alternatives(way, &fitted.report, &fitted.losses);
        }
        notes.alternatives.extend(others);
        if self.up.is_none() {
            notes.unknown.push("uplink: not measured, assumed lossless".to_owned());
        }
        let Link { rate, rate_up, delay, queue, queue_up, wire_delay, .. } = &self.link;
        let values = [
            ("rate", Some(rate)),
            ("rate up", rate_up.as_ref()),
            ("delay", Some(delay)),
            ("queue", Some(queue)),
            ("queue up", queue_up.as_ref()),
            ("wire delay", Some(wire_delay)),
        ];
        for (name, value) in values {
            if let Some(value) = value.filter(|value| value.origin.starts_with(ASSUMED)) {
                notes.assumed.push(format!("{name}: {}", value.value));
            }
        }
        notes
    }

    /// Returns the measured directions by name.
    fn ways(&self) -> impl Iterator<Item = (&'static str, &Fitted)> {
        [Some(("down", &self.down)), self.up.as_ref().map(|up| ("up", up))].into_iter().flatten()
    }

    /// Returns the values that a scenario needs and that are neither measured nor given: `rate`, `delay`.
    pub fn lacking(&self) -> &[&'static str] {
        &self.lacking
    }

    /// Returns the output of `lasthop fit --json`.
    pub fn to_json(&self) -> Value {
        let notes = self.notes();
        let alternatives =
            notes.alternatives.iter().map(|it| json!({ "name": it.name, "key": it.key, "value": it.value }));
        json!({
            "down": self.down.to_json(), "up": self.up.as_ref().map(Fitted::to_json), "remark": self.remark,
            "not_modelled": notes.not_modelled, "unknown": notes.unknown, "assumed": notes.assumed, "no_cure": notes.no_cure,
            "alternatives": alternatives.collect::<Vec<_>>(),
        })
    }
}

fn begins_as_capture(access: &Access<'_>, path: &Path) -> Result<bool, LinkError> {
    if !access.is_file(path) {
        // The reader of traces reports a folder without a report, or a pipe.
        return Ok(false);
    }
    if is_named_as_capture(path) {
        return Ok(true);
    }
    let mut begin = Vec::new();
    access.open(path).and_then(|file| file.take(4).read_to_end(&mut begin)).map_err(failed(path))?;
    Ok(is_capture(&begin))
}
