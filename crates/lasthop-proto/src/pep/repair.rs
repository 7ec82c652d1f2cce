//! One connection at the base station: what is cached, which of it the wireless hop lost, and when to resend it.

mod copies;
mod data;
mod hop;
mod insistence;
mod link_rtt;
mod masks;
mod news;
mod order;
mod reordering;
mod signals;
mod silence;
mod sizes;
mod timers;
mod timestamps;

use alloc::collections::VecDeque;

use super::cache::{Cache, Cached, Origin, Pace, Places};
use super::flow_table::Owner;
use super::snoop::Heard;
use super::snoop_config::{Begin, SnoopConfig};
use super::tracking::Tracking;
use crate::event::Event;
use crate::node::{Port, Trigger, Why};
use crate::packet::{Body, Cause, Flags, FlowId, Packet, Payload, Priority, SackBlocks, Segment, Side};
use crate::scheme::{LocalDetection, TcpAwareness};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};
use copies::Copies;
pub(super) use data::{DataVerdict, Place};
use hop::Hop;
pub(super) use hop::Passage;
use insistence::Insistence;
use link_rtt::{FLOOR, LinkRtt};
use masks::{Lost, Masks, hide_blocks};
pub(super) use news::News;
use order::Order;
use reordering::Reordering;
use signals::Signals;
pub(super) use sizes::Sizes;
use timestamps::copy_of;

/// Old acknowledgments in a row after which the state, not the mobile host, is taken to be wrong.
const MAX_STALE: u32 = 16;

/// Timeouts of one packet that do not double the next: four tries at 200 ms are over before a sender whose smallest timeout
/// is 1 s gives up waiting, and on a lossy hop a lost retransmission is likelier than a round trip that has doubled.
const STEADY_TRIES: u32 = 3;

/// Repairs with one acknowledgment: so many, enough for most bursts, and one for each packet that has arrived, up to so many more. The
/// rest go as fast as packets leave the hop: no acknowledgment asks for all of a window.
const LEAST_REPAIRS: u32 = 4;
const MOST_REPAIRS: u32 = 16;

/// How many of these go while the acknowledgment is handled. The others go at once as well, but as timers do, so that no packet waits for all of them.
const REPAIRS_AT_A_TIME: u32 = 2;

/// Repairs that go at once when it is time for spaced ones.
const SPACED: u32 = 2;

/// Packets of new data that go in a silence, whether there is room for them on the hop or not: so many, or a window of them.
const MOST_PROBES: u32 = 8;

/// For so long after the last arrival the base station speaks for the mobile host.
const CERTAIN: Duration = Duration::from_secs(1);

/// For so long after a silence a connection is repaired whose losses are its sender's otherwise ([`Begin::AfterSilence`]).
const AWAKE: Duration = Duration::from_secs(10);

/// Most doublings of the local timeout.
const MAX_DOUBLINGS: u32 = 6;

/// Repairs that an acknowledgment allows still.
#[derive(Clone, Copy, Debug)]
struct Owed {
    since: Instant,
    repairs: u32,
}

/// What leaves the node.
#[derive(Clone, Debug)]
pub(super) struct Outbox<P> {
    pub packets: VecDeque<(Port, Why, Packet<P>)>,
    pub events: VecDeque<(FlowId, Event)>,
    /// The priority of local retransmissions.
    pub repairs: Priority,
    /// For packets that are kept.
    pub places: Places<P>,
}

impl<P> Outbox<P> {
    pub fn send(&mut self, port: Port, why: Why, packet: Packet<P>) {
        self.packets.push_back((port, why, packet));
    }
}

/// What to do with a packet from the mobile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckVerdict {
    /// Forward it.
    Forward,
    /// Keep it from the sender.
    Hold,
    /// Forward it and drop the state: all is acknowledged up to the FIN.
    Forget,
    /// Forward it and begin anew from it: the mobile host keeps saying that it has less than passes for acknowledged.
    GoBack,
}

/// The state of one connection's data towards the mobile host.
#[derive(Clone, Debug)]
pub(super) struct Repair<P> {
    /// The side that the data comes from.
    pub side: Side,
    pub owner: Option<Owner>,
    pub cache: Cache<P>,
    /// For which time this connection is in the queue of timers.
    pub queued: Option<Instant>,
    /// Whether it is among those that are behind.
    pub is_listed: bool,
    /// Period in which it was last counted among the connections that share the hop.
    pub counted_in: Option<u64>,
    /// What either end could have sent and would accept.
    pub tracking: Tracking,
    /// Last acknowledgment.
    last_ack: Option<Seq>,
    /// One past the highest byte seen.
    high: Seq,
    /// The window field of the last acknowledgment.
    window: u16,
    /// The last pure acknowledgment that said something new, to answer the sender with.
    answer: Option<Packet<P>>,
    /// Signals of the last acknowledgment that the sender got.
    signals: Signals,
    /// An acknowledgment of what did not come by, until one goes beyond it: it may be a stranger's, and is not repeated from here.
    unseen: Option<Seq>,
    stale: u32,
    rtt: LinkRtt,
    /// What was heard of the mobile host's connections when something of this one had last arrived, or its time had come.
    heard: Option<Heard>,
    /// When the cumulative acknowledgment last moved, or something above it was seen to have arrived.
    progress: Instant,
    /// When the sender last sent anything.
    fresh: Instant,
    /// When a copy from here last came back as a duplicate: nothing new has arrived, but the hop is up.
    echoed: Instant,
    /// When all that was out last passed for lost because nothing came.
    timed_out: Instant,
    /// Doublings of the timeout, until the next round-trip sample.
    doublings: u32,
    /// Until then losses are repaired here.
    awake: Instant,
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
    /// In which order packets left, and what that tells.
    order: Order,
    reordering: Reordering,
    /// From here on it is still to be seen what is lost.
    walk: Option<Seq>,
    owed: Option<Owed>,
    /// When the next of what is lost goes, or of what is held, if nothing arrives before.
    pace: Option<Instant>,
    /// When the first of what was overtaken, and may only be late, passes for lost.
    late: Option<Instant>,
    /// Repairs made since something arrived last, but for those that it asked for.
    in_vain: u32,
    /// Copies of the oldest packet that go without waiting for the loss of the one before.
    insistence: Option<Insistence>,
    /// The SACK blocks taken in last.
    blocks: SackBlocks,
    masks: Masks,
    copies: Copies,
    /// The newest timestamp on what the sender resent, until the mobile host has echoed it.
    ahead: Option<u32>,
    /// What sizes of packets arrive.
    sizes: Sizes,
    /// A packet that is too large, as far as known, which went all the same: from where to where.
    large: Option<(Seq, Seq)>,
    /// Repairs by the timer since the mobile host was heard.
    bets: u32,
    /// When the mobile host was last heard.
    spoke: Instant,
    /// How long its silence has no more bets, and until when.
    rest: (Duration, Instant),
    /// Flow control on the hop, if there is any.
    hop: Option<Hop>,
}

impl<P: Payload> Repair<P> {
    /// A connection whose data comes from that side, and went by up to `start`.
    pub fn new(now: Instant, config: &SnoopConfig, side: Side, start: Seq, tracking: Tracking) -> Self {
        let (last_ack, window) = (tracking.acked(side), tracking.window(side));
        let mut rtt = LinkRtt::default();
        rtt.opened(tracking.crossing(side));
        Self {
            side,
            owner: None,
            cache: Cache::new(),
            queued: None,
            is_listed: false,
            counted_in: None,
            tracking,
            last_ack,
            high: start,
            window,
            answer: None,
            signals: Signals::default(),
            unseen: None,
            stale: 0,
            rtt,
            heard: None,
            progress: now,
            echoed: now,
            fresh: now,
            timed_out: Instant::ZERO,
            doublings: 0,
            awake: match config.begin {
                Begin::AtOnce => Instant::FAR_FUTURE,
                Begin::AfterSilence => Instant::ZERO,
            },
            recover: start,
            above: 0,
            expected: 0,
            echoes: (0, start),
            highest_marked: None,
            order: Order::default(),
            reordering: Reordering::NONE,
            walk: None,
            owed: None,
            pace: None,
            late: None,
            in_vain: 0,
            insistence: None,
            blocks: SackBlocks::default(),
            masks: Masks::Unseen,
            copies: Copies::default(),
            ahead: None,
            sizes: Sizes::default(),
            large: None,
            bets: 0,
            spoke: now,
            rest: (Duration::ZERO, Instant::ZERO),
            hop: config.hop_control().map(|control| Hop::new(control, start)),
        }
    }

    /// `copies` needless ones are on their way.
    fn expect_echoes(&mut self, copies: u32) {
        if copies > 0 {
            self.echoes = (self.echoes.0.saturating_add(copies), self.high);
        }
    }

    /// Takes an acknowledgment in, and says what to do with it if its signals are known.
    fn judge_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &mut Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        let ack = segment.ack;
        // Beyond what came by: some of it passed elsewhere.
        self.unseen = if ack.gt(self.high) { Some(ack) } else { self.unseen.filter(|unseen| ack.le(*unseen)) };
        self.high = self.high.max(ack);
        let pure = packet.len == 0 && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN);
        if let Some(last_ack) = self.last_ack
            && ack.lt(last_ack)
        {
            return self.on_old_ack(now, config, packet.flow, pure, last_ack, out);
        }
        self.stale = 0;
        if !segment.flags.has(Flags::SYN) {
            self.draw_in(packet);
        }
        let advanced = self.last_ack != Some(ack);
        self.order.kept = self.reordering.kept(now);
        self.order.begin();
        // RFC 5681 §2. A closed window is answered to probes; nothing is lost then.
        let repeats = !advanced && pure && segment.window == self.window && self.window != 0;
        let duplicate = repeats && self.high.gt(ack);
        self.window = segment.window;
        if !duplicate && config.awareness == TcpAwareness::Aware {
            // Behind data of the mobile host an older acknowledgment would pass for a replay.
            self.answer = (pure && self.unseen.is_none()).then(|| packet.clone());
        }
        self.rtt.opened(self.tracking.crossing(self.side));
        let mut arrived = 0;
        if advanced {
            arrived = self.advance(now, ack, out);
            if self.tracking.has_ended(self.side) && ack == self.tracking.next(self.side) {
                return AckVerdict::Forget;
            }
        }
        let smart = config.detection == LocalDetection::Smart;
        self.reordering.heed(now, segment, &self.rtt);
        let (masked, marked) = if smart { self.take_masks(now, ack, segment) } else { (false, 0) };
        if self.sleeps(now) {
            return AckVerdict::Forward;
        }
        if self.masks == Masks::Seen {
            self.owed = Some(Owed { since: now, repairs: LEAST_REPAIRS + (arrived + marked).min(MOST_REPAIRS) });
            self.resend_owed(now, out);
        }
        let echo = smart && self.copies.explain(segment);
        if echo && self.is_in_charge(now) {
            self.hear_echo(now);
        }
        if repeats && echo && !masked && config.awareness == TcpAwareness::Aware {
            return AckVerdict::Hold;
        }
        if duplicate {
            let repaired = if masked || (self.masks == Masks::Seen && smart) {
                self.repairs_all(config, ack)
            } else {
                self.on_duplicate(now, config, ack, out)
            };
            if repaired && self.hides_losses(config) {
                return AckVerdict::Hold;
            }
            // With an older timestamp than the sender has seen by now, the answer would pass for a replay.
            if let Some(Body::Tcp(answer)) = self.answer.as_mut().map(|answer| &mut answer.body) {
                answer.options.timestamps = segment.options.timestamps;
            }
        } else if masked && pure && self.hides_losses(config) && self.repairs_all(config, ack) {
            hide_blocks(packet);
        }
        AckVerdict::Forward
    }

    /// Whether the sender is not told of losses that are repaired here.
    fn hides_losses(&self, config: &SnoopConfig) -> bool {
        let tells = config.tells_congestion == Switch::On && self.hop.is_none() && self.masks == Masks::Seen;
        config.awareness == TcpAwareness::Aware && !(tells && self.rtt.is_nearly_full())
    }

    fn on_old_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        flow: FlowId,
        pure: bool,
        last_ack: Seq,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        if !pure || config.awareness == TcpAwareness::Unaware || !self.is_certain(now) {
            return AckVerdict::Forward;
        }
        self.stale += 1;
        if self.stale >= MAX_STALE {
            return AckVerdict::GoBack;
        }
        out.events.push_back((flow, Event::Absorbed { seq: last_ack }));
        AckVerdict::Hold
    }

    /// Whether an overtaken acknowledgment tells the sender nothing that it need know: it is old, or what it asks for is repaired here.
    pub fn keeps_overtaken(&self, now: Instant, config: &SnoopConfig, ack: Seq) -> bool {
        let is_old = self.last_ack.is_some_and(|last_ack| ack.lt(last_ack));
        config.awareness == TcpAwareness::Aware && self.is_certain(now) && (is_old || self.repairs_all(config, ack))
    }

    /// The last acknowledgment is not one to answer the sender with.
    pub fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Something has arrived.
    fn heard(&mut self, now: Instant) {
        self.progress = now;
        (self.doublings, self.in_vain) = (0, 0);
        self.pace = if self.holds() { Some(now + self.rtt.silence()) } else { self.overdue(now) };
    }

    /// Whether what the mobile host said last may still be told to the sender in its place: only for a while, so that a picture that is
    /// wrong silences nobody.
    fn is_certain(&self, now: Instant) -> bool {
        now.since(self.progress) < CERTAIN && !self.sleeps(now)
    }

    /// Whether losses are the sender's: all passes, and is only watched.
    fn sleeps(&self, now: Instant) -> bool {
        now >= self.awake
    }

    /// The cumulative acknowledgment moves to `ack`; how many packets it takes out.
    fn advance(&mut self, now: Instant, ack: Seq, out: &mut Outbox<P>) -> u32 {
        // A single duplicate may itself have been an echo. If it was, so is the next one, and so on: each needless copy
        // would beget another.
        let doubtful = self.above == 1 && self.cache.front().is_some_and(|front| front.local > 0);
        if self.timed_out_early(now) {
            self.recover = ack;
        }
        self.watch_order(now);
        let packets = self.cache.acknowledge(ack);
        self.last_ack = Some(ack);
        if let Some(front) = self.cache.front()
            && front.covers(ack)
        {
            // The sender has cut it, and this piece has arrived.
            let piece = ack.since(front.seq);
            if piece > 0 {
                self.sizes.arrived(piece, now);
            }
        }
        self.heard(now);
        if self.echoes.1.lt(ack) {
            self.echoes = (0, ack);
        }
        self.expect_echoes(u32::from(doubtful));
        self.take_out(now, Pace::Acknowledgment, out);
        if self.highest_marked.is_some_and(|highest| highest.lt(ack)) {
            self.highest_marked = None;
        }
        // All that was purged beyond the hole itself had arrived. What arrived besides lies above the next hole, so
        // that the next hole belongs to the same burst ([a]); without this, packets still queued would pass for lost.
        self.above = self.above.saturating_sub(packets.saturating_sub(1));
        self.expected = 0;
        let burst = self.above > 0 && packets > 0 && self.masks == Masks::Unseen && !self.sleeps(now);
        match self.cache.front() {
            Some(front) if burst && front.covers(ack) && !front.sent_again() => {
                self.resend(now, 0, Trigger::Duplicates, out);
                self.expect_duplicates();
            }
            _ => self.above = 0,
        }
        packets
    }

    /// Takes out some of what is acknowledged.
    fn take_out(&mut self, now: Instant, pace: Pace, out: &mut Outbox<P>) {
        let (order, rtt, sizes) = (&mut self.order, &self.rtt, &mut self.sizes);
        let arrived = |cached: &Cached<P>| {
            sizes.arrived(cached.len, cached.last_sent);
            order.arrive(cached, is_too_soon(rtt, now, cached));
        };
        let taken = self.cache.take_out(pace, &mut out.places, arrived);
        if let Some(hop) = &mut self.hop {
            hop.landed(taken.landed);
            hop.unheld(u32::try_from(taken.held).unwrap_or(u32::MAX));
        }
        if let Some(crossing) = taken.sample {
            self.rtt.sample(now.since(crossing.sent));
            if let (Some(hop), Some(ack)) = (&mut self.hop, self.last_ack)
                && taken.landed > 0
            {
                hop.sample(now, crossing, ack, self.high);
            }
        }
        self.expect_echoes(taken.unproven);
    }

    /// Whether something is left to be done at once, of which each packet does a part.
    pub fn is_behind(&self) -> bool {
        self.cache.is_behind() || self.hop.as_ref().is_some_and(Hop::is_behind)
    }

    /// Does some of what is left to be done at once.
    pub fn catch_up(&mut self, now: Instant, pace: Pace, out: &mut Outbox<P>) {
        if self.cache.is_behind() {
            self.take_out(now, pace, out);
        }
        self.release(now, out);
    }

    /// Sends or drops some of what there is of a connection that is over here. Whether nothing is left.
    pub fn dissolve(&mut self, pace: Pace, out: &mut Outbox<P>) -> bool {
        if self.holds() {
            // Nobody will ask when it went.
            self.let_go(Instant::ZERO, out);
            return false;
        }
        self.cache.drop_some(pace, &mut out.places)
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
            self.resend(now, 0, Trigger::Duplicates, out);
            self.expect_duplicates();
            return true;
        }
        // The hop keeps the order, so that a duplicate beyond those that earlier packets can cause comes from a packet
        // behind the retransmission, which is lost then. So it is when duplicates still come a whole round trip later.
        let age = now.since(front.last_sent);
        if age >= self.rtt.round_trip(config) || (self.expected == 0 && age >= FLOOR) {
            self.resend(now, 0, Trigger::Duplicates, out);
            self.expect_duplicates();
        } else {
            self.expected = self.expected.saturating_sub(1);
        }
        true
    }

    fn expect_duplicates(&mut self) {
        self.expected = (self.cache.len() as u32).saturating_sub(1).saturating_sub(self.above);
    }

    /// Whether nobody else looks after this hop: the sender is held back from here, or has left a silence to be ended here.
    pub(super) fn is_in_charge(&self, now: Instant) -> bool {
        self.hop.is_some() || (self.awake != Instant::FAR_FUTURE && !self.sleeps(now))
    }

    /// What is held of a connection that is over goes nowhere.
    pub fn drop_held(&mut self) {
        self.hop = None;
    }

    /// Resends a part of what an acknowledgment has allowed.
    fn resend_owed(&mut self, now: Instant, out: &mut Outbox<P>) {
        let Some(Owed { since, repairs }) = self.owed.take() else { return };
        let part = repairs.min(REPAIRS_AT_A_TIME);
        if self.resend_lost(now, part, out) == Lost::More && repairs > part {
            self.owed = Some(Owed { since, repairs: repairs - part });
        }
    }

    fn resend(&mut self, now: Instant, index: usize, trigger: Trigger, out: &mut Outbox<P>) {
        if let Some(cached) = self.cache.get_mut(index)
            && self.sizes.is_in_vain(cached.len, cached.first_sent, cached.local)
        {
            return;
        }
        let recent = self.recent();
        if index == 0 && trigger == Trigger::Hole {
            self.begin_to_insist(now);
        }
        let in_charge = self.is_in_charge(now);
        if let Some(cached) = self.cache.get_mut(index) {
            let proven = trigger != Trigger::Timer && !cached.sent_again();
            cached.unproven = cached.unproven.saturating_add(u32::from(!proven));
            cached.repeat(now);
            let repeats = trigger == Trigger::Timer && in_charge && !self.order.has_timed_out(cached);
            if repeats {
                self.reordering.repeated(cached.seq);
                self.order.repeat(&mut cached.sendings, out.repairs);
            } else {
                cached.again_sent = now;
                self.order.leave(&mut cached.sendings, out.repairs);
            }
            self.copies.by_base_station(cached.seq);
            if let Some(hop) = &mut self.hop {
                hop.repair(now, cached.len);
            }
            // The copy before is not on the hop any more, so that only one counts.
            let cause = cause(trigger);
            let packet = Packet { priority: out.repairs, cause, ..copy_of(&cached.packet, recent) };
            out.send(Port::WIRELESS, Why::Repair(trigger), packet);
        }
    }

    /// Whether the mobile host takes nothing: what is cached beyond its acknowledgment is at most a probe.
    fn window_closed(&self) -> bool {
        self.last_ack.is_some() && self.window == 0
    }
}

/// What measurement is told of a repair.
const fn cause(trigger: Trigger) -> Cause {
    match trigger {
        Trigger::Duplicates => Cause::LocalDuplicate,
        Trigger::Hole | Trigger::Request => Cause::LocalHole,
        Trigger::Timer => Cause::LocalTimer,
    }
}

/// Whether a packet that has arrived cannot have done so in its last sending.
fn is_too_soon<P>(rtt: &LinkRtt, now: Instant, cached: &Cached<P>) -> bool {
    // An urgent one overtakes the queue that others wait in.
    cached.sent_again() && !cached.sendings.is_urgent() && rtt.is_too_soon(now.since(cached.again_sent))
}

/// Whether the timer resent a packet in vain so often that it is left to the sender.
fn given_up<P>(front: &Cached<P>, config: &SnoopConfig) -> bool {
    front.by_timer > 0 && front.by_timer >= config.max_local_retries
}
