//! A recorded run for the screen: one aligned line a record, in the manner of tcpdump. No stable form: programs read
//! [`crate::trace_csv`].

use std::io::Write;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Cause, Flags, FlowId, Packet, Segment, Side};
use lasthop_proto::seq::Seq;
use lasthop_sim::trace::{FlowInfo, Record, Trace, What};

use crate::describe;
use crate::error::ReportError;

/// Writes `trace`, one line a record. Sequence numbers count from the first of their side, as tcpdump's do.
///
/// # Errors
///
/// When `out` cannot be written, or a record names a capture point or flow that the trace does not define.
pub fn write_trace_text(trace: &Trace, mut out: impl Write) -> Result<(), ReportError> {
    let points = trace.points.iter().map(|point| point.name.chars().count()).max().unwrap_or(0);
    let flows = trace.flows.iter().map(|flow| flow.name.chars().count()).max().unwrap_or(0);
    let verbs = trace.records.iter().map(|record| verb(&record.what).len()).max().unwrap_or(0);
    let directions = Directions::of(trace);
    for record in &trace.records {
        let point = usize::from(record.point);
        let point_name = &trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?.name;
        let flow = describe::flow(trace, record)?;
        write!(out, "{:>14}  {point_name:<points$}  ", record.time.to_string())?;
        if trace.flows.len() > 1 {
            write!(out, "{:<flows$}  ", flow.map_or("", |flow| &flow.name))?;
        }
        let details = details(record, flow, &directions);
        let line = format!("{:<verbs$}  {details}", verb(&record.what));
        writeln!(out, "{}", line.trim_end())?;
    }
    out.flush()?;
    Ok(())
}

/// What happened, with the reason where it is not obvious.
fn verb(what: &What) -> String {
    let reason = describe::reason(what);
    match what {
        What::Sent(packet) if describe::is_retransmission(packet.cause) => format!("rtx {reason}"),
        What::Sent(Packet { cause: Cause::LimitedTransmit | Cause::Probe | Cause::LocalAck, .. }) => {
            format!("sent {reason}")
        }
        What::Sent(_) => "sent".to_owned(),
        What::Received(_) => format!("recv {reason}").trim_end().to_owned(),
        What::Dropped(..) => format!("drop {reason}"),
        What::Event(event) => event.name().to_owned(),
    }
}

fn details(record: &Record, flow: Option<&FlowInfo>, directions: &Directions) -> String {
    let link = describe::packet(&record.what).and_then(|packet| packet.link);
    let link = link.map(|header| format!("link {}", describe::link_header(header))).unwrap_or_default();
    let Some(flow) = flow else { return link };
    match &record.what {
        What::Sent(packet) | What::Received(packet) | What::Dropped(packet, _) => {
            let arrow = match packet.from {
                Side::Initiator => '>',
                Side::Acceptor => '<',
            };
            let text = match &packet.body {
                Body::Tcp(segment) => segment_text(segment, packet, flow),
                Body::Datagram { number } => format!("datagram {number}, length {}", packet.len),
                Body::Control => String::new(),
            };
            let link = if link.is_empty() { link } else { format!("  ({link})") };
            format!("{arrow} {text}{link}")
        }
        What::Event(event) => event_text(event, flow.iss[directions.data_from(record.flow).index()]),
    }
}

fn segment_text(segment: &Segment, packet: &Packet, flow: &FlowInfo) -> String {
    let own = flow.iss[packet.from.index()];
    let peer = flow.iss[packet.from.peer().index()];
    let mut text = format!("[{}]", describe::flag_letters(segment.flags));
    let seq = relative(segment.seq, own);
    if packet.seq_len() > 0 {
        text += &format!(" seq {seq}:{},", seq.wrapping_add(packet.seq_len()));
    }
    if segment.flags.has(Flags::ACK) {
        text += &format!(" ack {},", relative(segment.ack, peer));
    }
    text += &format!(" win {},", segment.window);
    let sack = describe::sack_blocks(&segment.options.sack, ':', |seq| relative(seq, peer));
    if !sack.is_empty() {
        text += &format!(" sack {sack},");
    }
    let options = describe::options(&segment.options, |seq| relative(seq, peer));
    if !options.is_empty() {
        text += &format!(" <{options}>,");
    }
    text + &format!(" length {}", packet.len)
}

fn event_text(event: &Event, iss: u32) -> String {
    let numbers = describe::event_numbers(event);
    let mut words = Vec::new();
    words.extend(numbers.seq.map(|seq| format!("seq {}", relative(seq, iss))));
    words.extend(numbers.ack.map(|ack| format!("ack {}", relative(ack, iss))));
    words.extend(numbers.window.map(|(cwnd, ssthresh)| format!("cwnd {cwnd} ssthresh {ssthresh}")));
    words.join(" ")
}

const fn relative(seq: Seq, iss: u32) -> u32 {
    seq.0.wrapping_sub(iss)
}

/// Which side of each flow sends data first: events speak of its sequence numbers.
struct Directions(Vec<Side>);

impl Directions {
    fn of(trace: &Trace) -> Self {
        let mut first = vec![None; trace.flows.len()];
        for record in &trace.records {
            let Some(packet) = describe::packet(&record.what).filter(|packet| packet.len > 0) else { continue };
            if let Some(slot) = first.get_mut(record.flow.0 as usize) {
                slot.get_or_insert(packet.from);
            }
        }
        Self(first.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn data_from(&self, flow: FlowId) -> Side {
        self.0.get(flow.0 as usize).copied().unwrap_or_default()
    }
}
