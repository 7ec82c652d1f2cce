//! One connection at the base station: what is cached, which packets the wireless hop lost, and when to resend them.

mod acks;
mod answers;
mod arrivals;
mod backoff;
mod budget;
mod copies;
mod data;
mod detection;
mod duplicates;
mod extra_copies;
mod hop;
mod link_rtt;
mod news;
mod order;
#[cfg(test)]
mod properties;
mod reordering;
mod reports;
mod schedule;
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
use crate::packet::{Cause, FlowId, Packet, Payload, Priority, Side};
use crate::seq::Seq;
use crate::time::Instant;
pub(super) use acks::AckVerdict;
use acks::Stream;
use answers::Answers;
use arrivals::Arrivals;
use backoff::Backoff;
use budget::Budget;
pub(super) use data::{DataVerdict, Place};
use detection::{Detection, Reports};
use duplicates::Duplicates;
use hop::Hop;
pub(super) use hop::Passage;
use link_rtt::LinkRtt;
pub(super) use news::{Heard, News};
use schedule::Schedule;
use signals::Signals;
pub(super) use sizes::Sizes;
use states::{Burst, LocalTimer, Responsibility, Scan};
use timestamps::copy_of;

/// Maximum number of repairs triggered by one acknowledgment: `LEAST_REPAIRS`, enough for most bursts, plus one per
/// packet that has arrived, up to `MOST_REPAIRS` more. The rest are sent at the rate at which packets leave the hop: no
/// acknowledgment triggers a whole window.
const LEAST_REPAIRS: u32 = 4;
const MOST_REPAIRS: u32 = 16;

/// Number of spaced repairs sent at a time.
const SPACED: u32 = 2;

/// Minimum limit of new packets sent in a silence, even beyond the window on the hop. The limit is a window if that is
/// more.
const MOST_PROBES: u32 = 8;

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
    arrivals: Arrivals,
    backoff: Backoff,
    responsibility: Responsibility,
    duplicates: Duplicates,
    detection: Detection,
    schedule: Schedule,
    /// Latest timestamp of the sender's retransmissions, until the mobile host has echoed it.
    newest_timestamp: Option<u32>,
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
            arrivals: Arrivals::new(now),
            backoff: Backoff { doublings: 0, recover: start },
            responsibility: Responsibility::new(config.begin),
            duplicates: Duplicates::new(start),
            detection: Detection::new(),
            schedule: Schedule::IDLE,
            newest_timestamp: None,
            sizes: Sizes::default(),
            budget: Budget::new(now),
            hop: config.hop_control().map(|control| Hop::new(control, start)),
        }
    }

    /// Returns whether losses are left to the sender: all packets pass, and the connection is only tracked.
    fn is_left_to_sender(&self, now: Instant) -> bool {
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
    pub(super) fn repairs_alone(&self, now: Instant) -> bool {
        self.hop.is_some() || self.responsibility.is_activated(now)
    }

    /// Discards the held data of a removed connection.
    pub fn drop_held(&mut self) {
        self.hop = None;
    }

    fn resend(&mut self, now: Instant, index: usize, trigger: Trigger, out: &mut Outbox<P>) {
        if let Some(cached) = self.cache.get_mut(index)
            && self.sizes.is_futile(cached.len, cached.first_sent, cached.local)
        {
            return;
        }
        let recent = self.recent();
        if index == 0 && trigger == Trigger::Hole {
            self.schedule_extra_copies(now);
        }
        let in_charge = self.repairs_alone(now);
        if let Some(cached) = self.cache.get_mut(index) {
            let proven = trigger != Trigger::Timer && !cached.sent_again();
            cached.unproven = cached.unproven.saturating_add(u32::from(!proven));
            cached.repeat(now);
            let repeats = trigger == Trigger::Timer && in_charge && !self.detection.order.has_timed_out(cached);
            if repeats {
                self.detection.reordering.repeated(cached.seq);
                self.detection.order.repeat(&mut cached.sendings, out.repairs);
            } else {
                cached.again_sent = now;
                self.detection.order.leave(&mut cached.sendings, out.repairs);
            }
            self.detection.copies.by_base_station(cached.seq);
            if let Some(hop) = &mut self.hop {
                hop.repair(now, cached.len, self.stream.high);
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
