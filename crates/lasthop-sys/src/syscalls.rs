//! System call filter of the worker (seccomp). All calls that it makes while packets pass are allowed. Others fail with
//! `EPERM`, because an incidental call by another C library or kernel must not cost the connections their gateway.
//! Calls that only an attacker would make end the process.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod filter;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub use filter::confine;

/// Signal that kills a process that makes a forbidden call.
pub const SIGNAL: i32 = libc::SIGSYS;

/// Leaves all calls available: call numbers of this architecture are unknown here.
///
/// # Errors
///
/// Always returns an error.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub fn confine(_: crate::privileges::Tasks) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "no seccomp filter for this architecture"))
}
