//! The TUN device with its addresses and routes, which disappear with the process that created it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use lasthop_sys::links::Watch;
use lasthop_sys::netlink::Socket;
use lasthop_sys::routes::{self, Interface, Route};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::offload::{LONGEST, Merger, PREFIX, split};
use crate::plan::Routed;

/// Maximum number of writes, and of bytes, that wait until more packets can be merged. Data that have just been received
/// are still in the processor's cache.
const MOST_WRITES: usize = 128;
const MOST_BYTES: usize = 256 << 10;
/// Length of the device's queue, in packets.
const QUEUE: u32 = 1_000;

/// Reason why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An interface of that name exists.
    #[error("device {0}: an interface with this name already exists; set `device` to another name")]
    Exists(String),
    /// The device cannot be created.
    #[error("device {name}: {error}; requires root (CAP_NET_ADMIN) and /dev/net/tun")]
    Open {
        /// Name of the device.
        name: String,
        /// Error returned by the kernel.
        error: io::Error,
    },
    /// An address cannot be added.
    #[error("address {address}/{length}: {error}")]
    Address {
        /// The address.
        address: IpAddr,
        /// Length of the address's prefix, in bits.
        length: u8,
        /// Error returned by the kernel.
        error: io::Error,
    },
    /// A route cannot be added.
    #[error("route to {network}/{length}: {error}")]
    Route {
        /// Destination network.
        network: IpAddr,
        /// Length of the network's prefix, in bits.
        length: u8,
        /// Error returned by the kernel.
        error: io::Error,
    },
}

/// The device, with the routes into it.
pub struct Device {
    tun: SyncDevice,
    netlink: Socket,
    watch: Watch,
    interface: Interface,
    /// Addresses of the device, with prefix lengths.
    address: Vec<(IpAddr, u8)>,
    routes: Vec<(IpAddr, u8)>,
}

impl Device {
    /// Creates the device with addresses and routes, or fails without effect.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
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

    /// Restores addresses and routes after the device was down, which removes them.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn look_after(&mut self) -> Result<(), DeviceError> {
        match self.watch.is_up_again() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                tracing::debug!(%error, "cannot determine whether the device was down");
                return Ok(());
            }
        }
        if self.restore()? > 0 {
            tracing::warn!("the device was down; its addresses and routes were restored");
        }
        Ok(())
    }

    /// Restores addresses and routes that another program removed. Returns their number.
    fn restore(&mut self) -> Result<usize, DeviceError> {
        let routes = self.routes.clone();
        Ok(self.give_addresses()? + self.add(&routes)?)
    }

    /// Routes these networks into the device, and restores its addresses. Leaves the routes as they were on failure.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn route(&mut self, networks: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
        // The kernel adds routes to the networks of the device's addresses.
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
            tracing::error!(%error, "cannot restore all previous routes");
        }
        outcome
    }

    fn change(&mut self, wanted: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
        self.add(wanted)?;
        let gone: Vec<_> = self.routes.iter().copied().filter(|network| !wanted.contains(network)).collect();
        for network in gone {
            match self.ask(Route::Remove, network) {
                // Another program removed it.
                Err(DeviceError::Route { error, .. }) if error.raw_os_error() == Some(libc::ESRCH) => {}
                outcome => outcome?,
            }
            self.routes.retain(|route| *route != network);
        }
        Ok(())
    }

    /// Adds the device's missing addresses. Returns their number.
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

    /// Adds the missing routes, including earlier ones that another program removed. Returns their number.
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
                Some(libc::EEXIST) => io::Error::other("already exists through another interface"),
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

/// Reader of packets from the device.
pub struct Reader {
    data: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { data: vec![0; PREFIX + LONGEST] }
    }
}

impl Reader {
    /// Passes the packets of one read to `take`. Returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the device was removed.
    pub fn read(&mut self, device: &Device, take: impl FnMut(&mut [u8])) -> io::Result<usize> {
        let length = match device.tun.recv(&mut self.data) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(0);
            }
            // An error of the kernel, such as EBADFD after the device was removed.
            Err(error) => return Err(error),
        };
        Ok(split(&mut self.data[..length], take).unwrap_or_else(|error| {
            tracing::debug!(%error, "dropped a packet from the device");
            1
        }))
    }
}

/// Writer of packets to the device.
pub struct Writer {
    merger: Merger,
    /// Number of writes that the device refused.
    pub refused: u64,
}

impl Writer {
    /// Creates a writer for this device.
    pub fn new(device: &Device) -> Self {
        Self { merger: Merger::new(device.tun.udp_gso()), refused: 0 }
    }

    /// Adds a packet. Writes those that wait if there are many.
    pub fn put(&mut self, device: &Device, packet: &[u8]) {
        self.merger.push(packet);
        let (writes, bytes) = self.merger.waiting();
        if writes >= MOST_WRITES || bytes >= MOST_BYTES {
            self.flush(device);
        }
    }

    /// Writes the packets that wait.
    pub fn flush(&mut self, device: &Device) {
        let Self { merger, refused } = self;
        merger.drain(|data| {
            if let Err(error) = device.tun.send(data) {
                tracing::debug!(%error, "cannot write a packet to the device");
                *refused += 1;
            }
        });
    }
}

/// Checks whether a TUN device can be opened at all.
///
/// # Errors
///
/// Returns the reason why it cannot be opened.
pub fn check() -> Result<String, String> {
    let path = Path::new("/dev/net/tun");
    if !path.exists() {
        return Err("/dev/net/tun does not exist; run `modprobe tun`".to_owned());
    }
    match std::fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Ok("/dev/net/tun can be opened".to_owned()),
        Err(error) => Err(format!("/dev/net/tun: {error}")),
    }
}
