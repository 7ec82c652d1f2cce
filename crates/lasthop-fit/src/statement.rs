//! Statement of the properties of a measurement that the fitted scenario reproduces: rate, delay, order, duplication
//! and loss.

use crate::family::Unit;
use crate::read::Form;
use crate::scenario::shown;
use crate::seen::{Seen, Spread};
use crate::{Detail, Report};

/// Agreement of the scenario with the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The scenario reproduces the measured behaviour.
    Fits,
    /// The scenario does not reproduce the measured behaviour.
    DoesNotFit,
    /// The behaviour was not measured, or the measurement is inconclusive.
    Unknown,
}

impl Verdict {
    /// Returns the verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::DoesNotFit => "does not fit",
            Self::Unknown => "unknown",
        }
    }
}

/// Verdict with its reason.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Said {
    /// Verdict.
    pub verdict: Verdict,
    /// Measured value, or the reason why there is none, as a clause.
    pub why: String,
}

impl Said {
    /// Creates the verdict that the scenario reproduces the behaviour.
    pub fn fits(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fits, why: why.into() }
    }

    /// Creates the verdict that the scenario does not reproduce the behaviour.
    pub fn does_not(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::DoesNotFit, why: why.into() }
    }

    /// Creates the verdict that the behaviour is unknown.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, why: why.into() }
    }
}

/// Verdicts on one direction.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Statement {
    /// Verdict on the rate.
    pub rate: Said,
    /// Verdict on the delay and its variation.
    pub delay: Said,
    /// Verdict on the order in which packets arrive.
    pub order: Said,
    /// Verdict on duplicates.
    pub duplication: Said,
    /// Verdict on losses.
    pub loss: Said,
}

impl Statement {
    /// Returns each aspect with its name.
    pub fn aspects(&self) -> [(&'static str, &Said); 5] {
        [
            ("rate", &self.rate),
            ("delay", &self.delay),
            ("order", &self.order),
            ("duplication", &self.duplication),
            ("loss", &self.loss),
        ]
    }

    /// Returns the names of the aspects with this verdict.
    pub fn with(&self, verdict: Verdict) -> Vec<&'static str> {
        self.aspects().into_iter().filter(|(_, said)| said.verdict == verdict).map(|(name, _)| name).collect()
    }

    /// Formats the statement in lines: `rate: unknown: ...`.
    pub fn lines(&self) -> Vec<String> {
        let line = |(name, said): (&str, &Said)| format!("{name}: {}: {}", said.verdict.words(), said.why);
        self.aspects().into_iter().map(line).collect()
    }
}

/// Share of packets below which behaviour is reported but not modelled.
const FEW: f64 = 1e-3;
/// Variation of delay, absolute and relative to the minimum, up to which a scenario may assume a constant delay.
const STEADY_MS: f64 = 2.0;
const STEADY_SHARE: f64 = 0.05;

/// Returns the verdict on the losses of the fitted model.
pub fn loss(report: &Report, form: Form, has_two_ways: bool) -> Said {
    let name = report.chosen().family.name();
    let both = if form.is_round_trip() && !has_two_ways { " of both directions together" } else { "" };
    if report.lost == 0 {
        // Rule of three.
        let most = shown(Unit::Share, (3.0 / report.packets.max(1) as f64).min(1.0));
        return Said::fits(format!("nothing{both} was lost; the loss rate is at most {most} (95 %)"));
    }
    let departures: Vec<&str> = report.adequacy.departures.iter().map(|departure| departure.what).collect();
    if !departures.is_empty() {
        return Said::does_not(format!(
            "no model fits; {name}, the nearest one, deviates in {}",
            departures.join(", ")
        ));
    }
    let does = match report.detail {
        Detail::Packets => format!("{name} fits the losses{both}"),
        Detail::Intervals => format!("{name} fits the number of losses"),
    };
    match &report.untold {
        Some(untold) => Said::unknown(format!("{does}, but {untold}")),
        None if !report.kept.is_empty() => {
            let names: Vec<&str> = report.kept.iter().map(|kept| kept.fit.family.name()).collect();
            Said::unknown(format!("{does}, and so does {}: the measurement cannot distinguish them", names.join(", ")))
        }
        None => Said::fits(does),
    }
}

/// Returns the verdict on `count` packets in `of`, described by `what`; `key` is the scenario's key that models them,
/// if there is one.
fn counted(count: Option<u64>, of: u64, what: &str, missing: &str, key: Option<&str>) -> Said {
    let Some(count) = count else { return Said::unknown(missing) };
    let share = count as f64 / of.max(1) as f64;
    let told = format!("{count} of {of} packets ({}) {what}", shown(Unit::Share, share));
    match key {
        _ if count == 0 => Said::fits(format!("none of {of} packets {what}")),
        Some(key) => Said::fits(format!("{told}; modelled by {key}")),
        None if share < FEW => Said::fits(format!("{told}: negligible, not modelled")),
        None => Said::does_not(format!("{told}; the scenario does not model it")),
    }
}

/// Returns the verdict on the order.
pub fn order(seen: &Seen, key: Option<&str>) -> Said {
    let missing = "the measurement does not show the order of arrival";
    counted(seen.reordered, seen.arrived, "were reordered", missing, key)
}

/// Returns the verdict on duplicates.
pub fn duplication(seen: &Seen, key: Option<&str>) -> Said {
    counted(seen.duplicates, seen.arrived, "were duplicated", "the measurement does not show duplicates", key)
}

/// Returns the verdict on delays that vary without load.
pub fn variation(spread: &Spread, what: &str, key: Option<&str>) -> Said {
    let varies = spread.variation_ms();
    let Spread { least_ms, p95_ms, .. } = spread;
    if varies <= STEADY_MS.max(STEADY_SHARE * least_ms) {
        return Said::fits(format!("{what} {least_ms:.1} to {p95_ms:.1} ms for 95 % of the packets"));
    }
    let told =
        format!("{what} {least_ms:.1} to {p95_ms:.1} ms for 95 % of the packets, at most {:.1} ms", spread.most_ms);
    match key {
        Some(key) => Said::fits(format!("{told}; modelled by {key}")),
        None => Said::does_not(format!("{told}; the scenario's delay is constant")),
    }
}

/// Returns the statement on the rate for a measurement of this form.
pub fn rate_of(form: Form, seen: &Seen) -> Said {
    let given = "the scenario uses --rate";
    match (form, seen.sent_bps) {
        (Form::Iperf3, Some(sent)) => {
            Said::unknown(format!("iperf3 sent {:.4} Mbps, which need not be the maximum; {given}", sent / 1e6))
        }
        (Form::Ping | Form::Fping | Form::Irtt, _) => {
            Said::unknown(format!("widely spaced packets do not fill a link; {given}"))
        }
        _ => Said::unknown(format!("a list of losses does not show it; {given}")),
    }
}

/// Returns the statement on the delay for a measurement of this form.
pub fn delay_of(seen: &Seen) -> Said {
    match (&seen.round_trip, &seen.one_way) {
        (_, Some(one_way)) => variation(one_way, "one-way delays exceeded the minimum by", None),
        (Some(trips), None) => variation(trips, "round trips were", None),
        (None, None) => Said::unknown("the measurement has no delays; the scenario uses --delay"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::mixed;
    use crate::{LossTrace, fit};

    fn seen() -> Seen {
        let trips = Spread { least_ms: 40.0, median_ms: 41.0, p95_ms: 41.5, most_ms: 60.0 };
        Seen { arrived: 1000, round_trip: Some(trips), reordered: Some(0), duplicates: Some(0), ..Seen::default() }
    }

    #[test]
    fn each_aspect_by_itself() {
        assert_eq!(order(&seen(), None).verdict, Verdict::Fits);
        let reordered = Seen { reordered: Some(30), ..seen() };
        let said = order(&reordered, None);
        assert_eq!(said.verdict, Verdict::DoesNotFit);
        assert!(said.why.contains("30 of 1000 packets (3 %)") && said.why.contains("does not model"), "{}", said.why);
        assert_eq!(order(&reordered, Some("delay_variation_down")).verdict, Verdict::Fits);
        assert_eq!(order(&Seen { reordered: None, ..seen() }, None).verdict, Verdict::Unknown);
        assert_eq!(duplication(&Seen { duplicates: Some(200), ..seen() }, None).verdict, Verdict::DoesNotFit);
        assert_eq!(delay_of(&seen()).verdict, Verdict::Fits);
        let jitter = Spread { least_ms: 40.0, median_ms: 50.0, p95_ms: 70.0, most_ms: 90.0 };
        assert_eq!(delay_of(&Seen { round_trip: Some(jitter), ..seen() }).verdict, Verdict::DoesNotFit);
        assert_eq!(delay_of(&Seen::default()).verdict, Verdict::Unknown);
        assert_eq!(rate_of(Form::Ping, &seen()).verdict, Verdict::Unknown);
    }

    /// The verdict on losses covers losses only.
    #[test]
    fn losses_are_said_to_be_losses() {
        let none = fit(&LossTrace::ordered([false; 3000])).unwrap();
        let said = loss(&none, Form::Ping, false);
        assert!(said.verdict == Verdict::Fits && said.why.contains("at most 0.1 %"), "{}", said.why);
        let periodic = fit(&LossTrace::ordered((1..=20_000).map(|number| number % 20 == 0))).unwrap();
        assert_eq!(loss(&periodic, Form::Digits, false).verdict, Verdict::DoesNotFit);
        let order_only = fit(&LossTrace::ordered((0..3000).map(|number| mixed(number).is_multiple_of(100)))).unwrap();
        let said = loss(&order_only, Form::Ping, false);
        assert!(said.verdict == Verdict::Unknown && said.why.contains("both directions"), "{}", said.why);
    }
}
