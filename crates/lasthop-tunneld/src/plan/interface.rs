//! Interfaces by which an end on a bridge reaches the other end.

use std::path::Path;

use lasthop_daemon::interfaces::{self, folder};
use serde::{Deserialize, Serialize};

/// Constant from linux/if_arp.h.
const ARPHRD_ETHER: &str = "1";
/// Minimum MTU of the interface, in bytes: it fits the smallest datagram size of the search,
/// [`lasthop_tunnel::pmtu::LEAST`].
const LEAST_MTU: u16 = 600;
/// Maximum number of interfaces below each other.
const MOST_BELOW: usize = 8;

/// Interface towards the hop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HopInterface {
    /// Name.
    pub name: String,
    /// Index.
    pub index: u32,
    /// MTU, in bytes after an Ethernet header.
    pub mtu: u16,
    /// Hardware address.
    pub mac: [u8; 6],
}

impl HopInterface {
    /// Returns the current state of the interface from the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist, or is not an Ethernet interface.
    pub fn find(name: &str) -> Result<Self, String> {
        let index = interfaces::index(name).ok_or_else(|| format!("interface {name} does not exist"))?;
        let is_ethernet = interfaces::read(folder(name).join("type")).as_deref() == Some(ARPHRD_ETHER);
        let mac = interfaces::read(folder(name).join("address")).as_deref().and_then(read_mac).filter(|_| is_ethernet);
        let mac =
            mac.ok_or_else(|| format!("interface {name} is not an Ethernet interface; name the port towards the hop"))?;
        let mtu = interfaces::mtu(name).ok_or_else(|| format!("interface {name} has no MTU"))?;
        if mtu < LEAST_MTU {
            return Err(format!("interface {name} has an MTU of {mtu}; the minimum is {LEAST_MTU}"));
        }
        Ok(Self { name: name.to_owned(), index, mtu, mac })
    }

    /// Returns the current state of the interface of a path after the first, whose interface is `hop`; `None` if it does
    /// not exist yet.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not an Ethernet interface, or the bridge would forward its frames.
    pub fn find_line(name: &str, hop: &str) -> Result<Option<Self>, String> {
        if interfaces::index(name).is_none() {
            return Ok(None);
        }
        if let Some(bridge) = bridge_of_port(name) {
            return Err(format!(
                "interface {name} is a port of bridge {bridge}: frames would loop; remove it with `ip link set {name} \
                 nomaster`, or set another interface"
            ));
        }
        if is_above(name, MOST_BELOW, &|below| folder(below).join("bridge").exists() || below == hop) {
            return Err(format!(
                "interface {name} is a bridge, or is above a bridge or {hop}: frames would loop; set another interface"
            ));
        }
        Self::find(name).map(Some)
    }
}

/// Returns whether an interface is a port of a bridge.
pub(crate) fn is_port(name: &str) -> bool {
    folder(name).join("brport").exists()
}

/// Returns the bridge of which an interface is a port.
pub(crate) fn bridge_of_port(name: &str) -> Option<String> {
    let bridge = std::fs::read_link(folder(name).join("brport/bridge")).ok()?;
    last_of(&bridge)
}

fn last_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Returns whether `is_it` holds for an interface, or for one of at most `most` interfaces below it.
fn is_above(name: &str, most: usize, is_it: &impl Fn(&str) -> bool) -> bool {
    let entries = || std::fs::read_dir(folder(name)).into_iter().flatten().flatten();
    let below = || entries().filter_map(|entry| Some(last_of(&entry.path())?.strip_prefix("lower_")?.to_owned()));
    is_it(name) || most > 0 && below().any(|below| is_above(&below, most - 1, is_it))
}

fn read_mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text.split(':').map_while(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.try_into().ok()
}
