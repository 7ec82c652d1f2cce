//! Runs of a scenario, and how evenly its flows share.
#![allow(dead_code, reason = "each test file uses a part")]

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::measure::Report;
use lasthop_study::replicate::{Silent, Task, run_all};

/// `runs` runs under `scheme`, from seed 1 on.
pub fn run(scenario: &Scenario, scheme: &str, runs: u32) -> Vec<Report> {
    let task = Task::new(scenario, Scheme::by_name(scheme).unwrap(), 1, runs).unwrap();
    run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0)
}

/// The same with delays measured.
pub fn run_metered(scenario: &Scenario, scheme: &str, runs: u32) -> Vec<Report> {
    let task = Task::new(scenario, Scheme::by_name(scheme).unwrap(), 1, runs).unwrap().metered();
    run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0)
}

/// Jain's index: 1 where all have the same, 1/n where one of n has everything.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    sum * sum / (rates.len() as f64 * squares)
}
