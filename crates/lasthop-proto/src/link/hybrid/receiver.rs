//! Receiving half: each symbol once, ordered flows in order, all other packets at once.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::frame::{Class, Item, Label};
use super::limits::{AHEAD, hold};
use super::numbers::Symbol;
use crate::time::{Duration, Instant};

/// State of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    Missing,
    Here,
}

/// A packet held for an earlier one of its flow.
#[derive(Clone, Debug)]
struct Held<I> {
    item: I,
    after: u64,
    until: Instant,
}

/// Result for a symbol that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intake {
    /// The number was present before, or is not awaited any more.
    Known,
    /// The number is new.
    New,
    /// The number is further ahead than any honest end would send.
    Beyond,
}

/// Symbols that arrived and symbols that are missing.
#[derive(Clone, Debug)]
pub(super) struct Receiver<I> {
    /// First missing symbol.
    floor: u64,
    /// State of the symbols starting at `floor`; the first is missing.
    slots: VecDeque<Slot>,
    held: BTreeMap<u64, Held<I>>,
    most_held: usize,
    /// Pairs of a symbol and a later symbol that waits for it.
    waiters: BTreeSet<(u64, u64)>,
    /// Held symbols by the time at which they are released.
    expiry: BTreeSet<(Instant, u64)>,
    released: u64,
}

impl<I: Item> Receiver<I> {
    /// Returns a receiver that holds at most `most_held` packets for an earlier one.
    pub fn new(most_held: usize) -> Self {
        Self {
            most_held,
            floor: 0,
            slots: VecDeque::new(),
            held: BTreeMap::new(),
            waiters: BTreeSet::new(),
            expiry: BTreeSet::new(),
            released: 0,
        }
    }

    /// Returns the first missing symbol, and a bit for each of the 128 after it.
    pub fn state(&self) -> (Symbol, u128) {
        let beyond = self.slots.iter().skip(1).take(128).enumerate();
        let bits = beyond.filter(|(_, slot)| **slot == Slot::Here).fold(0, |bits, (index, _)| bits | 1 << index);
        (Symbol(self.floor), bits)
    }

    /// Returns the symbol next to which 32-bit numbers are restored.
    pub fn near(&self) -> Symbol {
        Symbol(self.floor + self.slots.len() as u64)
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the number of packets passed on before one for which they should have waited.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Returns the number of symbols between the first missing and the last present one.
    pub fn span(&self) -> usize {
        self.slots.len()
    }

    /// Returns the time at which the first held packet is released.
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.expiry.first().map(|(until, _)| *until)
    }

    /// Returns whether no packet has to wait for that symbol: it was passed on or given up.
    fn is_past(&self, symbol: u64) -> bool {
        if self.held.contains_key(&symbol) {
            return false;
        }
        match symbol.checked_sub(self.floor) {
            None => true,
            Some(index) => self.slots.get(index as usize) == Some(&Slot::Here),
        }
    }

    /// Returns whether the symbol is present.
    pub fn has(&self, symbol: Symbol) -> bool {
        match symbol.0.checked_sub(self.floor) {
            None => true,
            Some(index) => self.slots.get(index as usize) == Some(&Slot::Here),
        }
    }

    /// Processes a symbol that arrived; adds packets that can be passed on to `out`.
    pub fn on_symbol(
        &mut self,
        now: Instant,
        symbol: Symbol,
        label: Label,
        item: I,
        trip: Duration,
        out: &mut VecDeque<I>,
    ) -> Intake {
        let Some(index) = symbol.0.checked_sub(self.floor) else { return Intake::Known };
        if index >= AHEAD {
            return Intake::Beyond;
        }
        let index = index as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::Missing);
        }
        if self.slots[index] == Slot::Here {
            return Intake::Known;
        }
        self.slots[index] = Slot::Here;
        let after = symbol.0.checked_sub(label.chain.into()).filter(|_| label.chain > 0);
        match after {
            Some(after) if label.class == Class::Ordered && !self.is_past(after) => {
                let until = now + hold(trip);
                self.expiry.insert((until, symbol.0));
                self.waiters.insert((after, symbol.0));
                self.held.insert(symbol.0, Held { item, after, until });
                if self.held.len() > self.most_held
                    && let Some((_, oldest)) = self.expiry.first().copied()
                {
                    self.release(oldest, out);
                }
            }
            _ => {
                out.push_back(item);
                self.follow(symbol.0, out);
            }
        }
        self.advance();
        Intake::New
    }

    /// Records that no symbol below `floor` will arrive any more.
    pub fn on_floor(&mut self, floor: Symbol, out: &mut VecDeque<I>) -> Intake {
        let Some(count) = floor.0.checked_sub(self.floor).filter(|count| *count > 0) else { return Intake::Known };
        if count > AHEAD {
            // No present or held symbol can belong to the following ones; restart there.
            self.release_all(out);
            (self.floor, self.slots) = (floor.0, VecDeque::new());
            return Intake::New;
        }
        let missing: Vec<u64> = (self.floor..floor.0)
            .filter(|symbol| self.slots.get((symbol - self.floor) as usize) != Some(&Slot::Here))
            .collect();
        for _ in 0..count {
            self.slots.pop_front();
        }
        self.floor = floor.0;
        for symbol in missing {
            self.follow(symbol, out);
        }
        self.advance();
        Intake::New
    }

    /// Passes on packets that were held for their maximum time.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut VecDeque<I>) {
        while let Some((until, symbol)) = self.expiry.first().copied() {
            if until > now {
                return;
            }
            self.release(symbol, out);
        }
    }

    /// Passes on all held packets.
    pub fn release_all(&mut self, out: &mut VecDeque<I>) {
        while let Some((symbol, _)) = self.held.first_key_value() {
            let symbol = *symbol;
            self.release(symbol, out);
        }
    }

    fn advance(&mut self) {
        while self.slots.front() == Some(&Slot::Here) {
            self.slots.pop_front();
            self.floor += 1;
        }
    }

    /// Passes on packets that wait for `symbol`, and those that wait for them.
    fn follow(&mut self, symbol: u64, out: &mut VecDeque<I>) {
        if self.waiters.is_empty() {
            return;
        }
        let (mut passed, mut next) = (Vec::new(), Some(symbol));
        while let Some(symbol) = next {
            while let Some((_, waiter)) = self.waiters.range((symbol, 0)..=(symbol, u64::MAX)).next().copied() {
                if let Some(item) = self.unhold(waiter) {
                    out.push_back(item);
                    passed.push(waiter);
                }
            }
            next = passed.pop();
        }
    }

    fn unhold(&mut self, symbol: u64) -> Option<I> {
        let held = self.held.remove(&symbol)?;
        self.waiters.remove(&(held.after, symbol));
        self.expiry.remove(&(held.until, symbol));
        Some(held.item)
    }

    /// Passes on a held packet without the one that it waits for, preceded by held packets for which it waits.
    fn release(&mut self, symbol: u64, out: &mut VecDeque<I>) {
        let mut first = symbol;
        while let Some(before) = self.held.get(&first).map(|held| held.after)
            && self.held.contains_key(&before)
        {
            first = before;
        }
        if let Some(item) = self.unhold(first) {
            self.released += 1;
            out.push_back(item);
            self.follow(first, out);
        }
    }
}
