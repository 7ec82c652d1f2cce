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

/// Point, and the function's value there.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Corner {
    pub(crate) at: Vec<f64>,
    pub(crate) value: f64,
}

/// Maximum number of restarts at the last result: a degenerate simplex stops early.
const MOST_SEARCHES: u32 = 6;

/// Returns the maximum of `function` near `start`. NaN counts as the least value.
pub(crate) fn maximise(function: impl Fn(&[f64]) -> f64, start: &[f64]) -> Corner {
    let mut best = search(&function, start);
    for _ in 1..MOST_SEARCHES {
        let next = search(&function, &best.at);
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

fn search(function: impl Fn(&[f64]) -> f64, start: &[f64]) -> Corner {
    let evaluate = |at: Vec<f64>| {
        let value = function(&at);
        Corner { value: if value.is_nan() { f64::NEG_INFINITY } else { value }, at }
    };
    let mut corners = vec![evaluate(start.to_vec())];
    for axis in 0..start.len() {
        let mut at = start.to_vec();
        at[axis] += STEP;
        corners.push(evaluate(at));
    }
    let mut evaluations = corners.len() as u32;
    while evaluations < MOST_EVALUATIONS {
        corners.sort_by(|a, b| b.value.total_cmp(&a.value));
        let worst = corners.len() - 1;
        if corners[0].value - corners[worst].value < TOLERANCE {
            break;
        }
        let centre: Vec<f64> = (0..start.len())
            .map(|axis| corners[..worst].iter().map(|corner| corner.at[axis]).sum::<f64>() / worst as f64)
            .collect();
        let towards = |factor: f64, from: &[f64]| -> Vec<f64> {
            centre.iter().zip(from).map(|(centre, from)| centre + factor * (centre - from)).collect()
        };
        let reflected = evaluate(towards(REFLECT, &corners[worst].at));
        evaluations += 1;
        if reflected.value > corners[0].value {
            let expanded = evaluate(towards(EXPAND, &corners[worst].at));
            evaluations += 1;
            corners[worst] = if expanded.value > reflected.value { expanded } else { reflected };
        } else if reflected.value > corners[worst - 1].value {
            corners[worst] = reflected;
        } else {
            let outside = reflected.value > corners[worst].value;
            let contracted = evaluate(towards(if outside { CONTRACT } else { -CONTRACT }, &corners[worst].at));
            evaluations += 1;
            if contracted.value > corners[worst].value.max(if outside { reflected.value } else { f64::NEG_INFINITY }) {
                corners[worst] = contracted;
            } else {
                let best = corners[0].at.clone();
                for corner in &mut corners[1..] {
                    let at = best.iter().zip(&corner.at).map(|(best, at)| best + SHRINK * (at - best)).collect();
                    *corner = evaluate(at);
                    evaluations += 1;
                }
            }
        }
    }
    corners.sort_by(|a, b| b.value.total_cmp(&a.value));
    corners.swap_remove(0)
}

/// Returns standard errors of a maximum-likelihood estimate: square roots of the diagonal of the inverse of the
/// observed information. `None` for a parameter along which the function does not fall: the data do not determine it,
/// and it is treated as known for the others.
pub(crate) fn standard_errors(function: impl Fn(&[f64]) -> f64, at: &[f64]) -> Vec<Option<f64>> {
    const H: f64 = 1e-2;
    const FLAT: f64 = 1e-6;
    let shifted = |shifts: &[(usize, f64)]| {
        let mut point = at.to_vec();
        for &(axis, by) in shifts {
            point[axis] += by;
        }
        function(&point)
    };
    let here = function(at);
    let curvature = |i| -(shifted(&[(i, H)]) - 2.0 * here + shifted(&[(i, -H)])) / (H * H);
    let axes: Vec<usize> = (0..at.len()).filter(|&axis| curvature(axis) > FLAT).collect();
    let mixed = |i, j| {
        let corners = shifted(&[(i, H), (j, H)]) - shifted(&[(i, H), (j, -H)]) - shifted(&[(i, -H), (j, H)])
            + shifted(&[(i, -H), (j, -H)]);
        -corners / (4.0 * H * H)
    };
    let information = axes
        .iter()
        .map(|&i| axes.iter().map(|&j| if i == j { curvature(i) } else { mixed(i.min(j), i.max(j)) }).collect())
        .collect();
    let mut errors = vec![None; at.len()];
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
    use super::{maximise, standard_errors};

    #[test]
    fn finds_the_top_of_rosenbrocks_valley() {
        // The minimum, 0 at (1, 1), lies in a curved valley.
        let rosenbrock = |x: &[f64]| -(100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2));
        let top = maximise(rosenbrock, &[-1.2, 1.0]);
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
        let errors: Vec<f64> = standard_errors(bell, &[0.0, 0.0]).into_iter().flatten().collect();
        assert!((errors[0] - a).abs() < 1e-3 && (errors[1] - b).abs() < 1e-3, "{errors:?}");
    }

    #[test]
    fn a_plateau_has_no_error() {
        let errors = standard_errors(|x| -2.0 * x[0] * x[0], &[0.0, 0.0]);
        assert!((errors[0].unwrap() - 0.5).abs() < 1e-6 && errors[1].is_none(), "{errors:?}");
    }
}
