//! Heartbeat that rules require to send packets to the queue.

use crate::family::Family;

/// Name of the `xt_recent` list in which the gateway records its heartbeat.
pub const PULSE: &str = "lasthop";

/// Dependence of the rules on the gateway's heartbeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulse {
    /// Packets go to the queue only while the heartbeat is recent.
    Required,
    /// Packets always go to the queue: the kernel has no `xt_recent`.
    None,
}

/// Returns a match that is true for one second after each heartbeat.
pub(super) fn matches(family: Family) -> String {
    // With this mask all addresses are equal to the entry that the gateway writes.
    let mask = match family {
        Family::V4 => "0.0.0.0",
        Family::V6 => "::",
    };
    format!("-m recent --rcheck --seconds 1 --name {PULSE} --mask {mask} --rsource ")
}
