//! Distinction of congestion from corruption, for given and for estimated rates; and the circuit breaker (RFC 8084).

use alloc::collections::VecDeque;

use super::rounds::Round;
use crate::time::{Duration, Instant};

/// Time without feedback after which congestion is no longer assumed.
const MEMORY: Duration = Duration::from_secs(1);

/// Number and length of the intervals that the breaker examines, and the loss in percent above which it acts if every
/// interval exceeds it. An outage that has ended, whose losses are all detected at once, does not trigger it.
const SPANS: usize = 10;
const SPAN: Duration = Duration::from_secs(1);
const BROKEN: u64 = 30;
/// Loss in percent below which the breaker closes again.
const MENDED: u64 = 20;
/// Number of frames below which the intervals are inconclusive.
const ENOUGH: u64 = 100;

/// Measures that an end currently takes against losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No losses that would justify repair ahead of losses.
    Silent,
    /// Losses are repaired.
    Repairing,
    /// The hop is full: no code, one retransmission of a packet.
    Congested,
    /// The hop loses too much for repair to be justified: no code, no retransmissions.
    Broken,
}

impl State {
    /// Returns the state's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Repairing => "repairing",
            Self::Congested => "congested",
            Self::Broken => "breaker",
        }
    }
}

/// State of congestion detection.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    /// Number of consecutive rounds with signs of congestion, and of packets marked in them.
    rounds: u32,
    marks: u32,
    until: Instant,
    /// Counts for each of the last seconds: frames, lost frames, and signs that the hop was full. The current second is
    /// the last entry.
    seconds: VecDeque<(u64, u64, u32)>,
    turn: Instant,
    broken: Option<Instant>,
}

impl Congestion {
    pub fn new() -> Self {
        let (until, turn) = (Instant::ZERO, Instant::ZERO);
        Self { rounds: 0, marks: 0, until, seconds: VecDeque::new(), turn, broken: None }
    }

    /// Evaluates a completed round. `signs` indicates whether the hop was full in that round.
    pub fn on_round(&mut self, round: &Round, signs: Signs) {
        self.rounds = if signs == Signs::Full { self.rounds.saturating_add(1) } else { 0 };
        self.marks = if signs == Signs::Full { self.marks.saturating_add(round.marks) } else { 0 };
        self.until = round.ended + round.trip.saturating_mul(4) + MEMORY;
        if round.ended >= self.turn || self.seconds.is_empty() {
            // Seconds without transmissions do not count.
            self.turn = round.ended + SPAN;
            self.seconds.push_back((0, 0, 0));
            if self.seconds.len() > SPANS {
                self.seconds.pop_front();
            }
        }
        if let Some(second) = self.seconds.back_mut() {
            second.0 += round.resolved;
            second.1 += round.lost;
            second.2 += u32::from(signs == Signs::Full);
        }
        let sum = |all: (u64, u64), one: &(u64, u64, u32)| (all.0 + one.0, all.1 + one.1);
        let (frames, lost) = self.seconds.iter().fold((0, 0), sum);
        let breaks = |&(frames, lost, full): &(u64, u64, u32)| full == 0 && lost * 100 > frames * BROKEN;
        let all = self.seconds.len() == SPANS && frames >= ENOUGH && self.seconds.iter().all(breaks);
        match self.broken {
            None if all => self.broken = Some(round.ended),
            Some(_) if lost * 100 < frames * MENDED => self.broken = None,
            None | Some(_) => {}
        }
    }

    /// Returns the number of consecutive rounds in which the hop was full.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    pub fn is_congested(&self, now: Instant) -> bool {
        // A queue of a single round may result from this end's own trial.
        (self.rounds > 1 || self.marks > 0) && now < self.until
    }

    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }
}

/// Signs of congestion in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signs {
    /// A standing queue, marked packets, or losses that increase with the rate.
    Full,
    /// Losses are corruption.
    Free,
}

/// Returns the signs of congestion in delay and marks: a standing queue, or a queue twice as long at the end if more
/// was lost than corruption explains.
pub(super) fn signs(round: &Round, target: Duration) -> Signs {
    let overflows = round.above > target.saturating_mul(2) && round.excess > 0;
    if round.standing > target || overflows || round.marks > 0 { Signs::Full } else { Signs::Free }
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Supply;
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn round(second: u64, resolved: u64, lost: u64) -> Round {
        Round {
            ended: Instant::ZERO + ms(second * 1000),
            rate: None,
            supply: Supply::Ample,
            demand: Supply::Ample,
            standing: Duration::ZERO,
            trip: ms(60),
            above: Duration::ZERO,
            resolved,
            lost,
            excess: 0,
            marks: 0,
            outage: false,
        }
    }

    /// A loss of 31 % for ten seconds trips the breaker, for nine seconds it does not; with a standing queue it is
    /// congestion. A loss of 19 % on average closes the breaker.
    #[test]
    fn the_breaker_by_hand() {
        let mut congestion = Congestion::new();
        for second in 1..=9 {
            congestion.on_round(&round(second, 100, 31), Signs::Free);
            assert!(!congestion.is_broken());
        }
        congestion.on_round(&round(10, 100, 31), Signs::Free);
        assert!(congestion.is_broken());
        // 6 · 31 + 4 · 0 = 186 of 1000, 7 · 31 = 217.
        for second in 11..=13 {
            congestion.on_round(&round(second, 100, 0), Signs::Free);
            assert!(congestion.is_broken());
        }
        congestion.on_round(&round(14, 100, 0), Signs::Free);
        assert!(!congestion.is_broken());
        let mut congestion = Congestion::new();
        for second in 1..=30 {
            congestion.on_round(&round(second, 100, 50), if second % 9 == 0 { Signs::Full } else { Signs::Free });
            assert!(!congestion.is_broken());
        }
    }

    /// The path is down for seconds, in which no round ends. Then all losses are detected in one round.
    #[test]
    fn an_outage_that_is_over_does_not_break_it() {
        let mut congestion = Congestion::new();
        for second in (1..=12).chain(18..=40) {
            let (resolved, lost) = if second == 18 { (500, 490) } else { (50, 4) };
            congestion.on_round(&round(second, resolved, lost), Signs::Free);
            assert!(!congestion.is_broken(), "{second} s");
        }
    }

    #[test]
    fn exactly_thirty_percent_and_few_frames_do_not_break_it() {
        for (resolved, lost) in [(100, 30), (9, 9)] {
            let mut congestion = Congestion::new();
            (1..=40).for_each(|second| congestion.on_round(&round(second, resolved, lost), Signs::Free));
            assert!(!congestion.is_broken());
        }
    }

    #[test]
    fn delay_and_marks_are_signs_and_losses_are_none() {
        let full = |standing, marks| signs(&Round { standing, marks, ..round(1, 100, 50) }, ms(5)) == Signs::Full;
        assert_eq!([full(ms(5), 0), full(ms(6), 0), full(ms(0), 1)], [false, true, true]);
        let overflows = |above, excess| signs(&Round { above, excess, ..round(1, 100, 50) }, ms(5)) == Signs::Full;
        assert_eq!([overflows(ms(11), 0), overflows(ms(10), 1), overflows(ms(11), 1)], [false, false, true]);
    }
}
