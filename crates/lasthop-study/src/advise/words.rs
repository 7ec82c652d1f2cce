//! An advice as JSON, and in sentences.

use serde_json::{Value, json};

use super::{Advice, Cured, Needs, Use};
use crate::promise::Promise;
use crate::stats::Estimate;

impl Advice {
    /// As `lasthop advise --json` has it; `promise` is what it promises.
    pub fn to_json(&self, promise: &Promise) -> Value {
        let estimate = |estimate: &Estimate| json!({ "mean": estimate.mean, "ci95": estimate.ci95 });
        let cures = self.cured.iter().map(|cured| {
            let uses = cured.results.iter().map(|result| {
                let ratio =
                    result.factor.map(|it| json!({ "mean": it.mean, "interval": [it.interval.0, it.interval.1] }));
                let (name, unit) = (result.usage.name(), result.usage.unit());
                json!({ "use": name, "unit": unit, "value": estimate(&result.value), "ratio": ratio })
            });
            json!({
                "cure": cured.cure.scheme,
                "needs": cured.cure.needs.words(),
                "gain": cured.gain.is_finite().then_some(cured.gain),
                "helps": cured.helps(),
                "harms": cured.harmed().into_iter().map(Use::name).collect::<Vec<_>>(),
                "does": cured.cure.does,
                "happened": cured.happened(),
                "uses": uses.collect::<Vec<_>>(),
            })
        });
        let best = |cured: Option<&Cured>| cured.map(|cured| cured.cure.scheme);
        let by_needs = Needs::NAMES.map(|(name, needs)| (name.to_owned(), json!(best(self.best_with(needs)))));
        json!({
            "scenario": promise.link,
            "seed": promise.seed,
            "runs": self.runs,
            "advice": best(self.best()),
            "best_with": Value::Object(by_needs.into_iter().collect()),
            "cures": cures.collect::<Vec<_>>(),
            "promise": promise,
        })
    }

    /// What to do, for whoever can change everything that was asked about; and for whoever can change less.
    pub fn words(&self) -> Vec<String> {
        let Some(best) = self.best() else {
            return vec!["Advice: leave it as it is. None of these cures helps on this link.".to_owned()];
        };
        let gained = |cured: &Cured| match cured.gain.is_finite() {
            true => format!("{} times what there is without it", times(cured.gain)),
            false => "without it, nothing gets through".to_owned(),
        };
        let mut lines = vec![format!("Advice: {} ({}): {}.", best.cure.scheme, best.cure.needs.words(), gained(best))];
        for (_, needs) in Needs::NAMES {
            let asked = self.cured.iter().any(|cured| cured.cure.needs == needs);
            if !asked || needs == best.cure.needs {
                continue;
            }
            lines.push(match self.best_with(needs) {
                Some(cured) => format!("With {}: {}, {}.", needs.words(), cured.cure.scheme, gained(cured)),
                None => format!("With {}: nothing that helps.", needs.words()),
            });
        }
        lines
    }
}

/// A gain for people.
pub fn times(gain: f64) -> String {
    if gain.is_finite() { format!("{gain:.2}") } else { "from 0".to_owned() }
}
