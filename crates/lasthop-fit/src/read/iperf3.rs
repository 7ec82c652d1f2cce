//! JSON of `iperf3 -u -J`, at either end: lost packets per interval.

use serde::Deserialize;

use super::lines::plain;
use super::{Form, Losses, ReadError, Reading, Way, wrong};
use crate::seen::{Count, Counts, Seen};

/// Bytes of the headers of IPv4 and UDP.
const HEADERS: u32 = 28;
/// Maximum payload of a datagram that Ethernet carries unfragmented.
const WHOLE: u32 = 1472;

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    #[serde(default)]
    end: End,
    server_output_json: Option<Box<Report>>,
    error: Option<String>,
}

#[derive(Deserialize, Default)]
struct Start {
    test_start: Option<Test>,
}

#[derive(Deserialize)]
struct Test {
    protocol: String,
    #[serde(default)]
    blksize: u32,
    #[serde(default)]
    reverse: u32,
}

#[derive(Deserialize)]
struct Interval {
    sum: Option<Sum>,
    sum_bidir_reverse: Option<Sum>,
}

#[derive(Deserialize, Default)]
struct End {
    #[serde(default)]
    streams: Vec<Stream>,
    sum: Option<Sum>,
    sum_received: Option<Sum>,
    sum_sent: Option<Sum>,
}

#[derive(Deserialize)]
struct Stream {
    udp: Option<Udp>,
}

#[derive(Deserialize)]
struct Udp {
    out_of_order: Option<u64>,
}

#[derive(Deserialize, Clone, Copy)]
struct Sum {
    #[serde(default)]
    start: f64,
    #[serde(default)]
    seconds: f64,
    #[serde(default)]
    bits_per_second: f64,
    packets: Option<f64>,
    lost_packets: Option<f64>,
    #[serde(default)]
    omitted: bool,
}

impl Sum {
    /// Returns the counts; `None` if this end does not count losses, or there was nothing to count.
    fn count(self) -> Option<Count> {
        let (packets, lost) = (self.packets?, self.lost_packets?);
        // iperf3 subtracts a late packet from the losses of a later interval.
        let lost = lost.clamp(0.0, packets.max(0.0));
        ((1.0..1e15).contains(&packets) && !self.omitted).then_some(Count {
            from_s: self.start,
            packets: packets as u64,
            lost: lost as u64,
        })
    }
}

/// Returns whether an object has the keys of iperf3's report, without parsing it.
pub(super) fn is_iperf3(text: &str) -> bool {
    text.contains("\"intervals\"") && text.contains("\"start\"")
}

pub(super) fn read(text: &str) -> Result<Reading, ReadError> {
    let report: Report = serde_json::from_str(text).map_err(|error| {
        wrong(error.line().max(1) - 1, format!("expected the JSON of `iperf3 -u -J`: {}", plain(&error.to_string())))
    })?;
    if let Some(error) = report.error {
        return Err(ReadError::Whole(format!("iperf3 ended with an error: {}", error.escape_debug())));
    }
    let test = report.start.test_start.as_ref();
    let protocol = test.map(|test| test.protocol.as_str());
    if protocol.is_some_and(|protocol| protocol != "UDP") {
        return Err(ReadError::Whole(
            "iperf3 test over TCP, which does not count lost packets; run iperf3 with -u and -J".to_owned(),
        ));
    }
    let (bytes, is_reverse) = test.map_or((0, false), |test| (test.blksize, test.reverse != 0));
    let counted = |report: &Report| -> Vec<Count> {
        let sums = report.intervals.iter();
        sums.filter_map(|it| it.sum.and_then(Sum::count).or_else(|| it.sum_bidir_reverse.and_then(Sum::count)))
            .collect()
    };
    let mut intervals = counted(&report);
    let other_end = report.server_output_json.as_deref();
    if intervals.is_empty() {
        intervals = other_end.map(counted).unwrap_or_default();
    }
    let end = other_end.filter(|other| other.end.sum.is_some()).map_or(&report.end, |other| &other.end);
    let mut remarks = Vec::new();
    if intervals.is_empty() {
        intervals.extend(report.end.sum_received.and_then(Sum::count).or_else(|| report.end.sum.and_then(Sum::count)));
        remarks.push("The sender's report has only the total of the losses; that of the receiver, or with --get-server-output, has them by interval.".to_owned());
    }
    if intervals.is_empty() {
        return Err(ReadError::Whole("contains no lost_packets; run iperf3 with -u and -J".to_owned()));
    }
    if bytes > WHOLE {
        remarks.push(format!(
            "Datagrams of {bytes} bytes were fragmented: losing one fragment loses the datagram. Run iperf3 with -l {WHOLE} or less."
        ));
    }
    remarks.push(format!(
        "These are the losses from iperf3's {}. A full queue or a policer may have caused them: repeat the test with a lower -b.",
        if is_reverse { "server to its client" } else { "client to its server" }
    ));
    let counts = Counts { intervals, bytes: bytes.saturating_add(HEADERS) };
    let sent = report.end.sum_sent.or(report.end.sum).filter(|sum| sum.seconds > 0.0 && sum.bits_per_second > 0.0);
    let late: Vec<u64> = end.streams.iter().filter_map(|stream| stream.udp.as_ref()?.out_of_order).collect();
    let seen = Seen {
        arrived: counts.packets() - counts.lost(),
        reordered: (!late.is_empty()).then(|| late.iter().fold(0, |sum: u64, late| sum.saturating_add(*late))),
        sent_bps: sent.map(|sum| sum.bits_per_second),
        ..Seen::default()
    };
    Ok(Reading { form: Form::Iperf3, down: Way { losses: Losses::Counts(counts), seen }, up: None, remarks })
}
