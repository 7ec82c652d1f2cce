//! What explicit congestion notification asks of a sender (RFC 3168 §6.1.2).

use super::Sender;
use crate::tcp::config::Switch;

/// Since when it has answered the peer's echoes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Until something beyond this position is acknowledged, echoes speak of the window that was reduced already: the peer has
    /// not seen the answer.
    reduced_until: u64,
    /// Whether the peer is yet to be told of a reduction.
    untold: Switch,
}

impl Default for Marks {
    fn default() -> Self {
        Self { reduced_until: 0, untold: Switch::Off }
    }
}

impl Sender {
    /// The acknowledgment that was taken last echoes a mark: the window is reduced as for a loss, at most once a window, and
    /// nothing is sent again. RACK-TLP has reduced its own when it took the acknowledgment.
    pub fn on_ecn_echo(&mut self) {
        let reduces = self.state.flight() > 0 && self.begin_reduction().is_on();
        if reduces && self.recovery.rack().is_none() {
            self.state.cc.halve(self.state.outstanding());
        }
    }

    /// Something is sent again: recovery from the loss has reduced the window, of which echoes that come with it say no more.
    pub fn on_sent_again(&mut self) {
        self.begin_reduction();
    }

    /// Notes that the window is reduced, unless it was while what is outstanding now was being sent.
    fn begin_reduction(&mut self) -> Switch {
        if self.state.una_pos <= self.marks.reduced_until {
            return Switch::Off;
        }
        self.marks = Marks { reduced_until: self.state.pos(self.state.snd_max), untold: Switch::On };
        Switch::On
    }

    /// Whether the segment of new data that is being sent is the first after a reduction, which tells the peer (CWR).
    pub fn take_reduced(&mut self) -> Switch {
        core::mem::replace(&mut self.marks.untold, Switch::Off)
    }
}
