//! Checks whether a machine can run an end on a bridge. The programs are loaded in a temporary network namespace, which
//! disappears with the thread that created it.

use std::time::Duration;

use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_daemon::heartbeat::{Heartbeat, hint};
use lasthop_daemon::interfaces;
use lasthop_sys::namespace;
use rustix::thread::CapabilitySet;

use super::is_port;
use super::programs::{self, Ends};
use crate::plan::HopInterface;

/// Checks everything that only a bridge needs.
pub(crate) fn check(interface: &str) -> Vec<Finding> {
    vec![capability(), tried(), hop(interface)]
}

fn capability() -> Finding {
    let name = "CAP_BPF and CAP_NET_RAW";
    let held = rustix::thread::capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    let bpf = held.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
    match bpf && held.contains(CapabilitySet::NET_RAW) {
        true => Finding::new(name, Outcome::Ok, "held"),
        false => Finding::new(name, Outcome::Missing, "not held; run as root or from the systemd unit"),
    }
}

/// Attaches the programs to the loopback device of an empty network namespace.
fn tried() -> Finding {
    const SUBJECT: &str = "BPF programs";
    // The loopback device has this index in every namespace.
    const LOOPBACK: u32 = 1;
    let attempt = std::thread::spawn(|| {
        if let Err(error) = namespace::enter_new() {
            let detail = format!("cannot test them in a network namespace: {error}");
            return Finding::new(SUBJECT, Outcome::Hint, detail);
        }
        let ends = Ends { hop: LOOPBACK, device: LOOPBACK, mark: 1 };
        let outcome = Heartbeat::new().and_then(|heartbeat| {
            programs::filter()?;
            programs::attach(ends, &heartbeat, Duration::from_millis(40))
        });
        match outcome {
            Ok(_) => Finding::new(SUBJECT, Outcome::Ok, "accepted by the kernel"),
            Err(error) => Finding::new(SUBJECT, Outcome::Missing, format!("{error}{}", hint(&error))),
        }
    });
    attempt.join().unwrap_or_else(|_| Finding::new(SUBJECT, Outcome::Hint, "could not be tested"))
}

fn hop(name: &str) -> Finding {
    let subject = format!("interface {name}");
    let hop = match HopInterface::find(name) {
        Ok(hop) => hop,
        Err(error) => return Finding::new(subject, Outcome::Missing, error),
    };
    let is_up = interfaces::read(interfaces::folder(name).join("operstate")).is_some_and(|state| state != "down");
    if !is_up {
        return Finding::new(subject, Outcome::Hint, "is down");
    }
    if !is_port(name) {
        let detail = "not a bridge port: only frames that this machine itself sends through it are repaired";
        return Finding::new(subject, Outcome::Hint, detail);
    }
    let room = usize::from(hop.mtu).saturating_sub(super::ADDED);
    let detail = match room {
        1500.. => format!("bridge port; packets of up to {room} bytes are repaired unsplit"),
        _ => format!("bridge port; to repair packets of 1500 bytes unsplit, set the MTU to {}", 1500 + super::ADDED),
    };
    Finding::new(subject, Outcome::Ok, detail)
}
