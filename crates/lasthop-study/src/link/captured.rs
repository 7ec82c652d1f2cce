//! What a packet capture says of the lossy link on its path.

use std::io::{self, Write};
use std::path::Path;

use lasthop_diagnose::annotate::AnnotateError;
use lasthop_diagnose::loss::Side;
use lasthop_diagnose::loss_trace::{loss_trace, lossy_side};
use lasthop_diagnose::{Direction, FlowReport, Options, Report, Vantage};
use lasthop_fit::read::ReadError;
use lasthop_fit::scenario::{Link, Told};

use super::{Access, Given, LinkError, assumed, failed, link_of};
use crate::diagnosis::{diagnosed, no_flow};

/// Bytes of a segment's headers: IPv4, TCP, timestamps.
const HEADERS: f64 = 52.0;
/// Bytes of a SYN and its answer.
const HANDSHAKE: f64 = 120.0;
/// A queue that never overflowed is assumed to hold so many packets at the least.
const QUEUE: f64 = 100.0;

/// What a capture says, as far as it tells.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Captured {
    /// All of it.
    pub report: Report,
    /// The losses to corruption of the flow with most data, as a table.
    pub losses: String,
    /// Bits a second, where a queue showed it.
    pub rate: Option<f64>,
    /// Which flow that is, in a sentence.
    pub remark: String,
    /// The flow's number.
    pub flow: usize,
    /// Milliseconds one way over the lossy link, and the other part of the path.
    delays: Option<[f64; 2]>,
    /// The longest queue in milliseconds, and how many packets were lost to it.
    queue: (f64, u64),
    /// Bytes of a full packet.
    packet: f64,
}

/// Reads a capture, twice. The flow with most data counts.
///
/// # Errors
///
/// When it is no capture, or no flow in it sends data.
pub(super) fn captured(access: &Access<'_>, path: &Path, given: &Given) -> Result<Captured, LinkError> {
    let report = diagnosed(access, path, &Options::default())?;
    let (flow, direction) = report.with_most_data(None).ok_or_else(|| no_flow(path, &report))?;
    let mut losses = Losses { text: Vec::new(), room: access.most_packets() * LONGEST_LINE };
    loss_trace(flow, direction, access.open(path).map_err(failed(path))?, &mut losses).map_err(
        |error| match error {
            AnnotateError::Capture(error) => LinkError::Capture { path: path.to_path_buf(), error },
            AnnotateError::Output(_) => {
                LinkError::Trace { path: path.to_path_buf(), error: ReadError::Long(access.most_packets()) }
            }
        },
    )?;
    if (access.stop)() {
        return Err(LinkError::Stopped { path: path.to_path_buf() });
    }
    let rate = given.rate.map(|rate| rate.0 as f64).or(direction.bottleneck_bps);
    Ok(Captured {
        losses: String::from_utf8_lossy(&losses.text).into_owned(),
        rate: direction.bottleneck_bps,
        remark: format!(
            "losses of flow {}, {} to {}; `lasthop diagnose {} --flow N --loss-trace FILE` takes another",
            flow.number,
            direction.from,
            direction.to,
            path.display()
        ),
        flow: flow.number,
        delays: delays(flow, direction, rate),
        queue: (direction.longest_queue_ms, direction.congestion),
        packet: f64::from(direction.segment_bytes) + HEADERS,
        report,
    })
}

/// Bytes of a line of the table of losses, at most: time, size, fate.
const LONGEST_LINE: usize = 32;

/// A table of losses that does not grow beyond what can be fitted: a capture may tell of more packets than it has records.
struct Losses {
    text: Vec<u8>,
    room: usize,
}

impl Write for Losses {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.text.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One way over the lossy link, and over the rest of the path, in milliseconds: half of the least round trips, without the time on the air.
fn delays(flow: &FlowReport, direction: &Direction, rate: Option<f64>) -> Option<[f64; 2]> {
    let bytes = if flow.from_the_beginning { HANDSHAKE } else { f64::from(direction.segment_bytes) + 2.0 * HEADERS };
    let air = rate.map_or(0.0, |rate| bytes * 8e3 / rate);
    let end = |address| flow.ends.iter().position(|end| *end == address).and_then(|at| flow.to_ends_ms[at]);
    let half = |trip: f64, air: f64| (trip - air).max(0.0) / 2.0;
    let (sender, receiver) = (end(direction.from), end(direction.to));
    match (direction.vantage, lossy_side(direction)) {
        (Vantage::Gateway, Side::Beyond) => Some([half(receiver?, air), half(sender?, 0.0)]),
        (Vantage::Gateway, Side::Before) => Some([half(sender?, air), half(receiver?, 0.0)]),
        // The whole path is one link, as far as the capture tells.
        _ => Some([half(direction.rtt_ms.or(sender).or(receiver)?, air), 0.0]),
    }
}

impl Captured {
    /// The link; what is given goes before what the capture says.
    pub(super) fn link(&self, given: &Given) -> Link {
        let flow = self.flow;
        let mut link = assumed();
        let told = |value: String, origin: String| Told { value, origin };
        if let Some(rate) = self.rate {
            let value = format!("{} kbps", (rate / 1e3).round().max(1.0));
            link.rate = told(value, format!("lasthop diagnose, flow {flow}: the bottleneck's rate"));
        }
        if let Some([hop, wire]) = self.delays {
            let milliseconds = |value: f64| format!("{} ms", (value * 1e3).round() / 1e3);
            let origin = format!("lasthop diagnose, flow {flow}: half of the least round trip");
            link.delay = told(milliseconds(hop), origin.clone());
            link.wire_delay = told(milliseconds(wire), origin);
        }
        let rate = given.rate.map(|rate| rate.0 as f64).or(self.rate);
        if let (Some(rate), (longest, overflowed)) = (rate, self.queue) {
            let packets = (longest * rate / 8e3 / self.packet).round();
            link.queue = if overflowed > 0 && packets >= 1.0 {
                let drops = if overflowed == 1 { "1 drop".to_owned() } else { format!("{overflowed} drops") };
                told(format!("{packets} packets"), format!("lasthop diagnose, flow {flow}: {longest:.1} ms at {drops}"))
            } else {
                let origin = "assumed: it did not overflow; --queue sets it";
                told(format!("{} packets", packets.max(QUEUE)), origin.to_owned())
            };
        }
        link_of(given, link)
    }

    /// What a scenario needs and is neither here nor given.
    pub(super) fn lacking(&self, given: &Given) -> Vec<&'static str> {
        let rate = (self.rate.is_none() && given.rate.is_none()).then_some("rate");
        let delay = (self.delays.is_none() && given.delay.is_none()).then_some("delay");
        rate.into_iter().chain(delay).collect()
    }
}
