//! Parameters of the snoop element.

pub use super::hop_window::HopControl;
use crate::packet::Priority;
use crate::tcp::config::Switch;
use crate::time::Duration;

/// Loss detection on the hop (\[a\] §III-A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalDetection {
    /// Duplicate acknowledgments and a timer: one hole at a time.
    DuplicateAcks,
    /// The SMART number: every hole, each once per link round trip.
    Smart,
}

/// Treatment of duplicate acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpAwareness {
    /// Duplicate acknowledgments pass to the sender.
    Unaware,
    /// Duplicate acknowledgments for losses that the hop repairs are suppressed.
    Aware,
}

/// Priority of local retransmissions relative to packets queued for the wireless hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairPriority {
    /// Urgent if the scheme is TCP-aware, normal otherwise.
    Auto,
    /// Ahead of queued data, so that few duplicates arrive before the hole is filled.
    Urgent,
    /// Behind queued data, like any other packet.
    Normal,
}

/// Time from which a connection's losses are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// From its first packet.
    AtOnce,
    /// For 10 s after a silence of the mobile host as long as the local timer. Before that, all packets pass, and
    /// losses are left to the sender.
    AfterSilence,
}

/// Parameters of the snoop element.
#[derive(Clone, PartialEq, Debug)]
pub struct SnoopConfig {
    /// Method of detecting losses on the hop.
    pub detection: LocalDetection,
    /// Suppression of duplicate acknowledgments.
    pub awareness: TcpAwareness,
    /// Maximum number of payload bytes cached for all connections together; a packet counts at least 256.
    pub cache_bytes: u64,
    /// Maximum number of connections with state; the least recently used one is evicted first.
    pub connections: usize,
    /// Priority of local retransmissions in the queue.
    pub priority: RepairPriority,
    /// Number of duplicate acknowledgments that trigger a local retransmission (\[a\]: "a small number").
    pub dupack_threshold: u32,
    /// Minimum local timeout (\[a\] §III-A: 200 ms).
    pub timer_min: Duration,
    /// Maximum local timeout.
    pub timer_max: Duration,
    /// Maximum number of timer-driven local retransmissions of a packet before it is left to the sender.
    pub max_local_retries: u32,
    /// Time from which a connection's losses are repaired.
    pub begin: Begin,
    /// Makes losses visible to the sender while the queue in front of the hop is nearly full, so that the sender slows
    /// down. Has no effect with flow control, which keeps the queue short, or without SACK blocks.
    pub tells_congestion: Switch,
    /// Flow control on the hop. `None` in \[a\], where windows were smaller than the base station's queue.
    pub hop: Option<HopControl>,
}

impl SnoopConfig {
    /// Returns the defaults: 16 MiB for 16,384 connections, a local timeout of 200 ms to 3 s with 10 retries, and
    /// repair at the first duplicate acknowledgment. Only the TCP-aware schemes send retransmissions ahead of queued
    /// data.
    ///
    /// \[a\] §III-A asks for "a small number" of duplicates. Nothing between the base station and the mobile host
    /// reorders packets, so one duplicate is proof, and a window of 5 packets yields few more.
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

    /// Returns parameters for modern TCP: SACK blocks as masks (duplicates if there are none), a local timeout of 50 ms
    /// to 1 s, since modern senders wait for 200 ms plus the round trip instead of 1 s, and 64 MiB.
    pub const fn modern() -> Self {
        Self {
            timer_min: Duration::from_millis(50),
            timer_max: Duration::from_secs(1),
            cache_bytes: 64 << 20,
            ..Self::new(LocalDetection::Smart, TcpAwareness::Aware)
        }
    }

    /// Returns the gateway's defaults: [`SnoopConfig::modern`] with flow control, because modern senders would
    /// otherwise fill the queue in front of the hop. Repairs wait behind queued data, because no packet from a gateway
    /// can overtake the kernel's queues.
    pub const fn gateway() -> Self {
        Self {
            priority: RepairPriority::Normal,
            tells_congestion: Switch::On,
            hop: Some(HopControl::DEFAULT),
            ..Self::modern()
        }
    }

    /// Returns the gateway's parameters beneath its own relay's connections over the hop: [`SnoopConfig::gateway`]
    /// after a silence, without flow control. While acknowledgments arrive, the relay's BBR with RACK repairs as fast,
    /// and no acknowledgment is withheld from it.
    pub const fn beneath_relay() -> Self {
        Self { begin: Begin::AfterSilence, tells_congestion: Switch::Off, hop: None, ..Self::gateway() }
    }

    /// Returns the flow control on the hop, if possible: it needs a TCP-aware scheme, since it acts through TCP's
    /// acknowledgments.
    pub(super) fn hop_control(&self) -> Option<HopControl> {
        self.hop.filter(|_| self.awareness == TcpAwareness::Aware)
    }

    /// Returns the priority of local retransmissions.
    ///
    /// \[a\] finds that the source also repairs nine of ten of LL's losses. That takes three duplicates before the
    /// repair arrives, so LL's repairs must have waited behind queued data. Snoop sends them ahead of it.
    pub(super) const fn queue_priority(&self) -> Priority {
        match (self.priority, self.awareness) {
            (RepairPriority::Urgent, _) | (RepairPriority::Auto, TcpAwareness::Aware) => Priority::Urgent,
            (RepairPriority::Normal, _) | (RepairPriority::Auto, TcpAwareness::Unaware) => Priority::Normal,
        }
    }
}
