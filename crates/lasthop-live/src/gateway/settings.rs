//! What the configuration means to engine and relay.

use std::net::IpAddr;

use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_scenario::gateway::{Gateway, Mode, Network, OpenedBy, Rule, SideSettings};

use crate::gateway::rules::{self, Ends, EngineConfig, Net, Predicate};
use crate::gateway::split::{Share, SplitConfig, TcpSide};

/// What the engine is told: every rule but those that split.
pub fn engine(gateway: &Gateway) -> EngineConfig {
    // Each rule has a cache of its own.
    let caches = gateway.rules.iter().filter(|rule| !matches!(rule.mode, Mode::Split(_))).count() as u64;
    let cache = gateway.limits.cache / caches.max(1);
    let rules = gateway.rules.iter().filter_map(|rule| engine_rule(rule, cache)).collect();
    let limits = gateway.limits;
    EngineConfig { flows: limits.flows as usize, idle: limits.idle, ..EngineConfig::new(rules) }
}

fn engine_rule(rule: &Rule, cache: u64) -> Option<rules::Rule> {
    let (mode, snoop) = match &rule.mode {
        Mode::Split(_) => return None,
        Mode::Observe => (rules::Mode::Observe, SnoopConfig::modern()),
        Mode::Snoop(config) => (rules::Mode::Snoop, config.clone()),
    };
    let snoop = SnoopConfig { cache_bytes: cache, ..snoop };
    let nets = rule.addresses.iter().map(|&Network { address, prefix }| Net { address, prefix }).collect();
    let ports: Vec<_> = rule.ports.iter().map(|range| range.first..=range.last).collect();
    let (wired_ports, wireless_ports) = match rule.opened_by {
        OpenedBy::Wired => (Vec::new(), ports),
        OpenedBy::Wireless | OpenedBy::Either => (ports, Vec::new()),
    };
    let predicate = Predicate {
        wired: Ends { nets: Vec::new(), ports: wired_ports },
        wireless: Ends { nets, ports: wireless_ports },
    };
    Some(rules::Rule { name: rule.name.clone(), predicate, mode, ab: rule.ab.get(), snoop })
}

/// What the relay is told, when a rule splits. A configuration has at most one such rule.
pub fn split(gateway: &Gateway) -> Option<SplitConfig> {
    let rules = gateway.rules.iter().find_map(|rule| match &rule.mode {
        Mode::Split(settings) => Some((rule, settings)),
        _ => None,
    });
    let (rule, settings) = rules?;
    let mut config = SplitConfig::new(rule.interface.clone());
    let side = |given: &SideSettings, default: &TcpSide| TcpSide {
        congestion: given.congestion.clone().or_else(|| default.congestion.clone()),
        buffer: given.buffer.map(|bytes| bytes as usize),
    };
    config.wireless = side(&settings.wireless, &config.wireless);
    config.wired = side(&settings.wired, &config.wired);
    config.bypass = Share::new(rule.ab.get()).unwrap_or(Share::NONE);
    // Single ports: a configuration with ranges is refused for this mode.
    config.destination_ports = rule.ports.iter().map(|range| range.first).collect();
    if rule.opened_by != OpenedBy::Wireless {
        let networks = rule.addresses.iter().map(Network::to_string);
        config.wireless_networks = networks.filter_map(|network| network.parse().ok()).collect();
    }
    config.queue = Some(gateway.queue);
    config.max_connections = gateway.limits.flows.min(config.max_connections);
    let no_v6 =
        !rule.addresses.is_empty() && rule.addresses.iter().all(|network| matches!(network.address, IpAddr::V4(_)));
    if no_v6 || !has_ipv6() {
        config.families = crate::gateway::split::Families::V4Only;
    }
    Some(config)
}

/// Whether this machine speaks IPv6.
fn has_ipv6() -> bool {
    std::path::Path::new("/proc/net/if_inet6").exists()
}
