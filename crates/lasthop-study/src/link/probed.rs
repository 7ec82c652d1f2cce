//! A link measured by `lasthop probe`.

use std::path::{Path, PathBuf};

use lasthop_fit::measurement::{Alternative, Notes};
use lasthop_fit::probe::{Found, Measured, read};
use lasthop_fit::read::{Losses, is_json_trace};
use lasthop_fit::scenario::Link;
use lasthop_fit::statement::Said;
use lasthop_scenario::one_line;
use lasthop_scenario::units::{BitRate, TimeSpan};

use super::error::{LinkError, failed};
use super::one_way;
use super::traces::{Fitted, on_air};
use super::values::link_of;
use super::{Access, Files, Given, MeasuredLink, REPORT, Source, no_report};

/// Name of the file with rate, delay and loss of both directions over time.
const TRACE: &str = "trace.csv";

/// Returns the folder of a probe's report and its contents, if `path` is that folder or the report.
fn report(access: &Access<'_>, path: &Path) -> Result<Option<(PathBuf, Measured)>, LinkError> {
    let file = if access.is_folder(path) { path.join(REPORT) } else { path.to_path_buf() };
    if file != path && !access.is_file(&file) {
        return Err(no_report(path));
    }
    if file.extension().is_none_or(|extension| extension != "json") {
        return Ok(None);
    }
    let text = access.text(&file).map_err(failed(&file))?;
    if is_json_trace(&text) {
        return Ok(None);
    }
    let measured = read(&text).map_err(|error| LinkError::Probe { path: file.clone(), error })?;
    Ok(Some((file.parent().map(Path::to_path_buf).unwrap_or_default(), measured)))
}

/// Returns the link that a probe measured; `None` if `path` is something else. `up` takes precedence over the probe's
/// own trace.
pub(super) fn probed(
    access: &Access<'_>,
    path: &Path,
    given: &Given,
    up: Option<Fitted>,
) -> Result<Option<MeasuredLink>, LinkError> {
    let Some((folder, measured)) = report(access, path)? else { return Ok(None) };
    let Measured { mut link, rates, mut at_least, traces, rate_traces, mut found, lacking } = measured;
    let rate_traces = files_of_rates(access, &folder, rate_traces, &mut link, &mut found);
    let rate = given.rate.map(|BitRate(rate)| rate as f64);
    let [found_down, found_up] = found;
    let way = |at: usize, found: &Found| stated(access, &folder.join(&traces[at]), given, rate.or(rates[at]), found);
    let down = way(0, &found_down)?;
    let up = Some(up.map_or_else(|| way(1, &found_up), Ok)?);
    let measured_delay = link.delay.value.clone();
    let link = link_of(given, link);
    // A given rate is not a bound.
    at_least.retain(|_| given.rate.is_none());
    let mut remarks = Vec::new();
    if !at_least.is_empty() {
        let ways = at_least.join(" and ");
        remarks.push(format!("the rate {ways} is a lower bound; give --rate if the actual rate is known"));
    }
    if let Some(TimeSpan(wire)) = given.wire_delay.filter(|_| given.delay.is_none()) {
        let wire = 1e3 * wire.as_secs_f64();
        remarks.push(format!(
            "--wire-delay adds {wire} ms to the one-way delay of {measured_delay} that the probe measured between its ends"
        ));
    }
    let given_one = |what: &str| match what {
        "rate" => given.rate.is_some(),
        _ => given.delay.is_some(),
    };
    let (lacking, whys): (Vec<_>, Vec<_>) = lacking.into_iter().filter(|(what, _)| !given_one(what)).unzip();
    let why_lacking = if whys.is_empty() { String::new() } else { format!(" ({})", whys.join("; ")) };
    let both = [found_down, found_up];
    let notes = Notes {
        unknown: both.iter().flat_map(|found| found.unknown.clone()).collect(),
        assumed: both.iter().flat_map(|found| found.assumed.clone()).collect(),
        no_cure: both.iter().find_map(|found| found.no_cure.clone()),
        alternatives: both.iter().flat_map(|found| found.alternatives.clone()).collect(),
        ..Notes::default()
    };
    Ok(Some(MeasuredLink {
        name: one_line(&path.display().to_string()),
        source: Source::Probe,
        down,
        up,
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
        diagnosis: None,
        link,
        rate_traces,
        at_least,
        lacking,
        why_lacking,
        notes,
    }))
}

/// Returns the files with measured rates, with their names in the report. If files are in memory only, the scenario
/// contains the rates instead.
fn files_of_rates(
    access: &Access<'_>,
    folder: &Path,
    names: [Option<String>; 2],
    link: &mut Link,
    found: &mut [Found; 2],
) -> Vec<(String, PathBuf)> {
    if matches!(access.files, Files::Disk) {
        let is_moving = names.iter().any(Option::is_some);
        let both = is_moving.then(|| TRACE.to_owned());
        let named = names.into_iter().flatten().chain(both).map(|name| (name.clone(), folder.join(name)));
        return named.filter(|(_, path)| access.is_file(path)).collect();
    }
    let replays: Vec<[String; 2]> = found.iter().filter_map(|found| found.replay.clone()).collect();
    for [replay, inline] in replays {
        for key in link.keys.iter_mut().filter(|key| key.value == replay) {
            key.value.clone_from(&inline);
        }
        for other in found_alternatives(found).filter(|other| other.value == replay) {
            other.value.clone_from(&inline);
        }
    }
    Vec::new()
}

fn found_alternatives(found: &mut [Found; 2]) -> impl Iterator<Item = &mut Alternative> {
    found.iter_mut().flat_map(|found| &mut found.alternatives)
}

/// Fits models to the losses of one direction, and adds the probe's other findings.
fn stated(
    access: &Access<'_>,
    path: &Path,
    given: &Given,
    rate: Option<f64>,
    found: &Found,
) -> Result<Fitted, LinkError> {
    let reading = one_way::read(access, path, given)?;
    let order = match &reading.down.losses {
        Losses::Packets(trace) => found.order(&on_air(trace.clone(), rate)),
        Losses::Counts(_) => Said::unknown("the trace contains only counts"),
    };
    let mut fitted = Fitted::of(access, path, (reading.down, reading.form), rate, false)?;
    fitted.statement.rate = match given.rate {
        Some(rate) => {
            Said::unknown(format!("the scenario uses {rate}, given by --rate; the probe: {}", found.rate.why))
        }
        None => found.rate.clone(),
    };
    fitted.statement.delay = found.delay.clone();
    fitted.statement.duplication = found.duplication.clone();
    fitted.statement.order = order;
    Ok(match &found.loss_unknown {
        Some(why) => fitted.with_unknown_losses(why),
        None => fitted,
    })
}
