//! Bounded table of connections by addresses and ports, with a share for each client. Connections whose ends have not
//! both been seen alive are evicted first, so that a flood of openings evicts no active connection.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::pep::snoop::Owner;
use lasthop_wire::Route;
use siphasher::sip::SipHasher13;

/// Slot number that stands for "no slot".
const NONE: u32 = u32::MAX;

/// Fraction (1/16) of the table reserved for opening and closing connections.
const RESERVE: usize = 16;

/// Fraction (1/4) of the table that one client may use.
const SHARE: usize = 4;

/// Client behind the hop: an IPv4 address, or the /64 network of an IPv6 address (RFC 7421).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Client {
    /// Complete IPv4 address.
    V4(u32),
    /// First half of an IPv6 address.
    V6(u64),
}

impl Client {
    /// Returns the client of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(ip) => Self::V4(ip.to_bits()),
            IpAddr::V6(ip) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

/// Addresses and ports of a connection, equal for both directions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    addresses: [u128; 2],
    ports: u64,
}

impl Key {
    /// Returns the key of the connection of a packet on this route.
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

    /// Returns a number uniform in `[0, 1)`. Without knowledge of `keys`, nobody can choose addresses that result in a
    /// given number.
    pub fn uniform(&self, keys: [u64; 2]) -> f64 {
        (Keyed(keys).hash_one(self) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// SipHash with given keys: chosen addresses cannot slow down the table, and equal runs give equal tables.
#[derive(Clone, Copy, Debug)]
struct Keyed([u64; 2]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// Priority of a connection in evictions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Both ends were seen to take part.
    Established,
    /// Opening, closed, or spoofed.
    Doubtful,
}

#[derive(Debug)]
struct Entry<T> {
    key: Key,
    /// Index in [`FlowTable::clients`].
    client: u32,
    standing: Standing,
    /// Next newer and next older connection, in the list of all connections of this standing, and in that of the client.
    links: [[u32; 2]; 2],
    value: T,
}

/// Indices of the list of all connections, and of the client's list.
const OF_ALL: usize = 0;
const OF_CLIENT: usize = 1;

/// Connections of one client, by [`Standing`].
#[derive(Clone, Copy, Debug)]
struct Share {
    client: Client,
    lists: [List; 2],
}

impl Share {
    const fn len(&self) -> usize {
        self.lists[0].len + self.lists[1].len
    }
}

/// Ends of a list in order of use.
#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    len: usize,
}

impl List {
    const EMPTY: Self = Self { newest: NONE, oldest: NONE, len: 0 };

    fn oldest(&self) -> Option<FlowId> {
        (self.oldest != NONE).then_some(FlowId(self.oldest))
    }
}

/// Number of places reserved at the start: growing a table copies it while a packet waits. Untouched places use no
/// memory.
const RESERVED: usize = 1 << 17;

/// Table of at most `limit` connections with their state.
#[derive(Debug)]
pub struct FlowTable<T> {
    entries: Vec<Option<Box<Entry<T>>>>,
    free: Vec<u32>,
    slots: HashMap<Key, u32, Keyed>,
    /// Lists of all connections, by [`Standing`].
    lists: [List; 2],
    /// Clients with connections; places of others are free.
    clients: Vec<Share>,
    free_clients: Vec<u32>,
    client_slots: HashMap<Client, u32, Keyed>,
    limit: usize,
}

impl<T> FlowTable<T> {
    /// Creates an empty table; `keys` are those of its hash.
    pub fn new(limit: usize, keys: [u64; 2]) -> Self {
        let mut table = Self {
            entries: Vec::new(),
            free: Vec::new(),
            slots: HashMap::with_hasher(Keyed(keys)),
            lists: [List::EMPTY; 2],
            clients: Vec::new(),
            free_clients: Vec::new(),
            client_slots: HashMap::with_hasher(Keyed(keys)),
            limit: 0,
        };
        table.set_limit(limit);
        table
    }

    /// Sets the maximum number of connections; [`FlowTable::beyond_limit`] then returns those to evict.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(NONE as usize);
        let more = |had: usize| self.limit.min(RESERVED).saturating_sub(had);
        self.entries.reserve(more(self.entries.len()));
        self.free.reserve(more(self.free.len()));
        self.slots.reserve(more(self.slots.len()));
        self.clients.reserve(more(self.clients.len()));
        self.free_clients.reserve(more(self.free_clients.len()));
        self.client_slots.reserve(more(self.client_slots.len()));
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the connection with this key.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<FlowId> {
        self.slots.get(key).map(|&slot| FlowId(slot))
    }

    /// Returns the state of a connection.
    #[inline]
    pub fn get_mut(&mut self, flow: FlowId) -> Option<&mut T> {
        Some(&mut self.entries.get_mut(flow.0 as usize)?.as_mut()?.value)
    }

    /// Returns all connections with their states.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut T)> {
        let entries = self.entries.iter_mut().enumerate();
        entries.filter_map(|(slot, entry)| Some((FlowId(slot as u32), &mut entry.as_mut()?.value)))
    }

    /// Returns the maximum number of connections of one client.
    const fn share(&self) -> usize {
        if self.limit < SHARE { self.limit } else { self.limit / SHARE }
    }

    /// Returns the maximum number of established connections out of `limit`: the rest is for opening and closing ones.
    fn most_established(limit: usize) -> usize {
        limit - limit.div_ceil(RESERVE).min(limit)
    }

    /// Returns the connection to evict before another connection of a client is inserted: the least recently used
    /// doubtful one; one of the client's own if its share is used up.
    pub fn surplus(&self, client: Client) -> Option<FlowId> {
        let own = self.client_slots.get(&client).map(|&slot| &self.clients[slot as usize]);
        if let Some(own) = own.filter(|own| own.len() >= self.share()) {
            return own.lists[Standing::Doubtful as usize]
                .oldest()
                .or_else(|| own.lists[Standing::Established as usize].oldest());
        }
        if self.len() < self.limit { None } else { self.excess() }
    }

    /// Returns the connection to evict first if there are too many.
    pub fn excess(&self) -> Option<FlowId> {
        self.oldest(Standing::Doubtful).or_else(|| self.oldest(Standing::Established))
    }

    /// Returns the connection to evict because too many are established: of all, or of the client of `flow`.
    pub fn crowded_out(&self, flow: FlowId) -> Option<FlowId> {
        let list = &self.lists[Standing::Established as usize];
        if list.len > Self::most_established(self.limit) {
            return list.oldest();
        }
        let client = self.entries.get(flow.0 as usize)?.as_ref()?.client;
        let own = &self.clients[client as usize].lists[Standing::Established as usize];
        (own.len > Self::most_established(self.share())).then(|| own.oldest()).flatten()
    }

    /// Returns a connection to evict after the limit was reduced.
    pub fn beyond_limit(&self) -> Option<FlowId> {
        if self.len() > self.limit {
            return self.excess();
        }
        let established = &self.lists[Standing::Established as usize];
        if established.len > Self::most_established(self.limit) {
            return established.oldest();
        }
        let beyond = self.clients.iter().find(|own| own.len() > self.share())?;
        beyond.lists[Standing::Doubtful as usize]
            .oldest()
            .or_else(|| beyond.lists[Standing::Established as usize].oldest())
    }

    /// Returns the least recently used connection of this standing.
    pub fn oldest(&self, standing: Standing) -> Option<FlowId> {
        self.lists[standing as usize].oldest()
    }

    /// Inserts a new connection of a client as doubtful; `None` if the table is full.
    pub fn insert(&mut self, key: Key, client: Client, value: T) -> Option<FlowId> {
        if self.len() >= self.limit {
            return None;
        }
        let client = self.client(client);
        let links = [[NONE; 2]; 2];
        let entry = Some(Box::new(Entry { key, client, standing: Standing::Doubtful, links, value }));
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

    /// Returns the client of a connection, as an owner.
    pub fn owner(&self, flow: FlowId) -> Owner {
        let entry = self.entries.get(flow.0 as usize).and_then(Option::as_ref);
        Owner(entry.map_or(0, |entry| entry.client))
    }

    /// Returns a client's index; there are no more indices than connections.
    fn client(&mut self, client: Client) -> u32 {
        if let Some(&slot) = self.client_slots.get(&client) {
            return slot;
        }
        let share = Share { client, lists: [List::EMPTY; 2] };
        let slot = match self.free_clients.pop() {
            Some(slot) => {
                self.clients[slot as usize] = share;
                slot
            }
            None => {
                self.clients.push(share);
                (self.clients.len() - 1) as u32
            }
        };
        self.client_slots.insert(client, slot);
        slot
    }

    /// Removes a connection and returns its state.
    pub fn remove(&mut self, flow: FlowId) -> Option<T> {
        self.entries.get(flow.0 as usize)?.as_ref()?;
        self.unlink(flow.0);
        let entry = self.entries[flow.0 as usize].take()?;
        self.slots.remove(&entry.key);
        self.free.push(flow.0);
        let share = &self.clients[entry.client as usize];
        if share.len() == 0 {
            self.client_slots.remove(&share.client);
            self.free_clients.push(entry.client);
        }
        Some(entry.value)
    }

    /// Marks the connection as just used, and sets its standing.
    #[inline]
    pub fn touch(&mut self, flow: FlowId, standing: Standing) {
        // The newest of all connections is also the newest of its client.
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
        self.entries.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Returns the list of all connections of a standing, or that of a client.
    fn list(&mut self, whose: usize, client: u32, standing: usize) -> &mut List {
        if whose == OF_ALL { &mut self.lists[standing] } else { &mut self.clients[client as usize].lists[standing] }
    }

    fn link(&mut self, slot: u32) {
        for whose in [OF_ALL, OF_CLIENT] {
            let Some((client, standing)) = self.entry(slot).map(|entry| (entry.client, entry.standing as usize)) else {
                return;
            };
            let newest = self.list(whose, client, standing).newest;
            if let Some(entry) = self.entry(slot) {
                entry.links[whose] = [NONE, newest];
            }
            match self.entry(newest) {
                Some(entry) => entry.links[whose][0] = slot,
                None => self.list(whose, client, standing).oldest = slot,
            }
            let list = self.list(whose, client, standing);
            list.newest = slot;
            list.len += 1;
        }
    }

    fn unlink(&mut self, slot: u32) {
        for whose in [OF_ALL, OF_CLIENT] {
            let Some(entry) = self.entry(slot) else { return };
            let (client, standing, [newer, older]) = (entry.client, entry.standing as usize, entry.links[whose]);
            match self.entry(newer) {
                Some(entry) => entry.links[whose][1] = older,
                None => self.list(whose, client, standing).newest = older,
            }
            match self.entry(older) {
                Some(entry) => entry.links[whose][0] = newer,
                None => self.list(whose, client, standing).oldest = newer,
            }
            self.list(whose, client, standing).len -= 1;
        }
    }
}

/// Returns the end of a connection that sends along `route`; the connection was first seen on `first`.
#[inline]
pub fn side(first: &Route, route: &Route) -> Side {
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
        let client = |n: u16| Client::V4(u32::from(n));
        let mut table = FlowTable::new(32, [1, 2]);
        let ids: Vec<_> = (0..30).map(|n| table.insert(key(n), client(n), n).unwrap()).collect();
        ids.iter().for_each(|&id| table.touch(id, Standing::Established));
        assert_eq!((table.crowded_out(ids[0]), table.surplus(client(99))), (None, None));
        // A flood: two of thirty-two places change hands.
        for n in 100..1_000 {
            if let Some(old) = table.surplus(client(n)) {
                assert!(table.remove(old).unwrap() >= 100);
            }
            table.insert(key(n), client(n), n).unwrap();
            assert!(table.len() <= 32);
        }
        assert!((0..30).all(|n| table.find(&key(n)).is_some()));
        // Another established connection: the one idle for longest is evicted.
        let last = table.find(&key(999)).unwrap();
        table.touch(ids[0], Standing::Established);
        table.touch(last, Standing::Established);
        assert_eq!(table.crowded_out(last), Some(ids[1]));
        assert_eq!(table.remove(ids[1]), Some(1));
        assert_eq!((table.crowded_out(last), table.remove(ids[1])), (None, None));
        assert_eq!(table.find(&key(1)), None);
    }

    #[test]
    fn a_client_has_a_quarter_of_the_table_and_its_own_make_room() {
        let key =
            |n: u16| Key::of(&Route { source: ([10, 0, 0, 1], n).into(), destination: ([10, 0, 0, 2], 80).into() });
        let [greedy, modest] = ["2001:db8::1", "2001:db8:0:1::1"].map(|ip| Client::of(ip.parse().unwrap()));
        assert_eq!(Client::of("2001:db8::ffff:1".parse().unwrap()), greedy);
        let mut table = FlowTable::new(64, [5, 6]);
        let others: Vec<_> = (0..8).map(|n| table.insert(key(n), modest, n).unwrap()).collect();
        others.iter().for_each(|&id| table.touch(id, Standing::Established));
        // All of them established: one of its 16 places is for openings.
        for n in 100..400 {
            if let Some(old) = table.surplus(greedy) {
                assert!(table.remove(old).unwrap() >= 100);
            }
            let id = table.insert(key(n), greedy, n).unwrap();
            table.touch(id, Standing::Established);
            while let Some(old) = table.crowded_out(id) {
                assert!(table.remove(old).unwrap() >= 100);
            }
            assert!(table.len() <= 8 + 15);
        }
        assert!(others.iter().all(|&id| table.get_mut(id).is_some()));
        assert!((385..400).all(|n| table.find(&key(n)).is_some()), "the oldest go");
        // A flood of openings of this client evicts none of its established connections.
        for n in 1_000..1_200 {
            if let Some(old) = table.surplus(greedy) {
                assert!(table.remove(old).unwrap() >= 1_000);
            }
            table.insert(key(n), greedy, n).unwrap();
        }
        assert!((385..400).all(|n| table.find(&key(n)).is_some()));
        // Other clients keep their places; a smaller table evicts from the client with most connections.
        assert_eq!(table.surplus(modest), None);
        table.set_limit(32);
        while let Some(old) = table.beyond_limit() {
            assert!(table.remove(old).unwrap() >= 100);
        }
        assert_eq!(table.len(), 8 + 8);
        // A client without connections uses no place.
        for n in 0..2_000 {
            if let Some(id) = table.find(&key(n)) {
                table.remove(id);
            }
        }
        assert_eq!((table.len(), table.client_slots.len(), table.free_clients.len()), (0, 0, table.clients.len()));
    }

    #[test]
    fn slots_are_used_again() {
        let key = |n: u16| Key::of(&Route { source: ([1, 1, 1, 1], n).into(), destination: ([2, 2, 2, 2], n).into() });
        let mut table = FlowTable::new(4, [3, 4]);
        for n in 0..1_000 {
            let client = Client::V4(u32::from(n));
            let id = table.insert(key(n), client, n).unwrap();
            assert!(id.0 < 4 && table.get_mut(id) == Some(&mut n.clone()));
            if table.len() == 4 {
                let old = table.surplus(client).unwrap();
                table.remove(old);
            }
        }
    }
}
