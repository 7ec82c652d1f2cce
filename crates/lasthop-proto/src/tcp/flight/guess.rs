//! What duplicates stand for, where the peer does not report selectively.

use super::Flight;

/// Whether as many segments can have arrived as duplicates came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guess {
    /// They can.
    Possible,
    /// Segments came in another order, or twice.
    TooMany,
}

impl Flight {
    /// A duplicate came from a peer that does not report which segment it is for (Linux `tcp_add_reno_sack`). Says whether more
    /// came than can be: the oldest segment at least is missing.
    pub fn guess(&mut self) -> Guess {
        self.guessed += 1;
        self.limit_guesses()
    }

    /// The cumulative acknowledgment took `acked` segments off the front: the first was missing, the others may be those that
    /// duplicates stood for (Linux `tcp_remove_reno_sacks`). Returns how many were delivered only now.
    pub fn confirm_guesses(&mut self, acked: u32) -> (u32, Guess) {
        let new = acked.saturating_sub(self.guessed).max(1);
        self.guessed = self.guessed.saturating_sub(acked.saturating_sub(1));
        (new, self.limit_guesses())
    }

    /// Nothing is known of what duplicates stood for.
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
