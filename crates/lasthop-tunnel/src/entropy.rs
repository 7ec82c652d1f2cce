//! Random bytes from a seed that the driver hands in: the state machines ask no operating system.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A stream of random bytes (ChaCha20). Each draw replaces the key that made it, so that whoever reads this end's memory
/// learns nothing about what was drawn before: earlier ephemeral keys stay secret.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Entropy {
    key: [u8; 32],
}

impl Entropy {
    /// The stream of `seed`, which the driver takes from the operating system once.
    pub const fn new(seed: [u8; 32]) -> Self {
        Self { key: seed }
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut generator = ChaCha20Rng::from_seed(self.key);
        generator.fill_bytes(&mut self.key);
        let mut drawn = [0; N];
        generator.fill_bytes(&mut drawn);
        drawn
    }

    /// A number below `bound`, which is not 0. (The bias is below `bound` / 2^64.)
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
        // The key that is left is not what was drawn.
        assert_ne!(first, one.key);
    }

    #[test]
    fn numbers_are_below_the_bound() {
        let mut entropy = Entropy::new([3; 32]);
        let drawn: Vec<u64> = (0..200).map(|_| entropy.below(3)).collect();
        assert!([0, 1, 2].iter().all(|number| drawn.contains(number)) && drawn.iter().all(|&number| number < 3));
    }
}
