//! The files that scenarios and gateway configurations are read from. No other module of this crate opens any.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_proto::channel::{MOST_FRAMES, read_list};
use lasthop_proto::delay::{DelayStep, MOST_STEPS, read_delays};
use lasthop_proto::rate::{self, RateTrace, read_rates};

use crate::units::ByteSize;

/// What was read, by path.
#[derive(Default, Debug)]
pub(crate) struct Traces {
    losses: BTreeMap<PathBuf, Arc<Vec<bool>>>,
    delays: BTreeMap<PathBuf, Arc<Vec<DelayStep>>>,
    rates: BTreeMap<PathBuf, Arc<RateTrace>>,
}

/// Most bytes of a loss trace's file: all frames that it may have with a line break each, and remarks.
const LARGEST_TRACE: u64 = 4 * MOST_FRAMES as u64;

/// The same of a course of a delay: 64 bytes a line.
const LARGEST_COURSE: u64 = 64 * MOST_STEPS as u64;

/// The same of a series of rates, which may have other columns: 256 bytes a line.
const LARGEST_RATES: u64 = 256 * rate::MOST_STEPS as u64;

/// Why a file is no loss trace, or no course of a delay.
pub(crate) struct BadTrace {
    /// What would be right.
    pub expected: &'static str,
    /// What is wrong with this one.
    pub reason: String,
}

/// The files that a scenario names, and whether it may open any.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    /// The traces of a sealed scenario; `None` where files may be opened.
    sealed: Option<Arc<Traces>>,
    used: RefCell<Traces>,
}

impl Files {
    /// Relative paths are relative to `directory`. With `sealed` no file is opened, and no other traces are known.
    pub(crate) fn new(directory: &Path, sealed: Option<Arc<Traces>>) -> Self {
        Self { directory: directory.to_owned(), sealed, used: RefCell::default() }
    }

    /// The traces that [`trace`](Self::trace) was asked for.
    pub(crate) fn into_used(self) -> Traces {
        self.used.into_inner()
    }

    /// The loss trace `name`.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<Vec<bool>>, BadTrace> {
        let path = self.directory.join(name);
        let trace = match &self.sealed {
            Some(known) => known.losses.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a loss trace that the scenario file names",
                reason: "no other file is opened here".to_owned(),
            })?,
            None => Arc::new(read_trace(&path)?),
        };
        self.used.borrow_mut().losses.insert(path, Arc::clone(&trace));
        Ok(trace)
    }

    /// The course of a delay `name`.
    pub(crate) fn delays(&self, name: &str) -> Result<Arc<Vec<DelayStep>>, BadTrace> {
        let path = self.directory.join(name);
        let steps = match &self.sealed {
            Some(known) => known.delays.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a course of a delay that the scenario file names",
                reason: "no other file is opened here".to_owned(),
            })?,
            None => Arc::new(read_course(&path)?),
        };
        self.used.borrow_mut().delays.insert(path, Arc::clone(&steps));
        Ok(steps)
    }

    /// The series of rates `name`.
    pub(crate) fn rates(&self, name: &str) -> Result<Arc<RateTrace>, BadTrace> {
        let path = self.directory.join(name);
        let trace = match &self.sealed {
            Some(known) => known.rates.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a series of rates that the scenario file names",
                reason: "no other file is opened here".to_owned(),
            })?,
            None => Arc::new(read_series(&path)?),
        };
        self.used.borrow_mut().rates.insert(path, Arc::clone(&trace));
        Ok(trace)
    }
}

fn read_series(path: &Path) -> Result<RateTrace, BadTrace> {
    let text = read_limited(path, LARGEST_RATES).map_err(|error| BadTrace {
        expected: "a series of rates that can be read",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_rates(&text).map_err(|reason| BadTrace {
        expected: "a series of rates: lines of a time in seconds, from 0 on, and a rate in Mbps, as 12.5 30",
        reason: format!("{} {reason}", path.display()),
    })
}

fn read_trace(path: &Path) -> Result<Vec<bool>, BadTrace> {
    let text = read_limited(path, LARGEST_TRACE).map_err(|error| BadTrace {
        expected: "a loss trace that can be read",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_list(&text).map_err(|reason| BadTrace {
        expected: "a loss trace of 0 (arrives) and 1 (lost), with spaces, line breaks and # remarks between",
        reason: format!("{} {reason}", path.display()),
    })
}

fn read_course(path: &Path) -> Result<Vec<DelayStep>, BadTrace> {
    let text = read_limited(path, LARGEST_COURSE).map_err(|error| BadTrace {
        expected: "a course of a delay that can be read",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_delays(&text).map_err(|reason| BadTrace {
        expected: "a course of a delay: lines of a time in seconds and a delay in milliseconds, as 12.5 30",
        reason: format!("{} {reason}", path.display()),
    })
}

/// The bytes of a regular file; an error when there are more than `limit`, or when it is a pipe, a device or a socket: those
/// could have no end, or keep the reader waiting.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Before it is opened, because opening a device can do something; and after, because it may be another file by then.
    regular(&std::fs::metadata(path)?)?;
    let file = open(path)?;
    regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let limit = ByteSize(limit);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit}")));
    }
    Ok(bytes)
}

fn regular(metadata: &Metadata) -> io::Result<()> {
    match (metadata.is_file(), metadata.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Opens without waiting for a writer, should it be a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}
