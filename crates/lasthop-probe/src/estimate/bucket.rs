//! Token buckets: a burst passes at the line's rate; beyond it packets are dropped (a policer) or wait (a shaper).

use super::{Packet, Slope, Stretch, median};

/// What becomes of packets for which there are no tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BucketKind {
    /// They are dropped.
    Policer,
    /// They wait.
    Shaper,
}

/// A token bucket.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// What it does.
    pub kind: BucketKind,
    /// Sustained rate in bits per second, and its 95 % interval.
    pub rate: f64,
    /// See `rate`.
    pub interval: [f64; 2],
    /// Most bytes that passed beyond the sustained rate.
    pub burst: f64,
}

/// The sustained rate is this part of the line's or less: what is closer is not told from it.
const CLEARLY: f64 = 0.85;
/// Packets of a part of a load that tell something.
const FEWEST: usize = 16;
/// Share of the packets that a policer drops, beyond what the path loses anyway, at the least.
const DROPPED: f64 = 0.08;
/// Parts of the time after the burst, which have to be alike.
const PARTS: usize = 6;
/// How far these may differ from their mean.
const UNEVEN: f64 = 0.2;
/// Loads agree where their rates are so close.
const ALIKE: f64 = 0.15;

/// What one load shows.
struct Sign {
    rate: f64,
    burst: f64,
    packets: usize,
}

/// The token bucket that loads show on a direction whose short trains pass at `line` bits per second, whose packets take `least` seconds beside the time on the
/// air, clocks' difference included, and which loses `loss` below its rate.
pub fn bucket(stretches: &[Stretch<'_>], least: f64, line: f64, loss: f64) -> Option<Bucket> {
    policer(stretches, least, line, loss).or_else(|| shaper(stretches, line))
}

/// Where the share of lost packets changes most clearly: the number of packets before it, and both shares.
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

/// A policer shows where a paced load loses much, evenly, and what passes waits for nothing.
fn policer(stretches: &[Stretch<'_>], least: f64, line: f64, loss: f64) -> Option<Bucket> {
    let mut signs = Vec::new();
    let mut doubts = 0;
    // Loads that passed: bytes, and bits per second at which they were sent.
    let mut passed: Vec<(f64, f64)> = Vec::new();
    for stretch in stretches.iter().filter(|stretch| stretch.paced && stretch.packets.len() >= 2 * FEWEST) {
        // A bucket that was empty before the load drops from its beginning on.
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
    // A load that passed although it would have emptied the bucket: what the others lost was the channel's.
    if passed.iter().any(|(bytes, pace)| bytes * (1.0 - rate / pace).max(0.0) > 1.5 * burst) {
        return None;
    }
    // What passed of trains that came at once.
    for stretch in stretches.iter().filter(|stretch| !stretch.paced) {
        let lost = stretch.packets.iter().filter(|packet| packet.arrived.is_none()).count();
        let passed = f64::from(stretch.size()) * (stretch.packets.len() - lost) as f64;
        if lost as f64 > (2.0 * loss + DROPPED) * stretch.packets.len() as f64 {
            burst = f64::max(burst, passed - rate / 8.0 * stretch.sending());
        }
    }
    // A packet more or less at each end of the part; losses of the channel; how far loads differ.
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
    // The path's own losses strike what passes as well.
    let rate = 8.0 * size * came as f64 * (tail.len() - 1) as f64
        / tail.len() as f64
        / lasts
        / (1.0 - loss.min(before)).max(0.5);
    if rate > CLEARLY * line {
        return None;
    }
    let mut waits: Vec<f64> = tail.iter().filter_map(|packet| transit(packet)).collect();
    let waited = median(&mut waits)? - 8.0 * size / line - least;
    // A queue in front of a link of that rate, were it two packets long, would hold them up longer.
    if waited > (2.0 * 8.0 * size / rate).max(1e-3) {
        return None;
    }
    let parts = PARTS.min(came / 4);
    if parts >= 2 {
        let of = |part: usize| &tail[part * tail.len() / parts..(part + 1) * tail.len() / parts];
        let mean = came as f64 / parts as f64;
        let far = (0..parts)
            .map(|part| of(part).iter().filter(|packet| packet.arrived.is_some()).count() as f64)
            .map(|count| ((count - mean).abs() - 1.2 - 3.0 * libm::sqrt(mean * loss)).max(0.0) / mean)
            .fold(0.0, f64::max);
        if far > UNEVEN {
            return None;
        }
    }
    let passed = head.iter().filter(|packet| packet.arrived.is_some()).count() as f64 / (1.0 - loss).max(0.5) * size;
    let began = tail[0].sent - stretch.packets[0].sent;
    Some(Sign { rate, burst: passed - rate / 8.0 * began, packets: came })
}

/// A shaper shows where loads begin at the line's rate and go on at a lower one, the same each time.
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

/// Two lines through the arrivals of a load in order, which meet where the bucket is empty.
fn bend(stretch: &Stretch<'_>, line: f64) -> Option<Sign> {
    let came: Vec<&Packet> = stretch.packets.iter().copied().filter(|packet| packet.arrived.is_some()).collect();
    // What queues drop would bend the line the other way; what the channel loses, neither.
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
