//! Choice of paths, if there are several.
//!
//! A packet is sent on the path on which it is expected to arrive first. Packets of light flows, acknowledgments and
//! retransmissions wait for that path. The packets of busy flows are numbered, and wait in order (`staged`): a path with
//! a longer delay takes a packet as far back as the faster paths carry before that packet arrives, so that packets arrive
//! in order. If fewer packets are waiting, the path stays idle, because the faster paths deliver all of them sooner.
//!
//! Of a [`Multipath::Redundant`] hop, the best path takes all packets, and the next best one copies of them. Of a
//! [`Multipath::Failover`] hop, only the first path that works is used. Of all hops, only the paths of the open tiers
//! are used (`tiers.rs`).

use super::feedback::LONGEST;
use super::frame::{Class, Frame, Item, Label, Traffic, Why};
use super::limits;
use super::numbers::{PathId, Symbol};
use super::path::Path;
use super::settings::Multipath;
use super::symbols::{Again, Rank, Target};
use super::tiers::{Copies, Terms, Tier};
use super::{Hop, MOST_PATHS, Outgoing};
use crate::time::{Duration, Instant};

/// Maximum number of staged packets.
const MOST_STAGED: u64 = 8192;

/// Maximum number of waiting packets of light flows, and of packets without repair.
const MOST_LIGHT: usize = 256;

/// Maximum difference between the delays of two paths, in round trips of the slower one: its delay varies, and the means
/// of delay and round trip follow at different speeds.
const TRUSTED: u64 = 2;

/// Time after which a path that carries nothing is probed, so that its delay stays known.
const QUIET: Duration = Duration::from_secs(1);

/// The same for a path that is not primary: shorter than address translators keep an entry.
const STANDBY_QUIET: Duration = Duration::from_secs(25);

/// Time after the last packet for which idle paths are probed.
const ACTIVE: Duration = Duration::from_secs(10);

/// Paths for planned transmissions at a time.
pub(super) struct Targets {
    /// Paths of copies of packets sent on each path, if all packets are copied.
    all: Option<[Option<PathId>; MOST_PATHS as usize]>,
    /// Best usable path, and the best one besides it.
    bulk: [Option<PathId>; 2],
    /// The same of the paths that carry copies of calls.
    calls: [Option<PathId>; 2],
}

impl Targets {
    /// Returns the path of a planned transmission.
    pub fn of(&self, again: &Again) -> Option<PathId> {
        let besides =
            |[first, second]: [Option<PathId>; 2], path: PathId| if first == Some(path) { second } else { first };
        // A copy whose path can no longer carry it takes the best one. Otherwise it would block the retransmissions
        // behind it.
        let all = |path: PathId| self.all.and_then(|all| all[path.index()]);
        match again.to {
            Target::Best => self.bulk[0],
            Target::Other(path) => all(path).or_else(|| besides(self.bulk, path)),
            Target::Copy(path) => all(path).or_else(|| besides(self.calls, path)),
        }
    }
}

impl<I: Item> Hop<I> {
    /// Returns whether there is a choice of paths.
    pub(super) fn is_multipath(&self) -> bool {
        self.paths.len() > 1
    }

    /// Returns whether a path may carry packets: its delay is known, and the other end answers on it. Before the delay of
    /// any path is known, it is the first one that is not known to be silent.
    pub(super) fn is_usable(&self, path: PathId) -> bool {
        if let Some(first) = self.first(Path::is_proven) {
            return match self.multipath {
                Multipath::Bond | Multipath::Redundant => {
                    let open = self.open_tier(self.path(first).terms.tier);
                    let works = |other: PathId| self.path(other).is_proven() && self.path(other).terms.tier <= open;
                    works(path) && !(self.multipath == Multipath::Bond && self.couples.stands_by(path, &works))
                }
                Multipath::Failover => first == path,
            };
        }
        self.first(|path| !path.is_suspect()) == Some(path)
    }

    /// Returns the first path of the earliest tier among those that `is_eligible` accepts.
    fn first(&self, is_eligible: impl Fn(&Path) -> bool) -> Option<PathId> {
        let eligible = self.path_ids().filter(|path| self.path(*path).is_on() && is_eligible(self.path(*path)));
        eligible.min_by_key(|path| self.path(*path).terms.tier)
    }

    /// Returns the last tier that carries packets, if the earliest one with a path that works is `first`.
    fn open_tier(&self, first: Tier) -> Tier {
        if first == Tier::Primary && self.overflow.is_open() { Tier::Secondary } else { first }
    }

    /// Records a time at which no frame may be sent: it shows whether the primary paths are full.
    pub(super) fn watch_overflow(&mut self, now: Instant) {
        if self.is_plain() {
            return;
        }
        let primary = self.paths.iter().filter(|path| path.terms.tier == Tier::Primary && path.is_proven());
        let rate = primary.map(|path| path.control.rate()).fold(0, u64::saturating_add);
        let sent = self.paths.iter().map(|path| path.control.pacer.total()).sum();
        let waits = self.has_new();
        self.overflow.on_pause(now, waits, sent, rate);
    }

    /// Returns whether all paths have the default terms.
    fn is_plain(&self) -> bool {
        self.paths.iter().all(|path| path.terms == Terms::default())
    }

    /// Changes the terms of a path.
    pub fn set_terms(&mut self, path: PathId, terms: Terms) {
        self.path_mut(path).terms = terms;
    }

    /// Returns the terms of a path.
    pub fn terms(&self, path: PathId) -> Terms {
        self.path(path).terms
    }

    /// Returns the usable paths.
    pub(super) fn usable(&self) -> impl Iterator<Item = PathId> {
        self.path_ids().filter(|path| self.is_usable(*path))
    }

    /// Returns the mean one-way delay of a path, relative to an offset that all paths have in common, in nanoseconds.
    fn delay(&self, path: &Path) -> i64 {
        let offset = self.paths.iter().find_map(Path::first_delay).unwrap_or(0);
        path.one_way(offset) + path.excess()
    }

    /// Returns the time from `now` to the arrival of a packet that a path carries next, relative to the same offset, in
    /// nanoseconds. The mean delay of a repair counts as well.
    fn arrival(&self, now: Instant, path: &Path) -> i64 {
        let next = path.control.pacer.next().since(now) + path.control.pacer.time_for(1500);
        let repair = path.detector.round_trip().as_nanos() / 1_000 * path.budget.loss() / 1_000;
        self.delay(path) + (next.as_nanos() + repair) as i64
    }

    /// Returns the usable path on which a packet is expected to arrive first, other than `avoid` if there is another.
    pub(super) fn best_path(&self, now: Instant, avoid: Option<PathId>) -> PathId {
        let best = |avoid: Option<PathId>| {
            self.usable().filter(|path| Some(*path) != avoid).min_by_key(|path| self.arrival(now, self.path(*path)))
        };
        best(avoid).or_else(|| best(None)).unwrap_or(PathId::FIRST)
    }

    /// Returns the path for copies of packets sent on each path, if all packets are copied. Of paths with a known delay, it
    /// is the next best one; one that does not answer may still deliver.
    pub(super) fn copy_paths(&self, now: Instant) -> Option<[Option<PathId>; MOST_PATHS as usize]> {
        if self.multipath != Multipath::Redundant {
            return None;
        }
        let takes = |path: &Path| path.first_delay().is_some() && path.is_on() && path.terms.copies == Copies::All;
        let known = || self.path_ids().filter(|path| takes(self.path(*path)));
        let rank = |path: &PathId| (self.path(*path).is_suspect(), self.arrival(now, self.path(*path)));
        Some(core::array::from_fn(|avoid| known().filter(|path| path.index() != avoid).min_by_key(rank)))
    }

    /// Returns the path for a copy of a packet of a call: the one on which it is expected first, other than `avoid`. A
    /// path that carries no other packets may carry copies.
    fn copy_path(&self, now: Instant, avoid: Option<PathId>) -> Option<PathId> {
        let takes = |path: &PathId| {
            let state = self.path(*path);
            let stands_by = self.multipath != Multipath::Failover && state.is_proven() && state.is_on();
            state.terms.copies >= Copies::Light && (self.is_usable(*path) || stands_by)
        };
        let others = self.path_ids().filter(|path| Some(*path) != avoid && takes(path));
        others.min_by_key(|path| self.arrival(now, self.path(*path)))
    }

    /// Returns the paths for planned transmissions.
    pub(super) fn targets(&self, now: Instant) -> Targets {
        let best = self.best_path(now, None);
        let usable = |path: PathId| Some(path).filter(|path| self.is_usable(*path));
        let bulk = [usable(best), usable(self.best_path(now, Some(best)))];
        let calls = if self.is_plain() {
            bulk
        } else {
            let first = self.copy_path(now, None);
            [first, self.copy_path(now, first)].map(|path| path.or(bulk[0]))
        };
        Targets { all: self.copy_paths(now), bulk, calls }
    }

    /// Returns the path for feedback on `path`: the one with the shortest delay, but from time to time `path` itself,
    /// because the others may have become silent.
    pub(super) fn feedback_path(&mut self, now: Instant, path: PathId) -> PathId {
        let state = self.path_mut(path);
        let trip = state.detector.round_trip();
        if state.is_on() && state.own_feedback_due(now, trip) {
            return path;
        }
        let best = self.usable().min_by_key(|path| self.delay(self.path(*path)));
        best.or_else(|| self.first(|_| true)).unwrap_or(path)
    }

    /// Returns the number of packets that other usable paths deliver before a packet that this path carries at `now`. No
    /// path is faster than this one by more than this one's delay, whatever the other end reports on it.
    pub(super) fn packets_before(&self, now: Instant, path: PathId) -> u64 {
        let state = self.path(path);
        let (own, delay) = (self.arrival(now, state), self.delay(state));
        let least = delay.saturating_sub_unsigned(state.detector.round_trip().saturating_mul(TRUSTED).as_nanos());
        let before = |other: PathId| {
            let other = self.path(other);
            let incredible = least.saturating_sub(self.delay(other)).max(0);
            let arrival = self.arrival(now, other).saturating_add(incredible);
            let ahead = u64::try_from(own.saturating_sub(arrival)).unwrap_or(0);
            limits::frames_in_flight(other.control.rate(), Duration::from_nanos(ahead))
        };
        self.usable().filter(|other| *other != path).map(before).sum::<u64>().min(MOST_STAGED)
    }

    /// Returns the combined rate of the usable paths, in bits per second.
    pub(super) fn total_rate(&self) -> u64 {
        self.usable().map(|path| self.path(path).control.rate()).fold(0, u64::saturating_add).max(1)
    }

    /// Numbers waiting packets until the slowest path has enough to choose from.
    fn stage(&mut self, now: Instant) {
        let most = self.usable().map(|path| self.packets_before(now, path)).max().unwrap_or(0);
        let trip = self.usable().map(|path| self.path(path).detector.stall()).max().unwrap_or_default();
        let rate = self.total_rate();
        let window = (self.window() + most).min(limits::third(self.config.memory));
        self.ingress.tune(trip, rate);
        while (self.symbols.staged(Rank::Bulk) as u64) <= most
            && self.symbols.staged(Rank::Light) + self.bare.len() < MOST_LIGHT
            && self.symbols.may_send(window)
        {
            let Some(item) = self.ingress.pop(now) else { return };
            if item.traffic() == Traffic::Bare {
                self.bare.push_back(item);
                continue;
            }
            let (flow, symbol) = (item.flow(), self.symbols.next_symbol());
            let class = self.classifier.classify(now, flow, item.traffic(), item.bytes(), rate);
            let label = self.label(now, flow, symbol, class);
            let is_light = class != Class::Ordered || self.classifier.stays_light(flow, rate);
            self.symbols.stage(now, item, label, if is_light { Rank::Light } else { Rank::Bulk });
        }
    }

    /// Sends a staged packet on a path, if it is the path's turn.
    pub(super) fn send_staged(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if !self.is_usable(path) {
            return None;
        }
        self.stage(now);
        let is_best = self.best_path(now, None) == path;
        if is_best && let Some(item) = self.bare.pop_front() {
            let bytes = item.bytes();
            if item.is_marked() {
                self.path_mut(path).control.on_marked_sent();
            }
            return Some(self.send(now, path, Frame::Bare(item), None, Why::First, bytes));
        }
        let load = if is_best { self.symbols.send_staged(now, Rank::Light, 0) } else { None };
        let load = match load {
            Some(load) => load,
            None if self.multipath == Multipath::Redundant && !is_best => return None,
            None => self.symbols.send_staged(now, Rank::Bulk, self.packets_before(now, path) as usize)?,
        };
        self.path_mut(path).budget.on_time(now);
        let (Label { class, .. }, flow) = (load.label, load.item.flow());
        let outgoing = self.send_load(now, path, load);
        if let Frame::Data(symbol, ..) = &outgoing.frame {
            if self.copy_paths(now).is_some_and(|copies| copies[path.index()].is_some()) {
                self.symbols.copy(now, *symbol, Target::Other(path));
            } else if class == Class::RealTime {
                self.copy_light(now, path, flow, *symbol, outgoing.bytes);
            }
            self.code_among(now, path);
        }
        Some(outgoing)
    }

    /// Sends a copy of a packet that cannot wait for retransmission on another path, if its own one is uncertain. Without
    /// another path, copies follow on the same one.
    fn copy_light(&mut self, now: Instant, path: PathId, flow: u32, symbol: Symbol, bytes: u32) {
        let Some(other) = self.copy_path(now, Some(path)) else {
            return self.copy_ahead(now, path, flow, symbol, bytes);
        };
        if self.path(path).is_uncertain(now) && self.has_capacity(now, other, bytes) {
            self.symbols.copy(now, symbol, Target::Copy(path));
        }
    }

    /// Returns whether a path has capacity for a copy of a packet of `bytes` bytes.
    fn has_capacity(&self, now: Instant, path: PathId, bytes: u32) -> bool {
        let Path { control, budget, .. } = self.path(path);
        control.may_code(now) && budget.allows(now, control.pacer.time_for(bytes))
    }

    /// Returns the age from which on an outstanding transmission on a path is overdue. The other end may not know the round
    /// trip yet, and wait longer with its feedback.
    pub(super) fn overdue_age(&self, path: &Path) -> Duration {
        path.detector.patience() + self.longest_wait(path).max(LONGEST)
    }

    /// Copies packets that should have arrived on a path by now on another one: packets on the other paths wait for them.
    /// Unlike those declared lost, they say nothing about the path's losses.
    pub(super) fn copy_overdue(&mut self, now: Instant, path: PathId) {
        let age = self.overdue_age(self.path(path));
        while let Some(symbol) = self.path_mut(path).sent.next_overdue(now, age) {
            let other = self.best_path(now, Some(path));
            if self.has_capacity(now, other, 1500) {
                self.symbols.copy(now, symbol, Target::Other(path));
            }
        }
    }

    /// Returns whether an idle path is to be probed: its delay is unknown or old, and packets were sent lately.
    pub(super) fn wants_probe(&self, now: Instant, path: PathId) -> bool {
        self.probe_due(path).is_some_and(|due| due <= now)
    }

    /// Returns the time at which an idle path is probed.
    pub(super) fn probe_due(&self, path: PathId) -> Option<Instant> {
        let state = self.path(path);
        if !self.is_multipath() || state.sent.has_open() || !state.is_on() {
            return None;
        }
        let active = self.active_until?;
        let quiet = if state.terms.tier == Tier::Primary || !state.is_proven() { QUIET } else { STANDBY_QUIET };
        let due = state.sent.last().map_or(Instant::ZERO, |last| last + quiet);
        (due <= active).then_some(due)
    }

    /// Records that a packet is to be sent: idle paths are probed for some time.
    pub(super) fn on_active(&mut self, now: Instant) {
        if self.is_multipath() {
            self.active_until = Some(now + ACTIVE);
        }
    }

    /// Handles the silence of one of several paths: the others carry the frames sent on it again, and it is probed.
    pub(super) fn on_path_silent(&mut self, now: Instant, path: PathId) {
        let state = self.path_mut(path);
        state.on_silent();
        state.sent.on_silence(now);
        let probes = state.sent.probes();
        state.control.on_probe(probes);
        let lost = state.sent.lose_all();
        let rule = self.repair_rule(now, path);
        let Self { paths, symbols, .. } = self;
        for symbol in lost {
            symbols.on_lost(now, symbol, &rule, &paths[path.index()].budget);
        }
        // Packets on a slower path take longer to be acknowledged.
        symbols.give_up_late(now, rule.trip);
        self.path_mut(path).probe = true;
    }
}
