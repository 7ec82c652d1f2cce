//! `lasthop run`

use std::io::{Write, stdout};

use lasthop_study::measures::{summaries_json, summarise};
use lasthop_study::replicate::{Task, run_all};
use serde_json::json;

use crate::cli::RunArgs;
use crate::error::Error;
use crate::output::{count, print_json};
use crate::progress::Runs;

pub fn execute(args: &RunArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let task = Task::new(&scenario, scheme, seed, runs)?;
    let progress = Runs::new(scheme.name, u64::from(runs));
    let reports = run_all(std::slice::from_ref(&task), args.runs.jobs, &progress).pop().unwrap_or_default();
    progress.finish();
    let summaries = summarise(&task.network, &reports);
    if args.json.json {
        print_json(&json!({
            "scenario": scenario.title(),
            "scheme": scheme.name,
            "seed": seed,
            "runs": reports.len(),
            "measures": summaries_json(&summaries),
        }))?;
    } else {
        let mut out = stdout().lock();
        writeln!(out, "{}\n{}, {} from seed {seed}\n", scenario.title(), scheme.name, count(reports.len(), "run"))?;
        for summary in &summaries {
            let interval = summary.estimate.ci95.map_or(String::new(), |ci95| format!(" ± {ci95:.3}"));
            writeln!(out, "{:<24} {:>10.3}{interval} {}", summary.name, summary.estimate.mean, summary.unit)?;
        }
    }
    let (done, total) = (reports.len(), runs as usize);
    if done < total { Err(Error::Stopped { done, total, what: "runs" }) } else { Ok(()) }
}
