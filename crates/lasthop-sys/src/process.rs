//! Settings of this process in the kernel and the C library.

use std::io;
use std::time::Duration;

/// Gives the calling thread real-time scheduling (`SCHED_FIFO`) with a priority of 1 to 99.
///
/// # Errors
///
/// Returns an error if the process lacks permission.
pub fn go_real_time(priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives through the call; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the calling thread precedence over all other threads that are not real-time: the lowest niceness, and time
/// slices of `slice`, where shorter ones reduce the latency after a wakeup (`SCHED_OTHER`; Linux before 6.12 ignores
/// custom slices).
///
/// # Errors
///
/// Returns an error if the process lacks permission.
pub fn go_first(slice: Duration) -> io::Result<()> {
    const LEAST_NICENESS: i32 = -20;
    // SAFETY: integers only, of which 0 is one.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_nice = LEAST_NICENESS;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: `attributes` lives through the call and says how long it is; 0 is the calling thread; there are no flags.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Keeps freed memory in this process instead of returning its pages to the kernel.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator, which takes it at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}
