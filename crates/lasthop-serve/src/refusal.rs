//! What is wrong with a request, in one line that names the key.

use lasthop_scenario::one_line;
use lasthop_sim::Overflow;
use serde::Serialize;

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Serialize, thiserror::Error, Debug)]
#[error("{message}")]
pub struct Refusal {
    /// One line: what was given, and what would be right.
    pub message: String,
    /// The key of the scenario in question, if it is one of a key.
    pub key: Option<String>,
    /// The parameter of the request that it is about: the page shows the message beside its control.
    pub control: Option<String>,
}

impl Refusal {
    /// `control` cannot be what was given.
    pub(crate) fn of(control: &str, message: impl Into<String>) -> Self {
        let message = one_line(&format!("{control}: {}", message.into()));
        Self { message, key: None, control: Some(control.to_owned()) }
    }

    /// A message that names what it is about itself.
    pub(crate) fn plain(message: String, control: &str) -> Self {
        Self { message, key: None, control: Some(control.to_owned()) }
    }

    /// A run held too many frames.
    pub(crate) fn overflow(overflow: &Overflow) -> Self {
        let key = Some(format!("links.{}.queue", overflow.link));
        Self { message: one_line(&overflow.to_string()), key, control: None }
    }

    /// The scenario does not hold; `control` is where it was set, if it was set from the page.
    pub(crate) fn scenario(error: &lasthop_scenario::Error, control: Option<&str>) -> Self {
        // Where a value was set is plain to who set it.
        let message = match (error.key(), control) {
            (Some(key), Some(_)) => one_line(&format!("{key}: {}", error.problem())),
            _ => error.to_string(),
        };
        Self { message, key: error.key().map(str::to_owned), control: control.map(str::to_owned) }
    }
}
