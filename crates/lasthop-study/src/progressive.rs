//! Runs for interactive use: a result after a few runs of each task, refined by more runs, and stopped at any time.
//!
//! The numbers are those of [`replicate`](crate::replicate): run *n* of a task is the same run, and a task's summary
//! after *n* runs equals that of [`run_all`](crate::replicate::run_all) with *n* runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;
use lasthop_sim::{EVENTS_BETWEEN_QUESTIONS, Outcome, Overflow, Recording, Simulation};

use crate::measures::{Summary, summarise};
use crate::replicate::{Task, threads};

/// Number of simulated events between cancellation checks in a recorded run: a few hundred microseconds.
const STEPS: u32 = 2048;

/// Result of a run that may be cut short.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Outcome up to the end of the run.
    pub outcome: Outcome,
    /// Indicates whether the run reached the limit of records or events.
    pub cut: bool,
}

/// Limits of a recorded run.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Maximum number of records.
    pub records: usize,
    /// Maximum number of simulated events, including those without records.
    pub events: u64,
}

/// Runs `network` once and records it within the limits of `extent`. Returns `None` if `stop` returned true first.
pub fn record_unless(
    network: &Network,
    seed: u64,
    recording: Recording,
    extent: Extent,
    stop: &dyn Fn() -> bool,
) -> Option<Recorded> {
    let mut simulation = Simulation::new(network, seed, recording);
    let mut events = 0;
    let cut = 'run: loop {
        for _ in 0..STEPS {
            if !simulation.advance(1) {
                break 'run false;
            }
            events += 1;
            if simulation.recorded() >= extent.records || events >= extent.events {
                break 'run true;
            }
        }
        if stop() {
            return None;
        }
    };
    let mut outcome = simulation.finish(network);
    // An abandoned run is incomplete as well.
    let cut = cut || outcome.report.overflow.is_some();
    // One step can record many packets.
    outcome.trace.records.truncate(extent.records);
    Some(Recorded { outcome, cut })
}

/// Intermediate result of a task.
#[derive(Clone, PartialEq, Debug)]
pub struct SoFar {
    /// Index of the task.
    pub task: usize,
    /// Number of runs.
    pub runs: u32,
    /// Metrics over these runs.
    pub measures: Vec<Summary>,
}

/// Returns the number of runs of a task after each round: `first`, then about twice as many each time, up to `all`.
pub fn rounds(first: u32, all: u32) -> Vec<u32> {
    let mut rounds = vec![first.clamp(1, all.max(1))];
    while let Some(&last) = rounds.last()
        && last < all
    {
        rounds.push(last.saturating_mul(2).saturating_add(last / 2).min(all));
    }
    rounds
}

/// Runs every task on `jobs` threads (0: one per core), in rounds: all tasks to the first number of runs, then all to
/// the second. Passes the result of each task to `sink` as soon as its round is complete.
///
/// Ignores [`Task::runs`]; `rounds` must increase. Returns `false` if `stop`, which is called every few hundred
/// microseconds, returned true.
///
/// # Errors
///
/// Returns an error if a run holds too many frames. The others end too.
pub fn refine(
    tasks: &[Task],
    rounds: &[u32],
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    mut sink: impl FnMut(SoFar),
) -> Result<bool, Overflow> {
    let mut plan: Vec<(usize, u32)> = Vec::new();
    let mut before = 0;
    for &round in rounds {
        plan.extend((0..tasks.len()).flat_map(|task| (before..round).map(move |run| (task, run))));
        before = round;
    }
    let next = AtomicUsize::new(0);
    let given_up = AtomicBool::new(false);
    let stop = || stop() || given_up.load(Ordering::Relaxed);
    let work = || {
        let &(task, run) = plan.get(next.fetch_add(1, Ordering::Relaxed))?;
        let mut simulation = tasks[task].simulation(run);
        while !stop() {
            if !simulation.advance(EVENTS_BETWEEN_QUESTIONS) {
                return Some((task, run, simulation.finish(&tasks[task].network).report));
            }
        }
        None
    };
    thread::scope(|scope| {
        let (finished, arriving) = mpsc::channel();
        let (threads, mut started) = (threads(jobs).min(plan.len()), 0);
        while threads > 1 && started < threads {
            let (finished, work, stop) = (finished.clone(), &work, &stop);
            let worker = move || {
                while !stop()
                    && let Some(done) = work()
                {
                    // The receiver exists until the last worker has ended.
                    let _ = finished.send(done);
                }
            };
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
            started += 1;
        }
        drop(finished);
        let mut reports: Vec<Vec<Option<Report>>> = vec![vec![None; before as usize]; tasks.len()];
        let mut done = vec![0; tasks.len()];
        let mut complete = 0;
        let mut overflow = None;
        let mut take = |(task, run, mut report): (usize, u32, Report)| {
            if let Some(found) = report.overflow.take() {
                given_up.store(true, Ordering::Relaxed);
                overflow.get_or_insert(*found);
            }
            if overflow.is_some() {
                return;
            }
            reports[task][run as usize] = Some(report);
            complete += 1;
            while let Some(&round) = rounds.get(done[task]) {
                // Runs end in any order; a summary uses the first `round` runs.
                let first = &reports[task][..round as usize];
                if first.iter().any(Option::is_none) {
                    break;
                }
                let first: Vec<Report> = first.iter().flatten().cloned().collect();
                done[task] += 1;
                sink(SoFar { task, runs: round, measures: summarise(&tasks[task].network, &first) });
            }
        };
        // A single thread is this one; in a browser there is no other.
        while started == 0
            && !stop()
            && let Some(done) = work()
        {
            take(done);
        }
        arriving.iter().for_each(take);
        overflow.map_or(Ok(complete == plan.len()), Err)
    })
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::{SCHEMES, Scheme};
    use lasthop_scenario::Scenario;

    use super::*;
    use crate::replicate::{Silent, run_all};

    fn tasks() -> Vec<Task> {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let small = scenario.with_overrides(&[("flows.bulk.size", "100 KiB")]).unwrap();
        SCHEMES[..3].iter().map(|scheme| Task::new(&small, scheme, 7, 8).unwrap()).collect()
    }

    #[test]
    fn each_round_is_what_as_many_runs_come_to() {
        let tasks = tasks();
        let mut seen = Vec::new();
        assert!(refine(&tasks, &[3, 8], 2, &|| false, |so_far| seen.push(so_far)).unwrap());
        assert_eq!(seen.len(), 6);
        for runs in [3, 8] {
            let tasks: Vec<Task> = tasks.iter().cloned().map(|task| Task { runs: 0..runs, ..task }).collect();
            for (index, reports) in run_all(&tasks, 1, &Silent).unwrap().iter().enumerate() {
                let measures = summarise(&tasks[index].network, reports);
                assert!(seen.contains(&SoFar { task: index, runs, measures }), "task {index}, {runs} runs");
            }
        }
    }

    #[test]
    fn every_task_has_an_answer_before_any_has_a_better_one() {
        let mut runs = Vec::new();
        assert!(refine(&tasks(), &[1, 2], 1, &|| false, |so_far| runs.push((so_far.runs, so_far.task))).unwrap());
        assert_eq!(runs, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
    }

    #[test]
    fn a_stop_ends_it_within_a_run() {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        // Far longer than a test: only a stop within the run ends it.
        let endless = scenario.with_overrides(&[("flows.bulk.size", "1024 GiB"), ("limit", "10000 h")]).unwrap();
        let task = Task::new(&endless, Scheme::by_name("E2E").unwrap(), 1, 1).unwrap();
        let stop = AtomicBool::new(false);
        let asked = AtomicUsize::new(0);
        let stopping = || {
            if asked.fetch_add(1, Ordering::Relaxed) > 20 {
                stop.store(true, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        };
        assert!(
            !refine(std::slice::from_ref(&task), &[1], 1, &stopping, |so_far| panic!("nothing is done: {so_far:?}"))
                .unwrap()
        );
        let endless = Extent { records: usize::MAX, events: u64::MAX };
        assert!(record_unless(&task.network, 1, Recording::On, endless, &|| true).is_none());
        let recorded =
            record_unless(&task.network, 1, Recording::On, Extent { records: 1000, ..endless }, &|| false).unwrap();
        assert!(recorded.cut);
        assert_eq!(recorded.outcome.trace.records.len(), 1000);
        let recorded =
            record_unless(&task.network, 1, Recording::Off, Extent { events: 5000, ..endless }, &|| false).unwrap();
        assert!(recorded.cut && recorded.outcome.trace.records.is_empty());
    }

    #[test]
    fn rounds_grow_to_the_end() {
        assert_eq!(rounds(5, 30), [5, 12, 30]);
        assert_eq!(rounds(5, 5), [5]);
        assert_eq!(rounds(5, 2), [2]);
        assert_eq!(rounds(1, 3), [1, 2, 3]);
    }
}
