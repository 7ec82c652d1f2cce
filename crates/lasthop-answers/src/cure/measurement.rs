//! Evaluation of a measured link.

use std::path::Path;

use lasthop_diagnose::words::lines;
use lasthop_fit::scenario::parameters;
use lasthop_study::diagnosis;
use lasthop_study::link::{
    Access, Files, Fitted, Given, LinkError, MeasuredLink, NamedFile, Source, lacks, measured_from,
};
use serde_json::{Value, json};

use super::pictures::pictures;
use crate::refusal::Refusal;
use crate::words::Words;

/// Options of `lasthop fit` besides files.
const KEYS: [&str; 4] = ["rate", "delay", "wire-delay", "queue"];

/// Evaluates the link that the files in `body` measured: a capture, a probe's `probe.json` with its traces, or losses
/// of the downlink (and of the uplink in a second file). Returns an object:
///
/// * `source`: `probe`, `capture` or `trace`; `words`, the link in a line; `remark`, or null;
/// * `fit`: the JSON of `lasthop fit --json`; `told`: the same in sentences, with a table for each direction;
/// * `diagnosis`: the JSON of `lasthop diagnose --json` for the flow that was used, or null; `flow`: the same in
///   sentences;
/// * `scenario`: the link as `lasthop fit --out` writes it; null if something is `lacking`, which `lacks` describes;
/// * `pictures`: losses over time, runs, and the autocorrelation of losses, as figures.
///
/// # Errors
///
/// Returns an error with the file or parameter and the expected form, or if `stop` ended the work.
pub fn link(query: &str, body: &[u8], stop: &dyn Fn() -> bool) -> Result<Value, Refusal> {
    let mut words = Words::read(query)?;
    let files = words.files(body)?;
    let mut given = Given::default();
    for key in KEYS {
        if let Some(text) = words.take(key) {
            given.set(key, &text).map_err(|why| Refusal::of(key, format!("\"{text}\": {why}")))?;
        }
    }
    words.finish()?;
    let (down, up) = directions(&files)?;
    let access = Access { files: Files::Memory(&files), stop };
    let link = measured_from(&access, Path::new(down), up.map(Path::new), &given).map_err(refused)?;
    answer(&link)
}

/// Returns the file with the losses of the downlink, and that of the uplink: a probe's report names its traces itself.
fn directions<'f>(files: &'f [NamedFile<'_>]) -> Result<(&'f str, Option<&'f str>), Refusal> {
    let is_report = |file: &&NamedFile<'_>| file.name.ends_with(".json");
    if let Some(report) = files.iter().find(is_report) {
        return Ok((&report.name, None));
    }
    match files {
        [down] => Ok((&down.name, None)),
        [down, up] => Ok((&down.name, Some(&up.name))),
        _ => Err(Refusal::of(
            "file",
            "give one capture or trace, a trace for each direction, or the output of `lasthop probe --out`",
        )),
    }
}

fn refused(error: LinkError) -> Refusal {
    match error {
        LinkError::Stopped { .. } => {
            Refusal::of("file", "takes too long for a page; use `lasthop fit` or `lasthop diagnose`")
        }
        error => Refusal::plain(error.to_string(), "file"),
    }
}

fn answer(link: &MeasuredLink) -> Result<Value, Refusal> {
    let lacking = link.lacking();
    let scenario = if lacking.is_empty() { Some(link.scenario().map_err(refused)?) } else { None };
    let source = match link.source {
        Source::Probe => "probe",
        Source::Capture => "capture",
        Source::Trace => "trace",
    };
    let (mut diagnosed, mut flow_words) = (Value::Null, Vec::new());
    if let Some((report, number)) = &link.diagnosis {
        diagnosed = diagnosis::to_json(std::slice::from_ref(&link.name), report, Some(*number));
        flow_words.extend(report.missing());
        if let Some((flow, direction)) = report.with_most_data(Some(*number)) {
            flow_words.extend(lines(flow, direction).iter().map(|line| line.trim().to_owned()));
        }
    }
    let directions = [("down", Some(&link.down)), ("up", link.up.as_ref())];
    let told: Vec<Value> = directions.iter().filter_map(|(way, fitted)| Some(told(way, (*fitted)?))).collect();
    Ok(json!({
        "source": source,
        "name": link.name,
        "words": link.words(),
        "remark": link.remark,
        "fit": link.to_json(),
        "told": told,
        "diagnosis": diagnosed,
        "flow": flow_words,
        "scenario": scenario,
        "lacking": lacking,
        "lacks": (!lacking.is_empty()).then(|| lacks(lacking)),
        "pictures": pictures(link),
    }))
}

/// Describes one direction in sentences.
fn told(way: &str, fitted: &Fitted) -> Value {
    let Fitted { name, form, report, .. } = fitted;
    let mut said = vec![report.losses()];
    said.extend(report.unsaid(*form).into_iter().map(str::to_owned));
    let models: Vec<Value> = report
        .fits
        .iter()
        .enumerate()
        .map(|(at, fit)| {
            json!({ "model": fit.family.name(), "aic": fit.aic, "chosen": at == 0, "parameters": parameters(fit) })
        })
        .collect();
    json!({ "direction": way, "file": name, "said": said, "models": models, "verdict": report.verdict(), "statement": fitted.said() })
}
