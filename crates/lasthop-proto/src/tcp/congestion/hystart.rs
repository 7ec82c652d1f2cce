//! When slow start ends before a loss: Linux's HyStart and RFC 9406's HyStart++.

mod classic;
mod plus_plus;

use self::classic::Classic;
use self::plus_plus::PlusPlus;
use super::control::AckSample;
use crate::time::{Duration, Instant};

/// How a sender looks for the end of slow start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum HystartRule {
    /// Not at all.
    Off,
    /// Linux from 6.15 on.
    #[default]
    Linux,
    /// Linux before 6.15: rounds begin only while the window is at least 16 segments.
    LinuxBefore6_15,
    /// RFC 9406.
    Rfc9406,
}

/// What slow start does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlowStart {
    /// It goes on.
    Stay,
    /// It ends at this window.
    Leave,
}

/// The shortest of a round's round trips counts once so many have been measured, in both kinds.
const SAMPLES: u32 = 8;
/// A round trip longer by an eighth ends slow start, but by no less than this...
const LEAST_RISE: Duration = Duration::from_millis(4);
/// ... and by no more than this.
const MOST_RISE: Duration = Duration::from_millis(16);

/// By how much a round trip may rise above `base`.
fn tolerated_rise(base: Duration) -> Duration {
    (base / 8).clamp(LEAST_RISE, MOST_RISE)
}

/// The state of the search.
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

    /// Every acknowledgment, whether it has a round trip or not: rounds go on.
    pub fn on_round(&mut self, ack: &AckSample) {
        match self {
            Self::Off => {}
            Self::Classic(hystart) => hystart.on_round(ack),
            Self::PlusPlus(hystart) => hystart.on_round(ack),
        }
    }

    /// A round trip `rtt` in slow start, with the window at `cwnd`.
    pub fn on_ack(&mut self, ack: &AckSample, rtt: Duration, min_rtt: Duration, cwnd: u32) -> SlowStart {
        match self {
            Self::Off => SlowStart::Stay,
            Self::Classic(hystart) => hystart.on_ack(ack, rtt, min_rtt, cwnd),
            Self::PlusPlus(hystart) => hystart.on_ack(rtt),
        }
    }

    /// How many of the segments delivered slow start may grow by.
    pub fn allowed(&mut self, delivered: u32) -> u32 {
        match self {
            Self::Off | Self::Classic(_) => delivered,
            Self::PlusPlus(hystart) => hystart.allowed(delivered),
        }
    }

    /// A reduction: RFC 9406 §4.3 looks for the end of the first slow start only.
    pub fn on_reduction(&mut self) {
        if let Self::PlusPlus(hystart) = self {
            hystart.stop();
        }
    }

    /// A timeout at `now`: Linux looks again.
    pub fn restart(&mut self, now: Instant) {
        match self {
            Self::Off => {}
            Self::Classic(hystart) => hystart.restart(now),
            Self::PlusPlus(hystart) => hystart.stop(),
        }
    }
}
