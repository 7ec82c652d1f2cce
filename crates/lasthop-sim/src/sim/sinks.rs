//! Sinks for the output of endpoints and elements.

use lasthop_proto::event::Event;
use lasthop_proto::host_queue::Queued;
use lasthop_proto::node::{Port, Sink, Why};
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::time::Instant;

use crate::fabric::Fabric;
use crate::measure::Reporter;
use crate::trace::What;

/// Sink for an endpoint's output.
pub(super) struct FromEndpoint<'a> {
    pub fabric: &'a mut Fabric,
    pub now: Instant,
    pub index: usize,
    /// Indicates whether the endpoint tracks when its packets leave the host's queue.
    pub asks: bool,
}

impl Sink<()> for FromEndpoint<'_> {
    #[inline(always)]
    fn place(&mut self) -> &mut Packet {
        self.fabric.pool.place()
    }

    #[inline(always)]
    fn transmit(&mut self, _port: Port, _why: Why) -> Queued {
        let bytes = self.fabric.send_from_endpoint(self.now, self.index);
        if self.asks && bytes > 0 { self.fabric.queued(self.now, self.index, bytes) } else { Queued::NOT }
    }

    #[inline(never)]
    fn event(&mut self, flow: FlowId, event: Event) {
        let side = if self.index.is_multiple_of(2) { Side::Initiator } else { Side::Acceptor };
        self.fabric.flows[self.index / 2].count(Reporter::Endpoint, &event);
        self.fabric.judge_timeout(flow, side, &event);
        let point = self.fabric.endpoint_point(flow, side);
        self.fabric.tap.record(self.now, point, flow, What::Event(event));
    }
}

/// Sink for an element's output.
pub(super) struct FromElement<'a> {
    pub fabric: &'a mut Fabric,
    pub now: Instant,
    pub index: usize,
}

impl Sink<()> for FromElement<'_> {
    fn place(&mut self) -> &mut Packet {
        self.fabric.pool.place()
    }

    fn transmit(&mut self, port: Port, why: Why) -> Queued {
        self.fabric.send_from_element(self.now, self.index, port, why);
        Queued::NOT
    }

    fn event(&mut self, flow: FlowId, event: Event) {
        if let Event::LossJudged { from, seq, cause } = event {
            self.fabric.judged(self.index, flow, (from, seq), cause);
        }
        if let Some(report) = self.fabric.flows.get_mut(flow.0 as usize) {
            report.count(Reporter::Element, &event);
        }
        let point = self.fabric.element_point(self.index);
        self.fabric.tap.record(self.now, point, flow, What::Event(event));
    }
}
