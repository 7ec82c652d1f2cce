//! Which of the cures that one can have helps on a link, how much, and with what.
//!
//! Each cure is simulated with today's endpoints, for what people do: a download, web pages. Under one seed all cures meet the
//! same errors. A cure is advised when it gains more than it may lose, and when no cure that asks less comes near to it.

mod words;

use std::ops::Range;

use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_scenario::{Error, Scenario, Traffic};
use lasthop_sim::measure::Report;
use lasthop_sim::network::{Medium, Network};

use crate::measures::{Summary, find, measures, summarise, throughput};
use crate::replicate::Task;
use crate::stats::Estimate;

pub use self::words::times;

/// A gain below this is none.
const LEAST_GAIN: f64 = 0.03;

/// Cures that lie no further apart are as good as each other. It is half of what counts as a gain: the simulator may be off by the other half, and what is advised is to be within that
/// gain of the best where it is installed.
const AS_GOOD: f64 = 0.015;

/// What a call plays arrives within this, or within the path's delay and a buffer against jitter.
const LEAST_DEADLINE: Duration = Duration::from_millis(150);
const JITTER: Duration = Duration::from_millis(60);

/// What has to be changed for a cure, from little to much.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A setting of the machines that send.
    Sender,
    /// A box in front of the lossy hop.
    Box,
    /// A box at each end of the lossy hop.
    Boxes,
}

impl Needs {
    /// The names by which it is asked for; nothing need not be.
    pub const NAMES: [(&'static str, Self); 3] = [("sender", Self::Sender), ("box", Self::Box), ("boxes", Self::Boxes)];

    /// What is asked for by that name.
    ///
    /// # Errors
    ///
    /// Which names there are.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let names = || Self::NAMES.map(|(name, _)| name).join(", ");
        known.map(|(_, needs)| *needs).ok_or_else(|| format!("give one or more of {}", names()))
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sender => "the senders' setting",
            Self::Box => "one box",
            Self::Boxes => "a box at each end",
        }
    }
}

/// A cure that one can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cure {
    /// Its scheme's name.
    pub scheme: &'static str,
    /// What has to be changed for it.
    pub needs: Needs,
    /// What it does to a loss, in a sentence.
    pub does: &'static str,
}

/// All cures; the first one is to leave everything as it is.
pub const CURES: [Cure; 5] = [
    Cure {
        scheme: "E2E-CUBIC",
        needs: Needs::Nothing,
        does: "Senders run CUBIC, as Linux does by default: it takes each loss for congestion and slows down.",
    },
    Cure {
        scheme: "E2E-BBR",
        needs: Needs::Sender,
        does: "Senders run BBR, which follows the rate at which data arrives and hardly heeds losses.",
    },
    Cure {
        scheme: "SNOOP",
        needs: Needs::Box,
        does: "The gateway resends what the hop lost before the sender hears of it; connections stay end to end.",
    },
    Cure {
        scheme: "SPLIT-BBR",
        needs: Needs::Box,
        does: "The gateway ends each connection and opens another with BBR over the hop; senders see no loss.",
    },
    Cure {
        scheme: "LINK-HYBRID",
        needs: Needs::Boxes,
        does: "A box at each end of the hop repairs all traffic on it, encrypted or not.",
    },
];

/// What people do over the link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// One download.
    Bulk,
    /// One web page after another.
    Pages,
    /// A call.
    Call,
}

impl Use {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Bulk, Self::Pages, Self::Call];

    /// The name by which it is asked for.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Pages => "pages",
            Self::Call => "call",
        }
    }

    /// The use of that name.
    ///
    /// # Errors
    ///
    /// Which names there are.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|usage| usage.name() == name);
        known.ok_or_else(|| format!("give one or more of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// The unit of what comes of it: more is better.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Bulk => "Mbps",
            Self::Pages => "pages/min",
            Self::Call => "MOS",
        }
    }

    /// How it is done over paths that take `delay` one way.
    fn traffic(self, delay: Duration) -> Traffic {
        match self {
            Self::Bulk => Traffic::Bulk(Duration::from_secs(30)),
            Self::Pages => Traffic::Pages(Duration::from_secs(60)),
            Self::Call => Traffic::Call { time: Duration::from_secs(60), deadline: LEAST_DEADLINE.max(delay + JITTER) },
        }
    }

    /// What came of it in one run, in [`Self::unit`]: more is better.
    fn value(self, network: &Network, report: &Report) -> f64 {
        match self {
            Self::Bulk => throughput(network, report),
            Self::Pages => report
                .sessions
                .iter()
                .map(|session| {
                    let minutes = session.web.end.since(session.start).as_secs_f64() / 60.0;
                    if minutes > 0.0 { session.web.pages as f64 / minutes } else { 0.0 }
                })
                .sum(),
            Self::Call => {
                let measures = measures(network, report);
                measures.iter().find(|measure| measure.name == "call_mos").map_or(0.0, |measure| measure.value)
            }
        }
    }
}

/// What to simulate: the cures, the uses, and a task for each pair, cure by cure.
#[derive(Clone, Debug)]
pub struct Plan {
    cures: Vec<Cure>,
    uses: Vec<Use>,
    tasks: Vec<Task>,
}

impl Plan {
    /// The cures that somebody can have who can change what `needs` say, and to leave everything as it is, on the links of
    /// `scenario`, for `uses`, `runs` times each from `seed` on.
    ///
    /// Fails when the scenario has no base station, or nothing that says who sends to whom.
    pub fn new(scenario: &Scenario, needs: &[Needs], uses: &[Use], seed: u64, runs: u32) -> Result<Self, Error> {
        let have = |cure: &&Cure| cure.needs == Needs::Nothing || needs.contains(&cure.needs);
        let cures: Vec<Cure> = CURES.iter().filter(have).copied().collect();
        let transfer = scenario.with_traffic(Use::Bulk.traffic(Duration::ZERO))?;
        let delay = delay(&transfer.network(transfer.scheme())?);
        let scenarios =
            uses.iter().map(|usage| scenario.with_traffic(usage.traffic(delay))).collect::<Result<Vec<_>, _>>()?;
        let mut tasks = Vec::new();
        for cure in &cures {
            let Some(scheme) = Scheme::by_name(cure.scheme) else { continue };
            for scenario in &scenarios {
                tasks.push(Task::new(scenario, scheme, seed, runs)?);
            }
        }
        Ok(Self { cures, uses: uses.to_vec(), tasks })
    }

    /// What is to be run: all uses of the first cure, of the second, and so on.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The same, the runs of these numbers.
    pub fn tasks_of(&self, runs: &Range<u32>) -> Vec<Task> {
        self.tasks.iter().map(|task| Task { runs: runs.clone(), ..task.clone() }).collect()
    }

    /// The hop that a cure at the base station works on; `None` where none of those was asked for.
    pub fn hop_rates(&self) -> Option<HopRates> {
        // The base station's part comes before elements of the scenario's own.
        let on_path = self.cures.iter().position(|cure| cure.needs >= Needs::Box)?;
        let network = &self.tasks.get(on_path * self.uses.len())?.network;
        let hop = network.elements.first()?;
        let link = &network.links[hop.link.0];
        let far = link.ends[usize::from(link.ends[0] == hop.node)];
        let [down, up] = [hop.node, far].map(|node| network.rate_from(node, hop.link).0);
        Some(HopRates { down, up, takes_turns: link.medium != Medium::Duplex })
    }

    /// The advice from the reports of each task, of the first runs alone that all of them have; `None` when some have none.
    pub fn judge(&self, reports: &[Vec<Report>]) -> Option<Advice> {
        let runs = reports.iter().map(Vec::len).min().filter(|runs| *runs > 0)?;
        let at = |at: usize| (&self.tasks[at].network, &reports[at][..runs]);
        let results: Vec<Vec<Effect>> = (0..self.cures.len())
            .map(|cure| {
                self.uses
                    .iter()
                    .enumerate()
                    .filter_map(|(number, usage)| {
                        let (network, reports) = at(cure * self.uses.len() + number);
                        let (none_network, none) = at(number);
                        Effect::of(*usage, (network, reports), (none_network, none))
                    })
                    .collect()
            })
            .collect();
        let cured = self.cures.iter().zip(results).map(|(cure, results)| Cured::new(*cure, results)).collect();
        Some(Advice { runs, cured })
    }
}

/// How fast the lossy hop is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopRates {
    /// From the base station, in bits a second.
    pub down: u64,
    /// To it.
    pub up: u64,
    /// Whether one end sends at a time.
    pub takes_turns: bool,
}

/// The delay one way between the ends of the first transfer: links form a tree.
fn delay(network: &Network) -> Duration {
    let Some(flow) = network.flows.iter().find(|flow| flow.app.is_transfer()) else { return Duration::ZERO };
    let (mut seen, mut open) = (vec![false; network.nodes.len()], vec![(flow.from, Duration::ZERO)]);
    while let Some((node, delay)) = open.pop() {
        if node == flow.to {
            return delay;
        }
        seen[node.0] = true;
        for link in &network.links {
            let [one, other] = link.ends;
            let next = if one == node { other } else { one };
            if (one == node || other == node) && !seen[next.0] {
                open.push((next, delay + link.delay));
            }
        }
    }
    Duration::ZERO
}

/// What came of one use under one cure.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The use.
    pub usage: Use,
    /// What came of it, in the use's unit.
    pub value: Estimate,
    /// The same over what comes of it without any cure; `None` where that is nothing.
    pub factor: Option<Factor>,
    /// Everything that was measured.
    pub summaries: Vec<Summary>,
}

impl Effect {
    /// `None` without runs.
    fn of(usage: Use, with: (&Network, &[Report]), without: (&Network, &[Report])) -> Option<Self> {
        let values = |(network, reports): (&Network, &[Report])| -> Vec<f64> {
            reports.iter().map(|report| usage.value(network, report)).collect()
        };
        let (mine, none) = (values(with), values(without));
        let value = Estimate::of(&mine)?;
        Some(Self { usage, value, factor: Factor::of(&mine, &none), summaries: summarise(with.0, with.1) })
    }

    /// The mean of the measure of that name; 0 where there is none.
    pub fn mean(&self, name: &str) -> f64 {
        find(&self.summaries, name).map_or(0.0, |estimate| estimate.mean)
    }
}

/// By how much one thing is more than another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factor {
    /// The factor.
    pub mean: f64,
    /// Its 95 % interval; a point where there is one run.
    pub interval: (f64, f64),
}

impl Factor {
    /// The geometric mean of `these` over `those`, which belong together in pairs: what varies from run to run varies in both. `None` where
    /// one of `those` is nothing.
    fn of(these: &[f64], those: &[f64]) -> Option<Self> {
        if those.iter().any(|that| *that <= 0.0) {
            return None;
        }
        let logarithms: Vec<f64> = these.iter().zip(those).map(|(this, that)| (this / that).ln()).collect();
        let mean = Estimate::of(&logarithms)?;
        if mean.mean.is_finite() {
            let (low, high) = mean.interval();
            return Some(Self { mean: mean.mean.exp(), interval: (low.exp(), high.exp()) });
        }
        // Some of these are nothing.
        let ratio = these.iter().sum::<f64>() / those.iter().sum::<f64>();
        Some(Self { mean: ratio, interval: (0.0, f64::INFINITY) })
    }
}

/// A cure and what came of it.
#[derive(Clone, Debug)]
pub struct Cured {
    /// The cure.
    pub cure: Cure,
    /// By use, in the order asked for.
    pub results: Vec<Effect>,
    /// What it multiplies by, over all uses (geometric mean); infinite where without it nothing comes of one.
    pub gain: f64,
}

impl Cured {
    fn new(cure: Cure, results: Vec<Effect>) -> Self {
        let logarithm = |result: &Effect| match result.factor {
            Some(factor) => factor.mean.ln(),
            None if result.value.mean > 0.0 => f64::INFINITY,
            None => 0.0,
        };
        let gain = (results.iter().map(logarithm).sum::<f64>() / results.len().max(1) as f64).exp();
        Self { cure, results, gain }
    }

    /// The uses that are worse off with it than without: certainly, or by more than what counts as a gain.
    pub fn harmed(&self) -> Vec<Use> {
        let worse =
            |result: &&Effect| result.factor.is_some_and(|it| it.interval.1 < 1.0 || it.mean < 1.0 - LEAST_GAIN);
        self.results.iter().filter(worse).map(|result| result.usage).collect()
    }

    /// Whether it gains something that counts, without doubt for one use at least, and harms none.
    pub fn helps(&self) -> bool {
        let sure = |result: &Effect| result.factor.is_none_or(|it| it.interval.0 > 1.0) && result.value.mean > 0.0;
        self.gain >= 1.0 + LEAST_GAIN && self.results.iter().any(sure) && self.harmed().is_empty()
    }

    /// What happened under it, in a sentence with figures of one run on average.
    pub fn happened(&self) -> String {
        let Some(result) = self.results.first() else { return String::new() };
        if result.usage == Use::Call {
            let [sent, lost, late] = ["call_sent", "call_lost", "call_late"].map(|name| result.mean(name));
            return format!("Of {sent:.0} packets of the call {lost:.1} were lost and {late:.1} came too late.");
        }
        let (lost, here) = (result.mean("segments_lost"), result.mean("repaired_locally"));
        let (timeouts, recoveries) = (result.mean("timeouts"), result.mean("recoveries"));
        let losses = match lost {
            0.0 => "The hop lost no segment".to_owned(),
            lost if here > 0.0 => {
                format!("Of {lost:.0} lost segments {:.0} % were repaired on the hop", 100.0 * here / lost)
            }
            lost => format!("{lost:.0} segments were lost on the hop"),
        };
        format!("{losses}; the sender went into recovery {recoveries:.1} times and timed out {timeouts:.1} times.")
    }
}

/// The cures, judged.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Runs of each.
    pub runs: usize,
    /// All cures that were asked for; the first one is none.
    pub cured: Vec<Cured>,
}

impl Advice {
    /// The cure to have: of those that come near to the best one, the one that asks least. `None` when none helps.
    pub fn best(&self) -> Option<&Cured> {
        self.best_of(|_| true)
    }

    /// The same among those cures that need this.
    pub fn best_with(&self, needs: Needs) -> Option<&Cured> {
        self.best_of(|cured| cured.cure.needs == needs)
    }

    /// Whether more runs may say otherwise: some cure gains more than the best one does, or would if it were not for chance.
    pub fn may_be_chance(&self) -> bool {
        let best = self.best().map_or(1.0 + LEAST_GAIN, |best| best.gain * (1.0 + AS_GOOD));
        self.cured.iter().any(|cured| !cured.helps() && cured.harmed().is_empty() && cured.gain >= best)
    }

    fn best_of(&self, which: impl Fn(&Cured) -> bool) -> Option<&Cured> {
        let helping = || self.cured.iter().filter(|cured| which(cured) && cured.helps());
        let most = helping().map(|cured| cured.gain).fold(0.0, f64::max);
        let near = |cured: &&Cured| cured.gain >= most * (1.0 - AS_GOOD) || cured.gain == most;
        // The first of those that ask as little.
        helping().filter(near).min_by_key(|cured| cured.cure.needs)
    }
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
