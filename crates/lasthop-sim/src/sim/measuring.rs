//! Measurements of a run other than counts: delays, and its state at any time.

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::tcp::info::Fields;
use lasthop_proto::time::{Duration, Instant};

use super::Simulation;
use crate::fabric::Receiver;
use crate::leg::LegId;
use crate::link::Direction;
use crate::network::{LinkId, Network};
use crate::pool::Handle;
use crate::sim::Recording;

impl Simulation {
    /// Creates a metered run whose queues can be inspected between steps ([`Self::waiting`]). It has an event for each
    /// frame on each link.
    pub fn observed(network: &Network, seed: u64) -> Self {
        let mut simulation = Self::metered(network, seed, Recording::Off);
        simulation.fabric.look_at_each_link();
        simulation
    }

    /// Processes all events up to and including `until`. Returns false if there are no more events.
    pub fn advance_until(&mut self, until: Instant) -> bool {
        while self.fabric.agenda.first().at.min(self.alarms.first().at) <= until {
            if !self.step() {
                return false;
            }
        }
        if self.fabric.overflows() {
            return self.give_up();
        }
        if until >= self.stop {
            return self.ends();
        }
        self.now = self.now.max(until);
        true
    }

    /// Returns the number of frames currently in the queue of a link.
    pub fn waiting(&mut self, link: LinkId, direction: Direction) -> usize {
        self.fabric.waiting_on(self.now, LegId::new(link, direction))
    }

    /// Returns the application bytes that a flow of `network` has delivered so far. Datagrams that cause no events
    /// count after the next access to their queue.
    pub fn delivered(&self, network: &Network, flow: FlowId) -> u64 {
        let side = network.flows[flow.0 as usize].app.counted_at();
        self.endpoint(flow, side).received() + self.fabric.arrived_of(flow)
    }

    /// Iterates over the flows that use TCP: the flow, the capture point of its initiator, and the state of the
    /// initiator's connection.
    pub fn tcp_infos(&self) -> impl Iterator<Item = (FlowId, u16, Fields)> {
        let initiators = (0..).map(FlowId).zip(self.endpoints.iter().step_by(2));
        initiators.filter_map(|(flow, end)| {
            let info = end.tcp_info()?;
            Some((flow, self.fabric.endpoint_point(flow, Side::Initiator), info))
        })
    }

    /// Returns the mean round-trip time that the sender of a flow has sampled since the last call; for datagrams, the
    /// mean one-way delay. `None` without samples, or if the run is not metered.
    pub fn recent_delay(&mut self, flow: FlowId) -> Option<Duration> {
        self.fabric.tap.meter.as_mut()?.take_recent(flow.0 as usize).mean()
    }

    /// Measures the arrival of a packet at a node in a metered run.
    #[inline(never)]
    pub(super) fn measure_delivery(&mut self, now: Instant, receiver: Receiver, handle: Handle) {
        let packet = self.fabric.pool.get(handle);
        let Some(meter) = &mut self.fabric.tap.meter else { return };
        match receiver {
            Receiver::Departure(..) => {}
            Receiver::Element(element, _) => meter.enter(element, handle, packet),
            Receiver::Endpoint(index) if meter.samples(index) => self.measure_round_trip(index),
            Receiver::Endpoint(index) => meter.deliver(now, index, handle, packet),
        }
    }

    /// Takes the sample of the endpoint's last acknowledgment, if it has not been taken.
    pub(super) fn measure_round_trip(&mut self, index: usize) {
        let Some(meter) = &mut self.fabric.tap.meter else { return };
        let Some(end) = self.endpoints.get_mut(index).filter(|_| meter.samples(index)) else { return };
        let sample = match &end.quic {
            Some(quic) => quic.rtt(),
            None => end.connection.take_rtt_sample(),
        };
        if let Some(rtt) = sample {
            meter.sample(index / 2, rtt);
        }
    }

    /// Takes the remaining samples, after which no packet arrived.
    pub(super) fn measure_last_round_trips(&mut self) {
        (0..self.endpoints.len()).for_each(|index| self.measure_round_trip(index));
    }
}
