//! `lasthop run`

use std::io::{Write, stdout};

use lasthop_report::rows::write_rows_csv;
use lasthop_study::measures::flows::{Flows, flows};
use lasthop_study::measures::links::{LinkRow, links};
use lasthop_study::measures::queues::{self, Measured};
use lasthop_study::measures::{ByName, summarise};
use lasthop_study::replicate::{Progress, Task, run_all, run_seed};
use lasthop_study::series::Series;
use serde::Serialize;

use crate::cli::RunArgs;
use crate::commands::tables;
use crate::error::Error;
use crate::output::{count, print_json, quic_remark, title, write_file};
use crate::progress::Runs;
use crate::terminal::{Style, fold, width};

/// Output of `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    scenario: &'a str,
    scheme: &'a str,
    seed: u64,
    runs: usize,
    measures: ByName<'a>,
    flows: Flows<'a>,
    links: &'a [LinkRow],
    remarks: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
}

pub fn execute(args: &RunArgs) -> Result<(), Error> {
    if let Some(path) = args.series.as_ref().filter(|path| !args.force && path.exists()) {
        return Err(Error::SeriesExists { path: path.clone() });
    }
    let scenario = args.scenario.open()?;
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    args.scenario.check_effects(&scenario, &[scheme])?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let task = Task::new(&scenario, scheme, seed, runs)?.metered();
    let progress = Runs::new(scheme.name, u64::from(runs)).within(scenario.limit());
    let reports = run_all(std::slice::from_ref(&task), args.runs.jobs, &progress)?.pop().unwrap_or_default();
    progress.finish();
    // For a run of hours, its beginning is better than nothing.
    let cut = if reports.is_empty() { progress.cut(0) } else { None };
    let measured = match &cut {
        Some(cut) => std::slice::from_ref(&cut.report),
        None => &reports,
    };
    let remark = scenario.fixes(scheme).map(|key| format!("{}: modified: {key} is set", scheme.name));
    let summaries = summarise(&task.network, measured);
    let links = links(&task.network, measured);
    if let Some(path) = &args.series {
        let series = Series::of(&task.network, run_seed(seed, 0), args.interval.0, || progress.stopped())?;
        write_file(path, |file| write_rows_csv(&series.rows()?, file))?;
    }
    let remarks = queues::remarks(&scenario, &task.network, &[Measured { scheme: scheme.name, links: &links }]);
    if args.json.json {
        print_json(&Answer {
            scenario: scenario.title(),
            scheme: scheme.name,
            seed,
            runs: reports.len(),
            measures: ByName(&summaries),
            flows: Flows { network: &task.network, reports: measured },
            links: &links,
            remarks: &remarks,
            cut_at: cut.as_ref().map(|cut| cut.at.as_secs_f64()),
            remark: remark.as_deref(),
        })?;
    } else {
        let mut out = stdout().lock();
        let what = match &cut {
            Some(cut) => format!("the first {:.3} s of run {}", cut.at.as_secs_f64(), cut.run),
            None => count(reports.len(), "run"),
        };
        let from = fold(&format!("{}, {what} from seed {seed}", scheme.name), width());
        writeln!(out, "{}\n{from}\n", title(&scenario))?;
        if let Some(remark) = &remark {
            writeln!(out, "{}\n", Style::Remark.out(&fold(remark, width())))?;
        }
        if let Some(remark) = quic_remark(&task.network, scheme.reads_tcp().then_some(scheme.name).as_slice()) {
            writeln!(out, "{}\n", Style::Remark.out(&fold(&remark, width())))?;
        }
        let lines = summaries.iter().map(|summary| {
            let interval = summary.estimate.ci95.map_or(String::new(), |ci95| format!(" ± {ci95:.3}"));
            (&summary.name, format!("{:.3}", summary.estimate.mean), format!("{interval} {}", summary.unit))
        });
        let wide = lines.clone().map(|(name, mean, rest)| format!("{name:<24} {mean:>10}{rest}"));
        let wide: Vec<String> = wide.collect();
        if width().is_some_and(|width| wide.iter().any(|line| line.chars().count() > width)) {
            for (name, mean, rest) in lines {
                writeln!(out, "{name}\n  {mean}{rest}")?;
            }
        } else {
            wide.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        tables::write(&mut out, &flows(&task.network, measured), &links)?;
        for remark in remarks {
            writeln!(out, "\n{}", Style::Remark.out(&fold(&remark, width())))?;
        }
    }
    let (done, total) = (reports.len(), runs as usize);
    if done < total { Err(Error::Stopped { done, total, what: "runs" }) } else { Ok(()) }
}
