//! Reproduction of the published studies.

use lasthop_report::study as report;
use lasthop_scenario::Scenario;

use crate::measures::{Samples, columns};
use crate::papers::{bbr2016, kosek2022, pemi2026, sidekick2024};
use crate::replicate::{Progress, Task, run_each};
use crate::study::{Cell, Options, Results, Selection, Study, StudyError};
use crate::{balakrishnan1997, discussion1997, xylomenos_kokkinakis};

/// The published studies.
pub static STUDIES: [&dyn Study; 7] = [
    &balakrishnan1997::Balakrishnan1997,
    &xylomenos_kokkinakis::XylomenosKokkinakis,
    &discussion1997::DISCUSSION,
    &bbr2016::BBR,
    &sidekick2024::SIDEKICK,
    &kosek2022::KOSEK,
    &pemi2026::PEMI,
];

/// Returns the names that select the studies.
pub fn names() -> [&'static str; STUDIES.len()] {
    STUDIES.map(Study::name)
}

/// Cells to run for the reproduction of a study, on any machine.
#[derive(Clone)]
pub struct Plan {
    study: &'static dyn Study,
    options: Options,
    cells: Vec<Cell>,
    measures: Vec<(String, &'static str)>,
}

impl Plan {
    /// Plans the cells of a study, or of the selected part.
    ///
    /// # Errors
    ///
    /// Returns an error if the study does not exist, or has no such table or figure.
    pub fn new(study: &str, options: &Options) -> Result<Self, StudyError> {
        let found = STUDIES.into_iter().find(|known| known.name() == study);
        let study =
            found.ok_or_else(|| StudyError::NoSuchStudy { given: study.to_owned(), known: names().join(", ") })?;
        let cells = study.cells(&options.selection)?;
        let mut plan = Self { study, options: options.clone(), cells, measures: Vec::new() };
        // Cells differ in their metrics: only web sessions have pages.
        for task in plan.tasks()? {
            for column in columns(&task.network) {
                if !plan.measures.contains(&column) {
                    plan.measures.push(column);
                }
            }
        }
        Ok(plan)
    }

    /// Returns the plan with the scenario of each cell replaced by the result of `change`.
    ///
    /// # Errors
    ///
    /// Returns an error if `change` does not return a valid scenario.
    pub fn vary(
        mut self,
        change: impl Fn(&Cell) -> Result<Scenario, lasthop_scenario::Error>,
    ) -> Result<Self, StudyError> {
        for cell in &mut self.cells {
            cell.scenario = change(cell)?;
        }
        Ok(self)
    }

    /// Returns the plan with only the cells that satisfy `keep`, as if no others had been selected.
    #[must_use]
    pub fn retain(mut self, keep: impl Fn(&Cell) -> bool) -> Self {
        self.cells.retain(keep);
        self
    }

    /// Returns the name of the study.
    pub fn study(&self) -> &'static str {
        self.study.name()
    }

    /// Returns the cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns names and units of the metrics of each run.
    pub fn measures(&self) -> &[(String, &'static str)] {
        &self.measures
    }

    /// Returns the total number of runs.
    pub fn total_runs(&self) -> u64 {
        self.cells.len() as u64 * u64::from(self.options.runs)
    }

    fn tasks(&self) -> Result<Vec<Task>, lasthop_scenario::Error> {
        let Options { seed, runs, .. } = self.options;
        self.cells.iter().map(|cell| Task::new(&cell.scenario, cell.scheme, seed, runs)).collect()
    }

    /// Runs all cells on this machine. Returns the metrics of each cell's runs.
    ///
    /// # Errors
    ///
    /// Returns an error if `progress` stops it.
    pub fn run(&self, progress: &dyn Progress) -> Result<Vec<Samples>, StudyError> {
        let tasks = self.tasks()?;
        let mut samples = vec![Samples::new(self.measures.clone()); tasks.len()];
        run_each(&tasks, self.options.jobs, progress, |at, report| {
            samples[at].push(&tasks[at].network, &report);
            Ok::<(), StudyError>(())
        })?;
        if progress.stopped() { Err(StudyError::Stopped) } else { Ok(samples) }
    }

    /// Returns the study with its tables, claims and figures, from the metrics of each cell's runs. Omits claims that
    /// need cells outside of the selection.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario for a figure is invalid, or if a table or claim names a cell that the study does
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

/// Runs a study, or the selected part, and returns it with its tables, claims and figures.
///
/// # Errors
///
/// Returns an error if the study does not exist, or has no such table or figure, or if `progress` stops it.
pub fn reproduce(study: &str, options: &Options, progress: &dyn Progress) -> Result<report::Study, StudyError> {
    let plan = Plan::new(study, options)?;
    plan.finish(&plan.run(progress)?)
}
