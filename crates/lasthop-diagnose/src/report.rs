//! Report on a capture, as plain data.

mod counts;

use std::net::SocketAddr;

use lasthop_wire::Unread;
use serde::Serialize;

pub use self::counts::{Causes, Retransmissions, WindowCounts};
use crate::At;
use crate::capture::Interface;
use crate::copies::CopyKinds;
use crate::flow::Flow;
use crate::half::Half;
use crate::judgment::{judged, limits, policers};
use crate::loss::{Needless, Repair, Side};
use crate::rounds::Factor;
use crate::table::{DEVICE, Diagnosis};
use crate::verdict::Verdict;

/// Position of a capture relative to the sender of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vantage {
    /// At the sender.
    Sender,
    /// At the receiver.
    Receiver,
    /// At a gateway between sender and receiver.
    Gateway,
    /// The capture does not show its place.
    Unknown,
}

impl Vantage {
    /// Returns a short description.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Sender => "at the sender",
            Self::Receiver => "at the receiver",
            Self::Gateway => "between sender and receiver",
            Self::Unknown => "at an unknown place",
        }
    }

    /// Returns the position, unless losses contradict it: a packet captured at the receiver cannot be lost beyond the
    /// capture, and at the sender none is lost before it is captured. Up to a tenth of the losses may be misjudged.
    fn witnessed(self, half: &Half) -> Self {
        let lost = half.losses.list().iter().filter(|loss| loss.needless.is_none());
        let (mut before, mut beyond) = (0, 0);
        for loss in lost {
            match loss.seen.side {
                Side::Before => before += 1,
                Side::Beyond => beyond += 1,
            }
        }
        match self {
            Self::Receiver if 10 * beyond > before + beyond => Self::Gateway,
            Self::Sender if 10 * before > before + beyond => Self::Gateway,
            place => place,
        }
    }
}

/// Diagnosis of a capture.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Packets in the capture.
    pub packets: u64,
    /// Of these, TCP segments that could be read.
    pub tcp: u64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Packets that are not a whole IP packet with TCP or UDP: fragments, other protocols, truncated headers, unknown
    /// encapsulations.
    pub unread: u64,
    /// Of these, packets in unknown encapsulations, by name, the most frequent first.
    pub encapsulations: Vec<Kind>,
    /// Of these, all others, by kind, the most frequent first.
    pub unread_kinds: Vec<Kind>,
    /// Ignored copies of packets that the capture has more than once.
    pub copies: u64,
    /// The same, by the difference between the copies.
    pub copy_kinds: CopyKinds,
    /// TCP segments whose options were captured only in part.
    pub options_cut: u64,
    /// Packets at interfaces that were not selected.
    pub other_interfaces: u64,
    /// Packets of link types that cannot be read, by number of the type.
    pub unknown_links: Vec<(u32, u64)>,
    /// Connections beyond the limit, which were not followed.
    pub flows_left_out: u64,
    /// Jumps of the clock.
    pub clock_steps: u64,
    /// Reason for which the capture ends early, if it does.
    pub damage: Option<String>,
    /// Connections in the order of their first packets.
    pub flows: Vec<FlowReport>,
    /// QUIC connections.
    pub quic: Vec<QuicReport>,
}

/// Packets of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Kind {
    /// Name of the kind.
    pub what: String,
    /// Number of packets.
    pub packets: u64,
}

/// A TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FlowReport {
    /// Number of the connection, from 1.
    pub number: usize,
    /// Interface of the capture, in a file of several interfaces.
    pub interface: Option<String>,
    /// Interface and device of the capture.
    #[serde(skip)]
    pub place: (u32, u32),
    /// First and last packet, by their numbers in the capture.
    pub packet_numbers: [u64; 2],
    /// Addresses, that of the initiator first if it is known.
    pub ends: [SocketAddr; 2],
    /// True if the capture has the beginning of the connection.
    pub from_the_beginning: bool,
    /// Seconds from the start of the capture to the connection's first and last packet.
    pub span_s: [f64; 2],
    /// Packets of both directions.
    pub packets: u64,
    /// Round trip from the capture to each end without load, in milliseconds.
    pub to_ends_ms: [Option<f64>; 2],
    /// Directions that carry data, the one with more data first.
    pub directions: Vec<Direction>,
}

/// One direction of a connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Direction {
    /// Sender.
    pub from: SocketAddr,
    /// Receiver.
    pub to: SocketAddr,
    /// Position of the capture.
    pub vantage: Vantage,
    /// Bytes of payload, without retransmissions.
    pub bytes: u64,
    /// Packets with payload.
    pub packets: u64,
    /// Largest payload of a packet on the wire, in bytes.
    pub segment_bytes: u32,
    /// Seconds from the first of these to the last.
    pub seconds: f64,
    /// Goodput in bits per second.
    pub goodput_bps: f64,
    /// Round trip without load, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Mean round trip, in milliseconds.
    pub mean_rtt_ms: Option<f64>,
    /// Maximum queueing delay, in milliseconds.
    pub longest_queue_ms: f64,
    /// Factor that limits the direction for most of the time.
    pub limit: Option<Factor>,
    /// Factors that limit the direction, with their shares of the time, the largest first.
    pub limits: Vec<Limit>,
    /// Rate of the bottleneck in bits of IP packets per second, if a queue showed it; includes other flows to the same
    /// host.
    pub bottleneck_bps: Option<f64>,
    /// Goodput that the bottleneck's rate would allow, in bits per second.
    pub could_reach_bps: Option<f64>,
    /// Lost packets by cause.
    #[serde(flatten)]
    pub causes: Causes,
    /// Retransmissions and timeouts.
    #[serde(flatten)]
    pub resent: Retransmissions,
    /// Reordered packets.
    pub reordered: u64,
    /// Bytes that were acknowledged but not captured.
    pub unseen_bytes: u64,
    /// Packets with a congestion mark (ECN) at the capture.
    pub marked: u64,
    /// Acknowledgments that echoed a mark.
    pub echoes: u64,
    /// Closed windows.
    #[serde(flatten)]
    pub window: WindowCounts,
    /// Packets that the path duplicated: sent once, and reported twice by the receiver.
    pub duplicated: u64,
    /// All losses and needless retransmissions.
    pub losses: Vec<LossReport>,
}

/// Share of the time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Limit {
    /// Limiting factor.
    pub factor: Factor,
    /// Share from 0 to 1.
    pub share: f64,
}

/// A loss.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LossReport {
    /// Number of the lost packet in the capture; for a packet lost before the capture, that of the packet that revealed
    /// the loss.
    pub packet: u64,
    /// Number of the packet that retransmitted the data.
    pub repaired_by: u64,
    /// Seconds since the start of the capture.
    pub time_s: f64,
    /// First sequence number.
    pub seq: u32,
    /// Bytes of payload.
    pub bytes: u32,
    /// Part of the path on which the packet was lost.
    pub side: Side,
    /// Way in which the sender detected the loss.
    pub repair: Repair,
    /// Number of times that the data had passed.
    pub transmission: u32,
    /// Reason why the packet was not lost.
    pub needless: Option<Needless>,
    /// Cause of the loss, and its evidence.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A QUIC connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QuicReport {
    /// Addresses.
    pub ends: [SocketAddr; 2],
    /// Packets that may carry a spin bit.
    pub packets: u64,
    /// Minimum and mean round trip in milliseconds, if the spin bit is used.
    pub spin_rtt_ms: Option<[f64; 2]>,
}

fn millis(nanos: f64) -> f64 {
    (nanos / 1e3).round() / 1e3
}

pub(crate) fn seconds(nanos: i64) -> f64 {
    (nanos as f64 / 1e3).round() / 1e6
}

impl Report {
    pub(crate) fn of(diagnosis: &Diagnosis, at: At, interfaces: &[Interface], damage: Option<String>) -> Self {
        let counts = &diagnosis.counts;
        let (begin, end) = counts.span.unwrap_or_default();
        let flows = diagnosis.flows.iter().enumerate();
        let cut_otherwise =
            diagnosis.flows.iter().flat_map(|flow| &flow.halves).map(|half| half.counts.cut_otherwise).sum();
        let copies = diagnosis.read.copies.kinds;
        let copy_kinds = CopyKinds { packets: copies.packets + cut_otherwise, cut_otherwise, ..copies };
        Self {
            packets: counts.packets,
            tcp: counts.tcp,
            seconds: seconds(end.saturating_sub(begin)),
            unread: counts.unread + counts.fragments,
            encapsulations: kinds(diagnosis, true),
            unread_kinds: kinds(diagnosis, false),
            copies: copy_kinds.all(),
            copy_kinds,
            options_cut: counts.options_cut,
            other_interfaces: counts.other_interfaces,
            unknown_links: counts.unknown_links.iter().map(|(&link, &packets)| (link, packets)).collect(),
            flows_left_out: counts.flows_left_out,
            clock_steps: counts.clock_steps,
            damage,
            flows: flows.map(|(index, flow)| FlowReport::of(flow, index + 1, begin, at, interfaces)).collect(),
            quic: diagnosis.quic.iter().map(QuicReport::of).collect(),
        }
    }
}

/// Returns the kinds of packets that were not read: encapsulations, or all others.
fn kinds(diagnosis: &Diagnosis, encapsulations: bool) -> Vec<Kind> {
    let counts = &diagnosis.counts;
    let is_encapsulation = |why: &Unread| matches!(why, Unread::Encapsulation(_));
    let mut kinds: Vec<Kind> = counts
        .unread_kinds
        .iter()
        .filter(|(why, _)| is_encapsulation(why) == encapsulations)
        .map(|(why, &packets)| Kind { what: why.to_string(), packets })
        .collect();
    if !encapsulations && counts.fragments > 0 {
        kinds.push(Kind { what: "fragments that cannot be reassembled".to_owned(), packets: counts.fragments });
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.packets));
    kinds
}

impl QuicReport {
    fn of(flow: &crate::spin::QuicFlow) -> Self {
        let spin = flow.spins.iter().find_map(crate::spin::Spin::round_trip);
        Self {
            ends: flow.ends,
            packets: flow.spins.iter().map(crate::spin::Spin::packets).sum(),
            spin_rtt_ms: spin.map(|(least, mean)| [millis(least as f64), millis(mean as f64)]),
        }
    }
}

impl FlowReport {
    fn of(flow: &Flow, number: usize, begin: i64, at: At, interfaces: &[Interface]) -> Self {
        let first = flow.handshake.initiator.unwrap_or(0);
        let order = [first, 1 - first];
        let name = interfaces.get(flow.place.0 as usize).and_then(|interface| interface.name.clone());
        let device = (flow.place.1 != 0).then(|| format!("{DEVICE}{}", flow.place.1));
        let mut directions: Vec<Direction> = order
            .into_iter()
            .filter(|&from| flow.halves[from].counts.packets > 0)
            .map(|from| Direction::of(flow, from, begin, at))
            .collect();
        directions.sort_by_key(|direction| std::cmp::Reverse(direction.bytes));
        Self {
            number,
            interface: if interfaces.len() > 1 { name.or(device) } else { device },
            place: flow.place,
            packet_numbers: [flow.numbers.0, flow.numbers.1],
            ends: order.map(|end| flow.ends[end]),
            from_the_beginning: flow.handshake.is_whole(),
            span_s: [flow.span.0, flow.span.1].map(|time| seconds(time.saturating_sub(begin))),
            packets: flow.packets,
            to_ends_ms: order.map(|end| flow.answers[end].least().map(|nanos| millis(nanos as f64))),
            directions,
        }
    }
}

/// Mean apparent delay due to timestamps, which are assumed to tick once a millisecond.
const HALF_A_TICK: f64 = 500_000.0;

/// Response time below which the capture was taken at this end: in nanoseconds, and as a share of the round trip.
const AT_ONCE: (f64, f64) = (300_000.0, 0.01);

fn vantage(to_sender: Option<i64>, to_receiver: Option<i64>) -> Vantage {
    let (Some(sender), Some(receiver)) = (to_sender, to_receiver) else { return Vantage::Unknown };
    let (sender, receiver) = (sender as f64, receiver as f64);
    let near = |one: f64, other: f64| one < other && one < AT_ONCE.0.max(AT_ONCE.1 * (one + other));
    if near(sender, receiver) {
        Vantage::Sender
    } else if near(receiver, sender) {
        Vantage::Receiver
    } else {
        Vantage::Gateway
    }
}

impl Direction {
    fn of(flow: &Flow, from: usize, begin: i64, at: At) -> Self {
        let half = &flow.halves[from];
        let to = 1 - from;
        let (to_sender, to_receiver) = (flow.answers[from].least(), flow.answers[to].least());
        let vantage = match at {
            At::Given(vantage) => vantage,
            At::Found => vantage(to_sender, to_receiver).witnessed(half),
        };
        let policers = policers(half);
        let losses = judged(half, policers, begin, at);
        let causes = Causes::of(half, policers, &losses);
        let (first, last) = half.counts.span.unwrap_or_default();
        let lasted = last.saturating_sub(first) as f64 / 1e9;
        // If the capture was taken at the receiver, there is no bottleneck beyond it.
        let path = if vantage == Vantage::Receiver { &half.before } else { &half.beyond };
        let other = if vantage == Vantage::Receiver { &half.beyond } else { &half.before };
        let bottleneck = match (path.rate(), other.rate()) {
            (Some(rate), Some(other_rate)) if other.full() > path.full() => Some(other_rate.min(rate)),
            (rate, other) => rate.or(other),
        };
        let bottleneck = match (bottleneck, causes.policer_bps) {
            (Some(rate), Some(policer)) => Some(rate.min(policer)),
            (rate, policer) => rate.or(policer),
        };
        let payload = if half.counts.wire > 0 {
            half.counts.bytes as f64 / half.counts.wire.max(half.counts.bytes) as f64
        } else {
            1.0
        };
        let limits = limits(half, &losses);
        let rtt = to_sender.unwrap_or(0).saturating_add(to_receiver.unwrap_or(0));
        // The sender's timestamps show the queue before the capture, if their resolution suffices.
        let queued =
            half.before.mean().zip(half.before.base()).map_or(0.0, |(mean, base)| mean - base as f64 - HALF_A_TICK);
        let mean = half.beyond.mean().map(|mean| mean + to_sender.unwrap_or(0) as f64 + queued.max(0.0));
        Self {
            from: flow.ends[from],
            to: flow.ends[to],
            vantage,
            bytes: half.counts.bytes,
            packets: half.counts.packets,
            segment_bytes: half.rounds.mss(),
            seconds: seconds(last.saturating_sub(first)),
            goodput_bps: if lasted > 0.0 { (half.counts.bytes as f64 * 8.0 / lasted).round() } else { 0.0 },
            rtt_ms: to_receiver.map(|_| millis(rtt as f64)),
            mean_rtt_ms: mean.map(millis),
            longest_queue_ms: millis(half.beyond.full().max(if vantage == Vantage::Sender {
                0
            } else {
                half.before.full()
            }) as f64),
            limit: limits.first().map(|limit| limit.factor),
            limits,
            bottleneck_bps: bottleneck.map(f64::round),
            could_reach_bps: bottleneck.map(|rate| (rate * payload).round()),
            causes: Causes { policer_bps: causes.policer_bps.map(f64::round), ..causes },
            resent: Retransmissions::of(half, &losses),
            reordered: half.counts.reordered,
            unseen_bytes: half.counts.unseen,
            marked: half.counts.marks,
            echoes: half.counts.echoes,
            window: WindowCounts::of(&half.window),
            duplicated: half.counts.duplicated(),
            losses,
        }
    }
}
