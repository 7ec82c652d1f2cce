//! Elements between a router and an emulated link, applied to real packets: those that run on bytes, ELN markers, and
//! relays whose TCP no kernel implements.

use std::collections::BTreeMap;

use lasthop_proto::event::Event;
use lasthop_proto::link::hybrid::Terms;
use lasthop_proto::node::{Disposition, Node, Output, Port, Why, pump};
use lasthop_proto::packet::{Ecn, Flags, FlowId, Integrity, Packet, Segment, Side};
use lasthop_proto::pep::eln::ElnMarker;
use lasthop_proto::pep::split::SplitRelay;
use lasthop_proto::random::Root;
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;
use lasthop_scenario::elements;
use lasthop_sim::Bytes;
use lasthop_sim::element::{AnyElement, Role, Site};
use lasthop_sim::network::{LinkId, Medium, Rate};
use lasthop_sim::sim::tick_phase;
use lasthop_wire::{
    Checksum, Checksums, Route, View, acknowledge, build_with_ecn, checksums, mark_congestion, mark_eln, parse,
};

use super::plan::{Plan, Point};

/// Length of the Ethernet header.
pub(super) const ETHERNET: usize = 14;
pub(super) const IPV4: [u8; 2] = [0x08, 0x00];

/// Output of an element, in order.
#[derive(Default)]
pub struct Given {
    /// Frames, with their ports.
    pub frames: Vec<(Port, Vec<u8>)>,
    /// Frames of a link protocol for the link of a port: the description for the mechanisms with the protocol's headers,
    /// and the bytes carried. Control frames carry none; frames of a combination are not packets.
    pub link_frames: Vec<(Port, Packet, Bytes)>,
    /// Events.
    pub events: Vec<(FlowId, Event)>,
}

/// An element between a router ([`Port::WIRED`]) and an emulated link ([`Port::WIRELESS`]), or all links of a bundle (the
/// ports from there on).
pub trait PortElement: Send {
    /// Takes a frame that came from `port`. `packet` is its description for the mechanisms.
    fn take(&mut self, now: Instant, port: Port, packet: &Packet, frame: &[u8], given: &mut Given);

    /// Handles deadlines that have passed.
    fn handle_timeout(&mut self, now: Instant, given: &mut Given);

    /// Returns the time for the next call of [`PortElement::handle_timeout`].
    fn poll_deadline(&self) -> Option<Instant>;

    /// Returns the bytes of state that move with a host ([`Node::hard_state`]).
    fn hard_state(&self) -> u64 {
        0
    }

    /// Records that the element is at `point` from now on.
    fn settle(&mut self, _point: Point) {}
}

/// Parameters to build an element of an emulated link, repeatedly if its state is reset.
pub struct Blueprint {
    element: AnyElement,
    point: Point,
    node: String,
    rate: Rate,
    /// Rates of the other links of its bundle, if the element uses them.
    more: Vec<Rate>,
    /// Terms on which the element uses the links of its bundle, starting with its own.
    terms: Vec<Terms>,
    medium: Medium,
    routes: BTreeMap<(FlowId, Side), Route>,
    root: Root,
}

impl Blueprint {
    /// Creates the blueprint of an element at `point`.
    pub fn new(element: &AnyElement, point: Point, plan: &Plan<'_>, root: Root) -> Self {
        let rate = |point: Point| plan.network.rate_from(plan.node(point), LinkId(point / 2));
        Self {
            element: element.clone(),
            point,
            node: plan.network.nodes[plan.node(point).0].name.clone(),
            rate: rate(point),
            more: plan.side_points(point).into_iter().map(rate).collect(),
            terms: plan.terms(point),
            medium: plan.network.links[point / 2].medium.clone(),
            routes: plan.routes().into_iter().map(|(route, end)| (end, route)).collect(),
            root,
        }
    }

    /// Returns the element's configuration.
    pub fn element(&self) -> &AnyElement {
        &self.element
    }

    /// Builds the element; `None` for those that run elsewhere.
    pub fn build(&self) -> Option<Box<dyn PortElement>> {
        let Self { element, point, node, rate, more, terms, medium, routes, root } = self;
        let site = Site { node, rate: *rate, more, terms, medium, root: *root, watch: Switch::Off };
        if let Some(marker) = element.get::<elements::ElnMarker>() {
            return Some(Box::new(Marker(ElnMarker::new(marker.config()))));
        }
        if let Some(node) = element.build_on_bytes(&site) {
            return Some(Box::new(OnBytes { node, is_link_end: element.role() == Role::LinkEnd }));
        }
        let elements::Split { handover, wired, wireless, .. } = element.get()?;
        let phase = tick_phase(*root, node, wireless);
        let relay = SplitRelay::new(*handover, wired.clone(), wireless.clone(), phase, Switch::Off);
        let most = handover.most_held(wired, wireless).max(handover.most_held(wireless, wired));
        Some(Box::new(Relay::new(relay, most as usize, routes.clone(), *point)))
    }
}

/// Returns the packet inside a frame, its parsed form, and the integrity of its payload; `None` if it is not TCP or its
/// IP header is damaged.
fn whole(frame: &[u8]) -> Option<(&[u8], View, Integrity)> {
    let bytes = frame.get(ETHERNET..)?;
    let view = parse(bytes)?;
    // An earlier link may have damaged it.
    match checksums(bytes, &view, Checksum::Complete) {
        Checksums::Hold => Some((bytes, view, Integrity::Intact)),
        Checksums::TcpWrong => Some((bytes, view, Integrity::PayloadDamaged)),
        Checksums::IpWrong => None,
    }
}

/// The base station's ELN marker.
struct Marker(ElnMarker<()>);

impl Marker {
    /// Returns the frame with a mark, if it is an acknowledgment to be marked.
    fn mark(&mut self, now: Instant, port: Port, packet: &Packet, frame: &[u8]) -> Option<Vec<u8>> {
        let (bytes, view, integrity) = whole(frame)?;
        let disposition = self.0.handle_packet(now, port, Packet { integrity, ..*packet });
        // The original frame is forwarded instead.
        pump(&mut self.0, now, |_| ());
        let bytes = if disposition == Disposition::Changed { mark_eln(bytes, &view)? } else { return None };
        Some([&frame[..ETHERNET], &bytes].concat())
    }
}

impl PortElement for Marker {
    fn take(&mut self, now: Instant, port: Port, packet: &Packet, frame: &[u8], given: &mut Given) {
        let passed = self.mark(now, port, packet, frame).unwrap_or_else(|| frame.to_vec());
        given.frames.push((port.across(), passed));
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Given) {}

    fn poll_deadline(&self) -> Option<Instant> {
        None
    }
}

/// An element that runs on bytes.
struct OnBytes {
    node: Box<dyn Node<Bytes> + Send>,
    /// Frames of a link protocol keep their bytes; the protocol's headers are kept separately, and count on the link.
    is_link_end: bool,
}

impl OnBytes {
    fn pump(&mut self, now: Instant, given: &mut Given) {
        let is_link_end = self.is_link_end;
        pump(&mut *self.node, now, |output| match output {
            Output::Event(flow, event) => given.events.push((flow, event)),
            Output::Transmit(Port::WIRED, _, packet) if is_link_end => {
                given.frames.push((Port::WIRED, marked(&packet).into()));
            }
            Output::Transmit(port, _, packet) if is_link_end => {
                given.link_frames.push((port, packet.with_payload(()), marked(&packet)));
            }
            Output::Transmit(port, Why::LocalAck, packet) => {
                given.frames.extend(made(&packet).map(|frame| (port, frame)));
            }
            Output::Transmit(port, _, packet) => given.frames.push((port, packet.payload.into())),
        });
    }
}

impl PortElement for OnBytes {
    fn take(&mut self, now: Instant, port: Port, packet: &Packet, frame: &[u8], given: &mut Given) {
        let mut packet = *packet;
        if !self.is_link_end {
            packet.integrity = whole(frame).map_or(Integrity::PayloadDamaged, |(.., integrity)| integrity);
        }
        self.node.handle_packet(now, port, packet.with_payload(Bytes::copy_from_slice(frame)));
        self.pump(now, given);
    }

    fn handle_timeout(&mut self, now: Instant, given: &mut Given) {
        self.node.handle_timeout(now);
        self.pump(now, given);
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.node.poll_deadline()
    }
}

/// Returns the frame of an acknowledgment that was created from another one and has its bytes.
fn made(packet: &Packet<Bytes>) -> Option<Vec<u8>> {
    let (bytes, view, _) = whole(&packet.payload)?;
    Some([&packet.payload[..ETHERNET], &acknowledge(bytes, &view, packet.tcp()?)].concat())
}

/// Returns the bytes of a packet, with a mark if the protocol marked it.
fn marked(packet: &Packet<Bytes>) -> Bytes {
    if packet.ecn != Ecn::Ce {
        return packet.payload.clone();
    }
    let mut bytes = packet.payload.to_vec();
    if let Some(packet) = bytes.get_mut(ETHERNET..) {
        mark_congestion(packet);
    }
    bytes.into()
}

/// The relay of a split connection. The state machine handles lengths; the bytes are stored here.
struct Relay {
    node: SplitRelay,
    /// Addresses of the packets of each end of a flow.
    routes: BTreeMap<(FlowId, Side), Route>,
    /// Data that each end of a flow sends.
    streams: BTreeMap<(FlowId, Side), Stream>,
    /// Bytes that the relay buffers per connection and direction.
    buffer: usize,
    point: Point,
}

impl Relay {
    fn new(node: SplitRelay, buffer: usize, routes: BTreeMap<(FlowId, Side), Route>, point: Point) -> Self {
        Self { node, routes, streams: BTreeMap::new(), buffer, point }
    }

    /// Returns whether the packet belongs to a relayed connection, or opens one.
    fn is_ours(&self, packet: &Packet) -> bool {
        let opens = |flags: Flags| flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        let known = self.routes.contains_key(&(packet.flow, packet.from));
        known && packet.tcp().is_some_and(|segment| self.node.relays(packet.flow) || opens(segment.flags))
    }

    fn keep(&mut self, packet: &Packet, view: &View, bytes: &[u8]) {
        let key = (packet.flow, packet.from);
        let Segment { seq, flags, .. } = view.segment;
        if flags.has(Flags::SYN) && self.streams.get(&key).is_none_or(|stream| stream.first != seq + 1) {
            self.streams.insert(key, Stream::new(seq + 1, self.buffer));
        } else if let Some(stream) = self.streams.get_mut(&key) {
            stream.put(seq, &bytes[view.header_len..view.total_len()]);
        }
    }

    fn pump(&mut self, now: Instant, given: &mut Given) {
        let Self { node, routes, streams, point, .. } = self;
        pump(node, now, |output| match output {
            Output::Event(flow, event) => given.events.push((flow, event)),
            Output::Transmit(port, _, packet) => {
                let key = (packet.flow, packet.from);
                let frame = packet.tcp().and_then(|segment| {
                    // Sequence numbers of both legs start at 0 with their SYN.
                    let payload = match packet.len {
                        0 => Vec::new(),
                        len => streams.get(&key)?.get(segment.seq.0.wrapping_sub(1), len as usize),
                    };
                    let bytes = build_with_ecn(*routes.get(&key)?, packet.ecn, segment, &payload)?;
                    let ends = if port == Port::WIRED { [*point ^ 1, *point] } else { [*point, *point ^ 1] };
                    let [from, to] = ends.map(Plan::hardware_bytes);
                    Some([&to[..], &from, &IPV4, &bytes].concat())
                });
                given.frames.extend(frame.map(|frame| (port, frame)));
            }
        });
    }
}

impl PortElement for Relay {
    fn take(&mut self, now: Instant, port: Port, packet: &Packet, frame: &[u8], given: &mut Given) {
        if !self.is_ours(packet) {
            return given.frames.push((port.across(), frame.to_vec()));
        }
        let Some((bytes, view, integrity)) = whole(frame) else { return };
        if integrity == Integrity::Intact {
            self.keep(packet, &view, bytes);
        }
        self.node.handle_packet(now, port, Packet { integrity, ..*packet });
        self.pump(now, given);
    }

    fn handle_timeout(&mut self, now: Instant, given: &mut Given) {
        self.node.handle_timeout(now);
        self.pump(now, given);
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.node.poll_deadline()
    }

    fn hard_state(&self) -> u64 {
        self.node.hard_state()
    }

    fn settle(&mut self, point: Point) {
        self.point = point;
    }
}

/// The latest bytes that an end sent, by their offset in its stream.
struct Stream {
    /// Sequence number of the stream's first byte.
    first: Seq,
    /// End of the highest byte that arrived.
    high: u64,
    /// Ring of twice the maximum outstanding data, so that bytes within a window before or after `high` do not collide.
    ring: Vec<u8>,
    window: usize,
}

impl Stream {
    fn new(first: Seq, window: usize) -> Self {
        // The buffer, plus data that a sender sends beyond it to probe the window.
        Self { first, high: 0, ring: Vec::new(), window: window + 65_536 }
    }

    /// Returns the offset with the low 32 bits `low`.
    fn place(&self, low: u32) -> Option<u64> {
        self.high.checked_add_signed(i64::from(low.wrapping_sub(self.high as u32) as i32))
    }

    /// Stores data that arrived. Ignores data outside the window, which is old or was never allowed.
    fn put(&mut self, seq: Seq, payload: &[u8]) {
        let Some(offset) = self.place(seq.0.wrapping_sub(self.first.0)) else { return };
        let (window, end) = (self.window as u64, offset + payload.len() as u64);
        if payload.is_empty() || offset + window < self.high || end > self.high + window {
            return;
        }
        if self.ring.is_empty() {
            self.ring = vec![0; 2 * self.window];
        }
        let len = self.ring.len();
        for (at, byte) in (offset..).zip(payload) {
            self.ring[(at % len as u64) as usize] = *byte;
        }
        self.high = self.high.max(end);
    }

    /// Returns `len` bytes from the offset with the low 32 bits `low`.
    fn get(&self, low: u32, len: usize) -> Vec<u8> {
        let offset = self.place(low).unwrap_or_default();
        let byte =
            |at: u64| self.ring.get((at % (self.ring.len() as u64).max(1)) as usize).copied().unwrap_or_default();
        (offset..offset + len as u64).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_keeps_a_window_of_bytes_across_the_wrap() {
        let first = Seq(u32::MAX - 1000);
        let mut stream = Stream::new(first, 1000);
        let bytes =
            |offset: u64, len: usize| (offset..offset + len as u64).map(|at| (at % 251) as u8).collect::<Vec<_>>();
        let mut sent = 0;
        // More than two laps of the ring; the second piece of each pair arrives before the first.
        while sent < 400_000 {
            for offset in [sent + 700, sent] {
                stream.put(first + offset as u32, &bytes(offset, 700));
            }
            assert_eq!(stream.get(sent as u32, 1400), bytes(sent, 1400));
            sent += 1400;
        }
        // Data that is too old, or too far ahead, is ignored.
        stream.put(first, &[9; 700]);
        stream.put(first + sent as u32 + 200_000, &[9; 700]);
        stream.put(first - 1, &[9; 700]);
        assert_eq!(stream.get(sent as u32 - 60_000, 60_000), bytes(sent - 60_000, 60_000));
    }
}
