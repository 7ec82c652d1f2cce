//! Dropped packets, by cause.

use crate::trace::DropReason;

/// Packets dropped, by cause. Excludes acknowledgments that an ACK-aware queue filtered, since later ones replace them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// Packets dropped by a full queue.
    pub queue_full: u64,
    /// Packets dropped by the queue's management, such as CoDel.
    pub managed_queue: u64,
    /// Packets dropped by a policer.
    pub policer: u64,
    /// Packets destroyed by the channel.
    pub channel: u64,
    /// Packets lost because the moving host was not at this link.
    pub handoff: u64,
}

impl Drops {
    /// Counts a packet dropped for `reason`.
    pub fn count(&mut self, reason: DropReason) {
        match reason {
            DropReason::Queue => self.queue_full += 1,
            DropReason::Aqm => self.managed_queue += 1,
            DropReason::Policer => self.policer += 1,
            DropReason::Channel => self.channel += 1,
            DropReason::Handoff => self.handoff += 1,
            DropReason::Filtered => {}
        }
    }

    /// Returns the sum of the counts of `self` and `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            queue_full: self.queue_full + other.queue_full,
            managed_queue: self.managed_queue + other.managed_queue,
            policer: self.policer + other.policer,
            channel: self.channel + other.channel,
            handoff: self.handoff + other.handoff,
        }
    }

    /// Returns the packets dropped by queues, whether full or managed.
    pub const fn queues(&self) -> u64 {
        self.queue_full + self.managed_queue
    }

    /// Returns each count with its stable name, in a fixed order.
    pub const fn by_cause(&self) -> [(&'static str, u64); 5] {
        [
            ("queue_full_drops", self.queue_full),
            ("managed_queue_drops", self.managed_queue),
            ("policer_drops", self.policer),
            ("channel_drops", self.channel),
            ("handoff_drops", self.handoff),
        ]
    }
}
