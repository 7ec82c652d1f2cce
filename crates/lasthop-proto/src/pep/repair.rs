//! One connection at the base station: what is cached, which of it the wireless hop lost, and when to resend it.

mod copies;
mod hop;
mod timestamps;

use alloc::collections::VecDeque;

use super::cache::{Cache, Cached, Origin, Overlap, Whereabouts};

use super::snoop_config::SnoopConfig;
use crate::event::Event;
use crate::node::Port;
use crate::packet::{Body, Cause, Flags, FlowId, Packet, Priority, SackBlocks, Segment, Side};
use crate::scheme::{LocalDetection, TcpAwareness};
use crate::seq::Seq;
use crate::time::{Duration, Instant};
use copies::Copies;
use hop::Hop;
pub(super) use hop::Passage;
use timestamps::Newest;

/// Farther than this from the last acknowledgment, in bytes, nothing belongs to the same window (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;

/// Smallest local timeout and link round trip that are believed: bounds the work that a mobile host can ask for.
const FLOOR: Duration = Duration::from_millis(1);

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

/// What to do with data from the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataVerdict {
    /// Keep it, if there is room, and forward it.
    Store(Place),
    /// Forward it.
    Forward,
    /// The mobile host has it; it was answered here.
    Absorbed,
    /// It belongs to another time of this flow: start over.
    Foreign,
    /// It is kept, and goes later.
    Held,
    /// There is no room for it: drop it, as any full queue does.
    Refused,
}

/// Where data belongs in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Behind all that was seen.
    Back,
    /// In place of `count` packets from `first` on; the sender resent it, or it is late.
    Within {
        /// Index of the first.
        first: usize,
        /// How many; none for a hole.
        count: usize,
    },
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

/// Smoothed round trip of the wireless hop (the estimator of RFC 6298 §2, in nanoseconds).
#[derive(Clone, Copy, Default, Debug)]
struct LinkRtt {
    srtt: Option<u64>,
    dev: u64,
}

impl LinkRtt {
    fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.as_nanos();
        match self.srtt {
            None => (self.srtt, self.dev) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                let error = srtt.abs_diff(rtt);
                self.dev = self.dev - self.dev / 4 + error / 4;
                self.srtt = Some(srtt - srtt / 8 + rtt / 8);
            }
        }
    }

    /// srtt + 4 dev within the configured bounds. Before the first sample twice the lower bound: the mobile host may hold
    /// its first acknowledgment back for as long as the bound itself.
    fn timeout(&self, config: &SnoopConfig) -> Duration {
        let nanos = match self.srtt {
            Some(srtt) => srtt.saturating_add(self.dev.saturating_mul(4)),
            None => config.timer_min.as_nanos().saturating_mul(2),
        };
        Duration::from_nanos(nanos).min(config.timer_max).max(config.timer_min).max(FLOOR)
    }

    /// In what time a hole is resent at most once.
    fn round_trip(&self, config: &SnoopConfig) -> Duration {
        self.srtt.map_or(config.timer_min, Duration::from_nanos).max(FLOOR)
    }
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

/// Whether this mobile host tells what arrived above a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Masks {
    Unseen,
    Seen,
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

    /// A SYN or FIN without data passed, up to `end`.
    pub fn on_control(&mut self, segment: &Segment, end: Seq) {
        if self.is_near(end) {
            self.high = self.high.max(end);
            if segment.flags.has(Flags::FIN) {
                self.fin = Some(end);
            }
        }
    }

    /// Data from the wire that ends at `end`: what to do with it.
    pub fn on_data(
        &mut self,
        now: Instant,
        config: &SnoopConfig,
        packet: &Packet<P>,
        segment: &Segment,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        let (seq, end) = (segment.seq, segment.seq + packet.seq_len());
        if !self.is_near(end) || !self.is_near(seq) {
            return DataVerdict::Foreign;
        }
        if let Some(last_ack) = self.last_ack
            && end.le(last_ack)
        {
            return self.on_acknowledged_data(config, packet, last_ack, out);
        }
        if segment.flags.has(Flags::FIN) {
            self.fin = Some(end);
        }
        if seq.ge(self.high) {
            self.high = end;
            // A one-byte probe of a closed window is not worth keeping: it would stand in the way of the real data.
            return if self.window_closed() { DataVerdict::Forward } else { DataVerdict::Store(Place::Back) };
        }
        self.high = self.high.max(end);
        self.recheck = self.recheck.min(now + self.rtt.round_trip(config));
        let overlap = self.cache.overlap(seq, end);
        if self.has_in_hand(config, seq, end, overlap) {
            out.events.push_back((packet.flow, Event::Absorbed { seq }));
            return DataVerdict::Absorbed;
        }
        self.forwarded_again(packet, end);
        match overlap {
            Overlap::None(first) => DataVerdict::Store(Place::Within { first, count: 0 }),
            Overlap::Covers { first, count } => DataVerdict::Store(Place::Within { first, count }),
            Overlap::Cuts { first, count } => {
                // Kept as it is: whichever form arrives, acknowledgments take both out.
                for index in first..first + count {
                    self.cache.set_resent(index);
                    if let Some(old) = self.cache.get_mut(index) {
                        old.unproven = old.unproven.saturating_add(1);
                        (old.last_sent, old.local, old.by_timer) = (now, 0, 0);
                    }
                }
                DataVerdict::Forward
            }
        }
    }

    /// The sender has not seen the acknowledgment: repeats it, instead of the data.
    fn on_acknowledged_data(
        &mut self,
        config: &SnoopConfig,
        packet: &Packet<P>,
        last_ack: Seq,
        out: &mut Outbox<P>,
    ) -> DataVerdict {
        // A keepalive asks whether the mobile host is there, not the base station.
        let keepalive = packet.len <= 1;
        let answer = self.answer.as_ref().filter(|answer| answer.tcp().is_some_and(|tcp| tcp.ack == last_ack));
        match answer {
            Some(answer) if config.awareness == TcpAwareness::Aware && !keepalive => {
                out.events.push_back((packet.flow, Event::Absorbed { seq: last_ack }));
                out.packets.push_back((Port::WIRED, Packet { cause: Cause::LocalAck, ..answer.clone() }));
                DataVerdict::Absorbed
            }
            _ => {
                self.expect_echoes(1);
                self.forwarded_again(packet, last_ack);
                DataVerdict::Forward
            }
        }
    }

    /// What the sender resent, up to `end`, goes on to the mobile host.
    fn forwarded_again(&mut self, packet: &Packet<P>, end: Seq) {
        self.newest.note(packet);
        self.copies.by_sender(end);
    }

    /// `copies` needless ones are on their way.
    fn expect_echoes(&mut self, copies: u32) {
        if copies > 0 {
            self.echoes = (self.echoes.0.saturating_add(copies), self.high);
        }
    }

    /// Keeps a packet, and says whether it may go now.
    pub fn store(&mut self, now: Instant, packet: Packet<P>, seq: Seq, place: Place) -> Passage {
        let len = packet.len;
        match place {
            Place::Back => {
                self.cache.push(Cached::new(now, packet, seq, Origin::Fresh));
                self.admit(self.cache.len() - 1, len)
            }
            Place::Within { first, count } => {
                let mut cached = Cached::new(now, packet, seq, Origin::Resent);
                let (mut all_marked, mut copies) = (count > 0, u32::from(count > 0));
                let mut replaced = 0;
                for index in first..first + count {
                    if let Some(old) = self.cache.get_mut(index) {
                        all_marked &= old.whereabouts == Whereabouts::Arrived;
                        if old.whereabouts == Whereabouts::OnHop {
                            replaced += u64::from(old.packet.len);
                        }
                        copies = copies.saturating_add(old.unproven);
                    }
                }
                cached.unproven = copies;
                if all_marked {
                    cached.whereabouts = Whereabouts::Arrived;
                }
                self.cache.replace(first, count, cached);
                // What the sender resends goes ahead of what waits.
                if let Some(hop) = &mut self.hop {
                    hop.landed(replaced);
                    if !all_marked {
                        hop.sent(len);
                    }
                }
                Passage::Now
            }
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

    /// Marks what the SMART number or the SACK blocks say has arrived; whether they said anything.
    fn take_masks(&mut self, now: Instant, ack: Seq, segment: &Segment) -> bool {
        let mut said = false;
        if let Some(smart) = segment.options.smart {
            self.masks = Masks::Seen;
            if smart.ge(ack) && smart.lt(self.high) {
                said = true;
                let index = self.cache.index_after(smart);
                if self.cache.get_mut(index).is_some_and(|packet| packet.covers(smart)) {
                    self.mark(now, index);
                }
            }
        }
        let old = core::mem::replace(&mut self.blocks, segment.options.sack);
        for block in segment.options.sack.as_slice() {
            if !(ack.lt(block.left) && block.left.lt(block.right) && block.right.le(self.high)) {
                continue;
            }
            self.masks = Masks::Seen;
            said = true;
            // A block usually is an earlier one grown at its right end: only the growth is news.
            let known = old.as_slice().iter().find(|old| old.left == block.left && old.right.le(block.right));
            let mut index = match known {
                Some(old) if old.right.gt(old.left) => self.cache.index_after(old.right),
                _ => self.cache.index_from(block.left),
            };
            while let Some(packet) = self.cache.get_mut(index)
                && packet.end.le(block.right)
            {
                if packet.seq.ge(block.left) {
                    self.mark(now, index);
                }
                index += 1;
            }
        }
        said
    }

    fn mark(&mut self, now: Instant, index: usize) {
        if let Some(packet) = self.cache.get_mut(index) {
            let before = core::mem::replace(&mut packet.whereabouts, Whereabouts::Arrived);
            let seq = packet.seq;
            if let Some(hop) = &mut self.hop
                && before == Whereabouts::OnHop
            {
                hop.landed(packet.packet.len.into());
                if !packet.sent_again() {
                    hop.sample(now, packet.last_sent, seq, self.high);
                }
                // What comes behind a repair that is lost shows the loss, so that the timer is for when nothing comes.
                self.progress = now;
            }
            self.highest_marked = Some(self.highest_marked.map_or(seq, |highest| highest.max(seq)));
        }
    }

    /// Resends every unmarked packet below the highest marked one: at once, then at most once per link round trip.
    fn resend_holes(&mut self, now: Instant, config: &SnoopConfig, out: &mut Outbox<P>) {
        let Some(highest) = self.highest_marked else { return };
        // Where flow control keeps the order in view, a retransmission is lost once something sent later has arrived.
        let due = match &self.hop {
            Some(hop) => hop.outrun(self.recheck),
            None => now >= self.recheck,
        };
        if !due && self.scanned_to.ge(highest) {
            return;
        }
        let mut index = if due { 0 } else { self.cache.index_from(self.scanned_to) };
        let mut recheck = if due { Instant::FAR_FUTURE } else { self.recheck };
        let round_trip = self.rtt.round_trip(config);
        while let Some(packet) = self.cache.get_mut(index)
            && packet.seq.lt(highest)
        {
            if packet.whereabouts == Whereabouts::OnHop {
                let under_way = packet.sent_again()
                    && match &self.hop {
                        Some(hop) => !hop.outrun(packet.last_sent),
                        None => now.since(packet.last_sent) < round_trip,
                    };
                let resent = if under_way {
                    packet.last_sent
                } else {
                    self.resend(now, index, Cause::LocalHole, out);
                    now
                };
                recheck = recheck.min(if self.hop.is_some() { resent } else { resent + round_trip });
            }
            index += 1;
        }
        self.recheck = recheck;
        self.scanned_to = self.scanned_to.max(highest);
    }

    /// Whether all holes that the mobile host has are repaired here, so that the sender need not know.
    fn repairs_all(&self, config: &SnoopConfig, ack: Seq) -> bool {
        self.cache.front().is_some_and(|front| front.covers(ack) && front.local > 0 && !given_up(front, config))
            && self.highest_marked.is_none_or(|highest| self.cache.is_whole_below(highest))
            && (self.hop.is_some() || !self.cache.any_resent())
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

/// Takes the SACK blocks out of an acknowledgment that must pass: they show holes that are being repaired here.
fn hide_blocks<P>(packet: &mut Packet<P>) {
    if let Body::Tcp(segment) = &mut packet.body {
        let before = segment.options.wire_len();
        segment.options.sack = SackBlocks::default();
        let saved = before - segment.options.wire_len();
        packet.header_len = packet.header_len.saturating_sub(saved);
    }
}
