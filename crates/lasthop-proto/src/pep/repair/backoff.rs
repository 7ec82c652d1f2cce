//! Backoff of the local retransmission timer.

use crate::seq::Seq;

/// Number of timeouts of a packet that do not double the next. Four tries at 200 ms end before a sender whose minimum
/// timeout is 1 s retransmits, and on a lossy hop a lost retransmission is likelier than a doubled round trip.
const STEADY_TRIES: u32 = 3;

/// Maximum number of doublings of the local timeout.
const MAX_DOUBLINGS: u32 = 6;

/// State of the timer across timeouts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// Number of doublings of the timeout, until the next round-trip sample.
    pub doublings: u32,
    /// End of the data sent when the timer last expired. Below it, each packet's timer runs from its own transmission.
    pub recover: Seq,
}

impl Backoff {
    /// Records that the timer of the oldest packet, at `seq`, has expired for the `tries`th time, while data ends at
    /// `high`.
    pub fn time_out(&mut self, tries: u32, seq: Seq, high: Seq) {
        if tries > STEADY_TRIES {
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
        }
        if seq.ge(self.recover) {
            self.recover = high;
        }
    }
}
