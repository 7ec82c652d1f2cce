//! The two versions of IP.

use std::net::IpAddr;

use crate::configuration::{Gateway, Network};

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// IPv4 first.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The version of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Whether the network is one of such addresses.
    pub fn has(self, network: &Network) -> bool {
        network.address.is_ipv4() == (self == Self::V4)
    }

    /// Whether any rule is about such packets.
    pub fn concerns(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().any(|rule| rule.addresses.is_empty() || rule.addresses.iter().any(|net| self.has(net)))
    }

    /// Whether a rule names such addresses, so that it is an error when there is no way to set rules for them.
    pub fn is_named(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().flat_map(|rule| &rule.addresses).any(|net| self.has(net))
    }
}
