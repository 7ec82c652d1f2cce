//! An advice as JSON, and in sentences.

use serde_json::{Value, json};

use super::{Advice, Cured, Effect, Needs, Side, Use};
use crate::atlas::Placement;
use crate::promise::Promise;
use crate::stats::Estimate;

impl Advice {
    /// Returns the output of `lasthop advise --json`. `promise` is the promise of this advice.
    pub fn to_json(&self, promise: &Promise) -> Value {
        let best = |cured: Option<&Cured>| cured.map(|cured| cured.cure.name());
        let by_needs = Needs::NAMES.map(|(name, needs)| (name.to_owned(), json!(best(self.best_with(needs)))));
        let by_side = Side::NAMES.map(|(name, side)| (name.to_owned(), json!(best(self.best_at(side)))));
        let alternatives = self.variants.iter().map(|variant| {
            json!({ "name": variant.name, "cures": variant.cured.iter().map(Cured::to_json).collect::<Vec<_>>() })
        });
        json!({
            "scenario": promise.link,
            "seed": promise.seed,
            "runs": self.runs,
            "advice": best(self.best()),
            "no_cure": self.best().is_none().then(|| self.why_none()),
            "best_with": Value::Object(by_needs.into_iter().collect()),
            "best_at": Value::Object(by_side.into_iter().collect()),
            "cures": self.cured.iter().map(Cured::to_json).collect::<Vec<_>>(),
            "alternatives": alternatives.collect::<Vec<_>>(),
            "conditions": self.conditions,
            "atlas": self.atlas.as_ref().map(Placement::to_json),
            "promise": promise,
        })
    }

    /// Returns the advice in sentences: with all requested changes allowed, and with fewer.
    pub fn words(&self) -> Vec<String> {
        let Some(best) = self.best() else {
            let none = format!("No cure is advised: {}.", self.why_none());
            return std::iter::once(none).chain(self.limits()).collect();
        };
        let mut lines = vec![format!("Advice: {} ({}): {}.", best.cure.name(), best.cure.needs_words(), best.gained())];
        if !self.variants.is_empty() {
            let under: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
            lines.push(format!(
                "It also helps under the alternatives that the measurement allows: {}.",
                under.join("; ")
            ));
        }
        let [base_station, customer] = Side::NAMES.map(|(_, side)| Some(side));
        for (needs, at) in
            [(Needs::Sender, None), (Needs::Box, base_station), (Needs::Box, customer), (Needs::Boxes, None)]
        {
            let of = |cured: &Cured| cured.cure.needs == needs && cured.cure.at == at;
            let Some(asked) = self.cured.iter().find(|cured| of(cured)) else { continue };
            if of(best) {
                continue;
            }
            let with = asked.cure.needs_words();
            lines.push(match self.best_of(of) {
                Some(cured) => format!("With {with}: {}, {}.", cured.cure.name(), cured.gained()),
                None => format!("With {with}: no cure helps."),
            });
        }
        lines.extend(self.doubtful().into_iter().map(|cured| format!("{}.", self.doubt(cured))));
        lines.extend(self.limits());
        lines
    }

    /// Returns the place of the link in the atlas, in sentences.
    pub fn atlas_words(&self) -> Vec<String> {
        self.atlas.as_ref().map(Placement::words).unwrap_or_default()
    }

    /// Returns a sentence for each device that does not repair one direction of the requested uses.
    fn limits(&self) -> impl Iterator<Item = String> {
        self.cured.iter().filter_map(|cured| Some(format!("{}.", cured.cannot.as_ref()?)))
    }

    /// Returns the reason why no cure is advised, as a clause.
    fn why_none(&self) -> String {
        if let Some(why) = &self.no_cure {
            return why.clone();
        }
        if let Some((variant, here, there)) = self.disagrees() {
            let named = |cured: Option<&Cured>| match cured {
                Some(cured) => format!("{} ({})", cured.cure.name(), cured.gained()),
                None => "no cure".to_owned(),
            };
            return format!(
                "the models of the rate disagree: the fitted one recommends {}, \"{}\" {}; a longer measurement with \
                 `lasthop probe --moving` may decide",
                named(here),
                variant.name,
                named(there)
            );
        }
        let doubts: Vec<String> = self.doubtful().into_iter().map(|cured| self.doubt(cured)).collect();
        if doubts.is_empty() {
            return "none is certain to gain at least 3 % on this link without harming a use".to_owned();
        }
        format!("{}; a longer or denser measurement with `lasthop probe` may decide", doubts.join("; "))
    }

    /// Returns the values under which a cure helps, and those under which it does not.
    fn doubt(&self, cured: &Cured) -> String {
        let fails = self.fails(cured).into_iter().map(|variant| {
            let there = variant.cured.iter().find(|it| it.cure == cured.cure).map(Cured::gained);
            format!("under \"{}\" {}", variant.name, there.unwrap_or_else(|| "nothing".to_owned()))
        });
        let fails: Vec<String> = fails.collect();
        format!(
            "{} yields {} in the chosen model, but {}, and the measurement allows both",
            cured.cure.name(),
            cured.gained(),
            fails.join(", ")
        )
    }
}

impl Cured {
    fn to_json(&self) -> Value {
        let estimate = |estimate: &Estimate| json!({ "mean": estimate.mean, "ci95": estimate.ci95 });
        let uses = self.results.iter().map(|result| {
            let ratio = result.factor.map(|it| json!({ "mean": it.mean, "interval": [it.interval.0, it.interval.1] }));
            let (name, unit) = (result.usage.name(), result.usage.unit());
            let trip = result.round_trip_ms().map(|[median, p95]| json!({ "median": median, "p95": p95 }));
            json!({ "use": name, "unit": unit, "value": estimate(&result.value), "ratio": ratio, "round_trip_ms": trip })
        });
        json!({
            "cure": self.cure.name(),
            "needs": self.cure.needs_words(),
            "place": self.cure.at.map(Side::name),
            "gain": self.gain.is_finite().then_some(self.gain),
            "helps": self.helps(),
            "harms": self.harmed().into_iter().map(Use::name).collect::<Vec<_>>(),
            "cannot": self.cannot,
            "does": self.cure.does,
            "happened": self.happened(),
            "uses": uses.collect::<Vec<_>>(),
        })
    }

    /// Returns the cure's factors of improvement, use by use.
    fn gained(&self) -> String {
        if !self.gain.is_finite() {
            return "without it, nothing gets through".to_owned();
        }
        let one = |result: &Effect| format!("{} {} times", result.usage.name(), result.times());
        let each: Vec<String> = self.results.iter().map(one).collect();
        format!("{} the result without a cure", each.join(", "))
    }

    /// Returns the round-trip times under load, in a sentence; `None` if not measured.
    pub fn round_trips(&self) -> Option<String> {
        let result = self.results.iter().find(|result| result.usage != Use::Call)?;
        let [median, p95] = result.round_trip_ms()?;
        let what = result.usage.name();
        Some(format!("The sender's round trip under {what}: median {median:.0} ms, 95th percentile {p95:.0} ms."))
    }
}

impl Effect {
    /// Formats the factor of improvement for display.
    pub fn times(&self) -> String {
        self.factor.map_or("from 0".to_owned(), |factor| times(factor.mean))
    }
}

/// Formats a gain for display.
pub fn times(gain: f64) -> String {
    if gain.is_finite() { format!("{gain:.2}") } else { "from 0".to_owned() }
}
