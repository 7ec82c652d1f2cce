//! Cache capacity: which connections are evicted when the cache is full, and how removed connections are released in
//! parts.

use super::{Owner, Snoop};
use crate::event::Event;
use crate::packet::{FlowId, Packet, Payload, Side};
use crate::pep::cache::{Pace, charge};
use crate::pep::repair::{Outbox, Repair};
use crate::pep::snoop_config::SnoopConfig;
use crate::pep::tracking::Tracking;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Interval between two parts of the deferred work, unless packets of the connection trigger them sooner.
const CATCH_UP: Duration = Duration::from_millis(1);

/// Maximum number of connections that one packet evicts from the cache.
const MOST_EVICTED: usize = 16;

/// Divisor of the cache size: an owner may evict others only while it uses less than this part of the cache.
const FAIR_PART: u64 = 4;

impl<P: Payload> Snoop<P> {
    /// Returns whether the packet fits, after evicting connections that have been unused for longer.
    pub(super) fn make_room(&mut self, now: Instant, slot: u32, packet: &Packet<P>) -> bool {
        let charge = charge(packet);
        // Frees more than the packet adds.
        self.dissolve(Pace::Data);
        let Some((_, connection)) = self.connections.get_mut(slot) else { return false };
        let own = connection.entry.owner.and_then(|Owner(owner)| self.owned_bytes.get(owner as usize).copied());
        let own = own.unwrap_or(connection.cache.bytes()).saturating_add(charge);
        if connection.cache.is_full() {
            return false;
        }
        for _ in 0..MOST_EVICTED {
            if self.cached_bytes.saturating_add(charge) <= self.config.cache_bytes {
                return true;
            }
            // The data nearest to its acknowledgment is the most valuable: a connection at its share keeps what it has.
            if own > self.config.cache_bytes / FAIR_PART || !self.over.is_empty() {
                return false;
            }
            // The connection itself was just touched, so it is the newest.
            match self.connections.oldest().filter(|&oldest| oldest != slot) {
                Some(oldest) => self.evict(now, oldest),
                None => return false,
            }
            self.dissolve(Pace::Data);
        }
        false
    }

    pub(super) fn create(&mut self, now: Instant, flow: FlowId, data_from: Side) -> Option<u32> {
        if self.connections.is_full()
            && let Some(oldest) = self.connections.oldest()
        {
            self.evict(now, oldest);
        }
        self.connections.insert(flow, Repair::new(now, &self.config, data_from, Seq(0), Tracking::new()))
    }

    pub(super) fn evict(&mut self, now: Instant, slot: u32) {
        if let Some(flow) = self.forget(now, Some(slot)) {
            self.out.events.push_back((flow, Event::Evicted));
        }
    }

    /// Drops the state of a connection that continues without this element.
    pub(super) fn forget(&mut self, now: Instant, slot: Option<u32>) -> Option<FlowId> {
        let (flow, connection) = self.discard(slot?)?;
        self.end(now, connection);
        Some(flow)
    }

    /// Removes and returns the state of a connection.
    pub(super) fn discard(&mut self, slot: u32) -> Option<(FlowId, Repair<P>)> {
        let (flow, connection) = self.connections.remove(slot)?;
        if let Some(at) = connection.entry.queued {
            self.timers.remove(&(at, slot));
            self.next_timer = self.timers.first().map(|&(at, _)| at);
        }
        Some((flow, connection))
    }

    /// Releases the data of a removed connection: at once if it is little, otherwise in parts.
    pub(super) fn end(&mut self, now: Instant, mut connection: Repair<P>) {
        if connection.cache.is_small() {
            connection.flush(Instant::ZERO, &mut self.out);
            self.count(connection.entry.owner, connection.cache.bytes(), 0);
            return;
        }
        self.over.push_back(connection);
        self.catch_up.get_or_insert(now + CATCH_UP);
    }

    /// Releases a part of the data of removed connections.
    pub(super) fn dissolve(&mut self, pace: Pace) {
        let Some(mut connection) = self.over.pop_front() else { return };
        let before = connection.cache.bytes();
        let is_gone = connection.dissolve(pace, &mut self.out);
        self.count(connection.entry.owner, before, connection.cache.bytes());
        if !is_gone {
            self.over.push_front(connection);
        }
    }

    /// Lists a connection that has deferred work.
    #[inline]
    pub(super) fn note_behind(&mut self, now: Instant, slot: u32) {
        let Some((_, connection)) = self.connections.get_mut(slot) else { return };
        if connection.is_behind() && !core::mem::replace(&mut connection.entry.is_listed, true) {
            self.behind.push_back(slot);
            self.catch_up.get_or_insert(now + CATCH_UP);
        }
    }

    /// Does a part of the deferred work.
    pub(super) fn do_part(&mut self, now: Instant) {
        self.dissolve(Pace::Time);
        if let Some(slot) = self.behind.pop_front()
            && let Some((_, connection)) = self.connections.get_mut(slot)
            && core::mem::take(&mut connection.entry.is_listed)
        {
            self.counted(slot, |connection, _, out| connection.catch_up(now, Pace::Time, out));
            self.arm(slot);
            self.note_behind(now, slot);
        }
        let is_left = !self.over.is_empty() || !self.behind.is_empty();
        self.catch_up = is_left.then_some(now + CATCH_UP);
    }

    /// Calls `act` on a connection and updates the count of cached bytes.
    #[inline]
    pub(super) fn counted<R>(
        &mut self,
        slot: u32,
        act: impl FnOnce(&mut Repair<P>, &SnoopConfig, &mut Outbox<P>) -> R,
    ) -> Option<R> {
        let (_, connection) = self.connections.get_mut(slot)?;
        let before = connection.cache.bytes();
        let outcome = act(connection, &self.config, &mut self.out);
        let (owner, after) = (connection.entry.owner, connection.cache.bytes());
        self.count(owner, before, after);
        Some(outcome)
    }

    /// Updates the byte counts after an owner's connection has changed from `before` to `after` cached bytes.
    fn count(&mut self, owner: Option<Owner>, before: u64, after: u64) {
        self.cached_bytes = self.cached_bytes - before + after;
        if let Some(Owner(owner)) = owner {
            let owner = owner as usize;
            if self.owned_bytes.len() <= owner {
                self.owned_bytes.resize(owner + 1, 0);
            }
            self.owned_bytes[owner] = self.owned_bytes[owner] - before + after;
        }
    }
}
