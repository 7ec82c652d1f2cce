//! The receiver's part of explicit congestion notification.

use crate::packet::Ecn;
use crate::tcp::config::Switch;

/// What ECN asks of a receiver (RFC 3168 §6.1.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Whether both ends have agreed on ECN.
    pub used: Switch,
    /// Whether acknowledgments carry ECE: a mark came, and no CWR since.
    pub echo: Switch,
    /// Whether the peer has sent packets that take marks.
    pub seen: Switch,
}

impl Marks {
    pub const NONE: Self = Self { used: Switch::Off, echo: Switch::Off, seen: Switch::Off };

    /// A packet with data came.
    pub fn see(&mut self, ecn: Ecn) {
        if self.used.is_on() && ecn.is_capable() {
            self.seen = Switch::On;
            if ecn == Ecn::Ce {
                self.echo = Switch::On;
            }
        }
    }
}
