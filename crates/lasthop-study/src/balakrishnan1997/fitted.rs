//! What was fitted to the published numbers rather than known: docs/calibration.md says how.

/// A value of the testbeds that nothing but the published throughputs supports.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// The ready-made scenarios that have it.
    pub scenarios: &'static [&'static str],
    /// Its key.
    pub key: &'static str,
    /// As the scenarios have it.
    pub value: &'static str,
}

/// The fitted values. No cell has one of its own: each holds for every scheme of a testbed.
pub const VALUES: [Value; 3] = [
    Value { scenarios: &["wavelan-lan-8k", "wavelan-lan"], key: "tcp.rto_min", value: "3 s" },
    Value { scenarios: &["wavelan-wan"], key: "tcp.rto_min", value: "5 s" },
    Value {
        scenarios: &["wavelan-lan-8k", "wavelan-lan", "wavelan-wan"],
        key: "base_station.dupack_threshold",
        value: "2",
    },
];

/// Where sources differ or the study is silent, and the fit decided between readings.
pub const READINGS: [&str; 5] = [
    "one fast retransmit for each window of data",
    "a partial acknowledgment leaves the window at ssthresh",
    "duplicates after an ELN retransmission inflate the window",
    "ELN's receiver remembers one corrupted run at a time",
    "local repairs go ahead of the queue under the TCP-aware schemes only",
];

/// All of it in one paragraph.
pub fn note() -> String {
    let values = VALUES.map(|Value { scenarios, key, value }| format!("{key} = {value} ({})", scenarios.join(", ")));
    format!(
        "Fitted to the published throughputs rather than known: {} values, {}; and {} choices between readings: {}.",
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
