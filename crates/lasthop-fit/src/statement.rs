//! What of a measurement the fitted scenario does, and what it does not: rate, delay, order, duplication and loss, each by itself.

use crate::family::Unit;
use crate::read::Form;
use crate::scenario::shown;
use crate::seen::{Seen, Spread};
use crate::{Detail, Report};

/// Whether the scenario does what was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Fits,
    /// It does not.
    DoesNotFit,
    /// It was not measured, or the measurement does not tell.
    Unknown,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::DoesNotFit => "does not fit",
            Self::Unknown => "unknown",
        }
    }
}

/// A verdict and its reason.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Said {
    /// The verdict.
    pub verdict: Verdict,
    /// What was measured, or why nothing was, as a clause.
    pub why: String,
}

impl Said {
    /// The scenario does it.
    pub fn fits(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fits, why: why.into() }
    }

    /// The scenario does not.
    pub fn does_not(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::DoesNotFit, why: why.into() }
    }

    /// Nothing is known of it.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, why: why.into() }
    }
}

/// All that is said of one direction.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Statement {
    /// Of the rate.
    pub rate: Said,
    /// Of the delay and its variation.
    pub delay: Said,
    /// Of the order in which packets arrive.
    pub order: Said,
    /// Of packets that arrive twice.
    pub duplication: Said,
    /// Of losses.
    pub loss: Said,
}

impl Statement {
    /// Each aspect by its name.
    pub fn aspects(&self) -> [(&'static str, &Said); 5] {
        [
            ("rate", &self.rate),
            ("delay", &self.delay),
            ("order", &self.order),
            ("duplication", &self.duplication),
            ("loss", &self.loss),
        ]
    }

    /// The aspects with that verdict.
    pub fn with(&self, verdict: Verdict) -> Vec<&'static str> {
        self.aspects().into_iter().filter(|(_, said)| said.verdict == verdict).map(|(name, _)| name).collect()
    }

    /// The statement in lines: `rate: unknown: ...`.
    pub fn lines(&self) -> Vec<String> {
        let line = |(name, said): (&str, &Said)| format!("{name}: {}: {}", said.verdict.words(), said.why);
        self.aspects().into_iter().map(line).collect()
    }
}

/// Fewer packets than this share are said, and not modelled.
const FEW: f64 = 1e-3;
/// A delay that varies by less than this, or by less than this share of the least one, is constant for the purposes of a scenario.
const STEADY_MS: f64 = 2.0;
const STEADY_SHARE: f64 = 0.05;

/// Says what the fitted model does of the losses.
pub fn loss(report: &Report, form: Form, has_two_ways: bool) -> Said {
    let name = report.chosen().family.name();
    let both = if form.is_round_trip() && !has_two_ways { " of both directions together" } else { "" };
    if report.lost == 0 {
        // The rule of three.
        let most = shown(Unit::Share, (3.0 / report.packets.max(1) as f64).min(1.0));
        return Said::fits(format!("nothing{both} was lost; at most {most} in the long run (95 %)"));
    }
    let departures: Vec<&str> = report.adequacy.departures.iter().map(|departure| departure.what).collect();
    if !departures.is_empty() {
        return Said::does_not(format!("no model fits; {name}, the nearest one, departs in {}", departures.join(", ")));
    }
    let does = match report.detail {
        Detail::Packets => format!("{name} loses packets{both} as this link did"),
        Detail::Intervals => format!("{name} loses as many packets as this link did"),
    };
    match &report.untold {
        Some(untold) => Said::unknown(format!("{does}, but {untold}")),
        None if !report.kept.is_empty() => {
            let names: Vec<&str> = report.kept.iter().map(|kept| kept.fit.family.name()).collect();
            Said::unknown(format!("{does}, and so does {}: the measurement does not tell them apart", names.join(", ")))
        }
        None => Said::fits(does),
    }
}

/// Says what the scenario does of `count` packets in `of`, which are what `what` says; `key` is the key that does it, where there is one.
fn counted(count: Option<u64>, of: u64, what: &str, missing: &str, key: Option<&str>) -> Said {
    let Some(count) = count else { return Said::unknown(missing) };
    let share = count as f64 / of.max(1) as f64;
    let told = format!("{count} of {of} packets ({}) {what}", shown(Unit::Share, share));
    match key {
        _ if count == 0 => Said::fits(format!("none of {of} packets {what}")),
        Some(key) => Said::fits(format!("{told}; modelled by {key}")),
        None if share < FEW => Said::fits(format!("{told}: too few to matter, not modelled")),
        None => Said::does_not(format!("{told}; the scenario does not model it")),
    }
}

/// Says what the scenario does of the order.
pub fn order(seen: &Seen, key: Option<&str>) -> Said {
    let missing = "the measurement does not show in which order packets arrived";
    counted(seen.reordered, seen.arrived, "arrived behind one sent later", missing, key)
}

/// Says what the scenario does of duplicates.
pub fn duplication(seen: &Seen, key: Option<&str>) -> Said {
    counted(seen.duplicates, seen.arrived, "arrived again", "the measurement does not show duplicates", key)
}

/// Says what the scenario does of delays that vary by themselves, without load.
pub fn variation(spread: &Spread, what: &str, key: Option<&str>) -> Said {
    let varies = spread.variation_ms();
    let Spread { least_ms, p95_ms, .. } = spread;
    if varies <= STEADY_MS.max(STEADY_SHARE * least_ms) {
        return Said::fits(format!("{what} {least_ms:.1} to {p95_ms:.1} ms in 95 % of the packets"));
    }
    let told =
        format!("{what} {least_ms:.1} to {p95_ms:.1} ms in 95 % of the packets, {:.1} ms at most", spread.most_ms);
    match key {
        Some(key) => Said::fits(format!("{told}; modelled by {key}")),
        None => Said::does_not(format!("{told}; the scenario's delay is constant")),
    }
}

/// Says what a measurement of that form shows of the rate.
pub fn rate_of(form: Form, seen: &Seen) -> Said {
    let given = "the scenario has what --rate says";
    match (form, seen.sent_bps) {
        (Form::Iperf3, Some(sent)) => Said::unknown(format!(
            "iperf3 sent {:.4} Mbps, and what the link carries at most was not sought; {given}",
            sent / 1e6
        )),
        (Form::Ping | Form::Fping | Form::Irtt, _) => {
            Said::unknown(format!("packets far apart do not fill a link; {given}"))
        }
        _ => Said::unknown(format!("a list of losses does not show it; {given}")),
    }
}

/// Says what a measurement of that form shows of the delay.
pub fn delay_of(seen: &Seen) -> Said {
    match (&seen.round_trip, &seen.one_way) {
        (_, Some(one_way)) => variation(one_way, "one-way delays beyond the least one were", None),
        (Some(trips), None) => variation(trips, "round trips were", None),
        (None, None) => Said::unknown("the measurement has no delays; the scenario has what --delay says"),
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

    /// Losses that fit are said to be losses that fit, and nothing more.
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
