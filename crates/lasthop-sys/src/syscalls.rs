//! The system calls that the worker keeps (seccomp). All that it calls while packets pass is allowed; the rest fails with
//! `EPERM`, since a call that another C library or kernel makes in passing must not cost the connections their gateway. What
//! only an attacker would call ends the process at once.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod filter;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub use filter::confine;

/// The signal of which a process dies that makes a call that no worker makes.
pub const SIGNAL: i32 = libc::SIGSYS;

/// Leaves a process all calls: how this processor's are numbered is not known here.
///
/// # Errors
///
/// Always.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub fn confine(_: crate::privileges::Work) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "no filter for this processor"))
}
