//! One connection at the base station: what is cached, which of it the wireless hop lost, and when to resend it.

mod copies;
mod data;
mod hop;
mod link_rtt;
mod masks;
mod timestamps;

use alloc::collections::VecDeque;

use super::cache::{Cache, Cached, Origin};
use super::snoop_config::SnoopConfig;
use crate::event::Event;
use crate::node::Port;
use crate::packet::{Body, Cause, Flags, FlowId, Packet, Priority, SackBlocks, Segment, Side};
use crate::scheme::{LocalDetection, TcpAwareness};
use crate::seq::Seq;
use crate::time::Instant;
use copies::Copies;
pub(super) use data::{DataVerdict, Place};
use hop::Hop;
pub(super) use hop::Passage;
use link_rtt::{FLOOR, LinkRtt};
use masks::{Masks, hide_blocks};
use timestamps::Newest;

/// Farther than this from the last acknowledgment, in bytes, nothing belongs to the same window (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;

/// Old acknowledgments in a row after which the state, not the mobile host, is taken to be wrong.
const MAX_STALE: u32 = 16;

/// Timeouts of one packet that do not double the next: four tries at 200 ms are over before a sender whose smallest timeout
/// is 1 s gives up waiting, and on a lossy hop a lost retransmission is likelier than a round trip that has doubled.
const STEADY_TRIES: u32 = 3;

/// Most doublings of the local timeout.
const MAX_DOUBLINGS: u32 = 6;

/// What leaves the node.
#[derive(Clone, Debug)]
pub(super) struct Outbox<P> {
    pub packets: VecDeque<(Port, Packet<P>)>,
    pub events: VecDeque<(FlowId, Event)>,
    /// The priority of local retransmissions.
    pub repairs: Priority,
}

/// What to do with a packet from the mobile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckVerdict {
    /// Forward it.
    Forward,
    /// Keep it from the sender.
    Hold,
    /// Forward it and drop the state: all is acknowledged up to the FIN, or the state does not fit this connection.
    Forget,
}

/// The state of one connection's data towards the mobile host.
#[derive(Clone, Debug)]
pub(super) struct Repair<P> {
    /// The side that the data comes from.
    pub side: Side,
    pub cache: Cache<P>,
    /// For which time this connection is in the queue of timers.
    pub queued: Option<Instant>,
    /// Where the data seen begins.
    start: Seq,
    /// Last acknowledgment.
    last_ack: Option<Seq>,
    /// One past the highest byte seen.
    high: Seq,
    fin: Option<Seq>,
    /// The window field of the last acknowledgment.
    window: u16,
    /// The last pure acknowledgment that said something new, to answer the sender with.
    answer: Option<Packet<P>>,
    stale: u32,
    rtt: LinkRtt,
    /// When the cumulative acknowledgment last moved.
    progress: Instant,
    /// Doublings of the timeout, until the next round-trip sample.
    doublings: u32,
    /// What had been sent when the timer last expired: below this each packet's timer runs from its own sending.
    recover: Seq,
    /// Packets known to have arrived above the hole at `last_ack`: one for each duplicate acknowledgment.
    above: u32,
    /// Duplicate acknowledgments that packets sent before the last local retransmission may still cause.
    expected: u32,
    /// Duplicate acknowledgments that needless copies may still cause, and the acknowledgment that ends the doubt.
    echoes: (u32, Seq),
    /// The highest packet that the mobile host named.
    highest_marked: Option<Seq>,
    /// Holes below this were resent at least once.
    scanned_to: Seq,
    /// Before this no hole below `scanned_to` may be resent again.
    recheck: Instant,
    /// The SACK blocks taken in last.
    blocks: SackBlocks,
    masks: Masks,
    newest: Newest,
    copies: Copies,
    /// Flow control on the hop, if there is any.
    hop: Option<Hop>,
}

impl<P: Clone> Repair<P> {
    /// A connection whose first segment from the wired side lies at `start`.
    pub fn new(now: Instant, config: &SnoopConfig, side: Side, start: Seq) -> Self {
        Self {
            side,
            cache: Cache::new(),
            queued: None,
            start,
            last_ack: None,
            high: start,
            fin: None,
            window: 0,
            answer: None,
            stale: 0,
            rtt: LinkRtt::default(),
            progress: now,
            doublings: 0,
            recover: start,
            above: 0,
            expected: 0,
            echoes: (0, start),
            highest_marked: None,
            scanned_to: start,
            recheck: Instant::FAR_FUTURE,
            blocks: SackBlocks::default(),
            masks: Masks::Unseen,
            newest: Newest::default(),
            copies: Copies::default(),
            hop: config.hop_control().map(|control| Hop::new(control, start)),
        }
    }

    /// `copies` needless ones are on their way.
    fn expect_echoes(&mut self, copies: u32) {
        if copies > 0 {
            self.echoes = (self.echoes.0.saturating_add(copies), self.high);
        }
    }

    /// An acknowledgment from the mobile host.
    pub fn on_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &mut Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        let ack = segment.ack;
        // For data that never came by: forged, or this state is not this connection's. Either way it is of no use.
        if !self.is_near(ack) || ack.gt(self.high) {
            return AckVerdict::Forget;
        }
        let pure = packet.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        if let Some(last_ack) = self.last_ack
            && ack.lt(last_ack)
        {
            return self.on_old_ack(config, packet.flow, pure, last_ack, out);
        }
        self.stale = 0;
        if !segment.flags.has(Flags::SYN) {
            self.draw_in(packet);
        }
        let advanced = self.last_ack != Some(ack);
        // RFC 5681 §2. A closed window is answered to probes; nothing is lost then.
        let repeats = !advanced && pure && segment.window == self.window && self.window != 0;
        let duplicate = repeats && self.high.gt(ack);
        self.window = segment.window;
        if !duplicate && config.awareness == TcpAwareness::Aware {
            // Behind data of the mobile host an older acknowledgment would pass for a replay.
            self.answer = pure.then(|| packet.clone());
        }
        if advanced {
            self.advance(now, ack, out);
            if self.fin.is_some_and(|fin| ack.ge(fin)) {
                return AckVerdict::Forget;
            }
        }
        let smart = config.detection == LocalDetection::Smart;
        let masked = smart && self.take_masks(now, ack, segment);
        if self.highest_marked.is_some() {
            self.resend_holes(now, config, out);
        }
        if repeats && smart && !masked && config.awareness == TcpAwareness::Aware && self.copies.explain(segment) {
            out.events.push_back((packet.flow, Event::DupAckSuppressed { ack }));
            return AckVerdict::Hold;
        }
        if duplicate {
            let repaired = if masked || (self.masks == Masks::Seen && smart) {
                self.repairs_all(config, ack)
            } else {
                self.on_duplicate(now, config, ack, out)
            };
            if repaired && config.awareness == TcpAwareness::Aware {
                out.events.push_back((packet.flow, Event::DupAckSuppressed { ack }));
                return AckVerdict::Hold;
            }
            // With an older timestamp than the sender has seen by now, the answer would pass for a replay.
            if let Some(Body::Tcp(answer)) = self.answer.as_mut().map(|answer| &mut answer.body) {
                answer.options.timestamps = segment.options.timestamps;
            }
        } else if masked && pure && config.awareness == TcpAwareness::Aware && self.repairs_all(config, ack) {
            hide_blocks(packet);
        }
        AckVerdict::Forward
    }

    fn on_old_ack(
        &mut self,
        config: &SnoopConfig,
        flow: FlowId,
        pure: bool,
        last_ack: Seq,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        if !pure || config.awareness == TcpAwareness::Unaware {
            return AckVerdict::Forward;
        }
        self.stale += 1;
        if self.stale >= MAX_STALE {
            return AckVerdict::Forget;
        }
        out.events.push_back((flow, Event::Absorbed { seq: last_ack }));
        AckVerdict::Hold
    }

    /// The cumulative acknowledgment moves to `ack`.
    fn advance(&mut self, now: Instant, ack: Seq, out: &mut Outbox<P>) {
        // A single duplicate may itself have been an echo. If it was, so is the next one, and so on: each needless copy
        // would beget another.
        let doubtful = self.above == 1 && self.cache.front().is_some_and(|front| front.local > 0);
        if self.timed_out_early(now) {
            self.recover = ack;
        }
        let purged = self.cache.purge(ack);
        self.last_ack = Some(ack);
        self.progress = now;
        if let Some(hop) = &mut self.hop {
            hop.landed(purged.landed);
            // The hop is up again. Until a round trip can be measured all that it lost while it was down is repaired, and
            // some of the repairs may be lost.
            self.doublings = 0;
        }
        if let Some(sent) = purged.sample {
            self.rtt.sample(now.since(sent));
            self.doublings = 0;
            if let Some(hop) = &mut self.hop
                && purged.landed > 0
            {
                hop.sample(now, sent, ack, self.high);
            }
        }
        if self.echoes.1.lt(ack) {
            self.echoes = (0, ack);
        }
        self.expect_echoes(purged.unproven.saturating_add(u32::from(doubtful)));
        if self.highest_marked.is_some_and(|highest| highest.lt(ack)) {
            self.highest_marked = None;
        }
        self.scanned_to = self.scanned_to.max(ack);
        // All that was purged beyond the hole itself had arrived. What arrived besides lies above the next hole, so
        // that the next hole belongs to the same burst ([a]); without this, packets still queued would pass for lost.
        self.above = self.above.saturating_sub(purged.packets.saturating_sub(1));
        self.expected = 0;
        let burst = self.above > 0 && purged.packets > 0 && self.masks == Masks::Unseen;
        match self.cache.front() {
            Some(front) if burst && front.covers(ack) && !front.sent_again() => {
                self.resend(now, 0, Cause::LocalDuplicate, out);
                self.expect_duplicates();
            }
            _ => self.above = 0,
        }
    }

    /// A duplicate acknowledgment without a mask: whether the loss behind it is being repaired here.
    fn on_duplicate(&mut self, now: Instant, config: &SnoopConfig, ack: Seq, out: &mut Outbox<P>) -> bool {
        let Some(front) = self.cache.front() else { return false };
        if !front.covers(ack) || front.origin == Origin::Resent || given_up(front, config) {
            return false;
        }
        if self.echoes.0 > 0 {
            self.echoes.0 -= 1;
            return true;
        }
        self.above = self.above.saturating_add(1);
        if front.local == 0 {
            if self.above < config.dupack_threshold {
                return false;
            }
            self.resend(now, 0, Cause::LocalDuplicate, out);
            self.expect_duplicates();
            return true;
        }
        // The hop keeps the order, so that a duplicate beyond those that earlier packets can cause comes from a packet
        // behind the retransmission, which is lost then. So it is when duplicates still come a whole round trip later.
        let age = now.since(front.last_sent);
        if age >= self.rtt.round_trip(config) || (self.expected == 0 && age >= FLOOR) {
            self.resend(now, 0, Cause::LocalDuplicate, out);
            self.expect_duplicates();
        } else {
            self.expected = self.expected.saturating_sub(1);
        }
        true
    }

    fn expect_duplicates(&mut self) {
        self.expected = (self.cache.len() as u32).saturating_sub(1).saturating_sub(self.above);
    }

    /// When the oldest packet is to be resent.
    pub fn deadline(&self, config: &SnoopConfig) -> Option<Instant> {
        let front = self.cache.front()?;
        if self.last_ack.is_none() || self.window_closed() || front.by_timer >= config.max_local_retries {
            return None;
        }
        // Progress shows that the hop works through its queue, so that the timer starts again; but not for what was sent
        // before a timeout, or a burst without later packets would cost a timeout for each packet.
        let queued = front.seq.ge(self.recover) && self.progress > front.last_sent;
        let since = if queued { self.progress } else { front.last_sent };
        let timeout = self.rtt.timeout(config).saturating_mul(1 << self.doublings);
        Some(since + timeout.min(config.timer_max.max(FLOOR))).filter(|&at| at != Instant::FAR_FUTURE)
    }

    /// The local timer expired.
    pub fn on_timer(&mut self, now: Instant, out: &mut Outbox<P>) {
        if let Some(front) = self.cache.get_mut(0) {
            front.by_timer = front.by_timer.saturating_add(1);
            if front.by_timer > STEADY_TRIES {
                self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            }
            if front.seq.ge(self.recover) {
                self.recover = self.high;
            }
            self.resend(now, 0, Cause::LocalTimer, out);
            self.expect_duplicates();
        }
    }

    fn resend(&mut self, now: Instant, index: usize, cause: Cause, out: &mut Outbox<P>) {
        if let Some(cached) = self.cache.get_mut(index) {
            let proven = cause != Cause::LocalTimer && !cached.sent_again();
            cached.unproven = cached.unproven.saturating_add(u32::from(!proven));
            cached.local = cached.local.saturating_add(1);
            cached.last_sent = now;
            self.copies.by_base_station(cached.seq);
            // The copy before is not on the hop any more, so that only one counts.
            let packet = Packet { priority: out.repairs, cause, ..self.newest.copy_of(&cached.packet) };
            out.packets.push_back((Port::WIRELESS, packet));
        }
    }

    /// Whether the mobile host takes nothing: what is cached beyond its acknowledgment is at most a probe.
    fn window_closed(&self) -> bool {
        self.last_ack.is_some() && self.window == 0
    }

    fn is_near(&self, seq: Seq) -> bool {
        let anchor = self.last_ack.unwrap_or(self.start);
        seq.since(anchor) <= MAX_WINDOW && anchor.since(seq) < MAX_WINDOW
    }
}

/// Whether the timer resent a packet in vain so often that it is left to the sender.
fn given_up<P>(front: &Cached<P>, config: &SnoopConfig) -> bool {
    front.by_timer > 0 && front.by_timer >= config.max_local_retries
}
