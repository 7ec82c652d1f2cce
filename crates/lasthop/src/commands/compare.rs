//! `lasthop compare`

use std::io::{Write, stdout};

use lasthop_proto::scheme::{SCHEMES, Scheme};
use lasthop_study::measures::{Summary, find, summaries_json, summarise};
use lasthop_study::replicate::{Task, run_all};
use serde_json::json;

use crate::cli::CompareArgs;
use crate::error::Error;
use crate::output::{count, print_json};
use crate::progress::Runs;

/// Columns of the table: measure, heading.
const COLUMNS: [(&str, &str); 5] = [
    ("throughput", "Mbps"),
    ("timeouts", "timeouts"),
    ("recoveries", "recoveries"),
    ("source_retransmissions", "source rtx"),
    ("local_retransmissions", "local rtx"),
];

pub fn execute(args: &CompareArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let schemes: Vec<&'static Scheme> =
        if args.scheme.is_empty() { SCHEMES.iter().collect() } else { args.scheme.clone() };
    let tasks: Vec<Task> =
        schemes.iter().map(|scheme| Task::new(&scenario, scheme, seed, runs)).collect::<Result<_, _>>()?;
    let total = tasks.len() * runs as usize;
    let progress = Runs::new("compare", total as u64);
    let reports = run_all(&tasks, args.runs.jobs, &progress);
    progress.finish();
    let rows: Vec<(&Scheme, Vec<Summary>)> = schemes
        .iter()
        .zip(tasks.iter().zip(&reports))
        .map(|(scheme, (task, reports))| (*scheme, summarise(&task.network, reports)))
        .collect();
    if args.json.json {
        let object = |(scheme, summaries): &(&Scheme, Vec<Summary>)| json!({ "scheme": scheme.name, "measures": summaries_json(summaries) });
        let rows: Vec<_> = rows.iter().map(object).collect();
        print_json(&json!({ "scenario": scenario.title(), "seed": seed, "runs": runs, "schemes": rows }))?;
    } else {
        let mut out = stdout().lock();
        let interval = if runs == 1 { "" } else { "; means, throughput with 95 % interval" };
        writeln!(out, "{}\n{} a scheme from seed {seed}{interval}\n", scenario.title(), count(runs as usize, "run"))?;
        writeln!(out, "{}", heading())?;
        for (scheme, summaries) in &rows {
            writeln!(out, "{}", row(scheme.name, summaries))?;
        }
    }
    let done = reports.iter().map(Vec::len).sum::<usize>();
    if done < total { Err(Error::Stopped { done, total, what: "runs" }) } else { Ok(()) }
}

/// The table's first line.
pub fn heading() -> String {
    let headings: Vec<_> = COLUMNS.iter().skip(1).map(|(_, heading)| format!("{heading:>11}")).collect();
    format!("{:<20} {:>17} {}", "scheme", COLUMNS[0].1, headings.join(" "))
}

/// A line of the table: what `name` measures.
pub fn row(name: &str, summaries: &[Summary]) -> String {
    let mean = |name: &str| find(summaries, name).map_or(f64::NAN, |estimate| estimate.mean);
    let ci95 = find(summaries, COLUMNS[0].0).and_then(|estimate| estimate.ci95);
    let ci95 = ci95.map_or(String::new(), |ci95| format!("± {ci95:.3}"));
    let counts: Vec<_> = COLUMNS.iter().skip(1).map(|(name, _)| format!("{:>11.1}", mean(name))).collect();
    format!("{name:<20} {:>9.3} {ci95:<7} {}", mean(COLUMNS[0].0), counts.join(" "))
}
