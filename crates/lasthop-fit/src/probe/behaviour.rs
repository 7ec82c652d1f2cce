//! Behaviour that a probe found beyond rate, delay, queue and losses: as keys of the link, or as statements on
//! properties that the scenario does not reproduce.

use lasthop_proto::random::{Root, Stream};

use super::form::{Aggregation, Behaviour, Bucket, Direction, Jitter, Varying};
use crate::family::Unit;
use crate::measurement::Alternative;
use crate::scenario::{Key, digits, figures, milliseconds, shown};
use crate::statement::{Said, Verdict};
use crate::trace::LossTrace;

/// Maximum number of steps in a rate series.
const MOST_STEPS: usize = 2000;
/// Bits of a full packet.
const FULL: f64 = 12_000.0;
/// Assumed access time of the medium in microseconds if none was measured.
const ACCESS_US: f64 = 100.0;
/// Minimum share of the time with other traffic that is reported.
const OTHERS: f64 = 0.05;
/// Maximum ratio of simulated to measured reordering that counts as a match.
const NEAR: f64 = 2.0;

/// Direction, as keys and verdicts.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Keys of the link.
    pub keys: Vec<Key>,
    /// Verdict on the rate.
    pub rate: Said,
    /// Verdict on the delay.
    pub delay: Said,
    /// Verdict on duplicates.
    pub duplication: Said,
    /// Rate at which packets pass in bits per second, if it differs from the sustained rate.
    pub line_rate: Option<f64>,
    /// Share of reordered packets, and its description.
    pub reordered: Option<(f64, String)>,
    /// Jitter of the scenario.
    pub jitter: Option<Spread>,
    /// Reason for which no cure may be advised.
    pub no_cure: Option<String>,
    /// Reason for which losses are unknown.
    pub loss_unknown: Option<String>,
    /// Further unknown quantities.
    pub unknown: Vec<String>,
    /// Assumptions.
    pub assumed: Vec<String>,
    /// Other values that the measurement permits.
    pub alternatives: Vec<Alternative>,
    /// Value that replays the file of measured rates, and the same rates without a file.
    pub replay: Option<[String; 2]>,
}

/// Distribution of delays above the minimum, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Spread {
    /// Uniform from zero to this maximum.
    Uniform(f64),
    /// Normal with mean and standard deviation.
    Normal(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
}

impl Spread {
    /// Returns the distribution with the nearest quantiles; the length of the tail distinguishes them.
    fn of(Jitter { p50_ms, p95_ms, p99_ms }: Jitter) -> Self {
        let (p95, p99) = (p95_ms / p50_ms, p99_ms / p50_ms);
        // 95th and 99th percentile over median: 1.9 and 1.98 for a uniform distribution, 4.3 and 6.6 for an exponential
        // one.
        if (1.75..2.02).contains(&p95) && p99 < 2.1 {
            Self::Uniform(p95_ms / 0.95)
        } else if p95 > 3.0 {
            Self::Exponential(p50_ms / std::f64::consts::LN_2)
        } else {
            Self::Normal(p50_ms, (p95_ms - p50_ms) / 1.645)
        }
    }

    /// Formats the distribution as TOML, without the key `order`.
    fn toml(self) -> String {
        let ms = |value: f64| format!("\"{}\"", milliseconds(value));
        match self {
            Self::Uniform(up_to) => format!("model = \"jitter\", up_to = {}", ms(up_to)),
            Self::Normal(mean, deviation) => {
                format!("model = \"normal\", mean = {}, deviation = {}", ms(mean), ms(deviation))
            }
            Self::Exponential(mean) => format!("model = \"exponential\", mean = {}", ms(mean)),
        }
    }

    fn draw(self, stream: &mut Stream) -> f64 {
        match self {
            Self::Uniform(up_to) => up_to * stream.uniform(),
            Self::Exponential(mean) => stream.exponential(mean),
            // The sum of twelve uniform draws approximates a normal distribution.
            Self::Normal(mean, deviation) => {
                let sum: f64 = (0..12).map(|_| stream.uniform()).sum();
                (mean + deviation * (sum - 6.0)).max(0.0)
            }
        }
    }
}

fn mbps(value: f64) -> f64 {
    figures(value / 1e6)
}

pub(super) fn kbps(value: f64) -> String {
    format!("{} kbps", (value / 1e3).round().max(1.0))
}

/// Interprets the behaviour of a direction, `down` or `up`.
pub(super) fn found(direction: &Direction, way: &str) -> Found {
    let none = Behaviour::default();
    let behaviour = direction.behaviour.as_ref().unwrap_or(&none);
    let mut found = Found {
        keys: Vec::new(),
        rate: rate(direction, behaviour, way),
        delay: Said::fits("no jitter was seen without load"),
        duplication: duplication(direction, behaviour, way),
        line_rate: None,
        reordered: reordered(direction, behaviour),
        jitter: None,
        no_cure: None,
        loss_unknown: loss_unknown(direction),
        unknown: Vec::new(),
        assumed: Vec::new(),
        alternatives: Vec::new(),
        replay: None,
    };
    let key =
        |key: &str, value: String| Key { key: format!("{key}_{way}"), value, origin: format!("lasthop probe, {way}") };
    if let Some(bucket) = behaviour.policer {
        found.keys.push(key("policer", bucket_toml(bucket)));
        found.line_rate = Some(bucket.line_rate_bps);
        found.no_cure = Some(format!(
            "a policer limits the direction {way} to {} Mbps and drops the excess: these losses signal congestion, and repair does not help",
            mbps(bucket.rate_bps)
        ));
    }
    if let Some(bucket) = behaviour.shaper {
        found.keys.push(key("shaper", bucket_toml(bucket)));
        found.line_rate = Some(bucket.line_rate_bps);
    }
    if let Some(moving) = &direction.moving {
        super::moving::describe(&mut found, moving, behaviour.varying_rate.as_ref(), way);
    } else if let Some(varying) = &behaviour.varying_rate {
        match steps(varying) {
            Some(value) => found.keys.push(key("rate_variation", value)),
            None => {
                found.no_cure.get_or_insert(format!(
                    "the rate {way} varies from {} to {} Mbps faster than the probe could follow, so it cannot be simulated",
                    mbps(varying.least_bps),
                    mbps(varying.most_bps)
                ));
            }
        }
    }
    if let Some(slots) = behaviour.slots.filter(|slots| slots.interval_ms > 0.0) {
        found.keys.push(key("slots", format!("\"{}\"", milliseconds(slots.interval_ms))));
    }
    if let Some(aggregation) = behaviour.aggregation.filter(|it| it.packets_mean >= 1.0) {
        aggregate(&mut found, direction, aggregation, way);
    }
    if let Some(duplicates) = behaviour.duplicates.filter(|it| it.share > 0.0) {
        found.keys.push(key("duplicates", format!("\"{} %\"", digits(duplicates.share.min(1.0) * 100.0))));
    }
    delay(&mut found, direction, behaviour, way);
    if let Some(others) = behaviour.other_traffic.filter(|others| others.share >= OTHERS) {
        let why = format!(
            "{}; other traffic used the link {} of the time, which the scenario does not model",
            found.rate.why,
            shown(Unit::Share, others.share)
        );
        found.rate = Said::does_not(why);
    }
    let said_elsewhere = ["rate", "base_delay", "loss"];
    let others = behaviour.unknown.iter().filter(|unknown| !said_elsewhere.contains(&unknown.quantity.as_str()));
    found.unknown.extend(others.map(|it| format!("{} {way}: {}", it.quantity.replace('_', " "), it.reason)));
    found
}

fn rate(direction: &Direction, behaviour: &Behaviour, way: &str) -> Said {
    let Some(rate) = &direction.rate_bps else {
        return Said::unknown(direction.unknown("rate").unwrap_or("not found by the probe").to_owned());
    };
    if let Some(varying) = &behaviour.varying_rate {
        let told = format!("it varied from {} to {} Mbps", mbps(varying.least_bps), mbps(varying.most_bps));
        return match varying.series.len() {
            0 => Said::does_not(format!("{told}, faster than the probe could follow; the scenario uses the mean")),
            steps => Said::fits(format!("{told}; modelled by rate_variation_{way} in {steps} steps, repeated")),
        };
    }
    for (bucket, name) in [(behaviour.policer, "policer"), (behaviour.shaper, "shaper")] {
        if let Some(bucket) = bucket {
            let Bucket { rate_bps, burst_bytes, line_rate_bps } = bucket;
            let told =
                format!("{} Mbps beyond {burst_bytes} bytes that pass at {} Mbps", mbps(rate_bps), mbps(line_rate_bps));
            return Said::fits(format!("{told}; modelled by {name}_{way}"));
        }
    }
    if direction.rate_is_lower_bound {
        return Said::unknown(format!("{} Mbps or more: packets came as fast as they were sent", mbps(rate.value)));
    }
    let interval = rate.interval.map(|[low, high]| format!(" (95 %: {} to {})", mbps(low), mbps(high)));
    let load = direction.longest_load.as_ref().map(|load| format!(", under loads of up to {} kB", load.bytes / 1000));
    Said::fits(format!("{} Mbps{}{}", mbps(rate.value), interval.unwrap_or_default(), load.unwrap_or_default()))
}

fn duplication(direction: &Direction, behaviour: &Behaviour, way: &str) -> Said {
    match (behaviour.duplicates, direction.duplicates) {
        (Some(duplicates), _) if duplicates.share > 0.0 => Said::fits(format!(
            "{} of the packets were duplicated; modelled by duplicates_{way}",
            shown(Unit::Share, duplicates.share)
        )),
        (_, Some(count)) if count > 0 && direction.behaviour.is_none() => {
            Said::does_not(format!("{count} packets were duplicated; the scenario does not model it"))
        }
        (_, Some(count)) => Said::fits(format!("{count} packets were duplicated")),
        (_, None) => Said::unknown("missing from the report"),
    }
}

/// Returns the share of reordered packets, and its description.
fn reordered(direction: &Direction, behaviour: &Behaviour) -> Option<(f64, String)> {
    if let Some(reordering) = behaviour.reordering {
        return Some((
            reordering.share,
            format!("{} of the packets were reordered", shown(Unit::Share, reordering.share)),
        ));
    }
    let count = direction.reordered?;
    let arrived = direction.loss.as_ref().map_or(0, |loss| loss.packets.saturating_sub(loss.lost)).max(1);
    Some((count as f64 / arrived as f64, format!("{count} packets were reordered")))
}

fn loss_unknown(direction: &Direction) -> Option<String> {
    let is_null = direction.loss.as_ref().is_some_and(|loss| loss.share.is_none() && loss.packets > 0);
    let reason = direction.unknown("loss");
    (is_null || reason.is_some()).then(|| reason.unwrap_or("the probe could not count them").to_owned())
}

fn bucket_toml(Bucket { rate_bps, burst_bytes, .. }: Bucket) -> String {
    format!("{{ rate = \"{}\", burst = \"{} B\" }}", kbps(rate_bps), burst_bytes.max(1500))
}

/// Returns the measured series, repeated from its start; `None` if the rate varies too fast to be followed.
pub(super) fn steps(varying: &Varying) -> Option<String> {
    let usable = |step: &&super::form::Step| step.at_s.is_finite() && (0.0..1e12).contains(&step.rate_bps);
    let series: Vec<_> = varying.series.iter().filter(usable).take(MOST_STEPS).collect();
    let (first, last) = (series.first()?, series.last()?);
    let begin = first.at_s;
    let mean = (last.at_s - begin) / (series.len().max(2) - 1) as f64;
    let length = last.at_s - begin + if mean > 0.0 { mean } else { 1.0 };
    let mut written: Vec<String> = Vec::new();
    let mut before = -1.0;
    for step in &series {
        let at = micros((step.at_s - begin).max(0.0));
        if at > before {
            written.push(format!(
                "{{ at = \"{at} s\", rate = \"{}\" }}",
                if step.rate_bps < 500.0 { "0 bps".to_owned() } else { kbps(step.rate_bps) }
            ));
            before = at;
        }
    }
    Some(format!(
        "{{ model = \"steps\", steps = [{}], length = \"{} s\", wrap = \"repeat\" }}",
        written.join(", "),
        micros(length)
    ))
}

/// Rounds seconds to whole microseconds.
fn micros(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

/// Share of frames that a busy Wi-Fi link layer retransmits, for the alternative to a link layer without
/// retransmissions.
const RETRANSMITTED: f64 = 0.2;

fn aggregate(found: &mut Found, direction: &Direction, aggregation: Aggregation, way: &str) {
    let frames = aggregation.packets_mean.round().clamp(1.0, 256.0);
    let throughput = direction.rate_bps.as_ref().map_or(1e6, |rate| rate.value);
    let whole = frames * FULL / throughput;
    // Rounded to whole microseconds.
    let access = (ACCESS_US / 1e6).min((whole / 2.0 * 1e6).floor().max(1.0) / 1e6);
    // Access time is not part of the rate while frames are on the air.
    found.line_rate = found.line_rate.or(Some(frames * FULL / (whole - access)));
    let access_us = (access * 1e6).round();
    let aggregate = format!("frames = {frames}, access = \"{access_us} us\"");
    found.keys.push(Key {
        key: format!("aggregation_{way}"),
        value: format!("{{ {aggregate} }}"),
        origin: format!(
            "lasthop probe, {way}: bursts of {} packets; access is assumed",
            figures(aggregation.packets_mean)
        ),
    });
    found.assumed.push(format!("access to the medium {way}: {access_us} us"));
    // The losses remain after the link layer's retransmissions, which were not observed. They delay packets and take
    // capacity, so a cure must help with and without them.
    found.unknown.push(format!(
        "retransmissions by the link layer {way}: it sends aggregates, as Wi-Fi does; after installing a cure, measure its effect (`ab` in gateway.toml)"
    ));
    found.alternatives.push(Alternative {
        name: format!("{} % of frames retransmitted by the link layer {way}", 100.0 * RETRANSMITTED),
        key: format!("links.hop.aggregation_{way}"),
        value: format!("{{ {aggregate}, frame_loss = {RETRANSMITTED} }}"),
    });
}

fn delay(found: &mut Found, direction: &Direction, behaviour: &Behaviour, way: &str) {
    let quantum = behaviour
        .slots
        .map(|slots| slots.interval_ms)
        .into_iter()
        .chain(behaviour.aggregation.map(|it| it.interval_ms));
    let explained = quantum.fold(0.0, f64::max);
    if let Some(jitter) = behaviour.jitter.filter(|jitter| jitter.p50_ms > 0.0 && jitter.p95_ms >= jitter.p50_ms) {
        let told = format!(
            "delays without load exceeded the minimum by {} ms for half of the packets, by {} ms for 95 %",
            figures(jitter.p50_ms),
            figures(jitter.p95_ms)
        );
        if jitter.p95_ms <= 1.1 * explained {
            found.delay = Said::fits(format!("{told}, as slots or aggregates cause"));
            return;
        }
        let spread = Spread::of(jitter);
        let order = if found.reordered.as_ref().is_some_and(|(share, _)| *share > 0.0) { "free" } else { "kept" };
        found.keys.push(Key {
            key: format!("delay_variation_{way}"),
            value: format!("{{ {}, order = \"{order}\" }}", spread.toml()),
            origin: format!("lasthop probe, {way}: jitter"),
        });
        found.delay = Said::fits(format!("{told}; modelled by delay_variation_{way}"));
        found.jitter = Some(spread);
    } else if let (Some(delay), None) = (&direction.delay, &direction.behaviour) {
        let spread = crate::seen::Spread {
            least_ms: 0.0,
            median_ms: delay.median_ms,
            p95_ms: delay.p95_ms,
            most_ms: delay.p99_ms,
        };
        found.delay = crate::statement::variation(&spread, "delays exceeded the minimum by", None);
    }
    if let Some(reason) = direction.unknown("base_delay") {
        let variation = if found.delay.verdict == Verdict::Fits { found.delay.why.clone() } else { String::new() };
        let joint = if variation.is_empty() { "" } else { "; " };
        found.delay = Said::unknown(format!("the base delay is unknown: {reason}{joint}{variation}"));
    }
}

impl Found {
    /// Returns the verdict on reordering. With jitter in free order, it compares the measured share with that of the
    /// trace under this jitter.
    pub fn order(&self, trace: &LossTrace) -> Said {
        let Some((share, told)) = &self.reordered else { return Said::unknown("missing from the report") };
        if *share == 0.0 {
            return Said::fits("no packet was reordered");
        }
        let Some(jitter) = self.jitter else {
            return match *share < 1e-3 {
                true => Said::fits(format!("{told}: negligible, not modelled")),
                false => Said::does_not(format!("{told}; the scenario preserves the order")),
            };
        };
        let tried = overtaken(trace, jitter);
        let beside = format!("{told}; simulated jitter with free order reorders {}", shown(Unit::Share, tried));
        if tried <= share * NEAR && *share <= tried * NEAR { Said::fits(beside) } else { Said::does_not(beside) }
    }
}

/// Returns the share of a trace's packets that arrive after one sent later under this jitter.
fn overtaken(trace: &LossTrace, jitter: Spread) -> f64 {
    let mut stream = Root(1).stream("fit/order");
    let (mut latest, mut behind, mut arrived) = (f64::NEG_INFINITY, 0_u64, 0_u64);
    for packet in trace.iter().filter(|packet| !packet.lost) {
        let at = (packet.at.as_secs_f64() + packet.air.as_secs_f64()) * 1e3 + jitter.draw(&mut stream);
        arrived += 1;
        behind += u64::from(at < latest);
        latest = latest.max(at);
    }
    behind as f64 / arrived.max(1) as f64
}
