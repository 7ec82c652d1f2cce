//! Sockets of an end: one that listens, and one for each interface by which a path leaves.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lasthop_daemon::interfaces;
use lasthop_sys::unicast::{Families, send_by};
use lasthop_tunnel::SocketId;

use crate::engine::{Datagram, Outbox};
use crate::readiness;
use crate::socket::{Batch, Inbox, Udp};

/// Socket with the datagrams that wait for a system call.
struct Outlet {
    udp: Udp,
    batch: Batch,
}

/// Interface by which a path leaves.
struct Interface {
    name: String,
    /// Index; `None` while there is no such interface.
    index: Option<u32>,
}

/// The sockets.
pub struct Sockets {
    /// By number.
    outlets: Vec<Outlet>,
    /// Interfaces of the sockets after the first.
    interfaces: Vec<Interface>,
    /// Descriptor that waits for datagrams on all of them, if there are several.
    any: Option<OwnedFd>,
    families: Families,
    /// Number of datagrams to paths whose interface does not exist.
    unsent: u64,
}

impl Sockets {
    /// Opens a socket at `listen`, on `trusted` only if given, and one for each of `interfaces`.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open(listen: SocketAddr, trusted: Option<&str>, interfaces: &[String]) -> io::Result<Self> {
        let families = if listen.is_ipv4() { Families::V4 } else { Families::V6 };
        let any: IpAddr = match families {
            Families::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Families::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut outlets = vec![Outlet { udp: Udp::bind(listen, trusted)?, batch: Batch::default() }];
        for _ in interfaces {
            let udp = Udp::bind(SocketAddr::new(any, 0), None)?;
            outlets.push(Outlet { udp, batch: Batch::default() });
        }
        let any = readiness::any_of(outlets.iter().map(|outlet| outlet.udp.as_fd()))?;
        let interfaces = interfaces.iter().map(|name| Interface { name: name.clone(), index: None }).collect();
        let mut sockets = Self { outlets, interfaces, any, families, unsent: 0 };
        sockets.look_up();
        Ok(sockets)
    }

    /// Returns the descriptor to wait on for datagrams.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.any.as_ref().map_or_else(|| self.outlets[0].udp.as_fd(), AsFd::as_fd)
    }

    /// Returns the numbers of the sockets.
    pub fn ids(&self) -> impl Iterator<Item = SocketId> + use<> {
        (0..self.outlets.len() as u8).map(SocketId)
    }

    /// Receives waiting datagrams on a socket. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn fill(&self, inbox: &mut Inbox, SocketId(socket): SocketId) -> io::Result<bool> {
        self.outlets.get(usize::from(socket)).map_or(Ok(false), |outlet| inbox.fill(&outlet.udp))
    }

    /// Finds the interfaces, which may appear, disappear, or get other indices.
    pub fn look_up(&mut self) {
        let Self { outlets, interfaces, families, .. } = self;
        for (interface, outlet) in interfaces.iter_mut().zip(&outlets[1..]) {
            let index = interfaces::index(&interface.name);
            if index == interface.index {
                continue;
            }
            let is_set = index.map(|index| send_by(&outlet.udp, *families, index));
            interface.index = index.filter(|_| matches!(is_set, Some(Ok(()))));
            let name = interface.name.as_str();
            match is_set {
                Some(Ok(())) => tracing::info!(interface = name, "interface found"),
                Some(Err(error)) => tracing::warn!(interface = name, %error, "cannot send by the interface"),
                None => tracing::warn!(interface = name, "interface does not exist; its path waits for it"),
            }
        }
    }

    /// Sends the waiting datagrams. Passes the destinations and sizes of those that the system refused as too big.
    pub fn flush(&mut self, mut too_big: impl FnMut((SocketAddr, SocketId), u16)) {
        for (outlet, socket) in self.outlets.iter_mut().zip(0..) {
            outlet.batch.flush(&outlet.udp);
            for (to, size) in std::mem::take(&mut outlet.batch.too_big) {
                too_big((to, SocketId(socket)), size);
            }
        }
    }

    /// Returns the number of datagrams that were not sent.
    pub fn unsent(&self) -> u64 {
        self.unsent + self.outlets.iter().map(|outlet| outlet.batch.unsent).sum::<u64>()
    }
}

impl Outbox for Sockets {
    fn put(&mut self, datagram: Datagram<'_>) {
        let socket = usize::from(datagram.socket.0);
        // Without its interface, a datagram would leave by another line, which may be metered.
        let is_there =
            socket.checked_sub(1).is_none_or(|at| self.interfaces.get(at).is_some_and(|one| one.index.is_some()));
        match self.outlets.get_mut(socket).filter(|_| is_there) {
            Some(Outlet { udp, batch }) => batch.put(udp, datagram),
            None => self.unsent += 1,
        }
    }
}
