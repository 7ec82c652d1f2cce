//! How delays vary while the probe itself loads nothing, and whether they have a least value.

use super::{Log, Overtaken, Packet, Purpose, quantile};

/// How delays vary.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wander {
    /// Standard deviation of one packet's delay against another's of the same train, in seconds, outliers aside.
    pub within: f64,
    /// Share of the packets that took clearly longer or less than the others of their train.
    pub apart: f64,
    /// Delay beyond the least: half, 95 % and 99 % of the trains' first packets took no longer.
    pub beyond: [f64; 3],
    /// Share of the trains that waited for more than `WAITS` and half of a full packet's time.
    pub waiting: f64,
    /// Share of the trains whose first packet was within `EDGE` of the least.
    pub idle: f64,
}

/// The least delay, and how clear it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Edge {
    /// Seconds between sending and arriving, clocks' difference included, the time on the air not.
    pub least: f64,
    /// Whether many packets came as soon as that.
    pub sharp: bool,
}

/// Trains of the stream are sent within so many seconds a packet.
const TOGETHER: f64 = 0.4e-3;
/// What is less is the receiver's clock.
const WAITS: f64 = 0.5e-3;
/// A packet is as soon as the first when it comes within so many seconds.
const EDGE: f64 = 0.4e-3;
/// Share of the packets that are, where delays have a least value.
const SHARP: f64 = 0.015;
/// Trains that tell something.
const ENOUGH: usize = 30;

fn transit(packet: &Packet, rate: f64) -> Option<f64> {
    Some(packet.arrived? - packet.sent - packet.air(rate))
}

/// Packets of the stream and of the protocol that no other of the probe's own is ahead of, by their place in the log.
fn firsts(log: &Log) -> Vec<usize> {
    let mut busy_until = f64::NEG_INFINITY;
    let mut all = Vec::new();
    for (at, packet) in log.packets.iter().enumerate() {
        let free = packet.sent > busy_until;
        match packet.purpose {
            Purpose::Stream | Purpose::Protocol => {
                if free {
                    all.push(at);
                }
                busy_until = f64::max(busy_until, packet.sent + TOGETHER);
            }
            Purpose::Ladder => busy_until = f64::max(busy_until, packet.sent + TOGETHER),
            // The source rests behind these until they are through; what the protocol sends meanwhile waits.
            _ => busy_until = f64::max(busy_until, packet.sent + 0.3),
        }
    }
    all
}

/// How delays vary on a direction of so many bits per second, beyond `least` where that is known. `None` where too little arrived.
pub fn wander(log: &Log, rate: f64, least: Option<f64>) -> Option<Wander> {
    let mut first: Vec<f64> = firsts(log).into_iter().filter_map(|at| transit(&log.packets[at], rate)).collect();
    if first.len() < ENOUGH {
        return None;
    }
    let least = least.or_else(|| quantile(&mut first, 0.0))?;
    let beyond = [0.5, 0.95, 0.99].map(|share| (quantile(&mut first, share).unwrap_or(least) - least).max(0.0));
    let waits = WAITS + 0.5 * 12e3 / rate;
    let share = |is: &dyn Fn(&f64) -> bool| first.iter().filter(|one| is(one)).count() as f64 / first.len() as f64;
    let waiting = share(&|delay| delay - least > waits);
    let idle = share(&|delay| delay - least <= EDGE);
    let mut differences = Vec::new();
    let pairs = log.packets.windows(2).filter(|pair| pair.iter().all(|one| one.purpose == Purpose::Stream));
    for pair in pairs.filter(|pair| pair[1].sent - pair[0].sent < TOGETHER && pair[0].size == pair[1].size) {
        if let (Some(one), Some(other)) = (pair[0].arrived, pair[1].arrived) {
            // Behind the other, unless the link is faster than the sender.
            let behind = pair[1].air(rate).max(pair[1].sent - pair[0].sent);
            differences.push(other - one - behind);
        }
    }
    if differences.len() < ENOUGH {
        return None;
    }
    let count = differences.len() as f64;
    let apart = differences.iter().filter(|one| one.abs() > WAITS.max(0.5 * 12e3 / rate)).count() as f64 / count;
    let half = quantile(&mut differences, 0.84)? - quantile(&mut differences, 0.16)?;
    Some(Wander { within: half / 2.0 / core::f64::consts::SQRT_2, apart, beyond, waiting, idle })
}

/// Of packets that overtake others, no more than these are set aside.
const ASIDE: f64 = 0.15;
/// Windows behind the edge in which no more packets may come than in the first, but for this factor.
const DENSER: f64 = 2.0;
const BEHIND: usize = 25;

/// The least delay of a direction, whose packets are delayed each by itself where it is `noisy`. Where packets overtake others, these are set aside, and as many of the earliest: as many overtake none by chance.
pub fn edge(log: &Log, rate: f64, overtaken: Option<&Overtaken>, noisy: bool) -> Option<Edge> {
    let delays = |counts: &dyn Fn(usize) -> bool| {
        let mut delays: Vec<f64> = (0..log.packets.len())
            .filter(|at| matches!(log.packets[*at].purpose, Purpose::Stream | Purpose::Protocol) && counts(*at))
            .filter_map(|at| transit(&log.packets[at], rate))
            .collect();
        delays.sort_by(f64::total_cmp);
        delays
    };
    let all = delays(&|_| true);
    if all.len() < ENOUGH {
        return None;
    }
    let first = sharpness(&all, 0.0, overtaken.is_some(), noisy || overtaken.is_some());
    match overtaken {
        Some(overtaken) if !first.sharp && overtaken.skipping <= ASIDE => {
            let others = delays(&|at| !overtaken.ahead[at]);
            Some(sharpness(&others, 2.0 * overtaken.skipping, true, true))
        }
        _ => Some(first),
    }
}

/// Whether delays in order have a least value behind the share `astray`: many packets come as soon as that, and, where it is `noisy`, not many more anywhere soon behind, or, where `wholly`, anywhere.
fn sharpness(delays: &[f64], astray: f64, wholly: bool, noisy: bool) -> Edge {
    let at = (astray * (delays.len() - 1) as f64) as usize;
    let least = delays[at];
    let mut windows: Vec<usize> = Vec::new();
    for delay in &delays[at..] {
        let window = ((delay - least) / EDGE).min(1e6) as usize;
        if windows.len() <= window && (wholly || window < BEHIND) {
            windows.resize(window + 1, 0);
        }
        if let Some(count) = windows.get_mut(window) {
            *count += 1;
        }
    }
    let near = windows[0] as f64;
    let most = windows.iter().copied().max().unwrap_or(0) as f64;
    Edge { least, sharp: near >= (SHARP * delays.len() as f64).max(5.0) && (!noisy || most <= DENSER * near) }
}
