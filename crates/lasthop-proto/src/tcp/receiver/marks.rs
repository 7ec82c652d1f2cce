//! The receiver's part of explicit congestion notification.

use crate::packet::Ecn;
use crate::tcp::config::Switch;

/// State of ECN at a receiver (RFC 3168 §6.1.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// On if both ends have negotiated ECN.
    pub used: Switch,
    /// On if acknowledgments carry ECE: a mark arrived, and no CWR since.
    pub echo: Switch,
    /// On if the peer has sent ECN-capable packets.
    pub seen: Switch,
}

impl Marks {
    pub const NONE: Self = Self { used: Switch::Off, echo: Switch::Off, seen: Switch::Off };

    /// Records a data packet.
    pub fn see(&mut self, ecn: Ecn) {
        if self.used.is_on() && ecn.is_capable() {
            self.seen = Switch::On;
            if ecn == Ecn::Ce {
                self.echo = Switch::On;
            }
        }
    }
}
