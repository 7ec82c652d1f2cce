//! Sobol's sequence in whole numbers: points that fill the unit cube evenly from the first on, so that any beginning of
//! the atlas is a fair sample of it.
//!
//! Source: I. M. Sobol', "On the distribution of points in a cube and the approximate evaluation of integrals" (1967),
//! in the order of I. A. Antonov and V. M. Saleev (1979), with the primitive polynomials and initial numbers of S. Joe
//! and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections" (2008).

use lasthop_proto::random::Root;

use super::dimensions::DIMENSIONS_COUNT;

/// Bits of a coordinate.
const BITS: usize = 32;

/// For each dimension after the first, the degree of its primitive polynomial, the polynomial's inner coefficients as
/// bits, and the initial direction numbers.
const INITIAL: [(usize, u32, &[u32]); DIMENSIONS_COUNT - 1] = [
    (1, 0, &[1]),
    (2, 1, &[1, 3]),
    (3, 1, &[1, 3, 1]),
    (3, 2, &[1, 1, 1]),
    (4, 1, &[1, 1, 3, 3]),
    (4, 4, &[1, 3, 5, 13]),
];

/// The sequence of a seed: Sobol's, shifted by the same random number in all points (exclusive or), so that other seeds
/// have other points, equally even.
#[derive(Clone, Debug)]
pub struct Sequence {
    directions: [[u32; BITS]; DIMENSIONS_COUNT],
    shift: [u32; DIMENSIONS_COUNT],
}

impl Sequence {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        let mut stream = Root(seed).stream("atlas/links");
        let shift = std::array::from_fn(|_| stream.below(1 << BITS) as u32);
        Self { directions: directions(), shift }
    }

    /// Returns the coordinates of point `number`, each a fraction of 2³².
    pub fn point(&self, number: u32) -> [u32; DIMENSIONS_COUNT] {
        // Gray code: consecutive points differ in one direction.
        let gray = number ^ (number >> 1);
        let mut point = self.shift;
        for (coordinate, directions) in point.iter_mut().zip(&self.directions) {
            let set = directions.iter().enumerate().filter(|(bit, _)| gray >> bit & 1 == 1);
            set.for_each(|(_, direction)| *coordinate ^= direction);
        }
        point
    }
}

/// Returns the direction numbers of all dimensions; the first is that of van der Corput.
fn directions() -> [[u32; BITS]; DIMENSIONS_COUNT] {
    let mut all = [[0; BITS]; DIMENSIONS_COUNT];
    all[0] = std::array::from_fn(|bit| 1 << (BITS - 1 - bit));
    for (numbers, (degree, coefficients, initial)) in all[1..].iter_mut().zip(INITIAL) {
        for bit in 0..BITS {
            numbers[bit] = match bit.checked_sub(degree) {
                None => initial[bit] << (BITS - 1 - bit),
                Some(before) => {
                    let inner = (1..degree).filter(|k| coefficients >> (degree - 1 - k) & 1 == 1);
                    let first = numbers[before] ^ (numbers[before] >> degree);
                    inner.fold(first, |number, k| number ^ numbers[bit - k])
                }
            };
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unshifted() -> Sequence {
        Sequence { shift: [0; DIMENSIONS_COUNT], ..Sequence::new(1) }
    }

    /// Points as another implementation has them (`scipy.stats.qmc.Sobol(7, scramble=False)`, times 2³²).
    #[test]
    fn points_are_those_of_joe_and_kuo() {
        let sequence = unshifted();
        assert_eq!(sequence.point(0), [0; 7]);
        assert_eq!(sequence.point(1), [1 << 31; 7]);
        let expected =
            [805_306_368, 1_342_177_280, 4_026_531_840, 1_879_048_192, 2_415_919_104, 1_342_177_280, 1_879_048_192];
        assert_eq!(sequence.point(8), expected);
        let expected =
            [1_476_395_008, 3_087_007_744, 3_087_007_744, 1_744_830_464, 134_217_728, 3_087_007_744, 1_207_959_552];
        assert_eq!(sequence.point(19), expected);
    }

    /// The first 2ⁿ points have one in each of 2ⁿ equal parts of every axis, whatever the shift.
    #[test]
    fn every_axis_is_filled_evenly() {
        for sequence in [unshifted(), Sequence::new(7)] {
            for axis in 0..DIMENSIONS_COUNT {
                let mut seen = vec![0; 1024];
                (0..1024).for_each(|number| seen[(sequence.point(number)[axis] >> 22) as usize] += 1);
                assert!(seen.iter().all(|count| *count == 1), "axis {axis}");
            }
        }
    }

    /// The first 4096 points have 16 in each of 256 equal squares of any two axes, within a few.
    #[test]
    fn every_pair_of_axes_is_filled_evenly() {
        let sequence = Sequence::new(1);
        for (one, other) in (0..DIMENSIONS_COUNT).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut seen = vec![0i32; 256];
            for number in 0..4096 {
                let point = sequence.point(number);
                seen[((point[one] >> 28) * 16 + (point[other] >> 28)) as usize] += 1;
            }
            assert!(seen.iter().all(|count| (count - 16).abs() <= 8), "axes {one} and {other}: {seen:?}");
        }
    }

    #[test]
    fn seeds_have_different_points() {
        assert_ne!(Sequence::new(1).point(0), Sequence::new(2).point(0));
        assert_eq!(Sequence::new(1).point(5), Sequence::new(1).point(5));
    }
}
