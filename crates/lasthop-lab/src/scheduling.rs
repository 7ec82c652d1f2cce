//! Scheduling of the thread that carries frames.

use std::ffi::c_int;
use std::num::NonZeroU64;
use std::time;

use lasthop_proto::time::{Duration, Instant};
use lasthop_sys::process::{go_first, go_real_time};
use rustix::time::{ClockId, clock_gettime};

/// Real-time priority, below that of the kernel's own threads.
const PRIORITY: c_int = 10;
/// Time slice of a thread with the least niceness: the time of some frames at 1 Gbps.
const SLICE: time::Duration = time::Duration::from_micros(100);
/// Interval over which a real-time thread's share of its processor is measured.
const SPAN: Duration = Duration::from_millis(250);
/// Maximum share of the processor at real-time priority. A thread that exceeds it gives up the priority: at 19 of 20
/// the kernel would stop it for 50 ms.
const MOST: (u64, u64) = (3, 4);

/// Scheduling of the emulator's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// Real-time priority.
    RealTime,
    /// Least niceness, in short time slices: mostly ahead of everything that is not real-time.
    First,
    /// Default scheduling.
    Normal,
}

impl Scheduling {
    /// Returns the scheduling's name, to be followed by "priority".
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::First => "first",
            Self::Normal => "normal",
        }
    }

    /// Applies this scheduling to the calling thread, or the nearest that the kernel permits.
    fn apply(self) -> Self {
        match self {
            Self::RealTime if go_real_time(PRIORITY).is_ok() => Self::RealTime,
            Self::RealTime | Self::First if go_first(SLICE).is_ok() => Self::First,
            _ => Self::Normal,
        }
    }
}

/// Scheduling of the calling thread: real-time as long as it leaves some of the processor's time to others.
pub struct Scheduled {
    scheduling: Scheduling,
    since: Instant,
    /// Processor time of the thread at `since`.
    used: Duration,
}

impl Scheduled {
    /// Schedules the calling thread. If the kernel refuses, the thread wakes later, which is measured.
    pub fn new(now: Instant) -> Self {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self { scheduling: Scheduling::RealTime.apply(), since: now, used: processor_time() }
    }

    /// Checks the thread's share of a processor once per span.
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

    /// Returns the current scheduling of the thread.
    pub fn scheduling(&self) -> Scheduling {
        self.scheduling
    }
}

/// Returns the processor time of the calling thread.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(used.tv_sec.unsigned_abs()) + Duration::from_nanos(used.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for `long` of the thread's processor time.
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
