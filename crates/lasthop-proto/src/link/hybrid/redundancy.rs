//! Redundancy ahead of losses: copies, and coded frames after blocks, before pauses, and among new packets.

use super::ahead::{self, Plan};
use super::budget::{SINGLE, expected_losses};
use super::code::{Coded, UNKNOWN, WINDOW, coefficient};
use super::frame::{Frame, Item, Why};
use super::limits;
use super::numbers::{PathId, Symbol, Window};
use super::path::Path;
use super::settings::{Multipath, Repair};
use super::symbols::Rank;
use super::{Hop, Outgoing};
use crate::time::{Duration, Instant};

/// Idle time after which repair for the last packets is worthwhile.
pub(super) const IDLE: Duration = Duration::from_millis(2);

/// Packets in a block of AIRMAIL, and the time after its last packet at which the block is closed.
pub(super) const BLOCK: u64 = 16;
pub(super) const BLOCK_WAIT: Duration = Duration::from_millis(8);

/// Coded frames to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub first: Symbol,
    pub end: Symbol,
    pub sent: u8,
    pub count: u8,
    pub why: Why,
    pub yields: Yields,
}

/// Indicates whether coded frames are dropped if new packets wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Yields {
    Never,
    ToNew,
}

impl<I: Item> Hop<I> {
    /// Closes a block.
    pub(super) fn close(&mut self, now: Instant, path: PathId, first: Symbol) {
        self.block = None;
        let end = self.symbols.next_symbol();
        let packets = (end.0 - first.0).min(WINDOW as u64);
        let count = match self.config.repair {
            Repair::Share(share) => (packets * u64::from(share.coded)).div_ceil(u64::from(share.data.max(1))),
            Repair::Airmail(_) if self.may_add(now, path) => self.expected_losses(path, packets),
            Repair::Airmail(_) | Repair::Repeat | Repair::Adaptive => 0,
        };
        if count > 0 {
            self.coded = Some(Due {
                first,
                end,
                sent: 0,
                count: count.min(255) as u8,
                why: Why::Redundancy,
                yields: Yields::Never,
            });
        }
    }

    /// Returns whether coded frames ahead of losses are worthwhile on a path, and it has capacity for them.
    pub(super) fn may_add(&self, now: Instant, path: PathId) -> bool {
        let path = self.path(path);
        path.budget.is_on(now) && path.control.may_code(now)
    }

    /// Returns the number of losses to expect among `frames` frames on a path: the mean and two standard deviations.
    fn expected_losses(&self, path: PathId, frames: u64) -> u64 {
        expected_losses(frames, self.path(path).budget.loss(), SINGLE)
    }

    /// Returns the plan of the coded frames among new packets, if there are any.
    pub(super) fn plan_ahead(&self, now: Instant, path: PathId) -> Option<Plan> {
        if self.config.repair != Repair::Adaptive {
            return None;
        }
        let state = self.path(path);
        let span = ahead::span(state.control.rate(), state.detector.shortest())?;
        self.may_add(now, path).then(|| Plan::new(span, state.budget.loss(), state.budget.run())).flatten()
    }

    /// Plans a coded frame over the latest packets if one is due.
    pub(super) fn code_ahead(&mut self, now: Instant, path: PathId) {
        let Some(plan) = self.plan_ahead(now, path) else { return };
        if self.ahead.on_packet(plan) && self.coded.is_none() {
            let end = self.symbols.next_symbol();
            let first = Symbol(end.0.saturating_sub(plan.span));
            // No plain sum: sums over overlapping windows with the same losses are equal.
            self.coded = Some(Due { first, end, sent: 1, count: 2, why: Why::Redundancy, yields: Yields::Never });
        }
    }

    /// Returns the plan of the coded frames among new packets on several paths, if there are any.
    pub(super) fn plan_among(&self, now: Instant) -> Option<Plan> {
        // Avoids the computation below for each packet while no path has losses.
        let codes = self.config.repair == Repair::Adaptive && self.multipath == Multipath::Bond;
        if !codes || !self.paths.iter().any(|path| path.budget.is_on(now)) {
            return None;
        }
        let usable = || self.usable().map(|path| self.path(path));
        let trip = usable().map(|path| path.detector.shortest()).min()?;
        let (mut rate, mut lost, mut runs) = (0_u128, 0, 0);
        for Path { control, budget, .. } in usable() {
            if !control.may_code(now) {
                return None;
            }
            let of_path = u128::from(control.rate()) * u128::from(budget.loss());
            (rate, lost) = (rate + u128::from(control.rate()), lost + of_path);
            runs += of_path * u128::from(budget.run());
        }
        if lost == 0 || !usable().any(|path| path.budget.is_on(now)) {
            return None;
        }
        let span = ahead::span(rate as u64, trip)?;
        Plan::new(span, (lost / rate.max(1)) as u64, (runs / lost) as u64)
    }

    /// Records a packet sent on one of several paths, which carries a coded frame next if one is due.
    pub(super) fn code_among(&mut self, now: Instant, path: PathId) {
        let Some(plan) = self.plan_among(now) else { return };
        if self.ahead.on_packet(plan) && self.coded_on.is_none() && self.path(path).budget.was_useful(now) {
            self.coded_on = Some(path);
        }
    }

    /// Sends a coded frame that is due on one of several paths. It covers the packets before the one that this path would
    /// send next: packets that other paths deliver until the coded frame arrives.
    pub(super) fn send_coded_among(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if self.coded_on != Some(path) {
            return None;
        }
        self.coded_on = None;
        let plan = self.plan_among(now).filter(|_| self.is_usable(path))?;
        let end = self.symbols.staged_at(Rank::Bulk, self.packets_before(now, path) as usize);
        let key = self.encoder.next_key();
        let (first, packets) = self.symbols.stored_before(end, plan.span.min(WINDOW as u64));
        let (mut sum, mut bytes, mut count) = (I::Coded::zero(), 0, 0);
        for (symbol, item, label) in packets {
            sum.add_scaled(coefficient(key, symbol), &item.encode(label));
            (bytes, count) = (item.bytes().max(bytes), count + 1);
        }
        if count == 0 || !self.spend_on_code(now, path, bytes) {
            return None;
        }
        self.counters.redundant += 1;
        let frame = Frame::Repair(Window { first, count }, key, sum);
        Some(self.send(now, path, frame, None, Why::Redundancy, bytes + 2))
    }

    /// Sends repair for the last packets when none are waiting: as much as the loss rate suggests.
    pub(super) fn repair_idle(&mut self, now: Instant, path: PathId) {
        let Some(newest) = self.symbols.newest().filter(|_| self.may_add(now, path)) else { return };
        let end = Symbol(newest.0 + 1);
        let first = Symbol(self.symbols.floor().0.max(end.0.saturating_sub(WINDOW as u64)));
        let count = self.expected_losses(path, end.0 - first.0);
        if count > 0 {
            let count = count.min(UNKNOWN as u64) as u8;
            self.coded = Some(Due { first, end, sent: 0, count, why: Why::Redundancy, yields: Yields::ToNew });
        }
    }

    pub(super) fn send_coded(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        let due = self.coded?;
        let adaptive = self.config.repair == Repair::Adaptive;
        // New packets have priority over repair that may not be needed.
        let room =
            self.path(path).control.may_code(now) && (due.yields == Yields::Never || self.ingress.waiting() == 0);
        if adaptive && due.why == Why::Redundancy && !room {
            self.coded = None;
            return None;
        }
        let sent = due.sent + 1;
        self.coded = (sent < due.count).then_some(Due { sent, ..due });
        let Some(window) = self.encoder.window(due.first, due.end) else {
            self.coded = None;
            return None;
        };
        let (key, sum, bytes) = self.encoder.combine(window, due.sent);
        let is_charged = (adaptive || self.is_airmail()) && due.why == Why::Redundancy;
        if is_charged && !self.spend_on_code(now, path, bytes) {
            self.coded = None;
            return None;
        }
        self.counters.redundant += 1;
        // Key and window replace a data frame's label of its packet, and take two more bytes.
        Some(self.send(now, path, Frame::Repair(window, key, sum), None, due.why, bytes + 2))
    }

    /// Charges a path's share of redundancy for a coded frame of `bytes` bytes. Returns whether the frame fits.
    fn spend_on_code(&mut self, now: Instant, path: PathId, bytes: u32) -> bool {
        let Path { control, budget, .. } = self.path_mut(path);
        let time = control.pacer.time_for(bytes);
        let fits = budget.allows(now, time);
        if fits {
            budget.spend(now, time);
            budget.on_coded(now);
        }
        fits
    }

    /// Adds a packet to the open block, which is closed when it has `packets` packets, or `wait` after the last.
    pub(super) fn add_to_block(&mut self, now: Instant, path: PathId, symbol: Symbol, packets: u64, wait: Duration) {
        let first = self.block.map_or(symbol, |(first, _)| first);
        self.block = Some((first, now + wait));
        if symbol.0 - first.0 + 1 >= packets {
            self.close(now, path, first);
        }
    }

    /// Sends copies of a packet that cannot wait for retransmission, or should not.
    pub(super) fn copy_ahead(&mut self, now: Instant, path: PathId, flow: u32, symbol: Symbol, bytes: u32) {
        let Path { control, detector, budget, .. } = &self.paths[path.index()];
        let trip = detector.round_trip();
        let deadline = limits::deadline(trip);
        // The rest of the path takes a part of the deadline.
        let mut copies = budget.copies(deadline - deadline / 8, trip);
        let prompt = budget.prompt_copies();
        if prompt > copies && self.classifier.is_light(flow, control.rate()) {
            copies = prompt;
        }
        let time = control.pacer.time_for(bytes);
        if copies > 0 && control.may_code(now) && budget.allows(now, time.saturating_mul(copies.into())) {
            let apart = control.pacer.time_for(1500).saturating_mul(budget.apart());
            self.symbols.copies(now, symbol, Why::Redundancy, copies, apart);
        }
    }
}
