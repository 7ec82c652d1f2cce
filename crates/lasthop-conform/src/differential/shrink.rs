//! Shorter cases.

use super::case::Case;

/// Returns cases with fewer steps, the shortest first: without each half, quarter and so on, and without each single
/// step. The time of a removed step passes before the next.
pub fn shrunk(case: &Case) -> Vec<Case> {
    let len = case.steps.len();
    let mut cases = Vec::new();
    let mut chunk = len / 2;
    while chunk > 0 {
        for start in (0..len).step_by(chunk) {
            cases.push(without(case, start, (start + chunk).min(len)));
        }
        chunk /= 2;
    }
    cases.sort_by_key(|case| case.steps.len());
    cases.dedup();
    cases
}

fn without(case: &Case, start: usize, end: usize) -> Case {
    let mut shorter = case.clone();
    let passed =
        shorter.steps.drain(start..end).fold(lasthop_proto::time::Duration::ZERO, |sum, step| sum + step.after);
    if let Some(next) = shorter.steps.get_mut(start) {
        next.after = next.after + passed;
    }
    shorter
}
