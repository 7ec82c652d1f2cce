//! Initiations of a peer: replays, and their rate.

use std::collections::VecDeque;

use lasthop_proto::time::{Duration, Instant};

/// Number of timestamps to remember, to distinguish a replay from a clock that was set back.
const REMEMBERED: usize = 64;
/// Minimum time between initiations of one peer; earlier ones are dropped.
const INITIATION_GAP: Duration = Duration::from_millis(20);
/// Minimum time between two refusals of a stale timestamp.
const REFUSAL_GAP: Duration = Duration::from_secs(5);

/// Freshness of an initiation's timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    New,
    /// Below the newest, but never seen: the peer's clock was set back.
    Stale,
    Replayed,
}

/// Timestamps and times of the initiations received from a peer.
#[derive(Default)]
pub(crate) struct Initiations {
    newest: u64,
    recent: VecDeque<u64>,
    heard_at: Option<Instant>,
    refused_at: Option<Instant>,
}

impl Initiations {
    /// Returns the freshness of a timestamp; [`Self::remember`] stores a new one.
    pub(crate) fn freshness(&self, timestamp: u64) -> Freshness {
        if timestamp > self.newest || self.recent.is_empty() {
            Freshness::New
        } else if self.recent.contains(&timestamp) {
            Freshness::Replayed
        } else {
            Freshness::Stale
        }
    }

    /// Returns the last timestamp that was new.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    pub(crate) fn remember(&mut self, timestamp: u64) {
        self.newest = timestamp;
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(timestamp);
    }

    /// Returns whether an initiation may be processed now.
    pub(crate) fn may_hear(&mut self, now: Instant) -> bool {
        allow(&mut self.heard_at, now, INITIATION_GAP)
    }

    /// Returns whether a refusal may be sent now.
    pub(crate) fn may_refuse(&mut self, now: Instant) -> bool {
        allow(&mut self.refused_at, now, REFUSAL_GAP)
    }
}

/// Returns whether `gap` has passed since the last time that this returned true.
fn allow(last: &mut Option<Instant>, now: Instant, gap: Duration) -> bool {
    let may = last.is_none_or(|at| now.since(at) >= gap);
    if may {
        *last = Some(now);
    }
    may
}
