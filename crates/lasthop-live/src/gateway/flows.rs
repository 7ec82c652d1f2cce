//! Connections by addresses and ports, at most so many. Those that never showed both ends alive go first, so that a flood of
//! openings pushes out no connection at work.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::{FlowId, Side};
use lasthop_wire::Route;
use siphasher::sip::SipHasher13;

/// No slot.
const NONE: u32 = u32::MAX;

/// So much of the table is kept for connections that are opening or closing.
const RESERVE: usize = 16;

/// A connection's addresses and ports, the same for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    addresses: [u128; 2],
    ports: u64,
}

impl Key {
    pub fn of(route: &Route) -> Self {
        let end = |end: SocketAddr| match end.ip() {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), end.port()),
            IpAddr::V6(ip) => (ip.to_bits(), end.port()),
        };
        let (source, destination) = (end(route.source), end(route.destination));
        let [low, high] = if source <= destination { [source, destination] } else { [destination, source] };
        let version = u64::from(route.source.is_ipv6());
        Self { addresses: [low.0, high.0], ports: version << 32 | u64::from(low.1) << 16 | u64::from(high.1) }
    }

    /// Uniform in `[0, 1)`; who does not know `keys` cannot choose addresses for a value.
    pub fn uniform(&self, keys: [u64; 2]) -> f64 {
        (Keyed(keys).hash_one(self) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// SipHash with given keys: no flood of chosen addresses makes the table slow, and the same run gives the same table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(pub [u64; 2]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// How much a connection is worth keeping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Both ends were seen to take part.
    Established,
    /// Opening, closed, or made up by somebody.
    Doubtful,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    standing: Standing,
    newer: u32,
    older: u32,
    value: T,
}

/// The ends of a list in order of use.
#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    len: usize,
}

/// At most `limit` connections with their state.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    entries: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    slots: HashMap<Key, u32, Keyed>,
    /// By [`Standing`].
    lists: [List; 2],
    limit: usize,
}

impl<T> FlowTable<T> {
    pub fn new(limit: usize, keys: [u64; 2]) -> Self {
        let empty = List { newest: NONE, oldest: NONE, len: 0 };
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            slots: HashMap::with_hasher(Keyed(keys)),
            lists: [empty; 2],
            limit: limit.min(NONE as usize),
        }
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(NONE as usize);
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn find(&self, key: &Key) -> Option<FlowId> {
        self.slots.get(key).map(|&slot| FlowId(slot))
    }

    #[inline]
    pub fn get_mut(&mut self, flow: FlowId) -> Option<&mut T> {
        Some(&mut self.entries.get_mut(flow.0 as usize)?.as_mut()?.value)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut T)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(slot, entry)| Some((FlowId(slot as u32), &mut entry.as_mut()?.value)))
    }

    /// Who has to go before another can come: the least recently used of those in doubt.
    pub fn surplus(&self) -> Option<FlowId> {
        (self.len() >= self.limit)
            .then(|| self.oldest(Standing::Doubtful).or_else(|| self.oldest(Standing::Established)))?
    }

    /// Who has to go because too many are established.
    pub fn crowded_out(&self) -> Option<FlowId> {
        let most = self.limit - self.limit.div_ceil(RESERVE).min(self.limit);
        let list = &self.lists[Standing::Established as usize];
        (list.len > most).then(|| self.oldest(Standing::Established)).flatten()
    }

    /// The connection of this standing that was silent for longest.
    pub fn oldest(&self, standing: Standing) -> Option<FlowId> {
        Some(self.lists[standing as usize].oldest).filter(|&slot| slot != NONE).map(FlowId)
    }

    /// Adds a connection that is not there, in doubt; `None` when the table is full.
    pub fn insert(&mut self, key: Key, value: T) -> Option<FlowId> {
        if self.len() >= self.limit {
            return None;
        }
        let entry = Some(Entry { key, standing: Standing::Doubtful, newer: NONE, older: NONE, value });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.slots.insert(key, slot);
        self.link(slot);
        Some(FlowId(slot))
    }

    pub fn remove(&mut self, flow: FlowId) -> Option<T> {
        self.entries.get(flow.0 as usize)?.as_ref()?;
        self.unlink(flow.0);
        let entry = self.entries[flow.0 as usize].take()?;
        self.slots.remove(&entry.key);
        self.free.push(flow.0);
        Some(entry.value)
    }

    /// The connection was used just now, and is worth so much.
    #[inline]
    pub fn touch(&mut self, flow: FlowId, standing: Standing) {
        if self.lists[standing as usize].newest == flow.0 {
            return;
        }
        self.unlink(flow.0);
        if let Some(entry) = self.entry(flow.0) {
            entry.standing = standing;
        }
        self.link(flow.0);
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    fn link(&mut self, slot: u32) {
        let Some(standing) = self.entry(slot).map(|entry| entry.standing as usize) else { return };
        let newest = self.lists[standing].newest;
        if let Some(entry) = self.entry(slot) {
            (entry.newer, entry.older) = (NONE, newest);
        }
        match self.entry(newest) {
            Some(entry) => entry.newer = slot,
            None => self.lists[standing].oldest = slot,
        }
        self.lists[standing].newest = slot;
        self.lists[standing].len += 1;
    }

    fn unlink(&mut self, slot: u32) {
        let Some(entry) = self.entry(slot) else { return };
        let (standing, newer, older) = (entry.standing as usize, entry.newer, entry.older);
        match self.entry(newer) {
            Some(entry) => entry.older = older,
            None => self.lists[standing].newest = older,
        }
        match self.entry(older) {
            Some(entry) => entry.newer = newer,
            None => self.lists[standing].oldest = newer,
        }
        self.lists[standing].len -= 1;
    }
}

/// Which end of a connection first seen on `first` sends along `route`.
#[inline]
pub(super) fn side(first: &Route, route: &Route) -> Side {
    if first.source == route.source && first.destination == route.destination {
        Side::Initiator
    } else {
        Side::Acceptor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(source: &str, destination: &str) -> Route {
        Route { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    #[test]
    fn both_directions_have_one_key_and_versions_differ() {
        let there = route("10.0.0.1:80", "10.0.0.2:1024");
        assert_eq!(Key::of(&there), Key::of(&there.reversed()));
        assert_ne!(Key::of(&there), Key::of(&route("10.0.0.1:1024", "10.0.0.2:80")));
        let v6 = route("[::a00:1]:80", "[::a00:2]:1024");
        assert_ne!(Key::of(&there), Key::of(&v6));
        assert_eq!(Key::of(&v6), Key::of(&v6.reversed()));
    }

    #[test]
    fn doubtful_connections_go_first_and_established_ones_leave_room_for_them() {
        let key =
            |n: u16| Key::of(&Route { source: ([10, 0, 0, 1], n).into(), destination: ([10, 0, 0, 2], 80).into() });
        let mut table = FlowTable::new(32, [1, 2]);
        let ids: Vec<_> = (0..30).map(|n| table.insert(key(n), n).unwrap()).collect();
        ids.iter().for_each(|&id| table.touch(id, Standing::Established));
        assert_eq!((table.crowded_out(), table.surplus()), (None, None));
        // A flood: two places of thirty-two change hands.
        for n in 100..1_000 {
            if let Some(old) = table.surplus() {
                assert!(table.remove(old).unwrap() >= 100);
            }
            table.insert(key(n), n).unwrap();
            assert!(table.len() <= 32);
        }
        assert!((0..30).all(|n| table.find(&key(n)).is_some()));
        // One more at work: the one that was silent for longest goes.
        let last = table.find(&key(999)).unwrap();
        table.touch(ids[0], Standing::Established);
        table.touch(last, Standing::Established);
        assert_eq!(table.crowded_out(), Some(ids[1]));
        assert_eq!(table.remove(ids[1]), Some(1));
        assert_eq!((table.crowded_out(), table.remove(ids[1])), (None, None));
        assert_eq!(table.find(&key(1)), None);
    }

    #[test]
    fn slots_are_used_again() {
        let key = |n: u16| Key::of(&Route { source: ([1, 1, 1, 1], n).into(), destination: ([2, 2, 2, 2], n).into() });
        let mut table = FlowTable::new(4, [3, 4]);
        for n in 0..1_000 {
            let id = table.insert(key(n), n).unwrap();
            assert!(id.0 < 4 && table.get_mut(id) == Some(&mut n.clone()));
            if table.len() == 4 {
                let old = table.surplus().unwrap();
                table.remove(old);
            }
        }
    }
}
