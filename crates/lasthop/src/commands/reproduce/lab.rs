//! Cells of a study with real packets.

use std::cell::Cell as Shared;

use lasthop_lab::{Captures, Experiment, LabError, Watch, namespace, run};
use lasthop_scenario::Scenario;
use lasthop_study::measures::Samples;
use lasthop_study::replicate::{Progress, run_seed};
use lasthop_study::reproduce::Plan;

use super::journal::{Journal, Kept};
use super::samples;
use crate::cli::ReproduceArgs;
use crate::error::Error;
use crate::output::count;
use crate::progress::{CtrlC, Runs, note};

/// Bound of the scheduling delay's 99th percentile. Paths of the studies have round trips of 40 ms or more, so that a
/// tenth of it is acceptable, and a machine that is used for other work as well can run them.
const LATENESS: &str = "4 ms";

/// Runs the cells of the plan that the study names for the lab. Returns their indexes and the metrics of their runs; no
/// cell, with a note, if this process may not run the lab.
pub fn run_cells(args: &ReproduceArgs, plan: &Plan) -> Result<Vec<(usize, Samples)>, Error> {
    let cells = plan.lab_cells();
    if cells.is_empty() {
        note(&format!("lab SKIPPED: {} names no cells of this selection for the lab", plan.study()));
        return Ok(Vec::new());
    }
    if let Err(error) = namespace::require_root() {
        note(&format!("lab SKIPPED: {error}. The pages have no numbers from the lab"));
        return Ok(Vec::new());
    }
    let runs = args.lab_runs;
    let kept = Kept { plan, cells: &cells, seed: args.seed, runs, command: "reproduce --lab" };
    let journal = Journal::open(&args.out.join("lab.partial"), &kept)?;
    let mut done: Vec<Samples> = journal.done.iter().map(|values| samples(plan, values.clone())).collect();
    let mut file = journal.file()?;
    let left = cells.len() - done.len();
    note(&format!("lab: {} of {} to run in real time", count(left, "cell"), count(cells.len(), "cell")));
    let progress = Runs::unstoppable("lab", left as u64 * u64::from(runs)).without_time_left();
    let watcher =
        Watcher { interrupt: CtrlC::heard(), progress: &progress, name: Shared::new(""), tenths: Shared::new(0) };
    for at in cells[done.len()..].iter().copied() {
        let cell = &plan.cells()[at];
        watcher.name.set(&cell.name);
        let measured = measure(&cell.scenario, at, plan, args, &watcher);
        let samples = match measured {
            Ok(samples) => samples,
            Err(Error::Lab(error @ LabError::Void { .. })) => {
                note(&format!("lab: {} omitted: {error}", cell.name));
                samples(plan, vec![f64::NAN; plan.measures().len() * runs as usize])
            }
            Err(Error::Lab(LabError::Stopped)) => {
                progress.finish();
                return Err(Error::StudyStopped { done: done.len(), total: cells.len(), path: journal.path });
            }
            Err(error) => return Err(error),
        };
        journal.add(&mut file, &samples)?;
        done.push(samples);
    }
    progress.finish();
    journal.remove()?;
    Ok(cells.into_iter().zip(done).collect())
}

/// Runs a cell as often as requested.
fn measure(
    scenario: &Scenario,
    at: usize,
    plan: &Plan,
    args: &ReproduceArgs,
    watcher: &Watcher<'_>,
) -> Result<Samples, Error> {
    let scheme = plan.cells()[at].scheme;
    let scenario = scenario.with_overrides(&[("lab.lateness", format!("\"{LATENESS}\""))])?;
    let network = scenario.network(scheme)?;
    let mut cell = samples(plan, Vec::new());
    for number in 0..args.lab_runs {
        let seed = run_seed(args.seed, number);
        let experiment = Experiment { network: &network, scheme, lab: scenario.lab(), seed, captures: Captures::Off };
        cell.push(&network, &run(&experiment, watcher)?.report);
        watcher.progress.run_done();
    }
    Ok(cell)
}

struct Watcher<'r> {
    interrupt: CtrlC,
    progress: &'r Runs,
    /// Name of the current cell.
    name: Shared<&'r str>,
    /// Progress that was last shown, in tenths.
    tenths: Shared<u64>,
}

impl Watch for Watcher<'_> {
    fn stopped(&self) -> bool {
        self.interrupt.pressed()
    }

    fn progress(&self, received: u64, total: u64) {
        let tenths = received.saturating_mul(10) / total.max(1);
        if self.tenths.replace(tenths) != tenths {
            self.progress.doing(&format!("{}: {}0 %", self.name.get(), tenths));
        }
    }

    fn void(&self, reason: &str) {
        note(&format!("lab: a run of {} is void: {reason}", self.name.get()));
    }
}
