//! The sender's part of [`TcpInfo`].

use super::Rack;
use crate::tcp::info::TcpInfo;
use crate::tcp::stream::Stream;

impl Rack {
    /// Fills in the values of `info` that RACK and the components that it controls know.
    #[cold]
    pub fn describe(&self, s: &Stream, info: &mut TcpInfo) {
        let (window, ssthresh) = self.window();
        info.has_scoreboard = true;
        info.ca_state = self.phase.state;
        info.snd_cwnd = window;
        info.snd_ssthresh = (ssthresh < u32::MAX).then_some(ssthresh);
        info.flight.unacked = self.flight.len();
        info.flight.sacked = self.flight.sacked();
        info.flight.lost = self.flight.lost();
        info.flight.retrans = self.flight.resent();
        info.min_rtt = self.min_rtt.get();
        info.reordering = self.reordering.degree();
        info.total_retrans = self.copies.sent.into();
        info.dsack_dups = self.copies.reported.into();
        info.delivered = self.rate.delivered();
        info.pacing_rate = self.control.pacing().map_or_else(|| self.unpaced_rate(s), |pacing| pacing.rate);
    }
}
