//! Detection of policers, which discard packets above a rate instead of queueing them (token buckets, RFC 2697).
//!
//! While a bucket is empty, packets pass at its fill rate: between losses, the rate is always the same, whatever the
//! sender does. A full queue has the same effect, but its delay increases with its length, which a policer's does not.
//! The test follows Flach et al., "An Internet-Wide Analysis of Traffic Policing" (SIGCOMM 2016).

/// Maximum number of packets of one direction that are remembered.
const MOST_EVENTS: usize = 16_384;
/// Minimum number of losses.
const FEW_LOSSES: usize = 8;
/// Minimum time between two losses for a measurement of the rate, in nanoseconds.
const STRETCH: i64 = 500_000_000;
/// Maximum relative deviations of rates between losses from their median, and minimum shares of the rates within each.
const ALIKE: [(f64, f64); 2] = [(0.03, 0.75), (0.06, 0.9)];
/// Maximum increase of a policer's delays, as a share of the delay that a queue would add.
const MOST_RISE: f64 = 0.3;
/// Minimum number of delays, and minimum spread of the fill levels at which they are measured, in nanoseconds.
const FEW_DELAYS: usize = 20;
const LEAST_SPREAD: f64 = 1e6;
/// Factor by which the tracked queue drains faster than the rate, so that an error of the rate does not accumulate.
const DRAIN: f64 = 1.02;

/// Value of a delay that was not measured.
const NONE: i32 = i32::MIN;

/// Nanoseconds per microsecond.
fn micros(nanos: i64) -> i32 {
    (nanos / 1000).clamp(-i64::from(i32::MAX), i64::from(i32::MAX)) as i32
}

/// A data packet, or a gap between two.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: i64,
    /// Number of the packet in the capture.
    number: u64,
    /// Bytes at this place since the event before, including other flows to the same address.
    bytes: u32,
    /// Of these, bytes that were lost beyond this place.
    lost_beyond: u32,
    /// Bytes that were lost before this place, just before the event.
    lost_before: u32,
    /// Delays before and beyond the capture in microseconds, if they were measured.
    delays: [i32; 2],
}

/// Packets of one direction, in the order in which they passed.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    events: Vec<Event>,
    volume: u64,
    /// Number of losses among the events.
    lost: usize,
}

/// Side of the capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Between the sender and the capture.
    Before,
    /// Between the capture and the receiver.
    Beyond,
}

impl Passed {
    /// Adds a data packet, after `volume` bytes to its destination in total; `missing` bytes of the flow should have
    /// arrived before it. `delay` is its delay since the sender.
    pub fn note(&mut self, time: i64, number: u64, volume: u64, missing: u64, delay: Option<i64>) {
        if self.events.len() == MOST_EVENTS {
            self.forget();
        }
        let bytes = if self.events.is_empty() { 0 } else { volume.saturating_sub(self.volume) };
        self.volume = volume;
        let lost_before = u32::try_from(missing).unwrap_or(u32::MAX);
        self.lost += usize::from(missing > 0);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.events.len() < MOST_EVENTS {
            self.events.push(Event {
                time,
                number,
                bytes,
                lost_beyond: 0,
                lost_before,
                delays: [delay.map_or(NONE, micros), NONE],
            });
        }
    }

    /// Drops the older half, unless it has losses.
    fn forget(&mut self) {
        let half = MOST_EVENTS / 2;
        if self.events[..half].iter().all(|event| event.lost_beyond == 0 && event.lost_before == 0) {
            self.events.drain(..half);
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Event> {
        let index = self.events.binary_search_by_key(&number, |event| event.number).ok()?;
        self.events.get_mut(index)
    }

    /// Sets the delay after which the answer to a packet arrived.
    pub fn answered(&mut self, number: u64, delay: i64) {
        if let Some(event) = self.find(number) {
            event.delays[Place::Beyond as usize] = micros(delay);
        }
    }

    /// Records that this many bytes of a packet were lost beyond the capture.
    pub fn lost(&mut self, number: u64, bytes: u32) {
        if let Some(event) = self.find(number) {
            event.lost_beyond = event.lost_beyond.saturating_add(bytes).min(event.bytes);
            self.lost += 1;
        }
    }

    /// Withdraws the loss recorded before a packet, since the missing data arrived later.
    pub fn came(&mut self, number: u64) {
        if let Some(event) = self.find(number).filter(|event| event.lost_before > 0) {
            event.lost_before = 0;
            self.lost = self.lost.saturating_sub(1);
        }
    }

    /// Frees the memory if nothing was lost.
    pub fn close(&mut self) {
        if self.lost < FEW_LOSSES {
            self.events = Vec::new();
        }
    }

    /// Returns the rate, in bits of IP packets per second, of a policer on that side that explains the losses there, if
    /// there is one.
    pub fn policer(&self, place: Place) -> Option<f64> {
        if self.lost < FEW_LOSSES {
            return None;
        }
        let mut losses: Vec<(i64, u64)> = Vec::new();
        let mut passed = 0_u64;
        for event in &self.events {
            if place == Place::Before && event.lost_before > 0 {
                losses.push((event.time, passed));
            }
            passed += u64::from(event.bytes.saturating_sub(event.lost_beyond));
            if place == Place::Beyond && event.lost_beyond > 0 {
                losses.push((event.time, passed));
            }
        }
        let rate = constant_rate(&losses)?;
        let rise = self.rise(place, rate * DRAIN)?;
        (rise < MOST_RISE).then_some(rate * 8.0)
    }

    /// Returns the slope of delays over the delays of a queue as full as the bucket: 1 for a queue, 0 for a policer.
    /// `None` if too few delays are known.
    fn rise(&self, place: Place, rate: f64) -> Option<f64> {
        let mut samples = Vec::new();
        self.follow(rate, |level, event| {
            let delay = event.delays[place as usize];
            if event.lost_beyond == 0 && delay != NONE {
                samples.push((level / rate * 1e9, f64::from(delay) * 1e3));
            }
        });
        let count = samples.len() as f64;
        let (x, y) =
            samples.iter().fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0 / count, sum.1 + sample.1 / count));
        let (mut across, mut both, mut spread) = (0.0, 0.0, 0.0);
        for sample in &samples {
            across += (sample.0 - x) * (sample.0 - x);
            both += (sample.0 - x) * (sample.1 - y);
            spread += (sample.0 - x).abs() / count;
        }
        // A standing queue delays all packets equally, and behind a queue, packets arrive at its rate, whatever their
        // delay: delays are then far above the minimum while fill levels stay low.
        let mut delays: Vec<f64> = samples.iter().map(|sample| sample.1).collect();
        delays.sort_by(f64::total_cmp);
        let least = delays.get(delays.len() / 20).copied()?;
        let waits = y - least <= x / 2.0 + LEAST_SPREAD;
        let is_told = samples.len() >= FEW_DELAYS && spread >= LEAST_SPREAD && waits;
        is_told.then(|| both / across)
    }

    /// Tracks the fill of a queue with a rate of `rate` bytes per second: yields the fill level with each packet.
    fn follow(&self, rate: f64, mut each: impl FnMut(f64, &Event)) {
        let (mut level, mut last) = (0.0_f64, None);
        for event in &self.events {
            let since = last.map_or(0, |last| event.time.saturating_sub(last));
            last = Some(event.time);
            level = (level - rate * since as f64 / 1e9).max(0.0);
            level += f64::from(event.bytes.saturating_sub(event.lost_beyond));
            each(level, event);
        }
    }
}

/// Returns the rate in bytes per second at which packets passed between losses, whose times and preceding bytes are
/// given, if it is always the same.
fn constant_rate(losses: &[(i64, u64)]) -> Option<f64> {
    let mut rates = Vec::new();
    let mut next = 0;
    for &(time, bytes) in losses {
        while losses.get(next).is_some_and(|later| later.0.saturating_sub(time) < STRETCH) {
            next += 1;
        }
        let Some(later) = losses.get(next) else { break };
        rates.push(later.1.saturating_sub(bytes) as f64 * 1e9 / later.0.saturating_sub(time) as f64);
    }
    if rates.len() < FEW_LOSSES {
        return None;
    }
    rates.sort_by(f64::total_cmp);
    let middle = rates[rates.len() / 2];
    let is_alike = |&(width, least): &(f64, f64)| {
        let alike = rates.iter().filter(|rate| (*rate - middle).abs() <= width * middle).count();
        alike as f64 >= least * rates.len() as f64
    };
    (middle > 0.0 && ALIKE.iter().all(is_alike)).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u32 = 1500;

    /// Relation of delays to fill levels.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Delay {
        None,
        Queue,
    }

    /// A sender whose rate increases until packets are lost and then falls to 70 %, through a token bucket or a queue
    /// of 10 Mbps.
    fn limited(burst: f64, delay: Delay) -> Passed {
        let mut passed = Passed::default();
        let (rate, mut tokens) = (10e6 / 8.0, burst);
        let (mut time, mut window, mut volume) = (0_i64, 10.0_f64, 0_u64);
        let mut number = 0;
        for _ in 0..300 {
            let (mut lost, apart) = (false, 20_000_000.0 / window);
            for _ in 0..window as u32 {
                tokens = (tokens + rate * apart / 1e9).min(burst);
                time += apart as i64;
                number += 1;
                volume += u64::from(PACKET);
                passed.note(time, number, volume, 0, None);
                if tokens >= f64::from(PACKET) {
                    tokens -= f64::from(PACKET);
                    let waited = if delay == Delay::Queue { (burst - tokens) / rate * 1e9 } else { 0.0 };
                    passed.answered(number, 10_000_000 + waited as i64);
                } else {
                    passed.lost(number, PACKET);
                    lost = true;
                }
            }
            window = if lost { window * 0.7 } else { window + 1.0 };
        }
        passed
    }

    #[test]
    fn a_policers_rate_is_found() {
        // A small bucket overflows while the sender is slow: the throughput is below its rate.
        for (burst, least) in [(15e3, 0.8), (40e3, 0.94), (100e3, 0.94)] {
            let rate = limited(burst, Delay::None).policer(Place::Beyond).unwrap_or_else(|| panic!("{burst}"));
            assert!((least..1.06).contains(&(rate / 10e6)), "{burst}: {rate}");
        }
    }

    /// The same losses at a queue, with queueing delay.
    #[test]
    fn a_full_queue_is_none() {
        for burst in [15e3, 40e3, 100e3] {
            assert_eq!(limited(burst, Delay::Queue).policer(Place::Beyond), None, "{burst}");
        }
    }

    /// One packet in a hundred is lost, at any rate.
    #[test]
    fn independent_losses_are_none() {
        for seed in 1..20_u32 {
            let mut passed = Passed::default();
            let (mut state, mut window, mut volume, mut time, mut number) = (seed, 10.0_f64, 0_u64, 0_i64, 0);
            for _ in 0..300 {
                let mut lost = false;
                for _ in 0..window as u32 {
                    time += (20_000_000.0 / window) as i64;
                    number += 1;
                    volume += u64::from(PACKET);
                    passed.note(time, number, volume, 0, None);
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if state >> 16 < 655 {
                        passed.lost(number, PACKET);
                        lost = true;
                    } else {
                        passed.answered(number, 10_000_000);
                    }
                }
                window = if lost { (window * 0.7).max(2.0) } else { window + 1.0 };
            }
            assert_eq!(passed.policer(Place::Beyond), None, "{seed}");
        }
    }
}
