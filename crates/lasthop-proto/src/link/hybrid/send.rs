//! Choice of the next frame.

use super::code::WINDOW;
use super::frame::{Class, Frame, Item, Label, Traffic, Why};
use super::numbers::{PacketNumber, PathId, Symbol};
use super::pace::Press;
use super::path::{Path, micros};
use super::redundancy::{BLOCK, BLOCK_WAIT, IDLE};
use super::settings::Repair;
use super::symbols::{Load, Rank};
use super::{FEEDBACK_BYTES, Hop, LEAST_WINDOW, MULTIPATH_BYTES, Outgoing};
use crate::tcp::config::Switch;
use crate::time::Instant;

impl<I: Item> Hop<I> {
    /// Returns the next frame to send.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Outgoing<I>> {
        self.polled = now;
        if self.is_multipath() { self.poll_among(now) } else { self.poll_path(now, PathId::FIRST) }
    }

    /// Returns the next frame to send on one of several paths. Apart from [`Self::poll_frame`], since the compiler would
    /// move what does not depend on the path in front of the loop, and compute it for a single path as well.
    #[inline(never)]
    fn poll_among(&mut self, now: Instant) -> Option<Outgoing<I>> {
        for path in self.path_ids() {
            let outgoing = self.poll_path(now, path);
            if outgoing.is_some() {
                return outgoing;
            }
        }
        self.watch_overflow(now);
        None
    }

    /// Returns the next frame to send on a path.
    fn poll_path(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if self.path(path).account.due().is_some_and(|due| due <= now) {
            return self.feedback(now, path);
        }
        if self.path(path).control.pacer.next() > now {
            let press = self.press(path);
            self.path_mut(path).control.on_pause(press);
            return None;
        }
        self.poll_due(now, path)
    }

    /// Returns the next frame to send on a path whose pace allows it. Apart from [`Self::poll_path`], which finds nothing
    /// to send in half of the calls: they need no space for a frame on the stack.
    #[inline(never)]
    fn poll_due(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if self.path(path).must_probe() || self.wants_probe(now, path) {
            self.path_mut(path).probe = false;
            return Some(self.send(now, path, Frame::Probe, None, Why::Probe, 0));
        }
        if self.symbols.floor_due().is_some_and(|due| due <= now) && (!self.is_multipath() || self.is_usable(path)) {
            let (floor, trip) = (self.symbols.floor(), self.path(path).detector.round_trip());
            self.symbols.on_floor_sent(now, trip);
            return Some(self.send(now, path, Frame::Floor(floor), None, Why::Control, 0));
        }
        // A frame is large. It is returned at once, because each step on the way would copy it.
        let again = self.send_again(now, path);
        if again.is_some() {
            return again;
        }
        let coded = if self.is_multipath() { self.send_coded_among(now, path) } else { self.send_coded(now, path) };
        if coded.is_some() {
            return coded;
        }
        self.send_next(now, path)
    }

    /// Sends a packet on a path for the first time.
    fn send_next(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        let outgoing = if self.is_multipath() { self.send_staged(now, path) } else { self.send_new(now, path) };
        if outgoing.is_none() {
            self.path_mut(path).control.on_pause(Press::Nothing);
        }
        outgoing
    }

    /// Returns whether frames are waiting to leave when the pace of a path allows the next one.
    fn press(&self, path: PathId) -> Press {
        let pace = self.path(path).control.pacer.next();
        if self.planned() <= pace || self.has_new() || self.coded.is_some() || self.coded_on.is_some() {
            Press::Frames
        } else {
            Press::Nothing
        }
    }

    /// Returns whether packets wait that have not been sent.
    pub(super) fn has_new(&self) -> bool {
        let staged = self.symbols.staged(Rank::Light) + self.symbols.staged(Rank::Bulk) + self.bare.len();
        staged > 0 || self.ingress.waiting() > 0 && self.may_send()
    }

    /// Returns whether another symbol may be sent.
    fn may_send(&self) -> bool {
        // The window is computed only if it matters.
        self.symbols.may_send(LEAST_WINDOW) || self.symbols.may_send(self.window())
    }

    /// Sends the next planned transmission of a packet.
    fn send_again(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if self.symbols.next_again().is_none_or(|at| at > now) {
            return None;
        }
        let trip = self.longest_trip();
        let load = if self.is_multipath() {
            let targets = self.targets(now);
            self.symbols.pop_again(now, trip, |again| targets.of(again) == Some(path))?
        } else {
            self.symbols.pop_again(now, trip, |_| true)?
        };
        match load.why {
            Why::Redundancy => self.counters.redundant += 1,
            _ => self.counters.resent += 1,
        }
        Some(self.send_load(now, path, load))
    }

    /// Sends a packet with a symbol.
    pub(super) fn send_load(&mut self, now: Instant, path: PathId, load: Load<I>) -> Outgoing<I> {
        let bytes = load.item.bytes() + u32::from(self.path(path).header);
        let packet = self.record(now, path, Some(load.symbol), Switch::On);
        let state = self.path_mut(path);
        if load.item.is_marked() {
            state.control.on_marked_sent();
        }
        if load.why == Why::Redundancy {
            state.budget.spend(now, state.control.pacer.time_for(bytes));
        }
        state.control.pacer.on_sent(now, bytes);
        let frame = Frame::Data(load.symbol, load.label, load.item);
        Outgoing { path, packet, frame, why: load.why, bytes }
    }

    /// Records a transmission on a path, which the other end acknowledges if `elicits` is on.
    fn record(&mut self, now: Instant, path: PathId, symbol: Option<Symbol>, elicits: Switch) -> PacketNumber {
        let state = self.path_mut(path);
        let (packet, lost) = state.sent.record(now, symbol, elicits.is_on(), state.control.pacer.total());
        if let Some(symbol) = lost {
            let rule = self.repair_rule(now, path);
            let Self { paths, symbols, .. } = self;
            symbols.on_lost(now, symbol, &rule, &paths[path.index()].budget);
        }
        packet
    }

    #[inline(never)]
    fn feedback(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        let is_multipath = self.is_multipath();
        let via = if is_multipath { self.feedback_path(now, path) } else { path };
        let state = self.path_mut(path);
        let (trip, rate) = (state.detector.round_trip(), state.feedback_rate(now));
        let mut feedback = state.account.take(now, trip, rate)?;
        feedback.path = path;
        (feedback.delivered, feedback.useful, feedback.marked) = (state.delivered, state.useful, state.marked);
        let mut bytes = FEEDBACK_BYTES;
        if is_multipath {
            feedback.arrived = micros(state.account.at());
            let far = if state.was_far { None } else { state.history.poll_report(feedback.largest.0) };
            state.was_far = far.is_some();
            if let Some((back, received)) = far {
                (feedback.back, feedback.received) = (back, received);
            }
            if state.history.is_due(feedback.largest.0) {
                state.account.go_on(now, trip, rate);
            }
            bytes += MULTIPATH_BYTES;
        }
        (feedback.floor, feedback.beyond) = self.receiver.state();
        self.counters.feedback += 1;
        Some(self.send(now, via, Frame::Feedback(feedback), None, Why::Control, bytes))
    }

    /// Sends a frame of `bytes` bytes besides the header.
    pub(super) fn send(
        &mut self,
        now: Instant,
        path: PathId,
        frame: Frame<I>,
        symbol: Option<Symbol>,
        why: Why,
        bytes: u32,
    ) -> Outgoing<I> {
        let bytes = bytes + u32::from(self.path(path).header);
        let elicits = if frame.elicits() && self.repeats() { Switch::On } else { Switch::Off };
        let packet = self.record(now, path, symbol, elicits);
        let is_multipath = self.is_multipath();
        let state = self.path_mut(path);
        if is_multipath && state.control.finds() && matches!(frame, Frame::Feedback(_)) {
            // Feedback has a share of a rate that may be higher than the estimated one. At the estimated rate, it would use
            // up the turns of a path that carries little else.
            let rate = state.feedback_rate(now);
            state.control.pacer.on_sent_at(now, bytes, rate);
        } else {
            state.control.pacer.on_sent(now, bytes);
        }
        Outgoing { path, packet, frame, why, bytes }
    }

    fn send_new(&mut self, now: Instant, path: PathId) -> Option<Outgoing<I>> {
        if !self.may_send() {
            return None;
        }
        if self.repeats() {
            let Self { ingress, paths, .. } = self;
            let Path { detector, control, .. } = &paths[path.index()];
            ingress.tune(detector.stall(), control.rate());
        }
        let item = self.ingress.pop(now)?;
        let repeats = self.repeats();
        let state = self.path_mut(path);
        if item.is_marked() {
            state.control.on_marked_sent();
        }
        state.budget.on_time(now);
        let (rate, header) = (state.control.rate(), state.header);
        if item.traffic() == Traffic::Bare {
            let bytes = item.bytes();
            return Some(self.send(now, path, Frame::Bare(item), None, Why::First, bytes));
        }
        let (flow, symbol) = (item.flow(), self.symbols.next_symbol());
        let class = self.classifier.classify(now, flow, item.traffic(), item.bytes(), rate);
        let label = self.label(now, flow, symbol, class);
        let bytes = item.bytes() + u32::from(header);
        if self.codes() {
            self.encoder.push(item.encode(label), item.bytes());
        }
        let packet = if repeats {
            self.symbols.push(now, item.clone(), label);
            self.record(now, path, Some(symbol), Switch::On)
        } else {
            self.symbols.pass();
            self.record(now, path, None, Switch::Off)
        };
        self.path_mut(path).control.pacer.on_sent(now, bytes);
        match self.config.repair {
            Repair::Repeat => {}
            Repair::Share(share) => {
                self.add_to_block(now, path, symbol, share.data.clamp(1, WINDOW as u8).into(), share.wait);
            }
            Repair::Airmail(_) => self.add_to_block(now, path, symbol, BLOCK, BLOCK_WAIT),
            Repair::Adaptive => {
                self.idle = (self.ingress.waiting() == 0 && self.may_add(now, path)).then_some(now + IDLE);
                if class == Class::RealTime {
                    self.copy_ahead(now, path, flow, symbol, bytes);
                }
                self.code_ahead(now, path);
            }
        }
        Some(Outgoing { path, packet, frame: Frame::Data(symbol, label, item), why: Why::First, bytes })
    }

    /// Returns the label of a new packet.
    pub(super) fn label(&mut self, now: Instant, flow: u32, symbol: Symbol, class: Class) -> Label {
        let before =
            if self.repeats() && class == Class::Ordered { self.classifier.chain(now, flow, symbol) } else { None };
        // A predecessor further back is not waited for.
        let chain = before.and_then(|before| u8::try_from(symbol.0 - before.0).ok()).unwrap_or(0);
        Label { class, chain }
    }

    /// Returns the time at which to call [`Hop::handle_timeout`], or [`Hop::poll_frame`] again.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let first = or_never(self.receiver.poll_deadline())
            .min(self.block.map_or(NEVER, |(_, until)| until))
            .min(or_never(self.idle));
        let of_paths =
            if self.is_multipath() { self.deadline_among() } else { self.path_deadline(self.path(PathId::FIRST)) };
        let first = first.min(of_paths);
        (first < NEVER).then_some(first)
    }

    /// Returns the time of the next frame or timeout of several paths.
    #[inline(never)]
    fn deadline_among(&self) -> Instant {
        self.path_ids().filter_map(|path| self.deadline_of_many(path)).min().unwrap_or(NEVER)
    }

    /// Returns the time of the next frame or timeout of one of several paths. A path that had nothing to send at the
    /// last poll waits for an event.
    fn deadline_of_many(&self, path: PathId) -> Option<Instant> {
        let state = self.path(path);
        let pace = state.control.pacer.next();
        let wants = |at: Instant| Some(at.max(pace)).filter(|at| *at > self.polled);
        [
            state.account.due(),
            state.sent.loss_due(),
            state.sent.overdue_at(self.overdue_age(state)),
            self.silence_due(state),
            self.probe_due(path).map(|at| at.max(pace)),
            state.must_probe().then_some(pace),
            self.symbols.floor_due().and_then(wants),
            self.symbols.next_again().and_then(wants),
            if self.has_new() || self.coded_on == Some(path) { wants(pace) } else { None },
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the time of a path's next frame or timeout.
    fn path_deadline(&self, path: &Path) -> Instant {
        let pace = path.control.pacer.next();
        let frame = if self.coded.is_some() || self.has_new() { pace } else { self.planned().max(pace) };
        let due = frame.min(or_never(path.account.due())).min(or_never(path.sent.loss_due()));
        // The time of a probe, which is rarely the first, takes several divisions.
        if due <= path.sent.earliest_silence(&path.detector) {
            return due;
        }
        due.min(or_never(self.silence_due(path)))
    }

    /// Returns the time at which the next notice or planned transmission is due.
    fn planned(&self) -> Instant {
        or_never(self.symbols.floor_due()).min(or_never(self.symbols.next_again()))
    }
}

/// Time that is not reached: its comparison with other times takes fewer steps than that of an `Option`.
const NEVER: Instant = Instant::FAR_FUTURE;

fn or_never(at: Option<Instant>) -> Instant {
    at.unwrap_or(NEVER)
}
