//! Retransmission timeout of a frame.

use super::{FLOOR, Timer};
use crate::time::Duration;

/// Timeout before the first sample (RFC 6298 §2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Maximum timeout (RFC 6298 §2.5: at least 60 s).
const MAX_RTO: Duration = Duration::from_secs(64);

/// Clock granularity of RFC 6298 §2.
const G: Duration = Duration::from_millis(1);

/// Maximum number of doublings: more than separate [`FLOOR`] from [`MAX_RTO`].
const MAX_DOUBLINGS: u8 = 32;

/// State of the timer; only the setting if it is fixed.
#[derive(Clone, Debug)]
pub(super) struct Rto {
    timer: Timer,
    srtt: Option<Duration>,
    rttvar: Duration,
    /// Maximum number of doublings of any frame since the last sample.
    doublings: u8,
}

impl Rto {
    pub fn new(timer: Timer) -> Self {
        Self { timer, srtt: None, rttvar: Duration::ZERO, doublings: 0 }
    }

    /// Takes a round-trip sample of a frame that was sent once (Karn's rule).
    pub fn sample(&mut self, r: Duration) {
        match self.srtt {
            None => (self.srtt, self.rttvar) = (Some(r), r / 2),
            Some(srtt) => {
                let error = r.saturating_sub(srtt).max(srtt.saturating_sub(r));
                self.rttvar = (self.rttvar * 3 + error) / 4;
                self.srtt = Some((srtt * 7 + r) / 8);
            }
        }
        self.doublings = 0;
    }

    /// Returns the new number of doublings of a frame whose timer expired after `doublings`.
    pub fn back_off(&mut self, doublings: u8) -> u8 {
        let doublings = (doublings + 1).min(MAX_DOUBLINGS);
        self.doublings = self.doublings.max(doublings);
        doublings
    }

    /// Returns the timeout of a frame with `doublings` expiries. A timeout that is too short for every frame yields no
    /// samples. Therefore frames that did not expire start with the doublings of those that did, until there is a
    /// sample.
    pub fn timeout(&self, doublings: u8) -> Duration {
        match self.timer {
            Timer::Fixed(span) => span.max(FLOOR),
            Timer::Estimated { min } => {
                let rto = self.srtt.map_or(INITIAL_RTO, |srtt| srtt + (self.rttvar * 4).max(G)).max(min).max(FLOOR);
                (rto * (1 << doublings.max(self.doublings))).min(MAX_RTO.max(min))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_formulae_are_those_of_rfc_6298() {
        let mut rto = Rto::new(Timer::Estimated { min: Duration::ZERO });
        assert_eq!(rto.timeout(0), Duration::from_secs(1));
        rto.sample(MS * 80);
        assert_eq!(rto.timeout(0), MS * (80 + 4 * 40));
        // RTTVAR = 3/4 40 + 1/4 16, SRTT = 7/8 80 + 1/8 96.
        rto.sample(MS * 96);
        assert_eq!(rto.timeout(0), MS * (82 + 4 * 34));
        for _ in 0..200 {
            rto.sample(MS * 80);
        }
        // The variation has decayed to rounding; G remains.
        assert!(rto.timeout(0) > MS * 80 && rto.timeout(0) <= MS * 81, "{}", rto.timeout(0));
    }

    #[test]
    fn doublings_end_at_64_s_and_with_a_sample() {
        let mut rto = Rto::new(Timer::Estimated { min: MS * 500 });
        rto.sample(MS * 100);
        assert_eq!(rto.timeout(0), MS * 500);
        assert_eq!(rto.back_off(0), 1);
        assert_eq!((rto.timeout(1), rto.timeout(0)), (MS * 1000, MS * 1000));
        // The timer of another frame expires: that is not a second doubling.
        assert_eq!(rto.back_off(0), 1);
        assert_eq!(rto.timeout(0), MS * 1000);
        let doublings = (0..100).fold(1, |doublings, _| rto.back_off(doublings));
        assert_eq!(rto.timeout(doublings), Duration::from_secs(64));
        rto.sample(MS * 100);
        assert_eq!(rto.timeout(0), MS * 500);
        assert_eq!(rto.timeout(1), MS * 1000);
    }

    #[test]
    fn a_fixed_timer_stays_and_is_never_nothing() {
        let mut rto = Rto::new(Timer::Fixed(MS * 600));
        rto.sample(MS);
        assert_eq!(rto.back_off(3), 4);
        assert_eq!(rto.timeout(4), MS * 600);
        assert_eq!(Rto::new(Timer::Fixed(Duration::ZERO)).timeout(0), FLOOR);
        assert_eq!(Rto::new(Timer::Estimated { min: Duration::MAX }).timeout(9), Duration::MAX);
    }
}
