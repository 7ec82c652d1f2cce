//! Parameters of the snoop element.

pub use super::hop_window::HopControl;
use crate::packet::Priority;
use crate::scheme::{LocalDetection, TcpAwareness};
use crate::tcp::config::Switch;
use crate::time::Duration;

/// Where local retransmissions go among the packets that wait for the wireless hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairPriority {
    /// Urgent where the scheme knows TCP, normal where it does not.
    Auto,
    /// Ahead of queued data: few duplicates arise before the hole is filled.
    Urgent,
    /// Behind it, as any packet.
    Normal,
}

/// When a connection's losses begin to be repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// With its first packet.
    AtOnce,
    /// When nothing has come from the mobile host for as long as the local timer waits, and then for 10 s. Before, all passes, and losses are the sender's.
    AfterSilence,
}

/// Parameters of the snoop element.
#[derive(Clone, PartialEq, Debug)]
pub struct SnoopConfig {
    /// How losses on the hop are found.
    pub detection: LocalDetection,
    /// Whether duplicate acknowledgments are suppressed.
    pub awareness: TcpAwareness,
    /// Most payload bytes cached, all connections together; a packet counts at least 256.
    pub cache_bytes: u64,
    /// Most connections with state; the least recently used one goes first.
    pub connections: usize,
    /// Where local retransmissions go in the queue.
    pub priority: RepairPriority,
    /// Duplicate acknowledgments that trigger a local retransmission (\[a\]: "a small number").
    pub dupack_threshold: u32,
    /// Smallest local timeout (\[a\] §III-A: 200 ms).
    pub timer_min: Duration,
    /// Largest local timeout.
    pub timer_max: Duration,
    /// Timer-driven local retransmissions of one packet before it is left to the sender.
    pub max_local_retries: u32,
    /// When a connection's losses begin to be repaired.
    pub begin: Begin,
    /// Whether losses while the queue in front of the hop is nearly full are left to the sender as well, so that it slows down. It says
    /// nothing with flow control, which keeps the queue short; nor without SACK blocks.
    pub tells_congestion: Switch,
    /// Flow control on the hop; none in \[a\], whose windows were smaller than the base station's queue.
    pub hop: Option<HopControl>,
}

impl SnoopConfig {
    /// The defaults: 16 MiB for 16,384 connections, a local timer of 200 ms to 3 s with 10 retries, and the first
    /// duplicate acknowledgment triggers. Retransmissions go ahead of queued data under the TCP-aware schemes only.
    ///
    /// \[a\] §III-A asks for "a small number" of duplicates. Nothing between the base station and the mobile host changes
    /// the order of packets, so one is proof; and a window of 5 packets does not yield many more.
    pub const fn new(detection: LocalDetection, awareness: TcpAwareness) -> Self {
        Self {
            detection,
            awareness,
            cache_bytes: 16 << 20,
            connections: 16_384,
            priority: RepairPriority::Auto,
            dupack_threshold: 1,
            timer_min: Duration::from_millis(200),
            timer_max: Duration::from_secs(3),
            max_local_retries: 10,
            begin: Begin::AtOnce,
            tells_congestion: Switch::Off,
            hop: None,
        }
    }

    /// For the TCP of today: SACK blocks as masks (duplicates where there are none) and a local timer from 50 ms to 1 s, since
    /// senders no longer wait for a second but for 200 ms and the round trip; 64 MiB.
    pub const fn modern() -> Self {
        Self {
            timer_min: Duration::from_millis(50),
            timer_max: Duration::from_secs(1),
            cache_bytes: 64 << 20,
            ..Self::new(LocalDetection::Smart, TcpAwareness::Aware)
        }
    }

    /// What the gateway does where its configuration says nothing: [`SnoopConfig::modern`] with flow control, since senders of
    /// today would fill the queue in front of the hop. Repairs wait behind what is queued there: nothing that leaves a gateway
    /// overtakes what is in a queue of the kernel's.
    pub const fn gateway() -> Self {
        Self {
            priority: RepairPriority::Normal,
            tells_congestion: Switch::On,
            hop: Some(HopControl::DEFAULT),
            ..Self::modern()
        }
    }

    /// What the gateway does beneath its own relay's connections over the hop: [`SnoopConfig::gateway`] after a silence, without flow control. As long as anything comes back, that relay's
    /// BBR with RACK repairs as fast, and waits for no acknowledgment that is kept from it.
    pub const fn beneath_relay() -> Self {
        Self { begin: Begin::AfterSilence, tells_congestion: Switch::Off, hop: None, ..Self::gateway() }
    }

    /// Flow control on the hop, where it is possible: without TCP's acknowledgments in hand there is nothing to control.
    pub(super) fn hop_control(&self) -> Option<HopControl> {
        self.hop.filter(|_| self.awareness == TcpAwareness::Aware)
    }

    /// The priority that local retransmissions get.
    ///
    /// \[a\] finds that LL's losses are repaired by the source as well in nine of ten cases. That takes three duplicates before
    /// the repair arrives, so LL's repairs must have waited behind queued data. Snoop sends them ahead of it.
    pub(super) const fn queue_priority(&self) -> Priority {
        match (self.priority, self.awareness) {
            (RepairPriority::Urgent, _) | (RepairPriority::Auto, TcpAwareness::Aware) => Priority::Urgent,
            (RepairPriority::Normal, _) | (RepairPriority::Auto, TcpAwareness::Unaware) => Priority::Normal,
        }
    }
}
