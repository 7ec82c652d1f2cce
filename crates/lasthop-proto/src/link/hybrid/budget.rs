//! How much repair is worth: what the hop loses, in which runs, and what may be spent against it.

use alloc::collections::VecDeque;

use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};

/// Losses are taken over so many spans.
const SPANS: usize = 8;
const SPAN: Duration = Duration::from_millis(250);

/// Redundancy ahead of losses is off below this share of losses, in 10⁻⁶: 0.2 %.
const ON: u64 = 2_000;

/// Share of packets in 10⁻⁶ that may be left unrepaired at the deadline.
const RESIDUAL: u64 = 500;

/// Share of packets in 10⁻⁶ of a light flow that may wait for a repeat, one in 20: then of 100 exchanges, a packet each way, one at
/// most waits for two.
const WAITING: u64 = 50_000;

/// Most copies that go out ahead of a loss.
const MOST_COPIES: u8 = 2;

/// Redundancy may take this share of the rate, a 7th (15 %), and save up so much of it.
const SHARE: u64 = 7;
const SAVED: Duration = Duration::from_millis(200);

/// Coded frames are tried for so long, and go on if one of 50 was of use; then they are off for as long. A trial needs some.
const TRIAL: Duration = Duration::from_secs(10);
const ENOUGH: u64 = 50;

/// The longest run of losses that copies are kept apart for, in frames.
const LONGEST_RUN: u64 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    resolved: u64,
    lost: u64,
}

/// What is known of the hop's losses.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// The last spans, the current one last.
    spans: VecDeque<Count>,
    until: Instant,
    /// Mean length of a run of losses, in 1/16 frame.
    run: u64,
    /// The run that may go on: the packet number after it, and its length.
    open: (u64, u64),
    /// When redundancy at its full share would have been sent that was.
    spent: Instant,
    /// Coded frames of this trial and those that the other end found useful, its count before, and when the trial ends.
    coded: u64,
    useful: u64,
    told: u32,
    trial: Instant,
    /// Coded frames were of no use: none until then.
    off_until: Instant,
    /// Frames that arrived or were lost, and those that were lost, since the start, whatever took them.
    totals: (u64, u64),
    /// What is lost meanwhile says nothing of the hop.
    frozen: Switch,
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
        }
    }

    /// From now on losses count, or do not: those of congestion are not the hop's.
    pub fn freeze(&mut self, frozen: Switch) {
        self.frozen = frozen;
    }

    /// So many of the last losses were none of the hop's.
    pub fn take_back(&mut self, mut lost: u64) {
        for count in self.spans.iter_mut().rev() {
            let here = count.lost.min(lost);
            (count.lost, lost) = (count.lost - here, lost - here);
        }
    }

    /// Frames that arrived or were lost since the start, and those of them that were lost.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }

    /// Mean length of a run of losses, in 1/16 frame.
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

    /// A frame arrived.
    pub fn on_acked(&mut self, now: Instant) {
        self.totals.0 += 1;
        self.turn(now);
        if let Some(count) = self.spans.back_mut().filter(|_| !self.frozen.is_on()) {
            count.resolved += 1;
        }
    }

    /// The frame of that number was lost.
    pub fn on_lost(&mut self, now: Instant, packet: u64) {
        self.totals = (self.totals.0 + 1, self.totals.1 + 1);
        self.turn(now);
        if self.frozen.is_on() {
            return;
        }
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

    /// What was held lost arrived.
    pub fn on_spurious(&mut self) {
        self.totals.1 = self.totals.1.saturating_sub(1);
        if let Some(count) = self.spans.iter_mut().rev().find(|count| count.lost > 0) {
            count.lost -= 1;
        }
    }

    /// Time passed.
    pub fn on_time(&mut self, now: Instant) {
        self.turn(now);
    }

    /// The share of frames that were lost in the last 2 s, in 10⁻⁶.
    pub fn loss(&self) -> u64 {
        let (resolved, lost) =
            self.spans.iter().fold((0, 0), |(all, lost), count| (all + count.resolved, lost + count.lost));
        // A few frames say little.
        lost * 1_000_000 / resolved.max(50)
    }

    /// Frames by which copies are to be apart, so that one run of losses does not take both.
    pub fn apart(&self) -> u64 {
        (self.run.div_ceil(16) + 1).max(2)
    }

    /// Transmissions in the `round`-th resend of a packet.
    pub fn transmissions(round: u8) -> u8 {
        round.clamp(1, 3)
    }

    /// Copies to send with a real-time packet that is worth `left` on a hop of that round trip.
    pub fn copies(&self, left: Duration, trip: Duration) -> u8 {
        let loss = self.loss();
        if loss < ON {
            return 0;
        }
        // A round takes a round trip and what finding a loss takes; the last must arrive in time.
        let round = trip + trip / 8 + Duration::from_millis(5);
        let rounds = left.saturating_sub(trip / 2).as_nanos() / round.as_nanos().max(1);
        let mut missing = 1_000_000;
        for _ in 0..=rounds.min(4) {
            missing = missing * loss / 1_000_000;
        }
        copies_to(RESIDUAL, missing, loss)
    }

    /// Copies to send with a real-time packet of a flow that takes next to nothing of the rate, so that few wait for a repeat.
    pub fn prompt_copies(&self) -> u8 {
        let loss = self.loss();
        if loss < ON { 0 } else { copies_to(WAITING, loss, loss) }
    }

    /// A coded frame goes out ahead of a loss.
    pub fn on_coded(&mut self, now: Instant) {
        if now >= self.trial {
            if self.coded >= ENOUGH && self.useful * 50 < self.coded {
                self.off_until = now + TRIAL;
            }
            (self.coded, self.useful, self.trial) = (0, 0, now + TRIAL);
        }
        self.coded += 1;
    }

    /// The other end's count of useful coded frames.
    pub fn on_useful(&mut self, told: u32) {
        // One that counts backwards, or more than was sent, gains nothing by it.
        self.useful = (self.useful + u64::from(told.wrapping_sub(self.told))).min(self.coded);
        self.told = told;
    }

    /// Whether coded frames ahead of losses are worth it: something is lost, and they were of use.
    pub fn is_on(&self, now: Instant) -> bool {
        self.loss() >= ON && now >= self.off_until
    }

    /// Whether redundancy that takes `time` on the hop fits its share now.
    pub fn allows(&self, now: Instant, time: Duration) -> bool {
        self.spent + time.saturating_mul(SHARE) <= now + SAVED
    }

    /// Redundancy that takes `time` goes out.
    pub fn spend(&mut self, now: Instant, time: Duration) {
        self.spent = self.spent.max(now) + time.saturating_mul(SHARE);
    }
}

/// Copies that bring a share of what is `missing` down to `most`, all in 10⁻⁶.
fn copies_to(most: u64, missing: u64, loss: u64) -> u8 {
    (0..MOST_COPIES)
        .find(|copies| (0..*copies).fold(missing, |missing, _| missing * loss / 1_000_000) <= most)
        .unwrap_or(MOST_COPIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// One of ten for a second, then none: the estimate is there in 2 s and gone 2 s after the last.
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

    /// 10 % loss, 100 ms: a hop of 60 ms has no time for a second try, one of 10 ms for several.
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

    /// Of one packet in 20 the first transmission may be lost: at 4 % without a copy, at 10 % with one, at 30 % with two.
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
