//! The claims, written before the first run. None was changed after it.

mod applications;
mod transfers;

pub use self::applications::{call, video};
pub use self::transfers::{bulk, page};

use lasthop_report::study::Claim;

use super::links::{Link, links};
use super::metrics::Metric;
use super::uses::Use;
use crate::claims::{self, Claimant, show};
use crate::stats::Estimate;
use crate::study::Results;

/// Cures on the path, one for each place.
const CURES: [&str; 3] = ["SNOOP", "SPLIT-BBR", "LINK-HYBRID"];

/// Returns the links whose hop loses frames for good.
fn lossy() -> impl Iterator<Item = &'static Link> {
    links(Link::loses)
}

/// Gathers a claim with an identifier and a text.
fn claim(results: &Results, id: &str, text: &str, gather: &dyn Fn(&mut Claimant) -> Option<()>) -> Option<Claim> {
    claims::claim(results, id, text, gather)
}

/// A metric of a cell.
struct Of<'a> {
    used: Use,
    metric: Metric,
    link: &'a str,
    line: &'a str,
}

impl Of<'_> {
    fn cell(&self) -> String {
        self.used.cell(self.link, self.line)
    }

    fn values(&self, results: &Results) -> Option<Vec<Option<f64>>> {
        self.metric.of(results, &self.cell())
    }

    /// Returns the cell's name with its estimate.
    fn shown(&self, results: &Results) -> Option<String> {
        let values: Vec<f64> = self.values(results)?.into_iter().flatten().collect();
        Some(format!("{} {}", self.cell(), show(&Estimate::of(&values)?)))
    }
}

/// Returns the throughput of a download.
const fn throughput<'a>(link: &'a str, line: &'a str) -> Of<'a> {
    Of { used: Use::Bulk, metric: Metric::Throughput, link, line }
}

/// Returns the time of a page.
const fn page_time<'a>(link: &'a str, line: &'a str) -> Of<'a> {
    Of { used: Use::Page, metric: Metric::PageTime, link, line }
}

/// Returns the opinion score of a call.
const fn opinion<'a>(link: &'a str, line: &'a str) -> Of<'a> {
    Of { used: Use::Call, metric: Metric::Opinion, link, line }
}

/// Returns the share of video frames missed.
const fn missed<'a>(link: &'a str, line: &'a str) -> Of<'a> {
    Of { used: Use::Video, metric: Metric::FramesMissed, link, line }
}

/// Checks that `upper` exceeds `factor` times `lower` plus `more`, run by run.
fn exceeds(c: &mut Claimant, upper: &Of, (factor, more): (f64, f64), lower: &Of) -> Option<()> {
    let (a, b) = (upper.values(c.results)?, lower.values(c.results)?);
    let pairs = a.into_iter().zip(b).filter_map(|(a, b)| Some(a? - factor * b? - more));
    let difference = Estimate::of(&pairs.collect::<Vec<_>>())?;
    let times = if factor == 1.0 { String::new() } else { format!("{factor} × ") };
    let plus =
        if more == 0.0 { String::new() } else { format!(" {} {}", if more < 0.0 { "−" } else { "+" }, more.abs()) };
    let [a, b] = [upper, lower].map(|of| of.shown(c.results));
    c.judge(&difference, format!("{} > {times}{}{plus}: by {}", a?, b?, show(&difference)));
    Some(())
}

/// Checks that `factor` times `upper` exceeds `lower`, run by run.
fn times_exceeds(c: &mut Claimant, upper: &Of, factor: f64, lower: &Of) -> Option<()> {
    let (a, b) = (upper.values(c.results)?, lower.values(c.results)?);
    let pairs = a.into_iter().zip(b).filter_map(|(a, b)| Some(factor * a? - b?));
    let difference = Estimate::of(&pairs.collect::<Vec<_>>())?;
    let [a, b] = [upper, lower].map(|of| of.shown(c.results));
    c.judge(&difference, format!("{factor} × {} > {}: by {}", a?, b?, show(&difference)));
    Some(())
}

/// Checks that a metric is above a number.
fn above(c: &mut Claimant, of: &Of, least: f64) -> Option<()> {
    let values: Vec<f64> = of.values(c.results)?.into_iter().flatten().map(|value| value - least).collect();
    c.judge(&Estimate::of(&values)?, format!("{} > {least}", of.shown(c.results)?));
    Some(())
}

/// Checks that a metric is below a number.
fn below(c: &mut Claimant, of: &Of, most: f64) -> Option<()> {
    let values: Vec<f64> = of.values(c.results)?.into_iter().flatten().map(|value| most - value).collect();
    c.judge(&Estimate::of(&values)?, format!("{} < {most}", of.shown(c.results)?));
    Some(())
}
