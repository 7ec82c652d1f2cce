//! Measurement of delays and waiting times during a run, if requested. It does not affect the run.
//!
//! Each place of the packet pool has a stamp: the time when an end sent the packet, the time when it entered its
//! current queue, and its waiting time in earlier queues. Elements take packets out of the pool; a table of fixed size
//! for each element keeps the stamps of the packets that it holds. A packet whose stamp was overwritten there is
//! omitted from the distributions.

use lasthop_proto::node::Why;
use lasthop_proto::packet::{Body, Packet, Side};
use lasthop_proto::time::{Duration, Instant};

use crate::leg::LegId;
use crate::link::{Frame, Handle};
use crate::measure::{DelayHistogram, DelayStats, Delays};
use crate::network::{FlowSpec, Network};

/// Number of stamps kept for the packets that an element holds.
const HELD: usize = 8192;

/// Times of a packet in flight.
#[derive(Clone, Copy, Default)]
struct Stamp {
    /// Time at which an end sent the packet.
    sent: Instant,
    /// Time at which the packet reached its current link.
    queued: Instant,
    /// Waiting time at earlier links.
    waited: Duration,
    /// Indicates whether these times are known.
    known: bool,
}

/// Identity of a data packet: flow and side, and the start in its stream, or its number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64);

impl Key {
    const NONE: Self = Self(u64::MAX);

    fn of(packet: &Packet) -> Option<Self> {
        if !packet.has_data() {
            return None;
        }
        let number = match packet.body {
            Body::Tcp(segment) => segment.seq.0,
            Body::Datagram { number } | Body::Media { number } | Body::Quic { number, .. } => number,
            Body::Control | Body::Coded(_) | Body::Report(_) => return None,
        };
        let end = u64::from(packet.flow.0) << 1 | packet.from.index() as u64;
        Some(Self(end << 32 | u64::from(number)))
    }

    const fn slot(self) -> usize {
        // Fibonacci hashing, since segments start at multiples of the segment size.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % HELD
    }
}

/// Sum and number of measurements since the last query.
#[derive(Clone, Copy, Default, Debug)]
pub struct Recent {
    sum: u128,
    count: u64,
}

impl Recent {
    fn add(&mut self, delay: Duration) {
        self.sum += u128::from(delay.as_nanos());
        self.count += 1;
    }

    /// Returns the mean; `None` without measurements.
    pub fn mean(self) -> Option<Duration> {
        let mean = self.sum.checked_div(self.count.into())?;
        Some(Duration::from_nanos(mean.try_into().unwrap_or(u64::MAX)))
    }
}

/// Measurements of a flow.
struct FlowMeter {
    /// End that sends the flow's data.
    sender: Side,
    rtt: DelayHistogram,
    queueing: DelayHistogram,
    one_way: DelayHistogram,
    /// Payload bytes that this end sent.
    sent: u64,
    /// Round-trip times, or one-way delays of datagrams, since [`Meter::take_recent`].
    recent: Recent,
}

/// Measurements of a run.
pub struct Meter {
    stamps: Vec<Stamp>,
    legs: Vec<DelayHistogram>,
    flows: Vec<FlowMeter>,
    /// Stamps of the packets that entered each element.
    held: Vec<Vec<(Key, Stamp)>>,
}

impl Meter {
    /// Creates a meter for a run of `network`.
    pub fn new(network: &Network) -> Self {
        let flow = |flow: &FlowSpec| FlowMeter {
            sender: flow.app.counted_at().peer(),
            rtt: DelayHistogram::default(),
            queueing: DelayHistogram::default(),
            one_way: DelayHistogram::default(),
            sent: 0,
            recent: Recent::default(),
        };
        Self {
            stamps: Vec::new(),
            legs: vec![DelayHistogram::default(); 2 * network.links.len()],
            flows: network.flows.iter().map(flow).collect(),
            held: vec![Vec::new(); network.elements.len()],
        }
    }

    #[inline]
    fn stamp(&mut self, handle: Handle) -> &mut Stamp {
        let place = handle.0 as usize;
        if place >= self.stamps.len() {
            self.grow(place);
        }
        &mut self.stamps[place]
    }

    /// Creates the stamps up to `place`. Not inlined: the callers would save registers for its loop, for each packet.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, place: usize) {
        self.stamps.resize(place + 1, Stamp::default());
    }

    /// Records that an endpoint sends a packet, which reaches its first link at once.
    #[inline]
    pub fn originate(&mut self, now: Instant, index: usize, frame: Frame) {
        *self.stamp(frame.handle()) = Stamp { sent: now, queued: now, waited: Duration::ZERO, known: true };
        let flow = &mut self.flows[index / 2];
        if flow.sender.index() == index % 2 {
            flow.sent += u64::from(frame.payload());
        }
    }

    /// Records that a packet reaches a link at `at`.
    #[inline]
    pub fn queue(&mut self, at: Instant, handle: Handle) {
        self.stamp(handle).queued = at;
    }

    /// Records that a packet passes a link without waiting, and reaches the next one at `at`.
    #[inline]
    pub fn pass(&mut self, leg: LegId, handle: Handle, at: Instant) {
        self.legs[leg.0 as usize].add_zero();
        self.stamp(handle).queued = at;
    }

    /// Records that a packet has crossed a link. Its transmission began at `start`.
    #[inline]
    pub fn cross(&mut self, leg: LegId, handle: Handle, start: Instant) {
        let stamp = self.stamp(handle);
        let wait = start.since(stamp.queued);
        stamp.waited = stamp.waited + wait;
        self.legs[leg.0 as usize].add(wait);
    }

    /// Records that the packet at `to` is a copy of the one at `from`.
    pub fn copy(&mut self, from: Handle, to: Handle) {
        *self.stamp(to) = *self.stamp(from);
    }

    /// Records that a packet enters an element, which takes it out of the pool.
    pub fn enter(&mut self, element: usize, handle: Handle, packet: &Packet) {
        let stamp = *self.stamp(handle);
        let held = &mut self.held[element];
        if held.is_empty() {
            held.resize(HELD, (Key::NONE, Stamp::default()));
        }
        if let Some(key) = Key::of(packet) {
            held[key.slot()] = (key, stamp);
        }
    }

    /// Records that an element sends a packet.
    pub fn leave(&mut self, now: Instant, element: usize, why: Why, handle: Handle, packet: &Packet) {
        let of_its_own = Stamp { sent: now, queued: now, waited: Duration::ZERO, known: true };
        let found = || {
            let key = Key::of(packet)?;
            let (of, stamp) = self.held[element].get(key.slot())?;
            (*of == key).then_some(*stamp)
        };
        let stamp = if why == Why::Own { of_its_own } else { found().unwrap_or_default() };
        *self.stamp(handle) = stamp;
    }

    /// Records that a packet has arrived at the endpoint with this index, which does not send its flow's data.
    #[inline]
    pub fn deliver(&mut self, now: Instant, index: usize, handle: Handle, packet: &Packet) {
        let Stamp { sent, waited, known, .. } = *self.stamp(handle);
        if !known || !packet.has_data() {
            return;
        }
        let flow = &mut self.flows[index / 2];
        flow.queueing.add(waited);
        if let Body::Datagram { .. } | Body::Media { .. } = packet.body {
            flow.one_way.add(now.since(sent));
            flow.recent.add(now.since(sent));
        }
    }

    /// Returns whether the endpoint with this index sends its flow's data. Only its round-trip times are measured.
    #[inline]
    pub fn samples(&self, index: usize) -> bool {
        self.flows[index / 2].sender.index() == index % 2
    }

    /// Adds a round-trip time sampled by the sender of the flow with this index.
    pub fn sample(&mut self, flow: usize, rtt: Duration) {
        let flow = &mut self.flows[flow];
        flow.rtt.add(rtt);
        flow.recent.add(rtt);
    }

    /// Adds delays of a flow's datagrams that were measured elsewhere. They wait at a single link.
    pub fn add(&mut self, flow: usize, leg: LegId, (waits, one_way): (&DelayHistogram, &DelayHistogram), sent: u64) {
        self.legs[leg.0 as usize].merge(waits);
        let flow = &mut self.flows[flow];
        flow.queueing.merge(waits);
        flow.one_way.merge(one_way);
        flow.sent += sent;
    }

    /// Returns the round-trip times, or one-way delays of datagrams, of a flow since the last call.
    pub fn take_recent(&mut self, flow: usize) -> Recent {
        std::mem::take(&mut self.flows[flow].recent)
    }

    /// Returns the number of payload bytes that the data sender of the flow with this index has sent.
    pub fn sent(&self, flow: usize) -> u64 {
        self.flows[flow].sent
    }

    /// Returns the delays of the flow with this index.
    pub fn of_flow(&self, flow: usize) -> Delays {
        let FlowMeter { rtt, queueing, one_way, .. } = &self.flows[flow];
        Delays { rtt: rtt.stats(), queueing: queueing.stats(), one_way: one_way.stats() }
    }

    /// Returns the delays of all flows together.
    pub fn of_all(&self) -> Delays {
        let all = |of: fn(&FlowMeter) -> &DelayHistogram| {
            let mut all = DelayHistogram::default();
            self.flows.iter().for_each(|flow| all.merge(of(flow)));
            all.stats()
        };
        Delays { rtt: all(|flow| &flow.rtt), queueing: all(|flow| &flow.queueing), one_way: all(|flow| &flow.one_way) }
    }

    /// Returns the times that frames waited in the queue of a leg; `None` without frames.
    pub fn of_leg(&self, leg: usize) -> Option<DelayStats> {
        self.legs[leg].stats()
    }
}
