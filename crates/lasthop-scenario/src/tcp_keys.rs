//! Names of a TCP endpoint's keys.

use crate::document::{Data, quote};
use crate::reader::{Reader, Value};

/// All keys, in the order in which `explain` prints them.
pub(crate) const KEYS: [&str; 67] = [
    "preset",
    "given",
    "mss",
    "socket_buffer",
    "send_buffer",
    "receive_buffer",
    "window_scale",
    "timestamps",
    "paws",
    "headers",
    "recovery",
    "sack_algorithm",
    "sack_blocks",
    "sack_eln",
    "smart_acks",
    "smart_rtt",
    "clock",
    "slow_tick",
    "fast_tick",
    "jiffy",
    "timer_wheel",
    "tick_phase",
    "rtt_rule",
    "rtt_granularity",
    "rto_initial",
    "rto_min",
    "rto_max",
    "max_backoff",
    "max_retries",
    "delayed_ack",
    "delayed_ack_timeout",
    "sack_compression",
    "dsack",
    "receive_autotune",
    "send_autotune",
    "ack_before_read",
    "ecn",
    "ack_congestion",
    "initial_window",
    "initial_ssthresh",
    "max_cwnd",
    "congestion",
    "hystart",
    "window_reduction",
    "undo",
    "frto",
    "tlp",
    "small_queues",
    "growth",
    "deflation",
    "dupack_threshold",
    "limited_transmit",
    "header_prediction",
    "impure_duplicates",
    "recovery_guard",
    "recovery_burst",
    "partial_ack_timer",
    "partial_deflation",
    "eln_inflation",
    "idle_restart",
    "nagle",
    "handshake_ack",
    "send_quantum",
    "window_edge",
    "window_probe",
    "push",
    "time_wait",
];

/// Name of a key of endpoints, except `preset` and `given`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyName(pub &'static str);

impl KeyName {
    /// Returns the keys in a table.
    pub(crate) fn all_in(table: &Reader<'_>) -> impl Iterator<Item = Self> {
        table.items().filter_map(|(key, _)| Self::find(key))
    }

    fn find(name: &str) -> Option<Self> {
        let own = KEYS.into_iter().filter(|key| !["preset", "given"].contains(key));
        own.into_iter().find(|key| *key == name).map(Self)
    }
}

impl Value for KeyName {
    fn expected() -> String {
        "the name of a key of this table, e.g. \"mss\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(name) => Self::find(name).ok_or_else(|| format!("{} is not one", data.describe())),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(self.0)
    }
}
