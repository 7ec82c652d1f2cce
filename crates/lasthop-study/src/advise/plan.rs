//! Simulations for an advice, and the advice derived from their results.

use std::ops::Range;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_scenario::{Error, Scenario};
use lasthop_sim::measure::Report;
use lasthop_sim::network::{Medium, Network};

use super::{Advice, CURES, Cure, Cured, Effect, Needs, Use, Variant};
use crate::atlas::{self, Placement};
use crate::replicate::Task;

/// Key of a link whose alternatives are other models of how its rate moves.
const RATE: &str = ".rate_variation";

/// Plan of simulations: the cures, the uses, and a task for each pair, cure by cure.
#[derive(Clone, Debug)]
pub struct Plan {
    cures: Vec<Cure>,
    uses: Vec<Use>,
    /// Tasks of the scenario, followed by those of each other value that its measurement allows.
    tasks: Vec<Task>,
    /// Descriptions of these values, and whether each is another model of how a rate moves.
    variants: Vec<(String, bool)>,
    no_cure: Option<String>,
    conditions: Vec<String>,
    atlas: Option<Placement>,
}

impl Plan {
    /// Plans the cures that need only changes in `needs`, and no cure, on the links of `scenario`, for `uses`, with
    /// `runs` runs each from `seed` on; also for each other value that the scenario's measurement allows.
    ///
    /// If the scenario has no base station, determines its place.
    ///
    /// # Errors
    ///
    /// Returns an error if a device is requested whose place cannot be determined, or if the traffic's direction is
    /// unknown.
    pub fn new(scenario: &Scenario, needs: &[Needs], uses: &[Use], seed: u64, runs: u32) -> Result<Self, Error> {
        let have = |cure: &&Cure| cure.needs == Needs::Nothing || needs.contains(&cure.needs);
        let cures: Vec<Cure> = CURES.iter().filter(have).copied().collect();
        let mut conditions = Vec::new();
        let placed = match needs.iter().any(|needs| *needs >= Needs::Box) {
            true => {
                let (placed, place) = scenario.with_place()?;
                conditions.extend(place);
                placed
            }
            false => scenario.clone(),
        };
        let mut tasks = tasks(&placed, &cures, uses, seed, runs)?;
        let mut variants = Vec::new();
        let measurement = placed.measurement();
        let alternatives = measurement.map(|it| it.alternatives.as_slice()).unwrap_or_default();
        for ((name, variant), alternative) in placed.alternatives()?.into_iter().zip(alternatives) {
            tasks.extend(self::tasks(&variant, &cures, uses, seed, runs)?);
            variants.push((name, alternative.key.contains(RATE)));
        }
        if let Some(it) = measurement {
            conditions.extend(it.not_modelled.iter().map(|what| format!("not in the simulation: {what}")));
            conditions.extend(it.unknown.iter().map(|what| format!("unknown: {what}")));
            conditions.extend(it.assumed.iter().map(|what| format!("assumed: {what}")));
        }
        let no_cure = measurement.and_then(|it| it.no_cure.clone());
        let atlas = placement(&placed)?;
        Ok(Self { cures, uses: uses.to_vec(), tasks, variants, no_cure, conditions, atlas })
    }

    /// Returns the tasks: all uses of the first cure, of the second, and so on.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the tasks for the runs of these numbers.
    pub fn tasks_of(&self, runs: &Range<u32>) -> Vec<Task> {
        self.tasks.iter().map(|task| Task { runs: runs.clone(), ..task.clone() }).collect()
    }

    /// Returns the rates of the hop for a cure at the base station; `None` if no such cure was requested.
    pub fn hop_rates(&self) -> Option<HopRates> {
        // The base station's element precedes the scenario's own elements.
        let on_path = self.cures.iter().position(|cure| cure.needs >= Needs::Box)?;
        let network = &self.tasks.get(on_path * self.uses.len())?.network;
        let hop = network.elements.first()?;
        let link = &network.links[hop.link.0];
        let far = link.ends[usize::from(link.ends[0] == hop.node)];
        let [down, up] = [hop.node, far].map(|node| network.rate_from(node, hop.link).0);
        Some(HopRates { down, up, takes_turns: !matches!(link.medium, Medium::Duplex | Medium::Cell { .. }) })
    }

    /// Judges the reports of each task. Uses the first runs that all tasks have; returns `None` if a task has none.
    pub fn judge(&self, reports: &[Vec<Report>]) -> Option<Advice> {
        let runs = reports.iter().map(Vec::len).min().filter(|runs| *runs > 0)?;
        let each = self.cures.len() * self.uses.len();
        let cured = |first: usize| self.cured(first * each, reports, runs);
        let variants = self.variants.iter().enumerate();
        let variants = variants.map(|(at, (name, of_rate))| {
            let (name, of_rate) = (name.clone(), *of_rate);
            Variant { name, of_rate, cured: cured(at + 1) }
        });
        let variants = variants.collect();
        let (no_cure, conditions, atlas) = (self.no_cure.clone(), self.conditions.clone(), self.atlas.clone());
        Some(Advice { runs, cured: cured(0), variants, no_cure, conditions, atlas })
    }

    /// Returns the results of the cures whose first task has index `first`, for the scenario or for another value.
    fn cured(&self, first: usize, reports: &[Vec<Report>], runs: usize) -> Vec<Cured> {
        let at = |at: usize| (&self.tasks[first + at].network, &reports[first + at][..runs]);
        let effect = |cure: usize, (number, usage): (usize, &Use)| {
            Effect::of(*usage, at(cure * self.uses.len() + number), at(number))
        };
        let effects =
            |cure: usize| self.uses.iter().enumerate().filter_map(move |it| effect(cure, it)).collect::<Vec<_>>();
        self.cures.iter().enumerate().map(|(at, cure)| Cured::new(*cure, effects(at))).collect()
    }
}

/// Returns the place of the scenario's link in the atlas.
fn placement(scenario: &Scenario) -> Result<Option<Placement>, Error> {
    let transfer = scenario.with_traffic(Use::Bulk.traffic(Duration::ZERO))?;
    let Some(map) = atlas::shipped() else { return Ok(None) };
    Ok(Some(Placement::of(&transfer.network(transfer.scheme())?, map)))
}

/// Returns a task for each cure and use.
fn tasks(scenario: &Scenario, cures: &[Cure], uses: &[Use], seed: u64, runs: u32) -> Result<Vec<Task>, Error> {
    let transfer = scenario.with_traffic(Use::Bulk.traffic(Duration::ZERO))?;
    let delay = delay(&transfer.network(transfer.scheme())?);
    let scenarios =
        uses.iter().map(|usage| scenario.with_traffic(usage.traffic(delay))).collect::<Result<Vec<_>, _>>()?;
    let mut tasks = Vec::new();
    for cure in cures {
        let Some(scheme) = Scheme::by_name(cure.scheme) else { continue };
        for scenario in &scenarios {
            tasks.push(Task::new(scenario, scheme, seed, runs)?.metered());
        }
    }
    Ok(tasks)
}

/// Rates of the lossy hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopRates {
    /// Rate from the base station, in bits per second.
    pub down: u64,
    /// Rate to the base station, in bits per second.
    pub up: u64,
    /// Indicates whether the ends take turns.
    pub takes_turns: bool,
}

/// Returns the one-way delay of the data of the first transfer.
fn delay(network: &Network) -> Duration {
    let Some(flow) = network.flows.iter().find(|flow| flow.app.is_transfer()) else { return Duration::ZERO };
    let delays = network.way(flow.from, flow.to).into_iter().map(|(link, _)| network.links[link.0].delay);
    delays.fold(Duration::ZERO, |sum, delay| sum + delay)
}
