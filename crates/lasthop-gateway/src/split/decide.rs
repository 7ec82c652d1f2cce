//! To which rule a new connection belongs, told by its first packet.

use std::net::{IpAddr, SocketAddr};

use super::admission::Ends;
use super::{Share, Side, SplitConfig};
use crate::configuration::{Gateway, Mode, Network, OpenedBy, PortRange};

/// What a first packet (SYN) says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Between whom.
    pub ends: Ends,
    /// Its sequence number (ISN).
    pub number: u32,
}

impl Opening {
    /// From a packet's IP header on; none when it is no whole TCP header without IPv6 extension headers.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let address = |at: usize, len: usize| match len {
            4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)),
            _ => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?)),
        };
        let (client, server, tcp, protocol) = match packet.first()? >> 4 {
            4 => (address(12, 4)?, address(16, 4)?, usize::from(packet[0] & 0xf) * 4, *packet.get(9)?),
            6 => (address(8, 16)?, address(24, 16)?, 40, *packet.get(6)?),
            _ => return None,
        };
        let header = packet.get(tcp..tcp + 20).filter(|_| i32::from(protocol) == libc::IPPROTO_TCP)?;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let ends = Ends { client: SocketAddr::new(client, port(0)), server: SocketAddr::new(server, port(2)) };
        Some(Self { ends, number })
    }
}

/// The rules of a gateway, as first packets are told from each other.
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
    /// Its place among the rules that split, and the share that is left alone; none when it does not split.
    split: Option<(usize, Share)>,
}

/// How a packet crosses the machine.
pub trait Crossing {
    /// Whether it came in by this interface.
    fn comes_from(&self, interface: &str) -> bool;
    /// Whether it would leave by this interface.
    fn leads_to(&self, interface: &str) -> bool;
}

impl Chooser {
    /// In the order of the file: the first rule that is for a connection counts.
    pub fn new(gateway: &Gateway) -> Self {
        let mut splitting = 0..;
        let rules = gateway.rules.iter().map(|rule| Candidate {
            interface: rule.interface.clone(),
            addresses: rule.addresses.clone(),
            ports: rule.ports.clone(),
            opened_by: rule.opened_by,
            split: match rule.mode {
                Mode::Split(_) => {
                    splitting.next().map(|place| (place, Share::new(rule.ab.get()).unwrap_or(Share::NONE)))
                }
                Mode::Snoop(_) | Mode::Observe => None,
            },
        });
        Self { rules: rules.collect() }
    }

    /// The listener for a connection; none when it is not to be split.
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
