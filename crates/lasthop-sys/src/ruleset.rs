//! Changes of the nftables ruleset, as the kernel announces them: rules of `nft`, and those of `iptables` where it is built on nf_tables.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// The bit of `NFNLGRP_NFTABLES` among the groups of a socket.
const GROUP: u32 = 1 << (7 - 1);
/// Bytes that are read of an announcement; the rest is dropped.
const MOST: usize = 4096;
/// Most announcements that are read at once, so that a storm of them keeps nobody waiting.
const TURN: usize = 1024;

/// Whether the ruleset has changed since the last question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ruleset {
    /// Somebody has committed a transaction.
    Changed,
    /// Nothing was announced.
    Same,
}

/// A socket that receives the announcements of one network namespace.
#[derive(Debug)]
pub struct Announcements(OwnedFd);

impl Announcements {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// Those of the kernel: it has no nf_tables, or this process lacks `CAP_NET_ADMIN`.
    pub fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP))?;
        Ok(Self(socket))
    }

    /// Reads what was announced, without waiting.
    pub fn take(&self) -> Ruleset {
        let mut ruleset = Ruleset::Same;
        let mut buffer = [0; MOST];
        for _ in 0..TURN {
            match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                // No room for all that was announced: something was.
                Ok(_) | Err(Errno::NOBUFS) => ruleset = Ruleset::Changed,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        ruleset
    }
}
