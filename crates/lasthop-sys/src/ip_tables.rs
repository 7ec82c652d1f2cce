//! The size of an older netfilter table (`ip_tables`), as the kernel tells it.

use socket2::{Domain, Protocol, Socket, Type};

use crate::option;

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
/// Bytes of a table's name, and of `struct ipt_getinfo`, which `struct ip6t_getinfo` is laid out like: the name, the hooks
/// that are valid, where the chain of each of the five begins, where each ends, how many rules, how many bytes.
const NAME: usize = 32;
const LENGTH: usize = NAME + 4 * (1 + 5 + 5 + 1 + 1);

/// Of which protocol a table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// `ip_tables`.
    V4,
    /// `ip6_tables`.
    V6,
}

/// Where each hook's rules are in a table, and how many bytes there are: it differs when rules have come or gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size([u8; LENGTH]);

/// The size of the table with this name; none where the kernel does not tell.
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
