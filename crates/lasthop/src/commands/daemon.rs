//! Parts shared by the daemons' commands.

use std::ffi::OsString;
use std::io::{Write, stdout};
use std::path::Path;

use lasthop_daemon::child::WorkerProgram;
use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_daemon::recording::RecordTo;
use lasthop_daemon::recording::differences::Differences;
use lasthop_daemon::worker::Ending;
use lasthop_scenario::one_line;
use lasthop_scenario::units::ByteSize;

use crate::cli::{JsonArgs, RecordArgs};
use crate::error::Error;
use crate::output::print_json;
use crate::terminal::{fold, width};

/// Returns the destination of a recording, and the recorder's name.
pub fn record_to(args: &RecordArgs, who: &'static str) -> Option<RecordTo> {
    let ByteSize(limit) = args.record_limit;
    args.record.clone().map(|path| RecordTo { path, limit, who })
}

/// Returns the worker of `lasthop NAME`: the running executable, even if its file was replaced. Empties the recording,
/// if there is one, so that a worker that succeeds another appends to it.
pub fn worker_program(name: &str, record: &RecordArgs, who: &'static str) -> Result<WorkerProgram, Error> {
    let mut arguments: Vec<OsString> = vec![name.into(), "worker".into()];
    if let Some(to) = record_to(record, who) {
        to.create().map_err(Error::file(&to.path))?;
        let limit = ByteSize(to.limit).to_string();
        arguments.extend(["--record".into(), to.path.into(), "--record-limit".into(), limit.into()]);
    }
    Ok(WorkerProgram { program: "/proc/self/exe".into(), arguments })
}

/// Ends the process of a worker.
pub fn end_worker(ending: Ending) {
    match ending {
        Ending::Wanted => {}
        // The supervisor reports the error, once.
        Ending::Told => std::process::exit(1),
    }
}

/// Prints the findings on a configuration, and returns an error if something is missing.
pub fn print_findings(file: &Path, findings: &[Finding], json: &JsonArgs) -> Result<(), Error> {
    if json.json {
        print_json(&serde_json::to_value(findings).map_err(std::io::Error::from)?)?;
    } else {
        let mut out = stdout().lock();
        for Finding { subject, outcome, detail } in findings {
            let outcome = match outcome {
                Outcome::Ok => "ok",
                Outcome::Hint => "hint",
                Outcome::Missing => "MISSING",
            };
            let line = format!("{outcome:<8} {}", one_line(&format!("{subject}: {detail}")));
            writeln!(out, "{}", fold(&line, width()))?;
        }
    }
    match findings.iter().filter(|finding| finding.outcome == Outcome::Missing).count() {
        0 => Ok(()),
        missing => Err(Error::Check { file: file.to_owned(), missing, total: findings.len() }),
    }
}

/// Returns an error if a replay differs.
pub fn verdict(file: &Path, differences: Differences, calls: u64) -> Result<(), Error> {
    let Differences { count, first } = differences;
    match first {
        None => Ok(()),
        Some(first) => {
            Err(Error::Replay { file: file.to_owned(), differences: count, calls, first: first.to_string() })
        }
    }
}
