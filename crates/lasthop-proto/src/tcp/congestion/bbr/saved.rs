//! State before recovery or `PROBE_RTT`.

use super::CaState;

/// Window to restore, and the sender's last state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub state: CaState,
    pub cwnd: u32,
}

impl Default for Saved {
    fn default() -> Self {
        Self { state: CaState::Open, cwnd: 0 }
    }
}

impl Saved {
    /// Saves a window, or its maximum with the saved one if the present window is already reduced.
    pub fn save(&mut self, cwnd: u32, is_reduced: bool) {
        let is_good = self.state < CaState::Recovery && !is_reduced;
        self.cwnd = if is_good { cwnd } else { self.cwnd.max(cwnd) };
    }
}
