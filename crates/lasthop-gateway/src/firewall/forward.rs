//! Chains for forwarded packets, and for packets that the gateway sends itself.

use super::chains::{CHAIN, Chain, Place, Stage, Table};
use super::matching::{TCP, UDP, Way, came_from, first_packets, hosts, openers, ports, queue};
use super::pulse::Pulse;
use crate::configuration::{Gateway, Mode, OpenedBy, Rule};
use crate::family::Family;
use crate::settings::is_watched;
use crate::split::Side;

/// Returns the chains that send forwarded packets to the queue and accept packets that the gateway sends itself.
pub fn chains(gateway: &Gateway, family: Family, pulse: Pulse) -> Vec<Chain> {
    let own = format!("-m mark --mark {0:#x}/{0:#x}", gateway.mark);
    let quiet = |table, hook, place, rules| Chain { table, name: CHAIN, hook, place, stage: Stage::Quiet, rules };
    let mut forwarded = vec![format!("{own} -j RETURN")];
    let queue = queue(gateway.queue, family, pulse);
    for rule in &gateway.rules {
        if matches!(rule.mode, Mode::Split(_)) {
            forwarded.extend(led_on(rule, family).iter().map(|first| format!("{first} {queue}")));
        }
        forwarded.extend(matches(rule, family).into_iter().map(|matches| match rule.mode {
            // Split connections are delivered locally and not forwarded. Connections left unsplit pass, and go to the
            // queue if they are measured.
            Mode::Split(_) if !is_watched(rule) => format!("{matches} -j RETURN"),
            Mode::Split(_) | Mode::Snoop(_) | Mode::Quic | Mode::Observe => {
                format!("{matches} {queue}")
            }
        }));
    }
    vec![
        // Accepted like the forwarded packets, which the firewall has accepted before.
        quiet(Table::Filter, "OUTPUT", Place::First, vec![format!("{own} -j ACCEPT")]),
        // Address translation would take them for new connections.
        quiet(Table::Raw, "OUTPUT", Place::First, vec![format!("{own} -j CT --notrack")]),
        quiet(Table::Mangle, "FORWARD", Place::Last, forwarded),
    ]
}

/// Returns matches for the packets of a rule's connections, towards the lossy hop and from it.
fn matches(rule: &Rule, family: Family) -> Vec<String> {
    let interface = &rule.interface;
    let mut all = Vec::new();
    let (called, calling) = (Way::ToCalled, Way::FromCalled);
    let splits = matches!(rule.mode, Mode::Split(_));
    let ways = match rule.opened_by {
        OpenedBy::Wired => vec![(called, calling)],
        // The ports are those of the called side, which may be either.
        OpenedBy::Either if splits && !rule.ports.is_empty() => vec![(called, calling), (calling, called)],
        OpenedBy::Wireless | OpenedBy::Either => vec![(calling, called)],
    };
    let protocol = protocol(rule);
    for (towards, back) in ways {
        for (host, device, way) in [("-d", "-o", towards), ("-s", "-i", back)] {
            for host in hosts(&rule.addresses, family, host) {
                for end in ends(rule, way) {
                    all.push(format!("{host}{device} {interface} -p {protocol}{end}"));
                }
            }
        }
    }
    all
}

/// Returns the name of the protocol that a rule selects.
const fn protocol(rule: &Rule) -> &'static str {
    match rule.mode {
        Mode::Quic => UDP,
        Mode::Snoop(_) | Mode::Split(_) | Mode::Observe => TCP,
    }
}

/// Returns further matches for one direction: the called side's ports, or the side that opened the connection.
fn ends(rule: &Rule, way: Way) -> Vec<String> {
    if rule.ports.is_empty() {
        return vec![match (rule.opened_by, way) {
            (OpenedBy::Either, _) => String::new(),
            (_, Way::ToCalled) => " -m conntrack --ctdir ORIGINAL".to_owned(),
            (_, Way::FromCalled) => " -m conntrack --ctdir REPLY".to_owned(),
        }];
    }
    ports(&rule.ports, protocol(rule), way)
}

/// Returns matches for SYNs of a splitting rule that are forwarded because of a port forward.
fn led_on(rule: &Rule, family: Family) -> Vec<String> {
    let mut all = Vec::new();
    for &opener in openers(rule.opened_by) {
        let device = match opener {
            Side::Wireless => came_from(opener, &rule.interface),
            Side::Wired => format!("-o {}", rule.interface),
        };
        all.extend(first_packets(&rule.addresses, &rule.ports, family, (opener, &device)));
    }
    all.iter_mut().for_each(|first| first.push_str(" -m conntrack --ctstate DNAT"));
    all
}
