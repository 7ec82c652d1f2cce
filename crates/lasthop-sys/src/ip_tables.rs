//! Size of a legacy netfilter table (`ip_tables`) from the kernel.

use socket2::{Domain, Protocol, Socket, Type};

use crate::option;

/// Socket option `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
/// Length of a table's name and of `struct ipt_getinfo`, which `struct ip6t_getinfo` equals in layout: name, valid
/// hooks, start and end of each of the five chains, number of rules, number of bytes.
const NAME: usize = 32;
const LENGTH: usize = NAME + 4 * (1 + 5 + 5 + 1 + 1);

/// Protocol of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// Table of `ip_tables`.
    V4,
    /// Table of `ip6_tables`.
    V6,
}

/// Positions of each hook's rules in a table, and its length: these change when rules are added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size([u8; LENGTH]);

/// Returns the size of the named table; `None` if the kernel does not report it.
pub fn size(version: Version, table: &str) -> Option<Size> {
    let (domain, level) = match version {
        Version::V4 => (Domain::IPV4, libc::IPPROTO_IP),
        Version::V6 => (Domain::IPV6, libc::IPPROTO_IPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW))).ok()?;
    let mut bytes = [0; LENGTH];
    bytes.get_mut(..table.len()).filter(|_| table.len() < NAME)?.copy_from_slice(table.as_bytes());
    option::read(&socket, level, GET_INFO, &mut bytes).ok()?;
    Some(Size(bytes))
}
