//! Token buckets: a burst passes at the line's rate; beyond it packets are dropped (a policer) or queued (a shaper).

use super::{Packet, Slope, Stretch, median};

/// Treatment of packets for which there are no tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BucketKind {
    /// Packets are dropped.
    Policer,
    /// Packets are queued.
    Shaper,
}

/// A token bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// Treatment of packets without tokens.
    pub kind: BucketKind,
    /// Sustained rate in bits per second.
    pub rate: f64,
    /// 95 % interval of `rate`.
    pub interval: [f64; 2],
    /// Maximum number of bytes that passed beyond the sustained rate.
    pub burst: f64,
}

/// Maximum ratio of the sustained rate to the line's; a higher ratio cannot be distinguished from 1.
const CLEARLY: f64 = 0.85;
/// Minimum number of packets in a part of a load.
const FEWEST: usize = 16;
/// Minimum share of packets that a policer drops, beyond the path's own loss.
const DROPPED: f64 = 0.08;
/// Maximum range of the number of losses around an even course, relative to the standard deviation of as many
/// independent losses. Independent losses have a smaller range in about 1 % of cases, bursts more rarely: the range
/// divided by the deviation has the distribution of Kuiper's statistic (N. H. Kuiper, "Tests concerning random points
/// on a circle", 1960).
const EVEN: f64 = 0.8;
/// Maximum relative difference between the rates of loads that agree.
const ALIKE: f64 = 0.15;

/// Evidence from one load.
struct Sign {
    rate: f64,
    burst: f64,
    packets: usize,
}

/// Returns the token bucket that loads show. `line` is the rate of short trains in bits per second, `least` the minimum
/// transit time in seconds without the transmission time (clock offset included), and `loss` the loss below the rate.
pub fn bucket(stretches: &[Stretch<'_>], least: f64, line: f64, loss: f64) -> Option<Bucket> {
    policer(stretches, least, line, loss).or_else(|| shaper(stretches, line))
}

/// Finds the clearest change of the loss rate: returns the number of packets before it, and both loss rates.
fn change(packets: &[&Packet]) -> Option<(usize, [f64; 2])> {
    let total: f64 = packets.iter().map(|packet| f64::from(u8::from(packet.arrived.is_none()))).sum();
    let count = packets.len() as f64;
    let likelihood = |lost: f64, of: f64| {
        let share = (lost / of).clamp(1e-4, 1.0 - 1e-4);
        lost * libm::log(share) + (of - lost) * libm::log1p(-share)
    };
    let mut before = 0.0;
    let mut best: Option<(f64, usize, [f64; 2])> = None;
    for (at, packet) in packets.iter().enumerate() {
        let of = at as f64;
        if at > 0 && count - of >= FEWEST as f64 {
            let gained = likelihood(before, of) + likelihood(total - before, count - of);
            if best.is_none_or(|(most, ..)| gained > most) {
                best = Some((gained, at, [before / of, (total - before) / (count - of)]));
            }
        }
        before += f64::from(u8::from(packet.arrived.is_none()));
    }
    let (gained, at, shares) = best?;
    (gained > likelihood(total, count) + 10.0).then_some((at, shares))
}

fn transit(packet: &Packet) -> Option<f64> {
    Some(packet.arrived? - packet.sent)
}

/// Recognises a policer: a paced load loses much, evenly, and the packets that pass are not delayed.
fn policer(stretches: &[Stretch<'_>], least: f64, line: f64, loss: f64) -> Option<Bucket> {
    let mut signs = Vec::new();
    let mut doubts = 0;
    // Loads without a change: bytes, and pace in bits per second.
    let mut passed: Vec<(f64, f64)> = Vec::new();
    for stretch in stretches.iter().filter(|stretch| stretch.paced && stretch.packets.len() >= 2 * FEWEST) {
        // A bucket that was empty before the load drops packets from its beginning.
        let whole = stretch.packets.iter().filter(|packet| packet.arrived.is_none()).count() as f64
            / stretch.packets.len() as f64;
        let (at, shares) = match change(&stretch.packets) {
            Some(found) => found,
            None if whole > loss + 2.0 * DROPPED => (0, [loss, whole]),
            None => {
                passed.push((f64::from(stretch.size()) * stretch.packets.len() as f64, stretch.pace()));
                continue;
            }
        };
        match sign(stretch, at, shares, [least, line, loss]) {
            Some(sign) => signs.push(sign),
            None => doubts += 1,
        }
    }
    if signs.is_empty() || doubts > signs.len() {
        return None;
    }
    let total: f64 = signs.iter().map(|sign| sign.packets as f64).sum();
    let rate = signs.iter().map(|sign| sign.rate * sign.packets as f64).sum::<f64>() / total;
    if signs.iter().any(|sign| (sign.rate / rate - 1.0).abs() > 2.0 * ALIKE) {
        return None;
    }
    let mut burst = signs.iter().map(|sign| sign.burst).fold(0.0, f64::max);
    // A load passed although it would have emptied the bucket: the channel caused the losses of the others.
    if passed.iter().any(|(bytes, pace)| bytes * (1.0 - rate / pace).max(0.0) > 1.5 * burst) {
        return None;
    }
    // Trains that were sent at once: the bytes that passed.
    for stretch in stretches.iter().filter(|stretch| !stretch.paced) {
        let lost = stretch.packets.iter().filter(|packet| packet.arrived.is_none()).count();
        let passed = f64::from(stretch.size()) * (stretch.packets.len() - lost) as f64;
        if lost as f64 > (2.0 * loss + DROPPED) * stretch.packets.len() as f64 {
            burst = f64::max(burst, passed - rate / 8.0 * stretch.sending());
        }
    }
    // One packet at each end of the part, losses of the channel, and the spread between loads.
    let spread = signs.iter().map(|sign| (sign.rate / rate - 1.0).abs()).fold(0.0, f64::max);
    let half = rate * (0.01 + 3.0 / total + spread + loss + 1.96 * libm::sqrt(loss / total));
    Some(Bucket { kind: BucketKind::Policer, rate, interval: [rate - half, rate + half], burst })
}

fn sign(stretch: &Stretch<'_>, at: usize, [before, after]: [f64; 2], [least, line, loss]: [f64; 3]) -> Option<Sign> {
    let (head, tail) = stretch.packets.split_at(at);
    let size = f64::from(stretch.size());
    let lasts = tail.last()?.sent - tail.first()?.sent;
    let came = tail.iter().filter(|packet| packet.arrived.is_some()).count();
    if lasts <= 0.0 || came < 8 || after < before.max(loss) + DROPPED {
        return None;
    }
    // The path's own losses also affect packets that pass.
    let rate = 8.0 * size * came as f64 * (tail.len() - 1) as f64
        / tail.len() as f64
        / lasts
        / (1.0 - loss.min(before)).max(0.5);
    if rate > CLEARLY * line {
        return None;
    }
    let mut waits: Vec<f64> = tail.iter().filter_map(|packet| transit(packet)).collect();
    let waited = median(&mut waits)? - 8.0 * size / line - least;
    // Even a queue of two packets in front of a link of that rate would delay them longer.
    if waited > (2.0 * 8.0 * size / rate).max(1e-3) {
        return None;
    }
    if !even(tail) {
        return None;
    }
    let passed = head.iter().filter(|packet| packet.arrived.is_some()).count() as f64 / (1.0 - loss).max(0.5) * size;
    let began = tail[0].sent - stretch.packets[0].sent;
    Some(Sign { rate, burst: passed - rate / 8.0 * began, packets: came })
}

/// Returns whether losses are more even than independent losses: tokens arrive evenly, so a policer drops every n-th
/// packet of a paced load. A channel that loses packets in bursts is less even.
fn even(packets: &[&Packet]) -> bool {
    let count = packets.len() as f64;
    let lost = packets.iter().filter(|packet| packet.arrived.is_none()).count() as f64;
    let share = lost / count;
    let (mut sum, mut least, mut most) = (0.0, 0.0_f64, 0.0_f64);
    for packet in packets {
        sum += f64::from(u8::from(packet.arrived.is_none())) - share;
        (least, most) = (least.min(sum), most.max(sum));
    }
    most - least <= EVEN * libm::sqrt(count * share * (1.0 - share))
}

/// Recognises a shaper: loads begin at the line's rate and continue at a lower one, the same each time.
fn shaper(stretches: &[Stretch<'_>], line: f64) -> Option<Bucket> {
    let signs: Vec<Sign> = stretches.iter().filter_map(|stretch| bend(stretch, line)).collect();
    let least = signs.iter().map(|sign| sign.burst).fold(f64::INFINITY, f64::min);
    // Loads that are long enough to empty the bucket.
    let came = |stretch: &&Stretch<'_>| {
        let came = stretch.packets.iter().filter(|packet| packet.arrived.is_some()).count();
        came >= 2 * FEWEST && came as f64 * f64::from(stretch.size()) > 3.0 * least
    };
    if signs.len() < 2 || 2 * signs.len() < stretches.iter().filter(came).count() {
        return None;
    }
    let rate = median(&mut signs.iter().map(|sign| sign.rate).collect::<Vec<_>>())?;
    let burst = median(&mut signs.iter().map(|sign| sign.burst).collect::<Vec<_>>())?;
    let alike =
        |sign: &&Sign| (sign.rate / rate - 1.0).abs() <= ALIKE && (sign.burst / burst - 1.0).abs() <= 3.0 * ALIKE;
    let near: Vec<&Sign> = signs.iter().filter(alike).collect();
    if burst <= 0.0 || 3 * near.len() < 2 * signs.len() {
        return None;
    }
    let far = near.iter().map(|sign| (sign.rate - rate).abs()).fold(0.01 * rate, f64::max);
    Some(Bucket { kind: BucketKind::Shaper, rate, interval: [rate - far, rate + far], burst })
}

/// Fits two lines to the arrivals of a load; they meet where the bucket is empty.
fn bend(stretch: &Stretch<'_>, line: f64) -> Option<Sign> {
    let came: Vec<&Packet> = stretch.packets.iter().copied().filter(|packet| packet.arrived.is_some()).collect();
    // Drops by queues would bend the line the other way; losses of the channel do not bend it.
    if came.len() < 2 * FEWEST {
        return None;
    }
    let whole = Slope::of(&came)?;
    let step = (came.len() / 64).max(1);
    let squares = |slope: &Slope| slope.noise * slope.noise * (slope.count as f64 - 2.0);
    let (at, [head, tail], left) = (8..came.len() - FEWEST)
        .step_by(step)
        .filter_map(|at| {
            let both = [Slope::of(&came[..at])?, Slope::of(&came[at..])?];
            Some((at, both, squares(&both[0]) + squares(&both[1])))
        })
        .min_by(|one, other| one.2.total_cmp(&other.2))?;
    let straight = left > 0.1 * squares(&whole);
    if straight || tail.rate > CLEARLY * head.rate || tail.rate > CLEARLY * line || head.rate < 0.6 * line {
        return None;
    }
    let size = f64::from(stretch.size());
    Some(Sign { rate: tail.rate, burst: at as f64 * size * (1.0 - tail.rate / head.rate), packets: came.len() - at })
}
