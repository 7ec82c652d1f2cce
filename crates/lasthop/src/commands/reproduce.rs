//! `lasthop reproduce`

use std::io::{Write, stdout};

use lasthop_report::study::Study;
use lasthop_report::text_table::{text_claims, text_summaries, text_table};
use lasthop_study::reproduce::Plan;
use lasthop_study::study::{Options, Selection};
use serde_json::json;

use crate::cli::ReproduceArgs;
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::Runs;

pub fn execute(args: &ReproduceArgs) -> Result<(), Error> {
    let selection = match (&args.table, &args.figure) {
        (Some(table), _) => Selection::Table(table.clone()),
        (None, Some(figure)) => Selection::Figure(figure.clone()),
        (None, None) => Selection::All,
    };
    let options = Options { selection, runs: args.runs, seed: args.seed, jobs: args.jobs };
    // Rather now than after all runs.
    let figures = args.out.join("figures");
    std::fs::create_dir_all(&figures).map_err(Error::file(&figures))?;
    let plan = Plan::new(&args.study, &options)?;
    let progress = Runs::new(&args.study, plan.total_runs());
    let study = plan.finish(&plan.run(&progress)?)?;
    progress.finish();
    write(args, &study)?;
    if args.json.json { print_study_json(&study) } else { print_study(args, &study) }
}

fn write(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    for (name, bytes) in study.files()? {
        write_file(&args.out.join(name), |file| file.write_all(&bytes))?;
    }
    Ok(())
}

fn print_study(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    let mut out = stdout().lock();
    writeln!(out, "{}\n", study.citation)?;
    for table in &study.tables {
        writeln!(out, "{}", text_table(table))?;
    }
    writeln!(out, "{}", text_summaries(&study.summaries()))?;
    writeln!(out, "{}", text_claims(&study.claims))?;
    for note in &study.notes {
        writeln!(out, "{note}\n")?;
    }
    Ok(writeln!(out, "Written: {0}/index.html, {0}/cells.csv, {0}/figures/", args.out.display())?)
}

fn print_study_json(study: &Study) -> Result<(), Error> {
    let tables = study.tables.iter().map(|table| {
        let rows = table.rows.iter().map(|row| {
            json!({
                "cell": row.cell, "metric": row.metric, "unit": row.unit, "published": row.published,
                "measured": row.measured, "ci95": row.ci95, "runs": row.runs,
            })
        });
        json!({ "table": table.id, "title": table.title, "rows": rows.collect::<Vec<_>>() })
    });
    let claims = study.claims.iter().map(|claim| {
        let holds = claim.holds == lasthop_report::study::Holds::Yes;
        json!({ "claim": claim.id, "text": claim.text, "holds": holds, "evidence": claim.evidence() })
    });
    print_json(&json!({
        "study": study.id,
        "command": study.command,
        "tables": tables.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "notes": study.notes,
    }))
}
