//! The receiver's part of explicit congestion notification.

use crate::packet::Ecn;
use crate::tcp::config::{EcnEcho, Switch};

/// State of ECN at a receiver (RFC 3168 §6.1.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// On if both ends have negotiated ECN.
    pub used: Switch,
    /// On if acknowledgments carry ECE: a mark arrived, and no CWR since, or the newest packet was marked.
    pub echo: Switch,
    /// On if the peer has sent ECN-capable packets.
    pub seen: Switch,
    /// Meaning of the echo.
    rule: EcnEcho,
}

impl Marks {
    pub const fn new(rule: EcnEcho) -> Self {
        Self { used: Switch::Off, echo: Switch::Off, seen: Switch::Off, rule }
    }

    /// Returns whether the echo tells the mark of the newest packet.
    pub fn are_per_packet(&self) -> bool {
        self.rule == EcnEcho::PerPacket
    }

    /// Records that the sender has answered the echo (CWR).
    pub fn on_answer(&mut self) {
        if !self.are_per_packet() {
            self.echo = Switch::Off;
        }
    }

    /// Records a data packet. Returns whether the echo changes.
    pub fn see(&mut self, ecn: Ecn) -> bool {
        let before = self.echo;
        if self.used.is_on() && ecn.is_capable() {
            self.seen = Switch::On;
            match (ecn, self.rule) {
                (Ecn::Ce, _) => self.echo = Switch::On,
                (_, EcnEcho::PerPacket) => self.echo = Switch::Off,
                (_, EcnEcho::Rfc3168) => {}
            }
        }
        self.echo != before
    }
}
