//! Reproduction of the published studies.

use lasthop_report::study as report;
use lasthop_scenario::Scenario;

use crate::measures::flows::{duration_columns, steady_columns};
use crate::measures::links::overhead_columns;
use crate::measures::{Samples, columns};
use crate::papers::{bbr2016, kosek2022, l4s_tests2021, mqvpn2026, pemi2026, quic_geo2022, sidekick2024};
use crate::replicate::{Progress, Task, run_each};
use crate::study::{Cell, Options, Results, Study, StudyError};
use crate::{balakrishnan1997, discussion1997, lasthop2026, xylomenos_kokkinakis};

/// The published studies.
pub static STUDIES: [&dyn Study; 11] = [
    &balakrishnan1997::Balakrishnan1997,
    &xylomenos_kokkinakis::XylomenosKokkinakis,
    &discussion1997::DISCUSSION,
    &bbr2016::BBR,
    &sidekick2024::SIDEKICK,
    &kosek2022::KOSEK,
    &pemi2026::PEMI,
    &quic_geo2022::QUIC_GEO,
    &mqvpn2026::MQVPN,
    &l4s_tests2021::L4S_TESTS,
    &lasthop2026::TODAY,
];

/// Size of a study.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Size {
    /// Default number of runs per cell.
    pub runs: u32,
    /// Number of runs per cell when all studies are reproduced together.
    pub runs_in_all: u32,
    /// Processor time that one run of every cell takes, in seconds, on one core of a server of 2023.
    pub seconds_per_run: f64,
}

impl Size {
    /// Size of a study that is not listed.
    const USUAL: Self = Self { runs: 30, runs_in_all: 5, seconds_per_run: 1.0 };

    /// Sizes by name. Papers that print medians have ten runs, as they themselves had.
    const KNOWN: [(&'static str, Self); 11] = [
        ("balakrishnan1997", Self { runs: 30, runs_in_all: 30, seconds_per_run: 0.6 }),
        ("xylomenos-kokkinakis", Self { runs: 30, runs_in_all: 2, seconds_per_run: 20.0 }),
        ("discussion1997", Self { runs: 30, runs_in_all: 8, seconds_per_run: 1.6 }),
        ("bbr2016", Self { runs: 5, runs_in_all: 5, seconds_per_run: 3.7 }),
        ("sidekick2024", Self { runs: 10, runs_in_all: 10, seconds_per_run: 3.6 }),
        ("kosek2022", Self { runs: 5, runs_in_all: 5, seconds_per_run: 1.8 }),
        ("pemi2026", Self { runs: 10, runs_in_all: 10, seconds_per_run: 0.5 }),
        ("quic-geo2022", Self { runs: 10, runs_in_all: 10, seconds_per_run: 0.4 }),
        ("mqvpn2026", Self { runs: 6, runs_in_all: 6, seconds_per_run: 6.0 }),
        ("l4s-tests2021", Self { runs: 3, runs_in_all: 1, seconds_per_run: 62.0 }),
        ("lasthop2026", Self { runs: 5, runs_in_all: 2, seconds_per_run: 38.0 }),
    ];

    /// Returns the size of the study of that name.
    pub fn of(study: &str) -> Self {
        Self::KNOWN.iter().find(|(name, _)| *name == study).map_or(Self::USUAL, |(_, size)| *size)
    }
}

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
            let steady = study.steady_from().map(|from| steady_columns(&task.network, from)).unwrap_or_default();
            let durations = if study.has_durations() {
                [duration_columns(&task.network), overhead_columns(&task.network)].concat()
            } else {
                Vec::new()
            };
            for column in columns(&task.network).into_iter().chain(steady).chain(durations) {
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

    /// Returns the indexes of the cells that the lab runs as well.
    pub fn lab_cells(&self) -> Vec<usize> {
        let named = self.study.lab_cells();
        let of = |(at, cell): (usize, &Cell)| named.contains(&cell.name).then_some(at);
        self.cells.iter().enumerate().filter_map(of).collect()
    }

    /// Returns names and units of the metrics of each run.
    pub fn measures(&self) -> &[(String, &'static str)] {
        &self.measures
    }

    /// Returns the total number of runs.
    pub fn total_runs(&self) -> u64 {
        self.cells.len() as u64 * u64::from(self.options.runs)
    }

    /// Returns the task of each cell, in their order.
    ///
    /// # Errors
    ///
    /// Returns an error if a scenario is invalid.
    pub fn tasks(&self) -> Result<Vec<Task>, lasthop_scenario::Error> {
        let Options { seed, runs, .. } = self.options;
        let names = self.measures.iter().map(|(name, _)| name.as_str());
        let task = |cell: &Cell| Ok(Task::new(&cell.scenario, cell.scheme, seed, runs)?.with_measures(names.clone()));
        self.cells.iter().map(task).collect()
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
        self.finish_with_lab(samples, &[])
    }

    /// Returns the study as [`finish`](Self::finish), with the numbers of the lab beside those of the simulator. `lab`
    /// has indexes of [cells](Self::cells) and the metrics of their runs.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn finish_with_lab(&self, samples: &[Samples], lab: &[(usize, Samples)]) -> Result<report::Study, StudyError> {
        let known = self.study.cell_names()?;
        let mut results = Results::of(known.iter().cloned());
        for (cell, samples) in self.cells.iter().zip(samples) {
            results.insert(&cell.name, samples);
        }
        if !lab.is_empty() {
            let mut measured = Results::of(known);
            lab.iter().for_each(|(at, samples)| measured.insert(&self.cells[*at].name, samples));
            results.set_lab(measured);
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
