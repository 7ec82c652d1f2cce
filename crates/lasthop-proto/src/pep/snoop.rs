//! The snoop protocol and its siblings: local retransmission from a cache at the base station.

use crate::scheme::{LocalDetection, TcpAwareness};
use crate::time::Duration;

/// Parameters of the snoop element.
#[derive(Clone, PartialEq, Debug)]
pub struct SnoopConfig {
    /// How losses on the hop are found.
    pub detection: LocalDetection,
    /// Whether duplicate acknowledgments are suppressed.
    pub awareness: TcpAwareness,
    /// Most payload bytes cached, all connections together.
    pub cache_bytes: u64,
    /// Most connections with state; the least recently used one goes first.
    pub connections: usize,
    /// Duplicate acknowledgments that trigger a local retransmission ([a]: "a small number").
    pub dupack_threshold: u32,
    /// Smallest local timeout ([a] §III-A: 200 ms).
    pub timer_min: Duration,
    /// Largest local timeout.
    pub timer_max: Duration,
    /// Timer-driven local retransmissions of one packet before it is left to the sender.
    pub max_local_retries: u32,
}
