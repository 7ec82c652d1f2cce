//! Properties of the lossy link on the path of a packet capture.

use std::io::{self, Write};
use std::path::Path;

use lasthop_diagnose::annotate::AnnotateError;
use lasthop_diagnose::loss::{Needless, Side};
use lasthop_diagnose::loss_trace::{loss_trace, lossy_side};
use lasthop_diagnose::{At, Direction, FlowReport, Options, Report, Vantage};
use lasthop_fit::measurement::Notes;
use lasthop_fit::read::ReadError;
use lasthop_fit::scenario::{Link, Told};
use lasthop_fit::seen::Seen;
use lasthop_fit::statement::{self, Said, Verdict};
use lasthop_scenario::one_line;
use lasthop_scenario::units::TimeSpan;

use super::traces::{Fitted, of_text};
use super::{Access, Given, LinkError, MeasuredLink, Source, assumed, failed, link_of};
use crate::diagnosis::{diagnosed, no_flow};

/// Bytes of a segment's headers: IPv4, TCP, timestamps.
const HEADERS: f64 = 52.0;
/// Bytes of a SYN and its reply.
const HANDSHAKE: f64 = 120.0;
/// Minimum number of packets assumed for a queue that never overflowed.
const QUEUE: f64 = 100.0;

/// Minimum response time, in milliseconds, of an end that is not where the capture was taken.
const FAR_MS: f64 = 2.0;

/// Minimum number of packets in a connection that is used for its direction.
const FEW: u64 = 200;

/// Properties derived from a capture.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Captured {
    /// The whole diagnosis.
    pub report: Report,
    /// Traffic over the link in the direction of the client.
    pub down: Way,
    /// Traffic in the other direction, if a capture from a gateway contains it.
    pub up: Option<Way>,
    /// Flows that were used, in a sentence.
    pub remark: String,
    /// One-way delays over the lossy link, and over the rest of the path, in milliseconds.
    delays: Option<[f64; 2]>,
}

/// One direction over the link.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Way {
    /// Number of the flow.
    pub flow: usize,
    /// Losses of the flow to corruption, as a table.
    pub losses: String,
    /// Rate in bits per second, if a queue revealed it.
    pub rate: Option<f64>,
    /// Observations of the flow other than its losses to corruption.
    shown: Shown,
    /// Maximum queueing delay in milliseconds, and number of packets dropped by the queue.
    queue: (f64, u64),
    /// Bytes of a full packet.
    packet: f64,
}

/// Observations of a flow other than its losses to corruption.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shown {
    packets: u64,
    reordered: u64,
    least_rtt_ms: Option<f64>,
    mean_rtt_ms: Option<f64>,
    /// Number of losses of unknown cause, and of all losses.
    unknown: (u64, u64),
    /// Rate in bits per second of the policer that dropped packets, and number of these packets.
    policed: Option<(f64, u64)>,
}

/// A direction of a flow that carries data.
type Flowing<'r> = (&'r FlowReport, &'r Direction);

/// Reads a capture, once more for each direction. Uses the flow with the most data. If a gateway captured it, that flow
/// is a download or an upload of the client; the client's largest flow in the other direction, with any host, is used
/// for that direction.
///
/// # Errors
///
/// Returns an error if it is not a capture, or if no flow in it sends data.
pub(super) fn captured(access: &Access<'_>, path: &Path, given: &Given) -> Result<Captured, LinkError> {
    let at = given.at.map_or(At::Found, At::Given);
    let report = diagnosed(access, path, &Options { at, ..Options::default() })?;
    let most = report.with_most_data(None).ok_or_else(|| no_flow(path, &report))?;
    let other = other_way(&report, most);
    let (down, up) = match other {
        Some(other) if is_upload(most.1) => (other, Some(most)),
        other => (most, other),
    };
    let mut remark = format!("losses of flow {}, {} to {}", down.0.number, down.1.from, down.1.to);
    if let Some((flow, direction)) = up {
        remark +=
            &format!(", and in the reverse direction of flow {}, {} to {}", flow.number, direction.from, direction.to);
    } else if is_upload(down.1) {
        remark += ", an upload that crossed the link before the capture point: \"down\" is its direction, and the other direction is unknown";
    }
    remark += &placed(down, given);
    let way = |flowing| Way::read(access, path, flowing);
    let rate = given.rate.map(|rate| rate.0 as f64).or(down.1.bottleneck_bps);
    let delays = delays(down.0, down.1, rate);
    let (down, up) = (way(down)?, up.map(way).transpose()?);
    Ok(Captured { down, up, remark, delays, report })
}

/// Describes the assumed place of the capture, with evidence and contradictions to the given place.
fn placed((flow, direction): Flowing<'_>, given: &Given) -> String {
    // Segments that were captured and retransmitted count: at a receiver they were not lost, so the given place would
    // explain them.
    let unexplained = |needless: Option<Needless>| matches!(needless, None | Some(Needless::Captured));
    let lost =
        |side: Side| direction.losses.iter().filter(|loss| unexplained(loss.needless) && loss.side == side).count();
    let (before, beyond) = (lost(Side::Before), lost(Side::Beyond));
    let place = direction.vantage.words();
    let mut said = match given.at {
        Some(_) => format!("; captured {place}, given by --at"),
        None if direction.vantage == Vantage::Unknown => {
            "; capture location unknown (no round trips to both ends): give --at and --delay".to_owned()
        }
        None => format!(
            "; captured {place}, inferred from the round trips to both ends{}",
            if before + beyond > 0 { " and the losses" } else { "" }
        ),
    };
    match given.at {
        Some(Vantage::Receiver) if beyond > 0 => {
            said += &format!(
                "; this contradicts {beyond} packets lost beyond the capture point, which a capture at the receiver cannot contain"
            );
        }
        Some(Vantage::Sender) if before > 0 => {
            said += &format!(
                "; this contradicts {before} packets lost before the capture point, which a capture at the sender cannot contain"
            );
        }
        Some(place @ (Vantage::Sender | Vantage::Receiver)) => {
            let end = if place == Vantage::Sender { direction.from } else { direction.to };
            let trip = flow.ends.iter().position(|it| *it == end).and_then(|at| flow.to_ends_ms[at]);
            if let Some(trip) = trip.filter(|trip| *trip > FAR_MS) {
                said += &format!("; this contradicts the minimum round trip of {trip} ms to that end");
            }
        }
        None if direction.vantage == Vantage::Receiver => {
            said += "; give --at gateway if it was captured at a gateway close to the receiver";
        }
        _ => {}
    }
    if direction.causes.corruption == 0 && direction.vantage == Vantage::Gateway {
        said += "; no corruption losses, so the lossy link is assumed to be beyond the capture point";
    }
    said
}

/// Returns whether packets seen at a gateway have already crossed the lossy link.
fn is_upload(direction: &Direction) -> bool {
    direction.vantage == Vantage::Gateway && lossy_side(direction) == Side::Before
}

/// Returns the largest flow in the other direction over the same link, captured at the same gateway: a download to the
/// client if `most` is its upload, and an upload if `most` is its download.
fn other_way<'r>(report: &'r Report, (flow, most): Flowing<'r>) -> Option<Flowing<'r>> {
    let upload = is_upload(most);
    let client = if upload { most.from } else { most.to }.ip();
    let crosses = |direction: &Direction| {
        let end = if upload { direction.to } else { direction.from };
        let has_lost_there = direction.causes.corruption == 0 || is_upload(direction) != upload;
        end.ip() == client && direction.vantage == Vantage::Gateway && direction.packets >= FEW && has_lost_there
    };
    if most.vantage != Vantage::Gateway {
        return None;
    }
    let flows = report.flows.iter().filter(|other| other.place == flow.place);
    let flowing = flows.flat_map(|flow| flow.directions.iter().map(move |direction| (flow, direction)));
    flowing
        .filter(|(_, direction)| crosses(direction))
        .max_by_key(|(flow, direction)| (direction.bytes, std::cmp::Reverse(flow.number)))
}

impl Way {
    fn read(access: &Access<'_>, path: &Path, (flow, direction): Flowing<'_>) -> Result<Self, LinkError> {
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
        Ok(Self {
            flow: flow.number,
            losses: String::from_utf8_lossy(&losses.text).into_owned(),
            rate: direction.bottleneck_bps,
            shown: Shown {
                packets: direction.packets,
                reordered: direction.reordered,
                least_rtt_ms: direction.rtt_ms,
                mean_rtt_ms: direction.mean_rtt_ms,
                unknown: (
                    direction.causes.unknown.saturating_sub(direction.causes.policed + direction.causes.path_mtu),
                    direction.causes.corruption + direction.causes.congestion + direction.causes.unknown,
                ),
                policed: direction.causes.policer_bps.map(|rate| (rate, direction.causes.policed)),
            },
            queue: (direction.longest_queue_ms, direction.causes.congestion),
            packet: f64::from(direction.segment_bytes) + HEADERS,
        })
    }

    /// Returns the link's rate, if a queue revealed it.
    fn rate_told(&self) -> Option<Told> {
        let value = format!("{} kbps", (self.rate? / 1e3).round().max(1.0));
        Some(Told { value, origin: format!("lasthop diagnose, flow {}: rate of the bottleneck", self.flow) })
    }

    /// Returns the link's queue at `rate`, in bits per second.
    fn queue_told(&self, rate: f64) -> Told {
        let (longest, overflowed) = self.queue;
        let packets = (longest * rate / 8e3 / self.packet).round();
        if overflowed > 0 && packets >= 1.0 {
            let drops = if overflowed == 1 { "1 drop".to_owned() } else { format!("{overflowed} drops") };
            let origin = format!("lasthop diagnose, flow {}: {longest:.1} ms at {drops}", self.flow);
            Told { value: format!("{packets} packets"), origin }
        } else {
            let origin = "assumed, since it did not overflow; --queue sets it".to_owned();
            Told { value: format!("{} packets", packets.max(QUEUE)), origin }
        }
    }
}

/// Maximum bytes of a line in the table of losses: time, size, fate.
const LONGEST_LINE: usize = 32;

/// A table of losses with a size limit: a capture may imply more packets than it has records.
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

/// Returns the one-way delays over the lossy link, and over the rest of the path, in milliseconds: half of the minimum
/// round-trip times, minus the transmission time.
fn delays(flow: &FlowReport, direction: &Direction, rate: Option<f64>) -> Option<[f64; 2]> {
    let bytes = if flow.from_the_beginning { HANDSHAKE } else { f64::from(direction.segment_bytes) + 2.0 * HEADERS };
    let air = rate.map_or(0.0, |rate| bytes * 8e3 / rate);
    let end = |address| flow.ends.iter().position(|end| *end == address).and_then(|at| flow.to_ends_ms[at]);
    let half = |trip: f64, air: f64| (trip - air).max(0.0) / 2.0;
    let (sender, receiver) = (end(direction.from), end(direction.to));
    match (direction.vantage, lossy_side(direction)) {
        (Vantage::Gateway, Side::Beyond) => Some([half(receiver?, air), half(sender?, 0.0)]),
        (Vantage::Gateway, Side::Before) => Some([half(sender?, air), half(receiver?, 0.0)]),
        // As far as the capture shows, the whole path is one link.
        _ => Some([half(direction.rtt_ms.or(sender).or(receiver)?, air), 0.0]),
    }
}

impl Captured {
    /// Returns the link. Given values take precedence over the capture. The capture shows the round-trip time of the
    /// whole path: if the delay of one part is given, the rest belongs to the other.
    ///
    /// # Errors
    ///
    /// Returns an error if a given part is longer than the whole path.
    fn link(&self, path: &Path, given: &Given) -> Result<Link, LinkError> {
        let mut link = assumed();
        if let Some(rate) = self.down.rate_told() {
            link.rate = rate;
        }
        let milliseconds = |value: f64| format!("{} ms", (value * 1e3).round() / 1e3);
        if let Some([hop, wire]) = self.delays {
            let whole = hop + wire;
            let rest = |TimeSpan(part): TimeSpan, flag: &str| {
                let part = 1e3 * part.as_secs_f64();
                if part > 1.05 * whole + 0.5 {
                    let what = format!(
                        "{flag} {part} ms exceeds the one-way delay of {} that the capture shows for the whole path; give less, or both --delay and --wire-delay",
                        milliseconds(whole)
                    );
                    return Err(LinkError::Contradiction { name: one_line(&path.display().to_string()), what });
                }
                let origin = format!(
                    "lasthop diagnose, flow {}: {} of the path minus {flag}",
                    self.down.flow,
                    milliseconds(whole)
                );
                Ok(Told { value: milliseconds((whole - part).max(0.0)), origin })
            };
            let origin = format!("lasthop diagnose, flow {}: half of the minimum round trip", self.down.flow);
            let told = |value: f64| Told { value: milliseconds(value), origin: origin.clone() };
            (link.delay, link.wire_delay) = match (given.delay, given.wire_delay) {
                (None, Some(part)) => (rest(part, "--wire-delay")?, told(wire)),
                (Some(part), None) => (told(hop), rest(part, "--delay")?),
                _ => (told(hop), told(wire)),
            };
        }
        let given_rate = given.rate.map(|rate| rate.0 as f64);
        if let Some(rate) = given_rate.or(self.down.rate) {
            link.queue = self.down.queue_told(rate);
        }
        if let Some(up) = &self.up {
            link.rate_up = up.rate_told();
            link.queue_up = given_rate.or(up.rate).map(|rate| up.queue_told(rate));
        }
        Ok(link_of(given, link))
    }

    /// Returns the values that a scenario needs and that are neither in the capture nor given.
    fn lacking(&self, given: &Given) -> Vec<&'static str> {
        let rate = (self.down.rate.is_none() && given.rate.is_none()).then_some("rate");
        let delay = (self.delays.is_none() && given.delay.is_none()).then_some("delay");
        rate.into_iter().chain(delay).collect()
    }
}

impl Way {
    /// Fits models to the direction's losses, and describes the scenario's agreement with the other observations.
    fn fitted(&self, access: &Access<'_>, path: &Path, rate: Option<f64>) -> Result<Fitted, LinkError> {
        let Shown { packets, reordered, least_rtt_ms, mean_rtt_ms, unknown, .. } = self.shown;
        let reading = of_text(access, path, &self.losses, None)?;
        let mut fitted = Fitted::of(access, path, (reading.down, reading.form), rate.or(self.rate), false)?;
        fitted.seen = Seen { arrived: packets, reordered: Some(reordered), ..Seen::default() };
        let said = &mut fitted.statement;
        said.order = statement::order(&fitted.seen, None);
        said.duplication = Said::unknown("a capture at one point cannot distinguish duplicates from retransmissions");
        said.rate = match self.rate {
            Some(rate) => Said::fits(format!("{:.4} Mbps, measured while packets were queued", rate / 1e6)),
            None => Said::unknown("packets were never queued; the scenario uses --rate"),
        };
        said.delay = match (least_rtt_ms, mean_rtt_ms) {
            (Some(least), Some(mean)) => Said::fits(format!(
                "round trips: minimum {least} ms, mean {mean} ms; the excess is attributed to queueing"
            )),
            (Some(least), None) => Said::fits(format!("round trips: minimum {least} ms")),
            _ => Said::unknown("the capture shows no round trip of the whole path"),
        };
        if let Some((rate, dropped)) = self.shown.policed {
            said.loss = Said::unknown(format!(
                "a policer of {:.4} Mbps dropped {dropped} packets, which are excluded",
                rate / 1e6
            ));
        }
        let (odd, all) = unknown;
        Ok(match odd * 10 > all {
            true => fitted
                .with_unknown_losses(&format!("the cause of {odd} of {all} losses is unknown, and these are excluded")),
            false => fitted,
        })
    }
}

/// Returns the reason to advise no cure if a policer dropped packets of either direction.
fn why_no_cure(ways: [Option<&Way>; 2]) -> Option<String> {
    let policed = |(way, name): (Option<&Way>, &str)| {
        let (rate, dropped) = way?.shown.policed?;
        Some(format!(
            "a policer limits the direction {name} to {:.4} Mbps and dropped {dropped} packets: these losses signal congestion, and repair does \
             not help",
            rate / 1e6
        ))
    };
    ways.into_iter().zip(["down", "up"]).find_map(policed)
}

/// Returns the link of a capture. `up` takes precedence over the capture's other direction.
pub(super) fn measured(
    access: &Access<'_>,
    path: &Path,
    given: &Given,
    up: Option<Fitted>,
) -> Result<MeasuredLink, LinkError> {
    let rate = given.rate.map(|rate| rate.0 as f64);
    let name = one_line(&path.display().to_string());
    let captured = captured(access, path, given)?;
    let measured_up = captured.up.as_ref().filter(|_| up.is_none()).map(|way| {
        let name = format!("{name}, flow {}", way.flow);
        way.fitted(access, path, rate).map(|fitted| Fitted { name, ..fitted })
    });
    let mut down = captured.down.fitted(access, path, rate)?;
    if let Some(rate) = given.rate {
        down.statement.rate = Said {
            verdict: Verdict::Unknown,
            why: format!("the scenario uses {rate}, given by --rate; the capture: {}", down.statement.rate.why),
        };
    }
    Ok(MeasuredLink {
        down,
        up: measured_up.transpose()?.or(up),
        name,
        source: Source::Capture,
        link: captured.link(path, given)?,
        at_least: Vec::new(),
        rate_traces: Vec::new(),
        lacking: captured.lacking(given),
        why_lacking: String::new(),
        notes: Notes { no_cure: why_no_cure([Some(&captured.down), captured.up.as_ref()]), ..Notes::default() },
        remark: Some(captured.remark),
        diagnosis: Some((captured.report, captured.down.flow)),
    })
}
