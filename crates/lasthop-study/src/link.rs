//! From a measurement to the link that a scenario describes: what a probe wrote, a packet capture, lists of losses.
//!
//! A channel model is fitted to the losses; rate, delay and queue come from the measurement, from whoever asks, or are assumed, and the scenario says which.

mod access;
mod captured;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lasthop_diagnose::capture::{CaptureError, is_capture};
use lasthop_fit::probe::{Measured, ProbeError};
use lasthop_fit::read::{Form, ReadError, read_up_to};
use lasthop_fit::scenario::{Direction, Link, Told, scenario};
use lasthop_fit::{Clock, Report, fit_unless};
use lasthop_scenario::one_line;
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use serde_json::{Value, json};

pub use self::access::{Access, Files, NamedFile};
use self::captured::{Way, captured};

/// Spans of a measurement whose losses are shown.
const SPANS: usize = 120;

/// What whoever asks knows of the link; it goes before what was measured.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Given {
    /// Its rate.
    pub rate: Option<BitRate>,
    /// Its delay, one way.
    pub delay: Option<TimeSpan>,
    /// The delay of the path behind the base station, one way.
    pub wire_delay: Option<TimeSpan>,
    /// The queue before it.
    pub queue: Option<QueueSize>,
}

impl Given {
    /// Sets what is called `key` (`rate`, `delay`, `wire-delay`, `queue`).
    ///
    /// # Errors
    ///
    /// What is wrong with `text`, and what would be right.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "rate" => self.rate = Some(bit_rate(text)?),
            "delay" => self.delay = Some(time_span(text)?),
            "wire-delay" => self.wire_delay = Some(time_span(text)?),
            "queue" => self.queue = Some(text.parse::<QueueSize>().map_err(|error| error.to_string())?),
            _ => return Err(format!("{key} is not known of a link; there are rate, delay, wire-delay, queue")),
        }
        Ok(())
    }
}

/// A rate, as `10 Mbps`.
///
/// # Errors
///
/// What is wrong with `text`, and what would be right.
pub fn bit_rate(text: &str) -> Result<BitRate, String> {
    match text.parse() {
        Ok(BitRate(0)) => Err("a rate above zero, as \"10 Mbps\"".to_owned()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(format!("{error}; give a rate with its unit, as \"10 Mbps\"")),
    }
}

/// A span of time, as `1.5 s`.
///
/// # Errors
///
/// What is wrong with `text`, and what would be right.
pub fn time_span(text: &str) -> Result<TimeSpan, String> {
    text.parse().map_err(|error| format!("{error}; give a time with its unit, as \"1.5 s\" or \"20 ms\""))
}

/// Losses of one direction, and what was fitted to them.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The trace's name.
    pub name: String,
    /// In which form it was.
    pub form: Form,
    /// Whether the packets' times are known.
    pub clock: Clock,
    /// The models.
    pub report: Report,
    /// When packets were lost ([`lasthop_fit::LossTrace::loss_over_time`]).
    pub over_time: Vec<(f64, f64)>,
}

impl Fitted {
    /// As `lasthop fit --json` has it.
    pub fn to_json(&self) -> Value {
        let times_known = self.clock == Clock::Known;
        json!({ "file": self.name, "form": self.form, "times_known": times_known, "fit": self.report })
    }
}

/// What a link was measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `lasthop probe`.
    Probe,
    /// A packet capture.
    Capture,
    /// Losses alone.
    Trace,
}

/// A link as it was measured.
#[derive(Clone, Debug)]
pub struct MeasuredLink {
    /// The measurement's name.
    pub name: String,
    /// What it was measured by.
    pub source: Source,
    /// Losses on the way to the client.
    pub down: Fitted,
    /// Losses on the way from it.
    pub up: Option<Fitted>,
    /// What to mind, in a sentence: what of a larger measurement was taken, or that its rate is a lower bound.
    pub remark: Option<String>,
    /// What a capture says of its flows, and the number of the one that was taken.
    pub diagnosis: Option<(lasthop_diagnose::Report, usize)>,
    link: Link,
    /// Ways of which the rate may be greater: `down`, `up`.
    at_least: Vec<&'static str>,
    lacking: Vec<&'static str>,
}

/// Why a file is no measurement of a link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no list of losses.
    #[error("{}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ReadError,
    },
    /// It is no report of a probe.
    #[error("{}: {error}", path.display())]
    Probe {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ProbeError,
    },
    /// It is no capture.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        error: CaptureError,
    },
    /// A capture without data in it.
    #[error("{}: no TCP flow that sends data; {why}", path.display())]
    NoFlow {
        /// The file.
        path: PathBuf,
        /// What is missing in the capture.
        why: String,
    },
    /// A capture without what is asked for.
    #[error("{}: {what}", path.display())]
    Without {
        /// The file.
        path: PathBuf,
        /// What is not in it.
        what: String,
    },
    /// Something that a scenario needs is neither measured nor given.
    #[error("{name}: the link's {}; give {}", lacks(lacking), flags(lacking))]
    Lacking {
        /// The measurement.
        name: String,
        /// `rate`, `delay`.
        lacking: Vec<&'static str>,
    },
    /// Whoever waited has gone.
    #[error("{}: stopped", path.display())]
    Stopped {
        /// The file.
        path: PathBuf,
    },
}

/// What is lacking, as a sentence goes on: `rate and delay are not known from it`.
pub fn lacks(lacking: &[&str]) -> String {
    format!("{} {} not known from it", lacking.join(" and "), if lacking.len() == 1 { "is" } else { "are" })
}

fn flags(lacking: &[&str]) -> String {
    let one = |name: &&str| if *name == "rate" { "--rate, as \"10 Mbps\"" } else { "--delay, as \"20 ms\"" };
    lacking.iter().map(one).collect::<Vec<_>>().join(", and ")
}

/// Whether a path is a measurement, and not a scenario: what [`tells_of_link`], or a table of losses.
pub fn is_measurement(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "csv") || tells_of_link(path)
}

/// Whether a path is a measurement of more than losses: a probe's folder or report, or a capture.
pub fn tells_of_link(path: &Path) -> bool {
    if path.extension().is_some_and(|extension| extension == "json") || path.join(REPORT).is_file() {
        return true;
    }
    if is_named_as_capture(path) {
        return true;
    }
    let mut begin = [0; 4];
    // What cannot be read is somebody else's to say.
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && is_capture(&begin)
}

/// Whether there is something at `path`, and in a folder a probe's report.
///
/// # Errors
///
/// What is missing.
pub fn present(path: &Path) -> Result<(), LinkError> {
    let about = std::fs::metadata(path).map_err(failed(path))?;
    if about.is_dir() && !path.join(REPORT).is_file() { Err(no_report(path)) } else { Ok(()) }
}

/// The report in a probe's folder.
const REPORT: &str = "probe.json";

/// A folder without it, as a probe leaves behind that was stopped before it had anything.
fn no_report(path: &Path) -> LinkError {
    let what = format!("no {REPORT} in it; give a folder that `lasthop probe --out` has finished");
    failed(path)(io::Error::new(io::ErrorKind::NotFound, what))
}

/// A file of that name is to be a capture, even if it is empty.
fn is_named_as_capture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng")
}

/// Reads a measurement and fits models to its losses: a probe's folder or report, a capture, or losses `down` and `up`.
///
/// # Errors
///
/// [`LinkError`], which names the file.
pub fn measured(down: &Path, up: Option<&Path>, given: &Given) -> Result<MeasuredLink, LinkError> {
    measured_from(&Access::DISK, down, up, given)
}

/// As [`measured`], of files that are wherever `access` says.
///
/// # Errors
///
/// [`LinkError`], which names the file.
pub fn measured_from(
    access: &Access<'_>,
    down: &Path,
    up: Option<&Path>,
    given: &Given,
) -> Result<MeasuredLink, LinkError> {
    let name = one_line(&down.display().to_string());
    let rate = given.rate.map(|BitRate(rate)| rate as f64);
    let up = up.map(|path| trace(access, path, rate)).transpose()?;
    if let Some((folder, Measured { link, rates, mut at_least, traces })) = probed(access, down)? {
        let trace = |at: usize| trace(access, &folder.join(&traces[at]), rate.or(Some(rates[at])));
        let down = trace(0)?;
        let up = Some(up.map_or_else(|| trace(1), Ok)?);
        let link = link_of(given, link);
        // What is given is no bound.
        at_least.retain(|_| given.rate.is_none());
        let (source, lacking) = (Source::Probe, Vec::new());
        let remark = (!at_least.is_empty()).then(|| {
            format!(
                "the rate {} is a lower bound, it may be greater; give --rate if it is known",
                at_least.join(" and ")
            )
        });
        return Ok(MeasuredLink { name, source, down, up, remark, diagnosis: None, link, at_least, lacking });
    }
    if begins_as_capture(access, down)? {
        let captured = captured(access, down, given)?;
        let fit = |way: &Way| fitted(access, down, &way.losses, rate.or(way.rate));
        let measured_up = captured.up.as_ref().filter(|_| up.is_none()).map(|way| {
            let name = format!("{name}, flow {}", way.flow);
            fit(way).map(|fitted| Fitted { name, ..fitted })
        });
        return Ok(MeasuredLink {
            down: fit(&captured.down)?,
            up: measured_up.transpose()?.or(up),
            name,
            source: Source::Capture,
            link: captured.link(given),
            at_least: Vec::new(),
            lacking: captured.lacking(given),
            remark: Some(captured.remark),
            diagnosis: Some((captured.report, captured.down.flow)),
        });
    }
    let fitted = trace(access, down, rate)?;
    let mut lacking = Vec::new();
    lacking.extend(given.rate.is_none().then_some("rate"));
    lacking.extend(given.delay.is_none().then_some("delay"));
    let (link, source) = (link_of(given, assumed()), Source::Trace);
    let (remark, diagnosis, at_least) = (None, None, Vec::new());
    Ok(MeasuredLink { name, source, down: fitted, up, remark, diagnosis, link, at_least, lacking })
}

impl MeasuredLink {
    /// The link as a scenario, each value with its origin.
    ///
    /// # Errors
    ///
    /// When its rate or its delay is neither measured nor given.
    pub fn scenario(&self) -> Result<String, LinkError> {
        if !self.lacking.is_empty() {
            return Err(LinkError::Lacking { name: self.name.clone(), lacking: self.lacking.clone() });
        }
        fn direction(fitted: &Fitted) -> Direction<'_> {
            Direction { name: &fitted.name, report: &fitted.report }
        }
        Ok(scenario(&self.link, direction(&self.down), self.up.as_ref().map(direction)))
    }

    /// What a scenario needs and is neither measured nor given: `rate`, `delay`.
    pub fn lacking(&self) -> &[&'static str] {
        &self.lacking
    }

    /// As `lasthop fit --json` has it.
    pub fn to_json(&self) -> Value {
        json!({ "down": self.down.to_json(), "up": self.up.as_ref().map(Fitted::to_json), "remark": self.remark })
    }

    /// The link in a line: rate, delay, queue, as far as they are known, and what it loses.
    pub fn words(&self) -> String {
        let Link { half_duplex, rate, rate_up, delay, queue, .. } = &self.link;
        let more = |way: &str| if self.at_least.contains(&way) { " or more" } else { "" };
        let up = rate_up.as_ref().map_or(String::new(), |up| format!(" down, {}{} up", up.value, more("up")));
        let rate = format!("{}{}", rate.value, more("down"));
        let loss = |fitted: &Fitted| {
            let share = fitted.report.lost as f64 / fitted.report.packets.max(1) as f64;
            let model = fitted.report.chosen().family.name();
            let fits = if fitted.report.adequacy.fits() { "" } else { ", which does not fit well" };
            match fitted.report.lost {
                0 => "none".to_owned(),
                _ => format!("{:.2} % ({model}{fits})", 100.0 * share),
            }
        };
        let losses = match &self.up {
            Some(up) => format!("{} down, {} up", loss(&self.down), loss(up)),
            None => loss(&self.down),
        };
        let medium = if half_duplex.is_some() { "half-duplex, " } else { "" };
        let lacks = |what: &str| self.lacking.contains(&what);
        let mut said = Vec::new();
        said.extend((!lacks("rate")).then(|| format!("{medium}{rate}{up}")));
        said.extend((!lacks("delay")).then(|| format!("delay {}", delay.value)));
        if !queue.origin.starts_with(ASSUMED) {
            said.push(format!("queue {}", queue.value));
        } else if self.lacking.is_empty() {
            said.push(format!("queue {} ({ASSUMED})", queue.value));
        }
        said.push(format!("losses {losses}"));
        said.join(", ")
    }
}

/// The folder of a probe's report and what it says, where `path` is that folder or the report.
fn probed(access: &Access<'_>, path: &Path) -> Result<Option<(PathBuf, Measured)>, LinkError> {
    let file = if access.is_folder(path) { path.join(REPORT) } else { path.to_path_buf() };
    if file != path && !access.is_file(&file) {
        return Err(no_report(path));
    }
    if file.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let text = access.text(&file).map_err(failed(&file))?;
    let measured = lasthop_fit::probe::read(&text).map_err(|error| LinkError::Probe { path: file.clone(), error })?;
    Ok(Some((file.parent().map(Path::to_path_buf).unwrap_or_default(), measured)))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_path_buf();
    move |error| LinkError::File { path, error }
}

fn begins_as_capture(access: &Access<'_>, path: &Path) -> Result<bool, LinkError> {
    if !access.is_file(path) {
        // A folder without a report, a pipe: the reader of traces has the words for it.
        return Ok(false);
    }
    if is_named_as_capture(path) {
        return Ok(true);
    }
    let mut begin = Vec::new();
    access.open(path).and_then(|file| file.take(4).read_to_end(&mut begin)).map_err(failed(path))?;
    Ok(is_capture(&begin))
}

/// A file of losses, whose packets are on the air at `rate`, bits a second, where that is known.
fn trace(access: &Access<'_>, path: &Path, rate: Option<f64>) -> Result<Fitted, LinkError> {
    if begins_as_capture(access, path)? {
        let captured = captured(access, path, &Given::default())?;
        return fitted(access, path, &captured.down.losses, rate.or(captured.down.rate));
    }
    fitted(access, path, &access.text(path).map_err(failed(path))?, rate)
}

fn fitted(access: &Access<'_>, path: &Path, text: &str, rate: Option<f64>) -> Result<Fitted, LinkError> {
    let error = |error| LinkError::Trace { path: path.to_path_buf(), error };
    let (trace, form) = read_up_to(text, access.most_packets()).map_err(error)?;
    let trace = match rate {
        Some(rate) => trace.at_rate(rate),
        None => trace,
    };
    // A trace that was read has packets.
    let report = fit_unless(&trace, access.stop).ok_or_else(|| LinkError::Stopped { path: path.to_path_buf() })?;
    let (clock, over_time) = (trace.clock(), trace.loss_over_time(SPANS));
    Ok(Fitted { name: one_line(&path.display().to_string()), form, clock, report, over_time })
}

/// How the origin of a value begins that nothing tells of.
const ASSUMED: &str = "assumed";

/// A link of which nothing but losses is known.
fn assumed() -> Link {
    let told = |value: &str, flag: &str| Told { value: value.to_owned(), origin: format!("{ASSUMED}; {flag} sets it") };
    Link {
        half_duplex: None,
        rate: told("10 Mbps", "--rate"),
        rate_up: None,
        delay: told("10 ms", "--delay"),
        queue: told("100 packets", "--queue"),
        queue_up: None,
        wire_delay: told("20 ms", "--wire-delay"),
    }
}

/// What is given, else what was measured.
fn link_of(given: &Given, measured: Link) -> Link {
    fn flag(value: Option<String>, flag: &str) -> Option<Told> {
        value.map(|value| Told { value, origin: flag.to_owned() })
    }
    Link {
        half_duplex: measured.half_duplex,
        // What is given is meant for both ways.
        rate_up: if given.rate.is_some() { None } else { measured.rate_up },
        queue_up: if given.queue.is_some() { None } else { measured.queue_up },
        rate: flag(given.rate.map(|it| it.to_string()), "--rate").unwrap_or(measured.rate),
        delay: flag(given.delay.map(|it| it.to_string()), "--delay").unwrap_or(measured.delay),
        queue: flag(given.queue.map(|it| it.to_string()), "--queue").unwrap_or(measured.queue),
        wire_delay: flag(given.wire_delay.map(|it| it.to_string()), "--wire-delay").unwrap_or(measured.wire_delay),
    }
}
