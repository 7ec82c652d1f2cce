//! What a machine lacks for a configuration. Rules are tried out in a network namespace of their own, which goes away with
//! the thread that made it: the machine's rules are not touched.

use std::collections::BTreeSet;
use std::path::Path;

use lasthop_scenario::gateway::{Gateway, Mode};
use rustix::thread::{CapabilitySet, UnshareFlags};

use crate::gateway::bridge;
pub use crate::gateway::finding::{Finding, Outcome};
use crate::gateway::firewall::{Family, Firewall};
use crate::gateway::nfqueue::{Buffer, Queue};

/// Looks at everything that the configuration needs.
pub fn check(gateway: &Gateway) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(capabilities());
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
    findings.extend(congestion(gateway));
    findings
}

fn capabilities() -> Vec<Finding> {
    let has = rustix::thread::capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    let wanted = [("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN), ("CAP_NET_RAW", CapabilitySet::NET_RAW)];
    let finding = |(name, capability): (&str, CapabilitySet)| match has.contains(capability) {
        true => Finding::new(name, Outcome::Ok, "held"),
        false => Finding::new(name, Outcome::Missing, "not held; run as root or from the systemd unit"),
    };
    wanted.into_iter().map(finding).collect()
}

fn queue(gateway: &Gateway) -> Finding {
    let subject = format!("netfilter queue {}", gateway.queue);
    match Queue::bind(gateway.queue, &mut Buffer::default()) {
        Ok(_) => Finding::new(subject, Outcome::Ok, "can be bound"),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            Finding::new(subject, Outcome::Hint, "a program has it: this gateway, if it runs, or another")
        }
        Err(error) => {
            let detail = format!("{error}; it takes CAP_NET_ADMIN and the kernel module nfnetlink_queue");
            Finding::new(subject, Outcome::Missing, detail)
        }
    }
}

/// Installs the rules in an empty network namespace.
fn rules(gateway: &Gateway) -> Vec<Finding> {
    let subject = "netfilter rules";
    let gateway = gateway.clone();
    let attempt = std::thread::spawn(move || {
        // SAFETY: this thread alone gets a new network namespace; it holds no sockets, and nothing else runs in it.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| {
            let detail = format!("cannot try them out in a network namespace: {error}");
            Finding::new(subject, Outcome::Hint, detail)
        })?;
        let missing = |error: &dyn std::fmt::Display| {
            let detail = format!(
                "{error}; it takes iptables and the kernel modules xt_NFQUEUE, xt_mark, xt_multiport, xt_conntrack"
            );
            Finding::new(subject, Outcome::Missing, detail)
        };
        let firewall = Firewall::choose(&gateway).map_err(|error| missing(&error))?;
        firewall.install(&gateway).map_err(|error| missing(&error))?;
        let mut findings =
            vec![Finding::new(subject, Outcome::Ok, format!("accepted by {}", firewall.programs().join(" and ")))];
        if gateway.rules.iter().any(|rule| matches!(rule.mode, Mode::Split(_))) {
            let proxy = firewall.try_transparent_proxy();
            findings.push(match proxy {
                Ok(()) => Finding::new("transparent proxying", Outcome::Ok, "TPROXY and socket matches are there"),
                Err(error) => {
                    let detail = format!("{error}; split mode takes the kernel modules xt_TPROXY and xt_socket");
                    Finding::new("transparent proxying", Outcome::Missing, detail)
                }
            });
        }
        Ok(findings)
    });
    match attempt.join() {
        Ok(Ok(findings)) => findings,
        Ok(Err(finding)) => vec![finding],
        Err(_) => vec![Finding::new(subject, Outcome::Hint, "could not be tried out")],
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
            Finding::new(name, Outcome::Missing, format!("0: no packets are forwarded; sysctl -w {name}=1"))
        }
        (Some("0"), Family::V6) => {
            Finding::new(name, Outcome::Hint, format!("0: no IPv6 packets are forwarded; sysctl -w {name}=1"))
        }
        (Some(value), _) => Finding::new(name, Outcome::Ok, value),
        (None, _) => Finding::new(name, Outcome::Hint, format!("this kernel has no {}", family.name())),
    };
    concerned.map(finding).collect()
}

/// Where an interface is.
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
        let detail = match place {
            Place::Router => "does not exist; its rule works once it does",
            Place::Bridge => "does not exist",
        };
        return vec![Finding::new(subject, Outcome::Missing, detail)];
    }
    let mut findings = Vec::new();
    match read(folder.join("operstate")).as_deref() {
        Some("down") => findings.push(Finding::new(&subject, Outcome::Hint, "is down")),
        _ => findings.push(Finding::new(&subject, Outcome::Ok, "exists")),
    }
    if place == Place::Router && folder.join("brport").exists() {
        let detail = "is a port of a bridge: name the bridge, or route; or give `bridge.wired`, its other port";
        findings.push(Finding::new(&subject, Outcome::Missing, detail));
    }
    match offload::lro(name) {
        Some(offload::Switch::On) => {
            let detail =
                format!("large receive offload is on, and loses what forwarding needs; ethtool -K {name} lro off");
            findings.push(Finding::new(format!("{subject} offloads"), Outcome::Hint, detail));
        }
        Some(offload::Switch::Off) => {
            let detail = "fine as they are: segmentation and generic receive offload may stay on";
            findings.push(Finding::new(format!("{subject} offloads"), Outcome::Ok, detail));
        }
        None => {}
    }
    findings
}

fn congestion(gateway: &Gateway) -> Vec<Finding> {
    let sides = gateway.rules.iter().filter_map(|rule| match &rule.mode {
        Mode::Split(split) => Some([&split.wireless, &split.wired]),
        _ => None,
    });
    let wanted: BTreeSet<&str> = sides.flatten().filter_map(|side| side.congestion.as_deref()).collect();
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let finding = |name: &str| match available.split_whitespace().any(|there| there == name) {
        true => Finding::new(format!("congestion control {name}"), Outcome::Ok, "available"),
        false => {
            let detail = format!("the kernel has {available}; modprobe tcp_{name}");
            Finding::new(format!("congestion control {name}"), Outcome::Missing, detail)
        }
    };
    wanted.into_iter().map(finding).collect()
}

/// What network cards do by themselves.
mod offload {
    use std::os::fd::AsRawFd;

    /// `ETHTOOL_GFLAGS` and `ETH_FLAG_LRO`.
    const GET_FLAGS: u32 = 0x25;
    const LRO: u32 = 1 << 15;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Switch {
        On,
        Off,
    }

    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }

    /// `struct ifreq` with a pointer in its union.
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        data: *mut Value,
        padding: [u8; 16],
    }

    /// Whether the interface merges what it receives; none where it does not tell.
    pub fn lro(name: &str) -> Option<Switch> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).ok()?;
        let mut value = Value { command: GET_FLAGS, data: 0 };
        let mut request = Request { name: [0; libc::IFNAMSIZ], data: &mut value, padding: [0; 16] };
        request.name.get_mut(..name.len()).filter(|_| name.len() < libc::IFNAMSIZ)?.copy_from_slice(name.as_bytes());
        // SAFETY: the request is at least as large as the kernel's `struct ifreq` and laid out like it, its name ends in a
        // zero, and its pointer is to a `struct ethtool_value` that outlives the call.
        let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
        let flag = if value.data & LRO != 0 { Switch::On } else { Switch::Off };
        (answer == 0).then_some(flag)
    }
}
