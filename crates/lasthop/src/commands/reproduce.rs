//! `lasthop reproduce`

mod journal;
#[cfg(live)]
mod lab;
mod output;

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_report::study_index::studies_html;
use lasthop_study::measures::Samples;
use lasthop_study::replicate::run_each;
use lasthop_study::reproduce::{Plan, STUDIES, Size};
use lasthop_study::study::{Options, Selection};
use serde_json::json;

use self::journal::{Journal, Kept};
use crate::cli::ReproduceArgs;
use crate::error::Error;
use crate::output::{count, print_json, write_file};
use crate::progress::{Runs, note};

pub fn execute(args: &ReproduceArgs) -> Result<(), Error> {
    match &args.study {
        Some(name) => reproduce(name, args),
        None if args.all => reproduce_all(args),
        None => list(args),
    }
}

/// Prints the studies with their sizes.
fn list(args: &ReproduceArgs) -> Result<(), Error> {
    let mut rows = Vec::new();
    for study in STUDIES {
        let cells = study.cell_names()?.len();
        rows.push((study.name(), cells, Size::of(study.name()), study.title()));
    }
    // Two processors share the runs.
    let seconds = |size: &Size, runs: u32| size.seconds_per_run * f64::from(runs) / 2.0;
    if args.json.json {
        let study = |(name, cells, size, title): &(&str, usize, Size, &str)| {
            json!({
                "study": name, "cells": cells, "title": title, "runs": size.runs,
                "seconds_on_two_processors": seconds(size, size.runs),
            })
        };
        return print_json(&json!({ "studies": rows.iter().map(study).collect::<Vec<_>>() }));
    }
    let mut out = stdout().lock();
    writeln!(out, "{:22} {:>5} {:>5} {:>6}  title", "study", "cells", "runs", "time")?;
    for (name, cells, size, title) in &rows {
        writeln!(out, "{name:22} {cells:>5} {:>5} {:>6}  {title}", size.runs, rough(seconds(size, size.runs)))?;
    }
    let all: f64 = rows.iter().map(|(_, _, size, _)| seconds(size, size.runs_in_all)).sum();
    writeln!(out, "\n--all: {}, some studies with fewer runs. Times are those on two processors.", rough(all))?;
    Ok(())
}

/// Formats a duration: `40 s`, `3 min`.
fn rough(seconds: f64) -> String {
    if seconds < 180.0 { format!("{:.0} s", seconds.ceil()) } else { format!("{:.0} min", (seconds / 60.0).ceil()) }
}

fn reproduce(name: &str, args: &ReproduceArgs) -> Result<(), Error> {
    let selection = match (&args.table, &args.figure) {
        (Some(table), _) => Selection::Table(table.clone()),
        (None, Some(figure)) => Selection::Figure(figure.clone()),
        (None, None) => Selection::All,
    };
    let options = options(args, selection, Size::of(name).runs);
    // Fail now, rather than after all runs.
    folder(&args.out)?;
    let plan = Plan::new(name, &options)?;
    let Computed { samples, journal } = compute(&args.out, &plan, &options)?;
    let in_lab = if args.lab { in_lab(args, &plan)? } else { Vec::new() };
    let study = plan.finish_with_lab(&samples, &in_lab)?;
    output::write(&args.out, &study)?;
    journal.remove()?;
    if args.json.json { output::print_study_json(&study) } else { output::print_study(&args.out, &study) }
}

/// Runs the cells that the lab runs as well.
#[cfg(live)]
fn in_lab(args: &ReproduceArgs, plan: &Plan) -> Result<Vec<(usize, Samples)>, Error> {
    lab::run_cells(args, plan)
}

/// Says that this build has no lab.
#[cfg(not(live))]
fn in_lab(_: &ReproduceArgs, _: &Plan) -> Result<Vec<(usize, Samples)>, Error> {
    note("lab SKIPPED: this build has no lab, so there are no numbers from the lab");
    Ok(Vec::new())
}

/// Runs all studies, and writes the page of each and one over them.
fn reproduce_all(args: &ReproduceArgs) -> Result<(), Error> {
    let (mut studies, mut journals) = (Vec::new(), Vec::new());
    for (at, study) in STUDIES.into_iter().enumerate() {
        let name = study.name();
        note(&format!("study {} of {}: {name}", at + 1, STUDIES.len()));
        let options = options(args, Selection::All, Size::of(name).runs_in_all);
        let own = args.out.join(name);
        folder(&own)?;
        let plan = Plan::new(name, &options)?;
        let Computed { samples, journal } = compute(&own, &plan, &options)?;
        let study = plan.finish(&samples)?;
        output::write(&own, &study)?;
        studies.push(study);
        // A study that is complete is not run again if a later one is interrupted.
        journals.push(journal);
    }
    let runs = args.runs.map(|runs| format!(" --runs {runs}")).unwrap_or_default();
    let page = studies_html(&studies, &format!("lasthop reproduce --all{runs} --seed {}", args.seed))?;
    write_file(&args.out.join("index.html"), |file| file.write_all(page.as_bytes()))?;
    journals.into_iter().try_for_each(Journal::remove)?;
    if args.json.json { output::print_studies_json(&studies) } else { output::print_studies(&args.out, &studies) }
}

/// Returns the options of a study that has `runs` runs by default.
fn options(args: &ReproduceArgs, selection: Selection, runs: u32) -> Options {
    Options { selection, runs: args.runs.unwrap_or(runs), seed: args.seed, jobs: args.jobs }
}

/// Creates a study's folder.
fn folder(path: &Path) -> Result<(), Error> {
    let figures: PathBuf = path.join("figures");
    fs::create_dir_all(&figures).map_err(Error::file(&figures))
}

/// Samples of each cell, and the journal that has them.
struct Computed {
    samples: Vec<Samples>,
    journal: Journal,
}

/// Returns the samples of each cell: from the journal, or from runs, which are added to it as they finish.
fn compute(folder: &Path, plan: &Plan, options: &Options) -> Result<Computed, Error> {
    let Options { runs, seed, jobs, .. } = *options;
    let cells: Vec<usize> = (0..plan.cells().len()).collect();
    let kept = Kept { plan, cells: &cells, seed, runs, command: "reproduce" };
    let journal = Journal::open(&folder.join("cells.partial"), &kept)?;
    let mut all: Vec<Samples> = journal.done.iter().map(|values| samples(plan, values.clone())).collect();
    let (done, total) = (all.len(), plan.cells().len());
    if done > 0 {
        note(&format!("resuming: {done} of {} are in {}", count(total, "cell"), journal.path.display()));
    }
    let tasks = plan.tasks()?.split_off(done);
    let progress = Runs::new(plan.study(), tasks.len() as u64 * u64::from(runs));
    let mut cell = samples(plan, Vec::new());
    let mut file = journal.file()?;
    run_each(&tasks, jobs, &progress, |at, report| -> Result<(), Error> {
        cell.push(&tasks[at].network, &report);
        if cell.runs() == runs as usize {
            let whole = std::mem::replace(&mut cell, samples(plan, Vec::new()));
            journal.add(&mut file, &whole)?;
            all.push(whole);
        }
        Ok(())
    })?;
    progress.finish();
    let done = all.len();
    if done < total {
        return Err(Error::StudyStopped { done, total, path: journal.path });
    }
    Ok(Computed { samples: all, journal })
}

fn samples(plan: &Plan, values: Vec<f64>) -> Samples {
    Samples::from_values(plan.measures().to_vec(), values)
}
