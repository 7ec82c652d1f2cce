//! Measurements of a gateway or an end of the two-ended link, compared with the promise.

use serde_json::{Value, json};

use super::{Kept, Measured, Promise, PromisedFactor, judge};
use crate::advise::{Side, Use};

/// Comparison of a promise with a measurement.
#[derive(Clone, PartialEq, Debug)]
pub enum Beside {
    /// No comparison, with the reason.
    Nothing(String),
    /// A comparison.
    Judged {
        /// Scheme of the cure.
        cure: &'static str,
        /// Downloads, or uploads from a gateway at the customer's side.
        usage: Use,
        /// Promised factor.
        promised: PromisedFactor,
        /// Measured factor.
        measured: Option<Measured>,
        /// Verdict.
        kept: Kept,
    },
}

/// Returns the transfers that a gateway's report measures.
const fn direction(usage: Use) -> &'static str {
    if matches!(usage, Use::Upload) { "uploads" } else { "downloads" }
}

impl Beside {
    /// Compares a rule in a gateway's report with `promise`.
    pub fn of_rule(rule: &Value, promise: &Promise) -> Self {
        let cure = match rule["mode"].as_str().unwrap_or("?") {
            "snoop" => "SNOOP",
            "split" => "SPLIT-BBR",
            mode => return Self::Nothing(format!("the promise does not cover mode `{mode}`")),
        };
        Self::of(cure, rule, promise)
    }

    /// Compares a peer in the report of an end of the two-ended link with `promise`.
    pub fn of_peer(peer: &Value, promise: &Promise) -> Self {
        Self::of("LINK-HYBRID", peer, promise)
    }

    fn of(cure: &'static str, of: &Value, promise: &Promise) -> Self {
        // Both are ratios of the amount transferred in the same time.
        // A gateway at the customer's side repairs uploads: these are what it sends over the hop.
        let at_customer = format!("{cure}@{}", Side::Customer.name());
        let (name, usage) = match promise.advised.as_ref() == Some(&at_customer) {
            true => (at_customer.as_str(), Use::Upload),
            false => (cure, Use::Bulk),
        };
        // In a scenario of an upload, the traffic of `bulk` is one.
        let of_bulk = || promise.of(name, Use::Bulk.name());
        let Some(promised) = promise.of(name, usage.name()).or_else(of_bulk) else {
            let (what, usage) = (direction(usage), usage.name());
            let why = format!("the promise has no factor of {name} for {what}; run `lasthop advise` with {usage}");
            return Self::Nothing(why);
        };
        if of["ab"].as_f64().unwrap_or(0.0) == 0.0 {
            return Self::Nothing("no untreated connections to compare with (`ab` is 0)".to_owned());
        }
        let [ratio, low, high] = ["ratio", "low", "high"].map(|part| of["gain"][part].as_f64());
        let measured = match (ratio, low, high) {
            (Some(ratio), Some(low), Some(high)) => Some(Measured { ratio, interval: [low, high] }),
            _ => None,
        };
        Self::Judged { cure, usage, promised, measured, kept: judge(promised, measured) }
    }

    /// Describes the comparison in one line.
    pub fn words(&self) -> String {
        let (usage, promised, measured, kept) = match self {
            Self::Nothing(why) => return format!("promise: {why}"),
            Self::Judged { usage, promised, measured, kept, .. } => (*usage, promised, measured, kept),
        };
        let ends = |[low, high]: [f64; 2]| format!(" ({}-{})", digits(low), digits(high));
        let measured =
            measured.map_or("nothing yet".to_owned(), |it| format!("{}{}", digits(it.ratio), ends(it.interval)));
        let (mean, interval) = (digits(promised.mean), promised.interval.map_or(String::new(), ends));
        format!(
            "promise: {mean} times as fast for {}{interval}, measured {measured}: {}",
            direction(usage),
            kept.words()
        )
    }

    /// Returns the output of `lasthop gateway report --promise --json`.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Nothing(why) => json!({ "why_none": why }),
            Self::Judged { cure, promised, measured, kept, .. } => json!({
                "cure": cure,
                "promised": promised,
                "measured": measured.map(|it| json!({ "mean": it.ratio, "interval": it.interval })),
                "verdict": kept,
            }),
        }
    }
}

/// Adds the comparison with `promise` to a report: to each rule of a gateway, and to each peer of an end of the
/// two-ended link.
pub fn put_into(report: &mut Value, promise: &Promise) {
    type Judge = fn(&Value, &Promise) -> Beside;
    let parts: [(&str, Judge); 2] = [("rules", Beside::of_rule), ("peers", Beside::of_peer)];
    for (list, judge) in parts {
        for part in report.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if part.is_object() {
                part["promise"] = judge(part, promise).to_json();
            }
        }
    }
}

/// Formats a number with two significant digits below 10, and as a whole number at 100 and above.
pub fn digits(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 0.995 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
