//! A recorded run as CSV, in the stable format of `docs/trace-format.md`.

use std::io::Write;

use lasthop_proto::event::Event;
use lasthop_proto::packet::{Body, Flags, Packet};
use lasthop_proto::seq::Seq;
use lasthop_sim::trace::{Record, Trace, What};

use crate::describe;
use crate::error::ReportError;
use crate::trace_info::{EVENT, InfoRecord};

/// Names of the columns, in order. New ones go at the end; none is ever renamed or removed.
pub const COLUMNS: [&str; 16] = [
    "time", "point", "flow", "event", "reason", "from", "seq", "len", "ack", "window", "sack", "flags", "cwnd",
    "ssthresh", "options", "link",
];

/// Writes `trace` with one line per record.
///
/// # Errors
///
/// Returns an error if `out` cannot be written, or a record has a capture point or flow that the trace does not define.
pub fn write_trace_csv(trace: &Trace, out: impl Write) -> Result<(), ReportError> {
    let mut writer = TraceCsv::begin(out)?;
    for record in &trace.records {
        writer.write(trace, record)?;
    }
    Ok(writer.flush()?)
}

/// Writer of traces as CSV, record by record.
pub struct TraceCsv<W: Write>(csv::Writer<W>);

impl<W: Write> TraceCsv<W> {
    /// Writes the header line.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn begin(out: W) -> Result<Self, ReportError> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS)?;
        Ok(Self(writer))
    }

    /// Writes a record of the run whose points and flows `trace` contains.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_trace_csv`].
    pub fn write(&mut self, trace: &Trace, record: &Record) -> Result<(), ReportError> {
        Ok(self.0.write_record(line(trace, record)?)?)
    }

    /// Writes the state of a connection.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`write_trace_csv`].
    pub fn write_info(&mut self, trace: &Trace, record: &InfoRecord) -> Result<(), ReportError> {
        Ok(self.0.write_record(info_line(trace, record)?)?)
    }

    /// Flushes buffered lines.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` cannot be written.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Returns the fields of one record, in the order of [`COLUMNS`].
///
/// # Errors
///
/// Returns an error if the record has a capture point or flow that the trace does not define.
pub fn line(trace: &Trace, record: &Record) -> Result<[String; COLUMNS.len()], ReportError> {
    let point =
        trace.points.get(usize::from(record.point)).ok_or(ReportError::NoSuchPoint(usize::from(record.point)))?;
    let flow = describe::flow(trace, record)?.map_or(String::new(), |flow| flow.name.clone());
    let [from, seq, len, ack, window, sack, flags, cwnd, ssthresh, options] = match &record.what {
        What::Sent(packet) | What::Received(packet) | What::Dropped(packet, _) => packet_columns(packet),
        What::Event(event) => event_columns(event),
    };
    Ok([
        record.time.to_string(),
        point.name.clone(),
        flow,
        describe::event_name(&record.what).to_owned(),
        describe::reason(&record.what).to_owned(),
        from,
        seq,
        len,
        ack,
        window,
        sack,
        flags,
        cwnd,
        ssthresh,
        options,
        describe::link_headers(&describe::link(record)).unwrap_or_default(),
    ])
}

/// Returns the fields of the state of a connection, in the order of [`COLUMNS`].
///
/// # Errors
///
/// Returns an error if the record has a capture point or flow that the trace does not define.
pub fn info_line(trace: &Trace, record: &InfoRecord) -> Result<[String; COLUMNS.len()], ReportError> {
    let (point, flow) = record.place(trace)?;
    Ok(COLUMNS.map(|column| match column {
        "time" => record.time.to_string(),
        "point" => point.name.clone(),
        "flow" => flow.name.clone(),
        "event" => EVENT.to_owned(),
        "options" => record.text(),
        _ => String::new(),
    }))
}

fn packet_columns(packet: &Packet) -> [String; 10] {
    let mut columns = <[String; 10]>::default();
    let [from, seq, len, ack, window, sack, flags, _, _, options] = &mut columns;
    if matches!(packet.body, Body::Control | Body::Coded(_) | Body::Report(_)) {
        return columns;
    }
    *from = describe::side_name(packet.from).to_owned();
    *len = packet.len.to_string();
    match &packet.body {
        Body::Tcp(segment) => {
            *seq = segment.seq.to_string();
            if segment.flags.has(Flags::ACK) {
                *ack = segment.ack.to_string();
            }
            *window = segment.window.to_string();
            *sack = describe::sack_blocks(&segment.options.sack, '-', |seq| seq.0);
            *flags = describe::flag_names(segment.flags);
            *options = describe::options(&segment.options, |seq| seq.0);
        }
        Body::Datagram { number } | Body::Media { number } | Body::Quic { number, .. } => *seq = number.to_string(),
        Body::Control | Body::Coded(_) | Body::Report(_) => {}
    }
    columns
}

fn event_columns(event: &Event) -> [String; 10] {
    let numbers = describe::event_numbers(event);
    let text = |seq: Option<Seq>| seq.map(|seq| seq.to_string()).unwrap_or_default();
    let mut columns = <[String; 10]>::default();
    columns[1] = text(numbers.seq);
    columns[3] = text(numbers.ack);
    if let Some((cwnd, ssthresh)) = numbers.window {
        columns[7] = cwnd.to_string();
        columns[8] = ssthresh.to_string();
    }
    columns
}
