//! Status of an end: its memory use, its counters, and its knowledge of the hop.

use super::congestion::State;
use super::frame::Item;
use super::numbers::PathId;
use super::{Counters, Hop, PathUse, Sizes};
use crate::time::{Duration, Instant};

impl<I: Item> Hop<I> {
    /// Returns the number of stored items.
    pub fn sizes(&self) -> Sizes {
        let (symbols, planned) = self.symbols.size();
        Sizes {
            waiting: self.ingress.waiting(),
            symbols,
            transmissions: self.paths.iter().map(|path| path.sent.len()).sum(),
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
            given_up: self.symbols.given_up(),
            released: self.receiver.released(),
            ..self.counters
        }
    }

    /// Returns the part of a path in the traffic.
    pub fn path_use(&self, path: PathId) -> PathUse {
        let state = self.path(path);
        match (self.is_multipath(), state.is_suspect(), state.is_proven()) {
            (false, _, _) => PathUse::Used,
            (true, _, _) if !state.is_on() => PathUse::Off,
            (true, true, _) => PathUse::Down,
            (true, false, false) => PathUse::Untried,
            (true, false, true) if self.is_usable(path) => PathUse::Used,
            (true, false, true) => PathUse::Standby,
        }
    }

    /// Returns the number of bytes that the hop adds to each packet on a path.
    pub fn header(&self, path: PathId) -> u16 {
        self.path(path).header
    }

    /// Returns the round trip of a path, if it is known.
    pub fn round_trip(&self, path: PathId) -> Duration {
        self.path(path).detector.round_trip()
    }

    /// Returns the loss rate of outgoing frames on a path in the last 2 s, in 10⁻⁶.
    pub fn loss(&self, path: PathId) -> u64 {
        self.path(path).budget.loss()
    }

    /// Returns the sending rate of a path in bits per second: configured or estimated.
    pub fn rate(&self, path: PathId) -> u64 {
        self.path(path).control.rate()
    }

    /// Returns the measures against losses on a path at `now`.
    pub fn state(&self, now: Instant, path: PathId) -> State {
        let path = self.path(path);
        path.control.state(now, path.budget.loss())
    }
}
