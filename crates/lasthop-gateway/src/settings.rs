//! What the configuration means to engine and relay.

use lasthop_proto::pep::snoop::SnoopConfig;

use crate::configuration::{Gateway, Mode, Network, OpenedBy, Rule};
use crate::engine::rules::{self, Ends, EngineConfig, Net, Predicate};
use crate::split::{Families, Share, SplitConfig, SplitRule, TcpSide};

/// Whether packets of a rule's connections come to the engine. Those of split connections do not; what such a rule leaves alone for comparison is measured.
pub fn is_watched(rule: &Rule) -> bool {
    !matches!(rule.mode, Mode::Split(_)) || rule.ab.get() > 0.0
}

/// What the engine is told: every rule but those that split; of these, what they leave alone.
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
        Mode::Split(_) if !is_watched(rule) => return None,
        Mode::Split(_) => (rules::Mode::Bypass, SnoopConfig::gateway()),
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
    // What comes of a rule that splits is what was left alone.
    let ab = if mode == rules::Mode::Bypass { 1.0 } else { rule.ab.get() };
    Some(rules::Rule { name: rule.name.clone(), predicate, mode, ab, snoop })
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
