//! When a packet left for the hop: what the order of sendings is told by.

use crate::packet::Priority;

/// A place in the order; 0 before a packet has left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Number(pub u64);

/// One sending of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sending {
    pub number: Number,
    /// How it went in the queue.
    pub priority: Priority,
}

/// The sendings of a packet of which one has arrived or may still arrive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sendings {
    pub first: Sending,
    /// The first that is not a mere repetition of the one before it.
    pub again: Sending,
    /// The first mere repetition of that; `again` where there is none.
    pub repeated: Sending,
    pub last: Sending,
}

impl Sendings {
    /// Whether it left ahead of others the last time.
    pub fn is_urgent(self) -> bool {
        self.last.priority == Priority::Urgent
    }
}
