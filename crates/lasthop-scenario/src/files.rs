//! Files that a scenario names: traces of losses, delays and rates.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_proto::channel::{MOST_FRAMES, read_list};
use lasthop_proto::delay::{DelayStep, MOST_STEPS, read_delays};
use lasthop_proto::rate::{self, MOST_OPPORTUNITIES, RateTrace, read_opportunities, read_rates};

use lasthop_settings::read_limited;

/// Contents of files, by path.
#[derive(Default, Debug)]
pub(crate) struct Traces {
    losses: BTreeMap<PathBuf, Arc<Vec<bool>>>,
    delays: BTreeMap<PathBuf, Arc<Vec<DelayStep>>>,
    rates: BTreeMap<PathBuf, Arc<RateTrace>>,
    opportunities: BTreeMap<PathBuf, Arc<Vec<u32>>>,
}

/// Maximum size of a loss trace's file: the maximum number of frames with a line break each, and comments.
const LARGEST_TRACE: u64 = 4 * MOST_FRAMES as u64;

/// Maximum size of a delay trace's file: 64 bytes per line.
const LARGEST_COURSE: u64 = 64 * MOST_STEPS as u64;

/// Maximum size of a rate trace's file, which may have other columns: 256 bytes per line.
const LARGEST_RATES: u64 = 256 * rate::MOST_STEPS as u64;

/// Maximum size of a trace of delivery opportunities: a time of up to 10 digits per line.
const LARGEST_OPPORTUNITIES: u64 = 12 * MOST_OPPORTUNITIES as u64;

/// Error of reading a trace.
pub(crate) struct BadTrace {
    /// Correct form.
    pub expected: &'static str,
    /// Problem with this file.
    pub reason: String,
}

/// Files that a scenario names, and the permission to open them.
#[derive(Debug)]
pub(crate) struct Files {
    directory: PathBuf,
    /// Traces of a sealed scenario; `None` if files may be opened.
    sealed: Option<Arc<Traces>>,
    used: RefCell<Traces>,
}

impl Files {
    /// Creates the access to files; relative paths are relative to `directory`. With `sealed` no file is opened, and
    /// only its traces are known.
    pub(crate) fn new(directory: &Path, sealed: Option<Arc<Traces>>) -> Self {
        Self { directory: directory.to_owned(), sealed, used: RefCell::default() }
    }

    /// Returns the traces that [`trace`](Self::trace), [`delays`](Self::delays), [`rates`](Self::rates) and
    /// [`opportunities`](Self::opportunities) returned.
    pub(crate) fn into_used(self) -> Traces {
        self.used.into_inner()
    }

    /// Returns the loss trace `name`.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<Vec<bool>>, BadTrace> {
        let path = self.directory.join(name);
        let trace = match &self.sealed {
            Some(known) => known.losses.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a loss trace that the scenario file names",
                reason: "other files are not opened here".to_owned(),
            })?,
            None => Arc::new(read_trace(&path)?),
        };
        self.used.borrow_mut().losses.insert(path, Arc::clone(&trace));
        Ok(trace)
    }

    /// Returns the delay trace `name`.
    pub(crate) fn delays(&self, name: &str) -> Result<Arc<Vec<DelayStep>>, BadTrace> {
        let path = self.directory.join(name);
        let steps = match &self.sealed {
            Some(known) => known.delays.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a delay trace that the scenario file names",
                reason: "other files are not opened here".to_owned(),
            })?,
            None => Arc::new(read_course(&path)?),
        };
        self.used.borrow_mut().delays.insert(path, Arc::clone(&steps));
        Ok(steps)
    }

    /// Returns the rate trace `name`.
    pub(crate) fn rates(&self, name: &str) -> Result<Arc<RateTrace>, BadTrace> {
        let path = self.directory.join(name);
        let trace = match &self.sealed {
            Some(known) => known.rates.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a series of rates that the scenario file names",
                reason: "other files are not opened here".to_owned(),
            })?,
            None => Arc::new(read_series(&path)?),
        };
        self.used.borrow_mut().rates.insert(path, Arc::clone(&trace));
        Ok(trace)
    }

    /// Returns the delivery opportunities `name`, in milliseconds.
    pub(crate) fn opportunities(&self, name: &str) -> Result<Arc<Vec<u32>>, BadTrace> {
        let path = self.directory.join(name);
        let times = match &self.sealed {
            Some(known) => known.opportunities.get(&path).map(Arc::clone).ok_or_else(|| BadTrace {
                expected: "a trace of delivery opportunities that the scenario file names",
                reason: "other files are not opened here".to_owned(),
            })?,
            None => Arc::new(read_times(&path)?),
        };
        self.used.borrow_mut().opportunities.insert(path, Arc::clone(&times));
        Ok(times)
    }
}

fn read_series(path: &Path) -> Result<RateTrace, BadTrace> {
    let text = read_limited(path, LARGEST_RATES).map_err(|error| BadTrace {
        expected: "a readable series of rates",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_rates(&text).map_err(|reason| BadTrace {
        expected: "a series of rates: lines of a time in seconds, starting at 0, and a rate in Mbps, e.g. 12.5 30",
        reason: format!("{} {reason}", path.display()),
    })
}

fn read_times(path: &Path) -> Result<Vec<u32>, BadTrace> {
    let text = read_limited(path, LARGEST_OPPORTUNITIES).map_err(|error| BadTrace {
        expected: "a readable trace of delivery opportunities",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_opportunities(&text).map_err(|reason| BadTrace {
        expected: "a trace of mahimahi: a time in whole milliseconds per line, not decreasing, the last above 0",
        reason: format!("{} {reason}", path.display()),
    })
}

fn read_trace(path: &Path) -> Result<Vec<bool>, BadTrace> {
    let text = read_limited(path, LARGEST_TRACE).map_err(|error| BadTrace {
        expected: "a readable loss trace",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_list(&text).map_err(|reason| BadTrace {
        expected: "a loss trace of 0 (received) and 1 (lost), separated by spaces, line breaks and # comments",
        reason: format!("{} {reason}", path.display()),
    })
}

fn read_course(path: &Path) -> Result<Vec<DelayStep>, BadTrace> {
    let text = read_limited(path, LARGEST_COURSE).map_err(|error| BadTrace {
        expected: "a readable delay trace",
        reason: format!("{}: {error}", path.display()),
    })?;
    read_delays(&text).map_err(|reason| BadTrace {
        expected: "a delay trace: lines of a time in seconds and a delay in milliseconds, e.g. 12.5 30",
        reason: format!("{} {reason}", path.display()),
    })
}
