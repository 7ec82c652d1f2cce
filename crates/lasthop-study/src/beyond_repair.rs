//! Flows whose data crosses the lossy hop towards the repairing device (snoop), which then has no copies.

use lasthop_sim::element::Role;
use lasthop_sim::network::{App, ElementSpec, FlowSpec, Network};

/// Returns the names of the TCP flows that the repairing device does not help, in the network's order. Copies
/// have the name of their flow. Empty without repair, and if a relay terminates connections.
pub fn beyond_repair(network: &Network) -> Vec<&str> {
    let with = |role: Role| network.elements.iter().filter(move |spec| spec.element.role() == role);
    if with(Role::Relay).next().is_some() {
        return Vec::new();
    }
    // Data that arrives over the link of a repairing element, in the direction of its node.
    let comes_over_the_hop = |flow: &&FlowSpec| {
        let way = network.way(flow.from, flow.to);
        let comes_to = |spec: &ElementSpec| {
            way.iter()
                .any(|&(link, direction)| link == spec.link && network.links[link.0].ends[1 - direction] == spec.node)
        };
        matches!(flow.app, App::Transfer { .. }) && with(Role::Repair).any(comes_to)
    };
    let flows = network.flows.iter().filter(comes_over_the_hop);
    let mut names: Vec<&str> = flows.map(|flow| flow.name.split('#').next().unwrap_or_default()).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::Scheme;
    use lasthop_scenario::Scenario;

    use super::*;

    fn of(scenario: &str, scheme: &str) -> Vec<String> {
        let scenario = Scenario::builtin(scenario).unwrap();
        let network = scenario.network(Scheme::by_name(scheme).unwrap()).unwrap();
        beyond_repair(&network).into_iter().map(str::to_owned).collect()
    }

    /// Snoop at the access point of a busy Wi-Fi repairs the downloads but not the upload.
    #[test]
    fn flows_towards_the_device_are_named_under_schemes_that_repair_from_copies() {
        let uploads = of("full-wifi", "SNOOP");
        assert_eq!(uploads.len(), 1, "{uploads:?}");
        assert_eq!(of("full-wifi", "E2E-CUBIC"), [""; 0]);
        assert_eq!(of("full-wifi", "SPLIT-BBR"), [""; 0]);
        assert_eq!(of("farm-radio", "SNOOP"), [""; 0]);
    }
}
