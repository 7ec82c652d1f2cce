//! Estimator of the hop's rate: the maximum that arrived in a round, increased by trials while packets wait, decreased
//! by a standing queue (after BBR, draft-ietf-ccwg-bbr, and Copa, NSDI '18).

use alloc::collections::VecDeque;

use super::congestion::Signs;
use super::rounds::{Round, Supply};
use crate::time::{Duration, Instant};

/// Minimum and maximum rate, in bits per second.
const LEAST: u64 = 8_000;
const MOST: u64 = 100_000_000_000;

/// Initial rate, in bits per second. With the startup gain it is 1 Mbps: about ten packets in 100 ms (RFC 6928).
const FIRST: u64 = 500_000;

/// Number of rounds over which the maximum rate is taken, and between trials.
const ROUNDS: usize = 8;

/// Gains in percent: at startup; increase by a trial, and its maximum where a round has few frames; minimum and maximum
/// decrease by a queue.
const BEGINNING: u64 = 200;
const TRY: u64 = 10;
const LARGEST_TRY: u64 = 25;
const DRAIN: u64 = 15;
const LARGEST_DRAIN: u64 = 50;

/// Minimum number of frames that a trial adds to a round: fewer would not be visible in its rate.
const VISIBLE: u64 = 2;

/// Maximum divisor of the rate that silence applies.
const MOST_SILENT: u64 = 8;

/// Number of rounds without an increase by a quarter that end startup (BBR's rule).
const FLAT: u32 = 3;

/// Standing delay tolerated at a given rate, or two frames if that is more: the shortest round trip is that of a frame
/// without a packet.
const LEFT_ALONE: Duration = Duration::from_millis(2);

/// Number of rounds for which a queue must persist at a reduced rate, without becoming shorter, to be attributed to
/// others (Copa's rule).
const STUBBORN: u32 = 5;

/// Interval between checks that others are still present, and number of rounds of a check.
const LOOK: Duration = Duration::from_secs(5);
const LOOKING: u32 = 3;

/// Number of consecutive rounds without a queue that show the absence of others.
const ABSENT: u32 = 4;

/// Maximum number of rounds until the next trial after one for which the sources lacked packets.
const SOON: u32 = 2;

/// Number of rounds without a trial after losses that rose with the rate.
const CAUTION: u32 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// The rate doubles. Largest rate that exceeded the previous one by a quarter, and number of rounds since.
    Beginning(u64, u32),
    /// The queue is this end's own, and is kept short.
    Alone,
    /// Others fill the queue.
    Sharing {
        /// Time of the last check that others fill the queue.
        since: Instant,
        /// Number of rounds left of the check.
        left: u32,
        /// Number of consecutive rounds without a queue.
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

/// Queue of the hop in a round.
#[derive(Clone, Copy, Debug)]
struct Queue {
    signs: Signs,
    /// Number of consecutive rounds with signs of congestion, this one included.
    full: u32,
    /// Indicates whether the queue is shorter than before.
    drains: bool,
    /// Transmission time of a full-size frame, which the shortest round trip does not include: it is that of a frame
    /// without a packet.
    frame: Duration,
}

/// State of the rate estimate.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    /// Rates of the last rounds in which there was always data to send.
    rates: VecDeque<u64>,
    mode: Mode,
    /// Gain of this round, and of the previous one, which is measured in this round.
    gain: u64,
    before: u64,
    /// Rate at the start of the last trial, and its increase.
    base: u64,
    raise: u64,
    /// Indicates that the last trial was a success.
    has_succeeded: bool,
    /// Number of rounds until the next trial.
    pause: u32,
    /// Losses during trials, and otherwise.
    tries: Share,
    others: Share,
    /// Number of rounds of the present congestion in which the queue did not become shorter by an eighth, and its
    /// standing delay in the last round.
    stubborn: u32,
    standing: Duration,
    /// Rate before the current silence.
    silent: Option<u64>,
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
            has_succeeded: false,
            pause: 0,
            tries: Share::default(),
            others: Share::default(),
            stubborn: 0,
            standing: Duration::ZERO,
            silent: None,
        }
    }

    /// Returns the estimated rate of the hop, in bits per second.
    pub fn rate(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(FIRST).clamp(LEAST, MOST)
    }

    /// Returns the sending rate, in bits per second.
    pub fn pace(&self) -> u64 {
        (self.rate().saturating_mul(self.gain) / 100).clamp(LEAST, MOST)
    }

    /// Returns whether others fill the hop's queue.
    pub fn is_sharing(&self) -> bool {
        matches!(self.mode, Mode::Sharing { .. })
    }

    /// Returns whether the rate is raised in this round, or was in the last one, to find more capacity.
    pub fn raises(&self) -> bool {
        !self.is_sharing() && (self.gain > 100 || self.before > 100)
    }

    fn set(&mut self, rate: u64) {
        self.rates.clear();
        self.rates.push_back(rate.clamp(LEAST, MOST));
    }

    /// Records the rate at which the last few frames arrived, which counts immediately during startup.
    pub fn on_step(&mut self, rate: u64) {
        if matches!(self.mode, Mode::Beginning(..)) && rate > self.rate() {
            self.set(rate);
        }
    }

    /// Halves the rate and restarts the estimate when no feedback arrives any more. The rate does not fall below an
    /// eighth, or below that of a new estimate, so that it is found again within a few rounds after an outage.
    pub fn on_silence(&mut self) {
        let before = *self.silent.get_or_insert(self.rate());
        self.set((self.rate() / 2).max((before / MOST_SILENT).max(FIRST).min(before)));
        (self.mode, self.gain, self.before) = (Mode::Beginning(0, 0), 100, 100);
    }

    /// Returns whether the last rounds show that fewer packets are lost at a lower rate.
    fn rises(&self) -> bool {
        let (tries, others) = (self.tries, self.others);
        if tries.frames < 100 || others.frames < 100 {
            return false;
        }
        // In 10⁻⁶ of the frames of trials: the excess losses, compared with those of a raise of TRY percent if no more
        // is carried.
        let expected = others.lost * tries.frames / others.frames;
        let excess = tries.lost.saturating_sub(expected);
        excess * 250 > tries.frames * TRY && excess > 4 * (expected + 1).isqrt() + 4
    }

    /// Evaluates a completed round. `full` is the number of consecutive rounds with signs of congestion, this one
    /// included; `frame` is the transmission time of a full-size frame. Returns the number of packets to be signalled
    /// to the sources as lost to congestion.
    pub fn on_round(&mut self, round: &Round, signs: Signs, full: u32, frame: Duration) -> u32 {
        let (measured, sent) = (self.before, self.gain);
        self.before = sent;
        self.silent = None;
        if round.outage {
            if matches!(self.mode, Mode::Beginning(..)) {
                self.gain = BEGINNING;
            }
            return 0;
        }
        let drains = self.watch_queue(round, signs);
        match round.rate {
            Some(rate) if round.supply == Supply::Ample => {
                self.rates.push_back(rate.clamp(LEAST, MOST));
                if self.rates.len() > ROUNDS {
                    self.rates.pop_front();
                }
            }
            // A measurement limited by lack of packets does not decrease the rate.
            Some(rate) if rate > self.rate() => self.set(rate),
            Some(_) | None => {}
        }
        match self.mode {
            Mode::Beginning(best, flat) => {
                self.begin(round, signs, best, flat);
                0
            }
            Mode::Alone => {
                let queue = Queue { signs, full, drains, frame };
                self.alone(round, &queue, [measured, sent]);
                0
            }
            Mode::Sharing { .. } => self.share(round, signs),
        }
    }

    /// Counts the rounds in which a queue does not drain. Returns whether it drains.
    fn watch_queue(&mut self, round: &Round, signs: Signs) -> bool {
        let before = core::mem::replace(&mut self.standing, round.standing);
        if signs == Signs::Free {
            self.stubborn = 0;
            return false;
        }
        let drains = self.stubborn > 0 && round.standing < before - before / 8;
        self.stubborn += u32::from(!drains);
        drains
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

    /// Enters the mode in which this end is alone; earlier transmissions do not count as a trial.
    fn settle(&mut self, gain: u64) {
        (self.mode, self.gain, self.before) = (Mode::Alone, gain, 100);
        (self.raise, self.has_succeeded, self.pause) = (TRY, false, ROUNDS as u32);
    }

    fn alone(&mut self, round: &Round, queue: &Queue, [measured, sent]: [u64; 2]) {
        let share = if measured > 100 { &mut self.tries } else { &mut self.others };
        share.add(round);
        self.pause = self.pause.saturating_sub(1);
        if queue.signs == Signs::Full {
            if queue.full <= 2
                && round.supply == Supply::Ample
                && let Some(rate) = round.rate
            {
                // While a queue stands, arrivals show the hop's capacity; otherwise transmissions at a lower rate limit
                // them.
                let stands = round.standing > queue.frame * 3;
                let limit = if stands { 100 } else { measured.min(100) };
                self.set((rate * 100 / limit).min(self.rate()));
            }
            if self.stubborn > STUBBORN {
                self.mode = Mode::Sharing { since: round.ended, left: 0, free: 0 };
                self.gain = 100 + TRY;
                return;
            }
            // A queue that three rounds do not shorten is not this end's alone.
            let gain = if queue.full <= 3 || queue.drains { drain(round) } else { 100 - DRAIN };
            (self.gain, self.raise, self.has_succeeded, self.pause) = (gain, TRY, false, ROUNDS as u32);
            return;
        }
        if self.rises() {
            (self.tries, self.others) = (Share::default(), Share::default());
            self.set(self.base.min(self.rate()) * (100 - DRAIN) / 100);
            (self.gain, self.raise, self.has_succeeded, self.pause) = (100, TRY, false, CAUTION);
            return;
        }
        if sent > 100 {
            // Drains the excess of the trial.
            self.gain = 200 - sent.min(150);
            return;
        }
        let enough = self.base.saturating_add(self.base / 200 * self.raise);
        let more = measured > 100 && round.supply == Supply::Ample && round.rate.is_some_and(|rate| rate >= enough);
        if more && self.has_succeeded {
            // The hop has become clearly faster: its rate is searched for as at the start.
            (self.mode, self.gain) = (Mode::Beginning(0, 0), BEGINNING);
            return;
        }
        if more {
            (self.raise, self.has_succeeded) = (2 * TRY, true);
        } else if measured > 100 && round.supply == Supply::Limited {
            // The sources lacked packets for so large a trial: it says nothing, and a smaller one follows soon.
            (self.raise, self.pause) = ((self.raise / 2).max(TRY), self.pause.min(SOON));
        } else if measured > 100 {
            (self.raise, self.has_succeeded) = (TRY, false);
        }
        if round.demand == Supply::Ample && (more || self.pause == 0) {
            (self.base, self.pause) = (self.rate(), ROUNDS as u32);
            self.raise = self.raise.max((100 * VISIBLE / round.resolved.max(1)).min(LARGEST_TRY));
            self.gain = 100 + self.raise;
        } else {
            self.gain = ease(round, queue.frame);
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
        // If packets are not waiting, their sources react to congestion signals.
        if round.excess > 0 && round.supply == Supply::Ample {
            let arrived = round.rate.unwrap_or(MOST).min(self.rate());
            self.set(arrived * (100 - DRAIN) / 100);
        }
        round.excess.min(8) as u32
    }
}

/// Returns the gain at a given rate, which leaves almost none of the hop's capacity unused, or slightly exceeds it. A
/// queue that has built up since this end caught up after a delay would persist. A queue that three rounds do not drain
/// is not this end's alone.
pub(super) fn gain_at_given(round: &Round, signs: Signs, full: u32, frame: Duration) -> u64 {
    match signs {
        Signs::Free if round.standing > LEFT_ALONE.max(frame * 2) => ease(round, Duration::ZERO),
        Signs::Full if full <= 3 => 100 - TRY,
        Signs::Free | Signs::Full => 100,
    }
}

/// Returns the gain that drains the queue beyond `left` in about four rounds.
fn ease(round: &Round, left: Duration) -> u64 {
    let trip = round.trip.as_nanos().max(1);
    100 - (round.standing.saturating_sub(left).as_nanos() * 25 / trip).min(TRY)
}

/// Returns the gain that drains the queue.
fn drain(round: &Round) -> u64 {
    let share = round.standing.as_nanos() * 100 / round.trip.as_nanos().max(1);
    100 - share.clamp(DRAIN, LARGEST_DRAIN)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    const MBPS: u64 = 1_000_000;

    /// Rounds of 60 ms, and the standing queue in them.
    struct Hop {
        finder: Finder,
        now: Instant,
        full: u32,
    }

    impl Hop {
        fn new() -> Self {
            Self { finder: Finder::new(), now: Instant::ZERO, full: 0 }
        }

        /// Returns a round that measured `rate` bits per second, with a standing delay of `standing` ms.
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
                outage: false,
            }
        }

        fn take(&mut self, round: &Round) -> u64 {
            let signs = super::super::congestion::signs(round, Duration::from_millis(5));
            self.full = if signs == Signs::Full { self.full + 1 } else { 0 };
            self.finder.on_round(round, signs, self.full, Duration::ZERO);
            self.finder.pace()
        }

        fn hear(&mut self, rate: u64, standing: u64) -> u64 {
            let round = self.round(rate, standing);
            self.take(&round)
        }
    }

    /// The rate doubles every two rounds, since a round measures what the previous one sent. A queue of 30 in 90 ms
    /// takes a third off the 10 Mbps that arrive. Eight rounds later a rate one tenth higher is tried without success,
    /// and its queue is drained.
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
        // 3 ms of 63 are queued: 1 % less until they have drained.
        assert_eq!(tried, [11 * MBPS, 9 * MBPS, 9_900_000, 10 * MBPS]);
    }

    /// At a given rate, a frame of 1.2 ms more or less is not a queue, 3 of 63 ms are drained at 99 % of it, and a
    /// queue that persists after three rounds at 90 % is attributed to others.
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

    /// A successful trial is followed by one twice as large. If that succeeds as well, the rate doubles as at the start.
    #[test]
    fn a_hop_that_became_faster_by_hand() {
        let mut hop = Hop::new();
        hop.hear(4 * MBPS, 10);
        (0..7).for_each(|_| assert_eq!(hop.hear(4 * MBPS, 0), 4 * MBPS));
        let paces = [4_000, 4_000, 4_400, 3_600, 5_280, 4_224].map(|kbps| hop.hear(kbps * 1_000, 0) / 1_000);
        // 110 and 90 % of 4 Mbps, 120 and 80 % of 4.4, 200 % of 5.28.
        assert_eq!(paces, [4_400, 3_600, 5_280, 3_520, 10_560, 10_560]);
        assert_eq!(hop.hear(10_560_000, 0), 21_120_000);
    }

    /// A round of eight frames shows an increase by two of them, a fourth, but not one by a tenth.
    #[test]
    fn a_trial_is_visible_in_few_frames() {
        let mut hop = Hop::new();
        let mut hear = |rate: u64| {
            let round = Round { resolved: 8, ..hop.round(rate, 0) };
            hop.take(&round)
        };
        for _ in 0..30 {
            hear(MBPS);
        }
        let paces: BTreeSet<u64> = (0..20).map(|_| hear(MBPS)).collect();
        assert_eq!(paces, BTreeSet::from([750_000, MBPS, 1_250_000]));
    }

    /// A trial for which the sources lacked packets gives no information: another one follows in two rounds.
    #[test]
    fn a_trial_without_packets_is_repeated_soon() {
        let mut hop = Hop::new();
        hop.hear(4 * MBPS, 10);
        while hop.hear(4 * MBPS, 0) <= 4 * MBPS {}
        // The round of the trial, and the next one, which measures it.
        hop.hear(4 * MBPS, 0);
        let round = Round { supply: Supply::Limited, ..hop.round(4 * MBPS, 0) };
        let rest = [hop.take(&round), hop.hear(4 * MBPS, 0), hop.hear(4 * MBPS, 0)];
        assert_eq!(rest, [4 * MBPS, 4 * MBPS, 4_400_000]);
    }

    /// The hop falls from 8 to 1 Mbps: its queue grows for two rounds, and is drained at half of the rate for as long
    /// as it becomes shorter. The queue is attributed to this end, regardless of the number of rounds that this takes.
    #[test]
    fn a_queue_that_drains_is_this_ends_own() {
        let mut hop = Hop::new();
        hop.hear(8 * MBPS, 10);
        for _ in 0..4 {
            hop.hear(8 * MBPS, 0);
        }
        hop.hear(MBPS, 200);
        hop.hear(MBPS, 400);
        for standing in [340, 290, 240, 200, 160, 130, 100, 60, 30, 20] {
            assert!(hop.hear(MBPS, standing) < 900_000 && !hop.finder.is_sharing(), "{standing}");
        }
        assert_eq!(hop.hear(MBPS, 0), MBPS);
    }

    /// The shortest round trip is that of a frame without a packet: a delay of 17 ms, one frame at 0.7 Mbps, is not a
    /// queue. A longer delay is a queue.
    #[test]
    fn a_frame_on_the_air_is_no_queue() {
        let hop = || {
            let mut hop = Hop::new();
            hop.hear(700_000, 10);
            hop.hear(700_000, 0);
            hop
        };
        let pace = |standing: u64| {
            let mut hop = hop();
            let round = hop.round(700_000, standing);
            hop.finder.on_round(&round, Signs::Free, 0, Duration::from_millis(17));
            hop.finder.pace()
        };
        assert_eq!([0, 17].map(pace), [700_000; 2]);
        // 17 of 94 ms take 4 % in about four rounds.
        assert_eq!(pace(34), 672_000);
    }

    /// A lack of packets does not decrease the rate, and causes no trial.
    #[test]
    fn want_of_packets_says_nothing() {
        let mut hop = Hop::new();
        hop.hear(10 * MBPS, 10);
        for _ in 0..100 {
            let round = Round { supply: Supply::Limited, demand: Supply::Limited, ..hop.round(100_000, 0) };
            assert_eq!(hop.take(&round), 10 * MBPS);
        }
    }

    /// Silence divides the rate by at most eight, until feedback arrives, and by less at low rates.
    #[test]
    fn silence_leaves_an_eighth_of_the_rate() {
        let silent = |rate: u64| {
            let mut finder = Finder::new();
            finder.set(rate);
            let rates = [(); 5].map(|()| {
                finder.on_silence();
                finder.rate()
            });
            (finder, rates)
        };
        let (finder, rates) = silent(16 * MBPS);
        assert_eq!(rates, [8, 4, 2, 2, 2].map(|rate| rate * MBPS));
        assert_eq!(silent(MBPS).1, [500_000; 5]);
        assert_eq!(silent(200_000).1, [200_000; 5]);
        let mut hop = Hop { finder, ..Hop::new() };
        hop.hear(2 * MBPS, 0);
        hop.finder.on_silence();
        assert_eq!(hop.finder.rate(), MBPS);
    }

    /// An outage shows neither a rate nor congestion, also when others fill the queue.
    #[test]
    fn an_outage_changes_nothing() {
        let mut hop = Hop::new();
        hop.hear(8 * MBPS, 60);
        for _ in 0..5 {
            hop.hear(4 * MBPS, 60);
        }
        assert!(hop.finder.is_sharing());
        let before = hop.finder.clone();
        let outage = Round { outage: true, lost: 100, excess: 100, ..hop.round(100_000, 60) };
        assert_eq!(hop.finder.on_round(&outage, Signs::Full, 9, Duration::ZERO), 0);
        assert_eq!((hop.finder.rate(), hop.finder.pace()), (before.rate(), before.pace()));
    }

    /// Five rounds at a lower rate do not drain the queue: others fill it. The pace continues to rise, and losses that
    /// corruption does not explain reduce it by 15 % and are signalled. After four rounds with an empty queue this end
    /// is alone.
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
        assert_eq!(hop.finder.on_round(&lossy, Signs::Full, hop.full, Duration::ZERO), 2);
        assert_eq!((hop.finder.rate(), hop.finder.pace()), (3_400_000, 3_740_000));
        for _ in 0..3 {
            hop.hear(4 * MBPS, 0);
        }
        assert!(hop.finder.is_sharing());
        hop.hear(4 * MBPS, 0);
        assert!(!hop.finder.is_sharing());
    }

    /// On a hop without a queue, excess data is lost at once. After a few trials the rate decreases, and trials become
    /// rare.
    #[test]
    fn losses_that_rise_with_the_rate_are_congestion() {
        let mut hop = Hop::new();
        hop.hear(10 * MBPS, 10);
        let mut most = 0;
        let mut paces = [hop.finder.pace(); 2];
        for _ in 0..400 {
            // Everything above 10 Mbps is lost; at most 10 Mbps arrive.
            let (sent, now) = (paces[0], hop.finder.pace());
            let lost = 50 * sent.saturating_sub(10 * MBPS) / sent;
            let round = Round { lost, resolved: 50, ..hop.round(sent.min(10 * MBPS), 0) };
            paces = [paces[1], now];
            most = most.max(hop.take(&round));
        }
        assert!(most <= 12 * MBPS && hop.finder.rate() >= 8 * MBPS, "{most} {}", hop.finder.rate());
    }
}
