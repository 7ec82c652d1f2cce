//! The published studies by name, and what reproducing one takes.

use lasthop_report::study as report;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, columns};
use crate::replicate::{Progress, Task, run_each};
use crate::study::{Cell, Options, Results, Selection, Study, StudyError};
use crate::{balakrishnan1997, discussion1997, xylomenos_kokkinakis};

/// The studies.
pub static STUDIES: [&dyn Study; 3] =
    [&balakrishnan1997::Balakrishnan1997, &xylomenos_kokkinakis::XylomenosKokkinakis, &discussion1997::Discussion1997];

/// The names that select them.
pub fn names() -> [&'static str; STUDIES.len()] {
    STUDIES.map(Study::name)
}

/// What reproducing a study takes: cells to run, wherever that is done.
#[derive(Clone)]
pub struct Plan {
    study: &'static dyn Study,
    options: Options,
    cells: Vec<Cell>,
    measures: Vec<(String, &'static str)>,
}

impl Plan {
    /// The cells of a study, or of the part selected.
    ///
    /// # Errors
    ///
    /// When there is no such study, or it has no such table or figure.
    pub fn new(study: &str, options: &Options) -> Result<Self, StudyError> {
        let found = STUDIES.into_iter().find(|known| known.name() == study);
        let study =
            found.ok_or_else(|| StudyError::NoSuchStudy { given: study.to_owned(), known: names().join(", ") })?;
        let cells = study.cells(&options.selection)?;
        let mut plan = Self { study, options: options.clone(), cells, measures: Vec::new() };
        // Cells differ in what they have: only web sessions have pages.
        for task in plan.tasks()? {
            for column in columns(&task.network) {
                if !plan.measures.contains(&column) {
                    plan.measures.push(column);
                }
            }
        }
        Ok(plan)
    }

    /// The same cells over other scenarios: what `change` makes of each cell's.
    ///
    /// # Errors
    ///
    /// When `change` does not make a scenario that holds.
    pub fn vary(
        mut self,
        change: impl Fn(&Cell) -> Result<Scenario, lasthop_scenario::Error>,
    ) -> Result<Self, StudyError> {
        for cell in &mut self.cells {
            cell.scenario = change(cell)?;
        }
        Ok(self)
    }

    /// Only the cells that `keep` lets through, as if no more had been selected.
    #[must_use]
    pub fn retain(mut self, keep: impl Fn(&Cell) -> bool) -> Self {
        self.cells.retain(keep);
        self
    }

    /// The cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Names and units of what is measured in each run.
    pub fn measures(&self) -> &[(String, &'static str)] {
        &self.measures
    }

    /// Runs in all.
    pub fn total_runs(&self) -> u64 {
        self.cells.len() as u64 * u64::from(self.options.runs)
    }

    fn tasks(&self) -> Result<Vec<Task>, lasthop_scenario::Error> {
        let Options { seed, runs, .. } = self.options;
        self.cells.iter().map(|cell| Task::new(&cell.scenario, cell.scheme, seed, runs)).collect()
    }

    /// Runs all cells here. Of each, what its runs measured.
    ///
    /// # Errors
    ///
    /// When `progress` stops it.
    pub fn run(&self, progress: &dyn Progress) -> Result<Vec<Samples>, StudyError> {
        let tasks = self.tasks()?;
        let mut samples = vec![Samples::new(self.measures.clone()); tasks.len()];
        run_each(&tasks, self.options.jobs, progress, |at, report| {
            samples[at].push(&tasks[at].network, &report);
            Ok::<(), StudyError>(())
        })?;
        if progress.stopped() { Err(StudyError::Stopped) } else { Ok(samples) }
    }

    /// The study with its tables, claims and figures, from what the runs of each cell measured. Claims that need cells
    /// outside the selection are left out.
    ///
    /// # Errors
    ///
    /// When a scenario that is followed for a figure does not hold, and when a table or claim names a cell that the study does
    /// not have.
    pub fn finish(&self, samples: &[Samples]) -> Result<report::Study, StudyError> {
        let known = self.study.cells(&Selection::All)?;
        let mut results = Results::of(known.into_iter().map(|cell| cell.name));
        for (cell, samples) in self.cells.iter().zip(samples) {
            results.insert(&cell.name, samples);
        }
        let study = self.study.assemble(&self.options, &results)?;
        match results.unknown() {
            None => Ok(study),
            Some(given) => Err(StudyError::Inconsistent { study: self.study.name(), what: "cell", given }),
        }
    }
}

/// Runs a study, or the part selected, and returns it with its tables, claims and figures.
///
/// # Errors
///
/// When there is no such study, or it has no such table or figure, and when `progress` stops it.
pub fn reproduce(study: &str, options: &Options, progress: &dyn Progress) -> Result<report::Study, StudyError> {
    let plan = Plan::new(study, options)?;
    plan.finish(&plan.run(progress)?)
}
