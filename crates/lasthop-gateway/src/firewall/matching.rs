//! What matches packets, and what leads them to the queue: text that both kinds of chains are made of.

use super::pulse::{Pulse, matches as pulse_match};
use crate::configuration::{Network, OpenedBy, PortRange};
use crate::family::Family;
use crate::split::Side;

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

/// Which way a packet goes, seen from the side that is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the side that is called.
    ToCalled,
    /// From there.
    FromCalled,
}

/// The hosts behind the hop, each as a match with a blank behind it; a single empty one where any is meant.
pub fn hosts(addresses: &[Network], family: Family, which: &str) -> Vec<String> {
    match addresses.is_empty() {
        true => vec![String::new()],
        false => addresses.iter().filter(|net| family.has(net)).map(|net| format!("{which} {net} ")).collect(),
    }
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

/// Which sides' openings a rule is about.
pub fn openers(opened_by: OpenedBy) -> &'static [Side] {
    match opened_by {
        OpenedBy::Wireless => &[Side::Wireless],
        OpenedBy::Wired => &[Side::Wired],
        OpenedBy::Either => &[Side::Wireless, Side::Wired],
    }
}

/// What matches packets that `opener` sends from its side of the hop.
pub fn came_from(opener: Side, interface: &str) -> String {
    match opener {
        Side::Wireless => format!("-i {interface}"),
        Side::Wired => format!("! -i {interface}"),
    }
}

/// What matches first packets to these ports, of an opener that is known by the device; `hosts` are those behind the hop.
pub fn first_packets(
    hosts: &[Network],
    ports: &[PortRange],
    family: Family,
    (opener, device): (Side, &str),
) -> Vec<String> {
    let host = match opener {
        Side::Wireless => "-s",
        Side::Wired => "-d",
    };
    let mut all = Vec::new();
    for host in self::hosts(hosts, family, host) {
        for ports in self::ports(ports, Way::ToCalled) {
            all.push(format!("{host}{device} -p tcp --syn{ports}"));
        }
    }
    all
}
