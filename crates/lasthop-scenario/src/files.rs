//! Files that a scenario names: traces of losses, delays and rates.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_proto::channel::{MOST_FRAMES, read_list};
use lasthop_proto::delay::{DelayStep, MOST_STEPS, read_delays};
use lasthop_proto::link_trace::{LinkTrace, MOST_ROWS, read_link_trace};
use lasthop_proto::random::fnv1a;
use lasthop_proto::rate::{
    self, LightLine, MOST_LIGHT, MOST_OPPORTUNITIES, RateTrace, read_light, read_opportunities, read_rates,
};

use lasthop_settings::read_limited;

/// Contents of files, by path.
#[derive(Default, Debug)]
pub(crate) struct Traces {
    losses: BTreeMap<PathBuf, Arc<Vec<bool>>>,
    delays: BTreeMap<PathBuf, Arc<Vec<DelayStep>>>,
    rates: BTreeMap<PathBuf, Arc<RateTrace>>,
    opportunities: BTreeMap<PathBuf, Arc<Vec<u32>>>,
    light: BTreeMap<PathBuf, Arc<Vec<LightLine>>>,
    links: BTreeMap<PathBuf, Arc<LinkTrace>>,
    /// Digests of the bytes of each file.
    digests: BTreeMap<PathBuf, u64>,
}

impl Traces {
    /// Returns the digests of the files' bytes, ordered by path.
    pub(crate) fn digests(&self) -> impl Iterator<Item = u64> {
        self.digests.values().copied()
    }
}

/// A kind of file, by its contents.
struct Kind<T> {
    /// Maximum size in bytes.
    largest: u64,
    /// Correct form if the file is not one that the scenario names, cannot be read, or has other contents.
    named: &'static str,
    readable: &'static str,
    form: &'static str,
    /// Reads the contents; an error continues a sentence about the file.
    read: fn(&[u8]) -> Result<T, String>,
    known: fn(&Traces) -> &BTreeMap<PathBuf, Arc<T>>,
    used: fn(&mut Traces) -> &mut BTreeMap<PathBuf, Arc<T>>,
}

static LOSSES: Kind<Vec<bool>> = Kind {
    // The maximum number of frames with a line break each, and comments.
    largest: 4 * MOST_FRAMES as u64,
    named: "a loss trace that the scenario file names",
    readable: "a readable loss trace",
    form: "a loss trace of 0 (received) and 1 (lost), separated by spaces, line breaks and # comments",
    read: |text| read_list(text).map_err(|error| error.to_string()),
    known: |traces| &traces.losses,
    used: |traces| &mut traces.losses,
};

static DELAYS: Kind<Vec<DelayStep>> = Kind {
    // 64 bytes per line.
    largest: 64 * MOST_STEPS as u64,
    named: "a delay trace that the scenario file names",
    readable: "a readable delay trace",
    form: "a delay trace: lines of a time in seconds and a delay in milliseconds, e.g. 12.5 30",
    read: |text| read_delays(text).map_err(|error| error.to_string()),
    known: |traces| &traces.delays,
    used: |traces| &mut traces.delays,
};

static RATES: Kind<RateTrace> = Kind {
    // 256 bytes per line, which may have other columns.
    largest: 256 * rate::MOST_STEPS as u64,
    named: "a series of rates that the scenario file names",
    readable: "a readable series of rates",
    form: "a series of rates: lines of a time in seconds, starting at 0, and a rate in Mbps, e.g. 12.5 30",
    read: |text| read_rates(text).map_err(|error| error.to_string()),
    known: |traces| &traces.rates,
    used: |traces| &mut traces.rates,
};

static OPPORTUNITIES: Kind<Vec<u32>> = Kind {
    // A time of up to 10 digits per line.
    largest: 12 * MOST_OPPORTUNITIES as u64,
    named: "a trace of delivery opportunities that the scenario file names",
    readable: "a readable trace of delivery opportunities",
    form: "a trace of mahimahi: a time in whole milliseconds per line, not decreasing, the last above 0",
    read: |text| read_opportunities(text).map_err(|error| error.to_string()),
    known: |traces| &traces.opportunities,
    used: |traces| &mut traces.opportunities,
};

static LIGHT: Kind<Vec<LightLine>> = Kind {
    // A number of up to 10 digits each.
    largest: 12 * MOST_LIGHT as u64,
    named: "a light trace that the scenario file names",
    readable: "a readable light trace",
    form: "a light trace of CellReplay: lines of a time, a base delay and opportunities in whole milliseconds, e.g. 0 25 0 3 7",
    read: |text| read_light(text).map_err(|error| error.to_string()),
    known: |traces| &traces.light,
    used: |traces| &mut traces.light,
};

static LINKS: Kind<LinkTrace> = Kind {
    // 256 bytes per row.
    largest: 256 * MOST_ROWS as u64,
    named: "a link trace that the scenario file names",
    readable: "a readable link trace",
    form: "a link trace: CSV with the header t_s and columns such as rate_down_mbps, delay_up_ms, loss_down",
    read: |text| read_link_trace(text).map_err(|error| error.to_string()),
    known: |traces| &traces.links,
    used: |traces| &mut traces.links,
};

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

    /// Returns the traces that [`trace`](Self::trace), [`delays`](Self::delays), [`rates`](Self::rates),
    /// [`opportunities`](Self::opportunities), [`light`](Self::light) and [`link`](Self::link) returned.
    pub(crate) fn into_used(self) -> Traces {
        self.used.into_inner()
    }

    /// Returns the loss trace `name`.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<Vec<bool>>, BadTrace> {
        self.get(&LOSSES, name)
    }

    /// Returns the delay trace `name`.
    pub(crate) fn delays(&self, name: &str) -> Result<Arc<Vec<DelayStep>>, BadTrace> {
        self.get(&DELAYS, name)
    }

    /// Returns the rate trace `name`.
    pub(crate) fn rates(&self, name: &str) -> Result<Arc<RateTrace>, BadTrace> {
        self.get(&RATES, name)
    }

    /// Returns the delivery opportunities `name`, in milliseconds.
    pub(crate) fn opportunities(&self, name: &str) -> Result<Arc<Vec<u32>>, BadTrace> {
        self.get(&OPPORTUNITIES, name)
    }

    /// Returns the light trace `name`.
    pub(crate) fn light(&self, name: &str) -> Result<Arc<Vec<LightLine>>, BadTrace> {
        self.get(&LIGHT, name)
    }

    /// Returns the link trace `name`.
    pub(crate) fn link(&self, name: &str) -> Result<Arc<LinkTrace>, BadTrace> {
        self.get(&LINKS, name)
    }

    fn get<T>(&self, kind: &Kind<T>, name: &str) -> Result<Arc<T>, BadTrace> {
        let path = self.directory.join(name);
        let (contents, digest) = match &self.sealed {
            Some(sealed) => {
                let known = (kind.known)(sealed).get(&path).map(Arc::clone);
                let digest = sealed.digests.get(&path).copied().unwrap_or_default();
                let unknown =
                    || BadTrace { expected: kind.named, reason: "other files are not opened here".to_owned() };
                (known.ok_or_else(unknown)?, digest)
            }
            None => {
                let (contents, digest) = kind.open(&path)?;
                (Arc::new(contents), digest)
            }
        };
        let mut used = self.used.borrow_mut();
        used.digests.insert(path.clone(), digest);
        (kind.used)(&mut used).insert(path, Arc::clone(&contents));
        Ok(contents)
    }
}

impl<T> Kind<T> {
    /// Returns the contents of a file, and the digest of its bytes.
    fn open(&self, path: &Path) -> Result<(T, u64), BadTrace> {
        let text = read_limited(path, self.largest)
            .map_err(|error| BadTrace { expected: self.readable, reason: format!("{}: {error}", path.display()) })?;
        let contents = (self.read)(&text)
            .map_err(|reason| BadTrace { expected: self.form, reason: format!("{} {reason}", path.display()) })?;
        Ok((contents, fnv1a(&text)))
    }
}
