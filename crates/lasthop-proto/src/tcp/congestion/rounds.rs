//! Round trips counted by deliveries: a round ends when data is acknowledged that was sent after its start.

/// Counter of round trips.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rounds {
    /// Number of rounds so far.
    pub number: u32,
    /// Total number of segments delivered at the start of the round.
    since: u64,
    /// True if the last acknowledgment started a round.
    pub is_start: bool,
}

impl Rounds {
    /// Starts a round without counting one, at `delivered` segments.
    pub fn restart(&mut self, delivered: u64) {
        self.since = delivered;
    }

    /// Processes an acknowledgment: `prior` is the number of segments that had been delivered when the acknowledged one
    /// was sent, if that is known, and `delivered` the number now. Returns whether a round starts.
    pub fn update(&mut self, prior: Option<u64>, delivered: u64) -> bool {
        self.is_start = prior.is_some_and(|prior| prior >= self.since);
        if self.is_start {
            self.since = delivered;
            self.number = self.number.wrapping_add(1);
        }
        self.is_start
    }
}
