//! Conversion of the configuration for engine and relay.

use lasthop_proto::pep::snoop::SnoopConfig;

use crate::configuration::{Gateway, Mode, Network, OpenedBy, Rule};
use crate::engine::rules::{self, Ends, EngineConfig, Net, Predicate};
use crate::split::{Families, Share, Side, SplitConfig, SplitRule, TcpSide};

/// Returns whether the engine sees forwarded packets of the rule's connections. Packets of split connections do not
/// pass it, but connections that such a rule leaves unsplit for comparison are measured.
pub fn is_watched(rule: &Rule) -> bool {
    !matches!(rule.mode, Mode::Split(_)) || rule.ab.get() > 0.0
}

/// Returns whether an engine sees the relay's own packets over the hop.
pub fn is_repaired(rule: &Rule) -> bool {
    matches!(&rule.mode, Mode::Split(split) if split.repair.is_on())
}

/// Returns whether a rule selects QUIC.
pub fn has_quic(gateway: &Gateway) -> bool {
    gateway.rules.iter().any(|rule| rule.mode == Mode::Quic)
}

/// Returns the engine's configuration: every rule; of a rule that splits, the connections left unsplit.
pub fn engine(gateway: &Gateway) -> EngineConfig {
    config(gateway, engine_rule)
}

/// Returns the configuration of the engine below the relay's connections over the hop; `None` if no rule enables it.
pub fn beneath(gateway: &Gateway) -> Option<EngineConfig> {
    gateway.rules.iter().any(is_repaired).then(|| config(gateway, beneath_rule))
}

fn config<R: IntoIterator<Item = rules::Rule>>(gateway: &Gateway, engine_rule: fn(&Rule, u64) -> R) -> EngineConfig {
    // Each rule has its own cache.
    let has_cache = |rule: &&Rule| !matches!(rule.mode, Mode::Split(_)) || is_repaired(rule);
    let caches = gateway.rules.iter().filter(has_cache).count() as u64;
    let cache = gateway.limits.cache / caches.max(1);
    let rules = gateway.rules.iter().flat_map(|rule| engine_rule(rule, cache)).collect();
    let limits = gateway.limits;
    EngineConfig { flows: limits.flows as usize, idle: limits.idle, ..EngineConfig::new(rules) }
}

fn engine_rule(rule: &Rule, cache: u64) -> Option<rules::Rule> {
    let (mode, snoop) = match &rule.mode {
        Mode::Split(_) if !is_watched(rule) => return None,
        Mode::Split(_) => (rules::Mode::Bypass, SnoopConfig::gateway()),
        Mode::Quic => (rules::Mode::Quic, SnoopConfig::gateway()),
        Mode::Observe => (rules::Mode::Observe, SnoopConfig::gateway()),
        Mode::Snoop(config) => (rules::Mode::Snoop, config.clone()),
    };
    let snoop = SnoopConfig { cache_bytes: cache, ..snoop };
    let predicate = predicate(rule, if rule.opened_by == OpenedBy::Wired { Side::Wireless } else { Side::Wired });
    // All connections that a splitting rule forwards are the untreated ones.
    let ab = if mode == rules::Mode::Bypass { 1.0 } else { rule.ab.get() };
    Some(rules::Rule { name: rule.name.clone(), predicate, mode, ab, snoop })
}

/// Returns a rule for each side that may be called at the rule's ports. Its connections are those of the relay, so `ab`
/// does not apply.
fn beneath_rule(rule: &Rule, cache: u64) -> Vec<rules::Rule> {
    if !is_repaired(rule) {
        return Vec::new();
    }
    let called: &[Side] = match rule.opened_by {
        OpenedBy::Wired => &[Side::Wireless],
        OpenedBy::Either if !rule.ports.is_empty() => &[Side::Wired, Side::Wireless],
        OpenedBy::Wireless | OpenedBy::Either => &[Side::Wired],
    };
    let snoop = SnoopConfig { cache_bytes: cache / called.len() as u64, ..SnoopConfig::beneath_relay() };
    let (name, mode) = (rule.name.clone(), rules::Mode::Snoop);
    let of = |&called| {
        let predicate = predicate(rule, called);
        rules::Rule { name: name.clone(), predicate, mode, ab: 0.0, snoop: snoop.clone() }
    };
    called.iter().map(of).collect()
}

/// Returns the selection of connections whose called side, at the rule's ports, is this one.
fn predicate(rule: &Rule, called: Side) -> Predicate {
    let nets = rule.addresses.iter().map(|&Network { address, prefix }| Net { address, prefix }).collect();
    let ports = rule.ports.iter().map(|range| range.first..=range.last).collect();
    let (wired_ports, wireless_ports) = match called {
        Side::Wired => (ports, Vec::new()),
        Side::Wireless => (Vec::new(), ports),
    };
    Predicate { wired: Ends { nets: Vec::new(), ports: wired_ports }, wireless: Ends { nets, ports: wireless_ports } }
}

/// Returns the relay's configuration, if a rule splits.
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
            repair: settings.repair,
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

/// Returns whether IPv6 is enabled on this machine's loopback interface.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6").is_ok_and(|text| text.trim() == "0")
}
