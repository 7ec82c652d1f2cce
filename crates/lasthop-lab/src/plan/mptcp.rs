//! Multipath TCP of the kernel over bundles: hosts have one address for each link of a bundle, and the routers at its
//! ends route by it.

use std::net::Ipv4Addr;

use lasthop_sim::network::{App, Bundle, LinkId, NodeId};

use super::{HostTcp, Plan, Point};
use crate::error::LabError;

/// Routing table of the first link, and preference of the rules that select the tables.
const TABLE: u32 = 200;
/// Maximum number of a connection's additional subflows, which is the kernel's.
const SUBFLOWS: u32 = 8;
/// Second byte of the addresses for the first of the further links, minus one.
const ADDRESSES: u8 = 16;

impl Plan<'_> {
    /// Returns whether hosts use Multipath TCP.
    pub fn is_mptcp(&self) -> bool {
        self.lab.mptcp.is_on()
    }

    pub(super) fn check_mptcp(&self) -> Result<(), LabError> {
        if !self.is_mptcp() {
            return Ok(());
        }
        let refuse = |what, name: &str, instead| Err(LabError::Unsupported { what, name: name.to_owned(), instead });
        if self.network.bundles.is_empty() {
            let instead = "without [bundles.NAME] it has one path; remove lab.mptcp";
            return refuse("Multipath TCP", self.scheme.name, instead);
        }
        if !self.network.elements.is_empty() {
            let instead = "use a scheme without a base station, e.g. E2E-CUBIC";
            return refuse("Multipath TCP over elements", self.scheme.name, instead);
        }
        if let Some((host, _)) = self.ends().into_iter().find(|(_, tcp)| *tcp == HostTcp::Own) {
            let instead = "it requires the kernel's TCP; use another scheme, or lab.endpoints = \"kernel\"";
            return refuse("Multipath TCP with lasthop's TCP", &host, instead);
        }
        Ok(())
    }

    /// Returns the further addresses of a host with Multipath TCP, one for each link of a bundle after the first, with
    /// the number of the link in the bundle. Hosts whose connections cross no bundle have none.
    pub(super) fn line_addresses(&self, node: NodeId) -> Vec<(usize, Ipv4Addr)> {
        let flows = self.network.flows.iter().filter(|flow| self.is_mptcp() && [flow.from, flow.to].contains(&node));
        let over_tcp = flows.filter(|flow| matches!(flow.app, App::Transfer { .. }));
        let points = over_tcp.flat_map(|flow| self.path(flow));
        let lines = points.filter_map(|point| self.bundle_at(point)).map(|bundle| bundle.links.len()).max();
        let [ten, _, high, low] = Self::address(node).octets();
        let address = |line: usize| (line, Ipv4Addr::new(ten, ADDRESSES + line as u8, high, low));
        (1..lines.unwrap_or_default()).map(address).collect()
    }

    /// Returns the bundle over whose first link packets leave through `point`, if it is one.
    fn bundle_at(&self, point: Point) -> Option<&Bundle> {
        self.network.bundles.iter().find(|bundle| bundle.links.first() == Some(&LinkId(point / 2)))
    }

    /// Returns the point through which a node sends to the address of a host for a line; `point` is the one for its
    /// first address.
    pub(super) fn line_point(&self, node: NodeId, point: Point, line: usize) -> Point {
        let link = self.bundle_at(point).map(|bundle| bundle.links[line % bundle.links.len()]);
        link.and_then(|link| self.point_of(node, link)).unwrap_or(point)
    }

    /// Returns `ip` commands for a host's further addresses and their subflows, or for a router's routes by source
    /// address.
    pub(super) fn line_commands(&self, node: NodeId) -> Vec<String> {
        if !self.is_mptcp() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if let Some(device) = self.points_of(node).next().map(Self::device)
            && self.host_tcp(node) == Some(HostTcp::Mptcp)
        {
            lines.push(format!("mptcp limits set subflow {SUBFLOWS} add_addr_accepted 0"));
            for (_, address) in self.line_addresses(node) {
                lines.push(format!("addr add {address}/32 dev {device}"));
                lines.push(format!("mptcp endpoint add {address} dev {device} subflow"));
            }
        }
        let hops = self.next_hops(node);
        for bundle in &self.network.bundles {
            let Some(first) = bundle.links.first().and_then(|link| self.point_of(node, *link)) else { continue };
            let beyond = |host: usize| hops.get(&host) == Some(&first);
            for point in bundle.links[1..].iter().filter_map(|link| self.point_of(node, *link)) {
                let (table, via) = (TABLE + point as u32 / 2, Self::address(self.node(point ^ 1)));
                let device = Self::device(point);
                for to in hops.keys().filter(|host| beyond(**host)) {
                    let to = Self::address(NodeId(*to));
                    lines.push(format!("route add {to}/32 via {via} dev {device} onlink table {table}"));
                }
            }
            for host in (0..self.network.nodes.len()).filter(|host| !beyond(*host)) {
                for (line, address) in self.line_addresses(NodeId(host)) {
                    let table = TABLE + self.line_point(node, first, line) as u32 / 2;
                    lines.push(format!("rule add from {address} lookup {table} pref {TABLE}"));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
#[path = "mptcp_tests.rs"]
mod tests;
