//! Sending half: unacknowledged symbols, the transmissions that carry them, rounds of repair, and the lowest symbol
//! still being sent (`floor`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::budget::Budget;
use super::detect::Detector;
use super::frame::{Class, Feedback, Item, Label, Why};
use super::limits::{AHEAD, lifetime, residual};
use super::numbers::{PacketNumber, Symbol};
use crate::time::{Duration, Instant};

/// Maximum number of fates queued for the driver.
const MOST_FATES: usize = 4096;

/// Maximum number of unacknowledged transmissions to track.
const MOST_SENT: usize = 2 * AHEAD as usize;

/// Maximum number of transmissions declared lost that are tracked, to detect late arrivals.
const MOST_LOST: usize = 4096;

/// Maximum number of consecutive floor notices without an answer; new data restarts the count.
const FLOORS: u32 = 8;

/// Minimum time without feedback that counts as an outage: in probe timeouts, and absolute. Shorter gaps lose little,
/// and are common on half-duplex links.
const OUTAGE: u64 = 2;
const SHORTEST_OUTAGE: Duration = Duration::from_millis(100);

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

/// Fate of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet arrived.
    Arrived(PacketNumber),
    /// The packet was declared lost.
    Lost(PacketNumber),
}

/// A transmission.
#[derive(Clone, Copy, Debug)]
struct Sent {
    symbol: Option<Symbol>,
    at: Instant,
    /// Bytes of all frames sent before.
    before: u64,
    open: bool,
}

/// The latest transmission that arrived, as reported by feedback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Anchor {
    pub packet: u64,
    /// Bytes of all frames sent before the transmission.
    pub before: u64,
    pub sent: Instant,
    /// Bytes that had arrived, without the hop's headers. Wraps.
    pub delivered: u32,
    /// Time of the transmission's arrival at the other end, plus the return path's delay.
    pub arrived: Instant,
}

/// A planned transmission.
#[derive(Clone, Copy, Debug)]
struct Again {
    symbol: Symbol,
    why: Why,
}

/// A packet to transmit.
#[derive(Clone, Debug)]
pub(super) struct Load<I> {
    pub symbol: Symbol,
    pub label: Label,
    pub item: I,
    pub why: Why,
}

/// State outside the sender that it uses.
pub(super) struct View<'a> {
    pub detector: &'a mut Detector,
    pub budget: &'a mut Budget,
    /// Transmission time of a frame on the hop.
    pub frame: Duration,
    /// Maximum feedback delay.
    pub wait: Duration,
    /// Maximum number of transmissions of a packet in a round.
    pub most: u8,
    /// Maximum number of rounds in which a packet is retransmitted.
    pub rounds: u8,
    /// Bytes of all frames sent.
    pub total: u64,
    /// Sending rate in bits per second.
    pub rate: u64,
    /// Time in which coded frames restore a lost packet that they can restore.
    pub code: Duration,
}

/// Symbols and transmissions in flight.
#[derive(Clone, Debug)]
pub(super) struct Sender<I> {
    /// Number of the first of `carried`.
    base: u64,
    carried: VecDeque<Carried<I>>,
    alive: usize,
    /// Number of the first of `sent`.
    first_sent: u64,
    sent: VecDeque<Sent>,
    /// Transmissions declared lost, by number, with the symbol of each. Every report may show that some of them have
    /// arrived after all.
    lost: BTreeMap<u64, Option<Symbol>>,
    largest_acked: Option<u64>,
    /// Set by the last feedback if it reported a later arrival than before.
    anchor: Option<Anchor>,
    /// Set by the last feedback if it ended an outage.
    outage: bool,
    /// Time of the last feedback.
    heard: Instant,
    /// Planned transmissions by time; real-time classes first.
    again: [BTreeMap<(Instant, u64), Again>; 2],
    order: u64,
    loss_due: Option<Instant>,
    /// Start of the current silence, and number of probes since.
    quiet: Instant,
    probes: u32,
    /// First symbol that the other end reports as missing.
    peer_floor: u64,
    /// The symbol after the last given up.
    given_up_to: u64,
    floor_due: Option<Instant>,
    floors: u32,
    given_up: u64,
    /// Fates of transmissions, if they are watched.
    fates: Option<VecDeque<Fate>>,
}

impl<I: Item> Sender<I> {
    pub fn new() -> Self {
        Self {
            base: 0,
            carried: VecDeque::new(),
            alive: 0,
            first_sent: 0,
            sent: VecDeque::new(),
            lost: BTreeMap::new(),
            largest_acked: None,
            anchor: None,
            outage: false,
            heard: Instant::ZERO,
            again: [BTreeMap::new(), BTreeMap::new()],
            order: 0,
            loss_due: None,
            quiet: Instant::ZERO,
            probes: 0,
            peer_floor: 0,
            given_up_to: 0,
            floor_due: None,
            floors: 0,
            given_up: 0,
            fates: None,
        }
    }

    /// Starts to record the fates of transmissions.
    pub fn watch(&mut self) {
        self.fates.get_or_insert_default();
    }

    pub fn is_watched(&self) -> bool {
        self.fates.is_some()
    }

    pub fn poll_fate(&mut self) -> Option<Fate> {
        self.fates.as_mut()?.pop_front()
    }

    fn tell(&mut self, fate: Fate) {
        if let Some(fates) = self.fates.as_mut().filter(|fates| fates.len() < MOST_FATES) {
            fates.push_back(fate);
        }
    }

    pub fn next_symbol(&self) -> Symbol {
        Symbol(self.base + self.carried.len() as u64)
    }

    pub fn next_packet(&self) -> PacketNumber {
        PacketNumber(self.first_sent + self.sent.len() as u64)
    }

    /// Returns the oldest symbol that is alive.
    pub fn floor(&self) -> Symbol {
        Symbol(self.base)
    }

    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns the number of symbols from the first that is alive, of tracked transmissions, and of planned ones.
    pub fn size(&self) -> (usize, usize, usize) {
        (self.carried.len(), self.sent.len(), self.again.iter().map(BTreeMap::len).sum())
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

    /// Records a transmission and returns its number.
    pub fn record(&mut self, now: Instant, symbol: Option<Symbol>, elicits: bool, view: &mut View<'_>) -> PacketNumber {
        let number = self.next_packet();
        self.forget();
        self.sent.push_back(Sent { symbol, at: now, before: view.total, open: elicits });
        if elicits {
            self.quiet = now;
        }
        if self.sent.len() > MOST_SENT
            && let Some(oldest) = self.sent.pop_front()
        {
            self.first_sent += 1;
            if let Some(symbol) = oldest.symbol.filter(|_| oldest.open) {
                self.ground(now, symbol, view);
            }
        }
        number
    }

    /// Adds a new symbol, which is sent now.
    pub fn push(&mut self, now: Instant, item: I, label: Label, view: &mut View<'_>) -> PacketNumber {
        let symbol = self.next_symbol();
        let item = Some(item);
        self.carried.push_back(Carried {
            item,
            label,
            first: now,
            round: 0,
            flying: 1,
            queued: 0,
            state: State::Alive,
        });
        self.alive += 1;
        self.floors = 0;
        self.record(now, Some(symbol), true, view)
    }

    /// Records a symbol that is never retransmitted.
    pub fn pass(&mut self, now: Instant, view: &mut View<'_>) -> PacketNumber {
        self.base += 1;
        self.peer_floor = self.base;
        self.record(now, None, false, view)
    }

    /// Plans `count` more transmissions of a symbol, `apart` from each other; the first is `apart` from now if it is a
    /// copy of one just sent.
    pub fn copies(&mut self, now: Instant, symbol: Symbol, why: Why, count: u8, apart: Duration) {
        let Some(carried) = get(&mut self.carried, self.base, symbol) else { return };
        let rank = usize::from(carried.label.class == Class::Ordered);
        carried.queued = carried.queued.saturating_add(count.into());
        let mut at = if why == Why::Redundancy { now + apart } else { now };
        for _ in 0..count {
            self.order += 1;
            self.again[rank].insert((at, self.order), Again { symbol, why });
            at += apart;
        }
    }

    /// Returns the next packet to retransmit, if one is due at `now`.
    pub fn pop_again(&mut self, now: Instant, view: &mut View<'_>) -> Option<(PacketNumber, Load<I>)> {
        for rank in 0..2 {
            while let Some(entry) = self.again[rank].first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let Again { symbol, why } = entry.remove();
                let Some(carried) = get(&mut self.carried, self.base, symbol) else { continue };
                carried.queued = carried.queued.saturating_sub(1);
                let Some(item) = carried.item.clone() else { continue };
                let label = carried.label;
                if why == Why::Resend && now > carried.first + lifetime(label.class, view.detector.round_trip()) {
                    if carried.flying == 0 && carried.queued == 0 {
                        self.give_up(symbol);
                        self.advance(now);
                    }
                    continue;
                }
                carried.flying = carried.flying.saturating_add(1);
                let number = self.record(now, Some(symbol), true, view);
                return Some((number, Load { symbol, label, item, why }));
            }
        }
        None
    }

    /// Returns the time at which the next packet may be retransmitted.
    pub fn next_again(&self) -> Option<Instant> {
        self.again.iter().filter_map(|again| again.first_key_value()).map(|((at, _), _)| *at).min()
    }

    /// Processes feedback from the other end. Returns `false` if it is invalid.
    pub fn on_feedback(&mut self, now: Instant, feedback: &Feedback, view: &mut View<'_>) -> bool {
        if feedback.largest >= self.next_packet() || feedback.floor > self.next_symbol() {
            return false;
        }
        self.outage = self.is_outage(now, view);
        if self.probes > 0 && self.floor_due.is_some() {
            // Notices of a silent hop were lost.
            (self.floor_due, self.floors) = (Some(now), 0);
        }
        (self.quiet, self.probes, self.heard) = (now, 0, now);
        let largest = feedback.largest.0;
        let arrived = Instant::from_nanos(now.as_nanos().saturating_sub(feedback.delay.as_nanos()));
        let newest = self.sent.get(largest.checked_sub(self.first_sent).map_or(usize::MAX, |index| index as usize));
        self.anchor = newest.filter(|_| self.largest_acked.is_none_or(|before| before < largest)).map(|sent| Anchor {
            packet: largest,
            before: sent.before,
            sent: sent.at,
            delivered: feedback.delivered,
            arrived,
        });
        if let Some(sent) = largest.checked_sub(self.first_sent).and_then(|index| self.sent.get(index as usize))
            && sent.open
        {
            view.detector.sample(now, now.since(sent.at), feedback.delay);
        }
        view.detector.relax(now);
        for index in (0..128).rev().filter(|index| feedback.received >> index & 1 == 1) {
            if let Some(packet) = largest.checked_sub(index + 1) {
                self.on_acked(now, packet, view);
            }
        }
        self.on_acked(now, largest, view);
        self.largest_acked = Some(self.largest_acked.map_or(largest, |before| before.max(largest)));

        self.peer_floor = self.peer_floor.max(feedback.floor.0);
        for symbol in self.base..feedback.floor.0 {
            self.done(Symbol(symbol));
        }
        for index in (0..128).filter(|index| feedback.beyond >> index & 1 == 1) {
            if let Some(symbol) = feedback.floor.0.checked_add(index + 1) {
                self.done(Symbol(symbol));
            }
        }
        self.find_lost(now, view);
        self.advance(now);
        if self.peer_floor >= self.base.min(self.given_up_to) {
            (self.floor_due, self.floors) = (None, 0);
        }
        true
    }

    /// Returns the latest transmission that arrived, if it was not known before.
    pub fn take_anchor(&mut self) -> Option<Anchor> {
        self.anchor.take()
    }

    /// Returns whether the last feedback ended an outage, once.
    pub fn take_outage(&mut self) -> bool {
        core::mem::take(&mut self.outage)
    }

    /// Returns whether feedback on outstanding transmissions, which arrives now, was missing long enough for an outage.
    fn is_outage(&self, now: Instant, view: &View<'_>) -> bool {
        let Some(largest) = self.largest_acked else { return false };
        let first = (largest + 1).saturating_sub(self.first_sent) as usize;
        let Some(sent) = self.sent.range(first.min(self.sent.len())..).find(|sent| sent.open) else { return false };
        let least = view.detector.silence(view.wait, 0).saturating_mul(OUTAGE).max(SHORTEST_OUTAGE);
        now.since(self.heard.max(sent.at)) > least
    }

    /// Returns the number of consecutive probes without an answer.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    fn on_acked(&mut self, now: Instant, packet: u64, view: &mut View<'_>) {
        let Some(index) = packet.checked_sub(self.first_sent) else {
            return self.on_late(now, packet, view);
        };
        let Some(sent) = self.sent.get_mut(index as usize) else { return };
        let symbol = sent.symbol;
        if !sent.open {
            return self.on_late(now, packet, view);
        }
        sent.open = false;
        self.tell(Fate::Arrived(PacketNumber(packet)));
        view.budget.on_acked(now);
        if let Some(symbol) = symbol {
            if let Some(carried) = get(&mut self.carried, self.base, symbol) {
                carried.flying = carried.flying.saturating_sub(1);
            }
            self.done(symbol);
        }
    }

    /// Handles the acknowledgment of a transmission that is not open, which may have been declared lost.
    fn on_late(&mut self, now: Instant, packet: u64, view: &mut View<'_>) {
        let Some(symbol) = self.lost.remove(&packet) else { return };
        view.detector.on_spurious(now);
        view.budget.on_spurious();
        if let Some(symbol) = symbol {
            self.done(symbol);
        }
    }

    fn done(&mut self, symbol: Symbol) {
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
    fn advance(&mut self, now: Instant) {
        while self.carried.front().is_some_and(|carried| carried.state != State::Alive) {
            self.carried.pop_front();
            self.base += 1;
        }
        self.forget();
        let unheard = self.peer_floor < self.base.min(self.given_up_to);
        if unheard && self.floor_due.is_none() && (self.floors < FLOORS || self.is_too_far()) {
            self.floor_due = Some(now);
        }
    }

    /// Removes settled transmissions at the front.
    fn forget(&mut self) {
        while self.sent.front().is_some_and(|sent| !sent.open) {
            self.sent.pop_front();
            self.first_sent += 1;
        }
    }

    /// Declares reordered transmissions lost.
    fn find_lost(&mut self, now: Instant, view: &mut View<'_>) {
        self.loss_due = None;
        let Some(largest) = self.largest_acked else { return };
        let (threshold, patience) = (view.detector.threshold(), view.detector.patience());
        let mut packet = self.first_sent;
        while packet < largest {
            let index = (packet - self.first_sent) as usize;
            let Some(sent) = self.sent.get_mut(index) else { break };
            let late = sent.at + patience;
            if sent.open && (threshold.is_some_and(|most| largest - packet >= most) || late <= now) {
                sent.open = false;
                let symbol = sent.symbol;
                if self.lost.len() == MOST_LOST {
                    self.lost.pop_first();
                }
                self.lost.insert(packet, symbol);
                self.tell(Fate::Lost(PacketNumber(packet)));
                view.budget.on_lost(now, packet);
                if let Some(symbol) = symbol {
                    self.ground(now, symbol, view);
                }
            } else if sent.open {
                self.loss_due = Some(self.loss_due.map_or(late, |due| due.min(late)));
            }
            packet += 1;
        }
    }

    /// Handles the loss of one transmission of a symbol. The loss of the last one in flight starts the next round.
    fn ground(&mut self, now: Instant, symbol: Symbol, view: &mut View<'_>) {
        let Some(carried) = get(&mut self.carried, self.base, symbol) else { return };
        carried.flying = carried.flying.saturating_sub(1);
        if carried.state != State::Alive || carried.flying > 0 || carried.queued > 0 {
            return;
        }
        let trip = view.detector.round_trip();
        if carried.round >= view.rounds || now + trip / 2 > carried.first + lifetime(carried.label.class, trip) {
            self.give_up(symbol);
            return;
        }
        carried.round += 1;
        let (class, until) = (carried.label.class, carried.first + lifetime(carried.label.class, trip));
        let apart = view.frame.saturating_mul(view.budget.apart());
        let planned = Budget::transmissions(carried.round);
        // The next round starts when the last transmission of this one is declared lost.
        let wait = if carried.round == 1 && class == Class::Ordered { view.code } else { Duration::ZERO };
        let next = now + wait + apart.saturating_mul(u64::from(planned) - 1) + view.detector.patience() + view.wait;
        let is_last = carried.round >= view.rounds || next + trip / 2 > until;
        let count = if is_last {
            view.budget.last_transmissions(carried.round, residual(class, view.rate, trip))
        } else {
            planned
        };
        let count = count.min(view.most);
        self.copies(now + wait, symbol, Why::Resend, count, apart);
    }

    /// Handles timeouts. Returns whether the hop has to be probed.
    pub fn handle_timeout(&mut self, now: Instant, view: &mut View<'_>) -> bool {
        if self.loss_due.is_some_and(|due| due <= now) {
            self.find_lost(now, view);
            self.advance(now);
        }
        if self.silence_due(view.detector, view.wait).is_none_or(|due| due > now) {
            return false;
        }
        self.quiet = now;
        self.probes = self.probes.saturating_add(1);
        let trip = view.detector.round_trip();
        for index in 0..self.carried.len() {
            let carried = &self.carried[index];
            if carried.state == State::Alive && now > carried.first + lifetime(carried.label.class, trip) + trip {
                self.give_up(Symbol(self.base + index as u64));
            }
        }
        self.advance(now);
        self.alive > 0
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

    fn silence_due(&self, detector: &Detector, wait: Duration) -> Option<Instant> {
        (self.alive > 0).then(|| self.quiet + detector.silence(wait, self.probes))
    }

    /// Returns the next deadline of [`Sender::handle_timeout`].
    pub fn poll_deadline(&self, detector: &Detector, wait: Duration) -> Option<Instant> {
        [self.loss_due, self.silence_due(detector, wait)].into_iter().flatten().min()
    }

    /// Returns the time at which to send the floor to the other end.
    pub fn floor_due(&self) -> Option<Instant> {
        self.floor_due
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
