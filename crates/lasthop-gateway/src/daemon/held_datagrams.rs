//! Datagrams that a rule for QUIC holds, kept in the kernel's queue until the engine releases them. The kernel then
//! forwards them itself, so that they are unchanged and have the translated addresses of their connection.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::daemon::overdue::remove_overdue;

/// Maximum number of datagrams to keep in the queue: the kernel searches them for each verdict. Further ones pass.
const MOST: usize = 1024;
/// Maximum time to keep a datagram: the engine releases it within 25 ms.
const LONGEST: Duration = Duration::from_secs(1);

/// A datagram that the engine holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Waiting {
    /// Number in the queue; `None` if it has passed.
    id: Option<u32>,
    since: Instant,
}

/// Verdict on a datagram that the engine releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Release {
    /// The datagram in the queue continues.
    Accept(u32),
    /// The datagram has passed before.
    Passed,
}

/// Result of keeping a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// The datagram waits in the queue.
    Waits,
    /// There is no space: the datagram must be accepted now.
    Passes,
}

/// Datagrams that the engine holds, by their bytes. Those with equal bytes are interchangeable.
#[derive(Debug, Default)]
pub(super) struct HeldDatagrams {
    waiting: HashMap<Vec<u8>, VecDeque<Waiting>>,
    /// Number of those that are in the queue.
    count: usize,
    next: Option<Instant>,
}

impl HeldDatagrams {
    /// Returns whether no datagram waits in the queue.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether no release is expected.
    pub fn awaits_none(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps a datagram in the queue until the engine releases it.
    pub fn keep(&mut self, now: Instant, id: u32, packet: Vec<u8>) -> Kept {
        let has_space = self.count < MOST;
        let waiting = Waiting { id: has_space.then_some(id), since: now };
        self.waiting.entry(packet).or_default().push_back(waiting);
        self.next.get_or_insert(now + LONGEST);
        self.count += usize::from(has_space);
        if has_space { Kept::Waits } else { Kept::Passes }
    }

    /// Returns the verdict on a datagram that the engine releases; `None` if it is not among those held.
    pub fn release(&mut self, packet: &[u8]) -> Option<Release> {
        let waiting = self.waiting.get_mut(packet)?;
        let first = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(packet);
        }
        Some(match first.id {
            Some(id) => {
                self.count -= 1;
                Release::Accept(id)
            }
            None => Release::Passed,
        })
    }

    /// Removes datagrams that were not released in time, and returns the numbers of those that are to be accepted.
    pub fn expire(&mut self, now: Instant) -> Vec<u32> {
        if self.next.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let (ended, oldest) = remove_overdue(&mut self.waiting, |one| one.since, now, LONGEST);
        let ids: Vec<u32> = ended.into_iter().filter_map(|one| one.id).collect();
        self.count -= ids.len();
        self.next = oldest.map(|since| since + LONGEST);
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_continues_once_when_it_is_released() {
        let (mut held, now) = (HeldDatagrams::default(), Instant::now());
        for (id, bytes) in [(1, b"one"), (2, b"two"), (3, b"one")] {
            assert_eq!(held.keep(now, id, bytes.to_vec()), Kept::Waits);
        }
        let released = [b"two", b"one", b"one", b"one"].map(|bytes| held.release(bytes));
        assert_eq!(released, [Some(Release::Accept(2)), Some(Release::Accept(1)), Some(Release::Accept(3)), None]);
        assert!(held.is_empty());
    }

    #[test]
    fn beyond_the_limit_datagrams_pass_at_once_and_none_is_kept_for_long() {
        let (mut held, now) = (HeldDatagrams::default(), Instant::now());
        let kept = |id: u32| held.keep(now, id, id.to_be_bytes().to_vec()) == Kept::Waits;
        assert_eq!((0..2000).map(kept).filter(|waits| *waits).count(), MOST);
        assert_eq!(held.release(&1999_u32.to_be_bytes()), Some(Release::Passed));
        assert!(held.expire(now + LONGEST / 2).is_empty());
        assert_eq!(held.expire(now + LONGEST).len(), MOST);
        assert!(held.is_empty() && held.waiting.is_empty());
    }
}
