//! Random links of many kinds, measured over a simulated link: compares each reported quantity with the true value.
//!
//!     cargo run --release -p lasthop-probe --example kinds -- [KIND|all] [DRAWS] [SEED] [SECONDS]
//!
//! A quantity is right, unknown (the report says so) or false. A behaviour is named, missed, or named although absent.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::shape::{Shape, Spread};
use common::{Turns, Way, client, run_over, server};
use lasthop_probe::report::behaviour::{BehaviourReport, Quantity};
use lasthop_probe::report::{DirectionReport, analyse};
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::Duration;

const KINDS: [&str; 18] = [
    "plain",
    "jitter",
    "jitter-ordered",
    "jitter-exp",
    "early",
    "late",
    "duplicates",
    "policer-small",
    "policer-large",
    "shaper",
    "steps",
    "ramp",
    "slots",
    "wifi",
    "aggregates",
    "asymmetric",
    "far",
    "others",
];

fn between(draws: &mut Stream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(draws.uniform())
}

/// True properties of a direction.
#[derive(Clone, Default)]
struct Truth {
    /// Minimum and maximum rate that a report may state for a long transfer.
    rate: [f64; 2],
    /// Range of the minimum round-trip time, in seconds.
    base: [f64; 2],
    loss: f64,
    /// Other traffic fills the queue: the loss may be higher.
    or_more: bool,
    queue: Option<usize>,
    /// Behaviours that must be named, and those that may be named.
    named: Vec<&'static str>,
    may: Vec<&'static str>,
}

fn draw(kind: &str, draws: &mut Stream) -> ([Way; 2], Option<Turns>, [Truth; 2]) {
    let rate = between(draws, 1e6, 100e6);
    let delay = match kind {
        "far" => between(draws, 250.0, 350.0),
        "jitter" | "early" => between(draws, 10.0, 100.0),
        _ => between(draws, 2.0, 100.0),
    } / 1e3;
    let turns = (kind == "wifi").then(|| Turns {
        frame_overhead: Duration::from_secs_f64(between(draws, 100.0, 300.0) / 1e6),
        turnaround: Duration::from_secs_f64(between(draws, 1.0, 50.0) / 1e6),
        aggregate: Some((between(draws, 4.0, 40.0) as usize, between(draws, 0.001, 0.05))),
    });
    let base = rate;
    let both = [0, 1].map(|_| {
        let rate = if kind == "wifi" { between(draws, 20e6, 300e6) } else { base * between(draws, 0.5, 1.0) };
        let queue = between(draws, 20.0, 200.0) as usize;
        let loss = match kind {
            "asymmetric" => 0.3 * draws.uniform(),
            _ if draws.chance(0.5) => 0.0,
            _ => 0.03 * draws.uniform(),
        };
        let mut shape = Shape::default();
        let mut truth = Truth { rate: [rate; 2], base: [2.0 * delay; 2], loss, queue: Some(queue), ..Truth::default() };
        match kind {
            "jitter" => {
                let sd = between(draws, 1e-3, 0.25 * delay);
                shape.jitter = Some((Spread::Normal(sd), false));
                truth.base = [2.0 * (delay - 6.0 * sd), 2.0 * (delay - 2.5 * sd)];
                truth.named = vec!["jitter", "reordering"];
            }
            "jitter-ordered" => {
                let sd = between(draws, 1e-3, 0.02);
                shape.jitter =
                    Some((if draws.chance(0.5) { Spread::Exponential(sd) } else { Spread::Uniform(2.0 * sd) }, true));
                truth.base = [2.0 * delay, 2.0 * delay + 0.5 * sd];
                truth.named = vec!["jitter"];
                truth.may = vec!["aggregation", "other_traffic"];
            }
            "jitter-exp" => {
                let sd = between(draws, 1e-3, 0.02);
                shape.jitter = Some((Spread::Exponential(sd), false));
                truth.base = [2.0 * delay, 2.0 * delay + 0.5 * sd];
                truth.named = vec!["jitter", "reordering"];
            }
            "early" => {
                shape.early = between(draws, 0.005, 0.1);
                truth.named = vec!["reordering"];
                truth.may = vec!["jitter"];
            }
            "late" => {
                shape.late = Some((between(draws, 0.005, 0.1), between(draws, 2e-3, 30e-3)));
                truth.named = vec!["reordering"];
                truth.may = vec!["jitter"];
            }
            "duplicates" => {
                shape.duplicates = Some((between(draws, 0.005, 0.1), between(draws, 1e-5, 1e-2)));
                truth.named = vec!["duplicates"];
            }
            "policer-small" | "policer-large" => {
                let sustained = rate * between(draws, 0.1, 0.6);
                let bucket = if kind == "policer-small" {
                    between(draws, 8e3, 50e3)
                } else {
                    between(draws, 0.05, 0.4) * rate / 8.0 + 3e3
                };
                shape.policer = Some((sustained, bucket));
                truth.rate = [sustained; 2];
                truth.named = vec!["policer"];
                truth.queue = None;
            }
            "shaper" => {
                let sustained = rate * between(draws, 0.1, 0.6);
                shape.shaper = Some((sustained, between(draws, 0.02, 0.2) * sustained / 8.0 + 15e3));
                truth.rate = [sustained; 2];
                truth.named = vec!["shaper"];
            }
            "steps" | "ramp" => {
                let count = 2 + draws.below(4) as usize;
                let lasts = between(draws, 1.0, 8.0);
                let levels: Vec<f64> = (0..count).map(|_| between(draws, 0.1, 1.0)).collect();
                shape.course = if kind == "steps" {
                    levels.iter().map(|level| (*level, lasts)).collect()
                } else {
                    (0..count)
                        .flat_map(|at| {
                            let (one, two) = (levels[at], levels[(at + 1) % count]);
                            (0..40).map(move |step| (one + (two - one) * f64::from(step) / 40.0, lasts / 40.0))
                        })
                        .collect()
                };
                let shares = shape.course.iter().map(|(share, _)| share * rate);
                truth.rate = [shares.clone().fold(f64::MAX, f64::min), shares.fold(0.0, f64::max)];
                if truth.rate[1] > 1.3 * truth.rate[0] {
                    truth.queue = None;
                    truth.named = vec!["varying_rate"];
                } else {
                    truth.may = vec!["varying_rate"];
                }
            }
            "slots" => {
                let slot = between(draws, 1e-3, 30e-3);
                shape.slots = Some(slot);
                truth.base = [2.0 * delay - 1e-3, 2.0 * (delay + slot)];
                truth.named = vec!["slots"];
            }
            "others" => {
                shape.others = Some((0.2 + 0.7 * draws.uniform(), between(draws, 0.5, 5.0), between(draws, 0.5, 5.0)));
                truth.named = vec!["other_traffic"];
                truth.or_more = true;
            }
            _ => {}
        }
        let errors =
            if loss > 0.0 { ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All } } else { ErrorSpec::None };
        (Way { rate, delay: Duration::from_secs_f64(delay), queue, errors, shape }, truth)
    });
    let [(down, one), (up, two)] = both;
    let (ways, mut truths) = ([down, up], [one, two]);
    let turns = turns.or_else(|| {
        (kind == "aggregates").then(|| Turns {
            frame_overhead: Duration::from_secs_f64(between(draws, 0.5, 5.0) / 1e3),
            turnaround: Duration::ZERO,
            aggregate: Some((64, 0.0)),
        })
    });
    if let Some(turns) = turns {
        // Mean maximum for one direction alone: a frame with an error delivers the packets before it.
        let (most, repeats) = turns.aggregate.unwrap_or((1, 0.0));
        for (truth, way) in truths.iter_mut().zip(&ways) {
            let rate_of = |count: f64| {
                let whole =
                    if repeats > 0.0 { (1.0 - repeats) * (1.0 - (1.0 - repeats).powf(count)) / repeats } else { count };
                let lasts = turns.frame_overhead.as_secs_f64() + 7.5 * 9e-6 + count * 12e3 / way.rate;
                whole * 12e3 / lasts
            };
            let most = most.min(way.queue) as f64;
            truth.rate = [rate_of(most) * 0.97, rate_of(most) * 1.03];
            truth.base = [truth.base[0], truth.base[1] + 4.0 * turns.frame_overhead.as_secs_f64() + 6e-4];
            truth.named = vec!["aggregation"];
            truth.may = vec!["half_duplex", "jitter", "other_traffic"];
        }
    }
    let base = [0, 1].map(|at| (truths[0].base[at] + truths[1].base[at]) / 2.0);
    truths.iter_mut().for_each(|truth| truth.base = base);
    (ways, turns, truths)
}

fn named(of: &BehaviourReport) -> Vec<&'static str> {
    let all = [
        ("reordering", of.reordering.is_some()),
        ("duplicates", of.duplicates.is_some()),
        ("jitter", of.jitter.is_some()),
        ("aggregation", of.aggregation.is_some()),
        ("half_duplex", of.half_duplex.is_some()),
        ("policer", of.policer.is_some()),
        ("shaper", of.shaper.is_some()),
        ("varying_rate", of.varying_rate.is_some()),
        ("slots", of.slots.is_some()),
        ("other_traffic", of.other_traffic.is_some()),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Right,
    Unknown,
    False,
}

/// Judges what the report states about a direction, quantity by quantity.
fn judge(found: &DirectionReport, base_rtt: Option<f64>, truth: &Truth) -> Vec<(&'static str, Verdict, String)> {
    let unknown = |quantity| found.behaviour.unknown.iter().any(|one| one.quantity == quantity);
    let mut all = Vec::new();
    let [low, high] = truth.rate;
    let rate = match found.rate_bps {
        None if unknown(Quantity::Rate) => Verdict::Unknown,
        None => Verdict::False,
        Some(rate) if found.rate_is_lower_bound => {
            if rate.value <= 1.05 * high {
                Verdict::Right
            } else {
                Verdict::False
            }
        }
        Some(rate) => {
            let [from, to] = rate.interval.unwrap_or([rate.value; 2]);
            // The mean lies between minimum and maximum; the interval contains both.
            let near = rate.value >= 0.95 * low && rate.value <= 1.05 * high;
            let holds = if high > 1.3 * low {
                (0.8 * from <= low || found.behaviour.varying_rate.is_some()) && from < 0.95 * to
            } else {
                near
            };
            let inside = from <= low * 1.005 && to >= high * 0.995;
            if near && holds || inside && to < 3.0 * from { Verdict::Right } else { Verdict::False }
        }
    };
    let rate_said = found.rate_bps.map_or("?".to_owned(), |rate| {
        let [from, to] = rate.interval.unwrap_or_default();
        format!("{:.3} [{:.3} {:.3}]", rate.value / 1e6, from / 1e6, to / 1e6)
    });
    all.push(("rate", rate, format!("{:.3}-{:.3}: {rate_said}", low / 1e6, high / 1e6)));
    let base = match base_rtt {
        None if unknown(Quantity::BaseDelay) => Verdict::Unknown,
        None => Verdict::False,
        Some(base) => {
            let [from, to] = truth.base.map(|base| base * 1e3);
            if base > from - 1.0 && base < to + 1.0 { Verdict::Right } else { Verdict::False }
        }
    };
    all.push(("base", base, format!("{:.1}-{:.1}: {base_rtt:?}", truth.base[0] * 1e3, truth.base[1] * 1e3)));
    let loss = match found.loss.share {
        None if unknown(Quantity::Loss) => Verdict::Unknown,
        None => Verdict::False,
        Some(share) => {
            let [from, to] = share.interval.unwrap_or_default();
            if (from <= truth.loss * 1.02 || truth.or_more) && to >= truth.loss * 0.98 {
                Verdict::Right
            } else {
                Verdict::False
            }
        }
    };
    all.push(("loss", loss, format!("{:.4}: {:?}", truth.loss, found.loss.share.map(|share| share.interval))));
    let queue = match (found.queue, truth.queue) {
        (None, _) => Verdict::Unknown,
        (Some(_), None) => Verdict::False,
        (Some(queue), Some(truth)) if !queue.filled => {
            if f64::from(queue.packets) <= 1.2 * truth as f64 {
                Verdict::Right
            } else {
                Verdict::False
            }
        }
        (Some(queue), Some(truth)) => {
            if (f64::from(queue.packets) / truth as f64 - 1.0).abs() <= 0.2 {
                Verdict::Right
            } else {
                Verdict::False
            }
        }
    };
    all.push((
        "queue",
        queue,
        format!("{:?}: {:?}", truth.queue, found.queue.map(|queue| (queue.packets, queue.filled))),
    ));
    let names = named(&found.behaviour);
    let missed: Vec<_> = truth.named.iter().filter(|name| !names.contains(name)).collect();
    let extra: Vec<_> = names.iter().filter(|name| !truth.named.contains(name) && !truth.may.contains(name)).collect();
    let verdict = match (missed.is_empty(), extra.is_empty()) {
        (_, false) => Verdict::False,
        (true, true) => Verdict::Right,
        (false, true) => Verdict::Unknown,
    };
    all.push(("named", verdict, format!("missed {missed:?} extra {extra:?}")));
    let used =
        found.used_share.map_or(Verdict::Unknown, |used| if used <= 0.2 { Verdict::Right } else { Verdict::False });
    all.push(("used", used, format!("{:?}", found.used_share)));
    all
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = arguments.first().map_or("all", String::as_str);
    let number = |at: usize, usual: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (count, seed, seconds) = (number(1, 5), number(2, 1), number(3, 60));
    let mut scores: BTreeMap<(&str, &str), [u32; 3]> = BTreeMap::new();
    for kind in KINDS.into_iter().filter(|one| kind == "all" || *one == kind) {
        for link in 0..count {
            let mut draws = Root(seed).stream(&format!("{kind} {link}"));
            let (ways, turns, truths) = draw(kind, &mut draws);
            // Aggregation without half-duplex detection: the directions share the medium only in part, and packets of
            // the other direction are few.
            let told = run_over(client(seconds, link + 1), server(), &ways, turns, seed * 1000 + link, Duration::MAX);
            let analysis = told.outcome.ok().and_then(|()| analyse(told.measured.clone(), "there"));
            let Some(analysis) = analysis else {
                println!("{kind} {link}: FALSE: nothing measured: {:?} {ways:?}", told.outcome);
                scores.entry((kind, "measured")).or_default()[2] += 1;
                continue;
            };
            let report = &analysis.report;
            for (at, found) in [&report.down, &report.up].into_iter().enumerate() {
                println!(
                    "{kind} {link} {}: {:?} queue {} {turns:?}",
                    ["down", "up"][at],
                    ways[at].shape_text(),
                    ways[at].queue
                );
                for (name, verdict, said) in judge(found, report.base_rtt_ms, &truths[at]) {
                    scores.entry((kind, name)).or_default()[verdict as usize] += 1;
                    let mark = match verdict {
                        Verdict::Right => continue,
                        Verdict::Unknown => "unknown",
                        Verdict::False => "FALSE",
                    };
                    println!("    {mark} {name} {said}");
                }
                for unknown in &found.behaviour.unknown {
                    println!("    said: {} unknown: {}", unknown.quantity, unknown.reason);
                }
                println!("    {:?}", found.behaviour.brief());
            }
            for remark in &report.remarks {
                println!("    remark: {remark}");
            }
        }
    }
    println!("\nkind quantity: right, unknown or missed, false");
    for ((kind, name), [right, unknown, wrong]) in scores {
        println!("{kind:15} {name:9} {right:4} {unknown:4} {wrong:4}{}", if wrong > 0 { "  <<<" } else { "" });
    }
}

trait ShapeText {
    fn shape_text(&self) -> String;
}

impl ShapeText for Way {
    fn shape_text(&self) -> String {
        let text = format!("{:?}", self.shape);
        let course = if self.shape.course.len() > 8 { "course" } else { text.as_str() };
        format!("{:.3} Mbps {:.1} ms {course}", self.rate / 1e6, self.delay.as_secs_f64() * 1e3)
    }
}

trait Brief {
    fn brief(&self) -> String;
}

impl Brief for BehaviourReport {
    fn brief(&self) -> String {
        let mut brief = self.clone();
        brief.unknown.clear();
        if let Some(varying) = &mut brief.varying_rate {
            let count = varying.series.len();
            varying.series.truncate(6);
            return format!("{count} steps {}", brief.brief_parts());
        }
        brief.brief_parts()
    }
}

trait Parts {
    fn brief_parts(&self) -> String;
}

impl Parts for BehaviourReport {
    fn brief_parts(&self) -> String {
        let text = format!("{self:?}");
        text.split(", ").filter(|part| !part.ends_with("None")).collect::<Vec<_>>().join(", ")
    }
}
