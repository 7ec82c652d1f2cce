//! The one contract between mechanisms and drivers.

use crate::event::Event;
use crate::host_queue::{Departure, Queued};
use crate::packet::{FlowId, Packet};
use crate::time::Instant;

/// One of a node's attachments. Endpoints have port 0 only; what sits on a path has [`Port::WIRED`] and
/// [`Port::WIRELESS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port(pub u16);

impl Port {
    /// The only port of an endpoint.
    pub const ONLY: Self = Self(0);
    /// Towards the rest of the network.
    pub const WIRED: Self = Self(0);
    /// Towards the lossy hop.
    pub const WIRELESS: Self = Self(1);

    /// The other side of what sits on a path: where packets from this one leave.
    #[inline]
    pub const fn across(self) -> Self {
        match self {
            Self::WIRED => Self::WIRELESS,
            _ => Self::WIRED,
        }
    }
}

/// What became of the packet that a node was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// It goes on as it was: among what the node sends, with [`Why::Given`].
    Forwarded,
    /// It goes on with other headers: among what the node sends, with [`Why::Given`].
    Changed,
    /// It ends here: the node is an end, has answered it, or learnt all that it has to say.
    Absorbed,
    /// It is kept and may go later, with [`Why::Released`].
    Held,
    /// It is lost: there is no room for it, or it is of no use any more.
    Dropped,
}

/// Why a node sends a packet. Drivers act on it; [`crate::packet::Cause`], which tells more, is for measurement only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It is the packet that the node was given last; [`Disposition`] says whether it is as it was.
    Given,
    /// It is one that the node was given before, and held.
    Released,
    /// It is a copy of one that was sent before, and may be lost.
    Repair(Trigger),
    /// It repeats an acknowledgment of the far end, in answer to data that arrived there before, or in the place of one that was
    /// lost on the way.
    LocalAck,
    /// It is a control frame, for the node at the other end of the hop.
    Control,
    /// It is from a connection that ends at the node.
    Own,
}

/// What makes a node send a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// Duplicate acknowledgments show the loss.
    Duplicates,
    /// What the far end says that it has shows the loss.
    Hole,
    /// The other end of the hop asks for it.
    Request,
    /// Nothing was heard for too long: a guess.
    Timer,
}

/// Anything that touches packets, as a state machine without I/O.
///
/// The driver calls [`handle_packet`](Node::handle_packet) or [`handle_timeout`](Node::handle_timeout), then polls
/// [`poll_transmit`](Node::poll_transmit) and [`poll_event`](Node::poll_event) until both are empty, then reads
/// [`poll_deadline`](Node::poll_deadline). [`pump`] does the polling. The rules:
///
/// * time never runs backwards from one call to the next. The driver sees to it: the simulator checks each event in debug builds;
/// * after draining, the deadline lies after now. [`pump`] checks it in debug builds;
/// * a call of `handle_timeout` before the deadline does nothing, which the property tests of the nodes try;
/// * timers are acted on in `handle_timeout` only: polling takes out what is there;
/// * a packet that is [`Disposition::Forwarded`] or [`Disposition::Changed`] is among what is polled next, once.
pub trait Node<P> {
    /// Takes a packet that arrived at `port`, and says what becomes of it.
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>) -> Disposition;

    /// Acts on whatever deadline has come. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// Puts the next packet to send into `place`, and says out of which port it goes, and why. What was in `place` is of no
    /// meaning; it stays when there is no packet.
    fn poll_transmit(&mut self, now: Instant, place: &mut Packet<P>) -> Option<(Port, Why)>;

    /// When to call [`handle_timeout`](Node::handle_timeout) next.
    fn poll_deadline(&self) -> Option<Instant>;

    /// The next thing to report.
    fn poll_event(&mut self) -> Option<(FlowId, Event)>;

    /// So many frames wait in front of the node's link, on its side: told before [`handle_timeout`](Node::handle_timeout) to a node that
    /// asks its driver for it.
    fn see_queue(&mut self, _waiting: usize) {}

    /// Takes note of when the packet that was polled last begins transmission, where it waits for that. A node that keeps its share of the host's queue
    /// short ([`HostQueue`](crate::host_queue::HostQueue)) has no use for drivers that never say so.
    fn schedule_departure(&mut self, _now: Instant, _queued: Queued) {}

    /// Takes note that a packet with `bytes` of payload, whose departure was [`Departure::Unknown`], begins transmission or was dropped.
    fn handle_departure(&mut self, _now: Instant, _bytes: u32) {}

    /// The ends of `flow` have let go of its connection and begin another under the same number: in life it would have ports
    /// of its own. Only a node that ends connections has anything to forget.
    fn forget(&mut self, _flow: FlowId) {}

    /// Bytes of state that the ends of connections depend on: what another node needs to go on in the place of this one.
    fn hard_state(&self) -> u64 {
        0
    }
}

/// What [`pump`] found in a node, in the order in which it happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output<P> {
    /// A packet to send out of a port, and why.
    Transmit(Port, Why, Packet<P>),
    /// Something to report.
    Event(FlowId, Event),
}

/// Takes what a node gives out.
pub trait Sink<P> {
    /// Where the next packet is to be put.
    fn place(&mut self) -> &mut Packet<P>;

    /// Sends the packet that was put there out of `port`. Returns when it begins transmission, where the driver keeps account of that.
    fn transmit(&mut self, port: Port, why: Why) -> Queued;

    /// Something to report.
    fn event(&mut self, flow: FlowId, event: Event);
}

/// A closure as a sink.
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

/// Drains `node` into `sink`: events first, since they tell why packets follow. A deadline that falls on the very instant
/// of a packet is acted on after it.
///
/// Returns the deadline that the node has then.
pub fn pump<P: Default>(
    node: &mut (impl Node<P> + ?Sized),
    now: Instant,
    sink: impl FnMut(Output<P>),
) -> Option<Instant> {
    pump_into(node, now, &mut Closure { place: Packet::default(), sink })
}

/// [`pump`] for a driver that acts on deadlines itself, however soon they are: what a packet takes is then not what timers take besides.
pub fn drain<P: Default>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: impl FnMut(Output<P>)) {
    drain_into(node, now, &mut Closure { place: Packet::default(), sink });
}

/// [`pump`] for a driver that keeps packets in a place of its own.
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

/// Takes out what is there, without regard to deadlines.
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
