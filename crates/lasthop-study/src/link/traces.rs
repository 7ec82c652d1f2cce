//! Losses of one direction, the models fitted to them, and statements about rate, delay, order, duplication and loss.

use std::path::Path;

use lasthop_fit::read::{Form, Losses, Reading, Way, reading};
use lasthop_fit::seen::Seen;
use lasthop_fit::statement::{self, Said, Statement, Verdict};
use lasthop_fit::{Clock, LossTrace, Report, fit_counts, fit_unless};
use lasthop_proto::time::Duration;
use lasthop_scenario::one_line;
use serde_json::{Value, json};

use super::access::Access;
use super::error::LinkError;

/// Number of intervals in which losses are shown.
const SPANS: usize = 120;

/// Losses of one direction, and the models fitted to them.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Name of the trace.
    pub name: String,
    /// Form of the trace.
    pub form: Form,
    /// Indicates whether the packets' times are known.
    pub clock: Clock,
    /// Models.
    pub report: Report,
    /// Losses over time ([`lasthop_fit::LossTrace::loss_over_time`]).
    pub over_time: Vec<(f64, f64)>,
    /// Observations other than losses.
    pub seen: Seen,
    /// Statement on the scenario's agreement with the measurement.
    pub statement: Statement,
    /// Losses, packet by packet, if no model fits them.
    pub(super) losses: Vec<bool>,
}

impl Fitted {
    /// Returns the output of `lasthop fit --json`.
    pub fn to_json(&self) -> Value {
        let times_known = self.clock == Clock::Known;
        json!({
            "file": self.name, "form": self.form, "times_known": times_known, "fit": self.report, "seen": self.seen,
            "statement": self.statement,
        })
    }

    /// Returns the statement about each aspect, a line each.
    pub fn said(&self) -> Vec<String> {
        self.statement.lines()
    }

    /// Fits models to one direction of a reading.
    pub(super) fn of(
        access: &Access<'_>,
        path: &Path,
        (way, form): (Way, Form),
        rate: Option<f64>,
        has_two_ways: bool,
    ) -> Result<Self, LinkError> {
        let stopped = || LinkError::Stopped { path: path.to_path_buf() };
        let name = one_line(&path.display().to_string());
        let (report, clock, over_time, losses) = match way.losses {
            Losses::Packets(trace) => {
                let trace = on_air(trace, rate);
                // A trace that was read is not empty.
                let report = fit_unless(&trace, access.stop).ok_or_else(stopped)?;
                let fits = report.adequacy.fits();
                let losses = trace.losses().filter(|_| !fits).collect();
                (report, trace.clock(), trace.loss_over_time(SPANS), losses)
            }
            Losses::Counts(counts) => {
                let report = fit_counts(&counts).ok_or_else(stopped)?;
                (report, Clock::Known, counts.loss_over_time(), Vec::new())
            }
        };
        let seen = way.seen;
        let statement = Statement {
            rate: statement::rate_of(form, &seen),
            delay: statement::delay_of(&seen),
            order: statement::order(&seen, None),
            duplication: statement::duplication(&seen, None),
            loss: statement::loss(&report, form, has_two_ways),
        };
        Ok(Self { name, form, clock, report, over_time, seen, statement, losses })
    }

    /// Marks losses as unknown, regardless of the fit.
    pub(super) fn with_unknown_losses(mut self, why: &str) -> Self {
        let fits = std::mem::take(&mut self.statement.loss.why);
        self.statement.loss = Said { verdict: Verdict::Unknown, why: format!("{why}; {fits}") };
        self
    }
}

/// Returns the packets of a trace with their transmission at `rate` in bits per second, if that is known.
pub(super) fn on_air(trace: LossTrace, rate: Option<f64>) -> LossTrace {
    match rate {
        Some(rate) => trace.at_rate(rate),
        None => trace,
    }
}

/// Reads the losses in a text.
pub(super) fn of_text(
    access: &Access<'_>,
    path: &Path,
    text: &str,
    interval: Option<Duration>,
) -> Result<Reading, LinkError> {
    reading(text, access.most_packets(), interval).map_err(|error| LinkError::Trace { path: path.to_path_buf(), error })
}
