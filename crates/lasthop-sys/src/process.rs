//! How the kernel and the C library treat this process.

use std::io;

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

/// Keeps memory that is freed for this process, instead of giving its pages back to the kernel.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator, which takes it at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}
