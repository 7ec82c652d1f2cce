//! Values fitted to the published numbers; docs/calibration.md describes the method.

/// A value of the testbeds that only the published throughputs support.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Built-in scenarios that have the value.
    pub scenarios: &'static [&'static str],
    /// Key of the scenario.
    pub key: &'static str,
    /// Value in the scenarios.
    pub value: &'static str,
}

/// The fitted values. None is specific to a cell: each holds for every scheme of a testbed.
pub const VALUES: [Value; 3] = [
    Value { scenarios: &["wavelan-lan-8k", "wavelan-lan"], key: "tcp.rto_min", value: "3 s" },
    Value { scenarios: &["wavelan-wan"], key: "tcp.rto_min", value: "5 s" },
    Value {
        scenarios: &["wavelan-lan-8k", "wavelan-lan", "wavelan-wan"],
        key: "base_station.dupack_threshold",
        value: "2",
    },
];

/// Choices between readings by the fit, where sources differ or the study gives no details.
pub const READINGS: [&str; 5] = [
    "one fast retransmit for each window of data",
    "a partial acknowledgment leaves the window at ssthresh",
    "duplicates after an ELN retransmission inflate the window",
    "ELN's receiver remembers one corrupted run at a time",
    "local repairs go ahead of the queue under the TCP-aware schemes only",
];

/// Returns all of these in one paragraph.
pub fn note() -> String {
    let values = VALUES.map(|Value { scenarios, key, value }| format!("{key} = {value} ({})", scenarios.join(", ")));
    format!(
        "Fitted to the published throughputs, since unknown: {} values, {}; and {} choices between interpretations: {}.",
        VALUES.len(),
        values.join(", "),
        READINGS.len(),
        READINGS.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use lasthop_scenario::Scenario;

    use super::*;

    #[test]
    fn the_scenarios_have_the_fitted_values() {
        for Value { scenarios, key, value } in VALUES {
            for name in scenarios {
                let scenario = Scenario::builtin(name).unwrap();
                assert!(scenario.with_overrides(&[(key, value)]).unwrap() == scenario, "{name}: {key} is not {value}");
            }
        }
    }
}
