//! Series for sequence and window plots from a recorded run.

use std::collections::HashMap;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{FlowId, LinkHeader, Side};
use lasthop_sim::network::{Element, ElementSpec, Network};
use lasthop_sim::trace::{Trace, What};

use super::{SequenceSeries, StepSeries};
use crate::describe;

const KB: f64 = 1024.0;

/// What sequence and window plots show of one flow under one scheme.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct TransferSeries {
    /// Packets of each sender.
    pub sequences: Vec<SequenceSeries>,
    /// Windows of each sender.
    pub windows: Vec<StepSeries>,
}

/// The series of `flow` in a `trace` of `network`: of its source, and of the base station where that sends on its own account.
pub fn transfer_series(network: &Network, trace: &Trace, flow: FlowId, name: &str) -> TransferSeries {
    let mut series = TransferSeries::default();
    let first = trace.records.iter().find(|record| match &record.what {
        What::Sent(packet) => record.flow == flow && packet.len > 0,
        _ => false,
    });
    // Without data there is nothing to plot but an empty series of the end that opened the flow.
    let opened = || trace.records.iter().find(|record| record.flow == flow);
    let source = first.or_else(opened).map_or(0, |record| record.point);
    let from = first.and_then(|record| describe::packet(&record.what)).map_or(Side::Initiator, |packet| packet.from);
    series.sequences.push(sequence_series(trace, source, flow, from, name));
    series.windows.push(window_series(trace, source, flow, name));
    let at_base = format!("{name}, base station");
    for element in &network.elements {
        let point = point_of(network, element);
        match element.element {
            // A split connection has a second sender: the relay, at its end of the link.
            Element::Split { .. } => {
                series.sequences.push(sequence_series(trace, point, flow, from, &at_base));
                series.windows.push(window_series(trace, point, flow, &at_base));
            }
            Element::Snoop(_) => {
                let local = sequence_series(trace, point, flow, from, &at_base);
                // What it hands on is the source's.
                series.sequences.push(SequenceSeries { sent: Vec::new(), ..local });
            }
            Element::Arq(_) | Element::ElnMarker => {}
        }
    }
    // A link protocol's frames, at the end from which the data comes: the one that the flow's data leaves.
    let links = network.elements.iter().filter(|element| matches!(element.element, Element::Arq(_)));
    let sends_data = |point: &u16| {
        trace.records.iter().any(|record| match &record.what {
            What::Sent(packet) => (record.point, record.flow, packet.from) == (*point, flow, from) && packet.len > 0,
            _ => false,
        })
    };
    if let Some(point) = links.map(|element| point_of(network, element)).find(sends_data) {
        series.sequences.extend(link_series(trace, point, flow, from, name));
    }
    series
}

/// The capture point of an element's wireless side.
fn point_of(network: &Network, element: &ElementSpec) -> u16 {
    let up = u16::from(network.links[element.link.0].ends[0] != element.node);
    element.link.0 as u16 * 2 + up
}

/// The data that `from` sends on `flow`, as seen leaving capture point `point`: time in seconds, sequence number in KB
/// from the start of the stream.
pub fn sequence_series(trace: &Trace, point: u16, flow: FlowId, from: Side, name: &str) -> SequenceSeries {
    let mut series = SequenceSeries { name: name.to_owned(), sent: Vec::new(), retransmitted: Vec::new() };
    let iss = trace.flows.get(flow.0 as usize).map_or(0, |flow| flow.iss[from.index()]);
    for record in &trace.records {
        let What::Sent(packet) = &record.what else { continue };
        if (record.point, record.flow, packet.from) != (point, flow, from) || packet.len == 0 {
            continue;
        }
        let Some(segment) = packet.tcp() else { continue };
        // The first byte of the stream comes after the SYN.
        let offset = segment.seq.0.wrapping_sub(iss).wrapping_sub(1);
        let place = (record.time.as_secs_f64(), f64::from(offset) / KB);
        if describe::is_retransmission(packet.cause) {
            series.retransmitted.push(place);
        } else {
            series.sent.push(place);
        }
    }
    series
}

/// The frames of a link protocol that carry the data which `from` sends on `flow`, as its end at capture point `point` sees
/// them: the frames with those sent again, then the acknowledgments and the requests for missing frames that come back,
/// each at the sequence number of the frame that it speaks of.
pub fn link_series(trace: &Trace, point: u16, flow: FlowId, from: Side, name: &str) -> [SequenceSeries; 3] {
    let frames = sequence_series(trace, point, flow, from, &format!("{name}, link frames"));
    let empty = |what: &str| SequenceSeries { name: format!("{name}, {what}"), sent: vec![], retransmitted: vec![] };
    let (mut acks, mut nacks) = (empty("link ACKs"), empty("link NACKs"));
    let iss = trace.flows.get(flow.0 as usize).map_or(0, |flow| flow.iss[from.index()]);
    // Where in the stream each frame number was used last.
    let mut carried: HashMap<u16, f64> = HashMap::new();
    for record in trace.records.iter().filter(|record| record.point == point) {
        let header = describe::packet(&record.what).and_then(|packet| packet.link);
        match (&record.what, header) {
            (What::Sent(packet), Some(LinkHeader::Data(number))) => {
                carried.remove(&number);
                if (record.flow, packet.from) == (flow, from)
                    && packet.len > 0
                    && let Some(segment) = packet.tcp()
                {
                    let offset = segment.seq.0.wrapping_sub(iss).wrapping_sub(1);
                    carried.insert(number, f64::from(offset) / KB);
                }
            }
            (What::Received(_), Some(LinkHeader::Ack(next))) => {
                let at = carried.get(&next.wrapping_sub(1));
                acks.sent.extend(at.map(|at| (record.time.as_secs_f64(), *at)));
            }
            (What::Received(_), Some(LinkHeader::Nack(number))) => {
                let at = carried.get(&number);
                nacks.sent.extend(at.map(|at| (record.time.as_secs_f64(), *at)));
            }
            _ => {}
        }
    }
    [frames, acks, nacks]
}

/// The congestion window that `flow` had at capture point `point`, in KB, until the end of the trace.
pub fn window_series(trace: &Trace, point: u16, flow: FlowId, name: &str) -> StepSeries {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for record in &trace.records {
        if let What::Event(Event::Window { cwnd, .. }) = record.what
            && (record.point, record.flow) == (point, flow)
        {
            points.push((record.time.as_secs_f64(), f64::from(cwnd) / KB));
        }
    }
    if let (Some(&(_, last)), Some(end)) = (points.last(), trace.records.last()) {
        points.push((end.time.as_secs_f64(), last));
    }
    StepSeries { name: name.to_owned(), points }
}
