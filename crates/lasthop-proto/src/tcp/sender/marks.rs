//! The sender's part of explicit congestion notification (RFC 3168 §6.1.2).

use super::Sender;
use super::contract::Sending;
use super::kind::each;
use crate::tcp::config::Switch;

/// State of the answers to the peer's echoes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Position until whose acknowledgment echoes refer to the window that was already reduced: the peer has not seen
    /// the answer.
    reduced_until: u64,
    /// On if a reduction has yet to be reported to the peer.
    untold: Switch,
}

impl Default for Marks {
    fn default() -> Self {
        Self { reduced_until: 0, untold: Switch::Off }
    }
}

impl Sender {
    /// Reduces the window as for a loss, at most once per window and without a retransmission, because the last
    /// processed acknowledgment echoes a mark.
    pub fn on_ecn_echo(&mut self) {
        if !self.stream.is_idle() && self.begin_reduction().is_on() {
            each!(&mut self.kind, sender => sender.on_echo(&self.stream));
        }
    }

    /// Records a retransmission: recovery from the loss has reduced the window, and echoes in the same window cause no
    /// further reduction.
    pub fn on_sent_again(&mut self) {
        self.begin_reduction();
    }

    /// Records that the window is reduced, unless it was already reduced while the outstanding data was being sent.
    fn begin_reduction(&mut self) -> Switch {
        if self.stream.una_pos() <= self.marks.reduced_until {
            return Switch::Off;
        }
        self.marks = Marks { reduced_until: self.stream.pos(self.stream.snd_max()), untold: Switch::On };
        Switch::On
    }

    /// Returns whether the new data segment being sent is the first after a reduction, which it reports to the peer
    /// (CWR).
    pub fn take_reduced(&mut self) -> Switch {
        let untold = core::mem::replace(&mut self.marks.untold, Switch::Off);
        each!(&mut self.kind, sender => sender.take_reduced()).unwrap_or(untold)
    }
}
