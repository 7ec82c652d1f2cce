//! The chains for what is forwarded, and for what the gateway sends itself.

use super::chains::{CHAIN, Chain, Place, Stage, Table};
use super::pulse::{Pulse, matches as pulse_match};
use super::split;
use crate::configuration::{Gateway, Mode, Network, OpenedBy, PortRange, Rule};
use crate::family::Family;
use crate::settings::is_watched;

/// Most ports in one match, by the kernel's structure; a range counts twice.
const MOST_PORTS: usize = 15;

/// The target that leads packets to the queue, or lets them pass while nobody reads it.
pub fn queue(gateway_queue: u16, family: Family, pulse: Pulse) -> String {
    let beat = match pulse {
        Pulse::Required => pulse_match(family),
        Pulse::None => String::new(),
    };
    format!("{beat}-j NFQUEUE --queue-num {gateway_queue} --queue-bypass")
}

/// What leads forwarded packets to the queue, and lets those pass that the gateway sends itself.
pub fn chains(gateway: &Gateway, family: Family, pulse: Pulse) -> Vec<Chain> {
    let own = format!("-m mark --mark {0:#x}/{0:#x}", gateway.mark);
    let quiet = |table, hook, place, rules| Chain { table, name: CHAIN, hook, place, stage: Stage::Quiet, rules };
    let mut forwarded = vec![format!("{own} -j RETURN")];
    let queue = queue(gateway.queue, family, pulse);
    for rule in &gateway.rules {
        if matches!(rule.mode, Mode::Split(_)) {
            forwarded.extend(split::led_on(rule, family).iter().map(|first| format!("{first} {queue}")));
        }
        forwarded.extend(matches(rule, family).into_iter().map(|matches| match rule.mode {
            // Connections that are split end here, and are not forwarded; those that are left alone pass, and are measured where that was the intent.
            Mode::Split(_) if !is_watched(rule) => format!("{matches} -j RETURN"),
            Mode::Split(_) | Mode::Snoop(_) | Mode::Observe => {
                format!("{matches} {queue}")
            }
        }));
    }
    vec![
        // As forwarded ones do, which the firewall has let pass.
        quiet(Table::Filter, "OUTPUT", Place::First, vec![format!("{own} -j ACCEPT")]),
        // Behind address translation they would be taken for new connections.
        quiet(Table::Raw, "OUTPUT", Place::First, vec![format!("{own} -j CT --notrack")]),
        quiet(Table::Mangle, "FORWARD", Place::Last, forwarded),
    ]
}

/// Which way a packet goes, seen from the side that is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the side that is called.
    ToCalled,
    /// From there.
    FromCalled,
}

/// What matches the packets of a rule's connections, towards the lossy hop and from it.
fn matches(rule: &Rule, family: Family) -> Vec<String> {
    let interface = &rule.interface;
    let mut all = Vec::new();
    let (called, calling) = (Way::ToCalled, Way::FromCalled);
    let splits = matches!(rule.mode, Mode::Split(_));
    let ways = match rule.opened_by {
        OpenedBy::Wired => vec![(called, calling)],
        // The ports are those of the called side, whichever that is.
        OpenedBy::Either if splits && !rule.ports.is_empty() => vec![(called, calling), (calling, called)],
        OpenedBy::Wireless | OpenedBy::Either => vec![(calling, called)],
    };
    for (towards, back) in ways {
        for (host, device, way) in [("-d", "-o", towards), ("-s", "-i", back)] {
            for host in hosts(&rule.addresses, family, host) {
                for end in ends(rule, way) {
                    all.push(format!("{host}{device} {interface} -p tcp{end}"));
                }
            }
        }
    }
    all
}

/// The hosts behind the hop, each as a match with a blank behind it; a single empty one where any is meant.
pub fn hosts(addresses: &[Network], family: Family, which: &str) -> Vec<String> {
    match addresses.is_empty() {
        true => vec![String::new()],
        false => addresses.iter().filter(|net| family.has(net)).map(|net| format!("{which} {net} ")).collect(),
    }
}

/// What else tells a packet in one direction: the called side's ports, or who opened the connection.
fn ends(rule: &Rule, way: Way) -> Vec<String> {
    if rule.ports.is_empty() {
        return vec![match (rule.opened_by, way) {
            (OpenedBy::Either, _) => String::new(),
            (_, Way::ToCalled) => " -m conntrack --ctdir ORIGINAL".to_owned(),
            (_, Way::FromCalled) => " -m conntrack --ctdir REPLY".to_owned(),
        }];
    }
    ports(&rule.ports, way)
}

/// What matches ports of the called side, each with a blank before it; a single empty one where any is meant.
pub fn ports(ports: &[PortRange], way: Way) -> Vec<String> {
    if ports.is_empty() {
        return vec![String::new()];
    }
    let which = match way {
        Way::ToCalled => "dport",
        Way::FromCalled => "sport",
    };
    groups(ports)
        .map(|ports| match ports {
            [one] => format!(" -m tcp --{which} {one}"),
            several => {
                let several: Vec<_> = several.iter().map(PortRange::to_string).collect();
                format!(" -m multiport --{which}s {}", several.join(","))
            }
        })
        .collect()
}

/// `ports` in groups that fit one match each.
fn groups(mut ports: &[PortRange]) -> impl Iterator<Item = &[PortRange]> {
    std::iter::from_fn(move || {
        let mut room = MOST_PORTS;
        let fits = |range: &&PortRange| {
            let takes = if range.first == range.last { 1 } else { 2 };
            let left = room.checked_sub(takes);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let count = ports.iter().take_while(fits).count();
        let (group, rest) = ports.split_at(count);
        ports = rest;
        (!group.is_empty()).then_some(group)
    })
}
