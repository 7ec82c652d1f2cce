//! How long a side's SYN took from here to the other end, and the answer back: the first that is known of that way.

use crate::time::{Duration, Instant};

/// What is known of one side's SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Crossing {
    /// It did not come by, or more than once: nobody can tell which was answered (Karn).
    Unknown,
    /// It came by then, and is not answered yet.
    Left(Instant),
    Took(Duration),
}

impl Crossing {
    /// Of a SYN that came by once at `left`, whose answer did at `answered`.
    pub fn between(left: Option<Instant>, answered: Option<Instant>) -> Self {
        left.zip(answered).map_or(Self::Unknown, |(left, answered)| Self::Took(answered.since(left)))
    }

    /// Of a SYN that came by once at `left`, and is to be answered.
    pub fn begun(left: Option<Instant>) -> Self {
        left.map_or(Self::Unknown, Self::Left)
    }

    /// The SYN comes by again.
    pub fn again(&mut self) {
        if let Self::Left(_) = self {
            *self = Self::Unknown;
        }
    }

    /// The other end acknowledges the SYN alone, or more: then this is not the first answer.
    pub fn answer(&mut self, now: Instant, is_first: bool) {
        if let Self::Left(left) = *self {
            *self = if is_first { Self::Took(now.since(left)) } else { Self::Unknown };
        }
    }

    pub fn took(self) -> Option<Duration> {
        if let Self::Took(took) = self { Some(took) } else { None }
    }
}
