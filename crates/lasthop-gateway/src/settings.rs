//! What the configuration means to engine and relay.

use lasthop_proto::pep::snoop::SnoopConfig;

use crate::configuration::{Gateway, Mode, Network, OpenedBy, Rule};
use crate::engine::rules::{self, Ends, EngineConfig, Net, Predicate};
use crate::split::{Families, Share, SplitConfig, SplitRule, TcpSide};

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
        Mode::Observe => (rules::Mode::Observe, SnoopConfig::gateway()),
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

/// What the relay is told, when rules split.
pub fn split(gateway: &Gateway) -> Option<SplitConfig> {
    let rules = gateway.rules.iter().filter_map(|rule| {
        let Mode::Split(settings) = &rule.mode else { return None };
        Some(SplitRule {
            addresses: rule.addresses.clone(),
            ports: rule.ports.clone(),
            opened_by: rule.opened_by,
            bypass: Share::new(rule.ab.get()).unwrap_or(Share::NONE),
            wired: TcpSide::from(&settings.wired),
            wireless: TcpSide::from(&settings.wireless),
            interface: rule.interface.clone(),
        })
    });
    let mut config = SplitConfig::new(rules.collect());
    if config.rules.is_empty() {
        return None;
    }
    config.queue = Some(gateway.queue);
    config.max_connections = gateway.limits.flows.min(config.max_connections);
    let most = (f64::from(config.max_connections) * gateway.limits.share.get()) as u32;
    config.max_of_client = most.max(1);
    let named = config.rules.iter().all(|rule| !rule.addresses.is_empty());
    let no_v6 = named && config.rules.iter().flat_map(|rule| &rule.addresses).all(|network| network.address.is_ipv4());
    if no_v6 || !has_ipv6() {
        config.families = Families::V4Only;
    }
    Some(config)
}

/// Whether this machine speaks IPv6, also to itself.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6").is_ok_and(|text| text.trim() == "0")
}
