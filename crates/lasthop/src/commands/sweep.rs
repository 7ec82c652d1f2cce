//! `lasthop sweep`

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_report::rows::{Kind, Rows, Value, append_rows_csv, write_rows_csv};
use lasthop_report::rows_parquet::write_rows_parquet;
use lasthop_study::sweep::Sweep;
use serde_json::json;

use crate::cli::SweepArgs;
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::Runs;

pub fn execute(args: &SweepArgs) -> Result<(), Error> {
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let schemes = if args.scheme.is_empty() { vec![scenario.scheme()] } else { args.scheme.clone() };
    let sweep = Sweep::new(&scenario, args.vary.clone(), &schemes, seed, runs)?;
    let total = sweep.points().len();
    let fingerprint = format!("# lasthop sweep {} seed={seed} runs={runs} {:016x}", scenario.file(), sweep.fingerprint());
    let Some(out) = &args.out else {
        return to_screen(args, &sweep, runs);
    };
    let journal = Journal::open(out, &fingerprint)?;
    let progress = Runs::new("sweep", ((total - journal.done.min(total)) * runs as usize) as u64);
    let done = sweep.run(journal.done, args.runs.jobs, &progress, |rows| journal.append(rows))?;
    progress.finish();
    if done < total {
        return Err(Error::SweepStopped { done, total, path: journal.path });
    }
    journal.finish(out)?;
    if args.json.json {
        return print_json(&json!({ "points": total, "runs": runs, "seed": seed, "file": out }));
    }
    eprintln!("{total} points in {}", out.display());
    Ok(())
}

fn to_screen(args: &SweepArgs, sweep: &Sweep, runs: u32) -> Result<(), Error> {
    let total = sweep.points().len();
    let progress = Runs::new("sweep", total as u64 * u64::from(runs));
    let mut all: Option<Rows> = None;
    let done = sweep.run(0, args.runs.jobs, &progress, |rows| -> Result<(), Error> {
        let all = all.get_or_insert_with(|| Rows::new(rows.columns().to_vec()));
        for row in rows.rows() {
            all.push(row.clone())?;
        }
        Ok(())
    })?;
    progress.finish();
    if let Some(rows) = all {
        if args.json.json {
            print_json(&json!(rows.rows().iter().map(|row| row_json(&rows, row)).collect::<Vec<_>>()))?;
        } else {
            write_rows_csv(&rows, stdout().lock())?;
        }
    }
    if done < total { Err(Error::Stopped { done, total }) } else { Ok(()) }
}

fn row_json(rows: &Rows, row: &[Value]) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Text(text) => json!(text),
        Value::Float(number) => json!(number),
        Value::Count(number) => json!(number),
        Value::Missing => serde_json::Value::Null,
    };
    let columns = rows.columns().iter().map(|(name, _)| name.clone());
    serde_json::Value::Object(columns.zip(row.iter().map(value)).collect())
}

/// The file that rows go to as they finish: a line that says which sweep it is, then CSV. It becomes the file asked for when
/// the sweep is complete.
struct Journal {
    path: PathBuf,
    /// Points that are in it.
    done: usize,
}

impl Journal {
    fn open(out: &Path, fingerprint: &str) -> Result<Self, Error> {
        let known = out.extension().is_some_and(|ending| ending == "csv" || ending == "parquet");
        if !known {
            return Err(Error::SweepFile { path: out.to_owned() });
        }
        let mut name = out.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        if !path.exists() {
            write_file(&path, |file| writeln!(file, "{fingerprint}"))?;
            return Ok(Self { path, done: 0 });
        }
        let file = BufReader::new(File::open(&path).map_err(Error::file(&path))?);
        let lines: Vec<String> = file.lines().collect::<Result<_, _>>().map_err(Error::file(&path))?;
        if lines.first().map(String::as_str) != Some(fingerprint) {
            return Err(Error::OtherSweep { path, expected: fingerprint.to_owned() });
        }
        // A run that was killed may have left half a line; it is done again.
        let whole: String = fs::read_to_string(&path).map_err(Error::file(&path))?;
        let kept = whole.rfind('\n').map_or("", |end| &whole[..=end]);
        if kept.len() < whole.len() {
            fs::write(&path, kept).map_err(Error::file(&path))?;
        }
        Ok(Self { done: kept.lines().count().saturating_sub(2), path })
    }

    fn append(&self, rows: &Rows) -> Result<(), Error> {
        let mut file = OpenOptions::new().append(true).open(&self.path).map_err(Error::file(&self.path))?;
        let begun = fs::read_to_string(&self.path).map_err(Error::file(&self.path))?.lines().count() > 1;
        if begun { append_rows_csv(rows, &mut file)? } else { write_rows_csv(rows, &mut file)? }
        file.flush().map_err(Error::file(&self.path))
    }

    fn finish(&self, out: &Path) -> Result<(), Error> {
        let text = fs::read_to_string(&self.path).map_err(Error::file(&self.path))?;
        let csv = text.split_once('\n').map_or("", |(_, csv)| csv);
        if out.extension().is_some_and(|ending| ending == "parquet") {
            let rows = parse(csv)?;
            write_file(out, |file| write_rows_parquet(&rows, file))?;
        } else {
            write_file(out, |file| file.write_all(csv.as_bytes()))?;
        }
        fs::remove_file(&self.path).map_err(Error::file(&self.path))
    }
}

/// The journal's own CSV back as rows: text up to `scheme`, then a count, then numbers.
fn parse(csv: &str) -> Result<Rows, Error> {
    lasthop_report::rows::read_rows_csv(csv.as_bytes(), |column, name| match name {
        "runs" => Kind::Count,
        _ if column > 0 && name == "scheme" => Kind::Text,
        _ => Kind::Float,
    })
    .map_err(Error::from)
}
