//! Checks whether a machine can run a configuration. Rules are installed in a temporary network namespace, which
//! disappears with the thread that created it; the machine's rules are not touched.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

pub use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_daemon::finding::{effective, held};
use lasthop_daemon::groups;
use lasthop_settings::did_you_mean;
use lasthop_sys::nfqueue::{Buffer, Queue};
use lasthop_sys::{ethtool, namespace, routes};
use rustix::thread::CapabilitySet;

use crate::configuration::{Gateway, Mode, Network};
use crate::daemon::{bridge, rehearsal};
use crate::family::Family;
use crate::firewall::{Firewall, FirewallError, Pulse};
use crate::settings;
use crate::split::{SplitConfig, SplitError, SplitProxy};

/// Checks everything that the configuration needs.
pub fn check(gateway: &Gateway) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(capabilities(gateway));
    findings.extend(gateway.control_group.as_ref().map(groups::check));
    if let Some(bridge) = &gateway.bridge {
        findings.extend(bridge::check::check(bridge));
        let ports = [&bridge.wired, &bridge.wireless];
        findings.extend(ports.into_iter().flat_map(|name| interface(name, Place::Bridge)));
        return findings;
    }
    findings.push(queue(gateway));
    findings.extend(rules(gateway));
    findings.extend(forwarding(gateway));
    let interfaces: BTreeSet<&str> = gateway.rules.iter().map(|rule| rule.interface.as_str()).collect();
    findings.extend(interfaces.into_iter().flat_map(|name| interface(name, Place::Router)));
    findings.extend(settings::split(gateway).map(relay));
    findings.extend(hosts(gateway));
    if findings.iter().all(|finding| finding.outcome != Outcome::Missing) {
        findings.extend(rehearsal::rehearse(gateway));
    }
    findings
}

fn capabilities(gateway: &Gateway) -> Vec<Finding> {
    let has = effective();
    let splits = gateway.rules.iter().any(|rule| matches!(rule.mode, Mode::Split(_)));
    let finding = |name: &str, capability, without| held(name, has.contains(capability), without);
    let mut findings = vec![
        finding("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN, Outcome::Missing),
        finding("CAP_NET_RAW", CapabilitySet::NET_RAW, Outcome::Missing),
    ];
    // Without it, only connections from ports below 1024 are reset.
    let privileged = splits.then(|| finding("CAP_NET_BIND_SERVICE", CapabilitySet::NET_BIND_SERVICE, Outcome::Hint));
    findings.extend(privileged);
    findings
}

/// Returns whether the owner of the queue is a gateway, which may be the one to be checked.
fn is_gateway(owner: u32) -> bool {
    read(format!("/proc/{owner}/cmdline")).is_some_and(|text| text.contains("gateway\0worker"))
}

fn queue(gateway: &Gateway) -> Finding {
    let subject = format!("netfilter queue {}", gateway.queue);
    match Queue::bind(gateway.queue, &mut Buffer::default()) {
        Ok(_) => Finding::new(subject, Outcome::Ok, "can be bound"),
        Err(error) => match Queue::owner(gateway.queue) {
            Some(owner) if is_gateway(owner) => {
                Finding::new(subject, Outcome::Hint, format!("in use by a running gateway (process {owner})"))
            }
            Some(owner) => {
                let detail = format!("in use by process {owner}; set `queue` to another number");
                Finding::new(subject, Outcome::Missing, detail)
            }
            // The error describes the remedy where it is known.
            None => Finding::new(subject, Outcome::Missing, error.to_string()),
        },
    }
}

/// Opens the listeners as the worker would.
fn relay(config: SplitConfig) -> Finding {
    let subject = "split connections";
    let queue = config.queue.unwrap_or_default();
    match SplitProxy::bind(config) {
        Ok(_) => Finding::new(subject, Outcome::Ok, "the relay can listen"),
        Err(SplitError::System { what, source })
            if source.kind() == io::ErrorKind::AddrInUse && Queue::owner(queue).is_some_and(is_gateway) =>
        {
            Finding::new(subject, Outcome::Hint, format!("{what}: in use by a running gateway"))
        }
        Err(error) => Finding::new(subject, Outcome::Missing, error.to_string()),
    }
}

/// Installs the rules in an empty network namespace.
fn rules(gateway: &Gateway) -> Vec<Finding> {
    let subject = "netfilter rules";
    let gateway = gateway.clone();
    let attempt = std::thread::spawn(move || {
        namespace::enter_new().map_err(|error| {
            let detail = format!("cannot test them in a network namespace: {error}");
            Finding::new(subject, Outcome::Hint, detail)
        })?;
        // The loopback interface, to which split connections are routed, is down in a new namespace.
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).output();
        up.map_err(|error| Finding::new(subject, Outcome::Missing, format!("ip: {error}; install iproute2")))?;
        let missing = |error: FirewallError| {
            let modules = match &error {
                FirewallError::Refused { program, .. } if program.starts_with("ip ") => "",
                _ => {
                    "; iptables needs the kernel modules xt_NFQUEUE, xt_mark, xt_multiport, xt_conntrack, xt_CT, and to split connections xt_TPROXY, xt_socket"
                }
            };
            Finding::new(subject, Outcome::Missing, format!("{error}{modules}"))
        };
        let mut firewall = Firewall::choose(&gateway).map_err(missing)?;
        firewall.install().map_err(missing)?;
        let detail = format!("accepted by {}", firewall.programs().join(" and "));
        let mut findings = vec![Finding::new(subject, Outcome::Ok, detail)];
        if firewall.pulse() == Pulse::None {
            let detail = "kernel module xt_recent is missing; packets wait in the queue if the whole gateway is stopped (SIGSTOP)";
            findings.push(Finding::new("heartbeat", Outcome::Hint, detail));
        }
        Ok(findings)
    });
    match attempt.join() {
        Ok(Ok(findings)) => findings,
        Ok(Err(finding)) => vec![finding],
        Err(_) => vec![Finding::new(subject, Outcome::Hint, "could not be tested")],
    }
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn forwarding(gateway: &Gateway) -> Vec<Finding> {
    let wanted = [
        (Family::V4, "net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        (Family::V6, "net.ipv6.conf.all.forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"),
    ];
    let concerned = wanted.into_iter().filter(|(family, ..)| family.concerns(gateway));
    let finding = |(family, name, path): (Family, &str, &str)| match (read(path).as_deref(), family) {
        (Some("0"), Family::V4) => {
            Finding::new(name, Outcome::Hint, format!("0: IPv4 forwarding is off; run `sysctl -w {name}=1`"))
        }
        (Some("0"), Family::V6) => {
            Finding::new(name, Outcome::Hint, format!("0: IPv6 forwarding is off; run `sysctl -w {name}=1`"))
        }
        (Some(value), _) => Finding::new(name, Outcome::Ok, value),
        (None, _) => Finding::new(name, Outcome::Hint, format!("this kernel does not support {}", family.name())),
    };
    concerned.map(finding).collect()
}

/// Returns the name of an existing interface of which `name` is probably a misspelling.
fn similar(name: &str) -> Option<String> {
    let entries = std::fs::read_dir("/proc/sys/net/ipv4/conf").ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|other| !matches!(other.as_str(), "all" | "default" | "lo")).collect();
    names.sort_unstable();
    did_you_mean(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Returns a finding for each rule whose addresses are not reachable through its interface. Such a rule treats no
/// connection.
fn hosts(gateway: &Gateway) -> Vec<Finding> {
    let Ok(mut socket) = lasthop_sys::netlink::Socket::open(None) else { return Vec::new() };
    let mut findings = Vec::new();
    for rule in &gateway.rules {
        let Some(number) = lasthop_daemon::interfaces::index(&rule.interface) else { continue };
        for network in &rule.addresses {
            let Ok(routes) = routes::list(&mut socket, network.address, Some(routes::Interface(number))) else {
                continue;
            };
            let meets = |entry: &routes::Entry| {
                let (address, prefix) = entry.network;
                Network { address, prefix }.contains(network.address) || network.contains(address)
            };
            let direct = routes::Routes::default().leaves_by((network.address, network.address), 0) == Some(number);
            if !direct && !routes.iter().any(meets) {
                let subject = format!("rule {}, addresses {network}", rule.name);
                let detail = format!(
                    "no route to this network through {}: the rule would treat no connection; give addresses of hosts behind it, or add a route",
                    rule.interface
                );
                findings.push(Finding::new(subject, Outcome::Missing, detail));
            }
        }
    }
    findings
}

/// Location of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Router,
    Bridge,
}

fn interface(name: &str, place: Place) -> Vec<Finding> {
    let subject = format!("interface {name}");
    let folder = Path::new("/sys/class/net").join(name);
    let there = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
        .is_ok_and(|socket| rustix::net::netdevice::name_to_index(&socket, name).is_ok());
    if !there {
        let detail = match (place, similar(name)) {
            (_, Some(other)) => format!("does not exist; did you mean {other}?"),
            (Place::Router, None) => {
                "does not exist; `lasthop gateway run` treats its connections once it exists".to_owned()
            }
            (Place::Bridge, None) => "does not exist".to_owned(),
        };
        return vec![Finding::new(subject, Outcome::Missing, detail)];
    }
    let bridge = std::fs::read_link(folder.join("brport/bridge")).ok();
    let bridge = bridge.as_deref().and_then(Path::file_name).filter(|_| place == Place::Router);
    let mut findings = vec![match (bridge, read(folder.join("operstate")).as_deref()) {
        // Routed packets leave by the bridge, never by its port.
        (Some(bridge), _) => {
            let bridge = bridge.display();
            let detail = format!(
                "is a port of bridge {bridge}: routed packets leave through {bridge}; set `interface` to {bridge}, or set `bridge.wired` to treat bridged packets"
            );
            Finding::new(&subject, Outcome::Missing, detail)
        }
        (None, Some("down")) => Finding::new(&subject, Outcome::Hint, "is down"),
        (None, _) => Finding::new(&subject, Outcome::Ok, "exists"),
    }];
    match ethtool::large_receive_offload(name) {
        Ok(ethtool::Switch::On) => {
            let detail = format!("large receive offload is on and breaks forwarding; ethtool -K {name} lro off");
            findings.push(Finding::new(format!("{subject} offloads"), Outcome::Hint, detail));
        }
        Ok(ethtool::Switch::Off) => {
            let detail = "no change needed: segmentation and generic receive offload may stay on";
            findings.push(Finding::new(format!("{subject} offloads"), Outcome::Ok, detail));
        }
        Err(_) => {}
    }
    findings
}
