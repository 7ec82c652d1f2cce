//! The device as port of the bridge in place of the interface towards the hop. The kernel's bridge disables a port that
//! has lost its carrier, and forwards nothing to it, although other lines may still carry frames.

use std::io;

use lasthop_daemon::interfaces::{self, folder};
use lasthop_sys::bpf::{Layout, Map, MapKind};
use lasthop_sys::links::set_bridge;
use lasthop_sys::netlink::Socket;

use crate::plan::bridge_of_port;

/// State of a disabled port: `BR_STATE_DISABLED`.
const DISABLED: &str = "0";

/// Returns whether a setting of a bridge is on.
fn is_set(bridge: &str, setting: &str) -> bool {
    interfaces::read(folder(bridge).join("bridge").join(setting)).is_some_and(|value| value != "0")
}

/// Returns the reason why frames do not take other lines, or not at once, when the port `hop` loses its carrier, if there
/// is one.
pub(super) fn obstacle(hop: &str) -> Option<String> {
    let bridge = bridge_of_port(hop)?;
    if is_set(&bridge, "vlan_filtering") {
        let remedy = "set vlan_filtering to 0 to use the other lines then";
        return Some(format!("bridge {bridge} filters VLANs: if {hop} loses its carrier, no frames pass; {remedy}"));
    }
    is_set(&bridge, "stp_state").then(|| {
        format!(
            "bridge {bridge} runs the spanning tree: if {hop} loses its carrier, frames take other lines only after the \
             tree's delay"
        )
    })
}

/// Switch between the two ports.
pub(super) struct StandIn {
    /// Tells the programs that the device is the port: 1, or 0.
    map: Map,
    netlink: Socket,
    hop: String,
    device: u32,
    is_port: bool,
    /// Reason for which the device did not become the port, as last logged.
    refusal: Option<String>,
}

impl StandIn {
    /// Prepares the switch between the interface `hop` and the device with this index.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub(super) fn new(hop: &str) -> io::Result<Self> {
        let map = Map::new(MapKind::Array, Layout { key: 4, value: 8, entries: 1 })?;
        let (netlink, hop) = (Socket::open(None)?, hop.to_owned());
        Ok(Self { map, netlink, hop, device: 0, is_port: false, refusal: None })
    }

    /// Sets the index of the device.
    pub(super) fn set_device(&mut self, device: u32) {
        self.device = device;
    }

    /// Returns the map for programs.
    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Makes the device a port of the bridge if the interface towards the hop is disabled there, and removes it when that
    /// interface can be used again.
    ///
    /// # Errors
    ///
    /// Returns an error if the device remains a port beside the interface.
    pub(super) fn look_after(&mut self) -> io::Result<()> {
        let state = interfaces::read(folder(&self.hop).join("brport/state"));
        match (state.as_deref() == Some(DISABLED), self.is_port) {
            (true, false) => match self.stand_in() {
                Ok(bridge) => {
                    (self.is_port, self.refusal) = (true, None);
                    tracing::warn!(
                        interface = self.hop,
                        bridge,
                        "the bridge has disabled the interface towards the hop; the device replaces it"
                    );
                }
                Err(error) => self.refuse(error.to_string()),
            },
            (false, true) => {
                set_bridge(&mut self.netlink, self.device, None)?;
                self.map.set_first(0)?;
                self.is_port = false;
                tracing::info!(interface = self.hop, "the bridge uses the interface towards the hop again");
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes the device a port. Returns the bridge's name.
    fn stand_in(&mut self) -> io::Result<String> {
        let none = || io::Error::from(io::ErrorKind::NotFound);
        let bridge = bridge_of_port(&self.hop).ok_or_else(none)?;
        if is_set(&bridge, "vlan_filtering") {
            return Err(io::Error::other(format!("bridge {bridge} filters VLANs, whose settings belong to the port")));
        }
        let index = interfaces::index(&bridge).ok_or_else(none)?;
        // The programs first: the bridge would forward frames in a circle while both are ports.
        self.map.set_first(1)?;
        if let Err(error) = set_bridge(&mut self.netlink, self.device, Some(index)) {
            self.map.set_first(0)?;
            return Err(error);
        }
        Ok(bridge)
    }

    fn refuse(&mut self, reason: String) {
        if self.refusal.as_ref() != Some(&reason) {
            tracing::error!(
                interface = self.hop,
                reason,
                "the bridge has disabled the interface towards the hop, and the device cannot replace it; no frames pass"
            );
            self.refusal = Some(reason);
        }
    }
}
