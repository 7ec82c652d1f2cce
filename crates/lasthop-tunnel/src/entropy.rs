//! Random bytes from a seed that the driver provides: the state machines do not call the operating system.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Stream of random bytes (ChaCha20). Each draw replaces the key that produced it, so that the current state reveals
/// nothing about earlier draws: past ephemeral keys stay secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Entropy {
    key: [u8; 32],
}

impl Entropy {
    /// Creates the stream of `seed`, which the driver obtains from the operating system.
    pub const fn new(seed: [u8; 32]) -> Self {
        Self { key: seed }
    }

    /// Returns the next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut generator = ChaCha20Rng::from_seed(self.key);
        generator.fill_bytes(&mut self.key);
        let mut drawn = [0; N];
        generator.fill_bytes(&mut drawn);
        drawn
    }

    /// Returns a number below `bound`, which must not be 0. (The bias is below `bound` / 2^64.)
    pub fn below(&mut self, bound: u64) -> u64 {
        let drawn = u64::from_le_bytes(self.bytes());
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_stream_and_draws_differ() {
        let [mut one, mut same, mut other] = [[1; 32], [1; 32], [2; 32]].map(Entropy::new);
        let first: [u8; 32] = one.bytes();
        assert_eq!(first, same.bytes());
        assert_ne!(first, other.bytes());
        assert_ne!(first, one.bytes());
        // The remaining key differs from the drawn bytes.
        assert_ne!(first, one.key);
    }

    #[test]
    fn numbers_are_below_the_bound() {
        let mut entropy = Entropy::new([3; 32]);
        let drawn: Vec<u64> = (0..200).map(|_| entropy.below(3)).collect();
        assert!([0, 1, 2].iter().all(|number| drawn.contains(number)) && drawn.iter().all(|&number| number < 3));
    }
}
