//! Configuration of an end, and its counters.

use alloc::vec::Vec;

use super::control::RateRule;
use super::tiers::Terms;
use crate::time::Duration;

/// Repair of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Retransmission.
    Repeat,
    /// Retransmission, with copies and a code where that is too late.
    Adaptive,
    /// Coded frames after each block of packets, as many as the loss rate suggests, and retransmission of packets that
    /// they do not restore, after AIRMAIL (Ayanoglu et al., 1995).
    Airmail(Reports),
    /// A fixed share of coded frames without retransmission; packets are passed on as they arrive.
    Share(Share),
}

/// Use of several paths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Multipath {
    /// Packets are spread over all paths.
    #[default]
    Bond,
    /// Each packet is sent on two paths.
    Redundant,
    /// Packets are sent on the first path that works; the others stand by.
    Failover,
}

/// Part of a path in the traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathUse {
    /// It carries packets, or is the only path.
    Used,
    /// It works, and carries none, as another one comes before it.
    Standby,
    /// It is switched off by its tier.
    Off,
    /// Its delay is unknown: it is probed with the next packets.
    Untried,
    /// The other end does not answer on it: it is probed.
    Down,
}

/// Paths of a hop after the first one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bundle {
    /// Use of the paths.
    pub multipath: Multipath,
    /// Sending rate of each path, and bytes that the hop adds to each packet on it.
    pub more: Vec<(RateRule, u16)>,
    /// Terms of the paths, starting with the first one of the hop; the default ones for those beyond.
    pub terms: Vec<Terms>,
}

/// Duplex mode: whether both ends of the hop can send at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Medium {
    /// Each direction has its own medium, like cables and most radio bridges with two frequencies.
    #[default]
    Own,
    /// Both take turns, as on Wi-Fi: each feedback frame costs the other direction more airtime than its bytes.
    Shared,
}

/// Schedule of an end's reports on arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reports {
    /// After every second frame, and immediately after a gap.
    Prompt,
    /// Periodically while frames arrive: AIRMAIL's base station.
    Periodic,
    /// Immediately after a gap, otherwise once for many frames: AIRMAIL's mobile host, and ends that share a medium.
    OnEvent,
}

/// Number of coded frames for a number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Packets in a block: at least 1, at most [`WINDOW`](super::WINDOW).
    pub data: u8,
    /// Coded frames for a full block; proportionally fewer for a partial one.
    pub coded: u8,
    /// Time after its last packet at which a block is closed, full or not.
    pub wait: Duration,
}

/// Parameters of an end. Each end has its own.
#[derive(Clone, PartialEq, Debug)]
pub struct HopConfig {
    /// Sending rate of this end.
    pub rate: RateRule,
    /// Repair of losses.
    pub repair: Repair,
    /// Medium on which frames are sent.
    pub medium: Medium,
    /// Bytes that the hop adds to each packet.
    pub header: u16,
    /// Maximum number of packets in the entry queue; `None` for as many as the hop carries in three round trips, at
    /// least 1000.
    pub queue: Option<u32>,
    /// Memory for packets in bytes, a third each for those in flight, those held for an earlier one, and an entry queue
    /// that follows the hop.
    pub memory: u64,
    /// Target delay of that queue (RFC 8289), beyond a round trip of the hop; at least 1.5 frames.
    pub target: Duration,
    /// Time for which the delay may exceed the target before packets are dropped or marked; at least ten times the
    /// target.
    pub interval: Duration,
}

/// Number of items that an end stores, each bounded for any input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Packets in the entry queue.
    pub waiting: usize,
    /// Symbols from the first that is neither acknowledged nor given up.
    pub symbols: usize,
    /// Tracked transmissions.
    pub transmissions: usize,
    /// Planned transmissions.
    pub planned: usize,
    /// Packets held for an earlier one of their flow.
    pub held: usize,
    /// Symbols between the first missing and the last received.
    pub span: usize,
    /// Symbols and equations stored by the decoder.
    pub decoder: (usize, usize),
    /// Tracked flows.
    pub flows: usize,
    /// Tracked TCP connections.
    pub connections: usize,
}

/// Counters of an end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Packets dropped from the entry queue.
    pub dropped: u64,
    /// Number of times that receive-window clamping signalled congestion to a TCP source instead of a drop.
    pub windows_cut: u64,
    /// Packets given up by this end as a sender.
    pub given_up: u64,
    /// Packets passed on before an earlier one of their flow.
    pub released: u64,
    /// Packets retransmitted because they were lost.
    pub resent: u64,
    /// Copies and coded frames sent ahead of losses.
    pub redundant: u64,
    /// Symbols restored by a code at this end.
    pub restored: u64,
    /// Feedback frames sent.
    pub feedback: u64,
    /// Frames refused as invalid or too late.
    pub refused: u64,
}
