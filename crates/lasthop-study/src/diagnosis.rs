//! Diagnosis of the flows in a capture, on disk or in memory.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use lasthop_diagnose::capture::{Capture, CaptureError};
use lasthop_diagnose::matched::{Between, between};
use lasthop_diagnose::rotated::{extent, groups};
use lasthop_diagnose::{Options, Report, diagnose_capture};
use lasthop_scenario::one_line;
use serde_json::{Value, json};

use crate::link::access::Access;
use crate::link::error::LinkError;

/// Reads a capture to its end.
///
/// # Errors
///
/// Returns an error if it is not a capture, or has no interface of the requested name.
pub fn diagnosed(access: &Access<'_>, path: &Path, options: &Options) -> Result<Report, LinkError> {
    diagnosed_files(access, &[path], options)
}

/// Reads files that continue each other as one capture.
///
/// # Errors
///
/// Returns an error if one cannot be read, or none has an interface of the requested name.
pub fn diagnosed_files(access: &Access<'_>, paths: &[&Path], options: &Options) -> Result<Report, LinkError> {
    let path = paths.first().copied().unwrap_or(Path::new(""));
    let capture = opened(access, paths)?;
    let report = diagnose_capture(capture, options);
    if (access.stop)() {
        return Err(LinkError::Stopped { path: path.to_path_buf() });
    }
    checked(path, options, report)
}

/// Reads a capture from a stream that cannot be read twice. Messages use `name`.
///
/// # Errors
///
/// Returns an error if it is not a capture, or has no interface of the requested name.
pub fn diagnosed_stream(name: &Path, source: impl Read, options: &Options) -> Result<Report, LinkError> {
    checked(name, options, Capture::open(source).and_then(|capture| diagnose_capture(capture, options)))
}

fn checked(path: &Path, options: &Options, report: Result<Report, CaptureError>) -> Result<Report, LinkError> {
    let report = report.map_err(|error| LinkError::Capture { path: path.to_path_buf(), error })?;
    if let Some(name) =
        options.interface.as_ref().filter(|_| report.packets > 0 && report.other_interfaces == report.packets)
    {
        let what = format!("contains no packet of interface {name}");
        return Err(LinkError::Without { path: path.to_path_buf(), what });
    }
    Ok(report)
}

/// Opens files that continue each other.
///
/// # Errors
///
/// Returns an error if one cannot be opened, or the first is not a capture.
pub fn opened<'a>(access: &Access<'a>, paths: &[&Path]) -> Result<Capture<impl Read + use<'a>>, LinkError> {
    let mut sources = VecDeque::new();
    for path in paths {
        // Each file is opened when it is read: a long series could exceed the process's limit of descriptors.
        access.open(path).map_err(|error| LinkError::File { path: path.to_path_buf(), error })?;
        let (access, path) = (*access, path.to_path_buf());
        sources.push_back(Later { open: Some(move || access.open(&path)), source: None });
    }
    let path = paths.first().map_or_else(PathBuf::new, |path| path.to_path_buf());
    Capture::open_all(sources).map_err(|error| LinkError::Capture { path, error })
}

/// A file that is opened when it is read.
struct Later<O, R> {
    open: Option<O>,
    source: Option<R>,
}

impl<R: Read, O: FnOnce() -> io::Result<R>> Read for Later<O, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(open) = self.open.take() {
            self.source = Some(open()?);
        }
        self.source.as_mut().map_or(Ok(0), |source| source.read(buffer))
    }
}

/// Groups captures that continue each other ([`lasthop_diagnose::rotated`]). Returns indices into `paths`, each group
/// in order of time.
///
/// # Errors
///
/// Returns an error if one cannot be read, or is not a capture.
pub fn continued(access: &Access<'_>, paths: &[&Path]) -> Result<Vec<Vec<usize>>, LinkError> {
    if paths.len() < 2 {
        return Ok((0..paths.len()).map(|index| vec![index]).collect());
    }
    let mut extents = Vec::with_capacity(paths.len());
    for path in paths {
        let file = access.open(path).map_err(|error| LinkError::File { path: path.to_path_buf(), error })?;
        let extent = extent(file).map_err(|error| LinkError::Capture { path: path.to_path_buf(), error })?;
        extents.push((path.display().to_string(), extent));
    }
    Ok(groups(&extents))
}

/// Matches the packets of two captures of the same connections.
///
/// # Errors
///
/// Returns an error if one cannot be read, or if no packet with data is in both.
pub fn matched(access: &Access<'_>, paths: [&Path; 2]) -> Result<Between, LinkError> {
    let file = |path: &Path| access.open(path).map_err(|error| LinkError::File { path: path.to_path_buf(), error });
    let found = between([file(paths[0])?, file(paths[1])?]);
    if (access.stop)() {
        return Err(LinkError::Stopped { path: paths[0].to_path_buf() });
    }
    let found = found.map_err(|(which, error)| LinkError::Capture { path: paths[which].to_path_buf(), error })?;
    if found.flows.is_empty() {
        let other = one_line(&paths[1].display().to_string());
        let what = format!("contains no TCP data segment that is also in {other}");
        return Err(LinkError::Without { path: paths[0].to_path_buf(), what });
    }
    Ok(found)
}

/// Returns the output of `lasthop diagnose --between --json`.
pub fn matched_to_json(paths: [&Path; 2], found: &Between) -> Value {
    json!({ "files": paths.map(|path| one_line(&path.display().to_string())), "between": found })
}

/// Returns the error of a capture in which no flow sends data, with the reason.
pub fn no_flow(path: &Path, report: &Report) -> LinkError {
    if report.packets == 0 {
        let damage = report.damage.as_ref().map_or(String::new(), |damage| format!("; the capture {damage}"));
        return LinkError::Without { path: path.to_path_buf(), what: format!("contains no packets{damage}") };
    }
    LinkError::NoFlow { path: path.to_path_buf(), why: report.missing().join("; ") }
}

/// Returns the output of `lasthop diagnose --json`, of all flows or of the flow with that number. `names` are the names
/// of the capture's files, at least one, in order of time.
pub fn to_json(names: &[String], report: &Report, flow: Option<usize>) -> Value {
    let mut value = json!(report);
    if let (Some(number), Some(flows)) = (flow, value["flows"].as_array_mut()) {
        flows.retain(|flow| flow["number"] == number);
    }
    let mut named = json!({ "file": names.first() });
    if let (Some(named), Value::Object(report)) = (named.as_object_mut(), value) {
        named.extend(report);
        named.insert("files".to_owned(), json!(names));
    }
    named
}
