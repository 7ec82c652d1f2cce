//! Recording and replay, shared by the daemons' commands.

use std::ffi::OsString;
use std::path::Path;

use lasthop_daemon::child::WorkerProgram;
use lasthop_daemon::recording::RecordTo;
use lasthop_daemon::recording::differences::Differences;
use lasthop_scenario::units::ByteSize;

use crate::cli::RecordArgs;
use crate::error::Error;

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
