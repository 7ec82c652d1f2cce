//! Tables and JSON of `lasthop conform`.

use std::io::{Write, stdout};
use std::path::Path;

use lasthop_conform::run::Verdict;
use lasthop_conform::suite::{Counts, Outcome, by_folder};
use lasthop_settings::values::Choice;
use serde_json::{Map, Value, json};

use super::Row;
use crate::cli::{ConformArgs, Listed};
use crate::error::Error;
use crate::table::{Column, Table};
use crate::terminal::width;

/// Returns whether a result makes the command fail.
pub(super) fn is_failure(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Ran(Verdict::Failed(_)) | Outcome::Invalid(_))
}

fn result(outcome: &Outcome) -> (&'static str, Listed) {
    match outcome {
        Outcome::Ran(Verdict::Passed) => ("passed", Listed::Passed),
        Outcome::Ran(Verdict::Failed(_)) => ("failed", Listed::Failed),
        Outcome::Ran(Verdict::NotApplicable { .. }) => ("not-applicable", Listed::NotApplicable),
        Outcome::Invalid(_) => ("invalid", Listed::Invalid),
    }
}

/// Returns the description of a result: place, and what differs or is missing.
fn description(path: &Path, outcome: &Outcome) -> String {
    let path = path.display();
    match outcome {
        Outcome::Ran(Verdict::Passed) => format!("{path}: passed"),
        Outcome::Ran(Verdict::Failed(difference)) => {
            let (at, expected, got) = (difference.at.as_secs_f64(), &difference.expected, &difference.got);
            format!("{path}:{}: at {at:.6} s: expected {expected}; got {got}", difference.line)
        }
        Outcome::Ran(Verdict::NotApplicable { line, reason }) => format!("{path}:{line}: not applicable: {reason}"),
        Outcome::Invalid(error) => format!("{path}:{}: {}", error.line, error.message),
    }
}

/// Prints the table by folder, and the listed scripts.
pub(super) fn print(args: &ConformArgs, rows: &[Row]) -> Result<(), Error> {
    let mut out = stdout().lock();
    for row in rows {
        let (_, listed) = result(&row.outcome);
        if args.list.contains(&listed) || args.list.contains(&Listed::All) {
            writeln!(out, "{}", description(&row.path, &row.outcome))?;
            if let Some((false, message)) = &row.kernel {
                writeln!(out, "  kernel: {message}")?;
            }
        }
    }
    let with_kernel = rows.iter().any(|row| row.kernel.is_some());
    let folders = by_folder(rows.iter().map(|row| (row.path.as_path(), &row.outcome)));
    let name_width = folders.keys().map(|folder| folder.as_os_str().len()).max().unwrap_or(0);
    let mut columns = vec![Column { heading: "folder".to_owned(), width: name_width }];
    let mut headings = vec!["passed", "failed", "not applicable", "invalid"];
    if with_kernel {
        headings.push("passed on the kernel");
        headings.push("of these failed here");
    }
    columns.extend(headings.iter().map(|heading| Column { heading: (*heading).to_owned(), width: heading.len() }));
    let mut table = Table::new(columns);
    let root = lasthop_conform::suite::shared(rows.iter().map(|row| row.path.as_path()));
    let mut total = Counts::default();
    rows.iter().for_each(|row| total.add(&row.outcome));
    let beside = |folder: Option<&Path>| {
        let passed = rows.iter().filter(|row| {
            let own = row.path.parent().and_then(|parent| parent.strip_prefix(&root).ok());
            let own = own.map(|own| if own.as_os_str().is_empty() { Path::new(".") } else { own });
            row.kernel.as_ref().is_some_and(|(is_passed, _)| *is_passed) && (folder.is_none() || own == folder)
        });
        let failed = passed.clone().filter(|row| is_failure(&row.outcome)).count();
        [passed.count(), failed]
    };
    let mut push = |name: String, counts: &Counts, folder: Option<&Path>| {
        let mut cells = vec![name];
        let numbers = [counts.passed, counts.failed, counts.not_applicable, counts.invalid];
        cells.extend(numbers.iter().map(usize::to_string));
        if with_kernel {
            cells.extend(beside(folder).iter().map(usize::to_string));
        }
        table.push(cells);
    };
    for (folder, counts) in &folders {
        push(folder.display().to_string(), counts, Some(folder));
    }
    if folders.len() > 1 {
        push("all".to_owned(), &total, None);
    }
    Ok(write!(out, "{}", table.render(width()))?)
}

fn counts(counts: &Counts) -> Map<String, Value> {
    let numbers = [
        ("passed", counts.passed),
        ("failed", counts.failed),
        ("not_applicable", counts.not_applicable),
        ("invalid", counts.invalid),
    ];
    numbers.into_iter().map(|(name, number)| (name.to_owned(), json!(number))).collect()
}

/// Returns the JSON document that docs/output.md describes.
pub(super) fn json(args: &ConformArgs, rows: &[Row]) -> Value {
    let mut total = Counts::default();
    rows.iter().for_each(|row| total.add(&row.outcome));
    let folders: Vec<Value> = by_folder(rows.iter().map(|row| (row.path.as_path(), &row.outcome)))
        .iter()
        .map(|(folder, numbers)| {
            let mut object = Map::from_iter([("folder".to_owned(), json!(folder.display().to_string()))]);
            object.extend(counts(numbers));
            Value::Object(object)
        })
        .collect();
    let scripts: Vec<Value> = rows.iter().map(script).collect();
    json!({
        "preset": args.preset.name(),
        "hz": args.hz,
        "total": counts(&total),
        "folders": folders,
        "scripts": scripts,
    })
}

fn script(row: &Row) -> Value {
    let (name, _) = result(&row.outcome);
    let mut object = json!({ "file": row.path.display().to_string(), "result": name });
    let more = match &row.outcome {
        Outcome::Ran(Verdict::Passed) => json!({}),
        Outcome::Ran(Verdict::Failed(difference)) => json!({
            "line": difference.line,
            "at_s": difference.at.as_secs_f64(),
            "expected": difference.expected,
            "got": difference.got,
        }),
        Outcome::Ran(Verdict::NotApplicable { line, reason }) => json!({ "line": line, "reason": reason }),
        Outcome::Invalid(error) => json!({ "line": error.line, "reason": error.message }),
    };
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
        if let Some((is_passed, message)) = &row.kernel {
            let result = if *is_passed { "passed" } else { "failed" };
            object.insert("kernel".to_owned(), json!({ "result": result, "message": message }));
        }
    }
    object
}
