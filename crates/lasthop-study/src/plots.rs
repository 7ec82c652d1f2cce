//! What sequence and window plots show of a traced run: the flow's source, and whatever else sends its data.

use lasthop_proto::packet::{FlowId, Side};
use lasthop_report::figures::{SequenceSeries, StepSeries, link_series, sequence_series, window_series};
use lasthop_sim::network::{Element, ElementSpec, Network};
use lasthop_sim::trace::{Trace, What};

/// The packets of a flow, at each sender of its data: the source, the relay of a split connection, a link protocol.
/// `name` is that of the run, as a rule its scheme.
pub fn sequences(network: &Network, trace: &Trace, flow: FlowId, name: &str) -> Vec<SequenceSeries> {
    let mut series = vec![sequence_series(trace, first_sender(trace, flow), flow, Side::Initiator, name)];
    for point in relays(network) {
        series.push(sequence_series(trace, point, flow, Side::Initiator, &at_base_station(name)));
    }
    // A link protocol's frames, at the end from which the data comes: the one that the flow's data leaves.
    let link_ends = elements(network, |element| matches!(element, Element::Arq(_)));
    if let Some(point) = link_ends.into_iter().find(|point| sends_data(trace, *point, flow)) {
        series.extend(link_series(trace, point, flow, Side::Initiator, name));
    }
    series
}

/// The congestion windows of a flow: the source's, and that of the relay of a split connection.
pub fn windows(network: &Network, trace: &Trace, flow: FlowId, name: &str) -> Vec<StepSeries> {
    let mut series = vec![window_series(trace, first_sender(trace, flow), flow, name)];
    for point in relays(network) {
        series.push(window_series(trace, point, flow, &at_base_station(name)));
    }
    series
}

fn at_base_station(name: &str) -> String {
    format!("{name}, base station")
}

/// A split connection has a second sender: the relay, at its end of the link.
fn relays(network: &Network) -> Vec<u16> {
    elements(network, |element| matches!(element, Element::Split { .. }))
}

/// The capture points of elements of some kind.
fn elements(network: &Network, kind: impl Fn(&Element) -> bool) -> Vec<u16> {
    let point = |spec: &ElementSpec| {
        let up = u16::from(network.links[spec.link.0].ends[0] != spec.node);
        spec.link.0 as u16 * 2 + up
    };
    network.elements.iter().filter(|spec| kind(&spec.element)).map(point).collect()
}

/// Whether the flow's data is sent from this capture point on.
fn sends_data(trace: &Trace, point: u16, flow: FlowId) -> bool {
    trace.records.iter().any(|record| match &record.what {
        What::Sent(packet) => {
            (record.point, record.flow, packet.from) == (point, flow, Side::Initiator) && packet.len > 0
        }
        _ => false,
    })
}

/// The capture point at which data of the flow is seen first: its source.
fn first_sender(trace: &Trace, flow: FlowId) -> u16 {
    trace.records.iter().find(|record| record.flow == flow).map_or(0, |record| record.point)
}
