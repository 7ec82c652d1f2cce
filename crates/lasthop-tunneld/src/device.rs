//! The TUN device with its addresses and routes. All of it goes with the process that made it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use lasthop_sys::links::Watch;
use lasthop_sys::netlink::Socket;
use lasthop_sys::routes::{self, Interface, Route};
use tun_rs::{DeviceBuilder, GROTable, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::plan::Routed;

/// Packets that one reading gives at most: a super-segment of 64 KiB in the smallest segments that are usual.
const MOST_PACKETS: usize = 256;
/// Bytes of a packet, and some.
const PACKET: usize = 2_048;
/// A buffer in which packets are joined.
const JOINED: usize = VIRTIO_NET_HDR_LEN + 65_536;
/// Packets that are written together.
const MOST_WRITTEN: usize = 128;
/// Packets that wait in the device.
const QUEUE: u32 = 1_000;

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Somebody has one of that name.
    #[error("device {0}: there is an interface of that name already; give another name as `device`")]
    Exists(String),
    /// It cannot be made.
    #[error("device {name}: {error}; it needs root (CAP_NET_ADMIN) and /dev/net/tun")]
    Open {
        /// Its name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// An address cannot be given.
    #[error("address {address}/{length}: {error}")]
    Address {
        /// The address.
        address: IpAddr,
        /// The length of its network's prefix.
        length: u8,
        /// Why.
        error: io::Error,
    },
    /// A route cannot be made.
    #[error("route to {network}/{length}: {error}")]
    Route {
        /// Where to.
        network: IpAddr,
        /// The length of its prefix.
        length: u8,
        /// Why.
        error: io::Error,
    },
}

/// A device, and who leads packets into it.
pub struct Device {
    tun: SyncDevice,
    netlink: Socket,
    watch: Watch,
    interface: Interface,
    /// Its addresses.
    address: Vec<(IpAddr, u8)>,
    routes: Vec<(IpAddr, u8)>,
}

impl Device {
    /// Makes the device, with addresses and routes; all or nothing.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub fn open(name: &str, plan: &Routed) -> Result<Self, DeviceError> {
        let name = name.to_owned();
        if Path::new("/sys/class/net").join(&name).exists() {
            return Err(DeviceError::Exists(name));
        }
        let fail = |error| DeviceError::Open { name: name.clone(), error };
        let builder = DeviceBuilder::new().name(&name).mtu(plan.mtu).tx_queue_len(QUEUE);
        let tun = builder
            .with(|builder| {
                builder.offload(true);
            })
            .build_sync()
            .map_err(fail)?;
        tun.set_nonblocking(true).map_err(fail)?;
        let interface = Interface(tun.if_index().map_err(fail)?);
        let netlink = Socket::open(None).map_err(fail)?;
        netlink.choose_strictly();
        let watch = Watch::open(interface.0).map_err(fail)?;
        let mut device = Self { tun, netlink, watch, interface, address: plan.address.clone(), routes: Vec::new() };
        device.route(&plan.routes)?;
        Ok(device)
    }

    /// Puts back addresses and routes where the device was down and is up again, which took them away.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub fn look_after(&mut self) -> Result<(), DeviceError> {
        match self.watch.is_up_again() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                tracing::debug!(%error, "cannot see whether the device was down");
                return Ok(());
            }
        }
        if self.restore()? > 0 {
            tracing::warn!("the device was down: its addresses and routes were gone, and are put back");
        }
        Ok(())
    }

    /// Puts back what somebody else removed; how much that was.
    fn restore(&mut self) -> Result<usize, DeviceError> {
        let routes = self.routes.clone();
        Ok(self.give_addresses()? + self.add(&routes)?)
    }

    /// These networks are led into the device from now on, and it has its addresses. On failure all is as before.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub fn route(&mut self, networks: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
        // The kernel has routes to the networks of its own addresses.
        let own = self.address.iter().filter_map(|&(address, length)| {
            let network = ipnet::IpNet::new(address, length).ok()?.trunc();
            Some((network.addr(), length))
        });
        let own: Vec<_> = own.collect();
        let wanted: Vec<_> = networks.iter().copied().filter(|network| !own.contains(network)).collect();
        let old = self.routes.clone();
        self.give_addresses()?;
        let outcome = self.change(&wanted);
        if outcome.is_err()
            && let Err(error) = self.change(&old)
        {
            tracing::error!(%error, "not all routes are as before");
        }
        outcome
    }

    fn change(&mut self, wanted: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
        self.add(wanted)?;
        let gone: Vec<_> = self.routes.iter().copied().filter(|network| !wanted.contains(network)).collect();
        for network in gone {
            match self.ask(Route::Remove, network) {
                // Somebody else removed it.
                Err(DeviceError::Route { error, .. }) if error.raw_os_error() == Some(libc::ESRCH) => {}
                outcome => outcome?,
            }
            self.routes.retain(|route| *route != network);
        }
        Ok(())
    }

    /// Gives the device those of its addresses that it does not have; how many.
    fn give_addresses(&mut self) -> Result<usize, DeviceError> {
        let mut given = 0;
        for &(address, length) in &self.address {
            match routes::add_address(&mut self.netlink, (address, length), self.interface) {
                Ok(()) => given += 1,
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(DeviceError::Address { address, length, error }),
            }
        }
        Ok(given)
    }

    /// Makes those of the routes that are not there; how many. Somebody else may have removed some that were made before.
    fn add(&mut self, networks: &[(IpAddr, u8)]) -> Result<usize, DeviceError> {
        let mut there = Vec::new();
        for is_ipv4 in [true, false] {
            let Some(&(network, length)) = networks.iter().find(|(network, _)| network.is_ipv4() == is_ipv4) else {
                continue;
            };
            let listed = routes::list(&mut self.netlink, network, Some(self.interface));
            there.extend(listed.map_err(|error| DeviceError::Route { network, length, error })?);
        }
        let mut added = 0;
        for &network in networks {
            if !there.iter().any(|entry| entry.network == network && entry.excludes) {
                self.ask(Route::Add, network)?;
                added += 1;
            }
            if !self.routes.contains(&network) {
                self.routes.push(network);
            }
        }
        Ok(added)
    }

    fn ask(&mut self, what: Route, (network, length): (IpAddr, u8)) -> Result<(), DeviceError> {
        routes::change(&mut self.netlink, what, (network, length), self.interface).map_err(|error| {
            let error = match error.raw_os_error() {
                Some(libc::EEXIST) => io::Error::other("there is one already, by another interface"),
                _ => error,
            };
            DeviceError::Route { network, length, error }
        })
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

/// Packets from the device.
pub struct Reader {
    joined: Vec<u8>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { joined: vec![0; JOINED], packets: vec![vec![0; PACKET]; MOST_PACKETS], sizes: vec![0; MOST_PACKETS] }
    }
}

impl Reader {
    /// Hands the packets of one reading to `take`; how many there were.
    ///
    /// # Errors
    ///
    /// When the device is gone.
    pub fn read(&mut self, device: &Device, mut take: impl FnMut(&mut [u8])) -> io::Result<usize> {
        let count = match device.tun.recv_multiple(&mut self.joined, &mut self.packets, &mut self.sizes, 0) {
            Ok(count) => count,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                    // The kernel's EBADFD: somebody removed the device.
                    _ if error.raw_os_error().is_some() => Err(error),
                    // What it gave cannot be cut into packets.
                    _ => {
                        tracing::debug!(%error, "a packet from the device is dropped");
                        Ok(1)
                    }
                };
            }
        };
        for (packet, size) in self.packets.iter_mut().zip(&self.sizes).take(count) {
            take(&mut packet[..*size]);
        }
        Ok(count)
    }
}

/// Packets for the device.
pub struct Writer {
    table: GROTable,
    packets: Vec<Vec<u8>>,
    used: usize,
    /// Packets that it did not take.
    pub refused: u64,
}

impl Default for Writer {
    fn default() -> Self {
        let packets = (0..MOST_WRITTEN).map(|_| Vec::with_capacity(JOINED)).collect();
        Self { table: GROTable::default(), packets, used: 0, refused: 0 }
    }
}

impl Writer {
    /// Writes all that `next` adds to the end of what it is given, until it says `false`.
    pub fn write(&mut self, device: &Device, mut next: impl FnMut(&mut Vec<u8>) -> bool) {
        loop {
            while self.used < MOST_WRITTEN {
                let place = &mut self.packets[self.used];
                place.clear();
                place.resize(VIRTIO_NET_HDR_LEN, 0);
                if !next(place) {
                    break;
                }
                self.used += 1;
            }
            if self.used == 0 {
                return;
            }
            let packets = &mut self.packets[..self.used];
            if let Err(error) = device.tun.send_multiple(&mut self.table, packets, VIRTIO_NET_HDR_LEN) {
                tracing::debug!(%error, "the device takes no packet");
                self.refused += 1;
            }
            let all = self.used == MOST_WRITTEN;
            self.used = 0;
            if !all {
                return;
            }
        }
    }
}

/// Whether the device can be opened at all.
///
/// # Errors
///
/// What stands in the way.
pub fn check() -> Result<String, String> {
    let path = Path::new("/dev/net/tun");
    if !path.exists() {
        return Err("there is no /dev/net/tun: modprobe tun".to_owned());
    }
    match std::fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok("/dev/net/tun can be opened".to_owned()),
        Err(error) => Err(format!("/dev/net/tun: {error}")),
    }
}
