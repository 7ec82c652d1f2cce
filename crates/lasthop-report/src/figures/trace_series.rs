//! Series for sequence and window plots from a recorded run.

use std::collections::HashMap;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{FlowId, LinkHeader, Side};
use lasthop_sim::trace::{Trace, What};

use super::{SequenceSeries, StepSeries};
use crate::describe;

const KB: f64 = 1024.0;

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
