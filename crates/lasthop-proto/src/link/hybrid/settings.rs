//! How an end is set up, and what it says of itself.

use super::control::RateRule;
use crate::time::Duration;

/// What is done against losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Packets are sent again.
    Repeat,
    /// Packets are sent again; copies and a code help where that comes too late.
    Adaptive,
    /// Coded frames behind each block of packets, as many as losses suggest, and packets are sent again that they do not restore: after
    /// AIRMAIL (Ayanoglu et al., 1995).
    Airmail(Reports),
    /// A fixed share of coded frames, nothing is sent again, everything is handed on when it arrives.
    Share(Share),
}

/// Whether both ends of the hop send at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Medium {
    /// Each direction has one of its own, as cables and most radio bridges with two frequencies have.
    #[default]
    Own,
    /// Both take turns, as on Wi-Fi: each frame of feedback costs the other direction more airtime than its bytes.
    Shared,
}

/// When an end says what arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reports {
    /// With every second frame, and at once behind a gap.
    Prompt,
    /// Time after time while something arrives: AIRMAIL's base station.
    Periodic,
    /// At once behind a gap, otherwise for many frames together: AIRMAIL's mobile host, and ends that share a medium.
    OnEvent,
}

/// Coded frames for a number of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Packets in a block: at least 1, at most [`WINDOW`](super::WINDOW).
    pub data: u8,
    /// Coded frames for a full block; fewer, in proportion, for one that is not.
    pub coded: u8,
    /// A block is closed so long after its last packet, full or not.
    pub wait: Duration,
}

/// Parameters of an end. Each end has its own.
#[derive(Clone, PartialEq, Debug)]
pub struct HopConfig {
    /// How fast this end sends.
    pub rate: RateRule,
    /// What is done against losses.
    pub repair: Repair,
    /// What frames are sent on.
    pub medium: Medium,
    /// Bytes that the hop adds to each packet.
    pub header: u16,
    /// Packets that wait at the entrance.
    pub queue: u32,
    /// The wait there that is accepted (RFC 8289), above a round trip of the hop, if it is more than that of 1.5 frames.
    pub target: Duration,
    /// For how long it may be more before packets are dropped or marked; at least ten times what is accepted.
    pub interval: Duration,
}

/// How much an end remembers, each of it bounded whatever arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Packets that wait at the entrance.
    pub waiting: usize,
    /// Symbols from the first that is neither acknowledged nor given up.
    pub symbols: usize,
    /// Transmissions remembered.
    pub transmissions: usize,
    /// Transmissions that are planned.
    pub planned: usize,
    /// Packets that wait for an earlier one of their flow.
    pub held: usize,
    /// Symbols between the first missing and the last received.
    pub span: usize,
    /// Symbols and equations that the decoder keeps.
    pub decoder: (usize, usize),
    /// Flows that are remembered.
    pub flows: usize,
    /// TCP connections that are remembered.
    pub connections: usize,
}

/// What an end has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Packets dropped at the entrance.
    pub dropped: u64,
    /// Times that a TCP source was told of congestion by the window that it is offered, where a packet would have been dropped.
    pub windows_cut: u64,
    /// Packets given up by this end as a sender.
    pub given_up: u64,
    /// Packets handed on before an earlier one of their flow.
    pub released: u64,
    /// Packets sent again because they were lost.
    pub resent: u64,
    /// Copies and coded frames sent ahead of losses.
    pub redundant: u64,
    /// Symbols that a code restored at this end.
    pub restored: u64,
    /// Feedback sent.
    pub feedback: u64,
    /// Frames that could not be true, or came too late.
    pub refused: u64,
}
