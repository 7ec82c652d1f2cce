//! Status of an end: its memory use, its counters, and its knowledge of the hop.

use super::congestion::State;
use super::frame::Item;
use super::{Counters, Hop, Sizes};
use crate::time::{Duration, Instant};

impl<I: Item> Hop<I> {
    /// Returns the number of stored items.
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

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters {
            dropped: self.ingress.dropped(),
            windows_cut: self.ingress.windows_cut(),
            given_up: self.sender.given_up(),
            released: self.receiver.released(),
            ..self.counters
        }
    }

    /// Returns the number of bytes that the hop adds to each packet.
    pub fn header(&self) -> u16 {
        self.config.header
    }

    /// Returns the hop's round trip, if it is known.
    pub fn round_trip(&self) -> Duration {
        self.detector.round_trip()
    }

    /// Returns the loss rate of outgoing frames in the last 2 s, in 10⁻⁶.
    pub fn loss(&self) -> u64 {
        self.budget.loss()
    }

    /// Returns the sending rate in bits per second: configured or estimated.
    pub fn rate(&self) -> u64 {
        self.control.rate()
    }

    /// Returns the measures against losses at `now`.
    pub fn state(&self, now: Instant) -> State {
        self.control.state(now, self.budget.loss())
    }
}
