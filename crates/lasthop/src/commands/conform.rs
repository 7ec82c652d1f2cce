//! `lasthop conform`

#[cfg(live)]
mod differential;
#[cfg(live)]
mod kernel;
mod report;

use std::path::PathBuf;

use lasthop_conform::lasthop::{Lasthop, Model};
use lasthop_conform::suite::{Outcome, run_file, scripts};
use lasthop_study::replicate::Progress;

use crate::cli::ConformArgs;
use crate::error::Error;
use crate::output::print_json;
use crate::progress::Runs;

/// A script with its results.
struct Row {
    path: PathBuf,
    outcome: Outcome,
    /// Result on the kernel: whether it passed, and the message otherwise.
    kernel: Option<(bool, String)>,
}

pub fn execute(args: &ConformArgs) -> Result<(), Error> {
    #[cfg(live)]
    if let Some(kinds) = &args.differential {
        return differential::execute(args, kinds);
    }
    let mut paths = Vec::new();
    for path in &args.paths {
        let found = scripts(path).map_err(|(path, error)| Error::File { path, error })?;
        if found.is_empty() {
            return Err(Error::NoScripts { path: path.clone() });
        }
        paths.extend(found);
    }
    let mut rows = run_all(args, paths)?;
    #[cfg(live)]
    if args.kernel {
        kernel::add(args, &mut rows)?;
    }
    if args.json {
        print_json(&report::json(args, &rows))?;
    } else {
        report::print(args, &rows)?;
    }
    match rows.iter().filter(|row| report::is_failure(&row.outcome)).count() {
        0 => Ok(()),
        failed => Err(Error::Conform { failed, total: rows.len() }),
    }
}

fn run_all(args: &ConformArgs, paths: Vec<PathBuf>) -> Result<Vec<Row>, Error> {
    let mut stack = Lasthop::new(Model { hz: args.hz, ..Model::new(args.preset) });
    let progress = Runs::new("conform", paths.len() as u64);
    let mut rows = Vec::with_capacity(paths.len());
    for path in paths {
        let outcome = run_file(&path, &mut stack).map_err(Error::file(&path))?;
        rows.push(Row { path, outcome, kernel: None });
        progress.run_done();
        if progress.stopped() {
            break;
        }
    }
    progress.finish();
    Ok(rows)
}
