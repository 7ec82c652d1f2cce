//! Repair of QUIC by one device at the sending side of a lossy hop, without reading it.
//!
//! The device sees the time, direction, addresses and length of each datagram, and the form of its header (RFC 8999).
//! An acknowledgment becomes longer when the client misses packets, and shorter when it has them. The device holds
//! acknowledgments that reveal a gap, resends the missing datagrams from its copies, and releases the acknowledgments
//! when the gap is closed, so that the sender learns nothing of the loss. `docs/models/quic-snoop.md` has the rules.

mod alternatives;
mod case;
mod copies;
mod counts;
mod flow;
mod hop_time;
mod judge;
mod lengths;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};

use self::copies::Sent;
pub use self::counts::{Counts, Reason};
use self::flow::{Flow, Given, Out};
use super::flow_table::FlowTable;
use crate::event::Event;
use crate::node::{Disposition, Node, Port, Why};
use crate::packet::{Body, FlowId, HeaderForm, Integrity, Packet};
use crate::rate::Rate;
use crate::time::{Duration, Instant};

/// Conduct of a device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Conduct {
    /// Holds acknowledgments and sends copies.
    #[default]
    Repair,
    /// Passes everything at once, and counts the cases that it would have opened. The sender's own retransmissions
    /// confirm them.
    Observe,
}

/// Limits of the repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuicSnoopConfig {
    /// Conduct towards all connections.
    pub conduct: Conduct,
    /// Maximum number of connections with state; the least recently used one is evicted first.
    pub flows: usize,
    /// Maximum bytes of copies of a connection.
    pub copies: u64,
    /// Maximum bytes of copies of all connections.
    pub cache: u64,
    /// Longest time for which a returning datagram is held.
    pub hold: Duration,
    /// Number of frames in front of the hop above which a loss counts as congestion.
    pub queue: usize,
    /// Rate of the hop, for the time at which a queued datagram departs.
    pub rate: Rate,
}

/// Queueing delay above which a loss counts as congestion.
const QUEUE_TARGET: Duration = Duration::from_millis(5);

impl QuicSnoopConfig {
    /// Returns the defaults in front of a hop with that rate: 16,384 connections, 256 KiB of copies of each and 16 MiB
    /// in all, 25 ms, which is the default maximum acknowledgment delay (RFC 9000 §18.2), and a queue of 5 ms.
    pub const fn new(rate: Rate) -> Self {
        let frame = rate.time_for(1500).as_nanos();
        let queue = match QUEUE_TARGET.as_nanos().checked_div(frame) {
            Some(frames @ 4..) => frames as usize,
            Some(_) => 4,
            None => usize::MAX,
        };
        let (conduct, hold) = (Conduct::Repair, Duration::from_millis(25));
        Self { conduct, flows: 16_384, copies: 256 << 10, cache: 16 << 20, hold, queue, rate }
    }
}

/// A device that repairs QUIC downloads over the hop behind [`Port::WIRELESS`].
#[derive(Clone, Debug)]
pub struct QuicSnoop<P> {
    config: QuicSnoopConfig,
    flows: FlowTable<Flow<P>>,
    timers: BTreeSet<(Instant, u32)>,
    out: Out<P>,
    events: VecDeque<(FlowId, Event)>,
    /// Bytes of all copies.
    bytes: u64,
    /// Number of frames in front of the hop.
    waiting: usize,
    counts: Counts,
}

impl QuicSnoop<()> {
    /// Returns a device for packets without payload as a trait object, so that it is compiled in this crate.
    pub fn boxed(config: QuicSnoopConfig) -> Box<dyn Node<()>> {
        Box::new(Self::new(config))
    }
}

impl<P: Clone> QuicSnoop<P> {
    /// Returns a device without connections.
    pub fn new(config: QuicSnoopConfig) -> Self {
        Self {
            flows: FlowTable::new(config.flows),
            config,
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            events: VecDeque::new(),
            bytes: 0,
            waiting: 0,
            counts: Counts::default(),
        }
    }

    /// Sets the limits on memory, for all connections.
    pub fn set_cache(&mut self, cache: u64) {
        self.config.cache = cache;
    }

    /// Removes all connections. What is held of them is to be sent.
    pub fn clear(&mut self) {
        while let Some(oldest) = self.flows.oldest() {
            self.evict(oldest);
        }
    }

    /// Returns the number of connections with state.
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Returns the bytes of all copies.
    pub const fn cached_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns what was done so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the slot of a flow whose beginning was seen.
    fn slot(&mut self, now: Instant, flow: FlowId, form: HeaderForm) -> Option<u32> {
        if let Some(slot) = self.flows.find(flow) {
            self.flows.touch(slot);
            return Some(slot);
        }
        if form == HeaderForm::Short {
            return None;
        }
        if self.flows.is_full()
            && let Some(oldest) = self.flows.oldest()
        {
            self.evict(oldest);
        }
        self.flows.insert(flow, Flow::new(now, &self.config))
    }

    fn evict(&mut self, slot: u32) {
        let Some((flow, mut state)) = self.flows.remove(slot) else { return };
        if let Some(at) = state.timer {
            self.timers.remove(&(at, slot));
        }
        self.bytes -= state.copies.bytes();
        state.release(&mut self.out);
        self.events.push_back((flow, Event::Evicted));
    }

    /// Updates the timer of a flow and the sum of bytes, which were `bytes` of this flow before.
    fn settle(&mut self, slot: u32, bytes: u64) {
        let Some((_, flow)) = self.flows.get_mut(slot) else { return };
        self.bytes = self.bytes - bytes + flow.copies.bytes();
        let deadline = flow.deadline();
        // An entry that is too early is corrected when it is due.
        let is_early = flow.timer.is_some_and(|at| deadline.is_some_and(|deadline| at <= deadline));
        if flow.timer != deadline && !is_early {
            if let Some(at) = flow.timer {
                self.timers.remove(&(at, slot));
            }
            flow.timer = deadline;
            if let Some(at) = deadline {
                self.timers.insert((at, slot));
            }
        }
    }

    /// Discards the copies of the least recently used flows if all copies together exceed the limit.
    fn shrink(&mut self, slot: u32) {
        while self.bytes > self.config.cache {
            let Some(oldest) = self.flows.oldest() else { return };
            if oldest == slot {
                let Some((_, flow)) = self.flows.get_mut(slot) else { return };
                let bytes = flow.copies.bytes();
                flow.copies.clear();
                return self.settle(slot, bytes);
            }
            self.evict(oldest);
        }
    }

    fn take_data(&mut self, now: Instant, form: HeaderForm, packet: Packet<P>) {
        let Some(slot) = self.slot(now, packet.flow, form) else {
            return self.out.push_back((Port::WIRELESS, Why::Given, packet));
        };
        let (waiting, config) = (self.waiting, self.config);
        if let Some((_, flow)) = self.flows.get_mut(slot) {
            let bytes = flow.copies.bytes();
            flow.last = now;
            let wait = config.rate.time_for(packet.wire_len()).saturating_mul(waiting as u64);
            let departs = now + wait;
            if form == HeaderForm::Long {
                flow.hop.on_sent(departs);
            } else {
                flow.on_sent(&config, Sent { departs, waiting, resent_at: None, packet: packet.clone() });
            }
            self.settle(slot, bytes);
        }
        self.out.push_back((Port::WIRELESS, Why::Given, packet));
        self.shrink(slot);
    }

    fn take_return(&mut self, now: Instant, form: HeaderForm, packet: Packet<P>) -> Given {
        let Some(slot) = self.slot(now, packet.flow, form) else {
            self.out.push_back((Port::WIRED, Why::Given, packet));
            return Given::Passed;
        };
        let Some((_, flow)) = self.flows.get_mut(slot) else { return Given::Passed };
        let bytes = flow.copies.bytes();
        flow.last = now;
        let given = if form == HeaderForm::Long {
            flow.hop.on_handshake(now);
            self.out.push_back((Port::WIRED, Why::Given, packet));
            Given::Passed
        } else {
            flow.on_returned(now, packet, &mut self.out, &mut self.counts)
        };
        self.settle(slot, bytes);
        given
    }
}

impl<P: Clone> Node<P> for QuicSnoop<P> {
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition {
        let form = match packet.body {
            Body::Quic { form, .. } if packet.integrity == Integrity::Intact => form,
            _ => {
                self.out.push_back((port.across(), Why::Given, packet));
                return Disposition::Forwarded;
            }
        };
        let given = if port == Port::WIRED {
            self.take_data(now, form, packet);
            Given::Passed
        } else {
            self.take_return(now, form, packet)
        };
        match given {
            Given::Passed => Disposition::Forwarded,
            Given::Held => Disposition::Held,
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, slot)) = self.timers.first()
            && at <= now
        {
            self.timers.remove(&(at, slot));
            let Some((_, flow)) = self.flows.get_mut(slot) else { continue };
            flow.timer = None;
            let bytes = flow.copies.bytes();
            if flow.deadline().is_some_and(|deadline| deadline <= now) {
                flow.handle_timeout(now, &mut self.out, &mut self.counts);
            }
            self.settle(slot, bytes);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)> {
        let (port, why, packet) = self.out.pop_front()?;
        *place = packet;
        Some((port, why))
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn poll_event(&mut self) -> Option<(FlowId, Event)> {
        self.events.pop_front()
    }

    fn see_queue(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(slot) = self.flows.find(flow) {
            self.evict(slot);
        }
    }
}
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;
