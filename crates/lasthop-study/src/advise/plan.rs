//! Simulations for an advice, and the advice derived from their results.

use std::ops::Range;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_scenario::{Error, Scenario};
use lasthop_sim::measure::Report;
use lasthop_sim::network::{Medium, Network};

use super::{Advice, CURES, Cure, Cured, Effect, Needs, Places, Side, Use, Variant};
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
    /// True if the scenario's first transfer is an upload.
    is_upload: bool,
}

/// A scenario with the device at each place of the requested cures.
struct Placed {
    base_station: Scenario,
    customer: Option<Scenario>,
}

impl Placed {
    fn of(&self, cure: &Cure) -> Option<&Scenario> {
        if cure.at == Some(Side::Customer) { self.customer.as_ref() } else { Some(&self.base_station) }
    }
}

impl Plan {
    /// Plans the cures that need only changes in `needs`, and no cure, on the links of `scenario`, for `uses`, with
    /// `runs` runs each from `seed` on; also for each other value that the scenario's measurement allows.
    ///
    /// One device stands at the base station, and at either side if a use is an upload ([`at`](Self::at) determines the
    /// sides). If the scenario has no base station, determines its place.
    ///
    /// # Errors
    ///
    /// Returns an error if a device is requested whose place cannot be determined, or if the traffic's direction is
    /// unknown.
    pub fn new(scenario: &Scenario, needs: &[Needs], uses: &[Use], seed: u64, runs: u32) -> Result<Self, Error> {
        Self::at(scenario, needs, None, uses, seed, runs)
    }

    /// Plans as [`new`](Self::new) does, with one device on the sides that `places` allows.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`new`](Self::new).
    pub fn at(
        scenario: &Scenario,
        needs: &[Needs],
        places: Option<Places>,
        uses: &[Use],
        seed: u64,
        runs: u32,
    ) -> Result<Self, Error> {
        // Without a device, the hop need not be known.
        let is_upload = scenario.is_upload().unwrap_or_default();
        let uploads = is_upload || uses.contains(&Use::Upload);
        let allowed = places.unwrap_or(if uploads { Places::Both } else { Places::At(Side::BaseStation) });
        let mut conditions = Vec::new();
        let one = needs.contains(&Needs::Box);
        let base_station = match needs.contains(&Needs::Boxes) || one && allowed.allow(Side::BaseStation) {
            true => {
                let (placed, place) = scenario.with_place()?;
                conditions.extend(place);
                placed
            }
            false => scenario.clone(),
        };
        let customer = match one && allowed.allow(Side::Customer) {
            true => match scenario.with_place_at_customer() {
                Ok((placed, place)) => {
                    conditions.push(place);
                    Some(placed)
                }
                Err(error) if places.is_none() => {
                    conditions.push(format!("no device at the customer's side was simulated: {error}"));
                    None
                }
                Err(error) => return Err(error),
            },
            false => None,
        };
        let is_there = |at: Option<Side>| match at {
            Some(Side::Customer) => customer.is_some(),
            Some(side) => allowed.allow(side),
            None => true,
        };
        let have = |cure: &&Cure| cure.needs == Needs::Nothing || needs.contains(&cure.needs) && is_there(cure.at);
        let cures: Vec<Cure> = CURES.iter().filter(have).copied().collect();
        let placed = Placed { base_station, customer };
        let mut tasks = tasks(&placed, &cures, uses, is_upload, (seed, runs))?;
        let mut variants = Vec::new();
        let measurement = placed.base_station.measurement();
        let alternatives = measurement.map(|it| it.alternatives.as_slice()).unwrap_or_default();
        let customers = match &placed.customer {
            Some(customer) => customer.alternatives()?.into_iter().map(|(_, variant)| Some(variant)).collect(),
            None => vec![None; alternatives.len()],
        };
        let of_base_station = placed.base_station.alternatives()?.into_iter().zip(customers);
        for (((name, base_station), customer), alternative) in of_base_station.zip(alternatives) {
            let variant = Placed { base_station, customer };
            tasks.extend(self::tasks(&variant, &cures, uses, is_upload, (seed, runs))?);
            variants.push((name, alternative.key.contains(RATE)));
        }
        if let Some(it) = measurement {
            conditions.extend(it.not_modelled.iter().map(|what| format!("not in the simulation: {what}")));
            conditions.extend(it.unknown.iter().map(|what| format!("unknown: {what}")));
            conditions.extend(it.assumed.iter().map(|what| format!("assumed: {what}")));
        }
        let no_cure = measurement.and_then(|it| it.no_cure.clone());
        let atlas = placement(&placed.base_station, is_upload)?;
        Ok(Self { cures, uses: uses.to_vec(), tasks, variants, no_cure, conditions, atlas, is_upload })
    }

    /// Returns the simulated cures, no cure first.
    pub fn cures(&self) -> &[Cure] {
        &self.cures
    }

    /// Returns the conditions for the validity of the advice, a clause each.
    pub fn conditions(&self) -> &[String] {
        &self.conditions
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
        let is_on_path = |cure: &Cure| cure.needs >= Needs::Box && cure.at != Some(Side::Customer);
        let on_path = self.cures.iter().position(is_on_path)?;
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
        let cannot = |cure: &Cure| {
            let is_upload = |usage: &&Use| **usage == Use::Upload || self.is_upload;
            let is_repaired = |usage: &&Use| **usage != Use::Call;
            self.uses.iter().filter(is_repaired).find_map(|usage| cure.cannot(is_upload(&usage)))
        };
        let cured = |(at, cure): (usize, &Cure)| Cured { cannot: cannot(cure), ..Cured::new(*cure, effects(at)) };
        self.cures.iter().enumerate().map(cured).collect()
    }
}

/// Returns the place of the scenario's link in the atlas.
fn placement(scenario: &Scenario, is_upload: bool) -> Result<Option<Placement>, Error> {
    let transfer = scenario.with_traffic(Use::Bulk.traffic(Duration::ZERO, is_upload))?;
    let Some(map) = atlas::shipped() else { return Ok(None) };
    Ok(Some(Placement::of(&transfer.network(transfer.scheme())?, map)))
}

/// Returns a task for each cure and use; `seed` and number of runs.
fn tasks(
    placed: &Placed,
    cures: &[Cure],
    uses: &[Use],
    is_upload: bool,
    (seed, runs): (u64, u32),
) -> Result<Vec<Task>, Error> {
    let transfer = placed.base_station.with_traffic(Use::Bulk.traffic(Duration::ZERO, is_upload))?;
    let delay = delay(&transfer.network(transfer.scheme())?);
    let mut tasks = Vec::new();
    for cure in cures {
        let (Some(scheme), Some(scenario)) = (Scheme::by_name(cure.scheme), placed.of(cure)) else { continue };
        for usage in uses {
            let scenario = scenario.with_traffic(usage.traffic(delay, is_upload))?;
            tasks.push(Task::new(&scenario, scheme, seed, runs)?.metered());
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
