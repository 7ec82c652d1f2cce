//! Findings of a check of the machine.

use rustix::thread::{CapabilitySet, capabilities};
use serde::Serialize;

/// Outcome of one check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The requirement is met.
    Ok,
    /// Operation is possible but limited, or the state could not be determined.
    Hint,
    /// The requirement is not met, and operation is impossible.
    Missing,
}

/// Result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Subject of the check.
    pub subject: String,
    /// Outcome.
    pub outcome: Outcome,
    /// Details, and the remedy.
    pub detail: String,
}

impl Finding {
    /// Creates a finding on `subject`.
    pub fn new(subject: impl Into<String>, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), outcome, detail: detail.into() }
    }
}

/// Returns the effective capabilities of this thread.
pub fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Returns the finding on a capability; `without` is the outcome if it is not held.
pub fn held(name: &str, is_held: bool, without: Outcome) -> Finding {
    match is_held {
        true => Finding::new(name, Outcome::Ok, "held"),
        false => Finding::new(name, without, "not held; run as root or from the systemd unit"),
    }
}
