//! Errors of a request, in one line that names the key.

use lasthop_scenario::one_line;
use lasthop_sim::Overflow;
use serde::Serialize;

/// Reason for which a request is refused.
#[derive(Clone, PartialEq, Eq, Serialize, thiserror::Error, Debug)]
#[error("{message}")]
pub struct Refusal {
    /// Message of one line: the given value, and the expected form.
    pub message: String,
    /// Key of the scenario in question, if there is one.
    pub key: Option<String>,
    /// Parameter of the request in question: the page shows the message next to the parameter's control.
    pub control: Option<String>,
}

impl Refusal {
    /// Creates a refusal of the value of `control`.
    pub(crate) fn of(control: &str, message: impl Into<String>) -> Self {
        let message = one_line(&format!("{control}: {}", message.into()));
        Self { message, key: None, control: Some(control.to_owned()) }
    }

    /// Creates a refusal from a message that names its subject itself.
    pub(crate) fn plain(message: String, control: &str) -> Self {
        Self { message, key: None, control: Some(control.to_owned()) }
    }

    /// Creates a refusal of a run with too many frames.
    pub(crate) fn overflow(overflow: &Overflow) -> Self {
        let key = Some(format!("links.{}.queue", overflow.link));
        Self { message: one_line(&overflow.to_string()), key, control: None }
    }

    /// Creates a refusal of an invalid scenario; `control` is where the value was set, if that was on the page.
    pub(crate) fn scenario(error: &lasthop_scenario::Error, control: Option<&str>) -> Self {
        // The user knows where a value was set.
        let message = match (error.key(), control) {
            (Some(key), Some(_)) => one_line(&format!("{key}: {}", error.problem())),
            _ => error.to_string(),
        };
        Self { message, key: error.key().map(str::to_owned), control: control.map(str::to_owned) }
    }
}
