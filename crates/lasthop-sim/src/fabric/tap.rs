//! Recording and measuring of packets as they pass the fabric.

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;

use crate::meter::Meter;
use crate::trace::{Trace, What};

/// Trace and meter of a run.
pub struct Tap {
    pub trace: Option<Trace>,
    /// Delays and waiting times, if measured.
    pub meter: Option<Box<Meter>>,
    /// Indicates whether packets are recorded or measured. Checked for every packet.
    watch: Switch,
    /// Flow to record; all flows if `None`.
    only: Option<FlowId>,
}

impl Tap {
    pub fn new(trace: Option<Trace>, meter: Option<Box<Meter>>, only: Option<FlowId>) -> Self {
        let watch = if trace.is_some() || meter.is_some() { Switch::On } else { Switch::Off };
        Self { trace, meter, watch, only }
    }

    /// Returns whether packets are recorded or measured.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.watch.is_on()
    }

    /// Returns whether packets are recorded.
    pub fn records(&self) -> bool {
        self.trace.is_some()
    }

    /// Stores a record, if this run records the flow.
    pub fn record(&mut self, time: Instant, point: u16, flow: FlowId, what: What) {
        let wanted = |only| flow == only || flow == FlowId::NONE;
        if let Some(trace) = &mut self.trace
            && self.only.is_none_or(wanted)
        {
            trace.record(time, point, flow, what);
        }
    }
}
