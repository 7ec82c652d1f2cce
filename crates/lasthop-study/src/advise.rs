//! Selection of a cure for a link from those that the user can install, with its gain and requirements.
//!
//! Each cure is simulated with modern endpoints, for typical uses: a download, web pages, a call. Under one seed all
//! cures meet the same errors. A cure is advised if it gains more than it may lose, and if no cure with smaller
//! requirements has nearly the same gain. If a measurement allows several models, the cures are simulated under each of
//! them, and a cure is advised only if it helps under all.

mod effect;
mod plan;
mod words;

use lasthop_proto::time::Duration;
use lasthop_scenario::Traffic;
use lasthop_sim::measure::Report;
use lasthop_sim::network::Network;

use crate::atlas::Placement;
use crate::measures::{measures, throughput};

pub use self::effect::{Effect, Factor};
pub use self::plan::{HopRates, Plan};
pub use self::words::times;

/// Minimum gain; a smaller one does not count.
const LEAST_GAIN: f64 = 0.03;

/// Maximum difference between the gains of two equally good cures. It is half of the minimum gain. The simulator's
/// error may account for the other half, so that the advised cure is within that gain of the best one after
/// installation.
const AS_GOOD: f64 = 0.015;

/// Minimum playout deadline of a call; otherwise it is the path's delay plus a jitter buffer.
const LEAST_DEADLINE: Duration = Duration::from_millis(150);
const JITTER: Duration = Duration::from_millis(60);

/// Duration of a download or upload.
const BULK: Duration = Duration::from_secs(30);

/// Changes that a cure requires, in increasing order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Needs {
    /// None.
    Nothing,
    /// A setting of the sending machines.
    Sender,
    /// A device in front of the lossy hop.
    Box,
    /// A device at each end of the lossy hop.
    Boxes,
}

impl Needs {
    /// Names of the requirements in options; [`Self::Nothing`] has none.
    pub const NAMES: [(&'static str, Self); 3] = [("sender", Self::Sender), ("box", Self::Box), ("boxes", Self::Boxes)];

    /// Returns the requirement of that name.
    ///
    /// # Errors
    ///
    /// Returns a message with the known names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let names = || Self::NAMES.map(|(name, _)| name).join(", ");
        known.map(|(_, needs)| *needs).ok_or_else(|| format!("give one or more of {}", names()))
    }

    /// Returns a human-readable description.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Sender => "the senders' setting",
            Self::Box => "one device",
            Self::Boxes => "a device at each end",
        }
    }
}

/// Side of the lossy hop on which one device stands. It repairs what it sends over the hop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// In front of the hop, as seen from the servers: downloads.
    BaseStation,
    /// At the end of the hop where the customer's hosts are: uploads.
    Customer,
}

impl Side {
    /// Both sides, with their names.
    pub const NAMES: [(&'static str, Self); 2] = [("base-station", Self::BaseStation), ("customer", Self::Customer)];

    /// Returns the side's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BaseStation => "base-station",
            Self::Customer => "customer",
        }
    }
}

/// Sides on which one device may stand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Places {
    /// One side.
    At(Side),
    /// Either side.
    Both,
}

impl Places {
    /// Names of the places in options.
    pub const NAMES: [(&'static str, Self); 3] =
        [("base-station", Self::At(Side::BaseStation)), ("customer", Self::At(Side::Customer)), ("both", Self::Both)];

    /// Returns the places of that name.
    ///
    /// # Errors
    ///
    /// Returns a message with the known names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let names = || Self::NAMES.map(|(name, _)| name).join(", ");
        known.map(|(_, places)| *places).ok_or_else(|| format!("give one of {}", names()))
    }

    /// Returns whether a device may stand on that side.
    pub fn allow(self, side: Side) -> bool {
        self == Self::Both || self == Self::At(side)
    }
}

/// A cure that can be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cure {
    /// Name of the cure's scheme.
    pub scheme: &'static str,
    /// Required changes.
    pub needs: Needs,
    /// Side of the device, if the cure is one device.
    pub at: Option<Side>,
    /// Handling of a loss under the cure, in a sentence.
    pub does: &'static str,
}

impl Cure {
    /// Returns the cure's name: that of the scheme, followed by `@customer` if the device is at the customer's side.
    pub fn name(&self) -> String {
        match self.at {
            Some(Side::Customer) => format!("{}@{}", self.scheme, Side::Customer.name()),
            _ => self.scheme.to_owned(),
        }
    }

    /// Returns a human-readable description of the required changes.
    pub const fn needs_words(&self) -> &'static str {
        match self.at {
            Some(Side::Customer) => "one device at the customer's side",
            _ => self.needs.words(),
        }
    }

    /// Returns the reason why one device does not repair transfers towards its own side of the hop: uploads, or
    /// downloads. `None` if it repairs them.
    fn cannot(&self, is_upload: bool) -> Option<String> {
        let what = match (self.at?, is_upload) {
            (Side::BaseStation, true) => "uploads",
            (Side::Customer, false) => "downloads",
            _ => return None,
        };
        let name = self.name();
        Some(if self.scheme == "SNOOP" {
            format!(
                "{name} does not repair {what}: their data reaches the gateway only after the hop, so it has no copies \
                 of what the hop loses"
            )
        } else {
            format!(
                "{name} leaves losses of {what} to their sender: the gateway receives them over the hop, so it can only \
                 shorten the sender's round trip"
            )
        })
    }
}

/// All cures. The first one leaves everything as it is.
pub const CURES: [Cure; 7] = [
    Cure {
        scheme: "E2E-CUBIC",
        needs: Needs::Nothing,
        at: None,
        does: "Senders run CUBIC, the Linux default, which treats each loss as congestion and slows down.",
    },
    Cure {
        scheme: "E2E-BBR",
        needs: Needs::Sender,
        at: None,
        does: "Senders run BBR, which follows the delivery rate and largely ignores losses.",
    },
    Cure {
        scheme: "SNOOP",
        needs: Needs::Box,
        at: Some(Side::BaseStation),
        does: "The gateway retransmits packets lost on the hop before the sender notices; connections stay end-to-end.",
    },
    Cure {
        scheme: "SPLIT-BBR",
        needs: Needs::Box,
        at: Some(Side::BaseStation),
        does: "The gateway terminates each connection and opens another with BBR over the hop; senders see no loss.",
    },
    Cure {
        scheme: "SNOOP",
        needs: Needs::Box,
        at: Some(Side::Customer),
        does: "A gateway at the customer's side retransmits packets lost on the hop before the customer's hosts \
               notice; connections stay end-to-end.",
    },
    Cure {
        scheme: "SPLIT-BBR",
        needs: Needs::Box,
        at: Some(Side::Customer),
        does: "A gateway at the customer's side terminates each connection and opens another with BBR over the hop; the \
               customer's hosts see no loss.",
    },
    Cure {
        scheme: "LINK-HYBRID",
        needs: Needs::Boxes,
        at: None,
        does: "A device at each end of the hop repairs all traffic on it, encrypted or not.",
    },
];

/// Use of the link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Use {
    /// A download.
    Bulk,
    /// An upload.
    Upload,
    /// Web pages, one after another.
    Pages,
    /// A call.
    Call,
}

impl Use {
    /// All uses, in the order of output.
    pub const ALL: [Self; 4] = [Self::Bulk, Self::Upload, Self::Pages, Self::Call];

    /// Uses that are simulated by default.
    pub const USUAL: [Self; 3] = [Self::Bulk, Self::Pages, Self::Call];

    /// Returns the use's name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Upload => "upload",
            Self::Pages => "pages",
            Self::Call => "call",
        }
    }

    /// Returns the use of that name.
    ///
    /// # Errors
    ///
    /// Returns a message with the known names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|usage| usage.name() == name);
        known.ok_or_else(|| format!("give one or more of {}", Self::ALL.map(Self::name).join(", ")))
    }

    /// Returns the unit of this use's result; more is better.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Bulk | Self::Upload => "Mbps",
            Self::Pages => "pages/min",
            Self::Call => "MOS",
        }
    }

    /// Returns the use's traffic for paths with a one-way `delay`. `is_upload` tells whether the scenario's first
    /// transfer is an upload.
    fn traffic(self, delay: Duration, is_upload: bool) -> Traffic {
        match self {
            Self::Upload if !is_upload => Traffic::Opposite(BULK),
            Self::Bulk | Self::Upload => Traffic::Bulk(BULK),
            Self::Pages => Traffic::Pages(Duration::from_secs(60)),
            Self::Call => Traffic::Call { time: Duration::from_secs(60), deadline: LEAST_DEADLINE.max(delay + JITTER) },
        }
    }

    /// Returns the use's result in one run, in [`Self::unit`]; more is better.
    fn value(self, network: &Network, report: &Report) -> f64 {
        match self {
            Self::Bulk | Self::Upload => throughput(network, report),
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

/// A cure and its results.
#[derive(Clone, Debug)]
pub struct Cured {
    /// The cure.
    pub cure: Cure,
    /// Results by use, in the requested order.
    pub results: Vec<Effect>,
    /// Factor of improvement over all uses (geometric mean); infinite if a use has no result without the cure.
    pub gain: f64,
    /// Reason why the cure does not repair one direction of the requested uses, as a clause.
    pub cannot: Option<String>,
}

impl Cured {
    fn new(cure: Cure, results: Vec<Effect>) -> Self {
        let logarithm = |result: &Effect| match result.factor {
            Some(factor) => factor.mean.ln(),
            None if result.value.mean > 0.0 => f64::INFINITY,
            None => 0.0,
        };
        let gain = (results.iter().map(logarithm).sum::<f64>() / results.len().max(1) as f64).exp();
        Self { cure, results, gain, cannot: None }
    }

    /// Returns the uses that are worse with the cure than without it: significantly, or by more than the minimum gain.
    pub fn harmed(&self) -> Vec<Use> {
        let worse =
            |result: &&Effect| result.factor.is_some_and(|it| it.interval.1 < 1.0 || it.mean < 1.0 - LEAST_GAIN);
        self.results.iter().filter(worse).map(|result| result.usage).collect()
    }

    /// Returns whether the cure has at least the minimum gain, is significantly better for at least one use, and harms
    /// none.
    pub fn helps(&self) -> bool {
        let sure = |result: &Effect| result.factor.is_none_or(|it| it.interval.0 > 1.0) && result.value.mean > 0.0;
        self.gain >= 1.0 + LEAST_GAIN && self.results.iter().any(sure) && self.harmed().is_empty()
    }

    /// Describes the events under the cure in a sentence, with averages per run.
    pub fn happened(&self) -> String {
        let Some(result) = self.results.first() else { return String::new() };
        if result.usage == Use::Call {
            let [sent, lost, late] = ["call_sent", "call_lost", "call_late"].map(|name| result.mean(name));
            return format!("Of {sent:.0} packets of the call {lost:.1} were lost and {late:.1} arrived too late.");
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
        format!("{losses}; the sender entered recovery {recoveries:.1} times and timed out {timeouts:.1} times.")
    }
}

/// The cures under another value that the measurement allows.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Description of the value.
    pub name: String,
    /// True if it is another model of how a rate moves: it must recommend the same cure.
    pub of_rate: bool,
    /// Cures, in the advice's order.
    pub cured: Vec<Cured>,
}

impl Variant {
    fn of(&self, cure: &Cure) -> Option<&Cured> {
        self.cured.iter().find(|cured| cured.cure == *cure)
    }
}

/// Results of all cures, with the advice.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// Number of runs of each.
    pub runs: usize,
    /// All requested cures; the first one is none.
    pub cured: Vec<Cured>,
    /// Results under each other value that the measurement allows.
    pub variants: Vec<Variant>,
    /// Reason why no cure may be advised regardless of the results; a clause.
    pub no_cure: Option<String>,
    /// Conditions for the validity of the advice, a clause each.
    pub conditions: Vec<String>,
    /// Place of the link in the atlas.
    pub atlas: Option<Placement>,
}

impl Advice {
    /// Returns the advised cure: of those nearly as good as the best, the one with the smallest requirements. `None` if
    /// none helps.
    pub fn best(&self) -> Option<&Cured> {
        self.best_of(|_| true)
    }

    /// Returns the advised cure among those with this requirement.
    pub fn best_with(&self, needs: Needs) -> Option<&Cured> {
        self.best_of(|cured| cured.cure.needs == needs)
    }

    /// Returns the advised cure among those of one device on that side.
    pub fn best_at(&self, side: Side) -> Option<&Cured> {
        self.best_of(|cured| cured.cure.at == Some(side))
    }

    /// Returns whether more runs may change the advice: some cure gains more than the best one without being
    /// significant, or models of the rate disagree.
    pub fn may_be_chance(&self) -> bool {
        if self.no_cure.is_none() && self.disagrees().is_some() {
            return true;
        }
        let best = self.best().map_or(1.0 + LEAST_GAIN, |best| best.gain * (1.0 + AS_GOOD));
        self.cured.iter().any(|cured| !cured.helps() && cured.harmed().is_empty() && cured.gain >= best)
    }

    /// Returns the other values under which a cure does not help.
    pub fn fails(&self, cured: &Cured) -> Vec<&Variant> {
        self.variants.iter().filter(|variant| variant.of(&cured.cure).is_none_or(|cured| !cured.helps())).collect()
    }

    /// Returns the cures that help under the chosen value, but not under another one that the measurement allows.
    pub fn doubtful(&self) -> Vec<&Cured> {
        self.cured.iter().filter(|cured| cured.helps() && !self.fails(cured).is_empty()).collect()
    }

    /// Returns another model of how the rate moves that recommends a clearly better cure than the chosen one does, or
    /// none, with both recommendations.
    pub fn disagrees(&self) -> Option<(&Variant, Option<&Cured>, Option<&Cured>)> {
        let here = choice(&self.cured);
        let of = |variant: &'_ Variant| {
            let there = choice(&variant.cured);
            let is_as_good = match (here, there) {
                (None, None) => true,
                (Some(here), Some(there)) => {
                    let same = variant.of(&here.cure);
                    same.is_some_and(|same| same.helps() && same.gain >= there.gain * (1.0 - LEAST_GAIN))
                }
                _ => false,
            };
            !is_as_good
        };
        let variant = self.variants.iter().filter(|variant| variant.of_rate).find(|variant| of(variant))?;
        Some((variant, here, choice(&variant.cured)))
    }

    fn best_of(&self, which: impl Fn(&Cured) -> bool) -> Option<&Cured> {
        if self.no_cure.is_some() || self.disagrees().is_some() {
            return None;
        }
        let helping =
            || self.cured.iter().filter(|cured| which(cured) && cured.helps() && self.fails(cured).is_empty());
        let most = helping().map(|cured| cured.gain).fold(0.0, f64::max);
        let near = |cured: &&Cured| cured.gain >= most * (1.0 - AS_GOOD) || cured.gain == most;
        // The first of those with the smallest requirements.
        helping().filter(near).min_by_key(|cured| cured.cure.needs)
    }
}

/// Returns the cure that results by themselves recommend: of those nearly as good as the best, the one with the smallest
/// requirements.
fn choice(cured: &[Cured]) -> Option<&Cured> {
    let helping = || cured.iter().filter(|cured| cured.helps());
    let most = helping().map(|cured| cured.gain).fold(0.0, f64::max);
    let near = |cured: &&Cured| cured.gain >= most * (1.0 - AS_GOOD) || cured.gain == most;
    helping().filter(near).min_by_key(|cured| cured.cure.needs)
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
