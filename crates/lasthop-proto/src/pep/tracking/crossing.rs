//! Time from a side's SYN at this point to the answer to it: the first measurement of that way.

use crate::time::{Duration, Instant};

/// State of one side's SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crossing {
    /// The SYN was not seen, or more than once, so that it is ambiguous which one was answered (Karn).
    Unknown,
    /// Seen at this time and not answered yet.
    Left(Instant),
    Took(Duration),
}

impl Crossing {
    /// Returns the crossing of a SYN seen once at `left`, whose answer was seen at `answered`.
    pub fn between(left: Option<Instant>, answered: Option<Instant>) -> Self {
        left.zip(answered).map_or(Self::Unknown, |(left, answered)| Self::Took(answered.since(left)))
    }

    /// Returns the crossing of a SYN seen once at `left`, which is not answered yet.
    pub fn begun(left: Option<Instant>) -> Self {
        left.map_or(Self::Unknown, Self::Left)
    }

    /// Records that the SYN is seen again.
    pub fn again(&mut self) {
        if let Self::Left(_) = self {
            *self = Self::Unknown;
        }
    }

    /// Records an acknowledgment of the SYN. `is_first` says that it acknowledges the SYN alone; if it acknowledges
    /// more, it is not the first answer.
    pub fn answer(&mut self, now: Instant, is_first: bool) {
        if let Self::Left(left) = *self {
            *self = if is_first { Self::Took(now.since(left)) } else { Self::Unknown };
        }
    }

    pub fn took(self) -> Option<Duration> {
        if let Self::Took(took) = self { Some(took) } else { None }
    }
}
