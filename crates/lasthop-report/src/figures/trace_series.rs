//! Series for sequence and window plots from a recorded run.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::{BTreeMap, HashMap};

use lasthop_proto::event::Event;
use lasthop_proto::link::arq::Header;
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_sim::element::Role;
use lasthop_sim::network::{ElementSpec, Network};
use lasthop_sim::trace::{Record, Trace, What};

use super::thinned::Thinned;
use super::{SequenceSeries, StepSeries};
use crate::describe;
use crate::numbering::Numbering;

const KB: f64 = 1024.0;

/// Series of one flow under one scheme.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct TransferSeries {
    /// Packets of each sender.
    pub sequences: Vec<SequenceSeries>,
    /// Windows of each sender.
    pub windows: Vec<StepSeries>,
}

/// Returns the series of `flow` in a `trace` of `network`: of its source, and of the base station if it sends on its
/// own account.
pub fn transfer_series(network: &Network, trace: &Trace, flow: FlowId, name: &str) -> TransferSeries {
    let mut collector = TransferCollector::new(network, flow, name);
    trace.records.iter().for_each(|record| collector.see(trace, record));
    collector.finish()
}

/// Collector of these series, record by record. If a plot cannot show all points, it keeps those that make a
/// difference.
pub struct TransferCollector {
    flow: FlowId,
    name: String,
    /// Elements with something to show, with the capture point of each, in the network's order.
    elements: Vec<(Role, u16)>,
    /// Capture point at which the flow was first seen; capture point and side of the first data.
    seen: Option<u16>,
    source: Option<(u16, Side)>,
    numbering: Numbering,
    sequences: BTreeMap<u16, Sequence>,
    links: BTreeMap<u16, LinkFrames>,
    windows: BTreeMap<u16, Thinned>,
    end: Option<f64>,
}

/// Data that leaves a capture point.
#[derive(Clone, Default)]
struct Sequence {
    sent: Thinned,
    retransmitted: Thinned,
}

impl Sequence {
    fn series(self, name: String) -> SequenceSeries {
        SequenceSeries { name, sent: self.sent.into_points(), retransmitted: self.retransmitted.into_points() }
    }
}

/// Feedback that an end of a link protocol receives on its frames.
#[derive(Default)]
struct LinkFrames {
    acks: Thinned,
    nacks: Thinned,
    /// Position in the stream for which each frame number was used last.
    carried: HashMap<u16, f64>,
}

impl TransferCollector {
    /// Creates an empty collector for `flow` in a run of `network`.
    pub fn new(network: &Network, flow: FlowId, name: &str) -> Self {
        let element = |element: &ElementSpec| {
            let role = element.element.role();
            (!matches!(role, Role::Marker | Role::Pacer)).then(|| (role, point_of(network, element)))
        };
        Self {
            flow,
            name: name.to_owned(),
            elements: network.elements.iter().filter_map(element).collect(),
            seen: None,
            source: None,
            numbering: Numbering::default(),
            sequences: BTreeMap::new(),
            links: BTreeMap::new(),
            windows: BTreeMap::new(),
            end: None,
        }
    }

    /// Takes the next record of the run whose points and flows `trace` contains.
    pub fn see(&mut self, trace: &Trace, record: &Record) {
        let time = record.time.as_secs_f64();
        self.end = Some(time);
        let point = record.point;
        let link = describe::packet(&record.what).and_then(Header::of);
        if record.flow == self.flow {
            self.numbering.see(record);
            self.seen.get_or_insert(point);
            match &record.what {
                What::Event(Event::Window { cwnd, .. }) => {
                    self.windows.entry(point).or_default().push((time, f64::from(*cwnd) / KB));
                }
                What::Sent(packet) if packet.len > 0 => self.see_data(trace, record, packet, link),
                _ => {}
            }
        } else if let (What::Sent(_), Some(Header::Data(number))) = (&record.what, link)
            && let Some(link) = self.links.get_mut(&point)
        {
            // Another flow uses the number now.
            link.carried.remove(&number);
        }
        if let (What::Received(_), Some(header), Some(link)) = (&record.what, link, self.links.get_mut(&point)) {
            let (number, told) = match header {
                Header::Ack(next) => (next.wrapping_sub(1), &mut link.acks),
                Header::Nack(number) => (number, &mut link.nacks),
                Header::Data(_) | Header::Skip(_) => return,
            };
            if let Some(at) = link.carried.get(&number) {
                told.push((time, *at));
            }
        }
    }

    fn see_data(&mut self, trace: &Trace, record: &Record, packet: &Packet, link: Option<Header>) {
        let point = record.point;
        let (source, from) = *self.source.get_or_insert((point, packet.from));
        let mut here = self.elements.iter().filter(|(_, at)| *at == point).peekable();
        let is_element = here.peek().is_some();
        let carries_link = here.any(|(role, _)| *role == Role::LinkEnd);
        let place = match packet.tcp() {
            Some(segment) if packet.from == from && (point == source || is_element) => {
                let place = self.numbering.cumulated(trace, record, from, segment.seq.0, packet.len);
                Some(place as f64 / KB)
            }
            _ => None,
        };
        if let Some(place) = place {
            let sequence = self.sequences.entry(point).or_default();
            let again = describe::is_retransmission(packet.cause);
            let points = if again { &mut sequence.retransmitted } else { &mut sequence.sent };
            points.push((record.time.as_secs_f64(), place));
        }
        if let (true, Some(Header::Data(number))) = (carries_link, link) {
            let carried = &mut self.links.entry(point).or_default().carried;
            match place {
                Some(place) => carried.insert(number, place),
                None => carried.remove(&number),
            };
        }
    }

    /// Returns the collected series.
    pub fn finish(mut self) -> TransferSeries {
        let mut series = TransferSeries::default();
        // Without data there is only an empty series for the end that opened the flow.
        let source = self.source.map(|(point, _)| point).or(self.seen).unwrap_or(0);
        let name = self.name.clone();
        let end = self.end;
        let window = |points: Option<Thinned>, name: String| {
            let points = points.unwrap_or_default();
            let last = points.last().copied();
            let mut points = points.into_points();
            points.extend(last.zip(end).map(|((_, value), end)| (end, value)));
            StepSeries { name, points }
        };
        let at_base = format!("{name}, base station");
        let link = self.elements.iter().filter(|(role, _)| *role == Role::LinkEnd).map(|(_, point)| *point);
        // The end that the flow's data leaves.
        let link = link.into_iter().find(|point| self.sequences.contains_key(point));
        // If the source is the end of the link itself, both have the same frames.
        let frames = link.filter(|point| *point == source).and_then(|point| {
            let own = self.sequences.get(&point)?;
            Some(own.clone())
        });
        series.sequences.push(self.sequences.remove(&source).unwrap_or_default().series(name.clone()));
        series.windows.push(window(self.windows.remove(&source), name.clone()));
        for (role, point) in &self.elements {
            // A link protocol may follow, whose frames these are.
            let sequence = self.sequences.get(point).cloned().unwrap_or_default();
            match role {
                Role::Relay => {
                    series.sequences.push(sequence.series(at_base.clone()));
                    series.windows.push(window(self.windows.remove(point), at_base.clone()));
                }
                Role::Repair | Role::DatagramRepair => {
                    let local = sequence.series(at_base.clone());
                    // The data that it forwards belongs to the source.
                    series.sequences.push(SequenceSeries { sent: Vec::new(), ..local });
                }
                Role::Marker | Role::Pacer | Role::LinkEnd => {}
            }
        }
        if let Some(point) = link {
            let frames = frames.or_else(|| self.sequences.remove(&point)).unwrap_or_default();
            let LinkFrames { acks, nacks, .. } = self.links.remove(&point).unwrap_or_default();
            let told = |what: &str, points: Thinned| SequenceSeries {
                name: format!("{name}, {what}"),
                sent: points.into_points(),
                retransmitted: Vec::new(),
            };
            series.sequences.push(frames.series(format!("{name}, link frames")));
            series.sequences.extend([told("link ACKs", acks), told("link NACKs", nacks)]);
        }
        series
    }
}

/// Returns the capture point of an element's wireless side.
fn point_of(network: &Network, element: &ElementSpec) -> u16 {
    let up = u16::from(network.links[element.link.0].ends[0] != element.node);
    element.link.0 as u16 * 2 + up
}

/// Returns the data that `from` sends on `flow`, as it leaves capture point `point`: time in seconds, and sequence
/// number in KB from the start of the stream. Streams of several connections are concatenated.
pub fn sequence_series(trace: &Trace, point: u16, flow: FlowId, from: Side, name: &str) -> SequenceSeries {
    let mut series = SequenceSeries { name: name.to_owned(), sent: Vec::new(), retransmitted: Vec::new() };
    let mut numbering = Numbering::default();
    for record in trace.records.iter().filter(|record| (record.point, record.flow) == (point, flow)) {
        numbering.see(record);
        let What::Sent(packet) = &record.what else { continue };
        let Some(segment) = packet.tcp().filter(|_| packet.from == from && packet.len > 0) else { continue };
        let place = numbering.cumulated(trace, record, from, segment.seq.0, packet.len);
        let place = (record.time.as_secs_f64(), place as f64 / KB);
        if describe::is_retransmission(packet.cause) {
            series.retransmitted.push(place);
        } else {
            series.sent.push(place);
        }
    }
    series
}

/// Returns the congestion window of `flow` at capture point `point` in KB, until the end of the trace.
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
