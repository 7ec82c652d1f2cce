//! Conditions under which an endpoint reads its TCP keys, and keys that are given although no endpoint reads them.

use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{
    ClassicConfig, ClassicRecovery, Clock, DelayedAck, EcnMode, EcnOption, ModernConfig, Qdisc, Recovery, RttRule,
    SackAlgorithm, TcpConfig,
};
use lasthop_sim::network::Network;

use crate::document::{Data, Item, Table};
use crate::key::Key;
use crate::reader::Value;
use crate::spec::Spec;
use crate::tcp_keys::Keys;
use crate::values::{ClockName, DelayedAckName};
use crate::{Error, Place, Problem, Spot};

/// Condition for the effect of a key.
enum Effect {
    /// Effective with every endpoint.
    Always,
    /// Effective with some endpoints only.
    Needs(Need),
}

/// Requirement of a key for an endpoint.
#[derive(Clone, Copy)]
struct Need {
    holds: fn(&TcpConfig) -> bool,
    /// Description of the condition, after "needs".
    words: &'static str,
    /// Keys that the condition depends on, which the message shows with their values.
    on: &'static [Shown],
}

/// A key that conditions depend on.
#[derive(Clone, Copy)]
enum Shown {
    Recovery,
    SackAlgorithm,
    Congestion,
    Timestamps,
    Clock,
    RttRule,
    DelayedAck,
    Ecn,
    EcnOption,
    Gro,
}

impl Shown {
    /// Returns the key with its value, if the endpoint's sender has it.
    fn of(self, config: &TcpConfig) -> Option<String> {
        let (key, value) = match self {
            Self::Recovery => (Keys::recovery, config.sender.recovery().show()),
            Self::SackAlgorithm => (Keys::sack_algorithm, config.sender.classic()?.sack_algorithm.show()),
            Self::Congestion => (Keys::congestion, config.sender.modern()?.congestion.algorithm().show()),
            Self::Timestamps => (Keys::timestamps, config.common.timestamps.show()),
            Self::Clock => (Keys::clock, ClockName::of(config.common.clock).show()),
            Self::RttRule => (Keys::rtt_rule, config.common.rtt_rule.show()),
            Self::Ecn => (Keys::ecn, config.common.ecn.show()),
            Self::EcnOption => (Keys::ecn_option, config.common.ecn_option.show()),
            Self::Gro => (Keys::gro, config.receiver.gro.show()),
            Self::DelayedAck => (Keys::delayed_ack, DelayedAckName::of(config.receiver.delayed_ack).show()),
        };
        Some(format!("{key} = {value}"))
    }
}

/// Requires the sender of RFC 8985, with its congestion controls.
const RACK: Need =
    Need { holds: |c| c.sender.modern().is_some(), words: "recovery = \"rack\"", on: &[Shown::Recovery] };
/// Requires accurate ECN.
const ACCURATE: Need = Need {
    holds: is_accurate,
    words: "recovery = \"rack\" and ecn = \"accurate\", \"accurate-accept\" or \"accurate-passive\"",
    on: &[Shown::Recovery, Shown::Ecn],
};
/// Requires accurate ECN with few options.
const SPARING: Need = Need {
    holds: |c| is_accurate(c) && c.common.ecn_option == EcnOption::Minimum,
    words: "recovery = \"rack\", ecn = \"accurate\", \"accurate-accept\" or \"accurate-passive\", and \
            ecn_option = \"minimum\"",
    on: &[Shown::Recovery, Shown::Ecn, Shown::EcnOption],
};

fn is_accurate(config: &TcpConfig) -> bool {
    let is_classic = matches!(config.common.ecn, EcnMode::Off | EcnMode::Passive | EcnMode::On);
    config.sender.modern().is_some() && !is_classic
}

/// Requires a recovery of the 1990s, with a window of its own.
const CLASSIC: Need =
    Need { holds: |c| c.sender.classic().is_some(), words: "a recovery other than \"rack\"", on: &[Shown::Recovery] };
/// Requires a recovery that uses selective acknowledgments from the peer.
const SELECTIVE: Need = Need {
    holds: |c| c.sender.recovery().uses_sack(),
    words: "recovery = \"sack\" or \"rack\"",
    on: &[Shown::Recovery],
};
const SACK: Need =
    Need { holds: |c| c.sender.recovery() == Recovery::SACK, words: "recovery = \"sack\"", on: &[Shown::Recovery] };
/// Requires NewReno or a recovery that leaves unmarked losses to it, including SMART with a peer that does not support
/// it.
const PARTIAL: Need = Need {
    holds: |c| matches!(c.sender.recovery(), Recovery::NEW_RENO | Recovery::ELN | Recovery::ELN_RXMT | Recovery::SMART),
    words: "recovery = \"new-reno\", \"smart\", \"eln\" or \"eln-rxmt\"",
    on: &[Shown::Recovery],
};
/// Requires a recovery that inflates the window, or leaves it in the same state: every classic recovery except RFC
/// 6675's.
const INFLATING: Need = Need {
    holds: |c| c.sender.classic().is_some() && !is_rfc6675(c),
    words: "a recovery other than \"rack\", and other than \"sack\" with sack_algorithm = \"rfc6675\"",
    on: &[Shown::Recovery, Shown::SackAlgorithm],
};
const PREDICTED: Need = Need {
    holds: |c| !matches!(c.sender.recovery(), Recovery::Rack | Recovery::SMART) && !is_rfc6675(c),
    words: "recovery = \"reno\", \"new-reno\", \"eln\", \"eln-rxmt\", or \"sack\" with sack_algorithm = \"sack1\"",
    on: &[Shown::Recovery, Shown::SackAlgorithm],
};

fn is_rfc6675(config: &TcpConfig) -> bool {
    let is_own = |classic: &ClassicConfig| {
        classic.recovery == ClassicRecovery::Sack && classic.sack_algorithm == SackAlgorithm::Rfc6675
    };
    config.sender.classic().is_some_and(is_own)
}

/// Keys that not every endpoint reads. Values that depend on each other under any scheme (`slow_tick` and `clock`,
/// `hystart` and `congestion`) are checked when they are read.
const NEEDS: [(Key, Need); 37] = [
    (
        Keys::paws,
        Need { holds: |c| c.common.timestamps.is_on(), words: "timestamps = \"on\"", on: &[Shown::Timestamps] },
    ),
    (Keys::sack_algorithm, SACK),
    (Keys::sack_blocks, SELECTIVE),
    (Keys::sack_eln, SACK),
    (
        Keys::smart_rtt,
        Need {
            holds: |c| c.sender.recovery() == Recovery::SMART,
            words: "recovery = \"smart\"",
            on: &[Shown::Recovery],
        },
    ),
    (
        Keys::tick_phase,
        Need {
            holds: |c| {
                !matches!(c.common.clock, Clock::Fine) || matches!(c.common.rtt_rule, RttRule::Bsd | RttRule::Ns2)
            },
            words: "clock = \"ticks\" or \"jiffies\", or rtt_rule = \"bsd\" or \"ns2\"",
            on: &[Shown::Clock, Shown::RttRule],
        },
    ),
    (
        Keys::rtt_granularity,
        Need {
            holds: |c| match c.common.rtt_rule {
                RttRule::Ns2 | RttRule::Rfc6298 => true,
                RttRule::Bsd => !matches!(c.common.clock, Clock::Ticks { .. }),
                RttRule::Linux => false,
            },
            words: "rtt_rule = \"ns2\" or \"rfc6298\", or \"bsd\" without clock = \"ticks\"",
            on: &[Shown::RttRule, Shown::Clock],
        },
    ),
    (
        Keys::sack_compression,
        Need {
            holds: |c| c.receiver.delayed_ack == DelayedAck::Linux && c.sender.recovery().uses_sack(),
            words: "delayed_ack = \"linux\", and recovery = \"sack\" or \"rack\"",
            on: &[Shown::DelayedAck, Shown::Recovery],
        },
    ),
    (Keys::ecn_option, ACCURATE),
    (Keys::ecn_option_beacon, SPARING),
    (Keys::dsack, SELECTIVE),
    (Keys::send_autotune, RACK),
    (Keys::initial_ssthresh, CLASSIC),
    (Keys::congestion, RACK),
    (Keys::hystart, RACK),
    (Keys::window_reduction, RACK),
    (Keys::undo, RACK),
    (Keys::frto, RACK),
    (Keys::tlp, RACK),
    (Keys::small_queues, RACK),
    (Keys::qdisc, RACK),
    (Keys::tso, RACK),
    (Keys::gro_flush_timeout, Need { holds: |c| c.receiver.gro.is_on(), words: "gro = \"on\"", on: &[Shown::Gro] }),
    (Keys::growth, CLASSIC),
    (Keys::deflation, INFLATING),
    (Keys::limited_transmit, CLASSIC),
    (Keys::header_prediction, PREDICTED),
    (Keys::impure_duplicates, CLASSIC),
    (Keys::recovery_guard, INFLATING),
    (Keys::recovery_burst, PARTIAL),
    (Keys::partial_ack_timer, PARTIAL),
    (Keys::partial_deflation, PARTIAL),
    (
        Keys::eln_inflation,
        Need {
            holds: |c| matches!(c.sender.recovery(), Recovery::ELN | Recovery::ELN_RXMT),
            words: "recovery = \"eln\" or \"eln-rxmt\"",
            on: &[Shown::Recovery],
        },
    ),
    (
        Keys::idle_restart,
        Need {
            holds: |c| c.sender.modern().is_none_or(|modern| !modern.congestion.algorithm().paces),
            words: "a congestion control other than BBR",
            on: &[Shown::Recovery, Shown::Congestion],
        },
    ),
    (
        Keys::send_quantum,
        Need {
            holds: |c| {
                let sends_bursts = |modern: &ModernConfig| {
                    modern.congestion.algorithm().paces || modern.qdisc == Qdisc::Fq || modern.tso.is_on()
                };
                c.sender.modern().is_some_and(sends_bursts)
            },
            words: "recovery = \"rack\" with a congestion control that paces, e.g. \"bbr\", with qdisc = \"fq\" or with tso",
            on: &[Shown::Recovery, Shown::Congestion],
        },
    ),
    (Keys::window_edge, RACK),
    (Keys::push, RACK),
];

/// Returns the condition for the effect of a key.
fn effect(key: &str) -> Effect {
    NEEDS.iter().find(|(known, _)| known.name() == key).map_or(Effect::Always, |(_, need)| Effect::Needs(*need))
}

/// Returns the remark for the value of `key` in an explained scenario if none of these endpoints reads it.
pub(crate) fn remark(key: &str, endpoints: &[&TcpConfig]) -> Option<String> {
    match effect(key) {
        Effect::Needs(need) if !endpoints.is_empty() && !endpoints.iter().any(|config| (need.holds)(config)) => {
            Some(format!("no effect: requires {}", need.words))
        }
        Effect::Needs(_) | Effect::Always => None,
    }
}

/// A TCP key that is given although no endpoint reads it.
#[derive(Debug)]
pub struct Idle {
    /// Dotted path.
    pub key: String,
    /// Message.
    pub error: Error,
}

/// A key that the scenario gives.
pub(crate) struct Given<'t> {
    /// Dotted path of the key's table.
    table: String,
    key: &'static str,
    item: &'t Item,
}

impl Given<'_> {
    /// Returns the key's dotted path.
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.table, self.key)
    }

    /// Returns whether the key is in the file, and not in an option.
    pub(crate) fn is_in_file(&self) -> bool {
        matches!(self.item.spot, Spot::Line(_))
    }

    /// Returns the error if no endpoint of these networks reads the key. Each network comes with its scheme.
    pub(crate) fn idle_in(&self, file: &str, spec: &Spec, networks: &[(&Scheme, &Network)]) -> Option<Idle> {
        let Effect::Needs(need) = effect(self.key) else { return None };
        let endpoints: Vec<&TcpConfig> =
            networks.iter().flat_map(|(_, network)| endpoints(&self.table, spec, network)).collect();
        if endpoints.is_empty() || endpoints.iter().any(|config| (need.holds)(config)) {
            return None;
        }
        let mut found: Vec<String> = Vec::new();
        for config in endpoints {
            let shown: Vec<String> = need.on.iter().filter_map(|key| key.of(config)).collect();
            let shown = shown.join(", ");
            if !found.contains(&shown) {
                found.push(shown);
            }
        }
        let names: Vec<&str> = networks.iter().map(|(scheme, _)| scheme.name).collect();
        let message = format!(
            "{} has no effect under {}: it requires {}, and the endpoints have {}; remove it, or set what it requires",
            self.item.data.describe(),
            names.join(", "),
            need.words,
            found.join("; or "),
        );
        let place = Place { file: file.to_owned(), spot: self.item.spot };
        Some(Idle { key: self.path(), error: Error::new(place, Some(self.path()), Problem::Conflict(message)) })
    }
}

/// Returns the TCP keys that a scenario sets explicitly. A text written by `explain` has every key; its `given` lists
/// the explicit ones.
pub(crate) fn given(root: &Table) -> Vec<Given<'_>> {
    let mut found = Vec::new();
    for (path, table) in tables(root) {
        let listed: Option<Vec<&str>> = table.get(Keys::given.name()).map(|item| match &item.data {
            Data::Array(items) => items.iter().filter_map(|item| text(&item.data)).collect(),
            data => text(data).into_iter().collect(),
        });
        for (key, item) in table.iter() {
            let is_listed = listed.as_ref().is_none_or(|listed| listed.contains(&key));
            let known = Keys::NAMES.iter().find(|known| **known == key);
            if let Some(key) = known.filter(|_| is_listed || item.spot == Spot::Override) {
                found.push(Given { table: path.clone(), key, item });
            }
        }
    }
    found
}

fn text(data: &Data) -> Option<&str> {
    match data {
        Data::String(text) => Some(text),
        _ => None,
    }
}

/// Returns each table of TCP keys, with its path.
fn tables(root: &Table) -> Vec<(String, &Table)> {
    let mut found = Vec::new();
    found.extend(inner(root, "tcp").map(|table| ("tcp".to_owned(), table)));
    for (group, keys) in [("hosts", &["tcp"][..]), ("elements", &RELAY_ENDS)] {
        for (name, item) in inner(root, group).into_iter().flat_map(Table::iter) {
            let Data::Table(named) = &item.data else { continue };
            let of = |key: &&str| Some((format!("{group}.{name}.{key}"), inner(named, key)?));
            found.extend(keys.iter().filter_map(of));
        }
    }
    if let Some(station) = inner(root, "base_station") {
        let of = |key: &&str| Some((format!("base_station.{key}"), inner(station, key)?));
        found.extend(RELAY_ENDS.iter().filter_map(of));
    }
    found
}

/// Tables of a relay's two endpoints, in the order of [`endpoints`](lasthop_sim::element::Element::endpoints).
const RELAY_ENDS: [&str; 2] = ["wired_tcp", "wireless_tcp"];

fn inner<'t>(table: &'t Table, key: &str) -> Option<&'t Table> {
    match table.get(key) {
        Some(Item { data: Data::Table(table), .. }) => Some(table),
        _ => None,
    }
}

/// Returns the endpoints in `network` that a table applies to; empty if the network has none of them.
pub(crate) fn endpoints<'n>(table: &str, spec: &Spec, network: &'n Network) -> Vec<&'n TcpConfig> {
    let relays = network.elements.iter().filter_map(|element| element.element.endpoints());
    if table == "tcp" {
        let of_flows = network.flows.iter().flat_map(|flow| &flow.tcp);
        return of_flows.chain(relays.flatten()).map(|config| &**config).collect();
    }
    if let Some(end) = RELAY_ENDS.iter().position(|key| table.rsplit('.').next() == Some(key)) {
        return relays.map(|ends| &**ends[end]).collect();
    }
    let name = table.strip_prefix("hosts.").and_then(|rest| rest.strip_suffix(".tcp"));
    let host = spec.nodes.names().position(|host| Some(host) == name);
    let at = |flow: &'n lasthop_sim::network::FlowSpec| {
        [flow.from, flow.to].into_iter().zip(&flow.tcp).filter(move |(node, _)| Some(node.0) == host)
    };
    network.flows.iter().flat_map(at).map(|(_, config)| &**config).collect()
}

#[cfg(test)]
#[path = "tcp_effect_tests.rs"]
mod tests;
