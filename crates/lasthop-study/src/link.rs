//! From a measurement to the link that a scenario describes: what a probe wrote, a packet capture, lists of losses.
//!
//! A channel model is fitted to the losses; rate, delay and queue come from the measurement, from whoever asks, or are assumed, and the scenario says which.

mod captured;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lasthop_diagnose::capture::{CaptureError, is_capture};
use lasthop_fit::probe::{Measured, ProbeError};
use lasthop_fit::read::{Form, ReadError, read};
use lasthop_fit::scenario::{Direction, Link, Told, scenario};
use lasthop_fit::{Clock, Report, fit};
use lasthop_scenario::units::{BitRate, QueueSize, TimeSpan};
use lasthop_scenario::{one_line, read_limited};

pub use self::captured::{Captured, captured};

/// Most bytes of a trace's file.
const LARGEST: u64 = 1 << 30;

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
    /// What of a larger measurement was taken, in a sentence.
    pub remark: Option<String>,
    link: Link,
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
    /// Something that a scenario needs is neither measured nor given.
    #[error("{name}: the link's {} not known from it; give {}", lacks(lacking), flags(lacking))]
    Lacking {
        /// The measurement.
        name: String,
        /// `rate`, `delay`.
        lacking: Vec<&'static str>,
    },
}

fn lacks(lacking: &[&str]) -> String {
    format!("{} {}", lacking.join(" and "), if lacking.len() == 1 { "is" } else { "are" })
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
    if path.extension().is_some_and(|extension| extension == "json") || path.join("probe.json").is_file() {
        return true;
    }
    let mut begin = [0; 4];
    // What cannot be read is somebody else's to say.
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && is_capture(&begin)
}

/// Reads a measurement and fits models to its losses: a probe's folder or report, a capture, or losses `down` and `up`.
///
/// # Errors
///
/// [`LinkError`], which names the file.
pub fn measured(down: &Path, up: Option<&Path>, given: &Given) -> Result<MeasuredLink, LinkError> {
    let name = one_line(&down.display().to_string());
    let rate = given.rate.map(|BitRate(rate)| rate as f64);
    let up = up.map(|path| trace(path, rate)).transpose()?;
    if let Some((folder, Measured { link, rates, traces })) = probed(down)? {
        let trace = |at: usize| trace(&folder.join(&traces[at]), rate.or(Some(rates[at])));
        let down = trace(0)?;
        let up = Some(up.map_or_else(|| trace(1), Ok)?);
        let link = link_of(given, link);
        return Ok(MeasuredLink { name, source: Source::Probe, down, up, remark: None, link, lacking: Vec::new() });
    }
    if begins_as_capture(down)? {
        return Ok(MeasuredLink { up, ..measured_capture(down, &|| File::open(down), given)? });
    }
    let fitted = trace(down, rate)?;
    let mut lacking = Vec::new();
    lacking.extend(given.rate.is_none().then_some("rate"));
    lacking.extend(given.delay.is_none().then_some("delay"));
    let link = link_of(given, assumed());
    Ok(MeasuredLink { name, source: Source::Trace, down: fitted, up, remark: None, link, lacking })
}

/// Reads the capture that `open` opens, which is read twice, and fits models to its losses; messages call it `path`.
///
/// # Errors
///
/// [`LinkError`], which names it.
pub fn measured_capture<R: Read>(
    path: &Path,
    open: &dyn Fn() -> io::Result<R>,
    given: &Given,
) -> Result<MeasuredLink, LinkError> {
    let captured = captured(path, open, given)?;
    let rate = given.rate.map(|BitRate(rate)| rate as f64);
    Ok(MeasuredLink {
        name: one_line(&path.display().to_string()),
        source: Source::Capture,
        down: fitted(path, &captured.losses, rate.or(captured.rate))?,
        up: None,
        link: captured.link(given),
        lacking: captured.lacking(given),
        remark: Some(captured.remark),
    })
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

    /// The link in a line: rate, delay, queue, and what it loses.
    pub fn words(&self) -> String {
        let Link { rate, rate_up, delay, queue, .. } = &self.link;
        let up = rate_up.as_ref().map_or(String::new(), |up| format!(" down, {} up", up.value));
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
        format!("{}{up}, delay {}, queue {}, losses {losses}", rate.value, delay.value, queue.value)
    }
}

/// The folder of a probe's report and what it says, where `path` is that folder or the report.
fn probed(path: &Path) -> Result<Option<(PathBuf, Measured)>, LinkError> {
    let file = if path.is_dir() { path.join("probe.json") } else { path.to_path_buf() };
    if file.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let bytes = read_limited(&file, LARGEST).map_err(failed(&file))?;
    let measured = lasthop_fit::probe::read(&String::from_utf8_lossy(&bytes))
        .map_err(|error| LinkError::Probe { path: file.clone(), error })?;
    Ok(Some((file.parent().map(Path::to_path_buf).unwrap_or_default(), measured)))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> LinkError {
    let path = path.to_path_buf();
    move |error| LinkError::File { path, error }
}

fn begins_as_capture(path: &Path) -> Result<bool, LinkError> {
    if !path.is_file() {
        // A folder without a report, a pipe: the reader of traces has the words for it.
        return Ok(false);
    }
    let mut begin = Vec::new();
    File::open(path).and_then(|file| file.take(4).read_to_end(&mut begin)).map_err(failed(path))?;
    Ok(is_capture(&begin))
}

/// A file of losses, whose packets are on the air at `rate`, bits a second, where that is known.
fn trace(path: &Path, rate: Option<f64>) -> Result<Fitted, LinkError> {
    if begins_as_capture(path)? {
        let captured = captured(path, &|| File::open(path), &Given::default())?;
        return fitted(path, &captured.losses, rate.or(captured.rate));
    }
    let bytes = read_limited(path, LARGEST).map_err(failed(path))?;
    fitted(path, &String::from_utf8_lossy(&bytes), rate)
}

fn fitted(path: &Path, text: &str, rate: Option<f64>) -> Result<Fitted, LinkError> {
    let error = |error| LinkError::Trace { path: path.to_path_buf(), error };
    let (trace, form) = read(text).map_err(error)?;
    let trace = match rate {
        Some(rate) => trace.at_rate(rate),
        None => trace,
    };
    let clock = trace.clock();
    let report = fit(&trace).ok_or_else(|| error(ReadError::Empty))?;
    Ok(Fitted { name: one_line(&path.display().to_string()), form, clock, report })
}

/// A link of which nothing but losses is known.
fn assumed() -> Link {
    let told = |value: &str, flag: &str| Told { value: value.to_owned(), origin: format!("assumed; {flag} sets it") };
    Link {
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
        // What is given is meant for both ways.
        rate_up: if given.rate.is_some() { None } else { measured.rate_up },
        queue_up: if given.queue.is_some() { None } else { measured.queue_up },
        rate: flag(given.rate.map(|it| it.to_string()), "--rate").unwrap_or(measured.rate),
        delay: flag(given.delay.map(|it| it.to_string()), "--delay").unwrap_or(measured.delay),
        queue: flag(given.queue.map(|it| it.to_string()), "--queue").unwrap_or(measured.queue),
        wire_delay: flag(given.wire_delay.map(|it| it.to_string()), "--wire-delay").unwrap_or(measured.wire_delay),
    }
}
