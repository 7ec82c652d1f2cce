//! State of loss detection by the mobile host's reports of arrivals.

use super::copies::Copies;
use super::order::Order;
use super::reordering::Reordering;
use crate::packet::SackBlocks;
use crate::seq::Seq;

/// Indicates whether this mobile host reports arrivals above a hole.
///
/// | from | event | to |
/// |---|---|---|
/// | `Unseen` | acknowledgment with a SMART number or a SACK block | `Seen` |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reports {
    Unseen,
    Seen,
}

/// Reports of the mobile host, and the order of transmissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detection {
    pub reports: Reports,
    /// SACK blocks processed last.
    pub blocks: SackBlocks,
    /// Highest packet that the mobile host reported as received.
    pub highest_marked: Option<Seq>,
    /// Order in which packets left, and the losses that it shows.
    pub order: Order,
    pub reordering: Reordering,
    pub copies: Copies,
}

impl Detection {
    /// Returns the state before any report.
    pub fn new() -> Self {
        Self {
            reports: Reports::Unseen,
            blocks: SackBlocks::default(),
            highest_marked: None,
            order: Order::default(),
            reordering: Reordering::NONE,
            copies: Copies::default(),
        }
    }

    /// Records that everything below `ack` has arrived.
    pub fn acknowledged(&mut self, ack: Seq) {
        self.highest_marked = self.highest_marked.filter(|highest| highest.ge(ack));
    }
}
