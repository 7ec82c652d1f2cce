//! The published studies by name, and what reproducing one takes.

use lasthop_report::study::Study;

use crate::measures::{Samples, columns};
use crate::replicate::{Progress, Task, run_each};
use crate::study::{Cell, Options, Results, StudyError};
use crate::{balakrishnan1997, xylomenos_kokkinakis};

/// The names that select studies.
pub const STUDIES: [&str; 2] = [balakrishnan1997::NAME, xylomenos_kokkinakis::NAME];

/// What reproducing a study takes: cells to run, wherever that is done.
#[derive(Clone, Debug)]
pub struct Plan {
    study: &'static str,
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
        let (study, cells) = match study {
            balakrishnan1997::NAME => (balakrishnan1997::NAME, balakrishnan1997::cells(&options.selection)?),
            xylomenos_kokkinakis::NAME => {
                (xylomenos_kokkinakis::NAME, xylomenos_kokkinakis::cells(&options.selection)?)
            }
            _ => return Err(StudyError::NoSuchStudy { given: study.to_owned(), known: STUDIES.join(", ") }),
        };
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
    /// When a scenario that is followed for a figure does not hold.
    pub fn finish(&self, samples: &[Samples]) -> Result<Study, StudyError> {
        let mut results = Results::default();
        for (cell, samples) in self.cells.iter().zip(samples) {
            results.insert(&cell.name, samples);
        }
        match self.study {
            balakrishnan1997::NAME => balakrishnan1997::assemble(&self.options, &results),
            _ => xylomenos_kokkinakis::assemble(&self.options, &results),
        }
    }
}

/// Runs a study, or the part selected, and returns it with its tables, claims and figures.
///
/// # Errors
///
/// When there is no such study, or it has no such table or figure, and when `progress` stops it.
pub fn reproduce(study: &str, options: &Options, progress: &dyn Progress) -> Result<Study, StudyError> {
    let plan = Plan::new(study, options)?;
    plan.finish(&plan.run(progress)?)
}
