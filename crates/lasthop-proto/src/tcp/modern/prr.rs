//! Proportional rate reduction: reduces the window to the threshold while losses are repaired, in proportion to the
//! data delivered (RFC 9937, and Linux's `tcp_cwnd_reduction`). Counts are segments.

use crate::tcp::config::WindowReduction;

/// A reduction in progress.
#[derive(Clone, Copy, Default, Debug)]
pub struct Prr {
    /// Data in flight at the start of the reduction: RecoverFS, or Linux's `prior_cwnd`.
    prior: u32,
    /// Segments delivered since (`prr_delivered`).
    delivered: u32,
    /// Segments sent since (`prr_out`).
    out: u32,
}

/// State at the start of a reduction.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Congestion window.
    pub window: u32,
    /// Segments sent and not acknowledged.
    pub out: u32,
    /// Segments of `out` that were selectively acknowledged.
    pub sacked: u32,
    /// Segments delivered by the acknowledgment that shows the loss.
    pub delivered: u32,
}

/// Input of a reduction from an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Segments newly delivered.
    pub delivered: u32,
    /// Segments in flight after the acknowledgment.
    pub in_flight: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// True if `snd_una` advanced and no further loss was found (RFC 9937 §6.2 SafeACK).
    pub is_safe: bool,
}

impl Prr {
    /// Starts a reduction.
    pub fn begin(rule: WindowReduction, entry: &Entry) -> Self {
        let prior = match rule {
            // §6.1: segments selectively acknowledged before do not count.
            WindowReduction::Rfc9937 => entry.out.saturating_sub(entry.sacked).saturating_add(entry.delivered),
            WindowReduction::Linux => entry.window,
        };
        Self { prior, delivered: 0, out: 0 }
    }

    /// Counts segments that leave.
    pub fn on_sent(&mut self, segments: u32) {
        self.out = self.out.saturating_add(segments);
    }

    /// Returns the window after an acknowledgment, or `None` if it delivers nothing.
    pub fn on_ack(&mut self, step: &Step) -> Option<u32> {
        if step.delivered == 0 || self.prior == 0 {
            return None;
        }
        self.delivered = self.delivered.saturating_add(step.delivered);
        let send = match step.ssthresh.checked_sub(step.in_flight) {
            None => {
                let due = (u64::from(step.ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(self.prior));
                due.saturating_sub(u64::from(self.out)).min(u64::from(u32::MAX)) as u32
            }
            Some(room) => {
                let conserved = self.delivered.saturating_sub(self.out).max(step.delivered);
                conserved.saturating_add(u32::from(step.is_safe)).min(room)
            }
        };
        // The loss that triggered the reduction is repaired at once.
        let send = send.max(u32::from(self.out == 0));
        Some(step.in_flight.saturating_add(send))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(rule: WindowReduction, window: u32) -> Prr {
        Prr::begin(rule, &Entry { window, out: window, sacked: 1, delivered: 1 })
    }

    /// Numbers of RFC 9937 §4's proportional part: from 200 in flight to a threshold of 100, one leaves for two
    /// delivered; 51 delivered allow 26, 25.5 rounded up.
    #[test]
    fn above_the_threshold_the_window_falls_in_proportion() {
        for rule in [WindowReduction::Linux, WindowReduction::Rfc9937] {
            let mut prr = begin(rule, 200);
            let step = Step { delivered: 51, in_flight: 149, ssthresh: 100, is_safe: false };
            assert_eq!(prr.on_ack(&step), Some(149 + 26), "{rule:?}");
            prr.on_sent(26);
            let step = Step { delivered: 1, in_flight: 174, ..step };
            assert_eq!(prr.on_ack(&step), Some(174), "52 delivered allow 26, and 26 are out");
        }
    }

    #[test]
    fn below_the_threshold_it_grows_back() {
        let mut prr = begin(WindowReduction::Linux, 20);
        // Ten of twenty declared lost at once: in flight 6, threshold 10.
        let step = Step { delivered: 4, in_flight: 6, ssthresh: 10, is_safe: false };
        assert_eq!(prr.on_ack(&step), Some(10));
        prr.on_sent(4);
        // Segment conservation, and one more once losses stop.
        let step = Step { delivered: 1, in_flight: 8, ..step };
        assert_eq!(prr.on_ack(&step), Some(9));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(&Step { is_safe: true, in_flight: 8, ..step }), Some(10));
    }

    #[test]
    fn the_first_retransmission_leaves_whatever_is_in_flight() {
        let mut prr = begin(WindowReduction::Linux, 10);
        let step = Step { delivered: 1, in_flight: 8, ssthresh: 1, is_safe: false };
        assert_eq!(prr.on_ack(&step), Some(9));
    }

    /// §6.1: 20 are outstanding, 5 of them had been selectively acknowledged before the acknowledgment that adds one
    /// more.
    #[test]
    fn the_rfc_divides_by_what_was_in_flight() {
        let entry = Entry { window: 40, out: 20, sacked: 6, delivered: 1 };
        assert_eq!(Prr::begin(WindowReduction::Rfc9937, &entry).prior, 15);
        assert_eq!(Prr::begin(WindowReduction::Linux, &entry).prior, 40);
    }
}
