//! `lasthop reproduce`

use std::io::{Write, stdout};

use lasthop_report::cells_csv::write_cells_csv;
use lasthop_report::html::index_html;
use lasthop_report::study::Study;
use lasthop_report::text_table::{text_claims, text_summaries, text_table};
use lasthop_study::study::{Options, Selection, reproduce, total_runs};
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
    let progress = Runs::new(&args.study, total_runs(&args.study, &options)?);
    let study = reproduce(&args.study, &options, &progress)?;
    progress.finish();
    write(args, &study)?;
    if args.json.json { print_study_json(&study) } else { print_study(args, &study) }
}

fn write(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    write_file(&args.out.join("cells.csv"), |file| write_cells_csv(study, file))?;
    for figure in &study.figures {
        let path = args.out.join("figures").join(format!("{}.svg", figure.id));
        let svg = figure.figure.render_svg()?;
        write_file(&path, |file| file.write_all(svg.as_bytes()))?;
    }
    let page = index_html(study)?;
    write_file(&args.out.join("index.html"), |file| file.write_all(page.as_bytes()))
}

fn print_study(args: &ReproduceArgs, study: &Study) -> Result<(), Error> {
    let mut out = stdout().lock();
    writeln!(out, "{}\n", study.citation)?;
    for table in &study.tables {
        writeln!(out, "{}", text_table(table))?;
    }
    writeln!(out, "{}", text_summaries(&study.summaries()))?;
    writeln!(out, "{}", text_claims(&study.claims))?;
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
        json!({ "claim": claim.id, "text": claim.text, "holds": holds, "evidence": claim.evidence })
    });
    print_json(&json!({
        "study": study.id,
        "command": study.command,
        "tables": tables.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    }))
}
