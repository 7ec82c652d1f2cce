//! `lasthop trace`

use std::io::{BufWriter, Write, stdout};

use lasthop_report::pcapng::{write_pcapng, write_pcapng_at};
use lasthop_report::trace_csv::write_trace_csv;
use lasthop_report::trace_text::write_trace_text;
use lasthop_sim::trace::Trace;
use lasthop_sim::{Recording, run};
use lasthop_study::replicate::run_seed;
use serde_json::{Value, json};

use crate::cli::TraceArgs;
use crate::error::Error;
use crate::output::write_file;

pub fn execute(args: &TraceArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let scheme = args.scheme.unwrap_or(scenario.scheme());
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let trace = run(&scenario.network(scheme)?, run_seed(seed, args.run), Recording::On).trace;
    if let Some(path) = &args.pcapng {
        match &args.point {
            Some(point) => {
                let point = find_point(&trace, point)?;
                write_file(path, |file| write_pcapng_at(&trace, point, file))?;
            }
            None => write_file(path, |file| write_pcapng(&trace, file))?,
        }
        if !args.csv && !args.json {
            return Ok(());
        }
    }
    let mut out = BufWriter::new(stdout().lock());
    if args.csv {
        write_trace_csv(&trace, &mut out)?;
    } else if args.json {
        write_json_lines(&trace, &mut out)?;
    } else {
        write_trace_text(&trace, &mut out)?;
    }
    Ok(out.flush()?)
}

fn find_point(trace: &Trace, given: &str) -> Result<usize, Error> {
    trace.points.iter().position(|point| point.name == given).ok_or_else(|| Error::Point {
        given: given.to_owned(),
        points: trace.points.iter().map(|point| point.name.clone()).collect(),
    })
}

/// The CSV's columns under the same names, an object a line, so that there is one form to document.
fn write_json_lines(trace: &Trace, mut out: impl Write) -> Result<(), Error> {
    let mut text = Vec::new();
    write_trace_csv(trace, &mut text)?;
    let mut reader = csv::Reader::from_reader(text.as_slice());
    let columns = reader.headers()?.clone();
    for record in reader.records() {
        let record = record?;
        let fields = columns.iter().zip(&record).map(|(name, value)| (name.to_owned(), json!(value)));
        writeln!(out, "{}", Value::Object(fields.collect()))?;
    }
    Ok(())
}
