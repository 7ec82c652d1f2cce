//! Decisions of a scheme about endpoints and base station, in lines for `explain`.

use lasthop_sim::network::Network;

use crate::elements::endpoint;
use crate::spec::Spec;

/// Returns a line for each host with a flow, and for each element.
pub(crate) fn lines(spec: &Spec, network: &Network) -> Vec<String> {
    let hosts = spec.nodes.hosts.iter().enumerate().filter_map(|(index, host)| {
        let ends = network.flows.iter().flat_map(|flow| [(flow.from.0, &flow.tcp[0]), (flow.to.0, &flow.tcp[1])]);
        let (_, tcp) = ends.into_iter().find(|(node, _)| *node == index)?;
        Some(format!("{}: {}", host.name, endpoint(tcp)))
    });
    let elements = network.elements.iter().map(|spec| {
        let (node, link) = (&network.nodes[spec.node.0].name, &network.links[spec.link.0].name);
        format!("{node}, on its port to {link}: {}", spec.element.describe())
    });
    hosts.chain(elements).collect()
}
