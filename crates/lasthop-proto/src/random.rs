//! Randomness: one root seed and a stable path give each part its own stream, so that adding a part never disturbs the
//! draws of others.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Root of all randomness of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root(pub u64);

impl Root {
    /// Returns the stream of the part at `path`, such as `wireless/down/errors`: ChaCha8 keyed with the root seed,
    /// whose stream number is the FNV-1a hash of the path.
    pub fn stream(self, path: &str) -> Stream {
        let mut rng = ChaCha8Rng::seed_from_u64(self.0);
        rng.set_stream(fnv1a(path.as_bytes()));
        Stream { rng }
    }
}

/// Returns the 64-bit FNV-1a hash of `bytes`, which is the same on any machine. Not for untrusted input.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// An independent stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: ChaCha8Rng,
}

impl Stream {
    /// Returns a uniform value in `[0, 1)`, with 53 random bits.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns an exponential value with the given mean, by inversion with a portable logarithm: the same on every
    /// machine.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log(1.0 - self.uniform()) * mean
    }

    /// Returns a normal value with mean 0 and variance 1 (Box and Muller 1958), by portable functions: the same on
    /// every machine.
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(2.0 * core::f64::consts::PI * angle)
    }

    /// Returns true with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Returns a uniform integer in `0..bound`; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiply-shift; its bias of at most bound / 2^64 is far below what any run can detect.
        ((u128::from(self.rng.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Root;

    #[test]
    fn paths_are_independent_and_stable() {
        let draw = |seed, path: &str| Root(seed).stream(path).below(u64::MAX);
        assert_eq!(draw(1, "wireless/down/errors"), draw(1, "wireless/down/errors"));
        assert_ne!(draw(1, "wireless/down/errors"), draw(1, "wireless/up/errors"));
        assert_ne!(draw(1, "wireless/down/errors"), draw(2, "wireless/down/errors"));
    }

    /// Mean and variance, and the shares within one and two standard deviations (68.27 % and 95.45 %).
    #[test]
    fn normal_is_normal() {
        let mut stream = Root(7).stream("x");
        let (mut sum, mut squares, mut within) = (0.0, 0.0, [0u32; 2]);
        for _ in 0..100_000 {
            let value = stream.normal();
            sum += value;
            squares += value * value;
            within[0] += u32::from(value.abs() < 1.0);
            within[1] += u32::from(value.abs() < 2.0);
        }
        assert!((sum / 1e5).abs() < 0.01 && (squares / 1e5 - 1.0).abs() < 0.02, "{sum} {squares}");
        let shares = within.map(|count| f64::from(count) / 1e5);
        assert!((shares[0] - 0.6827).abs() < 0.005 && (shares[1] - 0.9545).abs() < 0.003, "{shares:?}");
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut stream = Root(7).stream("x");
        let mean = (0..100_000).map(|_| stream.exponential(65536.0)).sum::<f64>() / 1e5;
        assert!((mean / 65536.0 - 1.0).abs() < 0.02, "{mean}");
    }
}
