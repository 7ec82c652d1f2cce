//! Fitting of channel models to the losses of a link, packet by packet.
//!
//! [`fit`] takes a [`LossTrace`] of one direction of a link. It fits each family of channel models that lasthop
//! simulates by maximum likelihood and chooses by Akaike's criterion. Then it checks the chosen model: the model is run
//! many times over the same packets, and its losses are compared with the observed ones. `docs/models/fit.md` has the
//! rules and their validation.
//!
//! The crate does no I/O and reads no clock; the same trace gives the same result to the byte.

mod adequacy;
mod bits;
mod chain;
mod counts;
mod family;
pub mod irtt;
mod kept;
pub mod measurement;
mod optimum;
mod parallel;
pub mod probe;
pub mod read;
pub mod scenario;
pub mod seen;
mod simulation;
pub mod statement;
mod states;
mod trace;
mod words;

pub use adequacy::{Adequacy, Beside, Departure};
pub use counts::fit_counts;
pub use family::{Family, Fit, Parameter, Unit};
pub use kept::{Kept, Why};
pub use trace::{Clock, LossTrace, Sent};

/// Minimum difference in AIC at which a family is preferred to a simpler one: twice a gain in log-likelihood of 4,
/// which chance gives one superfluous parameter about once in 200 traces.
pub const CLEARLY_BETTER: f64 = 6.0;

/// Result of fitting the losses of a link.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Number of packets in the trace.
    pub packets: u64,
    /// Number of lost packets.
    pub lost: u64,
    /// Mean length of runs of lost packets.
    pub mean_run: f64,
    /// Length of the longest run.
    pub longest_run: u32,
    /// Best fit of each family that could have produced the trace: the chosen one, then the others by AIC.
    pub fits: Vec<Fit>,
    /// Granularity of the observed losses.
    pub detail: Detail,
    /// Families whose AIC is as good as the chosen one's, within [`CLEARLY_BETTER`].
    pub alike: Vec<Family>,
    /// Other models that the measurement permits: advice must hold under each of them.
    pub kept: Vec<Kept>,
    /// Properties that the measurement does not reveal, as a clause.
    pub untold: Option<String>,
    /// Comparison of the chosen model with the trace.
    pub adequacy: Adequacy,
}

/// Granularity of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// Losses are known packet by packet.
    Packets,
    /// Losses are known as counts per interval; runs are unknown.
    Intervals,
}

impl Report {
    /// Returns the chosen model.
    pub fn chosen(&self) -> &Fit {
        &self.fits[0]
    }
}

/// Fits every family to `trace` and chooses one. `None` for a trace without packets.
pub fn fit(trace: &LossTrace) -> Option<Report> {
    fit_unless(trace, &|| false)
}

/// Like [`fit`], but also returns `None` if `stop` returns true before the end. `stop` is called for each pass over the
/// trace, by the calling thread only. The work is shared by as many threads as there are cores; the result does not
/// depend on their number.
pub fn fit_unless(trace: &LossTrace, stop: &dyn Fn() -> bool) -> Option<Report> {
    if trace.is_empty() {
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
        packets: trace.len() as u64,
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
