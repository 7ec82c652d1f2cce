//! Checks whether a machine can run an end on a bridge.

use std::io;
use std::time::Duration;

use lasthop_daemon::bridge::check::{self, LOOPBACK};
use lasthop_daemon::finding::{Finding, Outcome};
use lasthop_daemon::heartbeat::{Heartbeat, hint};
use lasthop_daemon::interfaces;
use lasthop_sys::bpf::{Layout, Map, MapKind};
use rustix::thread::CapabilitySet;

use super::programs::{self, Ends};
use super::stand_in;
use crate::plan::{HopInterface, is_port};

/// Checks everything that only a bridge needs. `several` indicates several lines.
pub(crate) fn check(interface: &str, several: bool) -> Vec<Finding> {
    let capability = check::capability("CAP_BPF and CAP_NET_RAW", CapabilitySet::NET_RAW);
    let programs = check::programs(|| attempt().map_err(|error| format!("{error}{}", hint(&error))));
    let obstacle = several.then(|| stand_in::obstacle(interface)).flatten();
    let obstacle = obstacle.map(|detail| Finding::new(format!("interface {interface}"), Outcome::Hint, detail));
    [capability, programs, hop(interface)].into_iter().chain(obstacle).collect()
}

/// Attaches the programs to the loopback device.
fn attempt() -> io::Result<()> {
    let ends = Ends { hop: LOOPBACK, device: LOOPBACK, mark: 1 };
    let heartbeat = Heartbeat::new(Duration::from_millis(40))?;
    programs::filter()?;
    let map = Map::new(MapKind::Array, Layout { key: 4, value: 8, entries: 1 })?;
    programs::attach(ends, &heartbeat, Some(&map)).map(drop)
}

/// Checks the interface of a path after the first, which is at `line` of the file. `hop` is the interface towards the
/// hop.
pub(crate) fn line(subject: String, name: &str, line: Option<usize>, hop: &str) -> Finding {
    match HopInterface::find_line(name, hop) {
        Ok(Some(found)) => {
            let room = usize::from(found.mtu).saturating_sub(super::ADDED);
            let detail = format!("{name} exists; packets of up to {room} bytes are repaired unsplit");
            Finding::new(subject, Outcome::Ok, detail)
        }
        Ok(None) => Finding::new(subject, Outcome::Hint, format!("{name} does not exist: the path waits for it")),
        Err(error) => {
            let place = line.map_or(String::new(), |line| format!("line {line}: "));
            Finding::new(subject, Outcome::Missing, format!("{place}{error}"))
        }
    }
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
