//! Removal of packets that have waited in the kernel's queue for too long.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Removes the entries that have waited for at least `longest`. Returns them, those of one key in their order, and the
/// time since which the oldest remaining entry has waited.
pub(super) fn remove_overdue<K: Eq + Hash, T: Copy>(
    waiting: &mut HashMap<K, VecDeque<T>>,
    since: impl Fn(&T) -> Instant,
    now: Instant,
    longest: Duration,
) -> (Vec<T>, Option<Instant>) {
    let mut removed = Vec::new();
    waiting.retain(|_, queue| {
        queue.retain(|one| {
            let lasts = now.duration_since(since(one)) < longest;
            if !lasts {
                removed.push(*one);
            }
            lasts
        });
        !queue.is_empty()
    });
    (removed, waiting.values().flatten().map(since).min())
}
