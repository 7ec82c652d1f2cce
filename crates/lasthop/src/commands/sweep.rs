//! `lasthop sweep`

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_proto::scheme::Scheme;
use lasthop_report::rows::{Kind, Rows, Value, append_rows_csv, read_rows_csv, write_rows_csv};
use lasthop_report::rows_parquet::write_rows_parquet;
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;
use lasthop_study::meaning::{Meaning, meanings};
use lasthop_study::sweep::{Axis, Sweep};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::cli::SweepArgs;
use crate::error::Error;
use crate::output::{Form, count, print_json, title, write_file};
use crate::progress::{Runs, note};
use crate::table::{Column, Table};
use crate::terminal::{Style, fold, width};

pub fn execute(args: &SweepArgs) -> Result<(), Error> {
    let form = args.out.as_deref().map(Form::of).transpose()?;
    let scenario = args.scenario.open()?;
    let seed = args.scenario.seed.unwrap_or(scenario.seed());
    let runs = args.runs.runs.unwrap_or(scenario.runs());
    let schemes = if args.scheme.is_empty() { vec![scenario.scheme()] } else { args.scheme.clone() };
    let sweep = Sweep::new(&scenario, args.vary.clone(), &schemes, seed, runs)?;
    note_same(&scenario, &schemes, &args.vary)?;
    let total = sweep.points().len();
    let progress = |done: usize| Runs::new("sweep", ((total - done) * runs as usize) as u64);
    let (Some(out), Some(form)) = (&args.out, form) else {
        return to_screen(args, &sweep, &progress(0));
    };
    let file = scenario.file().escape_debug();
    // Fail before hours of work, not after them.
    if !args.force && out.exists() {
        return Err(Error::Exists { path: out.clone() });
    }
    let first_line = format!("# lasthop sweep of {file}, seed {seed}, runs {runs}: {:016x}", sweep.fingerprint());
    let mut journal = Journal::open(out, &first_line, &sweep)?;
    let begun_with = journal.done;
    if begun_with > 0 {
        note(&format!("resuming: {begun_with} of {} are in {}", count(total, "point"), journal.path.display()));
    }
    let progress = progress(begun_with);
    let done = sweep.run(begun_with, args.runs.jobs, &progress, |rows| journal.append(rows))?;
    progress.finish();
    if done < total {
        return Err(Error::SweepStopped { done, total, path: journal.path });
    }
    journal.finish(out, form, &sweep)?;
    if args.json.json {
        return print_json(&json!({ "points": total, "runs": runs, "seed": seed, "file": out }));
    }
    note(&format!("wrote {} to {}", count(total, "point"), out.display()));
    Ok(())
}

/// Reports schemes that are the same run, unless the key that makes them equal is varied.
fn note_same(scenario: &Scenario, schemes: &[&'static Scheme], axes: &[Axis]) -> Result<(), Error> {
    let varied = |meaning: &Meaning| axes.iter().any(|axis| meaning.fixed_by.as_ref() == Some(&axis.key));
    let networks: Vec<Network> = schemes.iter().map(|scheme| scenario.network(scheme)).collect::<Result<_, _>>()?;
    let meanings = meanings(scenario, schemes, &networks.iter().collect::<Vec<_>>());
    for meaning in meanings.iter().filter(|meaning| !varied(meaning)) {
        if let Some(remark) = meaning.remark() {
            note(&format!("{}: {remark}", meaning.scheme.name));
        }
    }
    Ok(())
}

fn to_screen(args: &SweepArgs, sweep: &Sweep, progress: &Runs) -> Result<(), Error> {
    let mut all = Rows::new(sweep.columns().to_vec());
    let done = sweep.run(0, args.runs.jobs, progress, |rows| -> Result<(), Error> {
        rows.rows().iter().try_for_each(|row| Ok(all.push(row.clone())?))
    })?;
    progress.finish();
    if args.json.json {
        print_json(&Objects(&all))?;
    } else if args.csv {
        write_rows_csv(&all, stdout().lock())?;
    } else {
        let mut out = stdout().lock();
        writeln!(out, "{}\n{}\n", title(sweep.scenario()), count(sweep.runs() as usize, "run") + " per point")?;
        out.write_all(table(&all, sweep).render(width()).as_bytes())?;
        writeln!(out, "\n{}", Style::Remark.out(&fold("all metrics: --csv, --json, or --out FILE", width())))?;
    }
    let total = sweep.points().len();
    if done < total { Err(Error::Stopped { done, total, what: "points" }) } else { Ok(()) }
}

/// Metrics of the table: column, heading, decimals. Those that no point has are omitted.
const METRICS: [(&str, &str, usize); 7] = [
    ("rtt_p50", "rtt p50 ms", 1),
    ("rtt_p95", "rtt p95 ms", 1),
    ("one_way_delay_p50", "one-way p50 ms", 1),
    ("one_way_delay_p95", "one-way p95 ms", 1),
    ("queue_drops", "queue drops", 1),
    ("source_retransmissions", "source rtx", 1),
    ("incomplete", "unfinished", 1),
];

/// Formats rows for display: varied keys, scheme, throughput with its interval, delays, drops and retransmissions.
fn table(rows: &Rows, sweep: &Sweep) -> Table {
    let at = |name: &str| rows.columns().iter().position(|(known, _)| known == name);
    let number = |row: &[Value], name: &str| match at(name).map(|at| &row[at]) {
        Some(Value::Float(number)) => Some(*number),
        _ => None,
    };
    let text = |row: &[Value], name: &str| match at(name).map(|at| &row[at]) {
        Some(Value::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let metrics: Vec<_> = METRICS
        .into_iter()
        .filter(|(name, ..)| {
            // The column of unfinished transfers is shown only if there are any.
            let counts = |number: f64| *name != "incomplete" || number > 0.0;
            rows.rows().iter().any(|row| number(row, name).is_some_and(counts))
        })
        .collect();
    let keys: Vec<&String> = sweep.axes().iter().map(|axis| &axis.key).collect();
    let column = |heading: &str, width| Column { heading: heading.to_owned(), width };
    let mut columns: Vec<Column> = keys.iter().map(|key| column(key, 10)).collect();
    columns.extend([column("scheme", 18), column("Mbps", 17)]);
    columns.extend(metrics.iter().map(|(_, heading, _)| column(heading, 11)));
    let mut table = Table::new(columns);
    for row in rows.rows() {
        let mut cells: Vec<String> = keys.iter().map(|key| text(row, key)).collect();
        cells.push(text(row, "scheme"));
        let interval = number(row, "throughput_ci95").map_or(String::new(), |half| format!("± {half:.3}"));
        cells.push(number(row, "throughput").map_or("-".to_owned(), |mean| format!("{mean:>9.3} {interval:<7}")));
        let cell = |(name, _, decimals): &(&str, &str, usize)| {
            number(row, name).map_or("-".to_owned(), |number| format!("{number:.decimals$}"))
        };
        cells.extend(metrics.iter().map(cell));
        table.push(cells);
    }
    table
}

/// Rows as a list of objects with the names of the columns.
struct Objects<'r>(&'r Rows);

impl Serialize for Objects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rows().iter().map(|row| Object(self.0, row)))
    }
}

/// One row as an object.
struct Object<'r>(&'r Rows, &'r [Value]);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.0.columns().iter().map(|(name, _)| name);
        serializer.collect_map(names.zip(self.1.iter().map(Cell)))
    }
}

/// Value of a row.
struct Cell<'r>(&'r Value);

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Count(number) => serializer.serialize_u64(*number),
            Value::Missing => serializer.serialize_none(),
        }
    }
}

/// File that receives rows as they finish: a line that identifies the sweep, then CSV. It replaces the requested file
/// when the sweep is complete.
struct Journal {
    path: PathBuf,
    file: File,
    /// Number of points in the journal.
    done: usize,
}

impl Journal {
    /// Opens the journal next to `out`, or creates it. Removes incomplete rows, which remain if the process was killed
    /// while writing.
    fn open(out: &Path, first_line: &str, sweep: &Sweep) -> Result<Self, Error> {
        let mut name = out.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        let mut head = format!("{first_line}\n").into_bytes();
        write_rows_csv(&Rows::new(sweep.columns().to_vec()), &mut head)?;
        let text = if path.exists() { fs::read(&path).map_err(Error::file(&path))? } else { Vec::new() };
        let done = match text.strip_prefix(head.as_slice()) {
            Some(rows) => {
                let whole = head.len() + rows.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                let done = read(&text[..whole], sweep)?.rows().len();
                if whole < text.len() {
                    let file = OpenOptions::new().write(true).open(&path).map_err(Error::file(&path))?;
                    file.set_len(whole as u64).map_err(Error::file(&path))?;
                }
                done
            }
            // The file is empty, or has only a part of its head.
            None if head.starts_with(&text) => {
                write_file(&path, |file| file.write_all(&head))?;
                0
            }
            None => return Err(Error::OtherSweep { path, expected: first_line.to_owned() }),
        };
        if done > sweep.points().len() {
            return Err(Error::OtherSweep { path, expected: first_line.to_owned() });
        }
        let file = OpenOptions::new().append(true).open(&path).map_err(Error::file(&path))?;
        Ok(Self { path, file, done })
    }

    fn append(&mut self, rows: &Rows) -> Result<(), Error> {
        let mut lines = Vec::new();
        append_rows_csv(rows, &mut lines)?;
        self.file.write_all(&lines).map_err(Error::file(&self.path))
    }

    fn finish(self, out: &Path, form: Form, sweep: &Sweep) -> Result<(), Error> {
        let text = fs::read(&self.path).map_err(Error::file(&self.path))?;
        match form {
            Form::Csv => write_file(out, |file| file.write_all(csv_of(&text)))?,
            Form::Parquet => {
                let rows = read(&text, sweep)?;
                write_file(out, |file: &mut BufWriter<File>| write_rows_parquet(&rows, file))?;
            }
        }
        fs::remove_file(&self.path).map_err(Error::file(&self.path))
    }
}

/// Returns the journal without its first line.
fn csv_of(text: &[u8]) -> &[u8] {
    let first_line = text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1);
    &text[first_line..]
}

/// Parses the journal's rows.
fn read(text: &[u8], sweep: &Sweep) -> Result<Rows, Error> {
    let kind = |at: usize, _: &str| sweep.columns().get(at).map_or(Kind::Text, |(_, kind)| *kind);
    Ok(read_rows_csv(csv_of(text), kind)?)
}
