//! What is done to which connections.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::time::Duration;

/// A comparison counts connections from so many acknowledged bytes on.
pub const MEASURED_BYTES: u64 = 100_000;

/// What a rule does with its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Caches data, repairs the hop's losses locally, keeps them from the sender.
    Snoop,
    /// Changes nothing; reports what it sees and what snoop would have done.
    Observe,
    /// Changes nothing; counts, and measures goodput and round trips.
    Bypass,
}

/// Addresses that share a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Net {
    /// One of them.
    pub address: IpAddr,
    /// How many leading bits they share.
    pub prefix: u8,
}

impl Net {
    /// Whether `address` is one of them.
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

/// The addresses and ports that the end of a connection may have.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ends {
    /// One of these; any when there is none.
    pub nets: Vec<Net>,
    /// One of these; any when there is none.
    pub ports: Vec<RangeInclusive<u16>>,
}

impl Ends {
    fn contains(&self, end: SocketAddr) -> bool {
        (self.nets.is_empty() || self.nets.iter().any(|net| net.contains(end.ip())))
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&end.port())))
    }
}

/// Which connections a rule is for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Predicate {
    /// The end on the wired side.
    pub wired: Ends,
    /// The end behind the lossy hop.
    pub wireless: Ends,
}

impl Predicate {
    /// Whether a connection between these ends is meant.
    pub fn matches(&self, wired: SocketAddr, wireless: SocketAddr) -> bool {
        self.wired.contains(wired) && self.wireless.contains(wireless)
    }
}

/// What is done to some connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Under this name it reports, and finds its connections again after [`Engine::reconfigure`](super::Engine::reconfigure).
    pub name: String,
    /// Which connections.
    pub predicate: Predicate,
    /// What is done.
    pub mode: Mode,
    /// The share of the connections that is not treated, for comparison: 0 to 1.
    pub ab: f64,
    /// Parameters of [`Mode::Snoop`] and, in the shadow, of [`Mode::Observe`]. The limit on connections is
    /// [`EngineConfig::flows`] instead.
    pub snoop: SnoopConfig,
}

impl Rule {
    /// A rule for all connections, with [`SnoopConfig::modern`] and no comparison.
    pub fn all(name: &str, mode: Mode) -> Self {
        Self { name: name.to_owned(), predicate: Predicate::default(), mode, ab: 0.0, snoop: SnoopConfig::modern() }
    }
}

/// All that an engine is told.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineConfig {
    /// In order: the first that matches counts. Connections that none matches pass unseen.
    pub rules: Vec<Rule>,
    /// Most connections with state.
    pub flows: usize,
    /// A connection that was silent for so long is forgotten.
    pub idle: Duration,
    /// From how many bytes acknowledged on a connection's goodput counts.
    pub measured_bytes: u64,
}

impl EngineConfig {
    /// 65,536 connections, forgotten after ten idle minutes, measured from 100,000 bytes on.
    pub const fn new(rules: Vec<Rule>) -> Self {
        Self { rules, flows: 1 << 16, idle: Duration::from_secs(600), measured_bytes: MEASURED_BYTES }
    }

    /// The first rule for a connection between these ends.
    pub(super) fn rule_for(&self, wired: SocketAddr, wireless: SocketAddr) -> Option<usize> {
        self.rules.iter().position(|rule| rule.predicate.matches(wired, wireless))
    }
}
