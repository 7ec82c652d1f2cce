//! The contract between mechanisms and drivers.

use crate::event::Event;
use crate::host_queue::{Departure, Queued};
use crate::packet::{FlowId, Packet};
use crate::time::Instant;

/// Attachment of a node. Endpoints have port 0 only; elements on a path have [`Port::WIRED`] and [`Port::WIRELESS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port(pub u16);

impl Port {
    /// The only port of an endpoint.
    pub const ONLY: Self = Self(0);
    /// Port towards the rest of the network.
    pub const WIRED: Self = Self(0);
    /// Port towards the lossy hop.
    pub const WIRELESS: Self = Self(1);

    /// Returns the other port of an element on a path, where packets from this one leave.
    #[inline]
    pub const fn across(self) -> Self {
        match self {
            Self::WIRED => Self::WIRELESS,
            _ => Self::WIRED,
        }
    }
}

/// Result of passing a packet to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// Forwarded unchanged: the packet is among the node's output, with [`Why::Given`].
    Forwarded,
    /// Forwarded with changed headers: the packet is among the node's output, with [`Why::Given`].
    Changed,
    /// Consumed: the node is an endpoint, has answered the packet, or has learned all that the packet carries.
    Absorbed,
    /// Kept: the node may send the packet later, with [`Why::Released`].
    Held,
    /// Dropped, because there is no capacity for the packet, or it is no longer useful.
    Dropped,
}

/// Reason for sending a packet. Drivers act on it; the more detailed [`crate::packet::Cause`] is for measurement only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The packet passed to the node last; [`Disposition`] says whether it was changed.
    Given,
    /// A packet passed to the node before, and held.
    Released,
    /// A copy of a packet sent before, which may be lost.
    Repair(Trigger),
    /// A repeated acknowledgment of the far end, in answer to data that arrived there before, or in place of an
    /// acknowledgment lost on the way.
    LocalAck,
    /// A control frame for the node at the other end of the hop.
    Control,
    /// A packet of a connection that ends at the node.
    Own,
}

/// Reason for sending a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Duplicate acknowledgments indicate the loss.
    Duplicates,
    /// The far end's report of received data shows the loss.
    Hole,
    /// The other end of the hop requests the frame.
    Request,
    /// No acknowledgment arrived for too long; the loss is not certain.
    Timer,
}

/// Any component that handles packets, as a state machine without I/O.
///
/// The driver calls [`handle_packet`](Node::handle_packet) or [`handle_timeout`](Node::handle_timeout), then polls
/// [`poll_transmit`](Node::poll_transmit) and [`poll_event`](Node::poll_event) until both are empty, then reads
/// [`poll_deadline`](Node::poll_deadline). [`pump`] does the polling. The rules:
///
/// * Time never runs backwards from one call to the next. The driver ensures this; the simulator checks each event in
///   debug builds.
/// * After draining, the deadline lies in the future. [`pump`] checks this in debug builds.
/// * A call of `handle_timeout` before the deadline has no effect, which the nodes' property tests check. The exception
///   is a connection that has deferred a burst: it may send it then
///   ([`Connection::ignores_early_timeouts`](crate::tcp::Connection::ignores_early_timeouts)).
/// * Timers are handled in `handle_timeout` only: polling returns only pending output.
/// * A packet that is [`Disposition::Forwarded`] or [`Disposition::Changed`] is among the next output, once.
///
/// State machines that are not nodes (one end of a two-ended hop, of the tunnel or of a probe; the engines of gateway
/// and tunnel; applications of the simulator) use the same verbs: `handle_*` takes input, `poll_*` returns output, and
/// `poll_deadline` returns the time at which to call `handle_timeout`.
pub trait Node<P> {
    /// Processes a packet that arrived at `port`, and returns its disposition.
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition;

    /// Handles all deadlines that have passed. Has no effect when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next packet to send into `place`, and returns its port and the reason. The previous contents of
    /// `place` have no meaning and stay if there is no packet.
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)>;

    /// Returns the time at which to call [`handle_timeout`](Node::handle_timeout) next.
    fn poll_deadline(&self) -> Option<Instant>;

    /// Returns the next event to report.
    fn poll_event(&mut self) -> Option<(FlowId, Event)>;

    /// Sets the number of frames that wait in front of the node's link, on its side. Called before
    /// [`handle_timeout`](Node::handle_timeout) for a node that requires it of its driver.
    fn see_queue(&mut self, _waiting: usize) {}

    /// Records the time at which the packet that was polled last begins transmission, if it waits for that. A node that
    /// limits its share of the host's queue ([`HostQueue`](crate::host_queue::HostQueue)) requires a driver that calls
    /// this.
    fn schedule_departure(&mut self, _now: Instant, _queued: Queued) {}

    /// Records that a packet with `bytes` of payload, whose departure was [`Departure::Unknown`], begins transmission
    /// or was dropped.
    fn handle_departure(&mut self, _now: Instant, _bytes: u32) {}

    /// Records that both ends of `flow` have discarded its connection and start another under the same number, which in
    /// a real network would have other ports. Concerns only nodes that terminate connections.
    fn forget(&mut self, _flow: FlowId) {}

    /// Returns the number of bytes of state on which the ends of connections depend: another node needs it to take over
    /// from this one.
    fn hard_state(&self) -> u64 {
        0
    }
}

/// Output of a node, which [`pump`] delivers in the order in which it happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output<P> {
    /// A packet to send, its port, and the reason.
    Transmit(Port, Why, Packet<P>),
    /// An event to report.
    Event(FlowId, Event),
}

/// Receiver of a node's output.
pub trait Sink<P> {
    /// Returns the place for the next packet.
    fn place(&mut self) -> &mut Packet<P>;

    /// Sends the packet in that place out of `port`. Returns the time at which the packet begins transmission, if the
    /// driver tracks it.
    fn transmit(&mut self, port: Port, why: Why) -> Queued;

    /// Reports an event.
    fn event(&mut self, flow: FlowId, event: Event);
}

/// Adapter from a closure to a sink.
struct Closure<P, F> {
    place: Packet<P>,
    sink: F,
}

impl<P: Default, F: FnMut(Output<P>)> Sink<P> for Closure<P, F> {
    fn place(&mut self) -> &mut Packet<P> {
        &mut self.place
    }

    fn transmit(&mut self, port: Port, why: Why) -> Queued {
        (self.sink)(Output::Transmit(port, why, core::mem::take(&mut self.place)));
        Queued::NOT
    }

    fn event(&mut self, flow: FlowId, event: Event) {
        (self.sink)(Output::Event(flow, event));
    }
}

/// Drains `node` into `sink`: events first, since they explain the packets that follow. A deadline at the same instant
/// as a packet is handled after it.
///
/// Returns the node's deadline afterwards.
pub fn pump<P: Default>(
    node: &mut (impl Node<P> + ?Sized),
    now: Instant,
    sink: impl FnMut(Output<P>),
) -> Option<Instant> {
    pump_into(node, now, &mut Closure { place: Packet::default(), sink })
}

/// Drains a node like [`pump`], for a driver that handles deadlines itself, however soon they are. The cost of a packet
/// is then separate from that of timers.
pub fn drain<P: Default>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: impl FnMut(Output<P>)) {
    drain_into(node, now, &mut Closure { place: Packet::default(), sink });
}

/// Drains a node like [`pump`], for a driver with its own storage for packets.
#[inline(always)]
pub fn pump_into<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: &mut impl Sink<P>) -> Option<Instant> {
    let mut woken = false;
    loop {
        drain_into(node, now, sink);
        let deadline = node.poll_deadline();
        if woken || deadline.is_none_or(|deadline| deadline > now) {
            debug_assert!(deadline.is_none_or(|deadline| deadline > now), "a drained node's deadline has passed");
            return deadline;
        }
        node.handle_timeout(now);
        woken = true;
    }
}

/// Polls all pending output, regardless of deadlines.
#[inline(always)]
fn drain_into<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: &mut impl Sink<P>) {
    loop {
        while let Some((flow, event)) = node.poll_event() {
            sink.event(flow, event);
        }
        if let Some((port, why)) = node.poll_transmit(now, sink.place()) {
            let queued = sink.transmit(port, why);
            if queued.departure != Departure::Now {
                node.schedule_departure(now, queued);
            }
        } else if let Some((flow, event)) = node.poll_event() {
            sink.event(flow, event);
        } else {
            return;
        }
    }
}
