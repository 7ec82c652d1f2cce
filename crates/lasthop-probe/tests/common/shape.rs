//! Behaviour of a direction beyond rate, delay, queue and losses. It is modelled on such links, not on how the probe
//! recognises them.

use lasthop_proto::random::{Root, Stream};
use lasthop_proto::rate::{RateProcess, RateSpec};
use lasthop_proto::time::{Duration, Instant};

/// Distribution of delays, in seconds.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// Normal with this standard deviation around the delay, never below zero.
    Normal(f64),
    /// Exponential with this mean, added to the delay.
    Exponential(f64),
    /// Uniform up to this value, added to the delay.
    Uniform(f64),
}

/// Behaviour of a direction.
#[derive(Clone, Default, Debug)]
pub struct Shape {
    /// Distribution of the packets' independent delays, and whether their order is kept.
    pub jitter: Option<(Spread, bool)>,
    /// Share of packets that skip the delay (netem's `reorder`).
    pub early: f64,
    /// Share of packets with an additional delay, and that delay.
    pub late: Option<(f64, f64)>,
    /// Share of packets that are duplicated, and the delay of the copy.
    pub duplicates: Option<(f64, f64)>,
    /// Token bucket in front: bits per second, bytes. Packets without tokens are dropped.
    pub policer: Option<(f64, f64)>,
    /// Token bucket in front: bits per second, bytes. Packets without tokens are queued.
    pub shaper: Option<(f64, f64)>,
    /// Cyclic time series of the rate, relative to the given one, and duration of each step in seconds.
    pub course: Vec<(f64, f64)>,
    /// Rate over time of the simulator, with the seed of its draws, in place of the given rate.
    pub rate: Option<(RateSpec, u64)>,
    /// Interval of delivery slots in seconds.
    pub slots: Option<f64>,
    /// Other traffic with packets of 1,500 bytes: share of the rate while present, mean durations of presence and
    /// absence.
    pub others: Option<(f64, f64, f64)>,
}

/// State of a direction.
pub struct Shaping {
    shape: Shape,
    rate: Option<RateProcess>,
    draws: Stream,
    tokens: f64,
    filled: Instant,
    last: Instant,
    began: Instant,
    next_other: Instant,
    present: bool,
    changes: Instant,
}

impl Shaping {
    pub fn new(shape: &Shape, draws: Stream) -> Self {
        let tokens = shape.policer.or(shape.shaper).map_or(0.0, |(_, bucket)| bucket);
        let zero = Instant::ZERO;
        let rate = shape
            .rate
            .as_ref()
            .and_then(|(spec, seed)| RateProcess::new(spec, || Root(*seed).stream("links/hop/rate")));
        Self {
            shape: shape.clone(),
            rate,
            draws,
            tokens,
            filled: zero,
            last: zero,
            began: zero,
            next_other: zero,
            present: false,
            changes: zero,
        }
    }

    pub fn begin(&mut self, now: Instant) {
        (self.filled, self.began, self.next_other, self.changes) = (now, now, now, now);
    }

    fn fill(&mut self, now: Instant, (rate, bucket): (f64, f64)) {
        let passed = now.since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + rate / 8.0 * passed).min(bucket);
        self.filled = self.filled.max(now);
    }

    /// Returns whether a policer lets a packet pass.
    pub fn passes(&mut self, now: Instant, size: u32) -> bool {
        let Some(bucket) = self.shape.policer else { return true };
        self.fill(now, bucket);
        let pass = self.tokens >= f64::from(size);
        if pass {
            self.tokens -= f64::from(size);
        }
        pass
    }

    /// Returns the time at which the shaper has tokens for a packet that is first in line at `from`.
    pub fn starts(&mut self, from: Instant, size: u32) -> Instant {
        let Some(bucket) = self.shape.shaper else { return from };
        self.fill(from, bucket);
        self.tokens -= f64::from(size);
        let wait = (-self.tokens).max(0.0) * 8.0 / bucket.0;
        from + Duration::from_secs_f64(wait)
    }

    /// Returns the end of a transmission that starts at `start`.
    pub fn ends(&mut self, start: Instant, size: u32, rate: f64) -> Instant {
        if let Some(process) = &mut self.rate {
            let began = Instant::ZERO + start.since(self.began);
            return start + process.finish(began, size).since(began);
        }
        let mut bits = 8.0 * f64::from(size);
        if self.shape.course.is_empty() {
            return start + Duration::from_secs_f64(bits / rate);
        }
        let lap: f64 = self.shape.course.iter().map(|(_, lasts)| lasts).sum();
        let mut passed = 0.0;
        let mut at = start.since(self.began).as_secs_f64() % lap;
        loop {
            for &(share, lasts) in &self.shape.course {
                if at >= lasts {
                    at -= lasts;
                    continue;
                }
                let room = (lasts - at) * share * rate;
                if bits <= room {
                    return start + Duration::from_secs_f64(passed + bits / (share * rate));
                }
                bits -= room;
                passed += lasts - at;
                at = 0.0;
            }
        }
    }

    /// Returns the next packet of other traffic up to `now`.
    pub fn other(&mut self, now: Instant, rate: f64) -> Option<(Instant, u32)> {
        let (load, present, absent) = self.shape.others?;
        loop {
            if self.changes <= self.next_other {
                if self.changes > now {
                    return None;
                }
                self.next_other = self.changes;
                self.present = !self.present;
                let lasts = self.draws.exponential(if self.present { present } else { absent });
                self.changes += Duration::from_secs_f64(lasts);
            }
            if self.next_other > now {
                return None;
            }
            let at = self.next_other;
            if self.present {
                self.next_other = at + Duration::from_secs_f64(self.draws.exponential(12e3 / (load * rate)));
                return Some((at, 1500));
            }
            self.next_other = self.changes;
        }
    }

    /// Returns the times of arrival of a packet and its copies, whose transmission ended at `through`.
    pub fn arrivals(&mut self, through: Instant, delay: Duration) -> Vec<Instant> {
        let mut left = through;
        if let Some(slot) = self.shape.slots {
            let slot = (slot * 1e9) as u64;
            left = Instant::from_nanos(left.as_nanos().div_ceil(slot) * slot);
        }
        let mut late = delay.as_secs_f64();
        let mut ordered = self.shape.slots.is_some();
        if let Some((spread, keeps)) = self.shape.jitter {
            ordered = keeps;
            late += match spread {
                Spread::Normal(sd) => {
                    // Sum of twelve uniform draws.
                    sd * ((0..12).map(|_| self.draws.uniform()).sum::<f64>() - 6.0)
                }
                Spread::Exponential(mean) => self.draws.exponential(mean),
                Spread::Uniform(most) => most * self.draws.uniform(),
            };
        }
        if self.shape.early > 0.0 && self.draws.chance(self.shape.early) {
            late = 0.0;
        }
        if let Some((share, more)) = self.shape.late
            && self.draws.chance(share)
        {
            late += more;
        }
        let mut at = left + Duration::from_secs_f64(late.max(0.0));
        if ordered {
            at = at.max(self.last);
            self.last = at;
        }
        let mut all = vec![at];
        if let Some((share, more)) = self.shape.duplicates
            && self.draws.chance(share)
        {
            all.push(at + Duration::from_secs_f64(more));
        }
        all
    }
}
