//! Distinguishes corruption from congestion.
//!
//! Three properties distinguish them. A queue drops a packet when it is full, so the delay around the drop is the
//! highest of the path. A packet dropped by a queue took no time on the link, while one destroyed by the channel did,
//! so its neighbours arrive one transmission time further apart. A full queue accepts a packet whenever one has left
//! it, so it does not drop long rows of packets. `docs/models/diagnose.md` derives the numbers.

use serde::Serialize;

use crate::loss::Seen;
use crate::path::{Path, Sample};

/// Cause of a loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The channel destroyed the packet.
    Corruption,
    /// A queue dropped the packet.
    Congestion,
    /// A policer dropped the packet: a rate was exceeded, and no queue was full.
    Policed,
    /// The packet exceeded the path MTU, and no router reported that.
    PathMtu,
    /// The capture does not show the cause.
    Unknown,
}

impl Cause {
    /// Returns a single word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Corruption => "corruption",
            Self::Congestion => "congestion",
            Self::Policed => "policed",
            Self::PathMtu => "path MTU",
            Self::Unknown => "unknown",
        }
    }
}

/// Verdict on a loss, and its evidence.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The cause.
    pub cause: Cause,
    /// Probability of the cause, from 0.5 to 1.
    pub confidence: f64,
    /// Delay of the queue when the packet reached it, in milliseconds.
    pub queue_ms: Option<f64>,
    /// Delay of the full queue, in milliseconds.
    pub full_ms: f64,
    /// Increase of the spacing of the neighbours, as a share of the time that the lost packets would have taken on the
    /// link: 1 for packets that were on the link, 0 for packets that never reached it.
    pub air: Option<f64>,
}

impl Verdict {
    /// Returns the same evidence for a cause that all losses of a flow show together.
    pub(crate) fn instead(self, cause: Cause, confidence: f64) -> Self {
        Self { cause, confidence, ..self }
    }
}

/// Common evidence of all losses on a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judge {
    base: i64,
    /// Maximum delay of the queue.
    full: f64,
    /// Nanoseconds per byte.
    per_byte: Option<f64>,
    jitter: f64,
    /// True if queues mark this flow's packets instead of dropping them.
    marks: Marks,
    /// Fill level at which the queue drops packets.
    drops: Drops,
    /// Evidence on whether the longest queue was full.
    ceiling: Ceiling,
    /// Odds of a loss without other evidence.
    prior: f64,
}

/// Evidence on the longest queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ceiling {
    /// The longest queue may be a full one.
    Possible,
    /// Packets lost at the longest queue had been on the link, so it was not full.
    Refuted,
}

/// ECN marks on a flow's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// Marks were seen.
    Seen,
    /// No marks were seen, or the flow's packets are not ECN-capable.
    None,
}

/// Fill level at which a queue drops packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drops {
    WhenFull,
    /// Below its limit, by active queue management.
    Early,
}

/// Weights of evidence, as logarithms of odds. Positive weights favour corruption.
const MOST_OF_AIR: f64 = 6.0;
const FAR_BELOW_FULL: f64 = 4.0;
const ALL_OF_A_ROW: f64 = 4.0;
const AT_FULL: f64 = -2.5;
const QUEUE_NEVER_GREW: f64 = 3.0;
const MARKED_INSTEAD: f64 = 2.0;
/// Maximum distance of a full queue's delay from its maximum, as a share of the maximum.
const NEAR: f64 = 0.12;
/// Minimum weight of evidence that is certain enough to learn from.
const CERTAIN: f64 = 2.0;
/// Number of certain drops that show at which fill level a queue drops.
const FEW: usize = 3;
/// Maximum weight of the other losses of a flow in the verdict on one.
const MOST_OF_PRIOR: f64 = 1.0;
/// Range of the share on the link that lost packets explain; beyond it, the neighbours themselves were late.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -0.5..=1.5;
/// Minimum logarithm of odds that count as evidence.
const UNDECIDED: f64 = 0.3;

impl Judge {
    /// Creates a judge for losses on `path`.
    pub fn new(path: &Path, marks: Marks) -> Self {
        Self {
            base: path.base().unwrap_or(0),
            full: path.full() as f64,
            per_byte: path.rate().map(|rate| 8e9 / rate),
            jitter: path.jitter(),
            marks,
            drops: Drops::WhenFull,
            ceiling: Ceiling::Possible,
            prior: 0.0,
        }
    }

    /// Learns three properties from the losses whose time on the link is decisive: the length of the queue at which
    /// packets are dropped (or that they are dropped at any length, as by active queue management), whether the longest
    /// queue was full, and the more frequent cause.
    pub fn learn<'l>(&mut self, losses: impl Iterator<Item = &'l Seen> + Clone) {
        let mut drops = Vec::new();
        let mut at_longest = 0.0;
        for loss in losses.clone() {
            let (Some(air), Some(queue)) = (self.air(loss), self.queue(loss)) else { continue };
            let weight = self.weight_of_air(air);
            if queue >= self.full - self.near(loss) {
                at_longest += weight;
            }
            if weight < -CERTAIN {
                drops.push(queue);
            }
        }
        drops.sort_by(f64::total_cmp);
        if drops.len() >= FEW {
            let middle = drops[drops.len() / 2];
            let alike = drops.iter().filter(|queue| (*queue - middle).abs() < 0.2 * middle).count();
            if alike * 3 >= drops.len() * 2 {
                // The queue is full at this length; packets that seemed to meet a longer one were late.
                self.full = self.full.min(1.1 * drops[drops.len() * 9 / 10]);
            } else if middle < 0.6 * self.full {
                self.drops = Drops::Early;
            }
        } else if at_longest > 0.0 {
            self.ceiling = Ceiling::Refuted;
        }
        let (mut corrupted, mut congested) = (1.0, 1.0);
        for loss in losses {
            let weight = self.weight(loss);
            corrupted += f64::from(u8::from(weight > CERTAIN));
            congested += f64::from(u8::from(weight < -CERTAIN));
        }
        let odds: f64 = corrupted / congested;
        self.prior = odds.ln().clamp(-MOST_OF_PRIOR, MOST_OF_PRIOR);
    }

    fn weight(&self, loss: &Seen) -> f64 {
        let (air, queue) = (self.air(loss), self.queue(loss));
        let mut weight = self.prior + air.map_or_else(|| self.weight_of_row(loss), |air| self.weight_of_air(air));
        if let (Some(queue), Drops::WhenFull) = (queue, self.drops) {
            weight += self.weight_of_queue(queue, loss);
        }
        if self.marks == Marks::Seen && (air.is_some() || queue.is_some()) {
            weight += MARKED_INSTEAD;
        }
        weight
    }

    /// Returns the verdict on a loss.
    pub fn judge(&self, loss: &Seen) -> Verdict {
        let (air, queue) = (self.air(loss), self.queue(loss));
        let weight = self.weight(loss);
        let cause = match weight {
            weight if weight > UNDECIDED => Cause::Corruption,
            weight if weight < -UNDECIDED => Cause::Congestion,
            _ => Cause::Unknown,
        };
        let millis = |nanos: f64| (nanos / 1e3).round() / 1e3;
        Verdict {
            cause,
            confidence: (1e3 / (1.0 + (-weight.abs()).exp())).round() / 1e3,
            queue_ms: queue.map(millis),
            full_ms: millis(self.full),
            air: air.map(|air| (air.share * 100.0).round() / 100.0),
        }
    }

    fn waited(&self, sample: Sample) -> f64 {
        sample.delay().saturating_sub(self.base).max(0) as f64
    }

    /// Returns the time of one packet on the link, in nanoseconds.
    fn packet(&self, loss: &Seen) -> f64 {
        self.per_byte.map_or(0.0, |per_byte| per_byte * f64::from(loss.wire))
    }

    /// Returns the delay that the packet would have had in the queue, according to its neighbours: the queue that those
    /// before it found, plus their own size, minus the departures since.
    fn queue(&self, loss: &Seen) -> Option<f64> {
        let per_byte = self.per_byte.unwrap_or(0.0);
        let around = &loss.around;
        // If a loss was noticed late, retransmissions of this round may be among its neighbours.
        let sent = if loss.side == crate::loss::Side::Beyond { Some(loss.time) } else { None };
        let before = around.before.map(|before| {
            let bytes = loss.volume.saturating_sub(u64::from(loss.wire)).saturating_sub(before.volume);
            let since = sent.map_or(0, |sent| sent.saturating_sub(before.sent));
            (self.waited(before) + bytes as f64 * per_byte - since as f64).max(0.0)
        });
        let after = around.after.map(|after| {
            let bytes = after.volume.saturating_sub(loss.volume);
            let until = sent.map_or(0, |sent| after.sent.saturating_sub(sent));
            (self.waited(after) + until as f64 - bytes as f64 * per_byte).max(0.0)
        });
        // An acknowledgment sent by a timer shows no queue. After a pause the queue is empty, whatever its length
        // before.
        let most = self.full + self.near(loss);
        let before = before.filter(|&before| before <= most);
        let after = after.filter(|&after| {
            let found_one = around.after.is_some_and(|sample| self.waited(sample) > self.packet(loss).max(self.jitter));
            after <= most && (found_one || after <= self.packet(loss))
        });
        match (before, after) {
            (Some(before), Some(after)) => Some(before.min(after)),
            (before, after) => before.or(after),
        }
    }

    fn weight_of_queue(&self, queue: f64, loss: &Seen) -> f64 {
        if self.full <= (4.0 * self.packet(loss)).max(3.0 * self.jitter) {
            return QUEUE_NEVER_GREW;
        }
        let near = self.near(loss);
        let below = self.full - near - queue;
        match self.ceiling {
            _ if below > 0.0 => (1.0 + FAR_BELOW_FULL * below / near).min(FAR_BELOW_FULL),
            Ceiling::Possible => AT_FULL,
            Ceiling::Refuted => 0.0,
        }
    }

    /// Returns the weight of the time over which a row of lost packets was sent: a full queue accepts a packet whenever
    /// one has left it, so it drops no row that takes longer.
    fn weight_of_row(&self, loss: &Seen) -> f64 {
        let packet = self.packet(loss);
        let late = 4.0 * self.jitter;
        if packet <= 0.0 {
            return 0.0;
        }
        let taken = (loss.around.row as f64 - late) / (packet + late);
        (taken - 1.0).clamp(0.0, ALL_OF_A_ROW)
    }

    /// Returns the number of nanoseconds by which a full queue may appear shorter than the longest one.
    fn near(&self, loss: &Seen) -> f64 {
        (NEAR * self.full).max(2.5 * self.packet(loss)).max(2.0 * self.jitter)
    }

    /// Compares the arrival of the next neighbour with its expected arrivals: if the lost packets were dropped, and if
    /// they were on the link. A neighbour arrives no sooner than the minimum delay after it was sent, and no sooner
    /// than the link permits after the neighbour before.
    fn air(&self, loss: &Seen) -> Option<Air> {
        let (before, after) = (loss.around.before?, loss.around.after?);
        let per_byte = self.per_byte?;
        let bytes = after.volume.checked_sub(before.volume)? as f64 * per_byte;
        let missing = loss.around.missing as f64 * per_byte;
        let alone = after.sent.saturating_add(self.base) as f64;
        let behind = before.arrived as f64 + bytes;
        let dropped = alone.max(behind - missing);
        let differ = behind - dropped;
        let share = (after.arrived as f64 - dropped) / differ;
        let tells = differ > self.packet(loss) / 2.0 && differ > 2.0 * self.jitter && PLAUSIBLE.contains(&share);
        tells.then_some(Air { share, differ })
    }

    fn weight_of_air(&self, Air { share, differ }: Air) -> f64 {
        let deviation = 0.15 + 1.5 * self.jitter / differ;
        ((2.0 * share - 1.0) / (2.0 * deviation * deviation)).clamp(-MOST_OF_AIR, MOST_OF_AIR)
    }
}

/// Evidence from the time between a loss's neighbours.
#[derive(Clone, Copy, Debug)]
struct Air {
    /// Share of `differ` by which the next neighbour arrived later: 0 if the lost packets were not on the link, 1 if
    /// they were.
    share: f64,
    /// Additional delay if the lost packets were on the link, in nanoseconds.
    differ: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Repair, Side};
    use crate::path::Neighbours;
    use crate::sent::Around;

    const MILLI: i64 = 1_000_000;

    /// A link of 12 Mbps, 1 ms per 1,500 bytes, with a round trip of 11 ms; the sender fills its queue of 40 packets
    /// repeatedly.
    fn path() -> Path {
        let mut path = Path::default();
        for group in 0..50 {
            for number in 1..=40 {
                let sent = group * 50 * MILLI;
                let volume = (group * 40 + number) as u64 * 1500;
                path.take(
                    Sample { sent, arrived: sent + (10 + number) * MILLI, volume, end: volume },
                    Neighbours::Arrived,
                );
            }
        }
        path
    }

    /// The sender sends 50 packets after `before`, one per millisecond as its window opens, and all are lost. It then
    /// has to wait, and sends the next one after `pause`, which arrives after `delay`.
    fn fade(before: Sample, pause: i64, delay: i64) -> Seen {
        let sent = before.sent + 50 * MILLI + pause;
        let volume = before.volume + 51 * 1500;
        let after = Sample { sent, arrived: sent + delay, volume, end: volume };
        Seen {
            number: 1,
            repaired_by: 2,
            time: before.sent + 45 * MILLI,
            seq: 1,
            len: 1448,
            wire: 1500,
            volume: before.volume + 45 * 1500,
            passed: 1,
            repair: Repair::Fast,
            side: Side::Beyond,
            around: Around { before: Some(before), after: Some(after), missing: 50 * 1500, row: 0 },
            packet_len: 1448,
            sent_before: None,
        }
    }

    /// If the queue had dropped them, it would have been empty when the sender resumed: only packets on the link delay
    /// the next one.
    #[test]
    fn a_fade_that_outlasts_the_window_is_corruption() {
        let path = path();
        let judge = Judge::new(&path, Marks::None);
        let end = path.last().unwrap();
        let before = Sample {
            sent: end.sent + 50 * MILLI,
            arrived: end.sent + 100 * MILLI,
            volume: end.volume + 40 * 1500,
            end: end.end + 60_000,
        };
        for (pause, delay, air, cause) in [
            (0, 51, 1.0, Cause::Corruption),
            (30, 21, 1.0, Cause::Corruption),
            (0, 11, 0.0, Cause::Congestion),
            (30, 11, 0.0, Cause::Congestion),
        ] {
            let loss = fade(before, pause * MILLI, delay * MILLI);
            let verdict = judge.judge(&loss);
            assert!(verdict.air.is_some_and(|share| (share - air).abs() < 0.1), "{pause} ms: {verdict:?}");
            assert_eq!(verdict.cause, cause, "{pause} ms: {verdict:?}");
        }
        // After 60 ms the link is idle in either case, so the time shows nothing. However, a full queue accepts a
        // packet each millisecond.
        let mut late = fade(before, 60 * MILLI, 11 * MILLI);
        for (row, cause) in [(500_000, Cause::Congestion), (49 * MILLI, Cause::Corruption)] {
            late.around.row = row;
            let verdict = judge.judge(&late);
            assert_eq!((verdict.air, verdict.cause), (None, cause), "{verdict:?}");
        }
    }
}
