//! Round trips delimited by the transmissions in them, and their measurements: rate, standing delay, losses, marks.

use super::budget::Budget;
use super::detect::Detector;
use super::transmissions::Anchor;
use crate::time::{Duration, Instant};

/// Minimum duration of a round, in time and in frames: fewer frames would show little.
const SHORTEST: Duration = Duration::from_millis(50);
const FRAMES: u64 = 8;

/// Minimum duration of a round over several paths, in maximum delays by reordering: the times of its first and last
/// arrival vary by them.
const STEADY: u64 = 4;

/// Accepted standing delay, or 1.5 frames if that is more.
const TARGET: Duration = Duration::from_millis(5);

/// Number of rounds for which the report of a packet that left marked is awaited: the other end reports it a round
/// later, and a retransmission takes two more.
const OWN: usize = 4;

/// Number of frames in a step.
const STEP: u64 = 4;

/// Indicates whether there was always data to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Supply {
    /// The hop waited for packets, or for the window.
    Limited,
    /// Packets waited for the pace.
    Ample,
}

/// Contents of feedback.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub now: Instant,
    /// Latest transmission that arrived, if it was not known before.
    pub anchor: Option<Anchor>,
    /// Indicates that this arrival ended an outage.
    pub outage: bool,
    /// Number of the next transmission.
    pub next: u64,
    /// Number of marked packets that arrived since the start. Wraps.
    pub marked: u32,
    /// Transmission time of a full-size frame, and length of the hop's header in bytes.
    pub frame: Duration,
    pub header: u16,
    /// Indicates that there are several paths.
    pub is_multipath: bool,
}

/// A completed round. It measures the frames sent in the previous round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    pub ended: Instant,
    /// Rate that the hop carried, in bits per second, including corrupted frames; `None` if unknown.
    pub rate: Option<u64>,
    /// Supply during the measured transmissions.
    pub supply: Supply,
    /// Supply during the transmissions of the round itself.
    pub demand: Supply,
    /// Minimum round trip in the round minus the minimum of the last 10 to 20 s.
    pub standing: Duration,
    /// Smoothed round trip, and its excess over the minimum.
    pub trip: Duration,
    pub above: Duration,
    /// Number of frames that arrived or were lost, of lost ones, and of losses that corruption does not explain.
    pub resolved: u64,
    pub lost: u64,
    pub excess: u64,
    /// Number of packets marked on the hop.
    pub marks: u32,
    /// Indicates that it includes an outage, or measures transmissions of such a round: its losses and its rate show
    /// nothing of the hop's capacity.
    pub outage: bool,
}

/// The current round.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// Number of a transmission: the round ends when it or a later one has arrived.
    mark: u64,
    started: Instant,
    /// First and last arrival of the previous round's transmissions, and first of this round's.
    from: Option<Anchor>,
    last: Option<Anchor>,
    to: Option<Anchor>,
    /// End of the last step.
    step: Option<Anchor>,
    /// Supply of this round, and of the previous one.
    supply: [Supply; 2],
    /// [`Budget::totals`] at the start of the round.
    totals: (u64, u64),
    /// [`Budget::loss`] at the start of this round and of the previous one. Losses of these two rounds themselves must
    /// not explain any of them.
    loss: [u64; 2],
    /// Number of marks that the other end has reported.
    told: u32,
    /// Packets that left already marked in this round and the previous ones, latest first, and are not reported yet.
    own: [u32; OWN],
    /// Indicates an outage in this round, and in the previous ones, latest first.
    outages: [bool; 3],
}

impl Rounds {
    pub fn new() -> Self {
        Self {
            mark: 0,
            started: Instant::ZERO,
            from: None,
            last: None,
            to: None,
            step: None,
            supply: [Supply::Limited; 2],
            totals: (0, 0),
            loss: [0; 2],
            told: 0,
            own: [0; OWN],
            outages: [false; 3],
        }
    }

    /// Records that there is nothing to send although the pace allows it.
    pub fn on_idle(&mut self) {
        self.supply[0] = Supply::Limited;
    }

    /// Records a packet that left already marked.
    pub fn on_marked_sent(&mut self) {
        self.own[0] = self.own[0].saturating_add(1);
    }

    /// Returns the rate at which the last few frames arrived, in bits per second, once there are enough since the last
    /// call.
    pub fn step(&mut self, anchor: Anchor, header: u16) -> Option<u64> {
        let Some(step) = self.step else {
            self.step = Some(anchor);
            return None;
        };
        if anchor.packet < step.packet + STEP {
            return None;
        }
        self.step = Some(anchor);
        carried(&step, &anchor, header, Explained { most: 0, usual: 0 })
    }

    /// Processes feedback, and returns the round that it completes.
    pub fn on_feedback(&mut self, heard: &Heard, detector: &mut Detector, budget: &Budget) -> Option<Round> {
        // Gaps in consecutive rounds are those of a hop that has become slow.
        self.outages[0] |= heard.outage && self.outages[1..] == [false; 2];
        match heard.anchor {
            Some(anchor) if anchor.packet < self.mark => self.last = Some(anchor),
            Some(anchor) if self.to.is_none() => self.to = Some(anchor),
            Some(_) | None => {}
        }
        let to = self.to?;
        let lateness = detector.lateness();
        let jitter = if heard.is_multipath { lateness } else { detector.jitter() };
        let steady = if heard.is_multipath { lateness.saturating_mul(STEADY) } else { Duration::ZERO };
        if heard.now < self.started + SHORTEST.max(heard.frame * FRAMES).max(steady) {
            return None;
        }
        let trip = detector.round_trip();
        let queueless = detector.shortest() + jitter;
        let above = trip.saturating_sub(queueless);
        let standing = detector.take_least().map_or(Duration::ZERO, |least| least.saturating_sub(queueless));
        let (resolved, lost) = budget.totals();
        let (resolved, lost) = (resolved - self.totals.0, lost.saturating_sub(self.totals.1));
        let excess = lost.saturating_sub(expected(resolved, self.loss[1], budget.run()));
        let rate = self.from.and_then(|from| {
            // On slow hops feedback reports few frames, and none of them may belong to that round alone.
            let middle = from.packet + to.packet.saturating_sub(from.packet) / 2;
            let end = self.last.filter(|last| last.packet > middle).unwrap_or(to);
            let frames = end.packet.saturating_sub(from.packet);
            // If delay exceeds the target, possible drops from a queue count as corruption only up to the usual loss
            // rate.
            let most = expected(frames, self.loss[1], budget.run());
            let usual =
                if above > target(heard.frame, detector.lag()) { frames * self.loss[1] / 1_000_000 } else { most };
            let explained = Explained { most, usual };
            carried(&from, &end, heard.header, explained)
        });
        let mut marks = heard.marked.wrapping_sub(self.told).min(resolved as u32);
        let mut own = self.own;
        for own in own.iter_mut().rev() {
            let here = marks.min(*own);
            (marks, *own) = (marks - here, *own - here);
        }
        own.rotate_right(1);
        own[0] = 0;
        let round = Round {
            ended: heard.now,
            rate,
            supply: self.supply[1],
            demand: self.supply[0],
            standing,
            trip,
            above,
            resolved,
            lost,
            excess,
            marks,
            outage: self.outages[0] || self.outages[1],
        };
        *self = Self {
            mark: heard.next,
            started: heard.now,
            from: Some(to),
            last: None,
            to: None,
            step: self.step,
            supply: [Supply::Ample, self.supply[0]],
            totals: budget.totals(),
            loss: [budget.loss(), self.loss[0]],
            told: heard.marked,
            own,
            outages: [false, self.outages[0], self.outages[1]],
        };
        Some(round)
    }
}

/// Returns the accepted standing delay for frames of duration `frame` and a scheduling slack of `lag`.
pub(super) fn target(frame: Duration, lag: Duration) -> Duration {
    TARGET.max(frame.saturating_mul(3) / 2) + lag
}

/// Returns the number of losses among `frames` frames that corruption explains: the mean and two standard deviations,
/// in whole runs, and one run; 0 without corruption.
fn expected(frames: u64, loss: u64, run: u64) -> u64 {
    // In 10⁻⁶.
    let mean = frames * loss;
    if mean == 0 {
        return 0;
    }
    // In 1/16.
    let run = run.div_ceil(16).max(1);
    (mean + 2 * mean.saturating_mul(run * 1_000_000).isqrt()) / 1_000_000 + run
}

/// Losses that corruption explains: the maximum, and the number to assume if there are more.
#[derive(Clone, Copy, Debug)]
struct Explained {
    most: u64,
    usual: u64,
}

/// Returns the rate that the hop carried between two arrivals, in bits per second: arrivals and corrupted frames. It is
/// at most the sending rate: reports from the other end can only decrease it.
fn carried(from: &Anchor, to: &Anchor, header: u16, explained: Explained) -> Option<u64> {
    let span = to.arrived.since(from.arrived).max(to.sent.since(from.sent)).as_nanos();
    let bytes = to.before.saturating_sub(from.before);
    let frames = to.packet.saturating_sub(from.packet);
    if span == 0 || bytes == 0 || frames == 0 {
        return None;
    }
    // The count excludes headers.
    let bare = bytes.saturating_sub(frames * u64::from(header)).max(1);
    let arrived = u128::from(to.delivered.wrapping_sub(from.delivered)) * u128::from(bytes) / u128::from(bare);
    let missing = u128::from(bytes).saturating_sub(arrived);
    let of = |lost: u64| u128::from(bytes / frames) * u128::from(lost);
    let corrupted = missing.min(if missing > of(explained.most) { of(explained.usual) } else { missing });
    let carried = (arrived + corrupted).min(bytes.into());
    u64::try_from(carried * 8 * 1_000_000_000 / u128::from(span)).ok()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn anchor(packet: u64, sent: u64, arrived: u64) -> Anchor {
        let delivered = packet as u32 * 1200;
        Anchor { packet, before: packet * 1250, sent: at(sent), delivered, arrived: at(arrived) }
    }

    /// 10 frames of 1250 bytes, 50 of them the header, sent in 10 ms, arrive in 20: 5 Mbps. Arrivals closer together
    /// than the transmissions are not accepted: 10 Mbps. If five of ten frames are lost, half arrived. If corruption
    /// explains up to six of them, all were carried; if it explains up to four, and usually two, seven tenths.
    #[test]
    fn a_rate_by_hand() {
        let from = anchor(0, 0, 50);
        let rate = |to, most, usual| carried(&from, &to, 50, Explained { most, usual });
        assert_eq!(rate(anchor(10, 10, 70), 0, 0), Some(5_000_000));
        assert_eq!(rate(anchor(10, 10, 51), 0, 0), Some(10_000_000));
        let half = Anchor { delivered: 6_000, ..anchor(10, 10, 70) };
        assert_eq!([rate(half, 0, 0), rate(half, 6, 2), rate(half, 4, 2)], [2_500_000, 5_000_000, 3_500_000].map(Some));
        let lie = Anchor { delivered: u32::MAX, ..anchor(10, 10, 70) };
        assert_eq!(rate(lie, 0, 0), Some(5_000_000));
        assert_eq!(rate(anchor(10, 0, 50), 0, 0), None);
    }

    #[test]
    fn a_queue_of_one_and_a_half_frames_is_none() {
        let ms = Duration::from_millis;
        assert_eq!([target(ms(1), ms(0)), target(ms(12), ms(3))], [ms(5), ms(21)]);
    }

    /// Rounds end with the transmissions in them; the second measures what the first sent.
    #[test]
    fn rounds_end_with_what_was_sent_in_them() {
        let (mut rounds, mut detector, mut budget) = (Rounds::new(), Detector::new(), Budget::new());
        let mut hear = |now: u64, packet: u64, next: u64| {
            detector.sample(at(now), Duration::from_millis(60), Duration::ZERO);
            budget.on_acked(at(now));
            let heard = Heard {
                now: at(now),
                anchor: Some(anchor(packet, now - 60, now)),
                outage: false,
                next,
                marked: 0,
                frame: Duration::from_millis(1),
                header: 50,
                is_multipath: false,
            };
            rounds.on_feedback(&heard, &mut detector, &budget)
        };
        assert_eq!(hear(60, 0, 60).and_then(|round| round.rate), None);
        assert_eq!(hear(90, 30, 90), None);
        assert_eq!(hear(119, 59, 119), None);
        let round = hear(120, 60, 120).unwrap();
        assert_eq!((round.rate, round.supply, round.demand), (Some(10_000_000), Supply::Limited, Supply::Ample));
        let round = hear(180, 120, 180).unwrap();
        assert_eq!((round.supply, round.demand, round.standing), (Supply::Ample, Supply::Ample, Duration::ZERO));
    }
    /// A packet that left marked is reported one round later, or three rounds later if it was lost: neither was marked
    /// on the hop. A second mark in addition was set on the hop, as was a mark after the time for reports has passed.
    #[test]
    fn own_marks_are_not_the_hops() {
        let (mut rounds, mut detector, mut budget) = (Rounds::new(), Detector::new(), Budget::new());
        let mut told = 0;
        let mut round = |number: u64, own: u32, marked: u32| {
            (0..own).for_each(|_| rounds.on_marked_sent());
            told += marked;
            let now = number * 60;
            detector.sample(at(now), Duration::from_millis(60), Duration::ZERO);
            (0..60).for_each(|_| budget.on_acked(at(now)));
            let heard = Heard {
                now: at(now),
                anchor: Some(anchor(number * 60, now - 60, now)),
                outage: false,
                next: (number + 1) * 60,
                marked: told,
                frame: Duration::from_millis(1),
                header: 50,
                is_multipath: false,
            };
            rounds.on_feedback(&heard, &mut detector, &budget).map(|round| round.marks)
        };
        let sent_and_told = [
            (1, 0),
            (0, 1),
            (2, 0),
            (0, 1),
            (0, 0),
            (0, 1),
            (0, 1),
            (1, 0),
            (0, 2),
            (1, 0),
            (0, 0),
            (0, 0),
            (0, 0),
            (0, 1),
        ];
        let marks: Vec<_> =
            (1..).zip(sent_and_told).map(|(number, (own, marked))| round(number, own, marked)).collect();
        assert_eq!(marks, [0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1].map(Some));
    }
}
