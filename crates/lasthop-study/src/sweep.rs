//! Cartesian sweeps: every combination of the values of some keys, under some schemes.
//!
//! A sweep is a list of points in a fixed order. Rows are written as points finish, in that order, so a sweep that was
//! interrupted goes on where it stopped and ends with the same bytes.

use std::hash::{DefaultHasher, Hash, Hasher};

use lasthop_proto::scheme::Scheme;
use lasthop_report::rows::{Kind, Rows, Value};
use lasthop_report::ReportError;
use lasthop_scenario::Scenario;

use crate::measures::{Summary, summarise};
use crate::replicate::{Progress, Task, run_all};

/// One key and the values that it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Dotted path of a scenario key.
    pub key: String,
    /// Its values, as written in TOML or bare.
    pub values: Vec<String>,
}

/// What is wrong with an axis.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("--vary {given}: expected KEY=VALUE,VALUE,..., such as tcp.socket_buffer=\"8 KiB\",\"32 KiB\"")]
pub struct AxisError {
    given: String,
}

impl std::str::FromStr for Axis {
    type Err = AxisError;

    /// `KEY=VALUE,VALUE,...`; a value in quotes, brackets or braces may hold commas.
    fn from_str(text: &str) -> Result<Self, AxisError> {
        let error = || AxisError { given: text.to_owned() };
        let (key, list) = text.split_once('=').ok_or_else(error)?;
        let values: Vec<String> = split_values(list).into_iter().map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(error());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

fn split_values(list: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut values) = (0_i32, false, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                values.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    values.push(&list[from..]);
    values
}

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value of each axis.
    pub values: Vec<String>,
    /// The scheme.
    pub scheme: &'static Scheme,
    task: Task,
}

/// A sweep that is ready to run: every scenario in it has been checked.
#[derive(Clone, Debug)]
pub struct Sweep {
    axes: Vec<Axis>,
    points: Vec<Point>,
    fingerprint: u64,
}

/// Points that are run before their rows are handed out, in runs.
const BATCH_RUNS: usize = 256;

impl Sweep {
    /// All combinations of `axes`, the last one changing fastest, each under every one of `schemes`.
    pub fn new(
        scenario: &Scenario,
        axes: Vec<Axis>,
        schemes: &[&'static Scheme],
        seed: u64,
        runs: u32,
    ) -> Result<Self, lasthop_scenario::Error> {
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for axis in &axes {
            combinations = combinations
                .iter()
                .flat_map(|head| axis.values.iter().map(|value| [head.as_slice(), &[value.clone()]].concat()))
                .collect();
        }
        let mut points = Vec::new();
        for values in combinations {
            let overrides: Vec<_> = axes.iter().map(|axis| axis.key.clone()).zip(values.iter().cloned()).collect();
            let varied = scenario.with_overrides(&overrides)?;
            for &scheme in schemes {
                let task = Task::new(&varied, scheme, seed, runs)?;
                points.push(Point { values: values.clone(), scheme, task });
            }
        }
        let mut hasher = DefaultHasher::new();
        (scenario.explain(), points.len()).hash(&mut hasher);
        for point in &points {
            (&point.values, point.scheme.name).hash(&mut hasher);
        }
        Ok(Self { axes, points, fingerprint: hasher.finish() })
    }

    /// A number that tells sweeps apart: by scenario, keys, values and schemes.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The points, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Runs from point `first` on and hands each batch of finished rows to `sink`. Returns how many points are done in
    /// all; fewer than there are when `progress` stopped it.
    pub fn run<E: From<ReportError>>(
        &self,
        first: usize,
        jobs: usize,
        progress: &dyn Progress,
        mut sink: impl FnMut(&Rows) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut done = first.min(self.points.len());
        while done < self.points.len() {
            let runs = self.points[done].task.runs.max(1) as usize;
            let end = (done + BATCH_RUNS.div_ceil(runs)).min(self.points.len());
            let batch = &self.points[done..end];
            let tasks: Vec<Task> = batch.iter().map(|point| point.task.clone()).collect();
            let reports = run_all(&tasks, jobs, progress);
            let complete = batch.iter().zip(&reports).take_while(|(point, got)| got.len() == point.task.runs as usize);
            let mut rows: Option<Rows> = None;
            let mut finished = 0;
            for (point, reports) in complete {
                let summaries = summarise(&point.task.network, reports);
                let rows = rows.get_or_insert_with(|| Rows::new(self.columns(&summaries)));
                rows.push(self.row(point, &summaries))?;
                finished += 1;
            }
            if let Some(rows) = rows {
                sink(&rows)?;
            }
            done += finished;
            if progress.stopped() {
                break;
            }
        }
        Ok(done)
    }

    fn columns(&self, summaries: &[Summary]) -> Vec<(String, Kind)> {
        let mut columns: Vec<_> = self.axes.iter().map(|axis| (axis.key.clone(), Kind::Text)).collect();
        columns.push(("scheme".to_owned(), Kind::Text));
        columns.push(("runs".to_owned(), Kind::Count));
        for summary in summaries {
            columns.push((summary.name.clone(), Kind::Float));
            columns.push((format!("{}_ci95", summary.name), Kind::Float));
        }
        columns
    }

    fn row(&self, point: &Point, summaries: &[Summary]) -> Vec<Value> {
        let mut row: Vec<_> = point.values.iter().cloned().map(Value::Text).collect();
        row.push(Value::Text(point.scheme.name.to_owned()));
        row.push(Value::Count(u64::from(point.task.runs)));
        for summary in summaries {
            row.push(Value::Float(summary.estimate.mean));
            row.push(summary.estimate.ci95.map_or(Value::Missing, Value::Float));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_commas_in_quotes_and_braces() {
        let axis: Axis = "links.w.errors={ model = \"none\", x = 1 },\"a,b\",c".parse().unwrap();
        assert_eq!(axis.values, ["{ model = \"none\", x = 1 }", "\"a,b\"", "c"]);
        assert!("nothing".parse::<Axis>().is_err());
        assert!("key=".parse::<Axis>().is_err());
    }

    #[test]
    fn last_axis_changes_fastest() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let axes = vec!["seed=1,2".parse().unwrap(), "tcp.mss=500,1000".parse().unwrap()];
        let sweep = Sweep::new(&scenario, axes, &[Scheme::by_name("E2E").unwrap()], 1, 1).unwrap();
        let values: Vec<_> = sweep.points().iter().map(|point| point.values.join("/")).collect();
        assert_eq!(values, ["1/500", "1/1000", "2/500", "2/1000"]);
    }
}
