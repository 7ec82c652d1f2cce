//! Socket options with integer values.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const LENGTH: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;

/// Sets an option.
pub(crate) fn set(socket: &impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` is of the length given and lives through the call.
    let outcome = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), LENGTH) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the value of an option.
pub(crate) fn get(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<libc::c_int> {
    let (mut value, mut length) = (0, LENGTH);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` has room for `length` bytes, and the kernel writes at most that many.
    let outcome = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Fills `bytes` with the value of an option, truncated if it does not fit, and returns its length.
pub(crate) fn read(socket: &impl AsFd, level: libc::c_int, option: libc::c_int, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(bytes.len()).unwrap_or(libc::socklen_t::MAX);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `bytes` has room for `length` bytes, and the kernel writes at most that many.
    let outcome = unsafe { libc::getsockopt(fd, level, option, bytes.as_mut_ptr().cast(), &raw mut length) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok((length as usize).min(bytes.len())) }
}
