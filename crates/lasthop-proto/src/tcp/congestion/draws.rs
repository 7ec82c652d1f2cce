//! Random numbers of a sender.

use crate::random::Root;

/// Random numbers that a seed determines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    seed: u64,
    /// Number of draws so far.
    count: u64,
}

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self { seed, count: 0 }
    }

    /// Draws a number less than `below`; `name` is that of the stream.
    pub fn below(&mut self, name: &str, below: u64) -> u64 {
        let draw = Root(self.seed.wrapping_add(self.count)).stream(name).below(below);
        self.count = self.count.wrapping_add(1);
        draw
    }
}
