//! State of interfaces from `/sys/class/net`.

use std::path::{Path, PathBuf};

/// Returns the folder of an interface.
pub fn folder(interface: &str) -> PathBuf {
    Path::new("/sys/class/net").join(interface)
}

/// Returns the trimmed text of a file.
pub fn read(path: PathBuf) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the index of an interface.
pub fn index(interface: &str) -> Option<u32> {
    read(folder(interface).join("ifindex"))?.parse().ok()
}

/// Returns the MTU of an interface, in bytes.
pub fn mtu(interface: &str) -> Option<u16> {
    let mtu: u32 = read(folder(interface).join("mtu"))?.parse().ok()?;
    Some(u16::try_from(mtu).unwrap_or(u16::MAX))
}
