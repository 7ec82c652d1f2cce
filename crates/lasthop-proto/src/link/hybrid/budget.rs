//! Budget for repair: the hop's loss rate, the lengths of its loss runs, and the redundancy that they justify.

use alloc::collections::VecDeque;
use core::ops::Range;

use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Number and length of the intervals over which losses are counted.
const SPANS: usize = 8;
const SPAN: Duration = Duration::from_millis(250);

/// Loss rate, in 10⁻⁶, below which redundancy ahead of losses is off: 0.2 %.
const ON: u64 = 2_000;

/// Target rate of packets that remain unrepaired at the deadline, in 10⁻⁶.
pub(super) const RESIDUAL: u64 = 500;

/// Target rate of a light flow's packets that wait for a retransmission, in 10⁻⁶: one in 20. Of 100 exchanges of a
/// packet each way, at most one then waits for two.
const WAITING: u64 = 50_000;

/// Maximum number of copies sent ahead of a loss.
const MOST_COPIES: u8 = 2;

/// Maximum number of transmissions in the last round.
const MOST_IN_ROUND: u8 = 6;

/// Divisor of the rate that yields the rate of redundancy (1/7, 15 %), and maximum credit for redundancy.
const SHARE: u64 = 7;
const SAVED: Duration = Duration::from_millis(200);

/// Length of a trial of coded frames, and minimum number of frames in it. Coded frames continue after a trial if one of
/// 50 was useful, and are otherwise off for the same time.
const TRIAL: Duration = Duration::from_secs(10);
const ENOUGH: u64 = 50;

/// Maximum run of losses, in frames, that separates copies.
const LONGEST_RUN: u64 = 32;

/// Length of a run of one loss, in 1/16 frame.
pub(super) const SINGLE: u64 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    resolved: u64,
    lost: u64,
}

/// Statistics of the hop's losses.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// Recent intervals, the current one last.
    spans: VecDeque<Count>,
    until: Instant,
    /// Mean length of a run of losses, in 1/16 frame.
    run: u64,
    /// The latest run: the packet number after it, and its length.
    open: (u64, u64),
    /// Time at which the redundancy sent so far would be complete at its full share.
    spent: Instant,
    /// Number of coded frames in this trial, number reported useful, previous report, and end of the trial.
    coded: u64,
    useful: u64,
    told: u32,
    trial: Instant,
    /// End of the period without coded frames, after coded frames were of no use.
    off_until: Instant,
    /// Frames that arrived or were lost, and lost frames, since the start, regardless of the cause.
    totals: (u64, u64),
    /// On if losses are currently not attributed to the hop.
    frozen: Switch,
    /// Time of the last loss.
    last_loss: Option<Instant>,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            spans: VecDeque::new(),
            until: Instant::ZERO,
            run: 16,
            open: (0, 0),
            spent: Instant::ZERO,
            coded: 0,
            useful: 0,
            told: 0,
            trial: Instant::ZERO,
            off_until: Instant::ZERO,
            totals: (0, 0),
            frozen: Switch::Off,
            last_loss: None,
        }
    }

    /// Sets whether losses are ignored: losses to congestion are not the hop's.
    pub fn freeze(&mut self, frozen: Switch) {
        self.frozen = frozen;
    }

    /// Removes `lost` of the last losses, which were not the hop's.
    pub fn take_back(&mut self, mut lost: u64) {
        for count in self.spans.iter_mut().rev() {
            let here = count.lost.min(lost);
            (count.lost, lost) = (count.lost - here, lost - here);
        }
    }

    /// Returns the number of frames that arrived or were lost since the start, and of lost ones.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Returns the mean length of a run of losses, in 1/16 frame.
    pub fn run(&self) -> u64 {
        self.run
    }

    fn turn(&mut self, now: Instant) {
        if self.frozen.is_on() {
            self.until = now + SPAN;
            return;
        }
        if now < self.until && !self.spans.is_empty() {
            return;
        }
        let passed = now.since(self.until).as_nanos() / SPAN.as_nanos() + 1;
        for _ in 0..passed.min(SPANS as u64) {
            if self.spans.len() == SPANS {
                self.spans.pop_front();
            }
            self.spans.push_back(Count::default());
        }
        self.until = now + SPAN;
    }

    /// Records that a frame arrived.
    pub fn on_acked(&mut self, now: Instant) {
        self.totals.0 += 1;
        self.turn(now);
        if let Some(count) = self.spans.back_mut().filter(|_| !self.frozen.is_on()) {
            count.resolved += 1;
        }
    }

    /// Records that the frame with that number was lost.
    pub fn on_lost(&mut self, now: Instant, packet: u64) {
        self.totals = (self.totals.0 + 1, self.totals.1 + 1);
        self.turn(now);
        if self.frozen.is_on() {
            return;
        }
        self.last_loss = Some(now);
        if let Some(count) = self.spans.back_mut() {
            count.resolved += 1;
            count.lost += 1;
        }
        let (next, length) = self.open;
        if packet == next && length > 0 {
            self.open = (packet + 1, length + 1);
        } else {
            if length > 0 {
                self.run = (self.run * 15 + length.min(LONGEST_RUN) * 16) / 16;
            }
            self.open = (packet.saturating_add(1), 1);
        }
    }

    /// Records that a frame declared lost arrived.
    pub fn on_spurious(&mut self) {
        self.totals.1 = self.totals.1.saturating_sub(1);
        if let Some(count) = self.spans.iter_mut().rev().find(|count| count.lost > 0) {
            count.lost -= 1;
        }
    }

    /// Records that time has passed.
    pub fn on_time(&mut self, now: Instant) {
        self.turn(now);
    }

    /// Returns the loss rate of the last 2 s, in 10⁻⁶.
    pub fn loss(&self) -> u64 {
        let (resolved, lost) =
            self.spans.iter().fold((0, 0), |(all, lost), count| (all + count.resolved, lost + count.lost));
        // A few frames show little.
        lost * 1_000_000 / resolved.max(50)
    }

    /// Returns the time of the last loss. A path that carries few frames shows its loss rate slowly.
    pub fn last_loss(&self) -> Option<Instant> {
        self.last_loss
    }

    /// Returns the distance between copies, in frames, at which one run of losses does not destroy both.
    pub fn apart(&self) -> u64 {
        (self.run.div_ceil(16) + 1).max(2)
    }

    /// Returns the number of transmissions in the `round`-th retransmission round of a packet.
    pub fn transmissions(round: u8) -> u8 {
        round.clamp(1, 3)
    }

    /// Returns the number of transmissions in the `round`-th and last retransmission round of a packet: as many more
    /// as reduce the share of packets that stay lost to `residual`, in 10⁻⁹.
    pub fn last_transmissions(&self, round: u8, residual: u64) -> u8 {
        let before = 1 + (1..round).map(Self::transmissions).sum::<u8>();
        let loss = self.loss();
        least_count(
            Self::transmissions(round)..MOST_IN_ROUND,
            residual,
            missing_after(1_000_000_000, before, loss),
            loss,
        )
    }

    /// Returns the number of copies to send with a real-time packet that is useful for `left`, on a hop with the round
    /// trip `trip`.
    pub fn copies(&self, left: Duration, trip: Duration) -> u8 {
        let loss = self.loss();
        if loss < ON {
            return 0;
        }
        // A round takes a round trip and the time to detect a loss; the last one must arrive in time.
        let round = trip + trip / 8 + Duration::from_millis(5);
        let rounds = left.saturating_sub(trip / 2).as_nanos() / round.as_nanos().max(1);
        let missing = missing_after(1_000_000, rounds.min(4) as u8 + 1, loss);
        least_count(0..MOST_COPIES, RESIDUAL, missing, loss)
    }

    /// Returns the number of copies to send with a real-time packet of a flow with a negligible rate, so that few
    /// packets wait for a retransmission.
    pub fn prompt_copies(&self) -> u8 {
        let loss = self.loss();
        if loss < ON { 0 } else { least_count(0..MOST_COPIES, WAITING, loss, loss) }
    }

    /// Records a coded frame sent ahead of a loss.
    pub fn on_coded(&mut self, now: Instant) {
        if now >= self.trial {
            if self.coded >= ENOUGH && self.useful * 50 < self.coded {
                self.off_until = now + TRIAL;
            }
            (self.coded, self.useful, self.trial) = (0, 0, now + TRIAL);
        }
        self.coded += 1;
    }

    /// Records the other end's count of useful coded frames.
    pub fn on_useful(&mut self, told: u32) {
        // A count that decreases, or exceeds the number sent, gives no advantage.
        self.useful = (self.useful + u64::from(told.wrapping_sub(self.told))).min(self.coded);
        self.told = told;
    }

    /// Returns whether coded frames ahead of losses are worthwhile: there are losses, and coded frames were useful.
    pub fn is_on(&self, now: Instant) -> bool {
        self.loss() >= ON && self.was_useful(now)
    }

    /// Returns whether coded frames were useful lately, as far as any were sent.
    pub fn was_useful(&self, now: Instant) -> bool {
        now >= self.off_until
    }

    /// Returns whether redundancy that takes `time` on the hop fits its share now.
    pub fn allows(&self, now: Instant, time: Duration) -> bool {
        self.spent + time.saturating_mul(SHARE) <= now + SAVED
    }

    /// Charges redundancy that takes `time`.
    pub fn spend(&mut self, now: Instant, time: Duration) {
        self.spent = self.spent.max(now) + time.saturating_mul(SHARE);
    }
}

/// Returns the number of losses to expect among `frames` frames at a loss rate of `loss` (in 10⁻⁶), in runs with a mean
/// length of `run` (in 1/16 frame): the mean and two standard deviations, for geometric lengths.
pub(super) fn expected_losses(frames: u64, loss: u64, run: u64) -> u64 {
    // In 10⁻⁶ and 10⁻¹².
    let mean = frames * loss;
    let variance = mean * (2 * run).saturating_sub(SINGLE) / SINGLE * 1_000_000;
    (mean + 2 * variance.isqrt()).div_ceil(1_000_000)
}

/// Returns the least count of `counts` after which at most the share `most` of the packets is missing, of which `missing`
/// are before, or the end of `counts`.
fn least_count(counts: Range<u8>, most: u64, missing: u64, loss: u64) -> u8 {
    let end = counts.end;
    counts.into_iter().find(|count| missing_after(missing, *count, loss) <= most).unwrap_or(end)
}

/// Returns the share of packets that are missing after `count` transmissions of each, of which `loss` (in 10⁻⁶) are
/// lost, if `missing` are before.
fn missing_after(missing: u64, count: u8, loss: u64) -> u64 {
    (0..count).fold(missing, |missing, _| missing * loss / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// One loss in ten for a second, then none: the estimate is reached within 2 s, and returns to zero within 2 s of
    /// the last loss.
    #[test]
    fn the_estimate_follows() {
        let mut budget = Budget::new();
        for packet in 0..1_000 {
            let now = at(packet);
            if packet % 10 == 0 { budget.on_lost(now, packet) } else { budget.on_acked(now) }
        }
        assert_eq!(budget.loss(), 100_000);
        (1_000..3_250).for_each(|packet| budget.on_acked(at(packet)));
        assert_eq!(budget.loss(), 0);
        for packet in 4_000..4_010 {
            budget.on_lost(at(packet), packet);
        }
        budget.on_time(at(9_000));
        assert_eq!(budget.loss(), 0);
    }

    #[test]
    fn copies_stay_apart_by_a_run() {
        let mut budget = Budget::new();
        assert_eq!(budget.apart(), 2);
        for run in 0..200 {
            (0..12).for_each(|index| budget.on_lost(at(run), run * 100 + index));
        }
        assert_eq!(budget.apart(), 13);
    }

    /// At 10 % loss and with a deadline of 100 ms, a hop of 60 ms has no time for a second try; a hop of 10 ms has time
    /// for several.
    #[test]
    fn copies_make_up_for_rounds() {
        let mut budget = Budget::new();
        assert_eq!(budget.copies(Duration::from_millis(100), Duration::from_millis(60)), 0);
        for packet in 0..1_000 {
            if packet % 10 == 0 { budget.on_lost(at(0), packet) } else { budget.on_acked(at(0)) }
        }
        assert_eq!(budget.copies(Duration::from_millis(90), Duration::from_millis(60)), 2);
        assert_eq!(budget.copies(Duration::from_millis(90), Duration::from_millis(10)), 0);
    }

    /// The first transmission of one packet in 20 may be lost: at 4 % without a copy, at 10 % with one, at 30 % with
    /// two.
    #[test]
    fn few_packets_of_light_flows_wait_for_a_repeat() {
        for (every, copies) in [(1_000, 0), (25, 0), (10, 1), (3, 2)] {
            let mut budget = Budget::new();
            assert_eq!(budget.prompt_copies(), 0);
            for packet in 0..3_000 {
                if packet % every == 0 { budget.on_lost(at(0), packet) } else { budget.on_acked(at(0)) }
            }
            assert_eq!(budget.prompt_copies(), copies, "one of {every}");
        }
    }

    #[test]
    fn redundancy_keeps_to_its_share() {
        let mut budget = Budget::new();
        let frame = Duration::from_millis(1);
        let mut sent = 0;
        for now in 0..10_000 {
            if budget.allows(at(now), frame) {
                budget.spend(at(now), frame);
                sent += 1;
            }
        }
        assert!((1_428..=1_460).contains(&sent), "{sent}");
    }
}
