//! State of a bridge and its ports from the kernel.

use std::collections::BTreeMap;
use std::path::Path;

use lasthop_daemon::interfaces::{folder, index, read};

use crate::configuration::Bridge;

/// Value of `BR_STATE_FORWARDING`.
const FORWARDING: &str = "3";

/// Reason why TCP cannot be taken from a bridge.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PortError {
    /// The interface does not exist.
    #[error("interface {0} does not exist")]
    Missing(String),
    /// The interface is not a port of a bridge.
    #[error("interface {0} is not a bridge port; run `ip link set {0} master BRIDGE`")]
    NoPort(String),
    /// The interfaces are ports of different bridges.
    #[error("interfaces {wired} and {wireless} are ports of different bridges")]
    Apart {
        /// Interface towards the wired side.
        wired: String,
        /// Interface towards the lossy hop.
        wireless: String,
    },
    /// The bridge isolates the ports from each other.
    #[error("bridge {0} isolates the two ports from each other; run `bridge link set dev PORT isolated off`")]
    Isolated(String),
    /// The bridge modifies VLAN tags.
    #[error(
        "bridge {0} filters VLANs and may change tags, which the gateway does not; run `ip link set {0} type bridge vlan_filtering 0`"
    )]
    Vlans(String),
}

/// Returns the bridge of a port.
fn master(interface: &str) -> Result<String, PortError> {
    index(interface).ok_or_else(|| PortError::Missing(interface.to_owned()))?;
    let link = std::fs::read_link(folder(interface).join("brport/bridge")).ok();
    let name = link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| PortError::NoPort(interface.to_owned()))
}

/// Returns the bridge of both ports, which must forward frames unchanged.
///
/// # Errors
///
/// Returns an error if there is no such bridge.
pub fn bridge_of(ports: &Bridge) -> Result<String, PortError> {
    let bridge = master(&ports.wired)?;
    if bridge != master(&ports.wireless)? {
        return Err(PortError::Apart { wired: ports.wired.clone(), wireless: ports.wireless.clone() });
    }
    let is_isolated = |port: &String| read(folder(port).join("brport/isolated")).as_deref() == Some("1");
    if is_isolated(&ports.wired) && is_isolated(&ports.wireless) {
        return Err(PortError::Isolated(bridge));
    }
    match read(folder(&bridge).join("bridge/vlan_filtering")).as_deref() {
        None | Some("0") => Ok(bridge),
        Some(_) => Err(PortError::Vlans(bridge)),
    }
}

/// Returns whether the bridge forwards between the two ports: both are ports of it, and the spanning tree does not
/// block them.
pub fn are_open(ports: &Bridge) -> bool {
    let is_open = |port: &String| read(folder(port).join("brport/state")).as_deref() == Some(FORWARDING);
    is_open(&ports.wired) && is_open(&ports.wireless) && bridge_of(ports).is_ok()
}

/// Returns the names of all ports of a bridge by interface index.
pub fn all(bridge: &str) -> BTreeMap<u32, String> {
    let entries = std::fs::read_dir(folder(bridge).join("brif")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some((index(&name)?, name))).collect()
}
