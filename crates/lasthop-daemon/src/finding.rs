//! What a check of the machine found.

use serde::Serialize;

/// What came of one check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is there.
    Ok,
    /// It works without, though less well; or it could not be found out.
    Hint,
    /// It does not work without.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The thing.
    pub subject: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What was found, and what would help.
    pub detail: String,
}

impl Finding {
    /// What was found on `subject`.
    pub fn new(subject: impl Into<String>, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), outcome, detail: detail.into() }
    }
}
