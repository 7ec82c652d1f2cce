//! Matches and the queue target, as text shared by all chains.

use super::pulse::{Pulse, matches as pulse_match};
use crate::configuration::{Network, OpenedBy, PortRange};
use crate::family::Family;
use crate::split::Side;

/// Maximum number of ports in one match, from the kernel's structure; a range counts twice.
const MOST_PORTS: usize = 15;

/// Names of the protocols.
pub const TCP: &str = "tcp";
pub const UDP: &str = "udp";

/// Returns the target that sends packets to the queue, or lets them pass without a reader.
pub fn queue(gateway_queue: u16, family: Family, pulse: Pulse) -> String {
    let beat = match pulse {
        Pulse::Required => pulse_match(family),
        Pulse::None => String::new(),
    };
    format!("{beat}-j NFQUEUE --queue-num {gateway_queue} --queue-bypass")
}

/// Direction of a packet relative to the called side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Towards the called side.
    ToCalled,
    /// Away from the called side.
    FromCalled,
}

/// Returns a match with a trailing space for each network behind the hop; a single empty string for any host.
pub fn hosts(addresses: &[Network], family: Family, which: &str) -> Vec<String> {
    match addresses.is_empty() {
        true => vec![String::new()],
        false => addresses.iter().filter(|net| family.has(net)).map(|net| format!("{which} {net} ")).collect(),
    }
}

/// Returns matches with a leading space for ports of the called side, of a protocol by its name; a single empty string
/// for any port.
pub fn ports(ports: &[PortRange], protocol: &str, way: Way) -> Vec<String> {
    if ports.is_empty() {
        return vec![String::new()];
    }
    let which = match way {
        Way::ToCalled => "dport",
        Way::FromCalled => "sport",
    };
    groups(ports)
        .map(|ports| match ports {
            [one] => format!(" -m {protocol} --{which} {one}"),
            several => {
                let several: Vec<_> = several.iter().map(PortRange::to_string).collect();
                format!(" -m multiport --{which}s {}", several.join(","))
            }
        })
        .collect()
}

/// Splits `ports` into groups that fit one match each.
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

/// Returns the sides whose connections a rule covers.
pub fn openers(opened_by: OpenedBy) -> &'static [Side] {
    match opened_by {
        OpenedBy::Wireless => &[Side::Wireless],
        OpenedBy::Wired => &[Side::Wired],
        OpenedBy::Either => &[Side::Wireless, Side::Wired],
    }
}

/// Returns the match for packets from `opener`'s side of the hop.
pub fn came_from(opener: Side, interface: &str) -> String {
    match opener {
        Side::Wireless => format!("-i {interface}"),
        Side::Wired => format!("! -i {interface}"),
    }
}

/// Returns matches for SYNs to these ports from an opener identified by its device; `hosts` are those behind the hop.
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
        for ports in self::ports(ports, TCP, Way::ToCalled) {
            all.push(format!("{host}{device} -p tcp --syn{ports}"));
        }
    }
    all
}
