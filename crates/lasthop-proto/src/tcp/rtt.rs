//! Retransmission timeout from round-trip samples: `srtt`, `rttvar`, `rto`, and exponential backoff.

use alloc::sync::Arc;

use crate::seq::Seq;
use crate::tcp::config::{Clock, RttRule, Switch, TcpConfig};
use crate::time::{Duration, Instant};

/// Phases of the two global ticks of a 4.4BSD host within their periods.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TickPhase {
    /// Time of the first slow tick.
    pub slow: Duration,
    /// Time of the first fast tick.
    pub fast: Duration,
}

/// Returns the first tick after `now` of a clock that ticks every `period` starting at `phase`.
pub(crate) fn next_tick(now: Instant, period: Duration, phase: Duration) -> Instant {
    let (period, phase, now) = (period.as_nanos().max(1), phase.as_nanos(), now.as_nanos());
    if now < phase {
        return Instant::from_nanos(phase);
    }
    Instant::from_nanos(phase + ((now - phase) / period + 1) * period)
}

/// Returns the number of ticks in `from..=to`, not counting one at `from` itself.
fn ticks_between(from: Instant, to: Instant, period: Duration, phase: Duration) -> i64 {
    let count = |at: Instant| {
        let at = at.as_nanos() as i64 - phase.as_nanos() as i64;
        at.div_euclid(period.as_nanos().max(1) as i64)
    };
    count(to) - count(from)
}

/// Returns the time at which a Linux timer fires that is set at `now` to expire `span` later: at a tick, with the span
/// in ticks rounded up. The wheel has levels of 64 slots. Each counts in eight times the ticks of the level below, and
/// a slot fires when it has passed completely (`calc_index`). `phase` is the age of the tick counter at the start of
/// the run.
pub(super) fn jiffies_deadline(
    now: Instant,
    span: Duration,
    jiffy: Duration,
    wheel: Switch,
    phase: Duration,
) -> Instant {
    let ticks = span.in_ticks_begun(jiffy);
    let expires = (now + phase).since(Instant::ZERO).in_ticks(jiffy) + ticks;
    let level = if wheel.is_on() { wheel_level(ticks) } else { 0 };
    let fires = ((expires >> (3 * level)) + 1) << (3 * level);
    Instant::from_nanos(fires.saturating_mul(jiffy.as_nanos().max(1)).saturating_sub(phase.as_nanos()))
}

/// Returns the wheel's level for a timer of `ticks` ticks: the lowest of nine, except for the last one, with `ticks <
/// 63 * 8^level`.
fn wheel_level(ticks: u64) -> u32 {
    let digits = (u64::BITS - (ticks / 63).leading_zeros()).div_ceil(3);
    digits.min(8)
}

/// Linux's variance: the maximum deviation of a round trip, which falls by a quarter of the difference each round.
#[derive(Clone, Copy, Default, Debug)]
struct Rounds {
    /// Smoothed deviation, in quarters of a microsecond.
    mdev: i64,
    /// Maximum of the deviation in this round.
    mdev_max: i64,
    /// Number whose acknowledgment ends the round.
    end: Seq,
}

/// Estimator and timer value of one sender.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    config: Arc<TcpConfig>,
    phase: Duration,
    /// Integer rules: scaled by 8, in ticks. RFC 6298: nanoseconds.
    srtt: i64,
    /// Integer rules: scaled by 4, in ticks. RFC 6298: nanoseconds.
    rttvar: i64,
    /// Timeout before backoff and before the minimum is applied.
    estimate: Duration,
    /// Timeout in force.
    rto: Duration,
    backoff: u32,
    has_sample: bool,
    /// Latest sample, until it is taken; zero for none.
    latest: Duration,
    /// For [`RttRule::Linux`] only.
    rounds: Rounds,
}

impl RttEstimator {
    /// Returns an estimator without samples.
    pub fn new(config: Arc<TcpConfig>, phase: TickPhase) -> Self {
        let mut estimator = Self {
            phase: phase.slow,
            srtt: 0,
            rttvar: 0,
            estimate: config.common.rto_initial,
            rto: Duration::ZERO,
            backoff: 1,
            has_sample: false,
            latest: Duration::ZERO,
            rounds: Rounds::default(),
            config,
        };
        estimator.refresh();
        estimator
    }

    /// Returns the length of a tick for the integer rules.
    fn tick(&self) -> Duration {
        match (self.config.common.rtt_rule, self.config.common.clock) {
            (RttRule::Bsd, Clock::Ticks { slow, .. }) => slow,
            _ => self.config.common.rtt_granularity,
        }
    }

    /// Takes the sample of a segment sent at `sent` and acknowledged now. Ends the backoff: Karn's rule ensures that
    /// only segments sent once are sampled.
    pub fn sample(&mut self, sent: Instant, now: Instant) {
        match self.config.common.rtt_rule {
            RttRule::Bsd => self.sample_ticks(1 + ticks_between(sent, now, self.tick(), self.phase), 1),
            RttRule::Ns2 => self.sample_ticks(ticks_between(sent, now, self.tick(), self.phase).max(1), 0),
            RttRule::Rfc6298 => self.sample_rfc6298(now.since(sent)),
            RttRule::Linux => self.sample_linux(now.since(sent)),
        }
        self.has_sample = true;
        self.latest = now.since(sent);
        self.backoff = 1;
        self.refresh();
    }

    /// Returns the latest sample, unrounded, if it was not returned before. For measurement only.
    pub fn take_latest(&mut self) -> Option<Duration> {
        Some(core::mem::take(&mut self.latest)).filter(|latest| *latest > Duration::ZERO)
    }

    /// Takes a sample like [`RttEstimator::sample`] on a connection at `snd_una` and `snd_nxt`. A round of Linux's rule
    /// ends when the data outstanding at its end is acknowledged.
    pub fn sample_in_round(&mut self, sent: Instant, now: Instant, snd_una: Seq, snd_nxt: Seq) {
        let first = !self.has_sample;
        self.sample(sent, now);
        if self.config.common.rtt_rule != RttRule::Linux || !first && !snd_una.gt(self.rounds.end) {
            return;
        }
        self.rounds.end = snd_nxt;
        if !first {
            if self.rounds.mdev_max < self.rttvar {
                self.rttvar -= (self.rttvar - self.rounds.mdev_max) >> 2;
            }
            self.rounds.mdev_max = self.least_deviation();
            self.estimate = self.linux_estimate();
            self.refresh();
        }
    }

    fn linux_estimate(&self) -> Duration {
        Duration::from_micros(((self.srtt >> 3) + self.rttvar) as u64)
    }

    /// Returns `rto_min` in microseconds.
    fn least_deviation(&self) -> i64 {
        (self.config.common.rto_min.as_nanos() / 1000) as i64
    }

    /// Applies Linux's `tcp_rtt_estimator`, in microseconds: `srtt` scaled by 8, the deviation by 4.
    fn sample_linux(&mut self, r: Duration) {
        let mut m = (r.as_nanos() / 1000).clamp(1, 1 << 40) as i64;
        let floor = self.least_deviation();
        let rounds = &mut self.rounds;
        if self.has_sample {
            m -= self.srtt >> 3;
            self.srtt = (self.srtt + m).max(1);
            if m < 0 {
                // A falling round trip moves the deviation at an eighth of the pace.
                m = -m - (rounds.mdev >> 2);
                if m > 0 {
                    m >>= 3;
                }
            } else {
                m -= rounds.mdev >> 2;
            }
            rounds.mdev += m;
            if rounds.mdev > rounds.mdev_max {
                rounds.mdev_max = rounds.mdev;
                self.rttvar = self.rttvar.max(rounds.mdev_max);
            }
        } else {
            self.srtt = m << 3;
            rounds.mdev = m << 1;
            self.rttvar = rounds.mdev.max(floor);
            rounds.mdev_max = self.rttvar;
        }
        self.estimate = self.linux_estimate();
    }

    /// Applies the integer algorithm of Jacobson (1988), srtt scaled by 8 and rttvar by 4, to a sample of `m` ticks.
    /// `origin` is the initial value of the tick counter: 1 for 4.4BSD's `t_rtt`, 0 for ns-2.
    fn sample_ticks(&mut self, m: i64, origin: i64) {
        if self.srtt != 0 {
            let delta = m - origin - (self.srtt >> 3);
            self.srtt = (self.srtt + delta).max(1);
            let delta = delta.abs() - (self.rttvar >> 2);
            self.rttvar = (self.rttvar + delta).max(1);
        } else {
            self.srtt = m << 3;
            self.rttvar = m << 1;
        }
        self.estimate = self.tick() * ((self.srtt >> 3) + self.rttvar) as u64;
    }

    /// Applies RFC 6298 §2.2 and §2.3.
    fn sample_rfc6298(&mut self, r: Duration) {
        let r = r.as_nanos() as i64;
        if self.has_sample {
            self.rttvar = (3 * self.rttvar + (self.srtt - r).abs()) / 4;
            self.srtt = (7 * self.srtt + r) / 8;
        } else {
            self.srtt = r;
            self.rttvar = r / 2;
        }
        let var = (4 * self.rttvar).max(self.config.common.rtt_granularity.as_nanos() as i64);
        self.estimate = Duration::from_nanos((self.srtt + var) as u64);
    }

    /// Returns the smoothed round-trip time, or `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.has_sample.then(|| match self.config.common.rtt_rule {
            RttRule::Bsd | RttRule::Ns2 => self.tick() * (self.srtt.max(1) as u64) / 8,
            RttRule::Rfc6298 => Duration::from_nanos(self.srtt as u64),
            RttRule::Linux => Duration::from_micros(self.srtt as u64) / 8,
        })
    }

    /// Returns the mean deviation of the round trip; zero before the first sample.
    pub fn deviation(&self) -> Duration {
        if !self.has_sample {
            return Duration::ZERO;
        }
        match self.config.common.rtt_rule {
            RttRule::Bsd | RttRule::Ns2 => self.tick() * (self.rttvar.max(0) as u64) / 4,
            RttRule::Rfc6298 => Duration::from_nanos(self.rttvar as u64),
            RttRule::Linux => Duration::from_micros((self.rounds.mdev.max(0) >> 2) as u64),
        }
    }

    /// Returns the factor by which timeouts have lengthened the timeout.
    pub fn backoff(&self) -> u32 {
        self.backoff.max(1)
    }

    /// Returns the tick in which timers count, or a millisecond if they do not count in ticks.
    pub fn jiffy(&self) -> Duration {
        match self.config.common.clock {
            Clock::Jiffies { jiffy, .. } => jiffy,
            Clock::Fine | Clock::Ticks { .. } => Duration::from_millis(1),
        }
    }

    /// Returns the timeout in force, backoff included.
    #[inline]
    pub fn rto(&self) -> Duration {
        self.rto
    }

    fn refresh(&mut self) {
        let backoff = u64::from(self.backoff);
        let rto = match self.config.common.rtt_rule {
            // 4.4BSD `TCPT_RANGESET` bounds the product.
            RttRule::Bsd => self.estimate.saturating_mul(backoff).max(self.config.common.rto_min),
            // The minimum is in the variance.
            RttRule::Linux => self.estimate.saturating_mul(backoff),
            // RFC 6298 §2.4 bounds the timeout, §5.5 doubles it.
            RttRule::Rfc6298 | RttRule::Ns2 => self.estimate.max(self.config.common.rto_min).saturating_mul(backoff),
        };
        self.rto = rto.min(self.config.common.rto_max).max(self.tick_floor());
    }

    fn tick_floor(&self) -> Duration {
        match self.config.common.rtt_rule {
            RttRule::Ns2 => self.tick() * 2,
            RttRule::Bsd | RttRule::Rfc6298 | RttRule::Linux => Duration::ZERO,
        }
    }

    /// Returns the time at which a timer fires that is started now with the timeout in force.
    pub fn deadline(&self, now: Instant) -> Instant {
        self.deadline_after(now, self.rto())
    }

    /// Returns the time at which a timer of `span` fires that is started now: after n-1 to n ticks if timers tick.
    pub fn deadline_after(&self, now: Instant, span: Duration) -> Instant {
        match self.config.common.clock {
            Clock::Fine => now + span,
            Clock::Ticks { slow, .. } => {
                let n = span.as_nanos().div_ceil(slow.as_nanos().max(1)).max(1);
                next_tick(now, slow, self.phase) + slow * (n - 1)
            }
            Clock::Jiffies { jiffy, wheel } => jiffies_deadline(now, span, jiffy, wheel, self.phase),
        }
    }

    /// Doubles the timeout after an expiry (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        match self.config.common.rtt_rule {
            RttRule::Bsd => {
                self.backoff = self.backoff.saturating_mul(2).min(self.config.common.max_backoff);
                // From the fourth on the estimate counts as wrong: it is kept in rttvar until the next sample.
                if self.backoff >= 16 {
                    self.forget_srtt();
                }
            }
            RttRule::Ns2 => {
                if self.backoff < self.config.common.max_backoff || self.rto() < self.config.common.rto_max {
                    self.backoff = self.backoff.saturating_mul(2);
                }
                if self.backoff > 8 {
                    self.forget_srtt();
                }
            }
            RttRule::Rfc6298 | RttRule::Linux => {
                self.backoff = self.backoff.saturating_mul(2).min(self.config.common.max_backoff);
            }
        }
        self.refresh();
    }

    fn forget_srtt(&mut self) {
        self.rttvar += self.srtt >> 3;
        self.srtt = 0;
    }

    /// Sets a timeout of 3 s for data after a SYN that was retransmitted, and not timed (RFC 6298 §5.7).
    pub fn after_syn_timeout(&mut self) {
        let floor = Duration::from_secs(3);
        if self.config.common.rtt_rule == RttRule::Rfc6298 && !self.has_sample && self.estimate < floor {
            self.estimate = floor;
            self.end_backoff();
        }
    }

    /// Ends the backoff without a sample.
    pub fn end_backoff(&mut self) {
        self.backoff = 1;
        self.refresh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::config::Preset;

    fn estimator(preset: Preset) -> RttEstimator {
        RttEstimator::new(Arc::new(TcpConfig::preset(preset)), TickPhase::default())
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn bsd_steady_short_round_trips_settle_at_three_ticks() {
        let mut rtt = estimator(Preset::BsdLite);
        assert_eq!(rtt.rto(), Duration::from_secs(6));
        for _ in 0..50 {
            rtt.sample(at(10), at(20));
        }
        assert_eq!(rtt.rto(), Duration::from_millis(1500));
        // A timer of three ticks fires after two to three of them.
        assert_eq!(rtt.deadline(at(100)), at(1500));
        assert_eq!(rtt.deadline(at(499)), at(1500));
        assert_eq!(rtt.deadline(at(500)), at(2000));
    }

    #[test]
    fn rfc6298_first_sample() {
        let mut rtt = estimator(Preset::Rfc);
        rtt.sample(at(0), at(800));
        assert_eq!(rtt.rto(), Duration::from_millis(800 + 4 * 400));
        rtt.back_off();
        assert_eq!(rtt.rto(), Duration::from_millis(2 * 2400));
        rtt.sample(at(0), at(800));
        assert_eq!(rtt.rto(), Duration::from_millis(800 + 4 * 300));
    }

    fn linux() -> RttEstimator {
        let config = TcpConfig::preset(Preset::Rfc).with(|c| {
            c.common.rtt_rule = RttRule::Linux;
            c.common.rto_min = Duration::from_millis(200);
            c.common.rto_initial = Duration::from_secs(1);
            c.common.rto_max = Duration::from_secs(120);
            c.common.max_backoff = u32::MAX;
        });
        RttEstimator::new(Arc::new(config), TickPhase::default())
    }

    /// One second before any sample; three round trips, or one and 200 ms, after the first.
    #[test]
    fn linux_first_sample() {
        for (rtt, rto) in [(60, 260), (100, 300), (150, 450)] {
            let mut linux = linux();
            assert_eq!(linux.rto(), Duration::from_secs(1));
            linux.sample(at(0), at(rtt));
            assert_eq!(linux.rto(), Duration::from_millis(rto));
            linux.back_off();
            assert_eq!(linux.rto(), Duration::from_millis(2 * rto));
        }
    }

    /// With a constant round trip, the timeout is the round trip plus the minimum. A jump by 80 ms counts in full: the
    /// deviation is 0 + 80 in quarters, of which four count, so 80 ms, below the minimum. Of a jump by 480 ms, 60 ms
    /// enter srtt, and 480 ms count. The deviation stays for a round, and then falls each round by a quarter of the
    /// difference to 200 ms.
    #[test]
    fn linux_variance_rises_at_once_and_falls_by_quarters() {
        let mut linux = linux();
        let mut una = 0;
        let mut round = |linux: &mut RttEstimator, millis: u64| {
            una += 1000;
            linux.sample_in_round(at(0), at(millis), Seq(una), Seq(una + 900));
            linux.rto().as_nanos() / 1_000_000
        };
        for _ in 0..50 {
            round(&mut linux, 100);
        }
        assert_eq!(round(&mut linux, 100), 300);
        assert_eq!(round(&mut linux, 180), 310);
        for _ in 0..100 {
            round(&mut linux, 100);
        }
        let jumped = round(&mut linux, 580);
        assert!((630..=660).contains(&jumped), "{jumped}");
        let fallen = round(&mut linux, 100);
        assert!(fallen < jumped, "{fallen}");
    }

    /// HZ = 250: a tick every 4 ms. Below 252 ms timers fire at the tick after they expire; above that at every eighth
    /// tick, from 2,016 ms at every 64th.
    #[test]
    fn timers_fire_at_ticks_that_the_wheel_rounds_up() {
        let deadline = |now: u64, millis: u64, wheel: Switch| {
            let deadline = jiffies_deadline(
                at(now),
                Duration::from_millis(millis),
                Duration::from_millis(4),
                wheel,
                Duration::ZERO,
            );
            deadline.as_nanos() / 1_000_000
        };
        assert_eq!(deadline(0, 10, Switch::On), 16);
        assert_eq!(deadline(3, 12, Switch::On), 16);
        assert_eq!(deadline(0, 248, Switch::On), 252);
        assert_eq!(deadline(0, 252, Switch::On), 256);
        assert_eq!(deadline(0, 260, Switch::On), 288);
        assert_eq!(deadline(0, 260, Switch::Off), 264);
        assert_eq!(deadline(27, 260, Switch::On), 288);
        assert_eq!(deadline(28, 260, Switch::On), 320);
        assert_eq!(deadline(0, 2016, Switch::On), 2048);
        assert_eq!(deadline(100, 2016, Switch::On), 2304);
    }

    /// Level 0 takes less than 63 ticks, each one above it less than eight times as many; the ninth takes the rest.
    #[test]
    fn each_level_of_the_wheel_takes_eight_times_the_ticks() {
        assert_eq!((wheel_level(0), wheel_level(62), wheel_level(63)), (0, 0, 1));
        assert_eq!((wheel_level(503), wheel_level(504)), (1, 2));
        assert_eq!((wheel_level(4031), wheel_level(4032)), (2, 3));
        assert_eq!((wheel_level(132_120_575), wheel_level(132_120_576)), (7, 8));
        assert_eq!(wheel_level(u64::MAX), 8);
    }

    #[test]
    fn ns2_counts_tick_edges() {
        let mut rtt = estimator(Preset::Ns2);
        rtt.sample(at(5), at(37));
        // m = 3 edges: srtt = 24, rttvar = 6, rtxcur = 6 + 3 ticks.
        assert_eq!(rtt.rto(), Duration::from_millis(200));
        assert_eq!(rtt.estimate, Duration::from_millis(90));
    }
}
