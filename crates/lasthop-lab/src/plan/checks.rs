//! Limits of the lab.

use lasthop_scenario::Endpoints;
use lasthop_sim::element::{Ends, Role};
use lasthop_sim::network::App;

use super::{Plan, is_repaired};
use crate::datagrams;
use crate::error::LabError;
use crate::kernel;

/// Maximum number of flows. Each uses two sockets and a thread or two.
const MOST_FLOWS: usize = 1000;
/// Maximum number of nodes. Each is a namespace.
const MOST_NODES: usize = 100;
/// Range of `TCP_MAXSEG`.
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;

impl Plan<'_> {
    pub(super) fn check_links(&self) -> Result<(), LabError> {
        let refuse = |what, name: &str, instead| Err(LabError::Unsupported { what, name: name.to_owned(), instead });
        let network = self.network;
        if network.nodes.len() > MOST_NODES {
            return refuse("this number of hosts and routers", &network.nodes.len().to_string(), "the maximum is 100");
        }
        Ok(())
    }

    pub(super) fn check_flows(&self) -> Result<(), LabError> {
        let refuse = |what, name: &str, instead| Err(LabError::Unsupported { what, name: name.to_owned(), instead });
        let instead = "it supports transfers, QUIC, datagrams and calls; use `lasthop run` for others";
        let network = self.network;
        if let Some(session) = network.sessions.first() {
            return refuse("web sessions", &session.name, instead);
        }
        if network.flows.len() > MOST_FLOWS {
            return refuse("that many flows", &network.flows.len().to_string(), "the maximum is 1000");
        }
        for flow in &network.flows {
            if flow.dscp != lasthop_scenario::default_dscp(&flow.app) {
                let name = format!("dscp = {} of {}", flow.dscp, flow.name);
                return refuse("other code points", &name, "remove the key, or use `lasthop run`");
            }
            match flow.app {
                App::Transfer { .. } => {}
                // QUIC needs nothing of a kernel's TCP.
                App::Quic(_) => continue,
                App::Idle => return refuse("idle connections", &flow.name, instead),
                App::OnOff(_) | App::Call(_) => {
                    let bytes = datagrams::longest(&flow.app);
                    if bytes > *SEGMENTS.end() {
                        let name = format!("{bytes} bytes of {}", flow.name);
                        return refuse("datagrams of this size", &name, "the maximum is 32767 bytes");
                    }
                    continue;
                }
                App::Web => return refuse("web sessions", &flow.name, instead),
            }
            for (config, node) in flow.tcp.iter().zip([flow.from, flow.to]) {
                if !SEGMENTS.contains(&self.segment(config)) {
                    let name = format!("mss = {} at {}", config.common.mss, network.nodes[node.0].name);
                    return refuse("this segment size", &name, "kernels support 88 to 32767 bytes, including options");
                }
                let beyond = kernel::beyond(config, self.lab).filter(|_| !self.says_it_by_sack(config));
                if let (Endpoints::Kernel, Some(what)) = (self.endpoints(node), beyond) {
                    let host = network.nodes[node.0].name.clone();
                    return Err(LabError::NeedsOwnTcp { scheme: self.scheme.name, host, what });
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_elements(&self) -> Result<(), LabError> {
        let refuse = |what, instead| Err(LabError::Unsupported { what, name: self.scheme.name.to_owned(), instead });
        for spec in &self.network.elements {
            if spec.element.asks_for_queue() || spec.element.judges_losses() {
                return refuse("radios that report their queues", "use `lasthop run`");
            }
            if spec.element.role() == Role::DatagramRepair {
                return refuse("repair of QUIC by one device", "use `lasthop run`");
            }
            if spec.element.role() == Role::Relay && spec.element.ends() == Ends::Both {
                return refuse("a separate protocol between base station and mobile host", "use `lasthop run`");
            }
            if let (Endpoints::Kernel, Some(what)) = (self.lab.relays, kernel::beyond_relays(&spec.element)) {
                let host = self.network.nodes[spec.node.0].name.clone();
                return Err(LabError::NeedsOwnTcp { scheme: self.scheme.name, host, what });
            }
        }
        let mut taken = vec![false; self.points()];
        for (point, element) in self.elements() {
            // The gateway works at the router's device, before the elements of the emulated link.
            if taken[point] {
                return refuse(
                    "this chain of elements on one port",
                    "use at most one element, and the gateway in front of it",
                );
            }
            taken[point] = self.is_emulated(element);
            if taken[point] && is_repaired(element) {
                return refuse("repair below lasthop's own relay", "set base_station.split.repair = \"off\"");
            }
            for side in self.side_points(point) {
                if std::mem::replace(&mut taken[side], true) {
                    return refuse(
                        "an element on a link of a bundle that another element uses",
                        "remove one of the two",
                    );
                }
            }
        }
        // A moving host has one at each of its stations.
        let cells = self.cells();
        let gateways = self.gateways();
        if gateways.len() > 1 && gateways.iter().any(|(point, _)| !cells.contains(point)) {
            return refuse("several base stations", "the gateway implements one");
        }
        self.check_offloads()?;
        self.check_mptcp()?;
        self.check_mobility()
    }
}
