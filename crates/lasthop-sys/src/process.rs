//! How the kernel and the C library treat this process.

use std::io;
use std::time::Duration;

/// Schedules the calling thread ahead of everything that is not real-time (`SCHED_FIFO`), with this priority among those
/// that are: 1 to 99.
///
/// # Errors
///
/// Without the right to do so.
pub fn go_real_time(priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives through the call; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Schedules the calling thread ahead of all that is not real-time and has not the same rank: the least niceness there is, and turns of `slice`,
/// the shorter the sooner it has one after waking (`SCHED_OTHER`; turns of one's own since Linux 6.12, which older kernels ignore).
///
/// # Errors
///
/// Without the right to do so.
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

/// Keeps memory that is freed for this process, instead of giving its pages back to the kernel.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator, which takes it at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}
