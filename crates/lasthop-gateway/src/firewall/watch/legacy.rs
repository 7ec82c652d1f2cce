//! The size of an older table (`ip_tables`), as the kernel tells it.

use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::super::Family;
use super::super::chains::Table;

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;

/// `struct ipt_getinfo`, and `struct ip6t_getinfo`, which is laid out alike.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    entries: u32,
    bytes: u32,
}

/// Where each hook's rules are in a table and how many bytes there are; none where the kernel does not tell.
pub(super) fn size(family: Family, table: Table) -> Option<Size> {
    let (domain, level) = match family {
        Family::V4 => (Domain::IPV4, libc::IPPROTO_IP),
        Family::V6 => (Domain::IPV6, libc::IPPROTO_IPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW))).ok()?;
    let mut size = Size { name: [0; 32], valid_hooks: 0, hook_entry: [0; 5], underflow: [0; 5], entries: 0, bytes: 0 };
    size.name[..table.name().len()].copy_from_slice(table.name().as_bytes());
    let mut len = size_of::<Size>() as libc::socklen_t;
    // SAFETY: `size` is laid out like the kernel's structure, has `len` bytes, and outlives the call; its name ends in a zero.
    let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), level, GET_INFO, (&raw mut size).cast(), &raw mut len) };
    (answer == 0).then_some(size)
}
