//! Detection of a fully used path: its rate no longer grows.

use super::Sample;

/// State of the detection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FullBw {
    /// True once the rate was reached in STARTUP.
    pub is_reached: bool,
    /// True if the rate of the current probe was reached.
    pub is_now: bool,
    /// Last rate that grew by a quarter.
    bw: u64,
    /// Number of rounds since.
    count: u32,
}

impl FullBw {
    /// Starts to compare with the rate `bw`.
    pub fn reset(&mut self, bw: u64) {
        self.bw = bw;
        self.count = 0;
        self.is_now = false;
    }

    /// Processes the sample of an acknowledgment.
    pub fn check(&mut self, sample: &Sample, is_round_start: bool) {
        if self.is_now || !is_round_start || sample.is_app_limited {
            return;
        }
        if u128::from(sample.bw) * 4 >= u128::from(self.bw) * 5 {
            self.reset(sample.bw);
            return;
        }
        self.count += 1;
        self.is_now = self.count >= 3;
        self.is_reached |= self.is_now;
    }
}
