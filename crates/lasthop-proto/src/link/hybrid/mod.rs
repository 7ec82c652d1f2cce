//! Two-ended repair of a lossy hop for all traffic: selective repeat driven by the sender, in-order delivery per flow,
//! and a sliding-window code where retransmissions are too late.
//!
//! [`Hop`] is one end, without I/O and without bytes: it converts packets to frames, and frames to packets. The
//! simulator's and the lab's node is [`node::TwoEnded`]. `docs/models/two-ended-link.md` explains the rules.

mod ahead;
mod budget;
mod cap;
mod classify;
mod code;
mod congestion;
mod control;
mod detect;
mod feedback;
mod flight;
mod frame;
mod header;
mod image;
mod ingress;
mod limits;
mod live;
pub mod node;
mod numbers;
mod pace;
mod rate;
mod receiver;
mod redundancy;
mod rounds;
mod sender;
mod settings;
mod status;
mod windows;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub use self::code::{Coded, Gf, UNKNOWN, WINDOW, coefficient};
pub use self::congestion::State;
pub use self::control::RateRule;
pub use self::frame::{Class, Feedback, Frame, Item, Label, TcpSight, Traffic, Why};
pub use self::header::Header;
pub use self::image::Carried;
pub use self::numbers::{PacketNumber, Symbol, Window, expand};
pub use self::sender::Fate;
pub use self::settings::{Counters, HopConfig, Medium, Repair, Reports, Share, Sizes};

use self::ahead::Ahead;
use self::budget::Budget;
use self::classify::Classifier;
use self::code::{Decoder, Encoder, Gain};
use self::control::Control;
use self::detect::Detector;
use self::feedback::Account;
use self::ingress::Ingress;
use self::pace::Press;
use self::receiver::{Intake, Receiver};
use self::redundancy::{BLOCK, BLOCK_WAIT, Due, IDLE, Yields};
use self::rounds::Heard;
use self::sender::{Sender, View};
pub use crate::packet::Image;
use crate::time::{Duration, Instant};

/// Length of feedback on the wire without the hop's header, in bytes.
pub const FEEDBACK_BYTES: u32 = 38;

/// Returns the report schedule of an end with that configuration.
const fn reports(config: &HopConfig) -> Reports {
    match config.repair {
        Repair::Airmail(reports) => reports,
        Repair::Repeat | Repair::Adaptive | Repair::Share(_) => match config.medium {
            Medium::Own => Reports::Prompt,
            Medium::Shared => Reports::OnEvent,
        },
    }
}

/// A frame that leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct Outgoing<I: Item> {
    /// Packet number of the frame.
    pub packet: PacketNumber,
    /// Contents of the frame.
    pub frame: Frame<I>,
    /// Reason why the frame is sent.
    pub why: Why,
    /// Length of the frame on the wire, in bytes.
    pub bytes: u32,
}

/// One end of a hop.
#[derive(Clone, Debug)]
pub struct Hop<I: Item> {
    config: HopConfig,
    ingress: Ingress<I>,
    classifier: Classifier,
    control: Control,
    detector: Detector,
    budget: Budget,
    sender: Sender<I>,
    receiver: Receiver<I>,
    account: Account,
    encoder: Encoder<I::Coded>,
    decoder: Decoder<I::Coded>,
    coded: Option<Due>,
    /// First symbol of the open block, and the time at which the block is closed ([`Repair::Share`]).
    block: Option<(Symbol, Instant)>,
    /// Coded frames among new packets ([`Repair::Adaptive`]).
    ahead: Ahead,
    /// Time at which repair is decided after the last packet was sent ([`Repair::Adaptive`]).
    idle: Option<Instant>,
    out: VecDeque<I>,
    counters: Counters,
    delivered: u32,
    useful: u32,
    marked: u32,
}

impl<I: Item> Hop<I> {
    /// Returns an end that has sent and received nothing.
    pub fn new(config: HopConfig) -> Self {
        let control = Control::new(config.rate);
        Self {
            ingress: Ingress::new(&config, control.rate()),
            classifier: Classifier::default(),
            control,
            detector: Detector::new(),
            budget: Budget::new(),
            sender: Sender::new(),
            receiver: Receiver::new(limits::third(config.memory) as usize),
            account: Account::new(reports(&config)),
            encoder: Encoder::new(),
            decoder: Decoder::new(),
            coded: None,
            block: None,
            ahead: Ahead::default(),
            idle: None,
            out: VecDeque::new(),
            counters: Counters::default(),
            delivered: 0,
            useful: 0,
            marked: 0,
            config,
        }
    }

    /// Returns the reference numbers for restoring the 32-bit numbers of arriving frames: packet numbers, and symbols
    /// of the other end.
    pub fn near(&self) -> (PacketNumber, Symbol) {
        (self.account.largest().unwrap_or_default(), self.receiver.near())
    }

    /// Returns the reference numbers for restoring the numbers in feedback: this end's own.
    pub fn near_own(&self) -> (PacketNumber, Symbol) {
        (self.sender.next_packet(), self.sender.next_symbol())
    }

    /// Accepts a packet to be sent over the hop.
    pub fn handle_item(&mut self, now: Instant, item: I) {
        self.ingress.push(now, item);
    }

    /// Returns the next packet that arrived over the hop, as it is passed on at `now`. Its window may be reduced to
    /// signal congestion to the source that it is for.
    pub fn poll_item(&mut self, now: Instant) -> Option<I> {
        let mut item = self.out.pop_front()?;
        self.ingress.on_arrived(now, &mut item);
        Some(item)
    }

    fn repeats(&self) -> bool {
        !matches!(self.config.repair, Repair::Share(_))
    }

    fn codes(&self) -> bool {
        !matches!(self.config.repair, Repair::Repeat)
    }

    const fn is_airmail(&self) -> bool {
        matches!(self.config.repair, Repair::Airmail(_))
    }

    /// Returns the maximum feedback delay of the other end; AIRMAIL's ends are assumed equal.
    fn longest_wait(&self) -> Duration {
        let class = self.sender.newest_class();
        Account::longest_wait(reports(&self.config), class, self.detector.round_trip(), self.control.rate())
    }

    /// Returns the maximum number of symbols in flight: the capacity of four round trips, the maximum time for which a
    /// symbol is repaired, and a margin.
    fn window(&self) -> u64 {
        let window = 4 * limits::frames_in_flight(self.control.rate(), self.detector.round_trip()) + 128;
        window.min(limits::third(self.config.memory))
    }

    /// Splits this end into its sender and the sender's view of the rest.
    fn split(&mut self, now: Instant) -> (&mut Sender<I>, View<'_>) {
        let frame = self.control.pacer.time_for(1500);
        let wait = self.longest_wait();
        let rounds = self.control.repeats(now);
        let most = if self.is_airmail() || rounds <= 1 { 1 } else { u8::MAX };
        let (total, rate) = (self.control.pacer.total(), self.control.rate());
        let code = self.plan_ahead(now).map_or(Duration::ZERO, |plan| frame.saturating_mul(plan.span));
        let (detector, budget) = (&mut self.detector, &mut self.budget);
        (&mut self.sender, View { detector, budget, frame, wait, most, rounds, total, rate, code })
    }

    /// Processes an arriving frame.
    pub fn handle_frame(&mut self, now: Instant, packet: PacketNumber, bytes: u32, frame: Frame<I>) {
        self.delivered = self.delivered.wrapping_add(bytes);
        let hole = self.account.on_packet(now, packet);
        self.account.count(now, bytes + u32::from(self.config.header));
        if frame.elicits() && self.repeats() {
            let (trip, rate) = (self.detector.round_trip(), self.control.feedback_rate(now, self.account.arrives()));
            let class = if let Frame::Data(_, label, _) = &frame { Some(label.class) } else { None };
            self.account.on_elicited(now, class, hole, trip, rate);
        }
        if let Frame::Data(_, _, item) | Frame::Bare(item) = &frame
            && item.is_marked()
        {
            self.marked = self.marked.wrapping_add(1);
        }
        match frame {
            Frame::Data(symbol, label, item) => {
                let coded = self.codes().then(|| item.encode(label));
                let intake = self.take(now, symbol, label, item);
                if let Some(coded) = coded.filter(|_| intake != Intake::Beyond) {
                    let mut restored = Vec::new();
                    self.decoder.on_symbol(symbol, coded, &mut restored);
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
                if self.decoder.on_repair(window, key, sum, &mut restored) == Gain::Rank {
                    self.useful = self.useful.wrapping_add(1);
                }
                self.take_restored(now, restored);
            }
            Frame::Feedback(feedback) => {
                let (sender, mut view) = self.split(now);
                if sender.on_feedback(now, &feedback, &mut view) {
                    self.judge(now, feedback.marked);
                } else {
                    self.counters.refused += 1;
                }
                self.budget.on_useful(feedback.useful);
            }
            Frame::Floor(floor) => {
                self.receiver.on_floor(floor, &mut self.out);
            }
            Frame::Probe => {}
            Frame::Bare(item) => self.out.push_back(item),
        }
    }

    /// Evaluates feedback on the hop's rate and congestion.
    fn judge(&mut self, now: Instant, marked: u32) {
        let (anchor, next) = (self.sender.take_anchor(), self.sender.next_packet().0);
        let outage = self.sender.take_outage();
        let frame = Duration::from_nanos(1500 * 8 * 1_000_000_000 / self.control.rate());
        let heard = Heard { now, anchor, outage, next, marked, frame, header: self.config.header };
        let owed = self.control.on_feedback(&heard, &mut self.detector, &mut self.budget);
        self.ingress.tell_congestion(now, owed, self.detector.round_trip());
    }

    fn take(&mut self, now: Instant, symbol: Symbol, label: Label, item: I) -> Intake {
        let trip = self.detector.round_trip();
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
        self.budget.on_time(now);
        let (sender, mut view) = self.split(now);
        if sender.handle_timeout(now, &mut view) {
            self.control.on_probe(self.sender.probes());
            self.probe(now);
        }
        if let Some((first, _)) = self.block.filter(|(_, until)| *until <= now) {
            self.close(now, first);
        }
        if self.idle.is_some_and(|at| at <= now) {
            self.idle = None;
            self.repair_idle(now);
        }
    }

    /// Resends the last packet, or a combination of all unacknowledged ones, as a probe.
    fn probe(&mut self, now: Instant) {
        let Some(newest) = self.sender.newest() else { return };
        let (first, end) = (self.sender.floor(), Symbol(newest.0 + 1));
        let many = end.0 - first.0 <= WINDOW as u64 && first < newest;
        if self.codes() && many && self.control.may_code(now) {
            self.coded = Some(Due { first, end, sent: 0, count: 1, why: Why::Probe, yields: Yields::Never });
        } else {
            self.sender.copies(now, newest, Why::Probe, 1, Duration::ZERO);
        }
    }

    /// Returns the next frame to send.
    pub fn poll_frame(&mut self, now: Instant) -> Option<Outgoing<I>> {
        if self.account.due().is_some_and(|due| due <= now) {
            return self.feedback(now);
        }
        if self.control.pacer.next() > now {
            self.control.on_pause(self.press());
            return None;
        }
        if self.sender.floor_due().is_some_and(|due| due <= now) {
            let floor = self.sender.floor();
            self.sender.on_floor_sent(now, self.detector.round_trip());
            return Some(self.send(now, Frame::Floor(floor), None, Why::Control, 0));
        }
        let (sender, mut view) = self.split(now);
        if let Some((packet, load)) = sender.pop_again(now, &mut view) {
            match load.why {
                Why::Redundancy => self.counters.redundant += 1,
                _ => self.counters.resent += 1,
            }
            let bytes = load.item.bytes() + u32::from(self.config.header);
            if load.item.is_marked() {
                self.control.on_marked_sent();
            }
            if load.why == Why::Redundancy {
                self.budget.spend(now, self.control.pacer.time_for(bytes));
            }
            self.control.pacer.on_sent(now, bytes);
            return Some(Outgoing {
                packet,
                frame: Frame::Data(load.symbol, load.label, load.item),
                why: load.why,
                bytes,
            });
        }
        if let Some(outgoing) = self.send_coded(now) {
            return Some(outgoing);
        }
        let outgoing = self.send_new(now);
        if outgoing.is_none() {
            self.control.on_pause(Press::Nothing);
        }
        outgoing
    }

    /// Returns whether frames are waiting to leave when the pace allows the next one.
    fn press(&self) -> Press {
        let pace = self.control.pacer.next();
        let due = [self.sender.floor_due(), self.sender.next_again()].into_iter().flatten().any(|at| at <= pace);
        let new = self.ingress.waiting() > 0 && self.sender.may_send(self.window());
        if due || new || self.coded.is_some() { Press::Frames } else { Press::Nothing }
    }

    fn feedback(&mut self, now: Instant) -> Option<Outgoing<I>> {
        let (trip, rate) = (self.detector.round_trip(), self.control.feedback_rate(now, self.account.arrives()));
        let mut feedback = self.account.take(now, trip, rate)?;
        (feedback.floor, feedback.beyond) = self.receiver.state();
        (feedback.delivered, feedback.useful, feedback.marked) = (self.delivered, self.useful, self.marked);
        self.counters.feedback += 1;
        Some(self.send(now, Frame::Feedback(feedback), None, Why::Control, FEEDBACK_BYTES))
    }

    /// Sends a frame of `bytes` bytes besides the header.
    fn send(&mut self, now: Instant, frame: Frame<I>, symbol: Option<Symbol>, why: Why, bytes: u32) -> Outgoing<I> {
        let bytes = bytes + u32::from(self.config.header);
        let (elicits, repeats) = (frame.elicits(), self.repeats());
        let (sender, mut view) = self.split(now);
        let packet = sender.record(now, symbol, elicits && repeats, &mut view);
        self.control.pacer.on_sent(now, bytes);
        Outgoing { packet, frame, why, bytes }
    }

    fn send_new(&mut self, now: Instant) -> Option<Outgoing<I>> {
        if !self.sender.may_send(self.window()) {
            return None;
        }
        if self.repeats() {
            self.ingress.tune(self.detector.shortest(), self.control.rate());
        }
        let item = self.ingress.pop(now)?;
        if item.is_marked() {
            self.control.on_marked_sent();
        }
        self.budget.on_time(now);
        if item.traffic() == Traffic::Bare {
            let bytes = item.bytes();
            return Some(self.send(now, Frame::Bare(item), None, Why::First, bytes));
        }
        let (flow, symbol) = (item.flow(), self.sender.next_symbol());
        let class = self.classifier.classify(now, flow, item.traffic(), item.bytes(), self.control.rate());
        let mut label = Label { class, chain: 0 };
        if self.repeats()
            && class == Class::Ordered
            && let Some(before) = self.classifier.chain(now, flow, symbol)
        {
            // A predecessor further back is not waited for.
            label.chain = u8::try_from(symbol.0 - before.0).unwrap_or(0);
        }
        let bytes = item.bytes() + u32::from(self.config.header);
        if self.codes() {
            self.encoder.push(item.encode(label), item.bytes());
        }
        let repeats = self.repeats();
        let (sender, mut view) = self.split(now);
        let packet =
            if repeats { sender.push(now, item.clone(), label, &mut view) } else { sender.pass(now, &mut view) };
        self.control.pacer.on_sent(now, bytes);
        match self.config.repair {
            Repair::Repeat => {}
            Repair::Share(share) => {
                self.add_to_block(now, symbol, share.data.clamp(1, WINDOW as u8).into(), share.wait);
            }
            Repair::Airmail(_) => self.add_to_block(now, symbol, BLOCK, BLOCK_WAIT),
            Repair::Adaptive => {
                self.idle = (self.ingress.waiting() == 0 && self.may_add(now)).then_some(now + IDLE);
                if class == Class::RealTime {
                    self.copy_ahead(now, flow, symbol, bytes);
                }
                self.code_ahead(now);
            }
        }
        Some(Outgoing { packet, frame: Frame::Data(symbol, label, item), why: Why::First, bytes })
    }

    /// Returns the time at which to call [`Hop::handle_timeout`], or [`Hop::poll_frame`] again.
    pub fn poll_deadline(&self) -> Option<Instant> {
        let wait = self.longest_wait();
        let pace = self.control.pacer.next();
        let wants = |at: Instant| at.max(pace);
        let new = self.ingress.waiting() > 0 && self.sender.may_send(self.window());
        [
            self.account.due(),
            self.receiver.poll_deadline(),
            self.sender.poll_deadline(&self.detector, wait),
            self.sender.floor_due().map(wants),
            self.sender.next_again().map(wants),
            self.coded.map(|_| pace),
            new.then_some(pace),
            self.block.map(|(_, until)| until),
            self.idle,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
