//! Processing of frames that arrive, and of timeouts.

use alloc::vec::Vec;

use super::code::{Gain, WINDOW};
use super::frame::{Feedback, Frame, Item, Label, Why};
use super::limits;
use super::numbers::{PacketNumber, PathId, Symbol};
use super::path::{Path, micros};
use super::receiver::Intake;
use super::redundancy::{Due, Yields};
use super::rounds::Heard;
use super::symbols::RepairRule;
use super::transmissions::{Acked, Arrival};
use super::{Hop, couple};
use crate::time::{Duration, Instant};

/// Time after a coded frame for which arriving packets are stored for decoding, if there are several paths.
const DECODES: Duration = Duration::from_secs(10);

impl<I: Item> Hop<I> {
    /// Processes a frame that arrives on a path.
    pub fn handle_frame(&mut self, now: Instant, path: PathId, packet: PacketNumber, bytes: u32, frame: Frame<I>) {
        let (repeats, is_multipath) = (self.repeats(), self.is_multipath());
        let state = self.path_mut(path);
        state.delivered = state.delivered.wrapping_add(bytes);
        if is_multipath {
            let latest = state.account.largest().is_some_and(|largest| packet < largest);
            state.history.on_packet(packet.0, latest);
        }
        let hole = state.account.on_packet(now, packet);
        state.account.count(now, bytes + u32::from(state.header));
        if frame.elicits() && repeats {
            let (trip, rate) = (state.detector.round_trip(), state.feedback_rate(now));
            let class = if let Frame::Data(_, label, _) = &frame { Some(label.class) } else { None };
            state.account.on_elicited(now, class, hole, trip, rate);
        }
        if let Frame::Data(_, _, item) | Frame::Bare(item) = &frame
            && item.is_marked()
        {
            state.marked = state.marked.wrapping_add(1);
        }
        match frame {
            Frame::Data(symbol, label, item) => {
                let decodes = !is_multipath || self.decodes_until.is_some_and(|until| now < until);
                let coded = (decodes && self.codes()).then(|| item.encode(label));
                let intake = self.take(now, symbol, label, item);
                if let Some(coded) = coded.filter(|_| intake != Intake::Beyond) {
                    let mut restored = Vec::new();
                    self.decoder.on_symbol(symbol, coded, &mut restored);
                    if let Some(path) = self.decoder.poll_waiting(&mut restored) {
                        self.path_mut(path).on_useful_code();
                    }
                    self.take_restored(now, restored);
                }
            }
            Frame::Repair(window, key, sum) => {
                let near = self.receiver.near().0;
                // No honest end sends so far ahead, or coded frames if it has no code.
                if !self.codes() || window.first.0 > near.saturating_add(limits::AHEAD) {
                    self.counters.refused += 1;
                    return;
                }
                let mut restored = Vec::new();
                let gain = if is_multipath {
                    self.decodes_until = Some(now + DECODES);
                    self.decoder.on_repair_among(path, window, key, sum, &mut restored)
                } else {
                    self.decoder.on_repair(window, key, sum, &mut restored)
                };
                if gain == Gain::Rank {
                    self.path_mut(path).on_useful_code();
                }
                self.take_restored(now, restored);
            }
            Frame::Feedback(feedback) => {
                let about = feedback.path;
                if !self.has_path(about) {
                    self.counters.refused += 1;
                    return;
                }
                if self.on_feedback(now, about, &feedback) {
                    self.judge(now, about, feedback.marked);
                } else {
                    self.counters.refused += 1;
                }
                self.path_mut(about).budget.on_useful(feedback.useful);
            }
            Frame::Floor(floor) => {
                self.receiver.on_floor(floor, &mut self.out);
            }
            Frame::Probe => {}
            Frame::Bare(item) => self.out.push_back(item),
        }
    }

    /// Processes feedback on a path. Returns `false` if it is invalid.
    fn on_feedback(&mut self, now: Instant, path: PathId, feedback: &Feedback) -> bool {
        if !self.path(path).sent.is_valid(feedback) || feedback.floor > self.symbols.next_symbol() {
            return false;
        }
        let rule = self.repair_rule(now, path);
        let is_multipath = self.is_multipath();
        let Self { paths, symbols, couples, .. } = self;
        let state = &mut paths[path.index()];
        if state.sent.probes() > 0 {
            // Notices of a silent hop were lost.
            symbols.repeat_floor(now);
        }
        let latest = state.sent.on_feedback(now, feedback, &mut state.detector, rule.wait);
        if let Some(at) = latest.filter(|_| is_multipath) {
            state.on_delay(now, at, feedback.arrived);
            if let Some(raised) = state.control.has_raised() {
                let (delay, rate) = (feedback.arrived.wrapping_sub(micros(at)), state.control.rate());
                couples.on_arrival(now, path, couple::Arrival { sent: at, delay, rate, raised });
            }
        }
        let Path { sent, detector, budget, report_times, .. } = state;
        for packet in sent.newly_reported(feedback) {
            match sent.on_acked(now, packet) {
                Acked::Known => {}
                Acked::InTime(Arrival { symbol, took, behind }) => {
                    budget.on_acked(now);
                    detector.on_arrival(now, took, behind);
                    if is_multipath {
                        report_times.add(now, took, behind);
                    }
                    symbol.into_iter().for_each(|symbol| symbols.on_arrived(symbol));
                }
                Acked::AfterSilence(Arrival { symbol, .. }) => {
                    symbol.into_iter().for_each(|symbol| symbols.done(symbol))
                }
                Acked::Late(Arrival { symbol, took, .. }) => {
                    detector.on_spurious(now, took);
                    budget.on_spurious();
                    symbol.into_iter().for_each(|symbol| symbols.done(symbol));
                }
            }
        }
        sent.on_largest(feedback.largest);
        symbols.on_feedback(feedback);
        self.find_lost(now, path, &rule);
        self.symbols.settle(now);
        self.path_mut(path).sent.forget();
        true
    }

    /// Declares transmissions on a path lost, and plans the next round of repair of what they carried.
    fn find_lost(&mut self, now: Instant, path: PathId, rule: &RepairRule) {
        let is_multipath = self.is_multipath();
        let Self { paths, symbols, .. } = self;
        let Path { sent, detector, budget, .. } = &mut paths[path.index()];
        let mut search = sent.search(detector);
        let rule = if is_multipath {
            *rule
        } else {
            RepairRule { trip: detector.repair_trip(), patience: detector.patience(), ..*rule }
        };
        while let Some((packet, symbol)) = sent.next_lost(now, &mut search) {
            budget.on_lost(now, packet);
            if let Some(symbol) = symbol {
                symbols.on_lost(now, symbol, &rule, budget);
            }
        }
    }

    /// Evaluates feedback on a path's rate and congestion.
    fn judge(&mut self, now: Instant, path: PathId, marked: u32) {
        let is_multipath = self.is_multipath();
        let Self { paths, ingress, .. } = self;
        let Path { sent, control, detector, budget, header, .. } = &mut paths[path.index()];
        let (anchor, next, outage) = (sent.take_anchor(), sent.next().0, sent.take_outage());
        let frame = Duration::from_nanos(1500 * 8 * 1_000_000_000 / control.rate());
        let heard = Heard { now, anchor, outage, next, marked, frame, header: *header, is_multipath };
        let owed = control.on_feedback(&heard, detector, budget);
        ingress.tell_congestion(now, owed, detector.round_trip());
    }

    fn take(&mut self, now: Instant, symbol: Symbol, label: Label, item: I) -> Intake {
        let trip = self.longest_trip();
        if !self.repeats() && symbol.0 > self.receiver.near().0 {
            // Without reports of given-up symbols: symbols far back are not expected any more.
            let far = symbol.0.saturating_sub(4 * WINDOW as u64);
            self.receiver.on_floor(Symbol(far), &mut self.out);
        }
        let intake = self.receiver.on_symbol(now, symbol, label, item, trip, &mut self.out);
        if intake == Intake::Beyond {
            self.counters.refused += 1;
        }
        intake
    }

    fn take_restored(&mut self, now: Instant, restored: Vec<(Symbol, I::Coded)>) {
        for (symbol, coded) in restored {
            if self.receiver.has(symbol) {
                continue;
            }
            // A forged repair frame can restore something that is not a packet.
            match I::decode(&coded) {
                Some((item, label)) => {
                    if self.take(now, symbol, label, item) == Intake::New {
                        self.counters.restored += 1;
                    }
                }
                None => self.counters.refused += 1,
            }
        }
    }

    /// Handles timeouts.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receiver.handle_timeout(now, &mut self.out);
        for path in self.path_ids() {
            self.on_path_timeout(now, path);
        }
        if let Some((first, _)) = self.block.filter(|(_, until)| *until <= now) {
            self.close(now, PathId::FIRST, first);
        }
        if self.idle.is_some_and(|at| at <= now) {
            self.idle = None;
            self.repair_idle(now, PathId::FIRST);
        }
    }

    /// Handles timeouts of a path: transmissions that are declared lost by time, and silence.
    fn on_path_timeout(&mut self, now: Instant, path: PathId) {
        self.path_mut(path).budget.on_time(now);
        if self.path(path).sent.loss_due().is_some_and(|due| due <= now) {
            let rule = self.repair_rule(now, path);
            self.find_lost(now, path, &rule);
            self.symbols.advance(now);
            self.path_mut(path).sent.forget();
        }
        if self.is_multipath() {
            self.copy_overdue(now, path);
        }
        let state = self.path(path);
        if !self.is_multipath() && now < state.sent.earliest_silence(&state.detector) {
            return;
        }
        if self.silence_due(state).is_none_or(|due| due > now) {
            return;
        }
        if self.is_multipath() {
            return self.on_path_silent(now, path);
        }
        let state = self.path_mut(path);
        state.sent.on_silence(now);
        let trip = state.detector.round_trip();
        self.symbols.give_up_late(now, trip);
        let state = self.path_mut(path);
        state.sent.forget();
        let probes = state.sent.probes();
        if self.symbols.are_alive() {
            self.path_mut(path).control.on_probe(probes);
            self.probe(now, path);
        }
    }

    /// Returns the time of the next probe of a path, while packets are outstanding.
    pub(super) fn silence_due(&self, path: &Path) -> Option<Instant> {
        if self.is_multipath() {
            return path.sent.silent_from(&path.detector, self.longest_wait(path));
        }
        self.symbols.are_alive().then(|| path.sent.silence_due(&path.detector, self.longest_wait(path)))
    }

    /// Resends the last packet, or a combination of all unacknowledged ones, as a probe.
    fn probe(&mut self, now: Instant, path: PathId) {
        let Some(newest) = self.symbols.newest() else { return };
        let (first, end) = (self.symbols.floor(), Symbol(newest.0 + 1));
        let many = end.0 - first.0 <= WINDOW as u64 && first < newest;
        if self.codes() && !self.is_multipath() && many && self.path(path).control.may_code(now) {
            self.coded = Some(Due { first, end, sent: 0, count: 1, why: Why::Probe, yields: Yields::Never });
        } else {
            self.symbols.copies(now, newest, Why::Probe, 1, Duration::ZERO);
        }
    }
}
