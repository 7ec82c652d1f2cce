//! From a link's losses, packet by packet, to the channel model that they follow.
//!
//! [`fit`] takes a [`LossTrace`], one direction of a link, and fits each family of channel models that lasthop simulates by maximum likelihood, compares them by
//! Akaike's criterion, chooses, and says whether the chosen one does what the link did: the model itself is run over the same packets, many times,
//! and what it loses is compared with what was lost. `docs/models/fit.md` has the rules and how they were validated.
//!
//! No I/O, no clock; the same trace gives the same answer to the byte.

mod adequacy;
mod counts;
mod family;
mod kept;
pub mod measurement;
mod optimum;
pub mod probe;
pub mod read;
pub mod scenario;
pub mod seen;
pub mod statement;
mod states;
mod trace;
mod words;

pub use adequacy::{Adequacy, Beside, Departure};
pub use counts::fit_counts;
pub use family::{Family, Fit, Parameter, Unit};
pub use kept::{Kept, Why};
pub use trace::{Clock, LossTrace, Sent};

/// A family is preferred to a simpler one where its AIC is lower by more than this: twice a gain in log-likelihood of 4, which chance gives one superfluous parameter
/// about once in 200 traces.
pub const CLEARLY_BETTER: f64 = 6.0;

/// What a trace says of its link's losses.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Packets of the trace.
    pub packets: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Runs of lost packets: their mean length, and the longest.
    pub mean_run: f64,
    /// The longest run.
    pub longest_run: u32,
    /// The best fit of each family that could have made the trace, chosen one first, then by AIC.
    pub fits: Vec<Fit>,
    /// Whether losses were seen packet by packet.
    pub detail: Detail,
    /// Families whose AIC is as good as the chosen one's, within [`CLEARLY_BETTER`]: the trace cannot tell them apart.
    pub alike: Vec<Family>,
    /// Models that the measurement allows as well: an advice has to hold under each of them.
    pub kept: Vec<Kept>,
    /// What the measurement says nothing of, as a clause.
    pub untold: Option<String>,
    /// Whether the chosen model loses packets as the link did.
    pub adequacy: Adequacy,
}

/// How closely losses are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Packet by packet.
    Packets,
    /// As counts of intervals: runs are not known.
    Intervals,
}

impl Report {
    /// The model that was chosen.
    pub fn chosen(&self) -> &Fit {
        &self.fits[0]
    }
}

/// Fits every family to `trace` and chooses among them. `None` for a trace without packets.
pub fn fit(trace: &LossTrace) -> Option<Report> {
    fit_unless(trace, &|| false)
}

/// As [`fit`]; `None` as well when `stop` said so before the end. It is asked each time that the trace was gone through.
pub fn fit_unless(trace: &LossTrace, stop: &dyn Fn() -> bool) -> Option<Report> {
    if trace.packets().is_empty() {
        return None;
    }
    let mut fits = family::fits(trace, stop);
    if stop() {
        return None;
    }
    fits.sort_by(|a, b| a.aic.total_cmp(&b.aic));
    let least = fits[0].aic;
    let near = |fit: &Fit| fit.aic <= least + CLEARLY_BETTER;
    let chosen = (0..fits.len()).filter(|&at| near(&fits[at])).min_by_key(|&at| fits[at].free).unwrap_or(0);
    let alike = fits
        .iter()
        .enumerate()
        .filter(|&(at, fit)| at != chosen && near(fit) && fit.free == fits[chosen].free)
        .map(|(_, fit)| fit.family)
        .collect();
    let first = fits.remove(chosen);
    fits.insert(0, first);
    let runs = trace.runs();
    let report = Report {
        packets: trace.packets().len() as u64,
        lost: trace.lost(),
        mean_run: if runs.is_empty() { 0.0 } else { trace.lost() as f64 / runs.len() as f64 },
        longest_run: runs.iter().copied().max().unwrap_or(0),
        detail: Detail::Packets,
        alike,
        kept: kept::kept(trace, &fits),
        untold: kept::untold(trace, &fits[0].spec),
        adequacy: adequacy::of(trace, &fits[0].spec, stop),
        fits,
    };
    (!stop()).then_some(report)
}

#[cfg(test)]
mod tests;
