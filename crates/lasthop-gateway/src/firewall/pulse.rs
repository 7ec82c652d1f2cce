//! The sign of life without which rules lead nothing to the queue.

use crate::family::Family;

/// The name of the list (xt_recent) in which the gateway says that it lives.
pub const PULSE: &str = "lasthop";

/// Whether packets are led to the queue only while the gateway says that it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulse {
    /// Only then.
    Required,
    /// Always: the kernel has no `xt_recent`.
    None,
}

/// Matches while the gateway has said within the last second that it lives.
pub(super) fn matches(family: Family) -> String {
    // All addresses are one under this mask: the entry that the gateway writes.
    let mask = match family {
        Family::V4 => "0.0.0.0",
        Family::V6 => "::",
    };
    format!("-m recent --rcheck --seconds 1 --name {PULSE} --mask {mask} --rsource ")
}
