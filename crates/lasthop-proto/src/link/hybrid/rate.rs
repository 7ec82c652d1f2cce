//! The hop's rate, found: what arrived in a round at the most, raised by tries where packets wait, lowered where a queue stands
//! (after BBR, draft-ietf-ccwg-bbr, and Copa, NSDI '18).

use alloc::collections::VecDeque;

use super::congestion::Signs;
use super::rounds::{Round, Supply};
use crate::time::{Duration, Instant};

/// Bits per second between which every rate lies.
const LEAST: u64 = 8_000;
const MOST: u64 = 100_000_000_000;

/// Before anything is known: with the gain of the beginning 1 Mbps, about ten packets in 100 ms (RFC 6928).
const FIRST: u64 = 500_000;

/// Rounds over which the largest rate is taken, and from one try to the next.
const ROUNDS: usize = 8;

/// Gains in percent. At the beginning; of a try, above 100; the least that a queue takes off, and the most.
const BEGINNING: u64 = 200;
const TRY: u64 = 10;
const LARGEST_TRY: u64 = 80;
const DRAIN: u64 = 15;
const LARGEST_DRAIN: u64 = 50;

/// The beginning is over after so many rounds without a quarter more (BBR's rule).
const FLAT: u32 = 3;

/// So much, or two frames, stands at a rate that is given without a change: the shortest round trip is that of a frame without a packet.
const LEFT_ALONE: Duration = Duration::from_millis(2);

/// A queue that stands for so many rounds although less is sent is filled by others (Copa's rule).
const STUBBORN: u32 = 5;

/// Among others it is looked so often whether they are still there, for so many rounds.
const LOOK: Duration = Duration::from_secs(5);
const LOOKING: u32 = 3;

/// So many rounds in a row without a queue say so too.
const ABSENT: u32 = 4;

/// After losses that rose with the rate there is no try for so many rounds.
const CAUTION: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// The rate doubles. With the largest rate that was a quarter above the one before, and rounds since.
    Beginning(u64, u32),
    /// The queue is this end's own, and is kept short.
    Alone,
    /// Others fill the queue.
    Sharing {
        /// When it was looked last whether they do.
        since: Instant,
        /// Rounds of looking that are left.
        left: u32,
        /// Rounds in a row without a queue.
        free: u32,
    },
}

/// Frames and losses in rounds of one kind.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    frames: u64,
    lost: u64,
}

impl Share {
    fn add(&mut self, round: &Round) {
        self.frames += round.resolved;
        self.lost += round.lost;
        if self.frames > 4_000 {
            (self.frames, self.lost) = (self.frames / 2, self.lost / 2);
        }
    }
}

/// What is known of the rate.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    /// Rates of the last rounds in which there was always something to send.
    rates: VecDeque<u64>,
    mode: Mode,
    /// Gains of this round, and of the one before, which is measured in it.
    gain: u64,
    before: u64,
    /// The rate when the last try began, and by how much it went above.
    base: u64,
    raise: u64,
    /// Rounds until the next try.
    pause: u32,
    /// Losses during tries, and otherwise.
    tries: Share,
    others: Share,
}

impl Finder {
    pub fn new() -> Self {
        Self {
            rates: [FIRST].into(),
            mode: Mode::Beginning(0, 0),
            gain: BEGINNING,
            before: BEGINNING,
            base: FIRST,
            raise: TRY,
            pause: 0,
            tries: Share::default(),
            others: Share::default(),
        }
    }

    /// Bits per second that the hop carries, as far as it is known.
    pub fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(FIRST).clamp(LEAST, MOST)
    }

    /// Bits per second to send at.
    pub fn pace(&self) -> u64 {
        (self.rate().saturating_mul(self.gain) / 100).clamp(LEAST, MOST)
    }

    /// Whether others fill the hop's queue.
    #[cfg(test)]
    pub fn is_sharing(&self) -> bool {
        matches!(self.mode, Mode::Sharing { .. })
    }

    fn set(&mut self, rate: u64) {
        self.rates.clear();
        self.rates.push_back(rate.clamp(LEAST, MOST));
    }

    /// The last few frames arrived at that rate: at the beginning it counts at once.
    pub fn on_step(&mut self, rate: u64) {
        if matches!(self.mode, Mode::Beginning(..)) && rate > self.rate() {
            self.set(rate);
        }
    }

    /// Nothing is heard any more: half as much is sent, and the rate is looked for anew.
    pub fn on_silence(&mut self) {
        self.set(self.rate() / 2);
        (self.mode, self.gain, self.before) = (Mode::Beginning(0, 0), 100, 100);
    }

    /// Less was lost when less was sent: whether the last rounds say that.
    fn rises(&self) -> bool {
        let (tries, others) = (self.tries, self.others);
        if tries.frames < 100 || others.frames < 100 {
            return false;
        }
        // In 10⁻⁶ of the frames of tries: what was lost in excess, and what a raise of TRY percent loses where nothing more is carried.
        let expected = others.lost * tries.frames / others.frames;
        let excess = tries.lost.saturating_sub(expected);
        excess * 250 > tries.frames * TRY && excess > 4 * (expected + 1).isqrt() + 4
    }

    /// A round is over. `full` says how many were in a row with signs of congestion, this one included. Returns how many packets
    /// the sources are to be told of as lost to congestion.
    pub fn on_round(&mut self, round: &Round, signs: Signs, full: u32) -> u32 {
        let (measured, sent) = (self.before, self.gain);
        self.before = sent;
        match round.rate {
            Some(rate) if round.supply == Supply::Ample => {
                self.rates.push_back(rate.clamp(LEAST, MOST));
                if self.rates.len() > ROUNDS {
                    self.rates.pop_front();
                }
            }
            // What was limited by want of packets does not lower it.
            Some(rate) if rate > self.rate() => self.set(rate),
            Some(_) | None => {}
        }
        match self.mode {
            Mode::Beginning(best, flat) => {
                self.begin(round, signs, best, flat);
                0
            }
            Mode::Alone => {
                self.alone(round, signs, full, [measured, sent]);
                0
            }
            Mode::Sharing { .. } => self.share(round, signs),
        }
    }

    fn begin(&mut self, round: &Round, signs: Signs, best: u64, flat: u32) {
        let rate = self.rate();
        let (best, flat) = match round.supply {
            Supply::Ample if rate >= best + best / 4 => (rate, 0),
            Supply::Ample => (best, flat + 1),
            Supply::Limited => (best, flat),
        };
        if signs == Signs::Full || flat >= FLAT {
            if let Some(rate) = round.rate.filter(|_| signs == Signs::Full && round.supply == Supply::Ample) {
                self.set(rate);
            }
            self.settle(drain(round));
            return;
        }
        (self.mode, self.gain) = (Mode::Beginning(best, flat), BEGINNING);
    }

    /// This end is alone from now on; what was sent before was no try.
    fn settle(&mut self, gain: u64) {
        (self.mode, self.gain, self.before) = (Mode::Alone, gain, 100);
        (self.raise, self.pause) = (TRY, ROUNDS as u32);
    }

    fn alone(&mut self, round: &Round, signs: Signs, full: u32, [measured, sent]: [u64; 2]) {
        let share = if measured > 100 { &mut self.tries } else { &mut self.others };
        share.add(round);
        self.pause = self.pause.saturating_sub(1);
        if signs == Signs::Full {
            if full <= 2
                && round.supply == Supply::Ample
                && let Some(rate) = round.rate
            {
                // What arrives while a queue grows is what the hop carries; of what was sent at less no more can arrive.
                self.set((rate * 100 / measured.min(100)).min(self.rate()));
            }
            if full > STUBBORN {
                self.mode = Mode::Sharing { since: round.ended, left: 0, free: 0 };
                self.gain = 100 + TRY;
                return;
            }
            // What three rounds do not take away is not this end's alone.
            let gain = if full <= 3 { drain(round) } else { 100 - DRAIN };
            (self.gain, self.raise, self.pause) = (gain, TRY, ROUNDS as u32);
            return;
        }
        if self.rises() {
            (self.tries, self.others) = (Share::default(), Share::default());
            self.set(self.base.min(self.rate()) * (100 - DRAIN) / 100);
            (self.gain, self.raise, self.pause) = (100, TRY, CAUTION);
            return;
        }
        if sent > 100 {
            // Takes back what the try was too much.
            self.gain = 200 - sent.min(150);
            return;
        }
        let enough = self.base.saturating_add(self.base / 200 * self.raise);
        let more = measured > 100 && round.supply == Supply::Ample && round.rate.is_some_and(|rate| rate >= enough);
        if more {
            self.raise = (2 * self.raise).min(LARGEST_TRY);
        } else if measured > 100 {
            self.raise = TRY;
        }
        if round.demand == Supply::Ample && (more || self.pause == 0) {
            (self.base, self.pause) = (self.rate(), ROUNDS as u32);
            self.gain = 100 + self.raise;
        } else {
            self.gain = ease(round);
        }
    }

    fn share(&mut self, round: &Round, signs: Signs) -> u32 {
        let Mode::Sharing { since, left, free } = &mut self.mode else { return 0 };
        *free = if signs == Signs::Free { *free + 1 } else { 0 };
        if *free > 0 && *left > 0 || *free >= ABSENT {
            self.settle(100);
            return 0;
        }
        let looked = *left > 0;
        *left = if looked { *left - 1 } else { 0 };
        if looked && *left == 0 {
            *since = round.ended;
        } else if !looked && round.ended >= *since + LOOK {
            *left = LOOKING;
        }
        self.gain = if *left > 0 { LARGEST_DRAIN } else { 100 + TRY };
        // Where packets do not wait their sources heed what they are told.
        if round.excess > 0 && round.supply == Supply::Ample {
            let arrived = round.rate.unwrap_or(MOST).min(self.rate());
            self.set(arrived * (100 - DRAIN) / 100);
        }
        round.excess.min(8) as u32
    }
}

/// The gain at a rate that is given, which leaves next to nothing over of what the hop carries, or is a little more: what stands there since this
/// end made up for lost time would stay. What three rounds do not take away is not this end's alone.
pub(super) fn gain_at_given(round: &Round, signs: Signs, full: u32, frame: Duration) -> u64 {
    match signs {
        Signs::Free if round.standing > LEFT_ALONE.max(frame * 2) => ease(round),
        Signs::Full if full <= 3 => 100 - TRY,
        Signs::Free | Signs::Full => 100,
    }
}

/// The gain with which what stands goes in some four rounds.
fn ease(round: &Round) -> u64 {
    let trip = round.trip.as_nanos().max(1);
    100 - (round.standing.as_nanos() * 25 / trip).min(TRY)
}

/// The gain that lets what stands go.
fn drain(round: &Round) -> u64 {
    let share = round.standing.as_nanos() * 100 / round.trip.as_nanos().max(1);
    100 - share.clamp(DRAIN, LARGEST_DRAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBPS: u64 = 1_000_000;

    /// Rounds of 60 ms, and what waits of them.
    struct Hop {
        finder: Finder,
        now: Instant,
        full: u32,
    }

    impl Hop {
        fn new() -> Self {
            Self { finder: Finder::new(), now: Instant::ZERO, full: 0 }
        }

        /// A round that measured so many bits per second, with so many milliseconds that stand in front of the hop.
        fn round(&mut self, rate: u64, standing: u64) -> Round {
            self.now += Duration::from_millis(60 + standing);
            Round {
                ended: self.now,
                rate: Some(rate),
                supply: Supply::Ample,
                demand: Supply::Ample,
                standing: Duration::from_millis(standing),
                trip: Duration::from_millis(60 + standing),
                above: Duration::from_millis(standing),
                resolved: 50,
                lost: 0,
                excess: 0,
                marks: 0,
            }
        }

        fn take(&mut self, round: &Round) -> u64 {
            let signs = super::super::congestion::signs(round, Duration::from_millis(5));
            self.full = if signs == Signs::Full { self.full + 1 } else { 0 };
            self.finder.on_round(round, signs, self.full);
            self.finder.pace()
        }

        fn hear(&mut self, rate: u64, standing: u64) -> u64 {
            let round = self.round(rate, standing);
            self.take(&round)
        }
    }

    /// Twice as fast with each two rounds, since a round measures what the one before sent. A queue of 30 in 90 ms takes a third off
    /// the 10 Mbps that arrive; eight rounds later a tenth more is tried, taken back, and was in vain.
    #[test]
    fn a_hop_of_ten_megabits_by_hand() {
        let mut hop = Hop::new();
        let rates = [1, 1, 2, 2, 4, 4, 8, 8].map(|rate| hop.hear(rate * MBPS, 0) / MBPS);
        assert_eq!(rates, [2, 2, 4, 4, 8, 8, 16, 16]);
        assert_eq!(hop.hear(10 * MBPS, 30), 6_700_000);
        for _ in 0..7 {
            assert_eq!(hop.hear(10 * MBPS, 0), 10 * MBPS);
        }
        let tried = [hop.hear(10 * MBPS, 0), hop.hear(10 * MBPS, 0), hop.hear(10 * MBPS, 3), hop.hear(9 * MBPS, 0)];
        // 3 ms of 63 that stand: 1 % less until they are gone.
        assert_eq!(tried, [11 * MBPS, 9 * MBPS, 9_900_000, 10 * MBPS]);
    }

    /// At a given rate: a frame of 1.2 ms more or less is no queue, 3 of 63 ms go at 99 % of it, and a queue that is there after three
    /// rounds with 90 % is left to others.
    #[test]
    fn what_stands_at_a_given_rate_goes() {
        let mut hop = Hop::new();
        let frame = Duration::from_micros(1_200);
        let mut gain = |standing: u64, signs, full| gain_at_given(&hop.round(MBPS, standing), signs, full, frame);
        assert_eq!([0, 2, 3, 5].map(|standing| gain(standing, Signs::Free, 0)), [100, 100, 99, 99]);
        assert_eq!([1, 2, 3, 4, 5].map(|full| gain(20, Signs::Full, full)), [90, 90, 90, 100, 100]);
        assert_eq!(gain_at_given(&hop.round(MBPS, 20), Signs::Free, 0, frame * 10), 100);
        assert_eq!(gain_at_given(&hop.round(MBPS, 200), Signs::Free, 0, frame * 10), 90);
    }

    /// A try that arrives is followed by one twice as large.
    #[test]
    fn a_hop_that_became_faster_by_hand() {
        let mut hop = Hop::new();
        hop.hear(4 * MBPS, 10);
        (0..7).for_each(|_| assert_eq!(hop.hear(4 * MBPS, 0), 4 * MBPS));
        let paces = [4_000, 4_000, 4_400, 3_600, 5_280, 4_224].map(|kbps| hop.hear(kbps * 1_000, 0) / 1_000);
        // 110 and 90 % of 4 Mbps, 120 and 80 % of 4.4, 140 and 60 % of 5.28.
        assert_eq!(paces, [4_400, 3_600, 5_280, 3_520, 7_392, 3_168]);
    }

    /// What the hop had too few packets for does not lower the rate, and nothing more is tried.
    #[test]
    fn want_of_packets_says_nothing() {
        let mut hop = Hop::new();
        hop.hear(10 * MBPS, 10);
        for _ in 0..100 {
            let round = Round { supply: Supply::Limited, demand: Supply::Limited, ..hop.round(100_000, 0) };
            assert_eq!(hop.take(&round), 10 * MBPS);
        }
    }

    /// Five rounds with less do not empty the queue: others fill it. The pace goes on up, and losses that corruption does not explain
    /// take 15 % off and are told of. When the queue is empty for four rounds this end is alone.
    #[test]
    fn a_stubborn_queue_is_shared() {
        let mut hop = Hop::new();
        hop.hear(8 * MBPS, 60);
        for _ in 0..4 {
            assert!(hop.hear(4 * MBPS, 60) <= 4 * MBPS && !hop.finder.is_sharing());
        }
        hop.hear(4 * MBPS, 60);
        assert!(hop.finder.is_sharing());
        let lossy = Round { lost: 2, excess: 2, ..hop.round(4 * MBPS, 60) };
        hop.full += 1;
        assert_eq!(hop.finder.on_round(&lossy, Signs::Full, hop.full), 2);
        assert_eq!((hop.finder.rate(), hop.finder.pace()), (3_400_000, 3_740_000));
        for _ in 0..3 {
            hop.hear(4 * MBPS, 0);
        }
        assert!(hop.finder.is_sharing());
        hop.hear(4 * MBPS, 0);
        assert!(!hop.finder.is_sharing());
    }

    /// On a hop without a queue what is too much is lost at once: after a few tries less is sent, and tries become rare.
    #[test]
    fn losses_that_rise_with_the_rate_are_congestion() {
        let mut hop = Hop::new();
        hop.hear(10 * MBPS, 10);
        let mut most = 0;
        let mut paces = [hop.finder.pace(); 2];
        for _ in 0..400 {
            // Beyond 10 Mbps all is lost; what arrives is 10 Mbps at most.
            let (sent, now) = (paces[0], hop.finder.pace());
            let lost = 50 * sent.saturating_sub(10 * MBPS) / sent;
            let round = Round { lost, resolved: 50, ..hop.round(sent.min(10 * MBPS), 0) };
            paces = [paces[1], now];
            most = most.max(hop.take(&round));
        }
        assert!(most <= 12 * MBPS && hop.finder.rate() >= 8 * MBPS, "{most} {}", hop.finder.rate());
    }
}
