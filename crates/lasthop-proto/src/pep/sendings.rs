//! Transmissions of a packet over the hop, from which losses are inferred by order.

use crate::packet::Priority;

/// Position in the order of transmissions; 0 before a packet has left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Number(pub u64);

/// One transmission of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sending {
    pub number: Number,
    /// Priority in the queue.
    pub priority: Priority,
}

/// Transmissions of a packet of which one has arrived or may still arrive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sendings {
    pub first: Sending,
    /// First transmission that is not a mere repetition of the one before it.
    pub again: Sending,
    /// First repetition of that transmission; `again` if there is none.
    pub repeated: Sending,
    pub last: Sending,
}

impl Sendings {
    /// Returns whether the last transmission was urgent, ahead of other packets.
    pub fn is_urgent(self) -> bool {
        self.last.priority == Priority::Urgent
    }
}
