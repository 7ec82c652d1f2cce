//! Checks whether a machine can take TCP from a bridge. The programs are loaded in a temporary network namespace, which
//! disappears with the thread that created it.

use std::os::fd::AsFd;

use lasthop_sys::bpf::Hook;
use lasthop_sys::namespace;
use lasthop_sys::packet_socket::PacketSocket;
use rustix::thread::CapabilitySet;

use super::BridgeError;
use super::kernel;
use super::ports;
use super::programs::Maps;
use crate::configuration::Bridge;
use crate::daemon::suspects;
use lasthop_daemon::finding::{Finding, Outcome};

/// Checks everything that only a bridge needs.
pub(in crate::daemon) fn check(bridge: &Bridge) -> Vec<Finding> {
    let mut findings = vec![capability(), programs(), ports(bridge)];
    findings.extend(filters());
    findings
}

/// Returns chains of the bridge family, which do not see the TCP that the gateway takes from the bridge.
fn filters() -> Option<Finding> {
    let chains = suspects::base_chains().into_iter().filter(|chain| chain.family == "bridge");
    let mut names: Vec<_> = chains.map(|chain| chain.words()).collect();
    let called = ["iptables", "ip6tables"].into_iter().filter(|name| {
        std::fs::read_to_string(format!("/proc/sys/net/bridge/bridge-nf-call-{name}"))
            .is_ok_and(|text| text.trim() == "1")
    });
    names.extend(called.map(|name| format!("{name} (bridge-nf-call-{name} = 1)")));
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{}: while the gateway is running, these chains do not see TCP between the two ports; packets that they would drop pass",
        names.join(", ")
    );
    Some(Finding::new("bridge firewall", Outcome::Hint, detail))
}

fn capability() -> Finding {
    let name = "CAP_BPF";
    let has = rustix::thread::capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    match has.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN) {
        true => Finding::new(name, Outcome::Ok, "held"),
        false => Finding::new(name, Outcome::Missing, "not held; run as root or from the systemd unit"),
    }
}

/// Attaches the programs to the loopback device of an empty network namespace.
fn programs() -> Finding {
    const SUBJECT: &str = "BPF programs";
    let attempt = std::thread::spawn(|| {
        if let Err(error) = namespace::enter_new() {
            return Finding::new(SUBJECT, Outcome::Hint, format!("cannot test them in a network namespace: {error}"));
        }
        match attempt() {
            Ok(()) => Finding::new(SUBJECT, Outcome::Ok, "accepted by the kernel"),
            Err(error) => Finding::new(SUBJECT, Outcome::Missing, error.to_string()),
        }
    });
    attempt.join().unwrap_or_else(|_| Finding::new(SUBJECT, Outcome::Hint, "could not be tested"))
}

fn attempt() -> Result<(), BridgeError> {
    // The loopback device has this index in every namespace.
    const LOOPBACK: u32 = 1;
    let maps = Maps::new().map_err(kernel("BPF maps"))?;
    let filter = maps.load_filter(LOOPBACK).map_err(kernel("socket filter"))?;
    let classifier = maps.load_classifier().map_err(kernel("program for the ports"))?;
    PacketSocket::open_offloaded("lo", filter.as_fd()).map_err(kernel("packet socket"))?;
    classifier.attach(LOOPBACK, Hook::Ingress).map(drop).map_err(kernel("tcx"))
}

fn ports(bridge: &Bridge) -> Finding {
    let subject = format!("bridge of {} and {}", bridge.wired, bridge.wireless);
    match ports::bridge_of(bridge) {
        Ok(name) if ports::are_open(bridge) => {
            Finding::new(subject, Outcome::Ok, format!("{name} forwards between them"))
        }
        Ok(name) => {
            let detail =
                format!("{name} does not forward between them: a port is down or blocked by the spanning tree");
            Finding::new(subject, Outcome::Hint, detail)
        }
        Err(error) => Finding::new(subject, Outcome::Missing, error.to_string()),
    }
}
