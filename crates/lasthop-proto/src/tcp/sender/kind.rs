//! Choice between the two senders.

use crate::tcp::classic::Classic;
use crate::tcp::config::{SenderConfig, TcpConfig};
use crate::tcp::modern::Modern;

/// One of the two senders.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Byte windows, and recoveries from Reno to RFC 6675.
    Classic(Classic),
    /// RACK-TLP.
    Modern(Modern),
}

impl Kind {
    /// Returns the sender that `config` selects. Random draws of its congestion control derive from `seed`.
    pub fn new(config: &TcpConfig, seed: u64) -> Self {
        match &config.sender {
            SenderConfig::Classic(classic) => Self::Classic(Classic::new(classic, &config.common)),
            SenderConfig::Modern(modern) => Self::Modern(Modern::new(modern, seed)),
        }
    }
}

/// Calls a method of [`Sending`](super::contract::Sending).
macro_rules! each {
    ($kind:expr, $sender:ident => $call:expr) => {
        match $kind {
            $crate::tcp::sender::kind::Kind::Classic($sender) => $call,
            $crate::tcp::sender::kind::Kind::Modern($sender) => $call,
        }
    };
}
pub(super) use each;
