//! The one contract between mechanisms and drivers.

use crate::event::Event;
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
}

/// Anything that touches packets, as a state machine without I/O.
///
/// The driver calls [`handle_packet`](Node::handle_packet) or [`handle_timeout`](Node::handle_timeout), then polls
/// [`poll_transmit`](Node::poll_transmit) and [`poll_event`](Node::poll_event) until both are empty, then reads
/// [`poll_deadline`](Node::poll_deadline). [`pump`] does the polling and checks the rules:
///
/// * time never runs backwards from one call to the next;
/// * after draining, the deadline lies after now;
/// * a call of `handle_timeout` before the deadline does nothing.
pub trait Node<P> {
    /// Takes a packet that arrived at `port`.
    fn handle_packet(&mut self, now: Instant, port: Port, packet: Packet<P>);

    /// Acts on whatever deadline has come. Harmless when called early.
    fn handle_timeout(&mut self, now: Instant);

    /// The next packet to send, and where.
    fn poll_transmit(&mut self, now: Instant) -> Option<(Port, Packet<P>)>;

    /// When to call [`handle_timeout`](Node::handle_timeout) next.
    fn poll_deadline(&self) -> Option<Instant>;

    /// The next thing to report.
    fn poll_event(&mut self) -> Option<(FlowId, Event)>;
}

/// What [`pump`] found in a node, in the order in which it happened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Output<P> {
    /// A packet to send out of a port.
    Transmit(Port, Packet<P>),
    /// Something to report.
    Event(FlowId, Event),
}

/// Drains `node` into `sink`: events first, since they tell why packets follow. A deadline that falls on the very instant
/// of a packet is acted on after it.
///
/// Returns the deadline that the node has then.
#[inline(always)]
pub fn pump<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, mut sink: impl FnMut(Output<P>)) -> Option<Instant> {
    drain(node, now, &mut sink);
    let mut deadline = node.poll_deadline();
    if deadline.is_some_and(|deadline| deadline <= now) {
        node.handle_timeout(now);
        drain(node, now, &mut sink);
        deadline = node.poll_deadline();
    }
    debug_assert!(deadline.is_none_or(|deadline| deadline > now), "a drained node's deadline has passed");
    deadline
}

#[inline(always)]
fn drain<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: &mut impl FnMut(Output<P>)) {
    loop {
        while let Some((flow, event)) = node.poll_event() {
            sink(Output::Event(flow, event));
        }
        match node.poll_transmit(now) {
            Some((port, packet)) => sink(Output::Transmit(port, packet)),
            None => break,
        }
    }
    while let Some((flow, event)) = node.poll_event() {
        sink(Output::Event(flow, event));
    }
}
