//! One connection at the base station: what is cached, which packets the wireless hop lost, and when to resend them.

mod acks;
mod answers;
mod budget;
mod copies;
mod data;
mod duplicates;
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

use super::cache::{Cache, Cached, Pace, Places};
use super::flow_table::Owner;
use super::snoop_config::SnoopConfig;
use super::tracking::Tracking;
use crate::event::Event;
use crate::node::{Port, Trigger, Why};
use crate::packet::{Cause, FlowId, Packet, Payload, Priority, SackBlocks, Side};
use crate::seq::Seq;
use crate::time::Instant;
pub(super) use acks::AckVerdict;
use acks::Stream;
use answers::Answers;
use budget::Budget;
use copies::Copies;
pub(super) use data::{DataVerdict, Place};
use duplicates::Duplicates;
use hop::Hop;
pub(super) use hop::Passage;
use insistence::Insistence;
use link_rtt::LinkRtt;
use masks::{Lost, Masks};
pub(super) use news::{Heard, News};
use order::Order;
use reordering::Reordering;
use signals::Signals;
pub(super) use sizes::Sizes;
use states::Responsibility;
use timestamps::copy_of;

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
    stream: Stream,
    answers: Answers<P>,
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
    duplicates: Duplicates,
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
    budget: Budget,
    /// Flow control on the hop, if enabled.
    hop: Option<Hop>,
}

impl<P: Payload> Repair<P> {
    /// Returns the state of a connection whose data comes from `side` and has passed by up to `start`.
    pub fn new(now: Instant, config: &SnoopConfig, side: Side, start: Seq, tracking: Tracking) -> Self {
        let stream = Stream { last_ack: tracking.acked(side), high: start, window: tracking.window(side) };
        let mut rtt = LinkRtt::default();
        rtt.opened(tracking.crossing(side));
        Self {
            side,
            entry: Entry::default(),
            cache: Cache::new(),
            tracking,
            stream,
            answers: Answers::NONE,
            rtt,
            heard: None,
            progress: now,
            echoed: now,
            fresh: now,
            timed_out: Instant::ZERO,
            doublings: 0,
            responsibility: Responsibility::new(config.begin),
            recover: start,
            duplicates: Duplicates::new(start),
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
            budget: Budget::new(now),
            hop: config.hop_control().map(|control| Hop::new(control, start)),
        }
    }

    /// Records that something has arrived.
    fn heard(&mut self, now: Instant) {
        self.progress = now;
        (self.doublings, self.in_vain) = (0, 0);
        self.pace = if self.holds() { Some(now + self.rtt.silence()) } else { self.overdue(now) };
    }

    /// Returns whether losses are left to the sender: all packets pass, and the connection is only tracked.
    fn sleeps(&self, now: Instant) -> bool {
        self.responsibility.is_senders(now)
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
}

/// Returns whether a packet arrived too early for its last transmission to have caused the arrival.
fn is_too_soon<P>(rtt: &LinkRtt, now: Instant, cached: &Cached<P>) -> bool {
    // An urgent copy overtakes the queue in which others wait.
    cached.sent_again() && !cached.sendings.is_urgent() && rtt.is_too_soon(now.since(cached.again_sent))
}

/// Returns the cause of a repair, for measurement.
const fn cause(trigger: Trigger) -> Cause {
    match trigger {
        Trigger::Duplicates => Cause::LocalDuplicate,
        Trigger::Hole | Trigger::Request => Cause::LocalHole,
        Trigger::Timer => Cause::LocalTimer,
    }
}

/// Returns whether the timer has resent a packet so often that it is left to the sender.
fn given_up<P>(front: &Cached<P>, config: &SnoopConfig) -> bool {
    front.by_timer > 0 && front.by_timer >= config.max_local_retries
}
