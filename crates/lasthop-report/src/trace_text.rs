//! A recorded run for the screen: one aligned line per record, similar to tcpdump. The format is not stable: programs
//! read [`crate::trace_csv`].

use std::io::Write;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Cause, Flags, Packet, Segment, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::Instant;
use lasthop_sim::trace::{Record, Trace, What};

use crate::describe;
use crate::error::ReportError;
use crate::numbering::Numbering;
use crate::trace_info::{EVENT, InfoRecord};

/// Writes `trace` with one line per record. Sequence numbers are relative to the first of their side and connection, as
/// in tcpdump.
///
/// # Errors
///
/// Returns an error if `out` cannot be written, or a record has a capture point or flow that the trace does not define.
pub fn write_trace_text(trace: &Trace, mut out: impl Write) -> Result<(), ReportError> {
    let mut lines = TraceText::new(trace);
    for record in &trace.records {
        lines.see(record);
        lines.write(trace, record, &mut out)?;
    }
    out.flush()?;
    Ok(())
}

/// Width of the event column: that of the longest frequent event, `rtx fast-retransmit`.
const VERBS: usize = 19;

/// Writer of traces as text, record by record.
pub struct TraceText {
    points: usize,
    flows: usize,
    /// Side of each flow that sent data first: events refer to its sequence numbers.
    data_from: Vec<Option<Side>>,
    numbering: Numbering,
}

impl TraceText {
    /// Creates a writer for a run whose points and flows `trace` contains.
    pub fn new(trace: &Trace) -> Self {
        let points = trace.points.iter().map(|point| point.name.chars().count()).max().unwrap_or(0);
        let flows = trace.flows.iter().map(|flow| flow.name.chars().count()).max().unwrap_or(0);
        Self { points, flows, data_from: vec![None; trace.flows.len()], numbering: Numbering::default() }
    }

    /// Processes a record; required for each one, before it is written or skipped.
    pub fn see(&mut self, record: &Record) {
        self.numbering.see(record);
        let Some(packet) = describe::packet(&record.what).filter(|packet| packet.len > 0) else { return };
        if let Some(slot) = self.data_from.get_mut(record.flow.0 as usize) {
            slot.get_or_insert(packet.from);
        }
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_trace_text`].
    pub fn write(&self, trace: &Trace, record: &Record, mut out: impl Write) -> Result<(), ReportError> {
        let point = usize::from(record.point);
        let point_name = &trace.points.get(point).ok_or(ReportError::NoSuchPoint(point))?.name;
        let flow = describe::flow(trace, record)?;
        let flow_name = flow.map_or("", |flow| &flow.name);
        self.begin(record.time, point_name, flow_name, &mut out)?;
        let details = if flow.is_some() { self.details(trace, record) } else { link_text(record) };
        let line = format!("{:<VERBS$}  {details}", verb(&record.what));
        writeln!(out, "{}", line.trim_end())?;
        Ok(())
    }

    /// Writes the state of a connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_trace_text`].
    pub fn write_info(&self, trace: &Trace, record: &InfoRecord, mut out: impl Write) -> Result<(), ReportError> {
        let (point, flow) = record.place(trace)?;
        self.begin(record.time, &point.name, &flow.name, &mut out)?;
        Ok(writeln!(out, "{EVENT:<VERBS$}  {}", record.text())?)
    }

    /// Writes time, capture point and, if there are several flows, the flow.
    fn begin(&self, time: Instant, point: &str, flow: &str, mut out: impl Write) -> std::io::Result<()> {
        let Self { points, flows, .. } = *self;
        write!(out, "{:>14}  {point:<points$}  ", time.to_string())?;
        // One per flow.
        if self.data_from.len() > 1 {
            write!(out, "{flow:<flows$}  ")?;
        }
        Ok(())
    }

    fn details(&self, trace: &Trace, record: &Record) -> String {
        let relative = |side: Side, seq: Seq| self.numbering.relative(trace, record, side, seq.0);
        match &record.what {
            What::Sent(packet) | What::Received(packet) | What::Dropped(packet, _) => {
                let arrow = match packet.from {
                    Side::Initiator => '>',
                    Side::Acceptor => '<',
                };
                let text = match &packet.body {
                    Body::Tcp(segment) => segment_text(segment, packet, &relative),
                    Body::Media { number } => format!("media {number}, length {}", packet.len),
                    Body::Datagram { number } => format!("datagram {number}, length {}", packet.len),
                    Body::Quic { number, data, .. } => {
                        format!("quic {number}, length {}, {data} bytes of streams", packet.len)
                    }
                    Body::Control | Body::Coded(_) | Body::Report(_) => String::new(),
                };
                let link = link_text(record);
                let link = if link.is_empty() { link } else { format!("  ({link})") };
                format!("{arrow} {text}{link}")
            }
            What::Event(event) => {
                let from = self.data_from.get(record.flow.0 as usize).copied().flatten().unwrap_or_default();
                event_text(event, |seq| relative(from, seq))
            }
        }
    }
}

/// Formats the event, with the reason if it is not obvious.
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

fn link_text(record: &Record) -> String {
    describe::link_headers(&describe::link(record)).map(|headers| format!("link {headers}")).unwrap_or_default()
}

fn segment_text(segment: &Segment, packet: &Packet, relative: &dyn Fn(Side, Seq) -> u32) -> String {
    let peer = packet.from.peer();
    let mut text = format!("[{}]", describe::flag_letters(segment.flags));
    let seq = relative(packet.from, segment.seq);
    if packet.seq_len() > 0 {
        text += &format!(" seq {seq}:{},", seq.wrapping_add(packet.seq_len()));
    }
    if segment.flags.has(Flags::ACK) {
        text += &format!(" ack {},", relative(peer, segment.ack));
    }
    text += &format!(" win {},", segment.window);
    let sack = describe::sack_blocks(&segment.options.sack, ':', |seq| relative(peer, seq));
    if !sack.is_empty() {
        text += &format!(" sack {sack},");
    }
    let options = describe::options(&segment.options, |seq| relative(peer, seq));
    if !options.is_empty() {
        text += &format!(" <{options}>,");
    }
    text + &format!(" length {}", packet.len)
}

fn event_text(event: &Event, relative: impl Fn(Seq) -> u32) -> String {
    let numbers = describe::event_numbers(event);
    let mut words = Vec::new();
    words.extend(numbers.seq.map(|seq| format!("seq {}", relative(seq))));
    words.extend(numbers.ack.map(|ack| format!("ack {}", relative(ack))));
    words.extend(numbers.window.map(|(cwnd, ssthresh)| format!("cwnd {cwnd} ssthresh {ssthresh}")));
    words.join(" ")
}
