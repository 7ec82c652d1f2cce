//! Checks whether a machine can take TCP from a bridge.

use lasthop_daemon::bridge::check::{self, LOOPBACK};
use lasthop_daemon::bridge::{Port, kernel};
use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_sys::bpf::Hook;
use rustix::thread::CapabilitySet;

use super::BridgeError;
use super::ports;
use super::programs::{Maps, Protocols};
use crate::configuration::Bridge;
use crate::daemon::suspects;

/// Checks everything that only a bridge needs.
pub(in crate::daemon) fn check(bridge: &Bridge) -> Vec<Finding> {
    let programs = check::programs(|| attempt().map_err(|error| error.to_string()));
    let mut findings = vec![check::capability("CAP_BPF", CapabilitySet::empty()), programs, ports(bridge)];
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

fn attempt() -> Result<(), BridgeError> {
    let maps = Maps::new().map_err(kernel("BPF maps"))?;
    let filter = maps.load_filter(LOOPBACK, Protocols::TcpAndUdp).map_err(kernel("socket filter"))?;
    let classifier = maps.load_classifier().map_err(kernel("program for the ports"))?;
    Port::open("lo", LOOPBACK, &filter)?;
    Ok(classifier.attach(LOOPBACK, Hook::Ingress).map(drop).map_err(kernel("tcx"))?)
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
