//! Many random cases through the kernel and through lasthop.

use std::io;

use lasthop_proto::time::Duration;

use super::live::{self, KernelRun};
use crate::differential::{Case, Kind, Mismatch, compare, generate, observe, shrunk};
use crate::lasthop::{Lasthop, Model};

/// Number of runs on the kernel: cases that differ are repeated, since a busy machine delays segments.
const ATTEMPTS: u8 = 3;

/// Number of phases of the kernel's clock, a millisecond apart. The kernel's own is unknown: one of them has to give its
/// segments. Together they span a slot of the timer wheel's second level, eight ticks of 4 ms, to which timeouts from
/// 252 ms on are rounded.
const PHASES: u64 = 32;

/// First phase.
const FIRST_PHASE: Duration = Duration::from_micros(500);

/// Maximum number of rounds in which a case is shortened.
const ROUNDS: u8 = 8;

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct Campaign<'a> {
    /// Subject of the cases.
    pub kind: Kind,
    /// Model of lasthop.
    pub model: Model,
    /// Congestion control of the kernel.
    pub congestion: &'a str,
    /// Number of cases on the kernel at the same time.
    pub jobs: usize,
    /// True if PSH is compared.
    pub with_push: bool,
}

/// A case in which the stacks differ.
#[derive(Clone, Debug)]
pub struct Differing {
    /// The case.
    pub case: Case,
    /// Segments of the kernel.
    pub run: KernelRun,
    /// First difference.
    pub mismatch: Mismatch,
}

/// Result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of cases with the same segments.
    pub same: usize,
    /// Cases that differ.
    pub differing: Vec<Differing>,
    /// Number of cases without result because the machine was too busy.
    pub unknown: usize,
}

impl Campaign<'_> {
    /// Runs `count` cases with the seeds from `seed` on. `progress` is called after each run on the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel's side cannot be set up.
    pub fn run(&self, seed: u64, count: u64, progress: &mut dyn FnMut()) -> io::Result<Tally> {
        let guide = Model { phase: Duration::from_millis(2), ..self.model };
        let case = |at| generate(self.kind, seed.wrapping_add(at), &mut Lasthop::new(guide));
        self.judge((0..count).map(case).collect(), ATTEMPTS, progress)
    }

    /// Shortens a case as long as the stacks differ.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel's side cannot be set up.
    pub fn shrink(&self, differing: Differing, progress: &mut dyn FnMut()) -> io::Result<Differing> {
        let mut shortest = differing;
        for _ in 0..ROUNDS {
            let shorter = shrunk(&shortest.case);
            let tally = self.judge(shorter, 1, progress)?;
            // A run that was disturbed may differ once.
            let mut candidates = tally.differing;
            // Another difference is another case.
            candidates.retain(|one| one.mismatch.what == shortest.mismatch.what);
            candidates.sort_by_key(|one| one.case.steps.len());
            let mut found = None;
            for candidate in candidates.into_iter().take(4) {
                let again = self.judge(vec![candidate.case], ATTEMPTS, progress)?;
                found = again.differing.into_iter().next();
                if found.is_some() {
                    break;
                }
            }
            match found {
                Some(one) => shortest = one,
                None => break,
            }
        }
        Ok(shortest)
    }

    /// Runs cases on the kernel and compares; those that differ are repeated.
    fn judge(&self, cases: Vec<Case>, attempts: u8, progress: &mut dyn FnMut()) -> io::Result<Tally> {
        let mut tally = Tally::default();
        let mut todo = cases;
        for attempt in 1..=attempts {
            let runs = live::run(self.kind, &todo, self.jobs, self.congestion, progress)?;
            let mut again = Vec::new();
            for (case, run) in todo.into_iter().zip(runs) {
                match self.mismatch(&case, &run) {
                    None if !run.is_late => tally.same += 1,
                    _ if attempt < attempts => again.push(case),
                    Some(mismatch) if !run.is_late => tally.differing.push(Differing { case, run, mismatch }),
                    _ => tally.unknown += 1,
                }
            }
            todo = again;
        }
        Ok(tally)
    }

    /// Returns the difference that comes latest among all phases; `None` if the segments are the same under one.
    fn mismatch(&self, case: &Case, run: &KernelRun) -> Option<Mismatch> {
        let mut latest: Option<Mismatch> = None;
        for phase in 0..PHASES {
            let model = Model { phase: FIRST_PHASE + Duration::from_millis(phase), ..self.model };
            let sent = observe(case, &mut Lasthop::new(model));
            let mismatch = compare(case, &run.sent, &sent, self.with_push)?;
            if latest.as_ref().is_none_or(|latest| latest.at < mismatch.at) {
                latest = Some(mismatch);
            }
        }
        latest
    }
}
