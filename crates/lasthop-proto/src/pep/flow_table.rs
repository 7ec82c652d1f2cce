//! State per flow, in a slab with a limit; the caller evicts the least recently used flow to make space for a new one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::packet::FlowId;

/// Marks the absence of a slot.
const NONE: u32 = u32::MAX;

/// Flows numbered below this are found by index, others in an ordered map. Drivers usually number flows from 0 up, but
/// need not.
const DIRECT: usize = 1 << 16;

/// Owner of a connection, if known; one client may own several. Drivers number owners from 0 up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub u32);

#[derive(Clone, Debug)]
struct Entry<T> {
    flow: FlowId,
    newer: u32,
    older: u32,
    value: T,
}

/// At most `limit` flows with their state. The state never moves: a table that grows moves pointers.
#[derive(Clone, Debug)]
pub(crate) struct FlowTable<T> {
    entries: Vec<Option<Box<Entry<T>>>>,
    free: Vec<u32>,
    direct: Vec<u32>,
    rest: BTreeMap<FlowId, u32>,
    newest: u32,
    oldest: u32,
    len: usize,
    limit: usize,
}

impl<T> FlowTable<T> {
    /// Returns an empty table.
    pub fn new(limit: usize) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            direct: Vec::new(),
            rest: BTreeMap::new(),
            newest: NONE,
            oldest: NONE,
            len: 0,
            limit: limit.min(NONE as usize),
        }
    }

    /// Returns the number of flows with state.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table has reached its limit.
    pub fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// Sets another limit. Flows beyond it stay until they are removed.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(NONE as usize);
    }

    /// Returns the slot of a flow.
    #[inline]
    pub fn find(&self, flow: FlowId) -> Option<u32> {
        let index = flow.0 as usize;
        if index < DIRECT {
            self.direct.get(index).copied().filter(|&slot| slot != NONE)
        } else {
            self.rest.get(&flow).copied()
        }
    }

    /// Returns the flow in a slot and its state.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<(FlowId, &mut T)> {
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        Some((entry.flow, &mut entry.value))
    }

    /// Returns all state, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten().map(|entry| &mut entry.value)
    }

    /// Returns the slot of the least recently used flow.
    pub fn oldest(&self) -> Option<u32> {
        Some(self.oldest).filter(|&slot| slot != NONE)
    }

    /// Adds a flow that is not in the table and returns its slot, or `None` if the table is full.
    pub fn insert(&mut self, flow: FlowId, value: T) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let entry = Some(Box::new(Entry { flow, newer: NONE, older: NONE, value }));
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
        let index = flow.0 as usize;
        if index < DIRECT {
            if self.direct.len() <= index {
                self.direct.resize(index + 1, NONE);
            }
            self.direct[index] = slot;
        } else {
            self.rest.insert(flow, slot);
        }
        self.len += 1;
        self.link(slot);
        Some(slot)
    }

    /// Removes a flow and returns its state.
    pub fn remove(&mut self, slot: u32) -> Option<(FlowId, T)> {
        self.entries.get(slot as usize)?.as_ref()?;
        self.unlink(slot);
        let entry = self.entries[slot as usize].take()?;
        let index = entry.flow.0 as usize;
        if index < DIRECT {
            self.direct[index] = NONE;
        } else {
            self.rest.remove(&entry.flow);
        }
        self.free.push(slot);
        self.len -= 1;
        Some((entry.flow, entry.value))
    }

    /// Marks the flow as most recently used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if slot != self.newest {
            self.unlink(slot);
            self.link(slot);
        }
    }

    fn entry(&mut self, slot: u32) -> Option<&mut Entry<T>> {
        self.entries.get_mut(slot as usize)?.as_deref_mut()
    }

    fn link(&mut self, slot: u32) {
        let newest = self.newest;
        if let Some(entry) = self.entry(slot) {
            (entry.newer, entry.older) = (NONE, newest);
        }
        match self.entry(newest) {
            Some(entry) => entry.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Some(entry) = self.entry(slot) else { return };
        let (newer, older) = (entry.newer, entry.older);
        match self.entry(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entry(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
impl<T> FlowTable<T> {
    /// Returns all state, in no particular order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten().map(|entry| &entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::FlowTable;
    use crate::packet::FlowId;

    #[test]
    fn the_least_recently_used_flow_is_the_oldest() {
        let mut table = FlowTable::new(3);
        let ids = [FlowId(5), FlowId(u32::MAX), FlowId(70_000)];
        let slots = ids.map(|id| table.insert(id, id.0).unwrap());
        assert!(table.is_full() && table.insert(FlowId(9), 9).is_none());
        table.touch(slots[0]);
        assert_eq!(table.oldest(), Some(slots[1]));
        assert_eq!(table.remove(slots[1]), Some((ids[1], u32::MAX)));
        assert_eq!(table.find(ids[1]), None);
        assert_eq!(table.remove(slots[1]), None);
        let again = table.insert(FlowId(1), 1).unwrap();
        assert_eq!(again, slots[1]);
        assert_eq!(table.oldest(), Some(slots[2]));
        assert_eq!(table.find(FlowId(5)), Some(slots[0]));
        assert_eq!(table.get_mut(slots[0]).map(|(id, value)| (id, *value)), Some((FlowId(5), 5)));
        assert_eq!(table.len(), 3);
    }
}
