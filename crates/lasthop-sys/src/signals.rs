//! Signals of this process, received one by one with their origin.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Signals that are blocked in this process's threads until they are received.
#[derive(Debug)]
pub struct Signals {
    set: libc::sigset_t,
}

/// Received signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Number of the signal.
    pub number: i32,
    /// True if the kernel sent it: on Ctrl-C in a terminal, to all foreground processes; or at the end of a child.
    pub by_kernel: bool,
}

impl Signals {
    /// Blocks the signals with these numbers in the calling thread and in threads that it starts later. Programs that
    /// these start inherit the signal mask unless started with [`release_in`].
    ///
    /// # Errors
    ///
    /// Returns an error if a number is not a signal's.
    pub fn hold(numbers: &[i32]) -> io::Result<Self> {
        // SAFETY: a set consists of integers, so all zeros is valid; `sigemptyset` then makes it an empty set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` lives through the call.
        unsafe { libc::sigemptyset(&raw mut set) };
        for number in numbers {
            // SAFETY: `set` lives through the call; a wrong number is refused.
            if unsafe { libc::sigaddset(&raw mut set, *number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: `set` lives through the call; the old mask is not asked for.
        let outcome = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if outcome == 0 { Ok(Self { set }) } else { Err(io::Error::from_raw_os_error(outcome)) }
    }

    /// Returns the next signal, after waiting for at most `longest`.
    ///
    /// # Errors
    ///
    /// Returns an error if waiting fails.
    pub fn next(&self, longest: Duration) -> io::Result<Option<Signal>> {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(longest.as_secs()).unwrap_or(libc::time_t::MAX),
            // The value is below a billion and fits the type on every platform.
            tv_nsec: longest.subsec_nanos() as _,
        };
        // SAFETY: all zeros is valid: integers, and pointers that are not dereferenced.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: set, information and time live through the call.
        let number = unsafe { libc::sigtimedwait(&raw const self.set, &raw mut info, &raw const timeout) };
        if number > 0 {
            // Codes above zero are the kernel's (sigaction(2)).
            return Ok(Some(Signal { number, by_kernel: info.si_code > 0 }));
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(None),
            error => Err(error),
        }
    }
}

/// Clears the signal mask of `command` before it starts. Otherwise [`Command`] passes on the calling thread's mask.
pub fn release_in(command: &mut Command) {
    let release = || {
        // SAFETY: a set consists of integers, so all zeros is valid; `sigemptyset` then makes it an empty set.
        let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `none` lives through both calls; the old mask is not asked for.
        let outcome = unsafe {
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(outcome)) }
    };
    // SAFETY: between fork and exec it makes a system call, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(release) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a separate thread, to which the signal is sent, so that other test threads are not affected.
    #[test]
    fn held_signals_are_taken_and_programs_get_theirs() {
        let work = || {
            let signals = Signals::hold(&[libc::SIGUSR1]).unwrap();
            assert_eq!(signals.next(Duration::from_millis(1)).unwrap(), None);
            // SAFETY: the calling thread exists, and holds the signal back.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
            let expected = Some(Signal { number: libc::SIGUSR1, by_kernel: false });
            assert_eq!(signals.next(Duration::from_secs(5)).unwrap(), expected);
            assert_eq!(signals.next(Duration::ZERO).unwrap(), None);
            let mut sleep = Command::new("sleep");
            release_in(&mut sleep);
            let mut child = sleep.arg("60").spawn().unwrap();
            // SAFETY: the child is not waited for yet, so that the number is its own.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
            assert!(!child.wait().unwrap().success(), "it died of the signal");
        };
        std::thread::spawn(work).join().unwrap();
        assert!(Signals::hold(&[1000]).is_err());
    }
}
