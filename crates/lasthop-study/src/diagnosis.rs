//! What a capture says of its flows, wherever its file is.

use std::path::Path;

use lasthop_diagnose::matched::{Between, between};
use lasthop_diagnose::{Options, Report, diagnose};
use lasthop_scenario::one_line;
use serde_json::{Value, json};

use crate::link::{Access, LinkError};

/// Reads a capture to its end.
///
/// # Errors
///
/// When there is none, or it has no interface of the name that is asked for.
pub fn diagnosed(access: &Access<'_>, path: &Path, options: &Options) -> Result<Report, LinkError> {
    let file = access.open(path).map_err(|error| LinkError::File { path: path.to_path_buf(), error })?;
    let report = diagnose(file, options).map_err(|error| LinkError::Capture { path: path.to_path_buf(), error });
    if (access.stop)() {
        return Err(LinkError::Stopped { path: path.to_path_buf() });
    }
    let report = report?;
    if let Some(name) =
        options.interface.as_ref().filter(|_| report.packets > 0 && report.other_interfaces == report.packets)
    {
        let what = format!("no packet in it is of an interface {name}");
        return Err(LinkError::Without { path: path.to_path_buf(), what });
    }
    Ok(report)
}

/// Matches the packets of two captures of the same connections.
///
/// # Errors
///
/// When one cannot be read, or no packet with data is in both.
pub fn matched(access: &Access<'_>, paths: [&Path; 2]) -> Result<Between, LinkError> {
    let file = |path: &Path| access.open(path).map_err(|error| LinkError::File { path: path.to_path_buf(), error });
    let found = between([file(paths[0])?, file(paths[1])?]);
    if (access.stop)() {
        return Err(LinkError::Stopped { path: paths[0].to_path_buf() });
    }
    let found = found.map_err(|(which, error)| LinkError::Capture { path: paths[which].to_path_buf(), error })?;
    if found.flows.is_empty() {
        let other = one_line(&paths[1].display().to_string());
        let what = format!("no TCP segment with data in it is in {other} as well");
        return Err(LinkError::Without { path: paths[0].to_path_buf(), what });
    }
    Ok(found)
}

/// As `lasthop diagnose --between --json` has it.
pub fn matched_to_json(paths: [&Path; 2], found: &Between) -> Value {
    json!({ "files": paths.map(|path| one_line(&path.display().to_string())), "between": found })
}

/// No flow in a capture sends data, and what it lacks.
pub fn no_flow(path: &Path, report: &Report) -> LinkError {
    if report.packets == 0 {
        let damage = report.damage.as_ref().map_or(String::new(), |damage| format!("; the capture {damage}"));
        return LinkError::Without { path: path.to_path_buf(), what: format!("no packet in it{damage}") };
    }
    LinkError::NoFlow { path: path.to_path_buf(), why: report.missing().join("; ") }
}

/// A capture as `lasthop diagnose --json` has it, of all its flows or of the one of that number.
pub fn to_json(name: &str, report: &Report, flow: Option<usize>) -> Value {
    let mut value = json!(report);
    if let (Some(number), Some(flows)) = (flow, value["flows"].as_array_mut()) {
        flows.retain(|flow| flow["number"] == number);
    }
    let mut named = json!({ "file": name });
    if let (Some(named), Value::Object(report)) = (named.as_object_mut(), value) {
        named.extend(report);
    }
    named
}
