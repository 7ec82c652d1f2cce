//! Advice on the cure that helps on a link, simulated while the page waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use lasthop_scenario::{Scenario, one_line};
use lasthop_study::advise::{HopRates, Needs, Places, Plan, Use};
use lasthop_study::promise::Promise;
use lasthop_study::replicate::{Progress, run_in_rounds};
use serde_json::{Value, json};

use crate::plan::MOST_FLOWS;
use crate::refusal::Refusal;
use crate::words::Words;

/// Default number of runs of each cure and use, as in `lasthop advise`.
const RUNS: u32 = 10;
/// Maximum number of runs of each.
const MOST_RUNS: u32 = 50;

/// Simulates the cures on the links of the scenario in `body`, on `jobs` threads (0: one per core), and passes JSON
/// objects to `sink`:
///
/// * first `{"total"}`, the number of runs;
/// * `{"done"}` after each;
/// * last `{"advice", "words", "atlas", "complete", "hop"}`: the JSON of `lasthop advise --json`, the verdict and the
///   link's place in the atlas in sentences, whether all runs finished before `stop` ended it, and the hop's rates for the two-ended link. If runs are missing,
///   the advice rests on those that all cures have; it is null if a cure has none.
///
/// # Errors
///
/// Returns an error before the first object if the text is not a scenario, or a parameter is invalid.
pub fn advise(
    query: &str,
    body: &[u8],
    jobs: usize,
    stop: &(dyn Fn() -> bool + Sync),
    mut sink: impl FnMut(Value) + Send,
) -> Result<(), Refusal> {
    let mut words = Words::read(query)?;
    let mut needs = words.list("control", Needs::by_name)?;
    if needs.is_empty() {
        needs.extend(Needs::NAMES.map(|(_, needs)| needs));
    }
    let places = words.list("place", Places::by_name)?;
    let place = places.into_iter().reduce(|one, other| if one == other { one } else { Places::Both });
    let mut uses = words.list("for", Use::by_name)?;
    if uses.is_empty() {
        uses.extend(Use::USUAL);
    }
    uses.sort_by_key(|usage| Use::ALL.iter().position(|one| one == usage));
    uses.dedup();
    let runs = words.number("runs", [1, MOST_RUNS])?.unwrap_or(RUNS);
    let seed = words.number("seed", [0, u64::MAX])?;
    words.finish()?;
    let text = std::str::from_utf8(body).map_err(|_| Refusal::of("scenario", "is not text"))?;
    let refused = |error: lasthop_scenario::Error| Refusal::scenario(&error, None);
    let scenario = Scenario::parse_sealed("link.toml", text).map_err(refused)?;
    let seed = seed.unwrap_or(scenario.seed());
    let plan = Plan::at(&scenario, &needs, place, &uses, seed, runs).map_err(refused)?;
    if plan.tasks().iter().any(|task| task.network.flows.len() > MOST_FLOWS) {
        return Err(Refusal::of(
            "scenario",
            format!("has too many flows; at most {MOST_FLOWS} are taken on this page"),
        ));
    }
    let total = plan.tasks().len() as u64 * u64::from(runs);
    sink(json!({ "total": total }));
    let reports = {
        let watch = Watch { done: AtomicU64::new(0), stop, sink: Mutex::new(&mut sink) };
        run_in_rounds(plan.tasks(), jobs, &watch).map_err(|overflow| Refusal::overflow(&overflow))?
    };
    let complete = reports.iter().map(|reports| reports.len() as u64).sum::<u64>() == total;
    let advice = plan.judge(&reports);
    let hop = plan
        .hop_rates()
        .map(|HopRates { down, up, takes_turns }| json!({ "down": down, "up": up, "turns": u8::from(takes_turns) }));
    sink(match advice {
        Some(advice) => {
            let promise = Promise::new(scenario.title(), seed, &advice);
            let said: Vec<String> = advice.words().iter().map(|line| one_line(line)).collect();
            let place: Vec<String> = advice.atlas_words().iter().map(|line| one_line(line)).collect();
            json!({
                "advice": advice.to_json(&promise), "words": said, "atlas": place, "complete": complete, "hop": hop,
            })
        }
        None => json!({ "advice": null, "words": [], "atlas": [], "complete": complete, "hop": hop }),
    });
    Ok(())
}

/// Reports each run, and aborts when `stop` returns true.
struct Watch<'a, S> {
    done: AtomicU64,
    stop: &'a (dyn Fn() -> bool + Sync),
    sink: Mutex<&'a mut S>,
}

impl<S: FnMut(Value) + Send> Progress for Watch<'_, S> {
    fn run_done(&self) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted under the lock, so that the count never decreases.
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (**sink)(json!({ "done": done }));
    }

    fn stopped(&self) -> bool {
        (self.stop)()
    }

    fn abandoned(&self) -> bool {
        self.stopped()
    }
}
