//! Offloads of network interfaces (ethtool) in the calling thread's namespace.

use std::io;
use std::os::fd::AsRawFd;

/// Layout of `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Executes a get or set command, and returns the resulting value.
fn ask(device: &str, command: u32, data: u32) -> io::Result<u32> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    let mut value = Value { command, data };
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` names a device, by a string that ends in a zero, and points to a value of the kind that the
    // commands below take; both outlive the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

/// Disables checksum and segmentation offloads of a device, so that each frame is a single, complete packet.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn switch_offloads_off(device: &str) -> io::Result<()> {
    set_offloads(device, Switch::Off, Switch::Off)
}

/// Sets offloads of a device: checksums and segmentation of sent packets, and merging of received ones.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn set_offloads(device: &str, send: Switch, receive: Switch) -> io::Result<()> {
    // ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO; ETHTOOL_SGRO.
    const SEND: [u32; 3] = [0x17, 0x1f, 0x24];
    const RECEIVE: u32 = 0x2c;
    SEND.into_iter().try_for_each(|command| ask(device, command, send.value()).map(drop))?;
    ask(device, RECEIVE, receive.value()).map(drop)
}

/// State of a feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Enabled.
    On,
    /// Disabled.
    Off,
}

impl Switch {
    const fn value(self) -> u32 {
        match self {
            Self::On => 1,
            Self::Off => 0,
        }
    }
}

/// Returns whether large receive offload merges a device's received packets.
///
/// # Errors
///
/// Returns an error if the device does not report it.
pub fn large_receive_offload(device: &str) -> io::Result<Switch> {
    /// Command `ETHTOOL_GFLAGS` and flag `ETH_FLAG_LRO`.
    const GET_FLAGS: u32 = 0x25;
    const LRO: u32 = 1 << 15;
    ask(device, GET_FLAGS, 0).map(|flags| if flags & LRO != 0 { Switch::On } else { Switch::Off })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_its_whole_name() {
        assert_eq!(large_receive_offload("lo").unwrap(), Switch::Off);
        for name in ["", "no-such-device", "lo\0", "sixteen-letters-", "lo-and-many-letters-more"] {
            let known = large_receive_offload(name).is_ok();
            // The kernel reads up to the zero byte.
            assert_eq!(known, name == "lo\0", "{name:?}");
        }
    }
}
