//! Outgoing interface of a socket, without privileges and without restriction of what it receives.

use std::io;
use std::os::fd::AsFd;

use crate::option;

/// Protocol families over which a socket can send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Families {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 with mapped addresses.
    V6,
}

/// Makes a socket send by the interface with this index (`IP_UNICAST_IF`, `IPV6_UNICAST_IF`); 0: as routed.
///
/// # Errors
///
/// Returns an error if there is no such interface.
pub fn send_by(socket: &impl AsFd, families: Families, index: u32) -> io::Result<()> {
    // The kernel expects network byte order.
    let index = index.to_be().cast_signed();
    option::set(socket, libc::SOL_IP, libc::IP_UNICAST_IF, index)?;
    match families {
        Families::V4 => Ok(()),
        Families::V6 => option::set(socket, libc::SOL_IPV6, libc::IPV6_UNICAST_IF, index),
    }
}
