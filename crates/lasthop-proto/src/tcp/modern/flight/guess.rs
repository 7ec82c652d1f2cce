//! Segments represented by duplicates, for a peer without SACK.

use super::Flight;

/// Plausibility of the number of segments inferred from duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guess {
    /// As many segments can have arrived as there were duplicates.
    Possible,
    /// Fewer segments can have arrived: segments were reordered or duplicated.
    TooMany,
}

impl Flight {
    /// Counts a duplicate from a peer that does not report which segment caused it (Linux `tcp_add_reno_sack`). Returns
    /// whether there were more than possible: at least the oldest segment is missing.
    pub fn guess(&mut self) -> Guess {
        self.guessed += 1;
        self.limit_guesses()
    }

    /// Accounts for a cumulative acknowledgment of `acked` segments: the first was missing, the others may be those
    /// that duplicates represented (Linux `tcp_remove_reno_sacks`). Returns the number of segments delivered only now.
    pub fn confirm_guesses(&mut self, acked: u32) -> (u32, Guess) {
        let new = acked.saturating_sub(self.guessed).max(1);
        self.guessed = self.guessed.saturating_sub(acked.saturating_sub(1));
        (new, self.limit_guesses())
    }

    /// Discards the segments represented by duplicates.
    pub fn forget_guesses(&mut self) {
        self.guessed = 0;
    }

    fn limit_guesses(&mut self) -> Guess {
        let most = self.len().saturating_sub(self.lost.max(1));
        if self.guessed <= most {
            return Guess::Possible;
        }
        self.guessed = most;
        Guess::TooMany
    }
}
