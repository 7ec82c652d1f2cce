//! Results of `lasthop probe --moving`.

use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::Path;

use lasthop_probe::client::{Measured, Way};
use lasthop_probe::report::moving::{Analysis, MovingReport, analyse};
use lasthop_probe::report::{Recording, Report};
use serde_json::json;

use super::MeasureArgs;
use super::summary::{rate, round_trip};
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::terminal::{fold, width};

/// Returns the format of that name.
pub fn recording(name: &str) -> Result<Recording, String> {
    let known = Recording::NAMES.iter().find(|(known, _)| *known == name);
    let names = || Recording::NAMES.map(|(name, _)| name).join(" or ");
    known.map(|(_, format)| *format).ok_or_else(|| format!("expected {}", names()))
}

/// Analyses, writes and prints a measurement.
pub fn report(args: &MeasureArgs, measured: Measured, server: String, way: &'static str) -> Result<(), Error> {
    let analysis = analyse(measured, &server).ok_or(Error::ProbeThin { server, way })?;
    if let Some(out) = &args.out {
        write(out, &analysis, &args.record)?;
    }
    if args.json.json {
        return print_json(&json!(analysis.report));
    }
    let mut out = stdout().lock();
    write!(out, "{}", fold(&text(&analysis.report), width()))?;
    if let Some(folder) = &args.out {
        let folder = folder.display();
        writeln!(out, "\nwrote {folder}; next:\nlasthop fit {folder} --out link.toml")?;
    }
    Ok(())
}

fn write(folder: &Path, analysis: &Analysis, recordings: &[Recording]) -> Result<(), Error> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        write_file(&path, |out| out.write_all(text.as_bytes()).map_err(Error::file(&path)))
    };
    for (way, report) in Way::BOTH.into_iter().zip([&analysis.report.down, &analysis.report.up]) {
        file(&report.trace, &analysis.packets(way))?;
        if let Some(moving) = &report.moving {
            file(&moving.trace, &analysis.rates(way))?;
        }
    }
    file("trace.csv", &analysis.trace())?;
    for format in recordings {
        for (name, text) in analysis.recording(*format) {
            file(&name, &text)?;
        }
    }
    let report = serde_json::to_string_pretty(&analysis.report).map_err(std::io::Error::from)?;
    // This file comes last: its presence shows that the others are complete.
    file("probe.json", &(report + "\n"))
}

/// Returns the summary.
fn text(report: &Report) -> String {
    let mut text = round_trip(report);
    for (way, direction) in [("down", &report.down), ("up", &report.up)] {
        // Writing to a string cannot fail.
        let _ = match &direction.moving {
            Some(moving) => writeln!(text, "\n{way}: {}", lines(moving)),
            None => writeln!(text, "\n{way}: unknown; too few packets of the trains arrived"),
        };
        if let Some(share) = direction.loss.share {
            let _ = writeln!(text, "  lost: {:.2} % of the trains' packets", 100.0 * share.value);
        }
        if let Some(queue) = &direction.queue {
            let bound = if queue.filled { "" } else { "at least " };
            let _ = writeln!(text, "  queue: {bound}{} packets", queue.packets);
        }
    }
    for remark in &report.remarks {
        let _ = writeln!(text, "\n{remark}");
    }
    text
}

fn lines(moving: &MovingReport) -> String {
    let fits = match moving.fits {
        Some(true) => "",
        Some(false) => ", which does not fit",
        None => "",
    };
    let loads: Vec<String> = moving.overloads.iter().map(|load| rate(load.rate_bps)).collect();
    let loads = if loads.is_empty() { "not measured".to_owned() } else { loads.join(", ") };
    format!("{}\n  model: {}{fits}: {}\n  under load: {loads}", moving.summary, moving.family, moving.why)
}
