//! States of TCP connections as lines of a trace.

use lasthop_proto::packet::FlowId;
use lasthop_proto::tcp::info::{Fields, word};
use lasthop_proto::time::Instant;
use lasthop_sim::trace::{CapturePoint, FlowInfo, Trace};

use crate::error::ReportError;

/// Name of the event of these lines.
pub(crate) const EVENT: &str = "tcp-info";

/// State of the initiator's connection of a flow at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InfoRecord {
    /// Time.
    pub time: Instant,
    /// Capture point of the initiator: index into [`Trace::points`].
    pub point: u16,
    /// The flow.
    pub flow: FlowId,
    /// State of the connection.
    pub info: Fields,
}

impl InfoRecord {
    /// Returns the capture point and the flow.
    pub(crate) fn place<'t>(&self, trace: &'t Trace) -> Result<(&'t CapturePoint, &'t FlowInfo), ReportError> {
        let point = usize::from(self.point);
        let point = trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?;
        let flow = trace.flows.get(self.flow.0 as usize).ok_or(ReportError::NoSuchFlow(self.flow.0))?;
        Ok((point, flow))
    }

    /// Returns `name=value` for each known field, separated by spaces.
    pub(crate) fn text(&self) -> String {
        let fields = self.info.iter().filter_map(|(name, value)| {
            let value = value?;
            Some(word(name, value).map_or_else(|| format!("{name}={value}"), |word| format!("{name}={word}")))
        });
        fields.collect::<Vec<_>>().join(" ")
    }
}
