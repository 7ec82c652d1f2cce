//! Flow control on the hop: what is held at the base station, when it goes, and how the sender is kept from sending more.
//!
//! The sender's congestion window is of no use here: on a lossy hop it must not follow losses, and what the base station hides from
//! it is all that it could follow. Its *receive* window does it instead: the right edge in acknowledgments is drawn in to what
//! the base station has room for. No edge ever moves left, and nothing is acknowledged but by the mobile host.

use super::timestamps::copy_of;
use super::{MOST_PROBES, Outbox, Repair, SPACED};
use crate::node::{Port, Why};
use crate::packet::{Body, Packet, Payload, Priority, Segment};
use crate::pep::cache::{Cached, Overlap, Whereabouts};
use crate::pep::hop_window::{Crossing, HopControl, HopWindow, Pacer};
use crate::pep::sender_room::{Allowance, SenderRoom};
use crate::pep::snoop_config::SnoopConfig;
use crate::seq::Seq;
use crate::time::{Duration, Instant};

/// Local timeouts without an arrival after which the sender's own retransmissions pass.
const PATIENCE: u64 = 4;

/// Minimum backlog of a connection that shares the hop with others, in segments: a queue of one may be empty between two of them.
const LEAST_BACKLOG: u32 = 2;

/// Number of round trips on the hop after a repair for which the hop may count as lossy. A stall lasts about one round trip, so that
/// stalls after rarer losses cost less than 2 %.
const LOSSY_ROUNDS: u64 = 50;

/// Number of round trips that repairs must span before the hop counts as lossy. A slow start that overflows the queue is repaired
/// sooner.
const OVERSHOOT_ROUNDS: u64 = 8;

/// Most packets that go at once, however much room there is: bounds what an acknowledgment can cost.
const MOST_RELEASED: u32 = 64;

/// Flow control of one connection.
#[derive(Clone, Debug)]
pub(in crate::pep) struct Hop {
    /// As configured.
    configured: HopControl,
    /// Number of connections that share the configured backlog, this one included.
    sharing: u32,
    window: HopWindow,
    room: SenderRoom,
    /// Bytes held.
    held: u64,
    /// Where they begin.
    first_held: Seq,
    /// The right edge that the sender has been told.
    edge: Option<Seq>,
    pacer: Pacer,
    /// Whether packets went, and there may be room for more.
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

/// How far it got when packets went last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    Done,
    Behind,
    /// There is room, but it is too soon.
    Paced(Instant),
}

/// Whether a packet may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Admission {
    Now,
    /// Once another has arrived.
    Full,
    Paced(Instant),
}

/// What becomes of new data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pep) enum Passage {
    /// It goes now.
    Now,
    /// It waits in the cache.
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

    /// Limits for data that is held while the hop is busy: as much as is to wait in front of the hop. While a hole is being repaired, the
    /// sender gets no acknowledgment for a round trip of the hop. The hop stays busy only if a window more is held then.
    fn allowance(&self, now: Instant) -> Allowance {
        let backlog = self.window.backlog(self.control());
        let is_lossy = self.window.base().is_some_and(|base| self.repairs.show_loss(now, base));
        let standing = if is_lossy { backlog + self.window.bytes() } else { backlog };
        Allowance { standing, least: self.window.first() }
    }

    /// Whether `len` bytes more may go, when `arrived` bytes of those on the hop are known to have arrived.
    fn admits(&mut self, now: Instant, len: u32, arrived: u64) -> Admission {
        if !self.window.admits(self.control(), len, arrived) {
            return Admission::Full;
        }
        let waits_until = self.window.pace().and_then(|pace| self.pacer.waits_until(now, pace));
        waits_until.map_or(Admission::Now, Admission::Paced)
    }

    /// When more may go, whether or not anything arrives before.
    pub fn paced(&self) -> Option<Instant> {
        if let Release::Paced(at) = self.release { Some(at) } else { None }
    }

    /// `len` bytes sent again, or for the first time.
    pub fn sent(&mut self, len: u32) {
        self.window.sent(len);
    }

    /// `len` bytes leave that nothing waits for: they have their part of the rate.
    pub fn leave(&mut self, now: Instant, len: u32) {
        if let Some(pace) = self.window.pace() {
            self.pacer.sent(now, pace, len);
        }
    }

    /// Notes a repair of `len` bytes, which takes its part of the rate.
    pub fn repair(&mut self, now: Instant, len: u32) {
        self.repairs.note(now, self.window.base());
        self.leave(now, len);
    }

    /// A packet leaves for the first time.
    fn depart<P: Payload>(&mut self, now: Instant, cached: &mut Cached<P>) {
        self.leave(now, cached.len);
        self.room.departed(now);
        cached.under_way = self.window.sent(cached.len);
        cached.arrived_before = self.window.arrived();
    }

    /// `len` bytes arrived.
    pub fn landed(&mut self, len: u64) {
        self.window.landed(len);
    }

    /// Nobody here will learn what becomes of `len` bytes.
    pub fn out_of_sight(&mut self, len: u64) {
        self.window.out_of_sight(len);
    }

    /// `len` bytes are not held any more.
    pub fn unheld(&mut self, len: u32) {
        self.held = self.held.saturating_sub(len.into());
    }

    /// Whether more may go at once.
    pub fn is_behind(&self) -> bool {
        self.release == Release::Behind
    }

    /// A packet at `seq` that was sent once has arrived; all data seen ends at `high`.
    pub fn sample(&mut self, now: Instant, crossing: Crossing, seq: Seq, high: Seq) {
        let next = if self.held > 0 { self.first_held } else { high };
        self.window.sample(now, self.control(), crossing, seq, next);
    }
}

impl<P: Payload> Repair<P> {
    /// Whether there is no room for `len` bytes more, which end at `end`. There is for all that the sender was allowed.
    pub fn is_full(&self, len: u32, end: Seq) -> bool {
        self.hop.as_ref().is_some_and(|hop| {
            hop.held > 0
                && hop.held + u64::from(len) > hop.configured.held.into()
                && hop.edge.is_none_or(|edge| end.gt(edge))
        })
    }

    /// Whether anything waits.
    pub fn holds(&self) -> bool {
        self.hop.as_ref().is_some_and(|hop| hop.held > 0)
    }

    /// Whether the sender resends what is being taken care of here: all of `seq..end` is cached, and the timer runs. It does not
    /// after too many tries, with a closed window, nor before the first acknowledgment, which never comes where the only packet
    /// seen of a connection is lost. Nor when nothing has arrived for several timeouts: the hop may have been down, and the sender
    /// may know sooner that it is up again.
    pub(super) fn has_in_hand(&self, now: Instant, config: &SnoopConfig, seq: Seq, end: Seq, overlap: Overlap) -> bool {
        let Overlap::Covers { first, count } = overlap else { return false };
        self.hop.is_some()
            && now.since(self.progress) < self.rtt.timeout(config).saturating_mul(PATIENCE)
            && self.cache.is_unbroken(first, count, seq, end)
            && self.timer(config).is_some()
    }

    /// Whether what is being acknowledged was not lost when its timer resent it: the acknowledgment is here sooner than the hop
    /// could have brought one for the copy. Then what was sent before is not lost either, only late.
    pub(super) fn timed_out_early(&self, now: Instant) -> bool {
        let (Some(front), Some(hop)) = (self.cache.front(), &self.hop) else { return false };
        front.by_timer > 0 && hop.window.is_too_soon(now.since(front.again_sent))
    }

    /// Says whether the packet just stored at `index` may go now.
    pub(super) fn admit(&mut self, now: Instant, index: usize, len: u32) -> Passage {
        let arrived = self.arrived_unmarked();
        let Some(cached) = self.cache.get_mut(index) else { return Passage::Now };
        let Some(hop) = &mut self.hop else {
            self.order.leave(&mut cached.sendings, Priority::Normal);
            return Passage::Now;
        };
        hop.room.arrived(hop.configured, hop.allowance(now), now, cached.end, hop.held);
        if hop.held == 0 {
            match hop.admits(now, len, arrived) {
                Admission::Now => {
                    hop.depart(now, cached);
                    self.order.leave(&mut cached.sendings, Priority::Normal);
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

    /// Sends what the window has room for by now, behind the repairs.
    pub fn release(&mut self, now: Instant, out: &mut Outbox<P>) {
        if self.owed.is_none() {
            self.release_beyond(now, 0, out);
        }
    }

    /// The same, and up to `beyond` packets for which it has none.
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
                self.order.leave(&mut cached.sendings, Priority::Normal);
                hop.depart(now, cached);
                if !admitted {
                    // In a silence what is under way may arrive at any moment, all together.
                    cached.under_way = 0;
                }
                hop.held = hop.held.saturating_sub(len.into());
                out.send(Port::WIRELESS, Why::Released, copy_of(&cached.packet, recent));
            }
            index += 1;
        }
        (hop.held, hop.release) = (0, Release::Done);
    }

    /// The packet that is furthest on the hop, and when it left: nothing where it has arrived.
    pub(super) fn last_on_hop(&mut self) -> Option<(usize, Instant)> {
        let sent = match &self.hop {
            Some(hop) if hop.held > 0 => self.cache.index_from(hop.first_held),
            _ => self.cache.len(),
        };
        let index = sent.checked_sub(1)?;
        let last = self.cache.get_mut(index).filter(|last| last.whereabouts == Whereabouts::OnHop)?;
        Some((index, last.last_sent))
    }

    /// Packets of new data that may go beyond the window in a silence.
    pub(super) fn most_probes(&self) -> u32 {
        self.hop.as_ref().map_or(0, |hop| hop.window.segments() as u32).max(MOST_PROBES)
    }

    /// The time between what goes spaced: what the hop has taken for as much of late.
    pub(super) fn spacing(&self) -> Duration {
        let parts = self.hop.as_ref().map(|hop| hop.window.segments() / u64::from(SPACED));
        self.rtt.spacing(self.in_vain, parts)
    }

    /// Sets the number of connections that share the backlog in front of the hop, at least 1.
    pub fn share_backlog(&mut self, sharing: u32) {
        if let Some(hop) = &mut self.hop {
            hop.sharing = sharing.max(1);
        }
    }

    /// Takes other parameters; without any, all that is held goes.
    pub fn set_control(&mut self, now: Instant, control: Option<HopControl>, out: &mut Outbox<P>) {
        match (&mut self.hop, control) {
            (Some(hop), Some(control)) => hop.configured = control,
            (_, None) => self.flush(now, out),
            (None, Some(_)) => {}
        }
    }

    /// Sends what is held without regard to the hop or to repairs, as much as may go at once.
    pub(super) fn let_go(&mut self, now: Instant, out: &mut Outbox<P>) {
        if let Some(hop) = &mut self.hop {
            hop.window.open();
        }
        self.release_beyond(now, 0, out);
    }

    /// Sends all that is held: there is no flow control from now on.
    pub fn flush(&mut self, now: Instant, out: &mut Outbox<P>) {
        while self.holds() {
            self.let_go(now, out);
        }
        self.hop = None;
    }

    /// Draws the window in an acknowledgment in to what there is room for.
    pub(super) fn draw_in(&mut self, packet: &mut Packet<P>) {
        let (high, shift) = (self.high, self.tracking.shift(self.side.peer()));
        let Some(hop) = &mut self.hop else { return };
        let (Some(shift), Body::Tcp(segment)) = (shift, &mut packet.body) else { return };
        let room = u64::from(hop.room.bytes(hop.configured)).saturating_sub(hop.held) as u32;
        let edge = high + room;
        let edge = hop.edge.map_or(edge, |told| told.max(edge));
        let window = u32::from(segment.window) << shift;
        let allowed = edge.since(segment.ack);
        if window > allowed {
            segment.window = u16::try_from(allowed >> shift).unwrap_or(u16::MAX).min(segment.window);
        }
        hop.edge = Some(edge);
    }

    /// The right edge that the sender knows once an acknowledgment passes as it is.
    pub fn edge_with(&self, segment: &Segment) -> Option<Seq> {
        let shift = self.tracking.shift(self.side.peer())?;
        let edge = segment.ack + (u32::from(segment.window) << shift);
        self.hop.as_ref().map(|hop| hop.edge.map_or(edge, |told| told.max(edge)))
    }

    /// The right edge that the sender was told.
    pub(super) fn edge(&self) -> Option<Seq> {
        self.hop.as_ref().and_then(|hop| hop.edge)
    }

    /// The sender knows this right edge: it does not move left.
    pub fn tell_edge(&mut self, edge: Option<Seq>) {
        if let Some(hop) = &mut self.hop {
            hop.edge = edge;
        }
    }

    /// Bytes that duplicate acknowledgments without blocks show to have arrived.
    fn arrived_unmarked(&self) -> u64 {
        let len = self.cache.front().map_or(0, |front| front.len);
        u64::from(self.above) * u64::from(len)
    }
}
