//! Output that several commands share.

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::Path;

use lasthop_study::measures::Summary;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// Prints one JSON value.
pub fn print_json(value: &Value) -> Result<(), Error> {
    let mut out = stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

/// `1 run`, `2 runs`.
pub fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Means and intervals as a JSON object by name of the measure.
pub fn summaries_json(summaries: &[Summary]) -> Value {
    let entry = |summary: &Summary| {
        let estimate = &summary.estimate;
        let value = json!({ "unit": summary.unit, "mean": estimate.mean, "ci95": estimate.ci95, "runs": estimate.n });
        (summary.name.clone(), value)
    };
    Value::Object(summaries.iter().map(entry).collect::<Map<_, _>>())
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
