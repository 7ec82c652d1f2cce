//! Output that several commands share.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use lasthop_scenario::{Scenario, one_line};
use serde_json::Value;

use crate::error::Error;
use crate::terminal::{Style, fold, width};

/// Prints one JSON value.
pub fn print_json(value: &Value) -> Result<(), Error> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// A scenario's title, set off on a terminal.
pub fn title(scenario: &Scenario) -> String {
    Style::Heading.out(&fold(&one_line(scenario.title()), width()))
}

/// `1 run`, `2 runs`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Creates a file and whatever folders it needs, and lets `write` fill it.
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
