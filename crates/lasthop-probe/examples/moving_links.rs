//! Random links whose rate is constant, has steps, slots, or is a Markov chain, measured with `--moving` over a simulated
//! link: counts which family is named.
//!
//!     cargo run --release -p lasthop-probe --example moving_links -- [KIND|all] [DRAWS] [SEED] [SECONDS] [FOLDER]
//!
//! A direction is named rightly, wrongly, or reported as unknown or as a replay, with the reason. Links have one
//! family in both directions, with draws of their own. FOLDER receives what `lasthop probe --moving --out` writes of the
//! last link, for `lasthop fit` and `lasthop advise`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::shape::Shape;
use common::{Turns, Way, client_moving, run_over, server};
use lasthop_probe::client::Way as Side;
use lasthop_probe::report::moving::{Analysis, analyse};
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::rate::{
    Hold, MarkovSpec, Offset, RateProcess, RateSeries, RateSlotsSpec, RateSpec, RateState, RateStep, Wrap,
};
use lasthop_proto::time::{Duration, Instant};

const KINDS: [&str; 4] = ["constant", "steps", "markov", "slots"];
/// Further kinds, by name only: a medium with aggregates, a cell that delivers every millisecond.
const OTHERS: [&str; 2] = ["wifi", "cell"];

fn between(draws: &mut Stream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(draws.uniform())
}

/// Draws a rate over time around `rate`, for a measurement of `seconds`.
fn rate(kind: &str, rate: f64, seconds: f64, draws: &mut Stream) -> RateSpec {
    match kind {
        "steps" => {
            // 2 to 5 levels in the measurement, at least 8 s each, that differ by 20 % or more.
            let count = 2 + draws.below(4) as usize;
            let (mut from, mut level) = (0.0, rate);
            let least = 8.0;
            let mut room = (seconds - 12.0 - least * count as f64).max(0.0);
            let mut steps = Vec::new();
            for _ in 0..count {
                steps.push(RateStep { from: Duration::from_secs_f64(from), rate: level as u64 });
                let more = room * draws.uniform() / 2.0;
                room -= more;
                from += least + more;
                let factor = between(draws, 1.2, 4.0);
                let up = level / factor < 0.2 * rate || level * factor < 2.0 * rate && draws.chance(0.5);
                level *= if up { factor } else { 1.0 / factor };
            }
            let length = Duration::from_secs_f64(from);
            let series = RateSeries::new(steps, length, Wrap::Hold, Offset::At(Duration::ZERO));
            series.map_or(RateSpec::Constant, RateSpec::Series)
        }
        "markov" => {
            // 2 or 3 states that differ by half or more, each for 0.8 to 4 s.
            let count = 2 + draws.below(2) as usize;
            let mut level = rate;
            let mut states = Vec::new();
            for _ in 0..count {
                let mean = Duration::from_secs_f64(between(draws, 0.8, 4.0));
                states.push(RateState { rate: level as u64, mean });
                level /= between(draws, 1.5, 4.0);
            }
            let next = MarkovSpec::neighbours(count);
            MarkovSpec::new(states, &next, Hold::Exponential).map_or(RateSpec::Constant, RateSpec::Markov)
        }
        "slots" => RateSpec::Slots(RateSlotsSpec {
            mean: rate as u64,
            period: Duration::from_secs(15),
            first: Duration::from_secs_f64(15.0 * draws.uniform()),
            spread: between(draws, 0.1, 0.3),
            inner: between(draws, 0.06, 0.15),
            outage: [60, 135].map(Duration::from_millis),
            recovery: Duration::from_millis(350),
            edge_loss: 0.0,
        }),
        _ => RateSpec::Constant,
    }
}

/// Returns the mean of the rate that the link had during the measurement, which begins after some 3 s.
fn mean((rate, spec): &(f64, RateSpec), seed: u64, seconds: u64) -> f64 {
    let Some(mut process) = RateProcess::new(spec, || Root(seed).stream("links/hop/rate")) else { return *rate };
    let from = Instant::ZERO + Duration::from_secs(3);
    let until = from + Duration::from_secs(seconds);
    let (mut at, mut bits) = (from, 0.0);
    while at < until {
        let segment = process.segment(at);
        let next = segment.until.min(until);
        bits += segment.rate as f64 * next.since(at).as_secs_f64();
        at = next;
    }
    bits / seconds as f64
}

/// Writes the files of a measurement.
fn write(folder: &str, analysis: &Analysis) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = |name: &str, text: String| std::fs::write(format!("{folder}/{name}"), text);
    for side in Side::BOTH {
        file(&format!("{side}.csv"), analysis.packets(side))?;
        file(&format!("{side}-rate.csv"), analysis.rates(side))?;
    }
    file("trace.csv", analysis.trace())?;
    file("probe.json", serde_json::to_string_pretty(&analysis.report)?)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "all".to_owned());
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (draws, seed, seconds) = (number(50), number(1), number(60));
    let folder = args.next();
    let mut all: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut errors = Vec::new();
    for kind in KINDS.iter().chain(&OTHERS).filter(|known| kind == "all" && KINDS.contains(known) || kind == **known) {
        for link in 0..draws {
            let mut stream = Root(seed).stream(&format!("{kind}/{link}"));
            let delay = Duration::from_secs_f64(between(&mut stream, 2e-3, 0.1));
            let specs = [0, 1].map(|_| {
                let base = between(&mut stream, 1e6, 100e6);
                (base, rate(kind, base, seconds as f64, &mut stream))
            });
            let ways = [0, 1].map(|at| {
                let loss = if stream.chance(0.5) { 0.0 } else { 0.03 * stream.uniform() };
                let errors = match loss {
                    0.0 => ErrorSpec::None,
                    frame_loss => ErrorSpec::Uniform { frame_loss, frames: Frames::All },
                };
                let (rate, spec) = specs[at].clone();
                let slots = (*kind == "cell").then_some(1e-3);
                let shape = Shape { rate: Some((spec, 2 * link + at as u64)), slots, ..Shape::default() };
                let queue = between(&mut stream, 30.0, 300.0) as usize;
                Way { rate, delay, queue, errors, shape }
            });
            let turns = (*kind == "wifi").then(|| Turns {
                frame_overhead: Duration::from_micros(150),
                turnaround: Duration::from_micros(10),
                aggregate: Some((between(&mut stream, 6.0, 40.0) as usize, 0.01)),
            });
            let told = run_over(client_moving(seconds, link), server(), &ways, turns, link, Duration::MAX);
            let Ok(()) = told.outcome else {
                println!("{kind} {link}: {:?}", told.outcome);
                *all.entry((kind, "failed")).or_default() += 1;
                continue;
            };
            let share = [0, 1].map(|at| {
                let sent = told.bytes[at].iter().skip(4).take(seconds as usize);
                let mean = mean(&specs[at], 2 * link + at as u64, seconds);
                8.0 * sent.sum::<u64>() as f64 / seconds as f64 / mean
            });
            let Some(analysis) = analyse(told.measured, "simulated") else {
                println!("{kind} {link}: nothing arrived");
                continue;
            };
            if let Some(folder) = &folder {
                write(folder, &analysis).expect("the folder can be written");
            }
            for side in Side::BOTH {
                let at = side as usize;
                let true_mean = mean(&specs[at], 2 * link + at as u64, seconds);
                let Some(found) = &analysis.moving[at] else {
                    println!("{kind} {link} {side}: no rate");
                    *all.entry((kind, "unknown")).or_default() += 1;
                    continue;
                };
                let name = found.family.name();
                *all.entry((kind, name)).or_default() += 1;
                errors.push((*kind, found.mean / true_mean - 1.0));
                println!(
                    "{kind} {link} {side}: {:.2} Mbps, used {:.2}: {name} ({}) {:?}: {}",
                    true_mean / 1e6,
                    share[at],
                    found.words(),
                    found.fits,
                    found.why
                );
            }
        }
    }
    println!();
    for kind in KINDS.into_iter().chain(OTHERS) {
        let of = |wanted: &dyn Fn(&str) -> bool| -> u32 {
            all.iter().filter(|((of, name), _)| *of == kind && wanted(name)).map(|(_, count)| count).sum()
        };
        let total = of(&|_| true);
        if total == 0 {
            continue;
        }
        let is_unknown = |name: &str| matches!(name, "unknown" | "replay" | "failed");
        let rightly = of(&|name| name == kind);
        let unknown = of(&is_unknown);
        let mut off: Vec<f64> = errors.iter().filter(|(of, _)| *of == kind).map(|(_, off)| off.abs()).collect();
        off.sort_by(f64::total_cmp);
        let [median, p95] = [0.5, 0.95].map(|share| off[((off.len() - 1) as f64 * share) as usize]);
        println!(
            "{kind}: {total} directions: {rightly} named rightly, {unknown} unknown or replay, {} wrongly; mean off by {:.1} % (median), {:.1} % (95 %)",
            total - rightly - unknown,
            100.0 * median,
            100.0 * p95
        );
        for ((_, name), count) in all.iter().filter(|((of, _), _)| *of == kind) {
            println!("    {name}: {count}");
        }
    }
}
