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

    /// [`poll_transmit`](Node::poll_transmit) into a place that the driver has ready.
    #[inline]
    fn poll_transmit_into(&mut self, now: Instant, place: &mut Packet<P>) -> Option<Port> {
        let (port, packet) = self.poll_transmit(now)?;
        *place = packet;
        Some(port)
    }

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

/// Takes what a node gives out.
pub trait Sink<P> {
    /// Where the next packet is to be put.
    fn place(&mut self) -> &mut Packet<P>;

    /// The packet that was put there is to be sent out of `port`.
    fn transmit(&mut self, port: Port);

    /// Something to report.
    fn event(&mut self, flow: FlowId, event: Event);
}

/// Drains `node` into `sink`: events first, since they tell why packets follow. A deadline that falls on the very instant
/// of a packet is acted on after it.
///
/// Returns the deadline that the node has then.
pub fn pump<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, mut sink: impl FnMut(Output<P>)) -> Option<Instant> {
    let mut woken = false;
    loop {
        let output = match node.poll_event() {
            Some((flow, event)) => Output::Event(flow, event),
            None => match node.poll_transmit(now) {
                Some((port, packet)) => Output::Transmit(port, packet),
                None => match node.poll_event() {
                    Some((flow, event)) => Output::Event(flow, event),
                    None if woken => return node.poll_deadline(),
                    None => {
                        let deadline = node.poll_deadline();
                        if deadline.is_none_or(|deadline| deadline > now) {
                            return deadline;
                        }
                        node.handle_timeout(now);
                        woken = true;
                        continue;
                    }
                },
            },
        };
        sink(output);
    }
}

/// [`pump`] for a driver that treats packets and events apart.
#[inline(always)]
pub fn pump_into<P>(node: &mut (impl Node<P> + ?Sized), now: Instant, sink: &mut impl Sink<P>) -> Option<Instant> {
    let mut woken = false;
    loop {
        while let Some((flow, event)) = node.poll_event() {
            sink.event(flow, event);
        }
        if let Some(port) = node.poll_transmit_into(now, sink.place()) {
            sink.transmit(port);
            continue;
        }
        if let Some((flow, event)) = node.poll_event() {
            sink.event(flow, event);
            continue;
        }
        let deadline = node.poll_deadline();
        if woken || deadline.is_none_or(|deadline| deadline > now) {
            debug_assert!(deadline.is_none_or(|deadline| deadline > now), "a drained node's deadline has passed");
            return deadline;
        }
        node.handle_timeout(now);
        woken = true;
    }
}
