//! What was measured beside what was promised.

use lasthop_study::advise::Use;
use lasthop_study::promise::{Kept, Measured, Promise, PromisedFactor, judge};
use serde_json::{Value, json};

use crate::commands::answers::{at, digits, word};

/// A rule's promise, and whether it is kept.
pub enum Beside {
    /// Nothing was promised of it, and why.
    Nothing(String),
    /// This was.
    Judged {
        /// The cure's scheme.
        cure: &'static str,
        /// How many times as fast.
        promised: PromisedFactor,
        /// The same as it was measured.
        measured: Option<Measured>,
        /// Whether they agree.
        kept: Kept,
    },
}

/// What `promise` says of what a rule of a gateway's report does.
pub fn of(rule: &Value, promise: &Promise) -> Beside {
    let cure = match word(rule, "/mode") {
        "snoop" => "SNOOP",
        "split" => "SPLIT-BBR",
        mode => return Beside::Nothing(format!("nothing was promised of `{mode}`")),
    };
    // Both are how many times as much a transfer gets in the same time.
    let Some(promised) = promise.of(cure, Use::Bulk.name()) else {
        return Beside::Nothing(format!(
            "the promise has no factor of {cure} for downloads; ask `lasthop advise` with bulk"
        ));
    };
    if at(rule, "/ab").unwrap_or(0.0) == 0.0 {
        return Beside::Nothing("none is left alone to compare with (`ab` is 0)".to_owned());
    }
    let [ratio, low, high] = ["/gain/ratio", "/gain/low", "/gain/high"].map(|part| at(rule, part));
    let measured = match (ratio, low, high) {
        (Some(ratio), Some(low), Some(high)) => Some(Measured { ratio, interval: [low, high] }),
        _ => None,
    };
    Beside::Judged { cure, promised, measured, kept: judge(promised, measured) }
}

/// In a line.
pub fn words(beside: &Beside) -> String {
    let (promised, measured, kept) = match beside {
        Beside::Nothing(why) => return format!("promise: {why}"),
        Beside::Judged { promised, measured, kept, .. } => (promised, measured, kept),
    };
    let ends = |[low, high]: [f64; 2]| format!(" ({}-{})", digits(low), digits(high));
    let measured = measured.map_or("nothing yet".to_owned(), |it| format!("{}{}", digits(it.ratio), ends(it.interval)));
    let (mean, interval) = (digits(promised.mean), promised.interval.map_or(String::new(), ends));
    format!("promise: {mean} times as fast for downloads{interval}, measured {measured}: {}", kept.words())
}

/// As JSON.
pub fn value(beside: &Beside) -> Value {
    match beside {
        Beside::Nothing(why) => json!({ "why_none": why }),
        Beside::Judged { cure, promised, measured, kept } => json!({
            "cure": cure,
            "promised": promised,
            "measured": measured.map(|it| json!({ "mean": it.ratio, "interval": it.interval })),
            "verdict": kept,
        }),
    }
}
