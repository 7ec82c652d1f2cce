//! Rules: selection of connections and their treatment.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::time::Duration;

/// Minimum number of acknowledged bytes for a connection to count in a comparison.
pub const MEASURED_BYTES: u64 = 100_000;

/// Treatment of a rule's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Caches data, retransmits the hop's losses locally, and hides them from the sender.
    Snoop,
    /// Changes nothing; reports statistics and the actions that snoop would have taken.
    Observe,
    /// Changes nothing; counts, and measures goodput and round trips.
    Bypass,
    /// Repairs QUIC: holds acknowledgments that reveal a loss, and sends copies of the missing datagrams. The rule
    /// selects UDP; all others select TCP.
    Quic,
}

/// Network prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Net {
    /// An address within the network.
    pub address: IpAddr,
    /// Prefix length, in bits.
    pub prefix: u8,
}

impl Net {
    /// Returns whether the network contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |bits: u32, xor: u128| {
            let tail = bits.saturating_sub(u32::from(self.prefix));
            xor.checked_shr(tail).unwrap_or(0) != 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => !differs(32, u128::from(own.to_bits() ^ other.to_bits())),
            (IpAddr::V6(own), IpAddr::V6(other)) => !differs(128, own.to_bits() ^ other.to_bits()),
            _ => false,
        }
    }
}

/// Addresses and ports of one end of a connection.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ends {
    /// Networks; empty for any address.
    pub nets: Vec<Net>,
    /// Port ranges; empty for any port.
    pub ports: Vec<RangeInclusive<u16>>,
}

impl Ends {
    fn contains(&self, end: SocketAddr) -> bool {
        (self.nets.is_empty() || self.nets.iter().any(|net| net.contains(end.ip())))
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&end.port())))
    }
}

/// Selection of a rule's connections.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Predicate {
    /// The end on the wired side.
    pub wired: Ends,
    /// The end behind the lossy hop.
    pub wireless: Ends,
}

impl Predicate {
    /// Returns whether the rule selects a connection between these ends.
    pub fn matches(&self, wired: SocketAddr, wireless: SocketAddr) -> bool {
        self.wired.contains(wired) && self.wireless.contains(wireless)
    }
}

/// Treatment of selected connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Name in statistics; also identifies the rule in [`Engine::reconfigure`](super::Engine::reconfigure).
    pub name: String,
    /// Selection of connections.
    pub predicate: Predicate,
    /// Treatment.
    pub mode: Mode,
    /// Share of connections left untreated for comparison, 0 to 1.
    pub ab: f64,
    /// Parameters of [`Mode::Snoop`] and, without effect on packets, of [`Mode::Observe`]. [`EngineConfig::flows`]
    /// overrides the limit on connections. Of [`Mode::Quic`], the limit on the cache applies.
    pub snoop: SnoopConfig,
}

impl Rule {
    /// Returns a rule for all connections, with [`SnoopConfig::modern`] and no comparison.
    pub fn all(name: &str, mode: Mode) -> Self {
        Self { name: name.to_owned(), predicate: Predicate::default(), mode, ab: 0.0, snoop: SnoopConfig::modern() }
    }
}

/// Configuration of an engine.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineConfig {
    /// Rules in order: the first match applies. Connections without a match pass untracked.
    pub rules: Vec<Rule>,
    /// Maximum number of connections with state.
    pub flows: usize,
    /// Idle time after which a connection is removed.
    pub idle: Duration,
    /// Minimum number of acknowledged bytes for a connection's goodput to count.
    pub measured_bytes: u64,
}

impl EngineConfig {
    /// Returns a configuration with 65,536 connections, removed after ten idle minutes, measured after 100,000 bytes.
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self { rules, flows: 1 << 16, idle: Duration::from_secs(600), measured_bytes: MEASURED_BYTES }
    }

    /// Returns the index of the first rule for a connection between these ends.
    pub(super) fn rule_for(&self, wired: SocketAddr, wireless: SocketAddr) -> Option<usize> {
        self.rules.iter().position(|rule| rule.mode != Mode::Quic && rule.predicate.matches(wired, wireless))
    }

    /// Returns the index of the first rule for a connection of QUIC between these ends.
    pub(super) fn quic_rule_for(&self, wired: SocketAddr, wireless: SocketAddr) -> Option<usize> {
        self.rules.iter().position(|rule| rule.mode == Mode::Quic && rule.predicate.matches(wired, wireless))
    }
}
