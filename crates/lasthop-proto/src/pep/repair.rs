//! One connection at the base station: what is cached, which packets the wireless hop lost, and when to resend them.

mod budget;
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
mod states;
mod timers;
mod timestamps;

use alloc::collections::VecDeque;

use super::cache::{Cache, Cached, Origin, Pace, Places};
use super::flow_table::Owner;
use super::snoop_config::{LocalDetection, SnoopConfig, TcpAwareness};
use super::tracking::Tracking;
use crate::event::Event;
use crate::node::{Port, Trigger, Why};
use crate::packet::{Body, Cause, Flags, FlowId, Packet, Payload, Priority, SackBlocks, Segment, Side};
use crate::seq::Seq;
use crate::tcp::config::Switch;
use crate::time::{Duration, Instant};
use budget::Budget;
use copies::Copies;
pub(super) use data::{DataVerdict, Place};
use hop::Hop;
pub(super) use hop::Passage;
use insistence::Insistence;
use link_rtt::{FLOOR, LinkRtt};
use masks::{Lost, Masks, hide_blocks};
pub(super) use news::{Heard, News};
use order::Order;
use reordering::Reordering;
use signals::Signals;
pub(super) use sizes::Sizes;
use states::Responsibility;
use timestamps::copy_of;

/// Number of consecutive old acknowledgments after which the state is rebuilt from them: the state is then taken to be
/// wrong.
const MAX_STALE: u32 = 16;

/// Number of timeouts of a packet that do not double the next. Four tries at 200 ms end before a sender whose minimum
/// timeout is 1 s retransmits, and on a lossy hop a lost retransmission is likelier than a doubled round trip.
const STEADY_TRIES: u32 = 3;

/// Maximum number of repairs triggered by one acknowledgment: `LEAST_REPAIRS`, enough for most bursts, plus one per
/// packet that has arrived, up to `MOST_REPAIRS` more. The rest are sent at the rate at which packets leave the hop: no
/// acknowledgment triggers a whole window.
const LEAST_REPAIRS: u32 = 4;
const MOST_REPAIRS: u32 = 16;

/// Number of repairs sent while the acknowledgment is handled. The others are also sent at once, but as timers,
/// so that no packet waits for all of them.
const REPAIRS_AT_A_TIME: u32 = 2;

/// Number of spaced repairs sent at a time.
const SPACED: u32 = 2;

/// Minimum limit of new packets sent in a silence, even beyond the window on the hop. The limit is a window if that is
/// more.
const MOST_PROBES: u32 = 8;

/// Time since the last arrival during which the base station may suppress acknowledgments and answer for the mobile
/// host.
const CERTAIN: Duration = Duration::from_secs(1);

/// Maximum number of doublings of the local timeout.
const MAX_DOUBLINGS: u32 = 6;

/// Repairs that an acknowledgment still allows.
#[derive(Clone, Copy, Debug)]
struct Owed {
    since: Instant,
    repairs: u32,
}

/// Output of the node.
#[derive(Clone, Debug)]
pub(super) struct Outbox<P> {
    pub packets: VecDeque<(Port, Why, Packet<P>)>,
    pub events: VecDeque<(FlowId, Event)>,
    /// Priority of local retransmissions.
    pub repairs: Priority,
    /// Storage for cached packets.
    pub places: Places<P>,
}

impl<P> Outbox<P> {
    pub fn send(&mut self, port: Port, why: Why, packet: Packet<P>) {
        self.packets.push_back((port, why, packet));
    }
}

/// Verdict on a packet from the mobile host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckVerdict {
    /// Forward it.
    Forward,
    /// Suppress it.
    Hold,
    /// Forward it and drop the state: everything up to the FIN is acknowledged.
    Forget,
    /// Forward it and restart from it: the mobile host repeatedly acknowledges less than recorded.
    GoBack,
}

/// Entry of a connection in the element's lists. It survives a restart of the connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entry {
    pub owner: Option<Owner>,
    /// Time of this connection's entry in the timer queue.
    pub queued: Option<Instant>,
    /// True if it is listed among the connections with deferred work.
    pub is_listed: bool,
    /// Period in which it was last counted among the connections that share the hop.
    pub counted_in: Option<u64>,
}

/// State of one connection's data towards the mobile host.
#[derive(Clone, Debug)]
pub(super) struct Repair<P> {
    /// Side that the data comes from.
    pub side: Side,
    /// Its entry in the element's lists.
    pub entry: Entry,
    pub cache: Cache<P>,
    /// Ranges that either end could have sent and would accept.
    pub tracking: Tracking,
    /// Last acknowledgment.
    last_ack: Option<Seq>,
    /// One past the highest byte seen.
    high: Seq,
    /// Window field of the last acknowledgment.
    window: u16,
    /// Last pure acknowledgment with news, with which to answer the sender.
    answer: Option<Packet<P>>,
    /// Signals of the last acknowledgment that reached the sender.
    signals: Signals,
    /// Acknowledgment of data that was not seen, until one exceeds it. It may be spoofed, so it is not repeated
    /// locally.
    unseen: Option<Seq>,
    stale: u32,
    rtt: LinkRtt,
    /// Information from the mobile host's other connections at the last arrival on this one or its last timeout.
    heard: Option<Heard>,
    /// Time at which the cumulative acknowledgment last advanced, or data above it was shown to have arrived.
    progress: Instant,
    /// Time at which the sender last sent anything.
    fresh: Instant,
    /// Time at which a local copy last returned as a duplicate: nothing new has arrived, but the hop is up.
    echoed: Instant,
    /// Time at which all data in flight was last declared lost because nothing arrived.
    timed_out: Instant,
    /// Number of doublings of the timeout, until the next round-trip sample.
    doublings: u32,
    responsibility: Responsibility,
    /// End of the data sent when the timer last expired. Below it, each packet's timer runs from its own transmission.
    recover: Seq,
    /// Number of packets known to have arrived above the hole at `last_ack`: one per duplicate acknowledgment.
    above: u32,
    /// Number of duplicate acknowledgments that packets sent before the last local retransmission may still cause.
    expected: u32,
    /// Number of duplicate acknowledgments that spurious copies may still cause, and the acknowledgment above which
    /// they end.
    echoes: (u32, Seq),
    /// Highest packet that the mobile host reported as received.
    highest_marked: Option<Seq>,
    /// Order in which packets left, and the losses that it shows.
    order: Order,
    reordering: Reordering,
    /// Sequence number from which packets have yet to be checked for loss.
    walk: Option<Seq>,
    owed: Option<Owed>,
    /// Time of the next lost or held packet, if nothing arrives before.
    pace: Option<Instant>,
    /// Time at which the first reordered hole, which may only be late, is declared lost.
    late: Option<Instant>,
    /// Repairs since the last arrival, except those that it triggered.
    in_vain: u32,
    /// Copies of the oldest packet that are sent without waiting for the loss of the previous one.
    insistence: Option<Insistence>,
    /// SACK blocks processed last.
    blocks: SackBlocks,
    masks: Masks,
    copies: Copies,
    /// Latest timestamp of the sender's retransmissions, until the mobile host has echoed it.
    ahead: Option<u32>,
    /// Packet sizes that arrive.
    sizes: Sizes,
    /// Range of a forwarded packet that exceeds the known path MTU of the hop.
    large: Option<(Seq, Seq)>,
    budget: Budget,
    /// Flow control on the hop, if enabled.
    hop: Option<Hop>,
}

impl<P: Payload> Repair<P> {
    /// Returns the state of a connection whose data comes from `side` and has passed by up to `start`.
    pub fn new(now: Instant, config: &SnoopConfig, side: Side, start: Seq, tracking: Tracking) -> Self {
        let (last_ack, window) = (tracking.acked(side), tracking.window(side));
        let mut rtt = LinkRtt::default();
        rtt.opened(tracking.crossing(side));
        Self {
            side,
            entry: Entry::default(),
            cache: Cache::new(),
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
            responsibility: Responsibility::new(config.begin),
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
            budget: Budget::new(now),
            hop: config.hop_control().map(|control| Hop::new(control, start)),
        }
    }

    /// Records that `copies` spurious copies are in flight.
    fn expect_echoes(&mut self, copies: u32) {
        if copies > 0 {
            self.echoes = (self.echoes.0.saturating_add(copies), self.high);
        }
    }

    /// Processes an acknowledgment and returns the verdict that applies if its signals are known.
    fn judge_ack(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &mut Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> AckVerdict {
        let ack = segment.ack;
        // Data acknowledged above `high` took another path.
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
        // RFC 5681 §2. Acknowledgments of a closed window answer probes and indicate no loss.
        let repeats = !advanced && pure && segment.window == self.window && self.window != 0;
        let duplicate = repeats && self.high.gt(ack);
        self.window = segment.window;
        if !duplicate && config.awareness == TcpAwareness::Aware {
            // After data from the mobile host, an older acknowledgment would look like a replay.
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
            // With a timestamp older than the sender has seen, the answer would look like a replay.
            if let Some(Body::Tcp(answer)) = self.answer.as_mut().map(|answer| &mut answer.body) {
                answer.options.timestamps = segment.options.timestamps;
            }
        } else if masked && pure && self.hides_losses(config) && self.repairs_all(config, ack) {
            hide_blocks(packet);
        }
        AckVerdict::Forward
    }

    /// Returns whether losses that are repaired here are hidden from the sender.
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

    /// Returns whether a reordered acknowledgment carries nothing that the sender needs: it is old, or the losses that
    /// it reports are repaired here.
    pub fn keeps_overtaken(&self, now: Instant, config: &SnoopConfig, ack: Seq) -> bool {
        let is_old = self.last_ack.is_some_and(|last_ack| ack.lt(last_ack));
        config.awareness == TcpAwareness::Aware && self.is_certain(now) && (is_old || self.repairs_all(config, ack))
    }

    /// Discards the stored acknowledgment, so that it is not used to answer the sender.
    pub fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Records that something has arrived.
    fn heard(&mut self, now: Instant) {
        self.progress = now;
        (self.doublings, self.in_vain) = (0, 0);
        self.pace = if self.holds() { Some(now + self.rtt.silence()) } else { self.overdue(now) };
    }

    /// Returns whether the mobile host's last acknowledgment may still be repeated to the sender. The time is limited,
    /// so that incorrect state cannot silence a connection.
    fn is_certain(&self, now: Instant) -> bool {
        now.since(self.progress) < CERTAIN && !self.sleeps(now)
    }

    /// Returns whether losses are left to the sender: all packets pass, and the connection is only tracked.
    fn sleeps(&self, now: Instant) -> bool {
        self.responsibility.is_senders(now)
    }

    /// Advances the cumulative acknowledgment to `ack` and returns the number of packets that this removes.
    fn advance(&mut self, now: Instant, ack: Seq, out: &mut Outbox<P>) -> u32 {
        // A single duplicate may have been caused by a spurious copy. If it was, so is the next one, and so on: each
        // spurious copy would trigger another.
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
            // The sender has split the packet, and this piece has arrived.
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
        // All packets removed beyond the hole itself had arrived. The remaining duplicates stem from packets above the
        // next hole, so the next hole belongs to the same burst ([a]). Without this check, packets still queued would
        // be declared lost.
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

    /// Removes a part of the acknowledged data from the cache.
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

    /// Returns whether there is deferred work, of which each packet does a part.
    pub fn is_behind(&self) -> bool {
        self.cache.is_behind() || self.hop.as_ref().is_some_and(Hop::is_behind)
    }

    /// Does a part of the deferred work.
    pub fn catch_up(&mut self, now: Instant, pace: Pace, out: &mut Outbox<P>) {
        if self.cache.is_behind() {
            self.take_out(now, pace, out);
        }
        self.release(now, out);
    }

    /// Sends or drops a part of the data of a removed connection. Returns whether nothing is left.
    pub fn dissolve(&mut self, pace: Pace, out: &mut Outbox<P>) -> bool {
        if self.holds() {
            // Transmission times of a removed connection are not used.
            self.let_go(Instant::ZERO, out);
            return false;
        }
        self.cache.drop_some(pace, &mut out.places)
    }

    /// Handles a duplicate acknowledgment without a mask. Returns whether the loss that it indicates is being repaired
    /// here.
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
        // The hop preserves order, so a duplicate beyond those that earlier packets can cause stems from a packet
        // behind the retransmission, which is therefore lost. The same holds if duplicates still arrive a round trip
        // later.
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

    /// Returns whether losses are repaired only here: the sender is under flow control, or a silence has activated
    /// local repair.
    pub(super) fn is_in_charge(&self, now: Instant) -> bool {
        self.hop.is_some() || self.responsibility.is_activated(now)
    }

    /// Discards the held data of a removed connection.
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
            // The previous copy is no longer on the hop, so only one counts.
            let cause = cause(trigger);
            let packet = Packet { priority: out.repairs, cause, ..copy_of(&cached.packet, recent) };
            out.send(Port::WIRELESS, Why::Repair(trigger), packet);
        }
    }

    /// Returns whether the mobile host's window is closed. What is cached beyond its acknowledgment is then at most a
    /// probe.
    fn window_closed(&self) -> bool {
        self.last_ack.is_some() && self.window == 0
    }
}

/// Returns the cause of a repair, for measurement.
const fn cause(trigger: Trigger) -> Cause {
    match trigger {
        Trigger::Duplicates => Cause::LocalDuplicate,
        Trigger::Hole | Trigger::Request => Cause::LocalHole,
        Trigger::Timer => Cause::LocalTimer,
    }
}

/// Returns whether a packet arrived too early for its last transmission to have caused the arrival.
fn is_too_soon<P>(rtt: &LinkRtt, now: Instant, cached: &Cached<P>) -> bool {
    // An urgent copy overtakes the queue in which others wait.
    cached.sent_again() && !cached.sendings.is_urgent() && rtt.is_too_soon(now.since(cached.again_sent))
}

/// Returns whether the timer has resent a packet so often that it is left to the sender.
fn given_up<P>(front: &Cached<P>, config: &SnoopConfig) -> bool {
    front.by_timer > 0 && front.by_timer >= config.max_local_retries
}
