//! The promise of an advice for each cure, in a format that is stored with its configuration, and the verification of
//! the promise by later measurements.

mod beside;

use serde::{Deserialize, Serialize};

use crate::advise::{Advice, Factor};

pub use self::beside::{Beside, digits, put_into};

/// Version of the format.
const VERSION: u32 = 1;

/// Promise of an advice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Promise {
    /// Version of the format.
    pub lasthop_promise: u32,
    /// Title of the link.
    pub link: String,
    /// Seed of the runs.
    pub seed: u64,
    /// Number of runs per cure and use.
    pub runs: usize,
    /// Cure that was advised; `None` if none helps.
    pub advised: Option<String>,
    /// Conditions of the promise, a clause each; promises of earlier versions have none.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// All cures that were compared; the first entry means no cure.
    pub cures: Vec<PromisedCure>,
}

/// Promise for a cure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromisedCure {
    /// Name of the cure's scheme.
    pub cure: String,
    /// Changes that the cure requires.
    pub needs: String,
    /// Promises by use.
    pub uses: Vec<PromisedUse>,
}

/// Promise for one use of a cure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromisedUse {
    /// Use: `bulk`, `upload`, `pages`, `call`.
    #[serde(rename = "use")]
    pub usage: String,
    /// Unit of `value`.
    pub unit: String,
    /// Result, as the mean of the runs.
    pub value: f64,
    /// 95 % interval of the result; `None` for one run.
    pub interval: Option<[f64; 2]>,
    /// Result relative to that without a cure; `None` if that is zero.
    pub factor: Option<PromisedFactor>,
}

/// Promised improvement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromisedFactor {
    /// Geometric mean of the runs.
    pub mean: f64,
    /// 95 % interval; `None` if some runs had a result of zero.
    pub interval: Option<[f64; 2]>,
}

/// Error of reading a promise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PromiseError {
    /// The JSON has an unexpected structure.
    #[error("not a promise written by `lasthop advise --out`: {0}")]
    Form(String),
    /// The promise was written by another version of lasthop.
    #[error("lasthop_promise = {0}: expected {VERSION}; run `lasthop advise` again")]
    Version(u64),
    /// A factor has an invalid number.
    #[error("{cure}, {usage}: factor {what}: expected numbers above zero, with the lower bound of an interval first")]
    Value {
        /// Name of the cure.
        cure: String,
        /// Name of the use.
        usage: String,
        /// The number.
        what: String,
    },
}

impl From<Factor> for PromisedFactor {
    fn from(factor: Factor) -> Self {
        let (low, high) = factor.interval;
        Self { mean: factor.mean, interval: (low > 0.0 && high.is_finite()).then_some([low, high]) }
    }
}

impl Promise {
    /// Creates the promise of `advice` for the link of that title.
    pub fn new(link: &str, seed: u64, advice: &Advice) -> Self {
        let cures = advice.cured.iter().map(|cured| {
            let uses = cured.results.iter().map(|result| PromisedUse {
                usage: result.usage.name().to_owned(),
                unit: result.usage.unit().to_owned(),
                value: result.value.mean,
                interval: result.value.ci95.map(|ci95| [result.value.mean - ci95, result.value.mean + ci95]),
                factor: result.factor.filter(|factor| factor.mean > 0.0).map(PromisedFactor::from),
            });
            let (cure, needs) = (cured.cure.name(), cured.cure.needs_words().to_owned());
            PromisedCure { cure, needs, uses: uses.collect() }
        });
        Self {
            lasthop_promise: VERSION,
            link: link.to_owned(),
            seed,
            runs: advice.runs,
            advised: advice.best().map(|best| best.cure.name()),
            conditions: advice.conditions.clone(),
            cures: cures.collect(),
        }
    }

    /// Parses a promise.
    ///
    /// # Errors
    ///
    /// Returns a [`PromiseError`] with the correct form.
    pub fn read(text: &str) -> Result<Self, PromiseError> {
        let form = |error: serde_json::Error| PromiseError::Form(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(form)?;
        if let Some(version) = value["lasthop_promise"].as_u64().filter(|version| *version != u64::from(VERSION)) {
            return Err(PromiseError::Version(version));
        }
        let promise: Self = serde_json::from_value(value).map_err(form)?;
        for cure in &promise.cures {
            for usage in &cure.uses {
                let Some(factor) = usage.factor else { continue };
                let ends = factor.interval.unwrap_or([factor.mean; 2]);
                let is_right = |value: f64| value > 0.0 && value.is_finite();
                if !(is_right(factor.mean) && ends.into_iter().all(is_right) && ends[0] <= ends[1]) {
                    let (cure, usage) = (cure.cure.clone(), usage.usage.clone());
                    return Err(PromiseError::Value { cure, usage, what: format!("{factor:?}") });
                }
            }
        }
        Ok(promise)
    }

    /// Returns the promise of a cure for one use.
    pub fn of(&self, cure: &str, usage: &str) -> Option<PromisedFactor> {
        let cure = self.cures.iter().find(|promised| promised.cure == cure)?;
        cure.uses.iter().find(|promised| promised.usage == usage)?.factor
    }
}

/// Measured improvement, with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Ratio to the result without the cure.
    pub ratio: f64,
    /// Interval, lower end first.
    pub interval: [f64; 2],
}

/// Verdict on a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The measurement reaches the promise and is significant.
    Kept,
    /// The whole interval of the measurement lies below the promise.
    FellShort,
    /// There are too few connections: the measurement is compatible with the promise and with no improvement.
    TooFew,
}

impl Kept {
    /// Returns the verdict in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::FellShort => "fell short",
            Self::TooFew => "undecided, more connections are needed",
        }
    }
}

/// Compares a measurement with a promise. Overlapping intervals count as equal, unless the measured one includes both
/// no improvement and the promise: then it is undecided.
pub fn judge(promised: PromisedFactor, measured: Option<Measured>) -> Kept {
    let Some(Measured { interval: [low, high], .. }) = measured else { return Kept::TooFew };
    let least = promised.interval.map_or(promised.mean, |[least, _]| least.min(promised.mean));
    if high < least {
        Kept::FellShort
    } else if promised.mean > 1.0 && low <= 1.0 {
        Kept::TooFew
    } else {
        Kept::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{ "lasthop_promise": 1, "link": "x", "seed": 1, "runs": 3, "advised": "SNOOP", "cures": [
        { "cure": "SNOOP", "needs": "one device", "uses": [
            { "use": "bulk", "unit": "Mbps", "value": 8, "interval": [7.5, 8.5], "factor": { "mean": 2, "interval": [1.8, 2.2] } } ] } ] }"#;

    #[test]
    fn a_promise_is_read_as_it_was_written() {
        let promise = Promise::read(TEXT).unwrap();
        assert_eq!(promise.of("SNOOP", "bulk").unwrap().interval, Some([1.8, 2.2]));
        assert_eq!((promise.of("SNOOP", "call"), promise.of("SPLIT-BBR", "bulk")), (None, None));
        assert_eq!(Promise::read(&serde_json::to_string(&promise).unwrap()).unwrap(), promise);
        for (from, to, expected) in [
            ("\"lasthop_promise\": 1", "\"lasthop_promise\": 2", "expected 1"),
            ("\"mean\": 2", "\"mean\": 0", "SNOOP, bulk"),
            ("[1.8, 2.2]", "[2.2, 1.8]", "SNOOP, bulk"),
            ("\"runs\": 3,", "", "not a promise"),
            ("{", "", "not a promise"),
        ] {
            let said = Promise::read(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn what_was_measured_is_judged() {
        let promised = PromisedFactor { mean: 2.0, interval: Some([1.8, 2.2]) };
        let measured = |ratio, low, high| Some(Measured { ratio, interval: [low, high] });
        for (measured, wanted) in [
            (None, Kept::TooFew),
            // It includes the promise and no improvement.
            (measured(1.5, 0.9, 2.5), Kept::TooFew),
            (measured(1.9, 1.5, 2.4), Kept::Kept),
            (measured(3.0, 2.5, 3.6), Kept::Kept),
            (measured(1.5, 1.3, 1.7), Kept::FellShort),
            (measured(0.9, 0.7, 1.2), Kept::FellShort),
        ] {
            assert_eq!(judge(promised, measured), wanted, "{measured:?}");
        }
    }

    /// A gateway at the customer's side sends uploads over the hop, so its measurement is compared with their promise.
    #[test]
    fn a_gateway_at_the_customers_side_keeps_the_promise_of_uploads() {
        let uploads = r#"{ "use": "upload", "unit": "Mbps", "value": 8, "interval": null, "factor": { "mean": 3, "interval": [2.8, 3.2] } }"#;
        let text = TEXT.replace("\"SNOOP\"", "\"SNOOP@customer\"");
        let rule = serde_json::json!({ "mode": "snoop", "ab": 0.1, "gain": { "ratio": 3.1, "low": 2.7, "high": 3.5 } });
        let said = |text: &str| Beside::of_rule(&rule, &Promise::read(text).unwrap()).words();
        let both = text.replace("\"uses\": [", &format!("\"uses\": [ {uploads},"));
        assert_eq!(said(&both), "promise: 3.0 times as fast for uploads (2.8-3.2), measured 3.1 (2.7-3.5): kept");
        // The scenario's own transfer is the upload.
        assert!(said(&text).starts_with("promise: 2.0 times as fast for uploads"), "{}", said(&text));
        assert!(said(&both.replace("@customer", "")).starts_with("promise: 2.0 times as fast for downloads"));
    }
}
