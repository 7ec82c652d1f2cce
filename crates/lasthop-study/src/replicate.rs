//! Many runs on many cores. Reports are in the order of the tasks. Each run's randomness depends only on the root seed
//! and its number, so the number of threads does not matter, and schemes meet the same errors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::{self, available_parallelism};

use lasthop_proto::packet::FlowId;
use lasthop_proto::random::Root;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;

use lasthop_sim::{EVENTS_BETWEEN_QUESTIONS, Overflow, Recording, Simulation};

use crate::measures::flows::settling;
use crate::measures::need_metering;

/// Time between checks for an abandoned run before it has settled.
const PIECE: Duration = Duration::from_millis(100);

/// Runs of a network.
#[derive(Clone, Debug)]
pub struct Task {
    /// The network.
    pub network: Network,
    /// Root seed.
    pub seed: u64,
    /// Numbers of the runs; a whole task begins with 0.
    pub runs: Range<u32>,
    /// Indicates whether delays are measured as well ([`Simulation::metered`]), which takes some time and changes
    /// nothing else.
    pub metered: Switch,
    /// Time from which transfers are in a steady state: the bytes that arrived before are reported as well
    /// ([`FlowReport::settled`](lasthop_sim::measure::FlowReport::settled)).
    pub settled: Option<Instant>,
}

impl Task {
    /// Creates the task of `scenario` under `scheme`.
    pub fn new(scenario: &Scenario, scheme: &Scheme, seed: u64, runs: u32) -> Result<Self, lasthop_scenario::Error> {
        Ok(Self { network: scenario.network(scheme)?, seed, runs: 0..runs, metered: Switch::Off, settled: None })
    }

    /// Returns the task with delays measured.
    #[must_use]
    pub fn metered(self) -> Self {
        Self { metered: Switch::On, ..self }
    }

    /// Returns the task for runs with these metrics: metered, and with a time of settling, if some of them require it.
    #[must_use]
    pub fn with_measures<'n>(self, names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let metered = if need_metering(names.clone()) { Switch::On } else { self.metered };
        Self { metered, settled: settling(names), ..self }
    }

    /// Creates the simulation of run number `run`.
    pub fn simulation(&self, run: u32) -> Simulation {
        let seed = run_seed(self.seed, run);
        match self.metered {
            Switch::On => Simulation::metered(&self.network, seed, Recording::Off),
            Switch::Off => Simulation::new(&self.network, seed, Recording::Off),
        }
    }
}

/// Returns the seed of a run.
pub fn run_seed(seed: u64, number: u32) -> u64 {
    Root(seed).stream(&format!("runs/{number}")).below(u64::MAX)
}

/// Observer of runs, called from any thread.
pub trait Progress: Sync {
    /// Records that a run has ended.
    fn run_done(&self);

    /// Returns whether to stop before further runs start.
    fn stopped(&self) -> bool {
        false
    }

    /// Returns whether to abandon runs in progress, too. Called often, from every thread.
    fn abandoned(&self) -> bool {
        false
    }

    /// Reports the simulated time of a run, as often as [`Self::abandoned`] is called.
    fn run_at(&self, _now: Instant) {}

    /// Reports the state of an abandoned run of the task with this index.
    fn run_cut(&self, _task: usize, _cut: Cut) {}
}

/// State of an abandoned run.
#[derive(Clone, PartialEq, Debug)]
pub struct Cut {
    /// Number of the run.
    pub run: u32,
    /// Simulated time.
    pub at: Instant,
    /// Metrics up to that time.
    pub report: Report,
}

/// An observer that does nothing.
pub struct Silent;

impl Progress for Silent {
    fn run_done(&self) {}
}

/// Stops when the flag is set.
impl Progress for AtomicBool {
    fn run_done(&self) {}

    fn stopped(&self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

/// Runs every task on `jobs` threads (0: one per core). Returns the reports of each task in order of run number; fewer
/// if the task was stopped before its last run.
///
/// # Errors
///
/// Returns an error if a run holds too many frames.
pub fn run_all(tasks: &[Task], jobs: usize, progress: &dyn Progress) -> Result<Vec<Vec<Report>>, Overflow> {
    let mut reports = vec![Vec::new(); tasks.len()];
    run_each(tasks, jobs, progress, |task, report| {
        reports[task].push(report);
        Ok::<(), Overflow>(())
    })?;
    Ok(reports)
}

/// Runs tasks as [`run_all`], but in rounds: run 0 of every task, then run 1 of every task. If stopped, tasks differ by
/// at most one run.
///
/// # Errors
///
/// Returns an error if a run holds too many frames.
pub fn run_in_rounds(tasks: &[Task], jobs: usize, progress: &dyn Progress) -> Result<Vec<Vec<Report>>, Overflow> {
    let rounds = tasks.iter().map(|task| task.runs.len()).max().unwrap_or(0);
    let place = |round: usize, task: usize| (round < tasks[task].runs.len()).then_some(Place { task, round });
    let order: Vec<Place> =
        (0..rounds).flat_map(|round| (0..tasks.len()).filter_map(move |task| place(round, task))).collect();
    let mut reports = vec![Vec::new(); tasks.len()];
    run_in_order(
        tasks,
        order.len(),
        |at| order[at],
        jobs,
        progress,
        |task, report| {
            reports[task].push(report);
            Ok::<(), Overflow>(())
        },
    )?;
    Ok(reports)
}

/// Runs every task on `jobs` threads (0: one per core) and passes each report with the index of its task to `sink`:
/// task after task, run after run, as soon as all earlier ones are available.
///
/// If `progress` stops it, runs in progress are finished and passed on, unless they are abandoned. An error of `sink`
/// ends it, and so does a run that holds too many frames.
pub fn run_each<E: From<Overflow>>(
    tasks: &[Task],
    jobs: usize,
    progress: &dyn Progress,
    sink: impl FnMut(usize, Report) -> Result<(), E>,
) -> Result<(), E> {
    // Runs are numbered through all tasks; these are the ends of each task.
    let mut total = 0;
    let ends: Vec<usize> = tasks
        .iter()
        .map(|task| {
            total += task.runs.len();
            total
        })
        .collect();
    let place = |at: usize| {
        let task = ends.partition_point(|&end| end <= at);
        Place { task, round: at + tasks[task].runs.len() - ends[task] }
    };
    run_in_order(tasks, total, place, jobs, progress, sink)
}

/// A run: index of the task, and position among its runs.
#[derive(Clone, Copy)]
struct Place {
    task: usize,
    round: usize,
}

/// Runs the `total` runs that `place` returns, and passes on their reports in this order.
fn run_in_order<E: From<Overflow>>(
    tasks: &[Task],
    total: usize,
    place: impl Fn(usize) -> Place + Sync,
    jobs: usize,
    progress: &dyn Progress,
    mut sink: impl FnMut(usize, Report) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let refused = AtomicBool::new(false);
    // Runs start in order, so that the finished ones have no gaps.
    let claim = || {
        let stop = progress.stopped() || refused.load(Ordering::Relaxed);
        if stop { None } else { Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < total) }
    };
    let execute = |at: usize| {
        let Place { task, round } = place(at);
        let report = one_run(&tasks[task], round as u32, progress).map_err(|cut| progress.run_cut(task, *cut)).ok()?;
        progress.run_done();
        Some(report)
    };
    let threads = threads(jobs);
    thread::scope(|scope| {
        let (finished, arriving) = mpsc::channel();
        for _ in 1..threads.min(total) {
            let (finished, claim, execute) = (finished.clone(), &claim, &execute);
            let worker = move || {
                while let Some(at) = claim()
                    && let Some(report) = execute(at)
                {
                    // The receiver may have ended after an error of the sink.
                    let _ = finished.send((at, report));
                }
            };
            // With fewer threads the work is the same.
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        // This thread works too, and passes on reports in order.
        let (mut waiting, mut handed) = (BTreeMap::new(), 0);
        let mut hand_out = |(at, report)| {
            waiting.insert(at, report);
            while let Some(report) = waiting.remove(&handed) {
                let mut report: Report = report;
                if let Some(overflow) = report.overflow.take() {
                    return Err(E::from(*overflow));
                }
                sink(place(handed).task, report)?;
                handed += 1;
            }
            Ok(())
        };
        let mut outcome = Ok(());
        while outcome.is_ok()
            && let Some(at) = claim()
            && let Some(report) = execute(at)
        {
            outcome = hand_out((at, report));
            while outcome.is_ok()
                && let Ok(other) = arriving.try_recv()
            {
                outcome = hand_out(other);
            }
        }
        drop(finished);
        if outcome.is_ok() {
            outcome = arriving.iter().try_for_each(&mut hand_out);
        }
        refused.store(outcome.is_err(), Ordering::Relaxed);
        outcome
    })
}

/// Executes run number `round` among the runs of `task`.
fn one_run(task: &Task, round: u32, progress: &dyn Progress) -> Result<Report, Box<Cut>> {
    let run = task.runs.start + round;
    let mut simulation = task.simulation(run);
    let mut settled = Vec::new();
    loop {
        let abandoned = progress.abandoned();
        let goes_on = !abandoned
            && match task.settled.filter(|_| settled.is_empty()) {
                None => simulation.advance(EVENTS_BETWEEN_QUESTIONS),
                Some(at) => {
                    let goes_on = simulation.advance_until((simulation.now() + PIECE).min(at));
                    if simulation.now() >= at || !goes_on {
                        let flows = 0..task.network.flows.len();
                        settled = flows.map(|at| simulation.delivered(&task.network, FlowId(at as u32))).collect();
                    }
                    goes_on
                }
            };
        if goes_on {
            progress.run_at(simulation.now());
            continue;
        }
        let at = simulation.now();
        let mut report = simulation.finish(&task.network).report;
        report.flows.iter_mut().zip(settled).for_each(|(flow, bytes)| flow.settled = Some(bytes));
        return if abandoned { Err(Box::new(Cut { run, at, report })) } else { Ok(report) };
    }
}

/// Returns the number of threads for `jobs`.
pub(crate) fn threads(jobs: usize) -> usize {
    if jobs == 0 { available_parallelism().map_or(1, NonZeroUsize::get) } else { jobs }
}

/// Applies `of` to each of `items`, on `jobs` threads (0: one per core). Returns the results in order, or the first
/// error.
pub(crate) fn map_all<I: Sync, T: Send, E: Send>(
    items: &[I],
    jobs: usize,
    of: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let share = items.len().div_ceil(threads(jobs)).max(LEAST_SHARE);
    let each = |items: &[I]| items.iter().map(&of).collect::<Result<Vec<_>, E>>();
    if share >= items.len() {
        return each(items);
    }
    thread::scope(|scope| {
        let each = &each;
        let shares: Vec<_> = items.chunks(share).map(|share| scope.spawn(move || each(share))).collect();
        let mut all = Vec::with_capacity(items.len());
        for share in shares {
            // Propagates a panic to this thread.
            all.extend(share.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// Minimum number of items per thread.
const LEAST_SHARE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Vec<Task> {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        let small = scenario.with_overrides(&[("flows.bulk.size", "100 KiB")]).unwrap();
        [3, 0, 2].map(|runs| Task::new(&small, small.scheme(), 7, runs).unwrap()).into()
    }

    #[test]
    fn reports_come_in_order_at_any_number_of_threads() {
        let one = run_all(&tasks(), 1, &Silent).unwrap();
        assert_eq!(one.iter().map(Vec::len).collect::<Vec<_>>(), [3, 0, 2]);
        // Both tasks have the same seed: runs of the same number are equal, and other runs differ.
        assert_eq!(one[0][..2], one[2]);
        assert_ne!(one[0][0], one[0][1]);
        for jobs in [0, 2, 50] {
            assert_eq!(run_all(&tasks(), jobs, &Silent).unwrap(), one);
        }
    }

    #[test]
    fn what_was_finished_before_a_stop_has_no_gaps() {
        struct After(AtomicUsize);
        impl Progress for After {
            fn run_done(&self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            fn stopped(&self) -> bool {
                self.0.load(Ordering::Relaxed) >= 2
            }
        }
        let whole = run_all(&tasks(), 1, &Silent).unwrap();
        let part = run_all(&tasks(), 2, &After(AtomicUsize::new(0))).unwrap();
        let done: usize = part.iter().map(Vec::len).sum();
        assert!((2..=4).contains(&done));
        for (part, whole) in part.iter().zip(&whole) {
            assert_eq!(part[..], whole[..part.len()]);
        }
    }

    #[test]
    fn a_task_can_be_cut_into_ranges_of_runs() {
        let whole = tasks().remove(0);
        let parts = [0..1, 1..3].map(|runs| Task { runs, ..whole.clone() });
        let reports = run_all(&parts, 2, &Silent).unwrap();
        assert_eq!(reports.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(reports.concat(), run_all(&[whole], 1, &Silent).unwrap()[0]);
    }

    #[test]
    fn an_abandoned_run_is_left_out() {
        /// Abandons the third run in the middle.
        struct Amid(AtomicUsize);
        impl Progress for Amid {
            fn run_done(&self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            fn abandoned(&self) -> bool {
                self.0.load(Ordering::Relaxed) >= 2
            }
        }
        let reports = run_all(&tasks(), 1, &Amid(AtomicUsize::new(0))).unwrap();
        assert_eq!(reports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 0]);
    }

    #[test]
    fn rounds_give_every_task_its_first_run_before_any_has_a_second() {
        /// Stops after four runs, and keeps abandoned ones.
        #[derive(Default)]
        struct Four(AtomicUsize, std::sync::Mutex<Vec<(usize, Cut)>>);
        impl Progress for Four {
            fn run_done(&self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            fn abandoned(&self) -> bool {
                self.0.load(Ordering::Relaxed) >= 4
            }
            fn run_cut(&self, task: usize, cut: Cut) {
                self.1.lock().unwrap().push((task, cut));
            }
        }
        let four = Four::default();
        let reports = run_in_rounds(&tasks(), 1, &four).unwrap();
        // Runs 0 of the first and the third task, runs 1 of both, and no run 2 of the first.
        assert_eq!(reports.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 2]);
        let cut = four.1.into_inner().unwrap();
        assert_eq!(cut.len(), 1);
        assert_eq!((cut[0].0, cut[0].1.run, cut[0].1.at), (0, 2, Instant::ZERO));
        for jobs in [1, 2, 5] {
            assert_eq!(run_in_rounds(&tasks(), jobs, &Silent).unwrap(), run_all(&tasks(), 1, &Silent).unwrap());
        }
    }

    #[test]
    fn mapping_keeps_the_order_and_the_first_error() {
        let items: Vec<u32> = (0..1000).collect();
        for jobs in [1, 2, 7] {
            assert_eq!(map_all(&items, jobs, |item| Ok::<_, ()>(item + 1)).unwrap(), (1..=1000).collect::<Vec<_>>());
            let odd = |item: &u32| if item % 400 == 399 { Err(*item) } else { Ok(()) };
            assert_eq!(map_all(&items, jobs, odd), Err(399));
        }
    }

    #[test]
    fn a_sink_that_refuses_ends_it() {
        let mut seen = 0;
        let enough = Overflow { link: "enough".to_owned(), at: Instant::ZERO };
        let outcome = run_each(&tasks(), 2, &Silent, |_, _| {
            seen += 1;
            if seen == 2 { Err(enough.clone()) } else { Ok(()) }
        });
        assert_eq!((outcome, seen), (Err(enough), 2));
    }

    /// A source that fills a queue without limit: memory is bounded, and the error names the key.
    #[test]
    fn a_run_that_holds_too_many_frames_ends_with_an_error() {
        const FLOOD: &str = r#"
            limit = "10 s"
            [hosts.a]
            [hosts.b]
            [links.hop]
            between = ["a", "b"]
            rate = "1 Mbps"
            delay = "1 ms"
            queue = "4000000000 packets"
            [flows.bulk]
            from = "a"
            to = "b"
            size = "10 MiB"
            [flows.flood]
            app = "on-off"
            from = "a"
            to = "b"
            on = "100 s"
            off = "1 ms"
            rate = "100 Gbps"
            packet = 1000
        "#;
        // Sent by the link without events, and one by one if frames can be lost.
        for errors in ["{ model = \"none\" }", "{ model = \"uniform\", frame_loss = \"0.1 %\" }"] {
            let scenario = Scenario::parse("flood", FLOOD).unwrap().with_overrides(&[("links.hop.errors", errors)]);
            let task = Task::new(&scenario.unwrap(), Scheme::by_name("E2E").unwrap(), 1, 2).unwrap();
            let overflow = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap_err();
            assert_eq!(overflow.link, "hop");
            assert!(overflow.at < Instant::ZERO + lasthop_proto::time::Duration::from_secs(1), "{overflow}");
            assert!(overflow.to_string().starts_with("links.hop.queue: "), "{overflow}");
        }
    }
}
