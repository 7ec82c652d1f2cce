//! IP versions.

use std::net::IpAddr;

use crate::configuration::{Gateway, Network};

/// IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both versions, IPv4 first.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the version of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns `IPv4` or `IPv6`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Returns whether the network has addresses of this version.
    pub fn has(self, network: &Network) -> bool {
        network.address.is_ipv4() == (self == Self::V4)
    }

    /// Returns whether any rule covers packets of this version.
    pub fn concerns(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().any(|rule| rule.addresses.is_empty() || rule.addresses.iter().any(|net| self.has(net)))
    }

    /// Returns whether a rule names addresses of this version, so that failure to install rules for it is an error.
    pub fn is_named(self, gateway: &Gateway) -> bool {
        gateway.rules.iter().flat_map(|rule| &rule.addresses).any(|net| self.has(net))
    }
}
