//! `lasthop conform --differential`

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_conform::differential::{Kind, write};
use lasthop_conform::kernel::campaign::{Campaign, Differing, Tally};
use lasthop_conform::lasthop::Model;
use lasthop_settings::values::Choice;
use lasthop_study::replicate::Progress;
use serde_json::{Value, json};

use super::kernel::congestion;
use crate::cli::{ConformArgs, Kinds};
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::Runs;
use crate::table::{Column, Table};
use crate::terminal::width;

/// Number of cases at the same time, unless the user gives another.
const JOBS: u16 = 200;

/// Result of a kind, with the scripts written.
struct Row {
    kind: Kind,
    tally: Tally,
    scripts: Vec<PathBuf>,
}

pub(super) fn execute(args: &ConformArgs, kinds: &Kinds) -> Result<(), Error> {
    let mut rows = Vec::new();
    for kind in &kinds.0 {
        rows.push(run(args, *kind)?);
    }
    if args.json {
        return print_json(&json(args, &rows));
    }
    print(&rows)
}

fn run(args: &ConformArgs, kind: Kind) -> Result<Row, Error> {
    let campaign = Campaign {
        kind,
        model: Model { hz: args.hz, ..Model::new(args.preset) },
        congestion: congestion(args.preset),
        jobs: usize::from(args.jobs.unwrap_or(JOBS)),
        with_push: !args.ignore_push,
    };
    let progress = Runs::new(&format!("differential {}", kind.name()), u64::from(args.count)).without_time_left();
    let mut tally =
        campaign.run(args.seed, u64::from(args.count), &mut || progress.run_done()).map_err(Error::Kernel)?;
    let mut scripts = Vec::new();
    if let Some(folder) = &args.out {
        let most = args.most.min(tally.differing.len());
        for (number, differing) in tally.differing.iter_mut().take(most).enumerate() {
            if progress.stopped() {
                break;
            }
            progress.doing(&format!("shortening {} of {most}", number + 1));
            let shortest = campaign.shrink(differing.clone(), &mut || {}).map_err(Error::Kernel)?;
            scripts.push(store(folder, &shortest)?);
            *differing = shortest;
        }
    }
    progress.finish();
    Ok(Row { kind, tally, scripts })
}

/// Writes a case as a script that expects the kernel's segments.
fn store(folder: &Path, differing: &Differing) -> Result<PathBuf, Error> {
    let (case, mismatch) = (&differing.case, &differing.mismatch);
    let none = || "nothing".to_owned();
    let remark = format!(
        "Random case {} with seed {}: {} of segment {} differs.\nkernel: {}\nlasthop: {}",
        case.kind.name(),
        case.seed,
        mismatch.what,
        mismatch.at + 1,
        mismatch.reference.clone().unwrap_or_else(none),
        mismatch.stack.clone().unwrap_or_else(none),
    );
    let path = folder.join(format!("{}-{}.pkt", case.kind.name(), case.seed));
    let text = write(case, &differing.run.sent, &remark);
    write_file(&path, |file| file.write_all(text.as_bytes()).map_err(Error::file(&path)))?;
    Ok(path)
}

/// Returns the number of differing cases by the part that differs first.
fn parts(tally: &Tally) -> BTreeMap<&'static str, usize> {
    let mut parts = BTreeMap::new();
    for differing in &tally.differing {
        *parts.entry(differing.mismatch.what).or_default() += 1;
    }
    parts
}

/// Returns the share of cases with the same segments, in percent of those with a result.
fn share(tally: &Tally) -> f64 {
    let known = tally.same + tally.differing.len();
    100.0 * tally.same as f64 / known.max(1) as f64
}

fn print(rows: &[Row]) -> Result<(), Error> {
    let headings = [("kind", 9), ("same", 6), ("differ", 6), ("unknown", 7), ("same %", 6)];
    let columns = headings.iter().map(|(heading, width)| Column { heading: (*heading).to_owned(), width: *width });
    let mut table = Table::new(columns.collect());
    for row in rows {
        let tally = &row.tally;
        table.push(vec![
            row.kind.name().to_owned(),
            tally.same.to_string(),
            tally.differing.len().to_string(),
            tally.unknown.to_string(),
            format!("{:.1}", share(tally)),
        ]);
        let parts: Vec<String> = parts(tally).iter().map(|(part, number)| format!("{part} {number}")).collect();
        if !parts.is_empty() {
            table.push_note(format!("  first difference: {}", parts.join(", ")));
        }
    }
    let mut out = stdout().lock();
    write!(out, "{}", table.render(width()))?;
    for script in rows.iter().flat_map(|row| &row.scripts) {
        writeln!(out, "{}", script.display())?;
    }
    Ok(())
}

fn json(args: &ConformArgs, rows: &[Row]) -> Value {
    let kinds: Vec<Value> = rows
        .iter()
        .map(|row| {
            let differing: Vec<Value> = row.tally.differing.iter().map(case).collect();
            json!({
                "kind": row.kind.name(),
                "same": row.tally.same,
                "unknown": row.tally.unknown,
                "share": share(&row.tally) / 100.0,
                "differing": differing,
                "scripts": row.scripts.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "preset": args.preset.name(), "seed": args.seed, "count": args.count, "kinds": kinds })
}

fn case(differing: &Differing) -> Value {
    let mismatch = &differing.mismatch;
    json!({
        "seed": differing.case.seed,
        "steps": differing.case.steps.len(),
        "segment": mismatch.at,
        "differs": mismatch.what,
        "kernel": mismatch.reference,
        "lasthop": mismatch.stack,
    })
}
