//! Selection of the rule for a new connection from its SYN.

use super::opening::{Ends, Opening};
use super::{Share, Side, SplitConfig};
use crate::configuration::{Gateway, Mode, Network, OpenedBy, PortRange};

/// Rules of a gateway in the form needed to classify SYNs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chooser {
    rules: Vec<Candidate>,
}

#[derive(Clone, PartialEq, Debug)]
struct Candidate {
    interface: String,
    addresses: Vec<Network>,
    ports: Vec<PortRange>,
    opened_by: OpenedBy,
    /// Index among the rules that split, and the share left unsplit; `None` if the rule does not split.
    split: Option<(usize, Share)>,
}

/// Path of a packet through the machine.
pub trait Crossing {
    /// Returns whether the packet arrived at this interface.
    fn comes_from(&self, interface: &str) -> bool;
    /// Returns whether the packet would leave by this interface.
    fn leads_to(&self, interface: &str) -> bool;
}

impl Chooser {
    /// Takes the rules in the order of the file: the first match applies.
    pub fn new(gateway: &Gateway) -> Self {
        let mut splitting = 0..;
        let of_tcp = gateway.rules.iter().filter(|rule| rule.mode != Mode::Quic);
        let rules = of_tcp.map(|rule| Candidate {
            interface: rule.interface.clone(),
            addresses: rule.addresses.clone(),
            ports: rule.ports.clone(),
            opened_by: rule.opened_by,
            split: match rule.mode {
                Mode::Split(_) => {
                    splitting.next().map(|place| (place, Share::new(rule.ab.get()).unwrap_or(Share::NONE)))
                }
                Mode::Snoop(_) | Mode::Quic | Mode::Observe => None,
            },
        });
        Self { rules: rules.collect() }
    }

    /// Returns the listener for a connection; `None` if it is not to be split.
    pub fn choose(&self, config: &SplitConfig, opening: &Opening, crossing: &dyn Crossing) -> Option<u32> {
        let Ends { client, server } = opening.ends;
        let (rule, opener) = self.rules.iter().find_map(|rule| {
            let opener = if crossing.comes_from(&rule.interface) { Side::Wireless } else { Side::Wired };
            let (host, opens) = match opener {
                Side::Wireless => (client, rule.opened_by != OpenedBy::Wired),
                Side::Wired => (server, rule.opened_by != OpenedBy::Wireless),
            };
            let is_meant = opens
                && (rule.ports.is_empty()
                    || rule.ports.iter().any(|range| (range.first..=range.last).contains(&server.port())))
                && (rule.addresses.is_empty() || rule.addresses.iter().any(|network| network.contains(host.ip())))
                && (opener == Side::Wireless || crossing.leads_to(&rule.interface));
            is_meant.then_some((rule, opener))
        })?;
        let (place, bypass) = rule.split?;
        (!bypass.contains(opening.number)).then(|| config.listener(place, opener))
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
