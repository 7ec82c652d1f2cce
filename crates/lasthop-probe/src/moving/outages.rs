//! Times in which nothing arrived although packets were in flight.

use super::{Sample, Train};

/// Minimum duration in seconds. Retransmissions of link layers hold packets up for less.
const LEAST: f64 = 0.04;
/// Minimum number of successive trains of which nothing arrives.
const SILENT: u32 = 2;

/// Time in which nothing arrived: begin and end in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outage {
    /// Begin: the first packet was ready. The outage may have begun before.
    pub from: f64,
    /// End.
    pub until: f64,
}

impl Outage {
    /// Returns the duration in seconds.
    pub fn lasts(&self) -> f64 {
        self.until - self.from
    }
}

/// Returns the outages that the trains met.
pub(super) fn outages(trains: &[Train]) -> Vec<Outage> {
    let mut all: Vec<Outage> = Vec::new();
    // Trains of which nothing arrives, since the queue overflowed or the link drops what it cannot send.
    let mut silent: Option<(f64, u32)> = None;
    for train in trains {
        if train.lost >= train.sent {
            let (from, trains) = silent.unwrap_or((train.at, 0));
            silent = Some((from, trains + 1));
            continue;
        }
        if let Some((from, trains)) = silent.take()
            && trains >= SILENT
        {
            all.push(Outage { from, until: train.at });
        }
        if let Some([from, until]) = train.held.filter(|[from, until]| until - from >= LEAST) {
            all.push(Outage { from: all.last().map_or(from, |last| from.max(last.until)), until });
        }
    }
    all.retain(|outage| outage.until > outage.from);
    all
}

/// Returns the mean of rates that hold from each sample on, without the outages.
pub(super) fn mean(samples: &[Sample], outages: &[Outage]) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return 0.0 };
    let lasts = |pair: &[Sample]| (pair[1].at - pair[0].at).max(0.0);
    let sum: f64 = samples.windows(2).map(|pair| lasts(pair) * libm::exp(pair[0].log)).sum();
    let span = last.at - first.at;
    if span <= 0.0 {
        return libm::exp(first.log);
    }
    // The trains met a share of the outages: those at whose time one was ready. What they show is what they met.
    let out: f64 = outages.iter().map(Outage::lasts).sum();
    sum / span * (1.0 - out / span).max(0.0)
}
