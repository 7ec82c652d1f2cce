//! Packets that are sent until they arrive or are given up: rounds of repair, planned transmissions, and the lowest
//! symbol still being sent (`floor`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::budget::Budget;
use super::frame::{Class, Feedback, Item, Label, Why};
use super::limits::{AHEAD, lifetime, residual};
use super::numbers::{PathId, Symbol};
use super::reported::Reported;
use crate::time::{Duration, Instant};

/// Maximum number of consecutive floor notices without an answer; new data restarts the count.
const FLOORS: u32 = 8;

/// Distance from the first symbol that the other end reports as missing to the next one to be sent, from which on reports
/// contradict each other if this end holds no packet for the missing one: far more symbols than are in flight.
const CONTRADICTED: u64 = AHEAD / 4 * 3;

/// Fate of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Alive,
    Done,
    GivenUp,
}

/// A symbol.
#[derive(Clone, Debug)]
struct Carried<I> {
    /// The packet; `None` once the symbol is no longer alive.
    item: Option<I>,
    label: Label,
    first: Instant,
    round: u8,
    /// Number of transmissions in flight.
    flying: u16,
    /// Number of transmissions planned.
    queued: u16,
    state: State,
}

/// A planned transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    symbol: Symbol,
    why: Why,
    pub to: Target,
}

/// Path of a planned transmission, if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The best path.
    Best,
    /// Another path than the one on which the packet was sent, if there is one.
    Other(PathId),
    /// Another path than the one on which the packet was sent, of those that carry copies of calls.
    Copy(PathId),
}

/// Order in which packets are sent for the first time, if there are several paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    /// First, on the path on which they arrive first.
    Light,
    /// In order, on all paths.
    Bulk,
}

/// Maximum number of planned transmissions that are considered for a path.
const MOST_CONSIDERED: usize = 16;

/// A packet to transmit.
#[derive(Clone, Debug)]
pub(super) struct Load<I> {
    pub symbol: Symbol,
    pub label: Label,
    pub item: I,
    pub why: Why,
}

/// Parameters of repair on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepairRule {
    /// Round trip of the path.
    pub trip: Duration,
    /// Time after which a transmission is declared lost.
    pub patience: Duration,
    /// Transmission time of a frame on the hop.
    pub frame: Duration,
    /// Maximum feedback delay.
    pub wait: Duration,
    /// Maximum number of transmissions of a packet in a round.
    pub most: u8,
    /// Maximum number of rounds in which a packet is retransmitted.
    pub rounds: u8,
    /// Sending rate in bits per second.
    pub rate: u64,
    /// Time in which coded frames restore a lost packet that they can restore.
    pub code: Duration,
}

/// Symbols from the first that is alive on.
#[derive(Clone, Debug)]
pub(super) struct Symbols<I> {
    /// Number of the first of `carried`.
    base: u64,
    carried: VecDeque<Carried<I>>,
    alive: usize,
    /// Symbols that have not been sent, by [`Rank`].
    staged: [VecDeque<Symbol>; 2],
    /// Planned transmissions by time; real-time classes first.
    again: [BTreeMap<(Instant, u64), Again>; 2],
    order: u64,
    /// First symbol that the other end reports as missing.
    peer_floor: u64,
    /// Symbols after it that the other end has reported as present.
    reported: Reported,
    /// The symbol after the last given up.
    given_up_to: u64,
    floor_due: Option<Instant>,
    floors: u32,
    given_up: u64,
}

impl<I: Item> Symbols<I> {
    pub fn new() -> Self {
        Self {
            base: 0,
            carried: VecDeque::new(),
            alive: 0,
            staged: [VecDeque::new(), VecDeque::new()],
            again: [BTreeMap::new(), BTreeMap::new()],
            order: 0,
            peer_floor: 0,
            reported: Reported::default(),
            given_up_to: 0,
            floor_due: None,
            floors: 0,
            given_up: 0,
        }
    }

    pub fn next_symbol(&self) -> Symbol {
        Symbol(self.base + self.carried.len() as u64)
    }

    /// Returns the oldest symbol that is alive.
    pub fn floor(&self) -> Symbol {
        Symbol(self.base)
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns whether symbols are alive.
    pub fn are_alive(&self) -> bool {
        self.alive > 0
    }

    /// Returns the number of symbols from the first that is alive, and of planned transmissions.
    pub fn size(&self) -> (usize, usize) {
        (self.carried.len(), self.again.iter().map(BTreeMap::len).sum())
    }

    /// Returns whether another symbol may be sent. At most `window` may lie between the first that is alive and the
    /// last, and the other end must be able to identify them, regardless of the symbols that it has received.
    pub fn may_send(&self, window: u64) -> bool {
        (self.carried.len() as u64) < window.min(AHEAD / 2) && !self.is_too_far()
    }

    /// Returns whether the other end could not identify the next symbol before it has received the floor.
    fn is_too_far(&self) -> bool {
        self.next_symbol().0 >= self.peer_floor.saturating_add(AHEAD)
    }

    /// Adds a new symbol, which is sent now.
    pub fn push(&mut self, now: Instant, item: I, label: Label) {
        self.add(now, item, label, 1, 0);
    }

    fn add(&mut self, now: Instant, item: I, label: Label, flying: u16, queued: u16) {
        let (item, state) = (Some(item), State::Alive);
        self.carried.push_back(Carried { item, label, first: now, round: 0, flying, queued, state });
        self.alive += 1;
        self.floors = 0;
    }

    /// Adds a new symbol, which is sent later ([`Self::send_staged`]).
    pub fn stage(&mut self, now: Instant, item: I, label: Label, rank: Rank) {
        self.staged[rank as usize].push_back(self.next_symbol());
        self.add(now, item, label, 0, 1);
    }

    /// Returns the number of symbols of that rank that have not been sent.
    pub fn staged(&self, rank: Rank) -> usize {
        self.staged[rank as usize].len()
    }

    /// Returns the symbol at `index` among those of that rank that have not been sent; the next new one if there is none.
    pub fn staged_at(&self, rank: Rank, index: usize) -> Symbol {
        self.staged[rank as usize].get(index).copied().unwrap_or_else(|| self.next_symbol())
    }

    /// Returns the longest run of stored packets that ends before `end`, of at most `count` packets, and its first symbol.
    pub fn stored_before(&self, end: Symbol, count: u64) -> (Symbol, impl Iterator<Item = (Symbol, &I, Label)>) {
        let end = end.0.clamp(self.base, self.next_symbol().0);
        let stored = |symbol: u64| self.carried.get((symbol - self.base) as usize).and_then(|it| it.item.as_ref());
        let start = end.saturating_sub(count).max(self.base).min(end);
        let first = (start..end).rev().take_while(|symbol| stored(*symbol).is_some()).last().unwrap_or(end);
        let stored = self.carried.range((first - self.base) as usize..(end - self.base) as usize);
        let packets = (first..end).zip(stored);
        let packets =
            packets.filter_map(|(symbol, carried)| Some((Symbol(symbol), carried.item.as_ref()?, carried.label)));
        (Symbol(first), packets)
    }

    /// Returns the symbol at `index` among those of that rank that have not been sent; it is sent now.
    pub fn send_staged(&mut self, now: Instant, rank: Rank, index: usize) -> Option<Load<I>> {
        let symbol = self.staged[rank as usize].remove(index)?;
        let carried = get(&mut self.carried, self.base, symbol)?;
        let item = carried.item.clone()?;
        (carried.first, carried.flying, carried.queued) = (now, carried.flying + 1, carried.queued.saturating_sub(1));
        Some(Load { symbol, label: carried.label, item, why: Why::First })
    }

    /// Skips the number of a symbol that is never retransmitted.
    pub fn pass(&mut self) {
        self.base += 1;
        self.peer_floor = self.base;
    }

    /// Plans `count` more transmissions of a symbol, `apart` from each other; the first is `apart` from now if it is a
    /// copy of one just sent.
    pub fn copies(&mut self, now: Instant, symbol: Symbol, why: Why, count: u8, apart: Duration) {
        let mut at = if why == Why::Redundancy { now + apart } else { now };
        for _ in 0..count {
            self.plan(at, Again { symbol, why, to: Target::Best });
            at += apart;
        }
    }

    /// Plans a transmission of a symbol, if it is stored.
    fn plan(&mut self, at: Instant, again: Again) {
        let Some(carried) = get(&mut self.carried, self.base, again.symbol) else { return };
        carried.queued = carried.queued.saturating_add(1);
        let rank = usize::from(carried.label.class == Class::Ordered);
        self.order += 1;
        self.again[rank].insert((at, self.order), again);
    }

    /// Plans a copy of a symbol just sent.
    pub fn copy(&mut self, now: Instant, symbol: Symbol, to: Target) {
        if get(&mut self.carried, self.base, symbol).is_some_and(|carried| carried.state == State::Alive) {
            self.plan(now, Again { symbol, why: Why::Redundancy, to });
        }
    }

    /// Returns the next packet to retransmit that `takes` accepts, if one is due at `now`. `trip` is the round trip.
    pub fn pop_again(&mut self, now: Instant, trip: Duration, takes: impl Fn(&Again) -> bool) -> Option<Load<I>> {
        for rank in 0..2 {
            let taken = |again: &BTreeMap<(Instant, u64), Again>| {
                let mut due = again.range(..=(now, u64::MAX)).take(MOST_CONSIDERED);
                due.find(|(_, again)| takes(again)).map(|(key, _)| *key)
            };
            while let Some(key) = taken(&self.again[rank]) {
                let Some(Again { symbol, why, .. }) = self.again[rank].remove(&key) else { break };
                let Some(carried) = get(&mut self.carried, self.base, symbol) else { continue };
                carried.queued = carried.queued.saturating_sub(1);
                let Some(item) = carried.item.clone() else { continue };
                let label = carried.label;
                if why == Why::Resend && now > carried.first + lifetime(label.class, trip) {
                    if carried.flying == 0 && carried.queued == 0 {
                        self.give_up(symbol);
                        self.advance(now);
                    }
                    continue;
                }
                carried.flying = carried.flying.saturating_add(1);
                return Some(Load { symbol, label, item, why });
            }
        }
        None
    }

    /// Returns the time at which the next packet may be retransmitted.
    pub fn next_again(&self) -> Option<Instant> {
        if self.again.iter().all(BTreeMap::is_empty) {
            return None;
        }
        self.again.iter().filter_map(|again| again.first_key_value()).map(|((at, _), _)| *at).min()
    }

    /// Records the symbols that the other end reports as present.
    pub fn on_feedback(&mut self, feedback: &Feedback) {
        self.peer_floor = self.peer_floor.max(feedback.floor.0);
        for symbol in self.base..feedback.floor.0 {
            self.done(Symbol(symbol));
        }
        let first = feedback.floor.0 + 1;
        // Nothing is known of symbols that do not exist yet, whatever the report says.
        let beyond = match self.next_symbol().0.saturating_sub(first) {
            count @ 0..128 => feedback.beyond & ((1 << count) - 1),
            _ => feedback.beyond,
        };
        for symbol in self.reported.add(first + 128, beyond.reverse_bits()) {
            self.done(Symbol(symbol));
        }
    }

    /// Removes finished symbols at the front after feedback, and ends floor notices if the other end knows the floor.
    pub fn settle(&mut self, now: Instant) {
        self.advance(now);
        if !self.is_unheard() {
            (self.floor_due, self.floors) = (None, 0);
        }
    }

    /// Returns whether the other end may wait for symbols that are never retransmitted: for given up ones, or for ones that
    /// it has reported as arrived in one report and as missing in many others.
    fn is_unheard(&self) -> bool {
        let is_contradicted = self.next_symbol().0 >= self.peer_floor.saturating_add(CONTRADICTED);
        let needless = if is_contradicted { self.base } else { self.base.min(self.given_up_to) };
        self.peer_floor < needless
    }

    /// Records that a transmission of a symbol arrived.
    pub fn on_arrived(&mut self, symbol: Symbol) {
        if let Some(carried) = get(&mut self.carried, self.base, symbol) {
            carried.flying = carried.flying.saturating_sub(1);
        }
        self.done(symbol);
    }

    /// Records that a symbol is present at the other end.
    pub fn done(&mut self, symbol: Symbol) {
        if let Some(carried) = get(&mut self.carried, self.base, symbol)
            && carried.state == State::Alive
        {
            (carried.state, carried.item) = (State::Done, None);
            self.alive -= 1;
        }
    }

    fn give_up(&mut self, symbol: Symbol) {
        if let Some(carried) = get(&mut self.carried, self.base, symbol)
            && carried.state == State::Alive
        {
            (carried.state, carried.item) = (State::GivenUp, None);
            self.alive -= 1;
            self.given_up += 1;
            self.given_up_to = self.given_up_to.max(symbol.0 + 1);
        }
    }

    /// Gives up all symbols that are alive, and returns their packets in order.
    pub fn give_back(&mut self, now: Instant) -> Vec<I> {
        let alive = |carried: &Carried<I>| carried.item.clone().filter(|_| carried.state == State::Alive);
        let items: Vec<I> = self.carried.iter().filter_map(alive).collect();
        let (first, given_up) = (self.base, self.given_up);
        for index in 0..self.carried.len() as u64 {
            self.give_up(Symbol(first + index));
        }
        // They are not lost.
        self.given_up = given_up;
        self.advance(now);
        items
    }

    /// Removes finished symbols at the front, and schedules a floor notice if the other end may not know.
    pub fn advance(&mut self, now: Instant) {
        while self.carried.front().is_some_and(|carried| carried.state != State::Alive) {
            self.carried.pop_front();
            self.base += 1;
        }
        if self.is_unheard() && self.floor_due.is_none() && (self.floors < FLOORS || self.is_too_far()) {
            self.floor_due = Some(now);
        }
    }

    /// Handles the loss of one transmission of a symbol. The loss of the last one in flight starts the next round.
    pub fn on_lost(&mut self, now: Instant, symbol: Symbol, rule: &RepairRule, budget: &Budget) {
        let Some(carried) = get(&mut self.carried, self.base, symbol) else { return };
        carried.flying = carried.flying.saturating_sub(1);
        if carried.state != State::Alive || carried.flying > 0 || carried.queued > 0 {
            return;
        }
        let trip = rule.trip;
        let until = carried.first + lifetime(carried.label.class, trip);
        if carried.round >= rule.rounds || now + trip / 2 > until {
            self.give_up(symbol);
            return;
        }
        carried.round += 1;
        let class = carried.label.class;
        let apart = rule.frame.saturating_mul(budget.apart());
        let planned = Budget::transmissions(carried.round);
        // The next round starts when the last transmission of this one is declared lost.
        let wait = if carried.round == 1 && class == Class::Ordered { rule.code } else { Duration::ZERO };
        let next = now + wait + apart.saturating_mul(u64::from(planned) - 1) + rule.patience + rule.wait;
        let is_last = carried.round >= rule.rounds || next + trip / 2 > until;
        let count =
            if is_last { budget.last_transmissions(carried.round, residual(class, rule.rate, trip)) } else { planned };
        let count = count.min(rule.most);
        self.copies(now + wait, symbol, Why::Resend, count, apart);
    }

    /// Gives up symbols that are of no use any more on a silent path with the round trip `trip`.
    pub fn give_up_late(&mut self, now: Instant, trip: Duration) {
        for index in 0..self.carried.len() {
            let carried = &self.carried[index];
            let is_sent = carried.flying > 0 || carried.round > 0;
            if carried.state == State::Alive
                && is_sent
                && now > carried.first + lifetime(carried.label.class, trip) + trip
            {
                self.give_up(Symbol(self.base + index as u64));
            }
        }
        self.advance(now);
    }

    /// Returns the latest symbol that is alive, which a probe carries.
    pub fn newest(&self) -> Option<Symbol> {
        let index = self.carried.iter().rposition(|carried| carried.state == State::Alive)?;
        Some(Symbol(self.base + index as u64))
    }

    /// Returns the class of the latest symbol, while one is stored.
    pub fn newest_class(&self) -> Option<Class> {
        self.carried.back().map(|carried| carried.label.class)
    }

    /// Returns the time at which to send the floor to the other end.
    pub fn floor_due(&self) -> Option<Instant> {
        self.floor_due
    }

    /// Repeats a pending floor notice now: earlier ones were lost on a silent path.
    pub fn repeat_floor(&mut self, now: Instant) {
        if self.floor_due.is_some() {
            (self.floor_due, self.floors) = (Some(now), 0);
        }
    }

    /// Records that the floor was sent.
    pub fn on_floor_sent(&mut self, now: Instant, trip: Duration) {
        self.floors += 1;
        let pause = (trip + trip / 4).max(Duration::from_millis(20)).saturating_mul(1 << self.floors.min(5));
        let goes_on = self.floors < FLOORS || self.is_too_far();
        self.floor_due = goes_on.then_some(now + pause.min(Duration::from_secs(1)));
    }
}

/// Returns the symbol, if it is stored.
fn get<I>(carried: &mut VecDeque<Carried<I>>, base: u64, symbol: Symbol) -> Option<&mut Carried<I>> {
    carried.get_mut(usize::try_from(symbol.0.checked_sub(base)?).ok()?)
}
