//! Settings of the modern sender.

use super::{ControlRule, Switch};

/// Method by which the modern sender reduces the window to the threshold (proportional rate reduction).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowReduction {
    /// In proportion to the previous window (Linux).
    Linux,
    /// In proportion to the data in flight before the reduction (RFC 9937).
    Rfc9937,
}

/// Size of the send buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendAutotune {
    /// [`CommonConfig::send_buffer`](super::CommonConfig::send_buffer), which counts data only.
    Off,
    /// Linux 6.18: grows from 16 KiB of memory to the amount that two congestion windows take, three with BBR, up to
    /// [`CommonConfig::send_buffer`](super::CommonConfig::send_buffer).
    Linux,
}

/// Handling of a segment of which only a part is within the peer's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEdge {
    /// Waits until the whole segment is inside the window.
    Whole,
    /// The part inside the window leaves after a whole segment of the same burst (Linux `tcp_mss_split_point`).
    Cut,
}

/// Data segments that carry PSH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// No PSH: the application reads data as it arrives.
    Never,
    /// The last of a burst of several, and the last of the data written by the application (Linux `__tcp_transmit_skb`,
    /// `tcp_push`).
    Bursts,
}

/// Queue discipline of the sender's host, as far as it affects when segments leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Qdisc {
    /// Segments leave in order as fast as the link takes them (Linux `pfifo_fast`).
    Fifo,
    /// Paces each connection at the rate that Linux sets for it (`fq` and `sk_pacing_rate`), also if its congestion
    /// control does not pace.
    Fq,
}

/// Settings of the modern sender.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModernConfig {
    /// Congestion control.
    pub congestion: ControlRule,
    /// Window reduction.
    pub window_reduction: WindowReduction,
    /// Undoes reductions that timestamps or duplicate SACKs show to be spurious (RFC 4015, RFC 3708).
    pub undo: Switch,
    /// Detects spurious timeouts by acknowledgments of data sent once (RFC 5682).
    pub frto: Switch,
    /// Sends a probe ahead of the timeout (RFC 8985 §7).
    pub tlp: Switch,
    /// Limits the sender's share of the host's own queue (TCP small queues; Linux `tcp_small_queue_check`).
    pub small_queues: Switch,
    /// Auto-tuning of the send buffer.
    pub send_autotune: SendAutotune,
    /// Maximum number of segments that pacing releases at once (Linux: the device's `gso_max_segs`); the congestion
    /// control sizes bursts within it.
    pub send_quantum: u32,
    /// Queue discipline of the host.
    pub qdisc: Qdisc,
    /// Segmentation offload: the sender passes bursts as super-segments to the device, which splits them.
    pub tso: Switch,
    /// Handling of a segment at the edge of the peer's window.
    pub window_edge: WindowEdge,
    /// Segments that carry PSH.
    pub push: Push,
}
