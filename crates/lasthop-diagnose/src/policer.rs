//! Policers: links that discard what exceeds a rate instead of queueing it (token buckets, RFC 2697).
//!
//! A token bucket and a drop-tail queue of the same rate and size discard the same packets: those that come while the bucket is empty, or the queue full. They differ in
//! delay: a queue delays packets as it fills, a policer does not. So a policer is a rate for which the losses come at the highest fill, while no
//! delay rises with it. The test follows Flach et al., "An Internet-Wide Analysis of Traffic Policing" (SIGCOMM 2016), without its assumption that the bucket is never full.

/// Maximum number of packets of one direction that are remembered.
const MOST_EVENTS: usize = 16_384;
/// Fewer losses tell nothing.
const FEW_LOSSES: usize = 8;
/// Fewer packets tell nothing.
const FEW_PACKETS: usize = 60;
/// Shares of the highest fill from which on a packet counts as near it.
const NEAR: f64 = 0.85;
/// Packets by which the fill may be wrong, since capture and policer are not at one place.
const BLUR: f64 = 3.0;
/// Least share of the losses near the highest fill.
const LOST_NEAR: f64 = 0.85;
/// By how much that share exceeds that of the packets that passed.
const CONTRAST: f64 = 0.35;
/// Least time that a full queue of the bucket's size would delay packets, in nanoseconds: below, a policer and a short queue are alike.
const LEAST_DELAY: f64 = 4e6;
/// Delays of a policer's packets rise by less than this share of what a queue would add.
const MOST_RISE: f64 = 0.3;
/// So many delays are needed, at fills that spread so far: nanoseconds.
const FEW_DELAYS: usize = 20;
const LEAST_SPREAD: f64 = 1e6;
/// Rates that are tried, in steps of so much.
const STEP: f64 = 1.03;
/// Lowest and highest rate that is tried, as a multiple of the mean rate.
const RATES: (f64, f64) = (0.85, 40.0);

/// A packet of data, or a gap between two.
#[derive(Clone, Copy, Debug)]
struct Event {
    time: i64,
    /// Packet in the capture.
    number: u64,
    /// Bytes that came to this place since the event before; other flows to the same address included.
    bytes: u32,
    /// Bytes of these that were lost behind this place.
    lost_beyond: u32,
    /// Bytes that were lost in front of this place, just before.
    lost_before: u32,
    /// Delays before and beyond the capture, in nanoseconds, where they were measured.
    delays: [Option<i64>; 2],
}

/// Packets of one direction, in the order in which they passed.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    events: Vec<Event>,
    volume: u64,
    /// Losses among the events.
    lost: usize,
}

/// Side of the capture on which a policer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Between the sender and the capture.
    Before,
    /// Between the capture and the receiver.
    Beyond,
}

/// A policer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Policer {
    /// Rate in bits of IP packets a second.
    pub rate: f64,
    /// Size of the bucket in bytes.
    pub burst: f64,
}

impl Passed {
    /// A packet with data passes, after `volume` bytes to its destination altogether; `missing` bytes of the flow should have come before it.
    /// `delay` is what it took from the sender.
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
            self.events.push(Event { time, number, bytes, lost_beyond: 0, lost_before, delays: [delay, None] });
        }
    }

    /// Forgets the older half, unless there are losses in it.
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

    /// The answer to a packet came after `delay`.
    pub fn answered(&mut self, number: u64, delay: i64) {
        if let Some(event) = self.find(number) {
            event.delays[Place::Beyond as usize] = Some(delay);
        }
    }

    /// So many bytes of a packet were lost beyond the capture.
    pub fn lost(&mut self, number: u64, bytes: u32) {
        if let Some(event) = self.find(number) {
            event.lost_beyond = event.lost_beyond.saturating_add(bytes).min(event.bytes);
            self.lost += 1;
        }
    }

    /// What seemed to be missing before a packet came later: it had not been lost.
    pub fn came(&mut self, number: u64) {
        if let Some(event) = self.find(number).filter(|event| event.lost_before > 0) {
            event.lost_before = 0;
            self.lost = self.lost.saturating_sub(1);
        }
    }

    /// Gives back the memory if nothing was lost.
    pub fn close(&mut self) {
        if self.lost < FEW_LOSSES {
            self.events = Vec::new();
        }
    }

    /// The policer on that side that explains the losses there, if there is one; full packets have `packet` bytes.
    pub fn policer(&self, place: Place, packet: u32) -> Option<Policer> {
        let lost = |event: &Event| match place {
            Place::Before => event.lost_before,
            Place::Beyond => event.lost_beyond,
        };
        let losses = self.events.iter().filter(|event| lost(event) > 0).count();
        if self.lost < FEW_LOSSES || losses < FEW_LOSSES || self.events.len() < FEW_PACKETS {
            return None;
        }
        let (first, last) = (self.events.first()?, self.events.last()?);
        let took = last.time.saturating_sub(first.time) as f64 / 1e9;
        let bytes: f64 = self.events.iter().map(|event| f64::from(event.bytes.saturating_sub(event.lost_beyond))).sum();
        if took <= 0.0 || bytes <= 0.0 {
            return None;
        }
        let (mean, packet) = (bytes / took, f64::from(packet.max(64)));
        let mut best: Option<(f64, f64, Fill)> = None;
        let mut rate = mean * RATES.0;
        while rate < mean * RATES.1 {
            let fill = self.fill(place, rate, packet);
            let score = fill.score();
            if best.as_ref().is_none_or(|(most, ..)| score > *most + 1e-9) {
                best = Some((score, rate, fill));
            }
            rate *= STEP;
        }
        let (_, rate, fill) = best?;
        let delay = fill.highest / rate * 1e9;
        let explains = fill.lost_near >= LOST_NEAR && fill.lost_near - fill.passed_near >= CONTRAST;
        let is_policer =
            explains && delay >= LEAST_DELAY && self.rise(place, rate, packet).is_some_and(|rise| rise < MOST_RISE);
        is_policer.then_some(Policer { rate: rate * 8.0, burst: fill.highest })
    }

    /// Packets in which that policer explains the losses: their numbers, in order.
    pub fn explained(&self, place: Place, policer: Policer, packet: u32) -> Vec<u64> {
        let mut numbers = Vec::new();
        let near = near(policer.burst, f64::from(packet.max(64)));
        self.follow(place, policer.rate / 8.0, f64::from(packet), |level, is_lost, event| {
            if is_lost && level >= near {
                numbers.push(event.number);
            }
        });
        numbers
    }

    fn fill(&self, place: Place, rate: f64, packet: f64) -> Fill {
        let mut passed: Vec<f64> = Vec::with_capacity(self.events.len());
        let mut lost = Vec::new();
        self.follow(
            place,
            rate,
            packet,
            |level, is_lost, _| if is_lost { lost.push(level) } else { passed.push(level) },
        );
        passed.sort_by(f64::total_cmp);
        // A few packets may have passed the policer in another order.
        let highest = passed.get(passed.len().saturating_sub(1 + passed.len() / 200)).copied().unwrap_or(0.0);
        let near = near(highest, packet);
        let share =
            |levels: &[f64]| levels.iter().filter(|level| **level >= near).count() as f64 / levels.len().max(1) as f64;
        Fill { highest, lost_near: share(&lost), passed_near: share(&passed) }
    }

    /// By how much delays rise with the time that a queue of the bucket's fill would take: 1 for a queue, 0 for a policer. `None` where too few delays are known.
    fn rise(&self, place: Place, rate: f64, packet: f64) -> Option<f64> {
        let mut samples = Vec::new();
        self.follow(place, rate, packet, |level, is_lost, event| {
            if let (false, Some(delay)) = (is_lost, event.delays[place as usize]) {
                samples.push((level / rate * 1e9, delay as f64));
            }
        });
        let count = samples.len() as f64;
        let (x, y) =
            samples.iter().fold((0.0, 0.0), |sum, sample| (sum.0 + sample.0 / count, sum.1 + sample.1 / count));
        let (mut across, mut both) = (0.0, 0.0);
        for sample in &samples {
            across += (sample.0 - x) * (sample.0 - x);
            both += (sample.0 - x) * (sample.1 - y);
        }
        let spreads = samples.len() >= FEW_DELAYS && (across / count).sqrt() >= LEAST_SPREAD;
        spreads.then(|| both / across)
    }

    /// Follows the fill of a bucket that `rate` bytes a second leave: tells of each packet how high it was with it, and whether it was lost.
    fn follow(&self, place: Place, rate: f64, packet: f64, mut each: impl FnMut(f64, bool, &Event)) {
        let (mut level, mut last) = (0.0_f64, None);
        for event in &self.events {
            let since = last.map_or(0, |last| event.time.saturating_sub(last));
            last = Some(event.time);
            level = (level - rate * since as f64 / 1e9).max(0.0);
            if place == Place::Before && event.lost_before > 0 {
                each(level + packet, true, event);
            }
            level += f64::from(event.bytes.saturating_sub(event.lost_beyond));
            if event.bytes > event.lost_beyond {
                each(level, false, event);
            }
            if place == Place::Beyond && event.lost_beyond > 0 {
                each(level + packet, true, event);
            }
        }
    }
}

fn near(highest: f64, packet: f64) -> f64 {
    (highest * NEAR).min(highest - BLUR * packet)
}

/// How full a bucket was when packets passed and when they were lost.
#[derive(Clone, Copy, Debug)]
struct Fill {
    highest: f64,
    lost_near: f64,
    passed_near: f64,
}

impl Fill {
    fn score(&self) -> f64 {
        self.lost_near - self.passed_near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u32 = 1500;

    /// What delays packets.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Delay {
        None,
        Queue,
    }

    /// A sender of which the rate goes up until packets are lost and then to 70 %, through a token bucket, or a queue, of 10 Mbps.
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
        for burst in [15e3, 40e3, 100e3] {
            let passed = limited(burst, Delay::None);
            let policer = passed.policer(Place::Beyond, PACKET).unwrap_or_else(|| panic!("{burst}"));
            assert!((policer.rate / 10e6 - 1.0).abs() < 0.06, "{burst}: {policer:?}");
            let explained = passed.explained(Place::Beyond, policer, PACKET).len();
            let lost = passed.events.iter().filter(|event| event.lost_beyond > 0).count();
            assert!(explained * 10 >= lost * 9, "{explained} of {lost}");
        }
    }

    /// The same losses at a queue: packets waited.
    #[test]
    fn a_full_queue_is_none() {
        for burst in [15e3, 40e3, 100e3] {
            assert_eq!(limited(burst, Delay::Queue).policer(Place::Beyond, PACKET), None, "{burst}");
        }
    }

    /// One packet in a hundred is lost, whatever the rate.
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
            assert_eq!(passed.policer(Place::Beyond, PACKET), None, "{seed}");
        }
    }
}
