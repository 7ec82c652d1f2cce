//! Output that several commands share.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use lasthop_report::rows::{Rows, write_rows_csv};
use lasthop_report::rows_parquet::write_rows_parquet;
use lasthop_scenario::{Scenario, one_line};
use lasthop_sim::network::{App, Network};
use serde::Serialize;

use crate::error::Error;
use crate::terminal::{Style, fold, width};

/// Maximum number of flows that a remark names.
const MOST_NAMES: usize = 5;

/// Prints one JSON value.
pub fn print_json(value: &impl Serialize) -> Result<(), Error> {
    let mut out = BufWriter::new(stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Returns a scenario's title, highlighted on a terminal.
pub fn title(scenario: &Scenario) -> String {
    Style::Heading.out(&fold(&one_line(scenario.title()), width()))
}

/// Formats a count: `1 run`, `2 runs`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the remark on QUIC flows of `network` under `schemes`, whose base stations read TCP.
pub fn quic_remark(network: &Network, schemes: &[&str]) -> Option<String> {
    let flows = network.flows.iter().filter(|flow| matches!(flow.app, App::Quic(_)));
    // Copies are called `bulk#1`, `bulk#2`, ...
    let mut flows: Vec<&str> = flows.map(|flow| flow.name.split('#').next().unwrap_or_default()).collect();
    flows.dedup();
    let which = if flows.len() > MOST_NAMES { format!("{} flows", flows.len()) } else { flows.join(", ") };
    (!flows.is_empty() && !schemes.is_empty())
        .then(|| format!("{which}: QUIC is encrypted; the base station of {} cannot repair it", schemes.join(", ")))
}

/// Creates a file with its parent folders, and lets `write` fill it.
pub fn write_file<E>(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>) -> Result<(), Error>
where
    Error: From<E>,
{
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let mut out = BufWriter::new(File::create(path).map_err(Error::file(path))?);
    write(&mut out)?;
    out.flush().map_err(Error::file(path))
}

/// Format of a file with rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Csv,
    Parquet,
}

impl Form {
    /// Returns the format for the extension of a file.
    pub fn of(out: &Path) -> Result<Self, Error> {
        match out.extension().and_then(|ending| ending.to_str()) {
            _ if out.is_dir() => Err(Error::SweepFile { path: out.to_owned() }),
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::SweepFile { path: out.to_owned() }),
        }
    }

    /// Writes rows into a file.
    pub fn write(self, rows: &Rows, out: &Path) -> Result<(), Error> {
        match self {
            Self::Csv => write_file(out, |file| write_rows_csv(rows, file)),
            Self::Parquet => write_file(out, |file: &mut BufWriter<File>| write_rows_parquet(rows, file)),
        }
    }
}
