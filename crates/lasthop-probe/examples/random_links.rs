//! Random links, unknown to the analysis, measured over a simulated link: compares the results with the true values.
//!
//!     cargo run --release -p lasthop-probe --example random_links -- [LINKS] [SEED]
//!     cargo run --release -p lasthop-probe --example random_links -- half-duplex [LINKS] [SEED]
//!
//! For half-duplex links, the example checks whether the shared medium is detected, and the overhead of each frame.

#[path = "../tests/common/mod.rs"]
mod common;

use common::shape::Shape;
use common::{Turns, Way, client, run, run_in_turns, server};
use lasthop_fit::{Family, fit, read};
use lasthop_probe::client::Way as Direction;
use lasthop_probe::report::{Estimate, analyse};
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::time::Duration;

/// Draws a number from a log-uniform distribution.
fn between(draws: &mut Stream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(draws.uniform())
}

/// True values: loss of a packet of 100 bytes, mean burst (in packets, or seconds), model family.
struct Truth {
    loss: f64,
    burst: Option<f64>,
    family: Family,
}

fn draw(draws: &mut Stream) -> (Way, Truth) {
    let rate = between(draws, 1e6, 100e6);
    let delay = between(draws, 2.0, 150.0);
    let queue = between(draws, 10.0, 200.0).round() as usize;
    let loss = 0.1 * draws.uniform();
    let (errors, truth) = match draws.below(3) {
        0 => (
            ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All },
            Truth { loss, burst: None, family: Family::Uniform },
        ),
        1 => {
            let run = between(draws, 2.0, 10.0);
            let good_to_bad = loss / (1.0 - loss) / run;
            let errors = ErrorSpec::TwoStatePacket {
                good_to_bad,
                bad_to_good: 1.0 / run,
                good_loss: 0.0,
                bad_loss: 1.0,
                frames: Frames::All,
            };
            (errors, Truth { loss, burst: Some(run), family: Family::TwoStatePacket })
        }
        _ => {
            let bad = between(draws, 0.01, 0.1);
            let good = bad * (1.0 - loss) / loss;
            let errors = ErrorSpec::TwoStateTime {
                good: Duration::from_secs_f64(good),
                bad: Duration::from_secs_f64(bad),
                good_ber: 0.0,
                bad_ber: 1.0,
            };
            (errors, Truth { loss, burst: Some(bad), family: Family::TwoState })
        }
    };
    let delay = Duration::from_secs_f64(delay / 1e3);
    (Way { rate, delay, queue, errors, shape: Shape::default() }, truth)
}

#[derive(Default)]
struct Score {
    of: u32,
    right: u32,
}

impl Score {
    fn count(&mut self, right: bool) -> &'static str {
        self.of += 1;
        self.right += u32::from(right);
        if right { " " } else { "*" }
    }
}

/// Half-duplex links; the uplink has half to twice the rate of the downlink.
fn half_duplex(links: u64, seed: u64) {
    let names = ["seen", "rates on the air 5 %", "frame overhead 5 % of a packet", "to turn 5 % of a packet"];
    let mut scores: [Score; 4] = Default::default();
    for link in 0..links {
        let mut draws = Root(seed).stream(&format!("half-duplex {link}"));
        let (down, _) = draw(&mut draws);
        let (up, _) = draw(&mut draws);
        let up = Way { delay: down.delay, rate: down.rate * between(&mut draws, 0.5, 2.0), ..up };
        let mut microseconds = |low, high| Duration::from_secs_f64(between(&mut draws, low, high) / 1e6);
        let turns =
            Turns { frame_overhead: microseconds(20.0, 600.0), turnaround: microseconds(1.0, 300.0), aggregate: None };
        let ways = [down, up];
        let told = run_in_turns(client(60, link + 1), server(), &ways, turns, seed.wrapping_mul(1000) + link);
        let report = told.outcome.ok().and_then(|()| analyse(told.measured.clone(), "there")).map(|it| it.report);
        let truth = [turns.frame_overhead, turns.turnaround].map(|span| span.as_secs_f64() * 1e6);
        let mut line = format!("{link:2} {:7.3} {:7.3} {truth:6.1?}", ways[0].rate / 1e6, ways[1].rate / 1e6);
        let medium = report.and_then(|report| report.half_duplex);
        line += scores[0].count(medium.is_some());
        if let Some(found) = medium {
            let packet = 12e9 / ways[0].rate.min(ways[1].rate) + truth[0];
            let near = |found: f64, truth: f64| (found - truth).abs() <= 0.05 * packet;
            let rates = found.rate_bps.iter().zip(&ways).all(|(rate, way)| (rate / way.rate - 1.0).abs() <= 0.05);
            line += &format!("{:.3?}{}", found.rate_bps.map(|rate| rate / 1e6), scores[1].count(rates));
            let overhead = found.frame_overhead_us;
            let right = overhead.is_some_and(|found| near(found, truth[0]));
            line += &format!("{overhead:.1?}{}", scores[2].count(right));
            line += &format!("{:.1}{}", found.turnaround_us, scores[3].count(near(found.turnaround_us, truth[1])));
        }
        println!("{line}");
    }
    show(&names, &scores);
}

fn show(names: &[&str], scores: &[Score]) {
    for (name, score) in names.iter().zip(scores) {
        println!("{name}: {} of {}", score.right, score.of);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (links, seed) = (arguments.next().unwrap_or(40), arguments.next().unwrap_or(1));
    if std::env::args().any(|argument| argument == "half-duplex") {
        return half_duplex(links, seed);
    }
    let names = [
        "rate 5 %",
        "delay 1 ms",
        "queue 20 %",
        "loss in its 95 %",
        "mean burst 20 %",
        "burst in its 95 %",
        "family",
        "share 20 %",
        "duplex",
    ];
    let mut scores: [Score; 9] = Default::default();
    for link in 0..links {
        let mut draws = Root(seed).stream(&format!("link {link}"));
        let (down, one) = draw(&mut draws);
        let (up, two) = draw(&mut draws);
        // Equal delays, since a caller cannot separate the two directions.
        let up = Way { delay: down.delay, ..up };
        let ways = [down, up];
        let told = run(client(60, link + 1), server(), &ways, seed.wrapping_mul(1000) + link);
        let Some(analysis) = told.outcome.ok().and_then(|()| analyse(told.measured.clone(), "there")) else {
            println!("{link}: {:?} {ways:?}", told.outcome);
            scores.iter_mut().for_each(|score| _ = score.count(false));
            continue;
        };
        let report = &analysis.report;
        for (at, truth) in [one, two].iter().enumerate() {
            let (way, found) = (&ways[at], [&report.down, &report.up][at]);
            let near = |found: f64, truth: f64, share: f64| (found / truth - 1.0).abs() <= share;
            let used = found.used_share.unwrap_or(0.0);
            let rate = found.rate_bps.map_or(0.0, |rate| rate.value);
            let mut line = format!(
                "{link:2} {} {:7.3}{}",
                Direction::BOTH[at],
                way.rate / 1e6,
                scores[0].count(near(rate, way.rate, 0.05))
            );
            let delay = way.delay.as_secs_f64() * 1e3;
            line += &format!(
                " {rate:11.0} {delay:6.1}{}{:6.1}",
                scores[1].count((report.one_way_delay_ms.unwrap_or(0.0) - delay).abs() <= 1.0),
                report.one_way_delay_ms.unwrap_or(0.0)
            );
            let queue = found.queue.map_or(0, |queue| queue.packets);
            let filled = found.queue.is_some_and(|queue| queue.filled);
            line += &format!(
                " queue {:3}{}{queue:3}",
                way.queue,
                scores[2].count(filled && near(queue.into(), way.queue as f64, 0.2))
            );
            let share = found.loss.share.unwrap_or(Estimate { value: 0.0, interval: None });
            let [low, high] = share.interval.unwrap_or_default();
            // A bad period may begin while a packet is on the air, so the loss depends on the sizes sent.
            let loss = match way.errors {
                ErrorSpec::TwoStateTime { good, .. } => {
                    let of = |packet: &&lasthop_probe::estimate::Packet| {
                        1.0 - (1.0 - truth.loss) * (-8.0 * f64::from(packet.size) / way.rate / good.as_secs_f64()).exp()
                    };
                    let packets = analysis.logs[at].unloaded();
                    packets.iter().map(of).sum::<f64>() / packets.len() as f64
                }
                _ => truth.loss,
            };
            line += &format!(
                " loss {:5.2}{}{:5.2} {:.2}-{:.2}",
                loss * 100.0,
                scores[3].count((low..=high).contains(&loss)),
                share.value * 100.0,
                low * 100.0,
                high * 100.0
            );
            let (trace, _) = read::read(&analysis.trace(Direction::BOTH[at])).expect("a trace");
            let fitted = fit(&trace.at_rate(rate)).expect("packets");
            let chosen = fitted.chosen();
            let right = chosen.family == truth.family || fitted.alike.contains(&truth.family);
            line += &format!(" {}{}{}", truth.family.name(), scores[6].count(right), chosen.family.name());
            let burst = match truth.family {
                Family::TwoStatePacket => Some((found.runs.mean.value, found.runs.mean.interval)),
                Family::TwoState => chosen.parameter("bad").map(|bad| (bad.value, bad.interval)),
                _ => None,
            };
            if let (Some(truth), Some((value, interval))) = (truth.burst, burst) {
                line += &format!(" burst {truth:.3}{}{value:.3}", scores[4].count(near(value, truth, 0.2)));
                scores[5].count(interval.is_some_and(|[low, high]| (low..=high).contains(&truth)));
            } else if truth.burst.is_some() {
                line += " burst not found";
                scores[4].count(false);
                scores[5].count(false);
            }
            scores[7].count(used <= 0.2);
            scores[8].count(report.half_duplex.is_none());
            println!("{line} used {:.2} runs {}", used, found.runs.runs);
        }
    }
    show(&names, &scores);
}
