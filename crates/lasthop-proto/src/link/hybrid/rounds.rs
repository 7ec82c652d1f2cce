//! Round trips told apart by what was sent in them, and what each brought: a rate, a standing delay, losses, marks.

use super::budget::Budget;
use super::detect::Detector;
use super::sender::Anchor;
use crate::time::{Duration, Instant};

/// A round takes at least so long, and as long as so many frames: few would say little.
const SHORTEST: Duration = Duration::from_millis(50);
const FRAMES: u64 = 8;

/// The standing delay that is accepted, if it is more than that of 1.5 frames.
const TARGET: Duration = Duration::from_millis(5);

/// Frames of a step.
const STEP: u64 = 4;

/// Whether there was always something to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Supply {
    /// The hop waited for packets, or for the window.
    Limited,
    /// Packets waited for the pace.
    Ample,
}

/// What feedback told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub now: Instant,
    /// The newest transmission that arrived, if it was not known before.
    pub anchor: Option<Anchor>,
    /// Number of the next transmission.
    pub next: u64,
    /// Marked packets that arrived since the start. Wraps.
    pub marked: u32,
    /// What a frame of full size takes, and bytes of the hop's header.
    pub frame: Duration,
    pub header: u16,
}

/// A round that is over. What it measured was sent in the round before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    pub ended: Instant,
    /// Bits per second that the hop carried, what was lost to corruption included; none where that cannot be told.
    pub rate: Option<u64>,
    /// Of what it measured.
    pub supply: Supply,
    /// Of what was sent in it.
    pub demand: Supply,
    /// The least round trip in it above the shortest of 10 to 20 s.
    pub standing: Duration,
    /// The smoothed round trip, and by how much it is above the shortest.
    pub trip: Duration,
    pub above: Duration,
    /// Frames that arrived or were lost, those that were lost, and those of them that corruption does not explain.
    pub resolved: u64,
    pub lost: u64,
    pub excess: u64,
    /// Packets that were marked on the hop.
    pub marks: u32,
}

/// The round that goes on.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// It is over once something that was sent in it has arrived.
    mark: u64,
    started: Instant,
    /// The first that arrived of what the round before sent, the last, and the first that arrived of this round.
    from: Option<Anchor>,
    last: Option<Anchor>,
    to: Option<Anchor>,
    /// Where the last step ended.
    step: Option<Anchor>,
    /// Of what is sent now, and of what was sent in the round before.
    supply: [Supply; 2],
    /// [`Budget::totals`] when it began.
    totals: (u64, u64),
    /// [`Budget::loss`] when it began, and when the one before did: what these two lost themselves explains nothing of it.
    loss: [u64; 2],
    /// Marks that the other end has told of.
    told: u32,
    /// Those that left here already: in this round, and in the one before as far as they were not told of in it.
    own: [u32; 2],
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
            own: [0; 2],
        }
    }

    /// There is nothing to send although the pace allows it.
    pub fn on_idle(&mut self) {
        self.supply[0] = Supply::Limited;
    }

    /// A packet leaves that was marked before.
    pub fn on_marked_sent(&mut self) {
        self.own[0] = self.own[0].saturating_add(1);
    }

    /// Bits per second at which the last few frames arrived, once there are enough since this was told last.
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

    /// What feedback told has been taken in; the round that it ends.
    pub fn on_feedback(&mut self, heard: &Heard, detector: &mut Detector, budget: &Budget) -> Option<Round> {
        match heard.anchor {
            Some(anchor) if anchor.packet < self.mark => self.last = Some(anchor),
            Some(anchor) if self.to.is_none() => self.to = Some(anchor),
            Some(_) | None => {}
        }
        let to = self.to?;
        if heard.now < self.started + SHORTEST.max(heard.frame * FRAMES) {
            return None;
        }
        let trip = detector.round_trip();
        let above = trip.saturating_sub(detector.shortest());
        let standing = detector.take_least().map_or(Duration::ZERO, |least| least.saturating_sub(detector.shortest()));
        let (resolved, lost) = budget.totals();
        let (resolved, lost) = (resolved - self.totals.0, lost.saturating_sub(self.totals.1));
        let excess = lost.saturating_sub(expected(resolved, self.loss[1], budget.run()));
        let rate = self.from.and_then(|from| {
            // On slow hops feedback tells of few frames, and none may lie so that it was sent in that round alone.
            let middle = from.packet + to.packet.saturating_sub(from.packet) / 2;
            let end = self.last.filter(|last| last.packet > middle).unwrap_or(to);
            let frames = end.packet.saturating_sub(from.packet);
            // What a queue may have lost is not taken for corruption, where it is more than usual.
            let most = expected(frames, self.loss[1], budget.run());
            let usual =
                if above > target(heard.frame, detector.lag()) { frames * self.loss[1] / 1_000_000 } else { most };
            let explained = Explained { most, usual };
            carried(&from, &end, heard.header, explained)
        });
        // What leaves late in a round is told of in the next.
        let told = heard.marked.wrapping_sub(self.told).min(resolved as u32).saturating_sub(self.own[1]);
        let marks = told.saturating_sub(self.own[0]);
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
            own: [0, self.own[0].saturating_sub(told)],
        };
        Some(round)
    }
}

/// The standing delay that is accepted where a frame takes `frame`, and drivers are late by up to `lag`.
pub(super) fn target(frame: Duration, lag: Duration) -> Duration {
    TARGET.max(frame.saturating_mul(3) / 2) + lag
}

/// Losses among so many frames that corruption explains: the mean and two standard deviations, in whole runs, and one run; none
/// where nothing was lost to it.
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

/// Losses among some frames that corruption explains: at the most, and where there are more.
#[derive(Clone, Copy, Debug)]
struct Explained {
    most: u64,
    usual: u64,
}

/// Bits per second that the hop carried between two arrivals: what arrived, and what was lost to corruption. No faster than they were
/// sent: what the other end says can only make it slower.
fn carried(from: &Anchor, to: &Anchor, header: u16, explained: Explained) -> Option<u64> {
    let span = to.arrived.since(from.arrived).max(to.sent.since(from.sent)).as_nanos();
    let bytes = to.before.saturating_sub(from.before);
    let frames = to.packet.saturating_sub(from.packet);
    if span == 0 || bytes == 0 || frames == 0 {
        return None;
    }
    // It counts without headers.
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
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn anchor(packet: u64, sent: u64, arrived: u64) -> Anchor {
        let delivered = packet as u32 * 1200;
        Anchor { packet, before: packet * 1250, sent: at(sent), delivered, arrived: at(arrived) }
    }

    /// 10 frames of 1250 bytes, 50 of them the header, that were sent in 10 ms and arrive in 20: 5 Mbps. Arrivals closer to each other
    /// than the sending are not believed: 10 Mbps. Of ten frames five are lost: half arrived; corruption explains up to six of them: all
    /// were carried; it explains up to four, and usually two: seven tenths.
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

    /// Rounds end with what was sent in them; the second measures what the first sent.
    #[test]
    fn rounds_end_with_what_was_sent_in_them() {
        let (mut rounds, mut detector, mut budget) = (Rounds::new(), Detector::new(), Budget::new());
        let mut hear = |now: u64, packet: u64, next: u64| {
            detector.sample(at(now), Duration::from_millis(60), Duration::ZERO);
            budget.on_acked(at(now));
            let heard = Heard {
                now: at(now),
                anchor: Some(anchor(packet, now - 60, now)),
                next,
                marked: 0,
                frame: Duration::from_millis(1),
                header: 50,
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

    /// Two packets leave marked: one is told of in the same round, the other a round trip later, in the next. Neither was marked on the
    /// hop; the third mark that is told of was.
    #[test]
    fn a_mark_that_is_told_of_in_the_next_round_is_not_the_hop_s() {
        let (mut rounds, mut detector, mut budget) = (Rounds::new(), Detector::new(), Budget::new());
        let mut hear = |rounds: &mut Rounds, now: u64, marked: u32| {
            detector.sample(at(now), Duration::from_millis(60), Duration::ZERO);
            (0..10).for_each(|_| budget.on_acked(at(now)));
            let (anchor, frame) = (Some(anchor(now - 60, now - 60, now)), Duration::from_millis(1));
            let heard = Heard { now: at(now), anchor, next: now, marked, frame, header: 50 };
            rounds.on_feedback(&heard, &mut detector, &budget).map(|round| round.marks)
        };
        assert_eq!(hear(&mut rounds, 60, 0), Some(0));
        rounds.on_marked_sent();
        rounds.on_marked_sent();
        assert_eq!(
            [120, 180, 240].map(|now| hear(&mut rounds, now, (now / 60 - 1) as u32)),
            [Some(0), Some(0), Some(1)]
        );
    }
}
