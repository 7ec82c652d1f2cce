//! How the kernel schedules the thread that carries frames.

use std::ffi::c_int;
use std::num::NonZeroU64;
use std::time;

use lasthop_proto::time::{Duration, Instant};
use lasthop_sys::process::{go_first, go_real_time};
use rustix::time::{ClockId, clock_gettime};

/// Above all that is not real-time, below the kernel's own.
const PRIORITY: c_int = 10;
/// A turn of a thread that is first among those that are not real-time: some frames of 1 Gbps.
const SLICE: time::Duration = time::Duration::from_micros(100);
/// Over which a real-time thread's share of its processor is taken.
const SPAN: Duration = Duration::from_millis(250);
/// A thread that takes more than this part of the span gives up real-time priority: at 19 of 20 the kernel would stop it for 50 ms.
const MOST: (u64, u64) = (3, 4);

/// How the kernel schedules the emulator's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// Ahead of everything that is not real-time.
    RealTime,
    /// Ahead of everything that is not real-time, for the most part: with the least niceness, in short turns.
    First,
    /// Like everything else.
    Normal,
}

impl Scheduling {
    /// In words, as `real-time` priority.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::First => "first",
            Self::Normal => "normal",
        }
    }

    /// Schedules the calling thread so, or as near to it as the kernel grants.
    fn apply(self) -> Self {
        match self {
            Self::RealTime if go_real_time(PRIORITY).is_ok() => Self::RealTime,
            Self::RealTime | Self::First if go_first(SLICE).is_ok() => Self::First,
            _ => Self::Normal,
        }
    }
}

/// The calling thread's scheduling: real-time as long as it leaves the processor to others for some of the time.
pub struct Scheduled {
    scheduling: Scheduling,
    since: Instant,
    /// What the thread had used of a processor then.
    used: Duration,
}

impl Scheduled {
    /// Schedules the calling thread. Where all is refused, it wakes later, which is measured.
    pub fn new(now: Instant) -> Self {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self { scheduling: Scheduling::RealTime.apply(), since: now, used: processor_time() }
    }

    /// Looks, each span, at how much of a processor the thread takes.
    pub fn look(&mut self, now: Instant) {
        if self.scheduling != Scheduling::RealTime || now.since(self.since) < SPAN {
            return;
        }
        let used = processor_time();
        if used.saturating_sub(self.used).saturating_mul(MOST.1) > now.since(self.since).saturating_mul(MOST.0) {
            self.scheduling = Scheduling::First.apply();
        }
        (self.since, self.used) = (now, used);
    }

    /// How the thread is scheduled now.
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling
    }
}

/// What the calling thread has used of a processor.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(used.tv_sec.unsigned_abs()) + Duration::from_nanos(used.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For so long, of the thread's own time.
    fn work(long: Duration) {
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < long {}
    }

    #[test]
    fn a_thread_that_never_rests_does_not_keep_real_time_priority() {
        let begun = Instant::ZERO;
        let mut scheduled = Scheduled::new(begun);
        let first = scheduled.scheduling();
        // A hundredth of the span, then all of it.
        work(SPAN / 100);
        scheduled.look(begun + SPAN);
        assert_eq!(scheduled.scheduling(), first);
        work(SPAN);
        scheduled.look(begun + SPAN + SPAN);
        assert_ne!(scheduled.scheduling(), Scheduling::RealTime);
        if first != Scheduling::RealTime {
            eprintln!("SKIPPED: this user may not have real-time priority (it is {first:?})");
        }
    }
}
