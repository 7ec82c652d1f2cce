//! What an end tells of itself: what it remembers and counted, and what it knows of the hop.

use super::congestion::State;
use super::frame::Item;
use super::{Counters, Hop, Sizes};
use crate::time::{Duration, Instant};

impl<I: Item> Hop<I> {
    /// How much is remembered.
    pub fn sizes(&self) -> Sizes {
        let (symbols, transmissions, planned) = self.sender.size();
        Sizes {
            waiting: self.ingress.waiting(),
            symbols,
            transmissions,
            planned,
            held: self.receiver.held(),
            span: self.receiver.span(),
            decoder: self.decoder.size(),
            flows: self.classifier.len(),
            connections: self.ingress.connections(),
        }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        Counters {
            dropped: self.ingress.dropped(),
            windows_cut: self.ingress.windows_cut(),
            given_up: self.sender.given_up(),
            released: self.receiver.released(),
            ..self.counters
        }
    }

    /// Bytes that the hop adds to each packet.
    pub fn header(&self) -> u16 {
        self.config.header
    }

    /// The hop's round trip, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.detector.round_trip()
    }

    /// Frames lost on the way out in the last 2 s, in 10⁻⁶.
    pub fn loss(&self) -> u64 {
        self.budget.loss()
    }

    /// Bits per second at which this end sends: those that were given, or that it found.
    pub fn rate(&self) -> u64 {
        self.control.rate()
    }

    /// What it does against losses at `now`.
    pub fn state(&self, now: Instant) -> State {
        self.control.state(now, self.budget.loss())
    }
}
