//! Flow control on the hop: which data is held at the base station, when it is released, and how the sender is limited.
//!
//! The sender's congestion window cannot be used for this. On a lossy hop it must not follow losses, and the base
//! station hides all other signals that it could follow. The sender is limited through its *receive* window instead:
//! the right edge in acknowledgments is reduced to the base station's capacity. The right edge never moves left, and
//! only the mobile host acknowledges data.

use super::timestamps::copy_of;
use super::{Burst, LocalTimer, MOST_PROBES, Outbox, Repair, SPACED};
use crate::node::{Port, Why};
use crate::packet::{Body, Packet, Payload, Priority, Segment};
use crate::pep::cache::{Cached, Overlap, Whereabouts};
use crate::pep::hop_window::{Crossing, HopControl, HopWindow, Pacer};
use crate::pep::sender_room::{Allowance, SenderRoom};
use crate::pep::snoop_config::SnoopConfig;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Number of local timeouts without an arrival after which the sender's own retransmissions pass.
const PATIENCE: u64 = 4;

/// Minimum backlog of a connection that shares the hop with others, in segments. With one, the queue would run empty
/// between two segments.
const LEAST_BACKLOG: u32 = 2;

/// Number of round trips on the hop after a repair for which the hop may count as lossy. A stall lasts about one round
/// trip, so that stalls after rarer losses cost less than 2 %.
const LOSSY_ROUNDS: u64 = 50;

/// Number of round trips that repairs must span before the hop counts as lossy. A slow start that overflows the queue
/// is repaired sooner.
const OVERSHOOT_ROUNDS: u64 = 8;

/// Maximum number of packets released at once, however large the window. Bounds the work that one acknowledgment can
/// cause.
const MOST_RELEASED: u32 = 64;

/// Flow control of one connection.
#[derive(Clone, Debug)]
pub(in crate::pep) struct Hop {
    /// Parameters as configured.
    configured: HopControl,
    /// Number of connections that share the configured backlog, this one included.
    sharing: u32,
    window: HopWindow,
    room: SenderRoom,
    /// Number of bytes held.
    held: u64,
    /// Start of the held data.
    first_held: Seq,
    /// Right edge last advertised to the sender.
    edge: Option<Seq>,
    pacer: Pacer,
    /// State of the last release.
    release: Release,
    repairs: Repairs,
}

/// Times of repairs, without gaps of more than [`LOSSY_ROUNDS`].
#[derive(Clone, Copy, Default, Debug)]
struct Repairs {
    first: Option<Instant>,
    last: Instant,
}

impl Repairs {
    fn note(&mut self, now: Instant, base: Option<Duration>) {
        let is_new = base.is_some_and(|base| now.since(self.last) > base.saturating_mul(LOSSY_ROUNDS));
        if self.first.is_none() || is_new {
            self.first = Some(now);
        }
        self.last = now;
    }

    /// Returns whether the hop, whose shortest round trip is `base`, loses packets often enough for stalls to matter.
    fn show_loss(&self, now: Instant, base: Duration) -> bool {
        let spans = |first| self.last.since(first) > base.saturating_mul(OVERSHOOT_ROUNDS);
        self.first.is_some_and(spans) && now.since(self.last) < base.saturating_mul(LOSSY_ROUNDS)
    }
}

/// Result of the last release of held packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    Done,
    Behind,
    /// The window admits the packet, but pacing delays it.
    Paced(Instant),
}

/// Decision on whether a packet may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    Now,
    /// Not before another packet has arrived.
    Full,
    Paced(Instant),
}

/// Decision on new data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum Passage {
    /// Sent now.
    Now,
    /// Held in the cache.
    Later,
}

impl Hop {
    pub fn new(control: HopControl, start: Seq) -> Self {
        Self {
            configured: control,
            sharing: 1,
            window: HopWindow::new(start),
            room: SenderRoom::new(),
            held: 0,
            first_held: start,
            edge: None,
            pacer: Pacer::NEW,
            release: Release::Done,
            repairs: Repairs::default(),
        }
    }

    /// Parameters with this connection's share of the backlog.
    fn control(&self) -> HopControl {
        let HopControl { backlog, held } = self.configured;
        HopControl { backlog: (backlog / self.sharing).max(LEAST_BACKLOG.min(backlog)), held }
    }

    /// Returns the limits for data held while the hop is busy: as much as the target queue in front of the hop. On a
    /// lossy hop a window more may be held. The sender gets no acknowledgment for a round trip of the hop while a hole
    /// is being repaired, and the held data keeps the hop busy meanwhile.
    fn allowance(&self, now: Instant) -> Allowance {
        let backlog = self.window.backlog(self.control());
        let is_lossy = self.window.base().is_some_and(|base| self.repairs.show_loss(now, base));
        let standing = if is_lossy { backlog + self.window.bytes() } else { backlog };
        Allowance { standing, least: self.window.first() }
    }

    /// Returns whether `len` more bytes may be sent, if `arrived` bytes of those on the hop are known to have arrived.
    fn admits(&mut self, now: Instant, len: u32, arrived: u64) -> Admission {
        if !self.window.admits(self.control(), len, arrived) {
            return Admission::Full;
        }
        let waits_until = self.window.pace().and_then(|pace| self.pacer.waits_until(now, pace));
        waits_until.map_or(Admission::Now, Admission::Paced)
    }

    /// Returns the time at which pacing releases more data, whether or not anything arrives before.
    pub fn paced(&self) -> Option<Instant> {
        if let Release::Paced(at) = self.release { Some(at) } else { None }
    }

    /// Counts `len` bytes as sent, whether for the first time or again.
    pub fn sent(&mut self, len: u32) {
        self.window.sent(len);
    }

    /// Charges the pacer for `len` bytes that are sent without waiting for it.
    pub fn leave(&mut self, now: Instant, len: u32) {
        if let Some(pace) = self.window.pace() {
            self.pacer.sent(now, pace, len);
        }
    }

    /// Records a repair of `len` bytes, which counts towards the pacing rate. All data seen ends at `high`.
    pub fn repair(&mut self, now: Instant, len: u32, high: Seq) {
        self.window.lose(now, self.next(high));
        self.repairs.note(now, self.window.base());
        self.leave(now, len);
    }

    /// Records that a packet leaves for the first time.
    fn depart<P: Payload>(&mut self, now: Instant, cached: &mut Cached<P>) {
        self.leave(now, cached.len);
        self.room.departed(now);
        cached.under_way = self.window.sent(cached.len);
        cached.arrived_before = self.window.arrived();
    }

    /// Records that `len` bytes arrived.
    pub fn landed(&mut self, len: u64) {
        self.window.landed(len);
    }

    /// Records that the fate of `len` bytes will remain unknown here.
    pub fn out_of_sight(&mut self, len: u64) {
        self.window.out_of_sight(len);
    }

    /// Records that `len` bytes are no longer held.
    pub fn unheld(&mut self, len: u32) {
        self.held = self.held.saturating_sub(len.into());
    }

    /// Returns whether more may be released at once.
    pub fn is_behind(&self) -> bool {
        self.release == Release::Behind
    }

    /// Takes a sample from the packet at `seq`, which was sent once and has arrived. All data seen ends at `high`.
    pub fn sample(&mut self, now: Instant, crossing: Crossing, seq: Seq, high: Seq) {
        self.window.sample(now, self.control(), crossing, seq, self.next(high));
    }

    /// Returns the start of the next data sent. All data seen ends at `high`.
    fn next(&self, high: Seq) -> Seq {
        if self.held > 0 { self.first_held } else { high }
    }
}

impl<P: Payload> Repair<P> {
    /// Returns whether there is no capacity for `len` more bytes that end at `end`. Data inside the advertised window
    /// always has capacity.
    pub fn is_full(&self, len: u32, end: Seq) -> bool {
        self.hop.as_ref().is_some_and(|hop| {
            hop.held > 0
                && hop.held + u64::from(len) > hop.configured.held.into()
                && hop.edge.is_none_or(|edge| end.gt(edge))
        })
    }

    /// Returns whether any data is held.
    pub fn holds(&self) -> bool {
        self.hop.as_ref().is_some_and(|hop| hop.held > 0)
    }

    /// Returns whether a retransmission by the sender is already being handled here: all of `seq..end` is cached, and
    /// the timer runs. The timer does not run after too many tries, with a closed window, or before the first
    /// acknowledgment, which never comes if the only packet seen of a connection is lost. Returns false as well if
    /// nothing has arrived for several timeouts: the hop may have been down, and the sender may learn sooner that it is
    /// up again.
    pub(super) fn is_repairing(
        &self,
        now: Instant,
        config: &SnoopConfig,
        seq: Seq,
        end: Seq,
        overlap: Overlap,
    ) -> bool {
        let Overlap::Covers { first, count } = overlap else { return false };
        self.hop.is_some()
            && now.since(self.arrivals.progress) < self.rtt.timeout(config).saturating_mul(PATIENCE)
            && self.cache.is_unbroken(first, count, seq, end)
            && matches!(self.timer(config), LocalTimer::Running(_))
    }

    /// Returns whether the timeout of the oldest packet was spurious: its acknowledgment arrives sooner than the hop
    /// could have delivered one for the copy. Then data sent before is not lost either, only late.
    pub(super) fn timed_out_early(&self, now: Instant) -> bool {
        let (Some(front), Some(hop)) = (self.cache.front(), &self.hop) else { return false };
        front.by_timer > 0 && hop.window.is_too_soon(now.since(front.again_sent))
    }

    /// Decides whether the packet just stored at `index` may be sent now.
    pub(super) fn admit(&mut self, now: Instant, index: usize, len: u32) -> Passage {
        let arrived = self.arrived_unmarked();
        let Some(cached) = self.cache.get_mut(index) else { return Passage::Now };
        let Some(hop) = &mut self.hop else {
            self.detection.order.leave(&mut cached.sendings, Priority::Normal);
            return Passage::Now;
        };
        hop.room.arrived(hop.configured, hop.allowance(now), now, cached.end, hop.held);
        if hop.held == 0 {
            match hop.admits(now, len, arrived) {
                Admission::Now => {
                    hop.depart(now, cached);
                    self.detection.order.leave(&mut cached.sendings, Priority::Normal);
                    return Passage::Now;
                }
                Admission::Full => hop.release = Release::Done,
                Admission::Paced(at) => hop.release = Release::Paced(at),
            }
            hop.first_held = cached.seq;
        }
        hop.held += u64::from(len);
        cached.whereabouts = Whereabouts::Held;
        Passage::Later
    }

    /// Sends the packets that the window admits now, behind the repairs.
    pub fn release(&mut self, now: Instant, out: &mut Outbox<P>) {
        if self.schedule.burst == Burst::None {
            self.release_beyond(now, 0, out);
        }
    }

    /// Sends the packets that the window admits now, and up to `beyond` more.
    pub(super) fn release_beyond(&mut self, now: Instant, mut beyond: u32, out: &mut Outbox<P>) {
        let (arrived, recent) = (self.arrived_unmarked(), self.recent());
        let Some(hop) = &mut self.hop else { return };
        hop.release = Release::Done;
        if hop.held == 0 {
            return;
        }
        let mut left = MOST_RELEASED;
        let mut index = self.cache.index_from(hop.first_held);
        while let Some(cached) = self.cache.get_mut(index) {
            let len = cached.len;
            if left == 0 {
                (hop.first_held, hop.release) = (cached.seq, Release::Behind);
                return;
            }
            left -= 1;
            if cached.whereabouts == Whereabouts::Held {
                let admission = hop.admits(now, len, arrived);
                if let Admission::Paced(at) = admission {
                    (hop.release, hop.first_held) = (Release::Paced(at), cached.seq);
                    return;
                }
                let admitted = admission == Admission::Now;
                if !admitted {
                    if beyond == 0 {
                        hop.first_held = cached.seq;
                        return;
                    }
                    beyond -= 1;
                }
                cached.whereabouts = Whereabouts::OnHop;
                (cached.last_sent, cached.first_sent, cached.again_sent) = (now, now, now);
                self.detection.order.leave(&mut cached.sendings, Priority::Normal);
                hop.depart(now, cached);
                if !admitted {
                    // In a silence, data in flight may arrive at any moment, all at once.
                    cached.under_way = 0;
                }
                hop.held = hop.held.saturating_sub(len.into());
                out.send(Port::WIRELESS, Why::Released, copy_of(&cached.packet, recent));
            }
            index += 1;
        }
        (hop.held, hop.release) = (0, Release::Done);
    }

    /// Returns the packet furthest ahead on the hop and the time at which it was sent, or `None` if it has arrived.
    pub(super) fn last_on_hop(&mut self) -> Option<(usize, Instant)> {
        let sent = match &self.hop {
            Some(hop) if hop.held > 0 => self.cache.index_from(hop.first_held),
            _ => self.cache.len(),
        };
        let index = sent.checked_sub(1)?;
        let last = self.cache.get_mut(index).filter(|last| last.whereabouts == Whereabouts::OnHop)?;
        Some((index, last.last_sent))
    }

    /// Returns the maximum number of new packets that may be sent beyond the window in a silence.
    pub(super) fn most_probes(&self) -> u32 {
        self.hop.as_ref().map_or(0, |hop| hop.window.segments() as u32).max(MOST_PROBES)
    }

    /// Returns the interval between spaced repairs: the time in which the hop has recently delivered as much.
    pub(super) fn spacing(&self) -> Duration {
        let parts = self.hop.as_ref().map(|hop| hop.window.segments() / u64::from(SPACED));
        self.rtt.spacing(self.schedule.unanswered, parts)
    }

    /// Sets the number of connections that share the backlog in front of the hop, at least 1.
    pub fn share_backlog(&mut self, sharing: u32) {
        if let Some(hop) = &mut self.hop {
            hop.sharing = sharing.max(1);
        }
    }

    /// Applies new parameters. With `None`, all held data is released.
    pub fn set_control(&mut self, now: Instant, control: Option<HopControl>, out: &mut Outbox<P>) {
        match (&mut self.hop, control) {
            (Some(hop), Some(control)) => hop.configured = control,
            (_, None) => self.flush(now, out),
            (None, Some(_)) => {}
        }
    }

    /// Releases held data regardless of the window and of repairs, as much as may be sent at once.
    pub(super) fn let_go(&mut self, now: Instant, out: &mut Outbox<P>) {
        if let Some(hop) = &mut self.hop {
            hop.window.open();
        }
        self.release_beyond(now, 0, out);
    }

    /// Releases all held data and disables flow control.
    pub fn flush(&mut self, now: Instant, out: &mut Outbox<P>) {
        while self.holds() {
            self.let_go(now, out);
        }
        self.hop = None;
    }

    /// Reduces the window in an acknowledgment to the base station's capacity.
    pub(super) fn clamp_receive_window(&mut self, packet: &mut Packet<P>) {
        let (high, shift) = (self.stream.high, self.tracking.shift(self.side.peer()));
        let Some(hop) = &mut self.hop else { return };
        let (Some(shift), Body::Tcp(segment)) = (shift, &mut packet.body) else { return };
        let room = u64::from(hop.room.bytes(hop.configured)).saturating_sub(hop.held) as u32;
        let edge = high + room;
        let edge = hop.edge.map_or(edge, |advertised| advertised.max(edge));
        let window = u32::from(segment.window) << shift;
        let allowed = edge.since(segment.ack);
        if window > allowed {
            segment.window = u16::try_from(allowed >> shift).unwrap_or(u16::MAX).min(segment.window);
        }
        hop.edge = Some(edge);
    }

    /// Returns the right edge that the sender knows after an acknowledgment passes unchanged.
    pub fn edge_with(&self, segment: &Segment) -> Option<Seq> {
        let shift = self.tracking.shift(self.side.peer())?;
        let edge = segment.ack + (u32::from(segment.window) << shift);
        self.hop.as_ref().map(|hop| hop.edge.map_or(edge, |advertised| advertised.max(edge)))
    }

    /// Returns the right edge last advertised to the sender.
    pub(super) fn edge(&self) -> Option<Seq> {
        self.hop.as_ref().and_then(|hop| hop.edge)
    }

    /// Sets the right edge that the sender knows, so that it does not move left.
    pub fn set_edge(&mut self, edge: Option<Seq>) {
        if let Some(hop) = &mut self.hop {
            hop.edge = edge;
        }
    }

    /// Returns the number of bytes that duplicate acknowledgments without blocks show to have arrived.
    fn arrived_unmarked(&self) -> u64 {
        let len = self.cache.front().map_or(0, |front| front.len);
        u64::from(self.duplicates.above()) * u64::from(len)
    }
}

#[cfg(test)]
impl<P: Payload> Repair<P> {
    /// Checks the invariants of flow control.
    pub(super) fn check_hop(&self) {
        let bytes = |wanted| -> u64 {
            let packets = self.cache.unprocessed().filter(|packet| packet.whereabouts == wanted);
            packets.map(|packet| u64::from(packet.len)).sum()
        };
        let Some(hop) = &self.hop else {
            assert_eq!(bytes(Whereabouts::Held), 0);
            return;
        };
        assert_eq!(hop.held, bytes(Whereabouts::Held));
        assert_eq!(hop.window.in_flight(), bytes(Whereabouts::OnHop));
        let first = self.cache.unprocessed().find(|packet| packet.whereabouts == Whereabouts::Held);
        assert!(first.is_none_or(|first| hop.first_held.le(first.seq)), "{}", hop.first_held);
    }
}
