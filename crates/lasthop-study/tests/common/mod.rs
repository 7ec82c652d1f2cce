//! Runs of a scenario, and the fairness of its flows.
#![allow(dead_code, reason = "each test file uses a part")]

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_study::replicate::{Silent, Task, run_all};

/// Performs `runs` runs under `scheme`, with seed 1.
pub fn run(scenario: &Scenario, scheme: &str, runs: u32) -> Vec<Report> {
    reports(&task(scenario, scheme, runs))
}

fn task(scenario: &Scenario, scheme: &str, runs: u32) -> Task {
    Task::new(scenario, Scheme::by_name(scheme).unwrap(), 1, runs).unwrap()
}

fn reports(task: &Task) -> Vec<Report> {
    run_all(std::slice::from_ref(task), 1, &Silent).unwrap().remove(0)
}

/// Performs `runs` metered runs under `scheme`, with seed 1.
pub fn run_metered(scenario: &Scenario, scheme: &str, runs: u32) -> Vec<Report> {
    reports(&task(scenario, scheme, runs).metered())
}

/// Returns Jain's index: 1 if all rates are equal, 1/n if one of n has everything.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}
