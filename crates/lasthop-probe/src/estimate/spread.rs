//! Variation of delays without load by the probe, and whether delays have a clear minimum.

use super::{Log, Overtaken, Packet, Purpose, quantile};

/// Variation of delays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wander {
    /// Standard deviation of the delay between packets of the same train, in seconds, without outliers.
    pub within: f64,
    /// Share of packets with a delay that clearly differs from the others of their train.
    pub apart: f64,
    /// Delay of the trains' first packets above the minimum, in seconds: median, 95th and 99th percentile.
    pub beyond: [f64; 3],
    /// Share of trains that waited longer than `WAITS` plus half of a full packet's time.
    pub waiting: f64,
    /// Share of trains whose first packet was within `EDGE` of the minimum.
    pub idle: f64,
}

/// Minimum delay, and how clear it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Edge {
    /// Minimum transit time in seconds, with the clock offset but without the transmission time.
    pub least: f64,
    /// True if many packets are close to the minimum.
    pub sharp: bool,
}

/// Maximum time between packets of a train in the stream, in seconds.
const TOGETHER: f64 = 0.4e-3;
/// Minimum waiting time in seconds; below it, the receiver's clock dominates.
const WAITS: f64 = 0.5e-3;
/// Maximum distance from the minimum, in seconds, for a packet that did not wait.
const EDGE: f64 = 0.4e-3;
/// Minimum share of such packets if delays have a clear minimum.
const SHARP: f64 = 0.015;
/// Minimum number of trains.
const ENOUGH: usize = 30;

fn transit(packet: &Packet, rate: f64) -> Option<f64> {
    Some(packet.arrived? - packet.sent - packet.air(rate))
}

/// Returns the indices of packets of the stream and the protocol without another packet of the probe ahead of them.
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
            // The source rests until these have passed; protocol packets sent meanwhile wait.
            _ => busy_until = f64::max(busy_until, packet.sent + 0.3),
        }
    }
    all
}

/// Returns the variation of delays at `rate` bits per second, above `least` if that is known. `None` if too little
/// arrived.
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
            // The second packet follows the first, unless the link is faster than the sender.
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

/// Maximum share of packets that overtake others for these to be ignored.
const ASIDE: f64 = 0.15;
/// Maximum ratio of later windows to the first, and number of windows that are checked.
const DENSER: f64 = 2.0;
const BEHIND: usize = 25;

/// Returns the minimum delay of a direction. `noisy` says that packets are delayed independently. Packets that overtake
/// others are ignored, together with as many of the earliest others, since as many skip the delay without overtaking
/// one.
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

/// Determines whether sorted delays have a clear minimum behind the share `astray`. Many packets must be close to it.
/// If `noisy`, later windows must not contain many more: the next `BEHIND` ones or, if `wholly`, all.
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
