//! Deferral of a burst that windows cut short, until the next acknowledgment lets a longer one leave (Linux
//! `tcp_tso_should_defer`).

use super::Rack;
use crate::tcp::congestion::control::CaState;
use crate::tcp::stream::{NewData, Stream};
use crate::time::{Duration, Instant};

/// Maximum time since the last transmission, and until the next acknowledgment is expected.
const NEAR: Duration = Duration::from_millis(1);
/// Share of the window that always leaves (`net.ipv4.tcp_tso_win_divisor`).
const WINDOW_DIVISOR: u64 = 3;

impl Rack {
    /// Returns whether a burst that begins with `new`, with more than a segment in the send buffer, waits for the next
    /// acknowledgment.
    #[inline]
    pub fn defers(&mut self, s: &Stream, now: Instant, new: &NewData) -> bool {
        let steady = !matches!(self.phase.state, CaState::Recovery | CaState::Loss) && self.forced.is_none();
        steady && now.since(self.sent.at) <= NEAR && self.expects_more_room(s, now, new)
    }

    #[inline(never)]
    fn expects_more_room(&mut self, s: &Stream, now: Instant, new: &NewData) -> bool {
        let Some(oldest) = self.flight.front() else { return false };
        let mss = u64::from(s.mss());
        let window = u64::from(self.control.window());
        let peer = u64::from(s.snd_wnd().saturating_sub(s.snd_nxt().since(s.snd_una())));
        let congestion = window.saturating_sub(u64::from(self.flight.in_flight())) * mss;
        let limit = peer.min(congestion);
        let share = u64::from(s.snd_wnd()).min(window * mss) / WINDOW_DIVISOR;
        if limit >= share || limit >= u64::from(self.burst(s)) * mss {
            return false;
        }
        let srtt = s.rtt().srtt().unwrap_or(Duration::ZERO);
        let expected = (oldest.sent_at() + srtt).since(now);
        if expected > NEAR.min(srtt / 2) {
            return false;
        }
        let written = u64::from(new.in_buffer);
        if congestion < peer && congestion <= written {
            self.deferred = true;
            return true;
        }
        // The data fits: more may be written, unless the stream ends.
        peer <= congestion && peer <= written || !s.is_closed()
    }
}
