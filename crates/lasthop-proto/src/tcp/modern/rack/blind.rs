//! Recovery with a peer without SACK: duplicates are counted in place of its reports, and show that the oldest segment
//! is lost (Linux `tcp_add_reno_sack`, `tcp_newreno_mark_lost`; RFC 6582). Windows, their reduction, undo by timestamps
//! and F-RTO are unchanged. There are no probes, and losses are not detected by time.

use super::ack::{News, span};
use super::{Peer, Rack};
use crate::tcp::congestion::control::CaState;
use crate::tcp::modern::flight::{Guess, Index};
use crate::tcp::stream::Stream;
use crate::time::Instant;

impl Rack {
    pub(super) fn is_blind(&self) -> bool {
        self.peer == Peer::Blind
    }

    /// Removes the segments that the cumulative acknowledgment covers (Linux `tcp_clean_rtx_queue`).
    pub(super) fn take_cumulative_blindly(&mut self, s: &Stream, news: &mut News) {
        let high = self.phase.high;
        let Self { flight, rate, .. } = self;
        flight.acknowledge(s.snd_una(), |sent| {
            news.acked += 1;
            if sent.is_repeated() {
                news.repeated_acked = true;
            } else {
                span(&mut news.acked_sent, sent.sent_at());
                news.original |= sent.end().le(high);
            }
            rate.on_delivered(sent, &mut news.newest);
        });
        // If a retransmission is among them, the others may have waited for it.
        news.original &= !news.repeated_acked;
        news.is_no_duplicate |= news.acked > 0;
        news.set_timer = news.acked > 0;
        if news.acked > 0 {
            let (delivered, guess) = self.flight.confirm_guesses(news.acked);
            self.deliver(delivered, news);
            self.note_guess(guess, news.acked);
        }
    }

    fn deliver(&mut self, segments: u32, news: &mut News) {
        news.delivered += segments;
        self.rate.count_delivered(segments);
    }

    /// Counts a duplicate, if the acknowledgment is one without other new information.
    pub(super) fn count_duplicate(&mut self, news: &mut News) {
        if !self.is_blind() || news.una_advanced || news.is_no_duplicate {
            return;
        }
        let before = self.flight.sacked();
        let guess = self.flight.guess();
        self.deliver(self.flight.sacked().saturating_sub(before), news);
        self.note_guess(guess, 0);
    }

    /// Records more duplicates than segments: the network reorders (Linux `tcp_check_reno_reordering`).
    fn note_guess(&mut self, guess: Guess, acked: u32) {
        if guess == Guess::TooMany {
            self.reordering.on_surplus(self.flight.len() + acked);
        }
    }

    /// Declares the oldest segment lost after enough duplicates, and in recovery with each acknowledgment that does not
    /// cover it (RFC 6582 §3.2).
    pub(super) fn find_losses_blindly(&mut self, now: Instant, news: &News) {
        let lost = match self.phase.state {
            CaState::Open | CaState::Disorder | CaState::Cwr => self.reordering.is_reached(self.flight.sacked()),
            CaState::Recovery => news.una_advanced,
            CaState::Loss => false,
        };
        let oldest = self.flight.iter().next().filter(|(_, sent)| !sent.is_lost()).map(|(index, _)| index);
        if let Some(index) = oldest.filter(|_| lost) {
            self.mark_oldest(now, index);
        }
    }

    fn mark_oldest(&mut self, now: Instant, index: Index) {
        let Self { flight, rate, control, .. } = self;
        Self::mark_lost(flight, rate, control, now, index);
    }

    /// Returns whether the state lasts until data beyond it is acknowledged: duplicates of its own retransmissions
    /// would start another recovery (RFC 6582 §4; Linux `tcp_is_non_sack_preventing_reopen`).
    pub(super) fn is_held(&mut self, s: &Stream) -> bool {
        let held = self.is_blind() && s.snd_una() == self.phase.high;
        if held && !self.any_resent() {
            self.undo.restart_clock();
        }
        held
    }
}
