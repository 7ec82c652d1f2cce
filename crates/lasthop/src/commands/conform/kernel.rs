//! Runs of scripts on the kernel beside those on a stack.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lasthop_conform::kernel::packetdrill::Packetdrill;
use lasthop_proto::tcp::config::Preset;
use lasthop_study::replicate::Progress;

use super::Row;
use crate::cli::ConformArgs;
use crate::error::Error;
use crate::progress::Runs;

/// Number of scripts at the same time, unless the user gives another: more of them disturb each other's times.
const JOBS: u16 = 4;

/// Returns the congestion control of the kernel beside which a preset is tested.
pub(super) fn congestion(preset: Preset) -> &'static str {
    if preset == Preset::Linux618Bbr { "bbr" } else { "cubic" }
}

/// Adds the kernel's result to each row, on several threads with network namespaces of their own.
pub(super) fn add(args: &ConformArgs, rows: &mut [Row]) -> Result<(), Error> {
    let program = match &args.packetdrill {
        // Scripts run in their own folders.
        Some(program) => std::fs::canonicalize(program).map_err(Error::file(program))?,
        None => PathBuf::from("packetdrill"),
    };
    let packetdrill =
        Packetdrill::new(program.clone(), congestion(args.preset)).map_err(Error::file(&std::env::temp_dir()))?;
    let progress = Runs::new("kernel", rows.len() as u64);
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let rows: Vec<Mutex<&mut Row>> = rows.iter_mut().map(Mutex::new).collect();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.unwrap_or(JOBS) {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if progress.stopped() {
                        return;
                    }
                    let mut row = row.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match packetdrill.run(&row.path) {
                        Ok(verdict) => row.kernel = Some((verdict.is_passed, verdict.message)),
                        Err(error) => {
                            failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                            next.store(usize::MAX / 2, Ordering::Relaxed);
                        }
                    }
                    progress.run_done();
                }
            });
        }
    });
    progress.finish();
    match failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(Error::Packetdrill { program, error }),
        None => Ok(()),
    }
}
