//! Announcements of changes of the nftables ruleset, through `nft` or through `iptables` on nf_tables.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Bit of `NFNLGRP_NFTABLES` in a socket's groups.
const GROUP: u32 = 1 << (7 - 1);
/// Number of bytes read of an announcement; the rest is discarded.
const MOST: usize = 4096;
/// Maximum number of announcements read per call, so that a storm of them does not block the caller.
const TURN: usize = 1024;

/// Change of the ruleset since the last call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ruleset {
    /// A transaction was committed.
    Changed,
    /// No change was announced.
    Same,
}

/// Socket that receives the announcements of one network namespace.
#[derive(Debug)]
pub struct Announcements(OwnedFd);

impl Announcements {
    /// Starts listening.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel has no nf_tables, or this process lacks `CAP_NET_ADMIN`.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP))?;
        Ok(Self(socket))
    }

    /// Reads pending announcements without blocking.
    pub fn take(&self) -> Ruleset {
        let mut ruleset = Ruleset::Same;
        let mut buffer = [0; MOST];
        for _ in 0..TURN {
            match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                // A full buffer means that changes were announced.
                Ok(_) | Err(Errno::NOBUFS) => ruleset = Ruleset::Changed,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        ruleset
    }
}
