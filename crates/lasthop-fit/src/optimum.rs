//! Maximum of a function of a few numbers, and its curvature.
//!
//! The simplex method of Nelder and Mead (The Computer Journal 7, 1965), with their coefficients: likelihoods of hidden
//! states have no simple derivatives, and two to four parameters.

const REFLECT: f64 = 1.0;
const EXPAND: f64 = 2.0;
const CONTRACT: f64 = 0.5;
const SHRINK: f64 = 0.5;

/// Distance of the first simplex's corners from its start.
const STEP: f64 = 0.7;

/// Maximum number of evaluations in one search.
const MOST_EVALUATIONS: u32 = 600;

/// Difference of the corners' values at which a search has converged.
const TOLERANCE: f64 = 1e-5;

/// Minimum gain of a search for another one to follow.
const MOST_LEFT: f64 = 1e-3;

/// Function to maximise.
pub(crate) trait Function {
    /// Returns the values at `points`.
    fn values(&self, points: &[Vec<f64>]) -> Vec<f64>;

    /// Returns whether values at four points take hardly longer than one.
    fn is_parallel(&self) -> bool {
        false
    }
}

impl<F: Fn(&[f64]) -> f64> Function for F {
    fn values(&self, points: &[Vec<f64>]) -> Vec<f64> {
        points.iter().map(|point| self(point)).collect()
    }
}

/// Point, and the function's value there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Corner {
    pub(crate) at: Vec<f64>,
    pub(crate) value: f64,
}

/// Returns the points with their values. NaN counts as the least value.
fn corners(function: &impl Function, points: Vec<Vec<f64>>) -> Vec<Corner> {
    let values = function.values(&points);
    let corner = |(at, value): (_, f64)| Corner { at, value: if value.is_nan() { f64::NEG_INFINITY } else { value } };
    points.into_iter().zip(values).map(corner).collect()
}

/// Points, each of which is evaluated when it is first taken, or all of them together if the function is parallel.
struct Trials<'f, F> {
    function: &'f F,
    points: [Vec<f64>; 4],
    known: Vec<Corner>,
}

impl<F: Function> Trials<'_, F> {
    fn take(&mut self, which: usize) -> Corner {
        if self.function.is_parallel() {
            if self.known.is_empty() {
                self.known = corners(self.function, self.points.to_vec());
            }
            return self.known[which].clone();
        }
        corners(self.function, vec![self.points[which].clone()]).swap_remove(0)
    }
}

/// Maximum number of restarts at the last result: a degenerate simplex stops early.
const MOST_SEARCHES: u32 = 6;

/// Returns the maximum of `function` near `start`. NaN counts as the least value.
pub(crate) fn maximise(function: &impl Function, start: &[f64]) -> Corner {
    let mut first = vec![start.to_vec()];
    first.extend(beside(start));
    let mut best = search(function, corners(function, first));
    for _ in 1..MOST_SEARCHES {
        let mut simplex = vec![best.clone()];
        simplex.extend(corners(function, beside(&best.at).collect()));
        let next = search(function, simplex);
        let gain = next.value - best.value;
        if gain > 0.0 {
            best = next;
        }
        if gain < MOST_LEFT {
            break;
        }
    }
    best
}

/// Returns the other corners of a simplex at `start`, one along each axis.
fn beside(start: &[f64]) -> impl Iterator<Item = Vec<f64>> + '_ {
    (0..start.len()).map(|axis| {
        let mut at = start.to_vec();
        at[axis] += STEP;
        at
    })
}

/// Moves a simplex to the maximum.
fn search(function: &impl Function, mut simplex: Vec<Corner>) -> Corner {
    let axes = simplex.len() - 1;
    let mut evaluations = simplex.len() as u32;
    while evaluations < MOST_EVALUATIONS {
        simplex.sort_by(|a, b| b.value.total_cmp(&a.value));
        let worst = axes;
        if simplex[0].value - simplex[worst].value < TOLERANCE {
            break;
        }
        let centre: Vec<f64> = (0..axes)
            .map(|axis| simplex[..worst].iter().map(|corner| corner.at[axis]).sum::<f64>() / worst as f64)
            .collect();
        let towards = |factor: f64| -> Vec<f64> {
            let from = &simplex[worst].at;
            centre.iter().zip(from).map(|(centre, from)| centre + factor * (centre - from)).collect()
        };
        let points = [REFLECT, EXPAND, CONTRACT, -CONTRACT].map(towards);
        let mut trials = Trials { function, points, known: Vec::new() };
        let reflected = trials.take(0);
        evaluations += 1;
        if reflected.value > simplex[0].value {
            let expanded = trials.take(1);
            evaluations += 1;
            simplex[worst] = if expanded.value > reflected.value { expanded } else { reflected };
        } else if reflected.value > simplex[worst - 1].value {
            simplex[worst] = reflected;
        } else {
            let outside = reflected.value > simplex[worst].value;
            let contracted = trials.take(if outside { 2 } else { 3 });
            evaluations += 1;
            if contracted.value > simplex[worst].value.max(if outside { reflected.value } else { f64::NEG_INFINITY }) {
                simplex[worst] = contracted;
            } else {
                let best = &simplex[0].at;
                let shrunk = simplex[1..]
                    .iter()
                    .map(|corner| best.iter().zip(&corner.at).map(|(best, at)| best + SHRINK * (at - best)).collect());
                let shrunk = corners(function, shrunk.collect());
                evaluations += shrunk.len() as u32;
                simplex.truncate(1);
                simplex.extend(shrunk);
            }
        }
    }
    simplex.sort_by(|a, b| b.value.total_cmp(&a.value));
    simplex.swap_remove(0)
}

/// Returns standard errors of a maximum-likelihood estimate: square roots of the diagonal of the inverse of the
/// observed information. `None` for a parameter along which the function does not fall: the data do not determine it,
/// and it is treated as known for the others.
pub(crate) fn standard_errors(function: &impl Function, top: &Corner) -> Vec<Option<f64>> {
    const H: f64 = 1e-2;
    const FLAT: f64 = 1e-6;
    let count = top.at.len();
    let shifted = |shifts: &[(usize, f64)]| {
        let mut point = top.at.clone();
        for &(axis, by) in shifts {
            point[axis] += by;
        }
        point
    };
    let ends = (0..count).flat_map(|i| [shifted(&[(i, H)]), shifted(&[(i, -H)])]);
    let ends = function.values(&ends.collect::<Vec<_>>());
    let curvature: Vec<f64> =
        ends.chunks_exact(2).map(|ends| -(ends[0] - 2.0 * top.value + ends[1]) / (H * H)).collect();
    let axes: Vec<usize> = (0..count).filter(|&axis| curvature[axis] > FLAT).collect();
    let pairs: Vec<(usize, usize)> =
        axes.iter().flat_map(|&i| axes.iter().filter(move |j| i < **j).map(move |&j| (i, j))).collect();
    let diagonals = pairs
        .iter()
        .flat_map(|&(i, j)| [(H, H), (H, -H), (-H, H), (-H, -H)].map(|(by_i, by_j)| shifted(&[(i, by_i), (j, by_j)])));
    let diagonals = function.values(&diagonals.collect::<Vec<_>>());
    let mixed: Vec<f64> = diagonals
        .chunks_exact(4)
        .map(|values| -(values[0] - values[1] - values[2] + values[3]) / (4.0 * H * H))
        .collect();
    let of_pair = |i: usize, j: usize| pairs.iter().position(|pair| *pair == (i.min(j), i.max(j)));
    let element = |i: usize, j: usize| of_pair(i, j).map_or(curvature[i], |pair| mixed[pair]);
    let information = axes.iter().map(|&i| axes.iter().map(|&j| element(i, j)).collect()).collect();
    let mut errors = vec![None; count];
    if let Some(inverse) = inverse(information) {
        for (at, &axis) in axes.iter().enumerate() {
            errors[axis] = (inverse[at][at] > 0.0).then(|| libm::sqrt(inverse[at][at]));
        }
    }
    errors
}

/// Returns the inverse of a small matrix by Gauss-Jordan elimination with pivoting; `None` if it is singular.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let count = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..count).map(|i| (0..count).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for column in 0..count {
        let pivot = (column..count).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        let size = matrix[pivot][column].abs();
        if size.is_nan() || size <= 1e-12 {
            return None;
        }
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let scale = matrix[column][column];
        for j in 0..count {
            matrix[column][j] /= scale;
            inverse[column][j] /= scale;
        }
        for row in (0..count).filter(|&row| row != column) {
            let factor = matrix[row][column];
            for j in 0..count {
                matrix[row][j] -= factor * matrix[column][j];
                inverse[row][j] -= factor * inverse[column][j];
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::{Corner, maximise, standard_errors};

    #[test]
    fn finds_the_top_of_rosenbrocks_valley() {
        // The minimum, 0 at (1, 1), lies in a curved valley.
        let rosenbrock = |x: &[f64]| -(100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2));
        let top = maximise(&rosenbrock, &[-1.2, 1.0]);
        assert!((top.at[0] - 1.0).abs() < 0.05 && (top.at[1] - 1.0).abs() < 0.1, "{top:?}");
    }

    #[test]
    fn the_errors_of_a_bell_are_its_widths() {
        // Logarithm of a normal density with standard deviations 2 and 0.5 and correlation 0.6.
        let (a, b, r) = (2.0, 0.5, 0.6);
        let bell = |x: &[f64]| -> f64 {
            let (u, v) = (x[0] / a, x[1] / b);
            -(u * u - 2.0 * r * u * v + v * v) / (2.0 * (1.0 - r * r))
        };
        let errors: Vec<f64> =
            standard_errors(&bell, &Corner { at: vec![0.0; 2], value: 0.0 }).into_iter().flatten().collect();
        assert!((errors[0] - a).abs() < 1e-3 && (errors[1] - b).abs() < 1e-3, "{errors:?}");
    }

    #[test]
    fn a_plateau_has_no_error() {
        let errors = standard_errors(&|x: &[f64]| -2.0 * x[0] * x[0], &Corner { at: vec![0.0; 2], value: 0.0 });
        assert!((errors[0].unwrap() - 0.5).abs() < 1e-6 && errors[1].is_none(), "{errors:?}");
    }
}
