//! End of slow start before a loss: Linux's HyStart and RFC 9406's HyStart++.

mod classic;
mod plus_plus;

use self::classic::Classic;
use self::plus_plus::PlusPlus;
use super::control::AckSample;
use crate::time::{Duration, Instant};

/// Detection of the end of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum HystartRule {
    /// None.
    Off,
    /// Linux from 6.15 on.
    #[default]
    Linux,
    /// Linux before 6.15: rounds begin only while the window is at least 16 segments.
    LinuxBefore6_15,
    /// RFC 9406.
    Rfc9406,
}

impl HystartRule {
    /// All rules.
    pub const ALL: [Self; 4] = [Self::Off, Self::Linux, Self::LinuxBefore6_15, Self::Rfc9406];
}

/// Next step of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlowStart {
    /// Slow start continues.
    Stay,
    /// Slow start ends at this window.
    Leave,
}

/// Number of samples from which the minimum round trip of a round counts, in both kinds.
const SAMPLES: u32 = 8;
/// Lower bound of the rise of the round trip that ends slow start. Between the bounds, it is an eighth of the round
/// trip.
const LEAST_RISE: Duration = Duration::from_millis(4);
/// Upper bound of that rise.
const MOST_RISE: Duration = Duration::from_millis(16);

/// Returns the tolerated rise of a round trip above `base`.
fn tolerated_rise(base: Duration) -> Duration {
    (base / 8).clamp(LEAST_RISE, MOST_RISE)
}

/// State of the detection.
#[derive(Clone, Debug)]
pub(super) enum Hystart {
    Off,
    Classic(Classic),
    PlusPlus(PlusPlus),
}

impl Hystart {
    pub fn new(rule: HystartRule, mss: u32) -> Self {
        match rule {
            HystartRule::Off => Self::Off,
            HystartRule::Linux | HystartRule::LinuxBefore6_15 => Self::Classic(Classic::new(rule, mss)),
            HystartRule::Rfc9406 => Self::PlusPlus(PlusPlus::default()),
        }
    }

    /// Processes every acknowledgment, with or without a round trip, to advance rounds.
    pub fn on_round(&mut self, ack: &AckSample) {
        match self {
            Self::Off => {}
            Self::Classic(hystart) => hystart.on_round(ack),
            Self::PlusPlus(hystart) => hystart.on_round(ack),
        }
    }

    /// Processes a round trip `rtt` in slow start, with the window at `cwnd`.
    pub fn on_ack(&mut self, ack: &AckSample, rtt: Duration, min_rtt: Duration, cwnd: u32) -> SlowStart {
        match self {
            Self::Off => SlowStart::Stay,
            Self::Classic(hystart) => hystart.on_ack(ack, rtt, min_rtt, cwnd),
            Self::PlusPlus(hystart) => hystart.on_ack(rtt),
        }
    }

    /// Returns the number of delivered segments by which slow start may grow.
    pub fn allowed(&mut self, delivered: u32) -> u32 {
        match self {
            Self::Off | Self::Classic(_) => delivered,
            Self::PlusPlus(hystart) => hystart.allowed(delivered),
        }
    }

    /// Records a reduction: RFC 9406 §4.3 detects the end of the first slow start only.
    pub fn on_reduction(&mut self) {
        if let Self::PlusPlus(hystart) = self {
            hystart.stop();
        }
    }

    /// Handles a timeout at `now`: Linux restarts detection.
    pub fn restart(&mut self, now: Instant) {
        match self {
            Self::Off => {}
            Self::Classic(hystart) => hystart.restart(now),
            Self::PlusPlus(hystart) => hystart.stop(),
        }
    }
}
