//! Checks whether a machine can run BPF programs at interfaces.

use lasthop_sys::namespace;
use rustix::thread::CapabilitySet;

use crate::finding::{Finding, Outcome, effective, held};

/// Index of the loopback device in every network namespace.
pub const LOOPBACK: u32 = 1;

/// Checks whether the process may load programs, and has the capabilities in `more`; `name` identifies the programs in
/// messages.
pub fn capability(name: &str, more: CapabilitySet) -> Finding {
    let has = effective();
    let bpf = has.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
    held(name, bpf && has.contains(more), Outcome::Missing)
}

/// Checks whether the kernel accepts programs: `attempt` attaches them to the loopback device of an empty network
/// namespace, which disappears with the thread that created it.
pub fn programs(attempt: impl FnOnce() -> Result<(), String> + Send + 'static) -> Finding {
    const SUBJECT: &str = "BPF programs";
    let attempt = std::thread::spawn(|| {
        if let Err(error) = namespace::enter_new() {
            return Finding::new(SUBJECT, Outcome::Hint, format!("cannot test them in a network namespace: {error}"));
        }
        match attempt() {
            Ok(()) => Finding::new(SUBJECT, Outcome::Ok, "accepted by the kernel"),
            Err(error) => Finding::new(SUBJECT, Outcome::Missing, error),
        }
    });
    attempt.join().unwrap_or_else(|_| Finding::new(SUBJECT, Outcome::Hint, "could not be tested"))
}
