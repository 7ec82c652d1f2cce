//! QUIC in a run: its ends are nodes whose packets contain bytes.

use bytes::Bytes;
use lasthop_proto::event::Event;
use lasthop_proto::host_queue::Queued;
use lasthop_proto::node::{Port, Sink, Why, pump_into};
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;
use lasthop_quic::{QuicEnd, Setup};

use super::{FromEndpoint, Simulation};
use crate::network::{App, FlowSpec};
use crate::pool::Handle;

impl Simulation {
    /// Delivers a datagram of QUIC.
    #[inline(never)]
    pub(super) fn deliver_quic(&mut self, now: Instant, index: usize, handle: Handle) {
        let packet = self.fabric.pool.take(handle);
        if let Some(bytes) = self.fabric.letters.open(&packet) {
            self.endpoints[index].take_quic(now, packet.with_payload(bytes));
            self.pump_quic(now, index);
        }
    }

    #[inline(never)]
    pub(super) fn pump_quic(&mut self, now: Instant, index: usize) {
        let endpoint = &mut self.endpoints[index];
        let Some(quic) = endpoint.quic.as_deref_mut() else { return };
        let sink = FromEndpoint { fabric: &mut self.fabric, now, index, asks: true };
        let deadline = pump_into(quic, now, &mut FromQuic { sink, place: Packet::default() });
        if let Some(at) = endpoint.poll_start().or(deadline) {
            self.alarms.wake_by(index as u32, at);
        }
        if endpoint.finishes() {
            self.finished(now, index);
        }
    }
}

/// Sink for a QUIC endpoint's output: stores the contents of a datagram, and sends the packet.
struct FromQuic<'a> {
    sink: FromEndpoint<'a>,
    place: Packet<Bytes>,
}

impl Sink<Bytes> for FromQuic<'_> {
    fn place(&mut self) -> &mut Packet<Bytes> {
        &mut self.place
    }

    fn transmit(&mut self, port: Port, why: Why) -> Queued {
        let bytes = std::mem::take(&mut self.place.payload);
        let packet = self.place.with_payload(());
        self.sink.fabric.letters.post(&packet, bytes);
        *self.sink.place() = packet;
        self.sink.transmit(port, why)
    }

    fn event(&mut self, flow: FlowId, event: Event) {
        self.sink.event(flow, event);
    }
}

/// Creates that end of a flow, if the flow uses QUIC.
pub(super) fn quic_end(root: Root, flow: &FlowSpec, id: FlowId, side: Side, watch: Switch) -> Option<QuicEnd> {
    let App::Quic(config) = flow.app else { return None };
    let which = if side == Side::Initiator { "initiator" } else { "acceptor" };
    let random = root.stream(&format!("flows/{}/quic/{which}", flow.name));
    let headers = flow.tcp[side.index()].common.headers;
    Some(QuicEnd::new(Setup { flow: id, side, config, headers, random, watch }))
}
