//! Cartesian sweeps: every combination of the values of some keys, under some schemes.
//!
//! A sweep is a list of points in a fixed order. Rows are written in that order as points finish, so an interrupted
//! sweep continues at that point, and the final bytes are the same.

use std::collections::BTreeMap;

use lasthop_identity::Fingerprint;
use lasthop_proto::scheme::Scheme;
use lasthop_report::ReportError;
use lasthop_report::rows::{Kind, Rows, Value};
use lasthop_scenario::{Idle, Scenario};
use lasthop_sim::Overflow;

use crate::meaning::{Meaning, meanings};
use crate::measures::{self, OCCASIONAL, OCCASIONAL_UNIT, OCCASIONS, Samples, find};
use crate::replicate::{Progress, Task, map_all, run_each};

/// A key and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Dotted path of a scenario key.
    pub key: String,
    /// Values, as written in TOML or bare.
    pub values: Vec<String>,
}

/// Error of parsing an axis.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected KEY=VALUE,VALUE,..., e.g. tcp.socket_buffer=\"8 KiB\",\"32 KiB\"")]
pub struct AxisError;

impl std::str::FromStr for Axis {
    type Err = AxisError;

    /// Parses `KEY=VALUE,VALUE,...`. A value in quotes, brackets or braces may contain commas.
    fn from_str(text: &str) -> Result<Self, AxisError> {
        let (key, list) = text.split_once('=').ok_or(AxisError)?;
        let values: Vec<String> = split_values(list).into_iter().map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(AxisError);
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

/// Error of a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A point is not a valid scenario.
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
    /// A run holds too many frames.
    #[error(transparent)]
    Overflow(#[from] Overflow),
    /// A row could not be created or written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The key is set by an option of its own.
    #[error("--vary {key}: cannot be varied; give {instead}")]
    Reserved {
        /// The key.
        key: String,
        /// Alternative.
        instead: &'static str,
    },
    /// A key has two axes.
    #[error("--vary {key}: given twice; give all values together, e.g. {key}=1,2")]
    Twice {
        /// The key.
        key: String,
    },
    /// The sweep has too many points.
    #[error("--vary: too many combinations; give values for at most {MAX_POINTS} in all")]
    TooMany,
}

/// Maximum number of points in a sweep.
pub const MAX_POINTS: usize = 1_000_000;

/// A point of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// Value of each axis.
    pub values: Vec<String>,
    /// Scheme.
    pub scheme: &'static Scheme,
    /// Scheme whose runs the point shares at the same values, because the scenario fixes the difference between them.
    pub same_as: Option<&'static Scheme>,
}

impl Point {
    /// Returns the name of the scheme whose runs the point uses.
    fn runs_of(&self) -> &'static str {
        self.same_as.unwrap_or(self.scheme).name
    }
}

/// Points at the same values of the axes.
struct AtValues {
    points: Vec<Point>,
    /// Indicates for each count that not every run has whether one of the points has it.
    has: [bool; OCCASIONS],
    /// Digests of the files that the scenario names.
    files: Vec<u64>,
}

/// Names of columns.
const SCHEME: &str = "scheme";
const SAME_AS: &str = "same_as";

/// A sweep whose scenarios have all been checked.
#[derive(Clone, Debug)]
pub struct Sweep {
    scenario: Scenario,
    axes: Vec<Axis>,
    points: Vec<Point>,
    /// Digests of the files that the scenarios name, which may change while a sweep is interrupted.
    files: Vec<u64>,
    /// Names and units of the metrics.
    measures: Vec<(String, &'static str)>,
    columns: Vec<(String, Kind)>,
    seed: u64,
    runs: u32,
}

/// Reason why runs ended before the last.
enum Ended<E> {
    /// The sink returned an error.
    Sink(E),
    Overflow(Overflow),
}

impl<E> From<Overflow> for Ended<E> {
    fn from(overflow: Overflow) -> Self {
        Self::Overflow(overflow)
    }
}

/// Number of runs whose points are prepared together.
const BATCH_RUNS: usize = 1024;

impl Sweep {
    /// Creates the sweep over all combinations of `axes`, the last one changing fastest, each under every one of
    /// `schemes`.
    pub fn new(
        scenario: &Scenario,
        axes: Vec<Axis>,
        schemes: &[&'static Scheme],
        seed: u64,
        runs: u32,
    ) -> Result<Self, SweepError> {
        for (at, Axis { key, .. }) in axes.iter().enumerate() {
            let instead = match key.as_str() {
                "scheme" => Some("--scheme NAME,NAME"),
                "runs" => Some("--runs N"),
                "seed" => Some("--seed S"),
                _ => None,
            };
            if let Some(instead) = instead {
                return Err(SweepError::Reserved { key: key.clone(), instead });
            }
            if axes[..at].iter().any(|other| other.key == *key) {
                return Err(SweepError::Twice { key: key.clone() });
            }
        }
        let count = axes.iter().try_fold(schemes.len(), |count, axis| count.checked_mul(axis.values.len()));
        if count.is_none_or(|count| count > MAX_POINTS) {
            return Err(SweepError::TooMany);
        }
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for axis in &axes {
            combinations = combinations
                .iter()
                .flat_map(|head| {
                    axis.values.iter().map(|value| [head.as_slice(), std::slice::from_ref(value)].concat())
                })
                .collect();
        }
        let (scenario, measures, columns, points) = (scenario.clone(), Vec::new(), Vec::new(), Vec::new());
        let mut sweep = Self { scenario, axes, points, files: Vec::new(), measures, columns, seed, runs };
        let points = map_all(&combinations, 0, |values| sweep.points_of(values, schemes))?;
        sweep.check_effects(&combinations, schemes)?;
        let occasional: Vec<_> =
            OCCASIONAL.iter().zip(0..).filter(|(_, at)| points.iter().any(|at_values| at_values.has[*at])).collect();
        for AtValues { points, files, .. } in points {
            sweep.points.extend(points);
            sweep.files.extend(files);
        }
        if let Some(point) = sweep.points.first() {
            sweep.measures = measures::metered_columns(&sweep.task(point)?.network);
        }
        // The first point may lack counts that others have.
        sweep.measures.retain(|(name, _)| !OCCASIONAL.iter().any(|count| count.name == name));
        sweep.measures.extend(occasional.iter().map(|(count, _)| (count.name.to_owned(), OCCASIONAL_UNIT)));
        sweep.columns = sweep.axes.iter().map(|axis| (axis.key.clone(), Kind::Text)).collect();
        sweep.columns.push((SCHEME.to_owned(), Kind::Text));
        if sweep.has_same() {
            sweep.columns.push((SAME_AS.to_owned(), Kind::Text));
        }
        sweep.columns.push(("runs".to_owned(), Kind::Count));
        for (name, _) in &sweep.measures {
            sweep.columns.push((name.clone(), Kind::Float));
            sweep.columns.push((format!("{name}_ci95"), Kind::Float));
        }
        Ok(sweep)
    }

    /// Returns the scenario with these values of the axes.
    fn scenario_at(&self, values: &[String]) -> Result<Scenario, lasthop_scenario::Error> {
        let values: Vec<_> = self.axes.iter().map(|axis| &axis.key).zip(values).collect();
        // Other values from the command line have been checked before.
        self.scenario.with_overrides(&values).map_err(|error| error.set_by("--vary"))
    }

    /// Rejects TCP keys that no endpoint of any point reads.
    fn check_effects(
        &self,
        combinations: &[Vec<String>],
        schemes: &[&'static Scheme],
    ) -> Result<(), lasthop_scenario::Error> {
        let mut idle: Option<Vec<Idle>> = None;
        for values in combinations {
            let here = self.scenario_at(values)?.idle_keys(schemes)?;
            let everywhere = match idle {
                None => here,
                Some(so_far) => so_far.into_iter().filter(|idle| here.iter().any(|key| key.key == idle.key)).collect(),
            };
            if everywhere.is_empty() {
                return Ok(());
            }
            idle = Some(everywhere);
        }
        let Some(Idle { key, error }) = idle.into_iter().flatten().next() else { return Ok(()) };
        Err(if self.axes.iter().any(|axis| axis.key == key) { error.set_by("--vary") } else { error })
    }

    /// Checks these values and returns their points.
    fn points_of(&self, values: &[String], schemes: &[&'static Scheme]) -> Result<AtValues, lasthop_scenario::Error> {
        let scenario = self.scenario_at(values)?;
        let networks = schemes.iter().map(|scheme| scenario.network(scheme)).collect::<Result<Vec<_>, _>>()?;
        let meanings = meanings(&scenario, schemes, &networks.iter().collect::<Vec<_>>());
        let point =
            |meaning: Meaning| Point { values: values.to_vec(), scheme: meaning.scheme, same_as: meaning.same_as };
        Ok(AtValues {
            points: meanings.into_iter().map(point).collect(),
            has: OCCASIONAL.each_ref().map(|count| networks.iter().any(count.applies)),
            files: scenario.file_digests().collect(),
        })
    }

    /// Returns the metered runs of a point.
    ///
    /// # Errors
    ///
    /// Returns an error if its scenario is invalid, which is already checked when the sweep is created.
    pub fn task(&self, point: &Point) -> Result<Task, lasthop_scenario::Error> {
        Ok(Task::new(&self.scenario_at(&point.values)?, point.scheme, self.seed, self.runs)?.metered())
    }

    /// Returns whether some points are the same runs as others.
    fn has_same(&self) -> bool {
        self.points.iter().any(|point| point.same_as.is_some())
    }

    /// Returns a number that identifies the sweep: its scenario, keys, values, schemes, seed, runs, the contents of the
    /// files that it names, and the sources of this build.
    pub fn fingerprint(&self) -> u64 {
        let mut all = Fingerprint::new().text(self.scenario.explain()).number(self.seed).number(self.runs.into());
        for axis in &self.axes {
            all = all.text(&axis.key).texts(axis.values.iter());
        }
        for point in &self.points {
            all = all.text(point.scheme.name).texts(point.values.iter());
        }
        for digest in &self.files {
            all = all.number(*digest);
        }
        all.finish()
    }

    /// Returns the base scenario.
    pub const fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Returns the number of runs per point.
    pub const fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns the root seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns names and units of the metrics of each run.
    pub fn measures(&self) -> &[(String, &'static str)] {
        &self.measures
    }

    /// Returns the points, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the columns of the sweep's rows: the axes, the scheme, `same_as` if some points are the same runs as
    /// others, the number of runs, and mean and interval of each metric.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// Runs the points starting at `first`, and passes the row of each point to `sink`, in order, as soon as it is
    /// finished. Returns the total number of finished points, including those before `first`; it is lower if `progress`
    /// stopped it.
    pub fn run<E: From<SweepError>>(
        &self,
        first: usize,
        jobs: usize,
        progress: &dyn Progress,
        mut sink: impl FnMut(&Rows) -> Result<(), E>,
    ) -> Result<usize, E> {
        let first = first.min(self.points.len());
        let points: Vec<usize> = (first..self.points.len()).collect();
        let done = self.run_points(&points, jobs, progress, |point, samples| {
            let mut rows = Rows::new(self.columns.clone());
            rows.push(self.row(point, &samples)).map_err(SweepError::from)?;
            sink(&rows)
        })?;
        Ok(first + done)
    }

    /// Runs some points, by number, and passes each with the metrics of its runs to `sink`, in the order of `points`,
    /// as soon as it is finished. Returns the number of finished points; it is lower if `progress` stopped it.
    pub fn run_points<E: From<SweepError>>(
        &self,
        points: &[usize],
        jobs: usize,
        progress: &dyn Progress,
        mut sink: impl FnMut(usize, Samples) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut done = 0;
        for batch in points.chunks(BATCH_RUNS.div_ceil(self.runs.max(1) as usize)) {
            if progress.stopped() {
                break;
            }
            // Equal runs are executed once: for the first such point in the batch.
            let shares = |a: &Point, b: &Point| a.runs_of() == b.runs_of() && a.values == b.values;
            let first: Vec<usize> = (0..batch.len())
                .map(|at| {
                    let of = |at: usize| &self.points[batch[at]];
                    // Equal points are adjacent.
                    let near = (0..at).rev().take_while(|&before| of(before).values == of(at).values);
                    near.filter(|&before| shares(of(before), of(at))).last().unwrap_or(at)
                })
                .collect();
            let own: Vec<usize> = (0..batch.len()).filter(|&at| first[at] == at).collect();
            let tasks = map_all(&own, jobs, |&at| self.task(&self.points[batch[at]])).map_err(SweepError::from)?;
            let mut samples = Samples::new(self.measures.clone());
            // Metrics of the points of `own` that others share.
            let mut kept: BTreeMap<usize, Samples> = BTreeMap::new();
            run_each(&tasks, jobs, progress, |task, report| {
                samples.push(&tasks[task].network, &report);
                if samples.runs() < self.runs as usize {
                    return Ok::<(), Ended<E>>(());
                }
                let at = own[task];
                let samples = std::mem::replace(&mut samples, Samples::new(self.measures.clone()));
                if first[at + 1..].contains(&at) {
                    kept.insert(at, samples.clone());
                }
                done += 1;
                sink(batch[at], samples).map_err(Ended::Sink)?;
                // The following points that share runs which have ended.
                for same in (at + 1..batch.len()).take_while(|&same| first[same] != same) {
                    (0..self.runs).for_each(|_| progress.run_done());
                    done += 1;
                    sink(batch[same], kept[&first[same]].clone()).map_err(Ended::Sink)?;
                }
                Ok(())
            })
            .map_err(|ended| match ended {
                Ended::Sink(error) => error,
                Ended::Overflow(overflow) => SweepError::from(overflow).into(),
            })?;
        }
        Ok(done)
    }

    /// Returns the row of a point whose runs have the metrics `samples`.
    pub fn row(&self, point: usize, samples: &Samples) -> Vec<Value> {
        let Point { values, scheme, same_as } = &self.points[point];
        let summaries = samples.summaries();
        let mut row: Vec<_> = values.iter().cloned().map(Value::Text).collect();
        row.push(Value::Text(scheme.name.to_owned()));
        if self.columns.iter().any(|(name, _)| name == SAME_AS) {
            row.push(same_as.map_or(Value::Missing, |scheme| Value::Text(scheme.name.to_owned())));
        }
        row.push(Value::Count(u64::from(self.runs)));
        for (name, _) in &self.measures {
            let estimate = find(&summaries, name);
            row.push(estimate.map_or(Value::Missing, |estimate| Value::Float(estimate.mean)));
            row.push(estimate.and_then(|estimate| estimate.ci95).map_or(Value::Missing, Value::Float));
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn axes(given: &[&str]) -> Vec<Axis> {
        given.iter().map(|axis| axis.parse().unwrap()).collect()
    }

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
        let axes = axes(&["links.wired.queue=1 packets,2 packets", "tcp.mss=500,1000"]);
        let sweep = Sweep::new(&scenario, axes, &[Scheme::by_name("E2E").unwrap()], 1, 1).unwrap();
        let values: Vec<_> = sweep.points().iter().map(|point| point.values.join("/")).collect();
        assert_eq!(values, ["1 packets/500", "1 packets/1000", "2 packets/500", "2 packets/1000"]);
    }

    /// All rows have the column of marks if any point may have marks.
    #[test]
    fn marks_have_a_column_where_any_point_may_have_them() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let queue = ("links.wireless.queue", "{ kind = \"codel\", ecn = true }");
        let has_marks = |scenario: &Scenario, given: &[&str]| {
            let sweep = Sweep::new(scenario, axes(given), &[Scheme::by_name("E2E").unwrap()], 1, 1).unwrap();
            sweep.columns().iter().filter(|(name, _)| name.starts_with("marks")).count()
        };
        let marking = scenario.with_overrides(&[queue]).unwrap();
        assert_eq!(has_marks(&scenario, &["tcp.ecn=\"off\",\"on\""]), 0);
        assert_eq!(has_marks(&marking, &["tcp.ecn=\"off\",\"on\""]), 2);
        assert_eq!(has_marks(&marking, &["tcp.ecn=\"off\",\"passive\""]), 0);
    }

    #[test]
    fn axes_that_would_change_nothing_are_refused() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let refusal = |given: &[&str]| {
            let sweep = Sweep::new(&scenario, axes(given), &[Scheme::by_name("E2E").unwrap()], 1, 1);
            sweep.unwrap_err().to_string()
        };
        assert_eq!(refusal(&["scheme=E2E,LL"]), "--vary scheme: cannot be varied; give --scheme NAME,NAME");
        assert_eq!(
            refusal(&["tcp.mss=1", "tcp.mss=2"]),
            "--vary tcp.mss: given twice; give all values together, e.g. tcp.mss=1,2"
        );
        let many = format!("tcp.mss={}", vec!["1"; 2000].join(","));
        assert!(refusal(&[&many, &many.replace("mss", "dupack_threshold")]).starts_with("--vary: too many"));
    }

    #[test]
    fn points_that_are_the_same_run_are_marked_and_run_once() {
        struct Counts(AtomicU64);
        impl Progress for Counts {
            fn run_done(&self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&[("limit", "2 s")]).unwrap();
        let schemes = ["E2E", "LL", "E2E-IETF-SACK", "E2E-NEWRENO"].map(|name| Scheme::by_name(name).unwrap());
        let sweep = Sweep::new(&scenario, axes(&["tcp.recovery=scheme,sack"]), &schemes, 1, 2).unwrap();
        let same: Vec<_> = sweep.points().iter().map(|point| point.same_as.map(|scheme| scheme.name)).collect();
        let sack = Some("E2E-IETF-SACK");
        assert_eq!(same, [None, None, None, None, sack, None, None, sack]);
        let progress = Counts(AtomicU64::new(0));
        let mut rows = Vec::new();
        let done = sweep.run(0, 2, &progress, |row| {
            rows.extend(row.rows().to_vec());
            Ok::<(), SweepError>(())
        });
        assert_eq!((done.unwrap(), progress.0.into_inner()), (8, 16));
        let column = |name: &str| sweep.columns().iter().position(|(known, _)| known == name).unwrap();
        let (scheme, same_as, measures) = (column("scheme"), column("same_as"), column("runs") + 1);
        let names: Vec<_> = rows.iter().map(|row| row[scheme].clone()).collect();
        assert_eq!(
            names,
            schemes.repeat(2).iter().map(|scheme| Value::Text(scheme.name.to_owned())).collect::<Vec<_>>()
        );
        assert_eq!((&rows[3][same_as], &rows[4][same_as]), (&Value::Missing, &Value::Text("E2E-IETF-SACK".to_owned())));
        // E2E, SACK and NewReno, in this order in the rows.
        assert_eq!((&rows[4][measures..], &rows[7][measures..]), (&rows[6][measures..], &rows[6][measures..]));
        assert_ne!(rows[0][measures..], rows[2][measures..]);
        // A part of them has the same numbers, and a single one is run.
        let mut part = Vec::new();
        let done = sweep.run_points(&[7, 4], 1, &crate::replicate::Silent, |point, samples| {
            part.push(sweep.row(point, &samples));
            Ok::<(), SweepError>(())
        });
        assert_eq!((done.unwrap(), &part[..]), (2, &[rows[7].clone(), rows[4].clone()][..]));
        assert!(
            Sweep::new(&scenario, Vec::new(), &schemes, 1, 2)
                .unwrap()
                .columns()
                .iter()
                .all(|(name, _)| name != "same_as")
        );
    }

    /// Otherwise an interrupted sweep would continue with rows of other traces.
    #[test]
    fn the_contents_of_files_identify_a_sweep() {
        let folder = std::env::temp_dir().join(format!("lasthop-sweep-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let trace = folder.join("rates.csv");
        let scenario = Scenario::builtin("starlink").unwrap();
        let fingerprint = |text: &str| {
            std::fs::write(&trace, text).unwrap();
            let given =
                format!("links.satellite.rate_variation={{ model = \"replay\", file = '{}' }}", trace.display());
            Sweep::new(&scenario, axes(&[&given]), &[Scheme::by_name("E2E").unwrap()], 1, 1).unwrap().fingerprint()
        };
        let first = fingerprint("0 10\n1 20\n2 10\n");
        assert_ne!(first, fingerprint("0 10\n1 21\n2 10\n"));
        assert_eq!(first, fingerprint("0 10\n1 20\n2 10\n"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Deliveries at a point determine which metrics have values, but not the columns.
    #[test]
    fn all_points_have_the_same_columns() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let sweep = Sweep::new(&scenario, axes(&["limit=1 ms,2 s"]), &[Scheme::by_name("E2E").unwrap()], 1, 2).unwrap();
        let mut rows = Vec::new();
        let done = sweep.run(0, 1, &crate::replicate::Silent, |row| {
            assert_eq!(row.columns(), sweep.columns());
            rows.extend(row.rows().to_vec());
            Ok::<(), SweepError>(())
        });
        assert_eq!((done.unwrap(), rows.len()), (2, 2));
        let wired = sweep.columns().iter().position(|(name, _)| name == "wired_goodput").unwrap();
        assert_eq!(rows[0][wired], Value::Missing);
        assert!(matches!(rows[1][wired], Value::Float(_)));
    }
}
