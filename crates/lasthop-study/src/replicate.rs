//! Many runs on many cores. Results come back in the order of the tasks, and each run's randomness depends on the root seed
//! and its number only: neither on the number of threads nor on the scheme, so that schemes meet the same errors.

use std::sync::atomic::{AtomicBool, Ordering};

use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;
use lasthop_sim::{Recording, run};
use rayon::prelude::*;

/// What to run how often.
#[derive(Clone, Debug)]
pub struct Task {
    /// The network.
    pub network: Network,
    /// Root seed.
    pub seed: u64,
    /// Runs, numbered from 0.
    pub runs: u32,
}

impl Task {
    /// `scenario` under `scheme`.
    pub fn new(scenario: &Scenario, scheme: &Scheme, seed: u64, runs: u32) -> Result<Self, lasthop_scenario::Error> {
        Ok(Self { network: scenario.network(scheme)?, seed, runs })
    }
}

/// The seed of one run.
pub fn run_seed(seed: u64, number: u32) -> u64 {
    Root(seed).stream(&format!("runs/{number}")).below(u64::MAX)
}

/// Told about each finished run, from any thread.
pub trait Progress: Sync {
    /// One more run is done.
    fn run_done(&self);

    /// Whether to stop: runs that have not begun are left out.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody watches.
pub struct Silent;

impl Progress for Silent {
    fn run_done(&self) {}
}

/// Counts nothing, but stops when the flag is set.
impl Progress for AtomicBool {
    fn run_done(&self) {}

    fn stopped(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

/// Runs every task on `jobs` threads (0: one per core). Per task, the reports in order of run number; a task that was
/// stopped before its last run has fewer.
pub fn run_all(tasks: &[Task], jobs: usize, progress: &dyn Progress) -> Vec<Vec<Report>> {
    let work: Vec<(usize, u32)> =
        tasks.iter().enumerate().flat_map(|(task, spec)| (0..spec.runs).map(move |number| (task, number))).collect();
    let one = |&(task, number): &(usize, u32)| {
        if progress.stopped() {
            return None;
        }
        let Task { network, seed, .. } = &tasks[task];
        let report = run(network, run_seed(*seed, number), Recording::Off).report;
        progress.run_done();
        Some((task, report))
    };
    let done: Vec<_> = match rayon::ThreadPoolBuilder::new().num_threads(jobs).build() {
        Ok(pool) => pool.install(|| work.par_iter().with_max_len(1).filter_map(one).collect()),
        // Without threads the work is the same, one run after another.
        Err(_) => work.iter().filter_map(one).collect(),
    };
    let mut reports = vec![Vec::new(); tasks.len()];
    for (task, report) in done {
        reports[task].push(report);
    }
    reports
}
