//! Flows whose data crosses the lossy hop towards the base station: a base station that repairs from copies (snoop) has none of them.

use lasthop_sim::element::Role;
use lasthop_sim::network::{App, ElementSpec, Network, NodeId};

/// Names of the TCP flows that repair at the base station does not help, copies under the name of their flow, in the network's order.
/// Empty where nothing repairs, and where a relay ends connections.
pub fn beyond_repair(network: &Network) -> Vec<&str> {
    let with = |role: Role| network.elements.iter().filter(move |spec| spec.element.role() == role);
    if with(Role::Relay).next().is_some() {
        return Vec::new();
    }
    let repairs: Vec<&ElementSpec> = with(Role::Repair).collect();
    let uploads = |from: NodeId, to: NodeId| {
        repairs.iter().any(|spec| is_behind(network, spec, from) && !is_behind(network, spec, to))
    };
    let flows =
        network.flows.iter().filter(|flow| matches!(flow.app, App::Transfer { .. }) && uploads(flow.from, flow.to));
    let mut names: Vec<&str> = flows.map(|flow| flow.name.split('#').next().unwrap_or_default()).collect();
    names.dedup();
    names
}

/// Whether a node is on the far side of the link of an element: links form a tree.
fn is_behind(network: &Network, spec: &ElementSpec, node: NodeId) -> bool {
    let far = network.links[spec.link.0].ends.into_iter().find(|end| *end != spec.node);
    let mut reached: Vec<NodeId> = far.into_iter().collect();
    let mut at = 0;
    while let Some(&here) = reached.get(at) {
        at += 1;
        for (index, link) in network.links.iter().enumerate() {
            if index != spec.link.0 && link.ends.contains(&here) {
                let next = link.ends.into_iter().filter(|end| !reached.contains(end)).collect::<Vec<_>>();
                reached.extend(next);
            }
        }
    }
    reached.contains(&node)
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

    /// Of a busy Wi-Fi, snoop at the access point repairs the downloads and not the upload.
    #[test]
    fn uploads_are_named_under_schemes_that_repair_from_copies() {
        let uploads = of("full-wifi", "SNOOP");
        assert_eq!(uploads.len(), 1, "{uploads:?}");
        assert_eq!(of("full-wifi", "E2E-CUBIC"), [""; 0]);
        assert_eq!(of("full-wifi", "SPLIT-BBR"), [""; 0]);
        assert_eq!(of("farm-radio", "SNOOP"), [""; 0]);
    }
}
